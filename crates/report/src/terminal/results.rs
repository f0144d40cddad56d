//! The table of results.
//!
//! On a wide terminal a cell is one line for each kind of operation, with its name and conditions in front.
//! Otherwise the name and the conditions have a line of their own, and a note lists the columns that do not
//! fit.

use super::certainty::{self, Known};
use super::name_of;
use super::spark;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{Cell, CellKey, KindSummary, Latency, PERCENTILES, Summary};
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, clean_path, paint, paragraph, width};
use iodyno_units::{OpKind, human};
use std::borrow::Cow;

const NAME_COLUMNS_MAX: usize = 28;
const TARGET_COLUMNS_MAX: usize = 24;
const SPARK_COLUMNS_MAX: usize = 16;

/// One row: a kind of operation in a cell, or the service times under its response times.
struct Row<'a> {
    cell: &'a Cell,
    /// Whether it is the first of its cell.
    is_first: bool,
    kind: Option<&'a KindSummary>,
    /// The service times of an open loop, without rates.
    is_service: bool,
}

pub(super) fn lines(run: &Run, style: Style) -> Vec<String> {
    let figures: Vec<Summary> = run.cells.iter().map(Summary::of).collect();
    let mut rows = Vec::new();
    for (cell, figures) in run.cells.iter().zip(&figures) {
        let first = rows.len();
        for kind in &figures.kinds {
            rows.push(Row { cell, is_first: false, kind: Some(kind), is_service: false });
            if kind.service.is_some() {
                rows.push(Row { cell, is_first: false, kind: Some(kind), is_service: true });
            }
        }
        if figures.kinds.is_empty() {
            rows.push(Row { cell, is_first: false, kind: None, is_service: false });
        }
        rows[first].is_first = true;
    }
    let numbers = numbers(run, &rows, style);
    let mut wide = names(run, &rows, style);
    wide.extend(numbers.clone());
    wide.extend(over_time(&rows, style));
    // The wide form pays only if it includes the tail.
    let needed = wide.iter().filter(|c| c.rank <= RANK_TAIL);
    if table::total_width(needed) <= style.columns() {
        let left_out = table::fit(&mut wide, style.columns());
        return with_remark(table::lines(&wide, style), &left_out, style);
    }
    stacked(run, &rows, numbers, style)
}

/// The confidence of the percentiles, a line for each kind of operation.
pub(super) fn certainty(run: &Run, style: Style) -> Vec<String> {
    let mut rows = Vec::new();
    for cell in &run.cells {
        for kind in Summary::with_intervals(cell).kinds {
            let on = if has_several_targets(run) {
                format!(" on {}", clean_path(&cell.key.target, TARGET_COLUMNS_MAX, style))
            } else {
                String::new()
            };
            let shown = [0, 2, 3, 4, 5];
            rows.push(Known {
                name: format!("{} {}{on}", name_of(run, &cell.key), kind.kind.name()),
                within: shown
                    .map(|i| (PERCENTILES[i].label, kind.response_time.within[i]))
                    .to_vec(),
            });
        }
    }
    certainty::lines(&rows, style)
}

/// The rank of the last column that the wide form must have.
const RANK_TAIL: u8 = 5;

/// The columns of numbers, which both forms share.
fn numbers(run: &Run, rows: &[Row], style: Style) -> Vec<Column> {
    let time = |ns: Option<f64>, role| match ns {
        Some(ns) => Field::figure(&clean(&human::time_ns(ns), 12, style), role),
        None => Field::Missing,
    };
    let mut iops = Column::new("IOPS", 0);
    let mut throughput = Column::new("throughput", 0);
    let mut errors = Column::new("errors", 0);
    let mut mean = Column::new("mean", 2);
    let mut percentiles = [
        (0, Column::new(PERCENTILES[0].label, 4)),
        (2, Column::new(PERCENTILES[2].label, 1)),
        (3, Column::new(PERCENTILES[3].label, RANK_TAIL)),
        (4, Column::new(PERCENTILES[4].label, 7)),
    ];
    let mut max = Column::new("max", 3);
    let mut oio = Column::new("OIO", 6);
    for row in rows {
        let about_bandwidth = is_about_bandwidth(row.cell.key.block_bytes());
        let (of_iops, of_throughput) =
            if about_bandwidth { (Role::Plain, Role::Bold) } else { (Role::Bold, Role::Plain) };
        let latency = row.kind.map_or_else(Latency::default, |kind| match kind.service {
            Some(service) if row.is_service => service,
            _ => kind.response_time,
        });
        let role = if row.is_service { Role::Dim } else { Role::Plain };
        mean.fields.push(time(latency.mean_ns, role));
        for (i, column) in &mut percentiles {
            column.fields.push(time(latency.percentiles_ns[*i].map(|ns| ns as f64), role));
        }
        max.fields.push(time(latency.max_ns.map(|ns| ns as f64), role));
        oio.fields.push(if row.is_first {
            Field::figure(&oio_text(run, row.cell), Role::Plain)
        } else {
            Field::Empty
        });
        match row.kind {
            Some(_) if row.is_service => {
                for column in [&mut iops, &mut throughput, &mut errors] {
                    column.fields.push(Field::Empty);
                }
            }
            Some(kind) => {
                iops.fields.push(Field::figure(&human::count(kind.iops), of_iops));
                throughput.fields.push(match kind.kind {
                    OpKind::Flush => Field::Empty,
                    _ => Field::figure(&human::throughput(kind.bytes_per_s), of_throughput),
                });
                errors.fields.push(match kind.errors.total() {
                    0 => Field::Empty,
                    n => Field::figure(&n.to_string(), Role::Red),
                });
            }
            None => {
                iops.fields.push(Field::figure("0", of_iops));
                throughput.fields.push(Field::figure("0 B/s", of_throughput));
                errors.fields.push(Field::Empty);
            }
        }
    }
    let mut columns = vec![iops, throughput];
    if errors.fields.iter().any(|f| !matches!(f, Field::Empty)) {
        columns.push(errors);
    }
    columns.push(mean);
    columns.extend(percentiles.map(|(_, column)| column));
    columns.extend([max, oio]);
    columns
}

/// Achieved outstanding I/Os, and the requested number where that is guaranteed.
fn oio_text(run: &Run, cell: &Cell) -> String {
    let achieved = human::three_digits(cell.oio_mean());
    if cell.key.offered_iops.is_some() {
        return achieved;
    }
    let targets = if is_merged(cell) { run.head.targets.len().max(1) as u64 } else { 1 };
    let asked = u64::from(cell.key.threads) * u64::from(cell.key.depth) * targets;
    format!("{achieved} of {asked}")
}

fn is_merged(cell: &Cell) -> bool {
    cell.key.target.starts_with("all (")
}

/// The columns in front: cell, target where there are several, conditions, kind.
fn names(run: &Run, rows: &[Row], style: Style) -> Vec<Column> {
    let [mut cell, mut target, mut depth, mut block, mut kind] =
        std::array::from_fn(|_| Column::new("", 0));
    let mut last = None;
    for row in rows {
        let key = &row.cell.key;
        kind.fields.push(kind_field(row));
        if !row.is_first {
            for column in [&mut cell, &mut target, &mut depth, &mut block] {
                column.fields.push(Field::Empty);
            }
            continue;
        }
        let name = name_of(run, key);
        let shown = if last.as_ref() == Some(&name) { "" } else { &name };
        cell.fields.push(Field::Text(clean(shown, NAME_COLUMNS_MAX, style), Role::Bold));
        last = Some(name);
        let name = clean_path(&key.target, TARGET_COLUMNS_MAX, style);
        target.fields.push(Field::Text(name, Role::Plain));
        let (in_flight, blocks) = conditions(&row.cell.key);
        depth.fields.push(Field::Text(in_flight, Role::Dim));
        block.fields.push(Field::Text(blocks, Role::Dim));
    }
    if has_several_targets(run) {
        vec![cell, target, depth, block, kind]
    } else {
        vec![cell, depth, block, kind]
    }
}

fn has_several_targets(run: &Run) -> bool {
    run.cells.iter().any(|c| c.key.target != run.cells[0].key.target)
}

/// `T1Q32`, and `4 KiB`; in open loop with the offered rate.
pub(crate) fn conditions(key: &CellKey) -> (String, String) {
    let mut block = blocks(&key.blocks);
    if let Some(rate) = key.offered_iops {
        block = format!("{block} at {}/s", human::count(rate));
    }
    (format!("T{}Q{}", key.threads, key.depth), block)
}

/// `4 KiB`, `4/8/16 KiB`, or the smallest and the largest of many.
fn blocks(blocks: &[(u32, f64)]) -> String {
    let mut sizes: Vec<u32> = blocks.iter().map(|b| b.0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let text = |bytes: &u32| human::size(u64::from(*bytes));
    match sizes.as_slice() {
        [] => String::new(),
        [one] => text(one),
        [.., last] if sizes.len() <= 3 => {
            let last = text(last);
            let unit = last.rsplit(' ').next().unwrap_or_default();
            let short = |t: String| match t.strip_suffix(unit) {
                Some(number) => number.trim_end().to_owned(),
                None => t,
            };
            let mut parts: Vec<String> =
                sizes[..sizes.len() - 1].iter().map(|b| short(text(b))).collect();
            parts.push(last);
            parts.join("/")
        }
        [first, .., last] => format!("{} to {}", text(first), text(last)),
    }
}

fn kind_field(row: &Row) -> Field {
    let Some(figures) = row.kind else {
        return Field::Text("nothing".to_owned(), Role::Dim);
    };
    let name = match figures.kind {
        OpKind::WriteZeroes => "zeroes",
        kind => kind.name(),
    };
    if row.is_service {
        return Field::Text(format!("{} service", " ".repeat(name.len())), Role::Dim);
    }
    let response = if figures.service.is_some() { " response" } else { "" };
    Field::Text(format!("{name}{response}"), Role::Plain)
}

/// The sparklines, if any cell has one and the terminal can show them.
fn over_time(rows: &[Row], style: Style) -> Option<Column> {
    let mut column = Column::new("over time", 8);
    for row in rows.iter().filter(|_| style.unicode) {
        let line = spark::line(row.cell, SPARK_COLUMNS_MAX).filter(|_| row.is_first);
        column.fields.push(line.map_or(Field::Empty, |line| Field::Text(line, Role::Dim)));
    }
    column.fields.iter().any(|f| matches!(f, Field::Text(..))).then_some(column)
}

/// The form for narrow terminals.
fn stacked(run: &Run, rows: &[Row], mut numbers: Vec<Column>, style: Style) -> Vec<String> {
    // It stands beside the name.
    numbers.retain(|c| c.head != "OIO");
    let mut kind = Column::new("", 0);
    for row in rows {
        kind.fields.push(match kind_field(row) {
            Field::Text(text, role) => Field::Text(format!("  {text}"), role),
            other => other,
        });
    }
    let mut columns = vec![kind];
    columns.extend(numbers);
    let left_out = table::fit(&mut columns, style.columns());
    let mut table = table::lines(&columns, style).into_iter();
    let mut lines: Vec<String> = table.next().into_iter().collect();
    for (row, line) in rows.iter().zip(table) {
        if row.is_first {
            lines.push(heading(run, row.cell, style));
        }
        lines.push(line);
    }
    with_remark(lines, &left_out, style)
}

/// A cell's name, target, conditions and sparkline, as far as they fit.
fn heading(run: &Run, cell: &Cell, style: Style) -> String {
    let mut name =
        clean(&name_of(run, &cell.key), NAME_COLUMNS_MAX.min(style.columns() / 2), style);
    if has_several_targets(run) {
        let left = style.columns().saturating_sub(width(&name) + 4);
        let target = clean_path(&cell.key.target, TARGET_COLUMNS_MAX.min(left), style);
        name = format!("{name} on {target}");
    }
    let mut used = width(&name);
    let mut line = paint(&name, Role::Bold, style);
    let (in_flight, block) = conditions(&cell.key);
    let parts = [format!("{in_flight} {block}"), format!("OIO {}", oio_text(run, cell))];
    let spark = if style.unicode { spark::line(cell, SPARK_COLUMNS_MAX) } else { None };
    for part in parts.into_iter().chain(spark) {
        if used + 2 + width(&part) <= style.columns() {
            used += 2 + width(&part);
            line = format!("{line}  {}", paint(&part, Role::Dim, style));
        }
    }
    line
}

fn with_remark(
    mut lines: Vec<String>,
    left_out: &[Cow<'static, str>],
    style: Style,
) -> Vec<String> {
    // A sparkline is no figure that readers miss.
    let figures: Vec<&str> = left_out.iter().map(|h| &**h).filter(|h| *h != "over time").collect();
    if !figures.is_empty() {
        let text = format!("no room here for {}", figures.join(", "));
        lines.extend(paragraph(&text, Role::Dim, style));
    }
    lines
}
