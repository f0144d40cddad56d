//! Which logical pages are represented, and by which pages of the map.
//!
//! A keyed bijection permutes the address space. The pages whose image is among the first n /
//! k are represented, and the image is the page's number in the map. So runs, strides and hot
//! regions of any workload are sampled evenly. Heavy hitters are represented separately
//! (`heavy_hitters.rs`). If k = 1, none of this is needed: a page is its own number.

use std::ops::Range;

use iodyno_units::rng::{key, stream};

use super::heavy_hitters::{HeavyHitters, Write};
use super::permute::Permutation;
use super::written::Written;

#[derive(Clone, Debug)]
pub(super) struct Sample {
    permutation: Permutation,
    /// Number of map pages that represent logical pages; the pages after them represent heavy hitters.
    pages: u32,
    hot: HeavyHitters,
    pub(super) written: Written,
}

impl Sample {
    /// Creates a sample of `pages` of `logical_pages`; those in `written` hold data.
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

    /// Replaces the random stream with that of device `number`.
    pub(super) fn redraw(&mut self, seed: u64, number: u64) {
        self.hot.redraw(stream(seed, "ftl heavy hitters", number));
    }

    /// The page that represents `lpn` in the sample of pages. A heavy hitter may have such a page
    /// too, but it no longer changes.
    #[inline]
    pub(super) fn page(&self, lpn: u64) -> Option<u32> {
        let image = self.permutation.apply(lpn);
        (image < u64::from(self.pages)).then_some(image as u32)
    }

    /// All represented logical pages, with their pages of the map.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u32)> {
        (0..self.pages).map(|page| (self.permutation.inverse(u64::from(page)), page))
    }

    /// The pages of the map that represent pages of the range, in the map's order.
    pub(super) fn pages_of(&self, lpns: &Range<u64>) -> Vec<u32> {
        if *lpns == (0..self.written.pages()) {
            // The range covers all pages, so there is no need to test each one.
            return (0..self.pages).collect();
        }
        self.all().filter(|(lpn, _)| lpns.contains(lpn)).map(|(_, page)| page).collect()
    }

    /// Number of pages of the map, those of heavy hitters included.
    pub(super) fn mapped(&self) -> u32 {
        self.pages + self.hot.groups()
    }

    /// Prefetches the state for an imminent host write.
    #[inline]
    pub(super) fn prefetch(&self, lpn: u64) {
        self.hot.prefetch(lpn);
    }

    /// Begins a host write. Returns the page of the map to which it applies, if any.
    #[inline]
    pub(super) fn write(&mut self, lpn: u64) -> Option<u32> {
        self.written.set(lpn);
        match self.hot.write(lpn) {
            Write::Apply(group) => Some(self.pages + u32::from(group)),
            Write::Skip => None,
            Write::Cold => self.page(lpn),
        }
    }

    /// The pages of the map whose data is discarded by a trim of the range. A page that represents heavy
    /// hitters keeps its data unless the whole device is trimmed.
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
