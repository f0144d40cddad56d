//! Runs as CSV (RFC 4180 with line feeds), in tidy form: one row per observation, one column per figure, the
//! unit in the column's name. Fields that are unknown, or not supported by the samples, are empty.

use iodyno_measure::{
    Cell, ClassStats, Histogram, KindSummary, Latency, Level, PERCENTILES, Summary,
};
use iodyno_notebook::Run;
use std::fmt::Write as _;

/// Titles of the columns that identify the cell of a row.
const CELL_COLUMNS: [&str; 10] = [
    "run",
    "cell",
    "target",
    "workload",
    "engine",
    "threads",
    "depth",
    "block_bytes",
    "offered_iops",
    "repeat",
];

/// Returns a CSV table with one row per cell and kind of operation. A cell without operations has one row,
/// whose kind is empty.
pub fn cells(run: &Run) -> String {
    let mut columns: Vec<String> = CELL_COLUMNS.map(str::to_owned).to_vec();
    let fixed = ["seconds", "ended", "kind", "ops", "iops", "bytes", "bytes_per_s", "errors"];
    columns.extend(fixed.map(str::to_owned));
    columns.extend(latency_columns("latency"));
    columns.extend(latency_columns("service"));
    let fixed = ["oio_mean", "cpu_seconds", "generator_ns_per_io", "level", "verdicts"];
    columns.extend(fixed.map(str::to_owned));
    columns.extend(
        PERCENTILES
            .iter()
            .flat_map(|p| ["low", "high"].map(|end| format!("latency_{}_{end}_ns", p.key))),
    );
    let mut out = Rows::new(&columns);
    for cell in &run.cells {
        let figures = Summary::with_intervals(cell);
        if figures.kinds.is_empty() {
            cell_row(&mut out, run, cell, None);
        }
        for kind in &figures.kinds {
            cell_row(&mut out, run, cell, Some(kind));
        }
    }
    out.text
}

/// Returns a CSV table with one row per cell, interval and kind of operation that occurs in the cell. An
/// interval without operations of that kind has zeroes.
pub fn series(run: &Run) -> String {
    let mut columns: Vec<String> = CELL_COLUMNS.map(str::to_owned).to_vec();
    let fixed = [
        "interval",
        "start_seconds",
        "seconds",
        "kind",
        "ops",
        "iops",
        "bytes",
        "bytes_per_s",
        "errors",
        "latency_mean_ns",
        "latency_p50_ns",
        "latency_p99_ns",
        "latency_max_ns",
    ];
    columns.extend(fixed.map(str::to_owned));
    let mut out = Rows::new(&columns);
    for cell in &run.cells {
        let kinds: Vec<_> = Summary::of(cell).kinds.iter().map(|f| f.kind).collect();
        for (i, length_ns) in cell.interval_lengths_ns().enumerate() {
            let seconds = length_ns as f64 / 1e9;
            for &kind in &kinds {
                let stats = cell.series[i].class(kind);
                let (ops, bytes) = stats.map_or((0, 0), |s| (s.ops(), s.bytes));
                let response_time = stats.map(ClassStats::response_time);
                let rate = |n: u64| if length_ns == 0 { 0.0 } else { n as f64 / seconds };
                let quantile = |q| response_time.and_then(|h| h.supported_quantile_ns(q));
                cell_fields(&mut out, run, cell);
                out.number(Some(i));
                out.number(Some(i as f64 * cell.interval_ns as f64 / 1e9));
                out.number(Some(seconds));
                out.text(kind.name());
                out.number(Some(ops));
                out.number(Some(rate(ops)));
                out.number(Some(bytes));
                out.number(Some(rate(bytes)));
                out.number(Some(stats.map_or(0, |s| s.errors.total())));
                out.number(response_time.and_then(Histogram::mean_ns));
                out.number(quantile(0.5));
                out.number(quantile(0.99));
                out.number(response_time.and_then(Histogram::max_ns));
                out.end();
            }
        }
    }
    out.text
}

fn latency_columns(name: &str) -> impl Iterator<Item = String> {
    let of = move |key: &str| format!("{name}_{key}_ns");
    let first = ["min", "mean"].into_iter();
    first.chain(PERCENTILES.iter().map(|p| p.key)).chain(["max"]).map(of)
}

fn cell_fields(out: &mut Rows, run: &Run, cell: &Cell) {
    let key = &cell.key;
    for text in [&run.id, &key.name, &key.target, &key.workload, &key.engine] {
        out.text(text);
    }
    for number in [key.threads, key.depth, key.block_bytes()] {
        out.number(Some(number));
    }
    out.number(key.offered_iops);
    out.number(Some(key.repeat));
}

fn cell_row(out: &mut Rows, run: &Run, cell: &Cell, kind: Option<&KindSummary>) {
    cell_fields(out, run, cell);
    out.number(Some(cell.seconds()));
    out.text(serde_json::json!(cell.ended).as_str().unwrap_or_default());
    out.text(kind.map_or("", |k| k.kind.name()));
    out.number(Some(kind.map_or(0, |k| k.ops)));
    out.number(Some(kind.map_or(0.0, |k| k.iops)));
    out.number(Some(kind.map_or(0, |k| k.bytes)));
    out.number(Some(kind.map_or(0.0, |k| k.bytes_per_s)));
    out.number(Some(kind.map_or(0, |k| k.errors.total())));
    latency_fields(out, kind.map(|k| &k.response_time));
    latency_fields(out, kind.and_then(|k| k.service.as_ref()));
    out.number(Some(cell.oio_mean()));
    out.number(Some(cell.resources.cpu_seconds()));
    out.number(cell.evidence.generator_ns_per_io);
    out.text(cell.level().map_or("", Level::name));
    let codes: Vec<&str> = cell.verdicts.iter().map(|v| v.code.as_str()).collect();
    out.text(&codes.join(" "));
    for within in kind.map(|k| k.response_time.within).unwrap_or_default() {
        out.number(within.and_then(|w| w.low_ns));
        out.number(within.and_then(|w| w.high_ns));
    }
    out.end();
}

fn latency_fields(out: &mut Rows, latency: Option<&Latency>) {
    let nothing = Latency::default();
    let latency = latency.unwrap_or(&nothing);
    out.number(latency.min_ns);
    out.number(latency.mean_ns);
    for value in latency.percentiles_ns {
        out.number(value);
    }
    out.number(latency.max_ns);
}

/// Text of CSV rows, built field by field.
struct Rows {
    text: String,
    at_start: bool,
}

impl Rows {
    fn new(columns: &[String]) -> Self {
        let mut rows = Self { text: String::new(), at_start: true };
        for column in columns {
            rows.text(column);
        }
        rows.end();
        rows
    }

    fn separate(&mut self) {
        if !self.at_start {
            self.text.push(',');
        }
        self.at_start = false;
    }

    fn text(&mut self, field: &str) {
        self.separate();
        // Names are untrusted text: they must not move a cursor or become a spreadsheet formula.
        let field = iodyno_page::csv::safe(field);
        if field.contains(['"', ',', '\n', '\r']) {
            let _ = write!(self.text, "\"{}\"", field.replace('"', "\"\""));
        } else {
            self.text.push_str(&field);
        }
    }

    fn number(&mut self, field: Option<impl std::fmt::Display>) {
        self.separate();
        if let Some(number) = field {
            let _ = write!(self.text, "{number}");
        }
    }

    fn end(&mut self) {
        self.text.push('\n');
        self.at_start = true;
    }
}
