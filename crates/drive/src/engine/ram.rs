//! The in-process RAM disk: an operation is a copy between a region of memory and the slot's
//! buffer, done by the submitter itself. It scales with threads; queue depth only gives the next
//! address early, which is used to fetch its first cache lines while the present block is copied.

use super::{Engine, Wait};
use crate::memory::{Buffers, Region};
use iodyno_units::{Op, OpKind};
use std::io;
use std::sync::Arc;

/// Cache lines of the next block that are fetched ahead, one with each of the first lines that are
/// copied. The hardware's own prefetcher follows once the copy is under way. Of 0, 8, 16, 32 and
/// 64 lines, 16 was the fastest on Zen 4, about 1.4 × none.
const FETCHED_LINES: usize = 16;
/// Blocks over this are copied by the C library: its copy is the faster one there, and one
/// block's first lines matter less.
const OWN_COPY_BYTES_MAX: usize = 32 << 10;
const LINE_BYTES: usize = 64;

/// Copies `len` bytes and meanwhile fetches the first lines at `next`.
type Copy = unsafe fn(to: *mut u8, from: *const u8, len: usize, next: *const u8);

/// See [`Copy`]. Inlined into each of the variants below, which differ in the vectors used.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap. `next` may be anything.
#[inline(always)]
unsafe fn copy_lines(to: *mut u8, from: *const u8, len: usize, next: *const u8) {
    type Line = [u64; LINE_BYTES / 8];
    let lines = len / LINE_BYTES;
    // SAFETY: all accesses are within `len` bytes; a prefetch never faults, whatever the address.
    unsafe {
        for i in 0..lines {
            if i < FETCHED_LINES {
                fetch(next.wrapping_add(i * LINE_BYTES));
            }
            let line = from.add(i * LINE_BYTES).cast::<Line>().read_unaligned();
            to.add(i * LINE_BYTES).cast::<Line>().write_unaligned(line);
        }
        let done = lines * LINE_BYTES;
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done);
    }
}

#[inline(always)]
fn fetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

unsafe fn copy_plain(to: *mut u8, from: *const u8, len: usize, next: *const u8) {
    // SAFETY: the caller's promise is the same.
    unsafe { copy_lines(to, from, len, next) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_avx2(to: *mut u8, from: *const u8, len: usize, next: *const u8) {
    // SAFETY: the caller's promise is the same.
    unsafe { copy_lines(to, from, len, next) }
}

fn best_copy() -> Copy {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return copy_avx2;
    }
    copy_plain
}

/// See the module.
#[derive(Debug)]
pub struct RamEngine<'a> {
    region: Arc<Region>,
    buffers: &'a Buffers,
    copy: Copy,
    /// Queued operations, oldest at `head`: a ring of a power of two.
    ring: Box<[(u32, Op)]>,
    head: usize,
    tail: usize,
    done: Option<(u32, i32)>,
}

impl<'a> RamEngine<'a> {
    /// An engine on `region` with this worker's buffers.
    pub fn new(region: Arc<Region>, buffers: &'a Buffers) -> Self {
        let len = (buffers.slots() as usize).next_power_of_two();
        let ring = vec![(0, Op::FLUSH); len].into();
        Self { region, buffers, copy: best_copy(), ring, head: 0, tail: 0, done: None }
    }

    #[inline]
    fn carry_out(&self, slot: u32, op: &Op, next: *const u8) -> i32 {
        let (offset, len) = (op.offset_bytes as usize, op.len_bytes as usize);
        if offset.checked_add(len).is_none_or(|end| end > self.region.len()) {
            return -libc::EINVAL;
        }
        // SAFETY: the range lies within the region (just checked); the buffer holds `len` bytes and
        // is another mapping, so the two never overlap. Other workers may copy the same bytes at
        // the same time, as on any shared storage: the copies are of plain bytes that nothing
        // interprets.
        unsafe {
            let at = self.region.start().add(offset);
            match op.kind {
                OpKind::Read => self.transfer(self.buffers.slot(slot), at, len, next),
                OpKind::Write => self.transfer(at, self.buffers.slot(slot), len, next),
                OpKind::Flush => std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst),
                OpKind::Trim | OpKind::WriteZeroes => std::ptr::write_bytes(at, 0, len),
            }
        }
        len as i32
    }

    /// # Safety
    /// As for [`Copy`].
    #[inline]
    unsafe fn transfer(&self, to: *mut u8, from: *const u8, len: usize, next: *const u8) {
        // SAFETY: the caller's promise.
        unsafe {
            if len <= OWN_COPY_BYTES_MAX {
                (self.copy)(to, from, len, next);
            } else {
                std::ptr::copy_nonoverlapping(from, to, len);
            }
        }
    }
}

impl Engine for RamEngine<'_> {
    #[inline]
    fn queue(&mut self, slot: u32, op: &Op) {
        let mask = self.ring.len() - 1;
        self.ring[self.tail & mask] = (slot, *op);
        self.tail += 1;
    }

    #[inline]
    fn turn(&mut self, _: Wait) -> io::Result<()> {
        if self.head == self.tail {
            return Ok(());
        }
        let mask = self.ring.len() - 1;
        let (slot, op) = self.ring[self.head & mask];
        self.head += 1;
        // With nothing queued behind it, this block's own first lines are fetched.
        let after = if self.head == self.tail { op } else { self.ring[self.head & mask].1 };
        let next = self.region.start().wrapping_add(after.offset_bytes as usize);
        self.done = Some((slot, self.carry_out(slot, &op, next)));
        Ok(())
    }

    #[inline]
    fn drain(&mut self, mut done: impl FnMut(u32, i32)) {
        if let Some((slot, result)) = self.done.take() {
            done(slot, result);
        }
    }
}
