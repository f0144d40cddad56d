//! Ranks with probability proportional to k^-θ, exactly, for any number of ranks and in constant
//! memory: rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates
//! from monotone discrete distributions", 1996). No sum is cut off and no table is made, unlike in
//! generators that approximate the normalising constant.

use iodyno_units::rng::{Generator, unit_open_closed};

/// Draws ranks 1 to n.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    theta: f64,
    /// n as a real number; block counts are below 2⁵³.
    ranks: f64,
    /// H(3/2) - h(1), the left end of the area that is drawn from.
    area_start: f64,
    /// H(n + 1/2), its right end.
    area_end: f64,
    /// Ranks within this distance of the inverse are accepted without computing the histogram.
    squeeze: f64,
}

impl Zipf {
    /// `ranks` is 1 or more, `theta` in (0, 5].
    pub(crate) fn new(ranks: u64, theta: f64) -> Self {
        let ranks = ranks as f64;
        let mut zipf = Self { theta, ranks, area_start: 0.0, area_end: 0.0, squeeze: 0.0 };
        zipf.area_start = zipf.integral(1.5) - 1.0;
        zipf.area_end = zipf.integral(ranks + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.hat(2.0));
        zipf
    }

    /// A rank, counted from 0. Not inlined: its registers would be saved at every operation.
    #[inline(never)]
    pub(crate) fn draw(&self, rng: &mut Generator) -> u64 {
        loop {
            let area = self.area_end + unit_open_closed(rng) * (self.area_start - self.area_end);
            let x = self.inverse(area);
            // Cut to a whole number; cheaper than a call of `floor`, and the same above 0.
            let rank = ((x + 0.5) as u64 as f64).clamp(1.0, self.ranks);
            if rank - x <= self.squeeze || area >= self.integral(rank + 0.5) - self.hat(rank) {
                return rank as u64 - 1;
            }
        }
    }

    /// h(x) = x^-θ.
    fn hat(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// H(x), the integral of h from 1: (x^(1-θ) - 1) / (1-θ), or ln x at θ = 1.
    fn integral(&self, x: f64) -> f64 {
        let log_x = libm::log(x);
        let t = (1.0 - self.theta) * log_x;
        log_x * if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t / 2.0 * (1.0 + t / 3.0) }
    }

    /// The inverse of H.
    #[inline]
    fn inverse(&self, area: f64) -> f64 {
        // Rounding may push t just below -1, where the logarithm ends.
        let t = (area * (1.0 - self.theta)).max(-1.0);
        let factor = if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t * (0.5 - t / 3.0) };
        libm::exp(factor * area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::stream;

    /// Against the exact probabilities: chi squared over the first ranks and one tail, at mild,
    /// usual and steep exponents, and at 1, where the closed form changes.
    #[test]
    fn frequencies_are_the_exact_ones() {
        const DRAWS: u64 = 400_000;
        const FIRST: usize = 100;
        for (n, theta) in
            [(1_000_u64, 0.3), (100_000, 0.99), (100_000, 1.0), (100_000, 1.2), (50, 5.0)]
        {
            let zipf = Zipf::new(n, theta);
            let mut rng = stream(3, "test", 0);
            let first = FIRST.min(n as usize);
            let mut hits = vec![0_u64; first + 1];
            for _ in 0..DRAWS {
                hits[(zipf.draw(&mut rng) as usize).min(first)] += 1;
            }
            let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
            let total: f64 = weights.iter().rev().sum();
            let mut expected: Vec<f64> = weights[..first].to_vec();
            expected.push(weights[first..].iter().sum());
            let mut chi = 0.0;
            let mut freedom = -1.0;
            let (mut rest_hits, mut rest_expected) = (0.0, 0.0);
            for (&hits, weight) in hits.iter().zip(&expected) {
                let expected = weight / total * DRAWS as f64;
                if expected < 10.0 {
                    // Too rare for chi squared alone; taken together.
                    rest_hits += hits as f64;
                    rest_expected += expected;
                } else {
                    chi += (hits as f64 - expected).powi(2) / expected;
                    freedom += 1.0;
                }
            }
            if rest_expected > 1.0 {
                chi += (rest_hits - rest_expected).powi(2) / rest_expected;
                freedom += 1.0;
            }
            let deviations = (chi - freedom) / (2.0 * freedom).sqrt();
            assert!(deviations < 4.0, "n {n} theta {theta}: chi {chi:.1} of {freedom}");
        }
    }

    /// The tail is not cut: over 2³⁷ ranks at θ = 0.5 half of the draws lie in the upper three
    /// quarters of the range, where an approximation of the constant by its first 10⁷ terms has
    /// nothing.
    #[test]
    fn the_far_tail_is_drawn() {
        let n = 1_u64 << 37;
        let zipf = Zipf::new(n, 0.5);
        let mut rng = stream(4, "test", 0);
        let beyond = (0..100_000).filter(|_| zipf.draw(&mut rng) >= n / 4).count();
        // P = 1 - √(1/4) = 0.5; five standard deviations are 791.
        assert!(beyond.abs_diff(50_000) < 791, "{beyond}");
    }
}
