//! A set of numbers, stored as ranges that neither overlap nor touch.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of integers, stored as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// The ranges, by first number; the value is the end (exclusive).
    all: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&s, &e)) = self.all.range(..=end).next_back()
            && e >= start
        {
            self.all.remove(&s);
            (start, end) = (start.min(s), end.max(e));
        }
        self.all.insert(start, end);
    }

    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&s, &e)) = self.all.range(..range.end).next_back()
            && e > range.start
        {
            self.all.remove(&s);
            if s < range.start {
                self.all.insert(s, range.start);
            }
            if e > range.end {
                self.all.insert(range.end, e);
            }
        }
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.all.range(..=number).next_back().is_some_and(|(_, &end)| end > number)
    }

    /// Returns the smallest number that is both in `range` and in the set; `None` if there is none.
    pub(crate) fn first_in(&self, range: Range<u64>) -> Option<u64> {
        if range.is_empty() {
            return None;
        }
        if self.contains(range.start) {
            return Some(range.start);
        }
        self.all.range(range).next().map(|(&start, _)| start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};
    use std::collections::BTreeSet;

    #[test]
    fn is_the_set_of_its_numbers() {
        let mut random = stream(1, "ranges", 0);
        for _ in 0..200 {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for _ in 0..40 {
                let start = below(&mut random, 60);
                let range = start..start + below(&mut random, 12);
                if below(&mut random, 2) == 0 {
                    set.extend(range.clone());
                    ranges.add(range);
                } else {
                    set.retain(|n| !range.contains(n));
                    ranges.remove(range);
                }
                let from = below(&mut random, 60);
                let asked = from..from + below(&mut random, 12);
                assert_eq!(ranges.first_in(asked.clone()), set.range(asked).next().copied());
                assert!((0..80).all(|n| ranges.contains(n) == set.contains(&n)));
                assert_eq!(ranges.is_empty(), set.is_empty());
                // Touching ranges must have been merged.
                let runs = set.iter().filter(|&&n| n == 0 || !set.contains(&(n - 1))).count();
                assert_eq!(ranges.all.len(), runs);
            }
        }
    }
}
