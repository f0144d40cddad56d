//! Ranks: the processes, mostly on several hosts, that execute one run together. This crate has what they need of one
//! another: messages, clock offsets, an agreed instant of start, and notice when one of them is lost.
//!
//! A [`Transport`] moves messages and nothing else: MPI in `iodyno-mpi`, channels between threads in tests
//! ([`in_threads`]). All protocols are here, so that the same tests run with and without MPI. Each rank has two threads:
//! the one that may call the transport runs [`serve`], and the one that executes the run holds [`Ranks`]. So a rank that
//! measures calls no transport; its server thread sleeps, and wakes to say that it lives.
//!
//! **Invariant:** nothing here knows what a run is, and nothing blocks without a limit: a rank that is silent for longer
//! than the patience ends every wait with [`Lost`].

mod board;
mod clock;
mod lost;
mod ranks;
mod serve;
mod threads;

pub use clock::ClockOffset;
pub use lost::{Lost, Timing};
pub use ranks::{CommonStart, Host, Ranks};
pub use serve::{Server, Transport, serve};
pub use threads::{InThreads, in_threads};
