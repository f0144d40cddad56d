//! The event queue: orders the machine's events by time, and simultaneous events by creation.
//!
//! An event is one `u128`, `time << 64 | sequence << 24 | slot`, where the slot is the index of a request. A request
//! has at most one pending event, so the queue links slots, not events.
//!
//! The queue is a timing wheel: two rings of buckets (`near` and `next`), and a heap for later events. Buckets of the
//! near ring are so short that most hold one or two events. When a bucket of `next` becomes due, its events are
//! distributed over the near ring.

mod ring;

use crate::prefetch::Address;
use ring::{NIL, Ring};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of bits of a request's index in the slab of outstanding requests.
const SLOT_BITS: u32 = 24;
/// Maximum number of concurrent requests.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// Log2 of the bucket length of the near ring in ns: 256 ns. The ring covers 2.1 ms, longer than most
/// flash programs take.
const NEAR_BITS: u32 = 8;
/// Log2 of the bucket length of the ring `next` in ns: half the near ring's span, so that a bucket always fits into the
/// near ring. The ring covers 8.6 s.
const NEXT_BITS: u32 = NEAR_BITS + 12;

/// A request's pending event, and the next request in the same bucket. 32 bytes: half a cache line.
#[derive(Clone, Copy, Debug)]
struct Pending {
    key: u128,
    next: u32,
}

/// The queue of pending events: a timing wheel of two rings, with a heap for later events.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// Pending event of each request, by request index.
    pending: Vec<Pending>,
    /// Events of the near ring's bucket that is being emptied, latest first.
    current: Vec<u128>,
    /// Number of the near ring's bucket that is being emptied (time / 256 ns).
    cursor: u64,
    near: Ring,
    next: Ring,
    /// Start of the first non-empty bucket of the ring `next`; `u64::MAX`: none.
    next_ns: u64,
    far: BinaryHeap<Reverse<u128>>,
    /// Time of the first event in `far`; `u64::MAX`: none.
    far_ns: u64,
    sequence: u64,
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
            pending: Vec::new(),
            current: Vec::with_capacity(64),
            cursor: 0,
            near: Ring::new(),
            next: Ring::new(),
            next_ns: u64::MAX,
            far: BinaryHeap::new(),
            far_ns: u64::MAX,
            sequence: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        let sequence = self.sequence;
        *self = Self { sequence, ..Self::new() };
    }

    /// Removes the events of all requests for which `keep` returns false.
    pub(crate) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let mut kept: Vec<u128> = std::mem::take(&mut self.current);
        kept.extend(std::mem::take(&mut self.far).into_iter().map(|key| key.0));
        for head in self.near.heads().chain(self.next.heads()) {
            let mut slot = head;
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
        // The heap accepts events of any time.
        self.far_ns = kept.iter().map(|&key| time_of(key)).min().unwrap_or(u64::MAX);
        self.far = kept.into_iter().map(Reverse).collect();
    }

    /// Allocates entries for request indices below `slots`.
    #[inline]
    pub(crate) fn reserve(&mut self, slots: usize) {
        if self.pending.len() < slots {
            self.pending.resize(slots, Pending { key: 0, next: NIL });
        }
    }

    /// Adds an event for the request `slot`, which must have no other pending event.
    #[inline]
    pub(crate) fn push(&mut self, time_ns: u64, slot: u32) {
        self.sequence += 1;
        let key = (u128::from(time_ns) << 64)
            | (u128::from(self.sequence) << SLOT_BITS)
            | u128::from(slot);
        // The cursor may be ahead of time, since `next_time_ns` moves it.
        let ahead = (time_ns >> NEAR_BITS).wrapping_sub(self.cursor + 1);
        if ahead < Ring::REACH - 1 {
            let next = self.near.put(time_ns >> NEAR_BITS, slot);
            self.pending[slot as usize] = Pending { key, next };
        } else {
            self.push_aside(key);
        }
    }

    /// Adds an event that is too late for the near ring, or not after the bucket being emptied.
    fn push_aside(&mut self, key: u128) {
        let (time_ns, slot) = event(key);
        if time_ns >> NEAR_BITS <= self.cursor {
            let mut at = self.current.len();
            while at > 0 && self.current[at - 1] < key {
                at -= 1;
            }
            self.current.insert(at, key);
            return;
        }
        let bucket = time_ns >> NEXT_BITS;
        if bucket < (self.cursor >> (NEXT_BITS - NEAR_BITS)) + Ring::REACH {
            let next = self.next.put(bucket, slot);
            self.pending[slot as usize] = Pending { key, next };
            self.next_ns = self.next_ns.min(bucket << NEXT_BITS);
        } else {
            self.far_ns = self.far_ns.min(time_ns);
            self.far.push(Reverse(key));
        }
    }

    /// Advances to the next bucket, unless it begins after `until_ns` or the heap has an earlier event.
    /// Returns the bucket's earliest event if it is due and no sorting is needed to find it.
    #[inline(always)]
    fn turn(&mut self, until_ns: u64) -> Option<u128> {
        while self.next_ns != u64::MAX && self.next_ns >> NEAR_BITS <= self.near.first() {
            if self.next_ns > until_ns.min(self.far_ns) {
                return None;
            }
            self.deal();
        }
        let bucket = self.near.first();
        if bucket == u64::MAX {
            return None;
        }
        let begins_ns = bucket << NEAR_BITS;
        if begins_ns > until_ns || self.far_ns < begins_ns {
            return None;
        }
        self.cursor = bucket;
        let slot = self.near.take();
        let Pending { key, next } = self.pending[slot as usize];
        // Events before this time are due, and precede all events in the heap.
        let end_ns = until_ns.saturating_add(1).min(self.far_ns);
        if next == NIL {
            if time_of(key) < end_ns {
                return Some(key);
            }
            self.current.push(key);
            return None;
        }
        let Pending { key: other, next } = self.pending[next as usize];
        let (first, second) = if other < key { (other, key) } else { (key, other) };
        if next == NIL {
            // Most buckets hold one or two events.
            self.current.push(second);
            if time_of(first) < end_ns {
                return Some(first);
            }
            self.current.push(first);
        } else {
            self.fill(slot);
        }
        None
    }

    /// Moves the events of the first bucket of `next` to the near ring, which must contain no earlier events.
    #[cold]
    fn deal(&mut self) {
        // Pushed events were further ahead than this bucket's length, so the cursor is still before it.
        debug_assert!(self.cursor < self.next_ns >> NEAR_BITS);
        self.cursor = (self.next_ns >> NEAR_BITS) - 1;
        let mut slot = self.next.take();
        while slot != NIL {
            let Pending { key, next } = self.pending[slot as usize];
            self.pending[slot as usize].next = self.near.put(time_of(key) >> NEAR_BITS, slot);
            slot = next;
        }
        let bucket = self.next.first();
        self.next_ns = if bucket == u64::MAX { bucket } else { bucket << NEXT_BITS };
    }

    /// Moves the events of a bucket to `current` and sorts them. `slot` is the bucket's first request.
    #[inline(never)]
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
        if !sorted {
            self.current.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// Removes the next event up to `until_ns`, and returns its time, ns, and its request's index; `None` if no event
    /// is due.
    #[inline(always)]
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

    /// Same as [`Self::pop`], for the case that the next event may be in the heap.
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
        // The rings hold nothing earlier: the wheel may continue from this time.
        if self.current.is_empty() {
            self.cursor = self.cursor.max(time_of(far) >> NEAR_BITS);
        }
        Some(event(far))
    }

    /// Returns the request whose event is probably next, so that its data can be prefetched. `None` if none is known.
    #[inline(always)]
    pub(crate) fn probably_next(&self) -> Option<u32> {
        let slot = match self.current.last() {
            Some(&key) => event(key).1,
            None => self.near.first_slot(),
        };
        Address::of(self.pending.get(slot as usize)?).prefetch();
        Some(slot)
    }

    /// Returns the time of the next event; `None` if there is none.
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

    /// Compares the queue with the standard library's heap: the same pushes must give the same pops at
    /// any distance in time, and no pop may pass `until`.
    #[test]
    fn pops_the_same_as_a_heap() {
        for seed in 0..20 {
            let mut rng = stream(seed, "queue", 0);
            let (mut queue, mut heap) = (Queue::new(), BinaryHeap::new());
            queue.reserve(512);
            let mut free: Vec<u32> = (0..512).collect();
            let (mut now, mut sequence) = (0_u64, 0_u64);
            for _ in 0..30_000 {
                if !free.is_empty() && (free.len() == 512 || below(&mut rng, 2) == 0) {
                    let slot = free.swap_remove(below(&mut rng, free.len() as u64) as usize);
                    // Distances: the current bucket, the near ring, the next ring, and beyond both.
                    let reaches = [1, 300, 70_000, 4_190_000, 40_000_000, 60_000_000_000];
                    let reach = reaches[below(&mut rng, 6) as usize];
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
                    let steps = [100_000, 20_000_000_000];
                    let step = steps[below(&mut rng, 2) as usize];
                    let until = now + below(&mut rng, step);
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
