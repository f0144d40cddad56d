//! Builds the table of errors by stratum (group of comparable rows), for the terminal and the page.

use crate::error_strata::Stratum;
use iodyno_page::{Cell, Column, Row, Table, Tone};

/// Table of errors by groups of comparable rows, ordered by the provenance of the simulated values.
pub(crate) fn table(strata: &[Stratum]) -> Table {
    let share = |title| Column::decimals(title, "share");
    let mut table = Table::new([
        Column::label(""),
        Column::decimals("n", ""),
        Column::decimals("rows", ""),
        Column::decimals("in", ""),
        share("mean"),
        share("median"),
        share("max"),
        share("outside"),
        share("null"),
        Column::words("nearer"),
    ]);
    table.caption = "Errors by strata, in %".into();
    table.notes = vec!["n: one device (1) or several (n); in: figures within the printed intervals; mean, median, max: absolute errors; outside: mean distance from the interval, 0 for figures within it; null: `outside` of the null model, a prediction without a device model; nearer: figures that the model predicts better than the null model".to_owned()];
    let mut basis = None;
    for s in strata {
        if basis != Some(s.basis) {
            basis = Some(s.basis);
            table.rows.push(Row::heading(s.basis.name()));
        }
        let percent = |share: Option<f64>| {
            share.map_or_else(Cell::none, |it| Cell::number(format!("{:.1}", it * 100.0), it))
        };
        let count = |n: usize| Cell::number(n.to_string(), n as f64);
        let equal = if s.equal > 0 { format!(", {} even", s.equal) } else { String::new() };
        let nearer = format!("{} of {}{equal}", s.better, s.with_null);
        table.push([
            Cell::words(format!("{} {}", s.workload, s.metric)),
            Cell::words(if s.several_devices { "n" } else { "1" }),
            count(s.rows),
            count(s.within),
            percent(s.error.mean),
            percent(s.error.median),
            percent(s.error.max),
            percent(s.outside.mean),
            percent(s.null_outside.mean).toned(Tone::Dim),
            if s.with_null > 0 { Cell::words(nearer) } else { Cell::none() },
        ]);
    }
    table
}
