//! Finds the first and the last segment of a log on its target.

use super::OpenError;
use super::scan::{Evidence, Scanned, proven, require_readable_end, scan, settled};
use crate::segment_reader::{Heads, SegmentReader};
use core::ops::ControlFlow;

/// Number of bytes at the start of the newest segment that are searched for proof that the log extends into this
/// segment.
const PROOF_BYTES: u64 = 8 << 20;

/// First and last segment of a log on its target, with the evidence for its end.
pub(super) struct Bounds {
    pub heads: Heads,
    /// Newest segment with a valid chunk. Its chunks may never have been acknowledged.
    pub newest: u64,
    /// Oldest retained segment. The next field, `last`, is the segment with the log's last chunk.
    pub oldest: u64,
    pub last: u64,
    /// Evidence for deciding whether chunks after a gap belong to the log.
    pub evidence: Evidence,
    /// Read error because of which `oldest` and `last` may be too low.
    pub is_end_readable: Result<(), OpenError>,
}

/// Finds the log's first and last segment; `None` if the log has no chunks.
///
/// # Errors
/// No chunk was found, and the start of a segment can't be read.
pub(super) fn bounds(reader: &mut SegmentReader<'_>) -> Result<Option<Bounds>, OpenError> {
    let layout = *reader.layout();
    let heads = reader.heads();
    let Some(newest_head) = heads.newest else {
        let failure = heads.unreadable.into_values().next();
        return failure.map_or(Ok(None), |failure| Err(failure.into()));
    };
    let newest = layout.segment(newest_head.position);
    let oldest_on_target = (newest + 1).saturating_sub(layout.slots());
    let (last, evidence, is_end_readable) = if let Some(durable) = proof_of_segment(reader, newest)
    {
        (newest, Evidence { durable, ends_from: newest }, Ok(()))
    } else {
        let durable = proven(&newest_head);
        let ends_from = layout.segment(durable.0.saturating_sub(1)).max(oldest_on_target);
        let evidence = Evidence { durable, ends_from };
        let (last, is_end_readable) = last_segment(reader, newest, evidence, &heads);
        (last, evidence, is_end_readable)
    };
    reader.ends_at(layout.segment_start(newest + 1));
    let oldest = layout.oldest_kept(last).max(oldest_on_target);
    Ok(Some(Bounds { heads, newest, oldest, last, evidence, is_end_readable }))
}

/// Searches a segment's first chunks for proof that the log does not end before this segment: a header with a durable
/// position within the segment. Returns the highest durable position found, with its epoch; `None` without proof.
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

/// Finds the segment with the log's last chunk, if it is unclear whether the newest segment's chunks were
/// ever acknowledged.
fn last_segment(
    reader: &mut SegmentReader<'_>,
    newest: u64,
    evidence: Evidence,
    heads: &Heads,
) -> (u64, Result<(), OpenError>) {
    let layout = *reader.layout();
    let end = layout.segment_start(newest + 1);
    reader.ends_at(end);
    let range = layout.segment_start(evidence.ends_from)..end;
    let begin = Scanned { durable: evidence.durable, ..Scanned::default() };
    let found = settled(reader, range, begin);
    let last = found.last.map_or(0, |last| layout.segment(last.position));
    (last, require_readable_end(&found, heads, &layout))
}
