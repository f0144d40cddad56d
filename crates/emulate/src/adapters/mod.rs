//! State shared by all paths through a system's adapters: processors, links, parity engines, caches, drawers.
//! [`AdapterPath`](crate::adapter_path::AdapterPath) sends operations through these components.
//!
//! | module | what it holds |
//! |---|---|
//! | `cache` | the content of a write cache |
//! | `availability` | which adapter serves a path; the effects of lost adapters, links and batteries |

mod availability;
mod cache;

use availability::PRIMARY;
pub use availability::{AdapterState, AdaptersState};
pub(crate) use cache::{Cache, Place};

use crate::content_event::UNIT_BYTES;
use crate::part_id::PartId;
use crate::ranges::Ranges;
use crate::request::{List, Request};
use crate::server::{PerByte, Server, ticks};
use crate::spec::{self, Access, Adapters, HostPaths, Preconditioned, Written};
use crate::store::{Keeps, Store};
use iodyno_units::rng::{self, Generator, below};
use iodyno_units::{Op, OpKind};
use std::ops::Range;

/// Token of a destage of units that were dirty when the machine started.
pub(crate) const UNPLACED: u64 = 1;
/// Token of a destage that retries data which a device refused.
pub(crate) const RETRIED: u64 = 2;

/// Maximum size of a destage. A full stripe is larger only if its strips are larger than 1 MiB.
const DESTAGE_BYTES_MAX: u64 = 64 << 20;

/// State of one RAID adapter: its processor, parity engine, links and commands.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    pub(crate) processor: Server,
    /// Processor time for writes that the partner mirrors to this adapter, served one at a time.
    pub(crate) mirrored: Server,
    pub(crate) parity: Server,
    pub(crate) to_host: Server,
    pub(crate) from_host: Server,
    /// The link over which the adapter mirrors its writes to the partner.
    pub(crate) mirror: Server,
    /// Number of host commands that the adapter is processing.
    pub(crate) commands: u32,
    /// Operations that wait for a free command slot.
    pub(crate) waiting: List,
    is_lost: bool,
    /// Whether the cache battery has failed, so that a power failure would lose the cache content.
    battery_failed: bool,
    /// Number of times that the adapter was lost. Commands that began before the last loss are void.
    pub(crate) losses: u32,
}

/// The paths that are optimized on one adapter, and their half of the write cache. In a pair, both
/// adapters have a copy of the cache content, and either can serve the paths.
#[derive(Clone, Debug)]
pub(crate) struct PathGroup {
    pub(crate) cache: Option<Cache>,
    /// Number of destages in progress.
    pub(crate) destages: u32,
    /// Number of destages in progress whose data has been lost from the cache since they began.
    pub(crate) void_destages: u32,
    /// Writes that wait for space in the cache, or for a destage.
    pub(crate) full: List,
    pub(crate) paths: Vec<u32>,
    /// For each adapter, whether it has a copy of the cache content.
    holds: [bool; 2],
    /// Whether an adapter can serve the group's paths.
    pub(crate) is_up: bool,
}

/// State of a path, shared by the adapters.
#[derive(Clone, Debug)]
pub(crate) struct PathUnits {
    /// Size of the volume in units.
    pub(crate) units: u64,
    /// Number of units per stripe. Neighbouring dirty units within a stripe are destaged together.
    pub(crate) stripe_units: u64,
    /// Preconditioning of the volume before the emulation starts.
    pub(crate) before: Preconditioned,
    /// Unit at which the next destage begins, for dirty data that sequential preconditioning has left in the cache.
    pub(crate) next: u64,
    /// Identifier of the path itself among the machine's components.
    pub(crate) part: PartId,
    /// Identifier of the array or device behind the path.
    pub(crate) child: PartId,
    /// Whether the child is a device. Otherwise it is an array.
    pub(crate) is_device: bool,
    /// Index of the adapter on which the path is optimized; also the index of the path's group.
    pub(crate) optimized: usize,
    /// Index of the adapter that serves the path now.
    pub(crate) server: usize,
    /// Whether the path's access state is cleared, so that the primary adapter serves the path.
    is_cleared: bool,
    /// Time at which the path's current failover ends, ns. No operation is served before.
    pub(crate) ready_ns: u64,
    /// Number of the path's destages in progress.
    pub(crate) destages: u32,
    /// Number of the path's destages in progress whose data has been lost from the cache since they
    /// began: either none or all.
    pub(crate) void_destages: u32,
    /// Whether the host sent the last operation to the adapter that does not serve the path, if hosts alternate between
    /// the adapters.
    to_other: bool,
    /// Whether the device or array has refused destaged data. Host writes then fail until the retry
    /// of a unit succeeds.
    pub(crate) refuses: bool,
    /// Whether a retry of one unit is in progress.
    pub(crate) is_retried: bool,
    /// Units whose data was lost with a cache. Reads of them fail until they are rewritten.
    pub(crate) lost: Ranges,
    /// Number of units whose data was lost with a cache, since the start.
    pub(crate) lost_units: u64,
}

/// Costs of operations, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) raid6: u64,
    pub(crate) forward: u64,
    device: u64,
    xor: PerByte,
    gf: PerByte,
    pub(crate) to_host: PerByte,
    pub(crate) from_host: PerByte,
    drawer: PerByte,
    pub(crate) cache_write: u64,
    pub(crate) cache_mirror: u64,
    pub(crate) mirror: PerByte,
    pub(crate) mirror_latency_ns: u64,
}

/// All adapters of a system: one, or a pair.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) adapters: Vec<Adapter>,
    /// The groups of paths, one per adapter.
    pub(crate) groups: Vec<PathGroup>,
    pub(crate) paths: Vec<PathUnits>,
    drawers: Vec<[Server; 2]>,
    pub(crate) costs: Costs,
    pub(crate) latency_ns: u64,
    pub(crate) commands_max: u32,
    /// Number of dirty units in one adapter's cache above which it destages.
    pub(crate) destage_units: u64,
    /// Number of dirty units above `destage_units` at which the destage rate reaches its maximum.
    pub(crate) ramp_units: u64,
    pub(crate) destages_max: u32,
    pub(crate) keeps_reads: bool,
    pub(crate) rng: Generator,
    /// For each link between the adapters, whether it is down.
    aa_down: Vec<bool>,
    mirror_bytes_per_s: f64,
    failover_ns: u64,
    access: Access,
    /// Whether hosts send operations to both adapters in turn while writes are mirrored.
    has_host_paths: bool,
    /// Whether each write is also copied to the partner's cache.
    pub(crate) is_mirrored: bool,
    /// Whether writes are acknowledged as soon as they are in the cache (write-back).
    pub(crate) is_caching: bool,
    /// Whether the caches store content, rather than only the states of units.
    pub(crate) keeps_content: bool,
}

impl Pair {
    /// Creates the adapters of a system with `devices` devices. Paths are added later.
    pub(crate) fn new(spec: &Adapters, devices: u32, seed: u64) -> Self {
        let per_byte = |bytes_per_s: f64| PerByte::new(1e9 / bytes_per_s);
        let (p, slot) = (&spec.processor, &spec.slot);
        let cache = spec.cache.unwrap_or(spec::Cache::NONE);
        let costs = Costs {
            read: ticks(p.read_ns + slot.fetch_ns),
            write: ticks(p.write_ns + 2 * slot.fetch_ns),
            raid6: ticks(p.raid6_ns),
            forward: ticks(p.forward_ns),
            device: ticks(p.device_ns),
            xor: per_byte(spec.parity.xor_bytes_per_s),
            gf: per_byte(spec.parity.gf_bytes_per_s),
            to_host: per_byte(slot.read_bytes_per_s),
            from_host: per_byte(slot.write_bytes_per_s),
            drawer: per_byte(spec.drawers.bytes_per_s),
            cache_write: ticks(cache.write_ns),
            cache_mirror: ticks(cache.mirror_ns),
            mirror: per_byte(cache.mirror_bytes_per_s * f64::from(spec.aa_links)),
            mirror_latency_ns: cache.mirror_latency_ns,
        };
        let bytes = cache.bytes / u64::from(spec.count);
        let destage_units = (bytes as f64 * cache.destage_share) as u64 / UNIT_BYTES;
        let adapter = Adapter {
            processor: Server::default(),
            mirrored: Server::default(),
            parity: Server::default(),
            to_host: Server::default(),
            from_host: Server::default(),
            mirror: Server::default(),
            commands: 0,
            waiting: List::EMPTY,
            is_lost: false,
            battery_failed: false,
            losses: 0,
        };
        let group = PathGroup {
            cache: spec.cache.map(|_| Cache::new(bytes / UNIT_BYTES)),
            destages: 0,
            void_destages: 0,
            full: List::EMPTY,
            paths: Vec::new(),
            holds: [true; 2],
            is_up: true,
        };
        Self {
            adapters: vec![adapter; spec.count as usize],
            groups: vec![group; spec.count as usize],
            paths: Vec::new(),
            drawers: vec![<[Server; 2]>::default(); spec.drawers.count as usize],
            costs,
            latency_ns: spec.latency_ns,
            commands_max: spec.commands_max,
            destage_units,
            ramp_units: (cache.destage_ramp_bytes / UNIT_BYTES).max(1),
            destages_max: cache.destage_depth * devices.div_ceil(spec.count),
            keeps_reads: cache.keeps_reads,
            rng: rng::stream(seed, "cache", 0),
            aa_down: vec![false; spec.aa_links as usize],
            mirror_bytes_per_s: cache.mirror_bytes_per_s,
            failover_ns: spec.failover_ns,
            access: spec.access,
            has_host_paths: spec.host_paths == HostPaths::Both,
            is_mirrored: spec.count > 1,
            is_caching: spec.cache.is_some(),
            keeps_content: false,
        }
    }

    /// Adds the next path. Its cache initially contains the dirty data that the volume's
    /// preconditioning leaves.
    pub(crate) fn add(&mut self, spec: &spec::AdapterPath, part: PartId, before: Preconditioned) {
        let number = self.paths.len();
        debug_assert_eq!(number as u32, spec.number);
        let optimized = match self.access {
            Access::Balanced => number % self.adapters.len(),
            Access::Cleared => PRIMARY,
        };
        let group = &mut self.groups[optimized];
        group.paths.push(spec.number);
        if before.how != Written::Fresh
            && let Some(cache) = &mut group.cache
        {
            cache.begin_with(self.destage_units);
        }
        self.paths.push(PathUnits {
            units: spec.capacity_bytes / UNIT_BYTES,
            stripe_units: (spec.stripe_bytes.min(DESTAGE_BYTES_MAX) / UNIT_BYTES).max(1),
            before,
            next: 0,
            part,
            child: spec.child,
            is_device: spec.is_device,
            optimized,
            server: optimized,
            is_cleared: self.access == Access::Cleared,
            ready_ns: 0,
            destages: 0,
            void_destages: 0,
            to_other: false,
            refuses: false,
            is_retried: false,
            lost: Ranges::default(),
            lost_units: 0,
        });
    }

    pub(crate) fn group_of(&self, path: u32) -> usize {
        self.paths[path as usize].optimized
    }

    /// Returns the adapter to which the host sends its next operation on a path.
    pub(crate) fn host_sends_to(&mut self, path: u32) -> usize {
        let can_forward = self.has_host_paths && self.is_mirrored;
        let path = &mut self.paths[path as usize];
        path.to_other = can_forward && !path.to_other;
        if path.to_other { 1 - path.server } else { path.server }
    }

    /// Returns the index of the adapter that serves a path now.
    pub(crate) fn serves(&self, path: u32) -> usize {
        self.paths[path as usize].server
    }

    pub(crate) fn cache(&mut self, path: u32) -> Option<&mut Cache> {
        let group = self.group_of(path);
        self.groups[group].cache.as_mut()
    }

    /// Prefetches into the CPU cache the table entries of a host's write that will soon be resumed.
    pub(crate) fn prefetch(&self, group: usize, write: &Request) {
        let path = self.paths.partition_point(|path| path.part < write.part);
        if let Some(cache) = &self.groups[group].cache {
            cache.prefetch(path as u32, &write.units());
        }
    }

    /// Makes the caches store content from now on. They are emptied, because the addresses of
    /// the dirty units that preconditioning left are unknown.
    pub(crate) fn keep_content(&mut self) {
        self.keeps_content = true;
        self.groups
            .iter_mut()
            .filter_map(|group| group.cache.as_mut())
            .for_each(Cache::keep_values);
    }

    /// Returns the time at which an operation that a path sends now reaches the device, ns. A read reserves bandwidth
    /// of the drawer's port at the time of sending.
    pub(crate) fn device(&mut self, now_ns: u64, path: u32, device: PartId, op: &Op) -> u64 {
        let at = self.serves(path);
        let sent_ns = self.adapters[at].processor.take(now_ns, self.costs.device);
        let drawer = device.index() % self.drawers.len();
        let port = &mut self.drawers[drawer][usize::from(op.kind == OpKind::Read)];
        let carried_ns = port.take(now_ns, self.costs.drawer.ticks(op.len_bytes));
        sent_ns.max(carried_ns)
    }

    /// Returns the time, ns, at which the parity engine has computed P, and Q if `with_q`, for `bytes` of data.
    pub(crate) fn parity(&mut self, now_ns: u64, path: u32, bytes: u32, with_q: bool) -> u64 {
        let at = self.serves(path);
        let q = if with_q { self.costs.gf.ticks(bytes) } else { 0 };
        self.adapters[at].parity.take(now_ns, self.costs.xor.ticks(bytes) + q)
    }

    /// Returns each kind of resource with its busy time up to `now_ns`, ns: the longest among the adapters, or among
    /// the drawers' ports. If arrays are spread unevenly, the busiest resource limits the throughput.
    pub(crate) fn busy(&self, now_ns: u64) -> [(&'static str, u64); 6] {
        let of = |server: fn(&Adapter) -> &Server| {
            self.adapters.iter().map(|a| server(a).busy_ns(now_ns)).max().unwrap_or(0)
        };
        let drawers = self.drawers.iter().flatten().map(|d| d.busy_ns(now_ns)).max();
        [
            ("adapter's processor", of(|a| &a.processor)),
            ("adapter's parity engine", of(|a| &a.parity)),
            ("slot, adapter to host", of(|a| &a.to_host)),
            ("slot, host to adapter", of(|a| &a.from_host)),
            ("link to the other adapter", of(|a| &a.mirror)),
            ("drawer's port", drawers.unwrap_or(0)),
        ]
    }

    /// Processes a power failure: drops all requests. The caches keep their content.
    pub(crate) fn power_off(&mut self, now_ns: u64) {
        for a in &mut self.adapters {
            a.reset(now_ns);
        }
        for group in &mut self.groups {
            (group.destages, group.void_destages, group.full) = (0, 0, List::EMPTY);
            // Refused data is retried when the power returns.
            if let Some(cache) = &mut group.cache {
                cache.retry();
            }
            if let Some(cache) = &mut group.cache {
                cache.power_off();
            }
        }
        for port in self.drawers.iter_mut().flatten() {
            port.reset(now_ns);
        }
        for path in &mut self.paths {
            (path.refuses, path.is_retried) = (false, false);
            (path.destages, path.void_destages) = (0, 0);
        }
        self.batteries_hold();
    }

    /// Marks data that devices refused during a destage as dirty again, in all caches, so that its destage is
    /// retried.
    pub(crate) fn retry(&mut self) {
        self.groups.iter_mut().filter_map(|group| group.cache.as_mut()).for_each(Cache::retry);
        self.paths.iter_mut().for_each(|path| path.refuses = false);
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.groups.iter().filter_map(|group| group.cache.as_ref()).try_for_each(Cache::check)
    }

    /// Calls `take` with the fill level of the caches: dirty units compared with the limit at which hosts must wait,
    /// and, if the caches keep reads, all cached units.
    pub(crate) fn stores(&self, take: &mut dyn FnMut(Store)) {
        for cache in self.groups.iter().filter_map(|group| group.cache.as_ref()) {
            take(Store {
                name: "adapters' write cache",
                keeps: Keeps::Dirty,
                held_bytes: cache.dirty_units() * UNIT_BYTES,
                capacity_bytes: (self.destage_units + self.ramp_units) * UNIT_BYTES,
                passed_bytes: cache.dirtied_units() * UNIT_BYTES,
                choice_bytes: 0,
            });
            if self.keeps_reads {
                let (held, capacity, passed) = cache.reading();
                take(Store {
                    name: "adapters' cached reads",
                    keeps: Keeps::Copies,
                    held_bytes: held * UNIT_BYTES,
                    capacity_bytes: capacity * UNIT_BYTES,
                    passed_bytes: passed * UNIT_BYTES,
                    choice_bytes: 0,
                });
            }
        }
    }

    /// Returns the number of units that hosts may write to a group's cache before they must wait for
    /// a destage.
    pub(crate) fn space_units(&self, group: usize) -> u64 {
        let dirty_units = self.groups[group].cache.as_ref().map_or(0, Cache::dirty_units);
        (self.destage_units + self.ramp_units).saturating_sub(dirty_units)
    }

    /// Chooses the next units to destage from a group's cache. Returns path, units and token; `None`
    /// if the cache has too few dirty units.
    pub(crate) fn next_destage(&mut self, at: usize) -> Option<(u32, Range<u64>, u64)> {
        let group = &mut self.groups[at];
        let cache = group.cache.as_mut()?;
        // If caching is off, the cache is emptied at full rate.
        let keeps_units = if self.is_caching { self.destage_units } else { 0 };
        if cache.waiting_units() <= keeps_units || !group.is_up || group.void_destages > 0 {
            return None;
        }
        let over = cache.dirty_units() - keeps_units;
        let share = if self.is_caching {
            over.min(self.ramp_units) as f64 / self.ramp_units as f64
        } else {
            1.0
        };
        if f64::from(group.destages) >= f64::from(self.destages_max) * share {
            return None;
        }
        group.destages += 1;
        if cache.has_unplaced() {
            let path = group.paths[below(&mut self.rng, group.paths.len() as u64) as usize];
            let of = &mut self.paths[path as usize];
            let units = if let Some(block_bytes) = of.before.how.random_block_bytes() {
                let among = of.before.how.rewritten(of.units);
                let block = (u64::from(block_bytes) / UNIT_BYTES).clamp(1, of.units);
                let blocks = ((among.end - among.start) / block).max(1);
                let from = (among.start / block + below(&mut self.rng, blocks)) * block;
                from..from + block
            } else {
                let from = of.next;
                let to = (from + of.stripe_units).min(of.units);
                of.next = if to == of.units { 0 } else { to };
                from..to
            };
            let taken = cache.take_unplaced(units.end - units.start);
            of.destages += 1;
            return Some((path, units.start..units.start + taken, UNPLACED));
        }
        let paths = &self.paths;
        let stripe = |at: Place| {
            let stripe_units = paths[at.path() as usize].stripe_units;
            let from = at.unit() / stripe_units * stripe_units;
            from..from + stripe_units
        };
        let Some((path, units)) = cache.take(stripe) else {
            group.destages -= 1;
            return None;
        };
        self.paths[path as usize].destages += 1;
        Some((path, units, 0))
    }
}

impl Adapter {
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Drops all work in progress of the adapter.
    fn reset(&mut self, now_ns: u64) {
        for server in [
            &mut self.processor,
            &mut self.mirrored,
            &mut self.parity,
            &mut self.to_host,
            &mut self.from_host,
            &mut self.mirror,
        ] {
            server.reset(now_ns);
        }
        (self.commands, self.waiting) = (0, List::EMPTY);
    }
}
