//! NBD, the network block device protocol, by its public document, in three layers:
//!
//! * [`wire`]: the protocol as types and state machines, without sockets, for both sides;
//! * [`server`]: serves anything that is an [`Export`]; [`ram`] is one;
//! * [`client`]: many requests in flight on one connection, for a load generator.
//!
//! Its sockets, and TLS on them, also serve other protocols: [`server::Listener`], [`stream`].
//!
//! It imports nothing of this workspace and contains nothing of measurement or emulation.
//!
//! **Unsafe code** is in three places: system calls on memory that others change (`syscalls`), the RAM
//! disk's mapping (`ram`), and the promises between them and an export (`server::export`, `client`), each with
//! its reason.

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
