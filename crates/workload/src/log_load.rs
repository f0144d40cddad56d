//! The load of a message log: `[log]` of a workload file. The log itself, and the source of its operations, are in
//! crate `msglog`.

use core::fmt;
use iodyno_units::OpKind;

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
    /// Body of a message, bytes, where a file gives none.
    pub(crate) const DEFAULT_MESSAGE_BYTES: u64 = 512;
    /// Chunks of a replay, where a file gives none: as the catalog's `log-80-20`.
    pub(crate) const DEFAULT_REPLAY_CHUNKS: u32 = 256;
    /// Messages that publishers hold by a rate, where nothing else is given.
    pub const DEFAULT_BACKLOG: u64 = 1 << 20;

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
