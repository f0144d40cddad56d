//! Reads the thresholds stored in a run's plan, and evaluates them against the run's cells.

use iodyno_measure::Threshold;
use iodyno_measure::threshold::{Outcome, judge};
use iodyno_notebook::Run;

/// Reads the thresholds stored with the run. Empty if the run has no thresholds, or if a newer version stored them in
/// another format.
pub fn own(run: &Run) -> Vec<Threshold> {
    serde_json::from_value(run.head.plan["thresholds"].clone()).unwrap_or_default()
}

/// Whether the run meets all `thresholds`.
pub fn are_held(run: &Run, thresholds: &[Threshold]) -> bool {
    judge(thresholds, &run.cells).iter().all(|outcome| outcome.held)
}

pub(crate) fn outcomes<'a>(run: &'a Run, thresholds: &'a [Threshold]) -> Vec<Outcome<'a>> {
    judge(thresholds, &run.cells)
}
