//! Fill of the stores between hosts and media: write buffers and caches. A store whose fill has not reached the level of the
//! long run makes a load look faster, or slower, than it will be.

/// What a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Written data that is not on the medium: a full store makes hosts wait.
    Dirty,
    /// Copies of data that was read. Empty at the start.
    Copies,
    /// The same, but it starts full with a uniform sample of its volume; the fill counts what was admitted since.
    Sample,
}

/// The fill of all stores of one kind in a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Name of the kind, such as `disk's write cache`.
    pub name: &'static str,
    /// What it keeps.
    pub keeps: Keeps,
    /// Present fill.
    pub held_bytes: u64,
    /// Fill at which it takes no more, or replaces what it holds.
    pub capacity_bytes: u64,
    /// Taken in since the start; for [`Keeps::Copies`] and [`Keeps::Sample`], looked up or admitted.
    pub passed_bytes: u64,
    /// Of what it holds, that among which it chooses what to write next; 0 where it has no choice. Its rate swings while it
    /// works through these.
    pub choice_bytes: u64,
}
