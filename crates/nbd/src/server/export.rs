//! Interface between the server and the served storage. An [`Export`] describes itself and opens a [`Session`] for each
//! connection that chose it. A session takes requests one at a time, on the connection's own thread, and answers each
//! either within the call, or [later](Io::later), from any thread and in any order.
//!
//! Every request that reaches a session is checked: its range lies within the export, it is aligned, its flags are
//! valid, and it does not write to a read-only export.

use super::answer::{Answer, Words};
use super::deferred_reply::DeferredReply;
use super::link::Link;
use super::send_queue::Outgoing;
use crate::wire::{CmdFlags, Command, Errno, Info};
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Storage served under a name.
pub trait Export: Send + Sync {
    /// The export's description. Called for INFO and GO; must not open anything.
    fn info(&self) -> Info;

    /// Opens a session for a client that chose this export. An error refuses the client, such as a second one on an
    /// export for one client.
    fn open(&self, peer: &Peer) -> io::Result<Box<dyn Session>>;
}

/// The client that chose an export.
#[derive(Clone)]
pub struct Peer {
    /// Address of the client, for messages.
    pub address: String,
    /// The connection uses TLS.
    pub secure: bool,
    pub(crate) link: Weak<Link>,
}

impl Peer {
    /// Ends the connection, from any thread; no-op if it has ended. Replies already in the socket still reach the
    /// client.
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

/// One connection's use of an export. It is dropped when the connection ends; [deferred](Io::later) requests may still
/// be answered then, but the answers are discarded.
pub trait Session {
    /// Starts or carries out one request. Called on the connection's thread.
    fn submit(&mut self, io: Io<'_>);

    /// Called when all requests that arrived together are submitted: the time to wake the thread that carries them out.
    fn submitted(&mut self) {}

    /// Called when the client's socket is empty. True: poll the socket again at once and call again; false: sleep until
    /// the client sends something. The thread can use the call for work that another thread would otherwise be woken
    /// for. Called only if a request was [deferred](Io::later), and not with TLS.
    ///
    /// `owed`: the client waits for an answer.
    fn poll(&mut self, owed: bool) -> bool {
        let _ = owed;
        false
    }

    /// Reports the time from sending an answer until the client took it from the socket. Called by a thread that
    /// [polls](Self::poll), for some answers, and only for Unix sockets, which show it.
    fn taken(&mut self, after: Duration) {
        let _ = after;
    }

    /// Reports that the request that arrives now found the connection's thread asleep.
    fn woken(&mut self) {}

    /// Reports that the connection's thread may block from here on: it sleeps, or waits for the client in the middle of
    /// a request or reply.
    fn may_block(&mut self) {}

    /// Memory for the payload of a large write, to receive it directly instead of through [`Io::data`]. The write is
    /// submitted, with [`Io::placed`] true, when the payload is complete.
    fn place(&mut self, offset_bytes: u64, len_bytes: u32) -> Option<Place> {
        let _ = (offset_bytes, len_bytes);
        None
    }

    /// Called if the client disconnects before a placed payload is complete. Part of the payload may have been
    /// received.
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
    /// Lets a payload be received into these words.
    ///
    /// # Safety
    /// The words stay mapped until the session that returns this place is dropped.
    pub unsafe fn new(words: Words<'_>) -> Self {
        Self { start: words.start().cast_mut(), len: words.len }
    }
}

/// A request, as passed to a session. It must be answered in one of the ways below; if it is dropped, the server
/// answers with EIO.
pub struct Io<'a> {
    pub(crate) command: Command,
    pub(crate) data: &'a [u8],
    pub(crate) placed: bool,
    pub(crate) out: &'a mut Outgoing,
    pub(crate) link: &'a Arc<Link>,
    pub(crate) answered: bool,
}

impl<'a> Io<'a> {
    /// The request to be answered.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// True if the write must be durable before it is answered.
    pub fn fua(&self) -> bool {
        self.command.flags.has(CmdFlags::FUA)
    }

    /// Payload of a write; empty if it was [placed](Session::place).
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// True if the payload was received into its [place](Session::place).
    pub fn placed(&self) -> bool {
        self.placed
    }

    /// Answers the request at once.
    pub fn answer(mut self, answer: &Answer<'_>) {
        self.answered = true;
        self.out.answer(&self.command, answer);
    }

    /// Answers a read at once. `fill` writes the whole buffer, which has the requested length. Other kinds of requests
    /// get [`Answer::Done`], and `fill` is not called.
    pub fn fill(mut self, fill: impl FnOnce(&mut [u8])) {
        self.answered = true;
        self.out.fill(&self.command, fill);
    }

    /// Answers a read at once with these words, which are sent without a copy.
    ///
    /// # Safety
    /// The words stay mapped until this session is dropped. Their content may change.
    pub unsafe fn lend(mut self, words: Words<'_>) {
        self.answered = true;
        self.out.lend(&self.command, words);
    }

    /// Defers the answer. Copy a write's payload first.
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
