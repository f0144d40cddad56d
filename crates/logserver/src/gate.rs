//! The processors that costly scans may have: half of them, so that cheap work is done at once beside any number of scans. What
//! passes leaves again after some milliseconds.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// See the file.
#[derive(Debug)]
pub(crate) struct Gate {
    free: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self { free: Mutex::new((processors / 2).max(1)), left: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place behind the gate, if one is free within a time.
    pub(crate) fn pass(&self, within: Duration) -> Option<Pass<'_>> {
        let waited = self.left.wait_timeout_while(self.lock(), within, |free| *free == 0);
        let mut free = waited.unwrap_or_else(PoisonError::into_inner).0;
        *free = free.checked_sub(1)?;
        Some(Pass(self))
    }
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pass<'a>(&'a Gate);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_come_back() {
        let gate = Gate::new();
        let mut places: Vec<_> = std::iter::from_fn(|| gate.pass(Duration::ZERO)).collect();
        assert!(!places.is_empty() && gate.pass(Duration::from_millis(1)).is_none());
        places.pop();
        assert!(gate.pass(Duration::ZERO).is_some());
    }
}
