//! Reads a log's chunks in order, with large reads; with a [`ReadAhead`], later parts are read in advance.

use crate::chunk::{CHUNK_HEADER_BYTES, Chunk, ChunkHeader, Invalid};
use crate::layout::{EpochStart, Layout};
use crate::storage::{Buffer, ReadAhead, ReadFailure, Storage};
use core::fmt;
use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Size of a read, bytes, unless chunks are larger. Reads end at multiples of this size on the target,
/// because many disks and stripes split a read that crosses such a boundary. On a virtual disk, such reads
/// took a sixth longer.
const READ_BYTES: usize = 1 << 20;
/// Maximum number of queued read-ahead reads: twice the number in flight, so that reads stay in flight while completed
/// ones wait to be used.
const READS_AHEAD: usize = 16;
/// Maximum total size of queued read-ahead reads, bytes.
const AHEAD_BYTES: usize = 16 << 20;
/// Number of bytes at the start of each segment that are searched for a valid chunk.
const FIRST_BYTES: u64 = 1 << 20;
/// Number of segments that are searched beyond their first [`FIRST_BYTES`] for newer chunks. The search starts at
/// the segment after the newest one found, and ends at a segment with a chunk in its first [`FIRST_BYTES`].
const SEARCH_SLOTS: u64 = 2;
/// Number of bytes at the start of a segment that are searched if it may be newer than the newest one found.
const SEARCH_BYTES: u64 = 16 << 20;
/// Maximum number of bytes searched in all segments together. The first [`FIRST_BYTES`] of each segment are searched in
/// any case.
const SEARCH_ALL_BYTES: u64 = 4 << 30;

/// Reader of a log's chunks in order, with a buffer and optional read-ahead.
pub struct SegmentReader<'a> {
    storage: &'a dyn Storage,
    layout: Layout,
    /// Size of a read, bytes: a power of two, at least a chunk.
    read_bytes: usize,
    /// Buffer for a whole read and the end of the previous one, since a chunk may span two reads.
    buffer: Box<dyn Buffer>,
    /// Index of the first valid byte in the buffer. The next field, `held`, has the valid bytes' offset on the
    /// target and their length.
    from: usize,
    held: (u64, usize),
    /// Read error of the block after the buffered bytes; `None` if no error is known.
    failed: Option<ReadFailure>,
    /// Latest epoch, and the end of the log when that epoch began. Older chunks after this end are ignored.
    start: EpochStart,
    ahead: Option<Ahead>,
}

/// Read-ahead of a reader: queued reads, and free buffers for more.
struct Ahead {
    reads: Box<dyn ReadAhead>,
    /// Position and length of each queued read, oldest first.
    begun: VecDeque<(u64, usize)>,
    free: Vec<Box<dyn Buffer>>,
    /// Position of the next read to queue, if reading stays sequential.
    next: u64,
    /// Range of positions that may be read ahead, from the last read error to the end set by
    /// [`SegmentReader::ends_at`].
    range: Range<u64>,
}

impl Ahead {
    /// Discards the oldest queued read, and reclaims its buffer.
    fn discard(&mut self) {
        self.begun.pop_front();
        self.free.extend(self.reads.take().map(|(buffer, _)| buffer));
    }
}

impl fmt::Debug for SegmentReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentReader").field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// Minimum size of a read, bytes: enough for any chunk.
fn small_read_bytes(layout: &Layout) -> usize {
    (layout.chunk_bytes as usize).next_power_of_two()
}

/// Size of a read by [`SegmentReader::new`], bytes. The buffer is twice as large: the space before the read's data is
/// for the start of a chunk that spans two reads. The buffer fills a huge page.
fn large_read_bytes(layout: &Layout) -> usize {
    READ_BYTES.max(small_read_bytes(layout))
}

/// Maximum number of queued read-ahead reads of size `read_bytes`.
fn reads_ahead(read_bytes: usize) -> usize {
    (AHEAD_BYTES / read_bytes).clamp(1, READS_AHEAD)
}

fn buffer_of(storage: &dyn Storage, read_bytes: usize) -> Box<dyn Buffer> {
    storage.buffer(2 * read_bytes)
}

impl<'a> SegmentReader<'a> {
    /// Creates a reader with large reads and without read-ahead.
    pub fn new(storage: &'a dyn Storage, layout: Layout) -> Self {
        Self::with_reads(storage, layout, large_read_bytes(&layout))
    }

    /// Creates a reader like [`Self::new`], but with minimum memory: that of two chunks.
    pub fn with_small_reads(storage: &'a dyn Storage, layout: Layout) -> Self {
        Self::with_reads(storage, layout, small_read_bytes(&layout))
    }

    /// Memory used by a reader with or without read-ahead, bytes.
    pub fn memory_bytes(layout: &Layout, ahead: bool) -> usize {
        let read_bytes = large_read_bytes(layout);
        2 * read_bytes * if ahead { 1 + reads_ahead(read_bytes) } else { 1 }
    }

    fn with_reads(storage: &'a dyn Storage, layout: Layout, read_bytes: usize) -> Self {
        Self {
            storage,
            layout,
            read_bytes,
            buffer: buffer_of(storage, read_bytes),
            from: 0,
            held: (0, 0),
            failed: None,
            start: EpochStart::default(),
            ahead: None,
        }
    }

    /// Makes the reader ignore chunks that became invalid at the start of this epoch, because they lay after the
    /// log's end.
    #[must_use]
    pub(crate) fn of_epoch(self, start: EpochStart) -> Self {
        Self { start, ..self }
    }

    /// Adds read-ahead, up to the position set by [`SegmentReader::ends_at`].
    #[must_use]
    pub fn with_ahead(self, reads: Option<Box<dyn ReadAhead>>) -> Self {
        let ahead = reads.map(|reads| Ahead {
            reads,
            begun: VecDeque::new(),
            free: Vec::new(),
            next: 0,
            range: 0..0,
        });
        Self { ahead, ..self }
    }

    /// Sets the position at which read-ahead ends. Data below it must not change, except that old segments may be
    /// dropped.
    pub fn ends_at(&mut self, position: u64) {
        if let Some(ahead) = &mut self.ahead {
            ahead.range.end = position;
        }
    }

    pub(crate) fn epoch_start(&self) -> EpochStart {
        self.start
    }

    /// Sizes and identifier of the log.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Reads and verifies the chunk at a position of the log.
    ///
    /// # Errors
    /// The position has no valid chunk. The error gives the reason.
    pub fn chunk(&mut self, position: u64) -> Result<Chunk<'_>, Invalid> {
        let layout = self.layout;
        let (offset_bytes, left_bytes) =
            (layout.offset_bytes(position), layout.left_in_segment(position));
        let failed =
            if self.takes_ahead(position) { None } else { self.read(offset_bytes, left_bytes) };
        let start = self.start;
        match parse_read(self.bytes_at(offset_bytes, left_bytes), failed, layout.log_id, position) {
            Ok(chunk) if start.cuts_off(&chunk.header) => Err(Invalid::Stale),
            Ok(chunk) if !chunk.header.length_bytes.is_multiple_of(layout.align_bytes) => {
                Err(Invalid::Record)
            }
            chunk => chunk,
        }
    }

    /// Maximum length of a chunk if its segment has `left_bytes` left, bytes.
    fn wanted(&self, left_bytes: u64) -> u64 {
        left_bytes.min(self.layout.chunk_bytes.into())
    }

    fn holds_chunk(&self, position: u64) -> bool {
        let wanted = self.wanted(self.layout.left_in_segment(position));
        self.holds(self.layout.offset_bytes(position), wanted)
    }

    fn holds(&self, offset_bytes: u64, wanted: u64) -> bool {
        let (held_at, held_end) = (self.held.0, self.held.0 + self.held.1 as u64);
        held_at <= offset_bytes && offset_bytes + wanted <= held_end
    }

    /// Takes a chunk's data from completed read-ahead, and queues more reads. Returns false if the data was not
    /// read ahead.
    fn takes_ahead(&mut self, position: u64) -> bool {
        // The first read ends at a boundary and may be shorter than a chunk: then the next one has the rest.
        self.takes_read_ahead(position)
            && (self.holds_chunk(position) || self.takes_read_ahead(position))
    }

    fn takes_read_ahead(&mut self, position: u64) -> bool {
        let layout = self.layout;
        let Some(ahead) = &self.ahead else { return false };
        let offset_bytes = layout.offset_bytes(position);
        if self.holds_chunk(position) || !ahead.range.contains(&position) {
            return false;
        }
        // The chunk may begin in the bytes already held.
        let (held_at, held_end) = (self.held.0, self.held.0 + self.held.1 as u64);
        let is_begun = self.failed.is_none() && (held_at..held_end).contains(&offset_bytes);
        let mut tail = if is_begun { (held_end - offset_bytes) as usize } else { 0 };
        let read_bytes = self.read_bytes;
        // The read is placed after the space for the chunk's beginning.
        let space = read_bytes;
        let Some(ahead) = &mut self.ahead else { return false };
        while ahead.begun.front().is_some_and(|&(at, bytes)| at + bytes as u64 <= position) {
            ahead.discard();
        }
        let goes_on =
            ahead.begun.front().map_or(ahead.next, |&(at, _)| at) == position + tail as u64;
        if !goes_on {
            while !ahead.begun.is_empty() {
                ahead.discard();
            }
            ahead.next = position;
            tail = 0;
        }
        while ahead.begun.len() < reads_ahead(self.read_bytes) {
            let at = ahead.next;
            let to_boundary = read_bytes - layout.offset_bytes(at) as usize % read_bytes;
            let bytes = layout.left_in_segment(at).min(to_boundary as u64) as usize;
            if at + bytes as u64 > ahead.range.end {
                break;
            }
            let buffer =
                ahead.free.pop().unwrap_or_else(|| buffer_of(self.storage, self.read_bytes));
            ahead.reads.begin(layout.offset_bytes(at), bytes, buffer, space);
            ahead.begun.push_back((at, bytes));
            ahead.next = at + bytes as u64;
        }
        let Some((at, bytes)) = ahead.begun.pop_front() else { return false };
        let Some((mut buffer, result)) = ahead.reads.take() else { return false };
        if result.is_err() {
            // A retry block by block finds the part that is readable.
            ahead.range.start = at + bytes as u64;
            ahead.free.push(buffer);
            return false;
        }
        let end = self.from + self.held.1;
        (*buffer).as_mut()[space - tail..space]
            .copy_from_slice(&(*self.buffer).as_ref()[end - tail..end]);
        ahead.free.push(core::mem::replace(&mut self.buffer, buffer));
        self.from = space - tail;
        (self.held, self.failed) = ((offset_bytes, tail + bytes), None);
        true
    }

    /// Reads a chunk's data from the target, up to the first unreadable block. Returns that block's error; `None` if
    /// all blocks are readable, or if that block can't be part of the chunk.
    fn read(&mut self, offset_bytes: u64, left_bytes: u64) -> Option<ReadFailure> {
        let wanted = self.wanted(left_bytes);
        let (held_at, held_end) = (self.held.0, self.held.0 + self.held.1 as u64);
        let is_before_failed =
            self.failed.is_some() && held_at <= offset_bytes && offset_bytes < held_end;
        if self.holds(offset_bytes, wanted) {
            return None;
        }
        if is_before_failed {
            return self.failed.clone();
        }
        let bytes = left_bytes.min((*self.buffer).as_ref().len() as u64) as usize;
        let to = &mut (*self.buffer).as_mut()[..bytes];
        (self.from, self.held, self.failed) = (0, (offset_bytes, bytes), None);
        if self.storage.read_at(offset_bytes, to).is_ok() {
            return None;
        }
        // The unreadable block may lie after the chunk.
        let mut read_bytes = 0;
        for block in to.chunks_mut(self.layout.align_bytes as usize) {
            let offset_bytes = offset_bytes + read_bytes as u64;
            if let Err(error) = self.storage.read_at(offset_bytes, block) {
                self.failed = Some(ReadFailure { offset_bytes, error: Arc::new(error) });
                break;
            }
            read_bytes += block.len();
        }
        self.held.1 = read_bytes;
        self.failed.clone().filter(|_| (read_bytes as u64) < wanted)
    }

    /// Buffered data of the chunk at an offset on the target, up to the chunk's maximum length.
    fn bytes_at(&self, offset_bytes: u64, left_bytes: u64) -> &[u8] {
        let wanted = self.wanted(left_bytes) as usize;
        let (held_at, held_bytes) = self.held;
        let held = &(*self.buffer).as_ref()[self.from..self.from + held_bytes];
        let held = &held[(offset_bytes - held_at) as usize..];
        &held[..wanted.min(held.len())]
    }

    /// Discards all buffered and queued reads, because the log may have changed since.
    pub fn forget(&mut self) {
        (self.held, self.failed) = ((0, 0), None);
        while let Some(ahead) = self.ahead.as_mut().filter(|ahead| !ahead.begun.is_empty()) {
            ahead.discard();
        }
    }

    /// Finds the log's segments by searching the first [`FIRST_BYTES`] of each for valid chunks. The log's last segment
    /// may have none there. Therefore the [`SEARCH_SLOTS`] segments after the newest one found so far, or all segments
    /// if none was found, are searched beyond these bytes. To read all of a large, sparsely used target would take
    /// hours.
    pub(crate) fn heads(&mut self) -> Heads {
        let layout = self.layout;
        let chunk_bytes = u64::from(layout.chunk_bytes);
        let slots = layout.slots();
        let first = FIRST_BYTES.max(chunk_bytes);
        let most = (SEARCH_ALL_BYTES / slots).clamp(FIRST_BYTES, SEARCH_BYTES).max(chunk_bytes);
        let mut heads = Heads::default();
        let mut begun = 0;
        let mut is_found = Vec::new();
        for slot in 0..slots {
            self.take_head(slot, &mut begun, first + chunk_bytes);
            is_found.push(self.note_chunks(slot, 0..first, &mut heads));
        }
        let newest = heads.newest.map(|head| layout.segment(head.position));
        let mut left = if newest.is_some() { SEARCH_SLOTS } else { slots };
        let mut segment = newest.map_or(0, |newest| newest + 1);
        while left > 0 && !is_found[(segment % slots) as usize] {
            left -= 1;
            if self.note_chunks(segment % slots, FIRST_BYTES..most, &mut heads) && newest.is_some()
            {
                left = SEARCH_SLOTS;
            }
            segment += 1;
        }
        heads
    }

    /// Takes the start of a segment from completed read-ahead, if available, and queues reads of the next
    /// segments' starts.
    fn take_head(&mut self, slot: u64, begun: &mut u64, bytes: u64) {
        let layout = self.layout;
        let Some(ahead) = &mut self.ahead else { return };
        let bytes = layout.segment_bytes.min(bytes) as usize;
        while *begun < layout.slots() && ahead.begun.len() < reads_ahead(self.read_bytes) {
            let at = layout.segment_start(*begun);
            let buffer =
                ahead.free.pop().unwrap_or_else(|| buffer_of(self.storage, self.read_bytes));
            ahead.reads.begin(layout.offset_bytes(at), bytes, buffer, 0);
            ahead.begun.push_back((at, bytes));
            *begun += 1;
        }
        ahead.begun.pop_front();
        let Some((buffer, result)) = ahead.reads.take() else { return };
        ahead.free.push(core::mem::replace(&mut self.buffer, buffer));
        let held = if result.is_ok() { bytes } else { 0 };
        let offset_bytes = layout.offset_bytes(layout.segment_start(slot));
        (self.from, self.held, self.failed) = (0, (offset_bytes, held), None);
    }

    /// Adds the valid chunks in a part of a segment to `heads`. Returns false if there are none.
    fn note_chunks(&mut self, slot: u64, part: Range<u64>, heads: &mut Heads) -> bool {
        let layout = self.layout;
        let end = layout.segment_bytes.min(part.end);
        let mut is_any = false;
        let mut at = part.start;
        while at < end {
            let offset_bytes = layout.offset_bytes(layout.segment_start(slot)) + at;
            // A chunk that begins in this part may end after it.
            let left_bytes =
                (layout.segment_bytes - at).min(end - at + u64::from(layout.chunk_bytes));
            let failed = self.read(offset_bytes, left_bytes);
            let start = self.start;
            let bytes = self.bytes_at(offset_bytes, left_bytes);
            let position = ChunkHeader::peek(bytes)
                .map(|header| header.position)
                .filter(|position| layout.offset_bytes(*position) == offset_bytes)
                .unwrap_or(layout.segment_start(slot) + at);
            let header = match parse_read(bytes, failed, layout.log_id, position) {
                Ok(chunk) => Some(chunk.header).filter(|header| !start.cuts_off(header)),
                Err(Invalid::Unreadable(failure)) if at == 0 => {
                    heads.unreadable.insert(slot, failure);
                    None
                }
                Err(_) => None,
            };
            let step = header.map_or(0, |header| header.length_bytes);
            at += u64::from(step.max(1).next_multiple_of(layout.align_bytes));
            if let Some(header) = header {
                is_any = true;
                heads.note(&layout, header);
            }
        }
        is_any
    }
}

/// Parses a chunk like [`Chunk::parse`]. `failed`: read error of the block after `bytes`, if that block may be part of the
/// chunk.
fn parse_read(
    bytes: &[u8],
    failed: Option<ReadFailure>,
    log_id: u64,
    position: u64,
) -> Result<Chunk<'_>, Invalid> {
    match (Chunk::parse(bytes, log_id, position), failed) {
        (Err(Invalid::NoHeader), Some(failure)) if bytes.len() < CHUNK_HEADER_BYTES => {
            Err(Invalid::Unreadable(failure))
        }
        (Err(Invalid::Cut), Some(failure)) => Err(Invalid::Unreadable(failure)),
        (chunk, _) => chunk,
    }
}

/// Valid chunks found near the start of a log's segments.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// Header of a valid chunk in the newest segment; `None` if no chunk was found.
    pub(crate) newest: Option<ChunkHeader>,
    /// Header of the first chunk of each segment, by segment number, where that chunk is valid.
    pub(crate) of_segments: BTreeMap<u64, ChunkHeader>,
    /// Read error of the first chunk of each slot, by slot number, where that chunk can't be read.
    pub(crate) unreadable: BTreeMap<u64, ReadFailure>,
}

impl Heads {
    fn note(&mut self, layout: &Layout, header: ChunkHeader) {
        let segment = layout.segment(header.position);
        if self.newest.is_none_or(|newest| layout.segment(newest.position) < segment) {
            self.newest = Some(header);
        }
        if header.position == layout.segment_start(segment) {
            self.of_segments.insert(segment, header);
        }
    }
}
