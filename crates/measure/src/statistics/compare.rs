//! Comparison of two configurations, cell by cell, on the values of whole runs, with one verdict per cell.
//!
//! - A difference is claimed if it is both significant and large. It is significant by an exact Mann–Whitney test,
//!   corrected for the number of cells ([`super::discovery`]). It is large if the Hodges–Lehmann shift of the
//!   logarithms reaches a threshold, which is 2 % or the noise floor of an A/A comparison.
//! - Equality is claimed if the whole confidence interval of the shift lies within the threshold. Its confidence of
//!   1 − 2α equals two one-sided tests at the level α (Schuirmann 1987). The reported interval has 1 − α.
//! - Anything else is inconclusive. The smallest shift that the runs would detect is then reported.
//!
//! Runs of A and B must be interleaved in time, or the comparison includes changes over time.

use super::{BadInput, ConfidenceInterval, all_finite, describe, discovery, distribution, rank};
use serde::{Deserialize, Serialize};

/// Whether larger or smaller values of a figure are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A larger value is better, as for IOPS and bandwidth.
    Higher,
    /// A smaller value is better, as for latency.
    Lower,
}

/// Results of one cell under the two configurations to compare, A and B.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Name of the compared figure, such as a cell's name.
    pub name: String,
    /// One value per run of configuration A; all above 0.
    pub a: Vec<f64>,
    /// One value per run of configuration B, in the same unit; all above 0.
    pub b: Vec<f64>,
    pub better: Better,
}

/// Criteria for claiming that A and B differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Criteria {
    /// Smallest relevant shift, as a fraction of A; above 0. Should be at least the noise floor of an A/A
    /// comparison.
    pub threshold_share: f64,
    /// Accepted share of false claims (significance level), above 0 and below 0.5.
    pub alpha: f64,
}

impl Criteria {
    /// Confidence level of the interval that must lie within the threshold for equality: 1 − 2α.
    pub fn same_level(&self) -> f64 {
        1.0 - 2.0 * self.alpha
    }
}

impl Default for Criteria {
    /// Returns a threshold of 2 % and an α of 5 %.
    fn default() -> Self {
        Self { threshold_share: 0.02, alpha: 0.05 }
    }
}

/// Verdict on whether B differs from A in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// B is better than A: faster, or lower in latency.
    Faster,
    /// B is worse than A: slower, or higher in latency.
    Slower,
    /// The confidence interval of the shift at [`Criteria::same_level`] lies within the threshold.
    Same,
    /// The runs prove neither a difference nor equality.
    Inconclusive {
        /// Shift that this number of runs would detect in four of five comparisons at this noise, as a fraction of A.
        /// At least the threshold.
        detectable_share: f64,
    },
    /// Too few runs to show any difference: repeat the cell more often.
    TooFewRuns {
        /// Smallest p-value possible with this number of runs.
        p_min: f64,
        /// Number of runs per configuration needed to show a difference if only one cell is compared.
        runs_needed: u32,
    },
}

/// Result of comparing configurations A and B in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the compared figure, such as a cell's name.
    pub name: String,
    /// Median of the runs of A, in the unit of the values.
    pub median_a: f64,
    /// Median of the runs of B, in the unit of the values.
    pub median_b: f64,
    /// Shift from A to B as a fraction of A, above 0 if B's values are larger. It is the median ratio of a value
    /// of B to a value of A, minus 1 (Hodges–Lehmann on logarithms). It may differ from the ratio of the medians.
    pub shift_share: f64,
    /// Confidence interval of `shift_share`, with a confidence of at least 1 − α; None with too few runs.
    pub interval: Option<ConfidenceInterval>,
    /// Result of the Mann–Whitney test on whether B differs from A.
    pub test: rank::MannWhitney,
    /// p-value corrected for the number of compared cells; None with too few runs.
    pub p_adjusted: Option<f64>,
    /// Verdict on whether B differs from A.
    pub difference: Difference,
}

/// Compares A and B in every cell, and corrects the p-values for the number of cells. The caller must pass all examined
/// cells, not only favourable ones. Each group needs at least one run, and each value must be finite and above 0.
pub fn compare(cells: &[Pair], criteria: &Criteria) -> Result<Vec<Comparison>, BadInput> {
    let Criteria { threshold_share, alpha } = *criteria;
    if !(threshold_share > 0.0 && threshold_share.is_finite() && alpha > 0.0 && alpha < 0.5) {
        return Err(BadInput(format!(
            "a threshold of {threshold_share} and a significance level of {alpha} can't be used: use a threshold above 0 and a significance level between 0 and 0.5"
        )));
    }
    cells.iter().try_for_each(checked)?;
    let tests: Vec<rank::MannWhitney> =
        cells.iter().map(|c| rank::mann_whitney(&c.a, &c.b)).collect();
    let p: Vec<Option<f64>> =
        cells.iter().zip(&tests).map(|(c, test)| can_show(c, alpha).then_some(test.p)).collect();
    let adjusted = discovery::adjusted(&p);
    Ok(cells
        .iter()
        .zip(tests)
        .zip(adjusted)
        .map(|((cell, test), p_adjusted)| conclude(cell, test, p_adjusted, criteria))
        .collect())
}

fn checked(cell: &Pair) -> Result<(), BadInput> {
    for (group, runs) in [("A", &cell.a), ("B", &cell.b)] {
        let what = format!("{}, configuration {group}", cell.name);
        all_finite(&what, runs)?;
        if runs.is_empty() || runs.iter().any(|v| *v <= 0.0) {
            return Err(BadInput(format!(
                "{what}: a comparison needs one value above 0 from each run; leave out cells that were not measured"
            )));
        }
    }
    Ok(())
}

/// Whether the number of runs suffices to show at least a very large difference.
fn can_show(cell: &Pair, alpha: f64) -> bool {
    rank::smallest_p(cell.a.len(), cell.b.len()) <= alpha
}

fn conclude(
    cell: &Pair,
    test: rank::MannWhitney,
    p_adjusted: Option<f64>,
    criteria: &Criteria,
) -> Comparison {
    let Criteria { threshold_share, alpha } = *criteria;
    let shift = rank::log_shift(&cell.a, &cell.b, 1.0 - alpha);
    let shift_share = shift.shift.exp_m1();
    let interval = shift.interval.map(share_of_logarithms);
    let same = rank::log_shift(&cell.a, &cell.b, criteria.same_level())
        .interval
        .is_some_and(|i| share_of_logarithms(i).within(threshold_share));
    let shown = p_adjusted.is_some_and(|p| p <= alpha);
    let difference = if let (None, _) | (_, None) = (p_adjusted, interval) {
        too_few(cell, alpha)
    } else if shown && shift_share.abs() >= threshold_share {
        let larger = shift_share > 0.0;
        if larger == (cell.better == Better::Higher) {
            Difference::Faster
        } else {
            Difference::Slower
        }
    } else if same {
        Difference::Same
    } else {
        // A shift as large as the half width is detected in half of the comparisons, and in four of five if it is
        // larger by the 80 % point of the normal distribution, in standard errors.
        let (reach, power) =
            (distribution::normal_quantile(1.0 - alpha / 2.0), distribution::normal_quantile(0.8));
        let half_width = shift.interval.map_or(f64::INFINITY, |i| i.half_width());
        let detectable = half_width * (1.0 + power / reach);
        let detectable_share = detectable.exp_m1().max(threshold_share);
        Difference::Inconclusive { detectable_share }
    };
    Comparison {
        name: cell.name.clone(),
        median_a: describe::median(&cell.a),
        median_b: describe::median(&cell.b),
        shift_share,
        interval,
        test,
        p_adjusted,
        difference,
    }
}

/// Converts a confidence interval of log ratios to one of relative shifts.
fn share_of_logarithms(interval: ConfidenceInterval) -> ConfidenceInterval {
    let ConfidenceInterval { low, high, level } = interval;
    ConfidenceInterval { low: low.exp_m1(), high: high.exp_m1(), level }
}

fn too_few(cell: &Pair, alpha: f64) -> Difference {
    let p_min = rank::smallest_p(cell.a.len(), cell.b.len());
    Difference::TooFewRuns { p_min, runs_needed: runs_for(1, alpha) }
}

/// Maximum number of runs that the search considers. C(2n, n) grows fourfold per run, and exceeds the range
/// of a double.
const RUNS_MAX: u32 = 600;

/// Number of runs per configuration needed to show a difference in one of `cells` cells, after the correction for the
/// number of cells; at most 600.
pub fn runs_for(cells: usize, alpha: f64) -> u32 {
    let enough = |n: &u32| rank::smallest_p(*n as usize, *n as usize) * cells as f64 <= alpha;
    (2..RUNS_MAX).find(enough).unwrap_or(RUNS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::noise::{ar1, share, trial};
    use proptest::prelude::*;

    fn pair(a: Vec<f64>, b: Vec<f64>, better: Better) -> Pair {
        Pair { name: "read".to_owned(), a, b, better }
    }

    fn one(pair: Pair) -> Comparison {
        compare(&[pair], &Criteria::default()).unwrap().remove(0)
    }

    /// Simulates `n` runs per configuration, with B larger by the fraction `shift` and a coefficient of variation
    /// `cv`.
    fn runs(name: &str, i: u64, n: usize, shift: f64, cv: f64) -> Pair {
        let mut random = trial(name, i);
        let a = ar1(&mut random, n, 1e5, cv, 0.0);
        let b = ar1(&mut random, n, 1e5 * (1.0 + shift), cv, 0.0);
        pair(a, b, Better::Higher)
    }

    fn is_open(d: Difference) -> bool {
        matches!(d, Difference::Same | Difference::Inconclusive { .. })
    }

    #[test]
    fn a_against_a_claims_nothing() {
        for (n, cv) in [(10, 0.02), (5, 0.05), (10, 0.002)] {
            let quiet = share(2_000, |i| is_open(one(runs("A/A", i, n, 0.0, cv)).difference));
            assert!(quiet >= 0.95, "{n} runs, {cv}: {quiet}");
        }
        let same =
            share(500, |i| one(runs("A/A", i, 10, 0.0, 0.005)).difference == Difference::Same);
        assert!(same > 0.95, "{same}");
    }

    #[test]
    fn a_true_shift_is_found() {
        for (better, expected) in
            [(Better::Higher, Difference::Faster), (Better::Lower, Difference::Slower)]
        {
            let found = share(1_000, |i| {
                one(Pair { better, ..runs("A/B", i, 10, 0.05, 0.02) }).difference == expected
            });
            assert!(found >= 0.95, "{found}");
        }
        let slower =
            share(200, |i| one(runs("A/B", i, 10, -0.05, 0.02)).difference == Difference::Slower);
        assert!(slower >= 0.95, "{slower}");
    }

    /// A shift exactly at the threshold is judged `Same` in at most a fraction α of the trials.
    #[test]
    fn sameness_is_shown_and_not_assumed() {
        let wrong =
            share(1_000, |i| one(runs("edge", i, 10, 0.02, 0.01)).difference == Difference::Same);
        assert!(wrong <= 0.06, "{wrong}");
        // Noise hides everything: the verdict is inconclusive, not the same.
        let open =
            share(200, |i| one(runs("noisy", i, 6, 0.0, 0.10)).difference == Difference::Same);
        assert!(open < 0.02, "{open}");
    }

    #[test]
    fn the_detectable_shift_is_detected_four_times_of_five() {
        let (mut sum, mut open) = (0.0, 0.0);
        for i in 0..300 {
            if let Difference::Inconclusive { detectable_share } =
                one(runs("detect", i, 10, 0.0, 0.03)).difference
            {
                sum += detectable_share;
                open += 1.0;
            }
        }
        let detectable = sum / open;
        let found = share(1_000, |i| {
            one(runs("detected", i, 10, detectable, 0.03)).difference == Difference::Faster
        });
        assert!(open > 200.0 && (0.72..=0.88).contains(&found), "{detectable}: {found}");
    }

    #[test]
    fn three_runs_show_nothing_and_the_result_reports_it() {
        let c = one(pair(vec![1.0, 1.1, 1.2], vec![9.0, 9.1, 9.2], Better::Higher));
        let Difference::TooFewRuns { p_min, runs_needed } = c.difference else {
            panic!("{c:?}");
        };
        assert!((p_min - 0.1).abs() < 1e-12 && runs_needed == 4);
        // 2/C(10, 5) × 6 is 0.0476; with one more cell it is too large.
        assert_eq!((runs_for(6, 0.05), runs_for(7, 0.05)), (5, 6));
        assert_eq!((c.interval, c.p_adjusted), (None, None));
        let c = one(pair(vec![1.0, 1.1, 1.2, 1.3], vec![9.0, 9.1, 9.2, 9.3], Better::Lower));
        assert_eq!(c.difference, Difference::Slower);
        // At a level of 10 % three runs are just enough.
        let three = pair(vec![1.0, 1.1, 1.2], vec![9.0, 9.1, 9.2], Better::Higher);
        let lax = Criteria { alpha: 0.1, ..Criteria::default() };
        assert_eq!(compare(&[three], &lax).unwrap()[0].difference, Difference::Faster);
        // Eight runs against two can show it (p = 2/45).
        let a = (0..8).map(|i| 10.0 + f64::from(i)).collect();
        assert_eq!(one(pair(a, vec![1.0, 2.0], Better::Lower)).difference, Difference::Faster);
        assert!(
            compare(&[pair(vec![1.0, 0.0], vec![1.0], Better::Lower)], &Criteria::default())
                .is_err()
        );
        assert!(compare(&[pair(vec![], vec![1.0], Better::Lower)], &Criteria::default()).is_err());
        assert!(compare(&[], &Criteria { alpha: 0.5, ..Criteria::default() }).is_err());
    }

    /// Latencies that vary by an order of magnitude. The shift is a ratio minus 1, so it cannot fall below −100 %. A
    /// difference divided by A's median could (−103.6 % for these values).
    #[test]
    fn no_shift_is_below_minus_a_hundred_percent() {
        let a = vec![1_000.0, 1_050.0, 1_090.0, 1_130.0, 1_180.0];
        let b = vec![60.0, 80.0, 110.0, 130.0, 190.0];
        let c = one(pair(a.clone(), b.clone(), Better::Lower));
        let interval = c.interval.unwrap();
        assert!(c.difference == Difference::Faster && interval.contains(c.shift_share), "{c:?}");
        assert!(-1.0 < interval.low && interval.high < -0.8, "{interval:?}");
        // The swapped comparison gives the reciprocal, up to rounding.
        let back = one(pair(b, a, Better::Lower));
        let product = (1.0 + back.shift_share) * (1.0 + c.shift_share);
        assert!((product - 1.0).abs() < 1e-12 && back.interval.unwrap().high > 5.0, "{back:?}");
    }

    /// A real difference below the threshold is judged `Same`.
    #[test]
    fn a_small_shift_is_the_same() {
        let c = one(runs("small", 0, 12, 0.01, 0.001));
        assert!(c.test.p < 1e-4 && c.difference == Difference::Same, "{c:?}");
        assert!((c.shift_share - 0.01).abs() < 0.002 && c.interval.unwrap().contains(0.01));
    }

    /// If none of 56 cells differs, nearly always no difference is claimed. Without the correction, two or three would
    /// be claimed in almost every matrix.
    #[test]
    fn a_matrix_of_cells_is_corrected() {
        let mut uncorrected = 0;
        let quiet = share(100, |i| {
            let cells: Vec<Pair> =
                (0..56).map(|k| runs("matrix", 56 * i + k, 8, 0.0, 0.05)).collect();
            let compared = compare(&cells, &Criteria::default()).unwrap();
            uncorrected += compared.iter().filter(|c| c.test.p <= 0.05).count();
            compared.iter().all(|c| is_open(c.difference))
        });
        assert!(quiet >= 0.93 && uncorrected > 100, "{quiet}, {uncorrected} uncorrected");
    }

    proptest! {
        /// Unit and order of the values have no effect. Swapping A and B, or the direction of improvement, reverses
        /// the verdict.
        #[test]
        fn the_invariances(i: u64, shift in -0.2_f64..0.2, power in -30_i32..30) {
            let p = runs("invariant", i, 7, shift, 0.02);
            let c = one(p.clone());
            let scale = |v: &[f64]| v.iter().rev().map(|x| x * 2_f64.powi(power)).collect();
            let scaled = one(pair(scale(&p.a), scale(&p.b), p.better));
            prop_assert_eq!(scaled.difference, c.difference);
            prop_assert_eq!((scaled.shift_share, scaled.interval), (c.shift_share, c.interval));
            prop_assert!(c.interval.is_some_and(|i| -1.0 < i.low && i.low <= i.high));
            let opposite = |d| match d {
                Difference::Faster => Difference::Slower,
                Difference::Slower => Difference::Faster,
                other => other,
            };
            let lower = one(Pair { better: Better::Lower, ..p.clone() });
            prop_assert_eq!(lower.difference, opposite(c.difference));
            // The share is of the other median: the verdict is reversed unless it is close to the threshold.
            let swapped = one(pair(p.b, p.a, p.better));
            prop_assert!((swapped.test.p - c.test.p).abs() < 1e-12);
            if c.shift_share.abs() > 0.03 && !is_open(c.difference) {
                prop_assert_eq!(swapped.difference, opposite(c.difference));
            }
        }
    }
}
