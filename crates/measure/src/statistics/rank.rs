//! Comparison of two groups of runs by ranks: the test of Mann and Whitney (1947; Wilcoxon 1945), and the shift of
//! Hodges and Lehmann (1963) with its confidence interval. The only assumption is that the runs are exchangeable if
//! there is no difference. Source: Hollander, Wolfe and Chicken, *Nonparametric Statistical Methods*, 3rd edition,
//! chapter 4.
//!
//! Up to [`EXACT_MAX`] runs in both groups together, the distribution is exact, including ties. For more runs it is
//! the normal approximation, with corrections for continuity and ties. `statrs` is not used, because its exact test
//! ignores ties.

use super::{ConfidenceInterval, describe, distribution};
use serde::{Deserialize, Serialize};

/// Maximum number of runs of both groups together for the exact distribution. Up to this number all counts
/// are exact in an `f64` (C(50, 25) ≈ 1.3 × 10^14), and the sum takes milliseconds.
pub const EXACT_MAX: usize = 50;

/// Result of a two-sided Mann–Whitney test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MannWhitney {
    /// Mann–Whitney U: the number of pairs in which B's value exceeds A's, plus half of the ties.
    pub u: f64,
    /// Two-sided p-value: the probability of a U at least this far from its expected value if A and B do not
    /// differ.
    pub p: f64,
    /// Whether `p` is exact, rather than a normal approximation.
    pub exact: bool,
}

/// Tests whether B's values tend to be larger or smaller than A's. All values must be finite; if a group is empty, p
/// is 1.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> MannWhitney {
    let (n, m) = (a.len(), b.len());
    let total = n + m;
    if n == 0 || m == 0 {
        return MannWhitney { u: 0.0, p: 1.0, exact: true };
    }
    let (doubled, sum_b, ties) = doubled_midranks(a, b);
    // Twice U, and twice its distance from the middle.
    let u2 = sum_b - m * (m + 1);
    let distance2 = u2.abs_diff(n * m);
    let u = u2 as f64 / 2.0;
    if total <= EXACT_MAX {
        let ways = ways_by_sum(&doubled, m);
        let middle = m * (m + 1) + n * m;
        let far: f64 = ways
            .iter()
            .enumerate()
            .filter(|(s, _)| s.abs_diff(middle) >= distance2)
            .map(|x| x.1)
            .sum();
        return MannWhitney { u, p: far / ways.iter().sum::<f64>(), exact: true };
    }
    let (nf, mf, tf) = (n as f64, m as f64, total as f64);
    let variance = nf * mf / 12.0 * (tf + 1.0 - ties / (tf * (tf - 1.0)));
    let z = (distance2 as f64 / 2.0 - 0.5).max(0.0) / variance.sqrt();
    let p = if variance > 0.0 { distribution::normal_two_sided(z) } else { 1.0 };
    MannWhitney { u, p, exact: false }
}

/// Returns twice the midrank of every value of A and B, the sum of these for B, and Σ (t³ − t) over all sets of t tied
/// values.
fn doubled_midranks(a: &[f64], b: &[f64]) -> (Vec<usize>, usize, f64) {
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|&v| (v, false)).chain(b.iter().map(|&v| (v, true))).collect();
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    let (mut doubled, mut sum_b, mut ties) = (Vec::with_capacity(all.len()), 0, 0.0);
    // −0 and 0 are equal as numbers, so groups are by `==`.
    #[expect(clippy::float_cmp, reason = "equal measurements are ties")]
    for group in all.chunk_by(|x, y| x.0 == y.0) {
        let (before, t) = (doubled.len(), group.len());
        let rank2 = 2 * before + t + 1;
        doubled.extend(std::iter::repeat_n(rank2, t));
        sum_b += rank2 * group.iter().filter(|x| x.1).count();
        ties += (t as f64).powi(3) - t as f64;
    }
    (doubled, sum_b, ties)
}

/// Counts the ways to choose `m` of the `ranks`, by dynamic programming. The result is indexed by the sum of the chosen
/// ranks. `ranks` are doubled midranks, because midranks need not be whole numbers.
fn ways_by_sum(ranks: &[usize], m: usize) -> Vec<f64> {
    let highest: usize = ranks.iter().rev().take(m).sum();
    let mut ways = vec![vec![0.0_f64; highest + 1]; m + 1];
    ways[0][0] = 1.0;
    let mut reach = 0;
    for (i, &rank) in ranks.iter().enumerate() {
        reach = (reach + rank).min(highest);
        for chosen in (1..=m.min(i + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(chosen);
            for (to, from) in more[0][rank.min(highest)..=reach].iter_mut().zip(&fewer[chosen - 1])
            {
                *to += from;
            }
        }
    }
    ways.swap_remove(m)
}

/// Smallest two-sided p-value that groups of `n` and `m` runs without ties can give: 2 / C(n + m, n).
pub fn smallest_p(n: usize, m: usize) -> f64 {
    let (few, many) = (n.min(m), n.max(m));
    let choices = (1..=few).fold(1.0, |c, i| c * (many + i) as f64 / i as f64);
    (2.0 / choices).min(1.0)
}

/// Estimated shift from group A to group B.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Hodges–Lehmann estimate: the median of all differences b − a, in the unit of the values.
    pub shift: f64,
    /// Confidence interval of the shift, bounded by two of the differences b − a. None with too few runs for the
    /// requested confidence.
    pub interval: Option<ConfidenceInterval>,
}

/// Estimates the shift from A to B with a confidence interval of at least `level`, consistent with the
/// Mann–Whitney test. The shift is NaN if a group is empty.
pub fn shift(a: &[f64], b: &[f64], level: f64) -> Shift {
    shift_of(a, b, level, |a, b| b - a)
}

/// Like [`shift`], but for ratios of values above 0: estimates the shift of their natural logarithms, which
/// is the logarithm of the median ratio of a value of B to a value of A.
pub fn log_shift(a: &[f64], b: &[f64], level: f64) -> Shift {
    shift_of(a, b, level, |a, b| (b / a).ln())
}

fn shift_of(a: &[f64], b: &[f64], level: f64, difference: impl Fn(f64, f64) -> f64) -> Shift {
    let of = |b: &f64| a.iter().map(|a| difference(*a, *b)).collect::<Vec<_>>();
    let differences = describe::sorted(&b.iter().flat_map(of).collect::<Vec<_>>());
    let (cut, level) = pairs_cut(a.len(), b.len(), level);
    let interval = (cut > 0).then(|| ConfidenceInterval {
        low: differences[cut - 1],
        high: differences[differences.len() - cut],
        level,
    });
    Shift { shift: describe::median(&differences), interval }
}

/// Returns the largest c with P(U ≤ c − 1) ≤ (1 − level)/2, and the confidence achieved. The c-th smallest and the c-th
/// largest difference are the ends of the interval. c is 0 if there is no interval.
fn pairs_cut(n: usize, m: usize, level: f64) -> (usize, f64) {
    // (1 − 0.9)/2 is a little less than 1/20, which three against three runs reach exactly.
    let (tail, total) = ((1.0 - level) / 2.0 * (1.0 + 1e-9), n + m);
    if n == 0 || m == 0 {
        return (0, 1.0);
    }
    if total > EXACT_MAX {
        let (nf, mf) = (n as f64, m as f64);
        let reach = distribution::normal_quantile(tail) * (nf * mf * (nf + mf + 1.0) / 12.0).sqrt();
        return ((nf * mf / 2.0 + reach).floor().max(0.0) as usize, level);
    }
    // Without ties, rank i counts 2i, and a sum of 2 (m(m+1)/2 + u) is a U of u.
    let ranks: Vec<usize> = (1..=total).map(|i| 2 * i).collect();
    let ways = ways_by_sum(&ranks, m);
    let choices: f64 = ways.iter().sum();
    let (mut cut, mut below) = (0, 0.0);
    for way in ways.iter().skip(m * (m + 1)).step_by(2) {
        let p = below + way / choices;
        if p > tail {
            break;
        }
        (cut, below) = (cut + 1, p);
    }
    (cut, 1.0 - 2.0 * below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::noise::{ar1, share, trial};
    use proptest::prelude::*;

    /// Compares with the largest significant U at 5 % (two-sided) in textbook tables.
    #[test]
    fn critical_values_agree_with_the_published_table() {
        let critical = |n: usize, m: usize| {
            let (cut, _) = pairs_cut(n, m, 0.95);
            cut.checked_sub(1)
        };
        let equal = [2, 5, 8, 13, 17, 23, 30, 37, 45, 55, 64, 75, 87, 99, 113, 127];
        for (n, u) in (5..=20).zip(equal) {
            assert_eq!(critical(n, n), Some(u), "{n} against {n}");
        }
        let ten = [8, 11, 14, 17, 20, 23, 26, 29, 33, 36, 39, 42, 45, 48, 52, 55];
        for (m, u) in (5..=20).zip(ten) {
            assert_eq!((critical(10, m), critical(m, 10)), (Some(u), Some(u)), "10 against {m}");
        }
        assert_eq!((critical(3, 3), critical(4, 4)), (None, Some(0)));
    }

    /// The smallest possible p-value is 2 divided by a binomial coefficient.
    #[test]
    fn the_smallest_p_of_few_runs() {
        for (n, p) in
            [(3, 0.1), (4, 2.0 / 70.0), (5, 2.0 / 252.0), (6, 2.0 / 924.0), (10, 2.0 / 184_756.0)]
        {
            assert!((smallest_p(n, n) - p).abs() < 1e-12);
            let a: Vec<f64> = (0..n).map(|i| i as f64).collect();
            let b: Vec<f64> = a.iter().map(|v| v + 100.0).collect();
            let test = mann_whitney(&a, &b);
            assert!((test.p - p).abs() < 1e-12 && (test.u - (n * n) as f64).abs() < 1e-12);
        }
    }

    /// Computes the p-value by enumerating every division of the values into two groups.
    fn brute(a: &[f64], b: &[f64]) -> f64 {
        let all: Vec<f64> = a.iter().chain(b).copied().collect();
        let u_of = |in_b: u32| {
            let mut u = 0.0;
            for (i, x) in all.iter().enumerate().filter(|(i, _)| in_b >> i & 1 == 0) {
                for (j, y) in all.iter().enumerate().filter(|(j, _)| in_b >> j & 1 == 1) {
                    assert_ne!(i, j);
                    u += match x.total_cmp(y) {
                        std::cmp::Ordering::Less => 1.0,
                        std::cmp::Ordering::Equal => 0.5,
                        std::cmp::Ordering::Greater => 0.0,
                    };
                }
            }
            u
        };
        let middle = (a.len() * b.len()) as f64 / 2.0;
        let observed = (u_of(((1 << b.len()) - 1) << a.len()) - middle).abs();
        let masks = (0..1_u32 << all.len()).filter(|m| m.count_ones() as usize == b.len());
        let (mut far, mut ways) = (0.0, 0.0);
        for mask in masks {
            ways += 1.0;
            far += f64::from(u8::from((u_of(mask) - middle).abs() >= observed));
        }
        far / ways
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Compares the p-value with the enumeration, for values with many ties.
        #[test]
        fn p_agrees_with_enumeration(
            a in prop::collection::vec(0_u8..6, 1..6), b in prop::collection::vec(0_u8..6, 1..6),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) =
                (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
            prop_assert!((mann_whitney(&a, &b).p - brute(&a, &b)).abs() < 1e-12);
        }

        /// Reordering a group has no effect, changing the unit only scales the shift, and swapping the groups
        /// reverses it.
        #[test]
        fn the_invariances(
            a in prop::collection::vec(1.0_f64..2.0, 3..12),
            b in prop::collection::vec(1.0_f64..2.0, 3..12),
            power in -40_i32..40,
        ) {
            let mut all = [a.clone(), b.clone()].concat();
            all.sort_unstable_by(f64::total_cmp);
            all.dedup();
            prop_assume!(all.len() == a.len() + b.len());
            let test = mann_whitney(&a, &b);
            let s = shift(&a, &b, 0.95);
            let turned: Vec<f64> = a.iter().rev().copied().collect();
            prop_assert_eq!(mann_whitney(&turned, &b), test);
            prop_assert_eq!(shift(&turned, &b, 0.95), s);
            let scale = |v: &[f64]| -> Vec<f64> { v.iter().map(|x| x * 2_f64.powi(power)).collect() };
            prop_assert_eq!(mann_whitney(&scale(&a), &scale(&b)), test);
            prop_assert_eq!(shift(&scale(&a), &scale(&b), 0.95).shift, s.shift * 2_f64.powi(power));
            let swapped = mann_whitney(&b, &a);
            prop_assert!((swapped.p - test.p).abs() < 1e-12);
            prop_assert!((swapped.u + test.u - (a.len() * b.len()) as f64).abs() < 1e-12);
            let back = shift(&b, &a, 0.95);
            prop_assert!((back.shift + s.shift).abs() < 1e-12);
            if let (Some(back), Some(there)) = (back.interval, s.interval) {
                prop_assert_eq!((back.low, back.high), (-there.high, -there.low));
            }
            // The interval is the set of shifts that the test does not reject.
            if let Some(i) = s.interval {
                let p_at = |by: f64| {
                    let moved: Vec<f64> = b.iter().map(|v| v - by).collect();
                    mann_whitney(&a, &moved).p
                };
                prop_assert!(p_at(i.low + 1e-9) > 1.0 - i.level && p_at(i.high - 1e-9) > 1.0 - i.level);
                prop_assert!(p_at(i.low - 1e-9) <= 0.05 && p_at(i.high + 1e-9) <= 0.05);
            }
        }
    }

    #[test]
    fn many_runs_are_close_to_exact_and_to_another_implementation() {
        for tied in [false, true] {
            let round = |v: f64| if tied { v.round() } else { v };
            let group = |name: &str, n, mean| -> Vec<f64> {
                ar1(&mut trial(name, 5), n, mean, 0.02, 0.0).into_iter().map(round).collect()
            };
            let (a, b) = (group("many a", 30, 100.0), group("many b", 33, 101.0));
            let test = mann_whitney(&a, &b);
            assert!(!test.exact);
            // The result of statrs 0.19, by another implementation.
            let p = if tied { 0.070_687_399_797 } else { 0.062_215_420_187 };
            assert!((p - test.p).abs() < 1e-9, "{}", test.p);
            // At the threshold the approximation must not jump.
            let (doubled, sum_b, _) = doubled_midranks(&a, &b);
            let ways = ways_by_sum(&doubled, b.len());
            let (m, n) = (b.len(), a.len());
            let (middle, at) = (m * (m + 1) + n * m, sum_b.abs_diff(m * (m + 1) + n * m));
            let far: f64 = ways
                .iter()
                .enumerate()
                .filter(|(s, _)| s.abs_diff(middle) >= at)
                .map(|w| w.1)
                .sum();
            let exact = far / ways.iter().sum::<f64>();
            assert!((exact - test.p).abs() < 0.002, "{exact} exact, {} approximated", test.p);
        }
        let (a, b) = (vec![3.0; 30], vec![3.0; 30]);
        assert!((mann_whitney(&a, &b).p - 1.0).abs() < 1e-12);
        let (exact, _) = pairs_cut(25, 25, 0.95);
        let (normal, _) = pairs_cut(25, 26, 0.95);
        assert!(normal >= exact && normal <= exact + 12, "{exact}, {normal}");
    }

    #[test]
    fn intervals_of_the_shift_hold_the_truth() {
        for (n, m) in [(5, 5), (10, 10), (30, 30)] {
            let mut level = 0.0;
            let held = share(1_000, |i| {
                let a = ar1(&mut trial("shift a", i), n, 100.0, 0.03, 0.0);
                let b: Vec<f64> = ar1(&mut trial("shift b", i), m, 100.0, 0.03, 0.0)
                    .iter()
                    .map(|v| v + 4.0)
                    .collect();
                let interval = shift(&a, &b, 0.95).interval.unwrap();
                level = interval.level;
                interval.contains(4.0)
            });
            assert!(level >= 0.95 && (held - level).abs() < 0.015, "{n}: {held}, {level} claimed");
        }
    }
}
