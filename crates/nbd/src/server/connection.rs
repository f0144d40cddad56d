//! One connection, from the greeting to the end, on a thread of its own: the state shared by negotiation
//! (`handshake.rs`) and transmission (`transmission.rs`).
//!
//! **Memory.** An input buffer of [`INPUT_BYTES`] (touched only as far as it is used), replies of at most
//! one request beyond what [`Outgoing`](super::send_queue::Outgoing) holds when it is full, a payload of at
//! most 32 MiB while it arrives, and what [`Link`] bounds. What of these goes beyond a small share is granted by the
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

/// Large enough for the requests that come while a batch is answered: 32 writes of 4 KiB twice over.
const INPUT_BYTES: usize = 256 << 10;
/// After a payload that was received straight into its place, no more than this is received: more would have to
/// be copied if another follows.
const BETWEEN_BYTES: usize = 4096;
/// Bytes that go to TLS at a time: about what it takes at once.
const TLS_BYTES: usize = 64 << 10;

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client sent a disconnect request.
    Left,
    /// It closed the socket without one, or the server is stopping.
    Gone,
    /// It broke the protocol.
    Violation(Violation),
    /// The socket or TLS failed, or the deadline passed.
    Failed(io::Error),
}

impl End {
    /// The reason, in words; None for an orderly end.
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

/// What the server passes to a connection's thread.
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

/// Bytes received and not used yet.
struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The last payload was received straight into its place, and the next may be.
    sparing: bool,
}

impl Input {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Free space at the end.
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
    /// For TLS: replies that other threads made.
    queued: Vec<u8>,
    busy_poll: BusyPoll,
    watched: Option<Watched>,
}

impl<'a> Connection<'a> {
    fn new(start: &'a Start) -> Self {
        Self {
            start,
            pipe: Pipe::Plain,
            // Zeroed memory of this size is mapped, and touched only where it is used.
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

    /// Sends all of it, without a time limit or until the deadline.
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

/// Sends all of the spans, without a time limit or until the deadline.
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
