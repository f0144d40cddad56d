//! Formats runs for the terminal: the report on a run, the list of runs, and the live line of a run in progress.
//!
//! Names may contain escape sequences, so all text of a run passes through [`text::clean`].

mod bars;
pub(crate) mod before;
mod certainty;
mod list;
mod messages;
mod method;
mod progress;
mod ranks;
mod repeated;
mod required;
mod results;
mod spark;
pub(crate) mod targets;
mod verdicts;
mod verification;

use iodyno_measure::{CellKey, Threshold};
use iodyno_notebook::{Run, Status};
use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{self, Role, clean, clean_path, paint, paragraph};
use iodyno_units::human;

/// Maximum width of a cell's name, in terminal columns.
const NAME_COLUMNS_MAX: usize = 48;
/// Maximum length of a run's heading, in terminal columns summed over its lines.
const HEADING_COLUMNS_MAX: usize = 240;
/// Maximum width of a target's name, in terminal columns.
const TARGET_COLUMNS_MAX: usize = 32;
/// Maximum width of the cell's name and target in a table with further columns.
const LABEL_COLUMNS_MAX: usize = 40;
/// Width of the column with the kind of operation, in a table with further columns.
const KIND_COLUMNS: usize = 14;

pub use before::Before;
pub use list::list;
pub use progress::{Progress, progress_line};
pub(crate) use results::{conditions, conditions_of_cell};
pub(crate) use verdicts::sign as level_sign;

/// Optional parts of a report. Results, verdicts and warnings are always shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Whether to show the full text of notes instead of their codes and counts.
    pub notes: bool,
    /// Whether to show all settings in effect, every target of a measurement on many targets, and every point of a
    /// table over two axes.
    pub all: bool,
}

/// Formats a whole run as text. The verdicts are based on the thresholds stored with the run. Lines end with
/// a line feed and have no trailing blanks.
pub fn show(run: &Run, detail: Detail, style: Style) -> String {
    show_against(run, &crate::thresholds::own(run), detail, style)
}

/// Formats a run that has just ended, in the same form as [`show`]. A note that an
/// earlier run on the machine already had is shortened to its code.
pub fn show_after(run: &Run, before: &Before, detail: Detail, style: Style) -> String {
    text_of(run, &crate::thresholds::own(run), before, detail, style)
}

/// Formats a run like [`show`], but judged by `thresholds` instead of the stored ones.
///
/// Results and verdicts come before explanations.
pub fn show_against(run: &Run, thresholds: &[Threshold], detail: Detail, style: Style) -> String {
    text_of(run, thresholds, &Before::default(), detail, style)
}

fn text_of(
    run: &Run,
    thresholds: &[Threshold],
    before: &Before,
    detail: Detail,
    style: Style,
) -> String {
    let mut head = title(run, style);
    head.extend(targets::lines(run, style));
    let mut blocks = vec![head];
    if run.cells.is_empty() {
        blocks.push(vec!["no cell was measured".to_owned()]);
    } else if let Some(findings) = crate::method::findings_of(run) {
        blocks.push(method::answer(run, &findings, style));
        blocks.push(verdicts::lines(run, true, before, detail, style));
        blocks.push(required::lines(run, thresholds, style));
        blocks.extend(method::blocks(&findings, detail, style));
        blocks.push(ranks::lines(run, style));
    } else {
        let cells = results::shown_cells(run, detail);
        let repeated = repeated::lines(run, style);
        // For a figure's confidence, repeats are better evidence than a single window.
        let known =
            if repeated.is_empty() { results::certainty(run, &cells, style) } else { Vec::new() };
        blocks.push(repeated);
        blocks.push(messages::lines(run, &cells, style));
        blocks.push(results::lines(run, &cells, style));
        blocks.push(neighbours(run, style));
        blocks.push(ranks::lines(run, style));
        blocks.push(verification::lines(run, style));
        blocks.push(verdicts::lines(run, false, before, detail, style));
        blocks.push(required::lines(run, thresholds, style));
        blocks.push(bars::lines(run, &cells, style));
        blocks.push(known);
    }
    let facts = verdicts::facts(run, style);
    let hides_facts = !facts.is_empty() && !detail.all;
    blocks.push(if detail.all { facts } else { Vec::new() });
    blocks.push(footer(run, hides_facts, style));
    blocks.retain(|block| !block.is_empty());
    let mut out = String::new();
    for (i, block) in blocks.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        for line in block {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

/// Describes how simultaneous workloads affected each other.
fn neighbours(run: &Run, style: Style) -> Vec<String> {
    let sentences = crate::neighbours::sentences(run);
    sentences.iter().flat_map(|s| paragraph(&clean(s, 400, style), Role::Bold, style)).collect()
}

/// Label that distinguishes a cell from the other cells of its run: name, target, or both. At most `columns`
/// wide.
fn label_of(run: &Run, key: &CellKey, columns: usize, style: Style) -> String {
    let has_several = |of: fn(&CellKey) -> &String| {
        run.cells.iter().any(|cell| of(&cell.key) != of(&run.cells[0].key))
    };
    let is_named = has_several(|key| &key.name) || run.cells.iter().any(|c| c.key.repeat > 0);
    let name = |columns| clean(&name_of(run, key), NAME_COLUMNS_MAX.min(columns), style);
    let target = |columns| target_of(run, &key.target, TARGET_COLUMNS_MAX.min(columns), style);
    match (has_several(|key| &key.target), is_named) {
        (false, _) => name(columns),
        (true, false) => target(columns),
        (true, true) => {
            let name = name(columns / 2);
            format!("{name} on {}", target(columns - text::width(&name) - 4))
        }
    }
}

/// A target's name, cut at the start if it is too wide, because its end is more informative. A rank prefix is
/// kept, because all ranks may have the same target.
fn target_of(run: &Run, target: &str, columns: usize, style: Style) -> String {
    let has_ranks = run.cells.iter().any(|cell| cell.evidence.rank.is_some());
    if has_ranks && let Some((rank, name)) = target.split_once(':') {
        let rank = format!("{}:", clean(rank, usize::MAX, style));
        let left = columns.saturating_sub(text::width(&rank));
        if left > text::width(&rank) {
            return format!("{rank}{}", clean_path(name, left, style));
        }
    }
    clean_path(target, columns, style)
}

/// Shortened label of a cell, for tables with further columns.
fn short_label_of(run: &Run, key: &CellKey, style: Style) -> String {
    label_of(run, key, LABEL_COLUMNS_MAX.min(style.columns() - KIND_COLUMNS), style)
}

/// A cell's name, with the number of its repeat if the run has repeats.
fn name_of(run: &Run, key: &CellKey) -> String {
    if run.cells.iter().any(|c| c.key.repeat > 0) {
        format!("{} #{}", key.name, key.repeat + 1)
    } else {
        key.name.clone()
    }
}

/// Formats a time in UTC, to the minute.
pub fn minutes(time: iodyno_notebook::Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

/// Heading, id, start, duration and status of a run.
fn title(run: &Run, style: Style) -> Vec<String> {
    let name = clean(&run.head.heading(), HEADING_COLUMNS_MAX, style);
    // A run that was not stored has no id.
    let id = (!run.id.is_empty()).then(|| run.id.clone());
    let mut rest: Vec<String> = id.into_iter().collect();
    rest.push(format!("{} UTC", minutes(run.started)));
    if let Some(ended) = run.ended {
        let took_ms = ended.as_millisecond() - run.started.as_millisecond();
        rest.push(human::duration_ns((took_ms.max(0) as u64).saturating_mul(1_000_000)));
    }
    let role = match run.status {
        Status::Finished => Role::Dim,
        Status::Running => Role::Plain,
        Status::Interrupted => Role::Yellow,
        Status::Crashed | Status::Failed(_) => Role::Red,
    };
    let status = run.status.name();
    let about = format!("{}{}", rest.join(style.dot()), style.dot());
    let painted = paint(&about, Role::Dim, style) + &paint(status, role, style);
    let columns = text::width(&about) + status.len();
    let mut lines = paragraph(&name, Role::Bold, style);
    if text::width(&name) + 2 + columns <= style.columns() {
        lines = vec![format!("{}  {painted}", paint(&name, Role::Bold, style))];
    } else if 2 + columns <= style.columns() {
        lines.push(format!("  {painted}"));
    } else {
        lines.push(format!("  {}", paint(status, role, style)));
        lines.extend(rest.iter().map(|part| format!("  {}", paint(part, Role::Dim, style))));
    }
    if let Status::Failed(reason) = &run.status {
        let reason = clean(reason, 1000, style);
        let wrapped = text::wrap(&reason, style.columns() - 2);
        lines.extend(wrapped.iter().map(|l| format!("  {}", paint(l, Role::Red, style))));
    }
    if let Some(text) = &run.annotation {
        let text = clean(text, 1000, style);
        let wrapped = text::wrap(&text, style.columns() - 2);
        lines.extend(wrapped.iter().map(|l| format!("  {l}")));
    }
    lines
}

/// States where the run is stored, and the command that shows it again.
fn footer(run: &Run, hides_facts: bool, style: Style) -> Vec<String> {
    let path = clean(&run.notebook.to_string_lossy(), 1000, style);
    let (kept, role) = match (run.id.is_empty(), path.is_empty()) {
        (true, true) => ("not stored, as requested".to_owned(), Role::Dim),
        (true, false) => (format!("not stored: {path} could not be written"), Role::Red),
        (false, _) => (format!("kept in {path}"), Role::Dim),
    };
    let mut parts = vec![kept];
    parts.extend((!run.id.is_empty()).then(|| format!("iodyno show {}", run.id)));
    parts.extend(hides_facts.then(|| "-v: settings in effect".to_owned()));
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if text::width(line) + 3 + text::width(&part) <= style.columns() => {
                *line = format!("{line}{}{part}", style.dot());
            }
            _ => lines.push(part),
        }
    }
    lines.iter().map(|line| paint(line, role, style)).collect()
}
