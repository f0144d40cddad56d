//! Executes runs. A run resolves the names in a serialisable request, inspects the targets, states the cost, and checks
//! that the targets may be overwritten. It then opens the targets, writes initial content, and measures one cell after
//! the other. Each cell is stored in the notebook with its verdicts and the facts on which they are based. Emulated
//! targets need no inspection, confirmation or calibration, because they are simulated.
//!
//! [`explain`] simulates a cell on an emulated system to break down its latency; nothing is stored.
//!
//! **Invariant:** only this crate combines targets, engines and notebook.

mod all_targets;
mod cell_plan;
mod default_engine;
mod device_bytes;
mod emulated;
mod emulated_system;
mod execute;
pub mod explain;
mod files;
mod fill;
pub mod find_work;
mod foreign_activity;
mod long_run_state;
mod open_targets;
mod outcome;
mod over_ranks;
mod page_cache;
mod parallel_cells;
mod persist;
mod plan;
mod prepare;
mod processors;
mod refuse;
mod replayed_trace;
mod request;
mod resolved_run;
mod resume;
mod reuse;
mod run_cell;
mod run_record;
mod same_file;
mod schedule;
mod shard;
mod shards;
mod step_context;
mod trace_writer;
mod verified;
mod verified_content;
mod verify_only;
mod watch;

pub use device_bytes::storage_of;
pub use emulated::{Emulated, EmulatedVolume};
pub use emulated_system::{
    described, described_device, described_system, emulated, state_in_words, summary,
};
pub use execute::execute;
pub use files::Files;
pub use fill::{FillShape, fill};
pub use outcome::{NotKept, Outcome, RunError};
pub use plan::Plan;
pub use processors::Processors;
pub use replayed_trace::{read_trace, trace_ops_max};
pub use request::{ListedCell, RanksRequest, RunRequest, TraceRequest, Work};
pub use resolved_run::{MethodRun, Process, ResolvedRun, Resume, volumes};
pub use resume::resume;
pub use same_file::is_same_file;
pub use shard::Shard;
pub use shards::{Merged, ShardError, Shards};
pub use verified::written_key;
pub use verify_only::verify_only;
pub use watch::{OverRanks, Phase, Rates, Watch};
