//! Judges whether the storage itself answered rather than a cache, and whether its state was suitable.

use super::{Level, Say};
use crate::cell::Cell;
use crate::coverage::FillProof;
use crate::interval::{ClassStats, Interval};
use iodyno_units::{OpKind, human};

/// Active range below which a device may serve direct I/O from its DRAM or SLC cache, bytes.
const ACTIVE_BYTES_MIN: u64 = 1 << 30;
/// Fraction of the CPU time below which kernel workers are assumed to have handled only a few requests.
const WORKER_SHARE_MIN: f64 = 0.02;

/// Reports targets whose I/O was served by a cache or memory, or whose state was unsuitable.
pub(super) fn target(cell: &Cell, total: &Interval, say: &mut Say) {
    let e = &cell.evidence;
    let reads = total.class(OpKind::Read).map_or(0, ClassStats::ops);
    let unwritten = e.written_share.is_some_and(|s| s < 0.999);
    let zeroes =
        e.blocks_sampled >= 16 && f64::from(e.blocks_zero) > 0.05 * f64::from(e.blocks_sampled);
    if reads > 0 && !e.in_process && (unwritten || zeroes) {
        let seen = match e.written_share {
            Some(share) if unwritten => {
                format!("{:.1} % of the range was never written", (1.0 - share) * 100.0)
            }
            _ => {
                format!("{} of {} sampled blocks hold only zeroes", e.blocks_zero, e.blocks_sampled)
            }
        };
        let mend = if e.virtual_time {
            "choose another ?state= or ?fill="
        } else {
            "fill the target first"
        };
        say(
            "NEVER_WRITTEN",
            Level::Warning,
            format!(
                "{seen}: a device answers reads of such blocks without touching its medium; {mend}"
            ),
        );
    }
    let trimmed_bytes = [OpKind::Trim, OpKind::WriteZeroes]
        .into_iter()
        .filter_map(|kind| total.class(kind))
        .fold(0_u64, |sum, class| sum.saturating_add(class.bytes))
        .max(e.trimmed_bytes);
    if reads > 0 && !e.in_process && trimmed_bytes > 0 {
        say(
            "READS_OF_TRIMMED",
            Level::Note,
            format!(
                "this run trimmed or zeroed {} of the target that it reads: reads of trimmed blocks might not reach the medium; fill the target before reading",
                human::size(trimmed_bytes)
            ),
        );
    }
    if let Some(fill) = e.fill.filter(FillProof::is_short) {
        let at = fill.first_gap_bytes.map_or(String::new(), |b| format!(", first gap at byte {b}"));
        let n = fill.times;
        let times = if n == 1 { "once".to_owned() } else { format!("{n} times") };
        say(
            "PRECONDITIONING_SHORT",
            Level::Warning,
            format!(
                "only {:.2} % of the active range was written {times}, as intended ({:.2} % at least once, {} in all{at}): later cells find the device in an unknown state; let the fill run to its end",
                floor_percent(fill.times_share),
                floor_percent(fill.once_share),
                human::size(fill.written_bytes)
            ),
        );
    }
    if e.content_reducible && !e.virtual_time && total.class(OpKind::Write).is_some() {
        say(
            "REDUCIBLE_CONTENT",
            Level::Note,
            "the content written can be compressed or deduplicated, as requested; a device that compresses or deduplicates writes less than it receives".to_owned(),
        );
    }
    kernel_workers(cell, say);
    size(cell, total, say);
}

/// Reports active ranges small enough to fit in a cache.
fn size(cell: &Cell, total: &Interval, say: &mut Say) {
    let e = &cell.evidence;
    // An emulated device models the behaviour of a small range.
    // MEMORY covers targets that are memory entirely.
    if e.in_process || e.virtual_time || e.is_memory() {
        return;
    }
    let small_for_ram = e.direct == Some(false)
        && !super::storage::is_uncached(cell)
        && !super::storage::writes_durably(cell, total)
        && e.ram_bytes.is_some_and(|r| e.active_bytes < 2 * r);
    if small_for_ram {
        say(
            "SMALL_TARGET",
            Level::Warning,
            format!(
                "the active range of {} is less than twice the memory of {}: most of the range fits in the page cache; use a larger ?size=",
                human::size(e.active_bytes),
                human::size(e.ram_bytes.unwrap_or(0))
            ),
        );
    } else if e.active_bytes < ACTIVE_BYTES_MIN && e.active_bytes > 0 {
        say(
            "SMALL_TARGET",
            Level::Note,
            format!(
                "the active range of {} may fit in a cache of the device or of its host; use a larger ?size=",
                human::size(e.active_bytes)
            ),
        );
    }
}

/// Converts a fraction to per cent, rounded down to two decimals so that 99.999 % does not become 100 %.
fn floor_percent(share: f64) -> f64 {
    (share * 1e4).floor() / 1e2
}

/// Reports ring requests that the kernel passed to its worker threads (io-wq).
fn kernel_workers(cell: &Cell, say: &mut Say) {
    let (workers, theirs_ns) =
        (cell.evidence.kernel_workers, cell.evidence.kernel_workers_cpu_ns as f64);
    if workers == 0 {
        return;
    }
    let share = theirs_ns / (theirs_ns + cell.resources.cpu_seconds() * 1e9).max(1.0);
    let s = if workers == 1 { "" } else { "s" };
    if share < WORKER_SHARE_MIN {
        say(
            "KERNEL_WORKERS",
            Level::Note,
            format!(
                "the kernel handed some ring requests to {workers} worker thread{s}, which used {:.1} % of the CPU time: too few to matter",
                share * 100.0
            ),
        );
    } else {
        // On memory (MEMORY), no other verdict is above a note.
        let level = if cell.evidence.is_memory() { Level::Note } else { Level::Warning };
        say(
            "KERNEL_WORKERS",
            level,
            format!(
                "the kernel handed ring requests to {workers} worker thread{s}, which used {:.0} % of the CPU time: each such I/O pays for a thread switch; use --engine psync or libaio here",
                share * 100.0
            ),
        );
    }
}
