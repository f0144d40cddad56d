//! One cell of a study: which system does which workload, at which point of the axes; and what came
//! of it, as a few numbers.

use iodyno_measure::{Cell, Histogram, Interval};

/// Which cell. Systems and workloads by their place in the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    /// Which system.
    pub system: usize,
    /// Which workload.
    pub workload: usize,
    /// Between a completion and the next submission, ns.
    pub think_ns: u64,
    /// Of one operation.
    pub block_bytes: u32,
    /// Outstanding operations of each device.
    pub depth: u32,
    /// How many devices work at once.
    pub devices: u32,
}

/// One figure of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Operations a second of all devices.
    Iops,
    /// Bytes a second of all devices.
    BytesPerS,
    /// Mean latency over all operations, ns.
    MeanNs,
    /// 99th percentile of the latency of all operations, ns.
    P99Ns,
}

/// What a cell gave, over all devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// Operations a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Mean latency over all operations, ns.
    pub mean_ns: f64,
    /// 99th percentile of the latency, ns; None where the samples do not support it.
    pub p99_ns: Option<f64>,
    /// Relative standard error of the rate.
    pub iops_error: f64,
    /// Relative standard error of the mean latency.
    pub mean_error: f64,
    /// Operations that were simulated, those of the ramp included.
    pub simulated: u64,
}

impl Taken {
    /// One figure with its relative standard error, where one is known.
    pub fn get(&self, measure: Measure) -> Option<(f64, Option<f64>)> {
        Some(match measure {
            Measure::Iops => (self.iops, Some(self.iops_error)),
            Measure::BytesPerS => (self.bytes_per_s, Some(self.iops_error)),
            Measure::MeanNs => (self.mean_ns, Some(self.mean_error)),
            Measure::P99Ns => (self.p99_ns?, None),
        })
    }

    /// Sums up the cells of all devices, which ran at once for equal windows. Standard errors come
    /// from the means of the intervals (batch means): they know of whatever makes neighbouring
    /// operations alike, as long as it is shorter than an interval.
    pub fn of(cells: &[Cell], simulated: u64) -> Self {
        let mut latency = Histogram::new();
        let (mut iops, mut bytes_per_s) = (0.0, 0.0);
        for cell in cells {
            let total = cell.total();
            iops += cell.per_second(total.ops() as f64);
            bytes_per_s += cell.per_second(total.bytes() as f64);
            total.iter().for_each(|(_, class)| latency.merge(&class.service));
        }
        let (iops_error, mean_error) = standard_errors(&batches(cells));
        Self {
            iops,
            bytes_per_s,
            mean_ns: latency.mean_ns().unwrap_or(0.0),
            p99_ns: latency.supported_quantile_ns(0.99).map(|ns| ns as f64),
            iops_error,
            mean_error,
            simulated,
        }
    }
}

/// Operations and the sum of their latencies (ns), of each interval, over all devices.
fn batches(cells: &[Cell]) -> Vec<(f64, f64)> {
    let longest = cells.iter().map(|c| c.series.len()).max().unwrap_or(0);
    let in_interval = |i: usize| {
        let intervals = cells.iter().filter_map(|cell| cell.series.get(i));
        intervals.fold((0.0, 0.0), |(ops, sum), interval: &Interval| {
            let latency: f64 = interval.iter().map(|(_, c)| c.service.sum_ns() as f64).sum();
            (ops + interval.ops() as f64, sum + latency)
        })
    };
    (0..longest).map(in_interval).collect()
}

/// Relative standard errors of the mean count of a batch, and of the ratio of the sums.
fn standard_errors(batches: &[(f64, f64)]) -> (f64, f64) {
    let n = batches.len() as f64;
    let ops: f64 = batches.iter().map(|b| b.0).sum();
    let latency: f64 = batches.iter().map(|b| b.1).sum();
    if batches.len() < 2 || ops == 0.0 || latency == 0.0 {
        return (f64::INFINITY, f64::INFINITY);
    }
    let (mean_ops, ratio) = (ops / n, latency / ops);
    let root = |squares: f64| (squares / (n - 1.0) / n).sqrt();
    let of_ops = root(batches.iter().map(|b| (b.0 - mean_ops).powi(2)).sum());
    let of_ratio = root(batches.iter().map(|b| (b.1 - ratio * b.0).powi(2)).sum());
    (of_ops / mean_ops, of_ratio / (mean_ops * ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_errors_by_hand() {
        // Counts 10, 12, 14: mean 12, standard deviation 2, of the mean 2/√3.
        let batches = [(10.0, 100.0), (12.0, 120.0), (14.0, 140.0)];
        let (of_ops, of_ratio) = standard_errors(&batches);
        assert!((of_ops - 2.0 / 3_f64.sqrt() / 12.0).abs() < 1e-12);
        assert!(of_ratio.abs() < 1e-12, "the ratio is the same in each batch");
        // Equal counts: the ratio's error is that of the sums. 90, 100, 110: deviation 10.
        let (_, of_ratio) = standard_errors(&[(10.0, 90.0), (10.0, 100.0), (10.0, 110.0)]);
        assert!((of_ratio - 10.0 / 3_f64.sqrt() / 100.0).abs() < 1e-12);
        assert!(standard_errors(&[(1.0, 1.0)]).0.is_infinite());
    }
}
