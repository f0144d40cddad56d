//! NBD, the network block device protocol, implemented from its public document in three layers:
//!
//! - [`wire`] expresses the protocol as types and state machines, without sockets, for both sides.
//! - [`server`] serves any [`Export`], such as a RAM disk ([`ram`]).
//! - [`client`] keeps many requests in flight on one connection, for a load generator.
//!
//! Other protocols can use the sockets, with or without TLS: [`server::Listener`], [`stream`].
//!
//! This crate imports nothing from the workspace and contains no measurement or emulation.
//!
//! **Unsafe code** is in three places: `syscalls` makes system calls on memory that others change, `ram` maps the RAM
//! disk's memory, and `server::export` and `client` accept buffers for such system calls.

mod busy_poll;
pub mod client;
pub mod ram;
pub mod server;
pub mod stream;
mod syscalls;
pub mod tls;
pub mod wire;

pub use server::{
    Answer, Batch, DeferredReply, Endpoint, Export, Exports, Io, Limits, Peer, Place, Server,
    ServerConfig, Session, Words,
};
pub use wire::{CmdFlags, Command, Errno, Info, Kind};
