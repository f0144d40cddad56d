//! The protocol as types and state machines: bytes in, bytes and events out. Nothing here uses a socket, a clock or a
//! thread, so tests can exercise every rule with byte strings.
//!
//! | file | what it holds |
//! |---|---|
//! | `values` | constants of the protocol document, error numbers, an export's description |
//! | `server_handshake` | negotiation on the server's side |
//! | `request` | requests, and the rules for admitting them |
//! | `reply` | replies as the server writes them |
//! | `client_handshake` | negotiation on the client's side |
//! | `inflight` | the client's requests in flight and the replies to them |
//!
//! The source of every number and rule is the protocol document (`doc/proto.md` of the NetworkBlockDevice project,
//! which is in the public domain). Fixed newstyle only; extended headers are not supported.
//!
//! **Memory.** A state machine keeps at most one name of [`NAME_MAX`] bytes and a few numbers. Its caller buffers the
//! input; [`WINDOW_BYTES`] are enough for the longest message that is parsed as a whole. Longer messages are
//! discarded while they arrive, or end the connection. Lengths from the peer are checked before memory is allocated.

mod bytes;
mod client_handshake;
mod inflight;
mod reply;
mod request;
mod server_handshake;
mod values;

pub use client_handshake::{Dial, DialConfig, DialError, DialStep, Found};
pub use inflight::{CallEvent, Calls, Extent, ServerFault};
pub use reply::{
    CHUNK_HEADER_BYTES, Replies, SIMPLE_HEADER_BYTES, block_status, data_header, error, hole, ok,
};
pub use request::{Admission, Command, Kind, REQUEST_BYTES, Request, Rules, WRITE_DRAIN_MAX};
pub use server_handshake::{Directory, Handshake, Negotiated, Refusal, Step, TlsPolicy};
pub use values::{
    CmdFlags, Errno, Info, InfoError, NAME_MAX, OPTION_DATA_MAX, PAYLOAD_MAX, STATE_HOLE,
    STATE_ZERO, Violation, WINDOW_BYTES,
};
