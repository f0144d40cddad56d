//! The media cache of a shingled disk: a circular log of written ranges, and the map that locates them. Both are
//! persistent.
//!
//! A range in the log is called a piece; it lies within one band. A newer write supersedes pieces or parts of them.
//! Log space becomes free in the order in which it was written: dead space between live pieces stays occupied.

mod steady;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A live range in the log. Stored by its offset on the disk.
#[derive(Clone, Copy, Debug)]
struct Piece {
    len: u64,
    /// Position in the cache of the piece's first byte.
    at: u64,
    /// Sequence number of the record that the piece belongs to.
    record: u64,
}

/// One write to the log.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Start of the written range on the disk, in bytes.
    start: u64,
    /// Bytes of the log from the end of the previous record to the end of this one.
    log_bytes: u64,
    /// Bytes that no newer write has superseded.
    live_bytes: u64,
}

/// Part of a range of the disk, with the location of its newest data on the platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Position of the data in the media cache; `None`: the data is in its band.
    pub(super) cached_at: Option<u64>,
}

/// The media cache of a shingled disk.
#[derive(Clone, Debug)]
pub(super) struct MediaCache {
    capacity_bytes: u64,
    entries_max: usize,
    pieces: BTreeMap<u64, Piece>,
    /// Records, oldest first, from the oldest live one.
    log: VecDeque<Record>,
    /// Sequence number of the first record in `log`.
    first: u64,
    /// Position at which the next record begins, unless it must wrap around.
    tail: u64,
    /// Bytes of the log that the records occupy.
    used_bytes: u64,
    live_bytes: u64,
}

impl MediaCache {
    /// Creates an empty cache of `capacity_bytes` and at most `entries_max` pieces.
    pub(super) fn new(capacity_bytes: u64, entries_max: u32) -> Self {
        Self {
            capacity_bytes,
            entries_max: entries_max as usize,
            pieces: BTreeMap::new(),
            log: VecDeque::new(),
            first: 0,
            tail: 0,
            used_bytes: 0,
            live_bytes: 0,
        }
    }

    /// Returns the bytes of all pieces, and the bytes at which the cache is full if further pieces have the same mean
    /// length.
    pub(super) fn level(&self) -> (u64, u64) {
        let pieces = self.pieces.len();
        let most = self.live_bytes as f64 * (self.entries_max as f64 / pieces as f64).max(1.0);
        let capacity =
            if pieces == 0 { self.capacity_bytes } else { self.capacity_bytes.min(most as u64) };
        (self.live_bytes, capacity)
    }

    /// Returns the position at which a piece of `len` bytes would begin; `None`: the cache is too full for it. An
    /// empty cache takes any piece of at most its capacity.
    pub(super) fn position(&self, len: u64) -> Option<u64> {
        let (at, _) = self.space(len)?;
        (self.pieces.len() < self.entries_max).then_some(at)
    }

    /// Finds contiguous free space for the next `len` bytes. Returns its position, and the number of bytes skipped at the
    /// end of the cache if the space is at its start; `None`: they do not fit.
    fn space(&self, len: u64) -> Option<(u64, u64)> {
        let to_end = self.capacity_bytes - self.tail;
        if len <= to_end {
            return (self.used_bytes + len <= self.capacity_bytes).then_some((self.tail, 0));
        }
        let skipped = if self.log.is_empty() { 0 } else { to_end };
        (self.used_bytes + skipped + len <= self.capacity_bytes).then_some((0, skipped))
    }

    /// Appends a piece for which there is space, at [`Self::position`]. It supersedes all pieces of its range.
    pub(super) fn append(&mut self, range: Range<u64>) {
        let len = range.end - range.start;
        self.supersede(range.clone());
        let Some((at, skipped)) = self.space(len) else {
            unreachable!("no space for {range:?}, which fitted before older data was dropped")
        };
        self.push(range.start, len, at, skipped + len);
    }

    /// Adds a record of which all bytes are live.
    fn push(&mut self, start: u64, len: u64, at: u64, log_bytes: u64) {
        let record = self.first + self.log.len() as u64;
        self.log.push_back(Record { start, log_bytes, live_bytes: len });
        self.pieces.insert(start, Piece { len, at, record });
        self.tail = at + len;
        self.used_bytes += log_bytes;
        self.live_bytes += len;
    }

    /// Removes all pieces and parts of pieces of a range, because newer data is in the band or on its way to the log.
    pub(super) fn supersede(&mut self, range: Range<u64>) {
        let hit: Vec<(u64, Piece)> = self.overlapping(&range).collect();
        for (start, piece) in hit {
            let end = start + piece.len;
            let (from, to) = (start.max(range.start), end.min(range.end));
            self.pieces.remove(&start);
            if start < from {
                self.pieces.insert(start, Piece { len: from - start, ..piece });
            }
            if to < end {
                let rest = Piece { len: end - to, at: piece.at + (to - start), ..piece };
                self.pieces.insert(to, rest);
            }
            self.log[(piece.record - self.first) as usize].live_bytes -= to - from;
            self.live_bytes -= to - from;
        }
        while let Some(oldest) = self.log.front()
            && oldest.live_bytes == 0
        {
            self.used_bytes -= oldest.log_bytes;
            self.first += 1;
            self.log.pop_front();
        }
    }

    /// Returns the pieces that overlap a range, in address order.
    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, Piece)> {
        let first = self.pieces.range(..range.start).next_back();
        let first = first.filter(|(start, piece)| *start + piece.len > range.start);
        first.into_iter().chain(self.pieces.range(range.clone())).map(|(&s, &piece)| (s, piece))
    }

    /// Returns the places of the newest data of a range, in address order; at least one.
    pub(super) fn sources(&self, range: Range<u64>) -> Vec<Source> {
        let mut sources = Vec::new();
        let mut reached = range.start;
        for (start, piece) in self.overlapping(&range) {
            if start > reached {
                sources.push(Source { start: reached, end: start, cached_at: None });
            }
            let (from, to) = (start.max(range.start), (start + piece.len).min(range.end));
            sources.push(Source {
                start: from,
                end: to,
                cached_at: Some(piece.at + (from - start)),
            });
            reached = to;
        }
        if reached < range.end || sources.is_empty() {
            sources.push(Source { start: reached, end: range.end, cached_at: None });
        }
        sources
    }

    /// Returns where the first piece at or after `from` begins; `from` if a piece contains it, `u64::MAX` if there is
    /// none.
    pub(super) fn next_piece(&self, from: u64) -> u64 {
        let next = self.overlapping(&(from..u64::MAX)).next();
        next.map_or(u64::MAX, |(start, _)| start.max(from))
    }

    /// Returns the offset on the disk of the oldest write that is still in the cache; `None`: the cache is empty.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.log.front().map(|record| record.start)
    }
}
