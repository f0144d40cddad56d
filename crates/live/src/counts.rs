//! The counters of a served volume, for status and metrics.

use crate::store::Dropped;
use iodyno_measure::Histogram;
use iodyno_units::OpKind;

/// A completion that comes later than this is late, ns.
pub const LATE_NS: u64 = 10_000;

/// Two consecutive readings of the clock, ns, by a thread that spun between them: it did nothing else. If a
/// completion was due between the two and is late at the second, then the thread had no core meanwhile: the
/// kernel, another program or the hypervisor had it. No program can prevent that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// The one before; 0 where the thread did something else since, or slept.
    pub before_ns: u64,
    /// The latest.
    pub now_ns: u64,
}

/// How late a completion is delivered, ns, and whether that is because the spinning thread had lost its core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Late {
    pub(crate) ns: u64,
    pub(crate) away: bool,
}

impl Looks {
    /// The lateness of a completion that was due at `due_ns`, and is delivered at `now_ns`.
    pub(crate) fn late(self, due_ns: u64, now_ns: u64) -> Late {
        let away =
            (1..due_ns).contains(&self.before_ns) && self.now_ns > due_ns.saturating_add(LATE_NS);
        Late { ns: now_ns.saturating_sub(due_ns), away }
    }
}

/// The counters of a volume. Times are the model's, but for lateness.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Operations that succeeded, by kind.
    pub operations: [u64; OpKind::COUNT],
    /// Bytes of them.
    pub bytes: [u64; OpKind::COUNT],
    /// Operations that failed.
    pub errors: [u64; OpKind::COUNT],
    /// From submission to completion, ns of the model's time.
    pub latency: [Histogram; OpKind::COUNT],
    /// How much later than the model's time completions were delivered, ns of real time.
    pub lateness: Histogram,
    /// The longest of these since [`Live::take_longest_late_ns`](crate::served::Live::take_longest_late_ns) was called.
    pub(crate) longest_late_ns: u64,
    /// Completions that came more than [`LATE_NS`] late.
    pub late: u64,
    /// Those of them for which a spinning thread had lost its core: see [`Looks`].
    pub late_away: u64,
    /// Units whose sum was wrong when they were read.
    pub corruptions_found: u64,
    /// How often the backing file or memory has refused bytes: it is full, or fails; or a part was written of a
    /// unit that is corrupt. Counted when it happens, and at each retry.
    pub backing_errors: u64,
    /// What power cuts took.
    pub dropped: Dropped,
}

/// What a fault took from a volume at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Operations in flight that failed.
    pub failed: u64,
    /// What its buffer lost.
    pub dropped: Dropped,
}

impl Counts {
    /// Operations that failed, of all kinds.
    pub(crate) fn all_errors(&self) -> u64 {
        self.errors.iter().sum()
    }

    pub(crate) fn completed(
        &mut self,
        kind: OpKind,
        len_bytes: u32,
        latency_ns: u64,
        late: Late,
        failed: bool,
    ) {
        let kind = kind.index();
        self.lateness.record(late.ns);
        self.longest_late_ns = self.longest_late_ns.max(late.ns);
        self.late += u64::from(late.ns > LATE_NS);
        self.late_away += u64::from(late.away);
        if failed {
            self.errors[kind] += 1;
            return;
        }
        self.operations[kind] += 1;
        self.bytes[kind] += u64::from(len_bytes);
        self.latency[kind].record(latency_ns);
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
        assert!(!away(0, back_ns), "it slept, or worked");
        assert!(
            !away(due_ns, back_ns),
            "it had seen that this was due, and was held up by something else"
        );
        assert!(!away(due_ns - 1, back_ns - 1), "back in time: what came then cost it the rest");
        let late = Looks::default().late(due_ns, back_ns);
        assert_eq!((late.ns, late.away), (LATE_NS + 1, false));
        assert_eq!(Looks::default().late(due_ns, due_ns - 1).ns, 0, "a transport taken off");
    }
}
