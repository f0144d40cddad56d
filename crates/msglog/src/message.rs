//! A message, and the record that stores it in a chunk (`chunk.rs`).
//!
//! A record, in little-endian order:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | length of the whole record, bytes |
//! | 4 | kind |
//! | 5 | length of the topic, bytes |
//! | 6..8 | length of the key, bytes |
//! | 8..16 | number by which the log identifies the publisher |
//! | 16..24 | sequence number that the publisher gave the message |
//! | 24..32 | time of publication, ns since 1970 |
//! | 32.. | topic, key, body |

use thiserror::Error;

/// Length of a record's fixed part, before its topic, key and body, bytes.
pub const RECORD_HEADER_BYTES: usize = 32;
/// Maximum length of a topic, bytes. A record stores the length in one byte.
pub const TOPIC_BYTES_MAX: usize = u8::MAX as usize;
/// Maximum length of a message's key, bytes. A record stores the length in two bytes.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Kind of a record in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// A published message. If it has a key, it becomes the current value of that key in its topic.
    Publish = 0,
    /// A message that removes the current value of a key in its topic.
    Delete = 1,
    /// Copy of a key's current value, made before the segment with the original is dropped. Not a message: replays omit
    /// it.
    CarriedValue = 2,
    /// A publisher's name (stored as the key), number, and last sequence number. Not a message.
    Publisher = 3,
}

impl MessageKind {
    fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [MessageKind; 4] = [
            MessageKind::Publish,
            MessageKind::Delete,
            MessageKind::CarriedValue,
            MessageKind::Publisher,
        ];
        ALL.get(usize::from(byte)).copied()
    }

    /// Whether the record is a message, which has a number and is sent to subscribers. Other records contain state
    /// of the log.
    pub fn is_message(self) -> bool {
        matches!(self, Self::Publish | Self::Delete)
    }
}

/// Content of a record in the log: a message, or state of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Kind of record, which decides whether it is a numbered message.
    pub kind: MessageKind,
    /// Number by which the log identifies the publisher; 0 without a named publisher.
    pub publisher: u64,
    /// Sequence number that the publisher gave the message, from 1; 0 without a named publisher. In a
    /// [`MessageKind::CarriedValue`], number of the message that set the value.
    pub sequence: u64,
    /// Time of publication, ns since 1970.
    pub time_ns: u64,
    /// Topic, at most [`TOPIC_BYTES_MAX`] bytes.
    pub topic: &'a str,
    /// Key, at most [`KEY_BYTES_MAX`] bytes; empty for none.
    pub key: &'a [u8],
    /// Content of the message, which the log does not interpret.
    pub body: &'a [u8],
}

/// Reason why a record can't be stored in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The topic is too long; the value is its length, bytes.
    #[error("the topic has {0} bytes, but the limit is {TOPIC_BYTES_MAX}")]
    Topic(usize),
    /// The key is too long; the value is its length, bytes.
    #[error("the key has {0} bytes, but the limit is {KEY_BYTES_MAX}")]
    Key(usize),
    /// The record is too long for a chunk.
    #[error(
        "the message needs {record_bytes} bytes with its header, but a chunk has only {space_bytes}: use larger chunks"
    )]
    Length {
        /// Length that the record would have, bytes.
        record_bytes: usize,
        /// Space for records in a chunk of maximum size, bytes.
        space_bytes: usize,
    },
}

impl<'a> Message<'a> {
    /// Length of the record that stores the message, bytes: header, topic, key and body.
    pub fn record_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.topic.len() + self.key.len() + self.body.len()
    }

    /// Checks that the message fits into chunks that have space for `space_bytes` bytes of records.
    ///
    /// # Errors
    /// The topic, the key or the whole record is too long.
    pub fn check(&self, space_bytes: usize) -> Result<(), RecordError> {
        let record_bytes = self.record_bytes();
        match () {
            () if self.topic.len() > TOPIC_BYTES_MAX => Err(RecordError::Topic(self.topic.len())),
            () if self.key.len() > KEY_BYTES_MAX => Err(RecordError::Key(self.key.len())),
            () if record_bytes > space_bytes => {
                Err(RecordError::Length { record_bytes, space_bytes })
            }
            () => Ok(()),
        }
    }

    /// Encodes the message as a record at the start of `to`.
    ///
    /// # Panics
    /// If the record does not fit: see [`Message::check`].
    pub fn encode(&self, to: &mut [u8]) {
        let (header, rest) = to.split_at_mut(RECORD_HEADER_BYTES);
        header[0..4].copy_from_slice(&(self.record_bytes() as u32).to_le_bytes());
        header[4] = self.kind as u8;
        header[5] = self.topic.len() as u8;
        header[6..8].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        header[8..16].copy_from_slice(&self.publisher.to_le_bytes());
        header[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        header[24..32].copy_from_slice(&self.time_ns.to_le_bytes());
        let (topic, rest) = rest.split_at_mut(self.topic.len());
        let (key, rest) = rest.split_at_mut(self.key.len());
        topic.copy_from_slice(self.topic.as_bytes());
        key.copy_from_slice(self.key);
        rest[..self.body.len()].copy_from_slice(self.body);
    }

    /// Decodes the record at the start of `bytes`. Returns the record and its length in bytes; `None` if the
    /// bytes are not a valid record.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let header = bytes.get(..RECORD_HEADER_BYTES)?;
        let length = u32::from_le_bytes(header[0..4].try_into().ok()?) as usize;
        let (topic_bytes, key_bytes) =
            (usize::from(header[5]), usize::from(u16::from_le_bytes([header[6], header[7]])));
        let content = bytes.get(RECORD_HEADER_BYTES..length)?;
        let (topic, content) = content.split_at_checked(topic_bytes)?;
        let (key, body) = content.split_at_checked(key_bytes)?;
        let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let message = Self {
            kind: MessageKind::from_byte(header[4])?,
            publisher: word(8)?,
            sequence: word(16)?,
            time_ns: word(24)?,
            topic: core::str::from_utf8(topic).ok()?,
            key,
            body,
        };
        Some((message, length))
    }
}
