//! Percentiles of one window, with confidence intervals that account for the clustering of slow operations in time.
//! The interval of [`quantile`] assumes independent operations, but a stall affects all operations in flight, and
//! slow seconds are clustered.
//!
//! The operations beyond the percentile are counted per batch of the window's series: 30 batches, or fewer (at least
//! 10) if neighbouring batches are correlated, as for [`super::batch`]. The *inflation* is the factor by which these
//! counts scatter more than the binomial law predicts for independent operations (Pearson's χ² over its degrees of
//! freedom; McCullagh and Nelder, *Generalized Linear Models*, 2nd edition, section 4.5). Each operation counts as
//! 1/inflation independent operations.
//!
//! **Scope:** the sampling error of *this window*: the variation to be expected if the window were repeated
//! immediately, in the same state, on the same machine, with the same neighbours. Only repeats show differences between
//! runs. A dependence longer than a tenth of the window can't be detected.

use super::batch::{BATCHES_MAX, BATCHES_MIN, CORRELATION_MAX};
use super::describe;
use super::quantile::quantile;
use crate::Histogram;
use serde::{Deserialize, Serialize};

/// Explanation of the confidence intervals, to be displayed with them.
pub const COVERS: &str = "covers only the sampling error of this window, corrected for slow operations that come in clusters; only repeats show the difference between runs";

/// Confidence interval of a percentile, from the operations of one window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Within {
    /// Lower end of the interval, ns; None if unbounded.
    #[serde(rename = "low")]
    pub low_ns: Option<u64>,
    /// Upper end of the interval, ns. None: unbounded, because too few operations lie beyond the percentile.
    #[serde(rename = "high")]
    pub high_ns: Option<u64>,
    /// Confidence level, 0 to 1.
    pub level: f64,
    /// Number of operations in the window.
    pub count: u64,
    /// Number of operations equivalent to one independent operation, 1 or more. None if the series has fewer than
    /// ten intervals to estimate it; operations are then assumed to be independent.
    pub inflation: Option<f64>,
}

/// Computes confidence intervals of the quantiles `qs` (0 to 1) of the operations in `total`. `parts`
/// contains the histograms of each interval of the series, in order. None for quantiles with too few samples.
pub fn within(
    total: &Histogram,
    parts: &[Vec<&Histogram>],
    qs: &[f64],
    level: f64,
) -> Vec<Option<Within>> {
    let values: Vec<Option<u64>> = qs.iter().map(|q| total.supported_quantile_ns(*q)).collect();
    let counts: Vec<(u64, Vec<u64>)> =
        parts.iter().map(|part| beyond(part, &values)).filter(|(n, _)| *n > 0).collect();
    let of = |(i, q): (usize, &f64)| {
        values[i]?;
        let series: Vec<(u64, u64)> = counts.iter().map(|(n, k)| (*n, k[i])).collect();
        let inflation = inflation(&series);
        let found = quantile(total, *q, level, inflation.unwrap_or(1.0))?;
        Some(Within {
            low_ns: found.low_ns,
            high_ns: found.high_ns,
            level,
            count: found.count,
            inflation,
        })
    };
    qs.iter().enumerate().map(of).collect()
}

/// Returns the number of operations in an interval, and for each of `values` the number of operations above it (0 for
/// None).
fn beyond(part: &[&Histogram], values: &[Option<u64>]) -> (u64, Vec<u64>) {
    let mut above = vec![0; values.len()];
    for bucket in part.iter().flat_map(|h| h.buckets()) {
        for (count, value) in above.iter_mut().zip(values) {
            if value.is_some_and(|value| bucket.low_ns > value) {
                *count += bucket.count;
            }
        }
    }
    (part.iter().map(|h| h.count()).sum(), above)
}

/// Factor, 1 or more, by which the variance exceeds that of independent operations. `series` holds, per interval, the
/// number of operations and the number beyond the percentile. None if the series is too short.
fn inflation(series: &[(u64, u64)]) -> Option<f64> {
    if series.len() < BATCHES_MIN {
        return None;
    }
    let n: u64 = series.iter().map(|s| s.0).sum();
    let share = series.iter().map(|s| s.1).sum::<u64>() as f64 / n as f64;
    if share <= 0.0 || share >= 1.0 {
        return Some(1.0);
    }
    let mut b = BATCHES_MAX.min(series.len());
    loop {
        let edge = |i: usize| i * series.len() / b;
        let batches: Vec<(f64, f64)> = (0..b)
            .map(|i| {
                let batch = &series[edge(i)..edge(i + 1)];
                let sum = |of: fn(&(u64, u64)) -> u64| batch.iter().map(of).sum::<u64>() as f64;
                (sum(|s| s.0), sum(|s| s.1))
            })
            .collect();
        let shares: Vec<f64> = batches.iter().map(|(n, k)| k / n).collect();
        let alike = describe::autocorrelation(&shares, 1).unwrap_or(0.0) > CORRELATION_MAX;
        if alike && b > BATCHES_MIN {
            b = (b / 2).max(BATCHES_MIN);
            continue;
        }
        let chi2: f64 = batches
            .iter()
            .map(|(n, k)| (k - n * share).powi(2) / (n * share * (1.0 - share)))
            .sum();
        return Some((chi2 / (b - 1) as f64).max(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{distribution, noise};
    use iodyno_units::rng;

    const SCALE: f64 = 1e5;
    const TRIALS: u64 = 80;

    /// Simulates `n` intervals of 20 operations each. With `stalls`, one interval in twenty is eight times as
    /// slow, in groups of ten intervals.
    fn window(name: &str, number: u64, n: usize, stalls: bool) -> Vec<Histogram> {
        let mut random = noise::trial(name, number);
        let mut slow = 0;
        (0..n)
            .map(|_| {
                if slow == 0 && stalls && rng::unit_open_closed(&mut random) < 0.005 {
                    slow = 10;
                }
                let factor = if slow > 0 { 8.0 } else { 1.0 };
                slow = usize::saturating_sub(slow, 1);
                let mut h = Histogram::new();
                for z in noise::normals(&mut random, 20) {
                    h.record((SCALE * factor * (0.3 * z).exp()) as u64);
                }
                h.trim();
                h
            })
            .collect()
    }

    /// Fraction of trials whose confidence interval contains the true value, with and without the correction for
    /// correlation.
    fn held(name: &str, stalls: bool, truth: f64) -> (f64, f64) {
        let both = (0..TRIALS).map(|number| {
            let series = window(name, number, 1200, stalls);
            let mut total = Histogram::new();
            series.iter().for_each(|h| total.merge(h));
            let parts: Vec<Vec<&Histogram>> = series.iter().map(|h| vec![h]).collect();
            let holds = |parts: &[Vec<&Histogram>]| {
                let found = within(&total, parts, &[0.99], 0.95)[0].unwrap();
                assert_eq!(found.inflation.is_some(), !parts.is_empty());
                let end = |ns: Option<u64>, none| ns.map_or(none, |ns| ns as f64);
                end(found.low_ns, 0.0) <= truth && truth <= end(found.high_ns, f64::INFINITY)
            };
            (f64::from(u8::from(holds(&parts))), f64::from(u8::from(holds(&[]))))
        });
        let sum = both.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        (sum.0 / TRIALS as f64, sum.1 / TRIALS as f64)
    }

    #[test]
    fn stalls_that_come_together_widen_the_interval() {
        // Renewal process: on average 200 intervals until a stall begins, then a stall of 10; its operations are
        // slower than all others.
        let in_stalls = 10.0 / (199.0 + 10.0);
        let z = distribution::normal_quantile(1.0 - 0.01 / in_stalls);
        let truth = 8.0 * SCALE * (0.3 * z).exp();
        let (corrected, plain) = held("stalls", true, truth);
        assert!(corrected >= 0.88 && plain < 0.6, "{corrected} {plain}");
    }

    #[test]
    fn independent_operations_are_left_alone() {
        let truth = SCALE * (0.3 * distribution::normal_quantile(0.99)).exp();
        let (corrected, plain) = held("alone", false, truth);
        assert!((0.92..=1.0).contains(&corrected) && plain >= 0.91, "{corrected} {plain}");
        let series = window("alone", 0, 1200, false);
        let parts: Vec<Vec<&Histogram>> = series.iter().map(|h| vec![h]).collect();
        let mut total = Histogram::new();
        series.iter().for_each(|h| total.merge(h));
        let found = within(&total, &parts, &[0.5, 0.99, 0.9999], 0.95);
        assert!(found[0].unwrap().inflation.unwrap() < 2.0);
        assert_eq!(found[1].unwrap().count, 24_000);
        assert_eq!(found[2], None, "three operations beyond it are too few");
        // Two kinds of operation in one interval form one part.
        let halves: Vec<Vec<&Histogram>> =
            series.chunks(2).map(|pair| pair.iter().collect()).collect();
        assert!(within(&total, &halves, &[0.99], 0.95)[0].unwrap().inflation.unwrap() < 2.5);
    }
}
