//! The protocol between a message log's server and its clients: types for requests and replies, and their encoding as
//! frames. `docs/log-protocol.md` specifies it. Sockets and the handling of requests are in other crates.
//!
//! A frame has a length (4 bytes; the number of bytes after it), a type (1 byte) and fields, all in little-endian
//! order.

mod fields;
mod reply;
mod request;

pub use fields::Malformed;
pub use reply::{ErrorCode, Reply, ServerError, Welcome};
pub use request::{End, Published, Request, Start, TooLong};

/// Version of the protocol, which the client's first frame must contain.
pub const VERSION: u16 = 1;
/// Magic number in a client's first frame, directly after the frame's type.
pub const MAGIC: [u8; 4] = *b"IMLP";
/// Maximum length of a frame after its length field, bytes. It allows a message that fills the largest chunk.
pub const FRAME_BYTES_MAX: usize = (16 << 20) + 4096;
/// Maximum length of a client's first frame, bytes. It limits buffering before the access token is verified.
pub const HELLO_BYTES_MAX: usize = 4096;
/// Maximum length of a publisher's name, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Length of a frame's header (length field and type), bytes.
pub const FRAME_HEADER_BYTES: usize = 5;

/// A received protocol frame, split into its type and its encoded fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Type code, the first byte after the length: which request or reply the frame is.
    pub kind: u8,
    /// All bytes after the type, still encoded; `Request::decode` and `Reply::decode` parse them.
    pub fields: &'a [u8],
    /// Length of the whole frame including its header, bytes.
    pub taken: usize,
}

/// Returns the frame at the start of `bytes`; `None` if it is incomplete.
///
/// # Errors
/// The frame is empty, or longer than `bytes_max`.
pub fn frame(bytes: &[u8], bytes_max: usize) -> Result<Option<Frame<'_>>, Malformed> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > bytes_max {
        return Err(Malformed::Length { length, bytes_max });
    }
    let Some(body) = bytes.get(4..4 + length) else { return Ok(None) };
    Ok(body.split_first().map(|(&kind, fields)| Frame { kind, fields, taken: 4 + length }))
}

/// Returns the length of the whole frame at the start of `bytes`. None if its length field is incomplete.
pub fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<4>().map(|length| 4 + u32::from_le_bytes(*length) as usize)
}

/// Appends a frame to `out`: the header, then what `fields` writes.
fn put_frame(out: &mut Vec<u8>, kind: u8, fields: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    fields(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}
