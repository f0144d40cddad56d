//! Memory as a block device (RAM disk, NVDIMM). The submitter's core does the work, so throughput scales with threads
//! but not with queue depth, up to the bandwidth of the socket's memory bus. An operation ends before its thread
//! submits the next, unless threads queue their operations: then latency grows with depth. Content survives a power
//! cut if the memory has a battery, or if the device saves its content to flash.

use crate::calendar::Calendar;
use crate::content_event::ContentEvent;
use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::part_id::PartId;
use crate::request::State;
use crate::server::{Server, ticks, transfer_ticks, whole_ns};
use crate::spec::{Host, Memory};
use crate::usage::{Of, Phase, Resource};
use iodyno_units::rng::{Generator, stream, unit_open_closed};
use iodyno_units::{IoError, OpKind};
use std::collections::BTreeMap;

/// Time that reads or writes have spent in each phase, ns, and their number.
#[derive(Clone, Copy, Debug, Default)]
struct Phases {
    /// Wait for earlier operations of the same thread, if threads queue them.
    queued_ns: u64,
    software_ns: u64,
    copy_ns: u64,
    bus_ns: u64,
    count: u64,
}

/// A memory device as a component of the machine.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDevice {
    part: PartId,
    capacity_bytes: u64,
    io_ticks: u64,
    read_bytes_per_s: f64,
    write_bytes_per_s: f64,
    /// Bus bandwidth divided by the number of times that each byte crosses the bus in a read.
    read_bus_bytes_per_s: f64,
    /// Bus bandwidth divided by the number of times that each byte crosses the bus in a write.
    write_bus_bytes_per_s: f64,
    flush_ticks: u64,
    varying_share: f64,
    times: Generator,
    /// For each core, the queue of its thread's operations; `None` if the core itself executes them at once.
    queues: Option<Vec<Server>>,
    bus: Calendar,
    protected: bool,
    reads: Phases,
    writes: Phases,
    /// For each unit written since content storage was turned on, the token of its last write; `None` if storage is
    /// off.
    content: Option<BTreeMap<u64, u64>>,
}

impl MemoryDevice {
    pub(crate) fn new(spec: &Memory, host: &Host, seed: u64, part: PartId) -> Self {
        let share = if host.memory_balanced { 1.0 } else { host.unbalanced_share };
        // The bus of all sockets, over which a RAM disk's pages are interleaved.
        let bus = host.memory_bytes_per_s * f64::from(host.sockets) * share;
        let cores = (host.sockets * host.cores_per_socket) as usize;
        Self {
            part,
            capacity_bytes: spec.capacity_bytes,
            io_ticks: ticks(spec.io_ns),
            read_bytes_per_s: spec.read_bytes_per_s,
            write_bytes_per_s: spec.write_bytes_per_s,
            read_bus_bytes_per_s: bus / spec.read_passes,
            write_bus_bytes_per_s: bus / spec.write_passes,
            flush_ticks: ticks(spec.flush_ns),
            varying_share: spec.varying_share,
            times: stream(seed, "memory times", u64::from(part.0)),
            queues: spec.queues.then(|| vec![Server::default(); cores]),
            bus: Calendar::default(),
            protected: spec.protected,
            reads: Phases::default(),
            writes: Phases::default(),
            content: None,
        }
    }

    /// Processes a request's next event: its arrival from another component, or its completion.
    #[inline]
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        match core.slab[slot].state {
            State::Issued => self.submit(core, slot, core.now),
            _ => self.done(core, slot),
        }
    }

    /// Draws the time of an operation whose mean is `mean_ticks`.
    #[inline]
    fn drawn(&mut self, mean_ticks: u64) -> u64 {
        let share = self.varying_share;
        if share == 0.0 {
            return mean_ticks;
        }
        let varying = -libm::log(unit_open_closed(&mut self.times));
        libm::round(mean_ticks as f64 * (1.0 - share + share * varying)) as u64
    }

    /// Executes a request on the submitter's core, or in the queue of its thread, from `issued_ns` on.
    pub(crate) fn submit(&mut self, core: &mut Core, slot: u32, issued_ns: u64) {
        // (The first core does an array's internal work.)
        let on = core.worker_of(slot).map_or(0, |worker| core.worker_cores[worker as usize]);
        let request = &mut core.slab[slot];
        let len = u64::from(request.len);
        let beyond = request.at + len > self.capacity_bytes && request.kind != OpKind::Flush;
        request.failed = beyond;
        let kind = request.kind;
        let (copy_ticks, bus_ticks) = match kind {
            _ if beyond => (0, 0),
            OpKind::Read => (
                transfer_ticks(len, self.read_bytes_per_s),
                transfer_ticks(len, self.read_bus_bytes_per_s),
            ),
            OpKind::Write | OpKind::WriteZeroes => (
                transfer_ticks(len, self.write_bytes_per_s),
                transfer_ticks(len, self.write_bus_bytes_per_s),
            ),
            OpKind::Flush => (self.flush_ticks, 0),
            OpKind::Trim => (0, 0),
        };
        // Without a system call, a flush is only a memory fence.
        let is_fence = kind == OpKind::Flush && self.queues.is_some();
        let own_ticks = self.drawn(if is_fence { copy_ticks } else { self.io_ticks + copy_ticks });
        // The bus is reserved for the time at which the copy begins, which may be in the future: this core
        // may have to make other copies first.
        let bus_ns = self.bus.take(core.now, issued_ns, bus_ticks);
        let server = match &mut self.queues {
            Some(queues) => &mut queues[on],
            None => &mut core.cores[on],
        };
        let copied_ns = server.take(issued_ns, own_ticks);
        let waited_ns = bus_ns.saturating_sub(copied_ns);
        let end_ns = server.take(copied_ns, ticks(waited_ns));
        let phases = match kind {
            OpKind::Read => Some(&mut self.reads),
            OpKind::Write => Some(&mut self.writes),
            _ => None,
        };
        if let Some(phases) = phases {
            let took_ns = copied_ns - issued_ns;
            let queued_ns = match self.queues {
                Some(_) => took_ns.saturating_sub(whole_ns(own_ticks)),
                None => 0,
            };
            let copy_ns = whole_ns(copy_ticks).min(took_ns - queued_ns);
            phases.queued_ns += queued_ns;
            phases.software_ns += took_ns - queued_ns - copy_ns;
            phases.copy_ns += copy_ns;
            phases.bus_ns += waited_ns;
            phases.count += 1;
        }
        core.at(end_ns, slot, State::Done);
    }

    /// Completes a request, and updates the stored content.
    fn done(&mut self, core: &mut Core, slot: u32) {
        let request = &core.slab[slot];
        let failed = request.failed;
        if let Some(content) = &mut self.content
            && !failed
        {
            let (from, to) = (request.at, request.at + u64::from(request.len));
            let (part, token) = (self.part, request.token);
            match request.kind {
                OpKind::Write => {
                    let units = from / UNIT_BYTES..to.div_ceil(UNIT_BYTES);
                    for unit in units {
                        let (token, kept) = (core.value(slot, unit), self.protected);
                        content.insert(unit, token);
                        core.tell(ContentEvent::Accepted { part, unit, token, kept });
                    }
                }
                OpKind::WriteZeroes | OpKind::Trim => {
                    let units = from.div_ceil(UNIT_BYTES)..to / UNIT_BYTES;
                    for unit in units.clone() {
                        content.remove(&unit);
                    }
                    let (unit, count) = (units.start, units.end.saturating_sub(units.start));
                    core.tell(ContentEvent::Dropped { part, unit, count, token, overtaken: false });
                }
                OpKind::Read | OpKind::Flush => {}
            }
        }
        core.complete(slot, failed.then_some(IoError::OutOfRange));
    }

    /// Stores the content of writes from now on.
    pub(crate) fn keep_content(&mut self) {
        self.content.get_or_insert_default();
    }

    /// Returns the token that a read of a 4 KiB unit would return; `None` if the unit is lost, or has not been
    /// written since content storage was turned on.
    pub(crate) fn unit_value(&self, unit: u64) -> Option<u64> {
        self.content.as_ref()?.get(&unit).copied()
    }

    /// Processes a power failure: unprotected memory loses its content.
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        self.bus.reset(core.now);
        for queue in self.queues.iter_mut().flatten() {
            queue.reset(core.now);
        }
        if let Some(content) = &mut self.content
            && !self.protected
        {
            content.clear();
            core.tell(ContentEvent::Emptied { part: self.part });
        }
    }

    /// Returns the memory's resources with their busy time since the start.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        let busy_ns = self.bus.busy_ns(core.now);
        let part = Some(self.part);
        let mut all = vec![Resource { name: "memory bus", part, count: 1, held: false, busy_ns }];
        if let Some(queues) = &self.queues {
            let mut used = core.worker_cores.clone();
            used.sort_unstable();
            used.dedup();
            let busy_ns = used.iter().map(|&on| queues[on].busy_ns(core.now)).sum();
            let count = used.len() as u32;
            all.push(Resource { name: "copying threads", part, count, held: false, busy_ns });
        }
        all
    }

    /// Returns the time that the memory's operations have spent in each phase since the start. An operation is
    /// counted when it begins.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let mut all = Vec::new();
        for (of, p) in [(Of::Read, self.reads), (Of::Write, self.writes)] {
            let phase = |name, total_ns| Phase { name, of, total_ns, count: p.count };
            let (access, queued) = match self.queues {
                Some(_) => ("access to memory", Some("waits for earlier operations of the thread")),
                None => ("software: system call, block layer, driver", None),
            };
            all.extend(queued.map(|name| phase(name, p.queued_ns)));
            all.extend([
                phase(access, p.software_ns),
                phase("copy by the submitter's core", p.copy_ns),
                phase("waits for the memory bus", p.bus_ns),
            ]);
        }
        all
    }
}
