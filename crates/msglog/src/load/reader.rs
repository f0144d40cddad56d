//! A replaying worker of a load. Each replay starts at the first chunk of a random segment, and ends after a fixed
//! number of reads.

use super::{LoadOfTarget, issue};
use crate::chunk::{Chunk, ChunkHeader};
use iodyno_measure::message_log::MessageLog;
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Next, Outcome};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Polling interval of a reader that waits for new chunks at the end of the log, ns.
const LOOK_NS: u64 = 100_000;

/// A worker of a log load that repeatedly replays sections of the log from random segments.
#[derive(Debug)]
pub struct Reader {
    of: Arc<LoadOfTarget>,
    rng: Generator,
    /// Position in the log of the next read; `None` before a replay starts.
    position: Option<u64>,
    /// Number of reads left in the current replay.
    left: u32,
    in_flight: bool,
    /// Result of verifying the data of the last read: position of the next chunk, and number of messages.
    checked: Option<(u64, u64)>,
    measured_ns: (u64, u64),
    found: MessageLog,
}

impl Reader {
    pub(super) fn new(of: Arc<LoadOfTarget>, worker: u32) -> Self {
        Self {
            rng: stream(of.shape.seed, "replays of a log", worker.into()),
            of,
            position: None,
            left: 0,
            in_flight: false,
            checked: None,
            measured_ns: (0, 0),
            found: MessageLog::default(),
        }
    }

    pub(super) fn start(&mut self, start_ns: u64) {
        let from_ns = start_ns + self.of.shape.ramp_ns;
        self.measured_ns = (from_ns, self.of.shape.time_ns.map_or(u64::MAX, |t| from_ns + t));
    }

    pub(super) fn next(&mut self, now_ns: u64) -> Next<u64> {
        // The position of the next chunk is known only when this one has been read.
        if self.in_flight {
            return Next::WaitUntil(now_ns + 50_000_000);
        }
        // `oldest` is loaded first: if the writer advances in between, the durable position stays above it.
        let oldest = self.of.oldest_position.load(Ordering::Acquire);
        let durable = self.of.durable_position();
        let (layout, chunk_bytes) = (&self.of.layout, u64::from(self.of.layout.chunk_bytes));
        let goes_on = self.position.filter(|&at| self.left > 0 && at >= oldest);
        let at = goes_on.unwrap_or_else(|| {
            // Every segment begins with a chunk; other positions are found by reading on.
            let segments = layout.segment(oldest)..=layout.segment(durable.saturating_sub(1));
            let count = (segments.end() + 1).saturating_sub(*segments.start());
            let segment = segments.start() + below(&mut self.rng, count);
            self.left = self.of.load.replay_chunks;
            layout.segment_start(segment).max(oldest)
        });
        self.position = Some(at);
        let len_bytes = chunk_bytes.min(layout.left_in_segment(at));
        if at + len_bytes > durable {
            return Next::WaitUntil(now_ns + LOOK_NS);
        }
        self.left -= 1;
        self.in_flight = true;
        let offset_bytes = self.of.on_target(layout.offset_bytes(at));
        let kind = OpKind::Read;
        issue(Op { offset_bytes, len_bytes: len_bytes as u32, kind, fua: false }, 0)
    }

    /// Verifies that the data of a read consists of valid chunks of the log, starting at the read's position.
    pub(super) fn check(&mut self, _op: &Op, bytes: &[u8]) -> bool {
        let Some(at) = self.position.filter(|_| self.of.shape.returns_bytes) else { return true };
        let layout = &self.of.layout;
        let (mut next, mut messages) = (at, 0);
        loop {
            let from = (next - at) as usize;
            let Some(rest) = bytes.get(from..).filter(|rest| !rest.is_empty()) else { break };
            let is_whole = ChunkHeader::peek(rest)
                .is_none_or(|header| header.length_bytes as usize <= rest.len());
            if !is_whole && next > at {
                break;
            }
            let Ok(chunk) = Chunk::parse(rest, layout.log_id, next) else {
                self.checked = None;
                return self.was_dropped();
            };
            messages += u64::from(chunk.header.messages);
            next = layout.after(&chunk.header);
            if chunk.header.is_last_of_segment {
                break;
            }
        }
        self.checked = Some((next, messages));
        true
    }

    /// Whether the data just read may have been overwritten, because its segment is no longer retained.
    fn was_dropped(&self) -> bool {
        let oldest = self.of.oldest_position.load(Ordering::Acquire);
        self.position.is_some_and(|at| at < oldest)
    }

    pub(super) fn completed(&mut self, op: &Op, outcome: Outcome, now_ns: u64) {
        self.in_flight = false;
        let (from_ns, to_ns) = self.measured_ns;
        let is_measured = (from_ns..to_ns).contains(&now_ns);
        if outcome == Outcome::Failed {
            self.found.replay_errors += u64::from(is_measured);
            self.position = None;
            return;
        }
        let Some(at) = self.position else { return };
        // If the target returns no bytes, full chunks are assumed.
        let (next, messages) = self.checked.take().unwrap_or_else(|| {
            let bytes = u64::from(op.len_bytes);
            (at + bytes, bytes / self.of.record_bytes() as u64)
        });
        self.position = Some(next);
        if is_measured {
            self.found.replayed += messages;
        }
    }

    pub(super) fn end(&mut self) {
        self.of.add(&self.found);
    }
}
