//! Opens a log after an orderly end or a crash: finds its segments, reads all chunks, and tells a torn end, which is cut
//! off, from damage in what was acknowledged, which is reported with its place.
//!
//! A chunk that is not valid ends the log, unless a later chunk is there that was closed when the place was durable
//! already: then an acknowledged chunk is damaged. Chunks behind the end may be whole; they were never acknowledged, since
//! a chunk is durable only when all before it are. The next epoch makes them foreign.

use crate::chunk::{Chunk, ChunkHeader, Invalid};
use crate::layout::{DESCRIPTION_BLOCK_BYTES, DESCRIPTION_OFFSETS, EpochStart, Layout};
use crate::log::{Tail, apply_chunk, note_in_index};
use crate::state::State;
use crate::storage::Storage;
use core::fmt;
use std::io;
use thiserror::Error;

/// Bytes of a slot in which a valid chunk is looked for.
const SEARCH_BYTES: u64 = 16 << 20;
/// Bytes of a read, unless chunks are longer.
const READ_BYTES: usize = 1 << 20;

/// What was found when a log was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// Its sizes.
    pub layout: Layout,
    /// Where it ends.
    pub tail: Tail,
    /// The current values and publishers.
    pub state: State,
    /// Messages that are there.
    pub messages: u64,
    /// Chunks that are there.
    pub chunks: u64,
    /// Why the log ends where it does, if something that is no chunk stands there.
    pub cut: Option<Invalid>,
    /// Places that were acknowledged and can't be read.
    pub damages: Vec<Damage>,
}

/// A part of a log that was durable, and is not valid any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its first place in the log.
    pub position: u64,
    /// The same, as an offset on the target, bytes.
    pub offset_bytes: u64,
    /// Bytes up to the next valid chunk.
    pub length_bytes: u64,
    /// Messages that are missing: number of the first, and of the first after them. None where the first is not known.
    pub messages: Option<(u64, u64)>,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, offset_bytes, length_bytes, messages, what } = self;
        write!(f, "at byte {offset_bytes} of the target (place {position} of the log) {what}; ")?;
        write!(f, "{length_bytes} bytes are skipped, ")?;
        match messages.map(|(first, end)| (first, end.saturating_sub(first))) {
            None => f.write_str("and how many messages are missing is not known"),
            Some((_, 0)) => f.write_str("no message is missing"),
            Some((first, 1)) => write!(f, "message {first} is missing"),
            Some((first, n)) => {
                let last = first + n - 1;
                write!(f, "{n} messages are missing: {first} to {last}")
            }
        }
    }
}

/// Why a log can't be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is none.
    #[error("there is no message log: neither at byte 0 nor at byte {copy} is a description of one", copy = DESCRIPTION_OFFSETS[1])]
    NoLog,
    /// The target is shorter than the log.
    #[error(
        "the log has {described_bytes} bytes, and the target {capacity_bytes}: it was cut off, or this is another target"
    )]
    Truncated {
        /// Bytes that the description names.
        described_bytes: u64,
        /// Bytes of the target.
        capacity_bytes: u64,
    },
    /// The target failed.
    #[error("the target can't be read at byte {offset_bytes}: {source}")]
    Read {
        /// Where.
        offset_bytes: u64,
        /// Its answer.
        source: io::Error,
    },
    /// The target can't be flushed.
    #[error("the target can't be flushed: {0}")]
    Flush(io::Error),
}

/// Reads the description of the log on a target.
///
/// # Errors
/// There is none, it is longer than the target, or the target fails.
pub fn describe(storage: &dyn Storage) -> Result<Layout, OpenError> {
    description(storage).map(|(layout, _)| layout)
}

/// The same with the latest epoch: that of the newer description.
fn description(storage: &dyn Storage) -> Result<(Layout, EpochStart), OpenError> {
    let mut buffer = storage.buffer(DESCRIPTION_BLOCK_BYTES);
    let mut failed = None;
    let mut newest: Option<(Layout, EpochStart)> = None;
    for offset_bytes in DESCRIPTION_OFFSETS {
        match storage.read_at(offset_bytes, (*buffer).as_mut()) {
            Ok(()) => {
                if let Some((layout, start)) = Layout::read((*buffer).as_ref())
                    && newest.is_none_or(|(_, newest)| newest.epoch < start.epoch)
                {
                    newest = Some((layout, start));
                }
            }
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(source) => failed = Some(OpenError::Read { offset_bytes, source }),
        }
    }
    let Some((layout, start)) = newest else { return Err(failed.unwrap_or(OpenError::NoLog)) };
    let (described_bytes, capacity_bytes) = (layout.capacity_bytes, storage.capacity_bytes());
    if described_bytes > capacity_bytes {
        return Err(OpenError::Truncated { described_bytes, capacity_bytes });
    }
    Ok((layout, start))
}

/// Records on the target that the log is opened for writing, and where it ends, before anything is appended. One
/// description is durable before the other is written, so that one of them is always whole.
///
/// # Errors
/// What the target answers.
pub fn begin_epoch(storage: &dyn Storage, found: &Recovered) -> io::Result<()> {
    let start = EpochStart { epoch: found.tail.epoch, position: found.tail.position };
    write_descriptions(storage, &found.layout, start)
}

fn write_descriptions(storage: &dyn Storage, layout: &Layout, start: EpochStart) -> io::Result<()> {
    let mut buffer = storage.buffer(DESCRIPTION_BLOCK_BYTES);
    (*buffer).as_mut().copy_from_slice(&layout.describe(start));
    for offset_bytes in DESCRIPTION_OFFSETS {
        storage.write_at(offset_bytes, (*buffer).as_ref())?;
        storage.flush()?;
    }
    Ok(())
}

/// Writes the descriptions of a new log, and makes them durable. What a log before it has left is foreign to it.
///
/// # Errors
/// What the target answers.
pub fn create(storage: &dyn Storage, layout: &Layout) -> io::Result<()> {
    write_descriptions(storage, layout, EpochStart::default())
}

/// Reads the whole log of a target. `visit` gets each valid chunk in the log's order.
///
/// The target is flushed before: what a killed process has written may be in a cache, and what is found counts as persisted.
///
/// # Errors
/// There is no log, or the target fails. Damage is no error: it is in the result.
pub fn recover(
    storage: &dyn Storage,
    mut visit: impl FnMut(&Chunk<'_>),
) -> Result<Recovered, OpenError> {
    let (layout, start) = description(storage)?;
    storage.flush().map_err(OpenError::Flush)?;
    let mut reader = SegmentReader::new(storage, layout);
    reader.start = start;
    let mut found = Recovered {
        layout,
        tail: Tail::empty(),
        state: State::default(),
        messages: 0,
        chunks: 0,
        cut: None,
        damages: Vec::new(),
    };
    found.tail.epoch = start.epoch + 1;
    let Some((newest, durable)) = newest_segment(&mut reader) else { return Ok(found) };
    // The last chunk decides what is kept: chunks that were never acknowledged may stand in later segments. What was durable
    // when one of them was closed is there.
    let from = layout.segment(durable.0.saturating_sub(1));
    let oldest_on_target = (newest + 1).saturating_sub(layout.slots());
    let from = from.max(oldest_on_target);
    // What was durable by all of them, and then what that makes of each.
    let durable = scan(&mut reader, (from, newest), (durable, 0), |_, _| {}).durable;
    let end = scan(&mut reader, (from, newest), (durable, 0), |_, _| {});
    let after_last = end.last.map_or(0, |last| last.position + 1);
    let durable = (end.durable, after_last);
    let last_segment = end.last.map_or(0, |last| layout.segment(last.position));
    found.tail.oldest_segment = layout.oldest_kept(last_segment).max(oldest_on_target);

    // What dropped segments hold of the state may not have been carried yet. One that is not whole is being overwritten,
    // so what it held was carried.
    let dropped_from = (last_segment + 1).saturating_sub(layout.slots()).max(oldest_on_target);
    for segment in dropped_from..found.tail.oldest_segment {
        let mut part = found.state.clone();
        let end = scan(&mut reader, (segment, segment), ((0, 0), 0), |chunk, _| {
            apply_chunk(&mut part, &layout, chunk);
        });
        let is_whole = end.gap.is_none() && end.damages.is_empty() && end.last.is_some();
        found.state = if is_whole { part } else { State::default() };
    }

    let Recovered { tail, state, messages, chunks, .. } = &mut found;
    let mut segment_before = tail.oldest_segment;
    let end = scan(&mut reader, (tail.oldest_segment, newest), durable, |chunk, before_ns| {
        visit(chunk);
        let header = &chunk.header;
        let segment = layout.segment(header.position);
        for _ in segment_before..segment {
            tail.segment_times_ns.push_back(before_ns);
        }
        segment_before = segment;
        note_in_index(&mut tail.index, header, before_ns);
        apply_chunk(state, &layout, chunk);
        *chunks += 1;
        *messages += u64::from(header.messages);
    });
    if let Some(last) = end.last {
        tail.position = layout.after(&last);
        tail.next_message = last.next_message();
        tail.checksum = last.checksum;
        tail.time_ns = last.time_ns;
    }
    tail.epoch = end.epoch_max.max(start.epoch) + 1;
    found.cut = end.gap.map(|(_, invalid)| invalid).filter(|invalid| match invalid {
        // What stood there before: nothing, another log, or a segment that was dropped.
        Invalid::NoHeader | Invalid::OtherLog(_) => false,
        Invalid::OtherPosition(at) => *at > tail.position,
        _ => true,
    });
    found.damages = end.damages;
    Ok(found)
}

/// Where a scan ended.
#[derive(Debug, Default)]
struct ScanEnd {
    last: Option<ChunkHeader>,
    /// The place behind the last chunk, and why none stands there.
    gap: Option<(u64, Invalid)>,
    damages: Vec<Damage>,
    /// The highest epoch, also of chunks that were never acknowledged.
    epoch_max: u32,
    /// All below was durable when some chunk was closed, and that chunk's epoch: what is above is of no earlier one.
    durable: (u64, u32),
}

fn proven(header: &ChunkHeader) -> (u64, u32) {
    (header.durable_position, header.epoch)
}

/// Reads the chunks of some segments, the first to the last, of a log that was durable up to a place, since an epoch; and whose last chunk
/// is known to be before another place, or not known (0). `visit` gets each valid one, and the latest time of publication
/// before it.
fn scan(
    reader: &mut SegmentReader<'_>,
    (first_segment, last_segment): (u64, u64),
    (durable, after_last): ((u64, u32), u64),
    mut visit: impl FnMut(&Chunk<'_>, u64),
) -> ScanEnd {
    let layout = reader.layout;
    let mut found = ScanEnd { durable, ..ScanEnd::default() };
    let mut position = layout.segment_start(first_segment);
    let end = layout.segment_start(last_segment + 1);
    while position < end {
        let chunk = reader.chunk(position);
        if let Ok(chunk) = &chunk {
            found.durable = found.durable.max(proven(&chunk.header));
        }
        let chunk = match chunk {
            Ok(chunk) if follows(found.last.as_ref(), &chunk.header, found.gap.is_some()) => {
                Ok(chunk)
            }
            Ok(chunk) => Err((Invalid::Stale, chunk.header.epoch)),
            Err(invalid) => Err((invalid, 0)),
        };
        // Behind a gap, what was durable is the log's, and what was closed when the place of the gap was durable: the gap is damage.
        // Anything else was written beside what is torn, and never acknowledged, or cut off by a later epoch.
        let chunk = match (chunk, &found.gap) {
            (Ok(chunk), Some((from, _))) => {
                let ChunkHeader { durable_position, epoch, .. } = chunk.header;
                let (durable, since_epoch) = found.durable;
                let is_proof = durable_position > *from || position < after_last;
                if position < durable || (is_proof && epoch >= since_epoch) {
                    Ok(chunk)
                } else {
                    Err((Invalid::Stale, epoch))
                }
            }
            (chunk, _) => chunk,
        };
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err((invalid, epoch)) => {
                found.epoch_max = found.epoch_max.max(epoch);
                found.gap.get_or_insert((position, invalid));
                position += u64::from(layout.align_bytes);
                continue;
            }
        };
        let header = chunk.header;
        if let Some((from, invalid)) = found.gap.take() {
            let of_log = (first_segment == 0).then_some(1);
            let expected = found.last.map_or(of_log, |last| Some(last.next_message()));
            found.damages.push(Damage {
                position: from,
                offset_bytes: layout.offset_bytes(from),
                length_bytes: header.position - from,
                messages: expected.map(|expected| (expected, header.first_message)),
                what: invalid.to_string(),
            });
        }
        visit(&chunk, found.last.map_or(0, |last| last.time_ns));
        found.epoch_max = found.epoch_max.max(header.epoch);
        position = layout.after(&header);
        found.last = Some(header);
    }
    found
}

/// Whether a valid chunk may stand after `last`; behind a gap its predecessor is unknown.
fn follows(last: Option<&ChunkHeader>, next: &ChunkHeader, after_gap: bool) -> bool {
    let Some(last) = last else { return true };
    let expected = last.next_message();
    let is_next = next.previous_checksum == last.checksum && next.first_message == expected;
    next.epoch >= last.epoch && (is_next || (after_gap && next.first_message >= expected))
}

/// The newest segment that holds a valid chunk, and the place below which all was durable when one of its chunks was closed. None:
/// the log is empty.
fn newest_segment(reader: &mut SegmentReader<'_>) -> Option<(u64, (u64, u32))> {
    let layout = reader.layout;
    let newest = (0..layout.slots()).filter_map(|slot| reader.newest_in(slot));
    let newest = newest.max_by_key(|header| layout.segment(header.position))?;
    Some((layout.segment(newest.position), proven(&newest)))
}

/// Reads chunks one after the other, in large reads.
pub struct SegmentReader<'a> {
    storage: &'a dyn Storage,
    layout: Layout,
    buffer: Box<dyn crate::storage::Buffer>,
    /// What the buffer holds: offset on the target, and bytes.
    held: (u64, usize),
    /// The block behind that can't be read.
    failed: Option<io::ErrorKind>,
    /// Chunks that this cuts off are none.
    start: EpochStart,
}

impl fmt::Debug for SegmentReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentReader").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl<'a> SegmentReader<'a> {
    /// For the log of that layout.
    pub fn new(storage: &'a dyn Storage, layout: Layout) -> Self {
        let bytes = READ_BYTES.max(layout.chunk_bytes as usize * 2);
        Self {
            storage,
            layout,
            buffer: storage.buffer(bytes),
            held: (0, 0),
            failed: None,
            start: EpochStart::default(),
        }
    }

    /// The chunk at a place of the log.
    ///
    /// # Errors
    /// Why there is none.
    pub fn chunk(&mut self, position: u64) -> Result<Chunk<'_>, Invalid> {
        let layout = self.layout;
        let (offset_bytes, left_bytes) =
            (layout.offset_bytes(position), layout.left_in_segment(position));
        let failed = self.read(offset_bytes, left_bytes);
        let start = self.start;
        let bytes = self.bytes_at(offset_bytes, left_bytes);
        match (Chunk::parse(bytes, layout.log_id, position), failed) {
            (Err(Invalid::NoHeader | Invalid::Cut), Some(kind)) => Err(Invalid::Unreadable(kind)),
            (Ok(chunk), _) if start.cuts_off(&chunk.header) => Err(Invalid::Stale),
            (Ok(chunk), _) if !chunk.header.length_bytes.is_multiple_of(layout.align_bytes) => {
                Err(Invalid::Record)
            }
            (chunk, _) => chunk,
        }
    }

    /// Makes the buffer hold a chunk at an offset, as far as that can be read; else says why not.
    fn read(&mut self, offset_bytes: u64, left_bytes: u64) -> Option<io::ErrorKind> {
        let wanted = left_bytes.min(self.layout.chunk_bytes.into());
        let (held_at, held_end) = (self.held.0, self.held.0 + self.held.1 as u64);
        let is_held = held_at <= offset_bytes && offset_bytes + wanted <= held_end;
        let is_before_failed =
            self.failed.is_some() && held_at <= offset_bytes && offset_bytes < held_end;
        if is_held {
            return None;
        }
        if is_before_failed {
            return self.failed;
        }
        let bytes = left_bytes.min((*self.buffer).as_ref().len() as u64) as usize;
        let to = &mut (*self.buffer).as_mut()[..bytes];
        (self.held, self.failed) = ((offset_bytes, bytes), None);
        if self.storage.read_at(offset_bytes, to).is_ok() {
            return None;
        }
        // What can't be read may lie behind the chunk.
        let mut read_bytes = 0;
        for block in to.chunks_mut(self.layout.align_bytes as usize) {
            if let Err(e) = self.storage.read_at(offset_bytes + read_bytes as u64, block) {
                self.failed = Some(e.kind());
                break;
            }
            read_bytes += block.len();
        }
        self.held.1 = read_bytes;
        self.failed.filter(|_| (read_bytes as u64) < wanted)
    }

    /// What the buffer holds of a chunk at an offset.
    fn bytes_at(&self, offset_bytes: u64, left_bytes: u64) -> &[u8] {
        let wanted = left_bytes.min(self.layout.chunk_bytes.into()) as usize;
        let (held_at, held_bytes) = self.held;
        let held = &(*self.buffer).as_ref()[(offset_bytes - held_at) as usize..held_bytes];
        &held[..wanted.min(held.len())]
    }

    /// Forgets what it has read: the log may have been written meanwhile.
    pub fn forget(&mut self) {
        (self.held, self.failed) = ((0, 0), None);
    }

    /// A chunk of the newest segment that has been in a slot, by the chunks in it that are whole. A slot in which none of the
    /// first [`SEARCH_BYTES`] is valid counts as empty: to read all of a large target that was hardly used would take hours.
    fn newest_in(&mut self, slot: u64) -> Option<ChunkHeader> {
        let layout = self.layout;
        let end = layout.segment_bytes.min(SEARCH_BYTES.max(layout.chunk_bytes.into()));
        let mut newest: Option<ChunkHeader> = None;
        let mut at = 0;
        while at < end {
            let offset_bytes = layout.offset_bytes(layout.segment_start(slot)) + at;
            let left_bytes = layout.segment_bytes - at;
            self.read(offset_bytes, left_bytes);
            let start = self.start;
            let bytes = self.bytes_at(offset_bytes, left_bytes);
            let header = ChunkHeader::peek(bytes)
                .filter(|header| !start.cuts_off(header))
                .filter(|header| layout.offset_bytes(header.position) == offset_bytes)
                .filter(|header| Chunk::parse(bytes, layout.log_id, header.position).is_ok());
            let step = header.map_or(0, |header| header.length_bytes);
            at += u64::from(step.max(1).next_multiple_of(layout.align_bytes));
            let segment = |header: &ChunkHeader| layout.segment(header.position);
            if header.as_ref().map(segment) > newest.as_ref().map(segment) {
                newest = header;
            }
        }
        newest
    }
}
