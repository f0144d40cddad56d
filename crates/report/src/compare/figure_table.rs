//! Table of the compared metrics, for the terminal and the page.

use super::{Compared, Row};
use crate::terminal::conditions;
use iodyno_measure::statistics::compare::Difference;
use iodyno_measure::{IoKinds, Quantity as Of};
use iodyno_page::{Cell, Column, Quantity, Table, Tone};
use iodyno_units::{OpKind, human};

/// The columns of [`figure_table`] that only the terminal shows.
pub(crate) const OF_TERMINAL: [&str; 3] = ["target", "load", "figure in words"];
/// The columns of [`figure_table`] that only the page shows.
pub(crate) const OF_PAGE: [&str; 2] = ["figure", "n"];

/// Builds the table of a comparison: one row per metric of a cell. The row's labels are the cell's name,
/// target and load.
pub(crate) fn figure_table(compared: &Compared<'_>) -> Table {
    let mut table = Table::new([
        Column::label("cell"),
        Column::label("target"),
        Column::label("load"),
        Column::words("figure"),
        Column::words("figure in words").short("figure"),
        Column::numbers("A, median", "").short("A"),
        Column::numbers("B, median", "").short("B"),
        Column::numbers("shift", "share"),
        Column::numbers("95 % interval", "").short("interval").ranked(1),
        Column::numbers("p, corrected", "").short("p").ranked(2),
        Column::numbers("n", ""),
        Column::words("verdict"),
    ]);
    table.caption = "All figures that were compared".into();
    table.notes = vec!["Exact Mann–Whitney test, corrected for the number of figures (Benjamini–Hochberg). Shift: the median ratio of a value of B to one of A, over all pairs, minus 1 (Hodges–Lehmann, on logarithms). If the values scatter, it differs from the ratio of the medians.".to_owned()];
    for row in &compared.rows {
        table.push(cells(row, compared));
    }
    table
}

/// Smallest p-value shown as a number. Smaller ones would round to 0.
const P_SHOWN_MIN: f64 = 0.0005;

fn cells(row: &Row, compared: &Compared<'_>) -> [Cell; 12] {
    let of = &row.comparison;
    let value = |value| Cell::number(row.metric.quantity.human(value), value);
    let (word, tone) = verdict(row);
    let shift = Cell::number(Quantity::Change.words(of.shift_share), of.shift_share);
    [
        Cell::words(row.b_key.name.as_str()).toned(Tone::Strong),
        Cell::words(row.a_key.target.as_str()),
        Cell::words(load(row)).toned(Tone::Dim),
        Cell::words(row.metric.to_string()),
        Cell::words(metric_words(row)),
        value(of.median_a),
        value(of.median_b),
        shift.toned(tone),
        of.interval.map_or_else(Cell::none, |i| {
            let words = format!("{:+.1} to {:+.1} %", 100.0 * i.low, 100.0 * i.high);
            Cell::words(words).toned(Tone::Dim)
        }),
        of.p_adjusted.map_or_else(Cell::none, |p| {
            let words = if p < P_SHOWN_MIN { "<0.001".to_owned() } else { human::three_digits(p) };
            Cell::number(words, p).toned(Tone::Dim)
        }),
        Cell::number(format!("{} / {}", row.a.len(), row.b.len()), row.a.len() as f64),
        Cell::words(format!("{word}{}", lacks(row, compared))).toned(tone),
    ]
}

/// Name of a row's metric: `read p99`, `IOPS`. Operations that do not count as IOPS, such as flushes, have a
/// `rate` instead.
fn metric_words(row: &Row) -> String {
    let quantity = match row.metric.quantity {
        Of::Iops if row.metric.kind.is_some_and(|kind| !IoKinds::DATA.count(kind)) => {
            "rate".to_owned()
        }
        Of::Iops => "IOPS".to_owned(),
        Of::Bandwidth => "throughput".to_owned(),
        other => other.to_string(),
    };
    match row.metric.kind {
        Some(OpKind::WriteZeroes) => format!("zeroes {quantity}"),
        Some(kind) => format!("{} {quantity}", kind.name()),
        None => quantity,
    }
}

/// Load of the compared cells (threads, depth, block sizes and offered rate). If the sides differ, both
/// values are shown, as `A to B`.
fn load(row: &Row) -> String {
    let [(depth_a, block_a), (depth_b, block_b)] = [&row.a_key, &row.b_key].map(conditions);
    let both = |a: String, b: String| if a == b { a } else { format!("{a} to {b}") };
    // Blocks that are equal but for the offered rate are named once.
    let blocks = match (block_a.split_once(" at "), block_b.split_once(" at ")) {
        (Some((a, _)), Some((b, rate_b))) if a == b && block_a != block_b => {
            format!("{block_a} to {rate_b}")
        }
        _ => both(block_a, block_b),
    };
    format!("{}  {blocks}", both(depth_a, depth_b))
}

/// Returns the verdict as text for the table, and the tone of its colour.
pub(crate) fn verdict(row: &Row) -> (&'static str, Tone) {
    match row.comparison.difference {
        Difference::Slower => ("slower", Tone::Bad),
        Difference::Faster => ("faster", Tone::Good),
        Difference::Same => ("same", Tone::Plain),
        Difference::Inconclusive { .. } => ("inconclusive", Tone::Note),
        Difference::TooFewRuns { .. } => ("too few runs", Tone::Note),
    }
}

/// Addition to an inconclusive verdict, in brackets: the runs needed, or the shift that the present runs
/// could detect. Empty for other verdicts.
fn lacks(row: &Row, compared: &Compared<'_>) -> String {
    if let Some(needed) = row.runs_needed {
        return format!(" ({needed} a side needed)");
    }
    match row.comparison.difference {
        // Significant alone, but not after the correction for the number of figures.
        Difference::Inconclusive { .. } if row.comparison.test.p <= compared.criteria.alpha => {
            " (more runs needed)".to_owned()
        }
        Difference::Inconclusive { detectable_share } => {
            format!(" (would detect {})", Quantity::Share.words(detectable_share))
        }
        _ => String::new(),
    }
}
