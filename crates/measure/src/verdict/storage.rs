//! Judges whether the I/O reached the storage that holds the target's bytes. Uses the known storage layers and the
//! devices' byte counts.

use super::{Level, Say};
use crate::cell::Cell;
use crate::interval::{ClassStats, Interval};
use crate::storage::{Reached, Storage, StorageEnd, Uncached};
use iodyno_units::{OpKind, human};

/// Minimum fraction of a cell's bytes that must reach the device to rule out that a cache responded instead.
const REACHED_SHARE_MIN: f64 = 0.95;
/// Minimum number of bytes issued for a comparison with a device's counters.
const ISSUED_BYTES_MIN: u64 = 1 << 20;
/// Written fraction of a range below which its unwritten blocks are taken into account: reads of them may not
/// reach a device.
const WRITTEN_SHARE_MIN: f64 = 0.999;

/// Share of durable writes, or number of flushes per write, from which all writes count as durable.
const FLUSHED_SHARE_MIN: f64 = 0.95;
/// Size of a page of the page cache, bytes.
const PAGE_BYTES: u32 = 4096;

/// Maximum share of its bytes that uncached I/O may leave in the page cache.
const KEPT_SHARE_MAX: f64 = 0.05;

/// Whether uncached I/O demonstrably left almost nothing in the page cache, so that reads were served by the
/// layers below.
pub(super) fn is_uncached(cell: &Cell) -> bool {
    let kept = cell.evidence.uncached.as_ref().and_then(Uncached::kept_share);
    kept.is_some_and(|share| share <= KEPT_SHARE_MAX)
}

/// Reports I/O that was requested as uncached but left data in the page cache.
fn uncached(cell: &Cell, total: &Interval, say: &mut Say) {
    let Some(of) = &cell.evidence.uncached else { return };
    let counts = match (of.before_bytes, of.after_bytes, of.unwritten_bytes) {
        (Some(before), Some(after), Some(unwritten)) => format!(
            "the page cache could have kept {}: it held {} before the cell and {} after it ({} dirty)",
            human::size(of.bytes),
            human::size(before),
            human::size(after),
            human::size(unwritten)
        ),
        _ => "how much the page cache held is not known, because this kernel does not report it"
            .to_owned(),
    };
    let (level, found) = if is_uncached(cell) {
        (Level::Note, "that leaves nothing in the page cache (RWF_DONTCACHE)")
    } else {
        (
            Level::Warning,
            "was meant to leave nothing in the page cache (RWF_DONTCACHE), but left, or may have left, data there",
        )
    };
    say(
        "UNCACHED",
        level,
        format!("buffered I/O {found}: {counts}{}", not_durable(cell, total, "; ")),
    );
}

/// Reports whether the I/O reached the devices below the target.
pub(super) fn storage(cell: &Cell, total: &Interval, say: &mut Say) {
    let e = &cell.evidence;
    let unknown = Storage::default();
    let storage = e.storage.as_ref().unwrap_or(&unknown);
    let reached = storage.reached.filter(|_| !e.virtual_time);
    if storage.is_memory() {
        let name = storage.layers.last().map_or("memory", |layer| layer.name.as_str());
        let counts = reached.map_or(String::new(), |r| {
            let issued = r.issued_read_bytes + r.issued_written_bytes;
            let moved = r.device_read_bytes + r.device_written_bytes;
            format!(": of {} issued, {} reached a device", human::size(issued), human::size(moved))
        });
        say(
            "MEMORY",
            Level::Warning,
            format!(
                "{name} is memory{counts}; the figures show the speed of memory and of this machine's processors, not of storage: name a target on a disk, such as scratch:@/var/tmp, unless you mean to measure memory"
            ),
        );
    } else if let Some(why) = why_cached(cell, total, storage, reached.as_ref()) {
        let counts = reached.map_or(String::new(), |r| format!("; {}", counts(cell, &r)));
        say("PAGE_CACHE", Level::Warning, format!("{why}{counts}"));
    }
    uncached(cell, total, say);
    if e.passthrough {
        say(
            "PASSTHROUGH",
            Level::Note,
            "NVMe commands bypassed the block layer: no scheduler and no page cache were in the path, and the kernel's counters for the device do not include them".to_owned(),
        );
    }
    unpreconditioned(cell, total, storage, say);
}

/// Whether nearly all writes were durable when they completed (force unit access).
pub(super) fn forces_writes(cell: &Cell) -> bool {
    cell.evidence.forced_share >= FLUSHED_SHARE_MIN
}

/// Whether the cell only writes, and nearly every write was forced or followed by a flush. The page cache absorbs
/// buffered writes, but forced writes and flushes include the device's time.
pub(super) fn writes_durably(cell: &Cell, total: &Interval) -> bool {
    let ops = |kind| total.class(kind).map_or(0, ClassStats::ops);
    let writes = ops(OpKind::Write);
    let flushes = ops(OpKind::Flush) as f64 >= FLUSHED_SHARE_MIN * writes as f64;
    writes > 0 && ops(OpKind::Read) == 0 && (flushes || forces_writes(cell))
}

/// The remark, after `separator`, that buffered writes are not durable; empty if there were none, or if they were
/// forced.
fn not_durable(cell: &Cell, total: &Interval, separator: &str) -> String {
    let writes = total.class(OpKind::Write).map_or(0, ClassStats::ops);
    if writes == 0 || forces_writes(cell) {
        return String::new();
    }
    format!("{separator}writes are durable only after a flush")
}

/// Explains that memory served the I/O instead of the device, with the remedy; None if there is no evidence
/// of that.
fn why_cached(
    cell: &Cell,
    total: &Interval,
    storage: &Storage,
    reached: Option<&Reached>,
) -> Option<String> {
    let e = &cell.evidence;
    if e.direct == Some(false) && writes_durably(cell, total) && storage.page_cache.is_empty() {
        return None;
    }
    if e.direct == Some(false) && !is_uncached(cell) {
        let why = e.why_not_direct.as_deref().unwrap_or("asked for").trim_end_matches('.');
        return Some(format!(
            "buffered I/O ({why}): the page cache answers instead of the storage{}",
            not_durable(cell, total, ", and ")
        ));
    }
    if !storage.page_cache.is_empty() {
        let layers = storage.page_cache.join(" and ");
        return Some(format!("{layers}: the page cache answers instead of the storage"));
    }
    let reached = reached?;
    let reads_short =
        is_short(reached.device_read_bytes, reached.issued_read_bytes, e.written_share);
    // Data that is overwritten before its write-back reaches a device only once.
    // Bytes that uncached writes submitted may not have reached the device yet.
    let on_its_way = e.uncached.and_then(|of| of.unwritten_bytes).unwrap_or(0);
    let written = reached.device_written_bytes.saturating_add(on_its_way);
    let writes_short = is_short(written, reached.issued_written_bytes, None);
    let what = match (reads_short, writes_short) {
        (true, true) => "reads and writes",
        (true, false) => "reads",
        (false, true) => "writes",
        (false, false) => return None,
    };
    let who = storage.layers.iter().rev().find(|layer| layer.kind != "disk");
    let who = who.map_or(cell.key.target.as_str(), |layer| layer.name.as_str());
    Some(if storage.end == StorageEnd::Served {
        format!(
            "{who} answered {what} from memory of this machine, such as its page cache, and not from a device: have the server open its storage with direct I/O (qemu-nbd --cache=none), or measure the storage below it"
        )
    } else {
        let holes =
            if reads_short { " or from holes of a file (blocks never written)" } else { "" };
        format!(
            "not all {what} reached a device: a layer above it answers from memory{holes}, or compresses or deduplicates; {fill}measure the device below {who}, or use a file system that does direct I/O",
            fill = if reads_short { "write the whole range once, " } else { "" },
        )
    })
}

/// Whether fewer bytes reached a device than were issued, allowing for blocks of the range that were never
/// written.
fn is_short(device_bytes: u64, issued_bytes: u64, written_share: Option<f64>) -> bool {
    let written = written_share.filter(|share| *share < WRITTEN_SHARE_MIN).unwrap_or(1.0);
    issued_bytes >= ISSUED_BYTES_MIN
        && (device_bytes as f64) < REACHED_SHARE_MIN * written * issued_bytes as f64
}

/// Formats the byte counts, such as `0 B of 1.2 GiB read (0 %) reached a device`. If the device moved more
/// than the cell issued, it omits the percentage, because the device's counters include all programs.
fn counts(cell: &Cell, r: &Reached) -> String {
    let part = |what: &str, device: u64, issued: u64| {
        (issued > 0).then(|| {
            let (of_device, own) = (human::size(device), human::size(issued));
            if device > issued {
                return format!("{of_device} {what} (this run issued {own})");
            }
            let percent = (100.0 * device as f64 / issued as f64).floor();
            format!("{of_device} of {own} {what} ({percent} %)")
        })
    };
    let read = (r.device_read_bytes, r.issued_read_bytes);
    let written = (r.device_written_bytes, r.issued_written_bytes);
    let parts = [part("read", read.0, read.1), part("written", written.0, written.1)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return "no data was moved".to_owned();
    }
    let parts = parts.join(" and ");
    let is_more = |(device, issued): (u64, u64)| issued > 0 && device > issued;
    // Write-back writes whole pages.
    let pages = if cell.evidence.direct == Some(false) { pages_factor(cell) } else { 1.0 };
    let written_at_most = (written.1 as f64 * pages) as u64;
    let others = match (is_more(read), is_more((written.0, written_at_most))) {
        (false, false) => return format!("{parts} reached a device"),
        (true, false) => "read",
        (false, true) => "wrote",
        (true, true) => "read and wrote",
    };
    format!(
        "{parts} reached a device, so other programs also {others}, or a lower layer read ahead or kept copies: how much of this run's I/O reached the device is not known"
    )
}

/// Total size of the pages that a write covers in full or in part, divided by the size of the write.
fn pages_factor(cell: &Cell) -> f64 {
    let factor = |bytes: u32| {
        let pages = if bytes.is_multiple_of(PAGE_BYTES) {
            bytes / PAGE_BYTES
        } else {
            // The write begins anywhere in its first page.
            bytes.div_ceil(PAGE_BYTES) + 1
        };
        f64::from(pages * PAGE_BYTES) / f64::from(bytes.max(1))
    };
    cell.key.blocks.iter().map(|(bytes, _)| factor(*bytes)).fold(1.0, f64::max)
}

/// Reports writes to a flash device that was not preconditioned.
fn unpreconditioned(cell: &Cell, total: &Interval, storage: &Storage, say: &mut Say) {
    let e = &cell.evidence;
    let written = total.class(OpKind::Write).map_or(0, |class| class.bytes);
    // A method itself reports its preconditioning, and a fill is the preconditioning.
    if written == 0 || e.virtual_time || e.fill.is_some() || cell.key.place.is_some() {
        return;
    }
    // Bytes held in a page cache prove nothing about the device.
    let is_device = storage.end == StorageEnd::Device && storage.page_cache.is_empty();
    if !is_device || storage.rotational == Some(true) {
        return;
    }
    let (Some(before), Some(capacity)) = (storage.device_written_bytes, storage.device_bytes)
    else {
        return;
    };
    if before < capacity {
        say(
            "UNPRECONDITIONED",
            Level::Note,
            format!(
                "this run wrote {} in {}, after {} of other writes since the machine's start, to {} with a capacity of {}: a flash device writes faster until its whole capacity has been written, so this is not a steady state; fill the device first, run a method that fills it, or write for longer",
                human::size(written),
                human::time_ns(cell.window_ns as f64),
                human::size(before),
                storage.lowest.join(" and "),
                human::size(capacity)
            ),
        );
    }
}
