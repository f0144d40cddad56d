//! The number of operations that a worker submits together. If the workload does not set it, the worker submits
//! operations one by one while it waits for its device, and all due operations together while completions are frequent.

/// Mean time between a worker's completions above which the worker submits each operation by a separate call, ns. The
/// worker then waits for the device anyway, so the calls cost no throughput. In a batch, operations would wait until
/// the others are prepared. On a virtual disk, this wait was a quarter of the latency and cost a tenth to a sixth of
/// the throughput. Above 250,000 completions per second, batches are faster.
const OWN_CALL_NS: u64 = 4_000;
/// Number of completions after which the batch size is chosen again, as a multiple of the queue depth. A device may
/// complete its whole queue at the same time.
const QUEUES: u64 = 4;

/// Chooses how many operations a worker submits together.
#[derive(Debug)]
pub(super) struct BatchSize {
    most: usize,
    now: usize,
    /// Time at which the batch size was last chosen, ns.
    decided_ns: u64,
    completed: u64,
    /// Number of completions between two choices of the batch size; `u64::MAX` if the workload fixes the size.
    decided_after: u64,
}

impl BatchSize {
    /// Starts with the largest batch for a worker with up to `slots` operations in flight. The engine takes up to
    /// `engine_most` operations per iteration. `fixed` is the workload's batch size, if it sets one.
    pub(super) fn new(slots: u32, engine_most: u32, fixed: Option<u32>, start_ns: u64) -> Self {
        let most = engine_most.min(slots).min(fixed.unwrap_or(u32::MAX)) as usize;
        let decided_after = if fixed.is_none() { QUEUES * u64::from(slots) } else { u64::MAX };
        Self { most, now: most, decided_ns: start_ns, completed: 0, decided_after }
    }

    /// Maximum number of operations to submit together next.
    #[inline]
    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// Counts the completions of an iteration that ended at `now_ns`, and chooses the batch size again if due.
    #[inline]
    pub(super) fn completed(&mut self, ops: u64, now_ns: u64) {
        self.completed += ops;
        if self.completed >= self.decided_after {
            let is_slow = now_ns - self.decided_ns >= OWN_CALL_NS * self.completed;
            self.now = if is_slow { 1 } else { self.most };
            (self.decided_ns, self.completed) = (now_ns, 0);
        }
    }
}
