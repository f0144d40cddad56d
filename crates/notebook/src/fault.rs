//! Errors while reading a row, and the memory limit for reading. The errors do not name the file and the run; callers
//! add these.

use std::sync::atomic::{AtomicU64, Ordering};

/// Description of damaged content in a row, for [`crate::Error::Damaged`].
pub(crate) type Damage = String;

/// Reason why reading from a notebook failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite returned an error.
    Sqlite(rusqlite::Error),
    /// The stored content is damaged.
    Damage(Damage),
    /// Reading would exceed the memory limit.
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

/// Remaining memory budget for reading a run, bytes. All threads that read parts of the run share it.
#[derive(Debug)]
pub(crate) struct MemoryLeft(AtomicU64);

impl MemoryLeft {
    pub(crate) const fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Deducts `bytes` from the budget, or fails if less is left.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Fault> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map(|_| ()).map_err(|_| Fault::OutOfMemory)
    }

    /// Remaining memory budget, bytes.
    pub(crate) fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
