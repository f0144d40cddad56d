//! A client of a message log's server, over any byte stream: a connection that sends requests and receives replies.
//! `client/publisher.rs` adds a publisher, which keeps messages until they are persisted, and reconnects.

mod publisher;

pub use publisher::{AtLimit, Publisher, PublisherOptions};

use crate::lines::Lines;
use crate::protocol::{
    self, End, FRAME_BYTES_MAX, Malformed, Reply, Request, ServerError, Start, TooLong, VERSION,
    Welcome,
};
use std::io::{self, Read, Write};
use thiserror::Error;

/// Size of the receive buffer, bytes.
const RECEIVE_BYTES: usize = 256 << 10;
/// Size of buffered requests at which they are sent to the server, bytes.
const SEND_BYTES: usize = 64 << 10;

/// Error of a client: its connection failed, the server refused, or the log does not match the publisher.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The server can't be reached, or the connection broke.
    #[error("the connection to the server broke: {0}")]
    Io(#[from] io::Error),
    /// The server refused the request or the connection.
    #[error("the server reports: {0}")]
    Server(#[from] ServerError),
    /// The server requires TLS, but the client does not use it.
    #[error("the server requires TLS")]
    IsTls,
    /// The message is too long for the log.
    #[error(
        "the message has {bytes} bytes with its topic and key, but the log allows only {bytes_max}: create a log with larger chunks"
    )]
    Length {
        /// Total length of topic, key and body, bytes.
        bytes: usize,
        /// Maximum total length of topic, key and body, bytes.
        bytes_max: usize,
    },
    /// The topic, the key, the filter or another field is too long.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// The server sent data that is not valid in the log's protocol.
    #[error("the server does not speak the log's protocol: {0}")]
    Malformed(#[from] Malformed),
    /// The server sent a reply that does not match the request.
    #[error("the server sent an unexpected answer: {0}")]
    Unexpected(String),
    /// Messages of this publisher that the server had acknowledged as persisted are missing from the log.
    #[error(
        "the log has {found} messages of this publisher, but {known} were already persisted: this is another log, or a log restored from an older copy"
    )]
    Lost {
        /// Sequence number of the last message that was acknowledged as persisted.
        known: u64,
        /// Sequence number of the publisher's last message in the log.
        found: u64,
    },
    /// The log contains messages under this publisher's name that this client did not send.
    #[error(
        "the log has {found} messages of this publisher, but this client sent {sent}: another client uses the same publisher name"
    )]
    NotOurs {
        /// Sequence number of the last message that this client sent.
        sent: u64,
        /// Sequence number of the publisher's last message in the log.
        found: u64,
    },
}

impl ClientError {
    /// Whether the error may be temporary, so that a retry makes sense.
    pub fn may_pass(&self) -> bool {
        use io::ErrorKind::{InvalidData, InvalidInput, PermissionDenied, Unsupported};
        match self {
            // Such as certificates that are not accepted.
            Self::Io(error) => {
                !matches!(error.kind(), InvalidData | InvalidInput | PermissionDenied | Unsupported)
            }
            Self::Server(error) => error.code.may_pass(),
            Self::IsTls
            | Self::Length { .. }
            | Self::TooLong(_)
            | Self::Malformed(_)
            | Self::Unexpected(_)
            | Self::Lost { .. }
            | Self::NotOurs { .. } => false,
        }
    }
}

/// A connection to a log server, after the handshake.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    welcome: Option<Welcome>,
    sending: Vec<u8>,
    input: Vec<u8>,
    start: usize,
    end: usize,
}

impl<S: Read + Write> Connection<S> {
    /// Performs the handshake on a connected stream: sends the access token, and waits for the server's answer.
    ///
    /// # Errors
    /// The server refuses, or does not speak this protocol.
    pub fn begin(stream: S, token: &[u8]) -> Result<Self, ClientError> {
        let mut connection = Self {
            stream,
            welcome: None,
            sending: Vec::new(),
            input: vec![0; RECEIVE_BYTES],
            start: 0,
            end: 0,
        };
        connection.request(&Request::Hello { version: VERSION, token })?;
        let welcome = match connection.reply() {
            Ok(Reply::Welcome(welcome)) => welcome,
            Ok(other) => return Err(unexpected(&other)),
            Err(error) => return Err(connection.is_tls().unwrap_or(error)),
        };
        connection.welcome = Some(welcome);
        Ok(connection)
    }

    /// Returns [`ClientError::IsTls`] if the server's first bytes are a TLS alert.
    fn is_tls(&self) -> Option<ClientError> {
        self.input[..self.end].starts_with(&[0x15, 3]).then_some(ClientError::IsTls)
    }

    /// The server's handshake reply, with properties of the log; `None` before it arrives.
    pub fn welcome(&self) -> Option<&Welcome> {
        self.welcome.as_ref()
    }

    /// The underlying byte stream, such as a socket.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Sends a request immediately, after any buffered requests.
    ///
    /// # Errors
    /// A field is too long, or the connection broke.
    pub fn request(&mut self, request: &Request<'_>) -> Result<(), ClientError> {
        request.encode(&mut self.sending)?;
        self.send()
    }

    /// Buffers a request. Buffered requests are sent once they reach 64 KiB, or by [`Connection::send`].
    ///
    /// # Errors
    /// A field is too long, or the connection broke.
    pub fn gather(&mut self, request: &Request<'_>) -> Result<(), ClientError> {
        request.encode(&mut self.sending)?;
        if self.sending.len() >= SEND_BYTES { self.send() } else { Ok(()) }
    }

    /// Sends the buffered requests.
    ///
    /// # Errors
    /// The connection broke. If the server sent an error before it closed the connection, that error is returned.
    pub fn send(&mut self) -> Result<(), ClientError> {
        if self.sending.is_empty() {
            return Ok(());
        }
        let sent = self.stream.write_all(&self.sending).and_then(|()| self.stream.flush());
        self.sending.clear();
        let Err(error) = sent else { return Ok(()) };
        // A server that refuses closes its end: its error may already be received.
        loop {
            match self.reply() {
                Ok(_) => {}
                Err(ClientError::Server(refused)) => return Err(refused.into()),
                Err(_) => return Err(error.into()),
            }
        }
    }

    /// Whether a complete reply is already in the receive buffer.
    pub fn has_reply(&self) -> bool {
        let filled = &self.input[self.start..self.end];
        matches!(protocol::frame(filled, FRAME_BYTES_MAX), Ok(Some(_)) | Err(_))
    }

    /// Waits for the server's next reply. An error reply is returned as `Err`.
    ///
    /// # Errors
    /// The server sent an error, or the connection broke.
    pub fn reply(&mut self) -> Result<Reply<'_>, ClientError> {
        let taken = loop {
            let filled = &self.input[self.start..self.end];
            if let Some(frame) = protocol::frame(filled, FRAME_BYTES_MAX)? {
                break frame.taken;
            }
            self.receive()?;
        };
        let frame = &self.input[self.start..self.start + taken];
        self.start += taken;
        match Reply::decode(frame[4], &frame[protocol::FRAME_HEADER_BYTES..])? {
            Reply::Error { code, number, text } => Err(ServerError::new(code, number, text).into()),
            reply => Ok(reply),
        }
    }

    /// Formats messages and values that are in the receive buffer as lines. It stops after `most` lines, when `lines`
    /// is full, or at another kind of reply. Returns the number of formatted messages and values.
    ///
    /// # Errors
    /// The received bytes are not a valid reply.
    pub fn put_received(&mut self, lines: &mut Lines, most: u64) -> Result<u64, ClientError> {
        let (count, taken) = put_all(&self.input[self.start..self.end], lines, most)?;
        self.start += taken;
        Ok(count)
    }

    fn receive(&mut self) -> Result<(), ClientError> {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let begun = protocol::frame_bytes(&self.input[..self.end]).unwrap_or(0);
        let needed = begun.max(self.end + 1);
        if self.input.len() < needed {
            self.input.resize(needed, 0);
        }
        match self.stream.read(&mut self.input[self.end..]) {
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(bytes) => {
                self.end += bytes;
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Starts a stream of messages, which then arrive as replies. The first message has the returned number or a higher
    /// one.
    ///
    /// # Errors
    /// The server refuses, or the connection broke.
    pub fn read(
        &mut self,
        start: Start,
        end: End,
        topic: &str,
        filter: &str,
    ) -> Result<u64, ClientError> {
        self.request(&Request::Read { start, end, topic, filter })?;
        match self.reply()? {
            Reply::Stream { first } => Ok(first),
            other => Err(unexpected(&other)),
        }
    }

    /// Requests a snapshot of a topic's current values, which then arrive as replies. Returns the number of the
    /// first message after the snapshot.
    ///
    /// # Errors
    /// The server refuses, or the connection broke.
    pub fn query(&mut self, topic: &str, filter: &str) -> Result<u64, ClientError> {
        self.request(&Request::Query { topic, filter })?;
        match self.reply()? {
            Reply::Snapshot { next } => Ok(next),
            other => Err(unexpected(&other)),
        }
    }

    /// Requests the server's status as JSON.
    ///
    /// # Errors
    /// The server refuses, or the connection broke.
    pub fn status(&mut self) -> Result<String, ClientError> {
        self.request(&Request::Status)?;
        match self.reply()? {
            Reply::Status { json } => Ok(json.to_owned()),
            other => Err(unexpected(&other)),
        }
    }
}

/// Formats up to `most` messages and values at the start of `input` as lines. Returns their number, and the
/// number of bytes consumed from `input`.
fn put_all(input: &[u8], lines: &mut Lines, most: u64) -> Result<(u64, usize), Malformed> {
    let (mut count, mut taken) = (0, 0);
    while count < most && !lines.is_full() {
        let Some(frame) = protocol::frame(&input[taken..], FRAME_BYTES_MAX)? else { break };
        match Reply::decode(frame.kind, frame.fields)? {
            Reply::Message { number, message } | Reply::Value { number, message } => {
                lines.put(number, &message);
            }
            _ => break,
        }
        (count, taken) = (count + 1, taken + frame.taken);
    }
    Ok((count, taken))
}

/// Builds [`ClientError::Unexpected`], which contains the first 200 characters of the reply's debug output.
pub fn unexpected(reply: &Reply<'_>) -> ClientError {
    let text = format!("{reply:?}");
    ClientError::Unexpected(text.chars().take(200).collect())
}
