//! Runs as terminal text: the report at the end of a run, the list of runs, and the live line during one.
//!
//! A name can be any text that a user typed, so no text of a run reaches the terminal without [`text::clean`].

mod bars;
mod certainty;
mod list;
mod method;
mod progress;
mod repeated;
mod required;
mod results;
mod spark;
pub(crate) mod targets;
mod verdicts;
mod verification;

use crate::run_verdict::RunVerdict;
use iodyno_measure::{CellKey, Threshold};
use iodyno_notebook::{Run, Status};
use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{self, Role, clean, paint};
use iodyno_units::human;

pub use list::list;
pub use progress::{Progress, progress_line};
pub(crate) use results::conditions;
pub(crate) use verdicts::sign as level_sign;

/// A whole run as text, judged by the thresholds stored with it. Lines end with a line feed and have no
/// trailing blanks.
pub fn show(run: &Run, style: Style) -> String {
    show_against(run, &crate::thresholds::own(run), style)
}

/// As [`show`], judged by these thresholds.
pub fn show_against(run: &Run, thresholds: &[Threshold], style: Style) -> String {
    let mut lines = title(run, style);
    lines.extend(targets::lines(run, style));
    lines.push(String::new());
    if run.cells.is_empty() {
        lines.push("no cell was measured".to_owned());
    } else if let Some(findings) = crate::method::findings_of(run) {
        lines.extend(method::lines(run, &findings, style));
        lines.push(String::new());
        lines.extend(method::verdicts(run, &RunVerdict::of(run), style));
    } else {
        lines.extend(results::lines(run, style));
        let repeated = repeated::lines(run, style);
        // For a figure's confidence, repeats are better evidence than its own window.
        let known = if repeated.is_empty() { results::certainty(run, style) } else { Vec::new() };
        let verified = verification::lines(run, style);
        for more in [verified, bars::lines(run, style), repeated, known] {
            if !more.is_empty() {
                lines.push(String::new());
                lines.extend(more);
            }
        }
        lines.push(String::new());
        lines.extend(verdicts::lines(run, style));
        let facts = verdicts::facts(run, style);
        if !facts.is_empty() {
            lines.push(String::new());
            lines.extend(facts);
        }
    }
    let required = required::lines(run, thresholds, style);
    if !required.is_empty() {
        lines.push(String::new());
        lines.extend(required);
    }
    lines.push(String::new());
    lines.extend(footer(run, style));
    let mut out = String::new();
    for line in lines {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A cell's name, with the number of its repeat where cells of the run were repeated.
fn name_of(run: &Run, key: &CellKey) -> String {
    if run.cells.iter().any(|c| c.key.repeat > 0) {
        format!("{} #{}", key.name, key.repeat + 1)
    } else {
        key.name.clone()
    }
}

/// A time of day that fits a table: minutes, UTC.
fn minutes(time: iodyno_notebook::Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

/// Name, start, duration, status, id.
fn title(run: &Run, style: Style) -> Vec<String> {
    let name = clean(&run.head.name, style.columns() / 2, style);
    // A run that was not kept has no id.
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
    let bold = paint(&name, Role::Bold, style);
    let columns = text::width(&name) + 2 + text::width(&about) + status.len();
    let mut lines = if columns <= style.columns() {
        vec![format!("{bold}  {painted}")]
    } else {
        let mut lines = vec![format!("{bold}  {}", paint(status, role, style))];
        lines.extend(rest.iter().map(|part| format!("  {}", paint(part, Role::Dim, style))));
        lines
    };
    if let Status::Failed(reason) = &run.status {
        let reason = clean(reason, 1000, style);
        let wrapped = text::wrap(&reason, style.columns() - 2);
        lines.extend(wrapped.iter().map(|l| format!("  {}", paint(l, Role::Red, style))));
    }
    lines
}

/// Its location, and the command to show it again.
fn footer(run: &Run, style: Style) -> Vec<String> {
    if run.id.is_empty() {
        if run.notebook.as_os_str().is_empty() {
            return vec![paint("not kept, as asked", Role::Dim, style)];
        }
        let path = clean(&run.notebook.to_string_lossy(), 1000, style);
        return vec![paint(&format!("not kept: {path} could not be written"), Role::Red, style)];
    }
    let path = clean(&run.notebook.to_string_lossy(), 1000, style);
    let again = format!("iodyno show {}", run.id);
    let kept = format!("kept in {path}");
    let one = format!("{kept}{}{again}", style.dot());
    if text::width(&one) <= style.columns() {
        return vec![paint(&one, Role::Dim, style)];
    }
    vec![paint(&kept, Role::Dim, style), paint(&again, Role::Dim, style)]
}
