//! Judges disturbances by other programs and by the machine. Also reports operations that iodyno moved to other blocks
//! than the workload intends.

use super::{Level, Say};
use crate::Interval;
use crate::cell::Cell;
use iodyno_units::human;

/// Maximum normal latency of storage in this process's memory, ns. Memory responds within microseconds, so a
/// slower operation waited for something else.
const MEMORY_NS_MAX: u64 = 5_000_000;

/// Fraction of the total latency from which stalls are considered to determine the mean.
const STALLED_SHARE_MAX: f64 = 0.1;

/// I/O of other programs, as a fraction of the cell's, from which it counts as a disturbance. A file system's
/// journal causes less.
const FOREIGN_SHARE_MAX: f64 = 0.05;

/// Reports stalls of this process, I/O of other programs, stolen processor time, and replaced operations.
pub(super) fn others(cell: &Cell, total: &Interval, say: &mut Say) {
    let e = &cell.evidence;
    let longest_ns = total.iter().filter_map(|(_, s)| s.service.max_ns()).max().unwrap_or(0);
    if e.in_process && !e.virtual_time && longest_ns > MEMORY_NS_MAX {
        let longest = human::time_ns(longest_ns as f64);
        let share = stalled_share(total);
        let (level, words) = if share > STALLED_SHARE_MAX {
            let percent = share * 100.0;
            let words = format!(
                "slow operations on memory, the longest {longest}, make up {percent:.0} % of all latency: this process was not running during them, so the mean and the rate depend on the machine's load as much as on the memory; measure again on a quiet machine"
            );
            (Level::Warning, words)
        } else {
            let words = format!(
                "an operation on memory took {longest}: this process was not running for that time, and tail latencies of storage measured on this machine include such stalls too"
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
                "other processes did I/O on the device during the run: their I/O was {:.0} % of iodyno's; stop them, and measure again",
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
                "the hypervisor gave {:.0} % of the processors' time to other machines: tail latencies include these waits",
                share * 100.0
            ),
        );
    }
    if e.recent_misses > 0 {
        say(
            "NOTHING_RECENT",
            Level::Note,
            format!(
                "{} had to repeat a recently used block when none had been used yet, and used a random block",
                human::counted(e.recent_misses, "operation")
            ),
        );
    }
    if e.overlaps_skipped > 0 {
        say(
            "OVERLAPS_SKIPPED",
            Level::Note,
            format!(
                "{} met a block that was being written, and used another block: verified content allows one writer per block at a time",
                human::counted(e.overlaps_skipped, "operation")
            ),
        );
    }
}

/// Fraction of the total latency that belongs to operations longer than [`MEMORY_NS_MAX`].
fn stalled_share(total: &Interval) -> f64 {
    let (mut stalled, mut all) = (0.0, 0.0);
    for (_, stats) in total.iter() {
        all += stats.service.sum_ns() as f64;
        let long = stats.service.buckets().filter(|b| b.low_ns > MEMORY_NS_MAX);
        stalled += long.map(|b| b.middle_ns() * b.count as f64).sum::<f64>();
    }
    if all > 0.0 { stalled / all } else { 0.0 }
}
