//! The verdict on a run as a whole, which the exit code, the list of runs, the terminal, pages and JSON share:
//! the verdicts on its method, and the gravest level of these and of the verdicts on its cells.

use crate::method;
use iodyno_measure::{Cell, Level, Verdict};
use iodyno_notebook::{Run, Status};

/// The verdict on a run as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunVerdict {
    /// Verdicts on the whole run, the gravest first: those of its method. Empty for a list of cells.
    pub verdicts: Vec<Verdict>,
    /// The gravest level of these and of those of the cells; None while none is known.
    pub level: Option<Level>,
}

impl RunVerdict {
    /// Judges a stored run. Pure: an old run is judged by the same rules as a new one.
    pub fn of(run: &Run) -> Self {
        Self::with(run, method::verdicts_of(run))
    }

    /// That of a run on whose method these are the verdicts.
    pub(crate) fn with(run: &Run, mut verdicts: Vec<Verdict>) -> Self {
        // A run that still goes on is not unfinished.
        verdicts.retain(|v| run.status != Status::Running || v.code != "UNFINISHED");
        let of_run = verdicts.iter().map(|v| v.level);
        let level = run.cells.iter().filter_map(Cell::level).chain(of_run).max();
        Self { verdicts, level }
    }

    /// Whether the run's method failed to reach its goal.
    pub fn has_failed(&self) -> bool {
        self.verdicts.iter().any(|v| v.level == Level::Invalid)
    }

    /// Whether the verdicts on the whole run forbid calling it VALID, whatever its cells are.
    pub(crate) fn is_doubted(&self) -> bool {
        self.verdicts.iter().any(|v| v.level >= Level::Warning)
    }
}
