//! Which workloads of a cell end before their limits: those whose figure is steady, as fio's `steadystate` has it, and
//! those that end with another one. It decides; workers and the event loop carry it out.

use crate::plan::CellPlan;
use iodyno_measure::{Cell, Ended, Interval};
use iodyno_units::human;
use iodyno_workload::{Limits, Steady, SteadyFigure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The time that one value of a steady state is taken over, ns.
const STEP_NS: u64 = 1_000_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct EarlyEnd {
    workloads: Vec<Workload>,
}

/// A workload on one target.
#[derive(Debug)]
struct Workload {
    limits: Limits,
    /// Set when its workers are to end.
    is_over: Arc<AtomicBool>,
    working: u32,
    /// Values of the steady figure that were judged.
    judged: usize,
    /// Why it ended early.
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

    /// The flag that ends the workers of a target.
    pub(crate) fn flag(&self, target: usize) -> &Arc<AtomicBool> {
        &self.workloads[target].is_over
    }

    /// Whether any workload may end by a steady state.
    pub(crate) fn watches(&self) -> bool {
        self.workloads.iter().any(|w| w.limits.steady.is_some())
    }

    /// A worker of a target has ended; true if that ends others.
    pub(crate) fn worker_ended(&mut self, target: usize, name: &str) -> bool {
        let Some(one) = self.workloads.get_mut(target) else { return false };
        one.working = one.working.saturating_sub(1);
        if one.working > 0 || !one.limits.ends_others {
            return false;
        }
        for other in self.workloads.iter_mut().filter(|w| w.working > 0) {
            other.is_over.store(true, Ordering::Relaxed);
            other.why.get_or_insert_with(|| format!("with `{name}`, which has ended"));
        }
        true
    }

    /// Judges the values that are complete `elapsed_ns` after the cell's start; gives the targets whose workers end.
    pub(crate) fn judge(&mut self, cells: &[Cell], elapsed_ns: u64) -> Vec<usize> {
        let mut ended = Vec::new();
        for (target, (one, cell)) in self.workloads.iter_mut().zip(cells).enumerate() {
            let Some(steady) = one.limits.steady.filter(|_| !one.is_over.load(Ordering::Relaxed))
            else {
                continue;
            };
            let before_ns = one.limits.start_after_ns + one.limits.ramp_ns + steady.after_ns;
            // Workers hand an interval over when they look after its end.
            let step_ns = STEP_NS.max(cell.interval_ns);
            let complete = elapsed_ns.saturating_sub(before_ns + step_ns / 2) / step_ns;
            let window = (steady.window_ns / step_ns).max(2) as usize;
            if complete as usize <= one.judged || (complete as usize) < window {
                continue;
            }
            one.judged = complete as usize;
            let first = (steady.after_ns / cell.interval_ns.max(1)) as usize;
            let each = (step_ns / cell.interval_ns.max(1)).max(1) as usize;
            let last = first + complete as usize * each;
            let from = last - window * each;
            let values: Vec<f64> = (0..window)
                .map(|n| value(&steady, cell, from + n * each..from + (n + 1) * each, step_ns))
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

    /// States in the cells why they ended early.
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

/// The figure over some intervals of a cell.
fn value(steady: &Steady, cell: &Cell, at: std::ops::Range<usize>, step_ns: u64) -> f64 {
    let mut all = Interval::default();
    for interval in cell.series.get(at).unwrap_or_default() {
        all.merge(interval);
    }
    let per_second = 1e9 / step_ns as f64;
    match steady.figure {
        SteadyFigure::Iops => all.ops() as f64 * per_second,
        SteadyFigure::Bandwidth => all.bytes() as f64 * per_second,
        SteadyFigure::Latency => all.response_time().mean_ns().unwrap_or(0.0),
    }
}

/// The largest deviation from the mean, or the slope of the least-squares line in one step, as a share of the mean; None
/// where there is nothing to divide by.
fn criterion(values: &[f64], by_slope: bool) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if mean <= 0.0 || values.len() < 2 {
        return None;
    }
    if !by_slope {
        let largest = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
        return Some(largest / mean);
    }
    let middle = (count - 1.0) / 2.0;
    let (mut above, mut below) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        above += (at as f64 - middle) * (value - mean);
        below += (at as f64 - middle).powi(2);
    }
    Some((above / below / mean).abs())
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
        "steady: over {} {figure} {how} {:.3} %{each}, and {} was asked for",
        human::duration_ns(steady.window_ns),
        criterion * 100.0,
        steady.within
    )
}

#[cfg(test)]
mod tests {
    use super::criterion;

    /// Closed forms: a line of known slope, and one value that stands out.
    #[test]
    fn criteria_have_their_closed_forms() {
        let line: Vec<f64> = (0..30).map(|n| 100.0 + f64::from(n)).collect();
        let slope = criterion(&line, true).unwrap();
        assert!((slope - 1.0 / 114.5).abs() < 1e-12, "{slope}");
        let off = criterion(&[10.0, 10.0, 10.0, 14.0], false).unwrap();
        assert!((off - 3.0 / 11.0).abs() < 1e-12, "{off}");
        assert_eq!(criterion(&[0.0, 0.0], false), None);
    }
}
