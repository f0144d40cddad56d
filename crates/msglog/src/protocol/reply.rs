//! Replies of a server.

use super::fields::{Fields, Malformed, Put as _, cut};
use super::put_frame;
use crate::commit::Durability;
use crate::message::{Message, MessageKind};
use core::fmt;

const WELCOME: u8 = 64;
const ERROR: u8 = 65;
const PUBLISHER: u8 = 66;
const PERSISTED: u8 = 67;
const STREAM: u8 = 68;
const MESSAGE: u8 = 69;
const STREAM_END: u8 = 70;
const SNAPSHOT: u8 = 71;
const VALUE: u8 = 72;
const SNAPSHOT_END: u8 = 73;
const STATUS: u8 = 74;
/// Length of a message's frame up to its topic, bytes: length field, kind, four numbers, the message's kind, and the
/// topic's length.
const MESSAGE_BYTES: usize = 4 + 1 + 4 * 8 + 2;

/// A reply of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Answer to a hello.
    Welcome(Welcome),
    /// Error after which the server closes the connection.
    Error {
        /// Kind of the error.
        code: ErrorCode,
        /// Sequence or number of the message at fault; 0 for none.
        number: u64,
        /// Description of the error for people.
        text: &'a str,
    },
    /// Answer to a request to open a publisher.
    Publisher {
        /// Number of the publisher in the log; 0 without a name.
        number: u64,
        /// Sequence of the publisher's last persisted message; 0 before the first.
        persisted: u64,
    },
    /// All of the publisher's messages up to a sequence are persisted.
    Persisted {
        /// Last persisted sequence.
        sequence: u64,
    },
    /// A stream of messages begins.
    Stream {
        /// Lowest number that a message of the stream can have.
        first: u64,
    },
    /// A persisted message.
    Message {
        /// Number of the message in the log.
        number: u64,
        /// The message, with its headers.
        message: Message<'a>,
    },
    /// The stream has ended.
    StreamEnd {
        /// Bookmark: the last message's number plus 1.
        next: u64,
    },
    /// A snapshot of the current values begins.
    Snapshot {
        /// Bookmark: the snapshot includes all messages below this number, and none from it on.
        next: u64,
    },
    /// A current value of a key, in a snapshot.
    Value {
        /// Number of the message that set the value.
        number: u64,
        /// The message, with publisher 0.
        message: Message<'a>,
    },
    /// The snapshot is complete.
    SnapshotEnd {
        /// Number of values sent.
        count: u64,
    },
    /// The server's state.
    Status {
        /// The state as a JSON object.
        json: &'a str,
    },
}

/// The server's answer to a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Version of the protocol that both sides speak.
    pub version: u16,
    /// Identifier of the log: bookmarks are valid only in the log that they come from.
    pub log_id: u64,
    /// Condition under which messages count as persisted.
    pub durability: Durability,
    /// Maximum total length of a message's topic, key and body, bytes.
    pub message_bytes_max: u32,
    /// Number of the next message to be persisted.
    pub next: u64,
}

/// Kind of an error that a server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ErrorCode {
    /// The client sent bytes that are not a frame, or a frame that is not allowed in this state.
    Malformed = 1,
    /// The server does not speak the client's version.
    Version = 2,
    /// The token is missing or wrong.
    Token = 3,
    /// The server's limit on connections is reached.
    Connections = 4,
    /// The sequence is not the publisher's next one.
    Sequence = 5,
    /// The message can't be stored, because its topic, its key or the whole message is too long.
    Message = 6,
    /// Every segment holds messages within their retention, or current values.
    Full = 7,
    /// A write or a flush of the log has failed, and nothing more can be persisted.
    Broken = 8,
    /// Messages that were requested, or are next for a slow subscriber, are no longer kept.
    Gone = 9,
    /// The requested message does not exist yet: the bookmark is from another log.
    Ahead = 10,
    /// The filter is not valid.
    Filter = 11,
    /// The connection already has a stream or snapshot.
    Busy = 12,
    /// Another connection has opened this publisher.
    Replaced = 13,
    /// The log's limit on publishers is reached.
    Publishers = 14,
    /// The server is stopping.
    Stops = 15,
    /// Reading the log's target failed.
    Target = 16,
    /// The server's memory for clients is spent.
    Memory = 17,
}

impl ErrorCode {
    const ALL: [(Self, &'static str); 17] = [
        (Self::Malformed, "malformed"),
        (Self::Version, "version"),
        (Self::Token, "token"),
        (Self::Connections, "connections"),
        (Self::Sequence, "sequence"),
        (Self::Message, "message"),
        (Self::Full, "full"),
        (Self::Broken, "broken"),
        (Self::Gone, "gone"),
        (Self::Ahead, "ahead"),
        (Self::Filter, "filter"),
        (Self::Busy, "busy"),
        (Self::Replaced, "replaced"),
        (Self::Publishers, "publishers"),
        (Self::Stops, "stops"),
        (Self::Target, "target"),
        (Self::Memory, "memory"),
    ];

    /// Name of the error in the protocol's documentation and in messages.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(code, _)| *code == self).map_or("", |(_, name)| name)
    }

    /// Whether the condition may be temporary, so that a client can try again later.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Connections | Self::Full | Self::Broken | Self::Stops | Self::Memory)
    }
}

/// An error reported by a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Kind of the error.
    pub code: ErrorCode,
    /// Sequence or number of the message at fault; 0 for none.
    pub number: u64,
    /// Description of the error for people.
    pub text: String,
}

impl ServerError {
    /// Creates an error from its code, the number of the message at fault and a description.
    pub fn new(code: ErrorCode, number: u64, text: impl Into<String>) -> Self {
        Self { code, number, text: text.into() }
    }

    /// Converts the error to a reply.
    pub fn as_reply(&self) -> Reply<'_> {
        Reply::Error { code: self.code, number: self.number, text: &self.text }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (error {}, {})", self.text, self.code as u16, self.code.name())
    }
}

impl core::error::Error for ServerError {}

/// Appends the frame of a message. Streams consist mostly of such frames, so the fields of fixed length are copied at
/// once.
fn put_message(out: &mut Vec<u8>, kind: u8, number: u64, message: &Message<'_>) {
    let topic = cut(message.topic, u8::MAX.into()).as_bytes();
    let key = &message.key[..message.key.len().min(u16::MAX.into())];
    let length = MESSAGE_BYTES - 4 + topic.len() + 2 + key.len() + message.body.len();
    let mut fixed = [0; MESSAGE_BYTES];
    fixed[0..4].copy_from_slice(&(length as u32).to_le_bytes());
    fixed[4] = kind;
    fixed[5..13].copy_from_slice(&number.to_le_bytes());
    fixed[13..21].copy_from_slice(&message.publisher.to_le_bytes());
    fixed[21..29].copy_from_slice(&message.sequence.to_le_bytes());
    fixed[29..37].copy_from_slice(&message.time_ns.to_le_bytes());
    fixed[37] = message.kind as u8;
    fixed[38] = topic.len() as u8;
    out.reserve(4 + length);
    out.extend_from_slice(&fixed);
    out.extend_from_slice(topic);
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(message.body);
}

fn take_message<'a>(fields: &mut Fields<'a>) -> Result<(u64, Message<'a>), Malformed> {
    let number = fields.u64("number")?;
    let message = Message {
        publisher: fields.u64("publisher")?,
        sequence: fields.u64("sequence")?,
        time_ns: fields.u64("time")?,
        kind: match fields.u8("kind")? {
            0 => MessageKind::Publish,
            1 => MessageKind::Delete,
            other => return Err(fields.wrong("kind", &other)),
        },
        topic: fields.short_text("topic")?,
        key: fields.long_bytes("key")?,
        body: fields.rest(),
    };
    Ok((number, message))
}

impl<'a> Reply<'a> {
    /// Appends the reply as a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Welcome(welcome) => put_frame(out, WELCOME, |out| {
                out.u16(welcome.version);
                out.u64(welcome.log_id);
                out.u8(welcome.durability as u8);
                out.u32(welcome.message_bytes_max);
                out.u64(welcome.next);
            }),
            Self::Error { code, number, text } => put_frame(out, ERROR, |out| {
                out.u16(*code as u16);
                out.u64(*number);
                out.long_text(text);
            }),
            Self::Publisher { number, persisted } => put_frame(out, PUBLISHER, |out| {
                out.u64(*number);
                out.u64(*persisted);
            }),
            Self::Persisted { sequence } => put_frame(out, PERSISTED, |out| out.u64(*sequence)),
            Self::Stream { first } => put_frame(out, STREAM, |out| out.u64(*first)),
            Self::Message { number, message } => put_message(out, MESSAGE, *number, message),
            Self::StreamEnd { next } => put_frame(out, STREAM_END, |out| out.u64(*next)),
            Self::Snapshot { next } => put_frame(out, SNAPSHOT, |out| out.u64(*next)),
            Self::Value { number, message } => put_message(out, VALUE, *number, message),
            Self::SnapshotEnd { count } => put_frame(out, SNAPSHOT_END, |out| out.u64(*count)),
            Self::Status { json } => {
                put_frame(out, STATUS, |out| out.extend_from_slice(json.as_bytes()));
            }
        }
    }

    /// Decodes a frame as a reply.
    ///
    /// # Errors
    /// The frame is not a valid reply.
    pub fn decode(kind: u8, fields: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(kind, fields);
        let reply = match kind {
            WELCOME => Self::Welcome(Welcome {
                version: fields.u16("version")?,
                log_id: fields.u64("log")?,
                durability: {
                    let byte = fields.u8("durability")?;
                    let found = Durability::ALL.into_iter().find(|it| *it as u8 == byte);
                    found.ok_or_else(|| fields.wrong("durability", &byte))?
                },
                message_bytes_max: fields.u32("message bytes")?,
                next: fields.u64("next")?,
            }),
            ERROR => {
                let code = fields.u16("code")?;
                let found = ErrorCode::ALL.iter().find(|(it, _)| *it as u16 == code);
                Self::Error {
                    code: found.ok_or_else(|| fields.wrong("code", &code))?.0,
                    number: fields.u64("number")?,
                    text: fields.long_text("text")?,
                }
            }
            PUBLISHER => Self::Publisher {
                number: fields.u64("publisher")?,
                persisted: fields.u64("persisted")?,
            },
            PERSISTED => Self::Persisted { sequence: fields.u64("sequence")? },
            STREAM => Self::Stream { first: fields.u64("first")? },
            MESSAGE => {
                let (number, message) = take_message(&mut fields)?;
                Self::Message { number, message }
            }
            STREAM_END => Self::StreamEnd { next: fields.u64("next")? },
            SNAPSHOT => Self::Snapshot { next: fields.u64("next")? },
            VALUE => {
                let (number, message) = take_message(&mut fields)?;
                Self::Value { number, message }
            }
            SNAPSHOT_END => Self::SnapshotEnd { count: fields.u64("count")? },
            STATUS => Self::Status {
                json: core::str::from_utf8(fields.rest())
                    .map_err(|_| fields.wrong("json", &"text that is not UTF-8"))?,
            },
            other => return Err(Malformed::Kind(other)),
        };
        fields.end(reply)
    }
}
