//! The key of a cell (system, workload, point on the axes) and its result in a few numbers.

use crate::over_time::OverTime;
use core::ops::Range;
use iodyno_measure::{Cell, Histogram, Latency, Quantity};
use iodyno_units::{OpKind, Precondition};
use iodyno_workload::Percent;
use serde::{Deserialize, Serialize};

/// What identifies a cell of a study: system, workload and position on the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    /// Index in `Study::systems`.
    pub system: usize,
    /// Index in `Study::workloads`.
    pub workload: usize,
    /// Time between a completion and the next submission, ns.
    pub think_ns: u64,
    /// Size of one operation, bytes.
    pub block_bytes: u32,
    /// Threads of each device.
    pub threads: u32,
    /// Outstanding operations of each thread.
    pub depth: u32,
    /// Number of devices that work at once.
    pub devices: u32,
    /// State of the devices before the cell.
    pub before: Precondition,
    /// Measured for longer, so that rare events are included.
    pub long: bool,
    /// Warm-up before the measurement, ns. None: the longer of the workload's and the system's; 0 if `over_ns` is
    /// set.
    pub ramp_ns: Option<u64>,
    /// Share of the volume that the files take; without files, the share that was written before the cell.
    pub fill: Percent,
    /// Length of the run that the cell stands for, ns. One second of each minute is simulated; the cell ends early
    /// once it is stationary and its confidence intervals are narrow enough. None: the cell stands for itself.
    pub span_ns: Option<u64>,
    /// Window of a cell that is shown over time, ns; it begins at the cell's start unless `ramp_ns` is set. None: the
    /// cell is not shown over time.
    pub over_ns: Option<u64>,
}

/// A result of a cell that [`Quantity`] does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellFigure {
    /// Bandwidth of reads, bytes/s.
    Reads,
    /// Bandwidth of writes, bytes/s.
    Writes,
    /// Bandwidth in the fastest interval of the series, bytes/s.
    Peak,
    /// Standard deviation of the bandwidth over the intervals of the series, as a share of the mean.
    Variation,
    /// The 25th percentile of latency, ns.
    LowerQuartile,
    /// The 75th percentile of latency, ns.
    UpperQuartile,
    /// The shortest latency, ns.
    Least,
}

impl CellKey {
    /// Outstanding operations of each device.
    pub const fn oio(&self) -> u32 {
        self.threads * self.depth
    }
}

/// The result of the method of rounds for a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// Number of rounds until steady state; all rounds if it was not reached.
    pub run: u32,
    /// Whether the last rounds, those of SNIA's measurement window, were steady.
    pub steady: bool,
}

/// The result of a cell, over all devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Operations a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Mean latency over all operations, ns.
    pub mean_ns: f64,
    /// Percentiles and maximum of latency over all operations, each with the same weight, unlike
    /// the means of [`Self::of`].
    pub latency: Latency,
    /// Relative standard error of the rate; infinite if unknown.
    pub iops_error: f64,
    /// Relative standard error of the mean latency; infinite if unknown.
    pub mean_error: f64,
    /// Bytes a second that were read, and bytes a second that were written.
    pub kinds_bytes_per_s: (f64, f64),
    /// Bytes a second in the fastest interval.
    pub peak_bytes_per_s: f64,
    /// Standard deviation of the bytes of an interval, as a share of their mean.
    pub variation: f64,
    /// 25th and 75th percentile of latency.
    pub quartiles_ns: (f64, f64),
    /// The shortest latency.
    pub least_ns: f64,
    /// Latencies over time; None unless `CellKey::over_ns` is set.
    pub over_time: Option<OverTime>,
    /// Whether a cell that stands for a longer run (`CellKey::span_ns`) was stationary; None for other cells.
    pub stationary: Option<bool>,
    /// The result of the rounds, if the cell was measured in rounds.
    pub rounds: Option<Rounds>,
    /// Number of simulated operations, those of the ramp included.
    pub simulated: u64,
}

impl Taken {
    /// The value of a quantity over all operations of all devices, with its relative standard error
    /// if that is known.
    pub fn get(&self, quantity: Quantity) -> Option<(f64, Option<f64>)> {
        Some(match quantity {
            Quantity::Iops => (self.iops, Some(self.iops_error)),
            Quantity::Bandwidth => (self.bytes_per_s, Some(self.iops_error)),
            Quantity::Mean => (self.mean_ns, Some(self.mean_error)),
            Quantity::Max => (self.latency.get(quantity).unwrap_or(0.0), None),
            Quantity::Quantile(_) => (self.latency.get(quantity)?, None),
        })
    }

    /// The value of a [`CellFigure`] in this result.
    pub const fn figure(&self, of: CellFigure) -> f64 {
        match of {
            CellFigure::Reads => self.kinds_bytes_per_s.0,
            CellFigure::Writes => self.kinds_bytes_per_s.1,
            CellFigure::Peak => self.peak_bytes_per_s,
            CellFigure::Variation => self.variation,
            CellFigure::LowerQuartile => self.quartiles_ns.0,
            CellFigure::UpperQuartile => self.quartiles_ns.1,
            CellFigure::Least => self.least_ns,
        }
    }

    /// Sums up the cells of all devices, which ran at once for equal windows of equal intervals.
    ///
    /// Rates and means are weighted by a Hann taper over the window. A flash device that programs all its dies at
    /// once takes writes in waves, and a plain mean depends on how many waves the window cuts; the taper gives its
    /// edges no weight. Without waves it requires half as many operations again for the same standard error.
    pub fn of(cells: &[Cell], simulated: u64) -> Self {
        let batches = batches(cells);
        Self::weighted(cells, 0..batches.len(), &taper(batches.len()), simulated)
    }

    /// Sums up only the given intervals, all with equal weight.
    pub fn over(cells: &[Cell], intervals: Range<usize>, simulated: u64) -> Self {
        let weights = vec![1.0; intervals.len()];
        Self::weighted(cells, intervals, &weights, simulated)
    }

    fn weighted(cells: &[Cell], of: Range<usize>, weights: &[f64], simulated: u64) -> Self {
        let mut latency = Histogram::new();
        for interval in cells.iter().flat_map(|cell| cell.series.get(of.clone()).unwrap_or(&[])) {
            interval.iter().for_each(|(_, class)| latency.merge(class.response_time()));
        }
        let quartile = |q: f64| latency.quantile_ns(q).unwrap_or(0) as f64;
        let batches = &batches(cells)[of];
        let mean = |of: &dyn Fn(&Batch) -> f64| {
            let sum: f64 = batches.iter().zip(weights).map(|(batch, w)| of(batch) * w).sum();
            sum / weights.iter().sum::<f64>()
        };
        let interval_s = cells.first().map_or(f64::INFINITY, |c| c.interval_ns as f64 / 1e9);
        let (ops, bytes, sum_ns) = (mean(&|b| b.ops), mean(&|b| b.bytes), mean(&|b| b.sum_ns));
        let read = mean(&|b| b.read_bytes) / interval_s;
        let most = batches.iter().map(|b| b.bytes).fold(0.0, f64::max);
        let plain = batches.iter().map(|b| b.bytes).sum::<f64>() / batches.len().max(1) as f64;
        let squares: f64 = batches.iter().map(|b| (b.bytes - plain).powi(2)).sum();
        let deviation = (squares / (batches.len().max(2) - 1) as f64).sqrt();
        let mean_ns = if ops > 0.0 { sum_ns / ops } else { 0.0 };
        let error = |of: &dyn Fn(&Batch) -> f64, mean: f64| {
            let residuals: Vec<f64> = batches.iter().map(of).collect();
            standard_error(&residuals, weights) / mean
        };
        Self {
            iops: ops / interval_s,
            bytes_per_s: bytes / interval_s,
            mean_ns,
            latency: Latency::of(&latency),
            iops_error: error(&|b| b.ops - ops, ops),
            mean_error: error(&|b| b.sum_ns - mean_ns * b.ops, sum_ns),
            kinds_bytes_per_s: (read, bytes / interval_s - read),
            peak_bytes_per_s: most / interval_s,
            variation: if plain > 0.0 { deviation / plain } else { 0.0 },
            quartiles_ns: (quartile(0.25), quartile(0.75)),
            least_ns: latency.min_ns().unwrap_or(0) as f64,
            over_time: None,
            stationary: None,
            rounds: None,
            simulated,
        }
    }
}

/// Operations over all devices in each round of `intervals_a_round` intervals.
pub(crate) fn rounds(cells: &[Cell], intervals_a_round: usize) -> Vec<f64> {
    let batches = batches(cells);
    batches.chunks_exact(intervals_a_round).map(|round| round.iter().map(|b| b.ops).sum()).collect()
}

/// Totals of one interval over all devices.
struct Batch {
    ops: f64,
    bytes: f64,
    read_bytes: f64,
    /// Sum of the latencies.
    sum_ns: f64,
}

fn batches(cells: &[Cell]) -> Vec<Batch> {
    let longest = cells.iter().map(|c| c.series.len()).max().unwrap_or(0);
    let in_interval = |i: usize| {
        let mut batch = Batch { ops: 0.0, bytes: 0.0, read_bytes: 0.0, sum_ns: 0.0 };
        for interval in cells.iter().filter_map(|cell| cell.series.get(i)) {
            batch.ops += interval.ops() as f64;
            batch.bytes += interval.bytes() as f64;
            batch.read_bytes += interval.class(OpKind::Read).map_or(0, |c| c.bytes) as f64;
            batch.sum_ns +=
                interval.iter().map(|(_, c)| c.response_time().sum_ns() as f64).sum::<f64>();
        }
        batch
    };
    (0..longest).map(in_interval).collect()
}

/// Hann's weights at the middles of `n` equal parts: sin².
fn taper(n: usize) -> Vec<f64> {
    let at = |i: usize| (core::f64::consts::PI * (i as f64 + 0.5) / n as f64).sin().powi(2);
    (0..n).map(at).collect()
}

/// Number of intervals over which events may be correlated, in either direction.
const LAGS: usize = 5;

/// Standard error of the weighted mean of a series with these residuals, which may depend on their neighbours:
/// the variance at frequency 0 by Bartlett's weights (W. Newey, K. West, 1987). Infinite if there are too few.
fn standard_error(residuals: &[f64], weights: &[f64]) -> f64 {
    let n = residuals.len();
    if n <= 2 * LAGS {
        return f64::INFINITY;
    }
    let products = |lag: usize| {
        let pairs = residuals.iter().zip(&residuals[lag..]);
        pairs.map(|(a, b)| a * b).sum::<f64>() / (n - 1) as f64
    };
    let weigh = |lag: usize| 1.0 - lag as f64 / (LAGS + 1) as f64;
    let lagged: f64 = (1..=LAGS).map(|lag| 2.0 * weigh(lag) * products(lag)).sum();
    let variance = (products(0) + lagged).max(0.0);
    let squares: f64 = weights.iter().map(|w| w * w).sum();
    (variance * squares).sqrt() / weights.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng;

    /// Compares standard errors with the spread of many means, for white noise, correlated noise and waves.
    #[test]
    fn standard_errors_are_those_of_many_means() {
        let mut random = rng::stream(7, "batches", 0);
        let mut noise = move || rng::unit_open_closed(&mut random) - 0.5;
        let n = 40;
        let weights = taper(n);
        for kind in ["white", "shared", "waves"] {
            let (mut means, mut estimated) = (Vec::new(), Vec::new());
            for round in 0..2000 {
                let mut before = noise();
                let values: Vec<f64> = (0..n)
                    .map(|i| {
                        let new = noise();
                        let value = match kind {
                            "white" => new,
                            "shared" => new + before,
                            _ => {
                                let phase = f64::from(round) + i as f64 * 2.0;
                                0.1 * new + phase.sin()
                            }
                        };
                        before = new;
                        value
                    })
                    .collect();
                let total: f64 = weights.iter().sum();
                let mean = values.iter().zip(&weights).map(|(v, w)| v * w).sum::<f64>() / total;
                let residuals: Vec<f64> = values.iter().map(|v| v - mean).collect();
                means.push(mean);
                estimated.push(standard_error(&residuals, &weights).powi(2));
            }
            let square = |all: &[f64]| all.iter().map(|m| m * m).sum::<f64>() / all.len() as f64;
            let truth = square(&means).sqrt();
            let estimated = (estimated.iter().sum::<f64>() / estimated.len() as f64).sqrt();
            // Bartlett's weights miss part of the correlation, and see part of the waves.
            let most = if kind == "waves" { 12.0 } else { 1.1 };
            assert!((0.75..most).contains(&(estimated / truth)), "{kind}: {estimated} for {truth}");
            // The noise alone makes 0.0056; a plain mean over such waves is off by up to 0.03.
            assert!(kind != "waves" || truth < 0.0065, "{truth}");
        }
        assert!(standard_error(&[1.0, -1.0], &[1.0, 1.0]).is_infinite());
    }
}
