//! Fill levels of write buffers and caches. Until they are stationary, measured rates and latencies differ from those
//! in the long run.

/// Type of content of a buffer or cache. It decides how the fill level affects measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Data that is not yet on the medium. While it fills the buffer or cache, hosts' writes wait.
    Dirty,
    /// Clean copies of data that was read, as in a read cache. The cache is empty at the start.
    Copies,
    /// Clean copies of data. At the start the cache holds a uniform sample of the volume, which the fill level does
    /// not count.
    Sample,
    /// Burst credits of a limit, in operations or in bytes. I/Os use up credits; credits accrue at the base rate.
    Credits,
}

/// Fill level of one type of write buffer, cache or bucket of burst credits, summed over a machine. Credits of an IOPS
/// limit are counted in operations instead of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Name of the type of buffer or cache, such as `disk's write cache`.
    pub name: &'static str,
    /// Content of the buffers or caches, such as dirty data.
    pub keeps: Keeps,
    /// Bytes of data in the buffers or caches now.
    pub held_bytes: u64,
    /// Capacity in bytes. Full buffers or caches accept no more data, or replace old data.
    pub capacity_bytes: u64,
    /// Bytes accepted since the machine started. For [`Keeps::Copies`] and [`Keeps::Sample`]: bytes that reads found in
    /// the cache, or that were added to the cache.
    pub passed_bytes: u64,
    /// Dirty data in the reordering window of a disk's write cache, bytes; 0: no reordering. From this window, the disk
    /// writes the range with the shortest access time next. The write rate is stationary only after several times this
    /// amount has been written.
    pub choice_bytes: u64,
}
