//! Opens a log after an orderly end or a crash: finds its segments, reads all chunks, and tells a torn end, which is cut
//! off, from damage in what was acknowledged, which is reported with its place.
//!
//! A chunk that is not valid ends the log, unless a later chunk is there that was closed when the place was durable
//! already: then an acknowledged chunk is damaged. Chunks behind the end may be whole; they were never acknowledged, since
//! a chunk is durable only when all before it are. The next epoch makes them foreign.

use crate::chunk::{Chunk, ChunkHeader, Invalid};
use crate::layout::{DESCRIPTION_BLOCK_BYTES, DESCRIPTION_OFFSETS, Layout};
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
    let mut buffer = storage.buffer(DESCRIPTION_BLOCK_BYTES);
    let mut failed = None;
    for offset_bytes in DESCRIPTION_OFFSETS {
        match storage.read_at(offset_bytes, (*buffer).as_mut()) {
            Ok(()) => {
                if let Some(layout) = Layout::read((*buffer).as_ref()) {
                    let (described_bytes, capacity_bytes) =
                        (layout.capacity_bytes, storage.capacity_bytes());
                    return if described_bytes > capacity_bytes {
                        Err(OpenError::Truncated { described_bytes, capacity_bytes })
                    } else {
                        Ok(layout)
                    };
                }
            }
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(source) => failed = Some(OpenError::Read { offset_bytes, source }),
        }
    }
    Err(failed.unwrap_or(OpenError::NoLog))
}

/// Writes the descriptions of a new log, and makes them durable. What a log before it has left is foreign to it.
///
/// # Errors
/// What the target answers.
pub fn create(storage: &dyn Storage, layout: &Layout) -> io::Result<()> {
    let mut buffer = storage.buffer(DESCRIPTION_BLOCK_BYTES);
    (*buffer).as_mut().copy_from_slice(&layout.describe());
    for offset_bytes in DESCRIPTION_OFFSETS {
        storage.write_at(offset_bytes, (*buffer).as_ref())?;
    }
    storage.flush()
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
    let layout = describe(storage)?;
    storage.flush().map_err(OpenError::Flush)?;
    let mut reader = SegmentReader::new(storage, layout);
    let mut found = Recovered {
        layout,
        tail: Tail::empty(),
        state: State::default(),
        messages: 0,
        chunks: 0,
        cut: None,
        damages: Vec::new(),
    };
    let Some(newest) = newest_segment(&mut reader)? else { return Ok(found) };
    // The last chunk decides what is kept: chunks that were never acknowledged may stand in later segments, as many as were
    // in flight.
    let in_flight_bytes = 64 * u64::from(layout.chunk_bytes);
    let back = 1 + in_flight_bytes.div_ceil(layout.segment_bytes);
    let from = newest.saturating_sub(back).max((newest + 1).saturating_sub(layout.slots()));
    let Some(last) = scan(&mut reader, (from, newest), |_, _| {}).last else { return Ok(found) };
    let last_segment = layout.segment(last.position);
    found.tail.oldest_segment = layout.oldest_kept(last_segment);

    // What dropped segments hold of the state may not have been carried yet. One that is not whole is being overwritten,
    // so what it held was carried.
    let dropped_from = (last_segment + 1).saturating_sub(layout.slots());
    for segment in dropped_from..found.tail.oldest_segment {
        let mut part = found.state.clone();
        let end = scan(&mut reader, (segment, segment), |chunk, _| {
            apply_chunk(&mut part, &layout, &chunk.header, chunk.bytes());
        });
        let is_whole = end.gap.is_none() && end.damages.is_empty() && end.last.is_some();
        found.state = if is_whole { part } else { State::default() };
    }

    let Recovered { tail, state, messages, chunks, .. } = &mut found;
    let mut segment_before = tail.oldest_segment;
    let end = scan(&mut reader, (tail.oldest_segment, newest), |chunk, before_ns| {
        visit(chunk);
        let header = &chunk.header;
        let segment = layout.segment(header.position);
        for _ in segment_before..segment {
            tail.segment_times_ns.push_back(before_ns);
        }
        segment_before = segment;
        note_in_index(&mut tail.index, header, before_ns);
        apply_chunk(state, &layout, header, chunk.bytes());
        *chunks += 1;
        *messages += u64::from(header.messages);
    });
    if let Some(last) = end.last {
        tail.position = layout.after(&last);
        tail.next_message = last.first_message + u64::from(last.messages);
        tail.checksum = last.checksum;
        tail.time_ns = last.time_ns;
    }
    tail.epoch = end.epoch_max + 1;
    found.cut = end.gap.map(|(_, invalid)| invalid).filter(|invalid| *invalid != Invalid::NoHeader);
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
}

/// Reads the chunks of some segments, the first to the last. `visit` gets each valid one, and the latest time of publication
/// before it.
fn scan(
    reader: &mut SegmentReader<'_>,
    (first_segment, last_segment): (u64, u64),
    mut visit: impl FnMut(&Chunk<'_>, u64),
) -> ScanEnd {
    let layout = reader.layout;
    let mut found = ScanEnd::default();
    let mut position = layout.segment_start(first_segment);
    let end = layout.segment_start(last_segment + 1);
    while position < end {
        let chunk = match reader.chunk(position) {
            Ok(chunk) if follows(found.last.as_ref(), &chunk.header, found.gap.is_some()) => {
                Ok(chunk)
            }
            Ok(chunk) => Err((Invalid::Stale, chunk.header.epoch)),
            Err(invalid) => Err((invalid, 0)),
        };
        // A chunk behind a gap proves damage only if the place of the gap was durable when it was closed. Otherwise it was
        // written beside what is torn, and never acknowledged.
        let chunk = match (chunk, &found.gap) {
            (Ok(chunk), Some((from, _))) if chunk.header.durable_position <= *from => {
                Err((Invalid::Stale, chunk.header.epoch))
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
            let expected = |last: ChunkHeader| last.first_message + u64::from(last.messages);
            found.damages.push(Damage {
                position: from,
                offset_bytes: layout.offset_bytes(from),
                length_bytes: header.position - from,
                messages: found.last.map(|last| (expected(last), header.first_message)),
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
    let is_next = next.previous_checksum == last.checksum
        && next.first_message == last.first_message + u64::from(last.messages);
    next.epoch >= last.epoch && (is_next || (after_gap && next.first_message >= last.first_message))
}

/// The newest segment that holds a valid chunk. None: the log is empty.
fn newest_segment(reader: &mut SegmentReader<'_>) -> Result<Option<u64>, OpenError> {
    let mut newest = None;
    for slot in 0..reader.layout.slots() {
        newest = newest.max(reader.segment_in(slot)?);
    }
    Ok(newest)
}

/// Reads chunks one after the other, in large reads.
pub struct SegmentReader<'a> {
    storage: &'a dyn Storage,
    layout: Layout,
    buffer: Box<dyn crate::storage::Buffer>,
    /// What the buffer holds: offset on the target, and bytes.
    held: (u64, usize),
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
        Self { storage, layout, buffer: storage.buffer(bytes), held: (0, 0) }
    }

    /// The chunk at a place of the log.
    ///
    /// # Errors
    /// Why there is none.
    pub fn chunk(&mut self, position: u64) -> Result<Chunk<'_>, Invalid> {
        let offset_bytes = self.layout.offset_bytes(position);
        let left_bytes = self.layout.left_in_segment(position);
        let wanted = left_bytes.min(self.layout.chunk_bytes.into()) as usize;
        let (held_at, held_bytes) = self.held;
        let is_held =
            offset_bytes >= held_at && offset_bytes + wanted as u64 <= held_at + held_bytes as u64;
        if !is_held {
            let mut bytes = left_bytes.min((*self.buffer).as_ref().len() as u64) as usize;
            self.held = (0, 0);
            let to = &mut (*self.buffer).as_mut()[..bytes];
            let mut read = self.storage.read_at(offset_bytes, to);
            if read.is_err() && wanted < bytes {
                // What can't be read may lie behind the chunk.
                bytes = wanted;
                read = self.storage.read_at(offset_bytes, &mut to[..wanted]);
            }
            if let Err(e) = read {
                return Err(Invalid::Unreadable(e.kind()));
            }
            self.held = (offset_bytes, bytes);
        }
        let (held_at, held_bytes) = self.held;
        let bytes = &(*self.buffer).as_ref()[(offset_bytes - held_at) as usize..held_bytes];
        Chunk::parse(bytes, self.layout.log_id, position)
    }

    /// Forgets what it has read: the log may have been written meanwhile.
    pub fn forget(&mut self) {
        self.held = (0, 0);
    }

    /// The segment that a slot holds, by the first chunk in it that is whole. A slot in which none of the first
    /// [`SEARCH_BYTES`] is valid counts as empty: to read all of a large target that was hardly used would take hours.
    fn segment_in(&mut self, slot: u64) -> Result<Option<u64>, OpenError> {
        let layout = self.layout;
        let slot_start = layout.offset_bytes(layout.segment_start(slot));
        let end = layout.segment_bytes.min(SEARCH_BYTES.max(layout.chunk_bytes.into()));
        let mut at = 0;
        while at < end {
            let offset_bytes = slot_start + at;
            let left_bytes = layout.segment_bytes - at;
            let bytes = left_bytes.min((*self.buffer).as_ref().len() as u64) as usize;
            self.held = (0, 0);
            let to = &mut (*self.buffer).as_mut()[..bytes];
            self.storage
                .read_at(offset_bytes, to)
                .map_err(|source| OpenError::Read { offset_bytes, source })?;
            let read = &(*self.buffer).as_ref()[..bytes];
            for start in (0..bytes).step_by(layout.align_bytes as usize) {
                let Some(header) = ChunkHeader::peek(&read[start..]) else { continue };
                let is_here = layout.offset_bytes(header.position) == offset_bytes + start as u64;
                if is_here && Chunk::parse(&read[start..], layout.log_id, header.position).is_ok() {
                    return Ok(Some(layout.segment(header.position)));
                }
            }
            // A chunk may begin in one read and end in the next.
            let overlap = if bytes as u64 == left_bytes { 0 } else { layout.chunk_bytes as usize };
            at += (bytes - overlap) as u64;
        }
        Ok(None)
    }
}
