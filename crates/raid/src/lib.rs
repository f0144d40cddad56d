//! RAID arithmetic: locations of an array's sectors, the member operations of a read or a write, and parity.
//! Independent of devices, time and I/O.
//!
//! | module | what it holds |
//! |---|---|
//! | [`level`] | levels, rotations of parity, and the rules that an array must meet |
//! | [`layout`] | conversion between array addresses and sectors of members |
//! | [`plan`] | the member reads and writes of a host read or write, on a complete or degraded array |
//! | [`parity`] | P and Q over bytes: compute, update, recover |
//! | [`gf`], [`simd`] | arithmetic in GF(2^8); the instructions that [`parity`] uses |
//!
//! **Terms**: a *strip* is a run of sectors on one member. A *stripe* is a set of strips that are protected together:
//! data strips and, with RAID 5 and 6, their parity P and Q. All addresses and sizes are in sectors of any size.
//! Members are numbered from 0.
//!
//! **Invariants:** no clock, no thread, no I/O, no randomness. Layouts are those of Linux md, so
//! that an array that `mdadm` wrote can be read back from its members.

pub mod gf;
pub mod layout;
pub mod level;
pub mod member_set;
pub mod parity;
pub mod plan;
pub mod simd;

pub use layout::{Layout, Place, Role, Stripe};
pub use level::{LayoutError, Level, MAX_MEMBERS, MAX_STRIP_SECTORS, Rotation, SmallWrite};
pub use member_set::MemberSet;
pub use plan::{Access, Lost, Method, Plan, Row};
pub use simd::Simd;
