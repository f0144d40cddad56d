//! Default size of a scratch file, and the check for free space.

use super::{FileSystem, Inspection};
use crate::error::TargetError;
use iodyno_units::human;

const MIB: u64 = 1 << 20;
/// Default size of a scratch file, unless free space or memory is short.
const DEFAULT_BYTES: u64 = 1 << 30;
/// Minimum size of a scratch file. A smaller one would fit the cache of nearly every device.
const LEAST_BYTES: u64 = 64 * MIB;
/// Divisor of the free space: the default size is at most a tenth of it.
const SHARE_OF_FREE: u64 = 10;
/// Divisor of the available memory: on a memory file system the default size is at most a quarter of it.
const SHARE_OF_MEMORY: u64 = 4;

/// Size of a scratch file in whole MiB: the requested size, or 1 GiB but at most a tenth of the free space.
/// On a memory file system the default is also at most a quarter of the available memory.
///
/// # Errors
/// [`TargetError::NoSpace`] if less than the requested size or 64 MiB is free; [`TargetError::Unsupported`]
/// if the default would be less than 64 MiB.
pub(crate) fn size(
    inspection: &Inspection,
    asked_bytes: Option<u64>,
    memory_bytes: Option<u64>,
) -> Result<u64, TargetError> {
    if let Some(asked) = asked_bytes {
        return check_room(inspection, asked, memory_bytes).map(|()| asked);
    }
    let (free, memory) = room(inspection, memory_bytes);
    let by_free = free.map_or(u64::MAX, |bytes| bytes / SHARE_OF_FREE);
    let by_memory = memory.map_or(u64::MAX, |bytes| bytes / SHARE_OF_MEMORY);
    let chosen = DEFAULT_BYTES.min(by_free).min(by_memory) / MIB * MIB;
    if chosen < LEAST_BYTES {
        // If even the minimum is not free, a smaller size is no remedy.
        check_room(inspection, LEAST_BYTES, memory_bytes)?;
        let path = inspection.canonical_path.clone().unwrap_or_default();
        let (part, of, bytes) = if by_free <= by_memory {
            ("a tenth", "free space", free)
        } else {
            ("a quarter", "available memory", memory)
        };
        return Err(TargetError::Unsupported {
            problem: format!(
                "by default a scratch file takes {part} of the {of}, here {} of {}; a file of less \
                 than {} is too small to measure.",
                human::size(chosen),
                human::size(bytes.unwrap_or(0)),
                human::size(LEAST_BYTES)
            ),
            help: format!(
                "give the scratch file a size, such as scratch:{}@{path}, or another directory with scratch:@DIR.",
                human::size(LEAST_BYTES).replace(' ', "")
            ),
            path,
        });
    }
    Ok(chosen)
}

/// Free space of the file system; also the available memory if the file system keeps its files in memory.
fn room(inspection: &Inspection, memory_bytes: Option<u64>) -> (Option<u64>, Option<u64>) {
    let fs = inspection.file_system.as_ref();
    let memory = memory_bytes.filter(|_| fs.is_some_and(FileSystem::is_memory));
    (fs.and_then(|fs| fs.free_bytes), memory)
}

/// Checks that there is enough free space for a new file before it is created.
///
/// # Errors
/// [`TargetError::NoSpace`].
pub(crate) fn check_room(
    inspection: &Inspection,
    wanted_bytes: u64,
    memory_bytes: Option<u64>,
) -> Result<(), TargetError> {
    let (free, memory) = room(inspection, memory_bytes);
    // ramfs has no limit of its own and reports zero free space.
    let free = free.filter(|&bytes| bytes > 0 || memory.is_none());
    let free_bytes = free.unwrap_or(u64::MAX).min(memory.unwrap_or(u64::MAX));
    if wanted_bytes <= free_bytes {
        return Ok(());
    }
    Err(TargetError::NoSpace {
        path: inspection.canonical_path.clone().unwrap_or_default(),
        wanted_bytes,
        free_bytes,
        help: "free some space, name a smaller size, or choose another directory.".to_owned(),
    })
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
    fn the_default_size_leaves_room() {
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
        for (fs_type, free, memory, said) in [
            ("ext4", 438 * MIB, gib, "a tenth of the free space, here 43 MiB of 438 MiB"),
            ("tmpfs", 100 * gib, 255 * MIB, "a quarter of the available memory, here 63 MiB"),
        ] {
            let error = size(&on(fs_type, free), None, Some(memory)).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("scratch:64MiB@"), "{error}");
            assert!(!error.contains("640 MiB"), "{error}");
        }
    }

    #[test]
    fn a_size_that_was_asked_for_must_be_free() {
        assert_eq!(size(&on("ext4", 4096), Some(4096), Some(0)), Ok(4096));
        assert!(size(&on("ext4", 4096), Some(8192), None).is_err());
        assert!(size(&on("tmpfs", 1 << 30), Some(8192), Some(4096)).is_err());
    }
}
