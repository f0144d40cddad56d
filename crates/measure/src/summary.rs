//! Summary of a cell: its rates and latencies, over all kinds of operation and per kind. A figure with too few
//! samples is None. Confidence intervals of percentiles need a pass over the series, and are computed only on
//! request.

use crate::statistics::within::{Within, within};
use crate::{Cell, ClassStats, ErrorCounts, Histogram, Interval, IoKinds, Quantity};
use iodyno_units::OpKind;
use serde::{Deserialize, Serialize};

/// A percentile that is shown.
#[derive(Clone, Copy, Debug)]
pub struct Percentile {
    /// The quantile, 0 to 1.
    pub quantile: f64,
    /// Key in JSON and CSV.
    pub key: &'static str,
    /// Name in a table.
    pub label: &'static str,
}

/// Percentiles that are shown, in ascending order.
pub const PERCENTILES: [Percentile; 6] = [
    Percentile { quantile: 0.5, key: "p50", label: "p50" },
    Percentile { quantile: 0.9, key: "p90", label: "p90" },
    Percentile { quantile: 0.99, key: "p99", label: "p99" },
    Percentile { quantile: 0.999, key: "p99_9", label: "p99.9" },
    Percentile { quantile: 0.9999, key: "p99_99", label: "p99.99" },
    Percentile { quantile: 0.99999, key: "p99_999", label: "p99.999" },
];

/// Confidence of the percentiles' intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Block size from which bandwidth matters more than IOPS, bytes.
const BANDWIDTH_BLOCK_BYTES: u32 = 64 << 10;

/// Whether bandwidth matters more than operations per second at this block size.
pub const fn is_about_bandwidth(block_bytes: u32) -> bool {
    block_bytes >= BANDWIDTH_BLOCK_BYTES
}

/// Latency statistics of one histogram. Those with too few samples are None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Minimum, ns.
    pub min_ns: Option<u64>,
    /// Mean, ns.
    pub mean_ns: Option<f64>,
    /// The longest response time allowed at the quantile, ns.
    pub max_ns: Option<u64>,
    /// Percentiles in the order of [`PERCENTILES`], ns.
    pub percentiles_ns: [Option<u64>; PERCENTILES.len()],
    /// Confidence interval of each percentile within its window; None if there are too few samples, or if it was not
    /// requested.
    pub within: [Option<Within>; PERCENTILES.len()],
}

impl Latency {
    /// Latencies of a histogram, without confidence intervals.
    pub fn of(histogram: &Histogram) -> Self {
        Self {
            min_ns: histogram.min_ns(),
            mean_ns: histogram.mean_ns(),
            max_ns: histogram.max_ns(),
            percentiles_ns: PERCENTILES.map(|p| histogram.supported_quantile_ns(p.quantile)),
            within: [None; PERCENTILES.len()],
        }
    }

    /// Value of a latency, ns; None for a rate, for a quantile that is not in [`PERCENTILES`], and if there are too
    /// few samples.
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

/// Summary of one kind of operation.
#[derive(Clone, Debug, PartialEq)]
pub struct KindSummary {
    /// Read, write, flush, trim or write zeroes.
    pub kind: OpKind,
    /// Number of completed operations.
    pub ops: u64,
    /// Operations per second.
    pub iops: f64,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Failed operations, by kind of error.
    pub errors: ErrorCounts,
    /// Latency from the intended start: response time in open loop, service time otherwise.
    pub response_time: Latency,
    /// Service time, in open loop only.
    pub service: Option<Latency>,
}

impl KindSummary {
    /// Summary of a kind without operations.
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

    /// Summarises each kind over several cells of one workload: the mean of their rates, and the latencies of all
    /// their operations together.
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

    /// Adds confidence intervals of percentiles to summaries of several cells, from the cells' series.
    pub fn add_intervals(kinds: &mut [Self], cells: &[&Cell]) {
        for of in kinds {
            let of_interval = |i| response_time(i, of.kind).into_iter().collect();
            let series: Vec<Vec<&Histogram>> =
                cells.iter().flat_map(|cell| &cell.series).map(of_interval).collect();
            let mut all = Histogram::trimmed();
            series.iter().flatten().for_each(|part| all.merge(part));
            let found = within(&all, &series, &PERCENTILES.map(|p| p.quantile), CONFIDENCE);
            of.response_time.within.iter_mut().zip(found).for_each(|(slot, found)| *slot = found);
        }
    }

    /// Latency from submission to completion, in closed and open loop.
    pub fn service_time(&self) -> &Latency {
        self.service.as_ref().unwrap_or(&self.response_time)
    }
}

fn response_time(interval: &Interval, kind: OpKind) -> Option<&Histogram> {
    interval.class(kind).map(ClassStats::response_time)
}

/// Summary of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Kinds with operations, in the order of [`OpKind::ALL`].
    pub kinds: Vec<KindSummary>,
    /// Number of completed operations of all kinds.
    pub ops: u64,
    /// Operations per second of the kinds that IOPS count ([`IoKinds`]).
    pub iops: f64,
    /// Operations per second of all kinds, flushes included, as an offered rate counts them.
    pub ops_per_s: f64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Bytes read and written per second.
    pub bytes_per_s: f64,
    /// Response times of all kinds together.
    pub response_time: Histogram,
}

impl Summary {
    /// Summary of a cell, without confidence intervals.
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

    /// Summary of a cell, with confidence intervals of each kind's percentiles.
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

    /// Rates of kinds add up to the mean rate of the cells, whatever the cells' lengths; latencies are over all
    /// operations, each counted once.
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
