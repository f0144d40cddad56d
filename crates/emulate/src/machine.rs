//! The machine: an emulated system of volumes that accepts operations and returns completions in virtual time.
//!
//! The caller advances time: `next_completion(until)` runs events up to `until`. A simulation passes the time of the
//! next arrival, a live server the current time. The events are the same.

mod apply_fault;
mod branches;
mod content;
mod fill;
mod invariants;
mod medium;
mod readings;
#[cfg(test)]
mod tests;

use crate::adapter_path;
use crate::adapters::Pair;
use crate::bug_injection::InjectedBug;
use crate::completion::Completion;
use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::fault::Fault;
use crate::fault_state::FaultStates;
use crate::flash::Population;
use crate::host_work::HostWork;
use crate::part::Part;
use crate::part_id::PartId;
use crate::prefetch::Hot;
use crate::quota::Quota;
use crate::request::{NIL, Origin, Work};
use crate::server::ticks;
use crate::spec::System;
use crate::zone_table::ZoneAction;
use crate::zones::Zone;
use iodyno_units::{IoError, Op, OpKind};
use std::collections::BTreeMap;

/// A running emulated system. A clone behaves exactly as the original.
#[derive(Clone, Debug)]
pub struct Machine {
    core: Core,
    parts: Vec<Part>,
    /// The load generator's CPU cost of an I/O in ticks.
    generator_ticks: u64,
    host_work: HostWork,
    /// For each socket, the number of workers placed on it so far.
    on_socket: Vec<u32>,
    system: System,
    placed: bool,
    events: u64,
    hash: u64,
    /// Pending faults, by time and order of injection.
    faults: BTreeMap<(u64, u64), Fault>,
    faults_made: u64,
    seed: u64,
    represent: Option<u32>,
    /// Time of the next pending fault; `u64::MAX`: none.
    fault_ns: u64,
    /// Faults in effect; `None` if there are none.
    fault_states: Option<Box<FaultStates>>,
    /// For each component, the addresses to prefetch. Empty in small machines. See [`Self::look_ahead`].
    hot: Vec<Hot>,
}

/// Minimum number of components of a machine that prefetches. With fewer, their state fits into the first-level cache.
const LOOK_AHEAD_PARTS: usize = 16;
/// Log2 of the number of events between updates of the prefetch addresses. A clone needs the update, because its
/// addresses are those of the original.
const ADDRESSES_LOG2: u32 = 16;

impl Machine {
    /// Builds the machine of a system. `seed` determines all random choices.
    ///
    /// # Errors
    /// The violated rule, if the system can't be built.
    pub fn new(system: &System, seed: u64) -> Result<Self, String> {
        Self::build(system, seed, None)
    }

    /// Same as [`Self::new`], but with this sampling ratio: the map of every flash device contains one of every
    /// `represent` logical pages. [`Self::new`] derives the ratio from the size and number of the devices. The ratio 1
    /// is exact, and needs up to 1 GiB of memory for a device of 400 GB.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn represented(system: &System, seed: u64, represent: u32) -> Result<Self, String> {
        Self::build(system, seed, Some(represent))
    }

    fn build(system: &System, seed: u64, represent: Option<u32>) -> Result<Self, String> {
        system.check_trees()?;
        let host = &system.host;
        let mut core = Core::new(host, seed);
        let devices = system.devices().count() as u32;
        core.devices = devices as usize;
        core.adapters = system.adapters.as_ref().map(|a| Box::new(Pair::new(a, devices, seed)));
        core.shared = (!system.limits.is_empty()).then(|| Box::new(Quota::shared(&system.limits)));
        let mut population = Population::new(system, seed, represent);
        let states = system.states();
        let mut parts = Vec::new();
        for (id, (spec, before)) in (0..).map(PartId).zip(system.parts.iter().zip(&states)) {
            let part = Part::new(id, spec, before, host, seed, &mut population, &mut core);
            parts.push(part?);
        }
        Ok(Self {
            core,
            parts,
            generator_ticks: ticks(host.generator_ns),
            host_work: HostWork::new(system),
            on_socket: vec![0; host.sockets as usize],
            system: system.clone(),
            placed: false,
            events: 0,
            hash: 0xCBF2_9CE4_8422_2325,
            faults: BTreeMap::new(),
            faults_made: 0,
            seed,
            represent,
            fault_ns: u64::MAX,
            fault_states: None,
            hot: Vec::new(),
        })
    }

    /// Number of volumes that the machine's host sees.
    pub fn volumes(&self) -> u32 {
        self.system.volumes.len() as u32
    }

    /// Number of workers added so far. A worker is a thread of the emulated load generator.
    pub fn workers(&self) -> u32 {
        self.core.worker_cores.len() as u32
    }

    /// Size of a volume's address space, bytes.
    pub fn capacity_bytes(&self, volume: u32) -> u64 {
        self.system.capacity_bytes(volume)
    }

    /// Returns the specification from which the machine was built.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Returns the current virtual time, ns.
    pub fn now_ns(&self) -> u64 {
        self.core.now
    }

    /// Number of events processed since the machine was built.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns a hash of all events so far. It is equal for two runs with the same seed and operations.
    pub fn event_hash(&self) -> u64 {
        self.hash
    }

    /// Adds a worker (a thread of the load generator) that sends operations to `volume`, and returns the worker's
    /// index. Workers are assigned to cores in turn: to those of the volume's socket, or of all sockets if
    /// `Host::workers_near` is false. Must be called before the first submission.
    pub fn add_worker(&mut self, volume: u32) -> u32 {
        assert!(!self.placed, "workers must be added before the first submission");
        let host = &self.system.host;
        let near = self.system.socket(volume);
        let place = if host.workers_near { near } else { self.core.worker_cores.len() as u32 };
        let socket = place % host.sockets;
        let count = &mut self.on_socket[socket as usize];
        let core = (socket * host.cores_per_socket + *count % host.cores_per_socket) as usize;
        *count += 1;
        self.core.worker_cores.push(core);
        self.core.worker_cores.len() as u32 - 1
    }

    /// Assigns cores to the driver threads, after those of the workers. On a socket with more threads
    /// than cores, threads share cores and poll less often.
    fn place(&mut self) {
        self.placed = true;
        let host = &self.system.host;
        let mut next = self.on_socket.clone();
        let mut threads_on = self.on_socket.clone();
        for thread in &self.core.threads {
            threads_on[(thread.socket % host.sockets) as usize] += 1;
        }
        for thread in &mut self.core.threads {
            let socket = thread.socket % host.sockets;
            let count = &mut next[socket as usize];
            thread.core =
                (socket * host.cores_per_socket + *count % host.cores_per_socket) as usize;
            *count += 1;
            if threads_on[socket as usize] > host.cores_per_socket {
                thread.poll_ns = thread.poll_crowded_ns;
            }
        }
    }

    /// Submits an operation at `at_ns` (now, if that is in the past). Returns the time at which the worker's core has
    /// submitted the operation. Latency counts from this time; the core is busy until then.
    #[inline]
    pub fn submit(&mut self, at_ns: u64, worker: u32, volume: u32, op: &Op, token: u64) -> u64 {
        self.hand_over(at_ns, worker, volume, op, token, Work::Sense)
    }

    /// Submits a command to a zone of a zoned device; see [`Self::submit`].
    ///
    /// # Panics
    /// If the volume is not a zoned device with such a zone.
    pub fn manage_zone(
        &mut self,
        at_ns: u64,
        worker: u32,
        volume: u32,
        (zone, action): (usize, ZoneAction),
        token: u64,
    ) -> u64 {
        let zones = self.zones(volume).expect("a zoned device");
        let size = |next: &Zone| next.start_bytes - zones[0].start_bytes;
        let len_bytes = zones.get(1).map_or(self.capacity_bytes(volume), size) as u32;
        let offset_bytes = zones[zone].start_bytes;
        let op = Op { offset_bytes, len_bytes, kind: OpKind::Trim, fua: false };
        self.hand_over(at_ns, worker, volume, &op, token, Work::Manage(action))
    }

    #[inline(always)]
    fn hand_over(
        &mut self,
        at_ns: u64,
        worker: u32,
        volume: u32,
        op: &Op,
        token: u64,
        work: Work,
    ) -> u64 {
        if !self.placed {
            self.place();
        }
        let on = self.core.worker_cores[worker as usize];
        let at_ns = at_ns.max(self.core.now);
        let root = self.system.volumes[volume as usize].root;
        let issue_ticks = self.generator_ticks + self.host_work.ticks(&self.system, root, op);
        let issued_ns = self.core.cores[on].take(at_ns, issue_ticks);
        let slot = self.core.request(root, Origin::Host { volume, worker }, op, token);
        self.core.slab[slot].work = work;
        self.core.submitted += 1;
        if let Some(fault_states) = &mut self.fault_states {
            fault_states.handed(slot, issued_ns);
        }
        self.parts[root.index()].begin(&mut self.core, slot, issued_ns);
        issued_ns
    }

    /// Returns the next completion up to `until_ns`. Without one, advances virtual time to `until_ns` (`u64::MAX`: to
    /// the last event).
    // Not inlined: its loop contains the whole path of an event, which should exist only once.
    #[inline(never)]
    pub fn next_completion(&mut self, until_ns: u64) -> Option<Completion> {
        loop {
            if let Some(done) = self.core.collect() {
                return Some(done);
            }
            if !self.advance(until_ns) {
                return None;
            }
        }
    }

    /// Returns a completion that is already available, without running events.
    pub fn completed(&mut self) -> Option<Completion> {
        self.core.collect()
    }

    /// Runs the next event or fault that is due by `until_ns`, and returns true. If none is due, returns false and
    /// advances virtual time to `until_ns` (`u64::MAX`: does not advance it).
    pub fn step(&mut self, until_ns: u64) -> bool {
        self.advance(until_ns)
    }

    /// Body of [`Self::step`], inlined there and in [`Self::next_completion`].
    #[inline(always)]
    fn advance(&mut self, until_ns: u64) -> bool {
        let Some((time_ns, slot)) = self.core.queue.pop(until_ns.min(self.fault_ns)) else {
            if self.fault_ns != u64::MAX && self.fault_ns <= until_ns {
                self.apply_next_fault();
                return true;
            }
            if until_ns != u64::MAX {
                self.core.now = self.core.now.max(until_ns);
            }
            return false;
        };
        #[cfg(debug_assertions)]
        if self.events.is_multiple_of(1 << 18) {
            // Checks one part, or the adapters, at a time: checking all of a large system takes longer than its events.
            let count = self.parts.len() + usize::from(self.core.adapters.is_some());
            let turn = (self.events >> 18) as usize % count;
            let of_turn = self.parts.get(turn).map_or_else(|| self.check_adapters(), Part::check);
            assert_eq!(self.check_core().and(of_turn), Ok(()), "at event {}", self.events);
        }
        if self.parts.len() >= LOOK_AHEAD_PARTS {
            self.look_ahead();
        }
        self.core.now = time_ns;
        self.events += 1;
        self.hash = (self.hash ^ time_ns ^ (u64::from(slot) << 40))
            .wrapping_mul(0x0000_0100_0000_01B3)
            .rotate_left(29);
        let is_handled = self.fault_states.is_some() && self.meets_faults(slot);
        if !is_handled {
            let part = self.core.slab[slot].part;
            self.parts[part.index()].event(&mut self.core, slot);
        }
        if !self.core.ended.is_empty() {
            self.end_children();
        }
        true
    }

    /// Prefetches the state that the next event needs. In a machine of many components the state is not in the
    /// first-level cache, and the processor can't predict which component is next.
    #[inline(always)]
    fn look_ahead(&mut self) {
        if self.events.is_multiple_of(1 << ADDRESSES_LOG2) {
            self.take_addresses();
        }
        if let Some(slot) = self.core.queue.probably_next() {
            let request = &self.core.slab[slot];
            self.hot[request.part.index()].prefetch(request.die);
            // Most events of devices end with one in the part above.
            let waits = if let Origin::Parent(parent) = request.origin { parent } else { slot };
            self.core.slab.prefetch(if waits == NIL { slot } else { waits });
        }
    }

    /// Clones the machine. The clone prefetches its own state into the CPU cache. After a plain `clone`, it prefetches
    /// the state of the original for a while, which is slower.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut fork = self.clone();
        if !fork.hot.is_empty() {
            fork.take_addresses();
        }
        fork
    }

    #[cold]
    fn take_addresses(&mut self) {
        self.hot = self.parts.iter().map(Part::hot).collect();
    }

    /// Notifies the parents of all child requests that ended in this event, and in turn their parents.
    #[inline(never)]
    fn end_children(&mut self) {
        while let Some((child, failure)) = self.core.ended.pop_front() {
            let Origin::Parent(parent) = self.core.slab[child].origin else {
                unreachable!("what ended has a parent")
            };
            if self.core.values.is_some() {
                self.sample(child, failure);
            }
            if parent != NIL {
                let part = self.core.slab[parent].part;
                self.parts[part.index()].child_completed(&mut self.core, parent, child, failure);
            }
            if self.core.values.is_some() {
                self.core.end_values(child, failure.is_some());
            }
            self.core.slab.remove(child);
        }
    }

    /// Stores the values that a completed child read returns: the present content of the component that it read,
    /// unless that component has already stored them.
    #[cold]
    fn sample(&mut self, child: u32, failure: Option<IoError>) {
        let request = &self.core.slab[child];
        let Some(values) = &mut self.core.values else { return };
        if request.kind != OpKind::Read || failure.is_some() || values.of_mut(child).is_some() {
            return;
        }
        let end = (request.at + u64::from(request.len)).div_ceil(UNIT_BYTES);
        let part = &self.parts[request.part.index()];
        let (id, units) = (request.part, request.at / UNIT_BYTES..end);
        let value = |unit| part.unit_value(unit, &self.parts, &self.core);
        let held: Vec<_> = units.map(|unit| (unit, value(unit))).collect();
        let read = held.into_iter().map(|(unit, held)| self.core.fetch(id, unit, held)).collect();
        if let Some(values) = &mut self.core.values {
            values.set(child, read);
        }
    }

    /// Returns the time of the next event or fault, ns; the current time if a completion is already available; `None`
    /// if nothing is pending.
    pub fn next_event(&mut self) -> Option<u64> {
        if !self.core.done.is_empty() {
            return Some(self.core.now);
        }
        let fault_ns = (self.fault_ns != u64::MAX).then_some(self.fault_ns);
        match (self.core.queue.next_time_ns(), fault_ns) {
            (Some(event), Some(fault)) => Some(event.min(fault)),
            (event, fault) => event.or(fault),
        }
    }

    /// Injects a bug into every flash device from now on, to check that tests detect it.
    #[doc(hidden)]
    pub fn injected_bug(&mut self, injected_bug: InjectedBug) {
        for part in &mut self.parts {
            part.inject_bug(injected_bug);
        }
    }

    /// Turns off write caching in the adapters and destages their dirty data, as an orderly shutdown does.
    pub fn drain_caches(&mut self) {
        adapter_path::drain_caches(&mut self.core);
    }

    /// Starts a scrub of a volume's array, at the array's rebuild rate: reads all stripes, rewrites unreadable data,
    /// and counts rows whose parity or copies contradict the data. No-op without an array.
    pub fn scrub(&mut self, volume: u32) {
        if let Some((part, _)) = self.system.array_of(volume) {
            self.parts[part.index()].scrub(&mut self.core);
        }
    }
}
