//! The blocks of a file that a file system has allocated, or will allocate when it writes the file's data.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of block numbers, as disjoint ranges: first block and the block after the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks(BTreeMap<u64, u64>);

impl Blocks {
    pub(crate) fn add(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // Ranges that overlap or touch the new one are merged with it.
        while let Some((&from, &to)) = self.0.range(..=range.end).next_back()
            && to >= range.start
        {
            self.0.remove(&from);
            range = range.start.min(from)..range.end.max(to);
        }
        self.0.insert(range.start, range.end);
    }

    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        while let Some((&from, &to)) = self.0.range(..range.end).next_back()
            && to > range.start
            && !range.is_empty()
        {
            self.0.remove(&from);
            self.add(range.end..to.max(range.end));
            if from < range.start {
                self.0.insert(from, range.start);
            }
        }
    }

    /// Whether the set contains all blocks of the range.
    pub(crate) fn contains(&self, range: &Range<u64>) -> bool {
        let last = self.0.range(..=range.start).next_back();
        range.is_empty() || last.is_some_and(|(_, &to)| to >= range.end)
    }

    /// Moves all blocks of `other` into this set.
    pub(crate) fn take(&mut self, other: &mut Self) {
        for (from, to) in std::mem::take(&mut other.0) {
            self.add(from..to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((any::<bool>(), 0u64..40, 0u64..12), 1..60)) {
            let (mut blocks, mut all) = (Blocks::default(), BTreeSet::new());
            for (adds, from, len) in steps {
                let range = from..from + len;
                if adds {
                    all.extend(range.clone());
                    blocks.add(range);
                } else {
                    all.retain(|block| !range.contains(block));
                    blocks.remove(&range);
                }
                for from in 0..52 {
                    for to in from..52 {
                        prop_assert_eq!(blocks.contains(&(from..to)), (from..to).all(|b| all.contains(&b)));
                    }
                }
                let disjoint: Vec<_> = blocks.0.iter().collect();
                prop_assert!(disjoint.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }
}
