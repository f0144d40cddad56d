//! Summary of a cell: its rates and latencies, over all kinds of operation and per kind. A figure with too few
//! samples is None. Confidence intervals of percentiles need a pass over the series, and are computed only on
//! request.

use crate::statistics::within::{Within, within};
use crate::{Cell, ClassStats, ErrorCounts, Histogram, Interval, IoKinds, Quantity};
use iodyno_units::OpKind;
use serde::{Deserialize, Serialize};

/// A percentile that tables and exports show.
#[derive(Clone, Copy, Debug)]
pub struct Percentile {
    /// The quantile as a fraction: 0.99 for the 99th percentile.
    pub quantile: f64,
    /// Key of the percentile in JSON and CSV, such as `p99_9`.
    pub key: &'static str,
    /// Label of the percentile in tables, such as `p99.9`.
    pub label: &'static str,
}

/// Percentiles that tables and exports show, in ascending order.
pub const PERCENTILES: [Percentile; 6] = [
    Percentile { quantile: 0.5, key: "p50", label: "p50" },
    Percentile { quantile: 0.9, key: "p90", label: "p90" },
    Percentile { quantile: 0.99, key: "p99", label: "p99" },
    Percentile { quantile: 0.999, key: "p99_9", label: "p99.9" },
    Percentile { quantile: 0.9999, key: "p99_99", label: "p99.99" },
    Percentile { quantile: 0.99999, key: "p99_999", label: "p99.999" },
];

/// Confidence level of the percentiles' confidence intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Block size from which bandwidth matters more than IOPS, bytes.
const BANDWIDTH_BLOCK_BYTES: u32 = 64 << 10;

/// Whether bandwidth says more than IOPS at this block size. True from 64 KiB.
pub const fn is_about_bandwidth(block_bytes: u32) -> bool {
    block_bytes >= BANDWIDTH_BLOCK_BYTES
}

/// Latency statistics of one histogram. A statistic with too few samples is None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Shortest latency, ns: exact, not rounded to a bucket. None if nothing completed.
    pub min_ns: Option<u64>,
    /// Mean latency, ns: exact, not computed from buckets. None if nothing completed.
    pub mean_ns: Option<f64>,
    /// Longest latency, ns: exact, not rounded to a bucket. None if nothing completed.
    pub max_ns: Option<u64>,
    /// Percentiles in the order of [`PERCENTILES`], ns; None with too few samples.
    pub percentiles_ns: [Option<u64>; PERCENTILES.len()],
    /// Confidence interval of each percentile; None with too few samples, or if not requested.
    pub within: [Option<Within>; PERCENTILES.len()],
}

impl Latency {
    /// Computes the latency statistics of a histogram, without confidence intervals.
    pub fn of(histogram: &Histogram) -> Self {
        Self {
            min_ns: histogram.min_ns(),
            mean_ns: histogram.mean_ns(),
            max_ns: histogram.max_ns(),
            percentiles_ns: PERCENTILES.map(|p| histogram.supported_quantile_ns(p.quantile)),
            within: [None; PERCENTILES.len()],
        }
    }

    /// Value of a latency statistic, ns; None for a rate, a quantile that is not in [`PERCENTILES`], or too few
    /// samples.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Mean => self.mean_ns,
            Quantity::Max => self.max_ns.map(|ns| ns as f64),
            Quantity::Quantile(q) => {
                let at = PERCENTILES.iter().position(|p| p.quantile.total_cmp(&q).is_eq())?;
                self.percentiles_ns[at].map(|ns| ns as f64)
            }
            Quantity::Iops | Quantity::Bandwidth => None,
        }
    }
}

/// Rates, latencies and errors of one kind of operation.
#[derive(Clone, Debug, PartialEq)]
pub struct KindSummary {
    pub kind: OpKind,
    /// Number of completed operations of this kind; for several cells, the sum.
    pub ops: u64,
    /// Completed operations of this kind per second; for several cells, the mean of the cells' rates.
    pub iops: f64,
    /// Bytes moved by completed operations of this kind; for several cells, the sum.
    pub bytes: u64,
    /// Bytes moved per second by operations of this kind; for several cells, the mean of the cells' rates.
    pub bytes_per_s: f64,
    /// Failed operations, by kind of error.
    pub errors: ErrorCounts,
    /// Latency as a user sees it: response time in open loop, service time in closed loop.
    pub response_time: Latency,
    /// Service time in open loop; None in closed loop.
    pub service: Option<Latency>,
}

impl KindSummary {
    /// Creates the summary of a kind of operation that did not occur.
    pub fn nothing(kind: OpKind) -> Self {
        Self::of(&Cell::default(), kind, &ClassStats::default())
    }

    fn of(cell: &Cell, kind: OpKind, stats: &ClassStats) -> Self {
        Self {
            kind,
            ops: stats.ops(),
            iops: cell.per_second(stats.ops() as f64),
            bytes: stats.bytes,
            bytes_per_s: cell.per_second(stats.bytes as f64),
            errors: stats.errors,
            response_time: Latency::of(stats.response_time()),
            service: stats.response.is_some().then(|| Latency::of(&stats.service)),
        }
    }

    /// Summarises each kind of operation over several cells of one workload: mean rates, and latencies over all
    /// operations.
    pub fn of_several(cells: &[&Cell]) -> Vec<Self> {
        let totals: Vec<Interval> = cells.iter().map(|cell| cell.total()).collect();
        let mut all = Interval::default();
        for total in &totals {
            all.merge(total);
        }
        let mean = |kind, amount: fn(&ClassStats) -> u64| {
            let each = cells
                .iter()
                .zip(&totals)
                .map(|(cell, total)| cell.per_second(total.class(kind).map_or(0, amount) as f64));
            each.sum::<f64>() / cells.len() as f64
        };
        let kinds = all.iter().filter(|(_, stats)| !stats.is_empty());
        let each = kinds.map(|(kind, stats)| Self {
            iops: mean(kind, ClassStats::ops),
            bytes_per_s: mean(kind, |stats| stats.bytes),
            ..Self::of(&Cell::default(), kind, stats)
        });
        each.collect()
    }

    /// Adds the confidence intervals of the percentiles to `kinds`, the summaries of `cells`. Adds none if the latency
    /// distribution of a cell is unknown.
    pub fn add_intervals(kinds: &mut [Self], cells: &[&Cell]) {
        for of in kinds {
            let found = percentiles_within(cells, of.kind, &PERCENTILES.map(|p| p.quantile));
            of.response_time.within.iter_mut().zip(found).for_each(|(slot, found)| *slot = found);
        }
    }

    /// Latency from submission to completion.
    pub fn service_time(&self) -> &Latency {
        self.service.as_ref().unwrap_or(&self.response_time)
    }
}

/// Confidence intervals of the response-time percentiles `qs` (0 to 1) of one kind of operation in `cells`; None with
/// too few samples, or if the distribution is unknown.
pub(crate) fn percentiles_within(cells: &[&Cell], kind: OpKind, qs: &[f64]) -> Vec<Option<Within>> {
    if !cells.iter().all(|cell| cell.has_distribution()) {
        return vec![None; qs.len()];
    }
    let of_interval = |i| response_time(i, kind).into_iter().collect();
    let known = cells.iter().filter(|cell| cell.has_latency_over_time(kind));
    let series: Vec<Vec<&Histogram>> =
        known.flat_map(|cell| &cell.series).map(of_interval).collect();
    let mut all = Histogram::trimmed();
    let each = cells.iter().flat_map(|cell| &cell.series);
    each.filter_map(|i| response_time(i, kind)).for_each(|part| all.merge(part));
    within(&all, &series, qs, CONFIDENCE)
}

fn response_time(interval: &Interval, kind: OpKind) -> Option<&Histogram> {
    interval.class(kind).map(ClassStats::response_time)
}

/// Rates and latencies of a cell, in total and by kind of operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Summaries of the kinds that occurred, in the order of [`OpKind::ALL`].
    pub kinds: Vec<KindSummary>,
    /// Number of completed operations of all kinds.
    pub ops: u64,
    /// Operations per second of the kinds that IOPS include ([`IoKinds`]).
    pub iops: f64,
    /// Operations per second of all kinds, flushes included; comparable with an offered rate.
    pub ops_per_s: f64,
    /// Bytes read and written in the window.
    pub bytes: u64,
    /// Bytes read and written per second, averaged over the window.
    pub bytes_per_s: f64,
    /// Response times of all kinds of operation together.
    pub response_time: Histogram,
}

impl Summary {
    /// Summarises a cell, without confidence intervals.
    pub fn of(cell: &Cell) -> Self {
        let total = cell.total();
        let kinds = total.iter().filter(|(_, stats)| !stats.is_empty());
        Self {
            kinds: kinds.map(|(kind, stats)| KindSummary::of(cell, kind, stats)).collect(),
            ops: total.ops(),
            iops: cell.per_second(total.ios(IoKinds::of(total.kinds())) as f64),
            ops_per_s: cell.per_second(total.ops() as f64),
            bytes: total.bytes(),
            bytes_per_s: cell.per_second(total.bytes() as f64),
            response_time: total.response_time(),
        }
    }

    /// Summarises a cell, with confidence intervals of each kind's percentiles.
    pub fn with_intervals(cell: &Cell) -> Self {
        let mut summary = Self::of(cell);
        KindSummary::add_intervals(&mut summary.kinds, &[cell]);
        summary
    }

    /// Value of a quantity over all kinds of operation; None if there are too few samples.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Iops => Some(self.iops),
            Quantity::Bandwidth => Some(self.bytes_per_s),
            latency => latency.of(&self.response_time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates of the kinds add up to the mean rate of the cells, even if their lengths differ. Latencies count
    /// every operation once.
    #[test]
    fn kinds_of_several_cells_add_up() {
        let cell = |seconds: u64, reads: u64, writes: u64| {
            let mut interval = Interval::default();
            for (kind, ops, ns) in [(OpKind::Read, reads, 1000), (OpKind::Write, writes, 3000)] {
                let stats = interval.class_mut(kind);
                stats.bytes = ops * 4096;
                stats.service.record_n(ns, ops);
            }
            let window_ns = seconds * 1_000_000_000;
            Cell { window_ns, series: vec![interval], ..Cell::default() }
        };
        let (short, long) = (cell(1, 100, 0), cell(4, 1200, 400));
        let kinds = KindSummary::of_several(&[&short, &long]);
        let [read, write] = kinds.as_slice() else { panic!("{kinds:?}") };
        assert_eq!((read.kind, read.ops, read.iops), (OpKind::Read, 1300, 200.0));
        assert_eq!((write.kind, write.ops, write.iops), (OpKind::Write, 400, 50.0));
        // 100 per second in the one, 400 in the other.
        assert_eq!((read.iops + write.iops) as u64, 250);
        assert_eq!(write.bytes_per_s as u64, 50 * 4096);
        assert_eq!(read.response_time.mean_ns, Some(1000.0));
    }
}
