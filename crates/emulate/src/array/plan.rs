//! Plans the reads and writes on members for the part of an operation within one stripe, given which members are
//! present.

use super::{Array, units_of};
use iodyno_raid::{Access, Layout, Level, MemberSet, Method, Role};
use iodyno_units::OpKind;
use std::ops::Range;

impl Array {
    /// Returns whether a piece of work within one stripe accesses units whose data is lost.
    pub(super) fn has_lost(&self, number: usize) -> bool {
        let piece = &self.pieces[number];
        let units = || units_of(&self.layout, piece.stripe, &piece.range);
        !self.bad.is_empty() && self.bad.first_in(units()).is_some()
    }

    /// Plans the reads and writes of a piece of an operation. Fails if the data is lost.
    pub(super) fn plan_operation(&mut self, number: usize, kind: OpKind) -> Result<(), ()> {
        let piece = &self.pieces[number];
        let (stripe, range, unreadable) = (piece.stripe, piece.range.clone(), piece.unreadable);
        let (copy, layout) = (piece.copy, self.layout);
        let known_missing = self.untrusted(stripe, &self.offsets(&range));
        let missing = unreadable.iter().fold(known_missing, MemberSet::with);
        let (absent, has_lost) = (self.absent(), self.has_lost(number));
        let plan = &mut self.plan;
        let piece = &mut self.pieces[number];
        if kind == OpKind::Read {
            if has_lost {
                return Err(());
            }
            plan.read(&layout, stripe, range.clone(), missing, copy).map_err(|_| ())?;
            piece.reads.extend_from_slice(plan.reads());
            piece.computes = plan.rows().iter().any(|row| row.method == Method::Recover);
            if !unreadable.is_empty() {
                // Recovered data is rewritten where it could not be read.
                let again = |access: &&Access| unreadable.contains(usize::from(access.member));
                if layout.copies() > 1 {
                    plan.write(&layout, stripe, range, absent).map_err(|_| ())?;
                    piece.writes.extend(plan.writes().iter().filter(again));
                } else {
                    plan.read(&layout, stripe, range, known_missing, copy).map_err(|_| ())?;
                    piece.writes.extend(plan.reads().iter().filter(again));
                }
            }
            return Ok(());
        }
        if !unreadable.is_empty() && kind != OpKind::Trim && layout.level().parities() > 0 {
            // Recovers all data of the rows, so that unreadable sectors are valid again after this write.
            self.read_rows(number, &self.offsets(&range), missing, false)?;
            self.plan.write(&layout, stripe, range, absent).map_err(|_| ())?;
            let piece = &mut self.pieces[number];
            piece.writes.extend_from_slice(self.plan.writes());
            piece.computes = true;
            return Ok(());
        }
        plan.write(&layout, stripe, range.clone(), missing).map_err(|_| ())?;
        // A trim needs no parity computation: parity of trimmed strips is trimmed too.
        piece.computes = false;
        if kind != OpKind::Trim {
            piece.reads.extend_from_slice(plan.reads());
            let recovers = plan.rows().iter().any(|row| row.method == Method::Recover);
            let has_parity = plan.writes().iter().any(|w| !matches!(w.role, Role::Data(_)));
            piece.computes = recovers || has_parity;
        }
        if missing != absent {
            // Writes the data of a member that is being rebuilt, but not its parity: the old parity may be unknown, and
            // the rebuild computes it.
            plan.write(&layout, stripe, range, absent).map_err(|_| ())?;
        }
        let is_known = |access: &&Access| {
            matches!(access.role, Role::Data(_)) || !missing.contains(usize::from(access.member))
        };
        piece.writes.extend(plan.writes().iter().filter(is_known));
        Ok(())
    }

    /// Converts a range of a stripe's data to a range of offsets within a strip: the whole strip if
    /// `range` spans several strips.
    pub(super) fn offsets(&self, range: &Range<u64>) -> Range<u64> {
        let strip = self.layout.strip_sectors();
        let is_one = range.start / strip == (range.end - 1) / strip;
        if is_one { range.start % strip..(range.end - 1) % strip + 1 } else { 0..strip }
    }

    /// Selects the copies of a stripe in turn. Returns the index of the copy to read.
    pub(super) fn next_copy(&mut self, stripe: u64) -> usize {
        let group = (stripe % self.copies_read.len() as u64) as usize;
        let copy = &mut self.copies_read[group];
        *copy = (*copy + 1) % self.layout.copies();
        *copy
    }
}

/// Returns the number of groups of members with the same copies; 0 on levels without mirroring. Stripe N has its copies
/// in group N modulo this number.
pub(super) fn mirror_groups(layout: &Layout) -> usize {
    match layout.level() {
        Level::Raid1 => 1,
        // With an odd number of members each pair of neighbours is a group.
        Level::Raid10 if layout.members().is_multiple_of(2) => layout.members() / 2,
        Level::Raid10 => layout.members(),
        Level::Raid0 | Level::Raid5 | Level::Raid6 | Level::Jbod => 0,
    }
}
