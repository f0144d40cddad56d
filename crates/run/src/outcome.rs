//! The outcome of a run, and its errors.

use iodyno_catalog::Problem;
use iodyno_drive::DriveError;
use iodyno_notebook as notebook;
use iodyno_targets::TargetError;
use std::path::PathBuf;

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The run as the notebook stores it, or would store it.
    pub run: notebook::Run,
    /// Whether a signal stopped the run.
    pub interrupted: bool,
    /// Whether the run was stopped by too many failed operations, by an engine that could not continue,
    /// or by a target that stopped answering.
    pub too_many_errors: bool,
    /// Set if the notebook does not store the run, although this was requested.
    pub not_kept: Option<NotKept>,
}

/// A run that its notebook could not store.
#[derive(Debug)]
pub struct NotKept {
    /// The error of the run's own notebook.
    pub why: notebook::Error,
    /// Another notebook, created for this run alone, which stores it; or the reason why there is none.
    pub instead: Result<PathBuf, String>,
}

impl Outcome {
    /// Whether verification read content that differs from what was written.
    pub fn wrong_content(&self) -> bool {
        let mut verified = self.run.cells.iter().filter_map(|c| c.evidence.verification.as_ref());
        verified.any(|v| v.wrong_reads() > 0)
    }

    /// Whether any operation failed, even if the request allows it.
    pub fn has_failed_operations(&self) -> bool {
        self.run.cells.iter().any(|cell| cell.total().errors().total() > 0)
    }
}

/// Why a run failed. Cells that finished before the failure are in the notebook.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An error of a target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// An error of an engine.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// An error of the notebook.
    #[error(transparent)]
    Notebook(#[from] notebook::Error),
    /// An error in a file of a workload, a method, a device or a system.
    #[error("{0}")]
    File(Box<Problem>),
    /// The request is an impossible combination.
    #[error("{0}")]
    Impossible(String),
    /// The operating system refused a resource.
    #[error("{what}: {source}")]
    System {
        /// The attempted action.
        what: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// Another rank of the run failed.
    #[error("rank {rank} on {host}: {why}")]
    OtherRank {
        /// Number of the rank that failed.
        rank: u32,
        /// Host of the rank that failed.
        host: String,
        /// Exit code of the rank's own error; see [`RunError::exit_code`].
        exit_code: u8,
        /// Error message of the rank that failed.
        why: String,
    },
    /// A rank of the run is lost.
    #[error("{0}: the run ends, because fewer ranks would be a different measurement")]
    LostRank(#[from] iodyno_ranks::Lost),
    /// Stopped by a signal before the first cell.
    #[error("interrupted before the first measurement")]
    Interrupted,
}

impl RunError {
    /// The exit code of a command that fails with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Target(e) => e.exit_code(),
            Self::File(_) | Self::Impossible(_) | Self::Drive(DriveError::DoesNotFit { .. }) => 2,
            Self::Notebook(e) if e.is_of_selector() => 2,
            Self::Notebook(_) => 5,
            Self::Drive(_) | Self::LostRank(_) => 4,
            Self::System { .. } => 1,
            Self::OtherRank { exit_code, .. } => *exit_code,
            Self::Interrupted => 130,
        }
    }
}

impl From<Problem> for RunError {
    fn from(problem: Problem) -> Self {
        Self::File(Box::new(problem))
    }
}
