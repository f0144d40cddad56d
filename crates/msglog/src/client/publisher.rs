//! A publisher: keeps each message until the server reports it as persisted, and resends unpersisted messages after a
//! reconnect. If it has a name, it neither loses nor duplicates messages.

use super::{ClientError, Connection, SEND_BYTES, unexpected};
use crate::message::MessageKind;
use crate::protocol::{ErrorCode, Published, Reply, Request};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Shortest and longest delay between attempts to connect (exponential backoff).
const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Behaviour of a publisher at its limit on unpersisted messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// [`Publisher::publish`] blocks until earlier messages are persisted.
    Block,
    /// [`Publisher::publish`] drops the message and counts it.
    Drop,
}

/// A publisher's name, its access token, and its behaviour if messages can't be persisted.
#[derive(Clone, Debug)]
pub struct PublisherOptions {
    /// Name of the publisher, by which the server detects resent messages. If empty, a message resent after a reconnect
    /// may be stored twice.
    pub name: String,
    /// Access token, as in the server's token file; empty if the server requires none.
    pub token: Vec<u8>,
    /// Limit on the total size of messages awaiting persistence, bytes. A single message may exceed it.
    pub held_bytes_max: usize,
    /// Behaviour for a message that would exceed `held_bytes_max`.
    pub at_limit: AtLimit,
    /// Maximum time for retries after a temporary error, such as a lost connection.
    pub patience: Duration,
    /// Called with the error when the publisher begins to retry. Never called for a full log, which may stay full for
    /// hours: it is a permanent error.
    pub on_retry: fn(&ClientError),
}

impl Default for PublisherOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            token: Vec::new(),
            held_bytes_max: 64 << 20,
            at_limit: AtLimit::Block,
            patience: Duration::from_secs(30),
            on_retry: |_| {},
        }
    }
}

/// A published message that the server has not reported as persisted.
#[derive(Debug)]
struct Held {
    sequence: u64,
    kind: MessageKind,
    topic: Box<str>,
    key: Box<[u8]>,
    body: Box<[u8]>,
}

impl Held {
    fn bytes(&self) -> usize {
        self.topic.len() + self.key.len() + self.body.len()
    }

    fn as_published(&self) -> Published<'_> {
        let Self { sequence, kind, .. } = *self;
        Published { sequence, kind, topic: &self.topic, key: &self.key, body: &self.body }
    }
}

/// A client that publishes messages, keeps them until they are persisted, and resends them after a reconnect. It uses
/// the function `dial` to connect to the server.
#[derive(Debug)]
pub struct Publisher<S, D> {
    dial: D,
    options: PublisherOptions,
    connection: Option<Connection<S>>,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Sequence number of the first message that has not been sent on the current connection.
    sent: u64,
    next_sequence: u64,
    persisted: u64,
    acknowledged: u64,
    dropped: u64,
    reconnects: u64,
    /// Whether the publisher has connected before. If so, connecting again checks the sequence number of the
    /// publisher's last message in the log.
    was_open: bool,
    /// Start of the current failure, and the delay before the next retry; `None` if the last request succeeded.
    failing: Option<(Instant, Duration)>,
    /// Whether `on_retry` was called for the current failure.
    has_told: bool,
}

/// Whether the publisher retries after an error.
fn may_pass(error: &ClientError) -> bool {
    let is_full = matches!(error, ClientError::Server(error) if error.code == ErrorCode::Full);
    error.may_pass() && !is_full
}

impl<S: Read + Write, D: FnMut() -> io::Result<S>> Publisher<S, D> {
    /// Connects to the server. Sequence numbers continue after the last persisted message with this publisher's
    /// name.
    ///
    /// # Errors
    /// The server refuses, or can't be reached within `patience`.
    pub fn open(dial: D, options: PublisherOptions) -> Result<Self, ClientError> {
        let mut publisher = Self {
            dial,
            options,
            connection: None,
            held: VecDeque::new(),
            held_bytes: 0,
            sent: 1,
            next_sequence: 1,
            persisted: 0,
            acknowledged: 0,
            dropped: 0,
            reconnects: 0,
            was_open: false,
            failing: None,
            has_told: false,
        };
        publisher.connect()?;
        publisher.goes_on();
        Ok(publisher)
    }

    /// Sequence number that [`Self::publish`] will give the next message.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Sequence number of the last message that the server has reported as persisted.
    pub fn persisted(&self) -> u64 {
        self.persisted
    }

    /// Number of published messages that the server has not reported as persisted.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Number of this publisher's messages that the server has reported as persisted. Unlike [`Self::persisted`], it
    /// does not count earlier messages under the same name, and does not begin anew with each connection.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Number of messages dropped because of the limit on messages awaiting persistence.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn reconnects(&self) -> u64 {
        self.reconnects
    }

    /// Current connection; None while disconnected.
    pub fn connection(&self) -> Option<&Connection<S>> {
        self.connection.as_ref()
    }

    /// Publishes a message. The message is buffered and sent together with others: see [`Publisher::flush`].
    /// Returns its sequence number, or `None` if the message was dropped.
    ///
    /// # Errors
    /// The message is too long: it is not buffered. Or the server refuses, or can't be reached within `patience`: the
    /// message stays buffered.
    pub fn publish(
        &mut self,
        kind: MessageKind,
        topic: &str,
        key: &[u8],
        body: &[u8],
    ) -> Result<Option<u64>, ClientError> {
        let sequence = self.next_sequence;
        Request::Publish(Published { sequence, kind, topic, key, body }).check()?;
        let bytes = topic.len() + key.len() + body.len();
        let welcome = self.connection.as_ref().and_then(Connection::welcome);
        if let Some(bytes_max) = welcome.map(|welcome| welcome.message_bytes_max as usize)
            && bytes > bytes_max
        {
            return Err(ClientError::Length { bytes, bytes_max });
        }
        let is_full =
            |it: &Self| !it.held.is_empty() && it.held_bytes + bytes > it.options.held_bytes_max;
        if is_full(self) && self.options.at_limit == AtLimit::Drop {
            self.dropped += 1;
            return Ok(None);
        }
        while is_full(self) {
            self.flush()?;
            self.wait_persisted()?;
        }
        self.next_sequence += 1;
        self.held_bytes += bytes;
        let (topic, key, body) = (topic.into(), key.into(), body.into());
        self.held.push_back(Held { sequence, kind, topic, key, body });
        if let Err(error) = self.send_new() {
            self.after(error)?;
        }
        Ok(Some(sequence))
    }

    /// Sends the buffered messages, without waiting until they are persisted.
    ///
    /// # Errors
    /// Same as [`Publisher::publish`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        if self.connection.is_none() {
            return self.connect();
        }
        self.send().or_else(|error| self.after(error))
    }

    /// Sends all messages, and waits until they are persisted.
    ///
    /// # Errors
    /// Same as [`Publisher::publish`].
    pub fn finish(&mut self) -> Result<(), ClientError> {
        self.flush()?;
        while !self.held.is_empty() {
            self.wait_persisted()?;
        }
        Ok(())
    }

    /// Waits until the server reports more messages as persisted. The messages must already have been sent.
    ///
    /// # Errors
    /// Same as [`Publisher::publish`].
    pub fn wait_persisted(&mut self) -> Result<(), ClientError> {
        let Some(connection) = &mut self.connection else { return self.connect() };
        match connection.reply() {
            Ok(Reply::Persisted { sequence }) => {
                self.release(sequence);
                Ok(())
            }
            Ok(other) => Err(unexpected(&other)),
            Err(error) => self.after(error),
        }
    }

    fn release(&mut self, sequence: u64) {
        if sequence > self.persisted {
            self.persisted = sequence;
            self.goes_on();
        }
        while self.held.front().is_some_and(|held| held.sequence <= sequence) {
            if let Some(held) = self.held.pop_front() {
                self.held_bytes -= held.bytes();
                self.acknowledged += 1;
            }
        }
    }

    /// Adds messages that have not been sent on the current connection to its send buffer.
    fn send_new(&mut self) -> Result<(), ClientError> {
        loop {
            let connection = self.connection.as_mut().ok_or(io::ErrorKind::NotConnected);
            let connection = connection.map_err(io::Error::from)?;
            let first = self.held.front().map_or(self.next_sequence, |held| held.sequence);
            let skip = self.sent.saturating_sub(first) as usize;
            let Some(held) = self.held.get(skip) else { return Ok(()) };
            Request::Publish(held.as_published()).encode(&mut connection.sending)?;
            self.sent = held.sequence + 1;
            if connection.sending.len() >= SEND_BYTES {
                self.send()?;
            }
        }
    }

    /// Sends the connection's buffered requests. If this fails, takes the acknowledgements that the server sent before
    /// it closed the connection, and returns its error, if any.
    fn send(&mut self) -> Result<(), ClientError> {
        let connection = self.connection.as_mut().ok_or(io::ErrorKind::NotConnected);
        let connection = connection.map_err(io::Error::from)?;
        let stream = &mut connection.stream;
        let sent = stream.write_all(&connection.sending).and_then(|()| stream.flush());
        connection.sending.clear();
        let Err(broken) = sent else { return Ok(()) };
        let mut persisted = 0;
        let error = loop {
            match connection.reply() {
                Ok(Reply::Persisted { sequence }) => persisted = sequence,
                Ok(_) => {}
                Err(ClientError::Server(refused)) => break refused.into(),
                Err(_) => break broken.into(),
            }
        };
        self.release(persisted);
        Err(error)
    }

    /// Reconnects after an error that may be temporary; returns any other error.
    fn after(&mut self, error: ClientError) -> Result<(), ClientError> {
        self.connection = None;
        // A server that refuses each time can still be reached each time, so time is counted since the last progress.
        let failing = self.failing.map_or(Duration::ZERO, |(since, _)| since.elapsed());
        if !may_pass(&error) || failing >= self.options.patience {
            return Err(error);
        }
        self.tell(&error);
        self.pause();
        self.connect()
    }

    /// Calls `on_retry`, at most once per failure.
    fn tell(&mut self, error: &ClientError) {
        if !std::mem::replace(&mut self.has_told, true) {
            (self.options.on_retry)(error);
        }
    }

    /// Clears the current failure, once the first connection has succeeded or more messages have been persisted.
    fn goes_on(&mut self) {
        self.failing = None;
        self.has_told = false;
    }

    /// Connects, retrying for as long as the options permit, and sends all messages that are not persisted.
    fn connect(&mut self) -> Result<(), ClientError> {
        loop {
            self.connection = None;
            let (since, pause) = *self.failing.get_or_insert((Instant::now(), RETRY.0));
            let error = match self.try_connect() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if !may_pass(&error) || since.elapsed() + pause > self.options.patience {
                return Err(error);
            }
            self.tell(&error);
            self.pause();
        }
    }

    /// Waits before a retry. The delay doubles each time, up to a limit.
    fn pause(&mut self) {
        if let Some((_, pause)) = &mut self.failing {
            std::thread::sleep(*pause);
            *pause = (*pause * 2).min(RETRY.1);
        }
    }

    fn try_connect(&mut self) -> Result<(), ClientError> {
        let mut connection = Connection::begin((self.dial)()?, &self.options.token)?;
        connection.request(&Request::OpenPublisher { name: &self.options.name })?;
        let found = match connection.reply()? {
            Reply::Publisher { persisted, .. } => persisted,
            other => return Err(unexpected(&other)),
        };
        if self.options.name.is_empty() {
            // Without a name, sequences begin anew with each connection.
            self.persisted = 0;
            for (held, sequence) in self.held.iter_mut().zip(1..) {
                held.sequence = sequence;
            }
            self.next_sequence = self.held.len() as u64 + 1;
        } else if self.was_open {
            if found < self.persisted {
                return Err(ClientError::Lost { known: self.persisted, found });
            }
            if found >= self.next_sequence {
                return Err(ClientError::NotOurs { sent: self.next_sequence - 1, found });
            }
            self.release(found);
        } else {
            self.persisted = found;
            self.next_sequence = found + 1;
        }
        self.reconnects += u64::from(self.was_open);
        self.was_open = true;
        self.connection = Some(connection);
        self.sent = self.held.front().map_or(self.next_sequence, |held| held.sequence);
        self.send_new()?;
        self.send()
    }
}
