//! The writing worker of a load: fills chunks with the publishers' messages, writes and flushes them by the rule of
//! group commit, and records when messages are persisted.

use super::publishers::Publishers;
use super::{LoadOfTarget, issue};
use crate::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};
use crate::commit::{Commit, Durability, Step, Waiting};
use crate::layout::{DESCRIPTION_OFFSETS, EpochStart};
use iodyno_measure::Histogram;
use iodyno_measure::message_log::{LogInterval, MessageLog};
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Next, Outcome};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// If no operation can be issued until another one completes, the worker asks again after this time at the latest, ns.
const WAIT_NS: u64 = 50_000_000;
/// Tokens of the writes of the log's description and its copy, which precede the first chunk.
const DESCRIPTION_TOKENS: [u64; 2] = [u64::MAX - 1, u64::MAX];

/// A chunk whose write has been issued but that is not yet persisted.
#[derive(Clone, Copy, Debug)]
struct Pending {
    position: u64,
    length_bytes: u32,
    messages: u32,
    first_message: u64,
    is_last_of_segment: bool,
}

/// The worker of a log load that writes the log.
#[derive(Debug)]
pub struct Writer {
    of: Arc<LoadOfTarget>,
    publishers: Publishers,
    commit: Commit,
    /// Maximum number of messages in a chunk.
    per_chunk: u32,
    /// Position in the log of the next chunk.
    tail: u64,
    next_message: u64,
    checksum: u32,
    /// Chunks that have been issued but are not yet persisted. The first has the number `first_pending`.
    pending: VecDeque<Pending>,
    first_pending: u64,
    /// Number of messages in the chunks in `pending`.
    pending_messages: u64,
    descriptions: usize,
    descriptions_written: usize,
    measured_from_ns: u64,
    measured_to_ns: u64,
    found: MessageLog,
    interval: Histogram,
    interval_backlog: u64,
}

impl Writer {
    pub(super) fn new(of: Arc<LoadOfTarget>) -> Self {
        let (load, shape) = (&of.load, &of.shape);
        let fits = of.layout.space_bytes() / of.record_bytes();
        let per_chunk = match load.durability {
            Durability::Each => 1,
            _ => load.batch.unwrap_or(u32::MAX).min(fits.max(1) as u32),
        };
        // Room for two groups: one is flushed while the other fills.
        let group = u64::from(per_chunk) * u64::from(load.commit_chunks.max(shape.depth));
        Self {
            publishers: Publishers::new(load, 2 * group),
            commit: Commit::new(of.commit_rule()),
            per_chunk,
            tail: 0,
            next_message: 1,
            checksum: 0,
            pending: VecDeque::with_capacity(1024),
            first_pending: 0,
            pending_messages: 0,
            descriptions: 0,
            descriptions_written: 0,
            measured_from_ns: 0,
            measured_to_ns: u64::MAX,
            found: MessageLog::default(),
            interval: Histogram::default(),
            interval_backlog: 0,
            of,
        }
    }

    pub(super) fn start(&mut self, start_ns: u64) {
        let shape = &self.of.shape;
        self.measured_from_ns = start_ns + shape.ramp_ns;
        self.measured_to_ns = shape.time_ns.map_or(u64::MAX, |t| self.measured_from_ns + t);
        self.publishers.start(start_ns);
        let intervals = shape.time_ns.map_or(0, |t| t.div_ceil(shape.interval_ns.max(1)));
        self.found.intervals.reserve(intervals.min(1 << 20) as usize + 1);
    }

    pub(super) fn next(&mut self, now_ns: u64) -> Next<u64> {
        if self.descriptions < DESCRIPTION_OFFSETS.len() {
            return self.description();
        }
        if self.descriptions_written < DESCRIPTION_OFFSETS.len() {
            return Next::WaitUntil(now_ns + WAIT_NS);
        }
        let held = self.publishers.publish(now_ns);
        let waiting_messages = held - self.pending_messages;
        let left_bytes = self.of.layout.left_in_segment(self.tail);
        let is_end_chunk = self.fits(left_bytes) == 0;
        let waiting = match waiting_messages {
            0 => Waiting::None,
            // A chunk that marks the rest of a segment as unused is written as soon as any message waits.
            _ if is_end_chunk => Waiting::Full,
            n if n >= u64::from(self.per_chunk.min(self.fits(left_bytes))) => Waiting::Full,
            _ => Waiting::Partial,
        };
        match self.commit.step(waiting) {
            Step::Write => self.write(waiting, waiting_messages),
            Step::Flush => {
                self.commit.flush_begins();
                issue(Op::FLUSH, 0)
            }
            // With operations in flight, a completion ends the wait; otherwise the next message does.
            Step::Wait => {
                let due_ns = match waiting {
                    Waiting::None if self.pending.is_empty() => self.publishers.next_due_ns(),
                    _ => None,
                };
                Next::WaitUntil(due_ns.unwrap_or(now_ns + WAIT_NS).max(now_ns + 1))
            }
        }
    }

    fn description(&mut self) -> Next<u64> {
        let at = self.descriptions;
        self.descriptions += 1;
        let offset_bytes = self.of.on_target(DESCRIPTION_OFFSETS[at]);
        // A block of the target may be larger than a description: the rest is zeroed.
        let len_bytes = self.of.shape.align_bytes.max(4096);
        let kind = OpKind::Write;
        issue(Op { offset_bytes, len_bytes, kind, fua: false }, DESCRIPTION_TOKENS[at])
    }

    /// Number of messages that fit into the next chunk, if its segment has `left_bytes` left.
    fn fits(&self, left_bytes: u64) -> u32 {
        let limit_bytes = left_bytes.min(self.of.layout.chunk_bytes.into()) as usize;
        (limit_bytes.saturating_sub(CHUNK_HEADER_BYTES) / self.of.record_bytes()) as u32
    }

    fn write(&mut self, waiting: Waiting, waiting_messages: u64) -> Next<u64> {
        let layout = &self.of.layout;
        let left_bytes = layout.left_in_segment(self.tail);
        if left_bytes == layout.segment_bytes {
            let oldest = layout.oldest_kept(layout.segment(self.tail));
            self.of.oldest_position.store(layout.segment_start(oldest), Ordering::Release);
        }
        let most = self.per_chunk.min(self.fits(left_bytes));
        let messages = u64::from(most).min(waiting_messages) as u32;
        let used_bytes = CHUNK_HEADER_BYTES + messages as usize * self.of.record_bytes();
        let pending = Pending {
            position: self.tail,
            length_bytes: layout.aligned(used_bytes) as u32,
            messages,
            first_message: self.next_message,
            is_last_of_segment: messages == 0,
        };
        let end = self.tail + u64::from(pending.length_bytes);
        self.tail = if pending.is_last_of_segment {
            layout.segment_start(layout.segment(self.tail) + 1)
        } else {
            end
        };
        self.next_message += u64::from(messages);
        self.pending_messages += u64::from(messages);
        let op = Op {
            offset_bytes: self.of.on_target(layout.offset_bytes(pending.position)),
            len_bytes: pending.length_bytes,
            kind: OpKind::Write,
            fua: self.of.load.fua,
        };
        self.pending.push_back(pending);
        issue(op, self.commit.write_begins(waiting))
    }

    /// Fills the buffer of a chunk's write. Chunks must be filled in order, because each contains its
    /// predecessor's checksum.
    pub(super) fn fill(&mut self, token: u64, bytes: &mut [u8]) {
        if DESCRIPTION_TOKENS.contains(&token) {
            let description = self.of.layout.describe(EpochStart { epoch: 1, position: 0 });
            bytes.fill(0);
            bytes[..description.len()].copy_from_slice(&description);
            return;
        }
        let at = (token - self.first_pending) as usize;
        let Some(&pending) = self.pending.get(at) else { return };
        let before: u64 = self.pending.iter().take(at).map(|it| u64::from(it.messages)).sum();
        let record_bytes = self.of.record_bytes();
        let mut time_ns = 0;
        let mut used = CHUNK_HEADER_BYTES;
        if pending.messages > 0 {
            time_ns = self.publishers.due_of_held_ns(before);
        }
        for i in 0..u64::from(pending.messages) {
            let message = self.of.message(pending.first_message - 1 + i, time_ns);
            message.encode(&mut bytes[used..]);
            used += record_bytes;
        }
        let mut header = ChunkHeader {
            checksum: 0,
            log_id: self.of.layout.log_id,
            position: pending.position,
            first_message: pending.first_message,
            durable_position: self.durable_position(),
            time_ns,
            length_bytes: pending.length_bytes,
            used_bytes: used as u32,
            messages: pending.messages,
            epoch: 1,
            previous_checksum: self.checksum,
            is_last_of_segment: pending.is_last_of_segment,
        };
        header.seal(bytes);
        self.checksum = header.checksum;
    }

    fn durable_position(&self) -> u64 {
        self.pending.front().map_or(self.tail, |first| first.position)
    }

    pub(super) fn completed(&mut self, op: &Op, token: u64, outcome: Outcome, now_ns: u64) {
        let succeeded = outcome == Outcome::Succeeded;
        if op.kind == OpKind::Flush {
            self.commit.flushed(succeeded);
            self.found.flushes += u64::from(self.is_measured(now_ns));
        } else if DESCRIPTION_TOKENS.contains(&token) {
            self.descriptions_written += 1;
            return;
        } else {
            self.commit.written(token, succeeded);
        }
        if self.commit.durable() == self.first_pending {
            return;
        }
        let backlog = self.publishers.backlog(now_ns);
        let is_measured = self.is_measured(now_ns);
        self.roll(now_ns);
        let mut messages = 0;
        while self.first_pending < self.commit.durable() {
            let Some(chunk) = self.pending.pop_front() else { break };
            self.first_pending += 1;
            messages += u64::from(chunk.messages);
            self.found.chunks += u64::from(is_measured);
        }
        self.pending_messages -= messages;
        let (interval, found) = (&mut self.interval, &mut self.found);
        self.publishers.persisted(messages, now_ns, |passed_ns, n| {
            if is_measured {
                interval.record_n(passed_ns, n);
            }
        });
        if is_measured {
            found.messages += messages;
            found.backlog_max = found.backlog_max.max(backlog);
            self.interval_backlog = self.interval_backlog.max(backlog);
        }
        self.of.durable_position.store(self.durable_position(), Ordering::Release);
    }

    fn is_measured(&self, now_ns: u64) -> bool {
        (self.measured_from_ns..self.measured_to_ns).contains(&now_ns)
    }

    /// Closes all intervals of the time series that ended before `now_ns`.
    fn roll(&mut self, now_ns: u64) {
        let interval_ns = self.of.shape.interval_ns.max(1);
        let to_ns = now_ns.min(self.measured_to_ns);
        loop {
            let ended = self.found.intervals.len() as u64;
            if self.measured_from_ns + (ended + 1) * interval_ns > to_ns {
                return;
            }
            self.end_interval();
        }
    }

    fn end_interval(&mut self) {
        let of = &mut self.interval;
        self.found.intervals.push(LogInterval {
            messages: of.count(),
            p50_ns: of.quantile_ns(0.5).unwrap_or(0),
            p99_ns: of.quantile_ns(0.99).unwrap_or(0),
            max_ns: of.max_ns().unwrap_or(0),
            backlog_max: self.interval_backlog,
            cause: String::new(),
        });
        self.found.persist.merge(of);
        of.clear();
        self.interval_backlog = 0;
    }

    pub(super) fn end(&mut self, end_ns: u64) {
        self.roll(end_ns);
        if self.interval.count() > 0 {
            self.end_interval();
        }
        self.publishers.end(end_ns);
        let found = &mut self.found;
        self.of.load.durability.name().clone_into(&mut found.durability);
        found.rate_per_s = self.of.load.rate_per_s;
        found.body_bytes = found.messages * u64::from(self.of.load.message_bytes);
        found.backlog_end = self.publishers.backlog(end_ns);
        found.blocked_ns = self.publishers.blocked_ns;
        found.dropped = self.publishers.dropped;
        self.of.add(found);
    }
}
