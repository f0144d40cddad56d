//! Issues a workload to an engine and records the completions.
//!
//! An operation passes through three parts: the source (a workload's stream, or a trace) provides it when it is due,
//! the engine executes it, and the recorder counts it. A worker is a plain thread with its own source, engine and
//! recorder. Workers share only a stop flag, an error count and, where requested, a sequential cursor or a map of
//! verified content.
//!
//! **Invariant:** the hot path does not allocate, lock, log or format, except when a worker sends the results of an
//! interval to the coordinator. This crate never opens a target; the crate `targets` does.

mod cell;
pub mod clock;
mod cpu;
mod early_end;
pub mod engine;
mod gather;
mod in_flight;
mod latency_breakdown;
mod limits;
mod log_load;
pub mod memory;
mod model;
pub mod parallel;
mod plan;
pub mod probe;
pub mod realtime;
mod recorder;
mod sequential_cursors;
mod spike_causes;
mod trace_recorder;
pub mod verify;
mod worker;
mod worker_threads;

pub use cell::{calibrate, drive_cell};
pub use engine::{EngineKind, EngineOptions, FileEngine, FileMedium, Medium};
pub use model::{
    Carried, Length, Modelled, drive_carried, drive_failing_model, drive_model,
    drive_model_after_pilot, why_not_warmed_up,
};
pub use plan::{
    CellPlan, DriveError, INTERVAL_NS_MAX, INTERVAL_NS_MIN, INTERVALS_MAX, Observer, Progress,
    StartTogether, TargetPlan, Unobserved, active_range, blocks,
};
pub use sequential_cursors::Walks;
pub use trace_recorder::{TraceEvent, TraceEvents};
