//! Members of an array as they answer: what a failure of one means, and which are missing. A member that is lost or
//! refuses a write is missing from then on; one that can't read some sectors is not, and they are written again.

use super::{Array, Phase, piece_ended};
use crate::core::Core;
use crate::part_id::PartId;
use iodyno_units::{IoError, OpKind};

impl Array {
    /// A member has ended what it was asked for.
    pub(crate) fn child_completed(
        &mut self,
        core: &mut Core,
        parent: u32,
        child: u32,
        failure: Option<IoError>,
    ) {
        let is_flush = !core.slab[parent].internal;
        let failed = failure.is_some_and(|failure| {
            let member = self.member(core.slab[child].part);
            if is_flush { !self.lacks(member) } else { self.fails(core, parent, member, failure) }
        });
        if is_flush {
            piece_ended(core, parent, failed);
            return;
        }
        let request = &mut core.slab[parent];
        request.failed |= failed;
        request.pending -= 1;
        if request.pending > 0 {
            return;
        }
        let (failed, piece) = (request.failed, &self.pieces[request.at as usize]);
        match piece.phase {
            _ if failed => self.end(core, parent, true),
            Phase::Reads if piece.again => self.plan(core, parent),
            Phase::Reads => self.have_read(core, parent),
            Phase::Writes => self.end(core, parent, false),
            Phase::Stripe | Phase::Parity => unreachable!("it asks no member then"),
        }
    }

    /// A member failed a piece. Gives whether the piece fails too.
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
        self.pieces[number].again |= reads;
        let stripe = self.layout.stripe(self.pieces[number].stripe);
        // What was read for a piece is planned again, and fails there if too much is missing.
        !reads && (core.slab[slot].kind != OpKind::Read && !stripe.survives(self.missing))
    }

    /// A member does not answer, or lacks a write: from now on it is missing. Gives whether the array can do without
    /// any member at all.
    fn lacks(&mut self, member: usize) -> bool {
        if self.is_redundant() {
            self.missing = self.missing.with(member);
        }
        self.is_redundant()
    }

    fn is_redundant(&self) -> bool {
        self.layout.copies() > 1 || self.has_parity()
    }

    fn member(&self, part: PartId) -> usize {
        self.members.iter().position(|&member| member == part).expect("it was asked")
    }

    /// The power fails: every request is gone. (Which members are missing is kept on the others.)
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        self.pieces.clear();
        self.pieces_free.clear();
        self.stripes.clear();
        self.processor.reset(core.now);
    }

    /// Its members keep their content.
    #[expect(clippy::unused_self, reason = "every kind of part has this method")]
    pub(crate) fn keep_content(&mut self) {}

    /// None: its content is in its members.
    #[expect(clippy::unused_self, reason = "every kind of part has this method")]
    pub(crate) fn unit_value(&self, _: u64) -> Option<u64> {
        None
    }
}
