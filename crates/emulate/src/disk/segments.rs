//! Read-ahead segments: recent reads from the medium, one contiguous range per segment. A new range replaces
//! the least recently used segment. `heads` decides when to read ahead.

/// A segment of the read cache: a contiguous range of bytes that were read from the medium.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    used: u64,
}

/// The read-ahead segments of a disk.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    list: Vec<Segment>,
    bytes: u64,
    clock: u64,
}

impl Segments {
    /// Creates `count` empty segments of `bytes` each; no segments if `bytes` is 0.
    pub(super) fn new(count: u32, bytes: u64) -> Self {
        let count = if bytes == 0 { 0 } else { count as usize };
        Self { list: vec![Segment::default(); count], bytes, clock: 0 }
    }

    pub(super) fn get(&self, index: usize) -> Segment {
        self.list[index]
    }

    /// Returns the index of the segment that contains all of a range, and marks it as just used; `None`
    /// if there is none.
    pub(super) fn find(&mut self, start: u64, end: u64) -> Option<usize> {
        let found = self.list.iter().position(|s| s.start <= start && end <= s.end)?;
        self.clock += 1;
        self.list[found].used = self.clock;
        Some(found)
    }

    /// Adds a range that was read: extends the segment that ends where the range begins, or replaces the
    /// least recently used one. Returns the segment's index; `None` if there are no segments.
    pub(super) fn keep(&mut self, start: u64, end: u64) -> Option<usize> {
        let continued = self
            .list
            .iter()
            .position(|s| s.end > s.start && (s.start..=s.end).contains(&start) && end > s.end);
        let index = match continued {
            Some(index) => index,
            None => (0..self.list.len()).min_by_key(|&i| self.list[i].used)?,
        };
        self.clock += 1;
        let segment = &mut self.list[index];
        segment.used = self.clock;
        if continued.is_none() {
            segment.start = start;
        }
        self.extend(index, end);
        Some(index)
    }

    /// Moves a segment's end to `end`, and drops its oldest bytes if it exceeds the segment size.
    pub(super) fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.list[index];
        segment.end = end;
        segment.start = segment.start.max(end.saturating_sub(self.bytes));
    }

    /// Drops every segment that overlaps a written range.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        for segment in &mut self.list {
            if segment.start < end && start < segment.end {
                *segment = Segment::default();
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.list.fill(Segment::default());
    }
}
