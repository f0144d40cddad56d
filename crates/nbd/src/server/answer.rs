//! Answers to requests; the data is in the server's own memory or in memory shared between clients ([`Words`]).

use crate::wire::{self, Command, Errno, Kind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory shared between clients: words that may change at any time. Bytes are in memory order, whatever the machine's
/// byte order.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    pub(crate) all: &'a [AtomicU64],
    /// Offset of the first byte from the start of the first word.
    pub(crate) skip: usize,
    pub(crate) len: usize,
}

impl<'a> Words<'a> {
    /// `len` bytes, starting at byte `skip` of the words. Panics if the words are too short.
    pub fn new(words: &'a [AtomicU64], skip: usize, len: usize) -> Self {
        assert!(skip.checked_add(len).is_some_and(|end| end <= size_of_val(words)));
        Self { all: &words[skip / 8..], skip: skip % 8, len }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn start(&self) -> *const u8 {
        self.all.as_ptr().cast::<u8>().wrapping_add(self.skip)
    }

    /// Copies the bytes out, a word at a time. A byte that is written concurrently has its old or its new value.
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

    /// Copies bytes in, a word at a time. Other bytes in the first and the last word are unaffected, even if they
    /// change concurrently.
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

    /// Sets the bytes to zero.
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

/// Replaces some bytes of a word and keeps the others.
fn merge(word: &AtomicU64, skip: usize, bytes: &[u8]) {
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
        let mut new = old.to_ne_bytes();
        new[skip..skip + bytes.len()].copy_from_slice(bytes);
        Some(u64::from_ne_bytes(new))
    });
}

/// One way to answer a request.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// Success without data: for everything but reads and block status.
    Done,
    /// The request failed with this error.
    Failed(Errno),
    /// Data of a read, in the requested length.
    Data(&'a [u8]),
    /// A read's bytes are all zeroes.
    Zeroes,
    /// Extents of a block status, from the request's offset on: (length, state) each. Extents beyond the range, or
    /// beyond the first if only one was requested, are left out.
    Extents(&'a [(u32, u32)]),
}

impl Answer<'_> {
    /// Encodes the reply. An answer that does not fit the request becomes EIO, since the client would misread it.
    /// Returns true if the reply is an error.
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
