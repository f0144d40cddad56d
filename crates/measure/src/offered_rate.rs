//! Whether the target of an open loop kept up with the offered rate.

use crate::cell::Cell;
use crate::histogram::Histogram;
use crate::interval::Interval;
use crate::statistics::describe;

/// Minimum rate of completions, as a fraction of the offered rate, for an open loop to have met its rate.
pub(crate) const RATE_SHARE_MIN: f64 = 0.97;
/// Backlog at the window's end, as a fraction of the due operations, above which the rate counts as missed. A
/// stall that has just begun leaves a smaller backlog.
pub(crate) const BACKLOG_SHARE_MAX: f64 = 0.01;
/// Maximum shortfall of random arrivals below the offered rate that counts as chance, in standard deviations.
const CHANCE_DEVIATIONS: f64 = 3.5;
/// Shortfall, as a fraction of the due operations, from which the rate counts as missed if the queue grew by them.
const GROWTH_SHARE_MIN: f64 = 0.003;
/// Minimum correlation of the mean response time with time for a queue that grows evenly.
const GROWTH_CORRELATION_MIN: f64 = 0.9;
/// Minimum number of intervals with completions to judge how response times grow.
const INTERVALS_MIN: usize = 8;

/// Whether the target of an open loop kept up with the offered rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateMet {
    /// It did.
    Yes,
    /// It did. By chance, fewer operations were due than offered.
    FewerDue,
    /// It did not: operations were overdue at the end, or too few were completed.
    No,
    /// It did not, although hardly any operation was overdue: the queue at the target grew. Mean response times at the
    /// window's start and end, by a straight line, ns.
    QueueGrew(f64, f64),
}

impl RateMet {
    pub fn is_met(self) -> bool {
        matches!(self, Self::Yes | Self::FewerDue)
    }
}

/// Largest number of operations by which random arrivals fall short of `due` operations by chance.
pub fn chance_ops(due: f64) -> f64 {
    CHANCE_DEVIATIONS * due.sqrt()
}

/// Judges whether the target kept up with the offered rate. `None` in a closed loop, and if not even one operation was
/// due.
pub fn rate_met(cell: &Cell) -> Option<RateMet> {
    let offered = cell.key.offered_iops.filter(|offered| offered * cell.seconds() >= 1.0)?;
    let total = cell.total();
    let due = offered * cell.seconds();
    let short_ops = due - total.ops() as f64;
    let backlog_ops = cell.backlog_ops as f64;
    let is_short = short_ops > (1.0 - RATE_SHARE_MIN) * due;
    // If all that were due completed, fewer were due.
    let is_chance = cell.backlog_ops == 0 && short_ops <= chance_ops(due);
    let has_backlog = backlog_ops > (BACKLOG_SHARE_MAX * due).max(chance_ops(due));
    if has_backlog || is_short && !is_chance {
        return Some(RateMet::No);
    }
    // A trace determines itself when it offers more.
    let grew = growth_ns(cell).filter(|(start_ns, end_ns)| {
        let grown_ops = offered * (end_ns - start_ns) / 1e9;
        cell.evidence.trace.is_none()
            && short_ops >= GROWTH_SHARE_MIN * due
            && grown_ops >= short_ops / 2.0
    });
    Some(match grew {
        Some((start_ns, end_ns)) => RateMet::QueueGrew(start_ns, end_ns),
        None if is_short => RateMet::FewerDue,
        None => RateMet::Yes,
    })
}

/// Mean response times at the start and the end of the window, by a straight line through the intervals, ns. `None`
/// unless they grow evenly, as before a target that is slower than the arrivals.
fn growth_ns(cell: &Cell) -> Option<(f64, f64)> {
    let mean_ns = |i: &Interval| {
        let all = || i.iter().filter_map(|(_, class)| class.response.as_ref());
        let count: u64 = all().map(Histogram::count).sum();
        let sum_ns: u128 = all().map(Histogram::sum_ns).sum();
        (count > 0).then(|| sum_ns as f64 / count as f64)
    };
    let means_ns: Vec<f64> = cell.series.iter().filter_map(mean_ns).collect();
    if means_ns.len() < INTERVALS_MIN {
        return None;
    }
    let line = describe::least_squares(0.0, &means_ns);
    let is_even = line.correlation.is_some_and(|r| r >= GROWTH_CORRELATION_MIN);
    is_even.then(|| {
        let at = |x: f64| (line.intercept + line.slope * x).max(0.0);
        (at(-0.5), at(means_ns.len() as f64 - 0.5))
    })
}
