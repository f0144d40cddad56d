//! Replies that a connection's own thread has yet to send: bytes that the queue owns, interleaved with memory lent by
//! exports.

use super::answer::{Answer, Words};
use crate::syscalls::Span;
use crate::wire::{self, Command, Errno, Kind, Replies};

/// Size at which collected replies are sent, bytes. Large enough to spread the cost of a system call over many
/// requests; small enough to give the client work while the next replies are made.
const FULL_BYTES: usize = 128 << 10;
/// Maximum number of lent memory ranges in one send. Each may be preceded by a range of the queue's own
/// bytes.
const LENT_MAX: usize = crate::syscalls::PIECES_MAX / 2 - 1;
/// Minimum length of lent memory that is sent without copying, bytes. Below it, copying is cheaper than another memory
/// range.
const LEND_BYTES_MIN: usize = 1024;

struct Lent {
    /// Position of the lent memory in the queue: it is sent before this byte of the queue's own bytes.
    before: usize,
    start: *const u8,
    len: usize,
}

/// Queue of unsent replies: bytes that the queue owns, interleaved with memory lent by exports.
pub(crate) struct Outgoing {
    pub(crate) replies: Replies,
    /// Whether to copy lent memory immediately, because TLS encrypts it in this process.
    copies: bool,
    bytes: Vec<u8>,
    lent: Vec<Lent>,
    lent_bytes: usize,
    spans: Vec<Span>,
    pub(crate) errors: u64,
}

impl Outgoing {
    pub(crate) fn new(replies: Replies, copies: bool) -> Self {
        Self {
            replies,
            copies,
            bytes: Vec::new(),
            lent: Vec::new(),
            lent_bytes: 0,
            spans: Vec::new(),
            errors: 0,
        }
    }

    /// Memory that the queue's own bytes occupy, without lent memory, bytes.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() + self.lent_bytes >= FULL_BYTES || self.lent.len() >= LENT_MAX
    }

    pub(crate) fn refuse(&mut self, cookie: u64, errno: Errno) {
        wire::error(self.replies, &mut self.bytes, cookie, errno);
    }

    #[inline]
    pub(crate) fn answer(&mut self, command: &Command, answer: &Answer<'_>) {
        self.errors += u64::from(answer.encode(self.replies, command, &mut self.bytes));
    }

    #[inline]
    pub(crate) fn fill(&mut self, command: &Command, fill: impl FnOnce(&mut [u8])) {
        if command.kind != Kind::Read || command.len_bytes == 0 {
            return self.answer(command, &Answer::Done);
        }
        wire::data_header(self.replies, &mut self.bytes, command);
        let start = self.bytes.len();
        self.bytes.resize(start + command.len_bytes as usize, 0);
        fill(&mut self.bytes[start..]);
    }

    #[inline]
    pub(crate) fn lend(&mut self, command: &Command, words: Words<'_>) {
        if words.len() != command.len_bytes as usize || command.kind != Kind::Read {
            return self.answer(command, &Answer::Failed(Errno::Io));
        }
        if self.copies || words.len() < LEND_BYTES_MIN {
            return self.fill(command, |to| words.read(to));
        }
        wire::data_header(self.replies, &mut self.bytes, command);
        self.lent.push(Lent { before: self.bytes.len(), start: words.start(), len: words.len() });
        self.lent_bytes += words.len();
    }

    /// The whole queue, in order, as memory ranges for the kernel. Valid until the queue changes.
    pub(crate) fn spans(&mut self) -> &mut Vec<Span> {
        self.spans.clear();
        let mut at = 0;
        for lent in &self.lent {
            self.spans.push(Span::new(self.bytes[at..].as_ptr(), lent.before - at));
            self.spans.push(Span::new(lent.start, lent.len));
            at = lent.before;
        }
        if at < self.bytes.len() {
            self.spans.push(Span::new(self.bytes[at..].as_ptr(), self.bytes.len() - at));
        }
        &mut self.spans
    }

    /// The bytes of the whole queue. Only for a queue without lent memory, as with TLS.
    pub(crate) fn own_bytes(&self) -> &[u8] {
        debug_assert!(self.lent.is_empty());
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.lent.clear();
        self.lent_bytes = 0;
        // One large read must not hold its memory for the connection's life.
        if self.bytes.capacity() > 2 * FULL_BYTES {
            self.bytes.shrink_to(FULL_BYTES);
        }
    }
}
