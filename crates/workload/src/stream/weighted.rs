//! Draws one of a few outcomes by their shares. The thresholds are computed once, so that a draw is
//! an integer comparison.

use iodyno_units::rng::{Generator, RngCore as _};

/// Draws an index at random, with probability proportional to its weight.
#[derive(Clone, Debug)]
pub(crate) struct Weighted {
    /// Cumulative probabilities in units of 2⁻⁶⁴, without the last one, which is 1. A random number
    /// selects outcome i if it is below threshold i and not below threshold i - 1.
    bounds: Box<[u64]>,
    /// Copy of the first threshold, because two outcomes are the common case.
    first: u64,
}

impl Weighted {
    /// Creates the distribution. `shares` must not be negative, and at least one must be above 0.
    pub(crate) fn new(shares: impl IntoIterator<Item = f64>) -> Self {
        let shares: Vec<f64> = shares.into_iter().collect();
        let total: f64 = shares.iter().sum();
        let mut sum = 0.0;
        let bounds = shares[..shares.len() - 1].iter().map(|share| {
            sum += share;
            // The conversion saturates, as required for a trailing share of 0.
            (sum / total * 18_446_744_073_709_551_616.0) as u64
        });
        let bounds: Box<[u64]> = bounds.collect();
        let first = bounds.first().copied().unwrap_or(u64::MAX);
        Self { bounds, first }
    }

    /// Cumulative probabilities in units of 2⁻⁶⁴, without the last one, which is 1.
    pub(crate) fn bounds(&self) -> &[u64] {
        &self.bounds
    }

    /// Draws an index. Uses no random number if there is only one outcome.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Generator) -> usize {
        if self.bounds.is_empty() {
            return 0;
        }
        let drawn = rng.next_u64();
        if self.bounds.len() == 1 {
            return usize::from(drawn >= self.first);
        }
        self.bounds.iter().map(|&bound| usize::from(drawn >= bound)).sum()
    }
}
