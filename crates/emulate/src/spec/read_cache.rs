//! The specification of a read cache in the host.

use crate::part_id::PartId;

/// A read cache: a fast part holds units of a larger one. Implemented by `read_cache`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCache {
    /// The part that holds the cached units.
    pub fast: PartId,
    /// The part that holds all data.
    pub backing: PartId,
    /// Size of the cache on the fast part, in bytes.
    pub bytes: u64,
    /// Capacity of the backing, in bytes.
    pub capacity_bytes: u64,
}
