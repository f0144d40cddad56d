//! Which logical pages are represented, and by which page of the map.
//!
//! The address space is permuted by a keyed bijection; the pages whose image is among the first
//! n / k are represented, and the image is the page's number in the map. So runs, strides and hot
//! regions of any workload are sampled evenly. Heavy hitters are represented besides (`hot.rs`).
//! The exact form, k = 1, does without all of this: there a page is its own number.

use std::ops::Range;

use iodyno_units::rng::{key, stream};

use super::hot::{HeavyHitters, Write};
use super::permute::Permutation;
use super::written::Written;

#[derive(Clone, Debug)]
pub(super) struct Sample {
    permutation: Permutation,
    pages: u32,
    pub(super) hot: HeavyHitters,
    pub(super) written: Written,
}

impl Sample {
    /// `pages` of `logical_pages` are represented; those in `written` hold data.
    pub(super) fn new(
        logical_pages: u64,
        pages: u32,
        represent: u32,
        written: &Range<u64>,
        seed: u64,
        number: u64,
    ) -> Self {
        Self {
            permutation: Permutation::new(logical_pages, key(seed, "ftl sample", number)),
            pages,
            hot: HeavyHitters::new(pages, represent, stream(seed, "ftl heavy hitters", number)),
            written: Written::new(logical_pages, written),
        }
    }

    /// The page that represents `lpn`, if it is not a heavy hitter.
    #[inline]
    fn cold_page(&self, lpn: u64) -> Option<u32> {
        let page = self.permutation.apply_below(lpn, u64::from(self.pages))? as u32;
        (!self.hot.is_lent(page)).then_some(page)
    }

    /// The page that represents `lpn`.
    #[inline]
    pub(super) fn page(&self, lpn: u64) -> Option<u32> {
        self.hot.page(lpn).or_else(|| self.cold_page(lpn))
    }

    /// The logical page to which a page of the map belongs while it is not lent.
    pub(super) fn lpn(&self, page: u32) -> u64 {
        self.permutation.inverse(u64::from(page))
    }

    /// A host write begins: the page to which it applies, and one that lost its data because it is
    /// no longer lent and its own logical page has none.
    #[inline]
    pub(super) fn write(&mut self, lpn: u64) -> (Option<u32>, Option<u32>) {
        self.written.set(lpn);
        match self.hot.write(lpn) {
            Write::Apply(page) => (Some(page), None),
            Write::Skip => (None, None),
            Write::Cold => (self.cold_page(lpn), None),
            Write::GaveBack(back) => {
                let lost = !self.written.get(self.lpn(back));
                (self.cold_page(lpn), lost.then_some(back))
            }
        }
    }

    /// The pages of the map whose data a trim of the range discards.
    pub(super) fn trim(&mut self, lpns: &Range<u64>) -> Vec<u32> {
        self.written.clear(lpns);
        // Asking each page of a long range costs more than asking each represented page.
        if lpns.end - lpns.start < u64::from(self.pages) {
            return lpns.clone().filter_map(|lpn| self.page(lpn)).collect();
        }
        let cold = (0..self.pages)
            .filter(|&page| !self.hot.is_lent(page) && lpns.contains(&self.lpn(page)));
        let hot = self.hot.all().filter(|(lpn, _)| lpns.contains(lpn)).map(|(_, page)| page);
        cold.chain(hot).collect()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.hot.memory_bytes() + self.written.memory_bytes()
    }
}
