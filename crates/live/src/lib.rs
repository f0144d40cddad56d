//! Emulated storage that real programs use: a machine against the clock, the bytes of its volumes,
//! and the frontends through which they are reached.
//!
//! | module | what it holds |
//! |---|---|
//! | `store` | the bytes: in memory or in a file, sums, what a power cut leaves |
//! | `served`, `pace` | the machine, advanced to *now*; the thread that does it for a server |
//! | `frontend` | how it is reached: NBD |
//! | `words`, `control` | faults as people write them, and the socket through which they are asked for |
//! | `record` | what came in, so that it can be replayed in virtual time |
//! | `counts`, `metrics` | what was done, and how it is told |
//!
//! **Invariant:** nothing here decides when an operation ends or what a power cut leaves; the machine
//! (`iodyno-emulate`) does, and the same machine runs in virtual time.

mod admin_socket;
pub mod control;
pub mod counts;
pub mod fault_command;
pub mod frontend;
pub mod metrics;
pub mod poller;
pub mod record;
pub mod served;
pub mod store;
pub mod transport;
