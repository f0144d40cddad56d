//! Named random streams. Every random decision in iodyno is drawn from a stream that is identified by seed, name and
//! number, so that adding a consumer never shifts another one's draws.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, 2019), fixed by name: a run must replay from its seed years
//! later, so a library's default is not enough.

pub use rand_core::Rng as RngCore;
use rand_core::SeedableRng;
pub use rand_xoshiro::Xoshiro256PlusPlus as Generator;

/// One step of SplitMix64 (Steele, Lea and Flood, 2014), a well-mixing bijection of 64-bit integers.
#[inline]
pub const fn splitmix64(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// 64-bit FNV-1a hash of the name of a random stream.
const fn fnv1a(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01B3);
        i += 1;
    }
    hash
}

/// Derives a 64-bit key from a seed, a name and a number, for uses that need one random value instead of a stream.
pub const fn key(seed: u64, name: &str, number: u64) -> u64 {
    splitmix64(splitmix64(splitmix64(seed) ^ fnv1a(name)) ^ number)
}

/// Fills `bytes` with incompressible content determined by `key`, in words of 8 bytes; a shorter remainder stays
/// unchanged. Uses wyrand, whose words are independent of each other and can be computed in parallel.
#[inline]
pub fn random_words(bytes: &mut [u8], key: u64) {
    let mut state = key;
    for word in bytes.as_chunks_mut::<8>().0 {
        state = state.wrapping_add(0xA076_1D64_78BD_642F);
        let product = u128::from(state) * u128::from(state ^ 0xE703_7ED1_A0B4_28DB);
        *word = ((product >> 64) as u64 ^ product as u64).to_le_bytes();
    }
}

/// Creates the random stream that is identified by a run's `seed`, a name and a number.
pub fn stream(seed: u64, name: &str, number: u64) -> Generator {
    let mut state = key(seed, name, number);
    let mut bytes = [0_u8; 32];
    for chunk in bytes.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        chunk.copy_from_slice(&splitmix64(state).to_le_bytes());
    }
    Generator::from_seed(bytes)
}

/// Draws an integer from 0 to `n` − 1, as the high half of a widening product, without a branch. The bias is at most
/// `n / 2^64`. Returns 0 if `n` is 0.
#[inline]
pub fn below(rng: &mut Generator, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

/// Draws a number in (0, 1]. It is never 0, so that its logarithm is finite.
#[inline]
pub fn unit_open_closed(rng: &mut Generator) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pins the output of random streams, because runs could not be replayed from old seeds if it changed.
    #[test]
    fn streams_are_pinned() {
        let mut s = stream(1, "address", 0);
        let first = [s.next_u64(), s.next_u64()];
        assert_eq!(first, PINNED, "{first:#x?}");
        assert_ne!(stream(1, "address", 1).next_u64(), first[0]);
        assert_ne!(stream(1, "mix", 0).next_u64(), first[0]);
        assert_ne!(stream(2, "address", 0).next_u64(), first[0]);
    }
    const PINNED: [u64; 2] = [0x341d_b04e_3729_91df, 0x85bf_0972_8085_853d];

    #[test]
    fn below_is_even_over_a_small_range() {
        let mut s = stream(7, "test", 0);
        let mut hits = [0_u32; 10];
        for _ in 0..100_000 {
            hits[below(&mut s, 10) as usize] += 1;
        }
        // 9 degrees of freedom: chi squared beyond 33.7 has probability 0.0001.
        let chi: f64 = hits.iter().map(|&h| (f64::from(h) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 33.7, "{hits:?}");
    }
}
