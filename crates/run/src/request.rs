//! The request for a run, its outcome, and its errors.

use crate::Emulated;
use iodyno_drive::{DriveError, EngineKind, EngineOptions, clock::Clock};
use iodyno_measure::{Cell, Threshold};
use iodyno_method::Method;
use iodyno_notebook as notebook;
use iodyno_target::{TargetError, TargetName};
use iodyno_workload::CellSpec;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A method to execute, rather than a list of cells.
#[derive(Clone, Debug)]
pub struct MethodRequest {
    /// The method.
    pub method: Method,
    /// On each target alone, one after the other, rather than on all at once.
    pub each: bool,
    /// Reuses the preconditioning of an earlier run, where it is proven to be intact.
    pub reuse: bool,
    /// The base folder of paths, for the record.
    pub folder: String,
    /// The run to resume; None to begin one.
    pub resume: Option<Resume>,
}

/// A run that was cut short, to be resumed.
#[derive(Clone, Debug)]
pub struct Resume {
    /// Its id.
    pub id: String,
    /// Its finished cells, in order.
    pub cells: Vec<Cell>,
    /// The sizes of its targets, bytes; 0 where unknown.
    pub capacities_bytes: Vec<u64>,
}

/// Everything about a run.
#[derive(Debug)]
pub struct Request {
    /// The name of the work, such as `four-corners`.
    pub name: String,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Version of the program, for the record.
    pub version: String,
    /// The cells, in order; for a method all that it may issue.
    pub cells: Vec<CellSpec>,
    /// The method, if it is one.
    pub method: Option<MethodRequest>,
    /// How often the whole list of cells is run, 1 or more. Each time has streams of its own.
    pub repeats: u32,
    /// The thresholds for the figures; kept with the run.
    pub thresholds: Vec<Threshold>,
    /// Targets; unused where they are emulated.
    pub targets: Vec<TargetName>,
    /// The system that all targets are volumes of, where they are emulated.
    pub emulated: Option<Emulated>,
    /// Seed of all streams.
    pub seed: u64,
    /// Engine; None chooses by the target.
    pub engine: Option<EngineKind>,
    /// Choices about the engine.
    pub options: EngineOptions,
    /// The stamps' clock.
    pub clock: Clock,
    /// Length of the series' intervals, ns; None chooses by the length of the cell.
    pub interval_ns: Option<u64>,
    /// Failed operations after which the run stops.
    pub errors_max: u64,
    /// Never open for writing.
    pub read_only: bool,
    /// Names given to `--destroy`.
    pub destroy: Vec<String>,
    /// Where to keep the run; None keeps nothing.
    pub notebook: Option<PathBuf>,
    /// Set by a signal.
    pub stop: Arc<AtomicBool>,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The run, as it was stored (or would have been).
    pub run: notebook::Run,
    /// Stopped by a signal.
    pub interrupted: bool,
    /// Stopped by too many failed operations, by an engine that could not continue, or by a target that
    /// stopped answering.
    pub too_many_errors: bool,
    /// The notebook does not store it, although this was requested.
    pub not_kept: Option<NotKept>,
}

/// A run that its notebook could not store.
#[derive(Debug)]
pub struct NotKept {
    /// The notebook's error.
    pub why: notebook::Error,
    /// Another notebook, made for this run alone, which stores it; or why there is none.
    pub instead: Result<PathBuf, String>,
}

impl Outcome {
    /// Whether verification read content that differs from the written one.
    pub fn wrong_content(&self) -> bool {
        let mut verified = self.run.cells.iter().filter_map(|c| c.evidence.verification.as_ref());
        verified.any(|v| v.wrong_reads() > 0)
    }

    /// Whether operations failed, however many the request allows.
    pub fn has_failed_operations(&self) -> bool {
        self.run.cells.iter().any(|cell| cell.total().errors().total() > 0)
    }
}

/// Why a run failed. Cells that were finished before are in the notebook.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// About a target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// About an engine.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// About the notebook.
    #[error(transparent)]
    Notebook(#[from] notebook::Error),
    /// The request is an impossible combination.
    #[error("{0}")]
    Impossible(String),
    /// The system refused a resource that always exists.
    #[error("{what}: {source}")]
    System {
        /// The attempted action.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Stopped by a signal before the first cell.
    #[error("interrupted before the first measurement")]
    Interrupted,
}
