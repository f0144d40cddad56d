//! One worker in virtual time: what it issues, what it has in flight, and its books. It is the
//! worker of a thread without thread, clock and buffers; many of them take turns on one machine.

use super::dues::NEVER;
use crate::issuer::{Issuer, Step};
use crate::worker::{AT_SUBMISSION, Limits, WorkerReport, cover};
use iodyno_emulate::Machine;
use iodyno_measure::{Coverage, Ended};
use iodyno_units::Op;
use iodyno_workload::Stream;

/// One operation in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) op: Op,
    pub(super) submitted_ns: u64,
    /// When it was due; [`AT_SUBMISSION`] in closed loop.
    pub(super) intended_ns: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Worker {
    /// The target whose cell it counts into.
    pub(super) target: usize,
    volume: u32,
    /// What the machine calls it.
    machine_number: u32,
    /// The upper half of its operations' tokens; the lower half is the slot.
    token: u64,
    pub(super) stream: Stream,
    pub(super) issuer: Issuer,
    slots: Box<[Slot]>,
    free: Vec<u32>,
    /// Operations that it shall complete, and bytes that it shall move; `u64::MAX` for no limit.
    ops_max: u64,
    bytes_max: u64,
    /// Completed or failed in the window.
    ops: u64,
    /// Completed in the window.
    bytes: u64,
    in_flight_bytes: u64,
    moved_bytes: u64,
    /// The integral of operations in flight over the window: completions count with plus, what was
    /// submitted with minus.
    area: i128,
    carried_in_ns: i128,
    carried_out_ns: i128,
    coverage: Option<Box<Coverage>>,
    /// Its window has begun.
    measured: bool,
    /// When its window ended, and why; None while it works.
    pub(super) ended: Option<(u64, Ended)>,
}

impl Worker {
    pub(super) fn new(
        index: usize,
        (target, volume, machine_number): (usize, u32, u32),
        stream: Stream,
        (issuer, slots): (Issuer, u32),
        limits: &Limits,
        coverage: Option<Box<Coverage>>,
    ) -> Self {
        let idle = Slot { op: Op::FLUSH, submitted_ns: 0, intended_ns: AT_SUBMISSION };
        Self {
            target,
            volume,
            machine_number,
            token: (index as u64) << 32,
            stream,
            issuer,
            slots: vec![idle; slots as usize].into(),
            free: (0..slots).rev().collect(),
            ops_max: limits.ops.unwrap_or(u64::MAX),
            bytes_max: limits.bytes.unwrap_or(u64::MAX),
            ops: 0,
            bytes: 0,
            in_flight_bytes: 0,
            moved_bytes: 0,
            area: 0,
            carried_in_ns: 0,
            carried_out_ns: 0,
            coverage,
            measured: false,
            ended: None,
        }
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The operations in flight. Not for the hot path.
    pub(super) fn in_flight_slots(&self) -> impl Iterator<Item = &Slot> {
        let mut is_free = vec![false; self.slots.len()];
        for &slot in &self.free {
            is_free[slot as usize] = true;
        }
        self.slots.iter().zip(is_free).filter(|(_, is_free)| !is_free).map(|(slot, _)| slot)
    }

    /// Hands over what is due at `now_ns`; gives when the next is.
    #[inline]
    pub(super) fn issue(&mut self, machine: &mut Machine, now_ns: u64) -> u64 {
        while !self.share_issued() {
            let intended_ns = match self.issuer.step(now_ns, self.free.len()) {
                Step::Issue(intended_ns) => intended_ns.unwrap_or(AT_SUBMISSION),
                Step::WaitUntil(due_ns) => return due_ns,
                Step::WaitCompletion => break,
            };
            let Some(slot) = self.free.pop() else { break };
            let op = self.stream.next_op();
            let token = self.token | u64::from(slot);
            // The generator's core may be busy until then: later than now.
            let submitted_ns = machine.submit(now_ns, self.machine_number, self.volume, &op, token);
            self.slots[slot as usize] = Slot { op, submitted_ns, intended_ns };
            self.in_flight_bytes += u64::from(op.len_bytes);
            self.area -= i128::from(submitted_ns);
            if self.free.is_empty() {
                break;
            }
        }
        NEVER
    }

    /// Takes an operation back from the machine; its slot is free.
    #[inline]
    pub(super) fn take(&mut self, slot: u32, now_ns: u64) -> Slot {
        let taken = self.slots[slot as usize];
        self.free.push(slot);
        self.issuer.completed(now_ns);
        self.in_flight_bytes -= u64::from(taken.op.len_bytes);
        self.area += i128::from(now_ns);
        taken
    }

    /// Books an operation that succeeded.
    #[inline]
    pub(super) fn succeeded(&mut self, op: &Op, counts: bool) {
        let len_bytes = op.len_bytes;
        self.moved_bytes += u64::from(len_bytes);
        if let Some(coverage) = &mut self.coverage {
            cover(coverage, op);
        }
        if counts {
            self.ops += 1;
            self.bytes += u64::from(len_bytes);
        }
    }

    /// Books an operation that failed.
    #[cold]
    pub(super) fn failed(&mut self, counts: bool) {
        self.ops += u64::from(counts);
    }

    /// Whether this worker's share of operations or bytes is complete.
    #[inline]
    pub(super) fn share_done(&self) -> Option<Ended> {
        if self.ops >= self.ops_max {
            return Some(Ended::Ops);
        }
        (self.bytes >= self.bytes_max).then_some(Ended::Bytes)
    }

    /// Whether one more operation would go over this worker's share.
    #[inline]
    fn share_issued(&self) -> bool {
        self.ops.saturating_add(self.in_flight() as u64) >= self.ops_max
            || self.bytes.saturating_add(self.in_flight_bytes) >= self.bytes_max
    }

    /// The measured window begins: what is in flight was carried into it.
    #[cold]
    pub(super) fn begin_window(&mut self, start_ns: u64) {
        self.measured = true;
        let before = |s: &Slot| i128::from(start_ns.saturating_sub(s.submitted_ns));
        self.carried_in_ns = self.in_flight_slots().map(before).sum();
        let from = |s: &Slot| i128::from(s.submitted_ns.max(start_ns));
        self.area = -self.in_flight_slots().map(from).sum::<i128>();
    }

    /// The worker's window ends: what is in flight is carried out of it.
    #[cold]
    pub(super) fn end(&mut self, end_ns: u64, why: Ended) {
        let within = |s: &Slot| i128::from(end_ns.saturating_sub(s.submitted_ns));
        self.carried_out_ns = self.in_flight_slots().map(within).sum();
        // One that is handed over only later was in flight for no time.
        let until = |s: &Slot| i128::from(s.submitted_ns.max(end_ns));
        self.area += self.in_flight_slots().map(until).sum::<i128>();
        self.ended = Some((end_ns, why));
    }

    /// Its books, when it has ended.
    pub(super) fn report(&mut self, window_start_ns: u64) -> WorkerReport {
        let (end_ns, ended) = self.ended.unwrap_or((window_start_ns, Ended::Time));
        // Without a window there is nothing to balance.
        let books = i128::from(self.measured);
        WorkerReport {
            window: (window_start_ns, end_ns.max(window_start_ns)),
            moved_bytes: self.moved_bytes,
            outstanding_area_ns: (self.area * books).max(0) as u128,
            carried_in_ns: self.carried_in_ns * books,
            carried_out_ns: self.carried_out_ns * books,
            backlog_ops: if self.measured { self.issuer.backlog(end_ns) } else { 0 },
            recent_misses: self.stream.recent_misses(),
            walked: self.stream.walked(),
            coverage: self.coverage.take(),
            ended,
            ..WorkerReport::default()
        }
    }
}
