//! Emulated storage systems: hosts, links, flash devices, disks and RAM disks form one machine, whose virtual time
//! the caller advances.
//!
//! **Invariants:** reads no clock, spawns no thread, does no I/O. The same seed gives the same events on every machine:
//! logarithms and powers come from `libm` in pure Rust, random numbers from the named streams of `units`. Each
//! decision, such as which request to serve next, is made in the event in which it takes effect, not in advance.

#![allow(
    clippy::inline_always,
    reason = "an event takes about 30 ns, and a seventh longer if the compiler chooses what to inline"
)]

#[cfg(test)]
extern crate self as iodyno_emulate;

mod adapter_path;
mod adapters;
mod array;
mod bug_injection;
mod calendar;
mod cloud_volume;
mod completion;
mod content_event;
mod core;
pub mod describe;
pub mod disk;
pub mod endurance;
mod event;
mod fault;
mod fault_state;
pub mod flash;
mod flash_counts;
pub mod ftl;
mod gauge;
mod hdd;
mod host_work;
mod limit;
pub mod machine;
mod medium;
mod memory;
mod names;
mod part;
mod part_id;
mod prefetch;
mod quota;
mod ranges;
mod read_cache;
mod read_cache_counts;
mod request;
mod server;
pub mod spec;
mod store;
pub mod usage;
mod values;
mod zone_table;
mod zones;

pub use adapters::{AdapterState, AdaptersState};
pub use array::{ArrayCounts, ArrayHealth, ArrayState};
#[doc(hidden)]
pub use bug_injection::InjectedBug;
pub use completion::Completion;
pub use content_event::{ContentEvent, UNIT_BYTES, UnitBytes, torn_value};
pub use fault::{AdapterFault, Fault};
pub use fault_state::FaultState;
pub use machine::Machine;
pub use medium::{Held, Medium};
pub use part_id::PartId;
pub use read_cache_counts::ReadCacheCounts;
pub use spec::System;
pub use store::{Keeps, Store};
pub use zone_table::{ZoneAction, ZoneState};
pub use zones::Zone;
