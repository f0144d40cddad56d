//! Key of a simulated cell (system, workload, position on the axes), and its aggregated results.

use crate::over_time::OverTime;
use core::ops::Range;
use iodyno_measure::{Cell, Histogram, Latency, Quantity};
use iodyno_units::{OpKind, Precondition};
use iodyno_workload::Percent;
use serde::{Deserialize, Serialize};

/// Coordinates that identify a cell of a study: system, workload and position on the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    /// Index of the system in `Study::systems`.
    pub system: usize,
    /// Index of the workload in `Study::workloads`.
    pub workload: usize,
    /// Think time: pause between a completion and the next submission, ns.
    pub think_ns: u64,
    /// Bytes per operation.
    pub block_bytes: u32,
    /// Number of threads per device.
    pub threads: u32,
    /// Outstanding operations per thread.
    pub depth: u32,
    /// Number of devices that the cell loads.
    pub devices: u32,
    /// State into which the devices are brought before the cell.
    pub before: Precondition,
    /// Whether [`long_ops`](crate::Workload::long_ops) operations are measured instead of `ops`, so that rare events
    /// are included.
    pub long: bool,
    /// Warm-up before the measurement, ns. None: the longer of the workload's and the system's default, or 0 if
    /// `over_ns` is set.
    pub ramp_ns: Option<u64>,
    /// Used fraction of the volume: the fraction occupied by the workload's files or, if it has no files, the fraction
    /// written before the cell.
    pub fill: Percent,
    /// Rate of a second workload that runs simultaneously, operations per second; 0: the rate in the specification of
    /// the second workload.
    pub beside_iops: u32,
    /// Length of a longer run that the cell represents, ns. One second of each minute is simulated, until the
    /// cell is stationary and its confidence intervals are narrow enough. None: the cell is simulated in full.
    pub span_ns: Option<u64>,
    /// Length of the window of a cell that is plotted over time, ns. The plot begins with the cell unless `ramp_ns` is
    /// set. None: the cell is not plotted over time.
    pub over_ns: Option<u64>,
}

/// A result of a cell, other than a [`Quantity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellFigure {
    /// Bytes read per second, over all devices.
    Reads,
    /// Bytes written per second, over all devices.
    Writes,
    /// Bytes per second in the fastest of the intervals into which the measurement is divided.
    Peak,
    /// Operations completed per second in the slowest of the intervals into which the measurement is divided.
    LowestIops,
    /// Standard deviation of the bandwidth over the intervals of the measurement, as a fraction of the mean.
    Variation,
    /// 25th percentile of latency, ns; 0 without samples.
    LowerQuartile,
    /// 75th percentile of latency, ns; 0 without samples.
    UpperQuartile,
    /// Minimum latency, ns; 0 without samples.
    Least,
    /// Flash pages programmed per page that the host wrote, including the parity pages of the device's stripes.
    WriteAmplification,
    /// Reads completed per second, over all devices.
    ReadIops,
    /// Writes completed per second, over all devices.
    WriteIops,
    /// Mean latency of reads, ns; 0 without reads.
    ReadMean,
    /// Mean latency of writes, ns; 0 without writes.
    WriteMean,
}

impl CellKey {
    /// Outstanding operations per device: threads times depth.
    pub const fn oio(&self) -> u32 {
        self.threads * self.depth
    }
}

/// Result of measuring a cell in rounds until the steady state of SNIA's specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// Number of measured rounds. The measurement ends at the steady state or after the maximum number of rounds.
    pub run: u32,
    /// Whether the last rounds, which form SNIA's measurement window, were in the steady state.
    pub steady: bool,
}

/// Result of a cell, combined over all devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Operations completed per second, of all kinds.
    pub iops: f64,
    /// Bytes read and written per second.
    pub bytes_per_s: f64,
    /// Mean latency over operations of all kinds, ns; 0 without operations.
    pub mean_ns: f64,
    /// Percentiles and maximum of latency, ns. All operations have equal weight here, unlike in `mean_ns`.
    pub latency: Latency,
    /// Relative standard error of the rate; infinite if unknown.
    pub iops_error: f64,
    /// Relative standard error of the mean latency; infinite if unknown.
    pub mean_error: f64,
    /// Bytes read per second, and bytes written per second.
    pub kinds_bytes_per_s: (f64, f64),
    /// Reads per second, and their mean latency, ns.
    pub reads: (f64, f64),
    /// Writes per second, and their mean latency, ns.
    pub writes: (f64, f64),
    /// Bytes per second in the fastest of the intervals into which the measurement is divided.
    pub peak_bytes_per_s: f64,
    /// Operations completed per second in the slowest of the intervals into which the measurement is divided.
    pub lowest_iops: f64,
    /// Standard deviation of the bytes per interval, as a fraction of the mean.
    pub variation: f64,
    /// 25th and 75th percentile of latency, ns.
    pub quartiles_ns: (f64, f64),
    /// Minimum latency, ns; 0 without samples.
    pub least_ns: f64,
    /// Flash pages programmed per page that the host wrote, including the parity pages of the device's stripes. Always
    /// 1 without flash devices, and for cells that are measured in rounds or plotted over time.
    pub write_amplification: f64,
    /// Latencies over time; None unless `CellKey::over_ns` is set.
    pub over_time: Option<OverTime>,
    /// Whether a cell that represents a longer run (`CellKey::span_ns`) was stationary; None for other cells.
    pub stationary: Option<bool>,
    /// Result of the rounds; None if the cell was not measured in rounds.
    pub rounds: Option<Rounds>,
    /// Number of simulated operations, including the ramp.
    pub simulated: u64,
}

impl Taken {
    /// Value of a quantity, and its relative standard error if known. None if there are too few samples for the
    /// quantity.
    pub fn get(&self, quantity: Quantity) -> Option<(f64, Option<f64>)> {
        Some(match quantity {
            Quantity::Iops => (self.iops, Some(self.iops_error)),
            Quantity::Bandwidth => (self.bytes_per_s, Some(self.iops_error)),
            Quantity::Mean => (self.mean_ns, Some(self.mean_error)),
            Quantity::Max => (self.latency.get(quantity).unwrap_or(0.0), None),
            Quantity::Quantile(_) => (self.latency.get(quantity)?, None),
        })
    }

    /// Returns the result that `of` selects, in the unit that the variant documents.
    pub const fn figure(&self, of: CellFigure) -> f64 {
        match of {
            CellFigure::Reads => self.kinds_bytes_per_s.0,
            CellFigure::Writes => self.kinds_bytes_per_s.1,
            CellFigure::Peak => self.peak_bytes_per_s,
            CellFigure::LowestIops => self.lowest_iops,
            CellFigure::Variation => self.variation,
            CellFigure::LowerQuartile => self.quartiles_ns.0,
            CellFigure::UpperQuartile => self.quartiles_ns.1,
            CellFigure::Least => self.least_ns,
            CellFigure::WriteAmplification => self.write_amplification,
            CellFigure::ReadIops => self.reads.0,
            CellFigure::WriteIops => self.writes.0,
            CellFigure::ReadMean => self.reads.1,
            CellFigure::WriteMean => self.writes.1,
        }
    }

    /// Combines the cells of all devices, which ran simultaneously with equal windows and intervals.
    ///
    /// Rates and means are weighted by a Hann taper over the window. A flash device that programs all dies
    /// simultaneously accepts writes in waves, so that a plain mean depends on the number of waves in the window. The
    /// taper reduces the weight of the window's edges. Without waves, the taper needs 1.5 times as many operations for
    /// the same standard error.
    ///
    /// `of`: kind of operation for the percentiles; None: all kinds together.
    pub fn of(cells: &[Cell], of: Option<OpKind>, simulated: u64) -> Self {
        let batches = batches(cells);
        Self::weighted(cells, of, 0..batches.len(), &taper(batches.len()), simulated)
    }

    /// Combines only the given intervals of the cells, with equal weight.
    pub fn over(cells: &[Cell], intervals: Range<usize>, simulated: u64) -> Self {
        let weights = vec![1.0; intervals.len()];
        Self::weighted(cells, None, intervals, &weights, simulated)
    }

    fn weighted(
        cells: &[Cell],
        kind: Option<OpKind>,
        of: Range<usize>,
        weights: &[f64],
        simulated: u64,
    ) -> Self {
        let mut latency = Histogram::new();
        for interval in cells.iter().flat_map(|cell| cell.series.get(of.clone()).unwrap_or(&[])) {
            let counted = interval.iter().filter(|(of, _)| kind.is_none_or(|kind| kind == *of));
            counted.for_each(|(_, class)| latency.merge(class.response_time()));
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
        let of_kind =
            |ops: f64, sum_ns: f64| (ops / interval_s, if ops > 0.0 { sum_ns / ops } else { 0.0 });
        let most = batches.iter().map(|b| b.bytes).fold(0.0, f64::max);
        let fewest = batches.iter().map(|b| b.ops).fold(f64::INFINITY, f64::min);
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
            reads: of_kind(mean(&|b| b.reads.0), mean(&|b| b.reads.1)),
            writes: of_kind(mean(&|b| b.writes.0), mean(&|b| b.writes.1)),
            peak_bytes_per_s: most / interval_s,
            lowest_iops: if fewest.is_finite() { fewest / interval_s } else { 0.0 },
            variation: if plain > 0.0 { deviation / plain } else { 0.0 },
            quartiles_ns: (quartile(0.25), quartile(0.75)),
            least_ns: latency.min_ns().unwrap_or(0) as f64,
            write_amplification: 1.0,
            over_time: None,
            stationary: None,
            rounds: None,
            simulated,
        }
    }
}

/// Number of operations in each round, over all devices. A round has `intervals_a_round` intervals.
pub(crate) fn rounds(cells: &[Cell], intervals_a_round: usize) -> Vec<f64> {
    let batches = batches(cells);
    batches.chunks_exact(intervals_a_round).map(|round| round.iter().map(|b| b.ops).sum()).collect()
}

/// Totals of one interval over all devices.
#[derive(Default)]
struct Batch {
    ops: f64,
    bytes: f64,
    read_bytes: f64,
    /// Number of reads, and sum of their latencies, ns.
    reads: (f64, f64),
    /// Number of writes, and sum of their latencies, ns.
    writes: (f64, f64),
    /// Sum of the latencies of all operations, ns.
    sum_ns: f64,
}

fn batches(cells: &[Cell]) -> Vec<Batch> {
    let longest = cells.iter().map(|c| c.series.len()).max().unwrap_or(0);
    let in_interval = |i: usize| {
        let mut batch = Batch::default();
        for interval in cells.iter().filter_map(|cell| cell.series.get(i)) {
            batch.ops += interval.ops() as f64;
            batch.bytes += interval.bytes() as f64;
            batch.read_bytes += interval.class(OpKind::Read).map_or(0, |c| c.bytes) as f64;
            for (of, kind) in [(&mut batch.reads, OpKind::Read), (&mut batch.writes, OpKind::Write)]
            {
                let Some(class) = interval.class(kind) else { continue };
                of.0 += class.ops() as f64;
                of.1 += class.response_time().sum_ns() as f64;
            }
            batch.sum_ns +=
                interval.iter().map(|(_, c)| c.response_time().sum_ns() as f64).sum::<f64>();
        }
        batch
    };
    (0..longest).map(in_interval).collect()
}

/// Weights of a Hann window, sin², at the middles of `n` equal parts.
fn taper(n: usize) -> Vec<f64> {
    let at = |i: usize| (core::f64::consts::PI * (i as f64 + 0.5) / n as f64).sin().powi(2);
    (0..n).map(at).collect()
}

/// Maximum distance, in intervals, over which results may be correlated.
const LAGS: usize = 5;

/// Standard error of the weighted mean of a series, from its residuals, which may be correlated with their
/// neighbours (the variance at frequency 0, with Bartlett's weights; W. Newey, K. West, 1987). Infinite for
/// too few residuals.
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
    use iodyno_measure::Interval;
    use iodyno_units::rng;

    /// The knee is the rate of the slowest interval over all devices, the peak that of the fastest.
    #[test]
    fn a_knee_is_the_rate_of_the_slowest_interval() {
        let device = |ops: [u64; 4]| {
            let interval = |n| {
                let mut interval = Interval::default();
                let writes = interval.class_mut(OpKind::Write);
                writes.service.record_n(1_000, n);
                writes.bytes = n * 4096;
                interval
            };
            let series = ops.map(interval).to_vec();
            Cell { window_ns: 2_000_000_000, interval_ns: 500_000_000, series, ..Cell::default() }
        };
        let taken = Taken::of(&[device([50, 20, 90, 60]), device([10, 30, 10, 25])], None, 0);
        assert_eq!(taken.figure(CellFigure::LowestIops).round() as u64, 100);
        assert_eq!(taken.figure(CellFigure::Peak).round() as u64, 200 * 4096);
    }

    /// The estimated standard errors agree with the spread of many means, for white noise, correlated noise and
    /// waves.
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
            // The noise alone gives a spread of 0.0056; a plain mean over such waves is off by up to 0.03.
            assert!(kind != "waves" || truth < 0.0065, "{truth}");
        }
        assert!(standard_error(&[1.0, -1.0], &[1.0, 1.0]).is_infinite());
    }
}
