//! Tests of steadiness within cells: drift of the rate between intervals, and stalls. SNIA's steady-state test compares
//! only the results of whole cells.

use super::Step;
use iodyno_measure::statistics;
use iodyno_measure::statistics::drift::{Drift, DriftLimits, judge};
use serde::Serialize;

/// Maximum number of points in the drift test, because its run time grows with the square of this number. Neighbouring
/// points of longer series are averaged.
const POINTS_MAX: usize = 600;
/// Minimum number of intervals for the drift test.
const POINTS_MIN: usize = 20;

/// Number and length of the stalls in a series of intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stalls {
    /// Number of stalls: runs of consecutive intervals with a rate below a tenth of the median.
    pub count: usize,
    /// Length of the longest stall, s.
    pub longest_s: f64,
    /// Length of an interval, s. Shorter stalls are not detected.
    pub interval_s: f64,
}

/// Joins the rates of consecutive cells. Returns the rate of each complete interval, and the length of an interval,
/// s. `None` if the cells have different interval lengths.
fn rates<'a>(steps: impl Iterator<Item = &'a Step<'a>>) -> Option<(Vec<f64>, f64)> {
    let mut interval_ns = None;
    let mut all = Vec::new();
    for step in steps {
        let (length_ns, rates) = step.cell.rates_iops();
        if *interval_ns.get_or_insert(length_ns) != length_ns || length_ns == 0 {
            return None;
        }
        all.extend(rates);
    }
    Some((all, interval_ns? as f64 / 1e9))
}

/// Tests the rate for drift; `None` for too few intervals, and if nothing completed.
pub(super) fn drift<'a>(steps: impl Iterator<Item = &'a Step<'a>>, seed: u64) -> Option<Drift> {
    let (rates, interval_s) = rates(steps)?;
    if rates.len() < POINTS_MIN {
        return None;
    }
    let each = rates.len().div_ceil(POINTS_MAX);
    let means: Vec<f64> =
        rates.chunks_exact(each).map(|c| c.iter().sum::<f64>() / each as f64).collect();
    judge(&means, interval_s * each as f64, &DriftLimits::default(), seed).ok()
}

/// Finds the intervals of consecutive cells in which the rate was almost zero.
pub(super) fn stalls<'a>(steps: impl Iterator<Item = &'a Step<'a>>) -> Stalls {
    let Some((rates, interval_s)) = rates(steps) else { return Stalls::default() };
    let found = statistics::stalls::stalls(&rates, statistics::describe::median(&rates));
    let longest = found.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let count = found.len();
    Stalls { count, longest_s: longest as f64 * interval_s, interval_s }
}
