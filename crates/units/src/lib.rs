//! Basic types of all other crates: operations; bytes, times and rates with their text forms; preconditions of
//! emulated devices and options of cloud volumes; verifiable content; the format of dm-log-writes; suggestions for
//! mistyped names; cleaning of foreign text; and the named random streams that make a seed replay.
//!
//! Units come last in names (`latency_ns`, `offset_bytes`, `rate_iops`). Inside the program a time is a `u64` of
//! nanoseconds and a size a `u64` of bytes. Only this crate parses or prints text with units.
//!
//! **Invariant:** imports no other crate of the workspace, reads no clock, does no I/O.

#![forbid(unsafe_code)]

mod distance;
pub mod human;
mod io_error;
pub mod log_writes;
pub mod mark;
pub mod op;
pub mod parse;
mod precondition;
pub mod rng;
pub mod text;
pub mod verifiable;
mod volume_options;

pub use distance::nearest;
pub use io_error::{IoError, ZoneError};
pub use op::{Op, OpKind};
pub use parse::{
    ParseUnitError, parse_bandwidth_bytes_per_s, parse_duration_ns, parse_percent, parse_rate_iops,
    parse_size,
};
pub use precondition::{Precondition, PreconditionError};
pub use volume_options::{StartCredits, VolumeOptionError, VolumeOptions};
