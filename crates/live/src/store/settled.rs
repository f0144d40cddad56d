//! Of which units it is known that the first of their two sums is that of their data: those that
//! this server has written. Of others a server that was killed may have left either.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE_UNITS: u64 = 1 << 15;

/// A bit a unit, in pages that are made when they are needed. Bits of a unit change under the
/// unit's lock only.
#[derive(Debug)]
pub(super) struct Settled {
    pages: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl Settled {
    pub(super) fn new(units: u64) -> Self {
        Self { pages: (0..units.div_ceil(PAGE_UNITS)).map(|_| OnceLock::new()).collect() }
    }

    pub(super) fn get(&self, unit: u64) -> bool {
        self.pages[(unit / PAGE_UNITS) as usize].get().is_some_and(|page| {
            let word = &page[(unit % PAGE_UNITS / 64) as usize];
            word.load(Ordering::Relaxed) >> (unit % 64) & 1 == 1
        })
    }

    pub(super) fn set(&self, units: Range<u64>, known: bool) {
        let mut unit = units.start;
        while unit < units.end {
            // Up to the end of the word.
            let end = ((unit / 64 + 1) * 64).min(units.end);
            let page = &self.pages[(unit / PAGE_UNITS) as usize];
            if !known && page.get().is_none() {
                unit = (unit / PAGE_UNITS + 1) * PAGE_UNITS;
                continue;
            }
            let page =
                page.get_or_init(|| (0..PAGE_UNITS / 64).map(|_| AtomicU64::new(0)).collect());
            let bits = (u64::MAX >> (64 - (end - unit))) << (unit % 64);
            let word = &page[(unit % PAGE_UNITS / 64) as usize];
            if known {
                word.fetch_or(bits, Ordering::Relaxed);
            } else {
                word.fetch_and(!bits, Ordering::Relaxed);
            }
            unit = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    #[test]
    fn bits_are_a_set() {
        let units = PAGE_UNITS * 2 + 70;
        let (settled, mut plain) = (Settled::new(units), vec![false; units as usize]);
        let mut random = stream(1, "bits", 0);
        for _ in 0..400 {
            let from = below(&mut random, units);
            let longest = if below(&mut random, 4) == 0 { units } else { 130 };
            let to = (from + below(&mut random, longest)).min(units);
            let known = below(&mut random, 2) == 0;
            settled.set(from..to, known);
            plain[from as usize..to as usize].fill(known);
            let seen = from.saturating_sub(70)..(to + 70).min(units);
            for unit in seen {
                assert_eq!(settled.get(unit), plain[unit as usize], "{unit}");
            }
        }
    }
}
