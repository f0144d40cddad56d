//! The 95 % confidence interval of the figure that a threshold judges, and whether the threshold's limit lies within
//! the interval. Results show the same interval.

use super::Bound;
use crate::metric::{Counted, Metric};
use crate::stationarity::mean_rate;
use crate::statistics::repeats;
use crate::summary::{CONFIDENCE, percentiles_within};
use crate::{Cell, Interval, Quantity};
use iodyno_units::OpKind;

/// Confidence interval of a figure, in the unit of its metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// Lower end; None: unbounded.
    pub low: Option<f64>,
    /// Upper end; None: unbounded.
    pub high: Option<f64>,
}

impl Between {
    /// Whether the interval has values on both sides of a limit.
    pub(super) fn crosses(&self, bound: Bound, limit: f64) -> bool {
        let (better, worse) = match bound {
            Bound::Below | Bound::AtMost => (self.low, self.high),
            Bound::Above | Bound::AtLeast => (self.high, self.low),
        };
        better.is_none_or(|end| bound.holds(end, limit))
            && worse.is_none_or(|end| !bound.holds(end, limit))
    }
}

/// Computes the confidence interval of a metric. For a single cell it covers the sampling error of its window; for a
/// cell and its repeats, the error of their mean, or of the mean of their percentiles. None for a maximum, for the mean
/// latency of a single cell, and for too little data.
pub(super) fn interval(group: &[&Cell], metric: Metric) -> Option<Between> {
    let Metric { kind, quantity } = metric;
    let [cell] = group else { return of_repeats(group, metric) };
    match (quantity, kind) {
        (Quantity::Iops | Quantity::Bandwidth, _) => {
            let mean = mean_rate(cell, amount(cell, metric))?.interval;
            Some(Between { low: Some(mean.low.max(0.0)), high: Some(mean.high) })
        }
        (Quantity::Quantile(q), Some(kind)) => {
            let within = percentiles_within(&[cell], kind, &[q]).pop()??;
            let end = |ns: Option<u64>| ns.map(|ns| ns as f64);
            Some(Between { low: end(within.low_ns), high: end(within.high_ns) })
        }
        _ => None,
    }
}

/// Returns the function that counts an interval's contribution to a rate: its operations or its bytes.
fn amount(cell: &Cell, metric: Metric) -> impl Fn(&Interval) -> u64 {
    let of_kind = |i: &Interval, kind: OpKind, by_bytes: bool| {
        i.class(kind).map_or(0, |class| if by_bytes { class.bytes } else { class.ops() })
    };
    let (kinds, by_bytes) = (cell.io_kinds(), metric.quantity == Quantity::Bandwidth);
    move |i| match metric.kind {
        Some(kind) => of_kind(i, kind, by_bytes),
        None if by_bytes => i.bytes(),
        None => i.ios(kinds),
    }
}

fn of_repeats(group: &[&Cell], metric: Metric) -> Option<Between> {
    if metric.quantity == Quantity::Max {
        return None;
    }
    let each = group.iter().map(|cell| Counted::of([*cell]).value(metric).ok());
    let mean = repeats::mean(&each.collect::<Option<Vec<f64>>>()?, CONFIDENCE).ok()?.interval?;
    // The percentile of all operations together is not the mean of the repeats' percentiles.
    let value = match metric.quantity {
        Quantity::Quantile(_) => Counted::of(group.iter().copied()).value(metric).ok()?,
        _ => f64::midpoint(mean.low, mean.high),
    };
    let half_width = mean.half_width();
    Some(Between { low: Some((value - half_width).max(0.0)), high: Some(value + half_width) })
}
