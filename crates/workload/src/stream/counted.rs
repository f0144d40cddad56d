//! Operations that depend on how many operations all workers of a target have issued or completed: bursts of flushes,
//! and reads and writes in a fixed ratio. The shared counters are on their own cache lines, without locks.

use crate::spec::{MixOrder, Spec};
use iodyno_units::OpKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that all workers of a target share. Each is None if the workload does not need it.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    bursts: Option<Arc<Bursts>>,
    ratio: Option<Arc<Ratio>>,
}

/// State of flush bursts. One word holds it all, so that workers update it atomically: in the lower half the
/// number of operations since the last multiple of `every`, then the flushes issued in the current burst, and
/// in the top bit whether there was a write since the last burst.
#[derive(Debug)]
#[repr(align(128))]
struct Bursts {
    state: AtomicU64,
    every: u64,
    burst: u64,
}

const FLUSH: u64 = 1 << 32;
const DIRTY: u64 = 1 << 63;

/// Counts of the reads and writes that all workers of a target have completed.
#[derive(Debug)]
#[repr(align(128))]
struct Ratio {
    reads: AtomicU64,
    writes: AtomicU64,
    reads_per_write: f64,
}

impl Counted {
    pub(super) fn new(spec: &Spec) -> Self {
        let bursts = spec.flush_bursts().map(|bursts| Bursts {
            state: AtomicU64::new(0),
            every: bursts.every.into(),
            burst: bursts.burst.into(),
        });
        let share = |kind: OpKind| spec.mix[kind.index()];
        let ratio = (spec.mix_order() == MixOrder::Ratio).then(|| Ratio {
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            reads_per_write: share(OpKind::Read) / share(OpKind::Write),
        });
        Self { bursts: bursts.map(Arc::new), ratio: ratio.map(Arc::new) }
    }

    pub(super) fn is_used(&self) -> bool {
        self.bursts.is_some() || self.ratio.is_some()
    }

    /// Whether the next operation is a write rather than a read; None if the kind is drawn at random.
    #[inline]
    pub(super) fn is_write_next(&self) -> Option<bool> {
        let ratio = self.ratio.as_ref()?;
        let reads = ratio.reads.load(Ordering::Relaxed) + 1;
        let writes = ratio.writes.load(Ordering::Relaxed) + 1;
        Some(reads as f64 / writes as f64 >= ratio.reads_per_write)
    }

    /// Whether to issue a flush now, before an operation of this kind. Counts the flush or the operation as
    /// issued.
    #[inline]
    pub(super) fn is_flush_next(&self, kind: OpKind) -> bool {
        self.bursts.as_ref().is_some_and(|bursts| bursts.is_flush_next(kind == OpKind::Write))
    }

    #[inline]
    pub(super) fn completed(&self, kind: OpKind) {
        let Some(ratio) = &self.ratio else { return };
        match kind {
            OpKind::Read => ratio.reads.fetch_add(1, Ordering::Relaxed),
            OpKind::Write => ratio.writes.fetch_add(1, Ordering::Relaxed),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes => return,
        };
    }
}

impl Bursts {
    fn is_flush_next(&self, writes: bool) -> bool {
        let mut before = self.state.load(Ordering::Relaxed);
        loop {
            let (ops, flushes) = (before & (FLUSH - 1), (before & !DIRTY) >> 32);
            let is_flush = before & DIRTY != 0 && ops == 0;
            let after = if !is_flush {
                let dirty = if writes { DIRTY } else { before & DIRTY };
                // Bursts are at multiples of `every`, whatever was issued since the last one.
                ((ops + 1) % self.every) | dirty
            } else if flushes + 1 == self.burst {
                0
            } else {
                before + FLUSH
            };
            let order = Ordering::Relaxed;
            match self.state.compare_exchange_weak(before, after, order, order) {
                Ok(_) => return is_flush,
                Err(now) => before = now,
            }
        }
    }
}
