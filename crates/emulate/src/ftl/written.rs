//! Bitmap of the pages that contain data. Needed only while some pages contain none.
//!
//! A completely written device, the most frequent case, needs no bitmap. The first trim creates the bitmap. It is
//! dropped once every page is written.

use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct Written {
    pages: u64,
    /// One bit per page; `None` if all pages are written.
    bits: Option<Bits>,
}

#[derive(Clone, Debug)]
struct Bits {
    words: Vec<u64>,
    missing: u64,
}

impl Written {
    /// Creates a bitmap of `pages` pages, of which only those in `written` are written.
    pub(super) fn new(pages: u64, written: &Range<u64>) -> Self {
        let mut this = Self { pages, bits: None };
        this.clear(&(0..written.start));
        this.clear(&(written.end..pages));
        this
    }

    #[inline]
    pub(super) fn get(&self, lpn: u64) -> bool {
        self.bits
            .as_ref()
            .is_none_or(|bits| bits.words[(lpn >> 6) as usize] & (1 << (lpn & 63)) != 0)
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bits.is_none()
    }

    #[inline]
    pub(super) fn set(&mut self, lpn: u64) {
        if let Some(bits) = &mut self.bits {
            let word = &mut bits.words[(lpn >> 6) as usize];
            let bit = 1 << (lpn & 63);
            if *word & bit == 0 {
                *word |= bit;
                bits.missing -= 1;
                if bits.missing == 0 {
                    self.bits = None;
                }
            }
        }
    }

    /// Marks a range of pages as unwritten.
    pub(super) fn clear(&mut self, lpns: &Range<u64>) {
        if lpns.is_empty() {
            return;
        }
        let bits = self.bits.get_or_insert_with(|| {
            let mut words = vec![u64::MAX; self.pages.div_ceil(64) as usize];
            // Bits beyond the last page stay zero and do not count as missing.
            if !self.pages.is_multiple_of(64) {
                *words.last_mut().expect("a page has a word") = (1 << (self.pages % 64)) - 1;
            }
            Bits { words, missing: 0 }
        });
        let (first, last) = (lpns.start >> 6, (lpns.end - 1) >> 6);
        for word in first..=last {
            let from = if word == first { lpns.start & 63 } else { 0 };
            let to = if word == last { (lpns.end - 1) & 63 } else { 63 };
            let mask = (u64::MAX << from) & (u64::MAX >> (63 - to));
            let word = &mut bits.words[word as usize];
            bits.missing += u64::from((*word & mask).count_ones());
            *word &= !mask;
        }
        if bits.missing == 0 {
            self.bits = None;
        }
    }

    /// Returns the total number of pages, both written and unwritten.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bits.as_ref().map_or(0, |bits| 8 * bits.words.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_set(
            pages in 1_u64..300,
            steps in prop::collection::vec((any::<bool>(), 0_u64..300, 0_u64..300), 1..40),
        ) {
            let mut expected = vec![true; pages as usize];
            let mut written = Written::new(pages, &(0..pages));
            for (clear, a, b) in steps {
                let (a, b) = (a.min(b).min(pages), a.max(b).min(pages));
                if clear {
                    written.clear(&(a..b));
                } else {
                    (a..b).for_each(|lpn| written.set(lpn));
                }
                expected[a as usize..b as usize].fill(!clear);
                prop_assert!((0..pages).all(|lpn| written.get(lpn) == expected[lpn as usize]));
                prop_assert_eq!(written.bits.is_none(), expected.iter().all(|&w| w));
            }
        }
    }
}
