//! Failures of an array's members, and the set of missing members. A member that is lost or refuses a write is missing
//! from then on. A member that can't read some sectors is not, and these sectors are rewritten. A member that is itself
//! an array is lost when it lacks too many devices.

use super::record::Record;
use super::{Array, Phase, Purpose};
use crate::core::Core;
use crate::part_id::PartId;
use crate::ranges::Ranges;
use iodyno_raid::MemberSet;
use iodyno_units::{IoError, OpKind};
use std::ops::Range;

impl Array {
    /// Processes the end of a member's operation.
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

    /// Processes a member's failure in a piece. Returns whether the piece fails too.
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

    /// Processes a failed operation on a device that a spare has replaced: a read is planned again.
    fn former_fails(&mut self, core: &Core, slot: u32) -> bool {
        if core.slab[slot].internal {
            let piece = &mut self.pieces[core.slab[slot].at as usize];
            piece.again |= piece.phase == Phase::Reads;
        }
        false
    }

    /// Marks a member as missing, because it does not answer or has missed a write. Does nothing
    /// without redundancy. Returns whether the array is redundant.
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

    /// Whether the array is a branch of another, and lacks too many members to be rebuilt by itself.
    pub(super) fn is_broken_branch(&self) -> bool {
        self.is_branch && !self.layout.survives(self.missing)
    }

    /// Number of the array's path through adapters, if it has one.
    pub(crate) fn path(&self) -> Option<u32> {
        self.path
    }

    /// The parts that are members of the array now.
    pub(crate) fn members(&self) -> &[PartId] {
        &self.members
    }

    /// Whether a part is a missing member of a redundant array, not yet replaced.
    pub(crate) fn misses(&self, part: PartId) -> bool {
        let member = self.members.iter().position(|&member| member == part);
        member.is_some_and(|m| self.missing.contains(m) && !self.replaced.contains(m))
    }

    /// Whether all data of the array is accessible. For an array without redundancy, `serves` decides for each member.
    pub(crate) fn serves(&self, serves: impl Fn(PartId) -> bool) -> bool {
        if self.is_redundant() {
            return self.layout.survives(self.missing);
        }
        self.members.iter().all(|&member| serves(member))
    }

    /// Re-creates the array from its present members. All data is lost. No request may be in progress. As many
    /// members as the level can lose count as missing until they are rebuilt, because the members' contents disagree:
    /// md's initial recovery.
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

    /// Missing members that are not being rebuilt, so that they get no writes.
    pub(super) fn absent(&self) -> MemberSet {
        let rebuilt = self.rebuild.as_ref();
        rebuilt.map_or(self.missing, |rebuild| self.missing.without(rebuild.member))
    }

    /// Members whose data is not valid at these offsets of a stripe's strips.
    pub(super) fn untrusted(&self, stripe: u64, offsets: &Range<u64>) -> MemberSet {
        let Some(rebuild) = &self.rebuild else { return self.missing };
        let end = if self.has_parity() { self.layout.strip_sectors() } else { offsets.end };
        match self.strip_on(stripe, rebuild.member) {
            Some(begin) if begin + end > rebuild.cursor => self.missing,
            _ => self.missing.without(rebuild.member),
        }
    }

    /// First sector of a stripe's strip on a member; `None` if the member holds no strip of the stripe.
    fn strip_on(&self, stripe: u64, member: usize) -> Option<u64> {
        if self.layout.copies() == 1 {
            return Some(stripe * self.layout.strip_sectors());
        }
        let of = self.layout.stripe(stripe);
        let places = (0..self.layout.copies()).map(|copy| of.data(0, copy));
        places.into_iter().find(|place| place.member == member).map(|place| place.sector)
    }

    /// Processes the loss of a part. A redundant array marks it as missing at once.
    pub(crate) fn part_lost(&mut self, core: &mut Core, part: PartId) {
        self.spares.retain(|&spare| spare != part);
        if let Some(member) = self.members.iter().position(|&member| member == part) {
            self.lacks(member);
        }
        self.tend(core);
    }

    /// Processes the replacement of a part by an empty device. An array without redundancy never takes the device as a
    /// valid member.
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

    /// Processes a power failure: all requests are gone. (The other members keep the record of the missing ones.)
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

    /// Processes the return of power.
    pub(crate) fn power_on(&mut self, core: &mut Core) {
        self.is_powered = true;
        for (stripe, rows) in self.begin_resync() {
            self.resync(core, stripe, rows);
        }
        self.tend(core);
    }
}
