//! The log as a state machine for writing: appends fill chunks, [`Log::next_action`] returns writes and flushes to
//! perform, and durable chunks are passed on in order. It does no I/O and reads no clock. `recovery.rs` opens a log.

use crate::chunk::{CHUNK_HEADER_BYTES, COUNT_END, Chunk, ChunkHeader};
use crate::commit::{Commit, CommitRule, Durability, Step, Waiting};
use crate::layout::Layout;
use crate::message::{Message, MessageKind, RecordError};
use crate::state::{OwnedRecord, State};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use thiserror::Error;

/// Approximate distance between two entries of the index, bytes.
const INDEX_STEP_BYTES: u64 = 256 << 10;

/// Options for writing and keeping the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The rule by which chunks are committed.
    pub commit: CommitRule,
    /// Maximum number of messages per chunk; 1 or more. With [`Durability::Each`] it is always 1.
    pub chunk_messages_max: u32,
    /// Maximum number of waiting chunks; beyond it, appends fail with [`AppendError::Busy`].
    pub queue_chunks_max: usize,
    /// Minimum retention of messages, ns: if all segments are younger, appends fail. 0 drops the oldest segment when
    /// space is needed; `u64::MAX` never drops one.
    pub retain_ns: u64,
    /// Whether current values are kept by key.
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

/// Reason why a message was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AppendError {
    /// The message can't be stored.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Too many chunks wait to be written: try again once an operation has completed.
    #[error("too many messages are waiting to be written")]
    Busy,
    /// All segments hold messages or values that must be kept.
    #[error(
        "the log is full: all {kept_bytes} bytes hold messages within the retention time, or current values"
    )]
    Full {
        /// Size of all segments, bytes.
        kept_bytes: u64,
    },
    /// A write or a flush has failed.
    #[error(
        "the log has stopped: a write or a flush failed, and no more messages can be persisted"
    )]
    Broken,
}

/// An operation for the caller to perform.
#[derive(Debug)]
pub enum Action<B> {
    /// Write the first `len_bytes` of the buffer at `offset_bytes` of the target, then call [`Log::written`].
    Write {
        /// Number of the chunk, for [`Log::written`].
        chunk: u64,
        /// Offset on the target, bytes.
        offset_bytes: u64,
        /// Bytes to write.
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
    /// The chunk's header.
    pub header: ChunkHeader,
    /// Buffer with the chunk at its start. Return it with [`Log::recycle`].
    pub buffer: Arc<B>,
}

/// The chunk being filled.
#[derive(Debug)]
struct Open<B> {
    buffer: B,
    used_bytes: usize,
    limit_bytes: usize,
    messages: u32,
    changes_state: bool,
}

/// A closed chunk: waiting, being written, or written but not durable.
#[derive(Debug)]
struct Closed<B> {
    header: ChunkHeader,
    /// Whether one of its records has a key or a publisher.
    changes_state: bool,
    buffer: Arc<B>,
}

/// Progress of carrying records from a dropped segment.
#[derive(Clone, Copy, Debug)]
struct Carried {
    /// Segment that will overwrite the dropped segment.
    overwritten_by: u64,
    /// All chunks below this number must be durable before the dropped segment is overwritten.
    chunks: u64,
}

/// An entry of the index, which finds chunks by message number or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Position of the chunk.
    pub position: u64,
    /// Number of the chunk's first message.
    pub first_message: u64,
    /// Latest time of publication before the chunk, ns since 1970.
    pub before_ns: u64,
}

/// End of a log as found by recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Position in the log of the next chunk.
    pub position: u64,
    /// Number of the next message, from 1.
    pub next_message: u64,
    /// Checksum of the last chunk.
    pub checksum: u32,
    /// Latest time of publication, ns since 1970.
    pub time_ns: u64,
    /// Oldest segment that is kept.
    pub oldest_segment: u64,
    /// Epoch for writing: the last one plus 1.
    pub epoch: u32,
    /// Index of some of the log's chunks, in ascending order.
    pub index: VecDeque<IndexEntry>,
    /// Latest time of publication up to the end of each segment before the tail's, from the oldest on, ns since 1970.
    pub segment_times_ns: VecDeque<u64>,
    /// Whether nothing has been appended since the last empty chunk: see [`Log::append_end`].
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

/// A log open for writing; see the module's description. `B` is a buffer of [`Layout::chunk_bytes`] bytes.
#[derive(Debug)]
pub struct Log<B> {
    layout: Layout,
    options: LogOptions,
    commit: Commit,
    tail: Tail,
    /// Next segment for the tail to enter.
    next_segment: u64,
    open: Option<Open<B>>,
    closed: VecDeque<Closed<B>>,
    /// Number of the first chunk in `closed`.
    first_closed: u64,
    free: Vec<B>,
    /// Latest time of publication before the first chunk in `closed`.
    closed_before_ns: u64,
    state: State,
    /// Position below which the log is durable, and number of the next message at that position.
    durable: (u64, u64),
    carried: VecDeque<Carried>,
    /// Records still to be carried, each with the segment that will overwrite its source.
    to_carry: VecDeque<(OwnedRecord, u64)>,
    /// Segments entered by the tail since a message was last appended.
    segments_without_message: u64,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Log<B> {
    /// A log that continues at `tail`, with the state at that point.
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

    /// Layout of the log.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Durable current values and publishers.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Number of the next message to be appended.
    pub fn next_message(&self) -> u64 {
        self.tail.next_message
    }

    /// Number below which all messages are persisted.
    pub fn persisted(&self) -> u64 {
        self.durable.1
    }

    /// Position in the log below which all chunks are persisted.
    pub fn durable_position(&self) -> u64 {
        self.durable.0
    }

    /// Oldest position in the log that is kept.
    pub fn oldest_position(&self) -> u64 {
        self.layout.segment_start(self.tail.oldest_segment)
    }

    /// Number of chunks that are not persisted yet.
    pub fn chunks_waiting(&self) -> usize {
        self.closed.len() + usize::from(self.open.is_some())
    }

    /// Whether a write or a flush has failed.
    pub fn is_broken(&self) -> bool {
        self.commit.is_broken()
    }

    /// Returns the position of a chunk before all messages with this number or higher.
    pub fn seek_message(&self, number: u64) -> u64 {
        let after = self.tail.index.partition_point(|entry| entry.first_message <= number);
        self.entry_before(after)
    }

    /// Returns the position of a chunk before all messages of this time or later.
    pub fn seek_time(&self, time_ns: u64) -> u64 {
        let after = self.tail.index.partition_point(|entry| entry.before_ns < time_ns);
        self.entry_before(after)
    }

    fn entry_before(&self, after: usize) -> u64 {
        let entry = after.checked_sub(1).and_then(|i| self.tail.index.get(i));
        entry.map_or(0, |entry| entry.position).max(self.oldest_position())
    }

    /// Appends a message, or a [`MessageKind::Publisher`]. Returns the message's number; for a publisher, the next
    /// message's. `buffers` allocates a buffer if none is free.
    ///
    /// # Errors
    /// The message was not appended; the error is the reason.
    pub fn append(
        &mut self,
        message: &Message<'_>,
        buffers: &mut impl FnMut() -> B,
    ) -> Result<u64, AppendError> {
        if self.commit.is_broken() {
            return Err(AppendError::Broken);
        }
        message.check(self.layout.space_bytes())?;
        let record_bytes = message.record_bytes();
        // Records carried from dropped segments go first.
        while let Some((record, overwritten_by)) = self.to_carry.front() {
            let (record, overwritten_by) = (record.clone(), *overwritten_by);
            let carried = record.as_message();
            self.make_space(carried.record_bytes(), message, Some(overwritten_by), buffers)?;
            self.put(&carried);
            self.to_carry.pop_front();
            if self.to_carry.front().is_none_or(|(_, next)| *next != overwritten_by) {
                // The open chunk counts too.
                let chunks = self.first_closed + self.closed.len() as u64 + 1;
                self.carried.push_back(Carried { overwritten_by, chunks });
            }
        }
        self.make_space(record_bytes, message, None, buffers)?;
        if !self.to_carry.is_empty() {
            // A new segment was entered: records of the dropped one must be carried first.
            return self.append(message, buffers);
        }
        let number = self.tail.next_message;
        self.put(message);
        self.segments_without_message = 0;
        Ok(number)
    }

    /// Whether [`Log::append_end`] would append a chunk.
    pub fn wants_end(&self) -> bool {
        let is_at_rest = self.closed.is_empty() && self.open.is_none() && !self.commit.is_broken();
        // Only a message may enter a segment, since that drops another one.
        let is_within = !self.tail.position.is_multiple_of(self.layout.segment_bytes);
        is_at_rest && is_within && !self.tail.is_ended
    }

    /// Appends an end marker to an idle, fully durable log: an empty chunk. Recovery uses it to tell damage from a
    /// torn tail.
    pub fn append_end(&mut self, buffers: &mut impl FnMut() -> B) {
        if self.wants_end() {
            self.begin_chunk(buffers);
            self.close(false);
            self.tail.is_ended = true;
        }
    }

    /// Makes space for a record in the open chunk, or returns without doing so if records must be carried first.
    fn make_space(
        &mut self,
        record_bytes: usize,
        appended: &Message<'_>,
        must_be_before: Option<u64>,
        buffers: &mut impl FnMut() -> B,
    ) -> Result<(), AppendError> {
        loop {
            if let Some(open) = &self.open {
                let messages_max = match self.options.commit.durability {
                    Durability::Each => 1,
                    _ => self.options.chunk_messages_max.max(1),
                };
                let fits = open.used_bytes + record_bytes <= open.limit_bytes;
                if fits && (open.messages < messages_max || must_be_before.is_some()) {
                    return Ok(());
                }
                let end = self.tail.position + self.layout.aligned(open.used_bytes) as u64;
                let needed_bytes = (CHUNK_HEADER_BYTES + record_bytes) as u64;
                let left_bytes = self.layout.left_in_segment(end);
                let is_end = left_bytes == self.layout.segment_bytes;
                self.close(!is_end && needed_bytes > left_bytes);
            }
            if self.closed.len() >= self.options.queue_chunks_max {
                return Err(AppendError::Busy);
            }
            if self.tail.position.max(self.tail.next_message) >= COUNT_END {
                return Err(self.full());
            }
            let segment = self.layout.segment(self.tail.position);
            if segment == self.next_segment {
                if must_be_before.is_some_and(|end| segment >= end) {
                    return Err(self.full());
                }
                self.enter_segment(segment, appended)?;
                if !self.to_carry.is_empty() && must_be_before.is_none() {
                    return Ok(());
                }
            }
            let left_bytes = self.layout.left_in_segment(self.tail.position);
            self.begin_chunk(buffers);
            if (CHUNK_HEADER_BYTES + record_bytes) as u64 > left_bytes {
                // An empty chunk marks the rest of the segment as unused.
                self.close(true);
            }
        }
    }

    fn full(&self) -> AppendError {
        AppendError::Full { kept_bytes: self.layout.slots() * self.layout.segment_bytes }
    }

    /// Makes the tail enter a segment, in order to append a message. The oldest segment is dropped now, and
    /// overwritten when the tail enters the segment after the next.
    fn enter_segment(&mut self, segment: u64, appended: &Message<'_>) -> Result<(), AppendError> {
        let (oldest, slots) = (self.tail.oldest_segment, self.layout.slots());
        let drops = self.layout.oldest_kept(segment) > oldest;
        if drops {
            if self.layout.segment(self.durable.0) <= oldest {
                return Err(AppendError::Busy);
            }
            let retain_ns = self.options.retain_ns;
            let latest_ns = self.tail.segment_times_ns.front().copied().unwrap_or(0);
            let is_kept = retain_ns > 0 && latest_ns.saturating_add(retain_ns) > appended.time_ns;
            // Values carried from each segment to the next would leave no space for messages. Deletes make space.
            let kept_bytes = (slots - 2) * self.layout.segment_bytes;
            let has_space =
                self.state.value_bytes() <= kept_bytes / 2 || appended.kind == MessageKind::Delete;
            // All values were carried around once without any space between them.
            let is_all_values = !has_space || self.segments_without_message > slots;
            if is_kept || is_all_values {
                return Err(self.full());
            }
        }
        if segment > oldest {
            self.tail.segment_times_ns.push_back(self.tail.time_ns);
        }
        self.next_segment = segment + 1;
        self.segments_without_message += 1;
        if drops {
            self.tail.oldest_segment += 1;
            self.tail.segment_times_ns.pop_front();
            let oldest_position = self.oldest_position();
            while self.tail.index.front().is_some_and(|entry| entry.position < oldest_position) {
                self.tail.index.pop_front();
            }
            let changing = self.changing();
            let is_changing = |topic: &str, key: &[u8]| {
                changing.contains(&(Box::<str>::from(topic), Box::<[u8]>::from(key)))
            };
            let records = self.state.carried_from(oldest, is_changing);
            self.to_carry.extend(records.into_iter().map(|record| (record, oldest + slots)));
        }
        Ok(())
    }

    /// Keys of messages that are not durable yet.
    fn changing(&self) -> HashSet<(Box<str>, Box<[u8]>)> {
        let mut keys = HashSet::new();
        for Closed { header, buffer, .. } in &self.closed {
            let chunk = Chunk::trusted(*header, (**buffer).as_ref());
            let messages = chunk.records().filter(|it| it.kind.is_message());
            keys.extend(messages.map(|it| (it.topic.into(), it.key.into())));
        }
        keys
    }

    fn begin_chunk(&mut self, buffers: &mut impl FnMut() -> B) {
        let left_bytes = self.layout.left_in_segment(self.tail.position);
        let limit_bytes = left_bytes.min(self.layout.chunk_bytes.into()) as usize;
        let buffer = self.free.pop().unwrap_or_else(buffers);
        self.open = Some(Open {
            buffer,
            used_bytes: CHUNK_HEADER_BYTES,
            limit_bytes,
            messages: 0,
            changes_state: false,
        });
    }

    /// Copies a record into the open chunk, which must have space for it.
    fn put(&mut self, message: &Message<'_>) {
        let Some(open) = &mut self.open else { return };
        self.tail.is_ended = false;
        message.encode(&mut open.buffer.as_mut()[open.used_bytes..]);
        open.used_bytes += message.record_bytes();
        open.changes_state |= !message.key.is_empty() || message.publisher != 0;
        if message.kind.is_message() {
            open.messages += 1;
            self.tail.next_message += 1;
            self.tail.time_ns = self.tail.time_ns.max(message.time_ns);
        }
    }

    /// Closes the open chunk, if any.
    fn close(&mut self, is_last_of_segment: bool) {
        let Some(mut open) = self.open.take() else { return };
        let used_bytes = open.used_bytes;
        let mut header = ChunkHeader {
            checksum: 0,
            log_id: self.layout.log_id,
            position: self.tail.position,
            first_message: self.tail.next_message - u64::from(open.messages),
            durable_position: self.durable.0,
            time_ns: self.tail.time_ns,
            length_bytes: self.layout.aligned(used_bytes) as u32,
            used_bytes: used_bytes as u32,
            messages: open.messages,
            epoch: self.tail.epoch,
            previous_checksum: self.tail.checksum,
            is_last_of_segment,
        };
        header.seal(open.buffer.as_mut());
        let before_ns = self.closed.back().map_or(self.closed_before_ns, |it| it.header.time_ns);
        note_in_index(&mut self.tail.index, &header, before_ns);
        self.tail.checksum = header.checksum;
        self.tail.position = self.layout.after(&header);
        let (changes_state, buffer) = (open.changes_state, Arc::new(open.buffer));
        self.closed.push_back(Closed { header, changes_state, buffer });
    }

    /// Returns the next operation; None until an append, [`Log::written`] or [`Log::flushed`].
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

    /// Whether a chunk at this position must wait, because it would overwrite data needed after a crash: a segment
    /// that the last durable chunk does not yet show to be dropped, or records whose carried copies are not durable.
    fn waits_for_durable(&self, position: u64) -> bool {
        let segment = self.layout.segment(position);
        let last_durable = self.layout.segment(self.durable.0.saturating_sub(1));
        if segment >= self.layout.oldest_kept(last_durable) + self.layout.slots() {
            return true;
        }
        let durable = self.commit.durable();
        self.carried.iter().any(|it| it.overwritten_by <= segment && it.chunks > durable)
    }

    /// Handles the completion of a write.
    pub fn written(&mut self, chunk: u64, succeeded: bool) {
        self.commit.written(chunk, succeeded);
    }

    /// Handles the completion of a flush.
    pub fn flushed(&mut self, succeeded: bool) {
        self.commit.flushed(succeeded);
    }

    /// Returns the next chunk that has become durable, in the log's order. Its messages are then persisted.
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

    /// Takes a buffer back for reuse, if nothing else refers to it.
    pub fn recycle(&mut self, buffer: Arc<B>) {
        if self.free.len() < self.options.queue_chunks_max
            && let Ok(buffer) = Arc::try_unwrap(buffer)
        {
            self.free.push(buffer);
        }
    }
}

/// Adds a chunk to the index, if it is far enough after the last entry. `before_ns` is the latest time of publication
/// before it.
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

/// Applies a chunk's records to the state.
pub(crate) fn apply_chunk(state: &mut State, layout: &Layout, chunk: &Chunk<'_>) {
    let segment = layout.segment(chunk.header.position);
    let mut number = chunk.header.first_message;
    for record in chunk.records() {
        state.apply(&record, number, segment);
        number += u64::from(record.kind.is_message());
    }
}
