//! Emulated storage systems: hosts, links, flash devices, disks and RAM disks as one machine that
//! is advanced from outside.
//!
//! **Invariants:** reads no clock, spawns no thread, does no I/O. Same seed, same events, on every
//! machine: logarithms and powers come from `libm` in pure Rust, random numbers from the named
//! streams of `units`. Nothing is decided before its event.

#![allow(
    clippy::inline_always,
    reason = "an event takes some 30 ns: the compiler's own choice of calls on its path costs a seventh"
)]

mod ailing;
mod calendar;
mod change;
mod core;
pub mod describe;
pub mod disk;
pub mod endurance;
mod event;
mod fault;
pub mod flash;
pub mod ftl;
pub mod machine;
mod memory;
mod ranges;
mod request;
mod rotating;
mod sabotage;
mod server;
pub mod spec;
pub mod usage;

pub use ailing::Ails;
pub use change::Change;
pub use fault::Fault;
pub use machine::{Completion, Failure, Machine};
#[doc(hidden)]
pub use sabotage::Sabotage;
pub use spec::System;
