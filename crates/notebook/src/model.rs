//! Data that the notebook stores and returns: facts known when a run begins, its outcome, the stored run, and the
//! summary that a list of runs shows.
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
    /// Command line of the run, split into words.
    pub command: Vec<String>,
    pub iodyno_version: String,
    /// Seed of all random number streams of the run.
    pub seed: u64,
    /// Facts about the machine as JSON, such as kernel, processors and memory.
    pub machine: Value,
    /// Targets of the run, in command line order.
    pub targets: Vec<TargetRecord>,
    /// Workloads of the run, in the order of execution.
    pub workloads: Vec<WorkloadRecord>,
    /// Plan of the run, as printed before the start: duration, bytes to write, fraction of the rated endurance.
    pub plan: Value,
}

/// A target of a run, with its facts and its health.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TargetRecord {
    /// Name of the target, in canonical form.
    pub name: String,
    /// Facts about the target for people: type, size, model, file system, mode of opening. Code uses
    /// [`Self::description`].
    pub facts: Value,
    /// Health before the run: the device's own log (SMART, NVMe), temperature and link speed. `None` if unknown.
    pub health_before: Option<Value>,
    /// Health after the run: the device's own log (SMART, NVMe), temperature and link speed. `None` if unknown.
    pub health_after: Option<Value>,
}

/// Name and specification of a workload, as stored with a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadRecord {
    pub name: String,
    /// Complete specification of the workload, after all overrides, as JSON.
    pub spec: Value,
}

/// Outcome of a run, as reported by the process that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The run ended by itself, neither interrupted nor failed.
    Finished,
    /// The user or another process stopped the run (Ctrl-C, SIGTERM).
    Interrupted,
    /// The run could not continue, for the given reason.
    Failed(String),
}

/// Status of a run, as determined by a reader of the notebook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The run has not ended. Its process is alive, or can't be inspected, for instance in a container.
    Running,
    /// The run ended by itself, neither interrupted nor failed.
    Finished,
    /// The user or another process stopped the run.
    Interrupted,
    /// The run's process is gone without having reported the end of the run.
    Crashed,
    /// The run could not continue, for the given reason.
    Failed(String),
}

impl Status {
    /// Name of the status in the notebook, in tables and in JSON.
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

/// A run loaded from a notebook.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Id of the run: ten characters, unique in the notebook.
    pub id: String,
    /// Start time of the run, with millisecond resolution.
    pub started: Timestamp,
    /// End time of the run; `None` if it is still running or has crashed.
    pub ended: Option<Timestamp>,
    pub status: Status,
    /// Facts known at the start of the run, and the targets' health at its end.
    pub head: RunHead,
    /// Cells (measurements) of the run, in order. An unfinished cell contains the intervals written so far; its field
    /// `ended` and its verdicts say that it is unfinished.
    pub cells: Vec<Cell>,
    /// Path of the notebook that the run was loaded from.
    pub notebook: PathBuf,
    /// Whether the run was imported from a report, not measured by a process that wrote to this notebook.
    pub is_imported: bool,
    /// Annotation that a person wrote about the run; `None` if there is none.
    pub annotation: Option<String>,
}

/// Verdicts of level note on the first measurement of an earlier run.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierNotes {
    /// Facts about the earlier run's machine, as JSON.
    pub machine: Value,
    /// Name of the target, in canonical form.
    pub target: String,
    /// Verdicts of level note on the measurement; more severe verdicts are omitted.
    pub notes: Vec<Verdict>,
}

/// Entry of a list of runs, without time series.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Id of the run: ten characters, unique in the notebook.
    pub id: String,
    /// Start time of the run, with millisecond resolution.
    pub started: Timestamp,
    /// End time of the run; `None` if it is still running or has crashed.
    pub ended: Option<Timestamp>,
    pub status: Status,
    /// Name of the workload or method as the user gave it.
    pub name: String,
    /// Whether the run followed a method. If so, the result to display is that of the whole run, not that of single
    /// measurements.
    pub has_method: bool,
    /// Names of the run's targets, in canonical form.
    pub targets: Vec<String>,
    /// Identities of the targets ([`TargetRecord::identity`]), in the order of `targets`.
    pub identities: Vec<String>,
    /// Names of the run's workloads, in order. Unlike [`Self::name`] they do not depend on `run --name`.
    pub workloads: Vec<String>,
    /// Summaries of the run's cells (measurements), in order.
    pub cells: Vec<CellSummary>,
}

/// Cell (measurement) in a list of runs, without time series.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSummary {
    /// Name of the measurement within the run.
    pub name: String,
    /// Canonical name of the target; `all (N targets)` if the cell merges the measurements of several.
    pub target: String,
    /// Most frequent block size, bytes.
    pub block_bytes: u32,
    /// I/O operations per second in the measured window. [`iodyno_measure::IoKinds`] defines which kinds of operation
    /// count.
    pub iops: f64,
    /// Rates of the kinds of operation that are not counted in `iops`, such as flushes.
    pub beside: Vec<KindRate>,
    /// Throughput of reads and writes together in the measured window, bytes/s.
    pub bytes_per_s: f64,
    /// Result of a message log; `None` for other workloads and while the measurement is not finished.
    pub messages: Option<MessageRate>,
    /// Level of the most severe verdict; `None` while the measurement is not finished.
    pub level: Option<Level>,
}

/// Rate and latency of one kind of operation in a measurement, for lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KindRate {
    pub kind: OpKind,
    /// Operations of this kind per second in the measured window.
    pub per_s: f64,
    /// 99th percentile of the response time, ns; `None` with too few samples.
    pub p99_ns: Option<u64>,
}

/// Rate and latency of the messages of a message log in a measurement, for lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageRate {
    /// Messages persisted per second in the measured window.
    pub per_s: f64,
    /// 99th percentile of the time to persist a message, ns; `None` with too few samples.
    pub persist_p99_ns: Option<u64>,
}

/// Progress of a run, without results.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub id: String,
    /// Name of the workload or method as the user gave it.
    pub name: String,
    pub status: Status,
    /// Cells (measurements) that have begun, in order.
    pub cells: Vec<CellProgress>,
}

/// Progress of a cell (measurement), without results.
#[derive(Clone, Debug, PartialEq)]
pub struct CellProgress {
    /// Index of the measurement in the run.
    pub index: usize,
    /// Name of the measurement within the run.
    pub name: String,
    /// Canonical name of the target; `all (N targets)` if the cell merges the measurements of several.
    pub target: String,
    /// Whether the measurement has ended and was judged.
    pub is_finished: bool,
    /// Level of the most severe verdict; `None` while the measurement is not finished.
    pub level: Option<Level>,
    /// Interval length of the time series, ns.
    pub interval_ns: u64,
    /// Number of intervals so far. The last ones may still grow, since workers deliver their results separately.
    pub intervals: usize,
}
