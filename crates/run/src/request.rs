//! The request for a run, as data: everything that decides what is measured, and how. It is stored with the run, so
//! that another process can repeat or resume it. [`ResolvedRun`](crate::ResolvedRun) is its executable form.

use crate::files::Files;
use crate::processors::Processors;
use crate::shard::Shard;
use iodyno_drive::{EngineKind, EngineOptions};
use iodyno_exchange::trace::Selection;
use iodyno_measure::Threshold;
use iodyno_method::MethodSource;
use iodyno_notebook::RunHead;
use iodyno_targets::TargetName;
use iodyno_workload::{CellSpec, DropCache, Fit, Spec, Timing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Key of the request in a stored run's plan.
pub(crate) const STORED_AS: &str = "request";

/// Key of the number of ranks in a stored run's plan; absent for one process.
pub(crate) const RANKS: &str = "ranks";

/// A request for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The name of the work, such as `four-corners`.
    pub name: String,
    /// Name of the work with the changes that flags made, for people, such as `random-read, sequential, fsync every
    /// 8`. None without changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// The work: cells, a method or a trace.
    pub work: Work,
    /// Number of times that the whole list of cells is run, 1 or more. Each repeat has its own random streams.
    pub repeats: u32,
    /// Thresholds for the figures, in addition to those of a method.
    pub thresholds: Vec<Threshold>,
    /// The targets, named as in the results.
    pub targets: Vec<TargetName>,
    /// The folder to which relative paths of targets refer.
    pub folder: PathBuf,
    /// The files of emulated devices and systems outside the catalog.
    pub files: Files,
    /// Seed of all random streams.
    pub seed: u64,
    /// The engine; None chooses by the target.
    pub engine: Option<EngineKind>,
    /// Options of the engine, such as polling for completions.
    pub options: EngineOptions,
    /// The processors for all threads of the run; None: all that this process may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<Processors>,
    /// Whether timestamps come from the system's clock rather than the processor's.
    pub system_clock: bool,
    /// Length of the series' intervals, ns; None chooses by the length of the cell.
    pub interval_ns: Option<u64>,
    /// Number of failed operations above which the run stops.
    pub errors_max: u64,
    /// Whether targets are never opened for writing.
    pub read_only: bool,
    /// Names of targets that may be overwritten although they hold data.
    pub destroy: Vec<String>,
    /// The shard of the run's cells to measure; None for all cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Settings of a run of several processes; empty for one process.
    #[serde(default, skip_serializing_if = "RanksRequest::is_default")]
    pub ranks: RanksRequest,
    /// File to which the operations of the run's only cell are written as a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_trace: Option<PathBuf>,
}

/// The part of a request that concerns runs of several processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RanksRequest {
    /// Targets by host, where these differ; `*` stands for every other host. Empty where all hosts have the same.
    pub targets_by_host: BTreeMap<String, Vec<TargetName>>,
    /// Whether to refuse the run unless all ranks have the same target.
    pub shared: bool,
    /// Whether ranks that share a target all use the whole of it, rather than a region each.
    pub overlap: bool,
}

impl RanksRequest {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl RunRequest {
    /// The request of a stored run; None if the run's version stored none, or if it can't be read.
    pub fn stored_in(head: &RunHead) -> Option<Self> {
        serde_json::from_value(head.plan.get(STORED_AS)?.clone()).ok()
    }
}

/// The work of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A list of cells, in order.
    Cells(Vec<ListedCell>),
    /// A method, which chooses each step by the results of earlier ones.
    Method {
        /// All inputs of the method.
        source: Box<MethodSource>,
        /// Whether the method runs on each target alone, one after the other, rather than on all at once.
        each: bool,
        /// Whether to reuse the preconditioning of an earlier run, if it is proven to be intact.
        reuse: bool,
    },
    /// A trace, on all targets at once.
    Trace(Box<TraceRequest>),
}

/// A trace, and how it is issued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// The file, relative to the request's folder.
    pub path: PathBuf,
    /// Expected SHA-256 of the file, in hexadecimal; a file with another hash is refused. None accepts any file, and
    /// the hash is filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The part of the file to replay.
    pub selection: Selection,
    /// When operations are due.
    pub timing: Timing,
    /// How the trace's addresses map to the target.
    pub fit: Fit,
    /// Offset in the target at which the trace begins, bytes.
    pub offset_bytes: u64,
    /// Workers per target.
    pub threads: u32,
    /// Maximum number of operations in flight per worker; None chooses by the timing and the largest operation.
    pub depth: Option<u32>,
    /// Content of writes, as given to `--content`.
    pub content: String,
}

/// A cell in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedCell {
    /// Name of the cell within the run.
    pub name: String,
    /// The workload's own name, if the cell has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The workload, after all overrides.
    pub spec: Spec,
    /// Number of passes of a fill or a verification pass; None for other cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_passes: Option<u8>,
    /// Name of the engine, if the workload specifies one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Pages of the active range to drop from the page cache before the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_cache: Option<DropCache>,
    /// Index of the only target on which the cell runs; None for all targets of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_on: Option<usize>,
    /// Workloads at the same time, on the same targets unless each has one of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<ListedCell>,
}

impl ListedCell {
    /// A cell named after its workload.
    pub fn new(name: impl Into<String>, spec: Spec) -> Self {
        let (workload, fill_passes, engine, drop_cache) = (None, None, None, None);
        let (only_on, beside) = (None, Vec::new());
        let name = name.into();
        Self { name, workload, spec, fill_passes, engine, drop_cache, only_on, beside }
    }

    /// Converts the cell to the form that the driver executes.
    pub(crate) fn cell(&self) -> CellSpec {
        let cell = CellSpec::new(self.name.clone(), self.spec.clone());
        let beside = self.beside.iter().map(Self::cell).collect();
        let workload = self.workload.clone().unwrap_or_else(|| self.name.clone());
        let (engine, drop_cache) = (self.engine.clone(), self.drop_cache);
        let (fill_passes, only_on) = (self.fill_passes, self.only_on);
        CellSpec { workload, fill_passes, engine, drop_cache, only_on, beside, ..cell }
    }
}
