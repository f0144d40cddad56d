//! Emulated storage that real programs use: a machine driven by the clock, the bytes of its volumes, and the
//! frontends through which clients reach them.
//!
//! | module | what it holds |
//! |---|---|
//! | `store` | the bytes: in memory or in a file, sums, what survives a power cut |
//! | `served`, `poller` | the machine, advanced to *now*; the thread that advances it for a server |
//! | `frontend` | NBD, FUSE and ublk |
//! | `fault_command`, `control` | fault commands, and the socket that takes them |
//! | `record` | the recorded inputs of a machine, to be replayed in virtual time |
//! | `counts`, `metrics` | counters, and their publication |
//!
//! **Invariant:** nothing here decides when an operation ends or what survives a power cut; the machine
//! (`iodyno-emulate`) does, and the same machine runs in virtual time.

mod admin_socket;
pub mod control;
pub mod counts;
pub mod fault_command;
pub mod frontend;
pub mod metrics;
pub mod poller;
pub mod record;
pub mod scrape;
pub mod served;
pub mod store;
pub mod transport;
