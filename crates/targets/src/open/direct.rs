//! Makes I/O on an open target bypass the page cache, or use it without leaving pages in it, and determines the
//! alignment that direct I/O requires.
//!
//! `O_DIRECT` is set on the open descriptor rather than when opening: a file system that refuses `O_DIRECT` when it
//! creates a file may leave the file behind. The alignment from `statx` is then verified by a read, since kernels and
//! network file systems have reported wrong values.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Access, OpenOptions};
use crate::aligned::{AlignedBuf, BUFFER_ALIGN_BYTES};
use crate::error::TargetError;
use crate::inspect::{self, Inspection, Kind};
use crate::name::Direct;

/// Default alignment, used if neither `statx` nor a block device states one: the page size of most file
/// systems.
const FALLBACK_ALIGN_BYTES: u64 = 4096;

/// An open target's use of the page cache, and its required alignment.
pub(super) struct PageCache {
    pub(super) direct: bool,
    pub(super) why_not: Option<String>,
    pub(super) uncached: bool,
    pub(super) align_bytes: u64,
    pub(super) mem_align_bytes: u64,
}

impl PageCache {
    fn used(why: String) -> Self {
        let why_not = Some(why);
        Self { direct: false, why_not, uncached: false, align_bytes: 1, mem_align_bytes: 1 }
    }
}

/// Requested use of the page cache. The target's name takes precedence over the options.
pub(super) fn requested(inspection: &Inspection, options: &OpenOptions) -> Direct {
    match inspect::direct_of(&inspection.name) {
        Direct::Auto => options.direct,
        named => named,
    }
}

pub(super) fn refused(path: &Path, why: &str) -> TargetError {
    TargetError::Unsupported {
        path: path.display().to_string(),
        problem: format!("direct I/O was required, but {why}"),
        help: "leave direct=yes out to fall back to the page cache, or choose another file system."
            .to_owned(),
    }
}

pub(super) fn refused_uncached(path: &Path, why: &str) -> TargetError {
    TargetError::Unsupported {
        path: path.display().to_string(),
        problem: format!("uncached I/O was required, but {why}"),
        help: "uncached I/O needs Linux 6.14 and a file system that supports it (XFS; ext4 and \
               btrfs in later kernels): use direct=no for buffered I/O, or leave both options \
               out for direct I/O."
            .to_owned(),
    }
}

/// Tests support for uncached I/O by reading one byte. Kernel or file system reject an unsupported flag even
/// if the file is empty.
fn try_uncached(fd: &OwnedFd, place: &str, path: &Path) -> Result<PageCache, TargetError> {
    let dontcache = ReadWriteFlags::from_bits_retain(libc::RWF_DONTCACHE as u32);
    let mut byte = [0];
    match rustix::io::preadv2(fd, &mut [IoSliceMut::new(&mut byte)], 0, dontcache) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            let kernel = rustix::system::uname();
            let kernel = kernel.release().to_string_lossy();
            let why = format!("{place} of Linux {kernel} refuses RWF_DONTCACHE.");
            Err(refused_uncached(path, &why))
        }
        // The measurement counts medium errors.
        _ => Ok(PageCache {
            uncached: true,
            ..PageCache::used("Uncached buffered I/O was requested.".to_owned())
        }),
    }
}

fn set_flag(fd: &OwnedFd, on: bool) -> Result<(), Errno> {
    let flags = fcntl_getfl(fd)?;
    fcntl_setfl(fd, if on { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT })
}

/// Bypasses the page cache if requested and possible, and reports the resulting state.
pub(super) fn set(
    fd: &OwnedFd,
    inspection: &mut Inspection,
    options: &OpenOptions,
    path: &Path,
) -> Result<PageCache, TargetError> {
    let requested = requested(inspection, options);
    if requested == Direct::Off {
        return Ok(PageCache::used("the page cache was requested".to_owned()));
    }
    let place = inspection.file_system.as_ref().map_or("the device", |fs| &fs.fs_type).to_owned();
    if requested == Direct::Uncached {
        return try_uncached(fd, &place, path);
    }
    inspection.alignment.read_fd(fd);
    let stated = stated_bytes(inspection, options);
    let outcome = match (stated, set_flag(fd, true)) {
        (Some(0), _) => Err("reports that it does not support direct I/O"),
        (_, Err(_)) => Err("refuses O_DIRECT"),
        (stated, Ok(())) => {
            let from = stated.unwrap_or(FALLBACK_ALIGN_BYTES);
            aligned_by_trial(fd, from).ok_or("refuses direct reads at every alignment")
        }
    };
    match outcome {
        Ok(align_bytes) => {
            let memory = inspection.alignment.direct_memory_bytes.unwrap_or(align_bytes);
            // A block device accepts its DMA alignment, but a file system or stacked device may need its own block. A
            // larger alignment is never wrong.
            let mem_align_bytes = memory.max(1).next_power_of_two();
            Ok(PageCache {
                direct: true,
                why_not: None,
                uncached: false,
                align_bytes,
                mem_align_bytes,
            })
        }
        Err(_) if requested == Direct::Require && set_flag(fd, false).is_err() => {
            Err(TargetError::from_errno("leave direct I/O", path, Errno::INVAL))
        }
        Err(why) if requested == Direct::Require => Err(refused(path, &format!("{place} {why}."))),
        Err(why) => {
            set_flag(fd, false)
                .map_err(|errno| TargetError::from_errno("leave direct I/O", path, errno))?;
            let mut place = place;
            if let Some(first) = place.get_mut(0..1) {
                first.make_ascii_uppercase();
            }
            Ok(PageCache::used(format!("{place} {why}.")))
        }
    }
}

/// Alignment for direct I/O as the system states it. Reads may have a finer one, which is used only if nothing is
/// written.
fn stated_bytes(inspection: &Inspection, options: &OpenOptions) -> Option<u64> {
    let alignment = &inspection.alignment;
    let for_reads =
        alignment.direct_read_offset_bytes.filter(|_| options.access == Access::ReadOnly);
    let stated = for_reads.or(alignment.direct_offset_bytes);
    // A block device accepts no less than its logical block.
    if inspection.kind == Kind::Block { stated.max(alignment.logical_block_bytes) } else { stated }
}

/// Smallest alignment, starting at `from`, at which a direct read succeeds. `from` itself if the file is
/// empty, since such reads always succeed.
fn aligned_by_trial(fd: &OwnedFd, from: u64) -> Option<u64> {
    let mut buf = AlignedBuf::zeroed(BUFFER_ALIGN_BYTES);
    let mut align = from.next_power_of_two().min(BUFFER_ALIGN_BYTES as u64);
    while align <= BUFFER_ALIGN_BYTES as u64 {
        match rustix::io::pread(fd, &mut buf[..align as usize], 0) {
            Err(Errno::INVAL) => align *= 2,
            // The measurement counts medium errors; they prove nothing about alignment.
            _ => return Some(align),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// Checks the search for the smallest alignment on a file whose system states none.
    #[test]
    fn the_trial_finds_the_smallest_alignment_that_works() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; 1 << 17], 0).unwrap();
        let fd = OwnedFd::from(file);
        if set_flag(&fd, true).is_err() {
            println!("skipped: no direct I/O in the temporary folder");
            return;
        }
        let found = aligned_by_trial(&fd, 1).unwrap() as usize;
        let mut buf = AlignedBuf::zeroed(BUFFER_ALIGN_BYTES);
        let mut read = |len: usize| rustix::io::pread(&fd, &mut buf[..len], 0);
        assert_eq!(read(found), Ok(found));
        if found > 1 {
            assert_eq!(read(found / 2), Err(Errno::INVAL));
        }
    }
}
