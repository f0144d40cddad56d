//! Reports the fill of a machine's buffers and caches, fills write caches, and ages flash devices.

use super::Machine;
use crate::part::Part;
use crate::store::Store;
use iodyno_units::{Op, rng};

impl Machine {
    /// Ages flash devices by operations that take no time. `next` returns the next operation with its volume; `None`
    /// ends the aging. Returns false if one of the volumes is not a flash device; operations on such a volume have no
    /// effect. No operation may be in progress.
    pub fn age(&mut self, mut next: impl FnMut() -> Option<(u32, Op)>) -> bool {
        let mut all = true;
        while let Some((volume, op)) = next() {
            let root = self.system.volumes[volume as usize].root;
            all &= self.parts[root.index()].age(&op);
        }
        self.parts.iter_mut().for_each(Part::aged);
        all
    }

    /// Fills the write caches of disks up to a fraction of their size, as minutes of random writes would do. The
    /// added writes have lengths and an address range similar to those already in the cache. No-op if content is
    /// stored, or on a cache with few writes.
    pub fn fill_write_caches(&mut self, share: f64) {
        let seed = rng::key(self.seed, "fill", self.events);
        for (number, part) in (0..).zip(&mut self.parts) {
            part.fill_write_cache(share, &mut rng::stream(seed, "write cache", number));
        }
    }

    /// Returns the fill level of every type of buffer and cache, summed over the machine. Omits types without
    /// capacity.
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
        let now_ns = self.now_ns();
        self.parts.iter().for_each(|part| part.stores(now_ns, &mut take));
        if let Some(shared) = &self.core.shared {
            shared.stores(now_ns, &mut take);
        }
        if let Some(adapters) = &self.core.adapters {
            adapters.stores(&mut take);
        }
        all
    }
}
