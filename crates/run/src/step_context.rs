//! The data with which one step of a run works: its targets, its position in the run, and where measured cells are
//! stored.

use crate::open_targets::OpenTarget;
use crate::resolved_run::ResolvedRun;
use crate::schedule::Schedule;
use crate::watch::Watch;
use iodyno_drive::TraceEvents;
use iodyno_notebook::{Notebook, RunWriter};

/// Context in which a run executes a step: targets, schedule, notebook and position.
pub(crate) struct StepContext<'a, 'r> {
    pub(crate) run: &'r ResolvedRun,
    /// All targets of the run, open.
    pub(crate) open_targets: &'a mut [OpenTarget],
    pub(crate) schedule: &'a mut Schedule<'r>,
    /// Writer that stores the measured cells; None if the run is not stored.
    pub(crate) writer: Option<&'a mut RunWriter>,
    /// Notebook, from which earlier runs can be read; None if there is none.
    pub(crate) notebook: Option<&'a Notebook>,
    /// Index in the run of the step's first cell.
    pub(crate) first_index: usize,
    pub(crate) watch: &'a mut dyn Watch,
    /// Channel for recording the operations of the measured cells; None if they are not recorded.
    pub(crate) events: Option<&'a TraceEvents>,
}
