//! Ranks: the processes, usually on several hosts, that execute one run together. This crate provides messages between
//! them, clock offsets, an agreed start, and detection of lost ranks.
//!
//! A [`Transport`] only moves messages: by MPI in `iodyno-mpi`, by channels between threads in tests ([`in_threads`]).
//! All protocols are in this crate, so that the same tests run with and without MPI.
//!
//! Each rank has two threads. The server thread runs [`serve`] and alone may call the transport; the thread that
//! executes the run holds [`Ranks`]. During a measurement only the server thread communicates; it sleeps, and wakes for
//! heartbeats.
//!
//! **Invariant:** nothing here depends on the content of a run, and every wait is limited: it fails with [`Lost`] if a
//! rank is silent for longer than [`Timing::patience`].

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
