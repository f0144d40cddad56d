//! The client's send queue: the headers of requests, and the payloads of writes, which stay in the callers' buffers.

use crate::syscalls::{self, Span};
use crate::tls::TlsStream;
use crate::wire::REQUEST_BYTES;
use std::io;
use std::os::fd::BorrowedFd;

/// Number of sent pieces (headers and payloads) after which they are removed, even if the queue is not empty.
const CUT_PIECES: usize = 4096;

#[derive(Clone, Copy)]
enum Piece {
    /// A range of bytes in `headers`.
    Own { start: usize, len: usize },
    /// A write's payload, which stays in the caller's buffer.
    Foreign { start: *const u8, len: usize },
}

impl Piece {
    fn len(self) -> usize {
        match self {
            Self::Own { len, .. } | Self::Foreign { len, .. } => len,
        }
    }
}

pub(super) struct Outbox {
    headers: Vec<u8>,
    pieces: Vec<Piece>,
    /// Index of the first piece that is not fully sent. `skip` is the number of its bytes that are sent.
    first: usize,
    skip: usize,
    spans: Vec<Span>,
}

impl Outbox {
    pub(super) fn new(depth: u32) -> Self {
        let depth = depth as usize;
        Self {
            headers: Vec::with_capacity(depth * REQUEST_BYTES),
            pieces: Vec::with_capacity(2 * depth),
            first: 0,
            skip: 0,
            spans: Vec::with_capacity(2 * depth),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    #[inline]
    pub(super) fn header(&mut self, bytes: &[u8; REQUEST_BYTES]) {
        let start = self.headers.len();
        self.headers.extend_from_slice(bytes);
        match self.pieces.last_mut() {
            Some(Piece::Own { len, .. }) => *len += bytes.len(),
            _ => self.pieces.push(Piece::Own { start, len: bytes.len() }),
        }
    }

    #[inline]
    pub(super) fn payload(&mut self, start: *const u8, len: usize) {
        if len > 0 {
            self.pieces.push(Piece::Foreign { start, len });
        }
    }

    fn address(&self, piece: Piece) -> *const u8 {
        match piece {
            Piece::Own { start, .. } => self.headers[start..].as_ptr(),
            Piece::Foreign { start, .. } => start,
        }
    }

    /// Sends until the socket is full. Returns true if everything is sent.
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        while self.first < self.pieces.len() {
            let mut spans = std::mem::take(&mut self.spans);
            spans.clear();
            let pieces = &self.pieces[self.first..];
            spans.extend(
                pieces
                    .iter()
                    .take(syscalls::PIECES_MAX)
                    .map(|p| Span::new(self.address(*p), p.len())),
            );
            spans[0].skip(self.skip);
            // SAFETY: the spans are this queue's headers, and payloads that are readable by the promise of the caller
            // that queued them.
            let sent = unsafe { syscalls::send(fd, &spans) };
            self.spans = spans;
            match sent? {
                Some(n) => self.advance(n),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Like [`Self::send`], over TLS.
    pub(super) fn send_tls(&mut self, fd: BorrowedFd<'_>, tls: &mut TlsStream) -> io::Result<bool> {
        while let Some(&piece) = self.pieces.get(self.first) {
            // SAFETY: as above; nothing changes these bytes during the call.
            let bytes = unsafe {
                std::slice::from_raw_parts(
                    self.address(piece).wrapping_add(self.skip),
                    piece.len() - self.skip,
                )
            };
            let n = tls.give(bytes)?;
            self.advance(n);
            if n == 0 && !tls.push_some(fd)? {
                return Ok(false);
            }
        }
        tls.push_some(fd)
    }

    fn advance(&mut self, mut bytes: usize) {
        while let Some(piece) = self.pieces.get(self.first) {
            let left = piece.len() - self.skip;
            if bytes < left {
                self.skip += bytes;
                break;
            }
            bytes -= left;
            self.first += 1;
            self.skip = 0;
        }
        if self.first == self.pieces.len() {
            self.pieces.clear();
            self.headers.clear();
            self.first = 0;
        } else if self.first >= CUT_PIECES {
            self.pieces.drain(..self.first);
            self.first = 0;
            let own = self.pieces.iter().find_map(|p| match p {
                Piece::Own { start, .. } => Some(*start),
                Piece::Foreign { .. } => None,
            });
            let cut = own.unwrap_or(self.headers.len());
            self.headers.drain(..cut);
            for piece in &mut self.pieces {
                if let Piece::Own { start, .. } = piece {
                    *start -= cut;
                }
            }
        }
    }
}
