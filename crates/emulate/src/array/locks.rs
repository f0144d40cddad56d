//! Row locks of an array: only one piece of work at a time may change a row. Pieces of work with overlapping rows
//! take turns in the order of their requests.
//!
//! A row consists of the sectors at the same offset in each strip of a stripe. Rows are numbered across stripes: stripe
//! times strip size, plus the offset.

use crate::request::{List, Slab};
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    /// Locked ranges of rows, by first row, each with its end (exclusive) and the pieces (requests) that wait for it.
    /// Ranges don't overlap.
    held: BTreeMap<u64, (u64, List)>,
}

impl Locks {
    /// Locks rows for the request `slot` of a piece of work within one stripe, or queues the request behind one that
    /// has locked some of the rows. Returns whether the rows are now locked.
    pub(super) fn take(&mut self, slab: &mut Slab, rows: &Range<u64>, slot: u32) -> bool {
        if let Some((_, (end, waiting))) = self.held.range_mut(..rows.end).next_back()
            && *end > rows.start
        {
            waiting.push(slab, slot);
            return false;
        }
        self.held.insert(rows.start, (rows.end, List::EMPTY));
        true
    }

    /// Unlocks rows. Locks them for the first waiting request that no other lock blocks, and returns this request.
    /// The remaining requests then wait for its lock.
    pub(super) fn release(
        &mut self,
        slab: &mut Slab,
        first_row: u64,
        rows_of: impl Fn(&Slab, u32) -> Range<u64>,
    ) -> Option<u32> {
        let (_, mut waiting) = self.held.remove(&first_row).expect("they are locked");
        while let Some(next) = waiting.pop(slab) {
            let rows = rows_of(slab, next);
            if self.take(slab, &rows, next) {
                self.held.insert(rows.start, (rows.end, waiting));
                return Some(next);
            }
        }
        None
    }

    pub(super) fn clear(&mut self) {
        self.held.clear();
    }
}
