//! Determines which share of a file was really written.
//!
//! A read of a hole or of an unwritten extent never reaches the device: the file system answers with zeroes from
//! memory, so memory would be measured. FIEMAP lists extents and their flags; where a file system lacks it (tmpfs),
//! `SEEK_DATA` separates data from holes.

use std::os::fd::AsFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::ioctl;

/// Flag of linux/fiemap.h: the extent is allocated but unwritten, so reads return zeroes.
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;
/// Flag of linux/fiemap.h: this is the file's last extent.
const FIEMAP_EXTENT_LAST: u32 = 0x1;
/// Maximum number of a file's extents to read.
const EXTENTS_MAX: u64 = 4_000_000;

/// How a range of a file is allocated on its file system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extents {
    /// Fraction of the range that is allocated and written, 0 to 1.
    pub written_share: f64,
    /// Number of extents in the range; `None` if the file system reports only data and holes.
    pub count: Option<u64>,
}

/// Reads the extents of the first `range_bytes` of a file. `None` if the file system reports none, or
/// the range is empty.
pub(crate) fn extents(fd: impl AsFd, range_bytes: u64) -> Option<Extents> {
    if range_bytes == 0 {
        return None;
    }
    by_fiemap(&fd, range_bytes).or_else(|| by_seek(&fd, range_bytes))
}

fn by_fiemap(fd: &impl AsFd, range_bytes: u64) -> Option<Extents> {
    let mut at = 0;
    let mut written = 0;
    let mut count = 0;
    while at < range_bytes {
        let batch = ioctl::fiemap(fd, at, range_bytes - at).ok()?;
        let Some(last) = batch.last() else { break };
        for extent in &batch {
            let end = (extent.logical_bytes + extent.length_bytes).min(range_bytes);
            // An extent may begin before the requested offset.
            let start = extent.logical_bytes.max(at).min(end);
            if extent.flags & FIEMAP_EXTENT_UNWRITTEN == 0 {
                written += end - start;
            }
            at = at.max(end);
            count += 1;
        }
        if last.flags & FIEMAP_EXTENT_LAST != 0 {
            break;
        }
        if count > EXTENTS_MAX {
            return None;
        }
    }
    Some(Extents { written_share: written as f64 / range_bytes as f64, count: Some(count) })
}

fn by_seek(fd: &impl AsFd, range_bytes: u64) -> Option<Extents> {
    let mut at = 0;
    let mut written = 0;
    let mut pieces = 0;
    while at < range_bytes && pieces < EXTENTS_MAX {
        let data = match seek(fd, SeekFrom::Data(at)) {
            Ok(data) => data,
            // No data at or after this offset.
            Err(Errno::NXIO) => break,
            Err(_) => return None,
        };
        let hole = seek(fd, SeekFrom::Hole(data)).ok()?.max(data + 1);
        written += hole.min(range_bytes).saturating_sub(data);
        at = hole;
        pieces += 1;
    }
    // Later sequential reads may use this descriptor, so restore its position.
    seek(fd, SeekFrom::Start(0)).ok()?;
    Some(Extents { written_share: written as f64 / range_bytes as f64, count: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    #[test]
    fn holes_and_unwritten_extents_are_not_data() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(4 << 20).unwrap();
        let Some(empty) = extents(&file, 4 << 20) else {
            println!("skipped: the file system of the temporary folder reports no extents");
            return;
        };
        assert!(empty.written_share.abs() < 1e-9);
        file.write_all_at(&vec![1; 1 << 20], 1 << 20).unwrap();
        file.flush().unwrap();
        let quarter = extents(&file, 4 << 20).unwrap();
        assert!((quarter.written_share - 0.25).abs() < 1e-9, "{quarter:?}");
        // Only the requested range counts, also where an extent reaches beyond it.
        let half = extents(&file, 2 << 20).unwrap();
        assert!((half.written_share - 0.5).abs() < 1e-9, "{half:?}");
        let third = extents(&file, 3 << 19).unwrap();
        assert!((third.written_share - 1.0 / 3.0).abs() < 1e-9, "{third:?}");
        // Allocated but unwritten space is not data either. Both methods must show that.
        let mode = rustix::fs::FallocateFlags::empty();
        if rustix::fs::fallocate(&file, mode, 2 << 20, 2 << 20).is_ok() {
            let still = extents(&file, 4 << 20).unwrap();
            assert!((still.written_share - 0.25).abs() < 1e-9, "{still:?}");
        }
        let seek = by_seek(&file, 4 << 20).unwrap();
        assert!((seek.written_share - 0.25).abs() < 1e-9, "{seek:?}");
    }
}
