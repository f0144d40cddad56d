//! Positions of sequential cursors, kept from one cell to the next. The samples of a series thus form one long pass
//! through the range, instead of each starting at the beginning of the range.

use iodyno_workload::Stream;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Positions at which sequential workloads continue in the next cell on the same targets. Read when workers
/// are created, written when they have ended.
#[derive(Debug, Default)]
pub struct Walks(Mutex<BTreeMap<(usize, u32), Vec<u64>>>);

impl Walks {
    /// Moves the cursors of a new worker to the positions at which the previous worker with this number ended on the
    /// target. `target` is an index in the plan.
    pub(crate) fn go_on(&self, target: usize, worker: u32, stream: &mut Stream) {
        stream.go_on(&self.of(target, worker));
    }

    pub(crate) fn keep(&self, target: usize, worker: u32, walked: Vec<u64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((target, worker), walked);
    }

    /// Positions of a worker's sequential cursors on `target`, in the order of the workload's patterns and in multiples
    /// of the workload's alignment. Empty before the worker's first cell.
    pub fn of(&self, target: usize, worker: u32) -> Vec<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(target, worker)).cloned().unwrap_or_default()
    }
}
