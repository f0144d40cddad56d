//! Scratch files: their default size, and a creation that leaves nothing behind, whatever ends the program.
//!
//! The file has no name: `O_TMPFILE` makes one that was never linked into a directory, and the
//! kernel frees it when the last descriptor closes, also after SIGKILL. A file system without it
//! gets a file that is unlinked in the moment after it was made.

use std::path::Path;

use iodyno_units::human;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::TargetError;
use crate::inspect::{FileSystem, Inspection};

const MIB: u64 = 1 << 20;
/// The size where nothing else limits it.
const DEFAULT_BYTES: u64 = 1 << 30;
/// Below this a file fits the caches of nearly every device, and a figure means little.
const LEAST_BYTES: u64 = 64 * MIB;
/// At most this part of the free space is taken by default.
const SHARE_OF_FREE: u64 = 10;
/// At most this part of the available memory is taken by default, where files are memory.
const SHARE_OF_MEMORY: u64 = 4;

/// The size of a scratch file: as requested, or 1 GiB but at most a tenth of the free space (and a
/// quarter of the available memory where files are memory), in whole MiB.
///
/// # Errors
/// [`TargetError::NoSpace`] when the requested size is not free, or less than 64 MiB would be
/// left to choose.
pub(crate) fn size(
    inspection: &Inspection,
    requested_bytes: Option<u64>,
    memory_bytes: Option<u64>,
) -> Result<u64, TargetError> {
    if let Some(requested) = requested_bytes {
        return check_space(inspection, requested, memory_bytes).map(|()| requested);
    }
    let (free, memory) = space_left(inspection, memory_bytes);
    let by_free = free.map_or(u64::MAX, |bytes| bytes / SHARE_OF_FREE);
    let by_memory = memory.map_or(u64::MAX, |bytes| bytes / SHARE_OF_MEMORY);
    let chosen = DEFAULT_BYTES.min(by_free).min(by_memory) / MIB * MIB;
    if chosen < LEAST_BYTES {
        let help = format!(
            "unasked, iodyno takes a tenth of the free space and no less than {}; name \
             another place with scratch:@DIR, or a size with scratch:SIZE.",
            human::size(LEAST_BYTES)
        );
        return Err(TargetError::NoSpace {
            path: inspection.canonical_path.clone().unwrap_or_default(),
            wanted_bytes: LEAST_BYTES * SHARE_OF_FREE,
            free_bytes: free.unwrap_or(u64::MAX).min(memory.unwrap_or(u64::MAX)),
            help,
        });
    }
    Ok(chosen)
}

/// Free space of the file system, and available memory where its files are memory.
fn space_left(inspection: &Inspection, memory_bytes: Option<u64>) -> (Option<u64>, Option<u64>) {
    let fs = inspection.file_system.as_ref();
    let memory = memory_bytes.filter(|_| fs.is_some_and(FileSystem::is_memory));
    (fs.and_then(|fs| fs.free_bytes), memory)
}

/// Refuses a new file that there is no space for, before anything is created.
///
/// # Errors
/// [`TargetError::NoSpace`].
pub(crate) fn check_space(
    inspection: &Inspection,
    wanted_bytes: u64,
    memory_bytes: Option<u64>,
) -> Result<(), TargetError> {
    let (free, memory) = space_left(inspection, memory_bytes);
    // ramfs has no limit of its own and says that nothing is free.
    let free = free.filter(|&bytes| bytes > 0 || memory.is_none());
    let free_bytes = free.unwrap_or(u64::MAX).min(memory.unwrap_or(u64::MAX));
    if wanted_bytes <= free_bytes {
        return Ok(());
    }
    Err(TargetError::NoSpace {
        path: inspection.canonical_path.clone().unwrap_or_default(),
        wanted_bytes,
        free_bytes,
        help: "free some space, name a smaller size, or choose another place.".to_owned(),
    })
}

/// Makes an unnamed file in a directory, readable and writable by its owner.
///
/// # Errors
/// The system's, when neither way works.
pub(crate) fn create(dir: &Path) -> Result<OwnedFd, Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    // O_EXCL: it can be given no name later.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE | OFlags::EXCL;
    match rustix::fs::open(dir, flags, mode) {
        // Errors of file systems and kernels without O_TMPFILE.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => create_unlinked(dir),
        result => result,
    }
}

/// Frees the file's blocks, and waits until the file system has committed that. A file system that is mounted
/// with `discard` discards freed blocks at its next commit: by itself some seconds later, when another run
/// measures.
pub(crate) fn free_blocks(fd: &OwnedFd) {
    // A file system that refuses frees them when the descriptor closes.
    if rustix::fs::ftruncate(fd, 0).is_ok() {
        let _ = rustix::fs::fdatasync(fd);
    }
}

fn create_unlinked(dir: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let mut number = 0_u32;
    loop {
        let path = dir.join(format!(".iodyno-scratch-{}-{number}", std::process::id()));
        match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => {
                crate::output::remove_same_path(&path, &fd)?;
                return Ok(fd);
            }
            // Another scratch file of this process is between its two calls.
            Err(Errno::EXIST) if number < 1000 => number += 1,
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::inspect;
    use crate::name::TargetName;

    fn on(fs_type: &str, free_bytes: u64) -> Inspection {
        let mut inspection = inspect(&TargetName::Null { size_bytes: 512 }).unwrap();
        inspection.file_system = Some(FileSystem {
            fs_type: fs_type.to_owned(),
            mount_point: None,
            source: None,
            options: None,
            super_options: None,
            read_only: None,
            block_bytes: None,
            total_bytes: None,
            free_bytes: Some(free_bytes),
            dev: None,
        });
        inspection
    }

    #[test]
    fn the_default_size_leaves_space() {
        let gib = 1 << 30;
        for (fs_type, free, memory, expected) in [
            ("ext4", 100 * gib, gib, gib),
            ("ext4", 5 * gib, gib, 512 * MIB),
            ("ext4", 5 * gib + 19 * MIB, gib, 513 * MIB),
            ("tmpfs", 100 * gib, 2 * gib, 512 * MIB),
            ("tmpfs", 2 * gib, 64 * gib, 204 * MIB),
            ("ext4", 640 * MIB, gib, 64 * MIB),
        ] {
            assert_eq!(
                size(&on(fs_type, free), None, Some(memory)),
                Ok(expected),
                "{fs_type} {free}"
            );
        }
        for (fs_type, free, memory) in [("ext4", 639 * MIB, gib), ("tmpfs", 100 * gib, 255 * MIB)] {
            let error = size(&on(fs_type, free), None, Some(memory)).unwrap_err();
            assert!(matches!(error, TargetError::NoSpace { .. }), "{error}");
        }
    }

    #[test]
    fn a_requested_size_must_be_free() {
        assert_eq!(size(&on("ext4", 4096), Some(4096), Some(0)), Ok(4096));
        assert!(size(&on("ext4", 4096), Some(8192), None).is_err());
        assert!(size(&on("tmpfs", 1 << 30), Some(8192), Some(4096)).is_err());
    }

    #[test]
    fn freed_blocks_are_gone_before_the_file_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let fd = create(dir.path()).unwrap();
        assert_eq!(rustix::io::pwrite(&fd, &[1; 8192], 0), Ok(8192));
        free_blocks(&fd);
        let stat = rustix::fs::fstat(&fd).unwrap();
        assert_eq!((stat.st_size, stat.st_blocks), (0, 0));
    }

    #[test]
    fn neither_way_leaves_a_name() {
        let dir = tempfile::tempdir().unwrap();
        for fd in [create(dir.path()).unwrap(), create_unlinked(dir.path()).unwrap()] {
            assert_eq!(crate::sysroot::list(dir.path()), [""; 0]);
            assert_eq!(rustix::io::pwrite(&fd, b"x", 0), Ok(1));
        }
    }
}
