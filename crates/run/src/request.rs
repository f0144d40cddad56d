//! Serialisable request for a run, with everything that determines the measurement. It is stored with the run, so that
//! another process can repeat or resume the run. [`ResolvedRun`](crate::ResolvedRun) is its executable form.

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

/// Key of the request in the plan stored with a run.
pub(crate) const STORED_AS: &str = "request";

/// Key of the number of ranks in the plan stored with a run; absent for a single process.
pub(crate) const RANKS: &str = "ranks";

/// Everything that a user requests of a run: work, targets and settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Name of the work, such as `four-corners`.
    pub name: String,
    /// Name of the work including changes by flags, for display: `random-read, sequential, fsync every 8`. None
    /// if nothing was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// The work: a list of cells, a method or a trace.
    pub work: Work,
    /// Number of times that the whole list of cells is run, 1 or more. Each repeat has its own random streams.
    pub repeats: u32,
    /// Thresholds for the results, in addition to the thresholds of a method.
    pub thresholds: Vec<Threshold>,
    /// Targets of the run, with the names that the results show.
    pub targets: Vec<TargetName>,
    /// Folder to which relative target paths refer.
    pub folder: PathBuf,
    /// Texts of the device and system files that the request names by path rather than from the catalog.
    pub files: Files,
    /// Seed of all random streams of the run.
    pub seed: u64,
    /// I/O engine; None: chosen per target.
    pub engine: Option<EngineKind>,
    /// Options of the engine, such as polling for completions.
    pub options: EngineOptions,
    /// Processors for the run's threads; None: all that the process may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<Processors>,
    /// Whether timestamps come from the operating system's clock rather than the processor's counter.
    pub system_clock: bool,
    /// Length of the recording intervals, ns; None: chosen by the length of the cell.
    pub interval_ns: Option<u64>,
    /// Number of failed operations that the run tolerates before it stops.
    pub errors_max: u64,
    /// Whether all targets are opened only for reading. A workload that writes is then refused.
    pub read_only: bool,
    /// Names of targets that may be overwritten although they contain data.
    pub destroy: Vec<String>,
    /// Shard of the run to measure; None: all cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Settings for a run of several processes (ranks); default for a single process.
    #[serde(default, skip_serializing_if = "RanksRequest::is_default")]
    pub ranks: RanksRequest,
    /// File in which to record the operations of the run's only cell as a trace; None: no recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_trace: Option<PathBuf>,
}

/// Settings for a run of several processes (ranks).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RanksRequest {
    /// Targets per host name if hosts have different targets; `*` matches all other hosts. Empty if all hosts
    /// have the same targets.
    pub targets_by_host: BTreeMap<String, Vec<TargetName>>,
    /// Whether the run requires all ranks to share the same target. If they don't, the run is refused.
    pub shared: bool,
    /// Whether each of several ranks that share a target uses the whole target rather than a region of its own.
    pub overlap: bool,
}

impl RanksRequest {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl RunRequest {
    /// Reads the request of a stored run; None if the run has none, or if it is unreadable.
    pub fn stored_in(head: &RunHead) -> Option<Self> {
        serde_json::from_value(head.plan.get(STORED_AS)?.clone()).ok()
    }
}

/// The measurements of a run, as a list of cells, a method or a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A list of cells (measurements), which are run one after the other.
    Cells(Vec<ListedCell>),
    /// A method, which chooses each step by the results of earlier steps.
    Method {
        /// All inputs of the method: its file, the workload files that it names, and the user's choices.
        source: Box<MethodSource>,
        /// Whether to run the method on one target after the other rather than on all targets together.
        each: bool,
        /// Whether to skip preconditioning if the target has verifiably not changed since an earlier run
        /// preconditioned it.
        reuse: bool,
    },
    /// A trace to replay on all targets simultaneously.
    Trace(Box<TraceRequest>),
}

/// A trace to replay, and the parameters of the replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// Trace file, relative to the request's folder.
    pub path: PathBuf,
    /// Expected SHA-256 of the file, in hexadecimal; a file with another hash is refused. None accepts any file,
    /// and is then replaced by the file's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The part of the file to replay.
    pub selection: Selection,
    /// Rule for when to issue operations: by the trace's times, by its think times, or as fast as possible.
    pub timing: Timing,
    /// Mapping of the trace's offsets to the target.
    pub fit: Fit,
    /// Offset in the target at which the replayed range begins, bytes.
    pub offset_bytes: u64,
    /// Number of workers per target.
    pub threads: u32,
    /// Maximum number of outstanding operations per worker; None: chosen by timing and operation size.
    pub depth: Option<u32>,
    /// Content of writes, as given to `--content`.
    pub content: String,
}

/// A cell (measurement) that the user asked for by its workload, in contrast to the cells of a method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedCell {
    pub name: String,
    /// Name of the workload if it differs from the cell's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Workload specification, after all overrides.
    pub spec: Spec,
    /// Number of passes over the active range if the cell fills or verifies the range; None for other cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_passes: Option<u8>,
    /// Name of the engine, if the workload specifies one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Pages of the active range to drop from the page cache before the cell; None: no pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_cache: Option<DropCache>,
    /// Index of the cell's only target; None: the cell runs on all targets of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_on: Option<usize>,
    /// Workloads that run simultaneously with this one, on the same targets unless they set `only_on`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<ListedCell>,
}

impl ListedCell {
    /// Creates a cell that is named after its workload.
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
