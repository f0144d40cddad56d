//! Basic types that all other crates share: I/O operations; sizes, times and rates with their text forms; options of
//! emulated devices; verifiable content; and the named random streams that make a run reproducible from its seed.
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
