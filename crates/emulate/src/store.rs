//! Fill of the stores between hosts and media: write buffers and caches. While the fill of such a
//! store is not stationary, a load looks faster or slower than it will be in the long run.

/// The kind of data in a write buffer or cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Dirty data. Hosts must wait while the buffer or cache is full.
    Dirty,
    /// Copies of data that was read. Empty at the start.
    Copies,
    /// Copies of data, with a uniform sample of the volume at the start. The fill level counts only data added
    /// since.
    Sample,
    /// Burst credits of a limit, counted in operations or in bytes: I/Os use them up, and they accrue at the base rate.
    Credits,
}

/// Fill level of all write buffers, caches or buckets of burst credits of one kind in a machine. Credits of operations
/// are counted in operations instead of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Name of the kind of buffer or cache, such as `disk's write cache`.
    pub name: &'static str,
    /// The kind of data in the buffers or caches.
    pub keeps: Keeps,
    /// Bytes of data that the buffers or caches contain now.
    pub held_bytes: u64,
    /// Bytes at which the buffers or caches accept no more data, or replace old data.
    pub capacity_bytes: u64,
    /// Bytes accepted since the start. For [`Keeps::Copies`] and [`Keeps::Sample`]: bytes that reads found in the
    /// cache, or that were added to it.
    pub passed_bytes: u64,
    /// Bytes among which a write buffer chooses what to write next; 0: it has no choice. Its write rate varies
    /// until these bytes have been written.
    pub choice_bytes: u64,
}
