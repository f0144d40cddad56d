//! Counts the completed writes to each block of a range, to prove that a fill covered the range.
//!
//! Each count has two bits and saturates at 3. Each worker has its own map of counts, allocated before the worker
//! starts and merged at the end. Counting an operation takes a few instructions per block. A map takes a quarter of a
//! byte per block: 16 MiB for 8 TiB in blocks of 128 KiB.

use serde::{Deserialize, Serialize};

/// Number of completed writes to each block of a byte range. A block's count stops at 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    start_bytes: u64,
    len_bytes: u64,
    block_bytes: u64,
    /// Low bits of the 2-bit write counters, 64 blocks per word.
    low: Box<[u64]>,
    /// High bits of the 2-bit write counters, 64 blocks per word.
    high: Box<[u64]>,
}

impl Coverage {
    /// Maximum of a block's write counter; further writes do not raise it.
    pub const TIMES_MAX: u8 = 3;

    /// Creates zeroed counters for the bytes from `start_bytes` up to but not including `end_bytes`, one per block of
    /// `block_bytes`. The last block may be shorter.
    ///
    /// # Panics
    /// If `block_bytes` is 0.
    pub fn new(start_bytes: u64, end_bytes: u64, block_bytes: u64) -> Self {
        assert!(block_bytes > 0, "the block size must be above 0");
        let len_bytes = end_bytes.saturating_sub(start_bytes);
        let words = len_bytes.div_ceil(block_bytes).div_ceil(64) as usize;
        let (low, high) = (vec![0; words].into(), vec![0; words].into());
        Self { start_bytes, len_bytes, block_bytes, low, high }
    }

    fn blocks(&self) -> u64 {
        self.len_bytes.div_ceil(self.block_bytes)
    }

    /// Counts a completed write of `len_bytes` at `offset_bytes` for each block that it covers completely. A block
    /// written in several parts is not counted.
    #[inline]
    pub fn add(&mut self, offset_bytes: u64, len_bytes: u64) {
        let end = (offset_bytes + len_bytes).saturating_sub(self.start_bytes).min(self.len_bytes);
        let from = offset_bytes.saturating_sub(self.start_bytes);
        let first = from.div_ceil(self.block_bytes);
        // The last block of the range ends where the range does.
        let past = if end == self.len_bytes { self.blocks() } else { end / self.block_bytes };
        for block in first..past {
            let (word, bit) = ((block / 64) as usize, 1 << (block % 64));
            let (low, high) = (self.low[word] & bit, self.high[word] & bit);
            // 0, 1, 2, 3, 3, …
            self.low[word] = self.low[word] & !bit | (!low & bit) | (high & low);
            self.high[word] |= low;
        }
    }

    /// Adds the write counters of another worker for the same range.
    ///
    /// # Panics
    /// If the ranges differ.
    pub fn merge(&mut self, other: &Self) {
        let shape = |map: &Self| (map.start_bytes, map.len_bytes, map.block_bytes);
        assert_eq!(shape(self), shape(other), "the maps must cover the same range");
        for i in 0..self.low.len() {
            let (a0, a1, b0, b1) = (self.low[i], self.high[i], other.low[i], other.high[i]);
            // A two-bit adder for 64 blocks at once; a carry out of it means three or more.
            let carry = a0 & b0;
            let over = a1 & b1 | carry & (a1 ^ b1);
            self.low[i] = a0 ^ b0 | over;
            self.high[i] = a1 ^ b1 ^ carry | over;
        }
    }

    /// Returns a bitmap of the blocks written at least `times` times, 64 blocks per word.
    fn at_least(&self, times: u8) -> impl Iterator<Item = u64> + '_ {
        self.low.iter().zip(&self.high).map(move |(low, high)| match times {
            0 => u64::MAX,
            1 => low | high,
            2 => *high,
            _ => low & high,
        })
    }

    /// Number of bytes in blocks that were written at least `at_least_times` times. `at_least_times` is 1 to
    /// [`TIMES_MAX`](Self::TIMES_MAX).
    pub fn bytes(&self, at_least_times: u8) -> u64 {
        let last = self.blocks().saturating_sub(1);
        let missing = self.blocks() * self.block_bytes - self.len_bytes;
        let mut bytes = 0;
        for (word, bits) in (0_u64..).zip(self.at_least(at_least_times)) {
            let in_range = (self.blocks() - word * 64).min(64);
            let bits = if in_range == 64 { bits } else { bits & ((1 << in_range) - 1) };
            bytes += u64::from(bits.count_ones()) * self.block_bytes;
            if word == last / 64 && bits & 1 << (last % 64) != 0 {
                bytes -= missing;
            }
        }
        bytes
    }

    /// Share (0 to 1) of the range that was written at least `at_least_times` times; 1 for an empty range.
    pub fn share(&self, at_least_times: u8) -> f64 {
        if self.len_bytes == 0 {
            return 1.0;
        }
        self.bytes(at_least_times) as f64 / self.len_bytes as f64
    }

    /// Offset in bytes of the first block that was written fewer than `at_least_times` times; None if there is none.
    pub fn first_gap_bytes(&self, at_least_times: u8) -> Option<u64> {
        let mut words = (0_u64..).zip(self.at_least(at_least_times));
        let block = words.find_map(|(word, bits)| {
            (bits != u64::MAX).then(|| word * 64 + u64::from(bits.trailing_ones()))
        })?;
        (block < self.blocks()).then(|| self.start_bytes + block * self.block_bytes)
    }

    /// Summarises a fill that had to write every block `times` times and wrote `written_bytes` in all.
    pub fn proof(&self, times: u8, written_bytes: u64) -> FillProof {
        FillProof {
            times,
            written_bytes,
            passes: written_bytes as f64 / self.len_bytes.max(1) as f64,
            once_share: self.share(1),
            times_share: self.share(times),
            first_gap_bytes: self.first_gap_bytes(times),
        }
    }
}

/// How completely a fill wrote the active range (the addresses of its workload), computed from its completed writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FillProof {
    /// Required number of writes to every block.
    pub times: u8,
    /// Total bytes of the fill's completed writes.
    pub written_bytes: u64,
    /// Written bytes divided by the length of the active range.
    pub passes: f64,
    /// Share (0 to 1) of the active range that was written at least once.
    pub once_share: f64,
    /// Share (0 to 1) of the active range that was written at least `times` times.
    pub times_share: f64,
    /// Offset in bytes of the first block that was written fewer than `times` times; None if there is none.
    pub first_gap_bytes: Option<u64>,
}

impl FillProof {
    /// Minimum [`Self::times_share`] for a fill to count as complete.
    pub const SHARE_MIN: f64 = 0.999;

    /// Whether the fill is incomplete: `times_share` is below [`Self::SHARE_MIN`].
    pub fn is_short(&self) -> bool {
        self.times_share < Self::SHARE_MIN
    }

    /// Combines the fill proofs of two targets: adds the written bytes, and takes all else from the target with
    /// the lower coverage.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let worst = if other.times_share < self.times_share { other } else { self };
        Self { written_bytes: self.written_bytes + other.written_bytes, ..*worst }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference implementation with one plain write counter per block.
    struct Oracle(Vec<u32>);

    impl Oracle {
        fn share(&self, map: &Coverage, times: u8) -> f64 {
            let len = |block: usize| {
                let from = block as u64 * map.block_bytes;
                (from + map.block_bytes).min(map.len_bytes) - from
            };
            let covered = self.0.iter().enumerate().filter(|(_, n)| **n >= u32::from(times));
            covered.map(|(block, _)| len(block)).sum::<u64>() as f64 / map.len_bytes as f64
        }
    }

    proptest! {
        /// Compares [`Coverage`] with the reference implementation, for random writes by several workers.
        #[test]
        fn counts_as_plain_counters_do(
            start in 0_u64..3000,
            len in 1_u64..20_000,
            block in prop_oneof![Just(64_u64), 1_u64..300],
            writes in prop::collection::vec((0_usize..3, 0_u64..24_000, 1_u64..4000), 0..60),
        ) {
            let end = start + len;
            let mut maps = vec![Coverage::new(start, end, block); 3];
            let mut oracle = Oracle(vec![0; len.div_ceil(block) as usize]);
            for (worker, at, len_bytes) in writes {
                maps[worker].add(at, len_bytes);
                for (i, count) in oracle.0.iter_mut().enumerate() {
                    let from = start + i as u64 * block;
                    let to = (from + block).min(end);
                    *count += u32::from(at <= from && to <= at + len_bytes);
                }
            }
            // The order of merging does not matter.
            let mut forth = maps[0].clone();
            forth.merge(&maps[1]);
            forth.merge(&maps[2]);
            let mut back = maps[2].clone();
            back.merge(&maps[1]);
            back.merge(&maps[0]);
            prop_assert_eq!(&forth, &back);
            for times in 1..=Coverage::TIMES_MAX {
                prop_assert!((forth.share(times) - oracle.share(&forth, times)).abs() < 1e-12);
                let gap = oracle.0.iter().position(|&n| n < u32::from(times));
                let gap = gap.map(|i| start + i as u64 * block);
                prop_assert_eq!(forth.first_gap_bytes(times), gap);
            }
        }
    }

    /// Four workers all write the first half of the range. The bytes suffice for two passes over the range, but the
    /// second half stays unwritten.
    #[test]
    fn bytes_enough_are_no_proof() {
        let range = 1000 * 4096;
        let mut all = Coverage::new(0, range, 4096);
        let mut written = 0;
        for _job in 0..4 {
            let mut map = Coverage::new(0, range, 4096);
            for block in 0..500 {
                map.add(block * 4096, 4096);
                written += 4096;
            }
            all.merge(&map);
        }
        let proof = all.proof(2, written);
        assert_eq!((proof.passes, proof.once_share, proof.times_share), (2.0, 0.5, 0.5));
        assert_eq!(proof.first_gap_bytes, Some(500 * 4096));
        assert!(proof.is_short());
    }

    #[test]
    fn the_least_of_several_targets_decides() {
        let mut whole = Coverage::new(512, 512 + 8 * 4096, 4096);
        whole.add(512, 8 * 4096);
        let mut half = Coverage::new(0, 8 * 4096, 4096);
        half.add(0, 4 * 4096 + 4095);
        let (whole, half) = (whole.proof(1, 8 * 4096), half.proof(1, 5 * 4096));
        assert!(!whole.is_short() && whole.first_gap_bytes.is_none());
        assert!((half.once_share - 0.5).abs() < 1e-12);
        for both in [whole.with(&half), half.with(&whole)] {
            assert!(both.is_short());
            assert_eq!((both.written_bytes, both.first_gap_bytes), (13 * 4096, Some(4 * 4096)));
        }
        assert!(!Coverage::new(7, 7, 4096).proof(2, 0).is_short(), "nothing is all of nothing");
    }
}
