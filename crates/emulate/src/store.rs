//! Fill of the stores between hosts and media: write buffers and caches. While the fill of such a
//! store is not stationary, a load looks faster or slower than it will be in the long run.

/// The kind of data in a write buffer or cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Dirty data. A full store makes hosts wait.
    Dirty,
    /// Copies of data that was read. The store is empty at the start.
    Copies,
    /// Copies, but the store starts full with a uniform sample of its volume. Its fill counts what was admitted since.
    Sample,
}

/// Fill of all write buffers or caches of one kind in a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Name of the kind, such as `disk's write cache`.
    pub name: &'static str,
    /// The kind of data in the store.
    pub keeps: Keeps,
    /// Bytes in the store now.
    pub held_bytes: u64,
    /// Bytes at which the store accepts no more, or replaces old content.
    pub capacity_bytes: u64,
    /// Bytes accepted since the start; for [`Keeps::Copies`] and [`Keeps::Sample`], bytes looked up or admitted.
    pub passed_bytes: u64,
    /// Bytes among which the store chooses what to write next; 0 if it has no choice. The rate of
    /// its writes varies while it works through these bytes.
    pub choice_bytes: u64,
}
