//! Size of a flash translation layer, and the scaling of a large layer to a smaller map.
//!
//! With `represent` = k, one page in k is in the map and stands for k similar pages. The number of blocks limits how
//! finely the age of data is resolved, so scaling first reduces the pages per block, down to 256, and only then the
//! number of blocks. The spare that garbage collection can use must not change. The numbers of open blocks and of
//! blocks kept free are not scaled.
//!
//! `represent.rs` determines which pages are represented.

use super::blocks::{empty_blocks, unsealed_blocks};

/// Size of a flash translation layer before scaling. A page is a logical page of 4 KiB. A block is a
/// superblock over all dies, the unit of erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of pages that the host can address, 1 to 2⁴⁰.
    pub logical_pages: u64,
    /// Number of pages that fit into the flash, including spare. A remainder smaller than a block is unused.
    pub raw_pages: u64,
    /// Pages per block, at least 2.
    pub pages_per_block: u32,
    /// Sampling ratio k, 1 to 2²⁰: the map contains one of every k pages. 1 is exact.
    pub represent: u32,
    /// Number of write frontiers, each with an open block (see `Placement::frontiers`). 2 without placement.
    pub frontiers: u32,
}

/// Size of the map after scaling to a sample of the device's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scaled {
    pub(super) pages: u32,
    pub(super) pages_per_block: u32,
    pub(super) blocks: u32,
}

/// Minimum number of pages per block after scaling. With fewer, greedy collection deviates measurably from
/// the closed form for large blocks.
const PAGES_PER_BLOCK_MIN: u32 = 256;

/// Maximum number of logical pages (4 PiB). Limited by the length of the tags in the table of heavy
/// hitters.
const LOGICAL_PAGES_MAX: u64 = 1 << 40;
/// Maximum sampling ratio ([`Shape::represent`]).
const REPRESENT_MAX: u32 = 1 << 20;

/// Minimum number of pages in the map. With fewer, results are dominated by noise.
const REPRESENTED_MIN: u64 = 4096;

impl Shape {
    /// Checks that a flash translation layer of this shape is possible.
    ///
    /// # Errors
    /// The invalid field, the reason, and the remedy.
    pub fn check(&self) -> Result<(), String> {
        self.scaled().map(|_| ())
    }

    /// Returns the value for [`Self::represent`]: the smallest power of two for which the map has at most
    /// `represented_max` pages. A map of 4 × 10⁶ pages takes about 36 MiB of memory.
    pub fn auto_represent(logical_pages: u64, represented_max: u64) -> u32 {
        let ratio = logical_pages.div_ceil(represented_max.max(1)).max(1);
        u32::try_from(ratio.next_power_of_two()).unwrap_or(u32::MAX)
    }

    /// Returns the spare factor for `oracle::write_amplification_uniform`: 1 - logical pages / physical pages. Blocks
    /// that are empty in steady state do not count as physical pages.
    pub fn spare_usable(&self) -> f64 {
        let blocks = (self.raw_pages / u64::from(self.pages_per_block.max(1)))
            .saturating_sub(u64::from(empty_blocks(self.frontiers)));
        let usable = blocks * u64::from(self.pages_per_block);
        1.0 - self.logical_pages as f64 / usable as f64
    }

    pub(super) fn scaled(&self) -> Result<Scaled, String> {
        let Self { logical_pages, raw_pages, pages_per_block, represent, frontiers } = *self;
        if logical_pages == 0 || logical_pages > LOGICAL_PAGES_MAX {
            return Err(format!("`logical_pages` is {logical_pages}; it must be 1 to 2^40"));
        }
        if pages_per_block < 2 {
            return Err(format!("`pages_per_block` is {pages_per_block}; it must be at least 2"));
        }
        if represent == 0 || represent > REPRESENT_MAX {
            return Err(format!("`represent` is {represent}; it must be 1 (exact) to 2^20"));
        }
        let per_block = u64::from(pages_per_block);
        let unsealed = u64::from(unsealed_blocks(frontiers));
        // At least one spare block, without which collection might gain nothing, and one for each further frontier,
        // since the data of each handle begins a block.
        let spare = u64::from(frontiers.saturating_sub(1));
        let least = (logical_pages.div_ceil(per_block) + spare + unsealed) * per_block;
        if raw_pages < least {
            return Err(format!(
                "`raw_pages` is {raw_pages}, but {logical_pages} logical pages and {} open, free or \
                 spare blocks of {per_block} pages need at least {least}; raise `raw_pages`, or \
                 lower `logical_pages` or `pages_per_block`",
                unsealed + spare
            ));
        }
        let blocks = raw_pages / per_block;
        let scaled = if represent == 1 {
            (logical_pages, per_block, blocks)
        } else {
            let divide = |x: u64, by: u64| (x + by / 2) / by;
            let k = u64::from(represent);
            let pages = divide(logical_pages, k);
            if pages < REPRESENTED_MIN {
                return Err(format!(
                    "`represent` is {k}, which leaves {pages} of {logical_pages} logical pages; at \
                     least {REPRESENTED_MIN} are needed, so `represent` can be at most {}",
                    (logical_pages / REPRESENTED_MIN).max(1)
                ));
            }
            let empty = u64::from(empty_blocks(frontiers));
            let usable = divide((blocks - empty) * per_block, k);
            let wanted = (per_block / k).max(u64::from(PAGES_PER_BLOCK_MIN).min(per_block));
            let blocks = divide(usable, wanted).max(1);
            // The pages per block compensate for the rounding of the number of blocks.
            let per_block = divide(usable, blocks).max(2);
            let least = pages.div_ceil(per_block) + spare + unsealed - empty;
            if blocks < least {
                return Err(format!(
                    "`represent` is {k}, which leaves {blocks} blocks of {per_block} pages, but \
                     {pages} logical pages need at least {least} blocks; lower `represent`"
                ));
            }
            (pages, per_block, blocks + empty)
        };
        let (pages, per_block, blocks) = scaled;
        // The largest u32 is the map's `NONE`.
        if blocks * per_block >= u64::from(u32::MAX) {
            return Err(format!(
                "`represent` is {represent}, which leaves {} page slots; a map has fewer than 2^32: \
                 raise `represent` to {}",
                blocks * per_block,
                Self::auto_represent(raw_pages, 1 << 31)
            ));
        }
        Ok(Scaled { pages: pages as u32, pages_per_block: per_block as u32, blocks: blocks as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        logical_pages: 97_656_250,
        raw_pages: 1 << 27,
        pages_per_block: 1 << 17,
        represent: 1,
        frontiers: 2,
    };

    /// Checks that a scaled-down map has the same usable spare as the whole device, to one part in three
    /// thousand.
    #[test]
    fn the_usable_spare_survives_scaling() {
        for pages_per_block in [256, 1000, 4096, 1 << 17] {
            for represent in [1, 2, 7, 32, 48, 500] {
                let shape = Shape { pages_per_block, represent, ..SHAPE };
                let scaled = shape.scaled().unwrap();
                let usable =
                    f64::from(scaled.blocks - empty_blocks(2)) * f64::from(scaled.pages_per_block);
                let spare = 1.0 - f64::from(scaled.pages) / usable;
                assert!(
                    (spare - shape.spare_usable()).abs() < 3.3e-4,
                    "{shape:?} {scaled:?} {spare}"
                );
                // The number of blocks shrinks only if the pages per block can't.
                if pages_per_block / represent >= PAGES_PER_BLOCK_MIN {
                    let blocks = shape.raw_pages / u64::from(pages_per_block);
                    let off = u64::from(scaled.blocks).abs_diff(blocks);
                    assert!(off * 1000 <= blocks, "{scaled:?}");
                } else {
                    let least = PAGES_PER_BLOCK_MIN.min(pages_per_block);
                    assert!(scaled.pages_per_block.abs_diff(least) <= 2, "{scaled:?}");
                }
            }
        }
    }

    #[test]
    fn impossible_shapes_are_refused_with_a_remedy() {
        for (shape, says) in [
            (Shape { logical_pages: 0, ..SHAPE }, "`logical_pages` is 0; it must be 1 to 2^40"),
            (
                Shape { pages_per_block: 1, ..SHAPE },
                "`pages_per_block` is 1; it must be at least 2",
            ),
            (Shape { represent: 0, ..SHAPE }, "`represent` is 0; it must be 1 (exact) to 2^20"),
            (Shape { raw_pages: 98_000_000, ..SHAPE }, "need at least 98566144; raise `raw_pages`"),
            (Shape { represent: 40_000, ..SHAPE }, "so `represent` can be at most 23841"),
            (
                Shape { logical_pages: 1 << 33, raw_pages: 1 << 34, ..SHAPE },
                "raise `represent` to 8",
            ),
        ] {
            let refusal = shape.check().unwrap_err();
            assert!(refusal.contains(says), "{refusal}");
        }
        // The values proposed in errors are valid.
        Shape { raw_pages: 98_566_144, ..SHAPE }.check().unwrap();
        Shape { represent: 23_841, pages_per_block: 256, ..SHAPE }.check().unwrap();
        Shape { logical_pages: 1 << 33, raw_pages: 1 << 34, represent: 8, ..SHAPE }
            .check()
            .unwrap();
    }

    #[test]
    fn represent_is_the_least_power_of_two_that_fits() {
        assert_eq!(Shape::auto_represent(97_656_250, 4_000_000), 32);
        assert_eq!(Shape::auto_represent(4_000_000, 4_000_000), 1);
        assert_eq!(Shape::auto_represent(4_000_001, 4_000_000), 2);
    }
}
