//! The source of a worker's operations: the trait, and its implementation for a workload file.
//!
//! A source provides the next operation and its time, and is notified of each completion. The worker passes it the
//! time, so the same source drives an engine in real time and a machine in virtual time.
//!
//! **Determinism.** A source depends only on its seed, its worker's index, and the times and completions that it
//! receives. It must not depend on the number of workers in this process or on the order in which they run. If sources
//! of several workers share state (a sequential cursor, the tail of a log), only the union of their operations is
//! fixed; the workers' timing decides which worker issues which operation. In virtual time that is fixed, too: workers
//! with equal times run in the order of their indices.

use crate::pacing::{Flow, Pacing, Step};
use crate::spec::Spec;
use crate::stream::Stream;
use crate::worker_index::WorkerIndex;
use iodyno_units::Op;
use std::fmt::Debug;
use std::sync::Arc;

/// A worker's next action, according to its source of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// Issue this operation now.
    Issue(Issue<T>),
    /// Query the source again at this time, ns, or earlier if one of the worker's operations completes.
    WaitUntil(u64),
    /// Query the source again when one of the worker's operations completes. For a source with
    /// [`Source::WAITS_FOR_OTHERS`]: when an operation of any worker completes.
    WaitCompletion,
    /// There is no further operation. Operations in flight still complete.
    Done,
}

/// One operation to issue, with its due time and token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue<T> {
    pub op: Op,
    /// Due time, ns, in the time base of the `now_ns` that [`Source::next`] received. The response time is counted from
    /// the due time. None: due at submission.
    pub due_ns: Option<u64>,
    /// The source's identifier of the operation, passed back to the source at completion.
    pub token: T,
}

/// Result of a completed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The whole operation was executed.
    Succeeded,
    /// The operation failed, was cut short, or returned wrong content.
    Failed,
}

/// Final counters of a worker's source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceEnd {
    /// Number of operations that were due before the worker's end but not issued.
    pub backlog_ops: u64,
    /// Number of operations that used a random address because there was no recent address to repeat yet.
    pub recent_misses: u64,
    /// Final positions of the sequential cursors, in units of the workload's alignment and in the order of the
    /// workload file.
    pub walked: Vec<u64>,
}

/// A source of one worker's operations. The worker calls these functions on its hot path: they must not
/// allocate, lock, log or format.
pub trait Source: Debug + Send {
    /// Type that identifies a completed operation to the source; `()` if none is needed.
    type Token: Copy + Default + Debug + Send;

    /// Whether a worker may wait for completions of other workers. If so, it queries the source again after at
    /// most 100 µs, and in virtual time at each completion.
    const WAITS_FOR_OTHERS: bool = false;

    /// Notifies the source that the worker begins at `start_ns`. Called once, before all other functions.
    fn start(&mut self, start_ns: u64);

    /// Returns the worker's next action at `now_ns`, with `free` unused slots. After [`Next::Issue`] the
    /// operation counts as in flight.
    fn next(&mut self, now_ns: u64, free: usize) -> Next<Self::Token>;

    /// Replaces an operation returned by [`Source::next`] that can't be issued now, because an operation on the
    /// same blocks is in flight and their content is verified. None: the operation can't be replaced, and waits.
    fn replace(&mut self, _op: &Op) -> Option<Op> {
        None
    }

    /// Whether the source generates the content of its writes, and checks the content of its reads.
    const HAS_CONTENT: bool = false;

    /// Bytes of issued operations that do not count towards the worker's byte limit. Called only if there is such
    /// a limit.
    fn bytes_beyond_share(&self) -> u64 {
        0
    }

    /// Writes the content of a write operation into `bytes`. Called in the order in which the source returned the
    /// operations, if [`Source::HAS_CONTENT`] is set and the target transfers data.
    fn fill(&mut self, _op: &Op, _token: Self::Token, _bytes: &mut [u8]) {}

    /// Whether a successful read returned the expected content. Called before [`Source::completed`], if
    /// [`Source::HAS_CONTENT`] is set and the target transfers data.
    fn check(&mut self, _op: &Op, _bytes: &[u8]) -> bool {
        true
    }

    /// Notifies the source of an operation that completed at `now_ns`.
    fn completed(&mut self, op: &Op, token: Self::Token, outcome: Outcome, now_ns: u64);

    /// Notifies the source that the worker's time (`by_time`) or its share of operations or bytes is used up.
    /// Returns true if the source still has final operations, up to [`Next::Done`]; the measured window includes
    /// them.
    fn close(&mut self, _now_ns: u64, _by_time: bool) -> bool {
        false
    }

    /// Returns the final counters of the worker, which ended at `end_ns`.
    fn end(&mut self, _end_ns: u64) -> SourceEnd {
        SourceEnd::default()
    }
}

/// Source of one worker's operations according to a workload file. The stream generates operations, and the
/// pacing determines when they are due.
#[derive(Clone, Debug)]
pub struct WorkloadSource {
    pacing: Pacing,
    stream: Stream,
    slots: u32,
    /// Number of flushes that the worker issues after its last operation.
    flush_at_end: u32,
    /// Number of operations that were due but not issued when the source was closed.
    backlog_ops: u64,
    /// Whether the worker reads back what it wrote, to verify it.
    reads_back: bool,
}

impl WorkloadSource {
    /// Creates the source of one worker, with at most `slots` operations in flight. The workers divide the workload's
    /// rate. `stream` must be the stream of the same worker.
    ///
    /// # Panics
    /// If the worker's index is not below the number of workers.
    pub fn new(spec: &Spec, seed: u64, worker: WorkerIndex, slots: u32, stream: Stream) -> Self {
        let pacing = Pacing::new(spec, seed, worker, slots);
        Self {
            pacing,
            stream,
            slots,
            flush_at_end: spec.flush_at_end(),
            backlog_ops: 0,
            reads_back: spec.read_back() > 0,
        }
    }

    /// Adds the source to a flow if the workload has a weight. Its operations then stay in proportion to those of
    /// the flow's other sources.
    #[must_use]
    pub fn in_flow(mut self, spec: &Spec, flow: &Arc<Flow>) -> Self {
        if let Some(weight) = spec.batches().flow {
            self.pacing.join(flow, weight);
        }
        self
    }
}

impl WorkloadSource {
    /// Returns an independent copy in the same state, for the only worker of a target. None if the source depends
    /// on other workers.
    pub fn fork(&self) -> Option<Self> {
        if self.pacing.is_in_flow() {
            return None;
        }
        Some(Self { stream: self.stream.fork()?, ..self.clone() })
    }
}

impl Source for WorkloadSource {
    type Token = ();

    fn start(&mut self, start_ns: u64) {
        self.pacing.start(start_ns);
    }

    #[expect(
        clippy::inline_always,
        reason = "inlined to keep an operation in registers: see `Stream::next_op`"
    )]
    #[inline(always)]
    fn next(&mut self, now_ns: u64, free: usize) -> Next<()> {
        match self.pacing.step(now_ns, free) {
            Step::Issue(due_ns) => {
                let op = self.stream.next_op();
                self.pacing.issued(op.kind);
                Next::Issue(Issue { op, due_ns, token: () })
            }
            Step::WaitUntil(due_ns) => Next::WaitUntil(due_ns),
            Step::WaitCompletion => Next::WaitCompletion,
            Step::Done => Next::Done,
        }
    }

    fn replace(&mut self, op: &Op) -> Option<Op> {
        // The read of a block waits until the block is written.
        if self.reads_back && !self.stream.forgets(op) {
            return None;
        }
        let op = self.stream.next_op();
        self.pacing.issued(op.kind);
        Some(op)
    }

    fn bytes_beyond_share(&self) -> u64 {
        self.stream.read_back_bytes()
    }

    #[inline]
    fn completed(&mut self, op: &Op, (): (), _outcome: Outcome, now_ns: u64) {
        self.pacing.completed(op.kind, now_ns);
        self.stream.completed(op.kind);
    }

    fn close(&mut self, now_ns: u64, by_time: bool) -> bool {
        let last_ops = self.stream.close(self.flush_at_end, !by_time);
        if last_ops == 0 {
            return false;
        }
        self.backlog_ops = self.pacing.backlog(now_ns);
        self.pacing.close(self.slots, last_ops);
        true
    }

    fn end(&mut self, end_ns: u64) -> SourceEnd {
        SourceEnd {
            backlog_ops: self.backlog_ops + self.pacing.backlog(end_ns),
            recent_misses: self.stream.recent_misses(),
            walked: self.stream.walked(),
        }
    }
}
