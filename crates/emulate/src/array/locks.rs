//! Locks of rows: each range of a stripe's rows is changed by one piece at a time, in the order of asking where they
//! overlap. It knows nothing of what a piece does.
//!
//! A row is what the strips of a stripe hold at one offset. Rows of all stripes have one order: stripe times strip
//! size, and the offset.

use crate::request::{List, Slab};
use std::collections::BTreeMap;
use std::ops::Range;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    /// By the first row: one past the last, and the pieces that wait. They do not overlap.
    held: BTreeMap<u64, (u64, List)>,
}

impl Locks {
    /// Locks the rows for `slot`, or lets it wait for one who has some of them. Gives whether it has them.
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

    /// Unlocks rows. The first that waits for them and need not wait for others has its own from now on, and is
    /// given; the rest wait for it.
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
