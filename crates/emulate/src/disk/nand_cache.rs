//! The NAND of a hybrid disk: a read cache for blocks that were read from the medium at least twice.
//!
//! The cache consists of two direct-mapped tables of block numbers: blocks read once, and cached blocks. A block that
//! is read again while it is in the first table also enters the second, and evicts the block that occupied the slot.
//! Products have finer policies, but this cache has their two measurable properties: uniformly random reads gain
//! nothing, and a small hot set is served from NAND.

use crate::store::{Keeps, Store};
use iodyno_units::rng::splitmix64;

const BLOCK_BYTES: u64 = 4096;

/// The NAND cache of a hybrid disk: hash tables in which an entry is a block number plus 1, or 0 if it is empty.
#[derive(Clone, Debug)]
pub(super) struct NandCache {
    seen: Vec<u64>,
    held: Vec<u64>,
    count: u64,
}

impl NandCache {
    /// Creates an empty cache of `bytes` bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let slots = (bytes / BLOCK_BYTES) as usize;
        Self { seen: vec![0; slots], held: vec![0; slots], count: 0 }
    }

    fn blocks(offset_bytes: u64, len_bytes: u64) -> std::ops::RangeInclusive<u64> {
        let last = offset_bytes + len_bytes.max(1) - 1;
        offset_bytes / BLOCK_BYTES..=last / BLOCK_BYTES
    }

    fn slot(&self, block: u64) -> usize {
        (splitmix64(block) % self.held.len() as u64) as usize
    }

    /// Returns the fill level of the cache. `reads`: number of blocks read so far.
    pub(super) fn store(&self, reads: u64) -> Store {
        Store {
            name: "hybrid disk's NAND",
            keeps: Keeps::Copies,
            held_bytes: self.count * BLOCK_BYTES,
            capacity_bytes: self.held.len() as u64 * BLOCK_BYTES,
            passed_bytes: reads * BLOCK_BYTES,
            choice_bytes: 0,
        }
    }

    /// Returns whether the cache contains all blocks of a range.
    pub(super) fn holds(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        !self.held.is_empty()
            && Self::blocks(offset_bytes, len_bytes).all(|b| self.held[self.slot(b)] == b + 1)
    }

    /// Records a read of a range from the medium. Blocks that were read before are cached.
    pub(super) fn read(&mut self, offset_bytes: u64, len_bytes: u64) {
        if self.held.is_empty() {
            return;
        }
        for block in Self::blocks(offset_bytes, len_bytes) {
            let slot = self.slot(block);
            if self.seen[slot] == block + 1 {
                self.count += u64::from(self.held[slot] == 0);
                self.held[slot] = block + 1;
            } else {
                self.seen[slot] = block + 1;
            }
        }
    }

    /// Drops the blocks of a range from the cache, because it was written.
    pub(super) fn forget(&mut self, offset_bytes: u64, len_bytes: u64) {
        if self.held.is_empty() {
            return;
        }
        for block in Self::blocks(offset_bytes, len_bytes) {
            let slot = self.slot(block);
            if self.held[slot] == block + 1 {
                self.held[slot] = 0;
                self.count -= 1;
            }
        }
    }
}
