//! The list of runs: one line each, oldest first, the newest next to the prompt.

use super::minutes;
use super::verdicts::sign;
use crate::headline::{Standing, headline, level_of};
use iodyno_measure::Level;
use iodyno_notebook::{RunSummary, Status};
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, clean_path, cut, width};

const NAME_COLUMNS_MAX: usize = 24;
const TARGET_COLUMNS_MAX: usize = 28;
/// Minimum columns of the result: with fewer left, it is omitted.
const RESULT_COLUMNS_MIN: usize = 16;
/// Columns that the result gets before the time and the targets, which matter less.
const RESULT_COLUMNS: usize = 36;

/// Runs in the order given, each with its standing if known, otherwise with the most severe verdict of its
/// cells.
pub fn list(runs: &[(RunSummary, Option<Standing>)], style: Style) -> String {
    if runs.is_empty() {
        return "no runs yet: `iodyno run four-corners` makes one\n".to_owned();
    }
    let mut mark = Column::new("", 0);
    let mut id = Column::new("run", 0);
    let mut when = Column::new("began (UTC)", 1);
    let mut name = Column::new("what", 0);
    let mut target = Column::new("on", 2);
    for (run, standing) in runs {
        mark.fields.push(mark_of(run, standing.as_ref(), style));
        id.fields.push(Field::Text(run.id.clone(), Role::Plain));
        when.fields.push(Field::Text(minutes(run.started), Role::Dim));
        name.fields.push(Field::Text(clean(&run.name, NAME_COLUMNS_MAX, style), Role::Bold));
        target.fields.push(Field::Text(targets(run, style), Role::Plain));
    }
    let mut columns = vec![mark, id, when, name, target];
    let headlines = runs.iter().map(|(run, of)| width(&headline(run, of.as_ref())));
    let wanted = headlines.max().unwrap_or(0).clamp(RESULT_COLUMNS_MIN, RESULT_COLUMNS);
    table::fit(&mut columns, style.columns().saturating_sub(wanted + 2));
    let left = style.columns().saturating_sub(table::total_width(&columns) + 2);
    if left >= RESULT_COLUMNS_MIN {
        let mut result = Column::new("result", 0);
        result.fields.extend(runs.iter().map(|(run, of)| result_of(run, of.as_ref(), left, style)));
        columns.push(result);
    }
    let mut out = String::new();
    for line in table::lines(&columns, style) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Mark of a run's level, for a quick overview; blank while it runs.
fn mark_of(run: &RunSummary, standing: Option<&Standing>, style: Style) -> Field {
    let gravest = level_of(run, standing);
    let level = match (&run.status, gravest) {
        (Status::Running, _) | (Status::Finished, None) => {
            return Field::Text(" ".to_owned(), Role::Plain);
        }
        (Status::Crashed | Status::Failed(_), _) | (_, Some(Level::Invalid)) => Level::Invalid,
        (Status::Interrupted, _) | (_, Some(Level::Warning)) => Level::Warning,
        (Status::Finished, _) => Level::Valid,
    };
    let (mark, _, role) = sign(level, style);
    Field::Text(mark.to_owned(), role)
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

/// The run's status, unless it finished normally, and its headline.
fn result_of(run: &RunSummary, of: Option<&Standing>, columns: usize, style: Style) -> Field {
    let headline = clean(&headline(run, of), usize::MAX, style);
    let (text, role) = match &run.status {
        Status::Finished => (headline, Role::Plain),
        Status::Running => (join(run.status.name(), &headline), Role::Plain),
        Status::Interrupted => (join(run.status.name(), &headline), Role::Yellow),
        Status::Crashed => (join(run.status.name(), &headline), Role::Red),
        Status::Failed(reason) => {
            (format!("failed: {}", clean(reason, usize::MAX, style)), Role::Red)
        }
    };
    Field::Text(cut(&text, columns, style), role)
}

fn join(status: &str, headline: &str) -> String {
    if headline.is_empty() { status.to_owned() } else { format!("{status}: {headline}") }
}
