//! The log as it is written: appends fill chunks, [`Log::next_action`] says what to write and flush, and what has become
//! durable is passed on in order. A state machine: it does no I/O and reads no clock. `recovery.rs` opens one.

use crate::chunk::{CHUNK_HEADER_BYTES, COUNT_END, Chunk, ChunkHeader};
use crate::commit::{Commit, CommitRule, Durability, Step, Waiting};
use crate::layout::Layout;
use crate::message::{Message, MessageKind, RecordError};
use crate::state::{OwnedRecord, State};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use thiserror::Error;

/// One entry of the index for about so many bytes of the log.
const INDEX_STEP_BYTES: u64 = 256 << 10;

/// How a log is written and what it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Group commit.
    pub commit: CommitRule,
    /// Messages in a chunk, at most; 1 or more. [`Durability::Each`] has one in any case.
    pub chunk_messages_max: u32,
    /// Chunks that wait, at most, before appends are refused as [`AppendError::Busy`].
    pub queue_chunks_max: usize,
    /// Messages are kept for so long at least, ns: where all space is younger, appends stop. 0 drops the oldest when
    /// space is needed, `u64::MAX` none ever.
    pub retain_ns: u64,
    /// Keeps the current value by key.
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

/// Why a message was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AppendError {
    /// The message can't be stored.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Too much waits to be written: try again when something has completed.
    #[error("too many messages wait to be written")]
    Busy,
    /// All segments hold messages that must be kept.
    #[error(
        "the log is full: all its {kept_bytes} bytes hold messages younger than its retention, or current values"
    )]
    Full {
        /// Bytes of all segments.
        kept_bytes: u64,
    },
    /// A write or a flush has failed.
    #[error("the log has stopped: a write or a flush failed, and nothing more can be persisted")]
    Broken,
}

/// An operation to carry out.
#[derive(Debug)]
pub enum Action<B> {
    /// Write the first `len_bytes` of the buffer at `offset_bytes` of the target, then call [`Log::written`].
    Write {
        /// The chunk's number.
        chunk: u64,
        /// Where, from the target's start.
        offset_bytes: u64,
        /// How much.
        len_bytes: usize,
        /// The content.
        buffer: Arc<B>,
    },
    /// Flush the target, then call [`Log::flushed`].
    Flush,
}

/// A chunk that has become durable.
#[derive(Debug)]
pub struct Persisted<B> {
    /// Its header.
    pub header: ChunkHeader,
    /// Its bytes, from the first on. To be given back by [`Log::recycle`].
    pub buffer: Arc<B>,
}

/// A chunk that is being filled.
#[derive(Debug)]
struct Open<B> {
    buffer: B,
    used_bytes: usize,
    limit_bytes: usize,
    messages: u32,
    changes_state: bool,
}

/// A closed chunk: it waits, is being written, or is written and not durable.
#[derive(Debug)]
struct Closed<B> {
    header: ChunkHeader,
    /// A record of it has a key or a publisher.
    changes_state: bool,
    buffer: Arc<B>,
}

/// What was carried from a dropped segment.
#[derive(Clone, Copy, Debug)]
struct Carried {
    /// The segment that takes its slot.
    overwritten_by: u64,
    /// All chunks below this number must be durable before.
    chunks: u64,
}

/// An entry of the index: a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its place.
    pub position: u64,
    /// Number of its first message.
    pub first_message: u64,
    /// The latest time of publication before it, ns since 1970.
    pub before_ns: u64,
}

/// Where a log ends, as recovery found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Place of the next chunk.
    pub position: u64,
    /// Number of the next message, from 1.
    pub next_message: u64,
    /// Checksum of the last chunk.
    pub checksum: u32,
    /// Latest time of publication, ns since 1970.
    pub time_ns: u64,
    /// The oldest segment that is kept.
    pub oldest_segment: u64,
    /// The epoch to write with: one more than the last.
    pub epoch: u32,
    /// Some chunks, in order.
    pub index: VecDeque<IndexEntry>,
    /// Latest time of publication in each segment before the tail's, from the oldest on.
    pub segment_times_ns: VecDeque<u64>,
    /// Nothing has been appended since the last empty chunk: see [`Log::append_end`].
    pub is_ended: bool,
}

impl Tail {
    /// Of a log without messages.
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

/// See the file. `B` is a buffer of [`Layout::chunk_bytes`] bytes.
#[derive(Debug)]
pub struct Log<B> {
    layout: Layout,
    options: LogOptions,
    commit: Commit,
    tail: Tail,
    /// The next segment that the tail enters.
    next_segment: u64,
    open: Option<Open<B>>,
    closed: VecDeque<Closed<B>>,
    /// Number of the first chunk in `closed`.
    first_closed: u64,
    free: Vec<B>,
    /// Latest time of publication before the first chunk in `closed`.
    closed_before_ns: u64,
    state: State,
    /// All below is durable: place, and number of the next message.
    durable: (u64, u64),
    carried: VecDeque<Carried>,
    /// Records that still are to be carried, and the segment that overwrites what they come from.
    to_carry: VecDeque<(OwnedRecord, u64)>,
    /// Segments that the tail has entered since a message was appended.
    segments_without_message: u64,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Log<B> {
    /// A log that goes on at `tail`, with the state there.
    pub fn new(layout: Layout, options: LogOptions, tail: Tail, state: State) -> Self {
        let durable = (tail.position, tail.next_message);
        let is_at_start = tail.position.is_multiple_of(layout.segment_bytes);
        // What was dropped before a crash, and not carried yet.
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

    /// Its sizes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The current values and publishers, as far as they are durable.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Number of the next message to be appended.
    pub fn next_message(&self) -> u64 {
        self.tail.next_message
    }

    /// Messages below this number are persisted.
    pub fn persisted(&self) -> u64 {
        self.durable.1
    }

    /// Chunks before this place are persisted.
    pub fn durable_position(&self) -> u64 {
        self.durable.0
    }

    /// The first place that is kept.
    pub fn oldest_position(&self) -> u64 {
        self.layout.segment_start(self.tail.oldest_segment)
    }

    /// Chunks that are not persisted yet.
    pub fn chunks_waiting(&self) -> usize {
        self.closed.len() + usize::from(self.open.is_some())
    }

    /// A write or a flush has failed.
    pub fn is_broken(&self) -> bool {
        self.commit.is_broken()
    }

    /// A chunk from which on all messages with this number or higher are found.
    pub fn seek_message(&self, number: u64) -> u64 {
        let after = self.tail.index.partition_point(|entry| entry.first_message <= number);
        self.entry_before(after)
    }

    /// A chunk from which on all messages that were published at this time or later are found.
    pub fn seek_time(&self, time_ns: u64) -> u64 {
        let after = self.tail.index.partition_point(|entry| entry.before_ns < time_ns);
        self.entry_before(after)
    }

    fn entry_before(&self, after: usize) -> u64 {
        let entry = after.checked_sub(1).and_then(|i| self.tail.index.get(i));
        entry.map_or(0, |entry| entry.position).max(self.oldest_position())
    }

    /// Appends a message, or a [`MessageKind::Publisher`]. Its number; for a publisher that of the next message.
    /// `buffers` makes a buffer where none is free.
    ///
    /// # Errors
    /// Why it was not appended.
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
        // What is carried from dropped segments goes first.
        while let Some((record, overwritten_by)) = self.to_carry.front() {
            let (record, overwritten_by) = (record.clone(), *overwritten_by);
            let carried = record.as_message();
            self.make_space(carried.record_bytes(), message, Some(overwritten_by), buffers)?;
            self.put(&carried);
            self.to_carry.pop_front();
            if self.to_carry.front().is_none_or(|(_, next)| *next != overwritten_by) {
                // The open chunk is one of them.
                let chunks = self.first_closed + self.closed.len() as u64 + 1;
                self.carried.push_back(Carried { overwritten_by, chunks });
            }
        }
        self.make_space(record_bytes, message, None, buffers)?;
        if !self.to_carry.is_empty() {
            // A segment was entered: what it drops is carried before.
            return self.append(message, buffers);
        }
        let number = self.tail.next_message;
        self.put(message);
        self.segments_without_message = 0;
        Ok(number)
    }

    /// Whether [`Log::append_end`] has something to do.
    pub fn wants_end(&self) -> bool {
        let is_at_rest = self.closed.is_empty() && self.open.is_none() && !self.commit.is_broken();
        // A segment is entered, and another one dropped, for messages alone.
        let is_within = !self.tail.position.is_multiple_of(self.layout.segment_bytes);
        is_at_rest && is_within && !self.tail.is_ended
    }

    /// For a log at rest, all of which is durable: an empty chunk that says so. It proves that damage before it is damage, and no
    /// end that was being written.
    pub fn append_end(&mut self, buffers: &mut impl FnMut() -> B) {
        if self.wants_end() {
            self.begin_chunk(buffers);
            self.close(false);
            self.tail.is_ended = true;
        }
    }

    /// Makes sure that an open chunk has space for a record of so many bytes, unless values are to be carried first.
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
                // An empty chunk says that the rest of the segment is unused.
                self.close(true);
            }
        }
    }

    fn full(&self) -> AppendError {
        AppendError::Full { kept_bytes: self.layout.slots() * self.layout.segment_bytes }
    }

    /// The tail enters a segment, for a message to be appended. The oldest is dropped here, and overwritten by the segment
    /// after the next.
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
            // Values that are carried from each segment to the next would leave no space for messages. Deletes make space.
            let kept_bytes = (slots - 2) * self.layout.segment_bytes;
            let has_space =
                self.state.value_bytes() <= kept_bytes / 2 || appended.kind == MessageKind::Delete;
            // All was carried once more, and there was no space between.
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

    /// Puts a record into the open chunk, which has space for it.
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

    /// Closes the open chunk, if there is one.
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

    /// What to do next. None: nothing before an append, [`Log::written`] or [`Log::flushed`].
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

    /// Whether a chunk at this place would overwrite what must still be there after a crash: a segment that the last durable
    /// chunk does not yet show to be dropped, or what was carried and is not durable at its new place.
    fn waits_for_durable(&self, position: u64) -> bool {
        let segment = self.layout.segment(position);
        let last_durable = self.layout.segment(self.durable.0.saturating_sub(1));
        if segment >= self.layout.oldest_kept(last_durable) + self.layout.slots() {
            return true;
        }
        let durable = self.commit.durable();
        self.carried.iter().any(|it| it.overwritten_by <= segment && it.chunks > durable)
    }

    /// A write has completed.
    pub fn written(&mut self, chunk: u64, succeeded: bool) {
        self.commit.written(chunk, succeeded);
    }

    /// A flush has completed.
    pub fn flushed(&mut self, succeeded: bool) {
        self.commit.flushed(succeeded);
    }

    /// The next chunk that has become durable, in the log's order. Its messages are persisted now.
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

    /// Takes a buffer back, once nothing else refers to it.
    pub fn recycle(&mut self, buffer: Arc<B>) {
        if self.free.len() < self.options.queue_chunks_max
            && let Ok(buffer) = Arc::try_unwrap(buffer)
        {
            self.free.push(buffer);
        }
    }
}

/// Notes a chunk in the index, if it is far enough behind the last. Messages before it were published at `before_ns` at the
/// latest.
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

/// Takes a chunk's records into the state.
pub(crate) fn apply_chunk(state: &mut State, layout: &Layout, chunk: &Chunk<'_>) {
    let segment = layout.segment(chunk.header.position);
    let mut number = chunk.header.first_message;
    for record in chunk.records() {
        state.apply(&record, number, segment);
        number += u64::from(record.kind.is_message());
    }
}
