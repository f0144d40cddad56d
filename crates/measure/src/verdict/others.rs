//! Was anybody else there, and what did operations meet?

use super::{Level, Say};
use crate::Interval;
use crate::cell::Cell;
use iodyno_units::human;

/// Memory of the process answers within microseconds: what took longer than this, ns, waited for something
/// else.
const MEMORY_NS_MAX: u64 = 5_000_000;

/// More I/O of others than this, as a share of ours, disturbs. Below it is what a file system's
/// journal writes.
const FOREIGN_SHARE_MAX: f64 = 0.05;

/// Was anybody else there?
pub(super) fn others(cell: &Cell, total: &Interval, say: &mut Say) {
    let e = &cell.evidence;
    let longest_ns = total.iter().filter_map(|(_, s)| s.service.max_ns()).max().unwrap_or(0);
    if e.in_process && !e.virtual_time && longest_ns > MEMORY_NS_MAX {
        say(
            "HOST_STALLED",
            Level::Note,
            format!(
                "an operation on memory took {}: this process was not running then, and tails of cells on storage here hold such stalls too",
                human::time_ns(longest_ns as f64)
            ),
        );
    }
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
