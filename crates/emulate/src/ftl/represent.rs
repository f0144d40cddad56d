//! Chooses the sample of logical pages that the map of the flash translation layer contains: one page in k. Converts
//! between logical pages and pages of the map.
//!
//! A keyed permutation gives each of the n logical pages a number below n. Pages with numbers below n / k are in the
//! sample, and the number is the page's number in the map. Runs, strides and hot regions of any workload are thus
//! sampled evenly. Heavy hitters are represented separately (`heavy_hitters.rs`). If k = 1, every page is in the map
//! under its own number.

use std::ops::Range;

use iodyno_units::rng::{key, stream};

use super::heavy_hitters::{HeavyHitters, Write};
use super::permute::Permutation;
use super::written::Written;

#[derive(Clone, Debug)]
pub(super) struct Sample {
    permutation: Permutation,
    /// Number of sampled logical pages. They have the first pages of the map; the map pages after them are for heavy
    /// hitters.
    pages: u32,
    hot: HeavyHitters,
    pub(super) written: Written,
}

impl Sample {
    /// Puts `pages` of `logical_pages` pages into the sample. Logical pages in `written` have data.
    pub(super) fn new(
        logical_pages: u64,
        pages: u32,
        represent: u32,
        written: &Range<u64>,
        seed: u64,
        number: u64,
    ) -> Self {
        let rng = stream(seed, "ftl heavy hitters", number);
        let hot = HeavyHitters::new(logical_pages, represent, rng);
        Self {
            permutation: Permutation::new(logical_pages, key(seed, "ftl sample", number)),
            pages,
            hot,
            written: Written::new(logical_pages, written),
        }
    }

    /// Replaces the generator of random numbers by that of device `number`.
    pub(super) fn redraw(&mut self, seed: u64, number: u64) {
        self.hot.redraw(stream(seed, "ftl heavy hitters", number));
    }

    /// Returns the map's page for `lpn`; `None` if `lpn` is not in the sample. Writes to a heavy hitter don't change
    /// this page.
    #[inline]
    pub(super) fn page(&self, lpn: u64) -> Option<u32> {
        let image = self.permutation.apply(lpn);
        (image < u64::from(self.pages)).then_some(image as u32)
    }

    /// Returns the logical page that is represented by a page of the map, other than one for heavy hitters.
    pub(super) fn lpn(&self, page: u32) -> u64 {
        self.permutation.inverse(u64::from(page))
    }

    /// Returns all sampled logical pages, each with its page of the map.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u32)> {
        (0..self.pages).map(|page| (self.lpn(page), page))
    }

    /// Returns the map's pages for the sampled logical pages of a range, in the map's order.
    pub(super) fn pages_of(&self, lpns: &Range<u64>) -> Vec<u32> {
        if *lpns == (0..self.written.pages()) {
            // The range covers all pages, so there is no need to test each one.
            return (0..self.pages).collect();
        }
        self.all().filter(|(lpn, _)| lpns.contains(lpn)).map(|(_, page)| page).collect()
    }

    /// Returns the number of pages of the map, including those for heavy hitters.
    pub(super) fn mapped(&self) -> u32 {
        self.pages + self.hot.groups()
    }

    /// Prefetches into the CPU cache the tables that a host write of `lpn` will soon need.
    #[inline]
    pub(super) fn prefetch(&self, lpn: u64) {
        self.hot.prefetch(lpn);
    }

    /// Begins a host write. Returns the page of the map to which the write applies; `None` if it does not apply to
    /// the map.
    #[inline]
    pub(super) fn write(&mut self, lpn: u64) -> Option<u32> {
        self.written.set(lpn);
        match self.hot.write(lpn) {
            Write::Apply(group) => Some(self.pages + u32::from(group)),
            Write::Skip => None,
            Write::Cold => self.page(lpn),
        }
    }

    /// Returns the map's pages whose data a trim of the range discards. Pages for heavy hitters keep their data
    /// unless the whole device is trimmed.
    pub(super) fn trim(&mut self, lpns: &Range<u64>) -> Vec<u32> {
        self.written.clear(lpns);
        let length = lpns.end - lpns.start;
        if length == self.written.pages() {
            (0..self.mapped()).collect()
        } else if length < u64::from(self.pages) {
            lpns.clone().filter_map(|lpn| self.page(lpn)).collect()
        } else {
            // For a long range it is cheaper to check each represented page than each page of the range.
            self.pages_of(lpns)
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.hot.memory_bytes() + self.written.memory_bytes()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.hot.check()
    }
}
