//! Formats a grid of points for the terminal: matrices of rates and latencies for two axes, otherwise one line per
//! point.

use crate::kinds;
use crate::point_figures::{self, HALF_WIDTH};
use crate::terminal::Detail;
use crate::verdict_groups::tone_of_point;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{Latency, Quantity};
use iodyno_method::findings::{NINES, Row, Table as Grid};
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, PartRows};
use iodyno_page::terminal::text::{Role, paint, paragraph};
use iodyno_page::{Cell, Column, Quantity as Unit, Table, Tone};
use iodyno_units::{OpKind, parse_size};

/// Maximum number of columns of a matrix, one for each value on the first axis. With more values, each point has a line
/// of its own instead.
const MATRIX_COLUMNS_MAX: usize = 9;

/// Rows of the table with their names: the values on the axes, or the stage's name if there are no axes.
pub(super) fn named<'a>(stage: &str, table: &'a Grid) -> Vec<(String, &'a Row)> {
    let name = |row: &Row| if row.at.is_empty() { stage.to_owned() } else { row.at.join(" ") };
    table.rows.iter().map(|row| (name(row), row)).collect()
}

pub(super) fn lines(stage: &str, table: &Grid, detail: Detail, style: Style) -> Vec<String> {
    let across = table.axes.first().map(|_| values(table, 0).len()).unwrap_or_default();
    let is_matrix = table.axes.len() == 2
        && (2..=MATRIX_COLUMNS_MAX).contains(&across)
        && values(table, 1).len() > 1;
    if !is_matrix {
        let name = table.axes.join(" ");
        let rows = named(stage, table);
        return figures(if name.is_empty() { "cell" } else { &name }, &rows, style);
    }
    let mut lines = matrix(table, "IOPS", Unit::Iops, |row| row.iops, style);
    let has_large = values(table, 1).iter().any(|v| {
        table.axes[1] == "block" && parse_size(v).is_ok_and(|b| is_about_bandwidth(b as u32))
    });
    if has_large {
        lines.extend(matrix(table, "throughput", Unit::Throughput, |row| row.bytes_per_s, style));
    }
    lines.extend(matrix(table, "mean latency", Unit::LatencyNs, |row| row.mean_ns, style));
    if detail.all {
        lines.push(String::new());
        lines.extend(figures(&table.axes.join(" "), &named(stage, table), style));
    } else {
        let text =
            "-v shows each point with its percentiles, separately for each kind of operation";
        lines.extend(paragraph(text, Role::Dim, style));
    }
    lines
}

/// Distinct values of an axis, in the order of the table's rows.
fn values(table: &Grid, axis: usize) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for row in &table.rows {
        let value = row.at[axis].as_str();
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// Formats a matrix whose columns are the values of the first axis and whose rows are those of the second.
fn matrix(
    grid: &Grid,
    what: &str,
    unit: Unit,
    of: fn(&Row) -> Option<f64>,
    style: Style,
) -> Vec<String> {
    let (across, down) = (values(grid, 0), values(grid, 1));
    let mut table = Table::new([Column::label(format!("{} \\ {}", grid.axes[1], grid.axes[0]))]);
    table.columns.extend(across.iter().map(|name| Column::numbers(*name, unit.unit())));
    for &d in &down {
        let mut cells = vec![Cell::words(d).toned(Tone::Strong)];
        cells.extend(across.iter().map(|a| {
            let row = grid.rows.iter().find(|row| row.at[0] == *a && row.at[1] == d);
            row.map_or_else(Cell::empty, |row| match of(row) {
                _ if row.skipped.is_some() => Cell::words("n/a").toned(Tone::Dim),
                None => Cell::none(),
                value => Cell::of(unit, value).toned(tone_of_point(row)),
            })
        }));
        table.push(cells);
    }
    let mut lines = vec![paint(what, Role::Dim, style)];
    lines.extend(table::in_parts(&table, PartRows::Known, style));
    lines
}

/// Formats one line per point with all its results. Adds a line per kind of operation for a mix, and a line
/// of service times for open loop.
pub(super) fn figures(name: &str, rows: &[(String, &Row)], style: Style) -> Vec<String> {
    let are_apart = are_apart(rows.iter().map(|(_, row)| *row));
    let mut table = Table::new([Column::label(name), Column::words("")]);
    table.columns.extend(point_figures::columns());
    for (name, row) in rows {
        table.rows.extend(lines_of(name, row, are_apart).into_iter().map(Into::into));
    }
    let (table, hidden) = table::fit(&table.without_blank_columns(), style.columns(), style);
    let mut lines = table::lines(&table, style);
    if table.columns.iter().any(|column| column.short == HALF_WIDTH) {
        let sign = if style.unicode { HALF_WIDTH } else { "+-" };
        let text = format!("{sign}: 95 % interval of the mean of the point's cells");
        lines.extend(paragraph(&text, Role::Dim, style));
    }
    lines.extend(table::remark(&hidden, style));
    lines
}

/// Whether to list the kinds of operation separately, because there are several or because service times are
/// known.
pub(super) fn are_apart<'a>(rows: impl Iterator<Item = &'a Row>) -> bool {
    let mut kinds = rows.flat_map(|row| &row.kinds).peekable();
    let first = kinds.peek().map(|of| of.kind);
    kinds.any(|of| of.service.is_some() || Some(of.kind) != first)
}

/// Table lines of a point: one over all operations, and with `are_apart` one per kind of operation. In open loop,
/// another line per kind has its service times.
fn lines_of(name: &str, row: &Row, are_apart: bool) -> Vec<Vec<Cell>> {
    let tone = tone_of_point(row);
    let mut whole = vec![Cell::words(name).toned(Tone::Strong), Cell::empty()];
    whole.extend(point_figures::cells(row).into_iter().map(|cell| match cell.tone {
        Tone::Plain => cell.toned(tone),
        _ => cell,
    }));
    let mut lines = Vec::new();
    for of in &row.kinds {
        let kind = of.kind.name();
        let response = if of.service.is_some() { " response" } else { "" };
        let rates = [
            Cell::number(kinds::rate(of.kind, of.iops), of.iops).toned(tone),
            Cell::empty(),
            match of.kind {
                OpKind::Flush => Cell::empty(),
                _ => Cell::of(Unit::Throughput, of.bytes_per_s).toned(tone),
            },
        ];
        lines.push(of_kind(&format!("{kind}{response}"), rates, &of.response_time, tone));
        lines.extend(of.service.as_ref().map(|service| {
            let name = format!("{} service", " ".repeat(kind.len()));
            of_kind(&name, Default::default(), service, Tone::Dim)
        }));
    }
    match row.kinds.as_slice() {
        _ if !are_apart => vec![whole],
        [] => vec![whole],
        // A single kind is the same as the whole.
        [_] => {
            whole[1] = lines[0][1].clone();
            lines[0] = whole;
            lines
        }
        _ => {
            whole[1] = Cell::words("all").toned(tone);
            lines.insert(0, whole);
            lines
        }
    }
}

/// Table line with the rates and latencies of one kind of operation.
fn of_kind(name: &str, rates: [Cell; 3], latency: &Latency, tone: Tone) -> Vec<Cell> {
    let mut cells = vec![Cell::empty(), Cell::words(name).toned(tone)];
    cells.extend(rates);
    let nines = NINES.map(|(q, _)| latency.get(Quantity::Quantile(q)));
    let times = [latency.mean_ns].into_iter().chain(nines);
    let times = times.chain([latency.max_ns.map(|ns| ns as f64)]);
    cells.extend(times.map(|ns| time(ns, tone)));
    cells
}

fn time(ns: Option<f64>, tone: Tone) -> Cell {
    ns.map_or_else(Cell::none, |ns| Cell::of(Unit::LatencyNs, ns).toned(tone))
}
