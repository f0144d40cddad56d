//! Demerit figure of a disk model: the root mean square of the horizontal distance between the response-time
//! distributions of model and original, divided by the original's mean (C. Ruemmler, J. Wilkes: "An introduction to
//! disk drive modeling", IEEE Computer, 1994).
//!
//! The horizontal distance is that at equal probability; its mean square is ∫₀¹ (F⁻¹(p) − G⁻¹(p))² dp. A histogram's
//! quantile function is taken as piecewise linear (values are evenly spread within a bucket), so that the integral is
//! exact.

use iodyno_measure::Histogram;

/// A piecewise linear quantile function, given by points of (probability, time), both non-decreasing. Two points of
/// equal probability form a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles(Vec<(f64, f64)>);

impl Quantiles {
    /// Creates the function through points of (probability, time in any unit).
    ///
    /// # Errors
    ///
    /// The points do not begin at probability 0 and end at 1, a coordinate decreases, or a time is not finite.
    pub fn new(points: Vec<(f64, f64)>) -> Result<Self, String> {
        let ends =
            points.first().map(|p| p.0) == Some(0.0) && points.last().map(|p| p.0) == Some(1.0);
        if !ends {
            return Err("a quantile function must begin at probability 0 and end at 1".to_owned());
        }
        let rises = |w: &[(f64, f64)]| w[0].0 <= w[1].0 && w[0].1 <= w[1].1;
        if !points.windows(2).all(rises) || points.iter().any(|p| !p.1.is_finite()) {
            return Err("a quantile function must not fall".to_owned());
        }
        Ok(Self(points))
    }

    /// The quantile function of a histogram, in ns; None if it is empty.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let (min, max) = (histogram.min_ns()? as f64, histogram.max_ns()? as f64);
        let count = histogram.count() as f64;
        let mut seen = 0_u64;
        let mut points = Vec::new();
        for bucket in histogram.buckets() {
            let low = bucket.low_ns as f64;
            let high = (bucket.low_ns + bucket.width_ns - 1) as f64;
            points.push((seen as f64 / count, low.clamp(min, max)));
            seen += bucket.count;
            points.push((seen as f64 / count, high.clamp(min, max)));
        }
        Some(Self(points))
    }

    /// Mean of the distribution, in the unit of its points: the area under the quantile function.
    pub fn mean(&self) -> f64 {
        self.0.windows(2).map(|w| (w[1].0 - w[0].0) * (w[0].1 + w[1].1) / 2.0).sum()
    }
}

/// Demerit figure of a model (root mean square distance of the quantile functions), as a fraction of the
/// original's mean. None if that mean is 0.
pub fn demerit(original: &Quantiles, model: &Quantiles) -> Option<f64> {
    let mean = original.mean();
    (mean > 0.0).then(|| squared_distance(&original.0, &model.0).sqrt() / mean)
}

/// Computes ∫₀¹ (a − b)² dp exactly. Between neighbouring points of `a` and `b`, both functions are straight
/// lines.
fn squared_distance(a: &[(f64, f64)], b: &[(f64, f64)]) -> f64 {
    let (mut i, mut j) = (0, 0);
    let mut from = 0.0;
    let mut sum = 0.0;
    while i + 1 < a.len() && j + 1 < b.len() {
        let to = a[i + 1].0.min(b[j + 1].0);
        if to > from {
            let d0 = on(a, i, from) - on(b, j, from);
            let d1 = on(a, i, to) - on(b, j, to);
            sum += (to - from) * (d0 * d0 + d0 * d1 + d1 * d1) / 3.0;
            from = to;
        }
        if a[i + 1].0 <= to {
            i += 1;
        } else {
            j += 1;
        }
    }
    sum
}

/// Interpolates at probability `p` between point `i` and the next point.
fn on(points: &[(f64, f64)], i: usize, p: f64) -> f64 {
    let ((p0, x0), (p1, x1)) = (points[i], points[i + 1]);
    if p1 > p0 { x0 + (x1 - x0) * (p - p0) / (p1 - p0) } else { x1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uniform(low: f64, high: f64) -> Quantiles {
        Quantiles::new(vec![(0.0, low), (1.0, high)]).unwrap()
    }

    #[track_caller]
    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} where {expected} was expected");
    }

    #[test]
    fn closed_forms() {
        // Uniform on [0, a] against [0, b]: the distance at p is (b − a)·p.
        near(
            demerit(&uniform(0.0, 6.0), &uniform(0.0, 9.0)).unwrap(),
            3.0 / 3_f64.sqrt() / 3.0,
            1e-12,
        );
        // Two constant distributions.
        near(demerit(&uniform(5.0, 5.0), &uniform(8.0, 8.0)).unwrap(), 0.6, 1e-12);
        // A distribution with half of its values at 1 and half at 3, against the mean of both.
        let two = Quantiles::new(vec![(0.0, 1.0), (0.5, 1.0), (0.5, 3.0), (1.0, 3.0)]).unwrap();
        near(two.mean(), 2.0, 1e-12);
        near(demerit(&two, &uniform(2.0, 2.0)).unwrap(), 0.5, 1e-12);
        assert_eq!(demerit(&uniform(0.0, 0.0), &two), None);
        assert!(Quantiles::new(vec![(0.0, 2.0), (1.0, 1.0)]).is_err());
        assert!(Quantiles::new(vec![(0.1, 1.0), (1.0, 1.0)]).is_err());
        assert_eq!(Quantiles::of(&Histogram::new()), None);
    }

    /// Quantile function of equally likely values, which consists of steps.
    fn steps(values: &[f64]) -> Quantiles {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len() as f64;
        let step = |(i, &v): (usize, &f64)| [(i as f64 / n, v), ((i + 1) as f64 / n, v)];
        Quantiles::new(sorted.iter().enumerate().flat_map(step).collect()).unwrap()
    }

    /// Root mean square distance of two quantile functions, not divided by a mean.
    fn apart(a: &Quantiles, b: &Quantiles) -> f64 {
        demerit(a, b).unwrap() * a.mean()
    }

    /// Compares with a closed form: for exponential response times with means 1 and k, the distance at p is `k - 1`
    /// times the quantile, whose mean square is 2. (Chords over 200 000 equal steps of probability miss less
    /// than 1/10 000 of the tail.)
    #[test]
    fn exponential_against_exponential() {
        let exponential = |mean: f64| {
            let n = 200_000;
            let at = |i: i32| (f64::from(i) / f64::from(n), f64::from(i) / f64::from(n));
            let mut points: Vec<(f64, f64)> =
                (0..n).map(at).map(|(p, u)| (p, -mean * (1.0 - u).ln())).collect();
            points.push((1.0, -mean * (0.5 / f64::from(n)).ln()));
            Quantiles::new(points).unwrap()
        };
        for k in [0.5, 1.1, 3.0] {
            let found = demerit(&exponential(1.0), &exponential(k)).unwrap();
            near(found / (2_f64.sqrt() * (k - 1.0).abs()), 1.0, 1e-3);
        }
    }

    /// Compares with another closed form, in which the distributions have a fraction q of slow operations.
    #[test]
    fn two_points_against_two_points() {
        let two = |q: f64, fast: f64, slow: f64| {
            Quantiles::new(vec![(0.0, fast), (1.0 - q, fast), (1.0 - q, slow), (1.0, slow)])
                .unwrap()
        };
        // Between 0.8 and 0.9 one distribution has a fast and the other a slow operation; elsewhere both are equal.
        let found = demerit(&two(0.1, 1.0, 11.0), &two(0.2, 1.0, 11.0)).unwrap();
        near(found, (0.1_f64 * 100.0).sqrt() / 2.0, 1e-12);
        // If both are exchanged, the distance is divided by the mean of the other distribution.
        let found = demerit(&two(0.2, 1.0, 11.0), &two(0.1, 1.0, 11.0)).unwrap();
        near(found, (0.1_f64 * 100.0).sqrt() / 3.0, 1e-12);
    }

    proptest! {
        /// For samples of equal size, the distance is that between the sorted values, pair by pair.
        #[test]
        fn in_order_one_by_one(
            (a, b) in (1_usize..60).prop_flat_map(|n| {
                let values = || prop::collection::vec(0.1_f64..1e6, n);
                (values(), values())
            }),
        ) {
            let sorted = |v: &Vec<f64>| {
                let mut v = v.clone();
                v.sort_by(f64::total_cmp);
                v
            };
            let (x, y) = (sorted(&a), sorted(&b));
            let squares: f64 = x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y)).sum();
            let expected = (squares / x.len() as f64).sqrt();
            prop_assert!((apart(&steps(&a), &steps(&b)) - expected).abs() <= 1e-9 * 1e6);
        }

        /// Stretching a distribution by k gives the demerit |k - 1| · sqrt(1 + cv²), where cv is the coefficient of
        /// variation. For histograms, this holds within the width of their buckets.
        #[test]
        fn a_stretch(values in prop::collection::vec(1_000_u64..1_000_000, 2..200), k in 1_u64..5) {
            let n = values.len() as f64;
            let mean = values.iter().sum::<u64>() as f64 / n;
            let square = values.iter().map(|&v| v as f64 * v as f64).sum::<f64>() / n;
            let expected = (k - 1) as f64 * square.sqrt() / mean;
            let of = |k: u64| -> Vec<f64> { values.iter().map(|&v| (v * k) as f64).collect() };
            let found = demerit(&steps(&of(1)), &steps(&of(k))).unwrap();
            prop_assert!((found - expected).abs() <= 1e-9 * (1.0 + expected));
            let histogram = |k: u64| {
                let mut h = Histogram::new();
                for v in &values {
                    h.record(v * k);
                }
                Quantiles::of(&h).unwrap()
            };
            let found = demerit(&histogram(1), &histogram(k)).unwrap();
            let widest = 5e6 / 128.0;
            prop_assert!((found - expected).abs() * mean <= 2.0 * widest, "{} {}", found, expected);
        }

        /// The distance is symmetric and obeys the triangle inequality, whatever the positions of the steps.
        #[test]
        fn a_distance(
            a in prop::collection::vec(1_f64..1e3, 1..40),
            b in prop::collection::vec(1_f64..1e3, 1..40),
            c in prop::collection::vec(1_f64..1e3, 1..40),
        ) {
            let (a, b, c) = (steps(&a), steps(&b), steps(&c));
            prop_assert!((apart(&a, &b) - apart(&b, &a)).abs() < 1e-6);
            prop_assert!(apart(&a, &c) <= apart(&a, &b) + apart(&b, &c) + 1e-6);
            // The distance is at least the difference of the means.
            prop_assert!(apart(&a, &b) >= (a.mean() - b.mean()).abs() - 1e-6);
        }

        /// Shifting a distribution by c gives the demerit c / mean, whatever its shape. For histograms, this holds
        /// within the width of their buckets.
        #[test]
        fn a_shift(values in prop::collection::vec(1_u64..100_000, 2..200), shift in 0_u64..50_000) {
            let of = |shift| {
                let mut h = Histogram::new();
                for v in &values {
                    h.record(v + shift);
                }
                h
            };
            let (original, model) = (of(0), of(shift));
            let mean = original.mean_ns().unwrap();
            let found = demerit(&Quantiles::of(&original).unwrap(), &Quantiles::of(&model).unwrap());
            let widest = 150_000.0 / 128.0;
            prop_assert!((found.unwrap() * mean - shift as f64).abs() <= 2.0 * widest);
            let same = Quantiles::of(&original).unwrap();
            prop_assert_eq!(demerit(&same, &same), Some(0.0));
        }
    }
}
