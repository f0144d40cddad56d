//! Manages the page cache around a cell. Drops cached pages before a cell that requests it or whose I/O is uncached.
//! For uncached I/O, also counts the cached pages before and after the cell.

use crate::open_targets::OpenTarget;
use iodyno_drive::active_range;
use iodyno_measure::{Cell, Uncached};
use iodyno_workload::{DropCache, Spec};
use std::ops::Range;
use std::os::fd::AsRawFd as _;

/// System call number of `cachestat` (Linux 6.5), the same on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// The kernel's `struct cachestat_range`.
#[repr(C)]
struct CacheStatRange {
    offset_bytes: u64,
    len_bytes: u64,
}

/// The kernel's `struct cachestat`; all fields are numbers of pages.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Bytes of a file range in the page cache: all, and those not written back yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cached {
    bytes: u64,
    unwritten_bytes: u64,
}

/// Counts the cached pages of a file range. None if the kernel lacks the system call `cachestat`.
fn count(fd: i32, bytes: &Range<u64>) -> Option<Cached> {
    let len_bytes = bytes.end.saturating_sub(bytes.start);
    let range = CacheStatRange { offset_bytes: bytes.start, len_bytes };
    let mut stat = CacheStat::default();
    // SAFETY: the call reads `range` and fills `stat`, which have the kernel's layouts.
    let (result, page_bytes) = unsafe {
        let result = libc::syscall(SYS_CACHESTAT, fd, &raw const range, &raw mut stat, 0);
        (result, libc::sysconf(libc::_SC_PAGESIZE))
    };
    let page_bytes = u64::try_from(page_bytes).ok().filter(|_| result == 0)?;
    let unwritten_bytes = (stat.dirty + stat.writeback) * page_bytes;
    Some(Cached { bytes: stat.cached * page_bytes, unwritten_bytes })
}

/// Drops a range of a file from the page cache. If `all`, writes dirty pages back first; otherwise they stay.
fn drop_pages(fd: i32, bytes: &Range<u64>, all: bool) {
    let (at, len) = (bytes.start as libc::off_t, (bytes.end - bytes.start) as libc::off_t);
    // SAFETY: plain system calls on an open descriptor. If they fail, the pages stay cached.
    unsafe {
        if all {
            libc::fdatasync(fd);
        }
        libc::posix_fadvise(fd, at, len, libc::POSIX_FADV_DONTNEED);
    }
}

/// Drops the workload's active range from the page cache, unless its I/O is direct.
pub(crate) fn drop_range(target: &OpenTarget, spec: &Spec, what: DropCache) {
    let Some(file) = target.medium.file() else { return };
    if file.direct {
        return;
    }
    let all = file.is_block_device || what == DropCache::All;
    drop_pages(file.fd.as_raw_fd(), &active_range(spec, file.capacity_bytes), all);
}

/// Page cache content of a workload's active range before its cell.
pub(crate) struct Before {
    fd: i32,
    range: Range<u64>,
    cached: Option<Cached>,
}

impl Before {
    /// Writes back the active range and drops it from the page cache, so that no reads hit pages cached earlier.
    /// Counts the pages that remain cached. Does nothing and returns None unless the target's I/O is uncached
    /// (`RWF_DONTCACHE`).
    pub(crate) fn drop_range(target: &OpenTarget, spec: &Spec) -> Option<Self> {
        let file = target.medium.file().filter(|file| file.uncached)?;
        let range = active_range(spec, file.capacity_bytes);
        let fd = file.fd.as_raw_fd();
        // If this fails, the count shows it.
        drop_pages(fd, &range, true);
        let cached = count(fd, &range);
        Some(Self { fd, range, cached })
    }

    /// Counts the cached pages after the cell, and records the counts before and after in the cell's evidence.
    pub(crate) fn record(&self, cell: &mut Cell) {
        let after = count(self.fd, &self.range);
        cell.evidence.uncached = Some(Uncached {
            bytes: (self.range.end - self.range.start).min(cell.resources.moved_bytes),
            before_bytes: self.cached.map(|cached| cached.bytes),
            after_bytes: after.map(|cached| cached.bytes),
            unwritten_bytes: after.map(|cached| cached.unwritten_bytes),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    /// Counts pages when they are dirty, clean, and dropped. Skipped if the kernel lacks `cachestat`.
    #[test]
    fn pages_of_a_range_are_counted() {
        let file = tempfile::tempfile().unwrap();
        let fd = file.as_raw_fd();
        let Some(none) = count(fd, &(0..1 << 20)) else {
            println!("skipped: no cachestat");
            return;
        };
        assert_eq!(none, Cached { bytes: 0, unwritten_bytes: 0 });
        file.write_all_at(&vec![1; 1 << 20], 0).unwrap();
        assert_eq!(count(fd, &(0..1 << 20)).unwrap().bytes, 1 << 20);
        assert_eq!(count(fd, &(1 << 19..1 << 20)).unwrap().bytes, 1 << 19);
        file.sync_data().unwrap();
        assert_eq!(count(fd, &(0..1 << 20)).unwrap().unwritten_bytes, 0);
        // (Drop the whole range: the kernel drops only whole folios.)
        drop_pages(fd, &(0..1 << 20), false);
        assert_eq!(count(fd, &(0..1 << 20)), Some(none));
        file.write_all_at(&vec![2; 1 << 20], 0).unwrap();
        drop_pages(fd, &(0..1 << 20), true);
        assert_eq!(count(fd, &(0..1 << 20)), Some(none));
    }
}
