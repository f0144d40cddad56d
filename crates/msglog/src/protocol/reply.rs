//! Replies of a log server to its clients, and their encoding.

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
/// Length of a message's frame before its topic, bytes: length field, type, four numbers, the message's kind,
/// and the topic's length.
const MESSAGE_BYTES: usize = 4 + 1 + 4 * 8 + 2;

/// A frame from the server to a client: an answer, an acknowledgement, or part of a stream or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The server accepts the connection, in answer to the client's hello.
    Welcome(Welcome),
    /// Error after which the server closes the connection.
    Error {
        /// Reason for the error in a form for programs.
        code: ErrorCode,
        /// Number of the message that caused the error: its number in the log or, depending on `code`, its sequence
        /// number at the publisher. 0 if no message caused it.
        number: u64,
        /// Human-readable description of the error.
        text: &'a str,
    },
    /// The publisher is open, in answer to the request to open it.
    Publisher {
        /// Number of the publisher in the log; 0 if it has no name.
        number: u64,
        /// Sequence number of the publisher's last persisted message; 0 if it has none.
        persisted: u64,
    },
    /// Acknowledges that the publisher's messages up to a sequence number are persisted.
    Persisted {
        /// Sequence number of the last persisted message.
        sequence: u64,
    },
    /// Start of a stream of messages, in answer to a read request.
    Stream {
        /// The stream's first message has this number or a higher one.
        first: u64,
    },
    /// A persisted message, as part of a stream.
    Message {
        /// Number of the message in the log.
        number: u64,
        /// The message, with its publisher and sequence number.
        message: Message<'a>,
    },
    /// End of a stream of messages.
    StreamEnd {
        /// Number at which a later stream continues: the last message's number plus 1.
        next: u64,
    },
    /// Start of a snapshot of the current values, in answer to a query.
    Snapshot {
        /// Number of the first message that the snapshot does not include; a later stream continues there.
        next: u64,
    },
    /// The current value of a key in a topic, as part of a snapshot.
    Value {
        /// Number of the message that set the value.
        number: u64,
        /// The message that set the value, with its publisher set to 0.
        message: Message<'a>,
    },
    /// End of a snapshot; all current values were sent.
    SnapshotEnd {
        /// Number of values in the snapshot.
        count: u64,
    },
    /// Answer to a request for the server's status: the log's state, and the use of the server's resources.
    Status {
        /// The status as a JSON object.
        json: &'a str,
    },
}

/// Properties of the server and its log, sent in answer to a client's hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Protocol version used on the connection.
    pub version: u16,
    /// Identifier of the log. Message numbers that a client has stored are valid only for this log.
    pub log_id: u64,
    /// Condition under which messages count as persisted.
    pub durability: Durability,
    /// Maximum total length of a message's topic, key and body, bytes.
    pub message_bytes_max: u32,
    /// Number of the next message to be persisted.
    pub next: u64,
}

/// Type of an error that the server reports to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ErrorCode {
    /// The client sent an invalid frame, or one that is not allowed at this point.
    Malformed = 1,
    /// The server does not support the client's protocol version.
    Version = 2,
    /// The token is missing or wrong.
    Token = 3,
    /// The server's limit on connections is reached.
    Connections = 4,
    /// The message's sequence number does not follow the publisher's last one.
    Sequence = 5,
    /// The message can't be stored, because its topic, its key or the whole message is too long.
    Message = 6,
    /// The log is full: every segment contains messages within their retention time, or current values.
    Full = 7,
    /// A write or a flush of the log has failed, so nothing more can be persisted.
    Broken = 8,
    /// The requested messages, or those that a slow subscriber needs next, are no longer retained.
    Gone = 9,
    /// The requested start is beyond the end of the log, so its message number probably refers to another log.
    Ahead = 10,
    /// The requested filter is not valid.
    Filter = 11,
    /// The connection is already sending a stream or a snapshot.
    Busy = 12,
    /// Another connection has opened the publisher with the same name.
    Replaced = 13,
    /// The log's limit on publishers is reached.
    Publishers = 14,
    /// The server is shutting down.
    Stops = 15,
    /// Reading the log's target failed.
    Target = 16,
    /// The server has no memory left for this request.
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

    /// Name of the error type, as in the protocol's documentation.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(code, _)| *code == self).map_or("", |(_, name)| name)
    }

    /// Whether the error may be temporary, so that a retry makes sense.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Connections | Self::Full | Self::Broken | Self::Stops | Self::Memory)
    }
}

/// An error that the server reports to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Machine-readable reason for the error.
    pub code: ErrorCode,
    /// Number of the message that caused the error: its number in the log or, depending on `code`, its sequence number
    /// at the publisher. 0 if no message caused it.
    pub number: u64,
    /// Human-readable description of the error.
    pub text: String,
}

impl ServerError {
    /// Creates an error from its code, the number of the message at fault and a description.
    pub fn new(code: ErrorCode, number: u64, text: impl Into<String>) -> Self {
        Self { code, number, text: text.into() }
    }

    /// Borrows the error as a reply to send to the client.
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

/// Appends the frame of a message to `out`. Fields of fixed length are copied in one step, because most
/// frames of a stream are messages.
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
    /// Appends the encoded reply to `out`, as a frame.
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

    /// Decodes a frame, given its type and its fields, as a reply.
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
