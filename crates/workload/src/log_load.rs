//! The load of a message log: `[log]` of a workload file. The log itself, and the source of its operations, are in
//! crate `msglog`.

use crate::rules::Faults;
use crate::spec::{ArrivalKind, Content, MAX_THREADS, Percent, Spec, saturated};
use core::fmt;
use iodyno_catalog::{Reader, Record};
use iodyno_units::OpKind;

/// Body of a message, bytes, where a file gives none.
const DEFAULT_MESSAGE_BYTES: u64 = 512;
/// Chunks of a replay, where a file gives none: as the catalog's `log-80-20`.
const DEFAULT_REPLAY_CHUNKS: u32 = 256;
/// The longest message.
const MAX_MESSAGE_BYTES: u64 = 8 << 20;
/// The most messages that publishers hold.
const MAX_BACKLOG: u64 = 1 << 32;
/// The most chunks between two flushes.
const MAX_COMMIT_CHUNKS: u64 = 65_536;

/// The most writes in flight.
const MAX_DEPTH: u32 = 64;
/// Bytes of a chunk that a single message does not have for its body.
const RECORD_BYTES: u64 = 128;

/// When messages count as persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogDurability {
    /// When their write has completed.
    None,
    /// When a flush that many messages share has completed.
    Batch,
    /// When a flush of its own has completed.
    Each,
}

impl LogDurability {
    /// All of them, by their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("none", Self::None), ("batch", Self::Batch), ("each", Self::Each)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }
}

/// What publishers do when they hold as many messages as they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// They wait, and publish late.
    Block,
    /// They drop messages.
    Drop,
}

/// See the module. The block of the workload is a chunk, its depth the writes in flight, its threads the writer and the
/// readers, its active range the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogLoad {
    /// Body of a message, bytes.
    pub message_bytes: u32,
    /// Messages a second of all publishers; None: as many as the log takes.
    pub rate_per_s: Option<f64>,
    /// Publishers; each has a sequence of its own.
    pub publishers: u32,
    /// Messages that all publishers together hold until they are persisted.
    pub backlog: Option<u64>,
    /// What they do then.
    pub when_full: WhenFull,
    /// When a message is persisted.
    pub durability: LogDurability,
    /// Writes are durable by themselves: no flush.
    pub fua: bool,
    /// Messages in a chunk, at most; None: as many as fit.
    pub batch: Option<u32>,
    /// Chunks between two flushes, at most.
    pub commit_chunks: u32,
    /// Replays at the same time, each by a worker of its own.
    pub readers: u32,
    /// Chunks that a replay reads before the next begins elsewhere.
    pub replay_chunks: u32,
}

impl LogLoad {
    /// Messages that publishers hold by a rate, where nothing else is given.
    pub const DEFAULT_BACKLOG: u64 = 1 << 20;

    /// Of a table `log`. Without such a table, None.
    pub(crate) fn read(reader: &mut Reader, record: &Record) -> Option<Self> {
        record.get("log")?;
        let rate_per_s = record.real("log.rate");
        let of = |path: &str| record.whole(path).map(saturated);
        let durability = match record.word("log.durability") {
            Some("none") => LogDurability::None,
            Some("each") => LogDurability::Each,
            _ => LogDurability::Batch,
        };
        let fua = record.flag("log.fua") == Some(true);
        if fua && durability == LogDurability::None {
            let help = "leave `fua` out, or write `durability = \"batch\"`";
            let message = "writes with FUA are durable, and the log is not to be";
            reader.refuse(record.place("log.fua"), message, help);
        }
        Some(Self {
            message_bytes: saturated(record.whole("log.message").unwrap_or(DEFAULT_MESSAGE_BYTES)),
            rate_per_s,
            publishers: of("log.publishers").unwrap_or(1),
            backlog: record.whole("log.backlog").or(rate_per_s.map(|_| Self::DEFAULT_BACKLOG)),
            when_full: match record.word("log.when_full") {
                Some("drop") => WhenFull::Drop,
                _ => WhenFull::Block,
            },
            durability,
            fua,
            batch: of("log.batch"),
            commit_chunks: of("log.commit").unwrap_or(16),
            readers: of("log.readers").unwrap_or(0),
            replay_chunks: of("log.replay").unwrap_or(DEFAULT_REPLAY_CHUNKS),
        })
    }

    /// The workers of a target: the writer, and a worker for each replay.
    pub fn threads(&self) -> u32 {
        1 + self.readers
    }

    /// Whether flushes are issued.
    pub fn flushes(&self) -> bool {
        self.durability != LogDurability::None && !self.fua
    }

    /// The kinds that are issued. Their shares follow from the load, and mean nothing.
    pub fn mix(&self) -> [f64; OpKind::COUNT] {
        let mut mix = [0.0; OpKind::COUNT];
        mix[OpKind::Write.index()] = 1.0;
        mix[OpKind::Read.index()] = f64::from(u8::from(self.readers > 0));
        mix[OpKind::Flush.index()] = f64::from(u8::from(self.flushes()));
        mix
    }
}

/// As a table of a workload file, each key written out.
impl fmt::Display for LogLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[log]\nmessage = {}", self.message_bytes)?;
        if let Some(rate) = self.rate_per_s {
            writeln!(f, "rate = \"{rate}/s\"")?;
        }
        writeln!(f, "publishers = {}", self.publishers)?;
        if let Some(backlog) = self.backlog {
            writeln!(f, "backlog = {backlog}")?;
        }
        let when_full = if self.when_full == WhenFull::Drop { "drop" } else { "block" };
        writeln!(f, "when_full = \"{when_full}\"\ndurability = \"{}\"", self.durability.name())?;
        writeln!(f, "fua = {}", self.fua)?;
        if let Some(batch) = self.batch {
            writeln!(f, "batch = {batch}")?;
        }
        writeln!(f, "commit = {}", self.commit_chunks)?;
        writeln!(f, "readers = {}\nreplay = {}", self.readers, self.replay_chunks)
    }
}

impl Spec {
    /// The load of a message log, where the workload is one.
    pub fn log(&self) -> Option<&LogLoad> {
        self.log.as_ref()
    }
}

/// The rules of a log's load.
pub(crate) fn check(spec: &Spec, faults: &mut Faults) {
    let Some(log) = &spec.log else { return };
    faults.whole("log.message", "a message's size", log.message_bytes.into(), MAX_MESSAGE_BYTES);
    faults.whole("log.publishers", "the number of publishers", log.publishers.into(), 1 << 20);
    faults.whole("log.commit", "the number of chunks", log.commit_chunks.into(), MAX_COMMIT_CHUNKS);
    faults.whole("log.replay", "the number of chunks", log.replay_chunks.into(), 1 << 30);
    if let Some(backlog) = log.backlog {
        faults.whole("log.backlog", "the number of messages", backlog, MAX_BACKLOG);
    }
    if let Some(batch) = log.batch {
        faults.whole("log.batch", "the number of messages", batch.into(), 1 << 30);
    }
    if log.rate_per_s.is_some_and(|rate| !(0.001..=1e9).contains(&rate)) {
        faults.add("log.rate", "a rate of messages is from 0.001/s to 10^9/s", "");
    }
    if log.rate_per_s.is_none() && log.when_full == WhenFull::Drop {
        let help = "give a `rate`, or leave `when_full` out";
        faults.add("log.when_full", "without a rate no message is dropped", help);
    }
    if log.readers >= MAX_THREADS {
        faults.add("log.readers", format!("at most {} replays at once", MAX_THREADS - 1), "");
    } else if spec.threads != log.threads() {
        let message = format!(
            "the log's workers are a writer and {} replays, not {}",
            log.readers, spec.threads
        );
        faults.add("threads", message, "leave `threads` out, and change `log.readers`");
    }
    if spec.mix != log.mix() {
        let help = "leave `mix` out: the log decides what is issued";
        faults.add("mix", "the mix is not what the log issues", help);
    }
    if spec.depth > MAX_DEPTH {
        faults.add("depth", format!("a log has at most {MAX_DEPTH} writes in flight"), "");
    }
    match spec.block.as_slice() {
        [block] => {
            let needed_bytes = u64::from(log.message_bytes) + RECORD_BYTES;
            let is_chunk = (4096..=16 << 20).contains(&block.bytes);
            if !is_chunk {
                faults.add("block", "a chunk of a log is from 4 KiB to 16 MiB", "");
            } else if needed_bytes > u64::from(block.bytes) {
                let message = format!("a chunk of {} bytes does not hold one message", block.bytes);
                faults.add("log.message", message, "make `block` larger or `message` smaller");
            }
        }
        _ => faults.add("block", "the chunks of a log have one size", ""),
    }
    let without = [
        ("file_set", spec.file_set.is_some()),
        ("flush", spec.flush_bursts.is_some()),
        ("write.flush_every", spec.flush_every > 0),
        ("write.fua", spec.fua != Percent::ZERO),
        ("write.read_back", spec.read_back > 0),
        ("worker_step", spec.worker_step_bytes.is_some()),
        ("arrivals", !matches!(spec.arrivals, ArrivalKind::Closed { think_time_ns: 0, .. })),
        ("content", spec.content != Content::Incompressible),
        ("limits.passes", spec.limits.passes.is_some()),
    ];
    for (key, _) in without.into_iter().filter(|(_, given)| *given) {
        faults.add(key, format!("`{key}` has no effect on a log"), "remove it");
    }
}
