//! The thresholds of a run and their check. They are stored in the run's plan, and checked each time against
//! the run's own cells: the check is a pure function of both.

use iodyno_measure::Threshold;
use iodyno_measure::threshold::{Outcome, judge};
use iodyno_notebook::Run;

/// The thresholds stored with the run; none if there are none, or if their newer format can't be read.
pub fn own(run: &Run) -> Vec<Threshold> {
    serde_json::from_value(run.head.plan["thresholds"].clone()).unwrap_or_default()
}

/// Whether all of them are met.
pub fn are_held(run: &Run, thresholds: &[Threshold]) -> bool {
    judge(thresholds, &run.cells).iter().all(|outcome| outcome.held)
}

pub(crate) fn outcomes<'a>(run: &'a Run, thresholds: &'a [Threshold]) -> Vec<Outcome<'a>> {
    judge(thresholds, &run.cells)
}
