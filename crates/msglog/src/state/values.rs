//! Current values by key, in blocks (leaves) shared with snapshots. A snapshot holds a reference to each leaf; a change
//! to a shared leaf first copies it.

use super::Value;
use core::ops::Bound;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of values in a leaf, a block shared between the state and snapshots.
const LEAF_VALUES: usize = 256;

/// Estimated memory of a value in a leaf, without its key and body, bytes.
const ENTRY_BYTES: u64 = 128;

/// Block of consecutive keys and their values, shared between the state and snapshots (copy-on-write).
pub type Leaf = Arc<BTreeMap<Arc<[u8]>, Value>>;

/// Makes a leaf writable. If a snapshot shares the leaf, it is first copied, and its size is added to
/// `copied_bytes`.
fn unshared<'a>(leaf: &'a mut Leaf, copied_bytes: &mut u64) -> &'a mut BTreeMap<Arc<[u8]>, Value> {
    if Arc::strong_count(leaf) > 1 {
        *copied_bytes += leaf.len() as u64 * ENTRY_BYTES;
    }
    Arc::make_mut(leaf)
}

/// Values of a topic by key, stored in non-empty leaves. The key of a leaf is a lower bound of the keys in
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    leaves: BTreeMap<Arc<[u8]>, Leaf>,
}

fn up_to(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Included(key))
}

impl Values {
    /// Key of the leaf in which a value is stored or to be inserted; `None` if there are no leaves.
    fn bound(&self, key: &[u8]) -> Option<&Arc<[u8]>> {
        let before = self.leaves.range::<[u8], _>(up_to(key)).next_back();
        before.or_else(|| self.leaves.first_key_value()).map(|(bound, _)| bound)
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Value> {
        self.leaves.range::<[u8], _>(up_to(key)).next_back()?.1.get(key)
    }

    /// Inserts a value, and returns the one that it replaces. Adds the size of leaves copied on write to
    /// `copied`, bytes.
    pub(super) fn insert(&mut self, key: &[u8], value: Value, copied: &mut u64) -> Option<Value> {
        let before = self.leaves.range_mut::<[u8], _>(up_to(key)).next_back();
        if let Some((_, leaf)) = before {
            let leaf = unshared(leaf, copied);
            if let Some(current) = leaf.get_mut(key) {
                return Some(core::mem::replace(current, value));
            }
        }
        let key: Arc<[u8]> = key.into();
        let Some(bound) = self.bound(&key).cloned() else {
            self.leaves.insert(Arc::clone(&key), Arc::new(BTreeMap::from([(key, value)])));
            return None;
        };
        let mut leaf = self.leaves.remove(&bound)?;
        let values = unshared(&mut leaf, copied);
        values.insert(Arc::clone(&key), value);
        let middle = values.keys().nth(LEAF_VALUES / 2).cloned();
        if let Some(middle) = middle.filter(|_| values.len() > LEAF_VALUES) {
            let upper = values.split_off(&middle);
            self.leaves.insert(middle, Arc::new(upper));
        }
        // A key before all leaves becomes the first leaf's new bound.
        self.leaves.insert(bound.min(key), leaf);
        None
    }

    pub(super) fn remove(&mut self, key: &[u8], copied: &mut u64) -> Option<Value> {
        let (bound, leaf) = self.leaves.range_mut::<[u8], _>(up_to(key)).next_back()?;
        if !leaf.contains_key(key) {
            return None;
        }
        let bound = Arc::clone(bound);
        let values = unshared(leaf, copied);
        let value = values.remove(key);
        if values.is_empty() {
            self.leaves.remove(&bound);
        }
        value
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.leaves.values().map(|leaf| leaf.len()).sum()
    }

    /// Keys and values, in the order of the keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<[u8]>, &Value)> {
        self.leaves.values().flat_map(|leaf| leaf.iter())
    }

    pub(super) fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.leaves.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    fn value(number: u64) -> Value {
        Value { number, time_ns: 0, body: Arc::default(), segment: 0 }
    }

    /// The values equal those of a plain map, and each snapshot equals that map at the time of the snapshot.
    #[test]
    fn values_are_those_of_one_map_and_snapshots_keep_theirs() {
        let rng = &mut stream(1, "values", 0);
        let (mut values, mut oracle) = (Values::default(), BTreeMap::new());
        let mut snapshots: Vec<(Values, Leaf)> = Vec::new();
        let mut copied = 0;
        for number in 0..60_000 {
            let key: Arc<[u8]> = below(rng, 3000).to_be_bytes()[6..].into();
            let grows = number % 20_000 < 12_000;
            let (ours, expected) = if below(rng, 10) < if grows { 8 } else { 1 } {
                (values.insert(&key, value(number), &mut copied), oracle.insert(key, value(number)))
            } else {
                (values.remove(&key, &mut copied), oracle.remove(&key))
            };
            assert_eq!(ours, expected);
            assert!(copied == 0 || !snapshots.is_empty(), "only what is shared is copied");
            let other = below(rng, 3000).to_be_bytes();
            assert_eq!(values.get(&other[6..]), oracle.get(&other[6..]));
            if number % 5000 == 4000 {
                snapshots.push((values.clone(), Arc::new(oracle.clone())));
            }
        }
        snapshots.push((values, Arc::new(oracle)));
        assert!(copied > 0);
        for (values, oracle) in &snapshots {
            assert!(values.iter().eq(oracle.iter()));
            assert_eq!((values.len(), values.is_empty()), (oracle.len(), oracle.is_empty()));
            assert!(values.leaves().all(|leaf| (1..=LEAF_VALUES).contains(&leaf.len())));
        }
        assert!(snapshots.iter().any(|(values, _)| values.leaves().count() > 5));
    }
}
