//! Pages that are written so often that a sample of pages cannot stand for them.
//!
//! When one page in k is represented, a page with a noticeable share of all writes is either in the
//! sample, and counts k times too much, or isn't, and is missing: under zipf 0.99 write
//! amplification misses by a quarter. So such heavy hitters are sampled in time instead: each is
//! represented, and one in k of its writes is applied. It then has its true share of the writes.
//!
//! They are found by counters in sets of eight, as by Misra and Gries (1982), but fed by a sample
//! of the misses: an entry's counter rises with each of its writes, and one in 16 of the writes
//! that find no entry lowers a counter of their set, or takes the entry over where the counter is
//! 0. So a counter rises for ever exactly if its page has more than 1 / (16 × 8) of the set's
//! writes, and no clock is needed. There are so few entries that under uniform load every page is
//! at most a quarter as busy as that.
//!
//! The space that a heavy hitter takes is lent by a represented page that then stands for nothing:
//! the number of represented pages, and with it the spare, stays what it was.

use iodyno_units::rng::{Generator, RngCore as _};

/// One in so many misses lowers a counter: its upper bits are zero.
const SAMPLE_BITS: u32 = 4;
const WAYS: usize = 8;
/// A page is a heavy hitter from this count on, until the count is 0.
const PROMOTED_AT: u8 = 64;
/// At most so many heavy hitters, ...
const HITTERS_MAX: u32 = 2048;
/// ... and at most one for so many represented pages, lest uniform load be seen as heavy.
const PAGES_PER_HITTER: u32 = 64;

const EMPTY: u32 = u32::MAX;
const NOT_HEAVY: u16 = u16::MAX;

/// Eight entries on one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Set {
    tags: [u32; WAYS],
    /// Which lent page a heavy hitter has.
    pages: [u16; WAYS],
    counts: [u8; WAYS],
}

/// What a write of a page means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Not a heavy hitter: the sample of pages decides.
    Cold,
    /// As `Cold`, and this page was given back by one that is a heavy hitter no longer.
    GaveBack(u32),
    /// Of a heavy hitter, and to be applied to this page.
    Apply(u32),
    /// Of a heavy hitter, and not one of the sample in time.
    Skip,
}

#[derive(Clone, Debug)]
pub(super) struct HeavyHitters {
    sets: Box<[Set]>,
    set_bits: u32,
    represent: u32,
    rng: Generator,
    /// The pages that can be lent are `first` and those that follow.
    first: u32,
    lent: Box<[bool]>,
    idle: Vec<u16>,
}

impl HeavyHitters {
    /// For `pages` represented pages, of which the last ones can be lent.
    pub(super) fn new(pages: u32, represent: u32, rng: Generator) -> Self {
        let hitters = (pages / PAGES_PER_HITTER).clamp(1, HITTERS_MAX);
        // Two entries for each, so that half of them are left to look for others.
        let sets = (2 * hitters / WAYS as u32).max(1).next_power_of_two();
        let set = Set { tags: [EMPTY; WAYS], pages: [NOT_HEAVY; WAYS], counts: [0; WAYS] };
        Self {
            sets: vec![set; sets as usize].into(),
            set_bits: sets.ilog2(),
            represent,
            rng,
            first: pages - hitters,
            lent: vec![false; hitters as usize].into(),
            idle: (0..hitters as u16).rev().collect(),
        }
    }

    /// The set and the tag of a page. Together they are the page's number again. 32 bits are enough
    /// for the tag: 2⁴⁰ pages have at least 2⁸ times as many represented pages as a small table has
    /// sets, or 2⁹ sets; see the limits in `shape.rs`.
    #[inline]
    fn place(&self, lpn: u64) -> (usize, u32) {
        let tag = lpn >> self.set_bits;
        (((lpn ^ Self::spread(tag)) & self.set_mask()) as usize, tag as u32)
    }

    fn lpn(&self, set: usize, tag: u32) -> u64 {
        let tag = u64::from(tag);
        (tag << self.set_bits) | ((set as u64 ^ Self::spread(tag)) & self.set_mask())
    }

    #[inline]
    fn set_mask(&self) -> u64 {
        (1 << self.set_bits) - 1
    }

    #[inline]
    fn spread(tag: u64) -> u64 {
        tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
    }

    #[inline]
    fn way(set: &Set, tag: u32) -> Option<usize> {
        let mut found = 0_u32;
        for (way, &other) in set.tags.iter().enumerate() {
            found |= u32::from(other == tag) << way;
        }
        (found != 0).then(|| found.trailing_zeros() as usize)
    }

    /// A host write of `lpn` begins.
    #[inline]
    pub(super) fn write(&mut self, lpn: u64) -> Write {
        let (index, tag) = self.place(lpn);
        let dice = self.rng.next_u64();
        let set = &mut self.sets[index];
        let Some(way) = Self::way(set, tag) else {
            return if dice >> (64 - SAMPLE_BITS) == 0 {
                self.miss(index, tag, dice as usize % WAYS)
            } else {
                Write::Cold
            };
        };
        set.counts[way] = set.counts[way].saturating_add(1);
        if set.pages[way] == NOT_HEAVY {
            if set.counts[way] < PROMOTED_AT {
                return Write::Cold;
            }
            let Some(page) = self.idle.pop() else { return Write::Cold };
            set.pages[way] = page;
            self.lent[usize::from(page)] = true;
        }
        if ((dice >> 32) * u64::from(self.represent)) >> 32 == 0 {
            Write::Apply(self.first + u32::from(set.pages[way]))
        } else {
            Write::Skip
        }
    }

    fn miss(&mut self, index: usize, tag: u32, way: usize) -> Write {
        let set = &mut self.sets[index];
        if set.counts[way] > 0 {
            set.counts[way] -= 1;
            return Write::Cold;
        }
        set.tags[way] = tag;
        set.counts[way] = 1;
        let page = std::mem::replace(&mut set.pages[way], NOT_HEAVY);
        if page == NOT_HEAVY {
            return Write::Cold;
        }
        self.idle.push(page);
        self.lent[usize::from(page)] = false;
        Write::GaveBack(self.first + u32::from(page))
    }

    /// The page that stands for the heavy hitter `lpn`.
    #[inline]
    pub(super) fn page(&self, lpn: u64) -> Option<u32> {
        let (index, tag) = self.place(lpn);
        let set = &self.sets[index];
        let page = set.pages[Self::way(set, tag)?];
        (page != NOT_HEAVY).then(|| self.first + u32::from(page))
    }

    /// Whether a represented page stands for a heavy hitter instead of its own.
    #[inline]
    pub(super) fn is_lent(&self, page: u32) -> bool {
        page >= self.first && self.lent[(page - self.first) as usize]
    }

    /// All heavy hitters with their pages.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u32)> {
        self.sets.iter().enumerate().flat_map(move |(index, set)| {
            (0..WAYS).filter(|&way| set.pages[way] != NOT_HEAVY).map(move |way| {
                (self.lpn(index, set.tags[way]), self.first + u32::from(set.pages[way]))
            })
        })
    }

    pub(super) fn count(&self) -> usize {
        self.lent.len() - self.idle.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.sets) + self.lent.len() + 2 * self.idle.capacity()
    }

    /// Every lent page stands for exactly one heavy hitter.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut lent = vec![false; self.lent.len()];
        for (lpn, page) in self.all() {
            if self.page(lpn) != Some(page) {
                return Err(format!("heavy hitter {lpn} is not found at page {page}"));
            }
            if std::mem::replace(&mut lent[(page - self.first) as usize], true) {
                return Err(format!("page {page} is lent twice"));
            }
        }
        for &page in &self.idle {
            if lent[usize::from(page)] {
                return Err(format!("page {} is lent and idle", self.first + u32::from(page)));
            }
        }
        if *lent != *self.lent {
            return Err("the lent pages are not those of the heavy hitters".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    fn table(pages: u32, represent: u32) -> HeavyHitters {
        HeavyHitters::new(pages, represent, stream(1, "hot", 0))
    }

    /// The smallest device for which the table is meant is the hardest: its pages are busiest.
    #[test]
    fn uniform_and_sequential_load_have_no_heavy_hitters() {
        for (pages, represent) in [(4096, 2_u32), (4096, 32), (200_000, 2), (200_000, 32)] {
            let mut hot = table(pages, represent);
            let mut rng = stream(2, "load", 0);
            let logical = u64::from(pages) * u64::from(represent);
            for i in 0..400_000 {
                hot.write(below(&mut rng, logical));
                hot.write(i % logical);
            }
            assert_eq!(hot.count(), 0, "{pages} {represent}");
        }
    }

    /// They are found, one in k of their writes is applied, and they are forgotten when others
    /// take their place.
    #[test]
    fn heavy_hitters_come_and_go() {
        let mut hot = table(1 << 20, 32);
        let mut rng = stream(3, "load", 0);
        let logical = 1_u64 << 25;
        for first in [0, 1 << 20] {
            let (mut writes, mut applied) = (0_u32, 0_u32);
            for i in 0..2_000_000 {
                if below(&mut rng, 2) == 0 {
                    // 1000 pages with half of all writes.
                    let result = hot.write(first + below(&mut rng, 1000) * 77);
                    if i > 1_000_000 {
                        writes += 1;
                        applied += u32::from(matches!(result, Write::Apply(_)));
                    }
                } else {
                    hot.write(below(&mut rng, logical));
                }
            }
            let found = (0..1000).filter(|i| hot.page(first + i * 77).is_some()).count();
            assert!(found > 990, "{found}");
            assert!((990..1050).contains(&hot.count()), "{}", hot.count());
            let share = f64::from(applied) / f64::from(writes);
            assert!((share * 32.0 - 1.0).abs() < 0.04, "{share}");
            hot.check().unwrap();
        }
    }

    #[test]
    fn a_place_is_the_page_again() {
        for hot in [table(4096, 2), table(1 << 20, 32)] {
            let mut rng = stream(4, "lpn", 0);
            for _ in 0..10_000 {
                let lpn = below(&mut rng, 1 << (32 + hot.set_bits));
                let (set, tag) = hot.place(lpn);
                assert_eq!(hot.lpn(set, tag), lpn);
            }
        }
    }
}
