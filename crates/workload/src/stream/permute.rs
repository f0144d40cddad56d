//! A keyed bijection of 0 .. n for any n, in constant memory. It scatters ranks over blocks without collisions. It also
//! orders the blocks of a pass so that each block comes once.
//!
//! It is a generalised Feistel network (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002) over a × b
//! values, where a is the power of two below √n and b = ⌈n / a⌉. At most a - 1 of these values are beyond n, so cycle
//! walking rarely takes a second step.

use iodyno_units::rng::splitmix64;

/// Number of pairs of mixing rounds for a small range. Large ranges need four rounds to look random; small
/// ranges need six, because their halves have few values.
const PAIRS_SMALL: usize = 3;
const PAIRS: usize = 2;
/// Ranges with fewer values than this are small.
const SMALL_BELOW: u64 = 1 << 16;

/// A pseudorandom permutation of the numbers 0 to n - 1.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    count: u64,
    /// Number of bits in the low half of a value.
    low_bits: u32,
    /// Number of values that the high half can have, at most 2³² because n is below 2⁶³.
    highs: u64,
    keys: [[u64; 2]; PAIRS_SMALL],
    pairs: usize,
}

impl Permutation {
    /// Creates the permutation of 0 to `count` - 1 that `key` selects; `count` is 1 to 2⁶².
    pub(crate) fn new(count: u64, key: u64) -> Self {
        debug_assert!((1..=1 << 62).contains(&count));
        let low_bits = count.ilog2() / 2;
        let mut keys = [[0; 2]; PAIRS_SMALL];
        let mut state = key;
        for round_key in keys.as_flattened_mut() {
            state = splitmix64(state);
            *round_key = state;
        }
        let pairs = if count < SMALL_BELOW { PAIRS_SMALL } else { PAIRS };
        Self { count, low_bits, highs: count.div_ceil(1 << low_bits), keys, pairs }
    }

    /// Number of permuted values.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the permuted value of `value`, which must be below `count`.
    #[inline]
    pub(crate) fn apply(&self, value: u64) -> u64 {
        let mut image = self.network(value);
        while image >= self.count {
            image = self.network(image);
        }
        image
    }

    #[inline]
    fn network(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.low_bits) - 1;
        let (mut low, mut high) = (value & mask, value >> self.low_bits);
        for [odd, even] in &self.keys[..self.pairs] {
            // A number below b, as evenly distributed as 2³² values over b can be.
            high += ((mix(low ^ odd) >> 32) * self.highs) >> 32;
            if high >= self.highs {
                high -= self.highs;
            }
            low ^= mix(high ^ even) >> 32 & mask;
        }
        high << self.low_bits | low
    }
}

/// Mixes a word by two rounds of multiply and shift (after Stafford's mixers). Two rounds suffice, because
/// only the upper half is used and the input is already keyed.
#[inline]
fn mix(x: u64) -> u64 {
    let x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (x ^ (x >> 32)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn is_a_bijection_for_every_size(count in 1_u64..20_000, key: u64) {
            let permutation = Permutation::new(count, key);
            let mut hit = vec![false; count as usize];
            for value in 0..count {
                let image = permutation.apply(value) as usize;
                prop_assert!(!std::mem::replace(&mut hit[image], true), "{image} twice");
            }
        }

        #[test]
        fn stays_within_sizes_that_can_not_be_tried_out(
            count in 1_u64 << 40..1 << 62,
            key: u64,
            at: u64,
        ) {
            let permutation = Permutation::new(count, key);
            let first = at % (count - 1);
            let images = [permutation.apply(first), permutation.apply(first + 1)];
            prop_assert!(images[0] < count && images[1] < count && images[0] != images[1]);
        }
    }

    /// Over many keys, both the image of a value and its distance from its neighbour's image are evenly
    /// distributed, as a scatter requires; too few rounds would fail. The counts cover special cases: 8 and 64
    /// have the smallest halves, 1000 needs cycle walking, and 70,000 uses only four rounds.
    #[test]
    fn images_and_distances_are_even() {
        for count in [8_u64, 64, 1000, 70_000] {
            let cells = count.min(1000);
            let trials = 400 * cells;
            let mut images = vec![0_u64; cells as usize];
            let mut distances = vec![0_u64; cells as usize];
            for key in 0..trials {
                let permutation = Permutation::new(count, key);
                let value = key % (count - 1);
                let (a, b) = (permutation.apply(value), permutation.apply(value + 1));
                images[(a * cells / count) as usize] += 1;
                // 1 to count - 1, counted from 0, in as many cells as fit evenly.
                let distance = (a + count - b) % count;
                distances[((distance - 1) * cells / (count - 1)) as usize] += 1;
            }
            let chi = |hits: &[u64], of: u64| {
                let sum: f64 = hits
                    .iter()
                    .enumerate()
                    .map(|(cell, &hits)| {
                        // Number of the `of` values that fall into this cell.
                        let start = |cell: u64| (cell * of).div_ceil(cells);
                        let values = start(cell as u64 + 1) - start(cell as u64);
                        let mean = trials as f64 * values as f64 / of as f64;
                        if values == 0 { hits as f64 } else { (hits as f64 - mean).powi(2) / mean }
                    })
                    .sum();
                // Chi squared, in standard deviations above its mean.
                let freedom = cells as f64 - 1.0;
                (sum - freedom) / (2.0 * freedom).sqrt()
            };
            let (image, distance) = (chi(&images, count), chi(&distances, count - 1));
            assert!(image < 4.5 && distance < 4.5, "{count}: {image:.2} {distance:.2}");
        }
    }
}
