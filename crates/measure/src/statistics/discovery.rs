//! Correction for multiple tests: 56 cells at 5 % give about three false alarms if nothing differs. The correction of
//! Benjamini and Hochberg (*J. Royal Statistical Society* B 57, 1995) keeps the expected share of false claims among
//! all claimed differences below the significance level. Holm's bound on *any* false claim would hide most true
//! differences among many cells.

/// Corrects p-values for the number of tests (Benjamini–Hochberg). A difference may be claimed if its corrected p-value
/// is at most the significance level. Tests without a result (None) are not counted.
pub fn adjusted(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&i| p[i].is_some()).collect();
    order.sort_by(|&i, &j| p[j].partial_cmp(&p[i]).unwrap_or(std::cmp::Ordering::Equal));
    let tests = order.len();
    let mut out = vec![None; p.len()];
    let mut least = 1.0_f64;
    // From the largest p down; its rank among all tests is `tests − k`.
    for (k, &i) in order.iter().enumerate() {
        least = least.min(p[i].unwrap_or(1.0) * (tests as f64 / (tests - k) as f64));
        out[i] = Some(least);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Benjamini and Hochberg's own example, 15 tests of a heart study. At 5 % the procedure claims the four
    /// smallest p-values; Bonferroni's claims three.
    #[test]
    fn the_papers_own_example() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0000,
        ];
        let tests: Vec<Option<f64>> = p.into_iter().map(Some).collect();
        let claimed: Vec<bool> = adjusted(&tests).iter().map(|p| p.unwrap() <= 0.05).collect();
        assert_eq!(claimed.iter().filter(|c| **c).count(), 4);
        assert!(claimed[..4].iter().all(|c| *c));
        assert!((adjusted(&tests)[3].unwrap() - 0.0095 * 15.0 / 4.0).abs() < 1e-12);
    }

    proptest! {
        /// Compares with the procedure as published: find the largest k with p(k) ≤ k/m × level, and claim the k
        /// smallest. The order, and tests without a result, have no effect.
        #[test]
        fn it_is_the_step_up_procedure(
            p in prop::collection::vec(prop::option::weighted(0.8, 0.0_f64..0.2), 0..30),
            level in 0.01_f64..0.2,
        ) {
            let mut rising: Vec<f64> = p.iter().flatten().copied().collect();
            rising.sort_unstable_by(f64::total_cmp);
            let m = rising.len() as f64;
            let k = (1..=rising.len()).rev().find(|&k| rising[k - 1] <= k as f64 / m * level);
            let limit = k.map_or(-1.0, |k| rising[k - 1]);
            for (p, adjusted) in p.iter().zip(adjusted(&p)) {
                prop_assert_eq!(p.is_some(), adjusted.is_some());
                if let (Some(p), Some(adjusted)) = (p, adjusted) {
                    prop_assert!(adjusted >= *p && adjusted <= 1.0);
                    prop_assert_eq!(adjusted <= level, *p <= limit, "{} {} {}", p, adjusted, level);
                }
            }
        }
    }
}
