//! Interface between the server and the served storage. An [`Export`] describes itself, and opens a [`Session`] for
//! each connection that selects it. A session receives requests one at a time, on the connection's own thread. It
//! answers each within the call, or [later](Io::later) from any thread, in any order.
//!
//! Requests are checked before they reach a session: the range lies within the export and is aligned, the flags are
//! valid, and a read-only export is not written.

use super::answer::{Answer, Words};
use super::deferred_reply::DeferredReply;
use super::link::Link;
use super::send_queue::Outgoing;
use crate::wire::{CmdFlags, Command, Errno, Info};
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Storage that the server offers under a name.
pub trait Export: Send + Sync {
    /// Describes the export. Called when clients send INFO or GO; must not open anything.
    fn info(&self) -> Info;

    /// Opens a session for a client that selected this export. Returns an error to refuse the client, for example if
    /// another client uses the export exclusively.
    fn open(&self, peer: &Peer) -> io::Result<Box<dyn Session>>;
}

/// The client of a connection.
#[derive(Clone)]
pub struct Peer {
    /// Address of the client, for messages.
    pub address: String,
    /// Whether the client's connection uses TLS.
    pub secure: bool,
    pub(crate) link: Weak<Link>,
}

impl Peer {
    /// Ends the connection; can be called from any thread. No-op if it has already ended. Replies in the socket's
    /// buffer still reach the client.
    pub fn hang_up(&self) {
        if let Some(link) = self.link.upgrade() {
            let _ = rustix::net::shutdown(&link.socket, rustix::net::Shutdown::Both);
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, secure, .. } = self;
        f.debug_struct("Peer")
            .field("address", address)
            .field("secure", secure)
            .finish_non_exhaustive()
    }
}

/// Handles the requests of one connection. The session is dropped when the connection ends; replies to
/// [deferred](Io::later) requests are then discarded.
pub trait Session {
    /// Starts or performs one request. Called on the connection's thread.
    fn submit(&mut self, io: Io<'_>);

    /// Called after all requests that arrived together are submitted. A session that hands requests to another
    /// thread should wake that thread here.
    fn submitted(&mut self) {}

    /// Called if nothing is left to receive from the client. The call can do work for which another thread would have
    /// to be woken. Returns true to check the socket again and repeat the call, or false to sleep until the client
    /// sends something. Called only if a request was [deferred](Io::later), and not with TLS.
    ///
    /// `owed`: whether the client waits for a reply.
    fn poll(&mut self, owed: bool) -> bool {
        let _ = owed;
        false
    }

    /// Reports the time between sending a reply and its receipt by the client. Called for some replies, on threads that
    /// [poll](Self::poll), and only for Unix sockets, where the kernel shows unread bytes.
    fn taken(&mut self, after: Duration) {
        let _ = after;
    }

    /// Called if the connection's thread slept until the next request arrived.
    fn woken(&mut self) {}

    /// Reports that the connection's thread may block from here on: it sleeps, or waits for the client in the middle of
    /// a request or reply.
    fn may_block(&mut self) {}

    /// Returns memory into which the payload of a large write is received directly; `None` to get the payload
    /// from [`Io::data`]. The write is submitted when its payload is complete; [`Io::placed`] is then true.
    fn place(&mut self, offset_bytes: u64, len_bytes: u32) -> Option<Place> {
        let _ = (offset_bytes, len_bytes);
        None
    }

    /// Called if the client disconnects before a directly received payload is complete. The memory may contain part of
    /// the payload.
    fn broken_off(&mut self, offset_bytes: u64, len_bytes: u32) {
        let _ = (offset_bytes, len_bytes);
    }
}

/// Memory into which a payload is received directly.
#[derive(Debug)]
pub struct Place {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
}

impl Place {
    /// Allows a payload to be received into `words`.
    ///
    /// # Safety
    /// The words stay mapped until the session that returns this place is dropped.
    pub unsafe fn new(words: Words<'_>) -> Self {
        Self { start: words.start().cast_mut(), len: words.len }
    }
}

/// A request passed to a session, which must answer it by one of the methods of this type. If the request is dropped
/// unanswered, the server replies with EIO.
pub struct Io<'a> {
    pub(crate) command: Command,
    pub(crate) data: &'a [u8],
    pub(crate) placed: bool,
    pub(crate) out: &'a mut Outgoing,
    pub(crate) link: &'a Arc<Link>,
    pub(crate) answered: bool,
}

impl<'a> Io<'a> {
    /// The request: its kind, range and flags, which have been checked.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Whether the write must be durable before the reply is sent (force unit access).
    pub fn fua(&self) -> bool {
        self.command.flags.has(CmdFlags::FUA)
    }

    /// Payload of a write; empty if it was received directly into the memory of [`Session::place`].
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Whether the payload was received directly into the memory of [`Session::place`].
    pub fn placed(&self) -> bool {
        self.placed
    }

    /// Answers the request immediately, within the call of [`Session::submit`].
    pub fn answer(mut self, answer: &Answer<'_>) {
        self.answered = true;
        self.out.answer(&self.command, answer);
    }

    /// Answers a read immediately. `fill` writes the whole buffer, which has the requested length. For other
    /// kinds of request, replies [`Answer::Done`] without calling `fill`.
    pub fn fill(mut self, fill: impl FnOnce(&mut [u8])) {
        self.answered = true;
        self.out.fill(&self.command, fill);
    }

    /// Answers a read immediately with the content of `words`, which must have the requested length. The content is
    /// copied only if it is short or TLS is used.
    ///
    /// # Safety
    /// The words stay mapped until this session is dropped. Their content may change.
    pub unsafe fn lend(mut self, words: Words<'_>) {
        self.answered = true;
        self.out.lend(&self.command, words);
    }

    /// Defers the reply. A write's payload must be copied first.
    pub fn later(mut self) -> DeferredReply {
        self.answered = true;
        DeferredReply::new(Arc::clone(self.link), self.command)
    }
}

impl Drop for Io<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.out.answer(&self.command, &Answer::Failed(Errno::Io));
        }
    }
}
