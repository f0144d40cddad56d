//! Records a trace of a measurement: the start and the completion of each operation. The recorder is a source that
//! wraps another source. It is not used without recording.

use crate::clock::Clock;
use iodyno_units::Op;
use iodyno_workload::{Issue, Next, Outcome, Source, SourceEnd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Number of events that a worker sends in one message.
const EVENTS: usize = 4096;

/// Number of an operation that was issued before the recording began.
const UNRECORDED: u64 = u64::MAX;

/// Event of a trace: the start or the completion of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Time since the start of the cell, after its warm-up, ns. For a start, the scheduled time, or the time of issue in
    /// closed loop; for a completion, its time.
    pub at_ns: u64,
    /// Sequence number of the operation among its worker's operations.
    pub number: u64,
    /// The operation that starts; `None` for a completion.
    pub op: Option<Op>,
    /// Index of the operation's target in the cell.
    pub target: u32,
    /// Index of the worker that issued the operation, among its target's workers.
    pub worker: u32,
}

/// Channel for the trace of a cell. The events of each worker arrive in order.
///
/// A worker that finds the channel full waits, because a trace with missing operations would be a different
/// workload.
#[derive(Clone, Debug)]
pub struct TraceEvents {
    to: SyncSender<Vec<TraceEvent>>,
    /// Time at which the recording begins, ns of virtual time; [`LATER`] during a warm-up. 0 in real time.
    from_ns: Arc<AtomicU64>,
}

/// Start of a recording that has not begun.
const LATER: u64 = u64::MAX;

impl TraceEvents {
    /// Creates the channel for the trace of one cell, which sends the events to `to`.
    pub fn new(to: SyncSender<Vec<TraceEvent>>) -> Self {
        Self { to, from_ns: Arc::default() }
    }

    /// Records nothing until [`Self::begin`], because a cell in virtual time warms up first.
    pub(crate) fn hold(&self) {
        self.from_ns.store(LATER, Ordering::Relaxed);
    }

    /// Records the operations issued from now on. Times in the trace count from `from_ns`.
    pub(crate) fn begin(&self, from_ns: u64) {
        self.from_ns.store(from_ns, Ordering::Relaxed);
    }
}

/// Wraps a source to record its operations. Allocates memory once per [`EVENTS`] events.
#[derive(Debug)]
pub(crate) struct Recording<S> {
    source: S,
    to: TraceEvents,
    events: Vec<TraceEvent>,
    /// Clock for detecting late threads; `None` in virtual time, where threads are never late.
    clock: Option<Clock>,
    /// Delay from the cell's start to the start of the worker's workload, ns.
    delay_ns: u64,
    /// Start of the cell, ns of real or virtual time.
    start_ns: u64,
    /// Time at which the worker's thread was ready, ns. Its loop nominally begins at the cell's start, even if
    /// the thread was late.
    ready_ns: u64,
    issued: u64,
    target: u32,
    worker: u32,
}

impl<S> Recording<S> {
    pub(crate) fn new(
        source: S,
        to: TraceEvents,
        clock: Option<Clock>,
        delay_ns: u64,
        target: u32,
        worker: u32,
    ) -> Self {
        let events = Vec::with_capacity(EVENTS);
        let (start_ns, ready_ns, issued) = (0, 0, 0);
        Self { source, to, events, clock, delay_ns, start_ns, ready_ns, issued, target, worker }
    }

    #[inline]
    fn note(&mut self, at_ns: u64, from_ns: u64, number: u64, op: Option<Op>) {
        let at_ns = at_ns.saturating_sub(self.start_ns.max(from_ns));
        let (target, worker) = (self.target, self.worker);
        self.events.push(TraceEvent { at_ns, number, op, target, worker });
        if self.events.len() == EVENTS {
            self.hand_over();
        }
    }

    #[cold]
    fn hand_over(&mut self) {
        let full = std::mem::replace(&mut self.events, Vec::with_capacity(EVENTS));
        // An error means that the trace is no longer written, which the writer reports.
        let _ = self.to.to.send(full);
    }
}

impl<S: Source> Source for Recording<S> {
    type Token = (S::Token, u64);
    const WAITS_FOR_OTHERS: bool = S::WAITS_FOR_OTHERS;
    const HAS_CONTENT: bool = S::HAS_CONTENT;

    fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns.saturating_sub(self.delay_ns);
        self.ready_ns = self.clock.map_or(start_ns, |clock| clock.now_ns());
        self.source.start(start_ns);
    }

    fn next(&mut self, now_ns: u64, free: usize) -> Next<Self::Token> {
        match self.source.next(now_ns, free) {
            Next::Issue(Issue { op, due_ns, token }) => {
                let from_ns = self.to.from_ns.load(Ordering::Relaxed);
                if from_ns == LATER {
                    return Next::Issue(Issue { op, due_ns, token: (token, UNRECORDED) });
                }
                let number = self.issued;
                self.issued += 1;
                self.note(due_ns.unwrap_or(now_ns.max(self.ready_ns)), from_ns, number, Some(op));
                Next::Issue(Issue { op, due_ns, token: (token, number) })
            }
            Next::WaitUntil(ns) => Next::WaitUntil(ns),
            Next::WaitCompletion => Next::WaitCompletion,
            Next::Done => Next::Done,
        }
    }

    #[inline]
    fn bytes_beyond_share(&self) -> u64 {
        self.source.bytes_beyond_share()
    }

    fn fill(&mut self, op: &Op, token: Self::Token, bytes: &mut [u8]) {
        self.source.fill(op, token.0, bytes);
    }

    fn check(&mut self, op: &Op, bytes: &[u8]) -> bool {
        self.source.check(op, bytes)
    }

    fn completed(&mut self, op: &Op, token: Self::Token, outcome: Outcome, now_ns: u64) {
        if token.1 != UNRECORDED {
            self.note(now_ns, self.to.from_ns.load(Ordering::Relaxed), token.1, None);
        }
        self.source.completed(op, token.0, outcome, now_ns);
    }

    fn close(&mut self, now_ns: u64, by_time: bool) -> bool {
        self.source.close(now_ns, by_time)
    }

    fn end(&mut self, end_ns: u64) -> SourceEnd {
        self.hand_over();
        self.source.end(end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::OpKind;
    use std::sync::mpsc::sync_channel;

    /// A source that always returns the same read.
    #[derive(Debug)]
    struct Reads {
        due_ns: Option<u64>,
    }

    impl Source for Reads {
        type Token = ();

        fn start(&mut self, _start_ns: u64) {}

        fn next(&mut self, _now_ns: u64, _free: usize) -> Next<()> {
            let op = Op { offset_bytes: 0, len_bytes: 512, kind: OpKind::Read, fua: false };
            Next::Issue(Issue { op, due_ns: self.due_ns, token: () })
        }

        fn completed(&mut self, _op: &Op, (): (), _outcome: Outcome, _now_ns: u64) {}
    }

    /// Recorded times of two operations of a worker, issued at `start_ns` and at `start_ns + 10^9` according to the
    /// worker's loop.
    fn times(clock: Option<Clock>, start_ns: u64, due_ns: Option<u64>, delay_ns: u64) -> Vec<u64> {
        let (to, events) = sync_channel(1);
        let to = TraceEvents::new(to);
        let mut source = Recording::new(Reads { due_ns }, to, clock, delay_ns, 0, 0);
        source.start(start_ns);
        source.next(start_ns, 1);
        source.next(start_ns + 1_000_000_000, 1);
        source.end(start_ns);
        events.recv().unwrap().iter().map(|event| event.at_ns).collect()
    }

    /// A late thread issues its first operation late in closed loop. In open loop, the scheduled time is
    /// recorded.
    #[test]
    fn the_first_operation_is_not_issued_before_the_thread_is_ready() {
        let clock = Clock::new();
        let start_ns = clock.now_ns();
        while clock.now_ns() < start_ns + 1_000_000 {
            std::hint::spin_loop();
        }
        let late = times(Some(clock), start_ns, None, 0);
        assert!((1_000_000..1_000_000_000).contains(&late[0]), "{late:?}");
        assert!(late[1] >= 1_000_000_000, "{late:?}");
        assert_eq!(times(Some(clock), start_ns, Some(start_ns + 7), 0), [7, 7]);
        assert_eq!(times(None, start_ns, None, 0), [0, 1_000_000_000]);
        assert_eq!(times(None, start_ns, None, 500), [500, 1_000_000_500]);
    }
}
