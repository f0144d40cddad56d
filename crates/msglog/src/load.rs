//! A benchmark load that writes and replays a message log, as a source of I/O operations. Publishers send messages at a
//! rate or as fast as the log accepts them. The first worker of a target writes with group commit, all others replay.
//! The result is a real log, which `recovery.rs` can open.
//!
//! Messages are numbered from 0 in the order of their due times. With a rate, message `n` is due `n / rate` after the
//! start, however slow the log is, and its latency counts from that time. Without a rate, publishers stay at their
//! limit of unpersisted messages: each persisted message is followed by a new one immediately.

mod publishers;
mod reader;
mod writer;

use crate::commit::CommitRule;
use crate::layout::{Layout, LayoutError};
use crate::message::{Message, MessageKind, RECORD_HEADER_BYTES};
use iodyno_measure::message_log::MessageLog;
use iodyno_units::{Op, rng};
use iodyno_workload::{Issue, LogLoad, Next, Outcome, Source};
use reader::Reader;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use writer::Writer;

/// Topic of all messages in the benchmark load.
const TOPIC: &str = "bench";
/// Length of the pool of random bytes from which message bodies are taken, bytes. The pool has one more body at its
/// end, so that a body can begin anywhere.
const POOL_BYTES: usize = 1 << 20;

/// Sizes and durations of a benchmark load that writes and replays a log on a target.
#[derive(Clone, Copy, Debug)]
pub struct LoadShape {
    /// Start of the target's range that the log uses, bytes.
    pub start_bytes: u64,
    /// Exclusive end of the target's range that the log uses, bytes.
    pub end_bytes: u64,
    /// Maximum size of a chunk, bytes.
    pub chunk_bytes: u32,
    /// Block size, bytes: chunks begin at multiples of it.
    pub align_bytes: u32,
    /// Maximum number of writes and flushes in flight.
    pub depth: u32,
    /// Warm-up: time from the start of the load to the measured window, ns.
    pub ramp_ns: u64,
    /// Length of the measured window, ns; `None` if the window has no time limit.
    pub time_ns: Option<u64>,
    /// Length of an interval of the recorded time series, ns.
    pub interval_ns: u64,
    /// Whether reads of the target return the written data, so that replays can verify it.
    pub returns_bytes: bool,
    /// Random seed for message contents, the log's identifier, and the start positions of replays.
    pub seed: u64,
}

/// Shared state of all workers that write or replay the log on a target.
#[derive(Debug)]
pub struct LoadOfTarget {
    load: LogLoad,
    shape: LoadShape,
    layout: Layout,
    pool: Box<[u8]>,
    /// Position in the log below which all messages are persisted.
    durable_position: AtomicU64,
    /// Oldest position in the log that is still retained.
    oldest_position: AtomicU64,
    outcome: Mutex<MessageLog>,
}

impl LoadOfTarget {
    /// Creates the shared state of a log load on one target.
    ///
    /// # Errors
    /// The range is too small for a log.
    pub fn new(load: &LogLoad, shape: LoadShape) -> Result<Arc<Self>, LayoutError> {
        let capacity_bytes = shape.end_bytes.saturating_sub(shape.start_bytes);
        let segment_bytes = Layout::segment_bytes_for(capacity_bytes, shape.chunk_bytes);
        let log_id = rng::key(shape.seed, "message log", 0);
        let layout = Layout::new(
            log_id,
            capacity_bytes,
            segment_bytes,
            shape.chunk_bytes,
            shape.align_bytes,
        )?;
        let mut pool = vec![0; POOL_BYTES + load.message_bytes as usize].into_boxed_slice();
        rng::random_words(&mut pool, log_id);
        Ok(Arc::new(Self {
            load: *load,
            shape,
            layout,
            pool,
            durable_position: AtomicU64::new(0),
            oldest_position: AtomicU64::new(0),
            outcome: Mutex::default(),
        }))
    }

    /// Results collected so far. Each worker adds its own when it ends.
    pub fn outcome(&self) -> MessageLog {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, of: &MessageLog) {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).merge(of);
    }

    fn record_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + TOPIC.len() + self.load.message_bytes as usize
    }

    /// Builds the message with index `n`, counted from 0.
    fn message(&self, n: u64, time_ns: u64) -> Message<'_> {
        let publishers = u64::from(self.load.publishers);
        // Each body begins at a different point of the pool from its neighbours'.
        let from = (n as usize).wrapping_mul(64) % POOL_BYTES;
        Message {
            kind: MessageKind::Publish,
            publisher: 1 + n % publishers,
            sequence: 1 + n / publishers,
            time_ns,
            topic: TOPIC,
            key: &[],
            body: &self.pool[from..from + self.load.message_bytes as usize],
        }
    }

    /// Converts an offset in the log's range to an offset on the target, bytes.
    fn on_target(&self, offset_bytes: u64) -> u64 {
        self.shape.start_bytes + offset_bytes
    }

    fn commit_rule(&self) -> CommitRule {
        CommitRule {
            durability: self.load.durability,
            fua: self.load.fua,
            chunks_max: self.load.commit_chunks,
            depth: self.shape.depth.min(64),
        }
    }

    fn durable_position(&self) -> u64 {
        self.durable_position.load(Ordering::Acquire)
    }
}

/// Source of I/O operations for one worker of a log load: the writer or a reader.
#[derive(Debug)]
pub enum LogSource {
    /// Writes the log. There is one writer per target: worker 0.
    Writer(Box<Writer>),
    /// Replays the log. All workers except worker 0 are readers.
    Reader(Box<Reader>),
}

impl LogSource {
    /// Creates the operation source of a worker. Worker 0 writes the log; all others replay it.
    pub fn new(of: &Arc<LoadOfTarget>, worker: u32) -> Self {
        if worker == 0 {
            Self::Writer(Box::new(Writer::new(Arc::clone(of))))
        } else {
            Self::Reader(Box::new(Reader::new(Arc::clone(of), worker)))
        }
    }
}

impl Source for LogSource {
    /// Identifies a write of the writer; unused for flushes and reads.
    type Token = u64;

    const HAS_CONTENT: bool = true;

    fn start(&mut self, start_ns: u64) {
        match self {
            Self::Writer(writer) => writer.start(start_ns),
            Self::Reader(reader) => reader.start(start_ns),
        }
    }

    #[inline]
    fn next(&mut self, now_ns: u64, _free: usize) -> Next<u64> {
        match self {
            Self::Writer(writer) => writer.next(now_ns),
            Self::Reader(reader) => reader.next(now_ns),
        }
    }

    fn fill(&mut self, _op: &Op, token: u64, bytes: &mut [u8]) {
        if let Self::Writer(writer) = self {
            writer.fill(token, bytes);
        }
    }

    fn check(&mut self, op: &Op, bytes: &[u8]) -> bool {
        match self {
            Self::Writer(_) => true,
            Self::Reader(reader) => reader.check(op, bytes),
        }
    }

    #[inline]
    fn completed(&mut self, op: &Op, token: u64, outcome: Outcome, now_ns: u64) {
        match self {
            Self::Writer(writer) => writer.completed(op, token, outcome, now_ns),
            Self::Reader(reader) => reader.completed(op, outcome, now_ns),
        }
    }

    fn end(&mut self, end_ns: u64) -> iodyno_workload::SourceEnd {
        match self {
            Self::Writer(writer) => writer.end(end_ns),
            Self::Reader(reader) => reader.end(),
        }
        iodyno_workload::SourceEnd::default()
    }
}

/// Issues an operation immediately, without a due time.
fn issue(op: Op, token: u64) -> Next<u64> {
    Next::Issue(Issue { op, due_ns: None, token })
}
