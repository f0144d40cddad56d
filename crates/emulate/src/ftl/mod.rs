//! The flash translation layer: the location of each logical page on the flash, and the pages that
//! garbage collection must move, as a data structure without time.
//!
//! A block here is a superblock, erased at once and striped over all dies; a slot is a place for
//! one logical page of 4 KiB, numbered block after block. The caller, which models a device's
//! timing, programs slots on dies, paces collection and reports when each program ended:
//!
//! - a host write: [`Ftl::applies`], then [`Ftl::reserve`], and [`Ftl::commit`] when the program
//!   completed. The map changes then and not before, and if two programs of a page complete in the
//!   wrong order, the newer one counts.
//! - garbage collection: [`Ftl::victim`], then for each [`Ftl::next_copy`] a slot of the copies'
//!   stream, and [`Ftl::commit_copy`] when it is programmed, which changes the map only if the
//!   source is still current. A victim that has given its last copy is retired
//!   ([`Ftl::retire_victim`]), and erased when all its copies are committed.
//!
//! A large device is held by a sample of its pages, one in k (`represent`): a host write outside
//! the sample has no effect on the map, a copy counts k times. k = 1 is the same code and exact.
//!
//! | file | what it holds |
//! |---|---|
//! | `shape` | sizes, refusals, the scaling to a sample |
//! | `blocks` | free, open and sealed blocks, the choice of a victim, wear |
//! | `collect` | the collection of a victim |
//! | `construct`, `ages` | the state that a device starts in |
//! | `represent`, `permute`, `heavy_hitters`, `written` | which pages are represented |
//! | `table` | the map and its inverse, shared by twins until written |
//! | `sequentiality` | the ranges written in order |
//! | `power` | the map after a power cut |
//! | `bug_injection` | deliberate bugs, for tests of the tests |
//! | `laws` | the invariants |
//! | `oracle` | closed forms of write amplification |
//!
//! **Invariants:** no time, no dies, no data. Random draws come from streams named `ftl …` of the
//! run's seed.

mod ages;
mod blocks;
mod bug_injection;
mod collect;
mod construct;
mod heavy_hitters;
mod laws;
pub mod oracle;
pub mod permute;
mod power;
mod represent;
mod sequentiality;
mod shape;
mod table;
mod written;

#[cfg(test)]
mod tests;

use std::ops::Range;

use blocks::{Blocks, NONE};
use collect::Collection;
use represent::Sample;
use sequentiality::Sequentiality;
use table::Table;

pub use blocks::{FREE_BLOCKS, Stream};
pub use collect::{PageCopy, Victim};
pub use construct::State;
pub use shape::Shape;

/// A page of the map. In the exact form it is the logical page's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page(u32);

impl Page {
    /// The page's number, below [`Ftl::pages`].
    pub fn index(self) -> u32 {
        self.0
    }
}

/// The location of a logical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// It holds no data on the flash: never written, trimmed, or its first program is in flight.
    Unwritten,
    /// In this slot.
    Slot(u32),
    /// It holds data, but no page of the map represents it.
    NotRepresented,
}

/// Counters since the device was made, in pages and blocks of the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Slots programmed for the host, overtaken and abandoned ones included.
    pub host_pages: u64,
    /// Slots programmed for garbage collection, those whose source had changed included.
    pub copied_pages: u64,
    /// Blocks erased.
    pub erases: u64,
}

impl Counters {
    /// Difference from an earlier state of the counters.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host_pages: self.host_pages - earlier.host_pages,
            copied_pages: self.copied_pages - earlier.copied_pages,
            erases: self.erases - earlier.erases,
        }
    }

    /// Programs for each page that the host wrote; 1 before the first one.
    pub fn write_amplification(&self) -> f64 {
        1.0 + self.copied_pages as f64 / self.host_pages.max(1) as f64
    }
}

/// Erases of the blocks since the device was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wear {
    /// Erases of the least worn block.
    pub min: u32,
    /// Erases of the most worn block.
    pub max: u32,
    /// Mean of all blocks.
    pub mean: f64,
}

/// A flash translation layer.
///
/// Logical pages are below the shape's `logical_pages`; slots and pages are those that it handed
/// out. Anything else panics or corrupts the state.
#[derive(Clone, Debug)]
pub struct Ftl {
    shape: Shape,
    /// The slot of each page, or `NONE`.
    map: Table,
    /// The page that was last programmed into each slot. It is still there if the map says so:
    /// validity is kept in one place, and an overwrite touches no second table.
    owner: Table,
    blocks: Blocks,
    /// None in the exact form.
    sample: Option<Box<Sample>>,
    sequentiality: Sequentiality,
    collection: Option<Collection>,
    /// Exhausted victims, and how many of their copies are in flight.
    retired: Vec<(u32, u32)>,
    counters: Counters,
    /// The blocks that were erased and not yet taken, where recording is on.
    erased: Option<Vec<u32>>,
}

impl Ftl {
    /// The location of `lpn`.
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

    /// Whether `lpn` holds data on the flash.
    #[inline]
    pub fn holds(&self, lpn: u64) -> bool {
        match &self.sample {
            Some(sample) => sample.written.get(lpn),
            None => self.map[lpn as usize] != NONE,
        }
    }

    /// Whether every page is known to hold data.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.sample.as_ref().is_some_and(|sample| sample.written.is_full())
    }

    /// The first page after `lpn` for which [`Self::sequential`] may give another answer.
    #[inline]
    pub fn chunk_end(lpn: u64) -> u64 {
        sequentiality::end_of(lpn)
    }

    /// A host write of `lpn` begins soon: the processor may fetch what it needs.
    #[inline]
    pub(crate) fn prefetch(&self, lpn: u64) {
        if let Some(sample) = &self.sample {
            sample.prefetch(lpn);
        }
    }

    /// A host write of `lpn` begins. Gives the page to commit when it is programmed, if the write
    /// goes through the map.
    #[inline]
    pub fn applies(&mut self, lpn: u64) -> Option<Page> {
        self.sequentiality.write(lpn);
        match &mut self.sample {
            None => Some(Page(lpn as u32)),
            Some(sample) => sample.write(lpn).map(Page),
        }
    }

    /// The next slot of the stream's open block, whose program begins. None if no block is free for
    /// it: the host's stream leaves the last free block to copies.
    #[inline]
    pub fn reserve(&mut self, stream: Stream) -> Option<u32> {
        self.blocks.reserve(stream)
    }

    /// Whether `count` slots can be reserved now.
    #[inline]
    pub fn has_space(&self, stream: Stream, count: u32) -> bool {
        self.blocks.has_space(stream, count)
    }

    /// The program of a host write completed: `slot`, of the host's stream, holds `page` now, unless
    /// a newer write of it was committed before.
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

    /// The program of `slot`, of the host's stream, ended without data to keep: it was filled up to
    /// complete a program, its page was trimmed meanwhile, or power was cut.
    pub fn discard(&mut self, slot: u32) {
        self.counters.host_pages += 1;
        self.blocks.programmed(self.blocks.of(slot), false);
    }

    /// The pages of the range hold no data any more. Writes of them that are in flight must be
    /// discarded, or they bring their pages back when they are committed.
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

    /// Whether the 1 MiB around `lpn` was last written in order, for the most part.
    #[inline]
    pub fn sequential(&self, lpn: u64) -> bool {
        self.sequentiality.sequential(lpn)
    }

    /// The page whose current data `slot` holds.
    pub fn page_in(&self, slot: u32) -> Option<Page> {
        let page = self.owner[slot as usize];
        (page != NONE && self.map[page as usize] == slot).then_some(Page(page))
    }

    /// Records erased blocks from now on.
    pub fn record_erased(&mut self) {
        self.erased.get_or_insert_default();
    }

    /// The slots of the blocks erased since the last call; none unless recording is on.
    pub fn take_erased(&mut self) -> Vec<Range<u32>> {
        let erased = self.erased.as_mut().map(std::mem::take).unwrap_or_default();
        erased.into_iter().map(|block| self.blocks.slots(block)).collect()
    }

    /// Blocks that are neither written nor open.
    #[inline]
    pub fn free_blocks(&self) -> u32 {
        self.blocks.free()
    }

    /// The shape that it was made with.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Pages of a block of the map: slot s is place s mod this of its block.
    pub fn pages_per_block(&self) -> u32 {
        self.blocks.pages_per_block()
    }

    /// Pages of the map: in the exact form the logical pages.
    pub fn pages(&self) -> u32 {
        self.map.len() as u32
    }

    /// Slots of the map, in all blocks.
    pub fn slots(&self) -> u32 {
        self.owner.len() as u32
    }

    /// The number of erases of the whole device that one erase of the map represents: the ratio of
    /// their numbers of blocks.
    pub fn erase_weight(&self) -> f64 {
        let blocks = self.shape.raw_pages / u64::from(self.shape.pages_per_block);
        blocks as f64 / self.blocks.list().len() as f64
    }

    /// Counters since the device was made.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Wear since the device was made. Visits every block.
    pub fn wear(&self) -> Wear {
        let erases = || self.blocks.list().iter().map(|block| block.erases);
        Wear {
            min: erases().min().unwrap_or(0),
            max: erases().max().unwrap_or(0),
            mean: erases().map(u64::from).sum::<u64>() as f64 / self.blocks.list().len() as f64,
        }
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        self.map.memory_bytes()
            + self.owner.memory_bytes()
            + self.blocks.memory_bytes()
            + self.sequentiality.memory_bytes()
            + self.sample.as_ref().map_or(0, |sample| size_of::<Sample>() + sample.memory_bytes())
    }
}
