//! Opens a log after a clean shutdown or a crash: finds its segments and reads all chunks. A torn tail is cut off;
//! damage to acknowledged data is reported with its position.
//!
//! An invalid chunk normally ends the log. It is damage instead if the header of a later chunk states that the invalid
//! chunk's position was already durable. Intact chunks after the end were never acknowledged, since a chunk is durable
//! only if all before it are. The next epoch invalidates them.

mod bounds;
mod cases;
mod scan;

use crate::chunk::{CHUNK_HEADER_BYTES, Chunk, ChunkHeader, Invalid};
use crate::layout::{DESCRIPTION_BLOCK_BYTES, DESCRIPTION_OFFSETS, EpochStart, Layout};
use crate::log::{Tail, apply_chunk, note_in_index};
use crate::segment_reader::SegmentReader;
use crate::state::State;
use crate::storage::{ReadAhead, ReadFailure, Storage};
use bounds::{Bounds, bounds};
use core::fmt;
use core::ops::ControlFlow;
use scan::{require_readable_end, scan_segments, torn_tail};
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Result of recovery: the end of the log, its state and its damage.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// Sizes and identifier of the log.
    pub layout: Layout,
    /// End of the log, at which writing continues.
    pub tail: Tail,
    /// Current values and publishers at the end of the log.
    pub state: State,
    /// Number of messages in the log's valid chunks.
    pub messages: u64,
    /// Number of valid chunks in the log.
    pub chunks: u64,
    /// Reason why the bytes after the log's end are not a valid chunk. `None` if no torn tail was discarded.
    pub cut: Option<Invalid>,
    /// Damaged ranges of data that had been acknowledged, and unreadable ranges of dropped segments, which may hold
    /// current values.
    pub damages: Vec<Damage>,
}

impl Recovered {
    /// Creates the recovery result of a log that was just created.
    pub fn of_new(layout: Layout) -> Self {
        let tail = Tail::empty();
        let state = State::default();
        Self { layout, tail, state, messages: 0, chunks: 0, cut: None, damages: Vec::new() }
    }
}

/// A range of the log that was durable but is now invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Position in the log at which the damage starts.
    pub position: u64,
    /// Offset on the target at which the damage starts, bytes.
    pub offset_bytes: u64,
    /// Length of the damage up to the next valid chunk, bytes.
    pub length_bytes: u64,
    /// Numbers of the first missing message and of the first message after the damage. `None` if the former is unknown.
    pub messages: Option<(u64, u64)>,
    /// Reason why there is no valid chunk at the damaged position.
    pub what: Invalid,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, offset_bytes, length_bytes, messages, what } = self;
        write!(
            f,
            "at byte {offset_bytes} of the target (position {position} of the log): {what}; "
        )?;
        write!(f, "{length_bytes} bytes are skipped, ")?;
        match messages.map(|(first, end)| (first, end.saturating_sub(first))) {
            None => f.write_str("and the number of missing messages is not known"),
            Some((_, 0)) => f.write_str("no message is missing, but current values may be"),
            Some((first, 1)) => write!(f, "message {first} is missing"),
            Some((first, n)) => {
                let last = first + n - 1;
                write!(f, "{n} messages are missing: {first} to {last}")
            }
        }
    }
}

/// Reason why a log could not be opened. Damage is not an error: see [`Recovered::damages`].
#[derive(Debug, Error)]
pub enum OpenError {
    /// The target does not contain a log.
    #[error("there is no message log on the target: no description of a log was found at byte 0 or at byte {copy}", copy = DESCRIPTION_OFFSETS[1])]
    NoLog,
    /// The target is shorter than the log.
    #[error(
        "the log has {described_bytes} bytes, but the target has {capacity_bytes}: the target was truncated, or is a different target"
    )]
    Truncated {
        /// Size of the log according to its description, bytes.
        described_bytes: u64,
        /// Size of the target, bytes.
        capacity_bytes: u64,
    },
    /// Reading the log's target failed.
    #[error("the target can't be read at byte {offset_bytes}: {source}")]
    Read {
        /// Offset of the failed read on the target, bytes.
        offset_bytes: u64,
        /// Error that the target returned.
        source: Arc<io::Error>,
    },
    /// Flushing the target failed.
    #[error("the target can't be flushed: {0}")]
    Flush(io::Error),
}

impl From<ReadFailure> for OpenError {
    fn from(ReadFailure { offset_bytes, error: source }: ReadFailure) -> Self {
        Self::Read { offset_bytes, source }
    }
}

/// Reads the layout of the log on a target from its description.
///
/// # Errors
/// The target does not contain a log, is shorter than the log, or can't be read.
pub fn describe(storage: &dyn Storage) -> Result<Layout, OpenError> {
    description(storage).map(|(layout, _)| layout)
}

/// Reads both copies of the log's description on a target. Returns the layout and the epoch of the newer
/// copy.
fn description(storage: &dyn Storage) -> Result<(Layout, EpochStart), OpenError> {
    let mut buffer = storage.buffer(DESCRIPTION_BLOCK_BYTES);
    let (block_bytes, capacity_bytes) = (DESCRIPTION_BLOCK_BYTES as u64, storage.capacity_bytes());
    let mut failed = None;
    let mut newest: Option<(Layout, EpochStart)> = None;
    let is_on_target = |offset_bytes: &u64| offset_bytes + block_bytes <= capacity_bytes;
    for offset_bytes in DESCRIPTION_OFFSETS.into_iter().filter(is_on_target) {
        match storage.read_at(offset_bytes, (*buffer).as_mut()) {
            Ok(()) => {
                if let Some((layout, start)) = Layout::read((*buffer).as_ref())
                    && newest.is_none_or(|(_, newest)| newest.epoch < start.epoch)
                {
                    newest = Some((layout, start));
                }
            }
            Err(error) => failed = Some(ReadFailure { offset_bytes, error: Arc::new(error) }),
        }
    }
    let Some((layout, start)) = newest else {
        return Err(failed.map_or(OpenError::NoLog, OpenError::from));
    };
    let described_bytes = layout.capacity_bytes;
    if described_bytes > capacity_bytes {
        return Err(OpenError::Truncated { described_bytes, capacity_bytes });
    }
    Ok((layout, start))
}

/// Returns the offsets of the damaged copies of a log's description, bytes. An unreadable copy counts as damaged if the
/// other one is intact.
///
/// # Errors
/// The target can't be read, so neither copy was found.
pub fn lost_descriptions(storage: &dyn Storage, layout: &Layout) -> Result<Vec<u64>, OpenError> {
    let mut buffer = storage.buffer(DESCRIPTION_BLOCK_BYTES);
    let (mut lost, mut failed) = (Vec::new(), None);
    for offset_bytes in DESCRIPTION_OFFSETS {
        let read = storage.read_at(offset_bytes, (*buffer).as_mut());
        let is_intact = read.is_ok()
            && Layout::read((*buffer).as_ref()).is_some_and(|(found, _)| found == *layout);
        if !is_intact {
            lost.push(offset_bytes);
        }
        failed = failed.or(read.err().map(|error| (offset_bytes, Arc::new(error))));
    }
    match failed {
        Some((offset_bytes, error)) if lost.len() == DESCRIPTION_OFFSETS.len() => {
            Err(ReadFailure { offset_bytes, error }.into())
        }
        _ => Ok(lost),
    }
}

/// Starts a new epoch: records on the target that the log is open for writing and where it ends. Must be
/// called before any append. One copy of the description is durable before the other is written, so one is
/// always intact.
///
/// # Errors
/// A write or a flush of the target failed.
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

/// Creates a log: writes both copies of its description and flushes them. Chunks of an earlier log on the
/// target have another identifier and are ignored.
///
/// # Errors
/// A write or a flush of the target failed.
pub fn create(storage: &dyn Storage, layout: &Layout) -> io::Result<()> {
    write_descriptions(storage, layout, EpochStart::default())
}

/// Reads the whole log on a target, and calls `visit` with each valid chunk in order.
///
/// Flushes the target first: all chunks found will count as persisted, but writes of a killed process may still be in a
/// cache.
///
/// # Errors
/// The target does not contain a log, or its I/O fails: in particular, the log's end can't be told because the bytes there
/// are unreadable. Damage is not an error: the result lists it.
pub fn recover(
    storage: &dyn Storage,
    visit: impl FnMut(&Chunk<'_>),
) -> Result<Recovered, OpenError> {
    recover_ahead(storage, None, visit)
}

/// Recovers a log like [`recover`], with read-ahead.
///
/// # Errors
/// Same as [`recover`].
pub fn recover_ahead(
    storage: &dyn Storage,
    ahead: Option<Box<dyn ReadAhead>>,
    mut visit: impl FnMut(&Chunk<'_>),
) -> Result<Recovered, OpenError> {
    let (layout, mut reader, bounds) = open(storage, ahead)?;
    let mut found = Recovered::of_new(layout);
    let start = reader.epoch_start();
    found.tail.epoch = start.epoch + 1;
    let Some(bounds) = bounds else { return Ok(found) };
    let Bounds { heads, newest, oldest, last, evidence, is_end_readable } = bounds;
    is_end_readable?;
    found.tail.oldest_segment = oldest;

    let oldest_on_target = (newest + 1).saturating_sub(layout.slots());
    let dropped_from = (last + 1).saturating_sub(layout.slots()).max(oldest_on_target);
    found.state = state_of_dropped(&mut reader, dropped_from..oldest, &mut found.damages);

    let Recovered { tail, state, messages, chunks, .. } = &mut found;
    let mut segment_before = tail.oldest_segment;
    let mut first_message = None;
    let end = scan_segments(&mut reader, oldest..=newest, Some(evidence), |chunk, before_ns| {
        visit(chunk);
        let header = &chunk.header;
        first_message.get_or_insert(header.first_message);
        let segment = layout.segment(header.position);
        for _ in segment_before..segment {
            tail.segment_times_ns.push_back(before_ns);
        }
        segment_before = segment;
        note_in_index(&mut tail.index, header, before_ns);
        apply_chunk(state, &layout, chunk);
        *chunks += 1;
        *messages += u64::from(header.messages);
        ControlFlow::Continue(())
    });
    if let Some(last) = end.last {
        tail.position = layout.after(&last);
        tail.next_message = last.next_message();
        tail.checksum = last.checksum;
        tail.time_ns = last.time_ns;
        tail.is_ended = last.used_bytes as usize == CHUNK_HEADER_BYTES;
    }
    tail.epoch = end.epoch_max.max(start.epoch) + 1;
    found.cut = torn_tail(&end, &layout);
    require_readable_end(&end, &heads, &layout)?;
    let first_message = first_message.unwrap_or(found.tail.next_message);
    for damage in &mut found.damages {
        damage.messages = Some((first_message, first_message));
    }
    found.damages.extend(end.damages);
    Ok(found)
}

/// Reads current values and publishers from dropped segments, because they may not have been carried yet. A dropped
/// segment that is not whole is being overwritten, so its state was carried. Appends unreadable parts to `damages`: it is
/// unknown whether their state was carried.
fn state_of_dropped(
    reader: &mut SegmentReader<'_>,
    segments: core::ops::Range<u64>,
    damages: &mut Vec<Damage>,
) -> State {
    let layout = *reader.layout();
    let mut state = State::default();
    for segment in segments {
        let mut part = state.clone();
        let end = scan_segments(reader, segment..=segment, None, |chunk, _| {
            apply_chunk(&mut part, &layout, chunk);
            ControlFlow::Continue(())
        });
        let gaps = end.damages.into_iter().map(|it| (it.position, it.what)).chain(end.gap);
        state = match { gaps }.next() {
            None => part,
            Some((position, what @ Invalid::Unreadable(_))) => {
                damages.push(Damage {
                    position,
                    offset_bytes: layout.offset_bytes(position),
                    length_bytes: layout.left_in_segment(position),
                    messages: None,
                    what,
                });
                part
            }
            Some(_) => State::default(),
        };
    }
    state
}

/// Result of [`replay`]: the end of the replay, and the damage found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Number of the first message after the last visited chunk; 1 if none was visited.
    pub next_message: u64,
    /// Damaged ranges of data that had been acknowledged.
    pub damages: Vec<Damage>,
}

/// Reads a log from the segment that contains the requested start to the log's end. Calls `visit` with each valid chunk
/// in order, until it returns `Break`. Does not rebuild current values.
///
/// # Errors
/// The target does not contain a log, or its I/O fails.
pub fn replay(
    storage: &dyn Storage,
    ahead: Option<Box<dyn ReadAhead>>,
    from: ReplayFrom,
    visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
) -> Result<Replayed, OpenError> {
    let (layout, mut reader, bounds) = open(storage, ahead)?;
    let Some(Bounds { heads, newest, oldest, last, evidence, is_end_readable }) = bounds else {
        return Ok(Replayed { next_message: 1, damages: Vec::new() });
    };
    let is_before = |head: &ChunkHeader| match from {
        ReplayFrom::Message(number) => head.first_message <= number,
        // All messages published before this chunk are older than its own.
        ReplayFrom::TimeNs(time_ns) => head.time_ns < time_ns,
    };
    // The last segment that begins before the start. Chunks that never belonged to one log may leave none.
    let begun = heads.of_segments.iter().rev().filter(|it| (oldest..=last).contains(it.0));
    let first = begun.filter(|(_, head)| is_before(head)).map(|(&segment, _)| segment).next();
    let first = first.unwrap_or(oldest);
    let mut has_ended = true;
    let end = scan_segments(&mut reader, first..=newest, Some(evidence), |chunk, _| {
        let flow = visit(chunk);
        has_ended = flow.is_continue();
        flow
    });
    if has_ended {
        is_end_readable?;
        require_readable_end(&end, &heads, &layout)?;
    }
    let next_message = end.last.map_or(1, |last| last.next_message());
    Ok(Replayed { next_message, damages: end.damages })
}

/// First message of a replay, by number or by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayFrom {
    /// Start with the message with this number, or the first later one that exists.
    Message(u64),
    /// Start with the first message published at this time or later, ns since 1970.
    TimeNs(u64),
}

/// Opens a target for reading, and finds the log's first and last segment; `None` in their place if the log
/// has no chunks.
fn open(
    storage: &dyn Storage,
    ahead: Option<Box<dyn ReadAhead>>,
) -> Result<(Layout, SegmentReader<'_>, Option<Bounds>), OpenError> {
    let (layout, start) = description(storage)?;
    storage.flush().map_err(OpenError::Flush)?;
    let mut reader = SegmentReader::new(storage, layout).of_epoch(start).with_ahead(ahead);
    let bounds = bounds(&mut reader)?;
    Ok((layout, reader, bounds))
}
