//! A client of a message log's server, over any stream of bytes: a connection that sends requests and takes replies. What
//! holds messages until they are persisted, and connects again, is in `client/publisher.rs`.

mod publisher;

pub use publisher::{AtLimit, Publisher, PublisherOptions};

use crate::lines::Lines;
use crate::protocol::{
    self, End, FRAME_BYTES_MAX, Malformed, Reply, Request, ServerError, Start, VERSION, Welcome,
};
use std::io::{self, Read, Write};
use thiserror::Error;

/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 256 << 10;
/// Bytes of requests that are gathered before they are sent.
const SEND_BYTES: usize = 64 << 10;

/// Why a client can't go on.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The server can't be reached, or the connection broke.
    #[error("the connection to the server broke: {0}")]
    Io(#[from] io::Error),
    /// The server refuses.
    #[error("the server answers: {0}")]
    Server(#[from] ServerError),
    /// It answers in TLS.
    #[error("the server requires TLS")]
    IsTls,
    /// What it sends is not this protocol.
    #[error("the server does not speak the log's protocol: {0}")]
    Malformed(#[from] Malformed),
    /// Its answer does not belong here.
    #[error("the server's answer was not expected: {0}")]
    Unexpected(String),
    /// The log lacks messages that were persisted in it.
    #[error(
        "the log has {found} messages of this publisher, and {known} of them were persisted: it is another log, or was restored from an older copy"
    )]
    Lost {
        /// What was persisted.
        known: u64,
        /// What the server has.
        found: u64,
    },
    /// The server has messages of this publisher that this client did not send.
    #[error(
        "the log has {found} messages of this publisher, and this client sent {sent}: another one publishes by its name"
    )]
    NotOurs {
        /// What this client sent.
        sent: u64,
        /// What the server has.
        found: u64,
    },
}

impl ClientError {
    /// Whether a client that connects again later may go on.
    pub fn may_pass(&self) -> bool {
        use io::ErrorKind::{InvalidData, InvalidInput, PermissionDenied, Unsupported};
        match self {
            // Certificates that are not accepted, and the like.
            Self::Io(error) => {
                !matches!(error.kind(), InvalidData | InvalidInput | PermissionDenied | Unsupported)
            }
            Self::Server(error) => error.code.may_pass(),
            Self::IsTls
            | Self::Malformed(_)
            | Self::Unexpected(_)
            | Self::Lost { .. }
            | Self::NotOurs { .. } => false,
        }
    }
}

/// A connection whose server has answered the hello.
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
    /// Says hello on a connected stream.
    ///
    /// # Errors
    /// The server refuses, or is none.
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

    /// Whether the first bytes from the server are a record of TLS: an alert.
    fn is_tls(&self) -> Option<ClientError> {
        self.input[..self.end].starts_with(&[0x15, 3]).then_some(ClientError::IsTls)
    }

    /// What the server said of its log.
    pub fn welcome(&self) -> Option<&Welcome> {
        self.welcome.as_ref()
    }

    /// The stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Sends a request, and what was gathered before it.
    ///
    /// # Errors
    /// The stream broke.
    pub fn request(&mut self, request: &Request<'_>) -> Result<(), ClientError> {
        request.encode(&mut self.sending);
        self.send()
    }

    /// Gathers a request: it is sent when enough of them are there, or by [`Connection::send`].
    ///
    /// # Errors
    /// The stream broke.
    pub fn gather(&mut self, request: &Request<'_>) -> Result<(), ClientError> {
        request.encode(&mut self.sending);
        if self.sending.len() >= SEND_BYTES { self.send() } else { Ok(()) }
    }

    /// Sends what was gathered.
    ///
    /// # Errors
    /// The stream broke. Then the server's last words are looked for: why it ended the connection.
    pub fn send(&mut self) -> Result<(), ClientError> {
        if self.sending.is_empty() {
            return Ok(());
        }
        let sent = self.stream.write_all(&self.sending).and_then(|()| self.stream.flush());
        self.sending.clear();
        let Err(error) = sent else { return Ok(()) };
        // A server that refuses closes its end: what it said may be there.
        loop {
            match self.reply() {
                Ok(_) => {}
                Err(ClientError::Server(refused)) => return Err(refused.into()),
                Err(_) => return Err(error.into()),
            }
        }
    }

    /// Whether the next reply is there already.
    pub fn has_reply(&self) -> bool {
        let filled = &self.input[self.start..self.end];
        matches!(protocol::frame(filled, FRAME_BYTES_MAX), Ok(Some(_)) | Err(_))
    }

    /// The next reply; waits for it. An error that the server sends is an error here.
    ///
    /// # Errors
    /// The server ended the connection, or the stream broke.
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

    /// Puts messages and values that were received already into lines: `most` of them, until the lines are full, or up to
    /// another reply. How many there were.
    ///
    /// # Errors
    /// What is there is no reply.
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

    /// Begins a stream of messages; its replies follow. Gives the first number that it may hold.
    ///
    /// # Errors
    /// The server refuses, or the stream broke.
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

    /// Begins a snapshot of the current values; its replies follow. Gives its bookmark.
    ///
    /// # Errors
    /// The server refuses, or the stream broke.
    pub fn query(&mut self, topic: &str, filter: &str) -> Result<u64, ClientError> {
        self.request(&Request::Query { topic, filter })?;
        match self.reply()? {
            Reply::Snapshot { next } => Ok(next),
            other => Err(unexpected(&other)),
        }
    }

    /// The server's state, as JSON.
    ///
    /// # Errors
    /// The server refuses, or the stream broke.
    pub fn status(&mut self) -> Result<String, ClientError> {
        self.request(&Request::Status)?;
        match self.reply()? {
            Reply::Status { json } => Ok(json.to_owned()),
            other => Err(unexpected(&other)),
        }
    }
}

/// Puts the messages and values at the start of `input` into lines. How many they are, and their bytes.
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

/// The error of a reply that does not belong where it came.
pub fn unexpected(reply: &Reply<'_>) -> ClientError {
    let text = format!("{reply:?}");
    ClientError::Unexpected(text.chars().take(200).collect())
}
