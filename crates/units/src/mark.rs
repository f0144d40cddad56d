//! The mark in iodyno's random content, by which a later run can prove that iodyno wrote a sector.
//!
//! A mark is the first 16 bytes of a sector of 512 bytes: 8 bytes that differ from sector to sector, and 8 bytes
//! derived from them. To a compressor they are as random as the rest. Foreign bytes look like a mark with a
//! probability of 2⁻⁶⁴ per checked sector.

use crate::rng::splitmix64;

/// Length of the identifying mark at the start of each sector of random content, bytes.
pub const MARK_BYTES: usize = 16;
/// Distance between marks, bytes: a sector, the smallest atomic write of a device.
pub const MARKED_BYTES: usize = 512;
/// `iodyno 1` in ASCII, from which the second half of each mark is computed. Must never change, because marks
/// persist on devices.
const KEY: u64 = 0x696F_6479_6E6F_2031;

/// Creates a mark: `first`, little-endian, followed by 8 bytes derived from it.
#[inline]
pub const fn mark(first: u64) -> [u8; MARK_BYTES] {
    let both = first as u128 | (splitmix64(first ^ KEY) as u128) << 64;
    both.to_le_bytes()
}

/// Whether `bytes` begin with a valid mark, which shows that iodyno wrote them.
#[inline]
pub fn is_marked(bytes: &[u8]) -> bool {
    let Some(found) = bytes.first_chunk::<MARK_BYTES>() else { return false };
    let first = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
    *found == mark(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{RngCore as _, stream};

    /// Pins the value of a mark, because marks written by earlier versions must stay recognisable.
    #[test]
    fn a_mark_is_known_again_and_nothing_else_is_taken_for_one() {
        assert_eq!(mark(1), [1, 0, 0, 0, 0, 0, 0, 0, 77, 238, 89, 210, 147, 85, 43, 23]);
        let mut random = stream(1, "marks", 0);
        for _ in 0..10_000 {
            let mut bytes = mark(random.next_u64());
            assert!(is_marked(&bytes));
            bytes[(random.next_u64() % 16) as usize] ^= 1 << (random.next_u64() % 8);
            assert!(!is_marked(&bytes), "one bit decides");
        }
        for other in [[0; 16], [0xFF; 16], *b"SQLite format 3\0"] {
            assert!(!is_marked(&other));
        }
        assert!(!is_marked(&mark(7)[..15]));
    }
}
