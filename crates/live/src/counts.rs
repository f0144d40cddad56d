//! Counters of a served volume, for status and metrics.

use crate::store::Dropped;
use iodyno_measure::Histogram;
use iodyno_units::OpKind;

/// Threshold above which a completion counts as late, ns after its due time.
pub const LATE_NS: u64 = 10_000;

/// Two consecutive clock readings of a spinning thread, ns. If a completion was due after the first reading and is late
/// at the second, the thread had lost its core to the kernel, another program or the hypervisor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// Previous clock reading; 0 if the thread has slept or done other work since.
    pub before_ns: u64,
    /// Latest clock reading, ns.
    pub now_ns: u64,
}

/// How late a completion was delivered, ns, and whether the delay arose because the spinning thread lost its core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Late {
    pub(crate) ns: u64,
    pub(crate) away: bool,
}

impl Looks {
    /// Lateness of a completion that was due at `due_ns` and is delivered at `now_ns`.
    pub(crate) fn late(self, due_ns: u64, now_ns: u64) -> Late {
        let away =
            (1..due_ns).contains(&self.before_ns) && self.now_ns > due_ns.saturating_add(LATE_NS);
        Late { ns: now_ns.saturating_sub(due_ns), away }
    }
}

/// Octaves of latency, by the base-2 logarithm of ns: 64 ns to 69 s. A latency beyond them counts in the nearest one.
const OCTAVES: std::ops::Range<u32> = 6..36;
/// Time for which a slow operation is kept, ns of simulated time. Later, any operation of its octave replaces it.
const SLOW_FOR_NS: u64 = 1_000_000_000;

/// Exemplar for the metrics: the slowest operation of about the last second within one octave (factor of two) of
/// latency.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowOp {
    /// Latency, ns of simulated time; 0: no operation.
    pub latency_ns: u64,
    /// Simulated time of the completion, ns.
    pub completed_ns: u64,
    /// Offset in the volume, bytes.
    pub offset_bytes: u64,
    pub len_bytes: u32,
    /// Which of three types of faults were in effect at the completion: a slowdown, an injected delay of this kind of
    /// operation, and an interface fault that changes this operation's data or delays its reply.
    pub faults: [bool; 3],
}

/// Slowest operations of one kind, one per octave of latency.
pub type SlowOps = [SlowOp; (OCTAVES.end - OCTAVES.start) as usize];

/// I/O counters of an emulated volume. Latencies are in simulated time, lateness is in real time.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Number of operations that succeeded since the start, by kind (index [`OpKind::index`]).
    pub operations: [u64; OpKind::COUNT],
    /// Bytes of operations that succeeded since the start, by kind (index [`OpKind::index`]).
    pub bytes: [u64; OpKind::COUNT],
    /// Number of operations that failed since the start, by kind (index [`OpKind::index`]).
    pub errors: [u64; OpKind::COUNT],
    /// Latency from submission to completion by kind of operation, ns of simulated time.
    pub latency: [Histogram; OpKind::COUNT],
    /// Slow operations, by kind of operation and octave of latency.
    pub slow: [SlowOps; OpKind::COUNT],
    /// Delay between the due time of a completion and its delivery, ns of real time.
    pub lateness: Histogram,
    /// Largest delivery delay of a completion since the last call of
    /// [`Live::take_longest_late_ns`](crate::served::Live::take_longest_late_ns), ns of real time.
    pub(crate) longest_late_ns: u64,
    /// Number of completions delivered more than [`LATE_NS`] late.
    pub late: u64,
    /// Number of completions that were late because a spinning thread had lost its core; see [`Looks`].
    pub late_away: u64,
    /// Number of 4 KiB units whose checksum was wrong when they were read.
    pub corruptions_found: u64,
    /// Number of failed writes to the backing file or memory, including retries. Such a write fails if the backing is
    /// full or returns an error, or if the write covers only a part of a corrupt 4 KiB unit.
    pub backing_errors: u64,
    /// Data that the volume lost in power cuts since the start.
    pub dropped: Dropped,
}

/// Losses that one fault caused on a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Number of operations in flight that failed because of the fault.
    pub failed: u64,
    /// Data that the fault erased from the volume's write buffer or, on unprotected memory, from the whole volume.
    pub dropped: Dropped,
}

impl Counts {
    /// Number of operations of any kind that failed since the start.
    pub(crate) fn all_errors(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Counts a completion. Returns the slow operation recorded for its octave if the caller must overwrite it: the
    /// completed operation is slower, or the recorded one is at least `SLOW_FOR_NS` old.
    #[inline]
    pub(crate) fn completed(
        &mut self,
        kind: OpKind,
        len_bytes: u32,
        (latency_ns, completed_ns): (u64, u64),
        late: Late,
        failed: bool,
    ) -> Option<&mut SlowOp> {
        let kind = kind.index();
        self.lateness.record(late.ns);
        self.longest_late_ns = self.longest_late_ns.max(late.ns);
        self.late += u64::from(late.ns > LATE_NS);
        self.late_away += u64::from(late.away);
        if failed {
            self.errors[kind] += 1;
            return None;
        }
        self.operations[kind] += 1;
        self.bytes[kind] += u64::from(len_bytes);
        self.latency[kind].record(latency_ns);
        let octave = (latency_ns | 1).ilog2().clamp(OCTAVES.start, OCTAVES.end - 1) - OCTAVES.start;
        let slow = &mut self.slow[kind][octave as usize];
        let age_ns = completed_ns.saturating_sub(slow.completed_ns);
        (latency_ns > slow.latency_ns || age_ns >= SLOW_FOR_NS).then_some(slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_completions_of_a_thread_that_lost_its_core_are_recognised() {
        let due_ns = 1_000_000;
        let back_ns = due_ns + LATE_NS + 1;
        let away = |before_ns, now_ns| Looks { before_ns, now_ns }.late(due_ns, now_ns + 50).away;
        assert!(away(due_ns - 1, back_ns) && away(1, back_ns));
        assert!(!away(0, back_ns), "a thread that slept or did other work has not lost its core");
        assert!(
            !away(due_ns, back_ns),
            "the thread saw the completion when it was due, so another cause delayed it"
        );
        assert!(
            !away(due_ns - 1, back_ns - 1),
            "the thread had its core back in time, so another cause delayed the completion"
        );
        let late = Looks::default().late(due_ns, back_ns);
        assert_eq!((late.ns, late.away), (LATE_NS + 1, false));
        assert_eq!(Looks::default().late(due_ns, due_ns - 1).ns, 0, "not late if it is early");
    }

    /// Within a second, only a slower operation replaces the one kept for its octave. Later, any operation does.
    #[test]
    fn the_slowest_operation_of_a_second_is_kept() {
        let mut counts = Counts::default();
        let mut is_kept = |latency_ns, completed_ns, failed| {
            let times = (latency_ns, completed_ns);
            let slow = counts.completed(OpKind::Read, 512, times, Late::default(), failed);
            let is_kept = slow.is_some();
            if let Some(slow) = slow {
                *slow = SlowOp { latency_ns, completed_ns, ..SlowOp::default() };
            }
            is_kept
        };
        assert!(is_kept(70_000, 0, false) && is_kept(90_000, 1, false));
        assert!(!is_kept(90_000, 2, false) && !is_kept(80_000, SLOW_FOR_NS, false));
        assert!(is_kept(140_000, 3, false), "another octave");
        assert!(!is_kept(80_000, SLOW_FOR_NS + 1, true), "a failed operation has no latency");
        assert!(is_kept(80_000, SLOW_FOR_NS + 1, false));
        for latency_ns in [1, 1 << 20, 1 << 62] {
            assert!(is_kept(latency_ns, 0, false), "{latency_ns}");
        }
    }
}
