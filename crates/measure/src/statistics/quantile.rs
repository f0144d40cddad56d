//! Computes a percentile of merged counts, its confidence interval, and whether the percentile may be printed.
//!
//! The estimate is the nearest rank, as in [`Histogram::quantile_ns`]. The interval lies between two order
//! statistics, by the binomial law ([`distribution::quantile_ranks`]), and is valid for any distribution. Its bounds
//! are widened to bucket edges. The width of a bucket, at most 1/128 of the value, is reported as the resolution.
//!
//! The interval assumes that operations are independent. A stall affects all operations in flight together, so on a
//! real target the interval of a far percentile would be too narrow. `inflation` corrects for this: it is the number
//! of correlated operations that count as one independent operation. If whole runs are available, [`super::repeats`]
//! needs no such assumption.

use super::{ConfidenceInterval, distribution};
use crate::Histogram;
use crate::histogram::{Bucket, EXCEEDANCES_MIN, nearest_rank};
use serde::{Deserialize, Serialize};

/// Minimum number of samples beyond a percentile for it to be shown at all; with fewer, its confidence
/// interval has no upper bound.
pub const EXCEEDANCES_HINT: f64 = 5.0;
/// Minimum number of samples beyond a percentile for it to be published; the tail's probability is then known
/// to about a fifth.
pub const EXCEEDANCES_PUBLISH: f64 = 100.0;

/// Reliability of a percentile, by the number of samples beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// Fewer than 5 samples lie beyond the percentile. It must not be printed.
    Hidden,
    /// 5 to 9 samples lie beyond the percentile. It is printed greyed out.
    Weak,
    /// 10 to 99 samples lie beyond the percentile. It is printed, but should not be published.
    Printable,
    /// At least 100 samples lie beyond the percentile. It may be published.
    Publishable,
}

impl Support {
    /// Reliability of quantile `q` (0 to 1) among `count` samples.
    pub fn of(q: f64, count: u64) -> Self {
        let exceed = crate::histogram::exceedances(q, count);
        match () {
            () if exceed >= EXCEEDANCES_PUBLISH => Self::Publishable,
            () if exceed >= EXCEEDANCES_MIN => Self::Printable,
            () if exceed >= EXCEEDANCES_HINT => Self::Weak,
            () => Self::Hidden,
        }
    }
}

/// A percentile with its confidence interval and reliability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The quantile that was estimated, 0 to 1; 0.99 for the 99th percentile.
    pub q: f64,
    /// Estimate of the percentile, ns, computed as in [`Histogram::quantile_ns`].
    pub value_ns: u64,
    /// Histogram bucket that contains the estimate; its width is the resolution.
    pub bucket: Bucket,
    /// Lower bound of the confidence interval, ns (lower edge of a bucket); None if unbounded.
    pub low_ns: Option<u64>,
    /// Upper bound of the confidence interval, ns (highest value of a bucket); None if unbounded.
    pub high_ns: Option<u64>,
    /// Confidence achieved by the choice of ranks, 0 to 1; rounding outwards to bucket edges can only raise it.
    pub level: f64,
    /// Number of samples in the histogram.
    pub count: u64,
    /// Expected number of samples beyond the percentile, on the side with fewer: count × min(q, 1 − q).
    pub exceedances: f64,
    /// Whether enough samples lie beyond the percentile to print or publish it.
    pub support: Support,
}

impl Quantile {
    /// Confidence interval, ns; None if either bound is missing.
    pub fn interval(&self) -> Option<ConfidenceInterval> {
        let (low, high) = (self.low_ns? as f64, self.high_ns? as f64);
        Some(ConfidenceInterval { low, high, level: self.level })
    }
}

/// Computes quantile `q` (0 to 1) with a confidence interval of at least `level`. `inflation` is the number
/// of correlated samples equivalent to one independent sample; 1 if all are independent. None when empty.
pub fn quantile(histogram: &Histogram, q: f64, level: f64, inflation: f64) -> Option<Quantile> {
    let count = histogram.count();
    let rank = nearest_rank(q, count);
    let (value_ns, bucket) = (histogram.quantile_ns(q)?, histogram.bucket_of_rank(rank)?);
    let inflation = inflation.max(1.0);
    let effective = ((count as f64 / inflation) as u64).max(1);
    let ranks = distribution::quantile_ranks(effective, q, level);
    let scale = count as f64 / effective as f64;
    let lower = (ranks.lower as f64 * scale).floor() as u64;
    let upper = if ranks.upper > effective {
        count + 1
    } else {
        (ranks.upper as f64 * scale).ceil() as u64
    };
    // Bucket edges beyond the smallest and largest value are cut off.
    let (min, max) = (histogram.min_ns()?, histogram.max_ns()?);
    Some(Quantile {
        q,
        value_ns,
        bucket,
        low_ns: histogram.bucket_of_rank(lower).map(|b| b.low_ns.max(min)),
        high_ns: histogram
            .bucket_of_rank(upper)
            .map(|b| (b.low_ns + b.width_ns - 1).clamp(min, max)),
        level: ranks.level,
        count,
        exceedances: crate::histogram::exceedances(q, count),
        support: Support::of(q, count),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::noise;
    use proptest::prelude::*;

    /// Simulates log-normal latencies of about 100 µs, with a long tail as storage has.
    fn latencies(number: u64, n: usize) -> (Histogram, Vec<f64>) {
        let mut random = noise::trial("latency", number);
        let values: Vec<f64> =
            noise::normals(&mut random, n).iter().map(|z| 1e5 * (0.8 * z).exp()).collect();
        let mut h = Histogram::new();
        values.iter().for_each(|&v| h.record(v as u64));
        (h, values)
    }

    #[test]
    fn the_interval_of_p99_holds_the_truth() {
        let truth = 1e5 * (0.8 * distribution::normal_quantile(0.99)).exp();
        let share = noise::share(2_000, |i| {
            let (h, _) = latencies(i, 4_000);
            quantile(&h, 0.99, 0.95, 1.0).unwrap().interval().unwrap().contains(truth)
        });
        assert!((0.93..=0.97).contains(&share), "{share}");
    }

    /// Samples in groups of four equal values carry as much information as one independent sample per group.
    #[test]
    fn correlated_samples_need_the_inflation() {
        let truth = 1e5 * (0.8 * distribution::normal_quantile(0.99)).exp();
        let share = |inflation| {
            noise::share(500, |i| {
                let (h, _) = latencies(i, 1_500);
                let mut four = Histogram::new();
                h.buckets().for_each(|b| four.record_n(b.low_ns, 4 * b.count));
                let q = quantile(&four, 0.99, 0.95, inflation).unwrap();
                q.interval().is_some_and(|c| c.contains(truth))
            })
        };
        assert!(share(1.0) < 0.80 && share(4.0) > 0.93, "{} {}", share(1.0), share(4.0));
    }

    #[test]
    fn unsupported_percentiles_have_no_upper_end_and_are_hidden() {
        let (h, _) = latencies(0, 1_000);
        let q = quantile(&h, 0.999, 0.95, 1.0).unwrap();
        assert_eq!((q.support, q.high_ns, q.interval()), (Support::Hidden, None, None));
        assert!(q.low_ns.unwrap() <= q.value_ns);
        let table =
            [(0.99, 499, Support::Hidden), (0.99, 500, Support::Weak), (0.99, 999, Support::Weak)];
        let table = table.into_iter().chain([
            (0.99, 1_000, Support::Printable),
            (0.999, 10_000, Support::Printable),
            (0.99999, 999_999, Support::Weak),
            (0.99999, 1_000_000, Support::Printable),
            (0.99999, 10_000_000, Support::Publishable),
            (0.001, 10_000, Support::Printable),
        ]);
        for (q, n, expected) in table {
            assert_eq!(Support::of(q, n), expected, "{q} of {n}");
        }
        assert_eq!(quantile(&Histogram::new(), 0.5, 0.95, 1.0), None);
    }

    proptest! {
        /// The confidence interval contains the estimate, and its bounds match the ranks in a sorted list to within a
        /// bucket.
        #[test]
        fn it_agrees_with_a_sorted_list(n in 20_usize..600, number: u64, q in 0.05_f64..0.95) {
            let (h, mut values) = latencies(number, n);
            values.sort_unstable_by(f64::total_cmp);
            let found = quantile(&h, q, 0.9, 1.0).unwrap();
            prop_assert_eq!(found.support >= Support::Printable, h.supports(q));
            prop_assert_eq!(Some(found.value_ns), h.quantile_ns(q));
            prop_assert!(found.bucket.width_ns as f64 <= found.value_ns as f64 / 127.0);
            let ranks = distribution::quantile_ranks(n as u64, q, 0.9);
            let at = |rank: u64| values.get((rank as usize).wrapping_sub(1)).map(|v| v.floor());
            prop_assert_eq!(found.low_ns.is_some(), at(ranks.lower).is_some());
            if let (Some(low), Some(value)) = (found.low_ns, at(ranks.lower)) {
                prop_assert!(low as f64 <= value && value <= low as f64 * (1.0 + 1.0 / 127.0) + 1.0);
                prop_assert!(low <= found.value_ns);
            }
            prop_assert_eq!(found.high_ns.is_some(), at(ranks.upper).is_some());
            if let (Some(high), Some(value)) = (found.high_ns, at(ranks.upper)) {
                prop_assert!(high as f64 >= value && value >= high as f64 * (1.0 - 1.0 / 127.0) - 1.0);
                prop_assert!(high >= found.value_ns);
            }
        }
    }
}
