//! A connection, with the state that negotiation (`handshake.rs`) and transmission (`transmission.rs`) share. Each
//! connection has its own thread.
//!
//! **Memory.** A connection has an input buffer of [`INPUT_BYTES`], a send queue
//! ([`Outgoing`](super::send_queue::Outgoing)), and space for the payload that is arriving, at most 32 MiB. [`Link`]
//! limits deferred requests and their replies. Memory beyond a small share per connection needs a grant from the
//! server's [budget](super::link::budget).

mod handshake;
mod transmission;
mod wait_for_memory;

use super::counters::Tally;
use super::link::Link;
use super::{Exports, Limits, Phase};
use crate::busy_poll::{BusyPoll, POLL_MAX_SERVER};
use crate::syscalls::{self, Span};
use crate::tls::{ServerTls, TlsStream};
use crate::wire::Violation;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use transmission::Watched;

/// Size of the input buffer, bytes. It has space for two batches of 32 writes of 4 KiB: one that the server
/// processes, and the next one.
const INPUT_BYTES: usize = 256 << 10;
/// Maximum number of bytes to receive into the input buffer after a payload that was received directly. Bytes of
/// another payload that arrive there must be copied.
const BETWEEN_BYTES: usize = 4096;
/// Number of bytes passed to TLS in one call; about the size of its buffer.
const TLS_BYTES: usize = 64 << 10;

/// Reason why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client sent a disconnect request.
    Left,
    /// The client closed the socket without a disconnect request, or the server is stopping.
    Gone,
    /// The client broke the protocol.
    Violation(Violation),
    /// The socket or TLS failed, or the deadline passed.
    Failed(io::Error),
}

impl End {
    /// The reason as text for messages; `None` if the client disconnected or the server is stopping.
    pub(crate) fn why(&self) -> Option<String> {
        match self {
            Self::Left | Self::Gone => None,
            Self::Violation(violation) => {
                Some(format!("the client broke the protocol: {violation}"))
            }
            Self::Failed(error) => Some(error.to_string()),
        }
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Arguments for the thread that serves a connection.
pub(crate) struct Start {
    pub(crate) link: Arc<Link>,
    pub(crate) exports: Arc<Exports>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) limits: Limits,
    pub(crate) address: String,
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) phase: Arc<Phase>,
}

/// Transport of a connection: plain socket or TLS.
enum Pipe {
    Plain,
    Tls(Box<TlsStream>),
}

/// Received bytes that have not been processed yet.
struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Whether to receive at most [`BETWEEN_BYTES`], because the last payload was received directly and the next
    /// one may follow.
    sparing: bool,
}

impl Input {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Free part of the buffer, for the next receive.
    fn free_space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let space = &mut self.buffer[self.end..];
        let at_most = if self.sparing { BETWEEN_BYTES.min(space.len()) } else { space.len() };
        &mut space[..at_most]
    }
}

pub(crate) fn run(start: &Start) -> End {
    match Connection::new(start).serve() {
        Ok(end) | Err(end) => end,
    }
}

struct Connection<'a> {
    start: &'a Start,
    pipe: Pipe,
    input: Input,
    tally: Tally,
    /// Replies queued by other threads, for this thread to send over TLS.
    queued: Vec<u8>,
    busy_poll: BusyPoll,
    watched: Option<Watched>,
}

impl<'a> Connection<'a> {
    fn new(start: &'a Start) -> Self {
        Self {
            start,
            pipe: Pipe::Plain,
            // The kernel maps zeroed memory of this size lazily, so only the used part is touched.
            input: Input { buffer: vec![0; INPUT_BYTES].into(), start: 0, end: 0, sparing: false },
            tally: Tally::default(),
            queued: Vec::new(),
            busy_poll: BusyPoll::new(POLL_MAX_SERVER),
            watched: Watched::of(start.link.socket.as_fd()),
        }
    }

    fn fd(&self) -> BorrowedFd<'a> {
        self.start.link.socket.as_fd()
    }

    fn stopping(&self) -> bool {
        self.start.stopping.load(Ordering::Relaxed)
    }

    /// Sends all bytes. Fails if the deadline passes first.
    fn send_bytes(&mut self, bytes: &[u8], deadline: Option<Instant>) -> io::Result<()> {
        let fd = self.fd();
        let link = &self.start.link;
        match &mut self.pipe {
            Pipe::Plain => {
                let mut spans = [Span::new(bytes.as_ptr(), bytes.len())];
                // SAFETY: the span is the slice.
                unsafe { send_all(link, &mut spans, deadline) }
            }
            Pipe::Tls(tls) => bytes.chunks(TLS_BYTES).try_for_each(|bytes| {
                tls.send_all(fd, bytes, deadline)?;
                link.moved(bytes.len());
                Ok(())
            }),
        }
    }
}

/// Sends all memory ranges in `spans`. Fails if the deadline passes first.
///
/// # Safety
/// As for [`syscalls::send`].
unsafe fn send_all(
    link: &Link,
    mut spans: &mut [Span],
    deadline: Option<Instant>,
) -> io::Result<()> {
    let fd = link.socket.as_fd();
    while !spans.is_empty() {
        // SAFETY: the caller's promise.
        match unsafe { syscalls::send(fd, spans) }? {
            Some(n) => {
                link.moved(n);
                spans = syscalls::advance(spans, n);
            }
            None => {
                if syscalls::wait(fd, false, true, None, deadline)?.nothing() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
        if spans.first().is_some_and(|s| s.len() == 0) {
            spans = &mut spans[1..];
        }
    }
    Ok(())
}
