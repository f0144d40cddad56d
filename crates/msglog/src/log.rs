//! The log as a state machine for writing: appends fill chunks, [`Log::next_action`] returns writes and flushes to
//! perform, and [`Log::next_persisted`] returns durable chunks in order. It does no I/O and reads no clock.
//! `recovery.rs` opens a log.

mod append;

use crate::chunk::{Chunk, ChunkHeader};
use crate::commit::{Commit, CommitRule, Step, Waiting};
use crate::layout::Layout;
use crate::message::RecordError;
use crate::state::{OwnedRecord, State};
use append::Open;
use std::collections::VecDeque;
use std::sync::Arc;
use thiserror::Error;

/// Approximate distance in the log between two entries of its index, bytes.
const INDEX_STEP_BYTES: u64 = 256 << 10;

/// Options for writing and retaining a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Rule of group commit, which decides when chunks are written and flushed.
    pub commit: CommitRule,
    /// Maximum number of messages per chunk, 1 or more. With [`Durability::Each`](crate::Durability::Each) it is
    /// always 1.
    pub chunk_messages_max: u32,
    /// Maximum number of chunks in the write queue; beyond it, appends fail with [`AppendError::Busy`].
    pub queue_chunks_max: usize,
    /// Minimum retention time of messages, ns. Appends fail if they need the space of younger messages. 0: the oldest
    /// segment is dropped whenever space is needed; `u64::MAX`: no segment is ever dropped.
    pub retain_ns: u64,
    /// Whether the log keeps the current value of each key.
    pub keeps_state: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            commit: CommitRule::DEFAULT,
            chunk_messages_max: u32::MAX,
            queue_chunks_max: 64,
            retain_ns: 0,
            keeps_state: true,
        }
    }
}

/// Reason why [`Log::append`] did not append a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AppendError {
    /// The message can't be stored as a record, for instance because it is too long.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Too many chunks are waiting to be written: retry after an operation has completed.
    #[error("too many messages are waiting to be written")]
    Busy,
    /// The log is full: all segments contain messages or values that must be retained.
    #[error(
        "the log is full: all {kept_bytes} bytes hold messages within the retention time, or current values"
    )]
    Full {
        /// Total size of all segments, bytes; all are retained.
        kept_bytes: u64,
    },
    /// An earlier write or flush failed, so nothing more can be persisted.
    #[error(
        "the log has stopped: a write or a flush failed, and no more messages can be persisted"
    )]
    Broken,
}

/// An I/O operation that the log's owner must perform.
#[derive(Debug)]
pub enum Action<B> {
    /// Write the start of the buffer to the target, then call [`Log::written`].
    Write {
        /// Number of the chunk, to be passed to [`Log::written`].
        chunk: u64,
        /// Offset on the target, bytes.
        offset_bytes: u64,
        /// Number of bytes to write from the start of the buffer.
        len_bytes: usize,
        /// Content of the chunk.
        buffer: Arc<B>,
    },
    /// Flush the target, then call [`Log::flushed`].
    Flush,
}

/// A chunk that has become durable.
#[derive(Debug)]
pub struct Persisted<B> {
    /// Header of the chunk, with its position and message numbers.
    pub header: ChunkHeader,
    /// Buffer that starts with the chunk. Return it with [`Log::recycle`] for reuse.
    pub buffer: Arc<B>,
}

/// A chunk that accepts no more messages: queued, being written, or written but not yet durable.
#[derive(Debug)]
struct Closed<B> {
    header: ChunkHeader,
    /// Whether a record in the chunk has a key or a publisher, so that the log's state changes.
    changes_state: bool,
    buffer: Arc<B>,
}

/// Progress of copying live records out of a dropped segment.
#[derive(Clone, Copy, Debug)]
struct Carried {
    /// Number of the segment that will overwrite the dropped segment.
    overwritten_by: u64,
    /// Exclusive end of the chunks that must be durable before the dropped segment is overwritten.
    chunks: u64,
}

/// An entry of the log's index, which maps message numbers and times to chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Position of a chunk in the log.
    pub position: u64,
    /// Number of the chunk's first message.
    pub first_message: u64,
    /// Latest publication time of any message before the chunk, ns since 1970.
    pub before_ns: u64,
}

/// End of a log, as determined by recovery. Writing continues there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Position in the log of the next chunk to be written.
    pub position: u64,
    /// Number of the next message, from 1.
    pub next_message: u64,
    /// Checksum of the log's last chunk; 0 if there is none.
    pub checksum: u32,
    /// Latest publication time of any message in the log, ns since 1970.
    pub time_ns: u64,
    /// Number of the oldest segment that is retained.
    pub oldest_segment: u64,
    /// Epoch of the next writer: the highest epoch found plus 1.
    pub epoch: u32,
    /// Sparse index of the log's chunks, in ascending order of position.
    pub index: VecDeque<IndexEntry>,
    /// For each complete segment, the latest publication time of any message up to its end, ns since 1970. The oldest
    /// segment is first.
    pub segment_times_ns: VecDeque<u64>,
    /// Whether the log's last chunk is an end marker, so that no other is needed: see [`Log::append_end`].
    pub is_ended: bool,
}

impl Tail {
    /// End of a log without messages.
    pub fn empty() -> Self {
        Self {
            position: 0,
            next_message: 1,
            checksum: 0,
            time_ns: 0,
            oldest_segment: 0,
            epoch: 1,
            index: VecDeque::new(),
            segment_times_ns: VecDeque::new(),
            is_ended: true,
        }
    }
}

/// A message log that is open for writing. `B` is a buffer of [`Layout::chunk_bytes`] bytes.
#[derive(Debug)]
pub struct Log<B> {
    layout: Layout,
    options: LogOptions,
    commit: Commit,
    tail: Tail,
    /// Number of the segment that is entered when the current one is full.
    next_segment: u64,
    open: Option<Open<B>>,
    closed: VecDeque<Closed<B>>,
    /// Number of the first chunk in `closed`.
    first_closed: u64,
    free: Vec<B>,
    /// Latest publication time of any message before the first chunk in `closed`, ns since 1970.
    closed_before_ns: u64,
    state: State,
    /// End of the durable part of the log: its position, and the number of the first message after it.
    durable: (u64, u64),
    carried: VecDeque<Carried>,
    /// Live records that must be copied out of dropped segments, each with the segment that will overwrite the
    /// original.
    to_carry: VecDeque<(OwnedRecord, u64)>,
    /// Number of segments entered since a message was last appended.
    segments_without_message: u64,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Log<B> {
    /// Creates a log that continues at `tail`, with the values and publishers at that point.
    pub fn new(layout: Layout, options: LogOptions, tail: Tail, state: State) -> Self {
        let durable = (tail.position, tail.next_message);
        let is_at_start = tail.position.is_multiple_of(layout.segment_bytes);
        // Records of segments dropped before a crash may not have been carried yet.
        let (oldest, slots) = (tail.oldest_segment, layout.slots());
        let dropped = oldest.saturating_sub(2)..oldest;
        let to_carry = dropped.flat_map(|segment| {
            let records = state.carried_from(segment, |_, _| false);
            records.into_iter().map(move |record| (record, segment + slots))
        });
        Self {
            to_carry: to_carry.collect(),
            next_segment: layout.segment(tail.position) + u64::from(!is_at_start),
            layout,
            options,
            commit: Commit::new(options.commit),
            closed_before_ns: tail.time_ns,
            tail,
            open: None,
            closed: VecDeque::new(),
            first_closed: 0,
            free: Vec::new(),
            state,
            durable,
            carried: VecDeque::new(),
            segments_without_message: 0,
        }
    }

    /// Sizes and identifier of the log.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Current values and publishers, as of the last durable message.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Number of the next message to be appended.
    pub fn next_message(&self) -> u64 {
        self.tail.next_message
    }

    /// Exclusive upper bound of the persisted messages' numbers.
    pub fn persisted(&self) -> u64 {
        self.durable.1
    }

    /// Position in the log below which all chunks are persisted.
    pub fn durable_position(&self) -> u64 {
        self.durable.0
    }

    /// Position in the log of the oldest retained segment.
    pub fn oldest_position(&self) -> u64 {
        self.layout.segment_start(self.tail.oldest_segment)
    }

    /// Number of chunks that are not yet persisted, including the one being filled.
    pub fn chunks_waiting(&self) -> usize {
        self.closed.len() + usize::from(self.open.is_some())
    }

    /// Whether a write or a flush has failed, so that nothing more can be persisted.
    pub fn is_broken(&self) -> bool {
        self.commit.is_broken()
    }

    /// Returns the position of a chunk from which a reader finds all messages with this number or higher.
    pub fn seek_message(&self, number: u64) -> u64 {
        let after = self.tail.index.partition_point(|entry| entry.first_message <= number);
        self.entry_before(after)
    }

    /// Returns the position of a chunk from which a reader finds all messages published at this time or later.
    pub fn seek_time(&self, time_ns: u64) -> u64 {
        let after = self.tail.index.partition_point(|entry| entry.before_ns < time_ns);
        self.entry_before(after)
    }

    fn entry_before(&self, after: usize) -> u64 {
        let entry = after.checked_sub(1).and_then(|i| self.tail.index.get(i));
        entry.map_or(0, |entry| entry.position).max(self.oldest_position())
    }

    /// Returns the next I/O operation to perform. `None`: there is none until the next append or completion.
    pub fn next_action(&mut self) -> Option<Action<B>> {
        let at = (self.commit.issued() - self.first_closed) as usize;
        let waiting = match (self.closed.get(at), &self.open) {
            (Some(next), _) if self.waits_for_durable(next.header.position) => Waiting::None,
            (Some(_), _) => Waiting::Full,
            (None, Some(_)) if self.waits_for_durable(self.tail.position) => Waiting::None,
            (None, Some(_)) => Waiting::Partial,
            (None, None) => Waiting::None,
        };
        match self.commit.step(waiting) {
            Step::Wait => None,
            Step::Flush => {
                self.commit.flush_begins();
                Some(Action::Flush)
            }
            Step::Write => {
                if at == self.closed.len() {
                    self.close(false);
                }
                let Closed { header, buffer, .. } = self.closed.get(at)?;
                Some(Action::Write {
                    chunk: self.commit.write_begins(waiting),
                    offset_bytes: self.layout.offset_bytes(header.position),
                    len_bytes: header.length_bytes as usize,
                    buffer: Arc::clone(buffer),
                })
            }
        }
    }

    /// Whether a chunk at this position must not be written yet, because it would overwrite data needed after a
    /// crash: a segment whose drop is not yet durable, or records whose copies are not yet durable.
    fn waits_for_durable(&self, position: u64) -> bool {
        let segment = self.layout.segment(position);
        let last_durable = self.layout.segment(self.durable.0.saturating_sub(1));
        if segment >= self.layout.oldest_kept(last_durable) + self.layout.slots() {
            return true;
        }
        let durable = self.commit.durable();
        self.carried.iter().any(|it| it.overwritten_by <= segment && it.chunks > durable)
    }

    /// Records that the write of a chunk has completed or, if `succeeded` is false, failed.
    pub fn written(&mut self, chunk: u64, succeeded: bool) {
        self.commit.written(chunk, succeeded);
    }

    /// Records that the flush in flight has completed or, if `succeeded` is false, failed.
    pub fn flushed(&mut self, succeeded: bool) {
        self.commit.flushed(succeeded);
    }

    /// Returns the next chunk that has become durable, in the log's order; `None` if there is none. The chunk's
    /// messages now count as persisted.
    pub fn next_persisted(&mut self) -> Option<Persisted<B>> {
        if self.commit.durable() == self.first_closed {
            return None;
        }
        let Closed { header, changes_state, buffer } = self.closed.pop_front()?;
        self.first_closed += 1;
        self.closed_before_ns = header.time_ns;
        self.durable =
            (self.layout.after(&header), header.first_message + u64::from(header.messages));
        while self.carried.front().is_some_and(|it| it.chunks <= self.first_closed) {
            self.carried.pop_front();
        }
        if self.options.keeps_state && changes_state {
            let chunk = Chunk::trusted(header, (*buffer).as_ref());
            apply_chunk(&mut self.state, &self.layout, &chunk);
        }
        Some(Persisted { header, buffer })
    }

    /// Takes back a buffer for reuse, unless it is still referenced elsewhere.
    pub fn recycle(&mut self, buffer: Arc<B>) {
        if self.free.len() < self.options.queue_chunks_max
            && let Ok(buffer) = Arc::try_unwrap(buffer)
        {
            self.free.push(buffer);
        }
    }
}

/// Adds a chunk to the sparse index if it is far enough from the last entry. `before_ns` is the latest
/// publication time before the chunk.
pub(crate) fn note_in_index(
    index: &mut VecDeque<IndexEntry>,
    header: &ChunkHeader,
    before_ns: u64,
) {
    let is_far = |last: &IndexEntry| header.position - last.position >= INDEX_STEP_BYTES;
    if index.back().is_none_or(is_far) {
        let (position, first_message) = (header.position, header.first_message);
        index.push_back(IndexEntry { position, first_message, before_ns });
    }
}

/// Applies a chunk's records to the current values and publishers.
pub(crate) fn apply_chunk(state: &mut State, layout: &Layout, chunk: &Chunk<'_>) {
    let segment = layout.segment(chunk.header.position);
    let mut number = chunk.header.first_message;
    for record in chunk.records() {
        state.apply(&record, number, segment);
        number += u64::from(record.kind.is_message());
    }
}
