//! The protocol between a message log's server and its clients: frames, requests and replies, as bytes and as types. Its
//! document is `docs/log-protocol.md`. Sockets, and what a server does with a request, are elsewhere.
//!
//! A frame is a length (4 bytes, of what follows), a kind (1 byte) and fields, all in little-endian order.

mod fields;
mod reply;
mod request;

pub use fields::Malformed;
pub use reply::{ErrorCode, Reply, ServerError, Welcome};
pub use request::{End, Published, Request, Start};

/// The version that this code speaks.
pub const VERSION: u16 = 1;
/// The first bytes of a client's first frame behind its kind.
pub const MAGIC: [u8; 4] = *b"IMLP";
/// The longest frame, bytes behind its length: a message of the largest chunk.
pub const FRAME_BYTES_MAX: usize = (16 << 20) + 4096;
/// The longest first frame of a client: nothing larger is held for a client that has not shown its token.
pub const HELLO_BYTES_MAX: usize = 4096;
/// The longest name of a publisher, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a frame before its fields.
pub const FRAME_HEADER_BYTES: usize = 5;

/// A frame as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its kind.
    pub kind: u8,
    /// Its fields.
    pub fields: &'a [u8],
    /// Bytes of all of it, its length included.
    pub taken: usize,
}

/// The frame at the start of `bytes`. None where it is not all there.
///
/// # Errors
/// It is empty, or longer than `bytes_max`.
pub fn frame(bytes: &[u8], bytes_max: usize) -> Result<Option<Frame<'_>>, Malformed> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > bytes_max {
        return Err(Malformed::Length { length, bytes_max });
    }
    let Some(body) = bytes.get(4..4 + length) else { return Ok(None) };
    Ok(body.split_first().map(|(&kind, fields)| Frame { kind, fields, taken: 4 + length }))
}

/// Bytes of the frame that begins here, its length included. None where the length is not there yet.
pub fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<4>().map(|length| 4 + u32::from_le_bytes(*length) as usize)
}

/// Appends a frame to `out`.
fn put_frame(out: &mut Vec<u8>, kind: u8, fields: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    fields(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}
