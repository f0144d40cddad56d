//! One worker in virtual time: its source, its operations in flight, and its counts. A worker has no thread, clock or
//! buffers; the event loop runs many workers on one machine.

use super::due_queue::NEVER;
use crate::in_flight::{InFlight, Share, Slot};
use crate::worker::{WorkerReport, cover, moves_data};
use iodyno_emulate::Machine;
use iodyno_measure::{Coverage, Ended};
use iodyno_units::Op;
use iodyno_workload::{Next, Outcome, Source};

/// A simulated worker, which issues operations in virtual time.
#[derive(Debug)]
pub(super) struct Worker<S: Source> {
    /// Index of the target whose results count the worker's operations.
    pub(super) target: usize,
    pub(super) volume: u32,
    /// Number of the worker in the emulated machine, from `Machine::add_worker`.
    machine_number: u32,
    /// Upper half of the tokens of the worker's operations. The lower half is the operation's index among those
    /// in flight.
    token: u64,
    pub(super) source: S,
    in_flight: InFlight<S::Token>,
    is_source_done: bool,
    share: Share,
    /// Number of operations that completed or failed in the window.
    ops: u64,
    /// Bytes of operations that completed in the window.
    bytes: u64,
    /// Bytes that reads and writes moved, ramp included.
    moved_bytes: u64,
    /// Bytes that other operations, such as trims, covered.
    covered_bytes: u64,
    /// Integral of the number of operations in flight over the window. Each completion adds its time, each
    /// submission subtracts its time.
    area: i128,
    carried_in_ns: i128,
    carried_out_ns: i128,
    coverage: Option<Box<Coverage>>,
    /// Whether the worker's measured window has begun.
    pub(super) measured: bool,
    /// Start of the worker's measured window, ns.
    pub(super) window_start_ns: u64,
    /// End of the worker's measured window, ns (exclusive); `u64::MAX` without a time limit.
    pub(super) until_ns: u64,
    /// Limit that the worker has reached while its source issues final operations, such as a flush; `None`
    /// before.
    closing: Option<Ended>,
    /// End of the worker's window, ns, and why it ended; `None` while the worker runs.
    pub(super) ended: Option<(u64, Ended)>,
}

/// Target and volume on which a simulated worker operates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At {
    /// Index of the target in the cell's plan.
    pub target: usize,
    pub volume: u32,
    /// Number of the worker in the emulated machine, from `Machine::add_worker`.
    pub machine_number: u32,
}

impl<S: Source> Worker<S> {
    pub(super) fn new(
        index: usize,
        at: At,
        source: S,
        slots: u32,
        share: Share,
        coverage: Option<Box<Coverage>>,
    ) -> Self {
        Self {
            target: at.target,
            volume: at.volume,
            machine_number: at.machine_number,
            token: (index as u64) << 32,
            source,
            in_flight: InFlight::new(slots),
            is_source_done: false,
            share,
            ops: 0,
            bytes: 0,
            moved_bytes: 0,
            covered_bytes: 0,
            area: 0,
            carried_in_ns: 0,
            carried_out_ns: 0,
            coverage,
            measured: false,
            window_start_ns: 0,
            until_ns: u64::MAX,
            closing: None,
            ended: None,
        }
    }

    /// Copies the state of a worker whose window has not begun, without its limits, for use with `source`. `None` if
    /// the worker records coverage or has ended.
    pub(super) fn fork(&self, source: S) -> Option<Self> {
        if self.coverage.is_some() || self.ended.is_some() {
            return None;
        }
        Some(Self {
            source,
            in_flight: self.in_flight.clone(),
            share: Share::ALL,
            ops: 0,
            bytes: 0,
            area: 0,
            carried_in_ns: 0,
            carried_out_ns: 0,
            coverage: None,
            measured: false,
            window_start_ns: 0,
            until_ns: u64::MAX,
            closing: None,
            ended: None,
            ..*self
        })
    }

    /// Sets the number of operations or bytes after which the worker ends.
    pub(super) fn limit(&mut self, share: Share) {
        self.share = share;
    }

    /// True if one of the next completions may reach the worker's limit on operations or bytes.
    #[inline]
    pub(super) fn is_near_end(&self) -> bool {
        self.ops + self.in_flight.slots() as u64 + 1 >= self.share.ops_max
    }

    /// Iterates over the operations in flight. Too slow for the hot path.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &Slot<S::Token>> {
        self.in_flight.iter()
    }

    /// Submits the operations that are due at `now_ns`. Returns the time at which the next one is due.
    #[inline]
    pub(super) fn issue(&mut self, machine: &mut Machine, now_ns: u64) -> u64 {
        loop {
            if self.share.is_issued(self.ops, self.bytes, &self.source, &self.in_flight) {
                break;
            }
            let issue = match self.source.next(now_ns, self.in_flight.free()) {
                Next::Issue(issue) => issue,
                Next::WaitUntil(due_ns) => return due_ns,
                Next::WaitCompletion => break,
                Next::Done => {
                    self.is_source_done = true;
                    break;
                }
            };
            let Some(slot) = self.in_flight.next_slot() else { break };
            let token = self.token | u64::from(slot);
            // The generator's core may be busy until this later time.
            let submitted_ns =
                machine.submit(now_ns, self.machine_number, self.volume, &issue.op, token);
            self.in_flight.begin(&issue, submitted_ns);
            self.area -= i128::from(submitted_ns);
            if self.in_flight.free() == 0 {
                break;
            }
        }
        NEVER
    }

    /// Removes an operation that the machine has completed from those in flight, and informs the source.
    #[inline]
    pub(super) fn take(&mut self, slot: u32, outcome: Outcome, now_ns: u64) -> Slot<S::Token> {
        let taken = self.in_flight.end(slot);
        self.source.completed(&taken.op, taken.token, outcome, now_ns);
        self.area += i128::from(now_ns);
        taken
    }

    /// Counts an operation that succeeded, and adds its blocks to the coverage map.
    #[inline]
    pub(super) fn succeeded(&mut self, op: &Op) {
        let counts = self.measured;
        let len_bytes = op.len_bytes;
        let data = u64::from(len_bytes) * u64::from(moves_data(op.kind));
        self.moved_bytes += data;
        self.covered_bytes += u64::from(len_bytes) - data;
        if let Some(coverage) = &mut self.coverage {
            cover(coverage, op);
        }
        if counts {
            self.ops += 1;
            self.bytes += u64::from(len_bytes);
        }
    }

    /// Counts a failed operation towards the limit on operations.
    #[cold]
    pub(super) fn failed(&mut self) {
        self.ops += u64::from(self.measured);
    }

    /// True if the source is exhausted and no operation is in flight.
    #[inline]
    pub(super) fn is_source_at_end(&self) -> bool {
        self.is_source_done && self.in_flight.len() == 0
    }

    /// Why the worker ends: it has reached a limit or its source is exhausted. `None` if neither.
    #[inline]
    pub(super) fn is_complete(&self) -> Option<Ended> {
        if self.is_source_at_end() {
            return Some(Ended::Ops);
        }
        self.share.is_done(self.ops, self.bytes, &self.source)
    }

    /// Asks the source for final operations, such as a flush, at the end of the worker's time or at another limit.
    /// Returns true if there are any; the window then lasts until they have ended.
    #[cold]
    pub(super) fn closes(&mut self, now_ns: u64, why: Ended) -> bool {
        if self.closing.is_some() || !self.measured {
            return false;
        }
        if !self.source.close(now_ns, why == Ended::Time) {
            return false;
        }
        self.closing = Some(why);
        self.until_ns = u64::MAX;
        self.share = Share::ALL;
        true
    }

    /// Begins the measured window. Operations in flight count as carried into it.
    #[cold]
    pub(super) fn begin_window(&mut self) {
        let start_ns = self.window_start_ns;
        self.measured = true;
        self.share.end_ramp(self.moved_bytes + self.covered_bytes);
        let before = |s: &Slot<S::Token>| i128::from(start_ns.saturating_sub(s.submitted_ns));
        self.carried_in_ns = self.in_flight.iter().map(before).sum();
        let from = |s: &Slot<S::Token>| i128::from(s.submitted_ns.max(start_ns));
        self.area = -self.in_flight.iter().map(from).sum::<i128>();
    }

    /// Ends the worker's window, at the latest at its own time limit. Operations in flight count as carried out
    /// of it.
    #[cold]
    pub(super) fn end(&mut self, end_ns: u64, why: Ended) {
        let why = if end_ns >= self.until_ns { Ended::Time } else { why };
        let why = self.closing.filter(|_| why == Ended::Ops).unwrap_or(why);
        let end_ns = end_ns.min(self.until_ns);
        let within = |s: &Slot<S::Token>| i128::from(end_ns.saturating_sub(s.submitted_ns));
        self.carried_out_ns = self.in_flight.iter().map(within).sum();
        // An operation that is handed over later was in flight for no time.
        let until = |s: &Slot<S::Token>| i128::from(s.submitted_ns.max(end_ns));
        self.area += self.in_flight.iter().map(until).sum::<i128>();
        self.ended = Some((end_ns, why));
    }

    /// Returns the worker's final report. Valid only after it has ended.
    pub(super) fn report(&mut self) -> WorkerReport {
        let window_start_ns = self.window_start_ns;
        let (end_ns, ended) = self.ended.unwrap_or((window_start_ns, Ended::Time));
        // Without a window there is nothing to balance.
        let books = i128::from(self.measured);
        let source = self.source.end(end_ns);
        WorkerReport {
            window: (window_start_ns, end_ns.max(window_start_ns)),
            moved_bytes: self.moved_bytes,
            outstanding_area_ns: (self.area * books).max(0) as u128,
            carried_in_ns: self.carried_in_ns * books,
            carried_out_ns: self.carried_out_ns * books,
            backlog_ops: if self.measured { source.backlog_ops } else { 0 },
            recent_misses: source.recent_misses,
            walked: source.walked,
            coverage: self.coverage.take(),
            ended,
            ..WorkerReport::default()
        }
    }
}
