//! Converts the measurements and time series of a run to tables in tidy form: one row per observation, one column per
//! variable, the unit in the column's name. CSV and the Python module render these tables.
//!
//! Values that are unknown or have too few samples are None, never 0.

use iodyno_measure::{
    Cell, ClassStats, Histogram, Interval, KindSummary, Latency, Level, PERCENTILES, Summary,
};
use iodyno_notebook::Run;
use iodyno_units::OpKind;

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Names and words, such as an id or a kind of operation.
    Text,
    /// Unsigned integers: counts, sizes in bytes, latencies of single operations in ns.
    Counts,
    /// Floating-point numbers: rates, means, durations.
    Numbers,
}

/// Name and type of a column of a table in tidy form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the column, with its unit.
    pub name: String,
    /// Decides how a renderer writes the column: as text, integers or floats.
    pub values: Values,
}

/// Receiver of a table's rows. The writer of a row adds one value per column, in order, and then calls [`Self::end`].
pub trait Rows {
    /// Adds a text to the current row; None if the value is unknown.
    fn text(&mut self, value: Option<&str>);
    /// Adds an unsigned integer to the current row; None if the value is unknown.
    fn count(&mut self, value: Option<u64>);
    /// Adds a floating-point number to the current row; None if the value is unknown.
    fn number(&mut self, value: Option<f64>);
    /// Ends the current row. The next value begins another one.
    fn end(&mut self);
}

/// Columns that identify the measured cell to which a row belongs, at the start of each row.
pub fn key_columns() -> Vec<Column> {
    columns(&[
        (Values::Text, &["run", "cell", "target", "workload", "engine"]),
        (Values::Counts, &["threads", "depth", "block_bytes"]),
        (Values::Numbers, &["offered_iops"]),
        (Values::Counts, &["repeat"]),
    ])
}

/// Columns of the rows that [`add_cells`] adds, in order.
pub fn cell_columns() -> Vec<Column> {
    let mut all = key_columns();
    all.extend(columns(&[
        (Values::Numbers, &["seconds"]),
        (Values::Text, &["ended", "kind"]),
        (Values::Counts, &["ops"]),
        (Values::Numbers, &["iops"]),
        (Values::Counts, &["bytes"]),
        (Values::Numbers, &["bytes_per_s"]),
        (Values::Counts, &["errors"]),
    ]));
    for name in ["latency", "service"] {
        let of = |values, key: &str| Column { name: format!("{name}_{key}_ns"), values };
        all.extend([of(Values::Counts, "min"), of(Values::Numbers, "mean")]);
        all.extend(PERCENTILES.iter().map(|p| of(Values::Counts, p.key)));
        all.push(of(Values::Counts, "max"));
    }
    all.extend(columns(&[
        (Values::Numbers, &["oio_mean", "cpu_seconds", "generator_ns_per_io"]),
        (Values::Text, &["level", "verdicts"]),
    ]));
    for percentile in &PERCENTILES {
        for end in ["low", "high"] {
            let name = format!("latency_{}_{end}_ns", percentile.key);
            all.push(Column { name, values: Values::Counts });
        }
    }
    all
}

/// Adds a row per measured cell and kind of operation. A cell without operations has one row without a kind.
pub fn add_cells(run: &Run, out: &mut impl Rows) {
    for cell in &run.cells {
        let figures = Summary::with_intervals(cell);
        if figures.kinds.is_empty() {
            cell_row(out, run, cell, None);
        }
        for kind in &figures.kinds {
            cell_row(out, run, cell, Some(kind));
        }
    }
}

/// Columns of the rows that [`add_series`] adds, in order.
pub fn series_columns() -> Vec<Column> {
    let mut all = key_columns();
    all.extend(columns(&[
        (Values::Counts, &["interval"]),
        (Values::Numbers, &["start_seconds", "seconds"]),
        (Values::Text, &["kind"]),
        (Values::Counts, &["ops"]),
        (Values::Numbers, &["iops"]),
        (Values::Counts, &["bytes"]),
        (Values::Numbers, &["bytes_per_s"]),
        (Values::Counts, &["errors"]),
        (Values::Numbers, &["latency_mean_ns"]),
        (Values::Counts, &["latency_p50_ns", "latency_p99_ns", "latency_max_ns"]),
    ]));
    all
}

/// Adds a row per measured cell, interval and kind of operation that occurs in the cell. An interval without operations
/// of that kind has zeroes.
pub fn add_series(run: &Run, out: &mut impl Rows) {
    for cell in &run.cells {
        let mut occurs = [false; OpKind::COUNT];
        for (kind, stats) in cell.series.iter().flat_map(Interval::iter) {
            occurs[kind.index()] |= !stats.is_empty();
        }
        for (i, length_ns) in cell.interval_lengths_ns().enumerate() {
            let seconds = length_ns as f64 / 1e9;
            for kind in OpKind::ALL.into_iter().filter(|kind| occurs[kind.index()]) {
                let stats = cell.series[i].class(kind);
                let (ops, bytes) = stats.map_or((0, 0), |s| (s.ops(), s.bytes));
                let known = stats.filter(|_| cell.has_latency_over_time(kind));
                let response_time = known.map(ClassStats::response_time);
                let rate = |n: u64| if length_ns == 0 { 0.0 } else { n as f64 / seconds };
                let quantile = |q| response_time.and_then(|h| h.supported_quantile_ns(q));
                key_values(out, run, cell);
                out.count(Some(i as u64));
                out.number(Some(i as f64 * cell.interval_ns as f64 / 1e9));
                out.number(Some(seconds));
                out.text(Some(kind.name()));
                out.count(Some(ops));
                out.number(Some(rate(ops)));
                out.count(Some(bytes));
                out.number(Some(rate(bytes)));
                out.count(Some(stats.map_or(0, |s| s.errors.total())));
                out.number(response_time.and_then(Histogram::mean_ns));
                out.count(quantile(0.5));
                out.count(quantile(0.99));
                out.count(response_time.and_then(Histogram::max_ns));
                out.end();
            }
        }
    }
}

/// Adds the values for [`key_columns`] to the current row.
pub fn key_values(out: &mut impl Rows, run: &Run, cell: &Cell) {
    let key = &cell.key;
    for text in [&run.id, &key.name, &key.target, &key.workload, &key.engine] {
        out.text(Some(text));
    }
    for number in [key.threads, key.depth, key.block_bytes()] {
        out.count(Some(number.into()));
    }
    out.number(key.offered_iops);
    out.count(Some(key.repeat.into()));
}

fn columns(groups: &[(Values, &[&str])]) -> Vec<Column> {
    let of = |values, names: &[&str]| {
        names.iter().map(|&name| Column { name: name.to_owned(), values }).collect::<Vec<_>>()
    };
    groups.iter().flat_map(|&(values, names)| of(values, names)).collect()
}

fn cell_row(out: &mut impl Rows, run: &Run, cell: &Cell, kind: Option<&KindSummary>) {
    key_values(out, run, cell);
    out.number(Some(cell.seconds()));
    out.text(serde_json::json!(cell.ended).as_str());
    out.text(kind.map(|k| k.kind.name()));
    out.count(Some(kind.map_or(0, |k| k.ops)));
    out.number(Some(kind.map_or(0.0, |k| k.iops)));
    out.count(Some(kind.map_or(0, |k| k.bytes)));
    out.number(Some(kind.map_or(0.0, |k| k.bytes_per_s)));
    out.count(Some(kind.map_or(0, |k| k.errors.total())));
    latency_values(out, kind.map(|k| &k.response_time));
    latency_values(out, kind.and_then(|k| k.service.as_ref()));
    out.number(Some(cell.oio_mean()));
    out.number(Some(cell.resources.cpu_seconds()));
    out.number(cell.evidence.generator_ns_per_io);
    out.text(cell.level().map(Level::name));
    let codes: Vec<&str> = cell.verdicts.iter().map(|v| v.code.as_str()).collect();
    out.text(Some(&codes.join(" ")));
    for within in kind.map(|k| k.response_time.within).unwrap_or_default() {
        out.count(within.and_then(|w| w.low_ns));
        out.count(within.and_then(|w| w.high_ns));
    }
    out.end();
}

fn latency_values(out: &mut impl Rows, latency: Option<&Latency>) {
    let nothing = Latency::default();
    let latency = latency.unwrap_or(&nothing);
    out.count(latency.min_ns);
    out.number(latency.mean_ns);
    for value in latency.percentiles_ns {
        out.count(value);
    }
    out.count(latency.max_ns);
}
