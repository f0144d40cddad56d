//! Exports metrics of runs: finished runs (`export`) in the OpenMetrics text format, and runs in progress (`run
//! --metrics`) in any format that Prometheus scrapes. Units are seconds and bytes.
//!
//! Cells merged over several targets are omitted, because a sum over targets would count their operations twice.

mod slowest;
mod so_far;

pub use so_far::SoFar;

use iodyno_measure::exposition::{
    Exemplars, Exposition, LatencySample, Sample, TextFormat, labels,
};
use iodyno_measure::{Cell, CellKey, ClassStats, Histogram, Interval, Level};
use iodyno_notebook::Run;
use iodyno_units::OpKind;
use slowest::Slowest;

/// Latency quantiles with their labels. A quantile is exported only if there are enough samples.
const QUANTILES: [(f64, &str); 5] =
    [(0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99"), (0.999, "0.999"), (0.9999, "0.9999")];

/// Formats a stored run as OpenMetrics text.
pub fn text(run: &Run) -> String {
    let of = RunLabels {
        id: run.id.clone(),
        name: run.head.name.clone(),
        version: run.head.iodyno_version.clone(),
    };
    let cells: Vec<(usize, CellCounts)> =
        run.cells.iter().map(CellCounts::of).enumerate().collect();
    exposition(TextFormat::OpenMetrics, &of, cells.iter().map(|(index, cell)| (*index, cell)))
}

#[derive(Clone, Debug, Default)]
struct RunLabels {
    /// Id of the run; empty if the run is not stored in a notebook.
    id: String,
    name: String,
    version: String,
}

impl RunLabels {
    /// Value of the label `run`: the run's id, or its name if the id is empty.
    fn run(&self) -> &str {
        if self.id.is_empty() { &self.name } else { &self.id }
    }
}

/// Operation counts of a cell of one target, or of a cell merged over several targets.
#[derive(Clone, Debug, Default)]
struct CellCounts {
    key: CellKey,
    is_virtual: bool,
    /// Time for which the cell has been measured, ns.
    measured_ns: u64,
    total: Interval,
    slowest: Slowest,
    /// Operations per second and bytes per second, indexed by [`OpKind::index`]; `None` for kinds that did not occur.
    rates: [Option<(f64, f64)>; OpKind::COUNT],
    /// Verdict on the cell; None while the cell is being measured.
    judged: Option<Judged>,
}

/// Verdicts on a cell, as labels of a metric.
#[derive(Clone, Debug)]
struct Judged {
    level: Option<Level>,
    /// Codes of the verdicts, separated by blanks.
    codes: String,
}

impl CellCounts {
    /// Takes the counts from a finished cell. The rates are averages over its whole window.
    fn of(cell: &Cell) -> Self {
        let total = cell.total();
        let rates = OpKind::ALL.map(|kind| {
            let stats = total.class(kind)?;
            let rate = |n: u64| cell.per_second(n as f64);
            Some((rate(stats.ops()), rate(stats.bytes)))
        });
        let codes: Vec<&str> = cell.verdicts.iter().map(|v| v.code.as_str()).collect();
        Self {
            measured_ns: cell.window_ns,
            total,
            slowest: Slowest::of(cell),
            rates,
            judged: Some(Judged { level: cell.level(), codes: codes.join(" ") }),
            ..Self::empty(cell)
        }
    }

    /// Returns zero counts for a cell whose measurement begins.
    fn empty(cell: &Cell) -> Self {
        let is_virtual = cell.evidence.virtual_time;
        Self { key: cell.key.clone(), is_virtual, ..Self::default() }
    }

    /// The kinds of operation that occurred, with their statistics.
    fn kinds(&self) -> impl Iterator<Item = (OpKind, &ClassStats)> {
        self.total.iter().filter(|(_, stats)| !stats.is_empty())
    }
}

/// Formats the counts of several cells. Each cell comes with its index in the run.
fn exposition<'a>(
    format: TextFormat,
    run: &RunLabels,
    cells: impl Iterator<Item = (usize, &'a CellCounts)>,
) -> String {
    let cells: Vec<(String, &'a CellCounts)> = cells
        .filter(|(_, cell)| !cell.key.is_of_all_targets())
        .map(|(index, cell)| (cell_labels(run, index, cell), cell))
        .collect();
    let of_cells = |value: &dyn Fn(&CellCounts) -> f64| -> Vec<Sample> {
        cells.iter().map(|(labels, cell)| (labels.clone(), value(cell))).collect()
    };
    let of_kinds = |value: &dyn Fn(&CellCounts, OpKind, &ClassStats) -> Option<f64>| {
        let mut samples = Vec::new();
        for (labels, cell) in &cells {
            for (kind, stats) in cell.kinds() {
                let value = value(cell, kind, stats);
                samples.extend(value.map(|value| (with_operation(labels, kind), value)));
            }
        }
        samples
    };
    let mut out = Exposition::new(format);
    out.info("iodyno_run", "A run of iodyno.", &[run_info(run)]);
    let infos: Vec<String> = cells.iter().map(|(labels, cell)| cell_info(labels, cell)).collect();
    out.info("iodyno_run_cell", "A cell: one workload on one target.", &infos);
    let help = "Duration of the measurement, without the ramp.";
    let measured = of_cells(&|cell| cell.measured_ns as f64 / 1e9);
    out.gauge("iodyno_run_measured_seconds", help, &measured);
    let help = "Operations that succeeded.";
    let operations = of_kinds(&|_, _, stats| Some(stats.ops() as f64));
    out.counter("iodyno_run_operations", help, &operations);
    // The bytes of trims and zeroes do not move.
    let moves = |kind| matches!(kind, OpKind::Read | OpKind::Write);
    let help = "Bytes read and written by operations that succeeded.";
    let bytes = of_kinds(&|_, kind, stats| moves(kind).then_some(stats.bytes as f64));
    out.counter("iodyno_run_bytes", help, &bytes);
    let help = "Operations that failed.";
    let errors = of_kinds(&|_, _, stats| Some(stats.errors.total() as f64));
    out.counter("iodyno_run_errors", help, &errors);
    let help = "Rate in the latest interval; for a finished cell, the mean over its window.";
    let rates = of_kinds(&|cell, kind, _| cell.rates[kind.index()].map(|rate| rate.0));
    out.gauge("iodyno_run_operations_per_second", help, &rates);
    let rates = of_kinds(&|cell, kind, _| {
        cell.rates[kind.index()].filter(|_| moves(kind)).map(|rate| rate.1)
    });
    out.gauge("iodyno_run_bytes_per_second", help, &rates);
    let help = "Latency: response time in open loop, service time in closed loop.";
    let latency =
        latencies(&cells, |cell, stats| Some((stats.response_time(), &cell.slowest.latency)));
    out.histogram("iodyno_run_latency_seconds", help, &latency);
    let help = "Latency quantiles with at least 10 samples beyond them.";
    let mut quantiles = Vec::new();
    for (labels, histogram, _) in &latency {
        for (q, name) in QUANTILES {
            let ns = histogram.supported_quantile_ns(q);
            let labels = || format!("{labels},quantile=\"{name}\"");
            quantiles.extend(ns.map(|ns| (labels(), ns as f64 / 1e9)));
        }
    }
    out.gauge("iodyno_run_latency_quantile_seconds", help, &quantiles);
    let help = "Service time in open loop: from submission to completion.";
    let service = latencies(&cells, |cell, stats| {
        stats.response.as_ref()?;
        Some((&stats.service, &cell.slowest.service))
    });
    out.histogram("iodyno_run_service_time_seconds", help, &service);
    out.finish()
}

/// A latency histogram, and exemplars indexed by [`OpKind::index`].
type Latencies<'a> = (&'a Histogram, &'a [Exemplars; OpKind::COUNT]);

/// Collects the histograms that `of` selects, with labels: at most one per cell and kind of operation.
fn latencies<'a>(
    cells: &[(String, &'a CellCounts)],
    of: impl Fn(&'a CellCounts, &'a ClassStats) -> Option<Latencies<'a>>,
) -> Vec<LatencySample<'a>> {
    let mut all = Vec::new();
    for (labels, cell) in cells {
        for (kind, stats) in cell.kinds() {
            let sample = |(histogram, exemplars): Latencies<'a>| {
                (with_operation(labels, kind), histogram, &exemplars[kind.index()])
            };
            all.extend(of(cell, stats).map(sample));
        }
    }
    all
}

/// Formats the labels of a cell's samples, without the surrounding braces.
fn cell_labels(run: &RunLabels, index: usize, cell: &CellCounts) -> String {
    labels(&[
        ("run", run.run()),
        ("cell", &cell.key.name),
        ("index", &index.to_string()),
        ("target", &cell.key.target),
    ])
}

fn with_operation(labels: &str, kind: OpKind) -> String {
    format!("{labels},operation=\"{}\"", kind.name())
}

fn run_info(run: &RunLabels) -> String {
    labels(&[("run", run.run()), ("name", &run.name), ("version", &run.version)])
}

fn cell_info(of_cell: &str, cell: &CellCounts) -> String {
    let key = &cell.key;
    let [threads, depth, block_bytes, repeat] =
        [key.threads, key.depth, key.block_bytes(), key.repeat].map(|n| n.to_string());
    let mut pairs = vec![
        ("workload", key.workload.as_str()),
        ("engine", &key.engine),
        ("threads", &threads),
        ("depth", &depth),
        ("block_bytes", &block_bytes),
        ("repeat", &repeat),
        ("time", if cell.is_virtual { "virtual" } else { "real" }),
    ];
    let offered = key.offered_iops.map(|iops| iops.to_string());
    pairs.extend(offered.as_deref().map(|iops| ("offered_iops", iops)));
    let at = key.place.iter().flat_map(|place| &place.at);
    let at: Vec<String> = at.map(|(axis, value)| format!("{axis}={value}")).collect();
    let at = at.join(" ");
    if !at.is_empty() {
        pairs.push(("at", &at));
    }
    if let Some(judged) = &cell.judged {
        pairs.push(("level", judged.level.map_or("", Level::name)));
        pairs.push(("verdicts", &judged.codes));
    }
    format!("{of_cell},{}", labels(&pairs))
}
