//! Table of the 95 % intervals of rates and percentiles, printed below the table that contains the rates and
//! percentiles.

use crate::interval_words;
use iodyno_measure::statistics::within::Within;
use iodyno_page::terminal::text::{Role, paragraph};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell, Column, Table, Tone};
use iodyno_units::human;

/// Maximum number of rows in the table of confidence intervals. With more rows it is omitted (`--json` still
/// has the intervals).
const ROWS_MAX: usize = 16;

/// A row of the table of confidence intervals: label (without control characters), mean rate and percentiles.
pub(super) struct Known {
    pub(super) name: String,
    /// Title of the rate's column, and the rate's confidence interval as text; None if unknown.
    pub(super) rate: Option<(&'static str, String)>,
    pub(super) within: Vec<(&'static str, Option<Within>)>,
}

pub(super) fn lines(rows: &[Known], style: Style) -> Vec<String> {
    let is_known =
        |row: &Known| row.rate.is_some() || row.within.iter().any(|(_, within)| within.is_some());
    if !rows.iter().any(is_known) {
        return Vec::new();
    }
    if rows.len() > ROWS_MAX {
        let text = format!("95 % intervals of {} rows are not shown; --json has them", rows.len());
        return paragraph(&text, Role::Dim, style);
    }
    let mut headings: Vec<&str> = Vec::new();
    for (heading, _) in rows.iter().filter_map(|row| row.rate.as_ref()) {
        if !headings.contains(heading) {
            headings.push(heading);
        }
    }
    let mut table =
        Table::new([Column::words("95 % intervals"), Column::numbers("operations", "").ranked(4)]);
    table.columns.extend(headings.iter().map(|heading| Column::words(*heading)));
    // The 99th is the most important, then its neighbours: the median is seldom in doubt.
    let ranks = [6, 1, 2, 3, 5].into_iter().chain(std::iter::repeat(7));
    let percentiles = rows[0].within.iter().zip(ranks);
    table.columns.extend(percentiles.map(|((label, _), rank)| Column::words(*label).ranked(rank)));
    for row in rows.iter().filter(|row| is_known(row)) {
        let count = row.within.iter().find_map(|(_, within)| Some(within.as_ref()?.count));
        let mut cells = vec![
            Cell::words(&row.name).toned(Tone::Strong),
            count.map_or_else(Cell::none, |n| Cell::number(human::whole(n), n as f64)),
        ];
        cells[1].tone = Tone::Dim;
        cells.extend(headings.iter().map(|heading| {
            let own = row.rate.as_ref().filter(|(of, _)| of == heading);
            own.map_or_else(Cell::none, |(_, words)| Cell::words(words))
        }));
        let within = row.within.iter().map(|(_, within)| within.as_ref());
        cells.extend(within.map(|it| it.map_or_else(Cell::none, |w| Cell::words(between(w)))));
        table.push(cells);
    }
    let mut lines = table::fitted(&table.without_blank_columns(), style);
    let alone = rows
        .iter()
        .flat_map(|row| &row.within)
        .any(|(_, within)| within.is_some_and(|w| w.inflation.is_none()));
    let short = if alone {
        " In windows with fewer than 10 intervals, operations were treated as independent."
    } else {
        ""
    };
    let text = format!(
        "Intervals cover only the sampling error of this window; repeats show how runs differ.{short}"
    );
    lines.extend(paragraph(&text, Role::Dim, style));
    lines
}

/// Formats a confidence interval: `76.9 to 77.3 µs`.
fn between(within: &Within) -> String {
    let [low_ns, high_ns] = [within.low_ns, within.high_ns].map(|end| end.map(|ns| ns as f64));
    interval_words::of_percentile(low_ns, high_ns)
}
