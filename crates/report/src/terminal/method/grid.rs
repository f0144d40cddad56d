//! A grid as terminal text: over two axes as matrices of rates and of latencies, else a line a point.

use iodyno_measure::Level;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_method::findings::{NINES, Row, Table};
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, paint};
use iodyno_units::{human, parse_size};

/// Values that an axis of a matrix may have to fit side by side.
const MATRIX_COLUMNS_MAX: usize = 9;

/// The rows with their names: their position on the axes, or the name of the stage where there is no axis.
pub(super) fn named<'a>(stage: &str, table: &'a Table) -> Vec<(String, &'a Row)> {
    let name = |row: &Row| if row.at.is_empty() { stage.to_owned() } else { row.at.join(" ") };
    table.rows.iter().map(|row| (name(row), row)).collect()
}

pub(super) fn lines(stage: &str, table: &Table, style: Style) -> Vec<String> {
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
    lines
}

/// The values of an axis, in their order.
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

/// The first axis across, the second down.
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
    lines.extend(table::lines(&columns, style));
    lines
}

fn role(row: &Row) -> Role {
    match row.level {
        Some(Level::Invalid) => Role::Red,
        Some(Level::Warning) => Role::Yellow,
        _ => Role::Plain,
    }
}

/// A line for each point with all its figures.
pub(super) fn figures(name: &str, rows: &[(String, &Row)], style: Style) -> Vec<String> {
    let mut names = Column::new(clean(name, 40, style), 0);
    let mut iops = Column::new("IOPS", 0);
    let plus_minus = if style.unicode { "±" } else { "+-" };
    let mut half_width = Column::new(plus_minus, 6);
    let mut throughput = Column::new("throughput", 3);
    let mut mean = Column::new("mean", 1);
    let mut nines: Vec<Column> = NINES
        .iter()
        .zip([5, 2, 4, 7, 8])
        .map(|((_, label), rank)| Column::new(*label, rank))
        .collect();
    let mut max = Column::new("max", 9);
    let time = |ns: Option<f64>, role| match ns {
        Some(ns) => Field::figure(&clean(&human::time_ns(ns), 12, style), role),
        None => Field::Missing,
    };
    for (name, row) in rows {
        let role = role(row);
        names.fields.push(Field::Text(clean(name, 40, style), Role::Bold));
        if row.skipped.is_some() {
            iops.fields.push(Field::Text("n/a".to_owned(), Role::Dim));
        } else {
            iops.fields
                .push(row.iops.map_or(Field::Missing, |x| Field::figure(&human::count(x), role)));
        }
        half_width.fields.push(row.iops_half_width.map_or(Field::Empty, |share| {
            Field::figure(&format!("{} %", human::three_digits(share * 100.0)), Role::Dim)
        }));
        throughput.fields.push(
            row.bytes_per_s.map_or(Field::Missing, |x| Field::figure(&human::throughput(x), role)),
        );
        mean.fields.push(time(row.mean_ns, role));
        for (i, column) in nines.iter_mut().enumerate() {
            let ns = row.nines_ns.get(i).copied().flatten();
            column.fields.push(time(ns.map(|ns| ns as f64), role));
        }
        max.fields.push(time(row.max_ns.map(|ns| ns as f64), role));
    }
    let mut columns = vec![names, iops];
    if half_width.fields.iter().any(|f| !matches!(f, Field::Empty)) {
        columns.push(half_width);
    }
    columns.extend([throughput, mean]);
    columns.extend(nines);
    columns.push(max);
    let has_half_width = |columns: &[Column]| columns.iter().any(|c| c.head == plus_minus);
    let left_out = table::fit(&mut columns, style.columns());
    let mut lines = table::lines(&columns, style);
    if has_half_width(&columns) {
        let text = format!("{plus_minus}: 95 % interval of the mean of the point's cells");
        lines.push(paint(&text, Role::Dim, style));
    }
    if !left_out.is_empty() {
        let text = format!("left out for want of width: {}", left_out.join(", "));
        lines.push(paint(&text, Role::Dim, style));
    }
    lines
}
