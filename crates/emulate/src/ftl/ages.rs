//! Distribution of valid pages over the blocks in steady state, under uniform random writes and greedy garbage
//! collection. The distribution determines the write amplification, which for large blocks equals the closed form of
//! `oracle.rs`. For small blocks it is lower, because greedy collection profits from random variation: by 3 % for
//! blocks of 256 pages and a spare factor of 0.07.

/// Parameters that determine the number of valid pages of each block in steady state.
///
/// Let n pages be written uniformly at random with write amplification W. While one block of b pages is filled, a
/// page is overwritten with probability x = b / (W n). The pages of a block are overwritten one by one, so v valid
/// pages are left after (1/b + 1/(b - 1) + … + 1/(v + 1)) / x block fills, about ln((b + 1/2) / (v + 1/2)) / x.
/// Garbage collection copies v* = b (1 - 1/W) pages of each victim, so the oldest block has v* valid pages. This
/// determines W. Pages that were written r at a time are also overwritten together, as if blocks had r times fewer
/// pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ages {
    pub(super) sealed: u32,
    pub(super) per_block: u32,
    /// Number of pages that contain data, including those in the open blocks.
    pub(super) pages: u32,
    /// Number of open blocks, each half full.
    pub(super) open: u32,
    /// Number of pages in the map that one write of the host covers, at least 1.
    pub(super) run: u32,
}

impl Ages {
    /// Returns the number of valid pages of each sealed block, youngest first. Their sum is `total`, which
    /// must not exceed the capacity of these blocks.
    pub(super) fn valid(&self, total: u32) -> Vec<u32> {
        let step = f64::from(self.per_block) / (self.write_amplification() * self.data());
        let mut valid: Vec<u32> = (0..self.sealed)
            // Two open blocks, half full, count as one younger block.
            .map(|index| {
                let younger = f64::from(index) + 0.5 + 0.5 * f64::from(self.open);
                libm::round(self.valid_at(step * younger)) as u32
            })
            .collect();
        // Corrects the sum after rounding, one page at a time, round-robin over the blocks.
        let mut sum: u64 = valid.iter().map(|&v| u64::from(v)).sum();
        let total = u64::from(total);
        let mut index = 0;
        while sum != total {
            if sum < total && valid[index] < self.per_block {
                (valid[index], sum) = (valid[index] + 1, sum + 1);
            } else if sum > total && valid[index] > 0 {
                (valid[index], sum) = (valid[index] - 1, sum - 1);
            }
            index = (index + 1) % valid.len();
        }
        valid
    }

    fn data(&self) -> f64 {
        f64::from(self.pages.max(1))
    }

    /// Returns the write amplification in steady state, in which the oldest block is always the victim. Solved by
    /// bisection; 1 if blocks without valid pages remain.
    fn write_amplification(&self) -> f64 {
        let full = f64::from(self.per_block);
        let slots = full * (f64::from(self.sealed) + 0.5 * f64::from(self.open));
        let (mut low, mut high) = (1.0, 10.0 + f64::from(self.sealed));
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.age(full * (1.0 - 1.0 / middle)) > slots / (middle * self.data()) {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Returns the age at which a block has `valid` valid pages left, in mean lifetimes of a page.
    fn age(&self, valid: f64) -> f64 {
        let half = 0.5 * f64::from(self.run);
        libm::log((f64::from(self.per_block) + half) / (valid + half))
    }

    /// Returns the mean number of valid pages of a block of age `age`. Pages become invalid in runs, so the number is
    /// on average half a run above the inverse of [`Self::age`].
    fn valid_at(&self, age: f64) -> f64 {
        let full = f64::from(self.per_block);
        full.min((full + 0.5 * f64::from(self.run)) * libm::exp(-age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::oracle::write_amplification_uniform;

    /// Checks that the computed numbers of valid pages sum to the data even before rounding is corrected, and
    /// that the write amplification of large blocks matches the closed form.
    #[test]
    fn the_sum_is_right_by_itself() {
        for spare in [0.03, 0.07, 0.2, 0.5, 0.9] {
            for (per_block, run) in [(256, 1), (4096, 1), (4096, 32), (1 << 17, 1)] {
                let sealed = 999;
                let pages = (f64::from(1000 * per_block) * (1.0 - spare)) as u32;
                let ages = Ages { sealed, per_block, pages, open: 2, run };
                let expected = write_amplification_uniform(spare);
                let off = ages.write_amplification() / expected - 1.0;
                assert!((-0.12..1e-6).contains(&off), "{ages:?}: {off}");
                if per_block == 1 << 17 {
                    assert!(off > -1e-3, "{ages:?}: {off}");
                }
                let step = f64::from(per_block) / (ages.write_amplification() * f64::from(pages));
                let sum: f64 = (0..1000).map(|j| ages.valid_at(step * (f64::from(j) + 0.5))).sum();
                assert!((sum / f64::from(pages) - 1.0).abs() < 4e-3, "{ages:?}: {sum}");
                let valid = ages.valid(pages - per_block);
                assert_eq!(valid.iter().sum::<u32>(), pages - per_block);
                for (index, &valid) in valid.iter().enumerate() {
                    let by_age = ages.valid_at(step * (index as f64 + 1.5));
                    let off = (f64::from(valid) - by_age).abs();
                    assert!(off < 1.5 + 1e-3 * f64::from(per_block), "{ages:?} {index}: {off}");
                }
            }
        }
    }

    /// Checks that the search for a state terminates on nearly empty and nearly full devices.
    #[test]
    fn nearly_empty_and_nearly_full_devices_have_a_state() {
        let ages = Ages { sealed: 20, per_block: 8, pages: 0, open: 2, run: 1 };
        assert_eq!(ages.valid(0), [0; 20]);
        let ages = Ages { pages: 3, ..ages };
        assert_eq!(ages.valid(3).iter().sum::<u32>(), 3);
        let ages = Ages { pages: 159, run: 8, ..ages };
        assert_eq!(ages.valid(151).iter().sum::<u32>(), 151);
    }
}
