//! A rotating disk as a part of a machine that is advanced from outside.
//!
//! The parts, one file each: what a disk is made of ([`DiskSpec`], `spec`), where each byte lies and
//! how long the arm takes to get there (`layout`, `seek`), the write buffer (`buffer`), the read-ahead
//! segments (`segments`), the NAND read cache of a hybrid disk (`flash`), where time went (`usage`),
//! and the state machine that binds them (`drive`, `medium`).
//!
//! **How it is driven.** [`Disk::submit`] hands over an operation, [`Disk::wake_at`] says when
//! something happens inside next, [`Disk::wake`] at that instant lets it happen and gives the
//! operations that complete. Between these calls nothing changes. The disk reads no clock.
//!
//! **What is modelled.** The angle of the platters follows from absolute time, in exact integers, so
//! a missed sector costs exactly the rest of a revolution. A command passes the controller (a serial
//! server), its data the link (another), and the heads are the third. Whenever the heads fall free
//! the next request is chosen then, from what waits then; an access that has begun runs to its end,
//! but read-ahead stops when something better is to be done.
//!
//! **Who goes first.** Reads, and writes that must reach the medium before they are acknowledged
//! ("foreground"), go before the destaging of acknowledged writes, and destaging goes before
//! read-ahead. When the buffer is more than three quarters full, when a write waits for room in it, or
//! when a flush waits, foreground and destaging take turns, so that neither starves.
//!
//! **What is not.** Zero-latency access (reading a whole track from wherever the head lands), variation of
//! seek times, errors and retries, remapped sectors, shingled tracks, spin-down and power states,
//! more than one actuator. Bytes are not kept here either: a disk knows ranges, its owner knows
//! their content.

mod buffer;
mod drive;
mod journal;
mod layout;
mod nand_cache;
mod seek;
mod segments;
mod spec;
mod usage;

#[cfg(test)]
mod tests;

pub use drive::{Disk, PowerCut};
pub use journal::{Step, WriteRange};
pub use spec::{DiskSpec, Scheduler};
pub use usage::{Phases, Usage};
