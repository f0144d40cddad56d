//! Emulated storage for real programs: a machine driven by the clock, the bytes of its volumes, and the frontends for
//! clients.
//!
//! | module | content |
//! |---|---|
//! | `store` | the bytes: in memory or in a file, checksums, losses in a power cut |
//! | `served`, `poller` | the machine, advanced to the present time; the server's thread that advances it |
//! | `frontend`, `export_names` | NBD, FUSE and ublk; the names of the volumes there |
//! | `fault_command`, `control` | fault commands, and the socket that accepts them |
//! | `interface_fault` | errors and silent faults at a volume's interface |
//! | `record` | the recorded inputs of a machine, to be replayed in virtual time |
//! | `counts`, `status`, `metrics` | counters; the status as one typed value, its JSON and its text; its metrics |
//!
//! **Invariant:** this crate never decides when an operation ends or which bytes survive a power cut; the machine
//! (`iodyno-emulate`) does, and the same machine runs in virtual time.

pub mod admin_socket;
pub mod control;
pub mod counts;
pub mod data_log;
pub mod export_names;
pub mod fault_command;
pub mod frontend;
pub mod interface_fault;
pub mod metrics;
pub mod poller;
pub mod record;
pub mod scrape;
pub mod served;
pub mod status;
pub mod store;
pub mod transport;
