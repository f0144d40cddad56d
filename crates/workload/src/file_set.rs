//! The settings of a workload's file set: how many files, how large together, how fragmented. `stream/file_layout.rs`
//! places them on a target.

use crate::range::Edge;

/// The longest extent of ext4 with blocks of 4 KiB.
pub(crate) const MAX_EXTENT_BYTES: u64 = 128 << 20;
/// A block of the file system.
pub(crate) const FS_BLOCK_BYTES: u64 = 4096;
/// The most files.
pub(crate) const MAX_FILES: u32 = 1 << 20;

/// Files of equal size on an ext4-like file system, whose bytes are the workload's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSet {
    /// How many files.
    pub files: u32,
    /// Bytes of all files together, or their share of the active range.
    pub size: Edge,
    /// Bytes of each extent, where they lie scattered; None: as a new file system places them, side by side.
    pub extent_bytes: Option<u64>,
}
