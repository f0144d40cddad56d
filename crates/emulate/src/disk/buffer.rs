//! The volatile write buffer of a disk: its free space and the dirty data.
//!
//! A newer write over a dirty range replaces the older data (absorption), which can then no longer be made durable. A
//! flush that waits for the older write therefore waits for the newer one instead.
//!
//! The next range to destage is the one with the shortest access time among the oldest `window` ranges. These ranges
//! are kept in address order: the search starts at the position of the heads, and ends where the seek alone takes
//! longer than the best access found.

use super::journal::WriteRange;
use super::layout::{Layout, Place, Track};
use iodyno_units::rng::{Generator, below};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Minimum number of dirty ranges that [`Buffer::fill`] needs as a sample for those that it adds.
const LIKE_MIN: usize = 64;

/// An acknowledged range of data that is not on the medium yet. Stored by its start offset.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    len: u64,
    id: u32,
    /// Sequence number of the write, in the order of acknowledgement.
    seq: u64,
    /// Sequence number of the oldest acknowledged write that becomes durable only with this range,
    /// because this range replaced some of its data.
    since: u64,
}

/// A range being written to the medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) place: Place,
    id: u32,
    since: u64,
}

impl Extent {
    /// Returns the range as a [`WriteRange`], for the disk's reports.
    pub(super) fn range(&self) -> WriteRange {
        WriteRange { id: self.id, offset_bytes: self.start, len_bytes: self.len }
    }
}

/// The write buffer of a disk.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    capacity: u64,
    used: u64,
    /// Bytes of dirty ranges, without the range that is being destaged.
    dirty_bytes: u64,
    dirty: BTreeMap<u64, Dirty>,
    /// Dirty ranges among which the next one to destage is chosen, by start offset.
    window: BTreeMap<u64, Place>,
    window_max: usize,
    /// Dirty ranges outside the window, oldest first: offset and sequence number. An entry is void if
    /// the range at this offset now has another sequence number.
    backlog: VecDeque<(u64, u64)>,
    next_seq: u64,
    /// For each acknowledged write that is not durable, by sequence number: the number of ranges still
    /// to be written to the medium.
    obligations: BTreeMap<u64, u32>,
    moving: Option<Extent>,
}

impl Buffer {
    pub(super) fn new(capacity: u64, window: u32) -> Self {
        Self {
            capacity,
            used: 0,
            dirty_bytes: 0,
            dirty: BTreeMap::new(),
            window: BTreeMap::new(),
            window_max: window as usize,
            backlog: VecDeque::new(),
            next_seq: 0,
            obligations: BTreeMap::new(),
            moving: None,
        }
    }

    /// Returns whether a write of `len` bytes fits. A write larger than the whole buffer fits only if
    /// the buffer is empty.
    pub(super) fn has_space(&self, len: u64) -> bool {
        self.used == 0 || self.used + len <= self.capacity
    }

    pub(super) fn reserve(&mut self, len: u64) {
        self.used += len;
    }

    pub(super) fn release(&mut self, len: u64) {
        self.used -= len;
    }

    /// Returns the bytes of the dirty ranges, without the range that is being destaged.
    pub(super) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Returns the bytes of the dirty ranges in the window, estimated from the mean length of all dirty ranges.
    pub(super) fn choice_bytes(&self) -> u64 {
        self.dirty_bytes * self.window.len() as u64 / (self.dirty.len() as u64).max(1)
    }

    /// Returns whether the buffer is more than three quarters full.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.used > self.capacity / 4 * 3
    }

    /// Returns whether no dirty range is left, except perhaps one that is being destaged.
    pub(super) fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Returns the sequence number that the next acknowledged write will get.
    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Returns whether all acknowledged writes with sequence numbers below `seq` are durable.
    pub(super) fn durable_before(&self, seq: u64) -> bool {
        self.obligations.first_key_value().is_none_or(|(&oldest, _)| oldest >= seq)
    }

    fn owe(&mut self, since: u64) {
        *self.obligations.entry(since).or_insert(0) += 1;
    }

    fn settle(&mut self, since: u64) {
        if let Some(count) = self.obligations.get_mut(&since) {
            *count -= 1;
            if *count == 0 {
                self.obligations.remove(&since);
            }
        }
    }

    /// Adds a dirty range to the window if `choose`, else to the backlog.
    fn put(&mut self, start: u64, dirty: Dirty, choose: bool, layout: &Layout) {
        self.owe(dirty.since);
        self.dirty_bytes += dirty.len;
        self.dirty.insert(start, dirty);
        if choose {
            self.window.insert(start, layout.place(start));
        } else {
            self.backlog.push_back((start, dirty.seq));
        }
    }

    /// Removes from a range all dirty data with sequence numbers below `seq`. Returns the removed
    /// bytes, and the oldest write whose durability depended on them.
    pub(super) fn absorb(
        &mut self,
        start: u64,
        end: u64,
        seq: u64,
        layout: &Layout,
    ) -> (u64, Option<u64>) {
        let from = self
            .dirty
            .range(..start)
            .next_back()
            .map_or(start, |(&s, d)| if s + d.len > start { s } else { start });
        let hit: Vec<u64> =
            self.dirty.range(from..end).filter(|(_, d)| d.seq < seq).map(|(&s, _)| s).collect();
        let (mut bytes, mut since) = (0, None);
        for s in hit {
            let Some(old) = self.dirty.remove(&s) else { continue };
            self.dirty_bytes -= old.len;
            let chosen = self.window.remove(&s).is_some();
            self.settle(old.since);
            let old_end = s + old.len;
            bytes += old_end.min(end) - s.max(start);
            since = Some(since.map_or(old.since, |a: u64| a.min(old.since)));
            if s < start {
                self.put(s, Dirty { len: start - s, ..old }, chosen, layout);
            }
            if old_end > end {
                self.put(end, Dirty { len: old_end - end, ..old }, chosen, layout);
            }
        }
        self.used -= bytes;
        (bytes, since)
    }

    /// Adds an acknowledged write, whose space is already reserved. Returns the bytes of older dirty
    /// data that it replaced.
    pub(super) fn insert(&mut self, write: WriteRange, layout: &Layout) -> u64 {
        let (start, len) = (write.offset_bytes, write.len_bytes);
        let seq = self.next_seq;
        self.next_seq += 1;
        let (absorbed, since) = self.absorb(start, start + len, seq, layout);
        let since = since.unwrap_or(seq);
        let choose = self.backlog.is_empty() && self.window.len() < self.window_max;
        self.put(start, Dirty { len, id: write.id, seq, since }, choose, layout);
        absorbed
    }

    /// Adds random dirty ranges until the fraction `share` of the buffer is used. Lengths and addresses resemble the
    /// present ranges. No-op with fewer than [`LIKE_MIN`] ranges.
    pub(super) fn fill(&mut self, share: f64, random: &mut Generator, layout: &Layout) {
        let Some((&first, (&last, _))) =
            self.dirty.first_key_value().map(|(first, _)| first).zip(self.dirty.last_key_value())
        else {
            return;
        };
        let lengths: Vec<u64> = self.dirty.values().map(|dirty| dirty.len).collect();
        if lengths.len() < LIKE_MIN {
            return;
        }
        let target = (share * self.capacity as f64) as u64;
        let mean = lengths.iter().sum::<u64>() / lengths.len() as u64;
        // Bounded, because in a small range most writes are absorbed.
        let mut attempts = 2 * self.capacity / mean.max(1);
        while self.used < target && attempts > 0 {
            attempts -= 1;
            let len = lengths[below(random, lengths.len() as u64) as usize];
            let offset_bytes = first + below(random, (last - first) / len + 1) * len;
            if !self.has_space(len) {
                return;
            }
            self.reserve(len);
            self.insert(WriteRange { id: u32::MAX, offset_bytes, len_bytes: len }, layout);
        }
    }

    /// Returns whether the buffer contains all data from `start` to `end`.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        if self.moving.is_some_and(|m| m.start <= start && end <= m.start + m.len) {
            return true;
        }
        let mut reached = start;
        if let Some((&s, d)) = self.dirty.range(..=start).next_back() {
            reached = reached.max(s + d.len);
        }
        for (&s, d) in self.dirty.range(start..end) {
            if s > reached {
                break;
            }
            reached = reached.max(s + d.len);
        }
        reached >= end && end > start
    }

    /// Removes and returns the dirty range with the shortest access time, to destage it. With `before`,
    /// considers only ranges that a flush of all writes below this sequence number needs.
    pub(super) fn take(
        &mut self,
        now_ns: u64,
        head: Track,
        before: Option<u64>,
        layout: &Layout,
    ) -> Option<Extent> {
        while self.window.len() < self.window_max {
            let Some((start, seq)) = self.backlog.pop_front() else { break };
            if self.dirty.get(&start).is_some_and(|d| d.seq == seq) {
                self.window.insert(start, layout.place(start));
            }
        }
        let wanted =
            |start: u64| before.is_none_or(|b| self.dirty.get(&start).is_some_and(|d| d.since < b));
        let pivot = layout.first_byte(head.cylinder);
        let mut best: Option<(u64, u64)> = None;
        let mut look = |(&start, place): (&u64, &Place)| {
            let least = best.map_or(u64::MAX, |(cost, _)| cost);
            if least == 0 || layout.least_ns(head, place.track.cylinder) >= least {
                return false;
            }
            if wanted(start) {
                let cost = layout.positioning_ns(now_ns, head, place, true);
                if cost < least {
                    best = Some((cost, start));
                }
            }
            true
        };
        let _ = self.window.range(pivot..).all(&mut look);
        let _ = self.window.range(..pivot).rev().all(&mut look);
        let start = match best {
            Some((_, start)) => start,
            // A flush may wait for a range outside the window: a newer write that inherited an obligation.
            None => self.dirty.iter().find(|&(&s, _)| wanted(s)).map(|(&s, _)| s)?,
        };
        let dirty = self.dirty.remove(&start)?;
        self.dirty_bytes -= dirty.len;
        let place = self.window.remove(&start).unwrap_or_else(|| layout.place(start));
        let extent = Extent { start, len: dirty.len, place, id: dirty.id, since: dirty.since };
        self.moving = Some(extent);
        Some(extent)
    }

    /// Returns the oldest dirty range. Valid only if no window is used. With `before`, considers only ranges that a
    /// flush of all writes below this sequence number needs.
    pub(super) fn oldest(&mut self, before: Option<u64>) -> Option<Range<u64>> {
        let dirty = &self.dirty;
        let is_void = |&(start, seq): &(u64, u64)| dirty.get(&start).is_none_or(|d| d.seq != seq);
        while self.backlog.front().is_some_and(is_void) {
            self.backlog.pop_front();
        }
        let is_wanted = |dirty: &Dirty| before.is_none_or(|b| dirty.since < b);
        let first = self.backlog.front().and_then(|(start, _)| dirty.get_key_value(start));
        let wanted = first.filter(|(_, d)| is_wanted(d));
        // A newer write may have inherited the obligation for which a flush waits.
        let (&start, found) = wanted.or_else(|| dirty.iter().find(|(_, d)| is_wanted(d)))?;
        Some(start..start + found.len)
    }

    /// Removes and returns the first part of a dirty range, to destage it to `place`. `None` if no dirty range begins
    /// where `part` begins.
    pub(super) fn take_part(&mut self, part: &Range<u64>, place: Place) -> Option<Extent> {
        let dirty = self.dirty.remove(&part.start)?;
        let len = part.end - part.start;
        self.dirty_bytes -= len;
        if len < dirty.len {
            self.owe(dirty.since);
            self.dirty.insert(part.end, Dirty { len: dirty.len - len, ..dirty });
            self.backlog.push_front((part.end, dirty.seq));
        }
        let extent = Extent { start: part.start, len, place, id: dirty.id, since: dirty.since };
        self.moving = Some(extent);
        Some(extent)
    }

    /// Records that the range being destaged has reached the medium.
    pub(super) fn landed(&mut self) {
        if let Some(extent) = self.moving.take() {
            self.settle(extent.since);
            self.release(extent.len);
        }
    }

    /// Processes a power failure. Returns the acknowledged ranges that are not on the medium, without
    /// overlap. The range being destaged comes first; any part of it may be on the medium.
    pub(super) fn lose(&mut self) -> Vec<WriteRange> {
        let mut lost = Vec::new();
        if let Some(moving) = self.moving {
            let (mut from, end) = (moving.start, moving.start + moving.len);
            // A newer write over a part of it is lost as well, and that part is listed under the newer write.
            let newer = self.dirty.range(..end).filter(|(s, d)| **s + d.len > moving.start);
            for (&s, d) in newer {
                if s > from {
                    lost.push(WriteRange {
                        id: moving.id,
                        offset_bytes: from,
                        len_bytes: s - from,
                    });
                }
                from = s + d.len;
            }
            if from < end {
                lost.push(WriteRange { id: moving.id, offset_bytes: from, len_bytes: end - from });
            }
        }
        lost.extend(self.dirty.iter().map(|(&s, d)| WriteRange {
            id: d.id,
            offset_bytes: s,
            len_bytes: d.len,
        }));
        *self = Self::new(self.capacity, self.window_max as u32);
        lost
    }
}
