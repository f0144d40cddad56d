//! Heavy hitters: logical pages that are written very often. The map of a large device contains only one page in k. A
//! page with a noticeable share of all writes would be missing from this sample or count k times; under zipf 0.99 the
//! error of write amplification would be a quarter.
//!
//! Therefore k heavy hitters share one page of the map, and one in k of their writes is applied to it. The map page has
//! the right share of all writes, and is rewritten as often as each heavy hitter. A map page for each heavy hitter,
//! with one in k of its writes, would be rewritten k times too seldom, and garbage collection would copy data that
//! should be dead by then.
//!
//! Heavy hitters are detected by counters in sets of eight, similar to Misra and Gries (1982). An entry of a set is a
//! page and its counter, which rises with each write of the page. Of the writes to pages that have no entry, one in 16
//! lowers one counter of the set, or takes over its entry if the counter is 0. So a counter keeps rising only if its
//! page has more than 1/128 (1 / (16 × 8)) of the set's writes. A set serves at least 1024 pages, so under a uniform
//! load each page has at most an eighth of this threshold.

use crate::prefetch::Address;
use iodyno_units::rng::{Generator, below};

/// Mean number of misses (writes to pages without an entry) per miss that lowers a counter of the set.
const MISSES: u32 = 16;
const WAYS: usize = 8;
/// Count at which a page becomes a heavy hitter. It remains one until its count is 0.
const PROMOTED_AT: u8 = 32;
/// Upper bound of a counter, so that a page that is no longer hot is detected soon.
const COUNT_MAX: u8 = 64;
/// Maximum number of heavy hitters of a device.
const HITTERS_MAX: u64 = 2048;
/// Minimum number of logical pages per heavy hitter, so that pages of a uniform load are not mistaken for
/// heavy hitters.
const PAGES_PER_HITTER: u64 = 512;

const EMPTY: u32 = u32::MAX;
const NOT_HEAVY: u16 = u16::MAX;

/// A set of the cache of hot pages: eight entries in one CPU cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Set {
    tags: [u32; WAYS],
    /// For each entry that is a heavy hitter, the number of its group.
    groups: [u16; WAYS],
    counts: [u8; WAYS],
}

/// Effect of a page write on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// The page is not a heavy hitter: the write applies to the map if the page is in the sample.
    Cold,
    /// The page is a heavy hitter, and this write is the one in k that applies to the map. It is applied to the map
    /// page that all heavy hitters of the group with this number share.
    Apply(u16),
    /// The page is a heavy hitter, but this write is not the one in k that applies to the map.
    Skip,
}

#[derive(Clone, Debug)]
pub(super) struct HeavyHitters {
    sets: Box<[Set]>,
    set_bits: u32,
    represent: u32,
    rng: Generator,
    /// Number of misses (writes to pages without an entry) until one lowers a counter. Redrawn at random each time, so
    /// that no periodic workload aligns with it.
    misses_left: u32,
    /// Number of writes to heavy hitters until one is applied to the map. Redrawn at random each time.
    writes_left: u32,
    groups: u32,
    /// Groups with room for more heavy hitters, by number, one entry per free place. Hotter pages are found earlier and
    /// fill groups in order, so that pages of similar heat share a group.
    free_places: Vec<u16>,
}

impl HeavyHitters {
    /// Replaces the generator of random numbers, in a copy of the device.
    pub(super) fn redraw(&mut self, rng: Generator) {
        self.rng = rng;
    }

    pub(super) fn new(logical_pages: u64, represent: u32, rng: Generator) -> Self {
        let hitters = (logical_pages / PAGES_PER_HITTER).clamp(1, HITTERS_MAX) as u32;
        // Two entries per hitter, so that half of them are free to find others.
        let sets = (2 * hitters / WAYS as u32).max(1).next_power_of_two();
        let set = Set { tags: [EMPTY; WAYS], groups: [NOT_HEAVY; WAYS], counts: [0; WAYS] };
        Self {
            sets: vec![set; sets as usize].into(),
            set_bits: sets.ilog2(),
            represent,
            rng,
            misses_left: MISSES,
            writes_left: represent,
            groups: hitters.div_ceil(represent),
            free_places: (0..hitters).rev().map(|hitter| (hitter / represent) as u16).collect(),
        }
    }

    /// Returns the number of map pages that represent heavy hitters.
    pub(super) fn groups(&self) -> u32 {
        self.groups
    }

    /// Returns the set and tag of a page, which together identify it. 32 bits suffice for the tag: 2⁴⁰ pages
    /// have 2⁹ sets, and smaller devices have fewer sets.
    #[inline]
    fn place(&self, lpn: u64) -> (usize, u32) {
        let tag = lpn >> self.set_bits;
        let spread = tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (((lpn ^ spread) & ((1 << self.set_bits) - 1)) as usize, tag as u32)
    }

    /// Prefetches into the CPU cache the entries that a host write of `lpn` will soon need.
    #[inline]
    pub(super) fn prefetch(&self, lpn: u64) {
        Address::of(&self.sets[self.place(lpn).0]).prefetch();
    }

    /// Counts a host write of `lpn`. Returns its effect on the map.
    #[inline]
    pub(super) fn write(&mut self, lpn: u64) -> Write {
        let (index, tag) = self.place(lpn);
        let set = &mut self.sets[index];
        let mut found = 0_u32;
        for (way, &other) in set.tags.iter().enumerate() {
            found |= u32::from(other == tag) << way;
        }
        if found == 0 {
            self.misses_left -= 1;
            if self.misses_left == 0 {
                self.miss(index, tag);
            }
            return Write::Cold;
        }
        let way = found.trailing_zeros() as usize;
        set.counts[way] = COUNT_MAX.min(set.counts[way] + 1);
        let group = set.groups[way];
        if group == NOT_HEAVY {
            if set.counts[way] >= PROMOTED_AT {
                set.groups[way] = self.free_places.pop().unwrap_or(NOT_HEAVY);
            }
            return Write::Cold;
        }
        self.writes_left -= 1;
        if self.writes_left > 0 {
            return Write::Skip;
        }
        self.writes_left = gap(&mut self.rng, self.represent);
        Write::Apply(group)
    }

    #[cold]
    fn miss(&mut self, index: usize, tag: u32) {
        self.misses_left = gap(&mut self.rng, MISSES);
        let way = below(&mut self.rng, WAYS as u64) as usize;
        let set = &mut self.sets[index];
        if set.counts[way] > 0 {
            set.counts[way] -= 1;
            return;
        }
        set.tags[way] = tag;
        set.counts[way] = 1;
        let group = std::mem::replace(&mut set.groups[way], NOT_HEAVY);
        if group != NOT_HEAVY {
            self.free_places.push(group);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.sets) + 2 * self.free_places.capacity()
    }

    /// Checks the number of heavy hitters and free places in every group.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut sizes = vec![0_u32; self.groups as usize];
        let heavy =
            self.sets.iter().flat_map(|set| &set.groups).filter(|&&group| group != NOT_HEAVY);
        for &group in heavy.chain(&self.free_places) {
            sizes[usize::from(group)] += 1;
        }
        match sizes.iter().rposition(|&size| size != self.represent) {
            Some(group) if group + 1 < sizes.len() || sizes[group] > self.represent => {
                Err(format!(
                    "heavy-hitter group {group}: members and free places add up to {}, not {}",
                    sizes[group], self.represent
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Returns a uniformly random number from 1 to 2 × `mean` - 1.
fn gap(rng: &mut Generator, mean: u32) -> u32 {
    1 + below(rng, 2 * u64::from(mean) - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    fn table(logical_pages: u64, represent: u32) -> HeavyHitters {
        HeavyHitters::new(logical_pages, represent, stream(1, "hot", 0))
    }

    fn is_heavy(hot: &HeavyHitters, lpn: u64) -> bool {
        let (index, tag) = hot.place(lpn);
        let set = &hot.sets[index];
        (0..WAYS).any(|way| set.tags[way] == tag && set.groups[way] != NOT_HEAVY)
    }

    fn count(hot: &HeavyHitters) -> usize {
        hot.sets.iter().flat_map(|set| &set.groups).filter(|&&group| group != NOT_HEAVY).count()
    }

    /// Checks that uniform and sequential loads produce no heavy hitters. Uses the smallest device, whose pages
    /// are written most often.
    #[test]
    fn uniform_and_sequential_load_have_no_heavy_hitters() {
        for (logical, represent) in [(8192, 2), (1 << 17, 32), (1 << 20, 2), (1 << 25, 32)] {
            let mut hot = table(logical, represent);
            let mut rng = stream(2, "load", 0);
            for i in 0..400_000 {
                hot.write(below(&mut rng, logical));
                hot.write(i % logical);
            }
            assert_eq!(count(&hot), 0, "{logical} {represent}");
        }
    }

    /// Checks that heavy hitters are found, that one in k of their writes is applied, and that they are dropped
    /// when other pages become hot.
    #[test]
    fn heavy_hitters_come_and_go() {
        let logical = 1_u64 << 17;
        let mut hot = table(logical, 32);
        let mut rng = stream(3, "load", 0);
        for first in [0, 1 << 15] {
            let (mut writes, mut applied) = (0_u32, 0_u32);
            for i in 0..2_000_000 {
                if below(&mut rng, 2) == 0 {
                    // 100 pages get half of all writes.
                    let result = hot.write(first + below(&mut rng, 100) * 77);
                    if i > 1_000_000 {
                        writes += 1;
                        applied += u32::from(matches!(result, Write::Apply(_)));
                    }
                } else {
                    hot.write(below(&mut rng, logical));
                }
            }
            let found = (0..100).filter(|i| is_heavy(&hot, first + i * 77)).count();
            assert!(found > 98, "{found}");
            assert!(count(&hot) < found + 3, "{} {found}", count(&hot));
            let share = f64::from(applied) / f64::from(writes);
            assert!((share * 3200.0 / found as f64 - 1.0).abs() < 0.04, "{share}");
            hot.check().unwrap();
        }
    }
}
