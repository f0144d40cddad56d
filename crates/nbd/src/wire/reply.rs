//! Encoding of the server's replies. With structured replies, reads, block status and errors are sent as chunks. All
//! else is sent as the shorter simple reply, as the protocol document allows.

use super::bytes::Put;
use super::request::{Command, Kind};
use super::server_handshake::Negotiated;
use super::values::{
    BASE_ALLOCATION_ID, CHUNK_BLOCK_STATUS, CHUNK_DONE, CHUNK_ERROR, CHUNK_MAGIC, CHUNK_NONE,
    CHUNK_OFFSET_DATA, CHUNK_OFFSET_HOLE, CmdFlags, Errno, SIMPLE_MAGIC,
};

/// Length of a simple reply without data, bytes.
pub const SIMPLE_HEADER_BYTES: usize = 16;
/// Length of the header before the data of a chunk, bytes.
pub const CHUNK_HEADER_BYTES: usize = 28;

/// Reply format on which client and server have agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    /// Simple replies only. The kernel's client supports no others.
    Simple,
    /// Structured replies (chunks) where the protocol requires them.
    Structured,
}

impl From<&Negotiated> for Replies {
    fn from(n: &Negotiated) -> Self {
        if n.structured { Self::Structured } else { Self::Simple }
    }
}

fn simple(out: &mut Vec<u8>, cookie: u64, code: u32) {
    let mut bytes = [0; SIMPLE_HEADER_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&code.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Writes the 20-byte header that all chunks have in common. `done` marks the last chunk of a reply.
fn chunk(out: &mut Vec<u8>, done: bool, kind: u16, cookie: u64, len: u32) {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&(if done { CHUNK_DONE } else { 0 }).to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Writes a success reply without data. Also used for reads of 0 bytes, for which the protocol has no data
/// chunk.
pub fn ok(replies: Replies, out: &mut Vec<u8>, command: &Command) {
    if replies == Replies::Structured && command.kind == Kind::Read {
        chunk(out, true, CHUNK_NONE, command.cookie, 0);
    } else {
        simple(out, command.cookie, 0);
    }
}

/// Writes the header of a reply with data. The caller must append the data, `command.len_bytes` bytes. Must not be used
/// for reads of 0 bytes.
#[inline]
pub fn data_header(replies: Replies, out: &mut Vec<u8>, command: &Command) {
    debug_assert!(command.kind == Kind::Read && command.len_bytes > 0);
    match replies {
        Replies::Simple => simple(out, command.cookie, 0),
        Replies::Structured => {
            chunk(out, true, CHUNK_OFFSET_DATA, command.cookie, command.len_bytes + 8);
            out.put_u64(command.offset_bytes);
        }
    }
}

/// Writes a reply that describes the whole range of a read as a hole. Returns false, without writing, if the
/// client must get data: without structured replies, or with the flag DF.
pub fn hole(replies: Replies, out: &mut Vec<u8>, command: &Command) -> bool {
    debug_assert!(command.kind == Kind::Read && command.len_bytes > 0);
    if replies == Replies::Simple || command.flags.has(CmdFlags::DF) {
        return false;
    }
    chunk(out, true, CHUNK_OFFSET_HOLE, command.cookie, 12);
    out.put_u64(command.offset_bytes);
    out.put_u32(command.len_bytes);
    true
}

/// Writes an error reply. A structured reply also contains the error's message.
pub fn error(replies: Replies, out: &mut Vec<u8>, cookie: u64, errno: Errno) {
    match replies {
        Replies::Simple => simple(out, cookie, errno.code()),
        Replies::Structured => {
            let message = errno.message();
            chunk(out, true, CHUNK_ERROR, cookie, 6 + message.len() as u32);
            out.put_u32(errno.code());
            out.put_u16(message.len() as u16);
            out.extend_from_slice(message.as_bytes());
        }
    }
}

/// Writes a block status reply from the (length, state) of consecutive extents, starting at the request's
/// offset. Drops empty extents and merges equal neighbours; with REQ_ONE, keeps only the first, cut to the
/// range. Returns false, without writing, if no extent is left.
pub fn block_status(out: &mut Vec<u8>, command: &Command, extents: &[(u32, u32)]) -> bool {
    let start = out.len();
    let one = command.flags.has(CmdFlags::REQ_ONE);
    // The header is written last, when the length is known.
    out.extend_from_slice(&[0; 20]);
    out.put_u32(BASE_ALLOCATION_ID);
    let mut joined: Option<(u32, u32)> = None;
    let mut covered = 0u64;
    for &(len, state) in extents {
        // All but the last extent must end within the range, so the rest is omitted.
        if len == 0 || covered >= u64::from(command.len_bytes) {
            continue;
        }
        joined = match joined {
            Some((so_far, s)) if s == state => match so_far.checked_add(len) {
                Some(sum) => Some((sum, s)),
                None => break,
            },
            Some(_) if one => break,
            Some((so_far, s)) => {
                out.put_u32(so_far);
                out.put_u32(s);
                Some((len, state))
            }
            None => Some((len, state)),
        };
        covered += u64::from(len);
    }
    let Some((len, state)) = joined else {
        out.truncate(start);
        return false;
    };
    out.put_u32(if one { len.min(command.len_bytes) } else { len });
    out.put_u32(state);
    let payload = (out.len() - start - 20) as u32;
    let body = out.split_off(start + 20);
    out.truncate(start);
    chunk(out, true, CHUNK_BLOCK_STATUS, command.cookie, payload);
    out.extend_from_slice(&body);
    true
}
