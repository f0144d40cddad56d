//! All tests of this crate that use its public interface, in one program, so that they are linked only once.

mod common;
mod memory;
mod negotiation;
mod peers;
#[cfg(feature = "tls")]
#[path = "common/pki.rs"]
mod pki;
mod server;
#[cfg(feature = "tls")]
mod tls;
mod transmission;
