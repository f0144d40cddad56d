//! The verdict on a run as a whole, shared by the exit code, the list of runs, the terminal, pages and JSON:
//! the verdicts on its method, and the most severe level of these and of the verdicts on its cells.

use crate::method;
use iodyno_measure::{Cell, Level, Verdict};
use iodyno_notebook::{Run, Status};

/// The verdict on a run as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunVerdict {
    /// Verdicts on the whole run, which are those on its method, the most severe first. Empty for a list of
    /// cells.
    pub verdicts: Vec<Verdict>,
    /// The most severe level of the run's and its cells' verdicts; None if there are no verdicts
    /// yet.
    pub level: Option<Level>,
}

impl RunVerdict {
    /// Judges a stored run. Pure: an old run is judged by the same rules as a new one.
    pub fn of(run: &Run) -> Self {
        Self::with(run, method::verdicts_of(run))
    }

    /// The verdict on a run, given the verdicts on its method.
    pub(crate) fn with(run: &Run, mut verdicts: Vec<Verdict>) -> Self {
        // A run in progress is not unfinished.
        verdicts.retain(|v| run.status != Status::Running || v.code != "UNFINISHED");
        let of_run = verdicts.iter().map(|v| v.level);
        let level = run.cells.iter().filter_map(Cell::level).chain(of_run).max();
        Self { verdicts, level }
    }

    /// Whether the run's method failed to reach its goal.
    pub fn has_failed(&self) -> bool {
        self.verdicts.iter().any(|v| v.level == Level::Invalid)
    }

    /// Whether the verdicts on the whole run forbid calling it VALID, even if all its cells are.
    pub(crate) fn is_doubted(&self) -> bool {
        self.verdicts.iter().any(|v| v.level >= Level::Warning)
    }
}
