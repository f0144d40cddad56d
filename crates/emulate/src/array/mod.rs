//! An array: turns each operation into operations on its members, stripe by stripe, and reconstructs data of missing
//! members from the others.
//!
//! An operation is split at stripe borders. Each piece is an internal request with a plan ([`iodyno_raid::Plan`]): it
//! reads from members, computes parity, and writes to members.
//!
//! Writes to a stripe with parity are serialized, because each computes parity from the data of the previous one.
//! Writes to the same sectors of mirrored copies are serialized too. Members of an array with parity must treat trims
//! alike: either trimmed ranges read as zeroes on all members, or all members ignore trims.
//!
//! | module | what it holds |
//! |---|---|
//! | `member` | failures of members; missing, replaced and spare members; arrays that are members of another array |
//! | `plan` | the reads and writes for the part of an operation within one stripe |
//! | `locks` | locks on rows of stripes |
//! | `row` | values of a row of a stripe: parity, recovery |
//! | `content` | content, if the emulation stores it: values that reads return and that members write |
//! | `record` | rows that a power cut may leave inconsistent; the journal |
//! | `restore` | resync after a power cut, rebuild, scrub |
//! | `rebuild` | the order and time of restored rows: cursor, rate, spares |
//! | `usage` | resources, phases, state |

mod content;
mod locks;
mod member;
mod plan;
mod rebuild;
mod record;
mod restore;
mod row;
mod usage;

use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::part_id::PartId;
use crate::ranges::Ranges;
use crate::request::{NIL, Origin, Slab, State};
use crate::server::{PerByte, Server, ticks};
use crate::spec;
use crate::spec::SECTOR_BYTES;
use iodyno_raid::{Access, Layout, MemberSet, Plan};
use iodyno_units::{IoError, Op, OpKind};
use locks::Locks;
use rebuild::{Rebuild, Scrub};
use record::Record;
use row::Row;
use std::collections::BTreeMap;
use std::ops::Range;
use usage::Phases;
pub use usage::{ArrayCounts, ArrayHealth, ArrayState};

/// Sectors per content unit.
const UNIT_SECTORS: u64 = UNIT_BYTES / SECTOR_BYTES;

/// Phases of a piece, which is the part of an operation within one stripe. Each phase is defined by what the piece
/// waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Waits for locks on its rows, which another piece is changing.
    #[default]
    Stripe,
    /// Waits for reads from members.
    Reads,
    /// Waits for the array's processor, which computes parity.
    Parity,
    /// Waits for writes to members.
    Writes,
}

/// Purpose of a piece of work within one stripe: a host's I/O, or maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Purpose {
    /// Part of an operation that a host, or another component of the machine, sent to the array.
    #[default]
    Operation,
    /// Makes parity and copies consistent with the data after a power cut.
    Resync,
    /// Writes a missing member's content to its replacement.
    Rebuild,
    /// Flushes the data written by a rebuild, so that it is durable.
    Settle,
    /// Compares parity and copies with the data, and rewrites unreadable sectors.
    Scrub,
}

/// The part of an operation within one stripe, or a range of the stripe's rows that a resync, rebuild or scrub
/// processes.
#[derive(Clone, Debug, Default)]
struct Piece {
    purpose: Purpose,
    stripe: u64,
    /// Range of sectors: within the stripe's data if the purpose is an operation, else within a strip.
    range: Range<u64>,
    /// Rows that are being restored now, as sectors within a strip.
    offsets: Range<u64>,
    /// End of all rows to restore, as a sector within a strip.
    limit: u64,
    /// Whether a piece of an operation first restores its rows one by one. It does so if unreadable
    /// sectors are on more members than redundancy covers, because each row alone may be recoverable.
    mends: bool,
    /// Whether the piece has already restored its rows one by one.
    mended: bool,
    phase: Phase,
    since_ns: u64,
    reads: Vec<Access>,
    writes: Vec<Access>,
    /// Whether the array's processor must compute data or parity for this piece of work.
    computes: bool,
    /// Index of the copy to read, on mirrored levels.
    copy: usize,
    /// Whether the piece has locked its rows.
    locks: bool,
    /// First row that the piece has locked, numbered as in `Locks`. Valid only if `locks`.
    first_row: u64,
    /// Members with unreadable sectors, whose data the piece recovers and rewrites.
    unreadable: MemberSet,
    /// Whether a read has failed, so that the piece must be planned again.
    again: bool,
    /// Whether the rows of the piece can't be recovered.
    lost: bool,
    /// Values read from members, by member and unit of the member.
    got: BTreeMap<(usize, u64), u64>,
    /// Values of the rows after the piece has ended, by unit within a strip.
    rows: BTreeMap<u64, Row>,
    /// Identifiers of content that the piece has created.
    names: Range<u64>,
    /// Identifiers under which the piece has passed a host's data to members that are arrays.
    given: Vec<u64>,
}

impl Piece {
    /// Resets the piece for a new purpose, but keeps the allocated memory of its lists.
    fn begin_again(&mut self, purpose: Purpose, stripe: u64, range: Range<u64>) {
        self.forget_values();
        // Lists every field by name, so that none keeps its old value.
        #[rustfmt::skip]
        let Self {
            purpose: of_purpose, stripe: of_stripe, range: of_range, offsets, limit, mends, mended, phase, since_ns,
            reads, writes, computes, copy, locks, first_row, unreadable, again, lost, got: _, rows: _, names,
            given,
        } = self;
        (*of_purpose, *of_stripe, *of_range, *copy) = (purpose, stripe, range, 0);
        (*offsets, *limit, *names, *unreadable) = (0..0, 0, 0..0, MemberSet::NONE);
        (*phase, *since_ns, *first_row) = (Phase::default(), 0, 0);
        (*computes, *locks, *again) = (false, false, false);
        (*mends, *mended, *lost) = (false, false, false);
        reads.clear();
        writes.clear();
        given.clear();
    }

    /// Clears the values that the piece has read and computed. Checks first, because clearing an empty
    /// map takes longer.
    fn forget_values(&mut self) {
        if !self.got.is_empty() {
            self.got.clear();
        }
        if !self.rows.is_empty() {
            self.rows.clear();
        }
    }
}

/// A RAID array in a volume's tree of devices and arrays.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    part: PartId,
    layout: Layout,
    members: Vec<PartId>,
    is_of_arrays: bool,
    ignores_trims: bool,
    is_branch: bool,
    spares: Vec<PartId>,
    /// Former members that spares have replaced, each with its former position in the array.
    former: Vec<(PartId, usize)>,
    /// Members that are lost, have missed a write, or are not yet rebuilt.
    missing: MemberSet,
    /// Missing members whose position is occupied by a replacement, not yet rebuilt.
    replaced: MemberSet,
    rebuild: Option<Rebuild>,
    /// Number of rebuilds started so far.
    rebuilds: u64,
    rebuild_bytes_per_s: f64,
    scrub: Option<Scrub>,
    /// Number of ranges of rows that are being resynced after a power cut.
    resyncs: u32,
    is_powered: bool,
    pieces: Vec<Piece>,
    pieces_free: Vec<u32>,
    plan: Plan,
    locks: Locks,
    /// On mirrored levels, for each group of members with the same copies: index of the copy last read. One index for
    /// all groups would keep in step with the strips, so that sequential reads use only some members.
    copies_read: Vec<usize>,
    /// Index of the adapter path through which hosts access the array. The adapters' processors then do the array's
    /// work. `None` without adapters.
    path: Option<u32>,
    processor: Server,
    stripe_ticks: u64,
    parity: PerByte,
    phases: Phases,
    counts: ArrayCounts,
    /// Lost units of the array: reads of them fail until they are rewritten.
    bad: Ranges,
    journal: bool,
    /// Rows that a power cut may leave inconsistent; `None` unless content is stored.
    record: Option<Record>,
}

impl Array {
    pub(crate) fn new(spec: &spec::Array, part: PartId) -> Self {
        Self {
            part,
            layout: spec.layout,
            members: spec.members.clone(),
            is_of_arrays: spec.is_of_arrays,
            ignores_trims: spec.ignores_trims,
            is_branch: spec.is_branch,
            spares: spec.spares.clone(),
            former: Vec::new(),
            missing: MemberSet::NONE,
            replaced: MemberSet::NONE,
            rebuild: None,
            rebuilds: 0,
            rebuild_bytes_per_s: spec.rebuild_bytes_per_s,
            scrub: None,
            resyncs: 0,
            is_powered: true,
            pieces: Vec::new(),
            pieces_free: Vec::new(),
            plan: Plan::new(),
            locks: Locks::default(),
            copies_read: vec![0; plan::mirror_groups(&spec.layout)],
            path: spec.path,
            processor: Server::default(),
            stripe_ticks: ticks(spec.stripe_ns),
            parity: PerByte::new(1e9 / spec.parity_bytes_per_s),
            phases: Phases::default(),
            counts: ArrayCounts::default(),
            bad: Ranges::default(),
            journal: spec.journal,
            record: None,
        }
    }

    /// Processes a request's next event, according to the request's state.
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        let request = &core.slab[slot];
        match (request.state, request.internal) {
            (State::Issued, false) => self.issued(core, slot),
            (State::Issued, true) => self.begin(core, slot),
            (State::Processed, _) => self.write(core, slot),
            (State::Wake, _) => self.woken(core, slot),
            (State::Done, _) => {
                let failed = request.failed;
                core.complete(slot, failed.then_some(IoError::Io));
            }
            (state, _) => unreachable!("unexpected event of an array in state {state:?}"),
        }
    }

    /// Accepts an operation from a host or another component, and splits it into pieces, one per stripe.
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
        let (kind, fua) = (request.kind, request.fua);
        let sectors = at / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        let layout = self.layout;
        // One more than the number of pieces, until all have begun.
        request.pending = 1;
        self.expect_values(core, slot);
        let sectors = if kind == OpKind::Trim && self.ignores_trims { 0..0 } else { sectors };
        for (stripe, range) in layout.split(sectors) {
            let whole = range.end - range.start == layout.stripe_sectors();
            if kind == OpKind::Trim && self.has_parity() && !whole {
                // A partial trim must not change the stripe, whose parity covers the rest.
                continue;
            }
            core.slab[slot].pending += 1;
            let own = self.new_piece(core, stripe, range, Purpose::Operation);
            if kind == OpKind::Read && !self.copies_read.is_empty() {
                let number = core.slab[own].at as usize;
                self.pieces[number].copy = self.next_copy(stripe);
            }
            let request = &mut core.slab[own];
            (request.parent, request.kind, request.fua) = (slot, kind, fua);
            self.begin(core, own);
        }
        piece_ended(core, slot, false);
    }

    /// Sends a flush to every member.
    fn flush(&mut self, core: &mut Core, slot: u32) {
        let absent = self.absent();
        let to: Vec<usize> = (0..self.members.len()).filter(|&m| !absent.contains(m)).collect();
        core.slab[slot].pending = to.len() as u32 + 1;
        self.flush_begins(slot);
        for member in to {
            core.ask(self.members[member], slot, &Op::FLUSH, 0);
        }
        self.flush_ended(core, slot, false);
    }

    /// Counts down the outstanding steps of a flush: one per member, and one for sending the flushes to the members.
    /// Completes the flush after the last.
    fn flush_ended(&mut self, core: &mut Core, slot: u32, failed: bool) {
        let request = &core.slab[slot];
        if request.pending == 1 {
            let failed = failed || request.failed;
            self.is_flushed(core, slot, failed);
        }
        piece_ended(core, slot, failed);
    }

    fn has_parity(&self) -> bool {
        self.layout.level().parities() > 0
    }

    /// Creates a piece of work within one stripe, with its request. Returns the request's index.
    fn new_piece(
        &mut self,
        core: &mut Core,
        stripe: u64,
        range: Range<u64>,
        purpose: Purpose,
    ) -> u32 {
        let number = self.pieces_free.pop().unwrap_or_else(|| {
            self.pieces.push(Piece::default());
            self.pieces.len() as u32 - 1
        });
        let piece = &mut self.pieces[number as usize];
        piece.begin_again(purpose, stripe, range);
        let slot = core.add(self.part);
        let request = &mut core.slab[slot];
        (request.internal, request.origin, request.parent) = (true, Origin::Own, NIL);
        (request.at, request.kind) = (u64::from(number), OpKind::Flush);
        request.state = State::Waiting;
        slot
    }

    /// Returns the range of rows that a piece of work within one stripe must lock, in sectors: stripe times strip
    /// size, plus the sector within the strip.
    fn rows_of(layout: &Layout, piece: &Piece) -> Range<u64> {
        let strip = layout.strip_sectors();
        let begin = piece.stripe * strip;
        if layout.level().parities() > 0 {
            return begin..begin + strip;
        }
        let end = piece.range.end.next_multiple_of(UNIT_SECTORS);
        begin + piece.range.start / UNIT_SECTORS * UNIT_SECTORS..begin + end
    }

    /// Begins a piece of work within one stripe, or queues it until its rows are unlocked.
    fn begin(&mut self, core: &mut Core, slot: u32) {
        let reads = core.slab[slot].kind == OpKind::Read;
        let piece = &mut self.pieces[core.slab[slot].at as usize];
        let phase = piece.phase;
        if !piece.locks {
            if phase == Phase::Stripe {
                piece.since_ns = core.now;
            }
            // A read locks its rows if it recovers or rewrites data, which must not change during the read. It also
            // does so during a resync that makes copies agree or replays the journal.
            let is_settled = piece.purpose == Purpose::Settle;
            let must_lock = !is_settled
                && match (self.layout.level().parities() > 0, reads) {
                    (true, true) => {
                        let is_replayed = self.journal && self.resyncs > 0;
                        is_replayed || !self.missing.is_empty() || !piece.unreadable.is_empty()
                    }
                    (false, true) => self.resyncs > 0 || !piece.unreadable.is_empty(),
                    (true, false) => true,
                    (false, false) => self.layout.copies() > 1,
                };
            if must_lock {
                let rows = Self::rows_of(&self.layout, piece);
                if !self.locks.take(&mut core.slab, &rows, slot) {
                    core.slab[slot].state = State::Waiting;
                    return;
                }
                (piece.locks, piece.first_row) = (true, rows.start);
            }
        }
        self.phases.end(&mut piece.since_ns, core, slot, phase);
        self.plan(core, slot);
    }

    /// Plans the reads and writes of a piece of work within one stripe with the present members, and starts the
    /// reads.
    fn plan(&mut self, core: &mut Core, slot: u32) {
        let (kind, number) = (core.slab[slot].kind, core.slab[slot].at as usize);
        self.free_names(core, number);
        let piece = &mut self.pieces[number];
        (piece.again, piece.phase) = (false, Phase::Reads);
        piece.reads.clear();
        piece.writes.clear();
        piece.forget_values();
        let planned = match piece.purpose {
            Purpose::Operation if !piece.mends => self.plan_operation(number, kind),
            _ => self.plan_restore(number),
        };
        if planned.is_err() {
            if self.begins_to_mend(number) {
                self.plan(core, slot);
            } else {
                self.end(core, slot, true);
            }
            return;
        }
        core.slab[slot].pending = self.pieces[number].reads.len() as u32;
        core.slab[slot].state = State::Waiting;
        for at in 0..self.pieces[number].reads.len() {
            let access = self.pieces[number].reads[at];
            self.ask(core, slot, &access, OpKind::Read);
        }
        if self.pieces[number].reads.is_empty() {
            self.have_read(core, slot);
        }
    }

    /// Sends an operation to a member on behalf of a piece of work within one stripe.
    fn ask(&self, core: &mut Core, slot: u32, access: &Access, kind: OpKind) -> u32 {
        let request = &core.slab[slot];
        let token = if request.parent == NIL { 0 } else { core.slab[request.parent].token };
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
        core.ask_at(at_ns, member, slot, &op, token)
    }

    /// Continues a piece of work within one stripe after its reads: computes parity or missing data if necessary,
    /// else writes.
    fn have_read(&mut self, core: &mut Core, slot: u32) {
        let is_read = core.slab[slot].kind == OpKind::Read;
        let piece = &mut self.pieces[core.slab[slot].at as usize];
        self.phases.end(&mut piece.since_ns, core, slot, Phase::Reads);
        piece.phase = Phase::Parity;
        if !piece.computes {
            self.write(core, slot);
            return;
        }
        let bytes = |sectors: u64| u32::try_from(sectors * SECTOR_BYTES).unwrap_or(u32::MAX);
        let end_ns = if let (Some(path), Some(adapters)) = (self.path, &mut core.adapters) {
            let data_bytes = bytes(piece.range.end - piece.range.start);
            let with_q = self.layout.level().parities() == 2;
            adapters.parity(core.now, path, data_bytes, with_q)
        } else {
            let written = if is_read { &[] } else { &piece.writes[..] };
            let all = piece.reads.iter().chain(written);
            let bytes = bytes(all.map(|access| access.sectors).sum());
            self.processor.take(core.now, self.stripe_ticks + self.parity.ticks(bytes))
        };
        core.at(end_ns, slot, State::Processed);
    }

    /// Writes the data and parity of a piece of work within one stripe, or rewrites unreadable sectors.
    fn write(&mut self, core: &mut Core, slot: u32) {
        let (kind, number) = (core.slab[slot].kind, core.slab[slot].at as usize);
        let piece = &mut self.pieces[number];
        self.phases.end(&mut piece.since_ns, core, slot, Phase::Parity);
        piece.phase = Phase::Writes;
        // Units lost during the operation were overwritten by zeroes.
        let is_read = kind == OpKind::Read && !piece.mends;
        if is_read && self.has_lost(number) {
            self.end(core, slot, true);
            return;
        }
        self.compute(core, slot);
        self.record_writes(core, slot);
        let piece = &mut self.pieces[number];
        let writes = std::mem::take(&mut piece.writes);
        core.slab[slot].pending = writes.len() as u32;
        core.slab[slot].state = State::Waiting;
        let (has_parity, purpose) = (self.has_parity(), self.pieces[number].purpose);
        for access in &writes {
            let kind = match kind {
                OpKind::Trim => kind,
                // With parity, zeroes are written like any other data, as md does.
                OpKind::WriteZeroes if !has_parity => kind,
                _ if purpose == Purpose::Settle => OpKind::Flush,
                _ => OpKind::Write,
            };
            let child = self.ask(core, slot, access, kind);
            self.give_values(core, slot, child, access);
        }
        self.pieces[number].writes = writes;
        if core.slab[slot].pending == 0 {
            self.end(core, slot, false);
        }
    }

    /// Ends a piece of work within one stripe, unlocks its rows, and begins the next piece that waits for these rows.
    fn end(&mut self, core: &mut Core, slot: u32, failed: bool) {
        let (parent, number) = (core.slab[slot].parent, core.slab[slot].at as usize);
        let piece = &mut self.pieces[number];
        if !failed {
            let phase = piece.phase;
            self.phases.end(&mut piece.since_ns, core, slot, phase);
        }
        self.record_end(core, slot, failed);
        self.free_names(core, number);
        if self.continues(number, failed) {
            self.plan(core, slot);
            return;
        }
        let piece = &self.pieces[number];
        if piece.locks {
            let (layout, pieces) = (&self.layout, &self.pieces);
            let rows_of =
                |slab: &Slab, slot: u32| Self::rows_of(layout, &pieces[slab[slot].at as usize]);
            if let Some(next) = self.locks.release(&mut core.slab, piece.first_row, rows_of) {
                let next_piece = core.slab[next].at as usize;
                let first_row = Self::rows_of(&self.layout, &self.pieces[next_piece]).start;
                self.pieces[next_piece].locks = true;
                self.pieces[next_piece].first_row = first_row;
                core.at(core.now, next, State::Issued);
            }
        }
        self.pieces_free.push(number as u32);
        core.slab.remove(slot);
        if parent == NIL {
            self.restored(core, number, failed);
        } else {
            piece_ended(core, parent, failed);
        }
    }
}

/// Returns the array's units that `range`, in sectors of a stripe's data, covers in full or in part.
fn units_of(layout: &Layout, stripe: u64, range: &Range<u64>) -> Range<u64> {
    let begin = stripe * layout.stripe_sectors();
    let (start, end) = (begin + range.start, begin + range.end);
    start / UNIT_SECTORS..end.div_ceil(UNIT_SECTORS)
}

/// Counts down the outstanding steps of an operation (one per piece, and one for splitting it), and
/// completes it after the last.
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
