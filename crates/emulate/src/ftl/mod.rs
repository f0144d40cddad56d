//! The flash translation layer, as a data structure without time: locates each logical page on the flash, and selects
//! the pages that garbage collection must move.
//!
//! A block in this module is a superblock, which is striped over all dies and erased as a whole. A slot is a place
//! for one logical page of 4 KiB; slots are numbered block after block. The caller models the timing: it programs
//! slots on dies, paces garbage collection, and reports the end of each program operation.
//!
//! - A host write calls [`Ftl::applies`], then [`Ftl::reserve`], and [`Ftl::commit`] when the program operation has
//!   ended. Only then does the map change. If two program operations of a page end in the wrong order, the newer data
//!   counts.
//! - Garbage collection calls [`Ftl::victim`]. For each [`Ftl::next_copy`] it reserves a slot, and calls
//!   [`Ftl::commit_copy`] when the slot is programmed. This changes the map only if the source is still current.
//!   [`Ftl::retire_victim`] then retires the victim, which is erased when all its copies are committed.
//!
//! A large device is represented by a sample of its pages, one in k (`represent`): a host write outside the sample
//! does not change the map, and a copy counts k times. k = 1 is exact.
//!
//! | file | what it holds |
//! |---|---|
//! | `placement` | logical pages with a write frontier of their own |
//! | `shape` | sizes and their limits, scaling to a sample |
//! | `blocks` | free, open and sealed blocks, the choice of a victim, wear |
//! | `collect` | collection of a victim |
//! | `construct`, `ages` | the state that a device starts in |
//! | `represent`, `permute`, `heavy_hitters`, `written` | which pages are represented |
//! | `table` | the map and its inverse, shared by equal devices until written |
//! | `sequentiality` | the ranges written in order |
//! | `untimed` | writes that take no time, to age a device |
//! | `power` | the map after a power cut |
//! | `bug_injection` | injected bugs, to test the tests |
//! | `laws` | the invariants |
//! | `oracle` | closed forms of write amplification |
//!
//! **Invariants:** no time, no dies, no data. Random numbers come from streams of the run's seed whose names begin
//! with `ftl`.

mod ages;
mod blocks;
mod bug_injection;
mod collect;
mod construct;
mod heavy_hitters;
mod laws;
pub mod oracle;
pub mod permute;
mod placement;
mod power;
mod represent;
mod sequentiality;
mod shape;
mod table;
mod untimed;
mod written;

#[cfg(test)]
mod tests;

use crate::spec::VictimRule;
use std::ops::Range;

use blocks::{Blocks, NONE};
use collect::Collection;
use represent::Sample;
use sequentiality::Sequentiality;
use table::Table;

pub use blocks::{FREE_BLOCKS, Stream};
pub use collect::{PageCopy, Victim};
pub use construct::State;
pub use placement::{HANDLES_MAX, Handle, Placement};
pub use shape::Shape;

/// Index of a page in the map. Equals the logical page number if the map contains every page (k = 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page(u32);

impl Page {
    /// Stands for a logical page that is not in the map, because the map contains only a sample of the pages.
    pub const NONE: Self = Self(NONE);

    /// Returns the index as a number below [`Ftl::pages`].
    pub fn index(self) -> u32 {
        self.0
    }
}

/// The physical location of a logical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// The page has no data in flash: it was never written, was trimmed, or its first program operation is in flight.
    Unwritten,
    /// The page's data is in this physical slot.
    Slot(u32),
    /// The page has data, but no known location, because the map contains only a sample of the pages.
    NotRepresented,
}

/// Counters since the creation of the device, in pages and blocks of the map. If the map contains only a sample of
/// the device's pages, only this sample is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of slots programmed for the host, including those whose data was superseded or abandoned.
    pub host_pages: u64,
    /// Number of slots programmed by garbage collection, including copies whose source had changed.
    pub copied_pages: u64,
    /// Number of erased superblocks. The map erases only whole superblocks.
    pub erases: u64,
}

impl Counters {
    /// Returns the increase of each counter since an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host_pages: self.host_pages - earlier.host_pages,
            copied_pages: self.copied_pages - earlier.copied_pages,
            erases: self.erases - earlier.erases,
        }
    }

    /// Returns the write amplification: number of programmed pages per page that the host wrote; 1 before the first
    /// write.
    pub fn write_amplification(&self) -> f64 {
        1.0 + self.copied_pages as f64 / self.host_pages.max(1) as f64
    }
}

/// Wear of the blocks since the creation of the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wear {
    /// Number of erases of the least worn block.
    pub min: u32,
    /// Number of erases of the most worn block.
    pub max: u32,
    /// Mean number of erases per block.
    pub mean: f64,
}

/// A flash translation layer, which maps logical pages to physical slots.
///
/// Logical pages must be below the shape's `logical_pages`; slots and pages must be values that its methods
/// have returned. Anything else panics or corrupts the state.
#[derive(Clone, Debug)]
pub struct Ftl {
    shape: Shape,
    placement: Placement,
    /// The physical slot of each page of the map; `NONE` for pages without data.
    map: Table,
    /// The page last programmed into each slot, which may no longer be current. The map decides, so an overwrite does
    /// not touch this table.
    owner: Table,
    blocks: Blocks,
    /// The sample of logical pages in the map; `None` if every page is in the map.
    sample: Option<Box<Sample>>,
    sequentiality: Sequentiality,
    collection: Option<Collection>,
    /// Retired victims that wait to be erased, each with the number of its copies in flight.
    retired: Vec<(u32, u32)>,
    counters: Counters,
    /// Erased blocks that [`Self::take_erased`] has not returned yet; `None` if they are not recorded.
    erased: Option<Vec<u32>>,
}

impl Ftl {
    /// Returns the physical location of the logical page `lpn`.
    #[inline]
    pub fn find(&self, lpn: u64) -> Residence {
        let Some(sample) = &self.sample else {
            return match self.map[lpn as usize] {
                NONE => Residence::Unwritten,
                slot => Residence::Slot(slot),
            };
        };
        if !sample.written.get(lpn) {
            return Residence::Unwritten;
        }
        match sample.page(lpn).map_or(NONE, |page| self.map[page as usize]) {
            NONE => Residence::NotRepresented,
            slot => Residence::Slot(slot),
        }
    }

    /// Returns whether the logical page `lpn` has data in flash.
    #[inline]
    pub fn holds(&self, lpn: u64) -> bool {
        match &self.sample {
            Some(sample) => sample.written.get(lpn),
            None => self.map[lpn as usize] != NONE,
        }
    }

    /// Returns whether every logical page is known to have data. Always false if the map contains every page (k = 1),
    /// because this is then not tracked.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.sample.as_ref().is_some_and(|sample| sample.written.is_full())
    }

    /// Returns the end (exclusive) of the chunk of pages around `lpn` for which [`Self::sequential`] returns
    /// the same result.
    #[inline]
    pub fn chunk_end(lpn: u64) -> u64 {
        sequentiality::end_of(lpn)
    }

    /// Prefetches into the CPU cache the tables that a host write of `lpn` will soon need.
    #[inline]
    pub(crate) fn prefetch(&self, lpn: u64) {
        if let Some(sample) = &self.sample {
            sample.prefetch(lpn);
        }
    }

    /// Begins a host write of `lpn`. Returns the page of the map to commit when the data is programmed; `None` if the
    /// write does not change the map, which contains only a sample of the pages.
    #[inline]
    pub fn applies(&mut self, lpn: u64) -> Option<Page> {
        self.sequentiality.write(lpn);
        match &mut self.sample {
            None => Some(Page(lpn as u32)),
            Some(sample) => sample.write(lpn).map(Page),
        }
    }

    /// Returns the reclaim unit handle of the logical page `lpn`.
    #[inline]
    pub fn handle(&self, lpn: u64) -> Handle {
        self.placement.handle(lpn)
    }

    /// Reserves the next physical slot of the stream's open block, for a program operation. `None` if no block is free.
    /// The last free block is reserved for copies.
    #[inline]
    pub fn reserve(&mut self, stream: Stream) -> Option<u32> {
        self.blocks.reserve(stream)
    }

    /// Returns whether `count` slots can be reserved for the stream now. `count` must not exceed the slots of one
    /// block.
    #[inline]
    pub fn has_space(&self, stream: Stream, count: u32) -> bool {
        self.blocks.has_space(stream, count)
    }

    /// Commits a host write of `page`, programmed into `slot`: the map points to the slot from now on, unless a
    /// newer write of the page was committed before.
    #[inline]
    pub fn commit(&mut self, page: Page, slot: u32) {
        self.counters.host_pages += 1;
        let block = self.blocks.of(slot);
        let old = self.map[page.0 as usize];
        if old != NONE {
            if self.blocks.is_newer(old, slot) {
                self.blocks.programmed(block, false);
                return;
            }
            self.blocks.lose(self.blocks.of(old));
        }
        self.map[page.0 as usize] = slot;
        self.owner[slot as usize] = page.0;
        self.blocks.programmed(block, true);
    }

    /// Ends a program operation of the host into `slot` without changing the map, because the data was padding, the
    /// page was trimmed during the operation, or the power was cut.
    pub fn discard(&mut self, slot: u32) {
        self.counters.host_pages += 1;
        self.blocks.programmed(self.blocks.of(slot), false);
    }

    /// Trims a range of pages. Writes of these pages that are in flight must be discarded, because committing
    /// them would restore the pages.
    pub fn trim(&mut self, lpns: Range<u64>) {
        if lpns.is_empty() {
            return;
        }
        match &mut self.sample {
            None => lpns.for_each(|lpn| self.unmap(lpn as u32)),
            Some(sample) => sample.trim(&lpns).into_iter().for_each(|page| self.unmap(page)),
        }
    }

    fn unmap(&mut self, page: u32) {
        let old = std::mem::replace(&mut self.map[page as usize], NONE);
        if old != NONE {
            self.blocks.lose(self.blocks.of(old));
        }
    }

    /// Returns whether most of the aligned 1 MiB chunk around `lpn` was last written sequentially.
    #[inline]
    pub fn sequential(&self, lpn: u64) -> bool {
        self.sequentiality.sequential(lpn)
    }

    /// Returns the page whose current data is in `slot`; `None` if the slot contains no current data.
    pub fn page_in(&self, slot: u32) -> Option<Page> {
        let page = self.owner[slot as usize];
        (page != NONE && self.map[page as usize] == slot).then_some(Page(page))
    }

    /// Sets the rule by which garbage collection chooses blocks from now on.
    pub fn choose_victims_by(&mut self, rule: VictimRule) {
        self.blocks.rule = rule;
    }

    /// Starts to record erased blocks, for [`Self::take_erased`].
    pub fn record_erased(&mut self) {
        self.erased.get_or_insert_default();
    }

    /// Returns the slots of the blocks erased since the last call. Empty unless [`Self::record_erased`] was
    /// called.
    pub fn take_erased(&mut self) -> Vec<Range<u32>> {
        let erased = self.erased.as_mut().map(std::mem::take).unwrap_or_default();
        erased.into_iter().map(|block| self.blocks.slots(block)).collect()
    }

    /// Number of erase blocks that are erased and unused.
    #[inline]
    pub fn free_blocks(&self) -> u32 {
        self.blocks.free()
    }

    /// The shape from which the layer was created.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the number of pages per block of the map. Slot s has index s mod this number in its block.
    pub fn pages_per_block(&self) -> u32 {
        self.blocks.pages_per_block()
    }

    /// Returns the number of pages in the map. Equals the number of logical pages if the map contains every page.
    pub fn pages(&self) -> u32 {
        self.map.len() as u32
    }

    /// Returns the number of physical slots in all blocks of the map.
    pub fn slots(&self) -> u32 {
        self.owner.len() as u32
    }

    /// Returns the number of erases on the device that one erase in the map represents: the device's blocks divided by
    /// the blocks of the map.
    pub fn erase_weight(&self) -> f64 {
        let blocks = self.shape.raw_pages / u64::from(self.shape.pages_per_block);
        blocks as f64 / self.blocks.list().len() as f64
    }

    /// Counters since the creation of the device.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Wear since the creation of the device. Visits every block.
    pub fn wear(&self) -> Wear {
        let erases = || self.blocks.list().iter().map(|block| block.erases);
        Wear {
            min: erases().min().unwrap_or(0),
            max: erases().max().unwrap_or(0),
            mean: erases().map(u64::from).sum::<u64>() as f64 / self.blocks.list().len() as f64,
        }
    }

    /// Returns the memory that the translation layer has allocated, in bytes. Tables shared with other devices count
    /// in full.
    pub fn memory_bytes(&self) -> usize {
        self.map.memory_bytes()
            + self.owner.memory_bytes()
            + self.blocks.memory_bytes()
            + self.sequentiality.memory_bytes()
            + self.sample.as_ref().map_or(0, |sample| size_of::<Sample>() + sample.memory_bytes())
    }
}
