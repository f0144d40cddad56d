//! Reads the thresholds stored in a run's plan, and evaluates them against the run's cells.

use crate::repeats;
use iodyno_measure::Threshold;
use iodyno_measure::threshold::{Outcome, judge_groups};
use iodyno_notebook::Run;
use iodyno_units::human;

/// Reads the thresholds stored with the run. Empty if the run has no thresholds, or if a newer version stored them in
/// another format.
pub fn own(run: &Run) -> Vec<Threshold> {
    serde_json::from_value(run.head.plan["thresholds"].clone()).unwrap_or_default()
}

/// Whether the run meets all `thresholds`.
pub fn are_held(run: &Run, thresholds: &[Threshold]) -> bool {
    outcomes(run, thresholds).iter().all(|outcome| outcome.held)
}

/// Whether the limit of any of `thresholds` lies within the 95 % interval of the judged figure, so that the outcome is
/// uncertain.
pub fn is_one_close(run: &Run, thresholds: &[Threshold]) -> bool {
    outcomes(run, thresholds).iter().any(Outcome::is_close)
}

/// The interval of a close outcome: `its 95 % interval, 380 to 520 µs, crosses the limit`; None if it is not close.
pub(crate) fn close(outcome: &Outcome<'_>) -> Option<String> {
    let interval = outcome.interval.filter(|_| outcome.is_close())?;
    let [low, high] =
        [interval.low, interval.high].map(|end| end.map(|v| outcome.metric.quantity.human(v)));
    let range = human::between(low.as_deref(), high.as_deref());
    Some(format!("its 95 % interval, {range}, crosses the limit"))
}

/// Judges the run's cells. The repeats of a sweep are judged together, and so are the rounds in which a target was
/// steady; the rounds before are left out.
pub(crate) fn outcomes<'a>(run: &'a Run, thresholds: &'a [Threshold]) -> Vec<Outcome<'a>> {
    if thresholds.is_empty() {
        return Vec::new();
    }
    judge_groups(thresholds, &run.cells, &repeats::groups(run))
}
