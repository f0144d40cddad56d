//! Zipf distribution: ranks with probability proportional to k^-θ, exactly, for any number of ranks. No sum is
//! truncated and no constant approximated.

use iodyno_units::rng::{Generator, RngCore as _, below};

/// Ratio of a step's first rank to its width. Steps below rank 2 × `PARTS` have a width of 1.
const PARTS: u64 = 64;

/// Draws ranks 0 to n - 1 from a Zipf distribution; rank 0 is the most likely.
///
/// Rejection from a staircase: the ranks are divided into steps, each with a width of 1/64 of its first rank, so that
/// 400 GB in 4 KiB blocks take about a thousand. Walker's alias method chooses a step with the weight width × (first
/// rank)^-θ. A rank within the step is drawn uniformly, and kept with probability (rank / first rank)^-θ. Nearly
/// always a comparison decides this without the power. Rejection-inversion (Hörmann and Derflinger, 1996) needs no
/// table, but a logarithm and an exponential per draw, which takes ten times as long.
#[derive(Debug)]
pub(crate) struct Zipf {
    theta: f64,
    columns: Box<[Column]>,
    steps: Box<[Step]>,
}

/// One column of the alias table. A draw below `bound` selects the step with the column's index, any other
/// draw the step `other`.
#[derive(Clone, Copy, Debug)]
struct Column {
    bound: u64,
    other: u32,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// First rank of the step, counted from 1.
    first: u64,
    width: u64,
    /// A draw below this accepts any rank of the step without further computation.
    keep: u64,
}

/// 2⁶⁴, which converts a probability into a threshold. The conversion saturates at `u64::MAX`.
const WHOLE: f64 = 18_446_744_073_709_551_616.0;

impl Zipf {
    /// Creates a distribution over `ranks` ranks, 1 to 2⁶², with exponent `theta`, in (0, 5].
    pub(crate) fn new(ranks: u64, theta: f64) -> Self {
        let mut steps = Vec::new();
        let mut weights = Vec::new();
        let mut first = 1;
        while first <= ranks {
            let width = (first / PARTS).max(1).min(ranks - first + 1);
            let least = power(first + width - 1, first, theta);
            // Rounded down by more than any error of the power, so that no rank is kept that the power would
            // reject. A single rank is always kept.
            let keep = if width == 1 { u64::MAX } else { ((least - 1e-9) * WHOLE) as u64 };
            steps.push(Step { first, width, keep });
            weights.push(width as f64 * power(first, 1, theta));
            first += width;
        }
        Self { theta, columns: alias_table(&weights), steps: steps.into() }
    }

    /// Draws a random rank, counted from 0.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Generator) -> u64 {
        loop {
            let columns = self.columns.len() as u128;
            // The high half of the product is a column; the low half is uniform within it.
            let product = u128::from(rng.next_u64()) * columns;
            let column = (product >> 64) as usize;
            let Column { bound, other } = self.columns[column];
            let step = self.steps[if (product as u64) < bound { column } else { other as usize }];
            if step.width == 1 {
                return step.first - 1;
            }
            let rank = step.first + below(rng, step.width);
            let drawn = rng.next_u64();
            if drawn < step.keep || self.keeps(rank, step.first, drawn) {
                return rank - 1;
            }
        }
    }

    #[cold]
    fn keeps(&self, rank: u64, first: u64, drawn: u64) -> bool {
        drawn < (power(rank, first, self.theta) * WHOLE) as u64
    }
}

/// Probability with which a rank within a step is accepted: (rank / first)^-θ.
fn power(rank: u64, first: u64, theta: f64) -> f64 {
    libm::pow(rank as f64 / first as f64, -theta)
}

/// Builds the alias table by Vose's method (1991).
fn alias_table(weights: &[f64]) -> Box<[Column]> {
    let total: f64 = weights.iter().rev().sum();
    let mut heights: Vec<f64> =
        weights.iter().map(|weight| weight / total * weights.len() as f64).collect();
    let mut columns: Vec<Column> =
        (0..weights.len()).map(|i| Column { bound: u64::MAX, other: i as u32 }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|&i| heights[i] < 1.0);
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        columns[low] = Column { bound: (heights[low] * WHOLE) as u64, other: high as u32 };
        heights[high] -= 1.0 - heights[low];
        if heights[high] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    // The remaining columns are 1, up to rounding.
    columns.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::stream;

    /// Compares frequencies with the exact probabilities by a chi-squared test over the first ranks and the
    /// remaining tail, at exponents from mild to steep, including 1, where the closed form changes.
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
                    // Too rare for chi squared individually: combine them.
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

    /// Ranks within a step wider than one have slightly different probabilities. Accepting all of them would make
    /// ranks beyond 127 0.8 % too frequent; this test detects a quarter of that.
    #[test]
    fn wide_steps_have_their_exact_weight() {
        const DRAWS: u32 = 2_000_000;
        let zipf = Zipf::new(100_000, 0.99);
        let mut rng = stream(5, "test", 0);
        let wide = (0..DRAWS).filter(|_| zipf.draw(&mut rng) >= 127).count() as f64;
        let weight = |ranks: core::ops::RangeInclusive<u32>| -> f64 {
            ranks.rev().map(|k| f64::from(k).powf(-0.99)).sum()
        };
        let share = weight(128..=100_000) / weight(1..=100_000);
        let deviation = (f64::from(DRAWS) * share * (1.0 - share)).sqrt();
        let off = (wide - f64::from(DRAWS) * share) / deviation;
        assert!(off.abs() < 3.5, "{off}");
    }

    /// The tail is not truncated: with 2³⁷ ranks and θ = 0.5, half of the draws are in the upper three quarters
    /// of the range. A generator that approximates the constant by its first 10⁷ terms never draws them.
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
