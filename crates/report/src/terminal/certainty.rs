//! The confidence of a table's rates and percentiles: a table of their intervals under it.

use iodyno_measure::statistics::within::Within;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, paragraph};
use iodyno_units::human;

/// Maximum number of rows: a longer table is not followed by another one.
const ROWS_MAX: usize = 16;

/// One row: its label (already cleaned), its mean rate, and its percentiles by name, each with its interval.
pub(super) struct Known {
    pub(super) name: String,
    /// Heading of the rate's column, and the interval as text.
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
        let text = format!("95 % intervals of {} rows: --json has them", rows.len());
        return paragraph(&text, Role::Dim, style);
    }
    let mut names = Column::new("95 % intervals", 0);
    let mut operations = Column::new("operations", 4);
    let mut rates: Vec<Column> = Vec::new();
    for (heading, _) in rows.iter().filter_map(|row| row.rate.as_ref()) {
        if !rates.iter().any(|column| column.head == *heading) {
            rates.push(Column::new(*heading, 0));
        }
    }
    let mut percentiles: Vec<Column> = rows[0]
        .within
        .iter()
        .enumerate()
        // The 99th is the most important, then its neighbours: the median is seldom in doubt.
        .map(|(i, (label, _))| Column::new(*label, [6, 1, 2, 3, 5].get(i).copied().unwrap_or(7)))
        .collect();
    for row in rows.iter().filter(|row| is_known(row)) {
        names.fields.push(Field::Text(row.name.clone(), Role::Bold));
        let count = row.within.iter().find_map(|(_, within)| Some(within.as_ref()?.count));
        operations
            .fields
            .push(count.map_or(Field::Missing, |n| Field::figure(&human::whole(n), Role::Dim)));
        for column in &mut rates {
            let own = row.rate.as_ref().filter(|(heading, _)| column.head == *heading);
            column.fields.push(own.map_or(Field::Missing, |(_, words)| {
                Field::Text(clean(words, 32, style), Role::Plain)
            }));
        }
        for (column, (_, within)) in percentiles.iter_mut().zip(&row.within) {
            column.fields.push(
                within
                    .as_ref()
                    .map_or(Field::Missing, |w| Field::Text(between(w, style), Role::Plain)),
            );
        }
    }
    // Omit percentiles that no row has.
    percentiles.retain(|c| c.fields.iter().any(|f| !matches!(f, Field::Missing)));
    let mut columns = vec![names, operations];
    columns.extend(rates);
    columns.extend(percentiles);
    table::fit(&mut columns, style.columns());
    let mut lines = table::lines(&columns, style);
    let alone = rows
        .iter()
        .flat_map(|row| &row.within)
        .any(|(_, within)| within.is_some_and(|w| w.inflation.is_none()));
    let short = if alone {
        " Where a window has fewer than 10 intervals its operations were taken as independent."
    } else {
        ""
    };
    let text =
        format!("The sampling error of this window alone; repeats show how runs differ.{short}");
    lines.extend(paragraph(&text, Role::Dim, style));
    lines
}

/// An interval: `76.9 to 77.3 µs`, with the unit once if both ends have the same.
pub(super) fn between(within: &Within, style: Style) -> String {
    let end = |ns: Option<u64>| ns.map(|ns| human::time_ns(ns as f64));
    let text = match (end(within.low_ns), end(within.high_ns)) {
        (Some(low), Some(high)) => range(&low, &high),
        (Some(low), None) => format!("{low} or more"),
        (None, Some(high)) => format!("{high} or less"),
        (None, None) => "unknown".to_owned(),
    };
    clean(&text, 24, style)
}

/// An interval: `76.9 to 77.3 µs`, with the unit once if both ends have the same.
pub(super) fn range(low: &str, high: &str) -> String {
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}
