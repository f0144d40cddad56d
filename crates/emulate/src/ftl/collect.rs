//! Garbage collection of one block at a time: selects valid pages to copy, commits the copies, and erases the block.
//!
//! The caller decides when a collection begins and at which pace. For a constant number of free blocks, a victim must
//! be finished by the time the host has written as many pages as the victim frees. With v of b pages valid, this
//! takes v / (b - v) copies per host page.

use super::blocks::NONE;
use super::blocks::victim::Pick;
use super::{Ftl, Page, Stream};

/// The block being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Number of valid pages when the block was chosen. This is the maximum number of copies.
    pub valid: u32,
    /// Number of pages of the block, both valid and invalid.
    pub pages_per_block: u32,
    /// Whether the block was chosen for its low wear. Collecting it may free little space, so it should be
    /// collected slowly.
    pub for_wear: bool,
}

/// A valid page of the victim, to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCopy {
    /// Page of the map to copy.
    pub page: Page,
    /// Physical slot from which the page is read.
    pub source: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Collection {
    pub(super) block: u32,
    victim: Victim,
    /// First slot of the block that has not been checked for valid data.
    next: u32,
    /// One past the last slot of the block.
    end: u32,
    /// First slot of the window of 64 slots that was checked last.
    window: u32,
    /// Valid slots of the window whose copies have not begun: bit i is slot `window` + i.
    found: u64,
    /// Number of copies that have begun and are not yet committed.
    pub(super) in_flight: u32,
}

impl Ftl {
    /// Returns the block being collected, and chooses one if there is none. `None` if no block is worth
    /// collecting.
    pub fn victim(&mut self) -> Option<Victim> {
        if self.collection.is_none() {
            let Pick { block, for_wear } = self.blocks.pick()?;
            let slots = self.blocks.slots(block);
            let victim = Victim {
                valid: self.blocks.list()[block as usize].valid,
                pages_per_block: self.blocks.pages_per_block(),
                for_wear,
            };
            self.collection = Some(Collection {
                block,
                victim,
                next: slots.start,
                end: slots.end,
                window: slots.start,
                found: 0,
                in_flight: 0,
            });
        }
        self.collection.as_ref().map(|collection| collection.victim)
    }

    /// Returns the stream for the copies of the present victim's pages; `None` if there is no victim, or it has no
    /// valid page left.
    pub fn copy_stream(&self) -> Option<Stream> {
        let block = self.collection.as_ref()?.block;
        let is_empty = self.blocks.list()[block as usize].valid == 0;
        (!is_empty).then(|| self.blocks.copies_of(block))
    }

    #[inline]
    fn is_current(&self, slot: u32) -> bool {
        let page = self.owner[slot as usize];
        page != NONE && self.map[page as usize] == slot
    }

    /// Returns the victim's next valid page, to be copied. `None` if no page is left, or there is no victim.
    pub fn next_copy(&mut self) -> Option<PageCopy> {
        let mut collection = self.collection.take()?;
        let copy = self.next_of(&mut collection);
        collection.in_flight += u32::from(copy.is_some());
        self.collection = Some(collection);
        copy
    }

    fn next_of(&self, collection: &mut Collection) -> Option<PageCopy> {
        loop {
            while collection.found != 0 {
                let source = collection.window + collection.found.trailing_zeros();
                collection.found &= collection.found - 1;
                // The page may have been overwritten since the check.
                if self.is_current(source) {
                    return Some(PageCopy { page: Page(self.owner[source as usize]), source });
                }
            }
            if collection.next == collection.end {
                return None;
            }
            // Checks a window of slots at a time: their entries of the map are far apart, and loading many
            // at once takes little longer than one.
            collection.window = collection.next;
            collection.next = collection.end.min(collection.next + 64);
            for slot in collection.window..collection.next {
                collection.found |= u64::from(self.is_current(slot)) << (slot - collection.window);
            }
        }
    }

    /// Commits a copy that was programmed into `slot`, a slot reserved for copies. Returns whether the map changed:
    /// false if the page was overwritten or trimmed during the copy.
    pub fn commit_copy(&mut self, copy: PageCopy, slot: u32) -> bool {
        self.counters.copied_pages += 1;
        let Page(page) = copy.page;
        let current = self.map[page as usize] == copy.source;
        if current {
            self.blocks.lose(self.blocks.of(copy.source));
            self.map[page as usize] = slot;
            self.owner[slot as usize] = page;
        }
        self.blocks.programmed(self.blocks.of(slot), current);
        self.returned(copy);
        current
    }

    /// Records the end of a copy in flight.
    fn returned(&mut self, copy: PageCopy) {
        let block = self.blocks.of(copy.source);
        if let Some(collection) = &mut self.collection
            && collection.block == block
        {
            debug_assert!(collection.in_flight > 0, "{copy:?} was not handed out");
            collection.in_flight -= 1;
            return;
        }
        let Some(at) = self.retired.iter().position(|r| r.0 == block) else {
            debug_assert!(false, "{copy:?} was not handed out");
            return;
        };
        self.retired[at].1 -= 1;
        if self.retired[at].1 == 0 {
            self.retired.swap_remove(at);
            self.erase(block);
        }
    }

    /// Retires a victim of which [`Self::next_copy`] has returned all pages. It is erased when its last copy is
    /// committed; the next victim may be chosen before that.
    pub fn retire_victim(&mut self) {
        let Some(collection) = self.collection.take() else { return };
        if collection.in_flight == 0 {
            self.erase(collection.block);
        } else {
            self.retired.push((collection.block, collection.in_flight));
        }
    }

    /// Retires and erases the victim if it has neither valid pages nor copies in flight. Returns whether it
    /// was erased.
    #[cfg(test)]
    pub(super) fn erase_victim(&mut self) -> bool {
        let Some(collection) = &self.collection else { return false };
        let block = &self.blocks.list()[collection.block as usize];
        if collection.in_flight > 0 || block.valid > 0 {
            return false;
        }
        self.retire_victim();
        true
    }

    fn erase(&mut self, block: u32) {
        debug_assert_eq!(self.blocks.list()[block as usize].valid, 0);
        self.blocks.erased(block);
        if let Some(erased) = &mut self.erased {
            erased.push(block);
        }
        self.counters.erases += 1;
    }
}
