//! Reads the chunks of a range in order, and decides at each position whether it holds the next chunk, damage or a
//! torn tail; `cases.rs` has the table of decisions.

use super::cases::{Conditions, Decision};
use super::{Damage, Evidence};
use crate::chunk::{Chunk, ChunkHeader, Invalid};
use crate::segment_reader::SegmentReader;
use core::ops::ControlFlow;

/// Progress of a scan over a log's chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct Scanned {
    /// Header of the last accepted chunk.
    pub last: Option<ChunkHeader>,
    /// Start of the current gap, which is the position after the last accepted chunk, and why no chunk was accepted
    /// there.
    pub gap: Option<(u64, Invalid)>,
    /// Ranges of acknowledged data that are damaged.
    pub damages: Vec<Damage>,
    /// Highest epoch of any chunk, including chunks that were never acknowledged.
    pub epoch_max: u32,
    /// Highest durable position that any chunk states, and that chunk's epoch. Chunks above that position are of that
    /// epoch or later.
    pub durable: (u64, u32),
}

impl Scanned {
    /// Determines the conditions at a position, given the header of the valid chunk there, if any. `after_last` is an
    /// exclusive upper bound of the last chunk's position, or 0.
    fn conditions(&self, at: u64, header: Option<&ChunkHeader>, after_last: u64) -> Conditions {
        let Some(header) = header else { return Conditions::default() };
        let gap = self.gap.map(|(from, _)| from);
        let (durable, since_epoch) = self.durable;
        Conditions {
            is_valid: true,
            is_in_order: follows(self.last.as_ref(), header, gap.is_some()),
            is_after_gap: gap.is_some(),
            is_durable: at < durable,
            saw_gap_durable: gap.is_some_and(|from| header.durable_position > from),
            is_before_last: at < after_last,
            is_epoch_current: header.epoch >= since_epoch,
        }
    }
}

/// The durable position that a chunk states, with its epoch.
pub(super) fn proven(header: &ChunkHeader) -> (u64, u32) {
    (header.durable_position, header.epoch)
}

/// Scans some segments of a log in order. Calls `visit` with each accepted chunk and the latest time of publication
/// before it, until it breaks.
pub(super) fn scan_segments(
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

/// Continues a scan over a range of positions. With `evidence`, the scan looks beyond the first gap for the durable
/// position and the log's end; without, it uses only chunks that it has already read.
pub(super) fn scan(
    reader: &mut SegmentReader<'_>,
    range: core::ops::Range<u64>,
    mut found: Scanned,
    mut evidence: Option<Evidence>,
    mut visit: impl FnMut(&Chunk<'_>, u64) -> ControlFlow<()>,
) -> Scanned {
    let layout = *reader.layout();
    // Upper bound of the last chunk's position; 0 if it is not known.
    let mut after_last = 0;
    let mut position = range.start;
    while position < range.end {
        let chunk = reader.chunk(position);
        if let Ok(chunk) = &chunk {
            found.durable = found.durable.max(proven(&chunk.header));
        }
        let header = chunk.as_ref().ok().map(|chunk| chunk.header);
        let decision = found.conditions(position, header.as_ref(), after_last).decision();
        found.epoch_max = found.epoch_max.max(header.map_or(0, |header| header.epoch));
        let chunk = match (decision, chunk) {
            (Decision::Accept | Decision::Damage, Ok(chunk)) => chunk,
            (_, chunk) => {
                let invalid = chunk.map_or_else(|invalid| invalid, |_| Invalid::Stale);
                found.gap.get_or_insert((position, invalid));
                if let Some(evidence) = evidence.take() {
                    let ahead = look_beyond_gap(reader, position, &range, &found, evidence);
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
        position = layout.after(&header);
        found.last = Some(header);
        if flow.is_break() {
            break;
        }
    }
    found
}

/// Looks beyond a scan's first gap for the durable position that chunks of the last segments state, and for the log's
/// last chunk.
fn look_beyond_gap(
    reader: &mut SegmentReader<'_>,
    gap: u64,
    range: &core::ops::Range<u64>,
    found: &Scanned,
    evidence: Evidence,
) -> Scanned {
    let start = reader.layout().segment_start(evidence.ends_from);
    // Up to the gap, the result would be the same as in `found`.
    let goes_on = range.start <= start && start <= gap;
    let (from, begin) = if goes_on {
        (gap, found.clone())
    } else {
        (start, Scanned { durable: evidence.durable, ..Scanned::default() })
    };
    settled(reader, from..range.end, begin)
}

/// Repeats a scan until the durable position that it finds is the one that it began with, because that position also
/// decides on earlier chunks. The log does not end before the durable position, so the last scan begins in its
/// segment: the end that it finds does not depend on where the first one began.
pub(super) fn settled(
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

/// Whether a valid chunk may follow `last`; after a gap its predecessor is not known.
fn follows(last: Option<&ChunkHeader>, next: &ChunkHeader, after_gap: bool) -> bool {
    let Some(last) = last else { return true };
    let expected = last.next_message();
    let is_next = next.previous_checksum == last.checksum && next.first_message == expected;
    next.epoch >= last.epoch && (is_next || (after_gap && next.first_message >= expected))
}
