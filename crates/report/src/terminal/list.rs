//! The list of runs: one line each, oldest first, the newest next to the prompt.

use super::minutes;
use super::verdicts::sign;
use crate::headline::{Standing, headline, level_of};
use crate::verdict_groups::tone;
use iodyno_measure::Level;
use iodyno_notebook::{RunSummary, Status};
use iodyno_page::terminal::text::{clean, clean_path, cut, width};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell, Column, Table, Tone};

const NAME_COLUMNS_MAX: usize = 24;
const TARGET_COLUMNS_MAX: usize = 28;
/// Minimum width of the result column; it is hidden if less space remains.
const RESULT_COLUMNS_MIN: usize = 16;
/// Width reserved for the result column before the columns of time and targets, which are less important.
const RESULT_COLUMNS: usize = 36;

/// Formats a table of runs in the given order. A run without a standing has the most severe verdict of its
/// cells.
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
    let gravest = level_of(run, standing);
    let level = match (&run.status, gravest) {
        (Status::Running, _) | (Status::Finished, None) => {
            return Cell::words(" ");
        }
        (Status::Crashed | Status::Failed(_), _) | (_, Some(Level::Invalid)) => Level::Invalid,
        (Status::Interrupted, _) | (_, Some(Level::Warning)) => Level::Warning,
        (Status::Finished, _) => Level::Valid,
    };
    Cell::words(sign(level, style).0).toned(tone(level))
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

/// The run's headline, preceded by its status if it did not finish normally.
fn result_of(run: &RunSummary, of: Option<&Standing>, columns: usize, style: Style) -> Cell {
    let headline = clean(&headline(run, of), usize::MAX, style);
    let (text, tone) = match &run.status {
        Status::Finished => (headline, Tone::Plain),
        Status::Running => (join(run.status.name(), &headline), Tone::Plain),
        Status::Interrupted => (join(run.status.name(), &headline), Tone::Warning),
        Status::Crashed => (join(run.status.name(), &headline), Tone::Bad),
        Status::Failed(reason) => {
            (format!("failed: {}", clean(reason, usize::MAX, style)), Tone::Bad)
        }
    };
    Cell::words(cut(&text, columns, style)).toned(tone)
}

fn join(status: &str, headline: &str) -> String {
    if headline.is_empty() { status.to_owned() } else { format!("{status}: {headline}") }
}
