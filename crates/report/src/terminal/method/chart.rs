//! Chart of a sweep over one axis: rate and latency of each point as text bars that begin at zero.

use crate::method_headlines::is_large;
use crate::verdict_groups::tone_of_point;
use iodyno_measure::{KindSummary, Latency, Quantity};
use iodyno_method::findings::{Row, Table as Grid};
use iodyno_page::terminal::text::{clean, pad, width};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell, Column, Table, Tone};
use iodyno_units::{OpKind, human};

/// Minimum and maximum number of points in a chart. Fewer are clear from the table; more do not fit a screen.
const POINTS: (usize, usize) = (3, 32);
/// Minimum and maximum width of a bar, in terminal columns.
const BAR_COLUMNS: (usize, usize) = (10, 40);
/// Characters that fill zero to seven eighths of a column.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A panel of the chart, which shows one quantity for all points.
struct Panel {
    name: String,
    values: Vec<Option<f64>>,
    in_words: fn(f64) -> String,
}

/// Draws the chart of a table with exactly one axis; empty for other tables. `marks` are remarks on rows, by
/// index.
pub(super) fn lines(table: &Grid, marks: &[(usize, &'static str)], style: Style) -> Vec<String> {
    let points = table.rows.iter().filter(|row| row.iops.is_some()).count();
    let [axis] = table.axes.as_slice() else { return Vec::new() };
    if points < POINTS.0 || table.rows.len() > POINTS.1 {
        return Vec::new();
    }
    let name = |row: &Row| clean(row.at.first().map_or("", String::as_str), 16, style);
    let axis = clean(axis, 16, style);
    let longest =
        table.rows.iter().map(|row| width(&name(row))).max().unwrap_or(0).max(width(&axis));
    let mut chart = Table::new([Column::words(axis)]);
    for row in &table.rows {
        chart.push([Cell::words(pad(&name(row), longest, true)).toned(Tone::Strong)]);
    }
    let word = |row: usize| marks.iter().find(|(at, _)| *at == row).map_or("", |mark| mark.1);
    let words = (0..table.rows.len()).map(|row| width(word(row))).max().unwrap_or(0);
    let rates = rates(table);
    let latencies = latencies(table);
    let slowest = latencies.iter().map(Panel::most).fold(0.0, f64::max);
    let panels = rates.len() + latencies.len();
    let left = style.columns().saturating_sub(longest + 2 + words);
    let bar_columns = (left / panels).saturating_sub(2).clamp(BAR_COLUMNS.0, BAR_COLUMNS.1);
    let of_rates = rates.iter().map(|panel| (panel, panel.most()));
    // Latencies of several kinds share one scale.
    let all = of_rates.chain(latencies.iter().map(|panel| (panel, slowest)));
    for (i, (panel, most)) in all.enumerate() {
        let head = format!("{} to {}", panel.name, (panel.in_words)(most));
        chart.columns.push(Column::words(head).ranked(i as u8));
        for ((value, row), shown) in panel.values.iter().zip(&table.rows).zip(&mut chart.rows) {
            let share = value.filter(|_| most > 0.0).map_or(0.0, |value| value / most);
            let bar = bar(share, bar_columns, style);
            shown.cells.push(Cell::words(bar).toned(tone_of_point(row)));
        }
    }
    chart.columns.push(Column::words("").ranked(1));
    for (i, shown) in chart.rows.iter_mut().enumerate() {
        shown.cells.push(Cell::words(word(i)).toned(Tone::Good));
    }
    table::fitted(&chart, style)
}

impl Panel {
    fn most(&self) -> f64 {
        self.values.iter().flatten().copied().fold(0.0, f64::max)
    }
}

/// Panels with the rates of the points: IOPS, and throughput where it is more informative.
fn rates(table: &Grid) -> Vec<Panel> {
    let of = |name: &str, value: fn(&Row) -> Option<f64>, in_words| Panel {
        name: name.to_owned(),
        values: table.rows.iter().map(value).collect(),
        in_words,
    };
    let throughput = || of("throughput", |row| row.bytes_per_s, human::throughput);
    if table.rows.iter().all(|row| row.iops.is_none() || is_large(row, &table.axes)) {
        return vec![throughput()];
    }
    let mut rates = vec![of("IOPS", |row| row.iops, human::count)];
    rates.extend((table.axes[0] == "block").then(throughput));
    rates
}

/// Panels with the p99 latency of each kind of operation. The mean is shown instead if any point has too few
/// samples for p99.
fn latencies(table: &Grid) -> Vec<Panel> {
    let kinds: Vec<OpKind> = OpKind::ALL
        .into_iter()
        .filter(|kind| table.rows.iter().flat_map(|row| &row.kinds).any(|of| of.kind == *kind))
        .collect();
    let latency = |row: &Row, kind: Option<OpKind>, quantity| match kind {
        Some(kind) => {
            let of = row.kinds.iter().find(|of| of.kind == kind);
            of.map(|of: &KindSummary| &of.response_time).and_then(|l: &Latency| l.get(quantity))
        }
        None if quantity == Quantity::Mean => row.mean_ns,
        None => row.nines_ns.get(1).copied().flatten().map(|ns| ns as f64),
    };
    let panels = |quantity: Quantity| {
        let of = |kind: Option<OpKind>| Panel {
            name: kind.map_or(quantity.to_string(), |kind| format!("{} {quantity}", kind.name())),
            values: table.rows.iter().map(|row| latency(row, kind, quantity)).collect(),
            in_words: human::time_ns,
        };
        match kinds.as_slice() {
            [] | [_] => vec![of(None)],
            several => several.iter().map(|kind| of(Some(*kind))).collect::<Vec<_>>(),
        }
    };
    let (p99, mean) = (panels(Quantity::Quantile(0.99)), panels(Quantity::Mean));
    let known = |panels: &[Panel]| panels.iter().flat_map(|p| &p.values).flatten().count();
    if known(&p99) == known(&mean) { p99 } else { mean }
}

/// Draws a bar that fills the fraction `share` of `columns`. Any fraction above zero is visible.
fn bar(share: f64, columns: usize, style: Style) -> String {
    let least = usize::from(share > 0.0);
    if !style.unicode {
        return "#".repeat(((share * columns as f64).round() as usize).max(least));
    }
    let eighths = ((share * columns as f64 * 8.0).round() as usize).max(least);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}
