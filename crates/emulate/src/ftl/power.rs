//! The map after a power cut: it reflects exactly the program operations that had ended.

use super::Ftl;

impl Ftl {
    /// Processes a power failure. `abandoned`: reserved slots whose program operations had not ended, and which
    /// contain no data. Pages that were not yet copied stay in the victims.
    pub fn power_cut(&mut self, abandoned: impl IntoIterator<Item = u32>) {
        for slot in abandoned {
            self.blocks.abandon(slot);
        }
        let collected = self.collection.take().map(|collection| collection.block);
        let retired = std::mem::take(&mut self.retired);
        for block in collected.into_iter().chain(retired.into_iter().map(|r| r.0)) {
            self.blocks.reseal(block);
        }
    }
}
