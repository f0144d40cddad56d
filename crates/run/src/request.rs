//! The request for a run, as data: all that decides what is measured, and how. It is stored with the run, so that
//! another process can execute it again or resume it. [`ResolvedRun`](crate::ResolvedRun) is what is executed.

use crate::files::Files;
use crate::processors::Processors;
use crate::shard::Shard;
use iodyno_drive::{EngineKind, EngineOptions};
use iodyno_exchange::trace::Selection;
use iodyno_measure::Threshold;
use iodyno_method::MethodSource;
use iodyno_notebook::RunHead;
use iodyno_target::TargetName;
use iodyno_workload::{CellSpec, DropCache, Fit, Spec, Timing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The key of the request in a stored run's plan.
pub(crate) const STORED_AS: &str = "request";

/// The key of the number of ranks in a stored run's plan; absent for one process.
pub(crate) const RANKS: &str = "ranks";

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The name of the work, such as `four-corners`.
    pub name: String,
    /// The work with what flags changed of the one that its name stands for, for people; None where they changed
    /// nothing: `random-read, sequential, fsync every 8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// The work.
    pub work: Work,
    /// How often a whole list of cells is run, 1 or more. Each time has streams of its own.
    pub repeats: u32,
    /// The thresholds for the figures, beside those of a method's own.
    pub thresholds: Vec<Threshold>,
    /// The targets, by the names that the results show.
    pub targets: Vec<TargetName>,
    /// The folder at which relative paths of targets begin.
    pub folder: PathBuf,
    /// The files of emulated devices and systems outside the catalog.
    pub files: Files,
    /// Seed of all streams.
    pub seed: u64,
    /// Engine; None chooses by the target.
    pub engine: Option<EngineKind>,
    /// Choices about the engine.
    pub options: EngineOptions,
    /// The processors for all threads of the run; None for all that this process may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<Processors>,
    /// Stamps by the system's clock rather than by the processor's.
    pub system_clock: bool,
    /// Length of the series' intervals, ns; None chooses by the length of the cell.
    pub interval_ns: Option<u64>,
    /// Failed operations after which the run stops.
    pub errors_max: u64,
    /// Never open for writing.
    pub read_only: bool,
    /// Names that confirm targets which hold data.
    pub destroy: Vec<String>,
    /// The part of the run's cells that is measured; None for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// What several processes need to know of their targets; nothing for a run of one process.
    #[serde(default, skip_serializing_if = "RanksRequest::is_default")]
    pub ranks: RanksRequest,
    /// Where the operations of its only cell are written as a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_trace: Option<PathBuf>,
}

/// The part of a request that concerns runs of several processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RanksRequest {
    /// The targets by host, where they are not the same on all; `*` stands for every other host. Empty where they are.
    pub targets_by_host: BTreeMap<String, Vec<TargetName>>,
    /// Refused unless all ranks have one and the same target.
    pub shared: bool,
    /// Ranks that share a target all use the whole of it, rather than a region each.
    pub overlap: bool,
}

impl RanksRequest {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl RunRequest {
    /// The request of a stored run; None where it is of a version that stored none, or can't be read.
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
    /// A method, which decides as it goes.
    Method {
        /// All of its inputs.
        source: Box<MethodSource>,
        /// On each target alone, one after the other, rather than on all at once.
        each: bool,
        /// Reuses the preconditioning of an earlier run, where it is proven to be intact.
        reuse: bool,
    },
    /// A trace, on all targets at once.
    Trace(Box<TraceRequest>),
}

/// A trace, and how it is issued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// The file, from the request's folder.
    pub path: PathBuf,
    /// The hash of the file, SHA-256 in hexadecimal digits; a file with another one is refused. None takes the file as
    /// it is, and its hash is filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The part of the file.
    pub selection: Selection,
    /// When operations are due.
    pub timing: Timing,
    /// Where they go.
    pub fit: Fit,
    /// Where in the target the trace begins, bytes.
    pub offset_bytes: u64,
    /// Workers of each target.
    pub threads: u32,
    /// Most operations of a worker in flight; None chooses by the timing and the largest operation.
    pub depth: Option<u32>,
    /// The content of writes, as a flag gives it.
    pub content: String,
}

/// A cell of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedCell {
    /// Name within the run.
    pub name: String,
    /// The workload's own name, where the cell has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The workload, after all overrides.
    pub spec: Spec,
    /// See [`CellSpec::fill_passes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_passes: Option<u8>,
    /// See [`CellSpec::engine`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// See [`CellSpec::drop_cache`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_cache: Option<DropCache>,
    /// See [`CellSpec::only_on`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_on: Option<usize>,
    /// Workloads at the same time, on the same targets unless each has one of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<ListedCell>,
}

impl ListedCell {
    /// A workload under its own name.
    pub fn new(name: impl Into<String>, spec: Spec) -> Self {
        let (workload, fill_passes, engine, drop_cache) = (None, None, None, None);
        let (only_on, beside) = (None, Vec::new());
        let name = name.into();
        Self { name, workload, spec, fill_passes, engine, drop_cache, only_on, beside }
    }

    /// As the driver takes it.
    pub(crate) fn cell(&self) -> CellSpec {
        let cell = CellSpec::new(self.name.clone(), self.spec.clone());
        let beside = self.beside.iter().map(Self::cell).collect();
        let workload = self.workload.clone().unwrap_or_else(|| self.name.clone());
        let (engine, drop_cache) = (self.engine.clone(), self.drop_cache);
        let (fill_passes, only_on) = (self.fill_passes, self.only_on);
        CellSpec { workload, fill_passes, engine, drop_cache, only_on, beside, ..cell }
    }
}
