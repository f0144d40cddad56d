//! The values of units in flash, by unit number. Consecutive units whose values and sequence numbers are equal or
//! ascend by 1 share an entry, so that long sequential writes, such as a rebuild, take little memory.

use std::collections::BTreeMap;
use std::ops::Range;

/// Value of a unit, with a sequence number in the order of acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub unit: u64,
    pub value: u64,
    pub sequence: u64,
    /// True if no `ContentEvent::Landed` is reported for the value: it was read from flash to complete a translation
    /// unit, or a power cut tore the unit.
    pub moved: bool,
}

/// The values of `len` consecutive units. `value` and `sequence` are those of the first unit.
#[derive(Clone, Copy, Debug)]
struct Run {
    value: u64,
    sequence: u64,
    len: u32,
    /// Whether the value ascends by 1 from unit to unit; else it is the same for all.
    value_ascends: bool,
    /// Whether the sequence number ascends by 1 from unit to unit; else it is the same for all.
    sequence_ascends: bool,
    moved: bool,
}

impl Run {
    /// Returns the value and sequence number of the unit `index`, counted from the run's first unit.
    fn at(&self, index: u64) -> (u64, u64) {
        let step = |ascends| if ascends { index } else { 0 };
        let value = self.value.wrapping_add(step(self.value_ascends));
        (value, self.sequence.wrapping_add(step(self.sequence_ascends)))
    }

    /// Returns the part of the run from unit `index` on.
    fn from(&self, index: u64) -> Self {
        let (value, sequence) = self.at(index);
        Self { value, sequence, len: self.len - index as u32, ..*self }
    }

    /// Joins the run with the one that follows it; `None` if they can't share an entry.
    fn joined(&self, next: &Self) -> Option<Self> {
        let last = self.at(u64::from(self.len) - 1);
        let steps = (next.value.wrapping_sub(last.0), next.sequence.wrapping_sub(last.1));
        let ascends = (steps.0 == 1, steps.1 == 1);
        let fits =
            |run: &Self| run.len == 1 || (run.value_ascends, run.sequence_ascends) == ascends;
        let is_one = steps.0 <= 1 && steps.1 <= 1 && self.moved == next.moved;
        let len = self.len.checked_add(next.len)?;
        let (value_ascends, sequence_ascends) = ascends;
        (is_one && fits(self) && fits(next)).then_some(Self {
            len,
            value_ascends,
            sequence_ascends,
            ..*self
        })
    }
}

/// Map of units to their values.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredRuns {
    /// Runs by the number of their first unit. They do not overlap.
    runs: BTreeMap<u64, Run>,
}

impl StoredRuns {
    pub(super) fn get(&self, unit: u64) -> Option<Stored> {
        let (&first, run) = self.runs.range(..=unit).next_back()?;
        let index = unit - first;
        let (value, sequence) = run.at(index);
        (index < u64::from(run.len)).then_some(Stored { unit, value, sequence, moved: run.moved })
    }

    /// Stores the value of a unit in place of its former one.
    pub(super) fn insert(&mut self, stored: Stored) {
        let Stored { unit, value, sequence, moved } = stored;
        self.remove(&(unit..unit + 1));
        let (value_ascends, sequence_ascends) = (false, false);
        let mut run = Run { value, sequence, len: 1, value_ascends, sequence_ascends, moved };
        let mut first = unit;
        if let Some((&before, left)) = self.runs.range(..unit).next_back()
            && before + u64::from(left.len) == unit
            && let Some(joined) = left.joined(&run)
        {
            (first, run) = (before, joined);
        }
        if let Some(joined) = self.runs.get(&(unit + 1)).and_then(|right| run.joined(right)) {
            self.runs.remove(&(unit + 1));
            run = joined;
        }
        self.runs.insert(first, run);
    }

    pub(super) fn remove(&mut self, units: &Range<u64>) {
        if units.is_empty() {
            return;
        }
        self.split(units.start);
        self.split(units.end);
        while let Some((&first, _)) = self.runs.range(units.clone()).next() {
            self.runs.remove(&first);
        }
    }

    /// Makes a run begin at a unit that lies within one.
    fn split(&mut self, unit: u64) {
        let Some((&first, run)) = self.runs.range_mut(..unit).next_back() else { return };
        let index = unit - first;
        if index < u64::from(run.len) {
            let rest = run.from(index);
            run.len = index as u32;
            self.runs.insert(unit, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    /// Random runs of writes and trims leave the same values as in a map by unit.
    #[test]
    fn units_in_runs_keep_their_values() {
        let mut random = stream(1, "stored runs", 0);
        let (mut runs, mut plain) = (StoredRuns::default(), BTreeMap::new());
        for sequence in (0..200_000).step_by(16) {
            let from = below(&mut random, 60);
            let units = from..from + below(&mut random, 16);
            if below(&mut random, 4) == 0 {
                runs.remove(&units);
                plain.retain(|unit, _| !units.contains(unit));
            } else {
                let value = below(&mut random, 3) + sequence;
                let (step, moved) = (below(&mut random, 2), below(&mut random, 8) == 0);
                for (index, unit) in (0..).zip(units) {
                    let (value, sequence) = (value + index * step, sequence + index);
                    let stored = Stored { unit, value, sequence, moved };
                    runs.insert(stored);
                    plain.insert(unit, stored);
                }
            }
            assert!((0..80).all(|unit| runs.get(unit) == plain.get(&unit).copied()), "{sequence}");
        }
    }

    /// A long sequential write takes one entry, whatever the order in which its units reach the flash.
    #[test]
    fn sequential_units_share_an_entry() {
        let mut random = stream(1, "stored order", 0);
        let mut runs = StoredRuns::default();
        let mut units: Vec<u64> = (0..10_000).collect();
        for at in 0..units.len() as u64 {
            let with = (at + below(&mut random, 40)).min(units.len() as u64 - 1);
            units.swap(at as usize, with as usize);
        }
        for unit in units {
            let (value, sequence) = (7_000 + unit, 90_000 + unit);
            runs.insert(Stored { unit, value, sequence, moved: false });
        }
        assert_eq!(runs.runs.len(), 1);
    }
}
