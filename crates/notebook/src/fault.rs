//! Reading errors before the file and the run are known, and the limit on memory for reading.

use std::sync::atomic::{AtomicU64, Ordering};

/// Description of damage in a row, for [`crate::Error::Damaged`].
pub(crate) type Damage = String;

/// Why reading failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of SQLite.
    Sqlite(rusqlite::Error),
    /// The content is damaged.
    Damage(Damage),
    /// Reading needs more memory than is left.
    OutOfMemory,
}

impl From<rusqlite::Error> for Fault {
    fn from(e: rusqlite::Error) -> Self {
        Self::Sqlite(e)
    }
}

impl From<Damage> for Fault {
    fn from(what: Damage) -> Self {
        Self::Damage(what)
    }
}

/// Memory left for reading, bytes; shared by all threads that read parts of a run.
#[derive(Debug)]
pub(crate) struct MemoryLeft(AtomicU64);

impl MemoryLeft {
    pub(crate) const fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes this many bytes, or fails if fewer are left.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Fault> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map(|_| ()).map_err(|_| Fault::OutOfMemory)
    }

    /// Memory left, bytes.
    pub(crate) fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
