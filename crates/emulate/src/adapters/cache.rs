//! Content of an adapter's write cache: dirty units, oldest first, and clean units, which serve reads.
//! [`AdapterPath`](crate::adapter_path::AdapterPath) destages the dirty units.
//!
//! The cache also stores the units' values if the emulation stores content and the library's caller does not.
//!
//! The cache of a preconditioned volume begins with dirty units up to its destage threshold. The addresses of these
//! units are not stored: the units are destaged first, and their addresses are chosen then.

mod give;
mod units;

use crate::prefetch::Address;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use units::Units;

/// Address of a cached unit: path number and unit number, packed into one integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(u64);

/// Number of low bits of a `Place` for the unit number; the others are the path number. 2^48 units
/// of 4 KiB are 1 EiB.
const UNIT_BITS: u32 = 48;

impl Place {
    fn new(path: u32, unit: u64) -> Self {
        debug_assert!(unit < 1 << UNIT_BITS && path < 1 << (64 - UNIT_BITS));
        Self(u64::from(path) << UNIT_BITS | unit)
    }

    /// Returns the address of the preceding unit.
    fn before(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    fn after(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    pub(crate) fn path(self) -> u32 {
        (self.0 >> UNIT_BITS) as u32
    }

    pub(crate) fn unit(self) -> u64 {
        self.0 & ((1 << UNIT_BITS) - 1)
    }
}

/// Hashes cache addresses, identically on every machine. A lookup takes a few ns, a tenth of the time in an ordered map
/// with a million units. No result depends on the order of a map's entries.
#[derive(Clone, Debug, Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a place is one number")
    }

    fn write_u64(&mut self, place: u64) {
        // Fibonacci hashing; the map uses bits from both ends.
        let spread = place.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = spread ^ spread >> 32;
    }
}

/// State of a unit in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Dirty, with the sequence number at which the unit became dirty.
    Dirty(u64),
    /// Being destaged, and not written since the destage began.
    Destaging,
    /// Being destaged, and dirty again because it was written during the destage.
    Again,
    /// Clean, with the sequence number of the last use.
    Clean(u64),
    /// Refused by the device during a destage; waits for a retry.
    Refused,
}

/// The write cache of one adapter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    units_max: u64,
    held: Units,
    /// Dirty units, oldest first, each with the sequence number at which it became dirty. An entry is void unless the
    /// unit is still dirty with this number.
    dirty: VecDeque<(Place, u64)>,
    clean: VecDeque<(Place, u64)>,
    /// Number of units that were dirty when the machine started and whose destage has not begun. Their addresses are
    /// chosen when it begins.
    unplaced: u64,
    /// Number of units that are dirty or being destaged, excluding refused units.
    dirty_units: u64,
    /// Number of units in destages that are in progress.
    open_units: u64,
    clean_units: u64,
    /// Number of times since the start that a unit became dirty.
    dirtied_units: u64,
    /// Number of units that hosts have read from the cache, or that reads have added to it, since the start.
    used_units: u64,
    /// Units that the devices refused. They don't count towards the limit on dirty units.
    refused: BTreeSet<Place>,
    sequence: u64,
    /// By hash of the unit's address ([`written_at`]): sequence number, modulo 2^32, of the last write or end of a
    /// destage.
    written: Vec<u32>,
    /// Content of the cached units, by address; `None` unless content is stored.
    values: Option<HashMap<Place, u64, BuildHasherDefault<PlaceHasher>>>,
    /// Addresses dropped from the cache and not yet taken by [`Self::take_forgotten`]. Empty unless content is stored.
    forgotten: Vec<Place>,
}

/// Prefetch distance in entries: far enough ahead for memory to respond, near enough that the
/// prefetched line is not evicted before its use.
const AHEAD: usize = 8;

/// Number of distinct hash values of addresses. If two addresses share a hash, a write to one
/// prevents a concurrent read of the other from being cached.
const WRITTEN: usize = 1 << 16;

/// Returns the hash of an address, below [`WRITTEN`].
fn written_at(place: Place) -> usize {
    (place.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize
}

impl Cache {
    /// Creates an empty cache with a capacity of `units_max` units.
    pub(crate) fn new(units_max: u64) -> Self {
        Self { units_max, written: vec![0; WRITTEN], ..Self::default() }
    }

    /// Stores the values of units from now on. Empties the cache.
    pub(crate) fn keep_values(&mut self) {
        *self = Self { values: Some(HashMap::default()), ..Self::new(self.units_max) };
    }

    /// Returns the stored value of a unit; 0 if the cache stores none.
    pub(crate) fn value(&self, path: u32, unit: u64) -> u64 {
        let values = self.values.as_ref();
        values.and_then(|values| values.get(&Place::new(path, unit)).copied()).unwrap_or(0)
    }

    /// Stores the value of a unit, if content is stored.
    pub(crate) fn set_value(&mut self, path: u32, unit: u64, value: u64) {
        if let Some(values) = &mut self.values {
            values.insert(Place::new(path, unit), value);
        }
    }

    /// Removes and returns the addresses dropped since the last call. Some may be cached again. Empty
    /// unless content is stored.
    pub(crate) fn take_forgotten(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.forgotten)
    }

    /// Drops a unit from the cache.
    fn forget(&mut self, place: Place) {
        self.held.remove(place);
        self.forgets(place);
    }

    /// Records that a unit was dropped, if content is stored.
    fn forgets(&mut self, place: Place) {
        if let Some(values) = &mut self.values {
            values.remove(&place);
            self.forgotten.push(place);
        }
    }

    /// Returns the sequence number of the last write, for use with [`Self::is_written_since`].
    pub(crate) fn now(&self) -> u32 {
        self.sequence as u32
    }

    /// Returns whether any of `units` may have been written, in the cache or on the devices, since sequence number
    /// `since`. If so, data whose read began at `since` may be stale.
    pub(crate) fn is_written_since(&self, path: u32, mut units: Range<u64>, since: u32) -> bool {
        units.any(|unit| {
            let at = self.written[written_at(Place::new(path, unit))];
            at.wrapping_sub(since) as i32 > 0
        })
    }

    /// Records a write to the devices that bypasses the cache, and drops the stale clean units.
    pub(crate) fn pass_by(&mut self, path: u32, units: Range<u64>) {
        for unit in units {
            self.sequence += 1;
            let place = Place::new(path, unit);
            self.written[written_at(place)] = self.sequence as u32;
            if let Some(Held::Clean(_)) = self.held.get(place) {
                self.clean_units -= 1;
                self.forget(place);
            }
        }
    }

    /// Drops all content. Returns the addresses of the dirty units, in ascending order.
    pub(crate) fn lose(&mut self) -> Vec<Place> {
        let is_dirty = |held: &Held| !matches!(held, Held::Clean(_));
        let dirty = self.held.iter().filter(|(_, held)| is_dirty(held)).map(|(place, _)| place);
        let mut lost: Vec<Place> = dirty.collect();
        lost.sort_unstable();
        let mut all: Vec<Place> = self.held.iter().map(|(place, _)| place).collect();
        all.sort_unstable();
        for place in all {
            self.forget(place);
        }
        self.dirty.clear();
        self.clean.clear();
        (self.unplaced, self.dirty_units, self.open_units, self.clean_units) = (0, 0, 0, 0);
        self.refused.clear();
        lost
    }

    /// Gives the cache `unplaced` dirty units at the start of the emulation. Their addresses are chosen when they are
    /// destaged.
    pub(crate) fn begin_with(&mut self, unplaced: u64) {
        (self.unplaced, self.dirty_units) = (unplaced, unplaced);
    }

    /// Returns the number of dirty units, excluding refused ones.
    pub(crate) fn dirty_units(&self) -> u64 {
        self.dirty_units
    }

    /// Returns the number of dirty units, including refused ones.
    pub(crate) fn unwritten_units(&self) -> u64 {
        self.dirty_units + self.refused.len() as u64
    }

    /// Makes all refused units dirty again, so that they are destaged again.
    pub(crate) fn retry(&mut self) {
        for place in std::mem::take(&mut self.refused) {
            self.dirty_units += 1;
            self.dirty_again(place);
        }
    }

    /// Selects a refused unit of a path for a destage, and returns it; `None` if the path has none.
    pub(crate) fn take_refused(&mut self, path: u32) -> Option<u64> {
        let of_path = Place::new(path, 0)..Place::new(path + 1, 0);
        let first = self.refused.range(of_path).next().copied()?;
        self.refused.remove(&first);
        self.held.set(first, Held::Destaging);
        self.dirty_units += 1;
        self.open_units += 1;
        Some(first.unit())
    }

    /// Returns the number of times since the start that a unit became dirty.
    pub(crate) fn dirtied_units(&self) -> u64 {
        self.dirtied_units
    }

    /// Returns three counts of units: cached units; capacity; units that hosts have read from the cache, or that reads
    /// have added to it, since the start.
    pub(crate) fn reading(&self) -> (u64, u64, u64) {
        let held_units = (self.dirty_units + self.clean_units).min(self.units_max);
        (held_units, self.units_max, self.used_units)
    }

    /// Returns the number of dirty units that are not being destaged.
    pub(crate) fn waiting_units(&self) -> u64 {
        self.dirty_units - self.open_units
    }

    /// Records a host's write: the units become dirty.
    pub(crate) fn write(&mut self, path: u32, units: Range<u64>) {
        for unit in units {
            self.sequence += 1;
            let (place, now) = (Place::new(path, unit), self.sequence);
            self.written[written_at(place)] = now as u32;
            let before = self.held.change(place, |held| match held {
                // A dirty unit keeps its age, so that frequently rewritten units are destaged now and then.
                Some(held @ (Held::Dirty(_) | Held::Again | Held::Refused)) => held,
                Some(Held::Destaging) => Held::Again,
                Some(Held::Clean(_)) | None => Held::Dirty(now),
            });
            match before {
                Some(Held::Clean(_)) => self.clean_units -= 1,
                Some(_) => continue,
                None => {}
            }
            self.dirty_units += 1;
            self.dirtied_units += 1;
            self.dirty.push_back((place, now));
        }
        self.evict();
    }

    /// Returns whether any of `units` is dirty. Units that are being destaged or were refused count, too.
    pub(crate) fn is_dirty(&self, path: u32, mut units: Range<u64>) -> bool {
        units.any(|unit| {
            let held = self.held.get(Place::new(path, unit));
            held.is_some_and(|held| !matches!(held, Held::Clean(_)))
        })
    }

    /// Prefetches into the CPU cache the table entries of units that a host will soon use.
    pub(crate) fn prefetch(&self, path: u32, units: &Range<u64>) {
        for unit in [units.start, units.end.saturating_sub(1)] {
            let place = Place::new(path, unit);
            self.held.prefetch(place);
            Address::of(&self.written[written_at(place)]).prefetch();
        }
    }

    /// Returns whether all of `units` are in the cache.
    pub(crate) fn holds(&self, path: u32, mut units: Range<u64>) -> bool {
        units.all(|unit| self.held.get(Place::new(path, unit)).is_some())
    }

    /// Records that a host read `units`: cached clean units become the most recently used, and missing
    /// units are added as clean.
    pub(crate) fn used(&mut self, path: u32, units: Range<u64>) {
        self.used_units += units.end - units.start;
        for unit in units {
            self.sequence += 1;
            let place = Place::new(path, unit);
            let now = Held::Clean(self.sequence);
            let before = self.held.change(place, |held| match held {
                Some(Held::Clean(_)) | None => now,
                Some(held) => held,
            });
            match before {
                Some(Held::Clean(_)) => {}
                Some(_) => continue,
                None => self.clean_units += 1,
            }
            self.clean.push_back((place, self.sequence));
        }
        self.evict();
    }

    /// Selects the oldest dirty unit for a destage, together with the longest run of dirty units around
    /// it inside the range that `within` returns. `None` if no dirty unit has a known address.
    pub(crate) fn take(
        &mut self,
        within: impl Fn(Place) -> Range<u64>,
    ) -> Option<(u32, Range<u64>)> {
        let oldest = loop {
            let (place, at) = self.dirty.pop_front()?;
            if self.held.get(place) == Some(Held::Dirty(at)) {
                break place;
            }
        };
        if let Some(&(later, _)) = self.dirty.get(AHEAD) {
            self.held.prefetch(later.before());
            self.held.prefetch(later);
            self.held.prefetch(later.after());
        }
        let (path, unit) = (oldest.path(), oldest.unit());
        let is_dirty =
            |unit: u64| matches!(self.held.get(Place::new(path, unit)), Some(Held::Dirty(_)));
        let within = within(oldest);
        let (mut from, mut to) = (unit, unit + 1);
        while from > within.start && is_dirty(from - 1) {
            from -= 1;
        }
        while to < within.end && is_dirty(to) {
            to += 1;
        }
        for unit in from..to {
            self.held.set(Place::new(path, unit), Held::Destaging);
        }
        self.open_units += to - from;
        Some((path, from..to))
    }

    /// Returns whether units that were dirty when the machine started still wait for a destage.
    pub(crate) fn has_unplaced(&self) -> bool {
        self.unplaced > 0
    }

    /// Selects for a destage up to `units` of the units that were dirty when the machine started.
    /// Returns their number.
    pub(crate) fn take_unplaced(&mut self, units: u64) -> u64 {
        let taken = units.min(self.unplaced);
        self.unplaced -= taken;
        self.open_units += taken;
        taken
    }

    /// Records the end of a destage of `units` units that were dirty when the machine started.
    pub(crate) fn destaged_unplaced(&mut self, units: u64) {
        self.dirty_units -= units;
        self.open_units -= units;
    }

    /// Records the end of a destage of `units`. If it `failed`, the units wait for [`Self::retry`].
    pub(crate) fn destaged(&mut self, path: u32, units: Range<u64>, failed: bool) {
        self.open_units -= units.end - units.start;
        for unit in units {
            let place = Place::new(path, unit);
            // Reads during the destage may have returned the old data of the device.
            self.sequence += 1;
            self.written[written_at(place)] = self.sequence as u32;
            let now = self.sequence;
            let before = self.held.get(place);
            match before {
                Some(Held::Again | Held::Destaging) if failed => {
                    self.held.set(place, Held::Refused);
                    self.dirty_units -= 1;
                    self.refused.insert(place);
                }
                Some(Held::Again) => self.dirty_again(place),
                Some(Held::Destaging) => {
                    self.dirty_units -= 1;
                    self.clean_units += 1;
                    self.held.set(place, Held::Clean(now));
                    self.clean.push_back((place, now));
                }
                _ => {}
            }
        }
        self.evict();
    }

    /// Processes a power failure: units being destaged are dirty again, because their progress is unknown; clean
    /// units are dropped.
    pub(crate) fn power_off(&mut self) {
        let is_clean = |held: &Held| matches!(held, Held::Clean(_));
        let clean = self.held.iter().filter(|(_, held)| is_clean(held)).map(|(place, _)| place);
        let mut clean: Vec<Place> = clean.collect();
        clean.sort_unstable();
        for place in clean {
            self.forget(place);
        }
        self.clean.clear();
        self.clean_units = 0;
        let mut open: Vec<Place> = self
            .held
            .iter()
            .filter(|(_, held)| matches!(held, Held::Destaging | Held::Again))
            .map(|(place, _)| place)
            .collect();
        open.sort_unstable();
        for place in open {
            self.dirty_again(place);
        }
        let placed = self.held.iter().filter(|(_, held)| matches!(held, Held::Dirty(_))).count();
        self.unplaced = self.dirty_units - placed as u64;
        self.open_units = 0;
    }

    /// Makes a unit dirty again after its destage.
    fn dirty_again(&mut self, place: Place) {
        self.sequence += 1;
        self.held.set(place, Held::Dirty(self.sequence));
        self.dirty.push_back((place, self.sequence));
    }

    /// Evicts the least recently used clean units to make space for dirty ones.
    fn evict(&mut self) {
        while self.dirty_units + self.clean_units > self.units_max
            && let Some((place, at)) = self.clean.pop_front()
        {
            if let Some(&(later, _)) = self.clean.get(AHEAD) {
                self.held.prefetch_to_remove(later);
            }
            if self.held.remove_if(place, Held::Clean(at)) {
                self.clean_units -= 1;
                self.forgets(place);
            }
        }
    }

    /// Checks that the counters match the units in the table.
    pub(crate) fn check(&self) -> Result<(), String> {
        let clean =
            self.held.iter().filter(|(_, held)| matches!(held, Held::Clean(_))).count() as u64;
        let placed = self.held.len() as u64 - clean;
        if clean != self.clean_units || placed > self.unwritten_units() {
            return Err(format!(
                "the cache counts {} dirty and {} clean units, but holds {placed} and {clean}",
                self.dirty_units, self.clean_units
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};
    use std::collections::BTreeMap;

    /// Compares the cache with a plain model: a map of dirty units to the sequence numbers of their
    /// last writes.
    #[test]
    fn a_write_is_lost_only_by_a_destage_that_began_after_it() {
        for seed in 0..200 {
            let rng = &mut stream(seed, "cache", 0);
            let mut cache = Cache::new(24);
            let mut version: BTreeMap<(u32, u64), u64> = BTreeMap::new();
            let mut on_device: BTreeMap<(u32, u64), u64> = BTreeMap::new();
            let mut open: Vec<(u32, Range<u64>, Vec<u64>)> = Vec::new();
            let mut writes = 0;
            for _ in 0..400 {
                let path = below(rng, 2) as u32;
                let from = below(rng, 16);
                let units = from..from + 1 + below(rng, 3);
                match below(rng, 5) {
                    0 | 1 if cache.dirty_units() < 20 => {
                        cache.write(path, units.clone());
                        for unit in units {
                            writes += 1;
                            version.insert((path, unit), writes);
                        }
                    }
                    2 => cache.used(path, units),
                    3 => {
                        if let Some((path, units)) =
                            cache.take(|at| at.unit() / 8 * 8..at.unit() / 8 * 8 + 8)
                        {
                            assert!(units.start / 8 == (units.end - 1) / 8);
                            let taken = units.clone().map(|u| version[&(path, u)]).collect();
                            open.push((path, units, taken));
                        }
                    }
                    _ if !open.is_empty() => {
                        let index = below(rng, open.len() as u64) as usize;
                        let (path, units, taken) = open.swap_remove(index);
                        let failed = below(rng, 4) == 0;
                        cache.destaged(path, units.clone(), failed);
                        if failed && below(rng, 2) == 0 {
                            cache.retry();
                        }
                        if !failed {
                            on_device.extend(units.map(|u| (path, u)).zip(taken));
                        }
                    }
                    _ => {}
                }
                assert_eq!(cache.check(), Ok(()), "seed {seed}");
            }
            for (path, units, taken) in open.drain(..) {
                cache.destaged(path, units.clone(), false);
                on_device.extend(units.map(|u| (path, u)).zip(taken));
            }
            cache.retry();
            let mut places = BTreeSet::new();
            while let Some((path, units)) =
                cache.take(|at| at.unit() / 8 * 8..at.unit() / 8 * 8 + 8)
            {
                for unit in units.clone() {
                    assert!(places.insert((path, unit)), "seed {seed}: taken twice");
                    on_device.insert((path, unit), version[&(path, unit)]);
                }
                cache.destaged(path, units, false);
            }
            assert_eq!(on_device, version, "seed {seed}");
            assert_eq!((cache.dirty_units(), cache.check()), (0, Ok(())), "seed {seed}");
        }
    }
}
