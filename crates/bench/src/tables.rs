//! Medians with their spread, and ratios of two contenders' rates in each repetition.

use crate::rival::Figures;

/// Median, minimum and maximum of several values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

pub(crate) fn spread(values: &[f64]) -> Spread {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    };
    Spread { median, min: sorted[0], max: sorted[sorted.len() - 1] }
}

/// Ratios of iodyno's rate to a contender's, in each repetition.
pub(crate) fn ratios(ours: &[Figures], theirs: &[Figures]) -> Spread {
    let pairs: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a.iops / b.iops).collect();
    spread(&pairs)
}

/// Formats a rate with its range: `1.23 M [1.20-1.25]`.
pub(crate) fn rate(s: Spread) -> String {
    let (scale, unit) = if s.median >= 1e6 { (1e6, "M") } else { (1e3, "k") };
    format!("{:.2} {unit} [{:.2}-{:.2}]", s.median / scale, s.min / scale, s.max / scale)
}

/// Formats a ratio with its range: `1.40 [1.38-1.43]`.
pub(crate) fn ratio(s: Spread) -> String {
    format!("{:.2} [{:.2}-{:.2}]", s.median, s.min, s.max)
}
