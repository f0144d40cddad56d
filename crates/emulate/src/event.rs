//! The event queue: which request acts next, and when.
//!
//! An event is one `u128`, `time << 64 | sequence << 24 | slot`, so that events are ordered by time
//! and ties fall in the order in which they were made. A request has at most one event pending,
//! so the queue links slots, not events: a timing wheel of 512 ns buckets reaches 4.2 ms ahead,
//! what is later waits in a heap. The bucket that is being emptied is kept sorted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bits of a slot number.
const SLOT_BITS: u32 = 24;
/// Most requests at once.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// A bucket is 2^9 ns.
const BUCKET_BITS: u32 = 9;
/// Buckets of the wheel.
const BUCKETS: usize = 1 << 13;
const MASK: u64 = BUCKETS as u64 - 1;
const WORDS: usize = BUCKETS / 64;
const NIL: u32 = u32::MAX;

/// The event of a slot, and the next slot of its bucket. 32 bytes: half a cache line.
#[derive(Clone, Copy, Debug)]
struct Pending {
    key: u128,
    next: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// First slot of each bucket's list.
    heads: Box<[u32; BUCKETS]>,
    /// One bit a bucket that is not empty, and one a word of those.
    occupied: Box<[u64; WORDS]>,
    summary: [u64; WORDS / 64],
    /// By slot: its event, and the next of its bucket.
    pending: Vec<Pending>,
    /// The bucket that is being emptied, latest first.
    current: Vec<u128>,
    /// Its number (time / 512 ns).
    cursor: u64,
    far: BinaryHeap<Reverse<u128>>,
    /// When the first of them is due; `u64::MAX`: there are none.
    far_ns: u64,
    sequence: u64,
    in_wheel: u32,
}

#[inline]
const fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
}

#[inline]
const fn event(key: u128) -> (u64, u32) {
    (time_of(key), (key as u32) & (SLOTS_MAX as u32 - 1))
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            heads: vec![NIL; BUCKETS].into_boxed_slice().try_into().expect("its length"),
            occupied: vec![0; WORDS].into_boxed_slice().try_into().expect("its length"),
            summary: [0; WORDS / 64],
            pending: Vec::new(),
            current: Vec::with_capacity(64),
            cursor: 0,
            far: BinaryHeap::new(),
            far_ns: u64::MAX,
            sequence: 0,
            in_wheel: 0,
        }
    }

    /// No event is pending any more.
    pub(crate) fn clear(&mut self) {
        let sequence = self.sequence;
        *self = Self { sequence, ..Self::new() };
    }

    /// Only the events of the slots that `keep` names stay pending.
    pub(crate) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let mut kept: Vec<u128> = std::mem::take(&mut self.current);
        kept.extend(std::mem::take(&mut self.far).into_iter().map(|key| key.0));
        for head in self.heads.iter() {
            let mut slot = *head;
            while slot != NIL {
                let Pending { key, next } = self.pending[slot as usize];
                kept.push(key);
                slot = next;
            }
        }
        kept.retain(|&key| keep(event(key).1));
        let (sequence, cursor, slots) = (self.sequence, self.cursor, self.pending.len());
        *self = Self { cursor, sequence, ..Self::new() };
        self.reserve(slots);
        // The heap takes events of any time.
        self.far_ns = kept.iter().map(|&key| time_of(key)).min().unwrap_or(u64::MAX);
        self.far = kept.into_iter().map(Reverse).collect();
    }

    /// Slot numbers below `slots` will be used.
    #[inline]
    pub(crate) fn reserve(&mut self, slots: usize) {
        if self.pending.len() < slots {
            self.pending.resize(slots, Pending { key: 0, next: NIL });
        }
    }

    /// The request in `slot` acts at `time_ns`. It has no other event pending.
    #[inline]
    pub(crate) fn push(&mut self, time_ns: u64, slot: u32) {
        self.sequence += 1;
        let key = (u128::from(time_ns) << 64)
            | (u128::from(self.sequence) << SLOT_BITS)
            | u128::from(slot);
        let bucket = time_ns >> BUCKET_BITS;
        if bucket <= self.cursor {
            let mut at = self.current.len();
            while at > 0 && self.current[at - 1] < key {
                at -= 1;
            }
            self.current.insert(at, key);
        } else if bucket < self.cursor + BUCKETS as u64 {
            let index = (bucket & MASK) as usize;
            self.pending[slot as usize] = Pending { key, next: self.heads[index] };
            self.heads[index] = slot;
            self.occupied[index / 64] |= 1 << (index % 64);
            self.summary[index / 4096] |= 1 << (index / 64 % 64);
            self.in_wheel += 1;
        } else {
            self.far_ns = self.far_ns.min(time_ns);
            self.far.push(Reverse(key));
        }
    }

    /// The number of the first bucket after the cursor that is not empty.
    #[inline]
    fn next_bucket(&self) -> Option<u64> {
        if self.in_wheel == 0 {
            return None;
        }
        let start = ((self.cursor + 1) & MASK) as usize;
        let found = |index: usize| {
            let ahead = (index as u64).wrapping_sub(self.cursor + 1) & MASK;
            Some(self.cursor + 1 + ahead)
        };
        let word = self.occupied[start / 64] >> (start % 64);
        if word != 0 {
            return found(start + word.trailing_zeros() as usize);
        }
        // The words after it, round the wheel and back to the first part of its own.
        let first = start / 64 + 1;
        for turn in 0..=self.summary.len() {
            let group = (first / 64 + turn) % self.summary.len();
            let mut words = self.summary[group];
            if turn == 0 && first < WORDS {
                words &= u64::MAX << (first % 64);
            } else if turn == self.summary.len() {
                words &= !(u64::MAX << (first % 64));
            }
            if words != 0 {
                let word = group * 64 + words.trailing_zeros() as usize;
                return found(word * 64 + self.occupied[word].trailing_zeros() as usize);
            }
        }
        None
    }

    /// Makes the next bucket the current one, unless it begins after `until_ns` or what waits in
    /// the heap comes before it. Where that bucket holds a single event that is due, gives it at
    /// once.
    #[inline]
    fn turn(&mut self, until_ns: u64) -> Option<u128> {
        let bucket = self.next_bucket()?;
        let begins_ns = bucket << BUCKET_BITS;
        if begins_ns > until_ns || self.far_ns < begins_ns {
            return None;
        }
        self.cursor = bucket;
        let index = (bucket & MASK) as usize;
        let slot = std::mem::replace(&mut self.heads[index], NIL);
        self.occupied[index / 64] &= !(1 << (index % 64));
        if self.occupied[index / 64] == 0 {
            self.summary[index / 4096] &= !(1 << (index / 64 % 64));
        }
        let Pending { key, next } = self.pending[slot as usize];
        if next == NIL && time_of(key) <= until_ns && time_of(key) < self.far_ns {
            self.in_wheel -= 1;
            return Some(key);
        }
        self.fill(slot);
        None
    }

    /// The events of a bucket's list become the current ones.
    fn fill(&mut self, mut slot: u32) {
        let mut sorted = true;
        let mut last = u128::MAX;
        while slot != NIL {
            let Pending { key, next } = self.pending[slot as usize];
            sorted &= key < last;
            last = key;
            self.current.push(key);
            slot = next;
        }
        self.in_wheel -= self.current.len() as u32;
        if let [a, b] = self.current[..] {
            // Most buckets hold one or two.
            self.current[0] = a.max(b);
            self.current[1] = a.min(b);
        } else if !sorted {
            self.current.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// The next event not later than `until_ns`: its time, and the slot that acts.
    #[inline]
    pub(crate) fn pop(&mut self, until_ns: u64) -> Option<(u64, u32)> {
        if self.current.is_empty()
            && let Some(key) = self.turn(until_ns)
        {
            return Some(event(key));
        }
        let near_ns = self.current.last().map_or(u64::MAX, |&key| time_of(key));
        if self.far_ns <= near_ns {
            return self.pop_far(until_ns);
        }
        if near_ns > until_ns {
            return None;
        }
        self.current.pop().map(event)
    }

    /// The same where the heap may hold the next one.
    #[cold]
    fn pop_far(&mut self, until_ns: u64) -> Option<(u64, u32)> {
        let Reverse(far) = *self.far.peek()?;
        let near = self.current.last().copied();
        if time_of(far) > until_ns {
            return None;
        }
        if near.is_some_and(|near| near < far) {
            return self.current.pop().map(event);
        }
        self.far.pop();
        self.far_ns = self.far.peek().map_or(u64::MAX, |f| time_of(f.0));
        // The wheel holds nothing before this: it may start from here.
        if self.current.is_empty() {
            self.cursor = self.cursor.max(time_of(far) >> BUCKET_BITS);
        }
        Some(event(far))
    }

    /// When the next event is.
    pub(crate) fn next_time_ns(&mut self) -> Option<u64> {
        if self.current.is_empty()
            && let Some(key) = self.turn(u64::MAX)
        {
            self.current.push(key);
        }
        let near = self.current.last().map(|&k| time_of(k));
        let far = self.far.peek().map(|f| time_of(f.0));
        match (near, far) {
            (Some(n), Some(f)) => Some(n.min(f)),
            (n, f) => n.or(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    /// The standard library's heap as the oracle: the same pushes give the same pops, whatever the
    /// distances, and `until` is never passed.
    #[test]
    fn pops_what_a_heap_pops() {
        for seed in 0..20 {
            let mut rng = stream(seed, "queue", 0);
            let (mut queue, mut heap) = (Queue::new(), BinaryHeap::new());
            queue.reserve(512);
            let mut free: Vec<u32> = (0..512).collect();
            let (mut now, mut sequence) = (0_u64, 0_u64);
            for _ in 0..30_000 {
                if !free.is_empty() && (free.len() == 512 || below(&mut rng, 2) == 0) {
                    let slot = free.swap_remove(below(&mut rng, free.len() as u64) as usize);
                    let reach =
                        [1, 300, 70_000, 4_190_000, 40_000_000][below(&mut rng, 5) as usize];
                    let time = now + below(&mut rng, reach);
                    sequence += 1;
                    queue.push(time, slot);
                    heap.push(Reverse((time, sequence, slot)));
                } else if below(&mut rng, 300) == 0 {
                    let part = below(&mut rng, 7) as u32;
                    queue.retain(|slot| slot % 7 != part);
                    heap.retain(|&Reverse((_, _, slot))| {
                        slot % 7 != part || {
                            free.push(slot);
                            false
                        }
                    });
                } else {
                    let until = now + below(&mut rng, 100_000);
                    let expected = match heap.peek() {
                        Some(&Reverse((time, _, slot))) if time <= until => {
                            heap.pop();
                            Some((time, slot))
                        }
                        _ => None,
                    };
                    assert_eq!(queue.pop(until), expected, "seed {seed}");
                    match expected {
                        Some((time, slot)) => {
                            now = time;
                            free.push(slot);
                        }
                        None => now = until,
                    }
                    assert_eq!(queue.next_time_ns(), heap.peek().map(|r| r.0.0));
                }
            }
        }
    }
}
