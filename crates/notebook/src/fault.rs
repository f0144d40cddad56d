//! Why a run could not be read, before the file and run of the error are known; and the limit on memory for
//! reading.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a damaged row says, for [`crate::Error::Damaged`].
pub(crate) type Damage = String;

/// Why reading ended.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite's reason.
    Sqlite(rusqlite::Error),
    /// The damage.
    Damage(Damage),
    /// It takes more memory than is left.
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

/// Memory that is left for reading, bytes; shared by all threads that read parts of a run.
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

    /// How many bytes are left.
    pub(crate) fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
