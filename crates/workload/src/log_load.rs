//! The load of a message log: `[log]` in a workload file. The log itself, and the source of its operations, are in
//! the crate `msglog`.

use iodyno_units::OpKind;

/// Condition under which a message of a log counts as persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogDurability {
    /// A message counts as persisted when its write has completed, without a flush.
    None,
    /// A message counts as persisted when the next flush has completed. Many messages share one flush.
    Batch,
    /// A message counts as persisted when a flush issued for this message alone has completed.
    Each,
}

impl LogDurability {
    /// All durability levels, from the weakest to the strongest.
    pub const ALL: [Self; 3] = [Self::None, Self::Batch, Self::Each];

    /// Name of the durability level in workload files.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

/// Behaviour of publishers when their backlog of unpersisted messages is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// Publishers wait for space, and publish their messages late.
    Block,
    /// Publishers drop new messages.
    Drop,
}

/// Load on a message log. Other keys of the workload apply as follows: the block size is the size of a chunk (one
/// write), the depth is the number of writes in flight, the threads are the writer and the readers, and the active
/// range is the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogLoad {
    /// Size of each message, without the log's overhead, bytes.
    pub message_bytes: u32,
    /// Rate of all publishers together, messages per second; None: as fast as the log accepts messages.
    pub rate_per_s: Option<f64>,
    /// Number of publishers, each with its own sequence of messages.
    pub publishers: u32,
    /// Maximum number of unpersisted messages of all publishers together. None: the log derives a limit from its chunk
    /// and flush settings; a workload file with a rate never gives None.
    pub backlog: Option<u64>,
    /// Behaviour of publishers when the backlog of unpersisted messages is full.
    pub when_full: WhenFull,
    /// Condition under which a message counts as persisted.
    pub durability: LogDurability,
    /// Whether writes are made durable by FUA rather than by flushes.
    pub fua: bool,
    /// Maximum number of messages in a chunk (one write of the log); None: limited only by the size of the chunk.
    pub batch: Option<u32>,
    /// Maximum number of chunks (writes of one block each) between two flushes.
    pub commit_chunks: u32,
    /// Number of concurrent replays of the log, each by its own worker.
    pub readers: u32,
    /// Number of chunks (reads of one block each) after which a replay ends and the next starts elsewhere in the log.
    pub replay_chunks: u32,
}

impl LogLoad {
    /// Default size of a message, without the log's overhead, bytes.
    pub(crate) const DEFAULT_MESSAGE_BYTES: u32 = 512;
    /// Default number of chunks that a replay reads, the same as in the catalog's `log-80-20`.
    pub(crate) const DEFAULT_REPLAY_CHUNKS: u32 = 256;
    /// Default backlog of publishers that have a rate, in messages.
    pub const DEFAULT_BACKLOG: u64 = 1 << 20;

    /// Number of workers per target: the writer, and one for each replay.
    pub fn threads(&self) -> u32 {
        1 + self.readers
    }

    /// Whether the writer flushes the target, which it does if messages must be durable without FUA.
    pub fn flushes(&self) -> bool {
        self.durability != LogDurability::None && !self.fua
    }

    /// A mix that contains each kind of operation that the log issues. The sizes of the shares have no meaning,
    /// because the publishers and readers determine the number of operations.
    pub fn mix(&self) -> [f64; OpKind::COUNT] {
        let mut mix = [0.0; OpKind::COUNT];
        mix[OpKind::Write.index()] = 1.0;
        mix[OpKind::Read.index()] = f64::from(u8::from(self.readers > 0));
        mix[OpKind::Flush.index()] = f64::from(u8::from(self.flushes()));
        mix
    }
}
