//! Writes that take no time. They age a device by a workload whose steady state has no closed form.

use super::blocks::{FREE_BLOCKS, Stream};
use super::{Ftl, Handle, Page};

impl Ftl {
    /// Writes `lpn` in zero simulated time. First collects whole victims while fewer than [`FREE_BLOCKS`] blocks are
    /// free. No program operation may be in flight.
    pub fn write_untimed(&mut self, lpn: u64) {
        if let Some(page) = self.applies(lpn) {
            self.write_page(page, self.handle(lpn));
        }
    }

    fn write_page(&mut self, page: Page, handle: Handle) {
        while self.free_blocks() < FREE_BLOCKS && self.collect_untimed() {}
        if let Some(slot) = self.reserve(Stream::Host(handle)) {
            self.commit(page, slot);
        }
    }

    /// Copies the rest of the victim and erases it. Returns false if no block is worth collecting.
    fn collect_untimed(&mut self) -> bool {
        if self.victim().is_none() {
            return false;
        }
        while let Some(copy) = self.next_copy() {
            let stream = self.copy_stream().expect("a valid page");
            let slot = self.reserve(stream).expect("a free block is kept for copies");
            self.commit_copy(copy, slot);
        }
        self.retire_victim();
        true
    }
}
