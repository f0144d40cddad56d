//! A hash table from the address of a unit in a write cache to the unit's state.
//!
//! A cache has millions of units, more than fit into a processor's caches, so the cost of an operation is the number
//! of memory lines that it touches. A line holds four entries and nothing else. A hash of a unit's address selects its
//! home line. Four neighbouring units have the same home line, because a destage looks up the neighbours of each unit
//! that it takes. Entries that don't fit into their home line are in the next line with a free entry: a search begins
//! at the home line, and ends at a line with a free entry.

use super::{Held, Place};
use crate::prefetch::Address;

/// Entry of the hash table: a unit's address with its encoded state. Free if `held` is 0.
#[derive(Clone, Copy, Debug)]
struct Entry {
    place: Place,
    held: u64,
}

const FREE: Entry = Entry { place: Place(0), held: 0 };

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([Entry; 4]);

const _: () = assert!(size_of::<Line>() == 64);

/// Log2 of the number of neighbouring units that have the same home line.
const NEIGHBOURS_LOG2: u32 = 2;
/// Load factor above which the table grows, as numerator and denominator.
const USED_MAX: (usize, usize) = (3, 4);

/// Hash table from a unit's address to its state in the cache.
#[derive(Clone, Debug)]
pub(super) struct Units {
    /// Lines of four entries, one CPU cache line each. The number of lines is a power of two.
    lines: Vec<Line>,
    used: usize,
}

impl Default for Units {
    fn default() -> Self {
        Self { lines: vec![Line([FREE; 4]); 16], used: 0 }
    }
}

impl Held {
    /// Encodes the state of a unit as a non-zero number.
    fn pack(self) -> u64 {
        match self {
            Self::Dirty(number) => number << 3 | 1,
            Self::Clean(number) => number << 3 | 2,
            Self::Destaging => 3,
            Self::Again => 4,
            Self::Refused => 5,
        }
    }

    /// Decodes a unit's state; `None` for 0, a free entry.
    fn unpack(packed: u64) -> Option<Self> {
        match (packed & 7, packed >> 3) {
            (1, number) => Some(Self::Dirty(number)),
            (2, number) => Some(Self::Clean(number)),
            (3, _) => Some(Self::Destaging),
            (4, _) => Some(Self::Again),
            (5, _) => Some(Self::Refused),
            _ => None,
        }
    }
}

impl Units {
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Returns a unit's home line, where each search for the unit begins. Uses the high bits of a Fibonacci hash, so
    /// that a table keeps the order of its lines when its size doubles.
    fn home(&self, place: Place) -> usize {
        let spread = (place.0 >> NEIGHBOURS_LOG2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread >> (64 - self.lines.len().ilog2())) as usize
    }

    /// Prefetches into the CPU cache the line in which a search for this unit begins.
    pub(super) fn prefetch(&self, place: Place) {
        Address::of(&self.lines[self.home(place)]).prefetch();
    }

    /// Prefetches the home line of `place` and the next line. If the home line is full, a removal may move an entry
    /// from the next line to it.
    pub(super) fn prefetch_to_remove(&self, place: Place) {
        let home = self.home(place);
        Address::of(&self.lines[home]).prefetch();
        Address::of(&self.lines[self.after(home)]).prefetch();
    }

    fn after(&self, line: usize) -> usize {
        (line + 1) & (self.lines.len() - 1)
    }

    /// Returns the line and entry of a unit (`Ok`), or those where it would be inserted (`Err`).
    fn find(&self, place: Place) -> Result<(usize, usize), (usize, usize)> {
        let mut line = self.home(place);
        loop {
            let mut free = None;
            for (at, entry) in self.lines[line].0.iter().enumerate() {
                if entry.held == 0 {
                    free = Some(at);
                } else if entry.place == place {
                    return Ok((line, at));
                }
            }
            if let Some(at) = free {
                return Err((line, at));
            }
            line = self.after(line);
        }
    }

    /// Returns the state of a unit; `None` if the unit is not in the table.
    pub(super) fn get(&self, place: Place) -> Option<Held> {
        let (line, at) = self.find(place).ok()?;
        Held::unpack(self.lines[line].0[at].held)
    }

    /// Replaces the state of a unit by the result of `change`. Returns the old state.
    pub(super) fn change(
        &mut self,
        place: Place,
        change: impl FnOnce(Option<Held>) -> Held,
    ) -> Option<Held> {
        match self.find(place) {
            Ok((line, at)) => {
                let entry = &mut self.lines[line].0[at];
                let before = Held::unpack(entry.held);
                entry.held = change(before).pack();
                before
            }
            Err((line, at)) => {
                let held = change(None).pack();
                self.lines[line].0[at] = Entry { place, held };
                self.used += 1;
                if self.used * USED_MAX.1 > self.lines.len() * 4 * USED_MAX.0 {
                    self.grow();
                }
                None
            }
        }
    }

    pub(super) fn set(&mut self, place: Place, held: Held) {
        self.change(place, |_| held);
    }

    /// Removes a unit if its state is `held`. Returns whether it was removed.
    pub(super) fn remove_if(&mut self, place: Place, held: Held) -> bool {
        let Ok((line, at)) = self.find(place) else { return false };
        let is_that = self.lines[line].0[at].held == held.pack();
        if is_that {
            self.free(line, at);
        }
        is_that
    }

    pub(super) fn remove(&mut self, place: Place) {
        if let Ok((line, at)) = self.find(place) {
            self.free(line, at);
        }
    }

    /// Frees an entry. If its line was full, moves an entry that had overflowed from this line into the free place.
    fn free(&mut self, mut line: usize, mut at: usize) {
        self.used -= 1;
        loop {
            let was_full = self.lines[line].0.iter().all(|entry| entry.held != 0);
            self.lines[line].0[at] = FREE;
            if !was_full {
                return;
            }
            let Some((from, of)) = self.overflown(line) else { return };
            self.lines[line].0[at] = self.lines[from].0[of];
            (line, at) = (from, of);
        }
    }

    /// Finds an entry in a later line whose home line is `line` or an earlier one. A search would miss it once `line`
    /// has a free entry. Returns line and entry; `None` if there is none.
    fn overflown(&self, line: usize) -> Option<(usize, usize)> {
        let mask = self.lines.len() - 1;
        let mut behind = line;
        loop {
            behind = self.after(behind);
            let ahead = behind.wrapping_sub(line) & mask;
            let mut is_full = true;
            for (at, entry) in self.lines[behind].0.iter().enumerate() {
                is_full &= entry.held != 0;
                let passed = behind.wrapping_sub(self.home(entry.place)) & mask;
                if entry.held != 0 && passed >= ahead {
                    return Some((behind, at));
                }
            }
            if !is_full {
                return None;
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let lines = vec![Line([FREE; 4]); self.lines.len() * 2];
        let before = std::mem::replace(&mut self.lines, lines);
        for entry in before.iter().flat_map(|line| line.0).filter(|entry| entry.held != 0) {
            let (Ok((line, at)) | Err((line, at))) = self.find(entry.place);
            self.lines[line].0[at] = entry;
        }
    }

    /// All units, in arbitrary order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, Held)> {
        let all = self.lines.iter().flat_map(|line| &line.0);
        all.filter_map(|entry| Some((entry.place, Held::unpack(entry.held)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};
    use std::collections::BTreeMap;

    /// Compares the table with an ordered map while it grows and shrinks. The units have few home
    /// lines, so that lines overflow.
    #[test]
    fn is_the_map_of_its_entries() {
        for seed in 0..60 {
            let rng = &mut stream(seed, "units", 0);
            let (mut units, mut map) = (Units::default(), BTreeMap::new());
            let neighbourhoods = 1 + below(rng, 400);
            for step in 1..4000_u64 {
                let unit = below(rng, neighbourhoods) * 1000 + below(rng, 8);
                let place = Place::new(below(rng, 2) as u32, unit);
                let without_number = [Held::Destaging, Held::Again, Held::Refused];
                let held = match below(rng, 5) as usize {
                    0 => Held::Dirty(step),
                    1 => Held::Clean(step),
                    other => without_number[other - 2],
                };
                assert_eq!(units.get(place), map.get(&place).copied(), "seed {seed} step {step}");
                // The table grows at first, then shrinks.
                let adds = if step < 2000 { 6 } else { 3 };
                match below(rng, 10) {
                    0..10 if below(rng, 10) < adds => {
                        assert_eq!(units.change(place, |_| held), map.insert(place, held));
                    }
                    0..5 => {
                        units.remove(place);
                        map.remove(&place);
                    }
                    _ => {
                        let known = map.get(&place).copied();
                        let held = known.filter(|_| step % 3 > 0).unwrap_or(held);
                        assert_eq!(units.remove_if(place, held), known == Some(held));
                        if known == Some(held) {
                            map.remove(&place);
                        }
                    }
                }
                assert_eq!(units.len(), map.len());
            }
            assert_eq!(units.iter().collect::<BTreeMap<_, _>>(), map, "seed {seed}");
        }
    }
}
