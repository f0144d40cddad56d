//! The operations of a cell as they are issued and as they complete, for a trace: a source that passes on what another
//! gives, and notes it. Workers of cells that are not recorded have no part in it.

use iodyno_units::Op;
use iodyno_workload::{Issue, Next, Outcome, Source, SourceEnd};
use std::sync::mpsc::SyncSender;

/// Events that a worker hands over at once.
const EVENTS: usize = 4096;

/// An operation that begins, or that completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When it was due, or, in closed loop, issued; or when it completed. From the start of the cell, ns.
    pub at_ns: u64,
    /// Its number among those of its worker.
    pub number: u64,
    /// The operation that begins; None: it completes.
    pub op: Option<Op>,
    /// The target's place in the cell.
    pub target: u32,
    /// The worker's number on its target.
    pub worker: u32,
}

/// Takes the events of a cell. Those of a worker are in their order.
///
/// A worker that finds it full waits: a trace without some operations would be another one.
pub type TraceEvents = SyncSender<Vec<TraceEvent>>;

/// See the module. It allocates once in [`EVENTS`] events.
#[derive(Debug)]
pub(crate) struct Recording<S> {
    source: S,
    to: TraceEvents,
    events: Vec<TraceEvent>,
    start_ns: u64,
    issued: u64,
    target: u32,
    worker: u32,
}

impl<S> Recording<S> {
    pub(crate) fn new(source: S, to: TraceEvents, target: usize, worker: u32) -> Self {
        let events = Vec::with_capacity(EVENTS);
        Self { source, to, events, start_ns: 0, issued: 0, target: target as u32, worker }
    }

    #[inline]
    fn note(&mut self, at_ns: u64, number: u64, op: Option<Op>) {
        let at_ns = at_ns.saturating_sub(self.start_ns);
        let (target, worker) = (self.target, self.worker);
        self.events.push(TraceEvent { at_ns, number, op, target, worker });
        if self.events.len() == EVENTS {
            self.hand_over();
        }
    }

    #[cold]
    fn hand_over(&mut self) {
        let full = std::mem::replace(&mut self.events, Vec::with_capacity(EVENTS));
        // An error means that nothing is written any more, which the writer reports.
        let _ = self.to.send(full);
    }
}

impl<S: Source> Source for Recording<S> {
    type Token = (S::Token, u64);
    const WAITS_FOR_OTHERS: bool = S::WAITS_FOR_OTHERS;

    fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.source.start(start_ns);
    }

    fn next(&mut self, now_ns: u64, free: usize) -> Next<Self::Token> {
        match self.source.next(now_ns, free) {
            Next::Issue(Issue { op, due_ns, token }) => {
                let number = self.issued;
                self.issued += 1;
                self.note(due_ns.unwrap_or(now_ns), number, Some(op));
                Next::Issue(Issue { op, due_ns, token: (token, number) })
            }
            Next::WaitUntil(ns) => Next::WaitUntil(ns),
            Next::WaitCompletion => Next::WaitCompletion,
            Next::Done => Next::Done,
        }
    }

    fn completed(&mut self, op: &Op, token: Self::Token, outcome: Outcome, now_ns: u64) {
        self.note(now_ns, token.1, None);
        self.source.completed(op, token.0, outcome, now_ns);
    }

    fn end(&mut self, end_ns: u64) -> SourceEnd {
        self.hand_over();
        self.source.end(end_ns)
    }
}
