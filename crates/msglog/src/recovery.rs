//! Opens a log after an orderly end or a crash: finds its segments, reads all chunks, and tells a torn end, which is cut
//! off, from damage in what was acknowledged, which is reported with its place.
//!
//! A chunk that is not valid ends the log, unless a later chunk is there that was closed when the place was durable
//! already: then an acknowledged chunk is damaged. Chunks behind the end may be whole; they were never acknowledged, since
//! a chunk is durable only when all before it are. The next epoch makes them foreign.

use crate::chunk::{CHUNK_HEADER_BYTES, Chunk, ChunkHeader, Invalid};
use crate::layout::{DESCRIPTION_BLOCK_BYTES, DESCRIPTION_OFFSETS, EpochStart, Layout};
use crate::log::{Tail, apply_chunk, note_in_index};
use crate::segment_reader::{Heads, SegmentReader};
use crate::state::State;
use crate::storage::{ReadAhead, Storage};
use core::fmt;
use core::ops::ControlFlow;
use std::io;
use thiserror::Error;

/// Bytes of the newest segment in which a proof is looked for that it belongs to the log.
const PROOF_BYTES: u64 = 8 << 20;

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

impl Recovered {
    /// A log that was just made.
    pub fn of_new(layout: Layout) -> Self {
        let tail = Tail::empty();
        let state = State::default();
        Self { layout, tail, state, messages: 0, chunks: 0, cut: None, damages: Vec::new() }
    }
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
    visit: impl FnMut(&Chunk<'_>),
) -> Result<Recovered, OpenError> {
    recover_ahead(storage, None, visit)
}

/// The same; what follows is read meanwhile.
///
/// # Errors
/// As there.
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
    let Bounds { newest, oldest, last, evidence, .. } = bounds;
    found.tail.oldest_segment = oldest;

    // What dropped segments hold of the state may not have been carried yet. One that is not whole is being overwritten,
    // so what it held was carried.
    let oldest_on_target = (newest + 1).saturating_sub(layout.slots());
    let dropped_from = (last + 1).saturating_sub(layout.slots()).max(oldest_on_target);
    for segment in dropped_from..oldest {
        let mut part = found.state.clone();
        let end = scan_segments(&mut reader, segment..=segment, None, |chunk, _| {
            apply_chunk(&mut part, &layout, chunk);
            ControlFlow::Continue(())
        });
        let is_whole = end.gap.is_none() && end.damages.is_empty() && end.last.is_some();
        found.state = if is_whole { part } else { State::default() };
    }

    let Recovered { tail, state, messages, chunks, .. } = &mut found;
    let mut segment_before = tail.oldest_segment;
    let end = scan_segments(&mut reader, oldest..=newest, Some(evidence), |chunk, before_ns| {
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
    found.cut = end.gap.map(|(_, invalid)| invalid).filter(|invalid| match invalid {
        // What stood there before: nothing, another log, or a segment that was dropped.
        Invalid::NoHeader | Invalid::OtherLog(_) => false,
        Invalid::OtherPosition(at) => *at > tail.position,
        _ => true,
    });
    found.damages = end.damages;
    Ok(found)
}

/// What a part of a log was found to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Number of the message behind the last chunk that was visited; 1 where there was none.
    pub next_message: u64,
    /// Places that were acknowledged and can't be read.
    pub damages: Vec<Damage>,
}

/// Reads a log from the segment on in which a message lies, or messages of a time begin, to its end; and keeps nothing of it.
/// `visit` gets each valid chunk in the log's order, until it breaks.
///
/// # Errors
/// There is no log, or the target fails.
pub fn replay(
    storage: &dyn Storage,
    ahead: Option<Box<dyn ReadAhead>>,
    from: ReplayFrom,
    visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
) -> Result<Replayed, OpenError> {
    let (_, mut reader, bounds) = open(storage, ahead)?;
    let Some(Bounds { heads, newest, oldest, last, evidence }) = bounds else {
        return Ok(Replayed { next_message: 1, damages: Vec::new() });
    };
    let is_before = |head: &ChunkHeader| match from {
        ReplayFrom::Message(number) => head.first_message <= number,
        // All that was published before this chunk is older than what is in it.
        ReplayFrom::TimeNs(time_ns) => head.time_ns < time_ns,
    };
    // The last segment that begins before it. Chunks that never were of one log may leave none.
    let heads = heads.of_segments.iter().rev().filter(|it| (oldest..=last).contains(it.0));
    let first = heads.filter(|(_, head)| is_before(head)).map(|(&segment, _)| segment).next();
    let first = first.unwrap_or(oldest);
    let end = scan_segments(&mut reader, first..=newest, Some(evidence), |chunk, _| visit(chunk));
    let next_message = end.last.map_or(1, |last| last.next_message());
    Ok(Replayed { next_message, damages: end.damages })
}

/// Where a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayFrom {
    /// With a message, or the first after it that is there.
    Message(u64),
    /// With the first message of this time or later, ns since 1970.
    TimeNs(u64),
}

/// Which segments a log has.
struct Bounds {
    heads: Heads,
    /// The newest in which a valid chunk stands, also of those that were never acknowledged.
    newest: u64,
    /// The oldest that is kept, and the one with the last chunk.
    oldest: u64,
    last: u64,
    /// What decides on chunks behind a gap.
    evidence: Evidence,
}

/// What is known of a log's end before it is read. The rest is found out when a scan meets the first gap: in a log without
/// damage that is its end.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    /// All below this place was durable when some chunk was closed, and that chunk's epoch.
    durable: (u64, u32),
    /// The log ends in this segment, or in a later one.
    ends_from: u64,
}

/// Opens a target for reading, and finds where its log begins, and in which segment it ends; None: it holds no chunk.
fn open(
    storage: &dyn Storage,
    ahead: Option<Box<dyn ReadAhead>>,
) -> Result<(Layout, SegmentReader<'_>, Option<Bounds>), OpenError> {
    let (layout, start) = description(storage)?;
    storage.flush().map_err(OpenError::Flush)?;
    let mut reader = SegmentReader::new(storage, layout).of_epoch(start).with_ahead(ahead);
    let bounds = bounds(&mut reader);
    Ok((layout, reader, bounds))
}

fn bounds(reader: &mut SegmentReader<'_>) -> Option<Bounds> {
    let layout = *reader.layout();
    let heads = reader.heads();
    let newest_head = heads.newest?;
    let newest = layout.segment(newest_head.position);
    let oldest_on_target = (newest + 1).saturating_sub(layout.slots());
    let (last, evidence) = if let Some(durable) = proof_of_segment(reader, newest) {
        (newest, Evidence { durable, ends_from: newest })
    } else {
        let durable = proven(&newest_head);
        let ends_from = layout.segment(durable.0.saturating_sub(1)).max(oldest_on_target);
        let evidence = Evidence { durable, ends_from };
        (last_segment(reader, newest, evidence), evidence)
    };
    reader.ends_at(layout.segment_start(newest + 1));
    let oldest = layout.oldest_kept(last).max(oldest_on_target);
    Some(Bounds { heads, newest, oldest, last, evidence })
}

/// What was durable when one of the first chunks of a segment was closed, if another one of the segment was: then the log
/// does not end before it.
fn proof_of_segment(reader: &mut SegmentReader<'_>, segment: u64) -> Option<(u64, u32)> {
    let start = reader.layout().segment_start(segment);
    let end = start + reader.layout().segment_bytes.min(PROOF_BYTES);
    reader.ends_at(end);
    let found = scan(reader, start..end, Scanned::default(), None, |chunk, _| {
        let proves = chunk.header.durable_position > start;
        if proves { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.last.filter(|last| last.durable_position > start).map(|_| found.durable)
}

/// The segment with the last chunk of the log, where those of the newest prove nothing: they may never have been acknowledged.
fn last_segment(reader: &mut SegmentReader<'_>, newest: u64, evidence: Evidence) -> u64 {
    let layout = *reader.layout();
    let end = layout.segment_start(newest + 1);
    reader.ends_at(end);
    let range = layout.segment_start(evidence.ends_from)..end;
    let begin = Scanned { durable: evidence.durable, ..Scanned::default() };
    let found = settled(reader, range, begin);
    found.last.map_or(0, |last| layout.segment(last.position))
}

/// What a scan has found so far.
#[derive(Clone, Debug, Default)]
struct Scanned {
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

/// Reads the chunks of some segments of a log, the first to the last. `visit` gets each valid one, and the latest time of
/// publication before it, until it breaks.
fn scan_segments(
    reader: &mut SegmentReader<'_>,
    segments: core::ops::RangeInclusive<u64>,
    evidence: Option<Evidence>,
    visit: impl FnMut(&Chunk<'_>, u64) -> ControlFlow<()>,
) -> Scanned {
    let layout = *reader.layout();
    let range = layout.segment_start(*segments.start())..layout.segment_start(segments.end() + 1);
    let durable = evidence.map_or((0, 0), |it| it.durable);
    scan(reader, range, Scanned { durable, ..Scanned::default() }, evidence, visit)
}

/// Goes on with a scan from a place. With `evidence` it finds out at its first gap what was durable, and where the log ends;
/// otherwise it knows of that what it has read.
fn scan(
    reader: &mut SegmentReader<'_>,
    range: core::ops::Range<u64>,
    mut found: Scanned,
    mut evidence: Option<Evidence>,
    mut visit: impl FnMut(&Chunk<'_>, u64) -> ControlFlow<()>,
) -> Scanned {
    let layout = *reader.layout();
    // The last chunk is before this place; 0 where that is not known.
    let mut after_last = 0;
    let mut position = range.start;
    while position < range.end {
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
                if let Some(evidence) = evidence.take() {
                    let ahead = look_behind_gap(reader, position, &range, &found, evidence);
                    found.durable = found.durable.max(ahead.durable);
                    found.epoch_max = found.epoch_max.max(ahead.epoch_max);
                    after_last = ahead.last.map_or(0, |last| last.position + 1);
                    if after_last <= position {
                        break;
                    }
                }
                position += u64::from(layout.align_bytes);
                continue;
            }
        };
        let header = chunk.header;
        if let Some((from, invalid)) = found.gap.take() {
            let of_log = (range.start == 0).then_some(1);
            let expected = found.last.map_or(of_log, |last| Some(last.next_message()));
            found.damages.push(Damage {
                position: from,
                offset_bytes: layout.offset_bytes(from),
                length_bytes: header.position - from,
                messages: expected.map(|expected| (expected, header.first_message)),
                what: invalid.to_string(),
            });
        }
        let flow = visit(&chunk, found.last.map_or(0, |last| last.time_ns));
        found.epoch_max = found.epoch_max.max(header.epoch);
        position = layout.after(&header);
        found.last = Some(header);
        if flow.is_break() {
            break;
        }
    }
    found
}

/// What a scan of a range that has met its first gap needs to know: what was durable by the chunks of the last segments, and
/// which of them is the last.
fn look_behind_gap(
    reader: &mut SegmentReader<'_>,
    gap: u64,
    range: &core::ops::Range<u64>,
    found: &Scanned,
    evidence: Evidence,
) -> Scanned {
    let start = reader.layout().segment_start(evidence.ends_from);
    // Up to the gap it would find what was found.
    let goes_on = range.start <= start && start <= gap;
    let (from, begin) = if goes_on {
        (gap, found.clone())
    } else {
        (start, Scanned { durable: evidence.durable, ..Scanned::default() })
    };
    settled(reader, from..range.end, begin)
}

/// Scans as often as what a chunk proves changes what is known at the start: it decides on chunks before it, too. The log does
/// not end before what is durable, so the last scan begins in that segment: it finds the same end, wherever the first began.
fn settled(
    reader: &mut SegmentReader<'_>,
    mut range: core::ops::Range<u64>,
    mut begin: Scanned,
) -> Scanned {
    let layout = *reader.layout();
    loop {
        let on = |_: &Chunk<'_>, _| ControlFlow::Continue(());
        let end = scan(reader, range.clone(), begin.clone(), None, on);
        if end.durable == begin.durable {
            return end;
        }
        begin.durable = end.durable;
        let start = layout.segment_start(layout.segment(end.durable.0.saturating_sub(1)));
        if start > range.start {
            range.start = start;
            let Scanned { epoch_max, durable, .. } = end;
            begin = Scanned { epoch_max, durable, ..Scanned::default() };
        }
    }
}

/// Whether a valid chunk may stand after `last`; behind a gap its predecessor is unknown.
fn follows(last: Option<&ChunkHeader>, next: &ChunkHeader, after_gap: bool) -> bool {
    let Some(last) = last else { return true };
    let expected = last.next_message();
    let is_next = next.previous_checksum == last.checksum && next.first_message == expected;
    next.epoch >= last.epoch && (is_next || (after_gap && next.first_message >= expected))
}
