//! The interface between the server and what it serves: an [`Export`], which describes itself and opens a
//! [`Session`] for each connection that chose it. A session takes requests one at a time, on the connection's
//! own thread, and answers each either at once, within the call, or [later](Io::later), from any thread and in
//! any order.
//!
//! Every request that reaches a session was checked: its range lies within the export, it is aligned, its flags
//! are valid, and it does not write to a read-only export.

use crate::server::{DeferredReply, Link, Outgoing};
use crate::wire::{self, CmdFlags, Command, Errno, Info, Kind};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Something that is served under a name.
pub trait Export: Send + Sync {
    /// Its description. Called at INFO and at GO; must not open anything.
    fn info(&self) -> Info;

    /// A client chose this export. An error refuses the client; an export that allows one client only refuses
    /// here.
    fn open(&self, peer: &Peer) -> io::Result<Box<dyn Session>>;
}

/// The client that chose an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Address, in readable form.
    pub address: String,
    /// Over TLS.
    pub secure: bool,
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

/// Memory that is shared between clients: words that any thread may change at any time. Bytes lie in it as in
/// memory, whatever the machine's byte order.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    pub(crate) all: &'a [AtomicU64],
    /// First byte, counted from the first word.
    pub(crate) skip: usize,
    pub(crate) len: usize,
}

impl<'a> Words<'a> {
    /// `len` bytes from byte `skip` of the words on. Panics when there are fewer.
    pub fn new(words: &'a [AtomicU64], skip: usize, len: usize) -> Self {
        assert!(skip.checked_add(len).is_some_and(|end| end <= size_of_val(words)));
        Self { all: &words[skip / 8..], skip: skip % 8, len }
    }

    /// Length, bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn start(&self) -> *const u8 {
        self.all.as_ptr().cast::<u8>().wrapping_add(self.skip)
    }

    /// Copies the bytes out, a word at a time. Words that are written meanwhile are read either as they were or
    /// as they will be.
    pub fn read(&self, to: &mut [u8]) {
        assert!(to.len() == self.len);
        let (mut skip, mut to) = (self.skip, to);
        for word in self.all {
            if to.is_empty() {
                break;
            }
            let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
            let n = (8 - skip).min(to.len());
            let (head, rest) = to.split_at_mut(n);
            head.copy_from_slice(&bytes[skip..skip + n]);
            (skip, to) = (0, rest);
        }
    }

    /// Copies bytes in, a word at a time. Bytes beside them in the first and the last word stay what
    /// they are, even if they change meanwhile.
    pub fn write(&self, from: &[u8]) {
        assert!(from.len() == self.len);
        let head = ((8 - self.skip) % 8).min(from.len());
        let mut words = self.all;
        if head > 0 {
            merge(&words[0], self.skip, &from[..head]);
            words = &words[1..];
        }
        let (whole, tail) = from[head..].as_chunks::<8>();
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !tail.is_empty() {
            merge(&words[whole.len()], 0, tail);
        }
    }

    /// Makes the bytes zero.
    pub fn zero(&self) {
        let head = ((8 - self.skip) % 8).min(self.len);
        let mut words = self.all;
        if head > 0 {
            merge(&words[0], self.skip, &[0; 8][..head]);
            words = &words[1..];
        }
        let whole = (self.len - head) / 8;
        for word in &words[..whole] {
            word.store(0, Ordering::Relaxed);
        }
        let tail = (self.len - head) % 8;
        if tail > 0 {
            merge(&words[whole], 0, &[0; 8][..tail]);
        }
    }
}

/// Puts bytes into a word and leaves its other bytes alone.
fn merge(word: &AtomicU64, skip: usize, bytes: &[u8]) {
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
        let mut new = old.to_ne_bytes();
        new[skip..skip + bytes.len()].copy_from_slice(bytes);
        Some(u64::from_ne_bytes(new))
    });
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

/// One way to answer a request.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// It is done, and there is no data: for everything but reads and block status.
    Done,
    /// It failed.
    Failed(Errno),
    /// A read's bytes: as many as requested.
    Data(&'a [u8]),
    /// A read's bytes are all zeroes.
    Zeroes,
    /// A block status' extents, from the request's offset on: (length, state) each. Whatever lies beyond the
    /// range, or beyond the first extent where one was requested, is left out.
    Extents(&'a [(u32, u32)]),
}

impl Answer<'_> {
    /// Writes the reply. An answer that does not fit the request becomes EIO: the client would misread anything
    /// else. True for an error.
    pub(crate) fn encode(
        &self,
        replies: wire::Replies,
        command: &Command,
        out: &mut Vec<u8>,
    ) -> bool {
        let has_data = command.kind == Kind::Read && command.len_bytes > 0;
        match *self {
            Answer::Failed(errno) => {
                wire::error(replies, out, command.cookie, errno);
                return true;
            }
            Answer::Done if !has_data && command.kind != Kind::BlockStatus => {
                wire::ok(replies, out, command);
            }
            Answer::Data([]) | Answer::Zeroes if command.kind == Kind::Read && !has_data => {
                wire::ok(replies, out, command);
            }
            Answer::Data(data) if has_data && data.len() == command.len_bytes as usize => {
                wire::data_header(replies, out, command);
                out.extend_from_slice(data);
            }
            Answer::Zeroes if has_data => {
                if !wire::hole(replies, out, command) {
                    wire::data_header(replies, out, command);
                    out.resize(out.len() + command.len_bytes as usize, 0);
                }
            }
            Answer::Extents(extents)
                if command.kind == Kind::BlockStatus
                    && wire::block_status(out, command, extents) => {}
            _ => {
                wire::error(replies, out, command.cookie, Errno::Io);
                return true;
            }
        }
        false
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
