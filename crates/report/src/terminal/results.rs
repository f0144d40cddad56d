//! Formats the table of results.
//!
//! A row shows one kind of operation in one measured cell. Columns are chosen by importance to fit the width. The
//! conditions of a cell are columns of its row, or a line below or above the row, whichever leaves most space.

use super::certainty::{self, Known};
use super::spark;
use super::{Detail, NAME_COLUMNS_MAX, TARGET_COLUMNS_MAX, label_of, name_of, short_label_of};
use crate::interval_words;
use crate::kinds;
use iodyno_measure::stationarity::mean_rate;
use iodyno_measure::summary::is_about_bandwidth;
use iodyno_measure::{Cell, CellKey, Interval, KindSummary, Latency, PERCENTILES, Summary};
use iodyno_notebook::Run;
use iodyno_page::terminal::text::{Role, clean, clean_path, paint, paragraph, width};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell as Field, Column, Quantity, Table, Tone};
use iodyno_units::{OpKind, human};

const SPARK_COLUMNS_MAX: usize = 16;
/// Maximum number of targets of a cell that are shown individually.
const TARGETS_MAX: usize = 8;

/// A row of the table of results: one kind of operation in a cell, or that kind's service times.
struct Row<'a> {
    cell: &'a Cell,
    /// Whether the row is the first of its cell.
    is_first: bool,
    /// Whether the row is the last of its cell.
    is_last: bool,
    kind: Option<&'a KindSummary>,
    /// Whether the row shows the service times of an open-loop cell, without rates.
    is_service: bool,
}

/// Selects the cells to show. A cell on many targets is reduced to the merged cell and the cells of the
/// slowest and the fastest target.
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
        let text = "targets shown: all together, and those with the lowest and the highest IOPS; -v shows each";
        lines.extend(paragraph(text, Role::Dim, style));
    }
    lines
}

/// Index of the cell's label in [`every_column`].
const LABEL: usize = 0;
/// Index of the cell's name in [`every_column`].
const NAME: usize = 1;
/// Index of the target in [`every_column`].
const TARGET: usize = 2;
/// Index of the kind of operation in [`every_column`].
const KIND: usize = 5;

/// Formats the table in the widest of three layouts that does not hide more columns than the narrowest layout.
fn table(run: &Run, rows: &[Row], style: Style) -> Vec<String> {
    let all = every_column(run, rows, style);
    let is_condition =
        |i: usize| (NAME..KIND).contains(&i) || CONDITIONS.contains(&&*all.columns[i].title);
    let form = |keeps: &dyn Fn(usize) -> bool, indent: usize| {
        let chosen = all.selected(|i, _| keeps(i)).without_blank_columns();
        let available = style.columns() - indent;
        let (fitted, hidden) = table::fit(&chosen, available, style);
        let fits = table::total_width(&fitted, style) <= available;
        (fitted, hidden, fits)
    };
    let (under_name, least, _) = form(&|i| i >= KIND && !is_condition(i), INDENT.len());
    let several = has_several_targets(run);
    let (wide, hidden, fits) = form(&|i| i != LABEL && (several || i != TARGET), 0);
    if fits && hidden == least {
        return with_remark(table::lines(&wide, style), &least, style);
    }
    let (beside_name, hidden, fits) = form(&|i| !is_condition(i), 0);
    let is_beside = fits && hidden == least;
    let (columns, indent) = if is_beside { (&beside_name, "") } else { (&under_name, INDENT) };
    let mut table = table::lines(columns, style).into_iter().map(|line| format!("{indent}{line}"));
    let mut lines: Vec<String> = table.next().into_iter().collect();
    let label = |row: &Row| label_of(run, &row.cell.key, style.columns(), style);
    let labels = rows.iter().map(|row| width(&label(row))).max().unwrap_or(0);
    for (row, line) in rows.iter().zip(table) {
        let behind = |start: &str, role| conditions_behind(start, role, run, row.cell, style);
        if row.is_first && !is_beside {
            lines.extend(behind(&label(row), Role::Bold));
        }
        lines.push(line);
        if row.is_last && is_beside {
            lines.extend(behind(&" ".repeat(labels), Role::Plain));
        }
    }
    with_remark(lines, &least, style)
}

/// Indentation of a row under the name of its cell.
const INDENT: &str = "  ";
/// Titles of the columns that narrow layouts show on a separate line.
const CONDITIONS: [&str; 2] = ["OIO", OVER_TIME];
/// Title of the column of sparklines.
const OVER_TIME: &str = "over time";

/// Formats the confidence intervals of rates and percentiles, one line per cell and kind of operation.
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

/// Confidence interval of the mean rate of one kind of operation, with the title of its column. The rate is a
/// throughput if the blocks are large, otherwise IOPS.
fn mean_rate_of(cell: &Cell, kind: OpKind) -> Option<(&'static str, String)> {
    let by_bytes = is_about_bandwidth(cell.key.block_bytes()) && kind != OpKind::Flush;
    let amount = |interval: &Interval| {
        interval.class(kind).map_or(0, |class| if by_bytes { class.bytes } else { class.ops() })
    };
    let interval = mean_rate(cell, amount)?.interval;
    let (low, high) = (interval.low.max(0.0), interval.high);
    let (title, human): (_, fn(f64) -> String) =
        if by_bytes { ("throughput", human::throughput) } else { ("IOPS", human::count) };
    Some((title, interval_words::of_rate(low, high, human)))
}

/// Builds the table with all columns; each layout selects some of them.
fn every_column(run: &Run, rows: &[Row], style: Style) -> Table {
    let percentile = |i: usize, rank| Column::numbers(PERCENTILES[i].label, "ns").ranked(rank);
    let mut table = Table::new([
        Column::words(""),
        Column::words(""),
        Column::words(""),
        Column::words(""),
        Column::words(""),
        Column::words(""),
        Column::numbers("IOPS", "1/s"),
        Column::numbers("throughput", "bytes/s"),
        Column::numbers("errors", ""),
        Column::numbers("mean", "ns").ranked(2),
        percentile(0, 4),
        percentile(2, 1),
        percentile(3, 5),
        percentile(4, 7),
        Column::numbers("max", "ns").ranked(3),
        Column::numbers(CONDITIONS[0], "").ranked(6),
        Column::words(OVER_TIME).ranked(8),
    ]);
    let mut last = None;
    for row in rows {
        let mut cells = labels(run, row, last.as_deref(), style);
        if row.is_first {
            last = Some(name_of(run, &row.cell.key));
        }
        cells.push(kind_field(row));
        cells.extend(rates(row));
        let latency = row.kind.map_or_else(Latency::default, |kind| match kind.service {
            Some(service) if row.is_service => service,
            _ => kind.response_time,
        });
        let tone = if row.is_service { Tone::Dim } else { Tone::Plain };
        let whole = |ns: Option<u64>| ns.map(|ns| ns as f64);
        let percentiles = [0, 2, 3, 4].map(|i| whole(latency.percentiles_ns[i]));
        let times = [latency.mean_ns].into_iter().chain(percentiles).chain([whole(latency.max_ns)]);
        cells.extend(times.map(|ns| {
            ns.map_or_else(Field::none, |ns| Field::of(Quantity::LatencyNs, ns).toned(tone))
        }));
        let spark = spark::line(row.cell, SPARK_COLUMNS_MAX).filter(|_| style.unicode);
        if row.is_first {
            cells.push(Field::words(oio_text(run, row.cell)));
            cells.push(Field::words(spark.unwrap_or_default()).toned(Tone::Dim));
        }
        table.push(cells);
    }
    table
}

/// Fields with the rate, throughput and errors of a row.
fn rates(row: &Row) -> [Field; 3] {
    let (of_iops, of_throughput) = if is_about_bandwidth(row.cell.key.block_bytes()) {
        (Tone::Plain, Tone::Strong)
    } else {
        (Tone::Strong, Tone::Plain)
    };
    let Some(kind) = row.kind else {
        let nothing = |text, tone| Field::number(text, 0.0).toned(tone);
        return [nothing("0", of_iops), nothing("0 B/s", of_throughput), Field::empty()];
    };
    if row.is_service {
        return <[Field; 3]>::default();
    }
    [
        Field::number(kinds::rate(kind.kind, kind.iops), kind.iops).toned(of_iops),
        match kind.kind {
            OpKind::Flush => Field::empty(),
            _ => Field::of(Quantity::Throughput, kind.bytes_per_s).toned(of_throughput),
        },
        match kind.errors.total() {
            0 => Field::empty(),
            n => Field::number(n.to_string(), n as f64).toned(Tone::Bad),
        },
    ]
}

/// Achieved mean number of outstanding I/Os and the requested number: `31.8 of 32`. In open loop, only the
/// achieved number.
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

/// First fields of a row: label, name (empty if it equals `last`), target, depth and block sizes. All are
/// empty unless the row is the first of its cell.
fn labels(run: &Run, row: &Row, last: Option<&str>, style: Style) -> Vec<Field> {
    if !row.is_first {
        return vec![Field::empty(); KIND];
    }
    let key = &row.cell.key;
    let name = name_of(run, key);
    let shown = if last == Some(name.as_str()) { "" } else { &name };
    let (in_flight, blocks) = conditions_of_cell(row.cell);
    vec![
        Field::words(label_of(run, key, style.columns(), style)).toned(Tone::Strong),
        Field::words(clean(shown, NAME_COLUMNS_MAX, style)).toned(Tone::Strong),
        Field::words(clean_path(&key.target, TARGET_COLUMNS_MAX, style)),
        Field::words(in_flight).toned(Tone::Dim),
        Field::words(blocks).toned(Tone::Dim),
    ]
}

fn has_several_targets(run: &Run) -> bool {
    run.cells.iter().any(|c| c.key.target != run.cells[0].key.target)
}

/// Formats the conditions of a cell as [`conditions`]. A message log writes chunks of any size up to its block.
pub(crate) fn conditions_of_cell(cell: &Cell) -> (String, String) {
    let (in_flight, block) = conditions(&cell.key);
    let limits = if cell.log.is_some() { "chunks of at most " } else { "" };
    (in_flight, format!("{limits}{block}"))
}

/// Formats threads and depth (`T1Q32`), and block sizes (`4 KiB`), followed by the offered rate in open loop.
pub(crate) fn conditions(key: &CellKey) -> (String, String) {
    let mut block = blocks(&key.blocks);
    if let Some(rate) = key.offered_iops {
        block = format!("{block} at {}/s", human::count(rate));
    }
    (format!("T{}Q{}", key.threads, key.depth), block)
}

/// Formats block sizes: `4 KiB`, `4/8/16 KiB`, or the smallest and largest if there are many.
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
    let Some(figures) = row.kind else { return Field::words("nothing").toned(Tone::Dim) };
    let name = match figures.kind {
        OpKind::WriteZeroes => "zeroes",
        kind => kind.name(),
    };
    if row.is_service {
        return Field::words(format!("{} service", " ".repeat(name.len()))).toned(Tone::Dim);
    }
    Field::words(if figures.service.is_some() {
        format!("{name} response")
    } else {
        name.to_owned()
    })
}

/// Adds a cell's conditions and sparkline after `start`, or on the next line if they do not fit.
fn conditions_behind(start: &str, role: Role, run: &Run, cell: &Cell, style: Style) -> Vec<String> {
    let (in_flight, block) = conditions_of_cell(cell);
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

/// Adds a remark with the titles of hidden columns, except for the sparklines, which are not essential.
fn with_remark(mut lines: Vec<String>, hidden: &[String], style: Style) -> Vec<String> {
    let figures: Vec<String> = hidden.iter().filter(|it| *it != OVER_TIME).cloned().collect();
    lines.extend(table::remark(&figures, style));
    lines
}
