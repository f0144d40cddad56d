//! The fill of a machine's buffers and caches: reported, and constructed.

use super::Machine;
use crate::store::Store;
use iodyno_units::rng;

impl Machine {
    /// Fills the write caches of disks up to this share of their size, with writes like those that they hold: of the same
    /// lengths, at uniformly random places of the same range. A construction of the state that uniformly random writes
    /// lead to, in place of the minutes of it. Without effect where content is kept, and on a cache with few writes.
    pub fn fill_write_caches(&mut self, share: f64) {
        let seed = rng::key(self.seed, "fill", self.events);
        for (number, part) in (0..).zip(&mut self.parts) {
            part.fill_write_cache(share, &mut rng::stream(seed, "write cache", number));
        }
    }

    /// The fill of every kind of store, summed over the machine. Kinds without capacity are left out.
    pub fn stores(&self) -> Vec<Store> {
        let mut all: Vec<Store> = Vec::new();
        let mut take = |store: Store| match all.iter_mut().find(|known| known.name == store.name) {
            Some(sum) => {
                sum.held_bytes += store.held_bytes;
                sum.capacity_bytes += store.capacity_bytes;
                sum.passed_bytes += store.passed_bytes;
                sum.choice_bytes += store.choice_bytes;
            }
            None if store.capacity_bytes > 0 => all.push(store),
            None => {}
        };
        self.parts.iter().for_each(|part| part.stores(&mut take));
        if let Some(adapters) = &self.core.adapters {
            adapters.stores(&mut take);
        }
        all
    }
}
