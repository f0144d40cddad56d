//! The choice of the next block for garbage collection.

use super::{Block, Blocks, FREE_FOR_COPIES, NONE, State};
use crate::spec::VictimRule;

/// Period, in collections, at which a block is chosen for its low wear, if there is such a block.
const WEAR_EVERY: u32 = 8;
/// Maximum number of blocks examined in a search for a block of low wear.
const WEAR_LOOKS: u32 = 64;

/// A block chosen for garbage collection, and whether low wear was the reason.
#[derive(Clone, Copy, Debug)]
pub(in crate::ftl) struct Pick {
    pub(in crate::ftl) block: u32,
    pub(in crate::ftl) for_wear: bool,
}

impl Blocks {
    /// Chooses the block to collect: the sealed one that the rule prefers, or occasionally one that is worn far less
    /// than others. `None` if no sealed block has an invalid page.
    pub(in crate::ftl) fn pick(&mut self) -> Option<Pick> {
        while self.fewest < self.pages_per_block && self.heads[self.fewest as usize] == NONE {
            self.fewest += 1;
        }
        if self.fewest == self.pages_per_block {
            return None;
        }
        self.picks += 1;
        if self.persistent && self.free.is_empty() {
            let block = self.fitting()?;
            self.unlink(block);
            self.list[block as usize].state = State::Victim;
            return Some(Pick { block, for_wear: false });
        }
        let unworn = if self.picks.is_multiple_of(WEAR_EVERY) { self.unworn() } else { None };
        let block = unworn.unwrap_or_else(|| match self.rule {
            VictimRule::FewestValid => self.heads[self.fewest as usize],
            VictimRule::CostBenefit => self.most_beneficial(),
        });
        self.unlink(block);
        self.list[block as usize].state = State::Victim;
        Some(Pick { block, for_wear: unworn.is_some() })
    }

    /// Returns the sealed block with the largest benefit per cost: age × invalid pages / valid pages. Visits every
    /// block.
    fn most_beneficial(&self) -> u32 {
        let benefit = |block: &Block| {
            let age = (self.opened - block.opened) as f64;
            age * f64::from(self.pages_per_block - block.valid) / f64::from(block.valid)
        };
        let sealed = (0..).zip(&self.list).filter(|(_, block)| block.state == State::Sealed);
        let best = sealed.max_by(|a, b| benefit(a.1).total_cmp(&benefit(b.1)));
        best.map_or(self.heads[self.fewest as usize], |(index, _)| index)
    }

    /// Returns the sealed block with the fewest valid pages among those whose copies fit into the open block of their
    /// stream; `None` if there is none. Visits every block. Used if no block is free, after a power cut has interrupted
    /// a collection: at least the interrupted block fits.
    #[cold]
    fn fitting(&self) -> Option<u32> {
        let fits = |&(index, block): &(u32, &Block)| {
            let is_worth = block.state == State::Sealed && block.valid < self.pages_per_block;
            is_worth && block.valid <= self.open_slots(self.copies_of(index))
        };
        let fitting = (0..).zip(&self.list).filter(fits);
        fitting.min_by_key(|(_, block)| block.valid).map(|(index, _)| index)
    }

    /// Returns the next sealed block that is worn far less than others; `None` if the limited search finds
    /// none.
    fn unworn(&mut self) -> Option<u32> {
        // A block whose pages are all valid uses up a free block and frees only itself.
        if self.free.len() <= FREE_FOR_COPIES {
            return None;
        }
        for _ in 0..WEAR_LOOKS.min(self.list.len() as u32) {
            let index = self.hand;
            self.hand = (self.hand + 1) % self.list.len() as u32;
            let block = &self.list[index as usize];
            let is_unworn = block.erases.saturating_add(self.wear_spread) < self.most_erases;
            if block.state == State::Sealed && is_unworn {
                return Some(index);
            }
        }
        None
    }
}
