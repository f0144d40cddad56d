//! How many operations a worker submits together: as many as its workload says, or one by one while it waits for its device and
//! all that are due while operations complete faster than that.

/// A worker whose completions come this far apart, ns, or further, submits each operation by a call of its own: it waits for
/// the device, so that the calls cost no throughput, and in a batch operations would wait for one another's preparation (on a
/// virtual disk a quarter of their latency, and a tenth to a sixth of the throughput). Workers that complete more than
/// 250,000 a second submit in batches, which is faster there.
const OWN_CALL_NS: u64 = 4_000;
/// The size is decided again after so many completions for each slot: a device may complete all of its queue at once.
const QUEUES: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct BatchSize {
    most: usize,
    now: usize,
    /// When it was last decided, and what has completed since.
    decided_ns: u64,
    completed: u64,
    /// Completions from one decision to the next; the last number where the workload decides.
    decided_after: u64,
}

impl BatchSize {
    /// For a worker with `slots` slots, on an engine that handles at most `engine_most` in a turn; `fixed` is the workload's.
    pub(super) fn new(slots: u32, engine_most: u32, fixed: Option<u32>, start_ns: u64) -> Self {
        let most = engine_most.min(slots).min(fixed.unwrap_or(u32::MAX)) as usize;
        let decided_after = if fixed.is_none() { QUEUES * u64::from(slots) } else { u64::MAX };
        Self { most, now: most, decided_ns: start_ns, completed: 0, decided_after }
    }

    /// Operations of the next batch, at most.
    #[inline]
    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// Counts completions of a turn that ended at `now_ns`.
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
