//! Execution of runs: inspects the targets, states the cost first, guards and opens them,
//! lays files out, drives one cell after the other, gathers the evidence around each, judges it,
//! and stores it in the notebook as the run proceeds. Emulated targets are neither inspected nor guarded,
//! and nothing is calibrated for them: their time is not this machine's.
//!
//! [`explain`] runs a cell on an emulated system to show where its time goes; that is not kept.
//!
//! **Invariant:** the only crate that uses targets, engines and notebook together.

mod all_targets;
mod cell_plan;
mod device_bytes;
mod emulated;
mod execute;
pub mod explain;
mod fill;
mod foreign_activity;
mod open_targets;
mod parallel_cells;
mod persist;
mod plan;
mod prepare;
mod refuse;
mod request;
mod reuse;
mod run_cell;
mod run_record;
mod schedule;
mod step_context;
mod verified;
mod verified_content;
mod verify_only;
mod watch;

pub use emulated::{Emulated, EmulatedVolume};
pub use execute::execute;
pub use fill::{FillShape, fill};
pub use plan::Plan;
pub use request::{MethodRequest, NotKept, Outcome, Request, Resume, RunError};
pub use schedule::whole_steps;
pub use verified::written_key;
pub use verify_only::verify_only;
pub use watch::{Phase, Watch};
