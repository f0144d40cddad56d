//! Requests, and the slab that holds them.
//!
//! Everything that acts is a request: an operation of a host, the page reads that it forks, a
//! program, a copy of garbage collection, an erase, a driver thread's poll of its devices. A
//! request has at most one pending event, and is in at most one list.

use crate::content_event::{UNIT_BYTES, UnitBytes};
use crate::part_id::PartId;
use crate::prefetch::Address;
use iodyno_units::{Op, OpKind};
use std::ops::Range;

/// Stands for no slot.
pub(crate) const NIL: u32 = u32::MAX;

/// The state of a request: the effect of its pending event, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The slot is unused.
    Free,
    /// A request of a host or of another part reaches the part.
    Issued,
    /// The limits of a device have room for the first request that waits for them.
    Allowed,
    /// The driver thread or the controller has accepted the command.
    Admitted,
    /// A request of a host or of another part is acknowledged, or its data is delivered.
    Done,
    /// An adapter forwards a host's operation to its partner.
    Forwarded,
    /// The data of a read has reached the host.
    Delivered,
    /// A page read has left the cells.
    Sensed,
    /// A page read has left its channel.
    Transferred,
    /// A program has ended.
    Programmed,
    /// An erase has ended.
    Erased,
    /// The controller has processed pages that garbage collection copies.
    Processed,
    /// A driver thread polls its devices.
    Poll,
    /// A disk's scheduled wake-up.
    Wake,
    /// The request waits in a list, or for its children; it has no pending event.
    Waiting,
}

/// The operation that a request needs from a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Reads a page.
    Sense,
    /// Programs a page in each plane.
    Program,
    /// Erases a block.
    Erase,
    /// Needs no die: the controller answers by itself.
    Nothing,
}

/// The origin of a request, which is notified of its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A worker of the host, through the volume whose root is the part.
    Host { volume: u32, worker: u32 },
    /// Another part, on behalf of its request in this slot, which waits for all its children.
    Parent(u32),
    /// The part itself.
    Own,
}

/// A request: one operation or one internal step of a part. One cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The submitter's token. For a page read that is sent together with another one, the slot of
    /// that one plus 1.
    pub token: u64,
    /// First byte (operations), first logical page (page reads), batch number (programs).
    pub at: u64,
    /// Start of the present phase, ns.
    pub entered_ns: u64,
    /// Length in bytes (operations), bytes in this page (page reads).
    pub len: u32,
    /// The next request in the list that this request is in.
    pub next: u32,
    /// The request of the same part that waits for this one.
    pub parent: u32,
    /// Children that have not ended; for writes, pages not yet in the buffer.
    pub pending: u32,
    /// Who is notified of the completion.
    pub origin: Origin,
    /// The part that serves the request.
    pub part: PartId,
    /// The die that serves the request.
    pub die: u16,
    /// The effect of the pending event.
    pub state: State,
    /// Index of the kind of operation in [`every_column`].
    pub kind: OpKind,
    /// Force unit access: the write must be durable when acknowledged.
    pub fua: bool,
    /// The operation needed from the die.
    pub work: Work,
    /// Whether the request is internal work of its part, rather than an operation from outside.
    pub internal: bool,
    /// Whether an error has occurred in the request or in one of its children.
    pub failed: bool,
}

const _: () = assert!(size_of::<Request>() == 64);

impl Request {
    /// The operation that a host or another part has requested.
    pub(crate) fn op(&self) -> Op {
        Op { offset_bytes: self.at, len_bytes: self.len, kind: self.kind, fua: self.fua }
    }

    /// The content units that the request touches.
    pub(crate) fn units(&self) -> Range<u64> {
        self.at / UNIT_BYTES..(self.at + u64::from(self.len)).div_ceil(UNIT_BYTES)
    }

    /// The bytes of a unit that the request covers.
    pub(crate) fn part_of(&self, unit: u64) -> UnitBytes {
        let (from, to) = (self.at, self.at + u64::from(self.len));
        let in_unit = |at: u64| at.saturating_sub(unit * UNIT_BYTES).min(UNIT_BYTES) as u16;
        UnitBytes { start: in_unit(from), end: in_unit(to) }
    }
}

const IDLE: Request = Request {
    token: 0,
    at: 0,
    entered_ns: 0,
    len: 0,
    next: NIL,
    parent: NIL,
    pending: 0,
    origin: Origin::Own,
    part: PartId(0),
    die: 0,
    state: State::Free,
    kind: OpKind::Read,
    fua: false,
    work: Work::Sense,
    internal: false,
    failed: false,
};

/// All requests, in use or free, indexed by slot.
#[derive(Clone, Debug)]
pub(crate) struct Slab {
    all: Vec<Request>,
    free: u32,
}

impl Slab {
    pub(crate) fn new() -> Self {
        Self { all: Vec::new(), free: NIL }
    }

    /// Takes a slot for a new request of a part.
    #[inline]
    pub(crate) fn add(&mut self, part: PartId) -> u32 {
        let fresh = Request { part, ..IDLE };
        if self.free == NIL {
            self.all.push(fresh);
            return self.all.len() as u32 - 1;
        }
        let slot = self.free;
        self.free = self.all[slot as usize].next;
        self.all[slot as usize] = fresh;
        slot
    }

    /// Frees a request that has ended.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        let request = &mut self.all[slot as usize];
        debug_assert!(request.state != State::Free, "removed twice");
        request.state = State::Free;
        request.next = self.free;
        self.free = slot;
    }

    /// Prefetches a request that is needed soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: u32) {
        Address::of(&self[slot]).prefetch();
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Number of host requests that are not done. Scans the slab, so not for the hot path.
    pub(crate) fn hosts(&self) -> u64 {
        let ours = |r: &&Request| r.state != State::Free && matches!(r.origin, Origin::Host { .. });
        self.all.iter().filter(ours).count() as u64
    }

    /// Finds a child whose parent no longer exists, for checks.
    pub(crate) fn orphan(&self) -> Option<u32> {
        let is_orphan = |r: &Request| match r.origin {
            Origin::Parent(parent) if parent != NIL => {
                r.state != State::Free && self[parent].state == State::Free
            }
            _ => false,
        };
        self.all.iter().position(is_orphan).map(|slot| slot as u32)
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Request;
    #[inline]
    fn index(&self, slot: u32) -> &Request {
        &self.all[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Request {
        &mut self.all[slot as usize]
    }
}

/// A first-in, first-out list of requests, linked through the slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL };

    #[inline]
    pub(crate) fn push(&mut self, slab: &mut Slab, slot: u32) {
        slab[slot].next = NIL;
        if self.head == NIL {
            self.head = slot;
        } else {
            slab[self.tail].next = slot;
        }
        self.tail = slot;
    }

    #[inline]
    pub(crate) fn pop(&mut self, slab: &Slab) -> Option<u32> {
        if self.head == NIL {
            return None;
        }
        let slot = self.head;
        self.head = slab[slot].next;
        Some(slot)
    }

    #[inline]
    pub(crate) fn first(self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.head == NIL
    }
}
