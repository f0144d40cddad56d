//! Requests, and the slab that stores them.
//!
//! Every activity is a request: a host's operation and each page read that it needs, a program operation, a copy by
//! garbage collection, an erase, a driver thread's poll of its devices. A request has at most one pending event, and
//! is in at most one list.

use crate::content_event::{UNIT_BYTES, UnitBytes};
use crate::part_id::PartId;
use crate::prefetch::Address;
use crate::zone_table::ZoneAction;
use iodyno_units::{Op, OpKind};
use std::ops::Range;

/// Index that means "no request".
pub(crate) const NIL: u32 = u32::MAX;

/// State of a request. If an event is pending, the state determines the event's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The entry is unused.
    Free,
    /// A request from a host or another component arrives.
    Issued,
    /// A device's own limits have room for the first request that waits for them.
    Allowed,
    /// The limits of the instance, which its cloud volumes share, may have room for the first request that waits.
    AllowedByInstance,
    /// The driver thread or the controller has accepted the command.
    Admitted,
    /// A request from a host or another component is complete.
    Done,
    /// An adapter forwards a host's operation to its partner.
    Forwarded,
    /// The data of a read has reached the host.
    Delivered,
    /// The die has read the cells of a page into its register.
    Sensed,
    /// A page read has left its channel, or a write's data has reached a RAID adapter.
    Transferred,
    /// A program operation of a flash die has ended.
    Programmed,
    /// An erase operation of a flash die has ended.
    Erased,
    /// A processor has finished: the flash controller's for copies by garbage collection, an adapter's for a
    /// command, or an array's for parity.
    Processed,
    /// A driver thread polls its devices.
    Poll,
    /// A scheduled wake-up of a disk is due.
    Wake,
    /// The request waits in a list, or for its children; it has no pending event.
    Waiting,
}

/// The operation on a die that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Read of a page from the cells.
    Sense,
    /// Program operation: writes one page in each plane.
    Program,
    /// Erase operation, which makes a block writable again.
    Erase,
    /// No operation: the controller completes the request without a die.
    Nothing,
    /// A change of the state of a zone, on a zoned device.
    Manage(ZoneAction),
}

/// The origin of a request, which is notified of its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A worker of the host, which sent the request to `volume`.
    Host { volume: u32, worker: u32 },
    /// Another component, whose request with this index waits for this request to end.
    Parent(u32),
    /// The component that serves the request: internal work.
    Own,
}

/// A request: an operation or internal step of a component. Occupies one cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Token that the submitter gave the request. A page read has none: if it shares a link frame with another, this is
    /// the other's index in the [`Slab`] plus 1.
    pub token: u64,
    /// Byte offset (operations), first logical page (page reads) or batch number (program operations).
    pub at: u64,
    /// Start of the request's current phase, ns.
    pub entered_ns: u64,
    /// Length in bytes (operations), or number of bytes in this page (page reads).
    pub len: u32,
    /// Index of the next request in the same list.
    pub next: u32,
    /// Index of the request of the same component that waits for this request; `NIL`: none.
    pub parent: u32,
    /// Number of child requests in progress; for writes to flash, number of units not yet in the buffer; for the
    /// reset of a zone, number of units written to the zone.
    pub pending: u32,
    /// Receiver of the completion.
    pub origin: Origin,
    /// The component that serves the request.
    pub part: PartId,
    /// Index of the die that serves the request; 0 except on flash.
    pub die: u16,
    pub state: State,
    pub kind: OpKind,
    /// Force unit access: the write must be durable when acknowledged.
    pub fua: bool,
    /// The operation on a flash die that the request needs, or a zone command.
    pub work: Work,
    /// Whether the request is internal work of its component, rather than an operation from outside.
    pub internal: bool,
    /// Whether an error has occurred in the request or in one of its child requests.
    pub failed: bool,
}

const _: () = assert!(size_of::<Request>() == 64);

impl Request {
    /// Returns the operation that a host or another component has requested.
    pub(crate) fn op(&self) -> Op {
        Op { offset_bytes: self.at, len_bytes: self.len, kind: self.kind, fua: self.fua }
    }

    /// Returns the 4 KiB content units that the request covers in full or in part.
    pub(crate) fn units(&self) -> Range<u64> {
        self.at / UNIT_BYTES..(self.at + u64::from(self.len)).div_ceil(UNIT_BYTES)
    }

    /// Returns the range of bytes within a unit that the request covers.
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

/// All requests, by index. Entries of ended requests are reused.
#[derive(Clone, Debug)]
pub(crate) struct Slab {
    all: Vec<Request>,
    free: u32,
}

impl Slab {
    pub(crate) fn new() -> Self {
        Self { all: Vec::new(), free: NIL }
    }

    /// Creates a request of a component. Returns its index.
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

    /// Frees the entry of a request that has ended.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        let request = &mut self.all[slot as usize];
        debug_assert!(request.state != State::Free, "removed twice");
        request.state = State::Free;
        request.next = self.free;
        self.free = slot;
    }

    /// Prefetches into the CPU cache a request that will soon be needed.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: u32) {
        Address::of(&self[slot]).prefetch();
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of host requests in progress. Scans all requests, so it is slow.
    pub(crate) fn hosts(&self) -> u64 {
        let ours = |r: &&Request| r.state != State::Free && matches!(r.origin, Origin::Host { .. });
        self.all.iter().filter(ours).count() as u64
    }

    /// Finds a child request whose parent no longer exists, to check invariants; `None` if there is none.
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

/// A FIFO list of requests, linked through their `next` fields.
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
