//! Failures of an array's members, and the set of missing members. A member that is lost or refuses a write is missing
//! from then on. A member that can't read some sectors is not missing, and these sectors are rewritten. A member that
//! is itself an array is lost when too many of its devices are missing.

use super::record::Record;
use super::{Array, Phase, Purpose};
use crate::core::Core;
use crate::part_id::PartId;
use crate::ranges::Ranges;
use iodyno_raid::MemberSet;
use iodyno_units::{IoError, OpKind};
use std::ops::Range;

impl Array {
    /// Processes the completion of an operation that the array sent to a member.
    pub(crate) fn child_completed(
        &mut self,
        core: &mut Core,
        parent: u32,
        child: u32,
        failure: Option<IoError>,
    ) {
        let is_flush = !core.slab[parent].internal;
        let part = core.slab[child].part;
        let member = self.members.iter().position(|&member| member == part);
        let failed = match (failure, member) {
            (None, _) => false,
            (Some(_), Some(member)) if is_flush => !self.lacks(member),
            (Some(failure), Some(member)) => self.fails(core, parent, member, failure),
            (Some(_), None) => self.former_fails(core, parent),
        };
        if is_flush {
            self.flush_ended(core, parent, failed);
            self.tend(core);
            return;
        }
        let number = core.slab[parent].at as usize;
        if failure.is_none() && core.slab[child].kind == OpKind::Read && self.record.is_some() {
            let former = || self.former.iter().find(|former| former.0 == part).map(|f| f.1);
            let member = member.or_else(former).expect("it was asked");
            self.receive(core, number, child, member);
        }
        let request = &mut core.slab[parent];
        request.failed |= failed;
        request.pending -= 1;
        if request.pending > 0 {
            return;
        }
        let (failed, piece) = (request.failed, &self.pieces[number]);
        match piece.phase {
            _ if failed => self.end(core, parent, true),
            Phase::Reads if piece.again => self.begin(core, parent),
            Phase::Reads => self.have_read(core, parent),
            Phase::Writes => self.end(core, parent, false),
            Phase::Stripe | Phase::Parity => unreachable!("it asks no member then"),
        }
        self.tend(core);
    }

    /// Processes the failure of a member's operation. Returns whether the piece of work that sent the operation
    /// fails, too.
    fn fails(&mut self, core: &Core, slot: u32, member: usize, failure: IoError) -> bool {
        let number = core.slab[slot].at as usize;
        let reads = self.pieces[number].phase == Phase::Reads;
        if reads && failure == IoError::Io && self.is_redundant() {
            let piece = &mut self.pieces[number];
            piece.unreadable = piece.unreadable.with(member);
            piece.again = true;
            return false;
        }
        if !self.lacks(member) {
            return true;
        }
        let piece = &mut self.pieces[number];
        piece.again |= reads;
        let is_operation = piece.purpose == Purpose::Operation;
        let stripe = self.layout.stripe(piece.stripe);
        // A failed read is planned again, and fails then if too many members are missing.
        let is_write = !reads && core.slab[slot].kind != OpKind::Read;
        is_write && is_operation && !stripe.survives(self.missing)
    }

    /// Processes a failed operation on a former member that a spare has replaced. If it was a read, the piece of work
    /// that sent the read is planned again.
    fn former_fails(&mut self, core: &Core, slot: u32) -> bool {
        if core.slab[slot].internal {
            let piece = &mut self.pieces[core.slab[slot].at as usize];
            piece.again |= piece.phase == Phase::Reads;
        }
        false
    }

    /// Marks a member as missing, because it does not respond or has missed a write. No-op for an
    /// array without redundancy. Returns whether the array is redundant.
    fn lacks(&mut self, member: usize) -> bool {
        if self.is_redundant() {
            self.missing = self.missing.with(member);
            self.replaced = self.replaced.without(member);
            if self.rebuild.as_ref().is_some_and(|rebuild| rebuild.member == member) {
                self.rebuild = None;
            }
        }
        self.is_redundant()
    }

    pub(super) fn is_redundant(&self) -> bool {
        self.layout.is_redundant()
    }

    /// Returns whether the array is a member of another array and has lost too many of its own members
    /// to rebuild itself.
    pub(super) fn is_broken_branch(&self) -> bool {
        self.is_branch && !self.layout.survives(self.missing)
    }

    /// Returns the index of the adapter path through which hosts access the array; `None` without RAID adapters.
    pub(crate) fn path(&self) -> Option<u32> {
        self.path
    }

    /// Returns the devices or arrays that are members of the array now.
    pub(crate) fn members(&self) -> &[PartId] {
        &self.members
    }

    /// Returns whether `part` is a missing member of a redundant array and has not been replaced.
    pub(crate) fn misses(&self, part: PartId) -> bool {
        let member = self.members.iter().position(|&member| member == part);
        member.is_some_and(|m| self.missing.contains(m) && !self.replaced.contains(m))
    }

    /// Returns whether all data of the array is accessible. Without redundancy every member must be
    /// accessible, according to `serves`.
    pub(crate) fn serves(&self, serves: impl Fn(PartId) -> bool) -> bool {
        if self.is_redundant() {
            return self.layout.survives(self.missing);
        }
        self.members.iter().all(|&member| serves(member))
    }

    /// Re-creates the array from its present members. All data is lost. No request may be in progress.
    /// Since the members' contents disagree, as many members as the level can lose are marked missing
    /// and rebuilt, as in md's initial recovery.
    pub(crate) fn make_again(&mut self, core: &mut Core) {
        let is_powered = self.is_powered;
        self.power_off(core);
        self.is_powered = is_powered;
        (self.missing, self.replaced) = (MemberSet::NONE, MemberSet::NONE);
        (self.rebuild, self.bad) = (None, Ranges::default());
        if self.record.is_some() {
            self.record = Some(Record::default());
        }
        for member in 0..self.members.len() {
            let missing = self.missing.with(member);
            if self.is_redundant() && self.layout.survives(missing) {
                (self.missing, self.replaced) = (missing, missing);
            }
        }
        self.tend(core);
    }

    /// Returns the missing members that are not being rebuilt and therefore get no writes.
    pub(super) fn absent(&self) -> MemberSet {
        let rebuilt = self.rebuild.as_ref();
        rebuilt.map_or(self.missing, |rebuild| self.missing.without(rebuild.member))
    }

    /// Returns the members whose data is not valid at `offsets` within a stripe's strips.
    pub(super) fn untrusted(&self, stripe: u64, offsets: &Range<u64>) -> MemberSet {
        let Some(rebuild) = &self.rebuild else { return self.missing };
        let end = if self.has_parity() { self.layout.strip_sectors() } else { offsets.end };
        match self.strip_on(stripe, rebuild.member) {
            Some(begin) if begin + end > rebuild.cursor => self.missing,
            _ => self.missing.without(rebuild.member),
        }
    }

    /// Returns the first sector of a stripe's strip on a member; `None` if the stripe has no strip on
    /// the member.
    fn strip_on(&self, stripe: u64, member: usize) -> Option<u64> {
        if self.layout.copies() == 1 {
            return Some(stripe * self.layout.strip_sectors());
        }
        let of = self.layout.stripe(stripe);
        let places = (0..self.layout.copies()).map(|copy| of.data(0, copy));
        places.into_iter().find(|place| place.member == member).map(|place| place.sector)
    }

    /// Processes the loss of a device or array. Marks the lost part as missing if it is a member and the array is
    /// redundant.
    pub(crate) fn part_lost(&mut self, core: &mut Core, part: PartId) {
        self.spares.retain(|&spare| spare != part);
        if let Some(member) = self.members.iter().position(|&member| member == part) {
            self.lacks(member);
        }
        self.tend(core);
    }

    /// Processes the replacement of a device or array by an empty one. A redundant array then rebuilds
    /// it; in an array without redundancy it remains missing.
    pub(crate) fn part_replaced(&mut self, core: &mut Core, part: PartId) {
        if let Some(member) = self.members.iter().position(|&member| member == part) {
            self.lacks(member);
            self.missing = self.missing.with(member);
            if self.is_redundant() {
                self.replaced = self.replaced.with(member);
            }
        } else if let Some(at) = self.former.iter().position(|former| former.0 == part) {
            self.former.swap_remove(at);
            self.spares.push(part);
        }
        self.tend(core);
    }

    /// Processes a power failure: drops all requests. The set of missing members is kept, since the
    /// other members store it.
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        for number in 0..self.pieces.len() {
            self.free_names(core, number);
        }
        self.pieces.clear();
        self.pieces_free.clear();
        self.locks.clear();
        self.processor.reset(core.now);
        self.is_powered = false;
        self.scrub = None;
        self.resyncs = 0;
        self.record_power_off();
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.power_off();
        }
    }

    /// Processes the return of power: resyncs rows that may be inconsistent, and resumes a rebuild.
    pub(crate) fn power_on(&mut self, core: &mut Core) {
        self.is_powered = true;
        for (stripe, rows) in self.begin_resync() {
            self.resync(core, stripe, rows);
        }
        self.tend(core);
    }
}
