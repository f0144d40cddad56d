//! Verification of content by one worker: checks reads against the target's map, and counts the findings.

use crate::memory::Buffers;
use crate::verify::{VerifyMap, Wrong};
use iodyno_measure::Verification;
use iodyno_units::{Op, OpKind};

/// The worker's flushes in flight, tracked only if content is verified.
#[derive(Debug, Default)]
struct Flushes {
    count: u32,
    /// Epoch of the oldest flush in flight. When any of the flushes completes, at least the writes before that epoch
    /// are durable.
    epoch: u32,
}

impl Flushes {
    fn begins(&mut self, map: &VerifyMap) {
        let epoch = map.flush_begins();
        if self.count == 0 {
            self.epoch = epoch;
        }
        self.count += 1;
    }

    #[inline]
    fn completed(&mut self, map: &VerifyMap, op: &Op, succeeded: bool) {
        if op.kind == OpKind::Flush {
            self.count -= 1;
            map.flushed(self.epoch, succeeded);
        }
    }
}

/// A worker's verification of content, with its results.
#[derive(Debug)]
pub(super) struct ContentCheck {
    /// Counts of verified content; `None` if content is not verified.
    pub(super) tally: Option<Box<Verification>>,
    pub(super) first_corruption: Option<String>,
    flushes: Flushes,
}

impl ContentCheck {
    pub(super) fn new(map: Option<&VerifyMap>) -> Self {
        let tally = map.map(|map| Box::new(map.tally()));
        Self { tally, first_corruption: None, flushes: Flushes::default() }
    }

    /// Must be called for each operation before its submission, after its blocks were claimed. Records flushes.
    pub(super) fn claimed(&mut self, map: &VerifyMap, op: &Op) {
        if op.kind == OpKind::Flush {
            self.flushes.begins(map);
        }
    }

    /// Must be called at the completion of the operation with this index. The error describes wrong content in the data
    /// read.
    #[inline]
    pub(super) fn completed(
        &mut self,
        map: &VerifyMap,
        op: &Op,
        succeeded: bool,
        buffers: Option<&Buffers>,
        index: u32,
    ) -> Result<(), Wrong> {
        let Some(tally) = self.tally.as_deref_mut() else { return Ok(()) };
        // SAFETY: the operation has completed, and its slot is not used again before the caller returns to its loop.
        let bytes = buffers.map(|b| unsafe { &*b.bytes(index, op.len_bytes as usize) });
        self.flushes.completed(map, op, succeeded);
        map.complete(op, succeeded, bytes.unwrap_or_default(), tally)
    }
}
