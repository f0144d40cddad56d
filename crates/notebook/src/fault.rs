//! Why a run could not be read, before it is known of which file and run that is said; and the memory that
//! reading may take.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a damaged row says, for [`crate::Error::Damaged`].
pub(crate) type Damage = String;

/// Why reading ended.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite's reason.
    Sqlite(rusqlite::Error),
    /// What is wrong with the content.
    Damage(Damage),
    /// It takes more memory than there is room for.
    NoRoom,
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

/// Memory that what is read may take, bytes; shared by all who read parts of it.
#[derive(Debug)]
pub(crate) struct Room(AtomicU64);

impl Room {
    pub(crate) const fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes so many bytes, or says that there are none left.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Fault> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map(|_| ()).map_err(|_| Fault::NoRoom)
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
