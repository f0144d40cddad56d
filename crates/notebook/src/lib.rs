//! The notebook: stores all runs in one SQLite file.
//!
//! A run is written while it happens. [`Notebook::begin`] creates its row, and [`RunWriter`] adds each interval in a
//! separate transaction, so committed intervals survive a kill of the process. No repair is needed: a run whose writer
//! is gone is a crashed run, and [`Notebook::load`] assembles its cells (measurements) from the intervals.
//!
//! Fields that users filter on are in columns, histograms are blobs in the compact form of `measure`, and the rest is
//! JSON. `docs/formats/notebook.md` specifies the format. The file carries its version, and each later version opens
//! the files of all earlier ones.
//!
//! A notebook may come from a stranger. Its views, triggers and generated columns are never evaluated (`untrusted.rs`),
//! every number that is read has a range (`value_ranges.rs`), and reading has limits in steps and in memory.
//!
//! **Invariant:** this crate stores; it neither measures nor prints. Descriptions of workloads, targets and machines
//! are opaque JSON, except for the values that `facts.rs` extracts.

#![forbid(unsafe_code)]

mod annotations;
mod codec;
mod content_map;
mod earlier;
mod error;
mod facts;
mod fault;
mod id;
mod load;
mod model;
mod notebook;
mod path;
pub mod portable;
mod process;
mod progress;
mod schema;
mod summaries;
mod tables;
mod target_identity;
mod untrusted;
mod value_ranges;
mod writer;

/// Maximum number of cells (measurements) in a planned run. A run with this many can be read back within the memory
/// limit, if the latencies of its reads and writes span at most a factor of 16,384. Larger runs are read if they fit.
pub const CELLS_PLANNED_MAX: usize = 10_000;

pub use annotations::{ANNOTATION_CHARS_MAX, check_annotation};
pub use error::Error;
pub use facts::{
    CHANGED, DeviceDescription, EmulatedDescription, ExportDescription, HOST_NAME,
    MachineDescription, TargetDescription, TargetKind, WRITES_SEEN,
};
pub use id::{check_name, id_of_digest};
pub use jiff::Timestamp;
pub use model::{
    CellProgress, CellSummary, EarlierNotes, KindRate, MessageRate, Outcome, Progress, Run,
    RunHead, RunSummary, Status, TargetRecord, WorkloadRecord,
};
pub use notebook::Notebook;
pub use path::default_path;
pub use tables::VERSION;
pub use writer::RunWriter;
