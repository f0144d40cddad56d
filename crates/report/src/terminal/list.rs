//! Formats the list of runs, one line each, the newest last and thus next to the prompt.

use super::minutes;
use super::verdicts::sign;
use crate::headline::{Standing, headline, listed_level, listed_result};
use crate::verdict_groups::tone;
use iodyno_notebook::{RunSummary, Status};
use iodyno_page::terminal::text::{clean, clean_path, cut, width};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell, Column, Table, Tone};

const NAME_COLUMNS_MAX: usize = 24;
const TARGET_COLUMNS_MAX: usize = 28;
/// Minimum width of the result column; it is hidden if less space remains.
const RESULT_COLUMNS_MIN: usize = 16;
/// Maximum width reserved for the result column. The less important columns of time and targets are hidden if they do
/// not fit beside it.
const RESULT_COLUMNS: usize = 36;

/// Formats a table of runs in the given order. For a run without a [`Standing`], the table shows the most severe
/// verdict of its measurements.
pub fn list(runs: &[(RunSummary, Option<Standing>)], style: Style) -> String {
    if runs.is_empty() {
        return "no runs yet: `iodyno run four-corners` makes one\n".to_owned();
    }
    let mut table = Table::new([
        Column::words(""),
        Column::words("run"),
        Column::words("began (UTC)").ranked(1),
        Column::words("what"),
        Column::words("on").ranked(2),
    ]);
    for (run, standing) in runs {
        table.push([
            mark_of(run, standing.as_ref(), style),
            Cell::words(&run.id),
            Cell::words(minutes(run.started)).toned(Tone::Dim),
            Cell::words(clean(&run.name, NAME_COLUMNS_MAX, style)).toned(Tone::Strong),
            Cell::words(targets(run, style)),
        ]);
    }
    let headlines = runs.iter().map(|(run, of)| width(&headline(run, of.as_ref())));
    let wanted = headlines.max().unwrap_or(0).clamp(RESULT_COLUMNS_MIN, RESULT_COLUMNS);
    let available = style.columns().saturating_sub(wanted + 2);
    let (mut table, _) = table::fit(&table, available, style);
    let left = style.columns().saturating_sub(table::total_width(&table, style) + 2);
    if left >= RESULT_COLUMNS_MIN {
        table.columns.push(Column::words("result"));
        for (row, (run, of)) in table.rows.iter_mut().zip(runs) {
            row.cells.push(result_of(run, of.as_ref(), left, style));
        }
    }
    let mut out = String::new();
    for line in table::lines(&table, style) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Symbol for the level of a run; blank while the run is in progress.
fn mark_of(run: &RunSummary, standing: Option<&Standing>, style: Style) -> Cell {
    match listed_level(run, standing) {
        Some(level) => Cell::words(sign(level, style).0).toned(tone(level)),
        None => Cell::words(" "),
    }
}

fn targets(run: &RunSummary, style: Style) -> String {
    match run.targets.as_slice() {
        [] => String::new(),
        [one] => clean_path(one, TARGET_COLUMNS_MAX, style),
        [first, rest @ ..] => {
            let more = format!(" and {} more", rest.len());
            clean_path(first, TARGET_COLUMNS_MAX - width(&more), style) + &more
        }
    }
}

/// The run's result, cut to `columns`: the headline of the standing `of`, or, if it has none, a summary of the
/// measurements.
fn result_of(run: &RunSummary, of: Option<&Standing>, columns: usize, style: Style) -> Cell {
    let tone = match run.status {
        Status::Finished | Status::Running => Tone::Plain,
        Status::Interrupted => Tone::Warning,
        Status::Crashed | Status::Failed(_) => Tone::Bad,
    };
    let text = clean(&listed_result(run, of), usize::MAX, style);
    Cell::words(cut(&text, columns, style)).toned(tone)
}
