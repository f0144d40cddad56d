//! Faults at a volume's interface: requests that fail with a chosen error, late replies, and silent faults, whose
//! requests are acknowledged as successful. These faults work with any kind of storage behind the interface.
//!
//! A fault applies to the requests in its scope, which can be limited to a kind of operation, a range, the requests
//! after N others, the next N requests, or a period. At most one fault applies to a request: the first in the list
//! whose scope matches.

mod before_images;
mod held;

use before_images::{BeforeImages, Older};
pub use held::Held;
use iodyno_units::{IoError, Op, OpKind};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a fault does to a request in its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fails the request. Nothing is read or changed.
    Fail(IoError),
    /// Acknowledges a write without storing it.
    Lose,
    /// Stores only the first bytes of a write, and acknowledges all of it.
    Tear {
        /// Number of bytes stored, from the start of the write. The rest of the range keeps its old content.
        kept_bytes: u32,
    },
    /// Stores a write at a higher offset. If it would end beyond the volume, the offset wraps around to the start.
    Misdirect {
        /// Distance from the requested offset to the offset at which the write is stored, bytes.
        by_bytes: u64,
    },
    /// Flips the lowest bit of the first byte that a read returns from the fault's range. The stored data is unchanged.
    Flip,
    /// Returns the old data for reads of ranges that were overwritten since the fault was injected. At most 64 MiB of
    /// old data is kept; other reads return current data.
    Stale,
    /// Replies later. The request itself is carried out at its usual time.
    Delay {
        /// Additional time before the reply is sent, ns.
        by_ns: u64,
    },
    /// Holds back the replies until the fault is over. The requests themselves are carried out at their usual time.
    Hang {
        /// Duration of the fault from its first affected request, ns; `None`: until the fault is cleared.
        for_ns: Option<u64>,
    },
}

impl Action {
    /// Whether the action can apply to this kind of operation. Each silent fault applies either to writes or to reads.
    pub const fn applies_to(self, kind: OpKind) -> bool {
        match self {
            Self::Fail(_) | Self::Delay { .. } | Self::Hang { .. } => true,
            Self::Lose | Self::Tear { .. } | Self::Misdirect { .. } => {
                matches!(kind, OpKind::Write)
            }
            Self::Flip | Self::Stale => matches!(kind, OpKind::Read),
        }
    }
}

/// The requests to which a fault applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Kind of operation that the fault affects; `None`: all kinds to which the action applies.
    pub kind: Option<OpKind>,
    /// Offset and length of the range that a request must touch, bytes; `None`: any. Flushes touch every range.
    pub range_bytes: Option<(u64, u64)>,
    /// Number of requests that the fault lets pass before it takes effect.
    pub after: u64,
    /// With a kind, `after` counts all requests of that kind, whatever their offset; `None`: the requests in the scope.
    pub after_kind: Option<OpKind>,
    /// Number of requests that the fault affects before it is over; `None`: no limit.
    pub next: Option<u64>,
    /// Duration of the fault after its injection, ns; `None`: until it is cleared.
    pub for_ns: Option<u64>,
}

/// A fault at a volume's interface: its effect, and the requests that it affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceFault {
    pub action: Action,
    /// Which requests the fault affects, and how long it lasts.
    pub scope: Scope,
}

impl InterfaceFault {
    /// The bytes that an operation reads or changes; empty for a flush.
    fn range_of(op: &Op) -> Range<u64> {
        op.offset_bytes..op.offset_bytes + u64::from(op.len_bytes)
    }

    fn touches(&self, op: &Op) -> bool {
        let Scope { kind, range_bytes, .. } = self.scope;
        let is_kind = kind.is_none_or(|kind| kind == op.kind) && self.action.applies_to(op.kind);
        let of_op = Self::range_of(op);
        let overlaps = |range: Range<u64>| of_op.start < range.end && range.start < of_op.end;
        let in_range = range_bytes.is_none_or(|(at, len)| overlaps(at..at + len));
        is_kind && (in_range || op.kind == OpKind::Flush)
    }
}

/// Effect of a fault on one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// Action that the caller must apply to the request.
    pub action: Action,
    /// When the reply to the request is sent; `None`: at its usual time.
    pub reply: Option<ReplyTime>,
    /// Data that a read returns in place of the stored data.
    older: Vec<Older>,
    /// Index, in the data of a read, of the first byte that lies in the fault's range.
    first: usize,
}

impl Met {
    /// Applies the fault to the data of a read: flips a bit, or replaces ranges by their old content.
    pub fn alter(&self, bytes: &mut [u8]) {
        self.older.iter().for_each(|older| older.copy_to(bytes));
        if self.action == Action::Flip
            && let Some(byte) = bytes.get_mut(self.first)
        {
            *byte ^= 1;
        }
    }
}

/// Time at which a delayed or held reply is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyTime {
    /// The reply is sent this much later than without the fault, ns.
    Later(u64),
    /// The reply is not sent before this time on the caller's clock, ns; `u64::MAX`: not before the fault is cleared.
    NotBefore(u64),
}

impl ReplyTime {
    /// Converts `usual_ns`, the time of the reply without the fault, to its time with the fault, ns.
    pub fn after(self, usual_ns: u64) -> u64 {
        match self {
            Self::Later(by_ns) => usual_ns.saturating_add(by_ns),
            Self::NotBefore(at_ns) => usual_ns.max(at_ns),
        }
    }
}

/// An injected fault, with counts of requests since its injection.
#[derive(Clone, Debug)]
pub struct Injected {
    /// Effect and scope of the fault, as commanded.
    pub fault: InterfaceFault,
    /// Number of requests in the fault's scope since its injection, affected or not.
    pub seen: u64,
    /// Number of requests that the fault has affected.
    pub applied: u64,
    /// Whether the fault is over, and will affect no more requests.
    pub is_over: bool,
    /// Number of requests since the injection that count towards [`Scope::after`].
    passed: u64,
    /// For a delay of all kinds of operations: whether the delay of one kind has been ended alone, by index of the
    /// kind.
    has_ended: [bool; OpKind::COUNT],
    /// Old content of ranges that were overwritten since the injection. Empty unless the action is [`Action::Stale`].
    before: BeforeImages,
    /// Time at which the fault ends, ns of the caller's clock; `None`: no end is set. For a hang with a duration, the
    /// first affected request sets the end.
    until_ns: Option<u64>,
}

impl Injected {
    fn update(&mut self, now_ns: u64) {
        self.is_over |= self.until_ns.is_some_and(|until_ns| now_ns >= until_ns)
            || self.fault.scope.next.is_some_and(|next| self.applied >= next);
    }

    /// Counts a request. Returns the fault's effect on it; `None` if the fault does not affect it.
    fn judge(&mut self, now_ns: u64, op: &Op) -> Option<Met> {
        let Scope { after, after_kind, .. } = self.fault.scope;
        let touches = self.fault.touches(op) && !self.has_ended[op.kind.index()];
        let has_passed = self.passed >= after;
        self.seen += u64::from(touches);
        self.passed += u64::from(after_kind.map_or(touches, |kind| kind == op.kind));
        let action = self.fault.action;
        let is_stale = touches && action == Action::Stale;
        let older =
            if is_stale { self.before.of(&InterfaceFault::range_of(op)) } else { Vec::new() };
        if !touches || !has_passed || is_stale && older.is_empty() {
            return None;
        }
        self.applied += 1;
        let reply = match action {
            Action::Delay { by_ns } => Some(ReplyTime::Later(by_ns)),
            Action::Hang { for_ns: None } => Some(ReplyTime::NotBefore(u64::MAX)),
            Action::Hang { for_ns: Some(for_ns) } => {
                if self.applied == 1 {
                    let until_ns = now_ns.saturating_add(for_ns);
                    self.until_ns = Some(self.until_ns.map_or(until_ns, |end| end.max(until_ns)));
                }
                self.until_ns.map(ReplyTime::NotBefore)
            }
            _ => None,
        };
        let from = self.fault.scope.range_bytes.map_or(0, |(at, _)| at);
        let first = from.saturating_sub(op.offset_bytes) as usize;
        Some(Met { action, reply, older, first })
    }
}

/// The faults at one volume's interface, oldest first. At most one affects a request: the first whose scope matches.
#[derive(Clone, Debug, Default)]
pub struct InterfaceFaults(Vec<Injected>);

impl InterfaceFaults {
    /// Whether the list is empty, so that requests need no check. Faults that are over stay in the list for a while.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a fault that takes effect now, and removes faults that are over. A delay replaces an earlier delay of the
    /// same scope; a delay of 0 ends all delays of its kind of operation.
    pub fn add(&mut self, now_ns: u64, fault: InterfaceFault) {
        self.update(now_ns);
        let is_delay = |of: &InterfaceFault| matches!(of.action, Action::Delay { .. });
        self.0.retain(|known| {
            let is_same_scope = known.fault.scope == fault.scope;
            let is_replaced = is_delay(&fault) && is_delay(&known.fault) && is_same_scope;
            !known.is_over && !is_replaced
        });
        if fault.action == (Action::Delay { by_ns: 0 }) {
            self.end_delays(fault.scope.kind);
            return;
        }
        let until_ns = fault.scope.for_ns.map(|for_ns| now_ns.saturating_add(for_ns));
        let (seen, applied, passed, is_over) = (0, 0, 0, false);
        let before = BeforeImages::default();
        let has_ended = [false; OpKind::COUNT];
        self.0.push(Injected {
            fault,
            seen,
            applied,
            is_over,
            passed,
            has_ended,
            before,
            until_ns,
        });
    }

    /// Ends the delays of a kind of operation; `None`: all delays.
    pub fn end_delays(&mut self, kind: Option<OpKind>) {
        self.0.retain_mut(|known| {
            match (known.fault.action, kind, known.fault.scope.kind) {
                // Operations of the other kinds are still delayed.
                (Action::Delay { .. }, Some(ended), None) => known.has_ended[ended.index()] = true,
                (Action::Delay { .. }, ended, delayed) => {
                    return ended.is_some() && ended != delayed;
                }
                _ => {}
            }
            true
        });
    }

    /// Removes all faults, including those that are over.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts a request, and returns the effect of the fault that applies to it; `None`: the request is served
    /// correctly. `read` reads the volume's content at an offset, and returns false if it can't. For [`Action::Stale`],
    /// `judge` uses it to save the old content before a write.
    pub fn judge(
        &mut self,
        now_ns: u64,
        op: &Op,
        mut read: impl FnMut(u64, &mut [u8]) -> bool,
    ) -> Option<Met> {
        let mut met = None;
        self.update(now_ns);
        for known in self.0.iter_mut().filter(|known| !known.is_over) {
            if known.fault.action == Action::Stale && op.kind.changes_content() {
                known.before.save(&InterfaceFault::range_of(op), &mut read);
            }
            if met.is_none() {
                met = known.judge(now_ns, op);
            }
        }
        met
    }

    /// All faults added since the last [`Self::clear`]. A fault that is over stays listed until the next one is added.
    pub fn listed(&mut self, now_ns: u64) -> &[Injected] {
        self.update(now_ns);
        &self.0
    }

    fn update(&mut self, now_ns: u64) {
        for known in &mut self.0 {
            known.update(now_ns);
        }
    }
}

/// Interface faults of a volume that no emulated machine serves. All connections to the volume share them.
#[derive(Debug)]
pub struct SharedFaults {
    /// Whether faults are listed. While false, requests take no lock.
    any: AtomicBool,
    faults: Mutex<InterfaceFaults>,
    since: Instant,
}

impl Default for SharedFaults {
    fn default() -> Self {
        Self { any: AtomicBool::new(false), faults: Mutex::default(), since: Instant::now() }
    }
}

impl SharedFaults {
    fn lock(&self) -> MutexGuard<'_, InterfaceFaults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Current time on the clock of the faults, ns since this value was created.
    pub fn now_ns(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Adds a fault, which begins now.
    pub fn add(&self, fault: InterfaceFault) {
        self.lock().add(self.now_ns(), fault);
        self.any.store(true, Ordering::Release);
    }

    /// Removes all faults, including those that are over. [`Self::judge`] then takes no lock until one is added.
    pub fn clear(&self) {
        self.lock().clear();
        self.any.store(false, Ordering::Release);
    }

    /// Like [`InterfaceFaults::judge`], but takes no lock if no fault is listed.
    #[inline]
    pub fn judge(&self, op: &Op, read: impl FnMut(u64, &mut [u8]) -> bool) -> Option<Met> {
        if self.is_empty() { None } else { self.lock().judge(self.now_ns(), op, read) }
    }

    /// Copies the faults, including those that are over, with their counts.
    pub fn listed(&self) -> Vec<Injected> {
        self.lock().listed(self.now_ns()).to_vec()
    }
}

/// Offset at which [`Action::Misdirect`] stores a write on a volume of `size_bytes`: `by_bytes` above the requested
/// one. It wraps around so that the whole write lies within the volume. If both the requested offset and `by_bytes` are
/// multiples of a sector, so is the result.
pub fn misdirected(op: &Op, by_bytes: u64, size_bytes: u64) -> u64 {
    let is_in_sectors =
        [op.offset_bytes, by_bytes].iter().all(|at| at.is_multiple_of(SECTOR_BYTES));
    let unit = if is_in_sectors { SECTOR_BYTES } else { 1 };
    let places = size_bytes.saturating_sub(u64::from(op.len_bytes)) / unit + 1;
    (op.offset_bytes / unit % places + by_bytes / unit % places) % places * unit
}

const SECTOR_BYTES: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    fn op(kind: OpKind, offset_bytes: u64, len_bytes: u32) -> Op {
        Op { offset_bytes, len_bytes, kind, fua: false }
    }

    fn judge(faults: &mut InterfaceFaults, now_ns: u64, op: &Op) -> Option<Met> {
        faults.judge(now_ns, op, |_, _| true)
    }

    const ALL: Scope = Scope {
        kind: None,
        range_bytes: None,
        after: 0,
        after_kind: None,
        next: None,
        for_ns: None,
    };

    #[test]
    fn a_fault_applies_within_its_scope_alone() {
        let scope = Scope { range_bytes: Some((4096, 4096)), after: 1, next: Some(2), ..ALL };
        let mut faults = InterfaceFaults::default();
        faults.add(0, InterfaceFault { action: Action::Lose, scope });
        let mut meets = |kind, at, len| judge(&mut faults, 0, &op(kind, at, len)).is_some();
        assert!(!meets(OpKind::Write, 4096, 512), "passes first");
        assert!(!meets(OpKind::Write, 0, 4096) && !meets(OpKind::Write, 8192, 4096));
        assert!(!meets(OpKind::Read, 4096, 512) && !meets(OpKind::Flush, 0, 0));
        assert!(meets(OpKind::Write, 0, 4097) && meets(OpKind::Write, 8191, 1));
        assert!(!meets(OpKind::Write, 4096, 512), "only the next two");
        assert!(faults.listed(0)[0].is_over);
    }

    #[test]
    fn a_fault_ends_with_its_time_and_leaves_the_next_one() {
        let fails = |error, scope| InterfaceFault { action: Action::Fail(error), scope };
        let mut faults = InterfaceFaults::default();
        faults.add(100, fails(IoError::NoSpace, Scope { for_ns: Some(50), ..ALL }));
        faults.add(100, fails(IoError::Io, Scope { kind: Some(OpKind::Flush), ..ALL }));
        let flush = op(OpKind::Flush, 0, 0);
        let mut action = |at_ns| judge(&mut faults, at_ns, &flush).map(|met| met.action);
        assert_eq!(action(149), Some(Action::Fail(IoError::NoSpace)));
        assert_eq!(action(150), Some(Action::Fail(IoError::Io)));
        assert_eq!(judge(&mut faults, 150, &op(OpKind::Read, 0, 1)), None);
        let counts: Vec<_> = faults.listed(150).iter().map(|of| (of.applied, of.is_over)).collect();
        assert_eq!(counts, [(1, true), (1, false)]);
        faults.clear();
        assert!(faults.is_empty());
    }

    /// A hang begins with the first affected request. All affected requests are answered at the same time.
    #[test]
    fn a_hang_is_as_long_as_it_says() {
        let mut faults = InterfaceFaults::default();
        let scope = Scope { after: 1, after_kind: Some(OpKind::Flush), ..ALL };
        faults.add(0, InterfaceFault { action: Action::Hang { for_ns: Some(50) }, scope });
        let (read, flush) = (op(OpKind::Read, 0, 1), op(OpKind::Flush, 0, 0));
        let mut reply = |now_ns, op| judge(&mut faults, now_ns, op).and_then(|met| met.reply);
        assert_eq!(reply(100, &read), None, "before the first flush");
        assert_eq!(reply(200, &flush), None);
        assert_eq!(reply(300, &read), Some(ReplyTime::NotBefore(350)));
        assert_eq!(reply(349, &flush), Some(ReplyTime::NotBefore(350)));
        assert_eq!(reply(350, &read), None);
        assert!(faults.listed(350)[0].is_over);
    }

    #[test]
    fn a_delay_replaces_the_one_of_the_same_scope() {
        let mut faults = InterfaceFaults::default();
        let flushes = Scope { kind: Some(OpKind::Flush), ..ALL };
        let mut delay = |by_ns, scope| {
            faults.add(0, InterfaceFault { action: Action::Delay { by_ns }, scope });
            let met = judge(&mut faults.clone(), 0, &op(OpKind::Flush, 0, 0));
            met.and_then(|met| met.reply).map_or(0, |reply| reply.after(1000))
        };
        assert_eq!((delay(5, flushes), delay(9, ALL)), (1005, 1005));
        assert_eq!((delay(7, flushes), delay(0, flushes), delay(3, flushes)), (1009, 0, 1003));
        let next = Scope { next: Some(5), ..flushes };
        assert_eq!((delay(0, ALL), delay(4, next), delay(0, flushes)), (0, 1004, 0));
        // A delay of all operations goes on for those that were not named.
        let mut others = |by_ns, scope| {
            faults.add(0, InterfaceFault { action: Action::Delay { by_ns }, scope });
            OpKind::ALL.map(|kind| judge(&mut faults.clone(), 0, &op(kind, 0, 1)).is_some())
        };
        assert_eq!(others(9, ALL), [true; OpKind::COUNT]);
        assert_eq!(others(0, flushes), OpKind::ALL.map(|kind| kind != OpKind::Flush));
    }

    #[test]
    fn a_bit_flips_within_the_range() {
        let scope = Scope { range_bytes: Some((4096, 4096)), ..ALL };
        let mut faults = InterfaceFaults::default();
        faults.add(0, InterfaceFault { action: Action::Flip, scope });
        for (at, flipped) in [(0, 4096), (4000, 96), (4096, 0), (5000, 0)] {
            let mut bytes = vec![0; 8192];
            judge(&mut faults, 0, &op(OpKind::Read, at, 8192)).unwrap().alter(&mut bytes);
            assert_eq!(bytes.iter().position(|byte| *byte != 0), Some(flipped), "{at}");
            assert_eq!(bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 1);
        }
    }

    /// A misdirected write stays within the volume. It goes to another offset unless the distance is a multiple of the
    /// number of possible offsets.
    #[test]
    fn a_misdirected_write_stays_in_the_volume() {
        let mut rng = stream(1, "misdirected", 0);
        for _ in 0..10_000 {
            let size_bytes = 1 + below(&mut rng, 1 << 20);
            let len_bytes = 1 + below(&mut rng, size_bytes) as u32;
            let places = size_bytes - u64::from(len_bytes) + 1;
            let op = op(OpKind::Write, below(&mut rng, places), len_bytes);
            let by_bytes = below(&mut rng, 1 << 21);
            let at = misdirected(&op, by_bytes, size_bytes);
            assert!(at + u64::from(len_bytes) <= size_bytes);
            assert_eq!(at == op.offset_bytes, by_bytes.is_multiple_of(places));
            // A disk's sectors stay sectors.
            let sectors = Op {
                offset_bytes: op.offset_bytes / 512 * 512,
                len_bytes: len_bytes.min(512),
                ..op
            };
            let at = misdirected(&sectors, by_bytes / 512 * 512, size_bytes);
            assert!(at.is_multiple_of(512) && at + u64::from(sectors.len_bytes) <= size_bytes);
        }
    }
}
