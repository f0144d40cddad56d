//! The number of operations that a worker submits together: as the workload specifies; otherwise one by one while the
//! worker waits for its device, and all that are due while operations complete faster than that.

/// Minimum mean distance of a worker's completions, ns, at which it submits each operation by its own call. It then
/// waits for the device, so the calls cost no throughput, and in a batch operations would wait for each other's
/// preparation (on a virtual disk a quarter of their latency, and a tenth to a sixth of the throughput). Workers with
/// more than 250,000 completions per second submit in batches, which is faster for them.
const OWN_CALL_NS: u64 = 4_000;
/// Completions per slot after which the size is decided again: a device may complete its whole queue at once.
const QUEUES: u64 = 4;

/// Chooses the number of operations per submission.
#[derive(Debug)]
pub(super) struct BatchSize {
    most: usize,
    now: usize,
    /// Time of the last decision, and completions since.
    decided_ns: u64,
    completed: u64,
    /// Number of completions from one decision to the next; `u64::MAX` if the workload decides.
    decided_after: u64,
}

impl BatchSize {
    /// Creates the choice for a worker with `slots` slots, on an engine that handles up to `engine_most` operations in
    /// a turn; `fixed` is the workload's batch size.
    pub(super) fn new(slots: u32, engine_most: u32, fixed: Option<u32>, start_ns: u64) -> Self {
        let most = engine_most.min(slots).min(fixed.unwrap_or(u32::MAX)) as usize;
        let decided_after = if fixed.is_none() { QUEUES * u64::from(slots) } else { u64::MAX };
        Self { most, now: most, decided_ns: start_ns, completed: 0, decided_after }
    }

    /// Maximum number of operations in the next batch.
    #[inline]
    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// Counts the completions of a turn that ended at `now_ns`.
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
