//! The specification of a read cache in the host.

use crate::part_id::PartId;

/// A read cache: a fast device that stores copies of data from a larger device or array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCache {
    /// The device that stores the cached data.
    pub fast: PartId,
    /// The device or array that stores all data.
    pub backing: PartId,
    /// Size of the cache on the fast device, in bytes.
    pub bytes: u64,
    /// Capacity of the backing device or array, in bytes.
    pub capacity_bytes: u64,
}
