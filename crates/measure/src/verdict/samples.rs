//! Judges whether a cell is long enough and has enough samples for the percentiles that are printed.

use super::{Level, Say};
use crate::cell::{Cell, Ended};
use crate::interval::Interval;
use iodyno_units::human;

/// Reports percentiles with too few samples.
pub(super) fn samples(cell: &Cell, total: &Interval, say: &mut Say) {
    let shown = [(0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.99999, "p99.999")];
    for (kind, stats) in total.iter() {
        let h = stats.response_time();
        let hidden = shown.iter().find(|(q, _)| !h.supports(*q));
        if let Some((q, name)) = hidden
            && *q < 0.9999
            && h.count() > 0
        {
            let needed = (crate::histogram::EXCEEDANCES_MIN / (1.0 - q)).round();
            let operations = if h.count() == 1 { "operation" } else { "operations" };
            say(
                "FEW_SAMPLES",
                Level::Note,
                format!(
                    "{} {} {operations} can't support {name} (which needs {needed:.0}): it is not printed",
                    h.count(),
                    kind.name()
                ),
            );
        }
    }
    if cell.window_ns > 0
        && cell.window_ns < 1_000_000_000
        && total.ops() > 0
        && let Some(remedy) = longer(cell)
    {
        say(
            "SHORT",
            Level::Note,
            format!(
                "the window is only {}: background work of a device takes longer; {remedy}",
                human::time_ns(cell.window_ns as f64)
            ),
        );
    }
}

/// How to measure for longer; None if the cell is long enough by its nature. A proven steady state is reported by
/// itself. A fill or a verification pass ends with the target.
fn longer(cell: &Cell) -> Option<&'static str> {
    let e = &cell.evidence;
    let is_pass = e.verification.as_ref().is_some_and(|of| of.read_share.is_some());
    if e.fill.is_some() || is_pass {
        return None;
    }
    if e.other_tool.is_some() {
        return Some("let the other program measure for longer");
    }
    if e.trace.is_some() {
        return Some("replay a longer trace");
    }
    match cell.ended {
        Ended::Settled => None,
        Ended::Time if cell.key.place.is_none() => Some("use a longer --time"),
        Ended::Time => Some(
            "use a longer `time` (of a sweep or rate search by --time, of a method in a copy of its file)",
        ),
        Ended::Ops | Ended::Bytes if cell.key.place.is_some() => {
            Some("measure by time instead of a number of operations or bytes")
        }
        Ended::Ops => Some("use a larger --ops, or --time"),
        Ended::Bytes => Some("use a larger --bytes, or --time"),
        _ => Some("measure again"),
    }
}
