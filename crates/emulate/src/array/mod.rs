//! An array: makes of each operation those of its members, stripe by stripe, and serves what members that are lost
//! held from the others. It ends where a request reaches a member.
//!
//! An operation is split at the borders of stripes; each piece is a request of the array's own, with its plan
//! ([`iodyno_raid::Plan`]): reads of members first, then parity, then writes. Writes to a stripe with parity follow
//! each other, for each computes parity from what the one before wrote.

mod member;
mod usage;

use crate::core::Core;
use crate::part_id::PartId;
use crate::request::{List, NIL, Origin, State};
use crate::server::{PerByte, Server, ticks};
use crate::spec;
use crate::spec::SECTOR_BYTES;
use iodyno_raid::{Access, Layout, MemberSet, Method, Plan, Role};
use iodyno_units::{IoError, Op, OpKind};
use std::collections::BTreeMap;
use std::ops::Range;
use usage::Phases;

/// What a piece waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Its stripe, which another piece writes.
    #[default]
    Stripe,
    /// Reads of members.
    Reads,
    /// The array's processor.
    Parity,
    /// Writes of members.
    Writes,
}

/// The part of an operation that lies in one stripe.
#[derive(Clone, Debug, Default)]
struct Piece {
    stripe: u64,
    /// Sectors of the stripe's data.
    range: Range<u64>,
    phase: Phase,
    since_ns: u64,
    plan: Plan,
    /// It has its stripe for itself.
    locks: bool,
    /// Members whose sectors it could not read: it recovers them, and writes them again.
    unreadable: MemberSet,
    /// A read has failed: the piece is planned again.
    again: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    part: PartId,
    layout: Layout,
    members: Vec<PartId>,
    /// Members that are lost, or have lacked a write since they were.
    missing: MemberSet,
    pieces: Vec<Piece>,
    pieces_free: Vec<u32>,
    /// Stripes that a piece has for itself, and the pieces that wait for them.
    stripes: BTreeMap<u64, List>,
    /// Of several copies the next read takes this one.
    copy: usize,
    /// Its path through adapters, whose processors serve it then.
    path: Option<u32>,
    processor: Server,
    stripe_ticks: u64,
    parity: PerByte,
    phases: Phases,
}

impl Array {
    pub(crate) fn new(spec: &spec::Array, part: PartId) -> Self {
        Self {
            part,
            layout: spec.layout,
            members: spec.members.clone(),
            missing: MemberSet::NONE,
            pieces: Vec::new(),
            pieces_free: Vec::new(),
            stripes: BTreeMap::new(),
            copy: 0,
            path: spec.path,
            processor: Server::default(),
            stripe_ticks: ticks(spec.stripe_ns),
            parity: PerByte::new(1e9 / spec.parity_bytes_per_s),
            phases: Phases::default(),
        }
    }

    /// Processes the event of a request of this array.
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        let request = &core.slab[slot];
        match (request.state, request.internal) {
            (State::Issued, false) => self.issued(core, slot),
            (State::Issued, true) => self.begin(core, slot),
            (State::Processed, _) => self.write(core, slot),
            (State::Done, _) => {
                let failed = request.failed;
                core.complete(slot, failed.then_some(IoError::Io));
            }
            (state, _) => unreachable!("an array has no event in {state:?}"),
        }
    }

    /// A request from outside reaches the array.
    fn issued(&mut self, core: &mut Core, slot: u32) {
        let request = &mut core.slab[slot];
        let (at, end) = (request.at, request.at + u64::from(request.len));
        request.state = State::Waiting;
        if request.kind == OpKind::Flush {
            self.flush(core, slot);
            return;
        }
        if end > self.layout.sectors() * SECTOR_BYTES {
            core.complete(slot, Some(IoError::OutOfRange));
            return;
        }
        let kind = request.kind;
        let sectors = at / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        let layout = self.layout;
        // One more than there are pieces, until all have begun.
        request.pending = 1;
        for (stripe, range) in layout.split(sectors) {
            let whole = range.end - range.start == layout.stripe_sectors();
            if kind == OpKind::Trim && self.has_parity() && !whole {
                // Parity covers what remains of the stripe.
                continue;
            }
            core.slab[slot].pending += 1;
            let piece = self.new_piece(stripe, range);
            let own = core.add(self.part);
            let (kind, fua) = (core.slab[slot].kind, core.slab[slot].fua);
            let request = &mut core.slab[own];
            (request.internal, request.origin, request.parent) = (true, Origin::Own, slot);
            (request.at, request.kind, request.fua) = (u64::from(piece), kind, fua);
            request.state = State::Waiting;
            self.begin(core, own);
        }
        piece_ended(core, slot, false);
    }

    /// All members make their writes durable.
    fn flush(&mut self, core: &mut Core, slot: u32) {
        let present = |member: &usize| !self.missing.contains(*member);
        let to: Vec<usize> = (0..self.members.len()).filter(present).collect();
        core.slab[slot].pending = to.len() as u32 + 1;
        for member in to {
            let op = Op { offset_bytes: 0, len_bytes: 0, kind: OpKind::Flush, fua: false };
            core.ask(self.members[member], slot, &op, 0);
        }
        piece_ended(core, slot, false);
    }

    fn has_parity(&self) -> bool {
        self.layout.level().parities() > 0
    }

    fn new_piece(&mut self, stripe: u64, range: Range<u64>) -> u32 {
        let number = self.pieces_free.pop().unwrap_or_else(|| {
            self.pieces.push(Piece::default());
            self.pieces.len() as u32 - 1
        });
        let plan = std::mem::take(&mut self.pieces[number as usize].plan);
        self.pieces[number as usize] = Piece { stripe, range, plan, ..Piece::default() };
        number
    }

    /// A piece begins, at once or when its stripe is free.
    fn begin(&mut self, core: &mut Core, slot: u32) {
        let piece = &mut self.pieces[core.slab[slot].at as usize];
        if !piece.locks {
            piece.since_ns = core.now;
            let reads = core.slab[slot].kind == OpKind::Read;
            // Without all members, a read may need the stripe's parity as well.
            if self.layout.level().parities() > 0 && (!reads || !self.missing.is_empty()) {
                if let Some(waiting) = self.stripes.get_mut(&piece.stripe) {
                    core.slab[slot].state = State::Waiting;
                    waiting.push(&mut core.slab, slot);
                    return;
                }
                self.stripes.insert(piece.stripe, List::EMPTY);
                piece.locks = true;
            }
        }
        self.phases.end(&mut piece.since_ns, core, slot, Phase::Stripe);
        self.plan(core, slot);
    }

    /// Plans a piece with the members that there are, and reads what it needs.
    fn plan(&mut self, core: &mut Core, slot: u32) {
        let kind = core.slab[slot].kind;
        let piece = &mut self.pieces[core.slab[slot].at as usize];
        let missing = piece.unreadable.iter().fold(self.missing, MemberSet::with);
        let (stripe, range) = (piece.stripe, piece.range.clone());
        let planned = if kind == OpKind::Read {
            self.copy = self.copy.wrapping_add(1);
            piece.plan.read(&self.layout, stripe, range, missing, self.copy)
        } else {
            piece.plan.write(&self.layout, stripe, range, missing)
        };
        piece.again = false;
        piece.phase = Phase::Reads;
        if planned.is_err() {
            self.end(core, slot, true);
            return;
        }
        // A trim computes nothing: parity of what holds nothing is nothing.
        let plan = std::mem::take(&mut piece.plan);
        let reads = if kind == OpKind::Trim { &[] } else { plan.reads() };
        core.slab[slot].pending = reads.len() as u32;
        core.slab[slot].state = State::Waiting;
        for access in reads {
            self.ask(core, slot, access, OpKind::Read);
        }
        let none = reads.is_empty();
        self.pieces[core.slab[slot].at as usize].plan = plan;
        if none {
            self.have_read(core, slot);
        }
    }

    /// Asks a member on behalf of a piece.
    fn ask(&self, core: &mut Core, slot: u32, access: &Access, kind: OpKind) {
        let request = &core.slab[slot];
        let token = core.slab[request.parent].token;
        let op = Op {
            offset_bytes: access.sector * SECTOR_BYTES,
            len_bytes: (access.sectors * SECTOR_BYTES) as u32,
            kind,
            fua: request.fua && kind != OpKind::Read,
        };
        let member = self.members[usize::from(access.member)];
        let at_ns = match (self.path, &mut core.adapters) {
            (Some(path), Some(adapters)) => adapters.device(core.now, path, member, &op),
            _ => core.now,
        };
        core.ask_at(at_ns, member, slot, &op, token);
    }

    /// A piece has what it reads: the processor computes parity, where there is any.
    fn have_read(&mut self, core: &mut Core, slot: u32) {
        let piece = &mut self.pieces[core.slab[slot].at as usize];
        self.phases.end(&mut piece.since_ns, core, slot, Phase::Reads);
        piece.phase = Phase::Parity;
        let recovers = piece.plan.rows().iter().any(|row| row.method == Method::Recover);
        let writes_parity = piece.plan.writes().iter().any(|w| !matches!(w.role, Role::Data(_)));
        if !recovers && !writes_parity || core.slab[slot].kind == OpKind::Trim {
            self.write(core, slot);
            return;
        }
        let bytes = |sectors: u64| u32::try_from(sectors * SECTOR_BYTES).unwrap_or(u32::MAX);
        let end_ns = if let (Some(path), Some(adapters)) = (self.path, &mut core.adapters) {
            let data_bytes = bytes(piece.range.end - piece.range.start);
            let with_q = self.layout.level().parities() == 2;
            adapters.parity(core.now, path, data_bytes, with_q)
        } else {
            let all = piece.plan.reads().iter().chain(piece.plan.writes());
            let bytes = bytes(all.map(|access| access.sectors).sum());
            self.processor.take(core.now, self.stripe_ticks + self.parity.ticks(bytes))
        };
        core.at(end_ns, slot, State::Processed);
    }

    /// Writes a piece's data and parity, or again what could not be read.
    fn write(&mut self, core: &mut Core, slot: u32) {
        let (kind, number) = (core.slab[slot].kind, core.slab[slot].at as usize);
        let piece = &mut self.pieces[number];
        self.phases.end(&mut piece.since_ns, core, slot, Phase::Parity);
        piece.phase = Phase::Writes;
        let mut plan = std::mem::take(&mut piece.plan);
        if kind == OpKind::Read && !piece.unreadable.is_empty() {
            // What was recovered is written where it could not be read.
            let (stripe, range) = (piece.stripe, piece.range.clone());
            let planned = plan.read(&self.layout, stripe, range, self.missing, self.copy);
            debug_assert!(planned.is_ok(), "it was planned with fewer members");
        }
        let again = piece.unreadable;
        let writes = || {
            let of_read = plan.reads().iter().filter(|a| again.contains(usize::from(a.member)));
            let of_write = plan.writes().iter().filter(|_| kind != OpKind::Read);
            of_read.filter(|_| kind == OpKind::Read).chain(of_write)
        };
        core.slab[slot].pending = writes().count() as u32;
        core.slab[slot].state = State::Waiting;
        for access in writes() {
            let kind = match kind {
                OpKind::Trim => OpKind::Trim,
                OpKind::WriteZeroes if matches!(access.role, Role::Data(_)) => kind,
                _ => OpKind::Write,
            };
            self.ask(core, slot, access, kind);
        }
        self.pieces[number].plan = plan;
        if core.slab[slot].pending == 0 {
            self.end(core, slot, false);
        }
    }

    /// A piece has ended; the next that waits for its stripe begins.
    fn end(&mut self, core: &mut Core, slot: u32, failed: bool) {
        let request = &core.slab[slot];
        let (parent, number) = (request.parent, request.at as usize);
        let piece = &mut self.pieces[number];
        if !failed {
            let phase = piece.phase;
            self.phases.end(&mut piece.since_ns, core, slot, phase);
        }
        if piece.locks {
            let waiting = self.stripes.get_mut(&piece.stripe).expect("it is locked");
            match waiting.pop(&core.slab) {
                Some(next) => {
                    let next_piece = core.slab[next].at as usize;
                    self.pieces[next_piece].locks = true;
                    core.at(core.now, next, State::Issued);
                }
                None => {
                    self.stripes.remove(&self.pieces[number].stripe);
                }
            }
        }
        self.pieces_free.push(number as u32);
        core.slab.remove(slot);
        piece_ended(core, parent, failed);
    }
}

/// One of an operation's pieces, or the splitting itself, has ended.
fn piece_ended(core: &mut Core, slot: u32, failed: bool) {
    let request = &mut core.slab[slot];
    request.failed |= failed;
    request.pending -= 1;
    if request.pending == 0 {
        debug_assert_eq!(request.parent, NIL);
        let end_ns = core.notified_ns(core.now, slot);
        core.at(end_ns, slot, State::Done);
    }
}
