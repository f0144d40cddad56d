//! Reads the chunks of a range in order. Decides at each position whether there is a valid next chunk, damage or a torn
//! tail, by the decision table in `cases.rs`.

use super::cases::{Conditions, Decision};
use super::{Damage, OpenError};
use crate::chunk::{Chunk, ChunkHeader, Invalid};
use crate::layout::Layout;
use crate::segment_reader::{Heads, SegmentReader};
use crate::storage::ReadFailure;
use core::ops::ControlFlow;

/// Evidence about the log's end that is known before the whole log is read. More is found when a scan meets
/// the first gap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// A durable position from a chunk's header, and that chunk's epoch. The log does not end before this
    /// position.
    pub durable: (u64, u32),
    /// First segment in which the log can end.
    pub ends_from: u64,
}

/// Progress and findings of a recovery scan over a log's chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct Scanned {
    /// Header of the last accepted chunk; `None` if no chunk was accepted yet.
    pub last: Option<ChunkHeader>,
    /// Start of the current gap (the position after the last accepted chunk), and the reason why the chunk there was
    /// not accepted; `None` outside a gap.
    pub gap: Option<(u64, Invalid)>,
    /// First read error in the gap; `None` outside a gap, and if all of the gap is readable.
    pub gap_failure: Option<ReadFailure>,
    /// Damaged ranges of data that had been acknowledged.
    pub damages: Vec<Damage>,
    /// Highest epoch of any chunk found, even if the chunk was never acknowledged.
    pub epoch_max: u32,
    /// Highest durable position in any chunk's header, and that chunk's epoch. Valid chunks above the position
    /// have that epoch or a later one.
    pub durable: (u64, u32),
}

impl Scanned {
    /// Evaluates the conditions at position `at`. `header`: header of the valid chunk at this position; `None` if there
    /// is none. `after_last`: exclusive upper bound of the last chunk's position; 0 if unknown.
    fn conditions(&self, at: u64, header: Option<&ChunkHeader>, after_last: u64) -> Conditions {
        let Some(header) = header else { return Conditions::default() };
        let gap = self.gap.as_ref().map(|(from, _)| *from);
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

/// Durable position in a chunk's header, and the chunk's epoch.
pub(super) fn proven(header: &ChunkHeader) -> (u64, u32) {
    (header.durable_position, header.epoch)
}

/// Scans a range of segments in order. Calls `visit` with each accepted chunk and the latest publication time before
/// the chunk, until `visit` returns `Break`.
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

/// Continues a scan over a range of positions. With `evidence`, searches beyond the first gap for the durable position
/// and the log's end. Without `evidence`, uses only the chunks already read.
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
                if let (Invalid::Unreadable(failure), None) = (&invalid, &found.gap_failure) {
                    found.gap_failure = Some(failure.clone());
                }
                found.gap.get_or_insert((position, invalid));
                if let Some(evidence) = evidence.take() {
                    let ahead = look_beyond_gap(reader, position, &range, &found, evidence);
                    found.durable = found.durable.max(ahead.durable);
                    found.epoch_max = found.epoch_max.max(ahead.epoch_max);
                    after_last = ahead.last.map_or(0, |last| last.position + 1);
                    if after_last <= position {
                        found.gap_failure = found.gap_failure.or(ahead.gap_failure);
                        break;
                    }
                }
                position += u64::from(layout.align_bytes);
                continue;
            }
        };
        let header = chunk.header;
        if let Some((from, what)) = found.gap.take() {
            found.gap_failure = None;
            let of_log = (range.start == 0).then_some(1);
            let expected = found.last.map_or(of_log, |last| Some(last.next_message()));
            found.damages.push(Damage {
                position: from,
                offset_bytes: layout.offset_bytes(from),
                length_bytes: header.position - from,
                messages: expected.map(|expected| (expected, header.first_message)),
                what,
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

/// Searches beyond a scan's first gap, in the segments in which the log may end, for the highest durable
/// position and the log's last chunk.
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

/// Repeats a scan until the highest durable position no longer changes, because that position also affects
/// earlier decisions. The last pass starts in that position's segment, since the log does not end before it;
/// so the result does not depend on where the first pass started.
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

/// Whether the valid chunk `next` may follow `last`. After a gap its direct predecessor is unknown.
fn follows(last: Option<&ChunkHeader>, next: &ChunkHeader, after_gap: bool) -> bool {
    let Some(last) = last else { return true };
    let expected = last.next_message();
    let is_next = next.previous_checksum == last.checksum && next.first_message == expected;
    next.epoch >= last.epoch && (is_next || (after_gap && next.first_message >= expected))
}

/// Returns the reason why the bytes after a scan's last chunk are not a valid chunk; `None` if no chunk was written there.
pub(super) fn torn_tail(end: &Scanned, layout: &Layout) -> Option<Invalid> {
    let position = end.last.map_or(0, |last| layout.after(&last));
    let (_, invalid) = end.gap.as_ref()?;
    let is_torn = match invalid {
        // Remains from before this log's end: nothing, another log, or a dropped segment.
        Invalid::NoHeader | Invalid::OtherLog(_) => false,
        Invalid::OtherPosition(at) => *at > position,
        _ => true,
    };
    is_torn.then(|| invalid.clone())
}

/// Checks that a scan's end is the log's end. An unreadable chunk may have been acknowledged, and so may a torn one if the
/// bytes after it, which may prove that, are unreadable.
pub(super) fn require_readable_end(
    end: &Scanned,
    heads: &Heads,
    layout: &Layout,
) -> Result<(), OpenError> {
    let failure = match (&end.gap, &end.last) {
        (Some(_), _) => end.gap_failure.as_ref().filter(|_| torn_tail(end, layout).is_some()),
        // The log fills its newest known segment, and continues in the next one if there is more.
        (None, Some(last)) => {
            heads.unreadable.get(&(layout.segment(layout.after(last)) % layout.slots()))
        }
        (None, None) => None,
    };
    failure.map_or(Ok(()), |failure| Err(failure.clone().into()))
}
