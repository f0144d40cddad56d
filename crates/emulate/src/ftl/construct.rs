//! Constructs the initial state of a device. Simulating the preconditioning would mean writing a device of, say, 400
//! GB several times over before its first measurement.
//!
//! The cost is a few steps per page and per block. `ages.rs` computes the distribution of valid pages over the blocks
//! in steady state; this module assigns pages to the blocks.

use std::ops::Range;

use iodyno_units::rng::{Generator, below, key, stream};

use super::ages::Ages;
use super::blocks::{Blocks, NONE, Stream, unsealed_blocks};
use super::permute::Permutation;
use super::placement::{Handle, Placement};
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
    /// Random writes as in [`Self::Random`], but only to pages from `first_lpn` to `end_lpn` (exclusive). All other
    /// pages were written once, in address order. Their blocks have no invalid page and are never collected.
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
        Self::placed(shape, Placement::default(), state, written_lpns, seed, number)
    }

    /// Same as [`Self::new`], with a placement of the logical pages.
    ///
    /// # Panics
    /// If `shape.check()` returns an error, or `shape.frontiers` differs from [`Placement::frontiers`].
    pub fn placed(
        shape: Shape,
        placement: Placement,
        state: State,
        written_lpns: Range<u64>,
        seed: u64,
        number: u64,
    ) -> Self {
        assert_eq!(shape.frontiers, placement.frontiers(), "write frontiers");
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
            blocks: Blocks::new(scaled.blocks, scaled.pages_per_block, &placement),
            placement,
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
            for handle in 0..ftl.placement.handles() {
                let written = common(&written, &ftl.placement.range(handle, logical));
                match &ftl.sample {
                    None => ftl.fill(handle, written.start as u32..written.end as u32),
                    Some(sample) => {
                        let pages = in_order(sample, &written, |lpn| lpn);
                        ftl.fill(handle, pages.into_iter());
                    }
                }
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

    /// Creates a copy for device `number`, in the same state but with its own random choices from now on. Does not
    /// copy the tables that [`Self::share`] has made copy-on-write.
    #[must_use]
    pub fn twin(&self, seed: u64, number: u64) -> Self {
        let mut twin = self.clone();
        if let Some(sample) = &mut twin.sample {
            sample.redraw(seed, number);
        }
        twin
    }

    /// Assigns the next `count` pages to the slots from `first` on. [`Self::map_owners`] later updates the map.
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
        mut rng: Generator,
    ) {
        if order.length <= u64::from(SCATTERED_PAGES_MAX) {
            self.sequentiality.scatter(rewritten);
        }
        let groups: Vec<Range<Handle>> = self.placement.isolated().collect();
        let kept: Vec<Kept> =
            groups.iter().map(|group| self.keep(group, written, rewritten)).collect();
        let taken: u32 = kept.iter().map(|kept| kept.blocks).sum();
        let run = order.length / u64::from(self.shape.represent);
        let rewritten = groups.iter().map(|group| common(rewritten, &self.pages_of(group)));
        let rewritten: Vec<Range<u64>> = rewritten.collect();
        let pages: Vec<Option<Vec<u32>>> =
            rewritten.iter().map(|range| self.sampled(range, order)).collect();
        let count = |at: usize| {
            let range = &rewritten[at];
            let pages = pages[at].as_ref().map_or((range.end - range.start) as usize, Vec::len);
            (kept[at].rest.len() + pages) as u32
        };
        let counts: Vec<u32> = (0..groups.len()).map(count).collect();
        let sealed = self.divide_sealed(&groups, &counts, taken);
        for (at, (kept, pages)) in kept.into_iter().zip(pages).enumerate() {
            let group = Group { hosts: groups[at].clone(), sealed: sealed[at], pages: counts[at] };
            let rest = kept.rest.into_iter();
            match pages {
                None => self.age(
                    &group,
                    rest.chain(order.pages(&rewritten[at])),
                    order.length,
                    &mut rng,
                ),
                Some(pages) => self.age(&group, rest.chain(pages), run, &mut rng),
            }
        }
    }

    /// Fills whole blocks with the pages of a group that were written once and not rewritten.
    fn keep(
        &mut self,
        group: &Range<Handle>,
        written: &Range<u64>,
        rewritten: &Range<u64>,
    ) -> Kept {
        let all = self.pages_of(group);
        let around = [written.start..rewritten.start, rewritten.end..written.end];
        let kept = around.map(|range| common(&range, &all)).into_iter();
        let kept = kept.filter(|range| !range.is_empty());
        let mut kept: Vec<u32> = match &self.sample {
            None => kept.flatten().map(|lpn| lpn as u32).collect(),
            Some(sample) => kept.flat_map(|range| in_order(sample, &range, |lpn| lpn)).collect(),
        };
        let per_block = self.blocks.pages_per_block();
        let blocks = kept.len() as u32 / per_block;
        let rest = kept.split_off((blocks * per_block) as usize);
        self.fill(group.start, kept.into_iter());
        Kept { blocks, rest }
    }

    /// Returns the map's pages of a range of logical pages, in the order in which they were written; `None` if every
    /// page is in the map.
    fn sampled(&self, range: &Range<u64>, order: &WriteOrder) -> Option<Vec<u32>> {
        let sample = self.sample.as_ref()?;
        Some(if order.length > 1 {
            in_order(sample, range, |lpn| order.rank(lpn))
        } else {
            // Seen from the host, the order of the map's pages is random already.
            sample.pages_of(range)
        })
    }

    /// Returns the logical pages of a group of handles.
    fn pages_of(&self, group: &Range<Handle>) -> Range<u64> {
        let of = |handle| self.placement.range(handle, self.shape.logical_pages);
        of(group.start).start..of(group.end - 1).end
    }

    /// Divides the sealed blocks, except the `taken` ones in use, among groups with these numbers of pages. Greedy
    /// collection collects blocks of each group at the same number of valid pages, so under uniform writes each group
    /// has the same share of spare, whatever its write rate.
    fn divide_sealed(&self, groups: &[Range<Handle>], counts: &[u32], taken: u32) -> Vec<u32> {
        let per_block = self.blocks.pages_per_block();
        let sealed =
            self.blocks.list().len() as u32 - unsealed_blocks(self.shape.frontiers) - taken;
        let needed = groups.iter().zip(counts).map(|(group, &count)| {
            let open = group.len() as u32 + 1;
            (count - open * open_pages(per_block, count, open)).div_ceil(per_block)
        });
        let needed: Vec<u32> = needed.collect();
        let spare = u64::from(sealed - needed.iter().sum::<u32>());
        let all = counts.iter().map(|&count| u64::from(count)).sum::<u64>().max(1);
        let (mut before, mut given) = (0, 0);
        let mut sealed = Vec::with_capacity(groups.len());
        for (needed, &count) in needed.into_iter().zip(counts) {
            before += u64::from(count);
            let upto = if before == all { spare } else { spare * before / all };
            sealed.push(needed + (upto - given) as u32);
            given = upto;
        }
        sealed
    }

    /// Writes each page of a handle once, in the given order.
    fn fill(&mut self, handle: Handle, mut pages: impl ExactSizeIterator<Item = u32>) {
        let per_block = self.blocks.pages_per_block();
        let copies = Stream::Copy(if self.placement.is_persistent() { handle } else { 0 });
        while pages.len() > 0 {
            let valid = per_block.min(pages.len() as u32);
            let block = if valid == per_block {
                self.blocks.preset_sealed(copies, valid)
            } else {
                self.blocks.preset_open(Stream::Host(handle), valid)
            };
            let first = self.blocks.slots(block).start;
            self.program(first, valid, &mut pages);
        }
    }

    /// Distributes the pages of a group over blocks of all ages. Runs of pages that were written together stay
    /// together.
    fn age(
        &mut self,
        group: &Group,
        pages: impl Iterator<Item = u32>,
        run: u64,
        rng: &mut Generator,
    ) {
        let per_block = self.blocks.pages_per_block();
        let open = group.hosts.len() as u32 + 1;
        let each = open_pages(per_block, group.pages, open);
        if group.hosts.len() == 1 {
            let sealed = group.pages - open * each;
            let mut pages = pages;
            self.age_sealed(group, sealed, &mut pages, run, rng);
            self.open_with(Stream::Host(group.hosts.start), each, &mut pages);
            self.open_with(Stream::Copy(group.hosts.start), each, &mut pages);
            return;
        }
        // The youngest pages of each handle are in its open block.
        let (mut older, mut youngest) = (Vec::new(), vec![Vec::new(); group.hosts.len()]);
        let all: Vec<u32> = pages.collect();
        for &page in all.iter().rev() {
            let of_handle = &mut youngest[usize::from(self.handle_of(page) - group.hosts.start)];
            let is_youngest = of_handle.len() < each as usize;
            (if is_youngest { of_handle } else { &mut older }).push(page);
        }
        let sealed = (older.len() as u32).saturating_sub(each);
        let copied = older.len() as u32 - sealed;
        let mut older = older.into_iter().rev();
        self.age_sealed(group, sealed, &mut older, run, rng);
        for (handle, pages) in group.hosts.clone().zip(youngest) {
            let count = pages.len() as u32;
            self.open_with(Stream::Host(handle), count, &mut pages.into_iter().rev());
        }
        self.open_with(Stream::Copy(group.hosts.start), copied, &mut older);
    }

    /// Opens a block of a stream, with the next `count` pages already in it.
    fn open_with(&mut self, stream: Stream, count: u32, pages: &mut impl Iterator<Item = u32>) {
        let block = self.blocks.preset_open(stream, count);
        let first = self.blocks.slots(block).start;
        self.program(first, count, pages);
    }

    /// Returns the reclaim unit handle of a page of the map.
    fn handle_of(&self, page: u32) -> Handle {
        let sample = self.sample.as_ref();
        self.placement.handle(sample.map_or(u64::from(page), |sample| sample.lpn(page)))
    }

    /// Distributes the next `count` pages over the sealed blocks of a group.
    fn age_sealed(
        &mut self,
        group: &Group,
        count: u32,
        mut pages: impl Iterator<Item = u32>,
        run: u64,
        rng: &mut Generator,
    ) {
        let per_block = self.blocks.pages_per_block();
        let run = run.clamp(1, u64::from(per_block)) as u32;
        let open = group.hosts.len() as u32 + 1;
        let ages = Ages { sealed: group.sealed, per_block, pages: group.pages, open, run };
        let copies = Stream::Copy(group.hosts.start);
        let mut survivors = Vec::with_capacity(per_block as usize);
        for valid in ages.valid(count).into_iter().rev() {
            let block = self.blocks.preset_sealed(copies, valid);
            let slots = self.blocks.slots(block);
            if run == 1 {
                survivors.clear();
                survivors.extend(pages.by_ref().take(valid as usize));
                let owner = self.owner.whole_mut();
                sample(rng, &mut owner[slots.start as usize..slots.end as usize], &survivors);
                continue;
            }
            // Selection sampling, run by run: a run survived with the remaining probability.
            let (mut slot, mut left) = (slots.start, valid);
            while left > 0 {
                let space = slots.end - slot;
                let length = run.min(space);
                // After a skipped run, the remaining pages must still fit.
                if below(rng, u64::from(space)) < u64::from(left) || left > space - length {
                    let take = length.min(left);
                    self.program(slot, take, &mut pages);
                    left -= take;
                }
                slot += length;
            }
        }
    }
}

/// A group of handles whose data garbage collection may mix, to be constructed.
#[derive(Clone, Debug)]
struct Group {
    hosts: Range<Handle>,
    /// Number of the group's sealed blocks with rewritten pages.
    sealed: u32,
    /// Number of rewritten pages in the group.
    pages: u32,
}

/// The pages of a group that are not rewritten.
#[derive(Clone, Debug)]
struct Kept {
    /// Number of blocks that the pages fill.
    blocks: u32,
    /// Pages left over when no further block can be filled. They are added to the rewritten pages.
    rest: Vec<u32>,
}

/// Returns the number of pages in each of the `open` blocks of a group: half a block, if the group has enough pages.
fn open_pages(per_block: u32, pages: u32, open: u32) -> u32 {
    (per_block / 2).min(pages / (2 * open))
}

/// Returns the intersection of two ranges. If they are disjoint, it is empty.
fn common(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
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
