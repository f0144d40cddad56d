//! Answers to requests. The data of an answer is in the server's own memory, or in memory shared between clients
//! ([`Words`]).

use crate::wire::{self, Command, Errno, Kind};
use std::sync::atomic::{AtomicU64, Ordering};

/// A byte range of memory that other clients may change concurrently, accessed as atomic words. The order of the bytes
/// does not depend on the machine's byte order.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    pub(crate) all: &'a [AtomicU64],
    /// Number of bytes of the first word that precede the range, 0 to 7.
    pub(crate) skip: usize,
    pub(crate) len: usize,
}

impl<'a> Words<'a> {
    /// Creates a view of `len` bytes that starts at byte `skip` of `words`. Panics if `words` is too short.
    pub fn new(words: &'a [AtomicU64], skip: usize, len: usize) -> Self {
        assert!(skip.checked_add(len).is_some_and(|end| end <= size_of_val(words)));
        Self { all: &words[skip / 8..], skip: skip % 8, len }
    }

    /// Length of the range, bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn start(&self) -> *const u8 {
        self.all.as_ptr().cast::<u8>().wrapping_add(self.skip)
    }

    /// Copies the bytes to a buffer, one word at a time. If a byte is written concurrently, the copy has its old
    /// or its new value.
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

    /// Copies a buffer into the memory, one word at a time. Does not affect other bytes in the first and last
    /// word, even if they change concurrently.
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

/// Atomically replaces bytes of a word, starting at byte `skip`, and keeps the others.
fn merge(word: &AtomicU64, skip: usize, bytes: &[u8]) {
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
        let mut new = old.to_ne_bytes();
        new[skip..skip + bytes.len()].copy_from_slice(bytes);
        Some(u64::from_ne_bytes(new))
    });
}

/// Result of a request, from which the reply is made.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// The request succeeded and returns no data. Not a valid answer to block status, or to a read of more than 0
    /// bytes.
    Done,
    /// The request failed with this error.
    Failed(Errno),
    /// Data of a read, with exactly the requested length.
    Data(&'a [u8]),
    /// Result of a read whose bytes are all zeroes.
    Zeroes,
    /// Extents for a block status request, as (length, state), starting at the request's offset. The reply omits
    /// extents beyond the requested range and, if the client requested only one, all but the first.
    Extents(&'a [(u32, u32)]),
}

impl Answer<'_> {
    /// Encodes the reply to a request. If the result does not fit the request, encodes EIO instead, because the
    /// client would misinterpret the reply. Returns true if the reply is an error.
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
