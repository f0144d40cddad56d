//! Values that the notebook stores and returns: a run's head and outcome, the stored run, and the figures that a list
//! of runs shows.
//!
//! Descriptions of targets, workloads and machines are JSON values made by other crates. The notebook stores them
//! unchanged; `facts.rs` extracts the values that code needs.

use crate::Timestamp;
use iodyno_measure::{Cell, Level, Verdict};
use iodyno_units::OpKind;
use serde_json::Value;
use std::path::PathBuf;

/// Facts about a run that are known when it begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunHead {
    /// Name of the workload or method as given, such as `four-corners`.
    pub name: String,
    /// Command line, split into words.
    pub command: Vec<String>,
    /// Version of the iodyno that made the run.
    pub iodyno_version: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// The machine: kernel, processors, memory and so on.
    pub machine: Value,
    /// Targets, in the order in which they were named.
    pub targets: Vec<TargetRecord>,
    /// Workloads, in the order in which they ran.
    pub workloads: Vec<WorkloadRecord>,
    /// The plan printed before the start: time, bytes to write, share of the rated endurance.
    pub plan: Value,
}

/// One target of a run.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TargetRecord {
    /// Name of the target, in canonical form.
    pub name: String,
    /// Description for people: kind, size, model, file system, how it was opened. Code reads [`Self::description`].
    pub facts: Value,
    /// The device's own log (SMART, NVMe), temperature and link speed before the run.
    pub health_before: Option<Value>,
    /// The device's own log, temperature and link speed after the run.
    pub health_after: Option<Value>,
}

/// One workload of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadRecord {
    /// Name of the workload.
    pub name: String,
    /// Complete specification, after all overrides.
    pub spec: Value,
}

/// How a run ended, as its writer reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The run completed.
    Finished,
    /// The user or another process stopped the run (Ctrl-C, SIGTERM).
    Interrupted,
    /// The run could not continue; holds the reason.
    Failed(String),
}

/// The status of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The writer is alive, or can't be inspected (in a container).
    Running,
    /// The run completed.
    Finished,
    /// The user or another process stopped it.
    Interrupted,
    /// The writing process ended without reporting an end of the run.
    Crashed,
    /// The run could not continue; holds the reason.
    Failed(String),
}

impl Status {
    /// Name in the file, in tables and in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::Crashed => "crashed",
            Self::Failed(_) => "failed",
        }
    }
}

/// A stored run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Id of the run: ten characters, unique in the notebook.
    pub id: String,
    /// Start of the run, to the millisecond.
    pub started: Timestamp,
    /// End of the run; None while it runs, and if it crashed.
    pub ended: Option<Timestamp>,
    /// State of the run, as far as a reader can tell.
    pub status: Status,
    /// What was known at the start of the run, and the targets' health after it.
    pub head: RunHead,
    /// Cells, in the order of their index. An unfinished cell holds the intervals written so far, its `ended` states
    /// that, and its verdicts take it into account.
    pub cells: Vec<Cell>,
    /// File that the run was read from.
    pub notebook: PathBuf,
    /// Whether the run was imported from a report, rather than written into this notebook by its process.
    pub is_imported: bool,
}

/// Verdicts of level note on an earlier run's first cell.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierNotes {
    /// The machine: kernel, processors, memory and so on.
    pub machine: Value,
    /// Name of the target, in canonical form.
    pub target: String,
    /// Verdicts of level note; more severe ones are left out.
    pub notes: Vec<Verdict>,
}

/// A run as shown in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Id of the run: ten characters, unique in the notebook.
    pub id: String,
    /// Start of the run, to the millisecond.
    pub started: Timestamp,
    /// End of the run; None while it runs, and if it crashed.
    pub ended: Option<Timestamp>,
    /// State of the run, as far as a reader can tell.
    pub status: Status,
    /// Name of the workload or method as given.
    pub name: String,
    /// Whether the run carried out a method, so that only the run as a whole has a result.
    pub has_method: bool,
    /// Names of the run's targets, in canonical form.
    pub targets: Vec<String>,
    /// Cells, in the order of their index.
    pub cells: Vec<CellSummary>,
}

/// A cell as shown in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSummary {
    /// Name of the cell within the run.
    pub name: String,
    /// Canonical name of the target; `all (N targets)` for the merged cell of several.
    pub target: String,
    /// Block size with the largest share, bytes.
    pub block_bytes: u32,
    /// I/O operations per second of the measured window; [`iodyno_measure::IoKinds`] defines the kinds that count.
    pub iops: f64,
    /// Rates of the kinds of operation that `iops` leaves out, such as flushes.
    pub beside: Vec<KindRate>,
    /// Bytes read and written, per second of the measured window.
    pub bytes_per_s: f64,
    /// Level of the most severe verdict; None while the cell is not finished.
    pub level: Option<Level>,
}

/// A cell's rate of one kind of operation, as shown in a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KindRate {
    /// Read, write, flush, trim or write zeroes.
    pub kind: OpKind,
    /// Operations per second of the measured window.
    pub per_s: f64,
    /// 99th percentile of the response time, ns; None if there are too few samples for it.
    pub p99_ns: Option<u64>,
}
