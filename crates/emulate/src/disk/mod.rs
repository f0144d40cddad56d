//! A rotating disk, advanced by its caller.
//!
//! | module | what it holds |
//! |---|---|
//! | `spec` | parameters of a disk ([`DiskSpec`]) |
//! | `drive` | the state machine that connects all parts, with `heads` and `shingled` |
//! | `platters` | sizes of tracks, number of cylinders |
//! | `layout`, `seek` | the place of each byte, and the seek time to it |
//! | `buffer` | the write buffer |
//! | `segments` | the read-ahead segments |
//! | `nand_cache` | the NAND read cache of a hybrid disk |
//! | `bands`, `media_cache` | bands and media cache of a shingled disk |
//! | `usage` | counters and phase times |
//!
//! **Interface.** [`Disk::submit`] hands over an operation. [`Disk::wake_at`] returns the time of the next internal
//! event. At that time the caller calls [`Disk::wake`], which processes the event and returns the completed operations.
//! The disk reads no clock.
//!
//! **What is modelled.** The angle of the platters follows from absolute time, in exact integers, so a missed sector
//! costs exactly the rest of a revolution. The controller, the link and the heads each serve one request at a time.
//! Whenever the heads become free, the next request is chosen from those that wait at that time.
//!
//! **Priorities.** Foreground requests (reads, and writes that must reach the medium before they are acknowledged)
//! precede the destaging of acknowledged writes, which precedes read-ahead. Foreground and destaging alternate while
//! the buffer is more than three quarters full, a write waits for space in it, or a flush waits.
//!
//! **What is not modelled.** Zero-latency access (reading a whole track from wherever the head lands), variation of
//! seek times, errors and retries, remapped sectors, map writes of a shingled disk, spin-down and power states, more
//! than one actuator. The disk stores no bytes: it tracks ranges, and the caller stores their content.

mod bands;
mod buffer;
mod drive;
mod journal;
mod layout;
mod media_cache;
mod nand_cache;
mod platters;
mod seek;
mod segments;
mod spec;
mod usage;

#[cfg(test)]
mod tests;

pub use drive::{Disk, PowerCut};
pub use journal::{Step, WriteRange};
pub(crate) use platters::{Excess, Platters};
pub use spec::{DiskSpec, Scheduler, Shingled};
pub use usage::{Phases, Usage};
