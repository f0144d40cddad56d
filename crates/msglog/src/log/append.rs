//! Appends messages to the open chunk. Records carried over from dropped segments are appended first. When a segment is
//! full, writing continues in the next free one.

use super::{AppendError, Carried, Closed, Log, note_in_index};
use crate::chunk::{CHUNK_HEADER_BYTES, COUNT_END, Chunk, ChunkHeader};
use crate::commit::Durability;
use crate::message::{Message, MessageKind};
use std::collections::HashSet;
use std::sync::Arc;

/// The chunk to which messages are currently added.
#[derive(Debug)]
pub(super) struct Open<B> {
    buffer: B,
    used_bytes: usize,
    limit_bytes: usize,
    messages: u32,
    changes_state: bool,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Log<B> {
    /// Appends a message or a [`MessageKind::Publisher`] record. Returns the message's number; for a publisher,
    /// the number of the next message. `buffers` allocates a buffer if none is free.
    ///
    /// # Errors
    /// The record was not appended. The error gives the reason.
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

    /// Whether [`Self::append_end`] is possible and needed: the log is idle, and its last chunk is not an end marker.
    pub fn wants_end(&self) -> bool {
        let is_at_rest = self.closed.is_empty() && self.open.is_none() && !self.commit.is_broken();
        // Only a message may enter a segment, since that drops another one.
        let is_within = !self.tail.position.is_multiple_of(self.layout.segment_bytes);
        is_at_rest && is_within && !self.tail.is_ended
    }

    /// Appends an end marker, which is an empty chunk, to an idle and fully durable log. Recovery uses it to tell
    /// damage from a torn tail.
    pub fn append_end(&mut self, buffers: &mut impl FnMut() -> B) {
        if self.wants_end() {
            self.begin_chunk(buffers);
            self.close(false);
            self.tail.is_ended = true;
        }
    }

    /// Makes space for a record in the current chunk, if necessary by starting a new one. Returns without space
    /// if records must first be copied out of a dropped segment.
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

    /// Moves the log's end to a new segment, in order to append a message. Drops the oldest segment, whose
    /// space is overwritten only after the log has filled two further segments.
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

    /// Topics and keys of messages that are not yet durable.
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

    /// Copies a record into the current chunk, which must have space for it.
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

    /// Seals the current chunk, if there is one, so that it can be written.
    pub(super) fn close(&mut self, is_last_of_segment: bool) {
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
}
