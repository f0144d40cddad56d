//! Workloads: a specification that can't be invalid, and the stream of operations, arrivals and content that follows
//! from it and a seed.
//!
//! - A workload file becomes a [`Spec`], or a [`Group`] of names.
//! - A [`CellSpec`] combines a [`Spec`] with a seed and the other properties of a cell.
//! - From a [`Spec`], a seed and the [`Geometry`] of a target, each worker gets a [`Stream`] of operations, a
//!   [`WorkloadSource`], which provides each operation at its time, and a [`Filler`] for the content of writes.
//! - [`Replay`] issues the operations of a [`trace::Trace`] instead, through a [`TraceSource`].
//! - A worker accesses its operations only through the trait [`Source`].
//!
//! **Invariants:** the crate reads no clock, does no I/O, and starts no threads. A seed gives the same streams on every
//! machine, target and engine: logarithms and powers come from `libm` in pure Rust, random numbers from the named
//! streams of `units`. A worker's stream depends on the worker's index among all workers of the run, but not on the
//! number of workers in this process. The path to the next operation never allocates, locks, logs or formats.

#![forbid(unsafe_code)]

mod arrivals;
mod canonical;
mod cell;
mod changes;
pub mod content;
mod draft;
mod faults;
mod file_set;
mod flags;
mod from_file;
mod group;
mod keys;
mod log_load;
mod log_rules;
mod overrides;
mod pacing;
mod range;
mod remarks;
mod replay;
mod rules;
mod scale_down;
mod source;
mod spec;
mod stream;
pub mod trace;
mod worker_index;

pub use arrivals::Arrivals;
pub use cell::{CellSpec, DropCache, EmulationOptions, Settle, TargetPart};
pub use content::Filler;
pub use draft::Draft;
pub use file_set::FileSet;
pub use flags::OfferedRate;
pub use group::{Group, Member, Workload};
pub use keys::KEYS;
pub use log_load::{LogDurability, LogLoad, WhenFull};
pub use pacing::Flow;
pub use range::{size_text, time_text};
pub use replay::{Fit, Misfit, Placement, Replay, ReplayShape, Timing, TraceSource};
pub use source::{Issue, Next, Outcome, Source, SourceEnd, WorkloadSource};
pub use spec::{
    ActiveRange, Address, ArrivalKind, Batches, Block, Content, Edge, FlushBursts, Limits,
    MAX_DEPTH, MAX_ITEMS, MAX_THREADS, MAX_TIME_NS, MixOrder, NewFile, Pattern, Percent, Process,
    Spec, Spot, Steady, SteadyFigure,
};
pub use stream::Stream;
pub use stream::geometry::{Geometry, GeometryError};
pub use stream::shared::Shared;
pub use worker_index::WorkerIndex;
