//! A stream of messages: reads the log with its own cursor, from recent chunks in memory or from the target, and
//! encodes matching messages. Encoding never waits, stops after a time slice, and buffers at most one batch until the
//! client reads.

use crate::memory::Charge;
use crate::read_ahead::{Permit, ReadingThreads};
use crate::shared::{Core, Shared};
use crate::slice::Slice;
use crate::wanted::{Order, Wanted};
use iodyno_msglog::chunk::Invalid;
use iodyno_msglog::protocol::{End, ErrorCode, Reply, ServerError, Start};
use iodyno_msglog::{Chunk, SegmentReader, Storage};
use iodyno_units::human;
use std::sync::Arc;

/// Number of log bytes that a scan may read for one evaluation step of its budget.
const STEP_BYTES: u64 = 64;

/// Progress of a stream after a round of encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The stream has more messages to encode.
    More,
    /// All persisted messages are encoded.
    UpToDate,
    /// The stream has reached its requested end.
    Ended,
}

/// A stream of messages that is being sent to a client.
pub(crate) struct Cursor<'a> {
    storage: &'a Arc<dyn Storage>,
    wanted: Wanted,
    /// Reader of the log on the target. It gets memory and threads on first use, and releases them at the end of
    /// the log.
    reader: Option<(SegmentReader<'a>, Option<Charge>)>,
    /// Position in the log of the next chunk to encode.
    position: u64,
    /// Number of the next message to encode.
    next: u64,
    /// Number of the first message that was found in the log, whether sent or not; 0 until then.
    first: u64,
    /// Earliest publication time of messages in the stream, ns since 1970.
    from_ns: u64,
    /// Exclusive upper bound of the stream's message numbers; `None` for a subscription.
    end: Option<u64>,
    /// Whether the stream must fail if its first requested message is no longer retained.
    checks_first: bool,
}

fn gone(shared: &Shared, next: u64) -> ServerError {
    let kept_bytes = shared.log.durable_position() - shared.log.oldest_position();
    let words = format!(
        "message {next} is no longer kept: the log holds the last {}; read from the oldest message, or read faster",
        human::size(kept_bytes)
    );
    ServerError::new(ErrorCode::Gone, next, words)
}

impl<'a> Cursor<'a> {
    /// Opens a stream at the start that the client has requested.
    pub(crate) fn open(
        storage: &'a Arc<dyn Storage>,
        shared: &Shared,
        order: Order,
    ) -> Result<Self, ServerError> {
        let persisted = shared.log.persisted();
        let (position, next, from_ns) = match order.start {
            Start::Now => (shared.log.durable_position(), persisted, 0),
            Start::Message(number) if number > persisted => {
                let words = format!(
                    "message {number} does not exist yet: the next message is {persisted}; check that the bookmark belongs to this log"
                );
                return Err(ServerError::new(ErrorCode::Ahead, number, words));
            }
            Start::Message(number) => (shared.log.seek_message(number), number.max(1), 0),
            Start::TimeNs(time_ns) => (shared.log.seek_time(time_ns), 0, time_ns),
            Start::Oldest => (shared.log.oldest_position(), 0, 0),
        };
        // The index may include chunks that are not persisted yet.
        let mut position = position.min(shared.log.durable_position());
        if let (Start::TimeNs(_), End::Message(number)) = (order.start, order.end) {
            // An end before the start: the chunk of the end shows whether its message is still kept.
            position = position.min(shared.log.seek_message(number));
        }
        let end = match order.end {
            End::Never => None,
            End::Now => Some(persisted),
            End::Message(number) => Some(number),
        };
        let mut cursor = Self {
            storage,
            wanted: order.wanted,
            reader: None,
            position,
            next,
            first: 0,
            from_ns,
            end,
            checks_first: matches!(order.start, Start::Message(_)),
        };
        if position == shared.log.durable_position() {
            cursor.next = cursor.next.max(persisted);
        }
        Ok(cursor)
    }

    /// Whether the stream has an end, unlike a subscription.
    pub(crate) fn is_bounded(&self) -> bool {
        self.end.is_some()
    }

    /// Position in the log of the next chunk to encode.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Number of the next message, at which a later stream can continue. If the requested end is no longer retained,
    /// this is the oldest message.
    pub(crate) fn next(&self) -> u64 {
        self.end.map_or(self.next, |end| end.min(self.next).max(self.first))
    }

    /// Releases the reader and its memory while the client does not read.
    pub(crate) fn rest(&mut self) {
        self.reader = None;
    }

    /// Encodes messages until `out` is full ([`crate::Limits::send_bytes`]), no more are persisted, or the time
    /// slice ends.
    pub(crate) fn advance(
        &mut self,
        core: &Core,
        out: &mut Vec<u8>,
        slice: &mut Slice<'_>,
    ) -> Result<Progress, ServerError> {
        let bytes_max = core.limits.send_bytes;
        loop {
            if self.end.is_some_and(|end| self.next >= end) {
                return Ok(Progress::Ended);
            }
            if out.len() >= bytes_max {
                return Ok(Progress::More);
            }
            let shared = core.lock();
            let durable = shared.log.durable_position();
            if self.position >= durable {
                drop(shared);
                self.reader = None;
                return Ok(Progress::UpToDate);
            }
            if self.position < shared.log.oldest_position() {
                return Err(gone(&shared, self.next));
            }
            let recent = shared.recent(self.position);
            drop(shared);
            let goes_on = if let Some(buffer) = recent {
                let chunk = Chunk::parse((*buffer).as_ref(), core.layout.log_id, self.position);
                match chunk {
                    Ok(chunk) => self.take(core, &chunk, out, slice)?,
                    Err(invalid) => return Err(self.unreadable(core, &invalid)),
                }
            } else {
                self.read(core, durable, out, slice)?
            };
            if !goes_on {
                return Ok(Progress::More);
            }
        }
    }

    /// Creates a reader of the log: with read-ahead if threads and memory are available, otherwise without. If no
    /// memory at all is available, its reads are small.
    fn reader(&self, core: &Core) -> (SegmentReader<'a>, Option<Charge>) {
        let readers = &core.memory.readers;
        let ahead_bytes = SegmentReader::memory_bytes(&core.layout, true);
        let ahead = Permit::of(&core.readers, core.limits.readers_ahead)
            .and_then(|permit| Some((permit, readers.take(ahead_bytes)?)))
            .and_then(|(permit, charge)| {
                let threads = ReadingThreads::with_permit(self.storage, permit.into())?;
                Some((threads, charge))
            });
        if let Some((threads, charge)) = ahead {
            let reader = SegmentReader::new(&**self.storage, core.layout);
            return (reader.with_ahead(Some(threads)), Some(charge));
        }
        match readers.take(SegmentReader::memory_bytes(&core.layout, false)) {
            Some(charge) => (SegmentReader::new(&**self.storage, core.layout), Some(charge)),
            None => (SegmentReader::with_small_reads(&**self.storage, core.layout), None),
        }
    }

    /// Reads the next chunk from the target. Returns false if the time slice has ended.
    fn read(
        &mut self,
        core: &Core,
        durable: u64,
        out: &mut Vec<u8>,
        slice: &mut Slice<'_>,
    ) -> Result<bool, ServerError> {
        let (mut reader, charge) = self.reader.take().unwrap_or_else(|| self.reader(core));
        reader.ends_at(durable);
        let mut result = match reader.chunk(self.position) {
            Ok(chunk) => Ok(self.take(core, &chunk, out, slice)),
            Err(invalid) => Err(invalid),
        };
        if result.is_err() {
            // Bytes read ahead may be stale.
            reader.forget();
            result = match reader.chunk(self.position) {
                Ok(chunk) => Ok(self.take(core, &chunk, out, slice)),
                Err(invalid) => Err(invalid),
            };
        }
        self.reader = Some((reader, charge));
        match result {
            Ok(taken) => taken,
            Err(invalid) => {
                let shared = core.lock();
                if self.position < shared.log.oldest_position() {
                    return Err(gone(&shared, self.next));
                }
                drop(shared);
                let damage = core.damages.iter().find(|damage| {
                    (damage.position..damage.position + damage.length_bytes)
                        .contains(&self.position)
                });
                match damage {
                    Some(damage) => {
                        self.position = damage.position + damage.length_bytes;
                        Ok(true)
                    }
                    None => Err(self.unreadable(core, &invalid)),
                }
            }
        }
    }

    fn unreadable(&self, core: &Core, invalid: &Invalid) -> ServerError {
        let offset_bytes = core.layout.offset_bytes(self.position);
        let words = format!("at byte {offset_bytes} of the target, {invalid}");
        ServerError::new(ErrorCode::Target, self.next, words)
    }

    /// Encodes the matching messages of a chunk. Returns false if the time slice has ended, possibly within the
    /// chunk.
    fn take(
        &mut self,
        core: &Core,
        chunk: &Chunk<'_>,
        out: &mut Vec<u8>,
        slice: &mut Slice<'_>,
    ) -> Result<bool, ServerError> {
        let Ok(_pass) = slice.next() else { return Ok(false) };
        let header = &chunk.header;
        slice.spends(u64::from(header.used_bytes) / STEP_BYTES);
        if self.first == 0 && header.messages > 0 {
            self.first = header.first_message;
        }
        if self.checks_first && header.messages > 0 {
            self.checks_first = false;
            let is_damaged = core.damages.iter().any(|damage| {
                damage.messages.is_none_or(|(first, end)| (first..end).contains(&self.next))
            });
            if header.first_message > self.next && !is_damaged {
                return Err(gone(&core.lock(), self.next));
            }
        }
        let after = header.first_message + u64::from(header.messages);
        if after > self.next && header.time_ns >= self.from_ns {
            for (number, message) in chunk.messages() {
                let is_in_range = number >= self.next
                    && message.time_ns >= self.from_ns
                    && self.end.is_none_or(|end| number < end);
                if !is_in_range {
                    continue;
                }
                if self.wanted.is_by_topic() {
                    if self.wanted.takes_topic(message.topic) {
                        Reply::Message { number, message }.encode(out);
                    }
                    continue;
                }
                let mut steps = 0;
                if self.wanted.matches(number, &message, &mut steps)? {
                    Reply::Message { number, message }.encode(out);
                }
                if steps > 0 && slice.spends(steps) && number + 1 < after {
                    // The next slice continues with the next message.
                    self.next = number + 1;
                    return Ok(false);
                }
            }
        }
        self.next = self.next.max(after);
        self.position = core.layout.after(header);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::publishers::Publishers;
    use crate::shared::ChunkBuffer;
    use crate::slice::Allowance;
    use crate::storage::MemoryStorage;
    use crate::wanted::Selection;
    use iodyno_msglog::log::Tail;
    use iodyno_msglog::{Action, Durability, Layout, Log, LogOptions, Message, MessageKind, State};
    use std::collections::{BTreeMap, VecDeque};

    const MESSAGES: u64 = 300;

    /// A server's state with a log of [`MESSAGES`] messages of 16 KiB, at 1 ns, 2 ns and so on.
    fn core(segments: u64) -> Core {
        let (segment_bytes, chunk_bytes) = (512 << 10, 64 << 10);
        let capacity_bytes = (64 << 10) + segments * segment_bytes;
        let layout = Layout::new(7, capacity_bytes, segment_bytes, chunk_bytes, 4096).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(capacity_bytes));
        let state = State::default();
        let publishers = Publishers::new(&state, 0, segment_bytes);
        let mut log = Log::new(layout, LogOptions::default(), Tail::empty(), state);
        let body = [7; 16 << 10];
        for time_ns in 1..=MESSAGES {
            let (kind, topic, key) = (MessageKind::Publish, "t", &b""[..]);
            let message =
                Message { kind, publisher: 0, sequence: 0, time_ns, topic, key, body: &body };
            let mut buffers = || ChunkBuffer(storage.buffer(chunk_bytes as usize));
            log.append(&message, &mut buffers).unwrap();
            while let Some(action) = log.next_action() {
                match action {
                    Action::Write { chunk, offset_bytes, len_bytes, buffer } => {
                        let bytes = &(*buffer).as_ref()[..len_bytes];
                        storage.write_at(offset_bytes, bytes).unwrap();
                        log.written(chunk, true);
                    }
                    Action::Flush => log.flushed(true),
                }
            }
            while log.next_persisted().is_some() {}
        }
        let shared = Shared {
            log,
            recent: VecDeque::new(),
            publishers,
            connections: BTreeMap::new(),
            time_ns: MESSAGES,
            failure: None,
            is_stopping: false,
            is_ending: false,
        };
        Core::new(storage, Limits::default(), Vec::new(), Durability::Batch, shared)
    }

    /// Reads a stream to its end, and returns the bookmark and whether it had messages.
    fn bookmark(core: &Core, start: Start, end: u64) -> (u64, bool) {
        let charge = Charge::none(&core.memory.requests);
        let wanted = Selection::new("", "", None).parse(charge).unwrap();
        let order = Order { start, end: End::Message(end), wanted };
        let mut cursor = Cursor::open(&core.storage, &core.lock(), order).unwrap();
        let (mut out, mut allowance, mut has_any) = (Vec::new(), Allowance::new(), false);
        while cursor.advance(core, &mut out, &mut Slice::new(&core.gate, &mut allowance)).unwrap()
            != Progress::Ended
        {
            has_any |= !out.is_empty();
            out.clear();
        }
        (cursor.next(), has_any || !out.is_empty())
    }

    /// The bookmark of a stream that ends before its start passes over no message that is kept.
    #[test]
    fn a_bookmark_passes_over_no_kept_message() {
        let whole = core(16);
        assert_eq!(bookmark(&whole, Start::TimeNs(250), 50), (50, false));
        assert_eq!(bookmark(&whole, Start::TimeNs(10 * MESSAGES), 50), (50, false));
        assert_eq!(bookmark(&whole, Start::TimeNs(250), 260), (260, true));
        let cut = core(6);
        let (oldest, _) = bookmark(&cut, Start::Oldest, 50);
        assert!((51..290).contains(&oldest), "{oldest}");
        assert_eq!(bookmark(&cut, Start::TimeNs(290), 50), (oldest, false));
    }
}
