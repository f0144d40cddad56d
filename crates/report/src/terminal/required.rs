//! Lists the thresholds of a run with their outcomes: first those that failed, then those that were met by a small
//! margin.

use crate::thresholds::{close, outcomes};
use iodyno_measure::Threshold;
use iodyno_measure::threshold::Outcome;
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{Role, clean, hanging, paint};
use iodyno_units::OpKind;

/// Width of the label column before the text.
const INDENT: usize = 13;

pub(super) fn lines(run: &Run, thresholds: &[Threshold], style: Style) -> Vec<String> {
    let mut outcomes = outcomes(run, thresholds);
    outcomes.sort_by_key(|o| (o.held, !o.is_close()));
    let mut lines = Vec::new();
    for outcome in &outcomes {
        let (mark, word, role) = match (outcome.held, outcome.value, style.unicode) {
            (true, _, _) if outcome.is_close() => ("!", "held", Role::Yellow),
            (true, _, true) => ("✓", "held", Role::Green),
            (true, _, false) => ("+", "held", Role::Green),
            (false, Some(_), true) => ("✗", "not held", Role::Red),
            (false, Some(_), false) => ("x", "not held", Role::Red),
            (false, None, true) => ("✗", "not proven", Role::Red),
            (false, None, false) => ("x", "not proven", Role::Red),
        };
        let text = clean(&text(run, outcome), 1000, style);
        let head = paint(&format!("{mark} {word:<11}"), role, style);
        lines.extend(hanging(&head, INDENT, &text, style));
    }
    lines
}

/// Formats the outcome of a threshold: `p99<500us: random-read: read p99 412 µs`.
fn text(run: &Run, outcome: &Outcome) -> String {
    let mut parts = vec![outcome.threshold.to_string()];
    if let Some(cell) = outcome.cell.filter(|_| run.cells.len() > 1) {
        let on =
            if cell.is_of_all_targets() { format!(" on {}", cell.target) } else { String::new() };
        let repeats = match outcome.repeats {
            1 => String::new(),
            n => format!(", {n} repeats together"),
        };
        parts.push(format!("{}{on}{repeats}", cell.name));
    }
    let metric = outcome.metric;
    let kind = metric.kind.map_or(String::new(), |kind: OpKind| format!("{} ", kind.name()));
    parts.push(match (outcome.value, &outcome.why) {
        (Some(value), _) => {
            let close = close(outcome).map_or_else(String::new, |why| format!(", but {why}"));
            format!("{kind}{} is {}{close}", metric.quantity, metric.quantity.human(value))
        }
        (None, Some(why)) => why.clone(),
        (None, None) => String::new(),
    });
    parts.join(": ")
}
