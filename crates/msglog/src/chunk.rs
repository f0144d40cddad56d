//! A chunk, the unit in which a log is written: a header with a checksum, then records, then zeroes up to a whole
//! number of blocks. `layout.rs` places chunks; `recovery.rs` finds them again.
//!
//! The header, in little-endian order:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | `IMC1` |
//! | 4..8 | CRC-32C of bytes 8 to the end of the records |
//! | 8..16 | the log's identifier |
//! | 16..24 | the chunk's position in the log, bytes since the log was created |
//! | 24..32 | number of its first message |
//! | 32..40 | position below which the log was durable when the chunk was closed |
//! | 40..48 | latest time of publication in the log up to this chunk, ns since 1970 |
//! | 48..52 | length of the chunk on the target, bytes |
//! | 52..56 | bytes of header and records |
//! | 56..60 | number of messages; other records do not count |
//! | 60..64 | epoch: how often the log was opened for writing |
//! | 64..68 | CRC-32C of the chunk before it; 0 for the first of the log |
//! | 68..72 | flags; 1: the rest of the segment is unused |
//!
//! A chunk is valid if its checksum, the log's identifier and its position are right. It is the successor of another
//! chunk if it also contains that chunk's checksum, and its epoch is not lower.

use crate::message::Message;
use crate::storage::ReadFailure;

pub const CHUNK_HEADER_BYTES: usize = 72;
const MAGIC: [u8; 4] = *b"IMC1";
const FLAG_LAST_OF_SEGMENT: u32 = 1;
/// Upper bound of positions and message numbers: valid ones are lower. No log can reach it.
pub(crate) const COUNT_END: u64 = 1 << 62;
/// Upper bound of epochs (number of times a log was opened for writing): valid ones are lower. No log can reach it.
pub(crate) const EPOCH_END: u32 = 1 << 31;
/// Offset of the first checksummed byte in a chunk; the checksum itself comes before it.
const CHECKED_FROM: usize = 8;

/// Header of a chunk: its position in the log, its length, and its number of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkHeader {
    /// CRC-32C of the chunk's records and of the header after this field.
    pub checksum: u32,
    /// Identifier in the log's description. A chunk with a different one is a remnant of another log on the target.
    pub log_id: u64,
    /// Position of the chunk in the log, bytes since the log was created.
    pub position: u64,
    /// Number of the chunk's first message; in a chunk without messages, number of the next message in the log.
    pub first_message: u64,
    /// Position below which the log was already durable when the chunk was closed.
    pub durable_position: u64,
    /// Latest publication time of any message up to and including this chunk, ns since 1970.
    pub time_ns: u64,
    /// Length of the chunk on the target with its padding, bytes.
    pub length_bytes: u32,
    /// Length of header and records, without padding, bytes.
    pub used_bytes: u32,
    /// Number of messages in the chunk; other records are not counted.
    pub messages: u32,
    /// Epoch of the writer: the number of times that the log has been opened for writing, including by this writer.
    pub epoch: u32,
    /// Checksum of the preceding chunk; 0 in the first chunk of the log.
    pub previous_checksum: u32,
    /// Whether this is the last chunk of its segment, so that the rest of the segment is unused.
    pub is_last_of_segment: bool,
}

impl ChunkHeader {
    /// Position of the chunk's end in the log. The next chunk starts there, unless this one is the last of its
    /// segment.
    pub fn end(&self) -> u64 {
        self.position + u64::from(self.length_bytes)
    }

    /// Number of the first message after this chunk.
    pub fn next_message(&self) -> u64 {
        self.first_message + u64::from(self.messages)
    }

    /// Computes the checksum and writes the header to the start of `chunk`, which must already contain the
    /// records.
    ///
    /// # Panics
    /// If `chunk` is shorter than [`Self::used_bytes`].
    pub fn seal(&mut self, chunk: &mut [u8]) {
        let used = self.used_bytes as usize;
        chunk[0..4].copy_from_slice(&MAGIC);
        let mut put = |at: usize, bytes: &[u8]| chunk[at..at + bytes.len()].copy_from_slice(bytes);
        put(8, &self.log_id.to_le_bytes());
        put(16, &self.position.to_le_bytes());
        put(24, &self.first_message.to_le_bytes());
        put(32, &self.durable_position.to_le_bytes());
        put(40, &self.time_ns.to_le_bytes());
        put(48, &self.length_bytes.to_le_bytes());
        put(52, &self.used_bytes.to_le_bytes());
        put(56, &self.messages.to_le_bytes());
        put(60, &self.epoch.to_le_bytes());
        put(64, &self.previous_checksum.to_le_bytes());
        put(68, &(u32::from(self.is_last_of_segment) * FLAG_LAST_OF_SEGMENT).to_le_bytes());
        self.checksum = crc_fast::crc32_iscsi(&chunk[CHECKED_FROM..used]);
        chunk[4..8].copy_from_slice(&self.checksum.to_le_bytes());
        chunk[used..self.length_bytes as usize].fill(0);
    }

    /// Decodes the header at the start of `bytes` without verifying its checksum. `None` if the bytes are not a
    /// header.
    pub fn peek(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..CHUNK_HEADER_BYTES)?;
        if header[0..4] != MAGIC {
            return None;
        }
        let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let half = |at: usize| header[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let header = Self {
            checksum: half(4)?,
            log_id: word(8)?,
            position: word(16)?,
            first_message: word(24)?,
            durable_position: word(32)?,
            time_ns: word(40)?,
            length_bytes: half(48)?,
            used_bytes: half(52)?,
            messages: half(56)?,
            epoch: half(60)?,
            previous_checksum: half(64)?,
            is_last_of_segment: half(68)? & FLAG_LAST_OF_SEGMENT != 0,
        };
        let lengths = CHUNK_HEADER_BYTES..=header.length_bytes as usize;
        let can_be = lengths.contains(&(header.used_bytes as usize))
            && header.position < COUNT_END
            && header.first_message < COUNT_END
            && header.durable_position <= header.position
            && header.epoch < EPOCH_END;
        can_be.then_some(header)
    }
}

/// A verified chunk of a log in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Position, message numbers and checksum of the chunk.
    pub header: ChunkHeader,
    whole: &'a [u8],
}

/// Reason why bytes are not a valid chunk at the expected position of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The bytes do not begin with a chunk header.
    NoHeader,
    /// The chunk's length in its header exceeds the available bytes.
    Cut,
    /// The chunk's checksum does not match its content.
    Checksum,
    /// The chunk belongs to another log, with this identifier.
    OtherLog(u64),
    /// The chunk belongs at a different position of the log, given here.
    OtherPosition(u64),
    /// The chunk's checksum matches, but a record in it is malformed.
    Record,
    /// The chunk is intact but is not the successor of the chunk before it: a leftover that was never acknowledged.
    Stale,
    /// The target failed to read the bytes.
    Unreadable(ReadFailure),
}

impl core::fmt::Display for Invalid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoHeader => f.write_str("there is no chunk header"),
            Self::Cut => f.write_str("the chunk is cut off"),
            Self::Checksum => f.write_str("the chunk's checksum differs"),
            Self::OtherLog(id) => write!(f, "the chunk belongs to another log, {id:016x}"),
            Self::OtherPosition(at) => write!(f, "the chunk belongs to position {at} of the log"),
            Self::Stale => f.write_str("there is a stale chunk, which was never acknowledged"),
            Self::Unreadable(failure) => write!(f, "the target can't be read: {}", failure.error),
            Self::Record => {
                f.write_str("the chunk's checksum is correct, but its records are malformed")
            }
        }
    }
}

impl<'a> Chunk<'a> {
    /// Parses and verifies the chunk at the start of `bytes`, which must belong to log `log_id` at `position`.
    ///
    /// # Errors
    /// The bytes are not that chunk. The error gives the reason.
    pub fn parse(bytes: &'a [u8], log_id: u64, position: u64) -> Result<Self, Invalid> {
        let header = ChunkHeader::peek(bytes).ok_or(Invalid::NoHeader)?;
        if header.log_id != log_id {
            return Err(Invalid::OtherLog(header.log_id));
        }
        if header.position != position {
            return Err(Invalid::OtherPosition(header.position));
        }
        // The missing part may be only zeroes, but the chunk was never written completely.
        let whole = bytes.get(..header.length_bytes as usize).ok_or(Invalid::Cut)?;
        let used = &whole[..header.used_bytes as usize];
        if crc_fast::crc32_iscsi(&used[CHECKED_FROM..]) != header.checksum {
            return Err(Invalid::Checksum);
        }
        let messages = count_messages(&used[CHUNK_HEADER_BYTES..]);
        let is_whole = messages == Some(header.messages);
        is_whole.then_some(Self { header, whole }).ok_or(Invalid::Record)
    }

    /// Creates a chunk without verification, for a header that this process has already sealed or verified.
    pub(crate) fn trusted(header: ChunkHeader, bytes: &'a [u8]) -> Self {
        Self { header, whole: &bytes[..header.length_bytes as usize] }
    }

    /// Iterates over the chunk's records, in order: messages, and state of the log.
    pub fn records(&self) -> Records<'a> {
        Records { rest: &self.whole[CHUNK_HEADER_BYTES..self.header.used_bytes as usize] }
    }

    /// Iterates over the chunk's messages with their numbers, in order.
    pub fn messages(&self) -> impl Iterator<Item = (u64, Message<'a>)> + use<'a> {
        let (mut records, mut next) = (self.records(), self.header.first_message);
        core::iter::from_fn(move || {
            loop {
                let record = records.next()?;
                if record.kind.is_message() {
                    next += 1;
                    return Some((next - 1, record));
                }
            }
        })
    }
}

/// Counts the messages among the records in `rest`. `None` if a record is malformed or incomplete.
fn count_messages(mut rest: &[u8]) -> Option<u32> {
    let mut messages = 0;
    while !rest.is_empty() {
        let (message, length) = Message::decode(rest)?;
        messages += u32::from(message.kind.is_message());
        rest = &rest[length..];
    }
    Some(messages)
}

/// Iterator over a chunk's records, in order.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        let (message, length) = Message::decode(self.rest)?;
        self.rest = &self.rest[length..];
        Some(message)
    }
}
