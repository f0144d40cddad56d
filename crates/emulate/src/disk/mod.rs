//! Disks.

/// A disk.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskSpec {
    /// Capacity.
    pub capacity_bytes: u64,
}
