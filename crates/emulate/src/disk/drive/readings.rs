//! Counters of a disk, phase times of its operations, and the fill of its caches.

use super::Disk;
use crate::disk::usage::{Phases, Usage};
use crate::store::{Keeps, Store};
use iodyno_units::OpKind;
use iodyno_units::rng::Generator;

impl Disk {
    /// Returns the counters of the disk's activity since its creation.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Calls `take` with the fill level of the write cache, the media cache, and a hybrid disk's NAND.
    pub(crate) fn stores(&self, take: &mut dyn FnMut(Store)) {
        if self.spec.write_cache {
            take(Store {
                name: "disk's write cache",
                keeps: Keeps::Dirty,
                held_bytes: self.buffer.dirty_bytes(),
                capacity_bytes: self.spec.buffer_bytes,
                passed_bytes: self.usage.cached_bytes.saturating_sub(self.usage.absorbed_bytes),
                choice_bytes: self.buffer.choice_bytes(),
            });
        }
        if let Some(bands) = &self.bands {
            let (held_bytes, capacity_bytes) = bands.cache.level();
            take(Store {
                name: "media cache",
                keeps: Keeps::Dirty,
                held_bytes,
                capacity_bytes,
                passed_bytes: self.usage.media_cache_bytes,
                choice_bytes: 0,
            });
        }
        take(self.flash.store(self.usage.flash_hits + self.usage.medium_reads));
    }

    /// Fills the write cache up to a fraction of its size, with random writes similar to those already
    /// in it.
    pub(crate) fn fill_write_cache(&mut self, share: f64, random: &mut Generator) {
        if self.spec.write_cache {
            self.buffer.fill(share, random, &self.layout);
        }
    }

    /// Returns the total time of completed reads, writes or other operations (`kind`) in each phase.
    pub fn phases(&self, kind: OpKind) -> Phases {
        self.phases[kind.index()]
    }
}
