//! A keyed permutation of the numbers below n, for any n, with its inverse. Cheap enough for every host write.

use iodyno_units::rng::splitmix64;

/// A pseudorandom permutation of the numbers below n, selected by a key.
///
/// A number is split into its lower bits, `low`, and its upper bits, `high`. For n of at least 128, `high` has 64 to
/// 128 possible values. Three rounds mix `low` with `high`, shift `high` by a hash of `low`, and mix `low` with `high`
/// again. A result of n or more is permuted again (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite
/// domains", 2002). This happens for at most one number in 64.
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    low_bits: u32,
    highs: u64,
    rounds: [Round; 2],
    hash: u64,
}

/// One round of a permutation: permutes the lower bits of a number depending on its upper bits, `high`.
#[derive(Clone, Copy, Debug)]
struct Round {
    before: u64,
    factor: u64,
    inverse: u64,
    after: u64,
}

impl Round {
    #[inline]
    fn apply(self, high: u64, low: u64, bits: u32) -> u64 {
        let mask = (1 << bits) - 1;
        // A shift by half of the bits or more is its own inverse.
        let shift = bits.div_ceil(2);
        let low = low.wrapping_add(high.wrapping_mul(self.before)) & mask;
        let low = (low ^ (low >> shift)).wrapping_mul(self.factor);
        let low = low.wrapping_add(high.wrapping_mul(self.after)) & mask;
        low ^ (low >> shift)
    }

    fn undo(self, high: u64, low: u64, bits: u32) -> u64 {
        let mask = (1 << bits) - 1;
        let shift = bits.div_ceil(2);
        let low = (low ^ (low >> shift)).wrapping_sub(high.wrapping_mul(self.after));
        let low = low.wrapping_mul(self.inverse) & mask;
        (low ^ (low >> shift)).wrapping_sub(high.wrapping_mul(self.before)) & mask
    }
}

/// Returns the inverse of an odd number modulo 2⁶⁴, by Newton's iteration. The initial value, the number
/// itself, has three correct bits; each step doubles their number.
fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    for _ in 0..5 {
        x = x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
    }
    x
}

impl Permutation {
    /// Creates the permutation of the numbers below `count` that `key` selects. `count`: 1 to 2⁴⁰.
    pub fn new(count: u64, key: u64) -> Self {
        debug_assert!((1..=1 << 40).contains(&count));
        let low_bits = count.ilog2().saturating_sub(6).max(1);
        let mut state = key;
        let mut odd = || {
            state = splitmix64(state);
            state | 1
        };
        let mut round = || {
            let factor = odd();
            Round { before: odd(), factor, inverse: inverse(factor), after: odd() }
        };
        let rounds = [round(), round()];
        Self { count, low_bits, highs: count.div_ceil(1 << low_bits), rounds, hash: odd() }
    }

    /// The amount by which `high` is shifted, for a given `low`.
    #[inline]
    fn shift(&self, low: u64) -> u64 {
        ((low.wrapping_mul(self.hash) >> 32) * self.highs) >> 32
    }

    #[inline]
    fn network(&self, value: u64) -> u64 {
        let bits = self.low_bits;
        let high = value >> bits;
        let low = self.rounds[0].apply(high, value & ((1 << bits) - 1), bits);
        let sum = high + self.shift(low);
        let high = if sum >= self.highs { sum - self.highs } else { sum };
        (high << bits) | self.rounds[1].apply(high, low, bits)
    }

    /// Returns the number to which `value` is mapped. `value` must be below the count.
    #[inline]
    pub fn apply(&self, value: u64) -> u64 {
        let mut image = self.network(value);
        while image >= self.count {
            image = self.network(image);
        }
        image
    }

    /// Returns the number that is mapped to `image`.
    pub fn inverse(&self, image: u64) -> u64 {
        let bits = self.low_bits;
        let mut value = image;
        loop {
            let high = value >> bits;
            let low = self.rounds[1].undo(high, value & ((1 << bits) - 1), bits);
            let shift = self.shift(low);
            let high = if high >= shift { high - shift } else { high + self.highs - shift };
            value = (high << bits) | self.rounds[0].undo(high, low, bits);
            if value < self.count {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_a_bijection_with_its_inverse() {
        for count in (1..300).chain([4095, 4096, 4097, 100_003]) {
            for key in 0..3 {
                let permutation = Permutation::new(count, key);
                let mut seen = vec![false; count as usize];
                for value in 0..count {
                    let image = permutation.apply(value);
                    assert!(!std::mem::replace(&mut seen[image as usize], true));
                    assert_eq!(permutation.inverse(image), value);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn large_ones_invert(count in 1_u64..=1 << 40, key: u64, value: u64) {
            let value = value % count;
            let permutation = Permutation::new(count, key);
            let image = permutation.apply(value);
            prop_assert!(image < count);
            prop_assert_eq!(permutation.inverse(image), value);
        }
    }

    /// Checks that a run or stride of addresses is sampled (image below a limit) as evenly as by random choice,
    /// with a chi-squared test over many runs and strides.
    #[test]
    fn runs_and_strides_are_sampled_like_at_random() {
        let count = 1_000_003_u64;
        for (k, stride) in [(32, 1), (32, 8), (7, 64), (32, 256), (3, 1000)] {
            let permutation = Permutation::new(count, 5);
            let share = 1.0 / k as f64;
            let (sets, members) = (400, 1000);
            let chi: f64 = (0..sets)
                .map(|set| {
                    let hits = (0..members)
                        .filter(|i| {
                            let value = (set * 2477 + i * stride) % count;
                            permutation.apply(value) < count / k
                        })
                        .count() as f64;
                    let mean = members as f64 * share;
                    (hits - mean).powi(2) / (mean * (1.0 - share))
                })
                .sum();
            let deviations = (chi - sets as f64) / (2.0 * sets as f64).sqrt();
            assert!(deviations.abs() < 6.0, "k {k} stride {stride}: {deviations}");
        }
    }
}
