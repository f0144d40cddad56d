//! The interface between the server and what it serves: an [`Export`], which describes itself and opens a
//! [`Session`] for each connection that chose it. A session takes requests one at a time, on the connection's
//! own thread, and answers each either at once, within the call, or [later](Io::later), from any thread and in
//! any order.
//!
//! Every request that reaches a session was checked: its range lies within the export, it is aligned, its flags
//! are valid, and it does not write to a read-only export.

use super::answer::{Answer, Words};
use super::deferred_reply::DeferredReply;
use super::link::Link;
use super::send_queue::Outgoing;
use crate::wire::{CmdFlags, Command, Errno, Info};
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Something that is served under a name.
pub trait Export: Send + Sync {
    /// Its description. Called at INFO and at GO; must not open anything.
    fn info(&self) -> Info;

    /// A client chose this export. An error refuses the client; an export that allows one client only refuses
    /// here.
    fn open(&self, peer: &Peer) -> io::Result<Box<dyn Session>>;
}

/// Who chose an export.
#[derive(Clone)]
pub struct Peer {
    /// Address, as people read it.
    pub address: String,
    /// Over TLS.
    pub secure: bool,
    pub(crate) link: Weak<Link>,
}

impl Peer {
    /// Ends the connection, from any thread; no effect on one that has ended. Replies that the socket has taken still
    /// reach the client.
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

/// One connection's use of an export. It is dropped when the connection ends; requests that were
/// [deferred](Io::later) may still be answered then, and the answers are discarded.
pub trait Session {
    /// Starts, or carries out, one request. Called on the connection's thread.
    fn submit(&mut self, io: Io<'_>);

    /// All requests that came together were submitted: the time to wake the thread that carries them out.
    fn submitted(&mut self) {}

    /// The client's socket is empty: true, to poll the socket again at once and to be called again; false, to
    /// sleep until the client sends something. The thread may do here what another thread would have to be
    /// woken for. Only where a request was [deferred](Io::later), and not with TLS.
    ///
    /// `owed`: the client waits for an answer.
    fn poll(&mut self, owed: bool) -> bool {
        let _ = owed;
        false
    }

    /// The client took an answer from the socket this long after it was sent. Called by a thread that
    /// [polls](Self::poll), for some answers, where the socket shows it: a Unix socket does.
    fn taken(&mut self, after: Duration) {
        let _ = after;
    }

    /// The request that arrives now found the connection's thread asleep.
    fn woken(&mut self) {}

    /// From here on the connection's thread may block: it sleeps, or waits for the client in the middle of a
    /// request or reply.
    fn may_block(&mut self) {}

    /// The memory into which the payload of a large write may be received straight, instead of being passed by
    /// [`Io::data`]. The write is submitted when all of it is there, with [`Io::placed`] true.
    fn place(&mut self, offset_bytes: u64, len_bytes: u32) -> Option<Place> {
        let _ = (offset_bytes, len_bytes);
        None
    }

    /// The client disconnected before all of a placed payload had come. Some of it may be in place.
    fn broken_off(&mut self, offset_bytes: u64, len_bytes: u32) {
        let _ = (offset_bytes, len_bytes);
    }
}

/// Memory into which a payload is received straight.
#[derive(Debug)]
pub struct Place {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
}

impl Place {
    /// # Safety
    /// The words stay mapped until the session that gives this is dropped.
    pub unsafe fn new(words: Words<'_>) -> Self {
        Self { start: words.start().cast_mut(), len: words.len }
    }
}

/// A request, as a session gets it. It must be answered in one of the ways below; if it is dropped, the server
/// answers it with EIO.
pub struct Io<'a> {
    pub(crate) command: Command,
    pub(crate) data: &'a [u8],
    pub(crate) placed: bool,
    pub(crate) out: &'a mut Outgoing,
    pub(crate) link: &'a Arc<Link>,
    pub(crate) answered: bool,
}

impl<'a> Io<'a> {
    /// The request's command.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Whether the write must be durable before it is answered.
    pub fn fua(&self) -> bool {
        self.command.flags.has(CmdFlags::FUA)
    }

    /// A write's payload; empty where it was [placed](Session::place).
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Whether the payload was already received into its [place](Session::place).
    pub fn placed(&self) -> bool {
        self.placed
    }

    /// Answers at once.
    pub fn answer(mut self, answer: &Answer<'_>) {
        self.answered = true;
        self.out.answer(&self.command, answer);
    }

    /// Answers a read at once; `fill` writes all of its bytes, into a buffer of just that length. For other
    /// kinds it acts as [`Answer::Done`], and `fill` is not called.
    pub fn fill(mut self, fill: impl FnOnce(&mut [u8])) {
        self.answered = true;
        self.out.fill(&self.command, fill);
    }

    /// Answers a read at once with these words, which are sent from where they are.
    ///
    /// # Safety
    /// The words stay mapped until this session is dropped. They may change meanwhile.
    pub unsafe fn lend(mut self, words: Words<'_>) {
        self.answered = true;
        self.out.lend(&self.command, words);
    }

    /// Defers the answer. A write's payload has to be copied first.
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
