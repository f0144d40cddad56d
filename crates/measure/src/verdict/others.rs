//! Was anybody else there, and what did operations meet?

use super::{Level, Say};
use crate::cell::Cell;

/// More I/O of others than this, as a share of ours, disturbs. Below it is what a file system's
/// journal writes.
const FOREIGN_SHARE_MAX: f64 = 0.05;

/// Was anybody else there?
pub(super) fn others(cell: &Cell, say: &mut Say) {
    let e = &cell.evidence;
    if let Some(share) = e.foreign_share
        && share > FOREIGN_SHARE_MAX
    {
        say(
            "FOREIGN_IO",
            Level::Warning,
            format!(
                "others used the device meanwhile: {:.0} % on top of this run's own I/O",
                share * 100.0
            ),
        );
    }
    if let Some(share) = e.steal_share
        && share > 0.02
    {
        say(
            "STOLEN_CPU",
            Level::Note,
            format!(
                "the hypervisor took {:.0} % of the processors' time for others: expect tails that are not the storage's",
                share * 100.0
            ),
        );
    }
    if e.recent_misses > 0 {
        say(
            "NOTHING_RECENT",
            Level::Note,
            format!(
                "{} draws asked for a block lately used before there was one, and were drawn at random",
                e.recent_misses
            ),
        );
    }
    if e.overlaps_skipped > 0 {
        say(
            "OVERLAPS_SKIPPED",
            Level::Note,
            format!(
                "{} operations met a block that was in flight and were replaced by the next draw: verified content allows one writer at a time",
                e.overlaps_skipped
            ),
        );
    }
}
