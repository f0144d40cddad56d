//! Invariants of the translation layer, and a digest for comparing states. Both visit every page, so they are for
//! tests and for finding the point where two runs diverge.

use iodyno_units::rng::splitmix64;

use super::blocks::NONE;
use super::{Ftl, Stream};

impl Ftl {
    /// Checks the invariants: each mapped page has its own slot; each block has as many valid pages as the map
    /// assigns to it; every slot is valid, in flight, free or invalid.
    ///
    /// # Errors
    /// The first violated invariant, and where it is violated.
    pub fn check(&self) -> Result<(), String> {
        self.blocks.check()?;
        let blocks = self.blocks.list();
        let mut valid = vec![0_u32; blocks.len()];
        for (page, &slot) in self.map.iter().enumerate() {
            if slot == NONE {
                continue;
            }
            // Two pages in one slot would have the same owner.
            if self.owner[slot as usize] as usize != page {
                let owner = self.owner[slot as usize];
                return Err(format!("page {page} lies in slot {slot}, whose owner is {owner}"));
            }
            valid[self.blocks.of(slot) as usize] += 1;
            self.check_placement(page, slot)?;
        }
        for (index, block) in blocks.iter().enumerate() {
            if block.valid != valid[index] {
                let mapped = valid[index];
                return Err(format!(
                    "block {index} has a wrong count of valid pages; the map has {mapped}: {block:?}"
                ));
            }
            if block.valid + block.in_flight > self.blocks.pages_per_block() {
                return Err(format!("block {index} has more pages than slots: {block:?}"));
            }
        }
        self.sample.as_ref().map_or(Ok(()), |sample| sample.check())
    }

    /// Checks that a page lies among data of its own handle, if every page is in the map.
    fn check_placement(&self, page: usize, slot: u32) -> Result<(), String> {
        let stream = self.blocks.list()[self.blocks.of(slot) as usize].stream;
        let is_mixed = matches!(stream, Stream::Copy(_)) && !self.placement.is_persistent();
        let handle = self.placement.handle(page as u64);
        if self.sample.is_some() || is_mixed || stream.handle() == handle {
            return Ok(());
        }
        Err(format!("page {page} of handle {handle} lies in a block of {stream:?}"))
    }

    /// Returns a hash of the map and of every block's state.
    pub fn digest(&self) -> u64 {
        let blocks = self.blocks.list().iter().flat_map(|block| {
            let tags = u64::from(block.stream.index() as u8) << 8 | u64::from(block.state as u8);
            [
                u64::from(block.valid),
                u64::from(block.in_flight),
                u64::from(block.erases),
                block.opened,
                tags,
            ]
        });
        let map = self.map.iter().map(|&slot| u64::from(slot));
        let chunks = self.sequentiality.scores().iter().map(|&score| u64::from(score));
        let counters = [self.counters.host_pages, self.counters.copied_pages, self.counters.erases];
        map.chain(blocks)
            .chain(chunks)
            .chain(counters)
            .fold(0, |digest: u64, word| splitmix64(digest ^ word))
    }
}
