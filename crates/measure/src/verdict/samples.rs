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
    // A cell whose steady state was proven has been measured for long enough, and reports that itself.
    let proven = cell.ended == Ended::Settled;
    if cell.window_ns > 0 && cell.window_ns < 1_000_000_000 && total.ops() > 0 && !proven {
        say(
            "SHORT",
            Level::Note,
            format!(
                "the window is only {}: background work of a device takes longer; use a longer --time",
                human::duration_ns(cell.window_ns)
            ),
        );
    }
}
