//! A fork of an event loop: a clone of its machine and its workers. It is made before any measured window has begun,
//! and another measurement continues from it.

use super::due_queue::DueQueue;
use super::worker::Worker;
use iodyno_emulate::Machine;
use iodyno_workload::Source;

/// Copy of an event loop's state before any measured window has begun.
#[derive(Debug)]
pub(super) struct Fork<S: Source> {
    pub(super) machine: Machine,
    pub(super) workers: Vec<Worker<S>>,
    pub(super) begun: Begun,
}

/// Time and progress of an event loop whose workers have begun.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) due_queue: DueQueue,
    /// Virtual time of the fork, ns.
    pub(super) now_ns: u64,
    /// Number of operations that had completed at the fork.
    pub(super) completions: u64,
}

/// The fork of an event loop (a clone of its machine and workers), and the condition for creating it.
#[derive(Debug)]
pub(super) struct Forking<S: Source> {
    /// Virtual time before which the fork must be created, ns.
    pub(super) before_ns: u64,
    copy: fn(&S) -> Option<S>,
    is_due: bool,
    is_done: bool,
    pub(super) fork: Option<Fork<S>>,
}

impl<S: Source> Forking<S> {
    /// Prepares a fork for workers that end after a number of operations. `None` if `before_ns` is 0, or if a
    /// worker may end with the first operations that it issues.
    pub(super) fn new(
        before_ns: u64,
        copy: fn(&S) -> Option<S>,
        workers: &[Worker<S>],
    ) -> Option<Self> {
        let is_possible = before_ns > 0 && !workers.iter().any(Worker::is_near_end);
        is_possible.then_some(Self { before_ns, copy, is_due: false, is_done: false, fork: None })
    }

    /// Checks a worker after each completed operation. Returns true if the fork must be created before the next
    /// event.
    #[inline]
    pub(super) fn is_due_after(&mut self, worker: &Worker<S>) -> bool {
        self.is_due = !self.is_done && worker.is_near_end();
        self.is_due
    }

    /// True if the fork must be created now.
    pub(super) fn is_due(&self) -> bool {
        self.is_due && !self.is_done
    }

    /// Creates the fork unless it exists. Gives up if a worker or its source can't be copied.
    pub(super) fn make(&mut self, machine: &Machine, workers: &[Worker<S>], begun: Begun) {
        if self.is_done {
            return;
        }
        self.is_done = true;
        let fork = |worker: &Worker<S>| worker.fork((self.copy)(&worker.source)?);
        let workers = workers.iter().map(fork).collect::<Option<Vec<_>>>();
        self.fork = workers.map(|workers| Fork { machine: machine.fork(), workers, begun });
    }
}
