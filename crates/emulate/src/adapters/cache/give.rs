//! Moves a path's units to the other adapter's cache, when the path becomes optimized there.

use super::{Cache, Held, Place};

impl Cache {
    /// Moves a path's units to another cache. `unplaced_units`: number of the path's units that were
    /// dirty when the machine started and are being destaged.
    pub(crate) fn give(&mut self, to: &mut Self, path: u32, unplaced_units: u64) {
        self.share_writes(to);
        let mut given: Vec<(Place, Held)> =
            self.held.iter().filter(|(place, _)| place.path() == path).collect();
        for (place, _) in &given {
            self.held.remove(*place);
        }
        // Sorted by age.
        let age = |held: Held| match held {
            Held::Dirty(at) | Held::Clean(at) => at,
            Held::Destaging | Held::Again | Held::Refused => 0,
        };
        given.sort_unstable_by_key(|(place, held)| (age(*held), *place));
        for (place, held) in given {
            if let (Some(values), Some(to)) = (&mut self.values, &mut to.values)
                && let Some(value) = values.remove(&place)
            {
                to.insert(place, value);
            }
            self.give_unit(to, place, held);
        }
        self.dirty_units -= unplaced_units;
        self.open_units -= unplaced_units;
        to.dirty_units += unplaced_units;
        to.open_units += unplaced_units;
        to.evict();
    }

    /// Moves to another cache the units that were dirty when the machine started and still wait for a
    /// destage.
    pub(crate) fn give_unplaced(&mut self, to: &mut Self) {
        let units = std::mem::take(&mut self.unplaced);
        self.dirty_units -= units;
        to.dirty_units += units;
        to.unplaced += units;
    }

    /// Copies to another cache the sequence numbers of the last writes. The other cache then decides in the same way
    /// whether data of a read in progress is stale.
    fn share_writes(&self, to: &mut Self) {
        to.sequence = to.sequence.max(self.sequence);
        for (to, from) in to.written.iter_mut().zip(&self.written) {
            if from.wrapping_sub(*to) as i32 > 0 {
                *to = *from;
            }
        }
    }

    fn give_unit(&mut self, to: &mut Self, place: Place, held: Held) {
        to.sequence += 1;
        let now = to.sequence;
        let held = match held {
            Held::Clean(_) => {
                self.clean_units -= 1;
                to.clean_units += 1;
                to.clean.push_back((place, now));
                Held::Clean(now)
            }
            Held::Dirty(_) => {
                self.dirty_units -= 1;
                to.dirty_units += 1;
                to.dirty.push_back((place, now));
                Held::Dirty(now)
            }
            Held::Destaging | Held::Again => {
                self.dirty_units -= 1;
                self.open_units -= 1;
                to.dirty_units += 1;
                to.open_units += 1;
                held
            }
            Held::Refused => {
                self.refused.remove(&place);
                to.refused.insert(place);
                held
            }
        };
        to.held.set(place, held);
    }
}
