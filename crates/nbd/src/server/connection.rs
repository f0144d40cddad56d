//! One connection from greeting to end, on its own thread: the state shared by negotiation (`handshake.rs`) and
//! transmission (`transmission.rs`).
//!
//! **Memory.** An input buffer of [`INPUT_BYTES`] (touched only as far as it is used), replies of at most one request
//! beyond a full [`Outgoing`](super::send_queue::Outgoing), a payload of at most 32 MiB while it arrives, and what
//! [`Link`] bounds. Memory beyond a small share per connection needs a grant from the server's
//! [budget](super::link::budget).

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

/// Length of the input buffer. It holds the requests that arrive while a batch is answered: twice 32 writes of 4 KiB.
const INPUT_BYTES: usize = 256 << 10;
/// Maximum number of bytes that one receive takes beyond a directly received payload: if they belong to another
/// payload, they must be copied.
const BETWEEN_BYTES: usize = 4096;
/// Bytes passed to TLS at a time: about as many as it takes at once.
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
    /// The reason, for messages; `None` if the client disconnected or the server is stopping.
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

/// Arguments of a connection's thread.
pub(crate) struct Start {
    pub(crate) link: Arc<Link>,
    pub(crate) exports: Arc<Exports>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) limits: Limits,
    pub(crate) address: String,
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) phase: Arc<Phase>,
}

/// The transport: the plain socket or TLS.
enum Pipe {
    Plain,
    Tls(Box<TlsStream>),
}

/// Received bytes that are not used yet.
struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// True: receive only [`BETWEEN_BYTES`], since the last payload was received directly and the next one may be, too.
    sparing: bool,
}

impl Input {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Space for the next received bytes.
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
    /// Buffer for TLS: replies from other threads.
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

    /// Sends all bytes; fails at the deadline, if any.
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

/// Sends all spans; fails at the deadline, if any.
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
