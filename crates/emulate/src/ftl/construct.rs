//! The state that a device starts in, made directly: a device of 400 GB would otherwise have to be
//! written several times over before its first measurement.
//!
//! In steady state under uniform random writes, a page survives the time in which one block is
//! filled with probability q, so that the block that was sealed j blocks ago has b q^j valid pages
//! of b, and binomial noise. q follows from the sum, which is what is written; the write
//! amplification b / (n ln(1/q)) of n pages, that goes with it, is the closed form of `oracle.rs`.

use std::ops::Range;

use iodyno_units::rng::{Generator, RngCore as _, below, key, stream};

use super::blocks::{Blocks, KEPT_BLOCKS, NONE};
use super::chunks::{Chunks, SCATTERED_PAGES_MAX};
use super::permute::Permutation;
use super::represent::Sample;
use super::{Counters, Ftl, Shape};

/// What was done to a device before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing: all blocks are erased.
    Fresh,
    /// Every page was written once, in order.
    Sequential,
    /// Aligned writes of so many pages were made at random places, until write amplification did
    /// not change any more.
    Random {
        /// Pages of a write, at least 1. The state is less exact when a block holds few of them.
        pages_per_write: u32,
    },
}

impl Ftl {
    /// A device in `state`, of which only the pages of `written_lpns` were ever written. `seed` and
    /// `number`, of the device, choose all that is random in it.
    ///
    /// # Panics
    /// If `shape.check()` refuses.
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
            _ => written_lpns.start.min(logical)..written_lpns.end.min(logical),
        };
        let sample = (shape.represent > 1).then(|| {
            Box::new(Sample::new(logical, scaled.pages, shape.represent, &written, seed, number))
        });
        let mut ftl = Self {
            shape,
            map: vec![NONE; scaled.pages as usize],
            owner: vec![NONE; scaled.blocks as usize * scaled.pages_per_block as usize],
            blocks: Blocks::new(scaled.blocks, scaled.pages_per_block),
            sample,
            chunks: Chunks::new(logical),
            collection: None,
            retired: Vec::new(),
            counters: Counters::default(),
        };
        match state {
            State::Fresh => {}
            State::Sequential => match ftl.sampled(&written, |lpn| lpn) {
                Some(pages) => ftl.fill(pages.into_iter()),
                None => ftl.fill(written.start as u32..written.end as u32),
            },
            State::Random { pages_per_write } => {
                let length = u64::from(pages_per_write.max(1));
                let order = WriteOrder::new(logical, length, key(seed, "ftl order", number));
                let rng = stream(seed, "ftl state", number);
                if length <= u64::from(SCATTERED_PAGES_MAX) {
                    ftl.chunks.scatter(&written);
                }
                // Represented pages are in a random order already.
                let rank = |lpn| if length == 1 { 0 } else { order.rank(lpn) };
                match ftl.sampled(&written, rank) {
                    Some(pages) => {
                        let run = (length / u64::from(shape.represent)).max(1);
                        ftl.age(pages.len() as u32, pages.into_iter(), run as u32, rng);
                    }
                    None => ftl.age(
                        (written.end - written.start) as u32,
                        order.pages(&written),
                        length.min(u64::from(shape.pages_per_block)) as u32,
                        rng,
                    ),
                }
            }
        }
        ftl
    }

    /// The represented pages of the range in the order of `rank`; none in the exact form.
    fn sampled(&self, written: &Range<u64>, rank: impl Fn(u64) -> u64) -> Option<Vec<u32>> {
        let sample = self.sample.as_ref()?;
        let mut ranked: Vec<(u64, u32)> = (0..self.map.len() as u32)
            .map(|page| (sample.lpn(page), page))
            .filter(|(lpn, _)| written.contains(lpn))
            .map(|(lpn, page)| (rank(lpn), page))
            .collect();
        ranked.sort_unstable();
        Some(ranked.into_iter().map(|(_, page)| page).collect())
    }

    fn place(&mut self, page: u32, slot: u32) {
        self.map[page as usize] = slot;
        self.owner[slot as usize] = page;
    }

    /// Writes the pages one after the other, each once.
    fn fill(&mut self, mut pages: impl ExactSizeIterator<Item = u32>) {
        let per_block = self.blocks.pages_per_block();
        while pages.len() > 0 {
            let valid = per_block.min(pages.len() as u32);
            let block = if valid == per_block {
                self.blocks.preset_sealed(valid)
            } else {
                self.blocks.preset_host(valid)
            };
            let first = self.blocks.slots(block).start;
            for (slot, page) in (first..first + valid).zip(&mut pages) {
                self.place(page, slot);
            }
        }
    }

    /// Deals the pages, `count` of them, to blocks of all ages. Pages that were written together,
    /// in runs, stay together.
    fn age(
        &mut self,
        count: u32,
        mut pages: impl Iterator<Item = u32>,
        run: u32,
        mut rng: Generator,
    ) {
        let per_block = self.blocks.pages_per_block();
        let sealed = self.blocks.list().len() as u32 - KEPT_BLOCKS;
        for valid in valid_by_age(sealed, per_block, count, run, &mut rng).into_iter().rev() {
            let block = self.blocks.preset_sealed(valid);
            let slots = self.blocks.slots(block);
            // Selection sampling, run by run: a run survived with the chance that is left.
            let (mut slot, mut left) = (slots.start, valid);
            while left > 0 {
                let space = slots.end - slot;
                let length = run.min(space);
                // What is left must fit behind a run that is passed over.
                if below(&mut rng, u64::from(space)) < u64::from(left) || left > space - length {
                    let take = length.min(left);
                    for (slot, page) in (slot..slot + take).zip(&mut pages) {
                        self.place(page, slot);
                    }
                    left -= take;
                }
                slot += length;
            }
        }
    }
}

/// Valid pages of the sealed blocks, the youngest first; `total` in all.
fn valid_by_age(
    sealed: u32,
    per_block: u32,
    total: u32,
    run: u32,
    rng: &mut Generator,
) -> Vec<u32> {
    let full = f64::from(per_block);
    let ratio = survival_ratio(sealed, f64::from(total) / full);
    let mut survival = std::iter::successors(Some(1.0), move |share| Some(share * ratio));
    // Greedy collection has taken every block that fell below what its victims hold.
    let least = libm::pow(ratio, f64::from(sealed - 1));
    let runs = full / f64::from(run);
    let mut valid: Vec<u32> = (0..sealed)
        .map(|_| {
            let share: f64 = survival.next().expect("it has no end");
            // Twelve uniform draws less 6 are as good as normal here, without a logarithm.
            let sum: u64 = (0..6)
                .map(|_| {
                    let draw = rng.next_u64();
                    (draw >> 32) + (draw & 0xFFFF_FFFF)
                })
                .sum();
            let normal = sum as f64 / 4_294_967_296.0 - 6.0;
            let noisy = share + normal * libm::sqrt(share * (1.0 - share) / runs);
            libm::round(noisy.clamp(least.min(share), 1.0) * full) as u32
        })
        .collect();
    // What noise and rounding changed in the sum is put right a page at a time, all round.
    let mut sum: u64 = valid.iter().map(|&v| u64::from(v)).sum();
    let mut index = below(rng, u64::from(sealed)) as usize;
    while sum != u64::from(total) {
        if sum < u64::from(total) && valid[index] < per_block {
            (valid[index], sum) = (valid[index] + 1, sum + 1);
        } else if sum > u64::from(total) && valid[index] > 0 {
            (valid[index], sum) = (valid[index] - 1, sum - 1);
        }
        index = (index + 1) % valid.len();
    }
    valid
}

/// The q with 1 + q + … + q^(blocks - 1) = `full_blocks`, by bisection; 0 if that is less than 1.
fn survival_ratio(blocks: u32, full_blocks: f64) -> f64 {
    let sum = |q: f64| {
        let (mut power, mut square, mut exponent) = (1.0, q, blocks);
        while exponent > 0 {
            if exponent & 1 == 1 {
                power *= square;
            }
            square *= square;
            exponent >>= 1;
        }
        (1.0 - power) / (1.0 - q)
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if middle < 1.0 && sum(middle) < full_blocks {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The order in which aligned writes of `length` pages were made, each place once.
#[derive(Clone, Debug)]
struct WriteOrder {
    length: u64,
    places: Permutation,
    count: u64,
}

impl WriteOrder {
    fn new(logical_pages: u64, length: u64, key: u64) -> Self {
        let count = logical_pages.div_ceil(length);
        Self { length, places: Permutation::new(count, key), count }
    }

    fn rank(&self, lpn: u64) -> u64 {
        self.places.apply(lpn / self.length) * self.length + lpn % self.length
    }

    /// The pages of the range in this order.
    fn pages<'a>(&'a self, written: &'a Range<u64>) -> impl Iterator<Item = u32> + 'a {
        (0..self.count).flat_map(move |rank| {
            let first = self.places.inverse(rank) * self.length;
            (first.max(written.start)..(first + self.length).min(written.end)).map(|lpn| lpn as u32)
        })
    }
}
