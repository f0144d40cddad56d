//! Availability of adapters after losses and failures: decides which adapter serves a path, whether adapters may cache
//! writes, and which adapters have a copy of each cache. `adapter_path::failover` retries the operations of a lost
//! adapter.
//!
//! - A pair mirrors each write over an AA (adapter-to-adapter) link, so either adapter can take over all paths and the
//!   cached data.
//! - Write caching stops, and the caches are destaged, while both adapters are present but not connected, or while a
//!   battery has failed.
//! - An adapter whose partner is lost continues to cache writes alone.
//! - A returning adapter receives the cached data before it serves again. A replacement begins with an empty cache.
//! - Data of which no adapter has a copy is lost. It is unreadable until it is rewritten.
//! - The optimized adapter of a path can change only while both adapters are connected, because both then have all
//!   cached data. The path's cached data moves with it.

use super::{Cache, Pair, PathUnits};
use crate::content_event::UNIT_BYTES;
use crate::fault::AdapterFault;
use crate::ranges::Ranges;
use crate::server::PerByte;

/// Index of the primary adapter. Only the primary can change access states (which adapter a volume is optimized on).
/// The primary also serves the volumes whose access state is cleared. While the primary is lost, its partner serves
/// these volumes, and no access state can be changed.
pub(super) const PRIMARY: usize = 0;

/// Availability of one RAID adapter, and the volumes assigned to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterState {
    /// Whether the adapter has failed and does not serve volumes.
    pub lost: bool,
    /// Whether the battery of the adapter's cache has failed.
    pub battery_failed: bool,
    /// Indices of the volumes that this adapter serves now.
    pub volumes: Vec<u32>,
    /// Indices of the volumes for which this adapter is the optimized path (as in ALUA).
    pub optimized: Vec<u32>,
}

/// Availability of a system's RAID adapters and the links between them, and state of their caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptersState {
    pub adapters: Vec<AdapterState>,
    /// Whether each link between the adapters is down, by link index. Empty with a single adapter.
    pub links_down: Vec<bool>,
    /// Whether the adapters have a write cache, even if write caching is off at present.
    pub has_cache: bool,
    /// Whether writes are acknowledged once they are in the cache (write-back), rather than on the devices.
    pub is_caching: bool,
    /// Whether writes are mirrored to both caches. This requires both adapters, and a link between them that is up.
    pub is_mirrored: bool,
    /// Dirty bytes in the caches, including refused ones. Mirrored copies are not counted.
    pub dirty_bytes: u64,
    /// Dirty bytes that devices refused during a destage. Their destage will be retried.
    pub refused_bytes: u64,
    /// Indices of the volumes that no adapter can serve.
    pub volumes_down: Vec<u32>,
    /// Indices of the volumes whose access state is cleared ([`AdapterFault::Access`]). The primary adapter serves
    /// them.
    pub cleared: Vec<u32>,
}

impl AdaptersState {
    /// Returns whether the adapter, link or volume that a fault names exists in this system.
    pub fn has(&self, fault: AdapterFault) -> bool {
        match fault {
            AdapterFault::Lose { adapter }
            | AdapterFault::Replace { adapter }
            | AdapterFault::Clear { adapter }
            | AdapterFault::BatteryFails { adapter } => (adapter as usize) < self.adapters.len(),
            AdapterFault::LinkDown { link } | AdapterFault::LinkUp { link } => {
                (link as usize) < self.links_down.len()
            }
            AdapterFault::Access { volume, on, from } => {
                let volumes = self.adapters.iter().map(|of| of.optimized.len()).sum::<usize>();
                let adapters = self.adapters.len();
                let is_known = |adapter: u32| (adapter as usize) < adapters;
                (volume as usize) < volumes && is_known(from) && on.is_none_or(is_known)
            }
        }
    }

    /// Returns why the adapter `from` can't change access states now; `None` if it can.
    pub fn access_is_fixed(&self, from: u32) -> Option<String> {
        if self.adapters.len() < 2 {
            return Some("with a single adapter, volumes have no access state".to_owned());
        }
        if let Some(lost) = self.adapters.iter().position(|adapter| adapter.lost) {
            return Some(format!(
                "adapter {lost} is lost: access states can be changed only while both adapters are present"
            ));
        }
        if self.links_down.iter().all(|is_down| *is_down) {
            return Some(
                "all links between the adapters are down: access states can be changed only while the adapters are connected"
                    .to_owned(),
            );
        }
        (from as usize != PRIMARY).then(|| {
            format!("access states can be changed only from the primary, adapter {PRIMARY}")
        })
    }
}

impl Pair {
    /// Returns the current state of the adapters, their links and their caches.
    pub(crate) fn state(&self) -> AdaptersState {
        let served = |adapter: Option<usize>| {
            let numbers = 0..self.paths.len() as u32;
            let of = |&path: &u32| {
                let is_up = self.groups[self.group_of(path)].is_up;
                adapter == is_up.then(|| self.serves(path))
            };
            numbers.filter(of).collect()
        };
        let paths = |has: &dyn Fn(&PathUnits) -> bool| -> Vec<u32> {
            (0..).zip(&self.paths).filter(|(_, path)| has(path)).map(|(number, _)| number).collect()
        };
        let adapters = self.adapters.iter().enumerate().map(|(number, of)| AdapterState {
            lost: of.is_lost,
            battery_failed: of.battery_failed,
            volumes: served(Some(number)),
            optimized: paths(&|path| path.optimized == number),
        });
        let caches = || self.groups.iter().filter_map(|group| group.cache.as_ref());
        let bytes = |units: fn(&Cache) -> u64| caches().map(units).sum::<u64>() * UNIT_BYTES;
        AdaptersState {
            adapters: adapters.collect(),
            links_down: if self.adapters.len() > 1 { self.aa_down.clone() } else { Vec::new() },
            has_cache: self.groups[0].cache.is_some(),
            is_caching: self.is_caching,
            is_mirrored: self.is_mirrored,
            dirty_bytes: bytes(Cache::unwritten_units),
            refused_bytes: bytes(|cache| cache.unwritten_units() - cache.dirty_units()),
            volumes_down: served(None),
            cleared: paths(&|path| path.is_cleared),
        }
    }

    /// Returns a path's units whose data was lost with a cache.
    pub(crate) fn lost(&self, path: u32) -> &Ranges {
        &self.paths[path as usize].lost
    }

    fn is_present(&self, adapter: usize) -> bool {
        self.adapters.get(adapter).is_some_and(|a| !a.is_lost)
    }

    /// Takes an adapter out of service and drops its work in progress. Its cache content is kept.
    pub(crate) fn lose(&mut self, adapter: usize, now_ns: u64) {
        let lost = &mut self.adapters[adapter];
        lost.is_lost = true;
        lost.losses += 1;
        lost.reset(now_ns);
        self.assign(now_ns);
    }

    /// Restores a lost adapter with its cache content, and repairs its battery.
    pub(crate) fn restore(&mut self, adapter: usize, now_ns: u64) {
        let back = &mut self.adapters[adapter];
        (back.is_lost, back.battery_failed) = (false, false);
        self.assign(now_ns);
    }

    /// Replaces a lost adapter by one with an empty cache.
    pub(crate) fn replace(&mut self, adapter: usize, now_ns: u64) {
        for group in 0..self.groups.len() {
            self.groups[group].holds[adapter] = false;
            self.lose_unheld(group);
        }
        self.restore(adapter, now_ns);
    }

    /// Makes the battery of an adapter's cache fail, which stops write caching if the adapter is in service.
    pub(crate) fn fail_battery(&mut self, adapter: usize, now_ns: u64) {
        self.adapters[adapter].battery_failed = true;
        self.assign(now_ns);
    }

    pub(crate) fn set_link(&mut self, link: usize, is_down: bool, now_ns: u64) {
        self.aa_down[link] = is_down;
        self.assign(now_ns);
    }

    /// Makes `on` the optimized adapter of a path (`None`: the primary), and moves the path's cached data to that
    /// adapter's cache. `unplaced_units`: number of units that were dirty when the machine started and are being
    /// destaged.
    pub(crate) fn set_access(
        &mut self,
        number: u32,
        on: Option<usize>,
        unplaced_units: u64,
        now_ns: u64,
    ) {
        let path = &mut self.paths[number as usize];
        path.is_cleared = on.is_none();
        let (from, to) = (path.optimized, on.unwrap_or(PRIMARY));
        if from == to {
            return;
        }
        path.optimized = to;
        let (destages, void_destages) = (path.destages, path.void_destages);
        let Ok([from, to]) = self.groups.get_disjoint_mut([from, to]) else { return };
        from.paths.retain(|&path| path != number);
        to.paths.push(number);
        from.destages -= destages;
        from.void_destages -= void_destages;
        to.destages += destages;
        to.void_destages += void_destages;
        if let (Some(of), Some(cache)) = (&mut from.cache, &mut to.cache) {
            of.give(cache, number, if void_destages > 0 { 0 } else { unplaced_units });
            if from.paths.is_empty() {
                of.give_unplaced(cache);
            }
        }
        self.assign(now_ns);
    }

    /// Processes a power failure: only adapters with a working battery keep their cache content.
    pub(super) fn batteries_hold(&mut self) {
        if self.adapters.iter().all(|adapter| !adapter.battery_failed) {
            return;
        }
        for group in 0..self.groups.len() {
            for (adapter, of) in self.adapters.iter().enumerate() {
                self.groups[group].holds[adapter] &= !of.battery_failed;
            }
            self.lose_unheld(group);
        }
    }

    /// Drops the content of a group's cache if no adapter has a copy any more. Dirty units are lost.
    fn lose_unheld(&mut self, number: usize) {
        let adapters = self.adapters.len();
        let group = &mut self.groups[number];
        if group.holds[..adapters].contains(&true) {
            return;
        }
        group.holds = [true; 2];
        group.void_destages = group.destages;
        for path in &group.paths {
            let path = &mut self.paths[*path as usize];
            path.void_destages = path.destages;
        }
        let Some(cache) = &mut group.cache else { return };
        for place in cache.lose() {
            let path = &mut self.paths[place.path() as usize];
            path.lost.add(place.unit()..place.unit() + 1);
            path.lost_units += 1;
        }
    }

    /// Reassigns paths to the working adapters, and decides whether these cache writes.
    fn assign(&mut self, now_ns: u64) {
        let present: Vec<usize> =
            (0..self.adapters.len()).filter(|&a| self.is_present(a)).collect();
        let links_up = self.aa_down.iter().filter(|is_down| !**is_down).count();
        let has_cache = self.groups[0].cache.is_some();
        self.is_mirrored = present.len() > 1 && links_up > 0;
        let batteries = present.iter().all(|&a| !self.adapters[a].battery_failed);
        self.is_caching = has_cache && batteries && (self.is_mirrored || present.len() < 2);
        if links_up > 0 {
            self.costs.mirror = PerByte::new(1e9 / (self.mirror_bytes_per_s * links_up as f64));
        }
        for number in 0..self.groups.len() {
            let group = &mut self.groups[number];
            let dirty_units = group.cache.as_ref().map_or(0, Cache::unwritten_units);
            if dirty_units == 0 {
                group.holds = [true; 2];
            }
            let current = group.paths.first().map_or(number, |&p| self.paths[p as usize].server);
            let able: Vec<usize> = present.iter().copied().filter(|&a| group.holds[a]).collect();
            group.is_up = !able.is_empty();
            if !group.is_up {
                continue;
            }
            if self.is_mirrored {
                // A partner that lacks some of the content receives all of it.
                if let Some(&lacks) = present.iter().find(|&&a| !group.holds[a]) {
                    let bytes = u32::try_from(dirty_units * UNIT_BYTES).unwrap_or(u32::MAX);
                    self.adapters[1 - lacks].mirror.take(now_ns, self.costs.mirror.ticks(bytes));
                    group.holds[lacks] = true;
                }
            } else if self.adapters.len() > 1 {
                // From now on only one adapter's copy of the cache changes.
                let holder = if able.contains(&current) { current } else { able[0] };
                group.holds = [holder == 0, holder == 1];
            }
            let able: Vec<usize> = present.iter().copied().filter(|&a| group.holds[a]).collect();
            for path in &group.paths {
                let path = &mut self.paths[*path as usize];
                let optimized = path.optimized;
                let server = if able.contains(&optimized) { optimized } else { able[0] };
                if server != path.server {
                    path.server = server;
                    path.ready_ns = now_ns + self.failover_ns;
                }
            }
        }
    }
}
