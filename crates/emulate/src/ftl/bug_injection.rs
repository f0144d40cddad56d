//! Injected bugs of the map (see `crate::bug_injection`).

use super::{Ftl, Page, PageCopy};

impl Ftl {
    /// Same as [`Ftl::commit`], but takes effect even if a newer program operation of the page was committed before.
    pub(crate) fn commit_last(&mut self, page: Page, slot: u32) {
        self.unmap(page.0);
        self.commit(page, slot);
    }

    /// Same as [`Ftl::commit_copy`], but ignores that the page was overwritten or trimmed during
    /// the copy.
    pub(crate) fn commit_stale(&mut self, copy: PageCopy, slot: u32) {
        let page = copy.page.0;
        if self.map[page as usize] != copy.source {
            self.unmap(page);
            // The source is stale, but counts as current until it is moved.
            let source = self.blocks.of(copy.source);
            self.map[page as usize] = copy.source;
            self.blocks.gain(source);
        }
        self.commit_copy(copy, slot);
    }

    /// Returns the physical slots of the block being collected, if copies of its pages are in flight.
    pub(crate) fn collected(&self) -> Option<std::ops::Range<u32>> {
        self.collection.as_ref().filter(|c| c.in_flight > 0).map(|c| self.blocks.slots(c.block))
    }
}
