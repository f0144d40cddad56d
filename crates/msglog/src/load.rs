//! The load of a message log as a source of operations: publishers, with a rate or as fast as the log accepts messages;
//! group commit; and replays. The first worker of a target writes, all others replay. The load writes a real log, which
//! `recovery.rs` can open.
//!
//! Messages are numbered from 0 in the order of their due times. With a rate, message `n` is due `n / rate` after the
//! start, whatever the log does; its latency counts from then. Without a rate, each persisted message is followed by
//! the next one at once, so that publishers always hold as many as they may.

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

/// Topic of all messages of a load.
const TOPIC: &str = "bench";
/// Number of random bytes from which message bodies are taken, apart from the length of one body.
const POOL_BYTES: usize = 1 << 20;

/// Sizes and times of a log's load on a target.
#[derive(Clone, Copy, Debug)]
pub struct LoadShape {
    /// First byte of the target that the log uses.
    pub start_bytes: u64,
    /// One past the last byte of the target that the log uses.
    pub end_bytes: u64,
    /// Largest chunk, bytes.
    pub chunk_bytes: u32,
    /// Block size, bytes: chunks begin at multiples of it.
    pub align_bytes: u32,
    /// Maximum number of writes and flushes in flight.
    pub depth: u32,
    /// Time from the start to the measured window, ns.
    pub ramp_ns: u64,
    /// Length of the measured window, ns; None if it is not limited by time.
    pub time_ns: Option<u64>,
    /// Length of an interval of the recorded time series, ns.
    pub interval_ns: u64,
    /// Whether the target returns written data: then replays check it.
    pub returns_bytes: bool,
    /// Seed of the content, of the log's identifier, and of the starts of replays.
    pub seed: u64,
}

/// State of a log's load that all workers of a target share.
#[derive(Debug)]
pub struct LoadOfTarget {
    load: LogLoad,
    shape: LoadShape,
    layout: Layout,
    pool: Box<[u8]>,
    /// Position in the log below which all chunks are persisted.
    durable_position: AtomicU64,
    /// Oldest position in the log that is kept.
    oldest_position: AtomicU64,
    outcome: Mutex<MessageLog>,
}

impl LoadOfTarget {
    /// Creates the load of a target.
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

    /// Results so far; each worker adds its own when it ends.
    pub fn outcome(&self) -> MessageLog {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, of: &MessageLog) {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).merge(of);
    }

    fn record_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + TOPIC.len() + self.load.message_bytes as usize
    }

    /// Builds message number `n`, counted from 0.
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

/// Source of operations for one worker of a log's load.
#[derive(Debug)]
pub enum LogSource {
    /// Writes the log; the first worker of a target.
    Writer(Box<Writer>),
    /// Replays the log; any other worker.
    Reader(Box<Reader>),
}

impl LogSource {
    /// Creates the source for worker `worker` of a target.
    pub fn new(of: &Arc<LoadOfTarget>, worker: u32) -> Self {
        if worker == 0 {
            Self::Writer(Box::new(Writer::new(Arc::clone(of))))
        } else {
            Self::Reader(Box::new(Reader::new(Arc::clone(of), worker)))
        }
    }
}

impl Source for LogSource {
    /// Identifies a write; unused for other operations.
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

/// Issues an operation that is due at once.
fn issue(op: Op, token: u64) -> Next<u64> {
    Next::Issue(Issue { op, due_ns: None, token })
}
