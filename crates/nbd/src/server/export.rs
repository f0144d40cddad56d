//! What a server serves: an [`Export`], which tells about itself and opens a [`Session`] for each
//! connection that chose it. A session takes requests one at a time, on the connection's own thread,
//! and answers each either at once, within the call, or [later](Io::later), from any thread and in any
//! order.
//!
//! Whatever reaches a session was checked: its range lies within the export, it is aligned, its
//! flags mean something, and it does not write to a read-only export.

use super::answer::{Answer, Words};
use super::deferred_reply::DeferredReply;
use super::link::Link;
use super::send_queue::Outgoing;
use crate::wire::{CmdFlags, Command, Errno, Info};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Something that is served under a name.
pub trait Export: Send + Sync {
    /// What it tells about itself. Asked at INFO and at GO; must not open anything.
    fn info(&self) -> Info;

    /// A client chose this export. An error refuses the client, and is the place to allow only one.
    fn open(&self, peer: &Peer) -> io::Result<Box<dyn Session>>;
}

/// Who chose an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Address, as people read it.
    pub address: String,
    /// Over TLS.
    pub secure: bool,
}

/// One connection's use of an export. It is dropped when the connection ends; requests that were
/// taken for [later](Io::later) may still be answered then, and the answers go nowhere.
pub trait Session {
    /// Starts, or carries out, one request. Called on the connection's thread.
    fn submit(&mut self, io: Io<'_>);

    /// All requests that came together were submitted: the moment to wake whoever works on them.
    fn submitted(&mut self) {}

    /// The client has nothing to say at the moment: true, to look at its socket again at once and to be
    /// called again; false, to sleep until it says something. The thread may do here what others would
    /// have to be woken for. Only where something was taken for [later](Io::later), and not with TLS.
    ///
    /// `owed`: the client waits for an answer.
    fn look(&mut self, owed: bool) -> bool {
        let _ = owed;
        false
    }

    /// The client took an answer from the socket so long after it was sent. Told by a thread that
    /// [looks](Self::look), of some answers, where the socket tells: a Unix socket's.
    fn taken(&mut self, after: Duration) {
        let _ = after;
    }

    /// What the client says now found the connection's thread asleep.
    fn woken(&mut self) {}

    /// From here on the connection's thread may be held up: it sleeps, or waits for the client in the
    /// middle of something.
    fn rest(&mut self) {}

    /// Where the payload of a large write may be received straight, instead of being handed over by
    /// [`Io::data`]. The write is submitted when all of it is there, with [`Io::placed`] true.
    fn place(&mut self, offset_bytes: u64, len_bytes: u32) -> Option<Place> {
        let _ = (offset_bytes, len_bytes);
        None
    }

    /// The client went away before all of a placed payload had come. Some of it may be in place.
    fn broken_off(&mut self, offset_bytes: u64, len_bytes: u32) {
        let _ = (offset_bytes, len_bytes);
    }
}

/// Where a payload is received straight.
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

/// A request, as a session gets it. It must be answered in one of the ways below; dropped, it is
/// answered with EIO.
pub struct Io<'a> {
    pub(crate) command: Command,
    pub(crate) data: &'a [u8],
    pub(crate) placed: bool,
    pub(crate) out: &'a mut Outgoing,
    pub(crate) link: &'a Arc<Link>,
    pub(crate) answered: bool,
}

impl<'a> Io<'a> {
    /// What is asked for.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Whether it has to be durable before it is answered.
    pub fn fua(&self) -> bool {
        self.command.flags.has(CmdFlags::FUA)
    }

    /// A write's payload; empty where it was [placed](Session::place).
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Whether the payload is in its place already.
    pub fn placed(&self) -> bool {
        self.placed
    }

    /// Answers at once.
    pub fn answer(mut self, answer: &Answer<'_>) {
        self.answered = true;
        self.out.answer(&self.command, answer);
    }

    /// Answers a read at once; `fill` writes all of its bytes, into a buffer of just that length.
    /// For other kinds it is as [`Answer::Done`], and `fill` is not called.
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

    /// Takes the request along, to answer it later. A write's payload has to be copied first.
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
