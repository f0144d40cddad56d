//! A rotating disk, advanced by its caller.
//!
//! Each part has a file: the parameters of a disk ([`DiskSpec`], `spec`), the place of each byte and the seek time to
//! it (`layout`, `seek`), the write buffer (`buffer`), the read-ahead segments (`segments`), the NAND read cache of a
//! hybrid disk (`nand_cache`), the bands and the media cache of a shingled disk (`bands`, `media_cache`), counters
//! and phase times (`usage`), and the state machine that connects all parts (`drive`, with its children `heads` and
//! `shingled`).
//!
//! **Interface.** [`Disk::submit`] hands over an operation, [`Disk::wake_at`] returns the time of the
//! next internal event, and [`Disk::wake`] at that time processes it and returns the operations that
//! complete. Between these calls nothing changes. The disk reads no clock.
//!
//! **What is modelled.** The angle of the platters follows from absolute time, in exact integers, so a missed sector
//! costs exactly the rest of a revolution. The controller, the link and the heads each serve one request at a time.
//! Whenever the heads become free, the next request is chosen from those that wait at that time. An access runs to
//! its end, except that read-ahead stops when other work arrives.
//!
//! **Priorities.** Reads, and writes that must reach the medium before they are acknowledged
//! ("foreground"), precede the destaging of acknowledged writes, and destaging precedes read-ahead.
//! When the buffer is more than three quarters full, when a write waits for space in it, or when a
//! flush waits, foreground and destaging alternate, so that neither starves.
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
mod seek;
mod segments;
mod spec;
mod usage;

#[cfg(test)]
mod tests;

pub use drive::{Disk, PowerCut};
pub use journal::{Step, WriteRange};
pub use spec::{DiskSpec, Scheduler, Shingled};
pub use usage::{Phases, Usage};
