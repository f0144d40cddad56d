//! Outcome of a run, and errors that end a run, with their exit codes.

use iodyno_catalog::Problem;
use iodyno_drive::DriveError;
use iodyno_notebook as notebook;
use iodyno_targets::TargetError;
use std::path::PathBuf;

/// Result of an executed run: its stored form, and the way it ended.
#[derive(Debug)]
pub struct Outcome {
    /// The run in its stored form, even if no notebook stores it.
    pub run: notebook::Run,
    /// Whether a signal stopped the run.
    pub interrupted: bool,
    /// Whether too many failed operations, an engine failure, or a hung target ended the run.
    pub too_many_errors: bool,
    /// Details if the notebook could not store the run; otherwise None.
    pub not_kept: Option<NotKept>,
}

/// Details of a run that its notebook could not store.
#[derive(Debug)]
pub struct NotKept {
    /// Error that prevented the notebook from storing the run.
    pub why: notebook::Error,
    /// Path of a fallback notebook that stores only this run; or the reason why the fallback failed, too.
    pub instead: Result<PathBuf, String>,
}

impl Outcome {
    /// Whether verification found content that differs from the written content.
    pub fn wrong_content(&self) -> bool {
        let mut verified = self.run.cells.iter().filter_map(|c| c.evidence.verification.as_ref());
        verified.any(|v| v.wrong_reads() > 0)
    }

    /// Whether any operation failed, even if the request tolerates failures.
    pub fn has_failed_operations(&self) -> bool {
        self.run.cells.iter().any(|cell| cell.total().errors().total() > 0)
    }
}

/// Reason why a run failed. The notebook keeps the cells that finished before.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A target can't be inspected, opened or used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// An I/O engine failed.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The notebook can't be read or written.
    #[error(transparent)]
    Notebook(#[from] notebook::Error),
    /// A file that describes a workload, a method, a device or a system is invalid.
    #[error("{0}")]
    File(Box<Problem>),
    /// The request can't be fulfilled; the text explains why.
    #[error("{0}")]
    Impossible(String),
    /// The operating system refused a resource.
    #[error("{what}: {source}")]
    System {
        /// Action that failed, such as mapping memory.
        what: String,
        source: std::io::Error,
    },
    /// Another rank (process) of the run failed.
    #[error("rank {rank} on {host}: {why}")]
    OtherRank {
        /// Number of the failed rank, from 0.
        rank: u32,
        /// Name of the host on which the failed rank ran.
        host: String,
        /// Exit code of the failed rank; see [`RunError::exit_code`].
        exit_code: u8,
        /// Error message of the failed rank.
        why: String,
    },
    /// Contact with another rank of the run was lost.
    #[error(
        "{0}: the run was ended, because the remaining ranks would make a different measurement"
    )]
    LostRank(#[from] iodyno_ranks::Lost),
    /// A signal stopped the run before its first cell.
    #[error("interrupted before the first measurement")]
    Interrupted,
}

impl RunError {
    /// Exit code of a command that fails with this error.
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
