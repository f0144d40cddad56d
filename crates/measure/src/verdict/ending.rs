//! Judges the end of a cell: whether it ran to its end, and whether its operations succeeded.

use super::{Level, Say};
use crate::cell::{Cell, Ended, Role};
use crate::errors::{ErrorKind, errno_text};
use crate::interval::Interval;

/// Describes a step of a method that was skipped or only prepared the target; None for a measurement.
pub(super) fn not_measured(cell: &Cell) -> Option<(&'static str, String)> {
    let place = cell.key.place.as_ref()?;
    if let Some(why) = &cell.evidence.skipped {
        return Some(("SKIPPED", why.clone()));
    }
    if place.role == Role::Prepare && cell.series.is_empty() && cell.window_ns == 0 {
        let words: Vec<String> = cell.facts.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        return Some(("PREPARATION", words.join("; ")));
    }
    None
}

/// Reports cells that ended early, and failed operations.
pub(super) fn completeness(cell: &Cell, total: &Interval, say: &mut Say) {
    match cell.ended {
        Ended::Interrupted => say(
            "INTERRUPTED",
            Level::Warning,
            format!(
                "the run was stopped after {:.1} s of measuring; the results up to then are kept",
                cell.seconds()
            ),
        ),
        Ended::Crashed => say(
            "CRASHED",
            Level::Warning,
            format!("the process died; the notebook keeps the first {:.1} s", cell.seconds()),
        ),
        Ended::Errors => say(
            "STOPPED_BY_ERRORS",
            Level::Invalid,
            match &cell.evidence.failure {
                Some(why) => format!("the run was stopped: {why}"),
                None => "the run was stopped because too many operations failed".to_owned(),
            },
        ),
        Ended::Hung => say("TARGET_HUNG", Level::Invalid, hung(cell)),
        Ended::Running => say(
            "RUNNING",
            Level::Warning,
            format!(
                "the cell is still being measured: these are the figures of the first {:.1} s",
                cell.seconds()
            ),
        ),
        Ended::Settled => say(
            "SETTLED",
            Level::Note,
            match &cell.evidence.settled {
                Some(how) => format!("the cell ended early: {how}"),
                None => "the cell ended early: its steady state was proven".to_owned(),
            },
        ),
        Ended::Time | Ended::Ops | Ended::Bytes => {}
    }
    failures(cell, total, say);
    if total.ops() == 0 {
        // A longer run helps only if time was too short.
        let text = match cell.ended {
            Ended::Running => "no operation has completed in the measured window yet",
            Ended::Hung => {
                "no operation completed in the measured window: the target did not answer"
            }
            Ended::Interrupted | Ended::Crashed => {
                "no operation completed in the measured window before the run was stopped"
            }
            _ if cell.ended == Ended::Errors || total.errors().total() > 0 => {
                "no operation completed in the measured window: all operations failed"
            }
            _ => "no operation completed in the measured window; allow more time (--time)",
        };
        say("NOTHING_COMPLETED", Level::Invalid, text.to_owned());
    }
}

fn failures(cell: &Cell, total: &Interval, say: &mut Say) {
    let errors = total.errors();
    if errors.total() > 0 {
        let words = |(kind, n): (ErrorKind, u64)| match kind {
            ErrorKind::Other if errors.other_errno != 0 => {
                format!("{n} {}, the last {}", kind.words(), errno_text(errors.other_errno))
            }
            _ => format!("{n} {}", kind.words()),
        };
        let kinds: Vec<String> = errors.iter().map(words).collect();
        // Failures during the ramp are counted, but not its completions: if nothing completed afterwards, the share
        // of failures is unknown.
        let share = errors.total() as f64 / (errors.total() + total.ops()) as f64;
        let share = if total.ops() == 0 {
            ", including those during the ramp".to_owned()
        } else {
            format!(" ({:.3} %)", share * 100.0)
        };
        let operations = if errors.total() == 1 { "operation" } else { "operations" };
        let them = if errors.total() == 1 { "it is" } else { "they are" };
        let first = cell.evidence.first_corruption.as_ref();
        let first = first.map_or(String::new(), |c| format!("; first: {c}"));
        say(
            "ERRORS",
            Level::Invalid,
            format!(
                "{} {operations} failed{share}: {}{first}; {them} not counted as completed",
                errors.total(),
                kinds.join(", ")
            ),
        );
    }
}

/// Describes the operations that never completed on a hung target.
fn hung(cell: &Cell) -> String {
    let Some(hung) = cell.evidence.hung else {
        return "the target stopped answering, and the run was ended".to_owned();
    };
    let operations = if hung.ops == 1 { "operation" } else { "operations" };
    let (at_least, stuck) = match hung.stuck_workers {
        0 => ("", String::new()),
        1 => (
            "at least ",
            ", except in the last interval of a worker stuck in the kernel".to_owned(),
        ),
        n => (
            "at least ",
            format!(", except in the last interval of {n} workers stuck in the kernel"),
        ),
    };
    format!(
        "the target stopped answering: {at_least}{} {operations} in flight did not complete, the oldest for {:.1} s, and the run was ended; operations that completed before are counted{stuck}; see the log of the device or the server",
        hung.ops,
        hung.oldest_ns as f64 / 1e9
    )
}
