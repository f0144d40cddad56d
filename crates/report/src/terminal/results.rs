//! The table of results.
//!
//! A row is a kind of operation in a cell. Columns are chosen by importance to fit the width. The conditions of a
//! cell are placed where they leave most room: in columns of the row, below it, or above it, with the name. So a
//! wider terminal never shows less.

use super::certainty::{self, Known};
use super::spark;
use super::{Detail, NAME_COLUMNS_MAX, TARGET_COLUMNS_MAX, label_of, name_of, short_label_of};
use crate::kinds;
use iodyno_measure::stationarity::mean_rate;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{Cell, CellKey, Interval, KindSummary, Latency, PERCENTILES, Summary};
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, clean_path, paint, paragraph, width};
use iodyno_units::{OpKind, human};
use std::borrow::Cow;

const SPARK_COLUMNS_MAX: usize = 16;
/// Maximum number of targets of a cell that are shown individually.
const TARGETS_MAX: usize = 8;

/// One row: a kind of operation in a cell, or its service times below its response times.
struct Row<'a> {
    cell: &'a Cell,
    /// Whether the row is the first of its cell.
    is_first: bool,
    /// Whether the row is the last of its cell.
    is_last: bool,
    kind: Option<&'a KindSummary>,
    /// Whether the row has the service times of an open loop, without rates.
    is_service: bool,
}

/// The cells to show: all, or, for a cell on many targets, the merged one and those of the slowest and the fastest
/// target.
pub(super) fn shown_cells(run: &Run, detail: Detail) -> Vec<&Cell> {
    let mut shown: Vec<&Cell> = Vec::new();
    let mut cells = run.cells.iter().peekable();
    while let Some(first) = cells.next() {
        let is_same =
            |cell: &&Cell| cell.key.name == first.key.name && cell.key.repeat == first.key.repeat;
        let mut group = vec![first];
        while let Some(cell) = cells.next_if(is_same) {
            group.push(cell);
        }
        let merged = group.last().copied().filter(|cell| cell.key.is_of_all_targets());
        let Some(merged) = merged.filter(|_| group.len() > TARGETS_MAX + 1 && !detail.all) else {
            shown.extend(group);
            continue;
        };
        group.pop();
        let rate = |cell: &&&Cell| cell.iops();
        let of = |a: &&&Cell, b: &&&Cell| rate(a).total_cmp(&rate(b));
        shown.push(merged);
        shown.extend(group.iter().min_by(of));
        shown.extend(group.iter().max_by(of));
    }
    shown
}

pub(super) fn lines(run: &Run, cells: &[&Cell], style: Style) -> Vec<String> {
    let figures: Vec<Summary> = cells.iter().map(|cell| Summary::of(cell)).collect();
    let mut rows = Vec::new();
    for (cell, figures) in cells.iter().zip(&figures) {
        let first = rows.len();
        let row =
            |kind, is_service| Row { cell, is_first: false, is_last: false, kind, is_service };
        for kind in &figures.kinds {
            rows.push(row(Some(kind), false));
            rows.extend(kind.service.is_some().then(|| row(Some(kind), true)));
        }
        if figures.kinds.is_empty() {
            rows.push(row(None, false));
        }
        rows[first].is_first = true;
        rows.last_mut().expect("there is a row").is_last = true;
    }
    let mut lines = table(run, &rows, style);
    if cells.len() < run.cells.len() {
        let text = "of the targets: all together, the one with the least IOPS, and the one with the most; -v shows each";
        lines.extend(paragraph(text, Role::Dim, style));
    }
    lines
}

/// The table in the first form that shows as many columns as the narrowest form.
fn table(run: &Run, rows: &[Row], style: Style) -> Vec<String> {
    let (numbers, conditions) = numbers(run, rows, style);
    let fitted = |mut columns: Vec<Column>| {
        let left_out = table::fit(&mut columns, style.columns());
        let fits = table::total_width(&columns) <= style.columns();
        (columns, left_out, fits)
    };
    let kinds =
        |indent: &str| Column::unnamed(rows.iter().map(|row| kind_field(row, indent)).collect());
    let (under_name, least, _) = fitted([vec![kinds("  ")], numbers.clone()].concat());
    let (wide, left_out, fits) =
        fitted([names(run, rows, style), numbers.clone(), conditions].concat());
    if fits && left_out == least {
        return with_remark(table::lines(&wide, style), &least, style);
    }
    let name = |row: &Row| label_of(run, &row.cell.key, style.columns(), style);
    let label = |row: &Row| {
        if row.is_first { Field::Text(name(row), Role::Bold) } else { Field::Empty }
    };
    let labels = Column::unnamed(rows.iter().map(label).collect());
    let indent = " ".repeat(labels.width());
    let (beside_name, left_out, fits) = fitted([vec![labels, kinds("")], numbers].concat());
    let is_beside = fits && left_out == least;
    let columns = if is_beside { &beside_name } else { &under_name };
    let mut table = table::lines(columns, style).into_iter();
    let mut lines: Vec<String> = table.next().into_iter().collect();
    for (row, line) in rows.iter().zip(table) {
        let name = || label_of(run, &row.cell.key, style.columns(), style);
        let behind = |start: &str, role| conditions_behind(start, role, run, row.cell, style);
        if row.is_first && !is_beside {
            lines.extend(behind(&name(), Role::Bold));
        }
        lines.push(line);
        if row.is_last && is_beside {
            lines.extend(behind(&indent, Role::Plain));
        }
    }
    with_remark(lines, &least, style)
}

/// The confidence intervals of the rates and percentiles, one line per kind of operation.
pub(super) fn certainty(run: &Run, cells: &[&Cell], style: Style) -> Vec<String> {
    let mut rows = Vec::new();
    for cell in cells {
        for kind in Summary::with_intervals(cell).kinds {
            let shown = [0, 2, 3, 4, 5];
            rows.push(Known {
                name: format!("{} {}", short_label_of(run, &cell.key, style), kind.kind.name()),
                rate: mean_rate_of(cell, kind.kind),
                within: shown
                    .map(|i| (PERCENTILES[i].label, kind.response_time.within[i]))
                    .to_vec(),
            });
        }
    }
    certainty::lines(&rows, style)
}

/// The interval of one kind's mean rate; of its throughput if the blocks are large.
fn mean_rate_of(cell: &Cell, kind: OpKind) -> Option<(&'static str, String)> {
    let by_bytes = is_about_bandwidth(cell.key.block_bytes()) && kind != OpKind::Flush;
    let amount = |interval: &Interval| {
        interval.class(kind).map_or(0, |class| if by_bytes { class.bytes } else { class.ops() })
    };
    let interval = mean_rate(cell, amount)?.interval;
    let (low, high) = (interval.low.max(0.0), interval.high);
    Some(if by_bytes {
        ("throughput", certainty::range(&human::throughput(low), &human::throughput(high)))
    } else {
        ("IOPS", certainty::range(&human::count(low), &human::count(high)))
    })
}

/// The columns of numbers, which all forms share, and the columns of conditions, which only the wide form has.
fn numbers(run: &Run, rows: &[Row], style: Style) -> (Vec<Column>, Vec<Column>) {
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
        (3, Column::new(PERCENTILES[3].label, 5)),
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
                iops.fields.push(Field::figure(&kinds::rate(kind.kind, kind.iops), of_iops));
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
    // Omit columns that are empty in all rows.
    columns.retain(|c| !c.fields.iter().all(|f| matches!(f, Field::Missing)));
    columns.push(max);
    (columns, [Some(oio), over_time(rows, style)].into_iter().flatten().collect())
}

/// Achieved outstanding I/Os, and the requested number if that is guaranteed.
fn oio_text(run: &Run, cell: &Cell) -> String {
    let achieved = human::three_digits(cell.oio_mean());
    if cell.key.offered_iops.is_some() {
        return achieved;
    }
    let is_merged = cell.key.is_of_all_targets();
    let targets = if is_merged { run.head.targets.len().max(1) as u64 } else { 1 };
    let asked = u64::from(cell.key.threads) * u64::from(cell.key.depth) * targets;
    format!("{achieved} of {asked}")
}

/// The leading columns: cell, target if there are several, conditions, kind.
fn names(run: &Run, rows: &[Row], style: Style) -> Vec<Column> {
    let [mut cell, mut target, mut depth, mut block, mut kind] =
        std::array::from_fn(|_| Column::new("", 0));
    let mut last = None;
    for row in rows {
        let key = &row.cell.key;
        kind.fields.push(kind_field(row, ""));
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

/// Threads with depth, and block sizes: `T1Q32`, `4 KiB`; in open loop with the offered rate.
pub(crate) fn conditions(key: &CellKey) -> (String, String) {
    let mut block = blocks(&key.blocks);
    if let Some(rate) = key.offered_iops {
        block = format!("{block} at {}/s", human::count(rate));
    }
    (format!("T{}Q{}", key.threads, key.depth), block)
}

/// Block sizes: `4 KiB`, `4/8/16 KiB`, or the smallest and the largest of many.
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

fn kind_field(row: &Row, indent: &str) -> Field {
    let Some(figures) = row.kind else {
        return Field::Text(format!("{indent}nothing"), Role::Dim);
    };
    let name = match figures.kind {
        OpKind::WriteZeroes => "zeroes",
        kind => kind.name(),
    };
    if row.is_service {
        let blanks = " ".repeat(name.len());
        return Field::Text(format!("{indent}{blanks} service"), Role::Dim);
    }
    let response = if figures.service.is_some() { " response" } else { "" };
    Field::Text(format!("{indent}{name}{response}"), Role::Plain)
}

/// The column of sparklines; None if no cell has one or the terminal can't show them.
fn over_time(rows: &[Row], style: Style) -> Option<Column> {
    let mut column = Column::new("over time", 8);
    for row in rows.iter().filter(|_| style.unicode) {
        let line = spark::line(row.cell, SPARK_COLUMNS_MAX).filter(|_| row.is_first);
        column.fields.push(line.map_or(Field::Empty, |line| Field::Text(line, Role::Dim)));
    }
    column.fields.iter().any(|f| matches!(f, Field::Text(..))).then_some(column)
}

/// A cell's conditions and sparkline after `start`, or on the line below if they do not fit.
fn conditions_behind(start: &str, role: Role, run: &Run, cell: &Cell, style: Style) -> Vec<String> {
    let (in_flight, block) = conditions(&cell.key);
    let mut parts = vec![format!("{in_flight} {block}"), format!("OIO {}", oio_text(run, cell))];
    parts.extend(spark::line(cell, SPARK_COLUMNS_MAX).filter(|_| style.unicode));
    let needed: usize = parts.iter().map(|part| 2 + width(part)).sum();
    let mut lines = vec![paint(start, role, style)];
    let mut used = width(start);
    if used + needed > style.columns() {
        used = 0;
        lines.push(String::new());
    }
    for part in parts {
        if used + 2 + width(&part) <= style.columns() {
            used += 2 + width(&part);
            let line = lines.last_mut().expect("there is a line");
            *line = format!("{line}  {}", paint(&part, Role::Dim, style));
        }
    }
    lines.retain(|line| !line.trim().is_empty());
    lines
}

fn with_remark(
    mut lines: Vec<String>,
    left_out: &[Cow<'static, str>],
    style: Style,
) -> Vec<String> {
    // Readers don't miss a sparkline.
    let figures: Vec<&str> = left_out.iter().map(|h| &**h).filter(|h| *h != "over time").collect();
    if !figures.is_empty() {
        let text =
            format!("columns hidden (terminal too narrow): {}; --json has all", figures.join(", "));
        lines.extend(paragraph(&text, Role::Dim, style));
    }
    lines
}
