//! Table of the volumes' open files. The keys are the file handles that the kernel sends. Handle 0 is the status file.

use crate::served::Attached;
use fuser::FileHandle;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Handles(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    last: u64,
    attached: HashMap<u64, Arc<Attached>>,
}

impl Handles {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an opened file, and returns its new handle.
    pub(super) fn add(&self, attached: Attached) -> FileHandle {
        let mut open = self.lock();
        open.last += 1;
        let handle = open.last;
        open.attached.insert(handle, Arc::new(attached));
        FileHandle(handle)
    }

    pub(super) fn get(&self, handle: FileHandle) -> Option<Arc<Attached>> {
        self.lock().attached.get(&handle.0).cloned()
    }

    /// Removes the handle of a closed file.
    pub(super) fn remove(&self, handle: FileHandle) {
        self.lock().attached.remove(&handle.0);
    }
}
