//! Interference by other programs and the machine, and operations that were replaced.

use super::{Level, Say};
use crate::Interval;
use crate::cell::Cell;
use iodyno_units::human;

/// Longest latency of memory in this process, ns. It answers within microseconds: a slower operation waited for
/// something else.
const MEMORY_NS_MAX: u64 = 5_000_000;

/// Share of all latency from which stalls determine the mean.
const STALLED_SHARE_MAX: f64 = 0.1;

/// I/O of other programs, as a share of ours, from which it disturbs. Below it is a file system's journal.
const FOREIGN_SHARE_MAX: f64 = 0.05;

/// Reports interference by other programs.
pub(super) fn others(cell: &Cell, total: &Interval, say: &mut Say) {
    let e = &cell.evidence;
    let longest_ns = total.iter().filter_map(|(_, s)| s.service.max_ns()).max().unwrap_or(0);
    if e.in_process && !e.virtual_time && longest_ns > MEMORY_NS_MAX {
        let longest = human::time_ns(longest_ns as f64);
        let share = stalled_share(total);
        let (level, words) = if share > STALLED_SHARE_MAX {
            let percent = share * 100.0;
            let words = format!(
                "{percent:.0} % of all latency is of operations on memory that took up to {longest}: this process was not running then, so the mean and the rate are the machine's load as much as the memory's; measure again on a quiet machine"
            );
            (Level::Warning, words)
        } else {
            let words = format!(
                "an operation on memory took {longest}: this process was not running then, and tails of cells on storage here hold such stalls too"
            );
            (Level::Note, words)
        };
        say("HOST_STALLED", level, words);
    }
    if let Some(share) = e.foreign_share
        && share > FOREIGN_SHARE_MAX
    {
        say(
            "FOREIGN_IO",
            Level::Warning,
            format!(
                "other processes did I/O on the device during the run: {:.0} % on top of ours",
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
                "{} draws needed a recently used block before there was one, and were drawn at random",
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

/// Share of all latency spent in operations longer than [`MEMORY_NS_MAX`].
fn stalled_share(total: &Interval) -> f64 {
    let (mut stalled, mut all) = (0.0, 0.0);
    for (_, stats) in total.iter() {
        all += stats.service.sum_ns() as f64;
        let long = stats.service.buckets().filter(|b| b.low_ns > MEMORY_NS_MAX);
        stalled += long.map(|b| b.middle_ns() * b.count as f64).sum::<f64>();
    }
    if all > 0.0 { stalled / all } else { 0.0 }
}
