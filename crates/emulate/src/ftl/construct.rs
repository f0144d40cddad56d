//! Constructs the state that a device starts in: a device of 400 GB would otherwise have to be
//! written several times over before its first measurement.
//!
//! The cost is a few steps for each page and each block. `ages.rs` has the distribution of valid pages over the
//! blocks of a steady state; here pages are assigned to the blocks.

use std::ops::Range;

use iodyno_units::rng::{Generator, below, key, stream};

use super::ages::Ages;
use super::blocks::{Blocks, NONE, Stream, UNSEALED_BLOCKS};
use super::permute::Permutation;
use super::represent::Sample;
use super::sequentiality::{SCATTERED_PAGES_MAX, Sequentiality};
use super::table::Table;
use super::{Counters, Ftl, Shape};

/// State of a flash translation layer after preconditioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was written: all blocks are erased.
    Fresh,
    /// Every page was written once, in address order.
    Sequential,
    /// Aligned writes of `pages_per_write` pages were made at random addresses, until write
    /// amplification was constant.
    Random {
        /// Pages per write, at least 1. The state is less exact if a block holds only a few writes.
        pages_per_write: u32,
    },
    /// Random writes as in [`Self::Random`], but only to pages from `first_lpn` to `end_lpn` (exclusive). All
    /// other pages were written once, in address order; their blocks have no invalid page and are never
    /// collected.
    RandomWithin {
        /// Pages per write, at least 1.
        pages_per_write: u32,
        /// The first page that was written at random.
        first_lpn: u64,
        /// End of the pages that were written at random (exclusive).
        end_lpn: u64,
    },
}

impl State {
    /// Returns the pages of `written` that were written at random, and the number of pages per write; `None`
    /// without random writes.
    fn rewritten(self, written: &Range<u64>) -> Option<(Range<u64>, u32)> {
        match self {
            Self::Fresh | Self::Sequential => None,
            Self::Random { pages_per_write } => Some((written.clone(), pages_per_write)),
            Self::RandomWithin { pages_per_write, first_lpn, end_lpn } => {
                let first = first_lpn.clamp(written.start, written.end);
                Some((first..end_lpn.clamp(first, written.end), pages_per_write))
            }
        }
    }
}

impl Ftl {
    /// Creates a translation layer in `state`. Only the pages of `written_lpns` were ever written. `seed` and
    /// the device's `number` determine all random choices.
    ///
    /// # Panics
    /// If `shape.check()` returns an error.
    pub fn new(
        shape: Shape,
        state: State,
        written_lpns: Range<u64>,
        seed: u64,
        number: u64,
    ) -> Self {
        let scaled = shape.scaled().unwrap_or_else(|refusal| panic!("{refusal}"));
        let logical = shape.logical_pages;
        let written = match state {
            State::Fresh => 0..0,
            _ => written_lpns.start.min(written_lpns.end)..written_lpns.end.min(logical),
        };
        let sample = (shape.represent > 1).then(|| {
            Box::new(Sample::new(logical, scaled.pages, shape.represent, &written, seed, number))
        });
        let pages = sample.as_ref().map_or(scaled.pages, |sample| sample.mapped());
        let mut ftl = Self {
            shape,
            map: Table::new(pages as usize, NONE),
            owner: Table::new(scaled.blocks as usize * scaled.pages_per_block as usize, NONE),
            blocks: Blocks::new(scaled.blocks, scaled.pages_per_block),
            sample,
            sequentiality: Sequentiality::new(logical),
            collection: None,
            retired: Vec::new(),
            counters: Counters::default(),
            erased: None,
        };
        if let Some((rewritten, pages_per_write)) = state.rewritten(&written) {
            let order = WriteOrder::new(logical, pages_per_write, key(seed, "ftl order", number));
            let rng = stream(seed, "ftl state", number);
            ftl.write_at_random(&written, &rewritten, &order, rng);
        } else if state == State::Sequential {
            match &ftl.sample {
                None => ftl.fill(written.start as u32..written.end as u32),
                Some(sample) => ftl.fill(in_order(sample, &written, |lpn| lpn).into_iter()),
            }
        }
        ftl.map_owners();
        ftl
    }

    /// Makes the tables copy-on-write, so that copies made by [`Self::twin`] share them.
    pub fn share(&mut self) {
        self.map.share();
        self.owner.share();
    }

    /// Creates a copy for device `number`, in the same state but with its own random choices from now on.
    /// Copies only what [`Self::share`] does not share.
    #[must_use]
    pub fn twin(&self, seed: u64, number: u64) -> Self {
        let mut twin = self.clone();
        if let Some(sample) = &mut twin.sample {
            sample.redraw(seed, number);
        }
        twin
    }

    /// Assigns the next pages to the slots from `first` on. [`Self::map_owners`] later updates the map.
    #[inline]
    fn program(&mut self, first: u32, count: u32, pages: &mut impl Iterator<Item = u32>) {
        for owner in &mut self.owner.whole_mut()[first as usize..(first + count) as usize] {
            *owner = pages.next().expect("as many pages as slots");
        }
    }

    /// Builds the map from the table of slot owners.
    ///
    /// Neighbouring slots have entries far apart in the map, which exceeds any CPU cache if every page of a
    /// large device is in it. To be cache-friendly, slots are processed in batches, and the entries of a batch
    /// are written region by region.
    fn map_owners(&mut self) {
        const BATCH: usize = 1 << 20;
        const PART_LOG2: u32 = 20;
        let mut parts = vec![Vec::new(); (self.map.len() >> PART_LOG2) + 1];
        let (map, owner) = (self.map.whole_mut(), self.owner.whole_mut());
        if parts.len() == 1 {
            for (&page, slot) in owner.iter().zip(0..) {
                if page != NONE {
                    map[page as usize] = slot;
                }
            }
            return;
        }
        for (owners, first) in owner.chunks(BATCH).zip((0_u32..).step_by(BATCH)) {
            for (&page, slot) in owners.iter().zip(first..) {
                if page != NONE {
                    parts[(page >> PART_LOG2) as usize].push((page, slot));
                }
            }
            for (page, slot) in parts.iter_mut().flat_map(|part| part.drain(..)) {
                map[page as usize] = slot;
            }
        }
    }

    /// Creates the state after the pages of `written` were written once, and those of `rewritten`, a subrange,
    /// at random until write amplification was constant.
    fn write_at_random(
        &mut self,
        written: &Range<u64>,
        rewritten: &Range<u64>,
        order: &WriteOrder,
        rng: Generator,
    ) {
        if order.length <= u64::from(SCATTERED_PAGES_MAX) {
            self.sequentiality.scatter(rewritten);
        }
        let around = [written.start..rewritten.start, rewritten.end..written.end];
        let kept = around.into_iter().filter(|range| !range.is_empty());
        let mut kept: Vec<u32> = match &self.sample {
            None => kept.flatten().map(|lpn| lpn as u32).collect(),
            Some(sample) => kept.flat_map(|range| in_order(sample, &range, |lpn| lpn)).collect(),
        };
        // Pages that do not fill a last block are added to the rewritten ones.
        let per_block = self.blocks.pages_per_block();
        let kept_blocks = kept.len() as u32 / per_block;
        let rest = kept.split_off((kept_blocks * per_block) as usize);
        self.fill(kept.into_iter());
        match &self.sample {
            None => {
                let count = (rewritten.end - rewritten.start) as u32 + rest.len() as u32;
                let pages = rest.into_iter().chain(order.pages(rewritten));
                self.age(kept_blocks, count, pages, order.length, rng);
            }
            Some(sample) => {
                let pages: Vec<u32> = if order.length > 1 {
                    in_order(sample, rewritten, |lpn| order.rank(lpn))
                } else {
                    // Seen from the host, the order of the map's pages is random already.
                    sample.pages_of(rewritten)
                };
                let run = order.length / u64::from(self.shape.represent);
                let count = (rest.len() + pages.len()) as u32;
                self.age(kept_blocks, count, rest.into_iter().chain(pages), run, rng);
            }
        }
    }

    /// Writes each page once, in the given order.
    fn fill(&mut self, mut pages: impl ExactSizeIterator<Item = u32>) {
        let per_block = self.blocks.pages_per_block();
        while pages.len() > 0 {
            let valid = per_block.min(pages.len() as u32);
            let block = if valid == per_block {
                self.blocks.preset_sealed(valid)
            } else {
                self.blocks.preset_open(Stream::Host, valid)
            };
            let first = self.blocks.slots(block).start;
            self.program(first, valid, &mut pages);
        }
    }

    /// Distributes `count` pages over blocks of all ages, except the `taken` blocks in use. Runs of pages that
    /// were written together stay together.
    fn age(
        &mut self,
        taken: u32,
        count: u32,
        mut pages: impl Iterator<Item = u32>,
        run: u64,
        mut rng: Generator,
    ) {
        let per_block = self.blocks.pages_per_block();
        let run = run.clamp(1, u64::from(per_block)) as u32;
        let sealed = self.blocks.list().len() as u32 - UNSEALED_BLOCKS - taken;
        // The two open blocks are half full.
        let open = (per_block / 2).min(count / 4);
        let ages = Ages { sealed, per_block, pages: count, run };
        let mut survivors = Vec::with_capacity(per_block as usize);
        for valid in ages.valid(count - 2 * open).into_iter().rev() {
            let block = self.blocks.preset_sealed(valid);
            let slots = self.blocks.slots(block);
            if run == 1 {
                survivors.clear();
                survivors.extend(pages.by_ref().take(valid as usize));
                let owner = self.owner.whole_mut();
                sample(&mut rng, &mut owner[slots.start as usize..slots.end as usize], &survivors);
                continue;
            }
            // Selection sampling, run by run: a run survived with the remaining probability.
            let (mut slot, mut left) = (slots.start, valid);
            while left > 0 {
                let space = slots.end - slot;
                let length = run.min(space);
                // After a skipped run, the remaining pages must still fit.
                if below(&mut rng, u64::from(space)) < u64::from(left) || left > space - length {
                    let take = length.min(left);
                    self.program(slot, take, &mut pages);
                    left -= take;
                }
                slot += length;
            }
        }
        for stream in [Stream::Host, Stream::Copy] {
            let block = self.blocks.preset_open(stream, open);
            let first = self.blocks.slots(block).start;
            self.program(first, open, &mut pages);
        }
    }
}

/// Assigns all pages, in their order, to randomly drawn slots (selection sampling). Avoids a branch on the
/// random number, which a processor can't predict.
fn sample(rng: &mut Generator, slots: &mut [u32], pages: &[u32]) {
    let (space, mut taken) = (slots.len(), 0);
    for (before, slot) in slots.iter_mut().enumerate() {
        let Some(&page) = pages.get(taken) else { return };
        let is_taken = below(rng, (space - before) as u64) < (pages.len() - taken) as u64;
        *slot = if is_taken { page } else { NONE };
        taken += usize::from(is_taken);
    }
}

/// Returns the sampled logical pages of a range, each with its page of the map, in map order.
fn of_range<'a>(
    sample: &'a Sample,
    written: &'a Range<u64>,
) -> impl Iterator<Item = (u64, u32)> + 'a {
    sample.all().filter(|(lpn, _)| written.contains(lpn))
}

/// Returns the map's pages that represent a range of logical pages, sorted by `rank`.
fn in_order(sample: &Sample, written: &Range<u64>, rank: impl Fn(u64) -> u64) -> Vec<u32> {
    let pages = of_range(sample, written);
    let mut ranked: Vec<(u64, u32)> = pages.map(|(lpn, page)| (rank(lpn), page)).collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, page)| page).collect()
}

/// A random order of aligned writes of `length` pages that covers each address once.
#[derive(Clone, Debug)]
struct WriteOrder {
    length: u64,
    places: Permutation,
    count: u64,
}

impl WriteOrder {
    fn new(logical_pages: u64, pages_per_write: u32, key: u64) -> Self {
        let length = u64::from(pages_per_write.max(1));
        let count = logical_pages.div_ceil(length);
        Self { length, places: Permutation::new(count, key), count }
    }

    fn rank(&self, lpn: u64) -> u64 {
        self.places.apply(lpn / self.length) * self.length + lpn % self.length
    }

    /// Returns the pages of a range in the order in which they were written.
    fn pages<'a>(&'a self, written: &'a Range<u64>) -> impl Iterator<Item = u32> + 'a {
        (0..self.count).flat_map(move |rank| {
            let first = self.places.inverse(rank) * self.length;
            (first.max(written.start)..(first + self.length).min(written.end)).map(|lpn| lpn as u32)
        })
    }
}
