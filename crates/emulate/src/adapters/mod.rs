//! The state shared by all paths through a system's adapters: processors, links, parity engines, caches, drawers.
//! [`AdapterPath`](crate::adapter_path::AdapterPath) leads operations through them.
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

/// Token of a destage of units from before the machine started.
pub(crate) const UNPLACED: u64 = 1;
/// Token of a destage that retries refused data.
pub(crate) const RETRIED: u64 = 2;

/// State of one RAID adapter: its processor, parity engine, links and commands.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    pub(crate) processor: Server,
    /// The processor's work on writes that the partner mirrors to this adapter, one after the
    /// other.
    pub(crate) mirrored: Server,
    pub(crate) parity: Server,
    pub(crate) to_host: Server,
    pub(crate) from_host: Server,
    /// The link over which the adapter mirrors its writes to the partner.
    pub(crate) mirror: Server,
    /// Number of host commands in use.
    pub(crate) commands: u32,
    /// Operations that wait for a free command.
    pub(crate) waiting: List,
    is_lost: bool,
    /// Whether the battery of the cache has failed: a power failure would lose its content.
    battery_failed: bool,
    /// Number of times that the adapter was lost. A command from before the last loss no longer
    /// exists.
    pub(crate) losses: u32,
}

/// The paths that are optimized on one adapter, with their half of the write cache. In a pair both
/// adapters hold the content of the cache, and either can serve the paths.
#[derive(Clone, Debug)]
pub(crate) struct PathGroup {
    pub(crate) cache: Option<Cache>,
    /// Destages in progress.
    pub(crate) destages: u32,
    /// Destages in progress whose data the cache has lost since they began.
    pub(crate) void_destages: u32,
    /// Writes that wait for space in the cache, or for a destage.
    pub(crate) full: List,
    /// Numbers of the group's paths.
    pub(crate) paths: Vec<u32>,
    /// For each adapter, whether it holds the content of the cache.
    holds: [bool; 2],
    /// Whether some adapter can serve the paths.
    pub(crate) is_up: bool,
}

/// State of a path that all adapters know.
#[derive(Clone, Debug)]
pub(crate) struct PathUnits {
    /// Size of the volume in units.
    pub(crate) units: u64,
    /// Units per stripe, within which neighbouring units are destaged together.
    pub(crate) stripe_units: u64,
    /// Preconditioning of the volume.
    pub(crate) before: Preconditioned,
    /// The next unit to destage, if the volume was preconditioned by sequential writes.
    pub(crate) next: u64,
    /// The path itself, as a part.
    pub(crate) part: PartId,
    /// The array or device behind the path.
    pub(crate) child: PartId,
    /// Whether the child is a device. (An array sends operations to devices itself.)
    pub(crate) is_device: bool,
    /// The adapter on which the path is optimized; also the number of its group.
    pub(crate) optimized: usize,
    /// The adapter that serves the path now.
    pub(crate) server: usize,
    /// Whether the path's access state is cleared, so the path is on the primary.
    is_cleared: bool,
    /// End of a failover, until which the path is not served.
    pub(crate) ready_ns: u64,
    /// Destages of the path in progress.
    pub(crate) destages: u32,
    /// Destages of the path in progress whose data the cache has lost since they began: either none
    /// or all.
    pub(crate) void_destages: u32,
    /// Whether the host sends the next operation to the other adapter, if hosts use both.
    to_other: bool,
    /// Whether the device or array has refused destaged data. Hosts' writes then fail until it has accepted a retried
    /// unit.
    pub(crate) refuses: bool,
    /// Whether a retry of one unit is in progress.
    pub(crate) is_retried: bool,
    /// Units lost with a cache: reads of them fail until they are rewritten.
    pub(crate) lost: Ranges,
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
    /// One group per adapter.
    pub(crate) groups: Vec<PathGroup>,
    pub(crate) paths: Vec<PathUnits>,
    drawers: Vec<[Server; 2]>,
    pub(crate) costs: Costs,
    pub(crate) latency_ns: u64,
    pub(crate) commands_max: u32,
    /// Dirty units of one adapter's cache at which it begins to destage.
    pub(crate) destage_units: u64,
    /// Further dirty units, over which the rate of destages rises to its maximum.
    pub(crate) ramp_units: u64,
    pub(crate) destages_max: u32,
    pub(crate) keeps_reads: bool,
    pub(crate) rng: Generator,
    /// By link between the adapters, whether it is down.
    aa_down: Vec<bool>,
    mirror_bytes_per_s: f64,
    failover_ns: u64,
    access: Access,
    /// Whether hosts send operations to both adapters.
    has_host_paths: bool,
    /// Whether writes are mirrored to the partner.
    pub(crate) is_mirrored: bool,
    /// Whether writes are acknowledged in the cache, rather than on the devices.
    pub(crate) is_caching: bool,
    /// Whether the caches store values.
    pub(crate) keeps_content: bool,
}

impl Pair {
    /// Creates adapters for a number of devices, without paths.
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

    /// Adds the next path, for the part `part`. Its cache begins with the dirty data of the volume's preconditioning.
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
            stripe_units: (spec.stripe_bytes / UNIT_BYTES).max(1),
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
        });
    }

    /// The number of a path's group.
    pub(crate) fn group_of(&self, path: u32) -> usize {
        self.paths[path as usize].optimized
    }

    /// The adapter to which the host sends its next operation on a path.
    pub(crate) fn host_sends_to(&mut self, path: u32) -> usize {
        let can_forward = self.has_host_paths && self.is_mirrored;
        let path = &mut self.paths[path as usize];
        path.to_other = can_forward && !path.to_other;
        if path.to_other { 1 - path.server } else { path.server }
    }

    /// The adapter that serves a path.
    pub(crate) fn serves(&self, path: u32) -> usize {
        self.paths[path as usize].server
    }

    /// The cache for the units of a path.
    pub(crate) fn cache(&mut self, path: u32) -> Option<&mut Cache> {
        let group = self.group_of(path);
        self.groups[group].cache.as_mut()
    }

    /// Prefetches the state for a host's write that will soon be resumed.
    pub(crate) fn prefetch(&self, group: usize, write: &Request) {
        let path = self.paths.partition_point(|path| path.part < write.part);
        if let Some(cache) = &self.groups[group].cache {
            cache.prefetch(path as u32, &write.units());
        }
    }

    /// Makes the caches store content from now on. They begin empty: earlier dirty units have no
    /// known addresses.
    pub(crate) fn keep_content(&mut self) {
        self.keeps_content = true;
        self.groups
            .iter_mut()
            .filter_map(|group| group.cache.as_mut())
            .for_each(Cache::keep_values);
    }

    /// Returns the time at which an operation that is sent now, on behalf of a path, reaches a
    /// device. (A read occupies the drawer's port at that time too: bandwidth is granted with the
    /// command.)
    pub(crate) fn device(&mut self, now_ns: u64, path: u32, device: PartId, op: &Op) -> u64 {
        let at = self.serves(path);
        let sent_ns = self.adapters[at].processor.take(now_ns, self.costs.device);
        let drawer = device.index() % self.drawers.len();
        let port = &mut self.drawers[drawer][usize::from(op.kind == OpKind::Read)];
        let carried_ns = port.take(now_ns, self.costs.drawer.ticks(op.len_bytes));
        sent_ns.max(carried_ns)
    }

    /// Returns the time at which the parity engine has computed the parity of `bytes` of a stripe's
    /// data.
    pub(crate) fn parity(&mut self, now_ns: u64, path: u32, bytes: u32, with_q: bool) -> u64 {
        let at = self.serves(path);
        let q = if with_q { self.costs.gf.ticks(bytes) } else { 0 };
        self.adapters[at].parity.take(now_ns, self.costs.xor.ticks(bytes) + q)
    }

    /// Busy times of the busiest adapter and of the busiest drawer port, which limit the throughput if arrays are
    /// spread unevenly.
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

    /// Processes a power failure: all requests are gone; the caches keep their content.
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

    /// Retries data that devices refused.
    pub(crate) fn retry(&mut self) {
        self.groups.iter_mut().filter_map(|group| group.cache.as_mut()).for_each(Cache::retry);
        self.paths.iter_mut().for_each(|path| path.refuses = false);
    }

    /// Checks the counters of all caches.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.groups.iter().filter_map(|group| group.cache.as_ref()).try_for_each(Cache::check)
    }

    /// Calls `take` with the fill of the caches: dirty units up to the limit at which hosts wait, and clean units.
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

    /// Units that hosts may write to a group's cache before they must wait for a destage.
    pub(crate) fn space_units(&self, group: usize) -> u64 {
        let dirty_units = self.groups[group].cache.as_ref().map_or(0, Cache::dirty_units);
        (self.destage_units + self.ramp_units).saturating_sub(dirty_units)
    }

    /// Chooses the next units to destage from a group's cache, if it has enough: path, units and token.
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
    /// Whether the adapter is lost.
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
