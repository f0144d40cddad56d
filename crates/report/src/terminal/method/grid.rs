//! A grid as terminal text: matrices of rates and of latencies for two axes, otherwise one line per point.

use crate::kinds;
use crate::terminal::Detail;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{Latency, Level, Quantity};
use iodyno_method::findings::{NINES, Row, Table};
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, paint, paragraph};
use iodyno_units::{OpKind, human, parse_size};

/// Maximum number of axis values that fit side by side in a matrix.
const MATRIX_COLUMNS_MAX: usize = 9;

/// The rows with their names: their position on the axes, or the name of the stage if there are no axes.
pub(super) fn named<'a>(stage: &str, table: &'a Table) -> Vec<(String, &'a Row)> {
    let name = |row: &Row| if row.at.is_empty() { stage.to_owned() } else { row.at.join(" ") };
    table.rows.iter().map(|row| (name(row), row)).collect()
}

pub(super) fn lines(stage: &str, table: &Table, detail: Detail, style: Style) -> Vec<String> {
    let across = table.axes.first().map(|_| values(table, 0).len()).unwrap_or_default();
    let is_matrix = table.axes.len() == 2
        && (2..=MATRIX_COLUMNS_MAX).contains(&across)
        && values(table, 1).len() > 1;
    if !is_matrix {
        let name = table.axes.join(" ");
        let rows = named(stage, table);
        return figures(if name.is_empty() { "cell" } else { &name }, &rows, style);
    }
    let mut lines = matrix(table, "IOPS", &|row| row.iops.map(human::count), style);
    let has_large = values(table, 1).iter().any(|v| {
        table.axes[1] == "block" && parse_size(v).is_ok_and(|b| is_about_bandwidth(b as u32))
    });
    if has_large {
        lines.extend(matrix(
            table,
            "throughput",
            &|row| row.bytes_per_s.map(human::throughput),
            style,
        ));
    }
    lines.extend(matrix(table, "mean latency", &|row| row.mean_ns.map(human::time_ns), style));
    if detail.all {
        lines.push(String::new());
        lines.extend(figures(&table.axes.join(" "), &named(stage, table), style));
    } else {
        let text = "-v shows each point with its percentiles, and the kinds of operation apart";
        lines.extend(paragraph(text, Role::Dim, style));
    }
    lines
}

/// The distinct values of an axis, in order.
fn values(table: &Table, axis: usize) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for row in &table.rows {
        let value = row.at[axis].as_str();
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// A matrix with the first axis across and the second down.
fn matrix(
    table: &Table,
    what: &str,
    of: &dyn Fn(&Row) -> Option<String>,
    style: Style,
) -> Vec<String> {
    let (across, down) = (values(table, 0), values(table, 1));
    let head = clean(&format!("{} \\ {}", table.axes[1], table.axes[0]), 24, style);
    let mut names = Column::new(head, 0);
    names.fields = down.iter().map(|d| Field::Text(clean(d, 16, style), Role::Bold)).collect();
    let mut columns = vec![names];
    for a in across {
        let mut column = Column::new(clean(a, 16, style), 0);
        for d in &down {
            let row = table.rows.iter().find(|row| row.at[0] == a && row.at[1] == *d);
            column.fields.push(match row {
                Some(row) if row.skipped.is_some() => Field::Text("n/a".to_owned(), Role::Dim),
                Some(row) => match of(row) {
                    Some(text) => Field::figure(&clean(&text, 14, style), role(row)),
                    None => Field::Missing,
                },
                None => Field::Empty,
            });
        }
        columns.push(column);
    }
    let mut lines = vec![paint(what, Role::Dim, style)];
    if table::total_width(&columns) <= style.columns() {
        lines.extend(table::lines(&columns, style));
    } else {
        let (labels, values) = columns.split_at(1);
        lines.extend(table::lines_in_parts(labels, values, style));
    }
    lines
}

pub(super) fn role(row: &Row) -> Role {
    match row.level {
        Some(Level::Invalid) => Role::Red,
        Some(Level::Warning) => Role::Yellow,
        _ => Role::Plain,
    }
}

/// One line: a point, or one kind of its operations.
struct Line {
    name: Field,
    kind: String,
    iops: Field,
    half_width: Option<f64>,
    throughput: Field,
    mean_ns: Option<f64>,
    nines_ns: Vec<Option<f64>>,
    max_ns: Option<u64>,
    role: Role,
}

/// One line per point with all its figures; in a mix also one per kind of operation, and in open loop one for
/// the service times.
pub(super) fn figures(name: &str, rows: &[(String, &Row)], style: Style) -> Vec<String> {
    let are_apart = are_apart(rows.iter().map(|(_, row)| *row));
    let lines_of = |(name, row): &(String, &Row)| lines_of(name, row, are_apart, style);
    let all: Vec<Line> = rows.iter().flat_map(lines_of).collect();
    let mut names = Column::new(clean(name, 40, style), 0);
    let mut kinds = Column::new("", 0);
    let mut iops = Column::new("IOPS", 0);
    let plus_minus = if style.unicode { "±" } else { "+-" };
    let mut half_width = Column::new(plus_minus, 3);
    let mut throughput = Column::new("throughput", 4);
    let mut mean = Column::new("mean", 1);
    let mut nines: Vec<Column> = NINES
        .iter()
        .zip([6, 2, 5, 8, 9])
        .map(|((_, label), rank)| Column::new(*label, rank))
        .collect();
    let mut max = Column::new("max", 7);
    let time = |ns: Option<f64>, role| match ns {
        Some(ns) => Field::figure(&clean(&human::time_ns(ns), 12, style), role),
        None => Field::Missing,
    };
    for line in &all {
        let role = line.role;
        names.fields.push(line.name.clone());
        kinds.fields.push(Field::Text(line.kind.clone(), role));
        iops.fields.push(line.iops.clone());
        half_width.fields.push(line.half_width.map_or(Field::Empty, |share| {
            Field::figure(&format!("{} %", human::three_digits(share * 100.0)), Role::Dim)
        }));
        throughput.fields.push(line.throughput.clone());
        mean.fields.push(time(line.mean_ns, role));
        for (i, column) in nines.iter_mut().enumerate() {
            column.fields.push(time(line.nines_ns.get(i).copied().flatten(), role));
        }
        max.fields.push(time(line.max_ns.map(|ns| ns as f64), role));
    }
    let is_blank = |column: &Column| {
        let blank = |f: &Field| match f {
            Field::Text(text, _) => text.is_empty(),
            f => matches!(f, Field::Empty | Field::Missing),
        };
        column.fields.iter().all(blank)
    };
    let mut columns = vec![names, kinds, iops, half_width, throughput, mean];
    columns.extend(nines);
    columns.push(max);
    // Omit columns that are empty for all points.
    columns.retain(|column| column.rank == 0 && !column.head.is_empty() || !is_blank(column));
    let left_out = table::fit(&mut columns, style.columns());
    let mut lines = table::lines(&columns, style);
    let mut remarks = Vec::new();
    if columns.iter().any(|c| c.head == plus_minus) {
        remarks.push(format!("{plus_minus}: 95 % interval of the mean of the point's cells"));
    }
    if !left_out.is_empty() {
        remarks.push(format!(
            "columns hidden (terminal too narrow): {}; --json has all",
            left_out.join(", ")
        ));
    }
    lines.extend(remarks.iter().flat_map(|text| paragraph(text, Role::Dim, style)));
    lines
}

/// Whether rows list their kinds of operation separately: if there are several, or if they have service times.
pub(super) fn are_apart<'a>(rows: impl Iterator<Item = &'a Row>) -> bool {
    let mut kinds = rows.flat_map(|row| &row.kinds).peekable();
    let first = kinds.peek().map(|of| of.kind);
    kinds.any(|of| of.service.is_some() || Some(of.kind) != first)
}

/// The lines of a point.
fn lines_of(name: &str, row: &Row, are_apart: bool, style: Style) -> Vec<Line> {
    let role = role(row);
    let throughput = |per_s: f64| Field::figure(&human::throughput(per_s), role);
    let whole = Line {
        name: Field::Text(clean(name, 40, style), Role::Bold),
        kind: String::new(),
        iops: match row.iops {
            _ if row.skipped.is_some() => Field::Text("n/a".to_owned(), Role::Dim),
            Some(iops) => Field::figure(&human::count(iops), role),
            None => Field::Missing,
        },
        half_width: row.iops_half_width,
        throughput: row.bytes_per_s.map_or(Field::Missing, throughput),
        mean_ns: row.mean_ns,
        nines_ns: row.nines_ns.iter().map(|ns| ns.map(|ns| ns as f64)).collect(),
        max_ns: row.max_ns,
        role,
    };
    let with = |kind: String, latency: &Latency, role| Line {
        name: Field::Empty,
        kind,
        iops: Field::Empty,
        half_width: None,
        throughput: Field::Empty,
        mean_ns: latency.mean_ns,
        nines_ns: NINES.map(|(q, _)| latency.get(Quantity::Quantile(q))).to_vec(),
        max_ns: latency.max_ns,
        role,
    };
    let mut lines = Vec::new();
    for of in &row.kinds {
        let kind = of.kind.name();
        let response = if of.service.is_some() { " response" } else { "" };
        lines.push(Line {
            iops: Field::figure(&kinds::rate(of.kind, of.iops), role),
            throughput: match of.kind {
                OpKind::Flush => Field::Empty,
                _ => throughput(of.bytes_per_s),
            },
            ..with(format!("{kind}{response}"), &of.response_time, role)
        });
        let service = || format!("{} service", " ".repeat(kind.len()));
        lines.extend(of.service.as_ref().map(|of| with(service(), of, Role::Dim)));
    }
    match row.kinds.as_slice() {
        _ if !are_apart => vec![whole],
        [] => vec![whole],
        // A single kind is the same as the whole.
        [_] => {
            let kind = std::mem::take(&mut lines[0].kind);
            lines[0] = Line { kind, ..whole };
            lines
        }
        _ => [Line { kind: "all".to_owned(), ..whole }].into_iter().chain(lines).collect(),
    }
}
