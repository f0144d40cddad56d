//! Requests of a client to a log server, and their encoding.

use super::fields::{Fields, Malformed, Put as _};
use super::{HELLO_BYTES_MAX, MAGIC, NAME_BYTES_MAX, put_frame};
use crate::message::{KEY_BYTES_MAX, MessageKind, TOPIC_BYTES_MAX};
use thiserror::Error;

/// Maximum length of a token, bytes. Leaves space in the client's first frame for the frame's type, the magic number
/// and the version.
const TOKEN_BYTES_MAX: usize = HELLO_BYTES_MAX - 16;
const HELLO: u8 = 1;
const OPEN_PUBLISHER: u8 = 2;
const PUBLISH: u8 = 3;
const READ: u8 = 4;
const QUERY: u8 = 5;
const STATUS: u8 = 6;

/// A frame from a client to the server: opens the connection or a publisher, publishes a message, or requests data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Opens the connection; must be the client's first frame.
    Hello {
        /// Protocol version of the client.
        version: u16,
        /// Access token, as in the server's token file; empty if the server requires none.
        token: &'a [u8],
    },
    /// Opens a publisher. The connection then publishes under its name.
    OpenPublisher {
        /// Name of the publisher, by which the server detects resent messages. If empty, a message resent after a
        /// reconnect may be stored twice.
        name: &'a str,
    },
    /// Publishes a message under the name of the connection's publisher.
    Publish(Published<'a>),
    /// Requests a stream of stored and future messages.
    Read {
        /// First message of the requested stream.
        start: Start,
        /// Message at which the stream ends, if it does.
        end: End,
        /// Topic of the requested messages; empty: all topics.
        topic: &'a str,
        /// Text of a filter that the messages must match; empty: no filter.
        filter: &'a str,
    },
    /// Requests a snapshot of the current values by key.
    Query {
        /// Topic of the requested values; empty: all topics.
        topic: &'a str,
        /// Text of a filter that the values must match; empty: no filter.
        filter: &'a str,
    },
    /// Requests the server's status, as JSON.
    Status,
}

/// A message to publish. The server adds the publisher's number and the time of publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published<'a> {
    /// Sequence number that the publisher gives the message, from 1, without gaps.
    pub sequence: u64,
    /// Kind of message: [`MessageKind::Publish`] or [`MessageKind::Delete`].
    pub kind: MessageKind,
    /// Topic, at most [`TOPIC_BYTES_MAX`](crate::message::TOPIC_BYTES_MAX) bytes.
    pub topic: &'a str,
    /// Key of the message; empty for none.
    pub key: &'a [u8],
    /// Content of the message, which the log does not interpret.
    pub body: &'a [u8],
}

/// Start of a stream of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Start with the next message that is persisted.
    Now,
    /// Start with the message with this number.
    Message(u64),
    /// Start with the first message published at this time or later, ns since 1970.
    TimeNs(u64),
    /// Start with the oldest retained message.
    Oldest,
}

/// End of a stream of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The stream has no end: it is a subscription.
    Never,
    /// The stream ends after the messages that are persisted when the request arrives.
    Now,
    /// The stream ends before the message with this number.
    Message(u64),
}

/// A field of a request that is too long for the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the {field} has {bytes} bytes, but the limit is {bytes_max}")]
pub struct TooLong {
    /// Field of the request, in words.
    pub field: &'static str,
    /// Length of the field, bytes.
    pub bytes: usize,
    /// Maximum length of the field, bytes.
    pub bytes_max: usize,
}

impl<'a> Request<'a> {
    /// Checks that all fields fit into a frame.
    ///
    /// # Errors
    /// A field is too long.
    pub fn check(&self) -> Result<(), TooLong> {
        let fits = |field: &'static str, bytes: usize, bytes_max: usize| {
            if bytes > bytes_max { Err(TooLong { field, bytes, bytes_max }) } else { Ok(()) }
        };
        match *self {
            Self::Hello { token, .. } => fits("token", token.len(), TOKEN_BYTES_MAX),
            Self::OpenPublisher { name } => fits("publisher's name", name.len(), NAME_BYTES_MAX),
            Self::Publish(Published { topic, key, .. }) => {
                fits("topic", topic.len(), TOPIC_BYTES_MAX)?;
                fits("key", key.len(), KEY_BYTES_MAX)
            }
            Self::Read { topic, filter, .. } | Self::Query { topic, filter } => {
                fits("topic", topic.len(), TOPIC_BYTES_MAX)?;
                fits("filter", filter.len(), u16::MAX.into())
            }
            Self::Status => Ok(()),
        }
    }

    /// Appends the encoded request to `out`, as a frame.
    ///
    /// # Errors
    /// A field is too long: nothing is appended.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        self.check()?;
        match *self {
            Self::Hello { version, token } => put_frame(out, HELLO, |out| {
                out.extend_from_slice(&MAGIC);
                out.u16(version);
                out.long_bytes(token);
            }),
            Self::OpenPublisher { name } => {
                put_frame(out, OPEN_PUBLISHER, |out| out.short_text(name));
            }
            Self::Publish(message) => put_frame(out, PUBLISH, |out| {
                out.u64(message.sequence);
                out.u8(message.kind as u8);
                out.short_text(message.topic);
                out.long_bytes(message.key);
                out.extend_from_slice(message.body);
            }),
            Self::Read { start, end, topic, filter } => put_frame(out, READ, |out| {
                let (kind, value) = match start {
                    Start::Now => (0, 0),
                    Start::Message(number) => (1, number),
                    Start::TimeNs(time_ns) => (2, time_ns),
                    Start::Oldest => (3, 0),
                };
                out.u8(kind);
                out.u64(value);
                let (kind, value) = match end {
                    End::Never => (0, 0),
                    End::Now => (1, 0),
                    End::Message(number) => (2, number),
                };
                out.u8(kind);
                out.u64(value);
                out.short_text(topic);
                out.long_text(filter);
            }),
            Self::Query { topic, filter } => put_frame(out, QUERY, |out| {
                out.short_text(topic);
                out.long_text(filter);
            }),
            Self::Status => put_frame(out, STATUS, |_| {}),
        }
        Ok(())
    }

    /// Decodes a frame, given its type and its fields, as a request.
    ///
    /// # Errors
    /// The frame is not a valid request.
    pub fn decode(kind: u8, fields: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(kind, fields);
        let request = match kind {
            HELLO => {
                let magic = fields.fixed::<4>("magic")?;
                if magic != MAGIC {
                    return Err(fields.wrong("magic", &format!("{magic:02x?}")));
                }
                Self::Hello { version: fields.u16("version")?, token: fields.long_bytes("token")? }
            }
            OPEN_PUBLISHER => {
                let name = fields.short_text("name")?;
                debug_assert!(name.len() <= NAME_BYTES_MAX);
                Self::OpenPublisher { name }
            }
            PUBLISH => Self::Publish(Published {
                sequence: fields.u64("sequence")?,
                kind: match fields.u8("kind")? {
                    0 => MessageKind::Publish,
                    1 => MessageKind::Delete,
                    other => return Err(fields.wrong("kind", &other)),
                },
                topic: fields.short_text("topic")?,
                key: fields.long_bytes("key")?,
                body: fields.rest(),
            }),
            READ => {
                let (kind, value) = (fields.u8("start")?, fields.u64("start")?);
                let start = match kind {
                    0 => Start::Now,
                    1 => Start::Message(value),
                    2 => Start::TimeNs(value),
                    3 => Start::Oldest,
                    other => return Err(fields.wrong("start", &other)),
                };
                let (kind, value) = (fields.u8("end")?, fields.u64("end")?);
                let end = match kind {
                    0 => End::Never,
                    1 => End::Now,
                    2 => End::Message(value),
                    other => return Err(fields.wrong("end", &other)),
                };
                let (topic, filter) = (fields.short_text("topic")?, fields.long_text("filter")?);
                Self::Read { start, end, topic, filter }
            }
            QUERY => Self::Query {
                topic: fields.short_text("topic")?,
                filter: fields.long_text("filter")?,
            },
            STATUS => Self::Status,
            other => return Err(Malformed::Kind(other)),
        };
        fields.end(request)
    }
}
