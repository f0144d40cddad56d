//! Quantiles of Student's t, the normal and the binomial distribution. The crate `statrs` provides Student's t and
//! the normal. The binomial ranks are our own, because the binomial of `statrs` 0.19 loses all accuracy at the counts
//! of a histogram of I/Os (statrs issue 434: 2 % off at 10^6, outside 0 to 1 at 10^8).

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::erf::erfc;

/// Degrees of freedom above which Student's t is approximated by the normal distribution. The error of the
/// 97.5 % point is then below 3 parts in 10^5.
const DEGREES_MAX: f64 = 50_000.0;
/// Variance above which the binomial distribution is approximated by the normal. Ranks are then off by at
/// most one in 30 000 standard deviations; an exact sum would take over half a million terms.
const VARIANCE_MAX: f64 = 1e9;

/// The `p` quantile (0 < p < 1) of Student's t distribution with `degrees` ≥ 1 degrees of freedom.
pub fn student_quantile(p: f64, degrees: f64) -> f64 {
    if degrees > DEGREES_MAX {
        return normal_quantile(p);
    }
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::NAN, |t| t.inverse_cdf(p))
}

/// The `p` quantile (0 < p < 1) of the standard normal distribution.
pub fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

/// Probability that the absolute value of a standard normal variable exceeds `z` ≥ 0.
pub fn normal_two_sided(z: f64) -> f64 {
    erfc(z / std::f64::consts::SQRT_2).min(1.0)
}

/// Returns two ranks (1 = smallest) among `n` independent values. The values with these ranks enclose the `q` quantile
/// with a confidence of at least `level`, whatever the distribution. Let N be the number of values up to the quantile;
/// N is binomial (n, q). The lower rank is the largest l with P(N ≤ l − 1) ≤ (1 − level)/2, the upper one the smallest
/// u with P(N ≤ u − 1) ≥ (1 + level)/2 (David and Nagaraja, *Order Statistics*, 2003, section 7.1).
///
/// A lower rank of 0 or an upper rank of n + 1 means that the interval is unbounded on that side, because `n`
/// is too small.
pub fn quantile_ranks(n: u64, q: f64, level: f64) -> Ranks {
    let tail = (1.0 - level) / 2.0;
    let unbounded = Ranks { lower: 0, upper: n.saturating_add(1), level: 1.0 };
    if n == 0 || !(q > 0.0 && q < 1.0) || !(tail > 0.0 && tail < 0.5) {
        return unbounded;
    }
    if n as f64 * q * (1.0 - q) > VARIANCE_MAX {
        return normal_ranks(n, q, tail);
    }
    exact_ranks(n, q, tail)
}

/// Ranks that bound a confidence interval, with the confidence achieved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranks {
    /// Rank of the interval's lower end among the n sorted values, from 1; 0 if the interval has no lower bound.
    pub lower: u64,
    /// Rank of the interval's upper end among the n sorted values, from 1; n + 1 if the interval has no upper bound.
    pub upper: u64,
    /// Confidence achieved, 0 to 1: P(lower ≤ N < upper), where N is the number of values up to the quantile.
    pub level: f64,
}

/// Computes the ranks from exact binomial probabilities. Starting at the most likely count, computes each probability
/// from its neighbour by the ratio of the two, which avoids factorials and differences of large logarithms.
fn exact_ranks(n: u64, q: f64, tail: f64) -> Ranks {
    /// Probabilities below this fraction of the largest are skipped, since they cannot change a sum of doubles.
    const NEGLIGIBLE: f64 = 1e-20;
    let odds = q / (1.0 - q);
    let mode = (((n + 1) as f64 * q) as u64).min(n);
    let mut below = Vec::new();
    let (mut k, mut weight) = (mode, 1.0);
    while k > 0 && weight > NEGLIGIBLE {
        weight *= k as f64 / ((n - k + 1) as f64 * odds);
        k -= 1;
        below.push(weight);
    }
    let first = k;
    let mut weights: Vec<f64> = below.into_iter().rev().collect();
    (k, weight) = (mode, 1.0);
    weights.push(weight);
    while k < n && weight > NEGLIGIBLE {
        weight *= (n - k) as f64 * odds / (k + 1) as f64;
        k += 1;
        weights.push(weight);
    }
    let total: f64 = weights.iter().sum();
    // P(N ≤ l − 1) ≤ tail: count how many of the lowest counts fit within the tail.
    let mut lower = (first, 0.0);
    for w in &weights {
        if lower.1 + w / total > tail {
            break;
        }
        lower = (lower.0 + 1, lower.1 + w / total);
    }
    // P(N ≥ u) ≤ tail, summed from the other end, where small probabilities are not lost next to 1.
    let mut upper = (first + weights.len() as u64, 0.0);
    for w in weights.iter().rev() {
        if upper.1 + w / total > tail {
            break;
        }
        upper = (upper.0 - 1, upper.1 + w / total);
    }
    Ranks { lower: lower.0, upper: upper.0, level: 1.0 - lower.1 - upper.1 }
}

/// Computes the ranks by the normal approximation with continuity correction.
fn normal_ranks(n: u64, q: f64, tail: f64) -> Ranks {
    let (mean, deviation) = (n as f64 * q, (n as f64 * q * (1.0 - q)).sqrt());
    let reach = -normal_quantile(tail) * deviation;
    let lower = (mean - reach + 0.5).floor().max(0.0) as u64;
    let upper = ((mean + reach + 0.5).ceil() as u64).min(n + 1);
    Ranks { lower, upper, level: 1.0 - 2.0 * tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares quantiles with Fisher and Yates' table and with tables of the normal distribution.
    #[test]
    fn quantiles_agree_with_published_tables() {
        let table = [
            (0.975, 1.0, 12.7062),
            (0.975, 2.0, 4.3027),
            (0.975, 5.0, 2.5706),
            (0.975, 9.0, 2.2622),
            (0.975, 29.0, 2.0452),
            (0.95, 9.0, 1.8331),
            (0.995, 30.0, 2.7500),
            (0.975, 120.0, 1.9799),
        ];
        for (p, degrees, t) in table {
            let ours = student_quantile(p, degrees);
            assert!((ours - t).abs() < 6e-5, "{p} {degrees}: {ours}, {t} printed");
            assert!((student_quantile(1.0 - p, degrees) + ours).abs() < 1e-9);
        }
        assert!((normal_quantile(0.975) - 1.959_963_985).abs() < 1e-8);
        assert!((normal_two_sided(1.959_963_985) - 0.05).abs() < 1e-9);
        // Two degrees of freedom have a closed form: t = (2p − 1) √(2 / (4 p (1 − p))).
        for p in [0.6_f64, 0.9, 0.975, 0.995, 0.9999] {
            let closed = (2.0 * p - 1.0) * (2.0 / (4.0 * p * (1.0 - p))).sqrt();
            assert!((student_quantile(p, 2.0) / closed - 1.0).abs() < 1e-9, "{p}");
        }
        // Across the switch to the normal distribution: the first term of Cornish and Fisher's expansion.
        let z = normal_quantile(0.975);
        for degrees in [1e3, 1e4, 4.9e4, 1e6] {
            let expansion = z + (z.powi(3) + z) / (4.0 * degrees);
            assert!((student_quantile(0.975, degrees) - expansion).abs() < 5e-5, "{degrees}");
        }
    }

    /// Compares with published ranks for the median, and tests extreme quantiles.
    #[test]
    fn ranks_agree_with_published_ones() {
        let ranks = |n| {
            let r = quantile_ranks(n, 0.5, 0.95);
            (r.lower, r.upper)
        };
        assert_eq!(ranks(5), (0, 6));
        assert_eq!(ranks(6), (1, 6));
        assert_eq!(ranks(10), (2, 9));
        assert_eq!(ranks(20), (6, 15));
        assert!((quantile_ranks(6, 0.5, 0.95).level - 62.0 / 64.0).abs() < 1e-12);
        // From n = 299 572 on the largest of n values is above p99.999 with 95 %, so the upper end of a 90 % interval
        // exists (each tail has 5 %).
        let upper = |n| quantile_ranks(n, 0.99999, 0.90).upper;
        assert_eq!(upper(299_571), 299_572);
        assert_eq!(upper(299_572), 299_572);
    }

    /// Compares the ranks of high quantiles with those of the Poisson distribution.
    #[test]
    fn tail_ranks_agree_with_poissons_law() {
        let n = 100_000_000;
        for (k, farthest, nearest) in [(5, 11, 1), (10, 18, 4), (30, 42, 20), (100, 121, 81)] {
            let r = quantile_ranks(n, 1.0 - f64::from(k) / n as f64, 0.95);
            let top = |rank| n + 1 - rank;
            // The table is rounded to the nearest rank; ours never covers less than required.
            assert!(top(r.lower).abs_diff(farthest) <= 1, "{k}: {r:?}");
            assert!(top(r.upper).abs_diff(nearest) <= 1, "{k}: {r:?}");
            assert!(r.level >= 0.95 && r.level < 0.99, "{k}: {r:?}");
        }
    }

    /// Compares the ranks with binomial probabilities summed directly.
    #[test]
    fn ranks_agree_with_the_definition() {
        let choose = |n: u64, k: u64| (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
        for n in [1, 2, 7, 40, 100] {
            for q in [0.01, 0.3, 0.5, 0.9, 0.99] {
                let pmf = |k: u64| {
                    choose(n, k) * f64::powi(q, k as i32) * f64::powi(1.0 - q, (n - k) as i32)
                };
                let cdf = |k: i64| (0..=k).map(|i| pmf(i as u64)).sum::<f64>();
                let l = (0..=n as i64).rev().find(|l| cdf(l - 1) <= 0.025).unwrap();
                let u = (1..=n as i64 + 1).find(|u| cdf(u - 1) >= 0.975).unwrap();
                let r = quantile_ranks(n, q, 0.95);
                assert_eq!((r.lower as i64, r.upper as i64), (l, u), "n {n}, q {q}");
                assert!((r.level - (cdf(u - 1) - cdf(l - 1))).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn the_normal_takes_over_without_a_seam() {
        for q in [0.5, 0.99] {
            let (exact, normal) =
                (exact_ranks(4_000_000, q, 0.025), normal_ranks(4_000_000, q, 0.025));
            assert!(exact.lower.abs_diff(normal.lower) <= 2, "{exact:?} {normal:?}");
            assert!(exact.upper.abs_diff(normal.upper) <= 2, "{exact:?} {normal:?}");
        }
        let r = quantile_ranks(u64::MAX / 2, 0.5, 0.95);
        assert!(r.lower < r.upper);
    }
}
