//! The operations that one worker has in flight, in real and in virtual time. Each operation has a slot from submission
//! to completion, and uses the buffer with the slot's index.

use iodyno_measure::Ended;
use iodyno_units::Op;
use iodyno_workload::{Issue, Source};

/// Value of [`Slot::intended_ns`] for an operation without a scheduled start. Such an operation is due when it is
/// submitted.
pub(crate) const AT_SUBMISSION: u64 = u64::MAX;

/// One operation in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<T> {
    pub(crate) op: Op,
    pub(crate) submitted_ns: u64,
    /// Scheduled start of the operation, ns; [`AT_SUBMISSION`] in closed loop.
    pub(crate) intended_ns: u64,
    /// Token by which the operation's source recognises the operation at completion.
    pub(crate) token: T,
}

/// A worker's operations in flight.
#[derive(Clone, Debug)]
pub(crate) struct InFlight<T> {
    slots: Box<[Slot<T>]>,
    free: Vec<u32>,
    bytes: u64,
}

impl<T: Copy + Default> InFlight<T> {
    pub(crate) fn new(slots: u32) -> Self {
        let token = T::default();
        let idle = Slot { op: Op::FLUSH, submitted_ns: 0, intended_ns: AT_SUBMISSION, token };
        Self {
            slots: vec![idle; slots as usize].into(),
            free: (0..slots).rev().collect(),
            bytes: 0,
        }
    }

    /// Maximum number of the worker's operations in flight.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Number of further operations that may be in flight.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Buffer number for the next operation; `None` if the maximum number of operations is in flight.
    #[inline]
    pub(crate) fn next_slot(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Records a submitted operation under the number that [`Self::next_slot`] returned.
    #[inline]
    pub(crate) fn begin(&mut self, issue: &Issue<T>, submitted_ns: u64) {
        let Some(slot) = self.free.pop() else { return };
        let intended_ns = issue.due_ns.unwrap_or(AT_SUBMISSION);
        let (op, token) = (issue.op, issue.token);
        self.slots[slot as usize] = Slot { op, submitted_ns, intended_ns, token };
        self.bytes += u64::from(op.len_bytes);
    }

    #[inline]
    pub(crate) fn set_submitted(&mut self, slot: u32, submitted_ns: u64) {
        self.slots[slot as usize].submitted_ns = submitted_ns;
    }

    /// Removes a completed operation and returns it. Its buffer number becomes free.
    #[inline]
    pub(crate) fn end(&mut self, slot: u32) -> Slot<T> {
        let ended = self.slots[slot as usize];
        self.free.push(slot);
        self.bytes -= u64::from(ended.op.len_bytes);
        ended
    }

    /// Iterates over all operations in flight. Too slow for the hot path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot<T>> {
        let mut is_free = vec![false; self.slots.len()];
        for &slot in &self.free {
            is_free[slot as usize] = true;
        }
        self.slots.iter().zip(is_free).filter(|(_, is_free)| !is_free).map(|(slot, _)| slot)
    }
}

/// Limits on the operations and bytes that one worker measures; `u64::MAX` means no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) ops_max: u64,
    pub(crate) bytes_max: u64,
    /// Whether the limit on bytes includes those of the ramp.
    pub(crate) ramp_counts: bool,
}

impl Share {
    /// No limits.
    pub(crate) const ALL: Self =
        Self { ops_max: u64::MAX, bytes_max: u64::MAX, ramp_counts: false };

    /// Ends the ramp, in which the worker moved `bytes` bytes. If they are all that it may move, the limit begins anew:
    /// nothing would be measured.
    pub(crate) fn end_ramp(&mut self, bytes: u64) {
        if self.ramp_counts && bytes < self.bytes_max && self.bytes_max < u64::MAX {
            self.bytes_max -= bytes;
        }
    }

    /// The limit that a worker with `ops` operations and `bytes` bytes has reached; `None` if it has reached neither.
    #[inline]
    pub(crate) fn is_done(&self, ops: u64, bytes: u64, source: &impl Source) -> Option<Ended> {
        if ops >= self.ops_max {
            return Some(Ended::Ops);
        }
        self.are_bytes_used_up(bytes, source).then_some(Ended::Bytes)
    }

    /// True if the completed operations and those in flight together reach a limit, so that no more may be
    /// issued.
    #[inline]
    pub(crate) fn is_issued<T: Copy + Default>(
        &self,
        ops: u64,
        bytes: u64,
        source: &impl Source,
        in_flight: &InFlight<T>,
    ) -> bool {
        ops.saturating_add(in_flight.len() as u64) >= self.ops_max
            || self.are_bytes_used_up(bytes.saturating_add(in_flight.bytes), source)
    }

    /// True if `bytes`, without those that the source excludes from the limit, reach the limit on bytes. Queries the
    /// source only if all `bytes` reach it, because few runs limit bytes.
    #[inline]
    fn are_bytes_used_up(&self, bytes: u64, source: &impl Source) -> bool {
        bytes >= self.bytes_max
            && bytes.saturating_sub(source.bytes_beyond_share()) >= self.bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ramp that moves all that the worker may move leaves something to measure.
    #[test]
    fn a_ramp_never_uses_up_the_limit() {
        let left = |ramp_counts, bytes| {
            let mut share = Share { ops_max: u64::MAX, bytes_max: 1_000, ramp_counts };
            share.end_ramp(bytes);
            share.bytes_max
        };
        assert_eq!([left(true, 300), left(false, 300)], [700, 1_000]);
        assert_eq!([left(true, 1_000), left(true, 5_000)], [1_000, 1_000]);
    }
}
