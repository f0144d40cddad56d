//! Decides when the workloads of a measurement end before their limits: in a steady state, as with fio's `steadystate`,
//! or when another workload ends. The workers and the event loop carry out the decision.

use crate::plan::CellPlan;
use iodyno_measure::statistics::steps::{Excursion, Step, Steps};
use iodyno_measure::{Cell, Ended};
use iodyno_units::human;
use iodyno_workload::{Limits, Steady, SteadyFigure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Decides which workloads of a cell end early.
#[derive(Debug)]
pub(crate) struct EarlyEnd {
    workloads: Vec<Workload>,
}

/// State of a workload on one target.
#[derive(Debug)]
struct Workload {
    limits: Limits,
    /// Set when the workload's workers must end before their limits.
    is_over: Arc<AtomicBool>,
    working: u32,
    /// Number of values of the time series up to the latest check for a steady state.
    judged: usize,
    /// Reason why the workload ended early; `None` if it did not.
    why: Option<String>,
}

impl EarlyEnd {
    pub(crate) fn new(plan: &CellPlan) -> Self {
        let workload = |target: usize| {
            let spec = &plan.cell_on(target).spec;
            Workload {
                limits: spec.limits(),
                is_over: Arc::default(),
                working: spec.threads(),
                judged: 0,
                why: None,
            }
        };
        Self { workloads: (0..plan.targets.len()).map(workload).collect() }
    }

    /// The flag that tells the workers of a target to end before their limits.
    pub(crate) fn flag(&self, target: usize) -> &Arc<AtomicBool> {
        &self.workloads[target].is_over
    }

    /// True if some workload must end when it reaches a steady state.
    pub(crate) fn watches(&self) -> bool {
        self.workloads.iter().any(|w| w.limits.steady.is_some())
    }

    /// Records that a worker of a target has ended. Returns true if it was the last of a workload that ends the others.
    pub(crate) fn worker_ended(&mut self, target: usize, name: &str) -> bool {
        let Some(one) = self.workloads.get_mut(target) else { return false };
        one.working = one.working.saturating_sub(1);
        if one.working > 0 || !one.limits.ends_others {
            return false;
        }
        for other in self.workloads.iter_mut().filter(|w| w.working > 0) {
            other.is_over.store(true, Ordering::Relaxed);
            other.why.get_or_insert_with(|| format!("workload `{name}` has ended"));
        }
        true
    }

    /// Checks each workload for a steady state, `elapsed_ns` after the cell's start, using only values that are
    /// complete by then. Returns the targets whose workers must end.
    pub(crate) fn judge(&mut self, cells: &[Cell], elapsed_ns: u64) -> Vec<usize> {
        let mut ended = Vec::new();
        for (target, (one, cell)) in self.workloads.iter_mut().zip(cells).enumerate() {
            let Some(steady) = one.limits.steady.filter(|_| !one.is_over.load(Ordering::Relaxed))
            else {
                continue;
            };
            let before_ns = one.limits.start_after_ns + one.limits.ramp_ns;
            let steps = Steps::new(cell.interval_ns, steady.after_ns);
            // Workers hand over an interval only when they next check the time after its end.
            let measured_ns = elapsed_ns.saturating_sub(before_ns + steps.length_ns / 2);
            let (complete, window) =
                (steps.complete(measured_ns), steps.of_window(steady.window_ns));
            if complete <= one.judged || complete < window {
                continue;
            }
            one.judged = complete;
            let values: Vec<f64> = steps
                .last(&cell.series, complete, window)
                .iter()
                .map(|step| figure(&steady, step))
                .collect();
            if let Some(criterion) = criterion(&values, steady.by_slope)
                && criterion < steady.within.fraction()
            {
                one.is_over.store(true, Ordering::Relaxed);
                one.why = Some(in_words(&steady, criterion));
                ended.push(target);
            }
        }
        ended
    }

    /// Records in each cell's results why its workload ended early.
    pub(crate) fn state(self, cells: &mut [Cell]) {
        for (one, cell) in self.workloads.into_iter().zip(cells) {
            let Some(why) = one.why else { continue };
            cell.facts.insert("ended early".to_owned(), why.clone());
            if cell.ended == Ended::Settled {
                cell.evidence.settled = Some(why);
            }
        }
    }
}

fn figure(steady: &Steady, step: &Step) -> f64 {
    match steady.figure {
        SteadyFigure::Iops => step.iops,
        SteadyFigure::Bandwidth => step.bytes_per_s,
        SteadyFigure::Latency => step.mean_ns,
    }
}

/// Largest deviation of the values from their mean or, with `by_slope`, the slope per value of their least-squares
/// line; both as a fraction of the mean. `None` without values or if the mean is zero.
fn criterion(values: &[f64], by_slope: bool) -> Option<f64> {
    let found = Excursion::of(values)?;
    Some(if by_slope { found.slope.abs() } else { found.deviation } / found.mean)
}

fn in_words(steady: &Steady, criterion: f64) -> String {
    let figure = match steady.figure {
        SteadyFigure::Iops => "IOPS",
        SteadyFigure::Bandwidth => "bandwidth",
        SteadyFigure::Latency => "mean latency",
    };
    let how = if steady.by_slope { "changes by" } else { "deviates by at most" };
    let each = if steady.by_slope { " a second" } else { " from its mean" };
    format!(
        "steady: over {}, {figure} {how} {:.3} %{each} (requested limit: {})",
        human::duration_ns(steady.window_ns),
        criterion * 100.0,
        steady.within
    )
}
