//! What was required of a run. It is kept in the run's plan, and judged each time from the run's own
//! cells: judging is a pure function of both.

use iodyno_measure::Threshold;
use iodyno_measure::threshold::{Outcome, judge};
use iodyno_notebook::Run;

/// The thresholds that the run was made with; none where there were none, or where they are of a newer
/// form that can't be read.
pub fn own(run: &Run) -> Vec<Threshold> {
    serde_json::from_value(run.head.plan["thresholds"].clone()).unwrap_or_default()
}

/// Whether all of them are held.
pub fn are_held(run: &Run, thresholds: &[Threshold]) -> bool {
    judge(thresholds, &run.cells).iter().all(|outcome| outcome.held)
}

pub(crate) fn outcomes<'a>(run: &'a Run, thresholds: &'a [Threshold]) -> Vec<Outcome<'a>> {
    judge(thresholds, &run.cells)
}
