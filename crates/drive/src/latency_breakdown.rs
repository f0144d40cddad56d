//! Breakdown of the latency of a real I/O, as its worker sees it. Some iterations of the worker's loop take two
//! additional timestamps: after the submission of queued operations but before any wait, and after the completions have
//! been counted. The time between the two includes device, kernel and queues, which timestamps of this process can't
//! separate.
//!
//! Two phases are measured. *Submission* is the first part of the latency, until the call that submitted the batch
//! returned (fio's `slat`; for a read from the page cache, this is the whole latency). *Reaping* follows the latency:
//! from the instant when the worker saw the completion until it was counted and its buffer was free again. Both are
//! measured only on engines that submit an operation separately from executing it.

use iodyno_measure::{Spent, SpentOf};
use iodyno_units::rng::{Generator, below, stream};

/// Approximate time between iterations of the engine's loop that get additional timestamps, ns. At one per
/// millisecond, the two timestamps and an additional call cost less than 0.1 %.
const EVERY_NS: u64 = 1_000_000;
/// Maximum number of iterations between two that are timestamped, in case the rate of iterations falls.
const STRIDE_MAX: u64 = 1 << 16;

/// Names of the two measured phases in results.
const SUBMISSION: &str = "submission";
const REAPING: &str = "reaping";

/// Total time of operations in two phases, submission and reaping (until the completion is counted), in one worker's
/// timestamped iterations of the engine's loop.
#[derive(Clone, Debug)]
pub(crate) struct LatencyBreakdown {
    /// Number of submitting iterations until the next timestamped one. It is random, because the first iteration after
    /// a fixed time would too often follow a long iteration.
    left: u64,
    /// Number of submitting iterations from the first one, at `start_ns`, to the next timestamped one. Their mean
    /// duration sets the sampling interval. A mean since the last timestamp would make the interval shorter after long
    /// iterations, and so favour some iterations.
    turns: u64,
    start_ns: u64,
    rng: Generator,
    submission: Sum,
    reaping: Sum,
}

/// A number of operations that were all in the same phase from `from_ns` to `to_ns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) ops: u64,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ops: u64,
    ns: u64,
}

impl Sum {
    fn add(&mut self, span: Span) {
        self.ops += span.ops;
        self.ns += span.ops * span.to_ns.saturating_sub(span.from_ns);
    }

    fn spent(self, phase: &str) -> Option<Spent> {
        (self.ops > 0).then(|| Spent {
            phase: phase.to_owned(),
            of: SpentOf::Operation,
            total_ns: self.ns,
            count: self.ops,
        })
    }
}

impl LatencyBreakdown {
    /// Starts a breakdown at the first iteration, at `now_ns`.
    pub(crate) fn new(now_ns: u64) -> Self {
        let (submission, reaping) = (Sum::default(), Sum::default());
        // The choice of timestamped iterations has no effect on the issued operations, so all workers may use the same
        // random numbers.
        let rng = stream(0, "stamped turns", 0);
        Self { left: 1, turns: 1, start_ns: now_ns, rng, submission, reaping }
    }

    /// True if the submitting iteration that begins now must be timestamped.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// Stops timestamping, because the engine submits and executes operations in a single step.
    #[cold]
    pub(crate) fn never(&mut self) {
        self.left = u64::MAX;
    }

    /// Records a timestamped iteration. `handed_over`: the operations that it submitted; `counted`: those whose
    /// completions it counted; each with the start and end of the phase.
    pub(crate) fn add(&mut self, handed_over: Span, counted: Span) {
        self.submission.add(handed_over);
        self.reaping.add(counted);
        let now_ns = counted.to_ns;
        let turn_ns = (now_ns.saturating_sub(self.start_ns) / self.turns).max(1);
        let mean = (EVERY_NS / turn_ns).clamp(1, STRIDE_MAX);
        self.left = 1 + below(&mut self.rng, 2 * mean - 1);
        self.turns += self.left;
    }

    /// Time spent in each phase that was timestamped at least once.
    pub(crate) fn spent(&self) -> Vec<Spent> {
        let both = [self.submission.spent(SUBMISSION), self.reaping.spent(REAPING)];
        both.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates iterations of 10 µs that submit one operation. Every tenth is followed by an iteration of 990 µs
    /// that submits ten. If iterations were chosen by time, nearly every timestamped one would follow a long one.
    #[test]
    fn long_turns_are_not_stamped_more_often_than_they_occur() {
        let mut trip = LatencyBreakdown::new(0);
        let (mut now_ns, mut turns, mut stamped, mut long) = (0, 0_u64, 0_u64, 0_u64);
        while now_ns < 100_000_000_000 {
            let is_long = turns % 11 == 10;
            let (ops, took_ns) = if is_long { (10, 990_000) } else { (1, 10_000) };
            turns += 1;
            let due = trip.is_due();
            let from_ns = now_ns;
            now_ns += took_ns;
            if due {
                stamped += 1;
                long += u64::from(is_long);
                let span = Span { ops, from_ns, to_ns: now_ns };
                trip.add(span, Span { ops: 1, from_ns: now_ns, to_ns: now_ns + 100 });
            }
        }
        let share = long as f64 / stamped as f64;
        assert!(
            (share - 1.0 / 11.0).abs() < 0.004,
            "1 in 11 turns must be long, but the share is {share}"
        );
        let apart_ns = now_ns as f64 / stamped as f64;
        assert!(
            (0.5e6..2e6).contains(&apart_ns),
            "stamped turns must be about 1 ms apart, not {apart_ns} ns"
        );
        let [submission, reaping] = &trip.spent()[..] else { panic!("two phases") };
        let mean_ns = submission.total_ns as f64 / submission.count as f64;
        // (10 × 10 + 10 × 990) µs over 20 operations.
        assert!((mean_ns / 500_000.0 - 1.0).abs() < 0.02, "{mean_ns}");
        assert_eq!(reaping.total_ns, 100 * reaping.count);
    }
}
