//! Positions of sequential cursors, kept from one cell to the next: the samples of a series are one long pass
//! through the range, cut into cells, and do not each begin at its start.

use iodyno_workload::Stream;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Cursor positions that cells of one workload on the same targets pass on. Read when workers are created,
/// written when they have ended.
#[derive(Debug, Default)]
pub struct Walks(Mutex<BTreeMap<(usize, u32), Vec<u64>>>);

impl Walks {
    /// Moves the cursors of a new worker to where the worker with the same number ended on this target, which `target`
    /// gives as an index in the plan.
    pub(crate) fn go_on(&self, target: usize, worker: u32, stream: &mut Stream) {
        stream.go_on(&self.of(target, worker));
    }

    pub(crate) fn keep(&self, target: usize, worker: u32, walked: Vec<u64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((target, worker), walked);
    }

    /// Positions of a worker's cursors, in the workload's order and in units of its alignment; empty before the
    /// worker's first cell.
    pub fn of(&self, target: usize, worker: u32) -> Vec<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(target, worker)).cloned().unwrap_or_default()
    }
}
