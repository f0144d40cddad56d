//! The figures of a cell, computed once for every form that shows them.

use crate::run_verdict::RunVerdict;
use iodyno_measure::statistics::within::{Within, within};
use iodyno_measure::{Cell, ClassStats, ErrorCounts, Histogram, Interval, Level};
use iodyno_notebook::{CellSummary, RunSummary};
use iodyno_units::{OpKind, human};

/// A percentile that is shown.
pub(crate) struct Percentile {
    /// The quantile, 0 to 1.
    pub quantile: f64,
    /// Its key in JSON and CSV.
    pub key: &'static str,
    /// Its name in a table.
    pub label: &'static str,
}

/// The percentiles that are shown, in order.
pub(crate) const PERCENTILES: [Percentile; 6] = [
    Percentile { quantile: 0.5, key: "p50", label: "p50" },
    Percentile { quantile: 0.9, key: "p90", label: "p90" },
    Percentile { quantile: 0.99, key: "p99", label: "p99" },
    Percentile { quantile: 0.999, key: "p99_9", label: "p99.9" },
    Percentile { quantile: 0.9999, key: "p99_99", label: "p99.99" },
    Percentile { quantile: 0.99999, key: "p99_999", label: "p99.999" },
];

/// Confidence of the percentiles' intervals.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// A block of this size and more is about bandwidth, a smaller one about operations a second.
const BANDWIDTH_BLOCK_BYTES: u32 = 64 * 1024;

/// Whether throughput says more about this block size than the rate of operations does.
pub(crate) const fn is_about_bandwidth(block_bytes: u32) -> bool {
    block_bytes >= BANDWIDTH_BLOCK_BYTES
}

/// The latencies of one histogram. What the samples can't support is None.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Latency {
    pub min_ns: Option<u64>,
    pub mean_ns: Option<f64>,
    pub max_ns: Option<u64>,
    /// By [`PERCENTILES`].
    pub percentiles_ns: [Option<u64>; PERCENTILES.len()],
    /// How well each is known within its window; None where it is not supported, and where the window's
    /// series was not looked at.
    pub within: [Option<Within>; PERCENTILES.len()],
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram) -> Self {
        Self {
            min_ns: histogram.min_ns(),
            mean_ns: histogram.mean_ns(),
            max_ns: histogram.max_ns(),
            percentiles_ns: PERCENTILES.map(|p| histogram.supported_quantile_ns(p.quantile)),
            within: [None; PERCENTILES.len()],
        }
    }

    /// With the intervals of its percentiles, from what each interval of the series recorded.
    fn with_series(histogram: &Histogram, series: &[Vec<&Histogram>]) -> Self {
        let found = within(histogram, series, &PERCENTILES.map(|p| p.quantile), CONFIDENCE);
        let mut latency = Self::of(histogram);
        latency.within.iter_mut().zip(found).for_each(|(slot, found)| *slot = found);
        latency
    }
}

/// What one kind of operation did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KindFigures {
    pub kind: OpKind,
    pub ops: u64,
    pub iops: f64,
    pub bytes: u64,
    pub bytes_per_s: f64,
    pub errors: ErrorCounts,
    /// What a user of the storage feels: response time in open loop, service time otherwise.
    pub response_time: Latency,
    /// Service time beside it, in open loop only.
    pub service: Option<Latency>,
}

impl KindFigures {
    fn of<'a>(cell: &'a Cell, kind: OpKind, stats: &ClassStats) -> Self {
        let response_time =
            |interval: &'a Interval| interval.class(kind).map(ClassStats::response_time);
        let series: Vec<Vec<&Histogram>> =
            cell.series.iter().map(|i| response_time(i).into_iter().collect()).collect();
        Self {
            kind,
            ops: stats.ops(),
            iops: cell.per_second(stats.ops() as f64),
            bytes: stats.bytes,
            bytes_per_s: cell.per_second(stats.bytes as f64),
            errors: stats.errors,
            response_time: Latency::with_series(stats.response_time(), &series),
            service: stats.response.is_some().then(|| Latency::of(&stats.service)),
        }
    }
}

/// What a cell gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures {
    /// The kinds that did anything, in the order of [`OpKind::ALL`].
    pub kinds: Vec<KindFigures>,
    /// Operations of all kinds a second, flushes included.
    pub iops: f64,
    /// Bytes read and written a second.
    pub bytes_per_s: f64,
}

impl Figures {
    pub(crate) fn of(cell: &Cell) -> Self {
        let total = cell.total();
        let kinds = total.iter().filter(|(_, stats)| !stats.is_empty());
        Self {
            kinds: kinds.map(|(kind, stats)| KindFigures::of(cell, kind, stats)).collect(),
            iops: cell.per_second(total.ops() as f64),
            bytes_per_s: cell.per_second(total.bytes() as f64),
        }
    }
}

/// The lengths of a cell's intervals, ns. All are `interval_ns` but the last, which ends with the
/// window.
pub(crate) fn interval_lengths_ns(cell: &Cell) -> impl Iterator<Item = u64> {
    let (count, interval_ns, window_ns) =
        (cell.series.len() as u64, cell.interval_ns, cell.window_ns);
    (1..=count).map(move |i| {
        let rest_ns = window_ns.saturating_sub(interval_ns * (count - 1));
        if i == count && (1..interval_ns).contains(&rest_ns) { rest_ns } else { interval_ns }
    })
}

/// The gravest level of a cell's verdicts; None where it was never judged.
pub(crate) fn gravest(cell: &Cell) -> Option<Level> {
    cell.verdicts.iter().map(|v| v.level).max()
}

/// The level of a run in a list: that of its standing, or, where that was not asked for, the gravest of its
/// cells.
pub(crate) fn level_of(run: &RunSummary, standing: Option<&RunVerdict>) -> Option<Level> {
    let of_cells = run.cells.iter().filter_map(|c| c.level).max();
    of_cells.max(standing.and_then(|s| s.level))
}

/// The name of a level in JSON and CSV.
pub(crate) const fn level_name(level: Level) -> &'static str {
    match level {
        Level::Valid => "valid",
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Invalid => "invalid",
    }
}

/// A run's result in a few words: `random-read 92.3 k IOPS, seq-read 2.10 GB/s`. Of several
/// targets the merged cells speak; empty while there is nothing to say.
pub fn headline(run: &RunSummary) -> String {
    let merged: Vec<_> = run.cells.iter().filter(|c| c.target.starts_with("all (")).collect();
    let cells: Vec<_> = if merged.is_empty() { run.cells.iter().collect() } else { merged };
    // Repeats have one name and one target; their mean speaks.
    let mut groups: Vec<Vec<&CellSummary>> = Vec::new();
    for cell in cells {
        let same =
            |g: &&mut Vec<&CellSummary>| g[0].name == cell.name && g[0].target == cell.target;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    let name = |cell: &CellSummary| match groups.len() {
        1 => String::new(),
        _ => format!("{} ", cell.name),
    };
    let words: Vec<String> = groups
        .iter()
        .map(|group| {
            let n = group.len() as f64;
            let mean = |of: fn(&CellSummary) -> f64| group.iter().map(|c| of(c)).sum::<f64>() / n;
            let times = if group.len() > 1 { format!(" (mean of {n})") } else { String::new() };
            if is_about_bandwidth(group[0].block_bytes) {
                let bandwidth = human::throughput(mean(|c| c.bytes_per_s));
                format!("{}{bandwidth}{times}", name(group[0]))
            } else {
                format!("{}{} IOPS{times}", name(group[0]), human::count(mean(|c| c.iops)))
            }
        })
        .collect();
    words.join(", ")
}
