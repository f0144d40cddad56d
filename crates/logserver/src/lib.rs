//! Serves a message log: opens real targets as its storage, commits publishers' messages, and streams persisted
//! messages to subscribers.
//!
//! * [`storage`] opens files, block devices, memory and NBD exports as [`iodyno_msglog::Storage`], through `targets`.
//! * [`ReadingThreads`] is a pool of threads that read a target ahead of need.
//! * [`Server`] adds threads, sockets and locks to [`iodyno_msglog::Log`].
//!
//! The protocol's encoding is in `iodyno_msglog::protocol`.

mod accept;
mod commit;
mod gate;
mod handshakes;
mod limits;
mod memory;
mod open;
mod publishers;
mod read_ahead;
mod receive;
mod send;
mod server;
mod shared;
mod slice;
mod snapshot;
pub mod storage;
mod stream;
mod wanted;
mod writes_first;

pub use limits::Limits;
pub use open::{Found, open_log};
pub use read_ahead::ReadingThreads;
pub use server::{Server, ServerOptions, StartError};
