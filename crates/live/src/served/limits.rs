//! Operations that a volume refuses before they reach the emulated device: those beyond its current size and, while its
//! thin pool is exhausted, those that need new space. The emulated device knows of neither.

use super::operations::Inner;
use super::{Live, Sink, store_of};
use crate::counts::Counts;
use crate::store::Store;
use iodyno_emulate::Machine;
use iodyno_units::{IoError, Op, OpKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Current size of a volume, and whether it is full.
#[derive(Debug)]
pub(super) struct Limits {
    size_bytes: AtomicU64,
    full: AtomicBool,
}

impl Limits {
    pub(super) fn none(capacity_bytes: u64) -> Self {
        Self { size_bytes: AtomicU64::new(capacity_bytes), full: AtomicBool::new(false) }
    }
}

impl<S: Sink> Live<S> {
    /// Current size of a volume, bytes; at most its capacity.
    pub fn size_bytes(&self, volume: u32) -> u64 {
        self.limits[volume as usize].size_bytes.load(Ordering::Relaxed)
    }

    /// Changes the size of a volume. Content beyond a smaller size is kept, and reappears when the volume grows again.
    ///
    /// # Panics
    /// If the size exceeds the volume's capacity.
    pub fn resize(&self, volume: u32, size_bytes: u64) {
        assert!(
            size_bytes <= self.capacity_bytes(volume),
            "a volume can't be larger than its device"
        );
        self.limits[volume as usize].size_bytes.store(size_bytes, Ordering::Relaxed);
    }

    /// Whether the volume is marked as full, so that writes to unallocated space fail.
    pub fn is_full(&self, volume: u32) -> bool {
        self.limits[volume as usize].full.load(Ordering::Relaxed)
    }

    /// Marks a volume as full or not full. Has no effect on a volume whose content is not stored.
    pub fn set_full(&self, volume: u32, full: bool) {
        self.limits[volume as usize].full.store(full, Ordering::Relaxed);
    }

    /// Error that an operation must return because it exceeds the volume's size, or needs space on a full volume.
    /// `None` if it may be submitted.
    pub(super) fn refuses(&self, inner: &Inner<S>, volume: u32, op: &Op) -> Option<IoError> {
        let end_bytes = op.offset_bytes.saturating_add(u64::from(op.len_bytes));
        if end_bytes > self.size_bytes(volume) {
            // NBD's rule: a write beyond the end fails for lack of space.
            let writes = matches!(op.kind, OpKind::Write | OpKind::WriteZeroes);
            return Some(if writes { IoError::NoSpace } else { IoError::OutOfRange });
        }
        let needs_space = op.kind == OpKind::Write && self.is_full(volume);
        let store =
            needs_space.then(|| store_of(&inner.machine, &inner.stores, volume)).flatten()?;
        (!has_data(store, op.offset_bytes, op.len_bytes.into())).then_some(IoError::NoSpace)
    }

    /// Whether a range of a volume can be allocated: the volume is not full, or the whole range is already allocated.
    pub fn has_space(&self, volume: u32, offset_bytes: u64, len_bytes: u64) -> bool {
        let has_data = |machine: &mut Machine, stores: &mut [Store], _: &[Counts]| {
            let store = store_of(machine, stores, volume);
            store.is_none_or(|store| has_data(store, offset_bytes, len_bytes))
        };
        !self.is_full(volume) || self.look(has_data)
    }
}

/// Whether the whole range is already allocated.
fn has_data(store: &Store, offset_bytes: u64, len_bytes: u64) -> bool {
    let first = store.extents(offset_bytes, len_bytes, 1);
    first.is_ok_and(|e| e.iter().all(|e| e.data && e.len_bytes >= len_bytes))
}
