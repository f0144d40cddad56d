//! Values that the notebook stores and returns: a run's head, its outcome, the run as it was stored, and the
//! few figures of it that a list shows.
//!
//! Descriptions of targets, workloads and machines are JSON values made by other crates. The
//! notebook keeps them as they are; `facts.rs` reads what code needs of them.

use crate::Timestamp;
use iodyno_measure::{Cell, Level, Verdict};
use iodyno_units::OpKind;
use serde_json::Value;
use std::path::PathBuf;

/// The facts about a run when it begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunHead {
    /// The name as given, such as `four-corners`.
    pub name: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// Version of the iodyno that ran it.
    pub iodyno_version: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// The machine: kernel, processors, memory and so on.
    pub machine: Value,
    /// The targets, in the order in which they were named.
    pub targets: Vec<TargetRecord>,
    /// The workloads, in the order in which they ran.
    pub workloads: Vec<WorkloadRecord>,
    /// The plan printed before the start: time, bytes to write, share of the rated endurance.
    pub plan: Value,
}

/// One target of a run.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TargetRecord {
    /// Canonical name.
    pub name: String,
    /// What it is, for people: kind, size, model, file system, how it was opened. Code reads
    /// [`Self::description`].
    pub facts: Value,
    /// The device's own log (SMART, NVMe), temperature and link speed before the run.
    pub health_before: Option<Value>,
    /// The same after the run.
    pub health_after: Option<Value>,
}

/// One workload of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadRecord {
    /// Its name.
    pub name: String,
    /// Its whole specification, after all overrides.
    pub spec: Value,
}

/// How a run ended, as its writer reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran to its end.
    Finished,
    /// The user or another process stopped it (Ctrl-C, SIGTERM).
    Interrupted,
    /// It could not go on; the reason, in words.
    Failed(String),
}

/// The status of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its writer is alive and at work, or can't be inspected (in a container).
    Running,
    /// It ran to its end.
    Finished,
    /// The user or another process stopped it.
    Interrupted,
    /// Its writer is gone without reporting an end.
    Crashed,
    /// It could not go on; the reason, in words.
    Failed(String),
}

impl Status {
    /// The name used in the file, in tables and in JSON.
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
    /// Ten characters, unique in the notebook.
    pub id: String,
    /// When it began, to the millisecond.
    pub started: Timestamp,
    /// When it ended; None while it runs, and when it crashed.
    pub ended: Option<Timestamp>,
    /// Its status.
    pub status: Status,
    /// The facts when it began, and the targets' health after it.
    pub head: RunHead,
    /// Its cells, in the order of their index. A cell that was never finished holds the intervals that had been
    /// written, its `ended` reports that, and it is judged by that.
    pub cells: Vec<Cell>,
    /// The file that it was read from.
    pub notebook: PathBuf,
    /// It was read in from a report; no process wrote it into this notebook while it ran.
    pub is_imported: bool,
}

/// Notes of an earlier run's first cell.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierNotes {
    /// The machine: kernel, processors, memory and so on.
    pub machine: Value,
    /// Canonical name of the target.
    pub target: String,
    /// The notes; no graver verdict.
    pub notes: Vec<Verdict>,
}

/// A run as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Ten characters, unique in the notebook.
    pub id: String,
    /// When it began, to the millisecond.
    pub started: Timestamp,
    /// When it ended; None while it runs, and when it crashed.
    pub ended: Option<Timestamp>,
    /// Its status.
    pub status: Status,
    /// The name as given.
    pub name: String,
    /// It carried out a method; only the whole run shows the result.
    pub has_method: bool,
    /// Canonical names of its targets.
    pub targets: Vec<String>,
    /// Its cells, in the order of their index.
    pub cells: Vec<CellSummary>,
}

/// A cell as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSummary {
    /// Name within the run.
    pub name: String,
    /// Canonical name of its target; `all (N targets)` for the merged cell of several.
    pub target: String,
    /// The block size with the largest share, bytes.
    pub block_bytes: u32,
    /// Operations that IOPS count ([`iodyno_measure::IoKinds`]), a second of the measured window.
    pub iops: f64,
    /// The other kinds of operation, such as flushes.
    pub beside: Vec<KindRate>,
    /// Bytes read and written, a second of the measured window.
    pub bytes_per_s: f64,
    /// The gravest of its verdicts; None while it is not finished.
    pub level: Option<Level>,
}

/// A kind of operation of a cell, as a list shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KindRate {
    /// The kind.
    pub kind: OpKind,
    /// Operations a second of the measured window.
    pub per_s: f64,
    /// 99th percentile of the response time, ns; None where the samples do not support it.
    pub p99_ns: Option<u64>,
}
