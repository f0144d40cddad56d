//! Readings of a machine: states of arrays, adapters and devices, counters, and usage. Taking a reading has no effect
//! on the simulation.

use super::Machine;
use crate::adapters::AdaptersState;
use crate::array::{Array, ArrayHealth, ArrayState};
use crate::fault_state::FaultState;
use crate::flash::Counts;
use crate::part::Part;
use crate::part_id::PartId;
use crate::read_cache_counts::ReadCacheCounts;
use crate::usage::{self, Phase, Resource, Snapshot, VolumeUsage};
use crate::zones::Zone;

impl Machine {
    /// Returns the array of a volume; `None` without an array.
    fn array_of(&self, volume: u32) -> Option<&Part> {
        self.system.array_of(volume).map(|(part, _)| &self.parts[part.index()])
    }

    /// Returns the state of a volume's array: members, rebuild, resync, scrub. `None` without an array.
    pub fn array_state(&self, volume: u32) -> Option<ArrayState> {
        let mut state = self.array_of(volume)?.array_state()?;
        state.lost |= self.has_lost(volume);
        state.counts.lost_units += self.cache_lost_units(volume);
        Some(state)
    }

    /// State of any array in a volume's tree, such as a member of another array, without the losses of adapters' caches.
    pub fn array_state_of(&self, part: PartId) -> Option<ArrayState> {
        self.parts[part.index()].array_state()
    }

    /// Describes the zones of a volume; `None` unless it is a zoned device.
    pub fn zones(&self, volume: u32) -> Option<Vec<Zone>> {
        self.parts[self.system.volumes[volume as usize].root.index()].zones()
    }

    /// Counters of a volume's read cache since the start; `None` without a read cache.
    pub fn read_cache_counts(&self, volume: u32) -> Option<ReadCacheCounts> {
        self.parts[self.system.volumes[volume as usize].root.index()].read_cache_counts()
    }

    /// Returns which members of a volume's array are missing, and whether the array has lost data. `None` without an
    /// array.
    pub fn array_health(&self, volume: u32) -> Option<ArrayHealth> {
        let (part, _) = self.system.array_of(volume)?;
        self.array_health_of(part)
    }

    /// Same as [`Self::array_health`], for any array in a volume's tree, such as a member of another array.
    #[inline]
    pub fn array_health_of(&self, part: PartId) -> Option<ArrayHealth> {
        let array = self.parts[part.index()].as_array()?;
        let mut health = array.health();
        if let (Some(path), Some(adapters)) = (array.path(), &self.core.adapters) {
            health.lost |= !adapters.lost(path).is_empty();
        }
        Some(health)
    }

    /// Returns whether dirty data of a volume was lost with an adapter's cache.
    fn has_lost(&self, volume: u32) -> bool {
        let Some(adapters) = &self.core.adapters else { return false };
        self.system.paths_of(volume).any(|path| !adapters.lost(path).is_empty())
    }

    /// Number of 4 KiB units of a volume that were lost with caches of adapters, since the start. They can't be read until
    /// rewritten.
    pub fn cache_lost_units(&self, volume: u32) -> u64 {
        let Some(adapters) = &self.core.adapters else { return 0 };
        self.system.paths_of(volume).map(|path| adapters.paths[path as usize].lost_units).sum()
    }

    /// Returns whether a power cut could leave rows of a volume's array inconsistent, because they have been
    /// written since the last flush. Tracked only while content is stored.
    pub fn has_unflushed_rows(&self, volume: u32) -> bool {
        let mut arrays = self.system.parts_of(volume);
        arrays
            .any(|part| self.parts[part.index()].as_array().is_some_and(Array::has_unflushed_rows))
    }

    /// The state of the RAID adapters; `None` without adapters.
    pub fn adapters(&self) -> Option<AdaptersState> {
        let mut state = self.core.adapters.as_ref()?.state();
        // Paths are translated to volumes.
        let volumes_of = |paths: &[u32]| -> Vec<u32> {
            let leads = |volume: &u32| self.system.paths_of(*volume).any(|p| paths.contains(&p));
            (0..self.volumes()).filter(leads).collect()
        };
        for adapter in &mut state.adapters {
            adapter.volumes = volumes_of(&adapter.volumes);
        }
        state.volumes_down = volumes_of(&state.volumes_down);
        Some(state)
    }

    /// Returns the faults of a device that are in effect now.
    pub fn device_fault_state(&self, device: PartId) -> FaultState {
        self.fault_state_of(device)
    }

    /// Returns all components of a volume's tree.
    fn parts_of(&self, volume: u32) -> impl Iterator<Item = &Part> {
        self.system.parts_of(volume).map(|part| &self.parts[part.index()])
    }

    /// Sum of the counters of a volume's flash devices since the start; `None` without flash.
    pub fn flash_counts(&self, volume: u32) -> Option<Counts> {
        self.parts_of(volume).filter_map(Part::flash_counts).reduce(|a, b| a.plus(&b))
    }

    /// Returns the present faults of a volume's root component, which receives the host's requests.
    pub fn fault_state(&self, volume: u32) -> FaultState {
        self.fault_state_of(self.system.volumes[volume as usize].root)
    }

    /// Returns two sizes in bytes: dirty data in the write buffers of a volume's flash devices, and the
    /// buffers' capacity. `None` without flash.
    pub fn buffered_bytes(&self, volume: u32) -> Option<(u64, u64)> {
        let buffers = self.parts_of(volume).filter_map(Part::buffered_bytes);
        buffers.reduce(|a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Returns the burst credits that are left at `now_ns` if no operation starts until then, as a fraction of the
    /// maximum, 0 to 1. If several limits of the volume and its instance have credits, returns the smallest fraction.
    /// `None` without credits.
    pub fn credits_share(&self, volume: u32, now_ns: u64) -> Option<f64> {
        let own = self.parts_of(volume).filter_map(|part| part.credits_share(now_ns));
        let shared = self.core.shared.as_ref().and_then(|of| of.credits_share(now_ns));
        own.chain(shared).reduce(f64::min)
    }

    /// Returns the erase cycles used since the start, as a fraction of the rated cycles, on the most worn
    /// device of a volume. `None` without flash.
    pub fn worn(&self, volume: u32) -> Option<f64> {
        self.parts_of(volume).filter_map(Part::worn).reduce(f64::max)
    }

    /// Returns one resource for all cores on which workers run, with their busy time since the start.
    pub(super) fn generator_cores(&self) -> Resource {
        let mut on: Vec<usize> = self.core.worker_cores.clone();
        on.sort_unstable();
        on.dedup();
        let busy_ns = on.iter().map(|&c| self.core.cores[c].busy_ns(self.core.now)).sum();
        let count = on.len() as u32;
        Resource { name: "generator cores", part: None, count, held: false, busy_ns }
    }

    /// Returns all resources with their busy time since the start: the host's, then those of a volume's
    /// components.
    pub fn resources(&self, volume: u32) -> Vec<Resource> {
        let of_parts = self.parts_of(volume).flat_map(|part| part.resources(&self.core));
        let shared = self.core.shared.iter().flat_map(|of| of.resources(self.core.now, None));
        [self.generator_cores()].into_iter().chain(shared).chain(of_parts).collect()
    }

    /// Returns the time that a volume's operations have spent in each phase since the start. The phases are those of
    /// the volume's root component, which receives the host's requests.
    pub fn phases(&self, volume: u32) -> Vec<Phase> {
        let root = self.system.volumes[volume as usize].root;
        self.parts[root.index()].phases()
    }

    /// Returns the times that requests have spent in each phase in the components below a volume's root. The times are
    /// summed per type of component, and the uppermost type comes first.
    fn phases_below(&self, volume: u32) -> Vec<(&'static str, Vec<Phase>)> {
        let root = self.system.volumes[volume as usize].root;
        let mut below: Vec<(&'static str, Vec<Phase>)> = Vec::new();
        let parts: Vec<PartId> =
            self.system.parts_of(volume).filter(|&part| part != root).collect();
        // (Children precede their parents.)
        for part in parts.into_iter().rev().map(|part| &self.parts[part.index()]) {
            let at = below.iter().position(|level| level.0 == part.level());
            let at = at.unwrap_or_else(|| {
                below.push((part.level(), Vec::new()));
                below.len() - 1
            });
            usage::sum(&mut below[at].1, &part.phases());
        }
        below
    }

    /// Returns the resource usage of all volumes since the start.
    pub fn snapshot(&self) -> Snapshot {
        let usage = |volume| VolumeUsage {
            resources: self.resources(volume),
            phases: self.phases(volume),
            below: self.phases_below(volume),
            counts: self.flash_counts(volume),
            read_cache: self.read_cache_counts(volume),
        };
        Snapshot {
            at_ns: self.core.now,
            events: self.events,
            volumes: (0..self.volumes()).map(usage).collect(),
        }
    }
}
