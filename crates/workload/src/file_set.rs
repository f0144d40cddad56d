//! The settings of a workload's file set: number of files, total size, and fragmentation. `stream/file_layout.rs`
//! places the files on a target.

use crate::range::Edge;

/// Longest extent of ext4 with blocks of 4 KiB, bytes.
pub(crate) const MAX_EXTENT_BYTES: u64 = 128 << 20;
/// Block size of the emulated ext4-like file system, bytes.
pub(crate) const FS_BLOCK_BYTES: u64 = 4096;
pub(crate) const MAX_FILES: u32 = 1 << 20;

/// Files of equal size on an ext4-like file system. The workload's addresses are offsets into these files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSet {
    /// Number of files in the set; all have the same size.
    pub files: u32,
    /// Total size of all files, in bytes or as a share of the active range.
    pub size: Edge,
    /// Size of each extent of scattered files, bytes; None: contiguous files, as on a new file system.
    pub extent_bytes: Option<u64>,
}
