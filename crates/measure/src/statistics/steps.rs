//! The steady state within a cell, as fio judges it: by one value per second, over a window that advances second by
//! second.

use super::describe;
use crate::interval::{ClassStats, Interval};
use iodyno_units::OpKind;

/// Intended length of a step, ns; rounded to whole intervals.
const STEP_NS: u64 = 1_000_000_000;

/// Kinds of operation included in the rates and latencies of a step.
const KINDS: [OpKind; 3] = [OpKind::Read, OpKind::Write, OpKind::Trim];

/// Division of a cell's series into steps of about a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Length of a step, ns; a multiple of the cell's interval length.
    pub length_ns: u64,
    /// Start of the first step, ns after the start of the window.
    after_ns: u64,
    /// Index of the first interval of the first step.
    first: usize,
    /// Number of intervals per step.
    each: usize,
}

/// Mean rates and mean latency over one step (about a second).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Reads, writes and trims completed per second of the step.
    pub iops: f64,
    /// Bytes moved by reads, writes and trims per second of the step.
    pub bytes_per_s: f64,
    /// Mean latency of reads, writes and trims, ns; 0 if none completed.
    pub mean_ns: f64,
}

/// Variation of a window's values: largest deviation from the mean, and slope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excursion {
    /// Mean of the values; above 0.
    pub mean: f64,
    /// Largest absolute deviation of a value from the mean.
    pub deviation: f64,
    /// Slope of the least-squares line, per step.
    pub slope: f64,
}

impl Steps {
    /// Divides a cell into steps of about a second, each a whole number of intervals of `interval_ns`. The first step
    /// begins `after_ns` after the start of the window, rounded up to a whole interval.
    pub fn new(interval_ns: u64, after_ns: u64) -> Self {
        let interval_ns = interval_ns.max(1);
        let (first, each) = (after_ns.div_ceil(interval_ns), (STEP_NS / interval_ns).max(1));
        Self {
            length_ns: each * interval_ns,
            after_ns: first.saturating_mul(interval_ns),
            first: first as usize,
            each: each as usize,
        }
    }

    /// Number of complete steps within the first `measured_ns` of the window.
    pub fn complete(&self, measured_ns: u64) -> usize {
        (measured_ns.saturating_sub(self.after_ns) / self.length_ns) as usize
    }

    /// Number of steps in a period of `window_ns`; at least two.
    pub fn of_window(&self, window_ns: u64) -> usize {
        (window_ns / self.length_ns).max(2) as usize
    }

    /// Returns the `count` steps that end with step number `complete` (counted from 1). Returns all `complete` steps if
    /// there are fewer than `count`.
    pub fn last(&self, series: &[Interval], complete: usize, count: usize) -> Vec<Step> {
        let step = |number: usize| {
            let from = self.first + number * self.each;
            let mut all = Interval::default();
            for interval in series.iter().skip(from).take(self.each) {
                all.merge(interval);
            }
            Step::of(&all, self.length_ns)
        };
        (complete.saturating_sub(count)..complete).map(step).collect()
    }
}

impl Step {
    /// Computes rates and mean latency of an interval of `length_ns`. Flushes are not counted, as in fio.
    pub fn of(interval: &Interval, length_ns: u64) -> Self {
        let per_second = 1e9 / length_ns.max(1) as f64;
        let of = || KINDS.into_iter().filter_map(|kind| interval.class(kind));
        let ops: u64 = of().map(ClassStats::ops).sum();
        let bytes: u64 = of().map(|stats| stats.bytes).sum();
        let time_ns = |stats: &ClassStats| {
            stats.response_time().mean_ns().unwrap_or(0.0) * stats.ops() as f64
        };
        Self {
            iops: ops as f64 * per_second,
            bytes_per_s: bytes as f64 * per_second,
            mean_ns: of().map(time_ns).sum::<f64>() / ops.max(1) as f64,
        }
    }
}

impl Excursion {
    /// Computes the variation of `values`; None for fewer than two values, or a mean that is not above 0.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mean = describe::mean(values);
        if values.len() < 2 || mean.is_nan() || mean <= 0.0 {
            return None;
        }
        let deviation = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
        Some(Self { mean, deviation, slope: describe::least_squares(0.0, values).slope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with known results, for a line of known slope and for a single outlier.
    #[test]
    fn excursions_have_their_closed_forms() {
        let line: Vec<f64> = (0..30).map(|n| 100.0 + f64::from(n)).collect();
        let of_line = Excursion::of(&line).unwrap();
        assert!((of_line.slope - 1.0).abs() < 1e-12 && (of_line.mean - 114.5).abs() < 1e-12);
        let down: Vec<f64> = line.iter().rev().copied().collect();
        assert!((Excursion::of(&down).unwrap().slope + 1.0).abs() < 1e-12);
        let off = Excursion::of(&[10.0, 10.0, 10.0, 14.0]).unwrap();
        assert_eq!((off.mean, off.deviation), (11.0, 3.0));
        assert_eq!((Excursion::of(&[0.0, 0.0]), Excursion::of(&[5.0])), (None, None));
    }

    fn interval(ops: [(OpKind, u64, u32); 3]) -> Interval {
        let mut interval = Interval::default();
        for (kind, latency_ns, count) in ops {
            let class = interval.class_mut(kind);
            class.service.record_n(latency_ns, count.into());
            class.bytes += u64::from(count) * 4096;
        }
        interval
    }

    /// Four intervals of 250 ms, the first at 500 ms, form a step of a second. Flushes are not counted.
    #[test]
    fn a_step_is_a_second_of_intervals() {
        let steps = Steps::new(250_000_000, 500_000_000);
        let series: Vec<Interval> = (0..11)
            .map(|n| {
                let reads = (OpKind::Read, 100, n);
                interval([reads, (OpKind::Write, 300, n), (OpKind::Flush, 9_000, 5)])
            })
            .collect();
        assert_eq!(
            [499, 1_499, 1_500, 2_750].map(|ms| steps.complete(ms * 1_000_000)),
            [0, 0, 1, 2]
        );
        let found = steps.last(&series, 2, 2);
        let ops: Vec<f64> = found.iter().map(|step| step.iops).collect();
        assert_eq!(ops, [2.0 * (2 + 3 + 4 + 5) as f64, 2.0 * (6 + 7 + 8 + 9) as f64]);
        assert_eq!(found[1].bytes_per_s, ops[1] * 4096.0);
        assert!((found[0].mean_ns - 200.0).abs() < 2.0, "{found:?}");
        assert_eq!(steps.last(&series, 1, 5).len(), 1);
        // Longer intervals are steps themselves.
        let long = Steps::new(3_000_000_000, 0);
        assert_eq!(long.length_ns, 3_000_000_000);
        assert_eq!([1, 9_000_000_000].map(|ns| long.of_window(ns)), [2, 3]);
        assert_eq!(Steps::new(300_000_000, 0).length_ns, 900_000_000);
    }
}
