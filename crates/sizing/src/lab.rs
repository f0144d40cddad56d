//! Runs the simulations of a search, several in parallel, and counts them.

use crate::candidate::Candidate;
use crate::demand::Demand;
use crate::row::Trial;
use crate::search::{Count, highest_rate};
use crate::simulate::{Arrays, Condition, Effort, How, Measured, State, run, under};
use iodyno_drive::Length;
use iodyno_drive::parallel::{at_once, processors};
use iodyno_run::RunError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Queue depth at which a single device's rate is simulated for the textbook formula. Saturates any device.
const DEVICE_DEPTH: u32 = 128;
const LENGTH: Length = Length { ramp_ns: 50_000_000, window_ns: 50_000_000 };
/// Fraction by which a rate is lowered if a longer simulation does not sustain it.
const CONFIRM_STEP_SHARE: f64 = 0.015;

/// State shared by all parallel simulations of a sizing.
pub(crate) struct Lab<'a> {
    pub(crate) demand: &'a Demand,
    pub(crate) stop: &'a Arc<AtomicBool>,
    pub(crate) cells: AtomicUsize,
    pub(crate) progress: &'a (dyn Fn(usize) + Sync),
}

impl Lab<'_> {
    /// Simulates one of `count.units` equal systems, which gets `rate_iops`. Increments the number of simulations.
    pub(crate) fn cell(
        &self,
        of: &Candidate,
        count: Count,
        rate_iops: f64,
        how: How,
    ) -> Result<Measured, RunError> {
        let (arrays, all_arrays) = (count.arrays, count.units * count.arrays);
        self.count_cell();
        under(self.demand, Arrays { of, arrays, all_arrays }, rate_iops, how, self.stop)
    }

    /// Condition under which the demand must be met.
    pub(crate) fn base(&self) -> Condition {
        self.demand.survive.map_or(Condition::Whole, Condition::from)
    }

    pub(crate) fn count_cell(&self) {
        (self.progress)(self.cells.fetch_add(1, Ordering::Relaxed) + 1);
    }

    /// Finds the highest rate that one system sustains within the latency limit. `holds_iops` is a rate known to be
    /// sustained. Returns the rate and the trials.
    pub(crate) fn highest(
        &self,
        of: &Candidate,
        count: Count,
        holds_iops: f64,
        condition: Condition,
    ) -> Result<(f64, Vec<Trial>), RunError> {
        let mut trials = Vec::new();
        let found = highest_rate(holds_iops, &mut |iops| {
            let measured = self.cell(of, count, iops, How { effort: Effort::Search, condition })?;
            let tried = measured.tried(iops, self.demand);
            trials.push(Trial { arrays: count.arrays, offered_iops: iops, measured });
            Ok::<_, RunError>(tried)
        })?;
        // Near the limit, the highest rates may have held by chance, so longer cells decide.
        let mut highest = found;
        while highest > holds_iops {
            let measured =
                self.cell(of, count, highest, How { effort: Effort::Shown, condition })?;
            let holds = measured.holds(highest, self.demand);
            trials.retain(|trial| trial.offered_iops.total_cmp(&highest).is_ne());
            trials.push(Trial { arrays: count.arrays, offered_iops: highest, measured });
            if holds {
                break;
            }
            highest = (highest * (1.0 - CONFIRM_STEP_SHARE)).max(holds_iops);
        }
        Ok((highest, trials))
    }
}

/// Runs all jobs, several in parallel. Returns their results in the order of the jobs.
pub(crate) fn together<J: Sync, T: Send + Sync>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<T, RunError> + Sync,
) -> Result<Vec<T>, RunError> {
    let ((), all) = at_once(processors(), jobs, work, || ());
    all.into_iter().flatten().collect()
}

/// Operations per second of a single saturated device.
pub(crate) fn device_iops(lab: &Lab<'_>, of: &Candidate) -> Result<f64, RunError> {
    let wrong = |why: String| RunError::Impossible(why);
    // A closed loop, without the demand's rate.
    let spec = lab.demand.spec.for_calibration(LENGTH.window_ns);
    let spec = spec.with_threads(1).and_then(|s| s.with_depth(DEVICE_DEPTH)).map_err(wrong)?;
    lab.count_cell();
    Ok(run(&of.single_device(), spec, LENGTH, State::WHOLE, lab.stop)?.iops.max(1.0))
}
