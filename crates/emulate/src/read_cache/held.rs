//! The units in a read cache and their locations on the fast device, with LRU eviction. Sends no requests to devices.
//!
//! The cache of a preconditioned volume begins full, but its initial units are not stored individually. On a randomly
//! written volume they are a sample, drawn by a hash; on a sequentially written volume they are the volume's last
//! units. Initial units count as older than any unit used since the start.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Location of a cached unit on the fast device, counted in units.
pub(super) type Slot = u64;

#[derive(Clone, Copy, Debug)]
struct Unit {
    slot: Slot,
    /// Sequence number of the unit's last use.
    at: u64,
}

/// The units that were cached when the machine started, except those dropped since.
#[derive(Clone, Debug, Default)]
struct Warm {
    within: Range<u64>,
    /// Upper bound (exclusive) of the hashes of the sampled units; `None`: all units are in the sample.
    below: Option<u64>,
    /// Units of the sample that have been dropped from the cache.
    gone: BTreeSet<u64>,
    count: u64,
}

impl Warm {
    /// Returns whether a unit was cached at the start and has not been dropped since.
    fn has(&self, unit: u64) -> bool {
        let is_in =
            self.within.contains(&unit) && self.below.is_none_or(|below| hash(unit) < below);
        self.count > 0 && is_in && !self.gone.contains(&unit)
    }
}

/// The units in a read cache, with their locations on the fast device.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    slots: u64,
    units: BTreeMap<u64, Unit>,
    /// Units by last use, oldest first: unit and sequence number. An entry is void if the unit has been used
    /// again since.
    order: VecDeque<(u64, u64)>,
    sequence: u64,
    /// First of the slots on the fast device that were never used.
    next: Slot,
    /// Slots on the fast device that were used before and are free now.
    free: Vec<Slot>,
    /// Number of reads in progress, for each slot on the fast device that is being read.
    read: BTreeMap<Slot, u32>,
    /// Slots on the fast device that are freed when the reads in progress end.
    condemned: BTreeSet<Slot>,
    warm: Warm,
}

/// Hashes a unit's number with SplitMix64's finalizer.
fn hash(unit: u64) -> u64 {
    let x = unit.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

impl Held {
    pub(super) fn new(slots: u64) -> Self {
        Self { slots, ..Self::default() }
    }

    /// Fills the cache with a uniform sample of the units below `units`, or with all of them if they fit.
    pub(super) fn begin_with_sample(&mut self, units: u64) {
        let below = (self.slots < units)
            .then(|| (self.slots as f64 / units as f64 * u64::MAX as f64) as u64);
        let count = self.slots.min(units);
        self.warm = Warm { within: 0..units, below, count, ..Warm::default() };
    }

    /// Fills the cache with the last units below `units`, or with all of them if they fit.
    pub(super) fn begin_with_last(&mut self, units: u64) {
        let count = self.slots.min(units);
        self.warm = Warm { within: units - count..units, count, ..Warm::default() };
    }

    /// Empties the cache and forgets all reads in progress.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.slots);
    }

    /// Empties the cache. Reads in progress continue.
    pub(super) fn remove_all(&mut self) {
        self.warm = Warm::default();
        for Unit { slot, .. } in std::mem::take(&mut self.units).into_values() {
            self.release(slot);
        }
    }

    /// Returns the number of cached units that were used since the start, and the cache's capacity in units.
    pub(super) fn used_since_start(&self) -> (u64, u64) {
        (self.units.len() as u64, self.slots)
    }

    pub(super) fn holds(&self, unit: u64) -> bool {
        self.units.contains_key(&unit) || self.warm.has(unit)
    }

    /// Marks a cached unit as just used. Returns its location on the fast device.
    pub(super) fn touch(&mut self, unit: u64) -> Slot {
        self.sequence += 1;
        let at = self.sequence;
        let slot = if let Some(known) = self.units.get(&unit) {
            known.slot
        } else {
            self.warm.count -= 1;
            self.take_slot().expect("it had one")
        };
        self.units.insert(unit, Unit { slot, at });
        self.order.push_back((unit, at));
        if self.order.len() > 2 * self.units.len() + 1024 {
            let units = &self.units;
            self.order.retain(|(unit, at)| units.get(unit).is_some_and(|known| known.at == *at));
        }
        slot
    }

    fn take_slot(&mut self) -> Option<Slot> {
        let fresh = self.next + self.warm.count < self.slots;
        self.free.pop().or_else(|| {
            self.next += u64::from(fresh);
            fresh.then(|| self.next - 1)
        })
    }

    /// Reserves a slot on the fast device for a new unit. Evicts the least recently used unit if necessary.
    /// `None` if operations in progress use all slots.
    pub(super) fn reserve(&mut self) -> Option<Slot> {
        loop {
            if let Some(slot) = self.take_slot() {
                return Some(slot);
            }
            if self.warm.count > 0 {
                self.evict_warm();
                continue;
            }
            let (unit, at) = self.order.pop_front()?;
            if self.units.get(&unit).is_some_and(|known| known.at == at) {
                self.remove(unit);
            }
        }
    }

    fn evict_warm(&mut self) {
        let Warm { within, below, count, gone } = &mut self.warm;
        *count -= 1;
        match below {
            Some(below) => *below -= *below / (*count + 1),
            None => within.start += 1,
        }
        if *count == 0 {
            gone.clear();
        }
    }

    /// Adds an uncached unit at a reserved slot on the fast device.
    pub(super) fn insert(&mut self, unit: u64, slot: Slot) {
        debug_assert!(!self.holds(unit));
        self.units.insert(unit, Unit { slot, at: 0 });
        self.touch(unit);
    }

    pub(super) fn remove(&mut self, unit: u64) {
        let known = self.units.remove(&unit);
        if self.warm.has(unit) {
            self.warm.gone.insert(unit);
            self.warm.count -= u64::from(known.is_none());
        }
        if let Some(Unit { slot, .. }) = known {
            self.release(slot);
        }
    }

    /// Frees a slot on the fast device, as soon as no read of the slot is in progress.
    pub(super) fn release(&mut self, slot: Slot) {
        if self.read.contains_key(&slot) {
            self.condemned.insert(slot);
        } else {
            self.free.push(slot);
        }
    }

    /// Records the start of a read from a slot on the fast device. The slot is not reused until the read has ended.
    pub(super) fn read_begins(&mut self, slot: Slot) {
        *self.read.entry(slot).or_default() += 1;
    }

    pub(super) fn read_ended(&mut self, slot: Slot) {
        let Some(count) = self.read.get_mut(&slot) else { return };
        *count -= 1;
        if *count == 0 {
            self.read.remove(&slot);
            if self.condemned.remove(&slot) {
                self.free.push(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    /// Compares the cache with a plain model: a list of units in order of last use.
    #[test]
    fn it_holds_what_was_used_last() {
        for seed in 0..100 {
            let random = &mut stream(seed, "held", 0);
            let slots = 1 + below(random, 12);
            let mut held = Held::new(slots);
            let mut model: Vec<u64> = Vec::new();
            let mut reads: Vec<Slot> = Vec::new();
            for _ in 0..500 {
                let unit = below(random, 20);
                assert_eq!(held.holds(unit), model.contains(&unit), "seed {seed}");
                model.retain(|&other| other != unit);
                if below(random, 8) == 0 {
                    held.remove(unit);
                } else if held.holds(unit) {
                    let slot = held.touch(unit);
                    model.push(unit);
                    if below(random, 4) == 0 {
                        held.read_begins(slot);
                        reads.push(slot);
                    }
                } else if reads.is_empty() {
                    let slot = held.reserve().expect("no read is under way");
                    assert!(slot < slots);
                    held.insert(unit, slot);
                    model.push(unit);
                    if model.len() as u64 > slots {
                        model.remove(0);
                    }
                    let of = |unit: &u64| held.units[unit].slot;
                    let all: BTreeSet<Slot> = model.iter().map(of).collect();
                    assert_eq!(all.len(), model.len(), "each has a slot of its own");
                }
                if below(random, 2) == 0 {
                    reads.drain(..).for_each(|slot| held.read_ended(slot));
                }
            }
        }
    }

    /// Checks that a slot on the fast device is not reused during a read.
    #[test]
    fn a_slot_is_kept_until_its_reads_have_ended() {
        let mut held = Held::new(1);
        let slot = held.reserve().unwrap();
        held.insert(7, slot);
        held.read_begins(held.units[&7].slot);
        assert_eq!((held.reserve(), held.holds(7)), (None, false));
        held.read_ended(slot);
        assert_eq!(held.reserve(), Some(slot));
    }

    /// Checks that a sample fills the whole cache, and that its units are evicted one by one.
    #[test]
    fn it_begins_full() {
        let (slots, units) = (1000, 4000);
        let mut held = Held::new(slots);
        held.begin_with_sample(units);
        let count = |held: &Held| (0..units).filter(|&unit| held.holds(unit)).count() as f64;
        assert!((count(&held) / slots as f64 - 1.0).abs() < 0.1, "{}", count(&held));
        for unit in units..units + 500 {
            let slot = held.reserve().unwrap();
            held.insert(unit, slot);
        }
        assert!((count(&held) / 500.0 - 1.0).abs() < 0.1, "{}", count(&held));
        let mut held = Held::new(slots);
        held.begin_with_last(units);
        assert!(held.holds(units - slots) && !held.holds(units - slots - 1));
        let slot = held.reserve().unwrap();
        held.insert(0, slot);
        assert!(!held.holds(units - slots) && held.holds(0));
    }
}
