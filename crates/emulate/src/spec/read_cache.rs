//! The specification of a read cache in the host.

use crate::part_id::PartId;

/// A fast part that holds units of a larger one: see `read_cache`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCache {
    /// Holds the units.
    pub fast: PartId,
    /// Holds everything.
    pub backing: PartId,
    /// Bytes that the fast part holds of the other.
    pub bytes: u64,
    /// Bytes of the backing.
    pub capacity_bytes: u64,
}
