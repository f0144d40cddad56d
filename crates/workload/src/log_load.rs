//! The load of a message log: `[log]` in a workload file. The log itself, and the source of its operations, are in
//! the crate `msglog`.

use iodyno_units::OpKind;

/// When messages count as persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogDurability {
    /// Once their write has completed.
    None,
    /// Once a flush that many messages share has completed.
    Batch,
    /// Once a flush of their own has completed.
    Each,
}

impl LogDurability {
    /// All levels.
    pub const ALL: [Self; 3] = [Self::None, Self::Batch, Self::Each];

    /// Name of the level, as in workload files.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

/// What publishers do when their backlog is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// Wait, and publish late.
    Block,
    /// Drop messages.
    Drop,
}

/// The load of a message log. The workload's block is a chunk, its depth the number of writes in flight, its threads
/// the writer and the readers, its active range the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogLoad {
    /// Size of a message body, bytes.
    pub message_bytes: u32,
    /// Messages per second of all publishers; None: as fast as the log accepts them.
    pub rate_per_s: Option<f64>,
    /// Number of publishers, each with its own sequence of messages.
    pub publishers: u32,
    /// Maximum number of messages that all publishers together hold until they are persisted; None: a number that
    /// suits the log.
    pub backlog: Option<u64>,
    /// What publishers do when the backlog is full.
    pub when_full: WhenFull,
    /// When a message counts as persisted.
    pub durability: LogDurability,
    /// Whether writes have FUA, so that they need no flush.
    pub fua: bool,
    /// Maximum number of messages in a chunk; None: as many as fit.
    pub batch: Option<u32>,
    /// Maximum number of chunks between two flushes.
    pub commit_chunks: u32,
    /// Number of simultaneous replays, each by its own worker.
    pub readers: u32,
    /// Number of chunks that a replay reads before the next begins elsewhere.
    pub replay_chunks: u32,
}

impl LogLoad {
    /// Default size of a message body, bytes.
    pub(crate) const DEFAULT_MESSAGE_BYTES: u32 = 512;
    /// Default number of chunks of a replay, the same as in the catalog's `log-80-20`.
    pub(crate) const DEFAULT_REPLAY_CHUNKS: u32 = 256;
    /// Default backlog of publishers with a rate, messages.
    pub const DEFAULT_BACKLOG: u64 = 1 << 20;

    /// Number of workers per target: the writer, and one for each replay.
    pub fn threads(&self) -> u32 {
        1 + self.readers
    }

    /// Whether the load issues flushes.
    pub fn flushes(&self) -> bool {
        self.durability != LogDurability::None && !self.fua
    }

    /// The kinds that are issued. Their shares follow from the load; the values here have no meaning.
    pub fn mix(&self) -> [f64; OpKind::COUNT] {
        let mut mix = [0.0; OpKind::COUNT];
        mix[OpKind::Write.index()] = 1.0;
        mix[OpKind::Read.index()] = f64::from(u8::from(self.readers > 0));
        mix[OpKind::Flush.index()] = f64::from(u8::from(self.flushes()));
        mix
    }
}
