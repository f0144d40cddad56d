//! The context of one step of a run: its targets, its position among the steps, and where its cells are
//! stored.

use crate::open_targets::OpenTarget;
use crate::resolved_run::ResolvedRun;
use crate::schedule::Schedule;
use crate::watch::Watch;
use iodyno_drive::TraceEvents;
use iodyno_notebook::{Notebook, RunWriter};

/// Context in which a run executes a step: its targets, position and destination.
pub(crate) struct StepContext<'a, 'r> {
    pub(crate) run: &'r ResolvedRun,
    /// All targets of the run.
    pub(crate) open_targets: &'a mut [OpenTarget],
    pub(crate) schedule: &'a mut Schedule<'r>,
    /// Stores the measured cells; None if nothing is stored.
    pub(crate) writer: Option<&'a mut RunWriter>,
    /// The notebook with earlier runs; None without a notebook.
    pub(crate) notebook: Option<&'a Notebook>,
    /// Index of the step's first cell among the run's cells.
    pub(crate) first_index: usize,
    pub(crate) watch: &'a mut dyn Watch,
    /// Receives the operations of the measured cells; None if they are not recorded.
    pub(crate) events: Option<&'a TraceEvents>,
}
