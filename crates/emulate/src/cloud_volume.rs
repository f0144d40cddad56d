//! A cloud provider's volume behind a network. Only the volume's latency and bandwidth are known. Each I/O takes a
//! partly random latency, and occupies the network during its data transfer. The volume's limits (`limit`) cap its
//! rates.
//!
//! The latency is a constant plus an exponentially distributed part, so it has a lower bound and a long tail. The
//! provider replicates writes before it acknowledges them, so a power cut of the instance loses no acknowledged
//! write.
//!
//! If the volume has a hypervisor thread (`io_thread`), this thread serves its requests one at a time.

mod io_thread;

use crate::content_event::{ContentEvent, UNIT_BYTES};
use crate::core::Core;
use crate::part_id::PartId;
use crate::request::{List, State};
use crate::server::{Server, transfer_ticks};
use crate::spec::CloudVolume as Spec;
use crate::usage::{Of, Phase, Resource};
use io_thread::IoThread;
use iodyno_units::rng::{Generator, stream, unit_open_closed};
use iodyno_units::{IoError, OpKind};
use std::collections::BTreeMap;

/// Total time in each phase, and number of operations, of either reads or writes.
#[derive(Clone, Copy, Debug, Default)]
struct Phases {
    /// Time per phase, ns, in the order of [`PHASES`], or of [`PHASES_OF_A_THREAD`].
    ns: [u64; 3],
    count: u64,
}

const PHASES: [&str; 3] = ["waits in the queue", "latency of the provider's storage", "network"];
const PHASES_OF_A_THREAD: [&str; 3] =
    ["waits for the hypervisor's thread", "hypervisor's thread", "waits for the rest of its batch"];

/// A cloud volume as a component of the machine.
#[derive(Clone, Debug)]
pub(crate) struct CloudVolume {
    part: PartId,
    spec: Spec,
    /// The two directions of the network: to the host, and to the volume.
    network: [Server; 2],
    io_thread: Option<IoThread>,
    /// Number of commands that the volume has accepted and not yet completed.
    accepted: u32,
    waiting: List,
    latencies: Generator,
    /// Phase times of reads, then of writes.
    phases: [Phases; 2],
    /// Units written since content storage was turned on, each with the token of its last write; `None` unless it is
    /// on.
    content: Option<BTreeMap<u64, u64>>,
}

impl CloudVolume {
    pub(crate) fn new(spec: &Spec, seed: u64, part: PartId) -> Self {
        Self {
            part,
            spec: spec.clone(),
            network: [Server::default(); 2],
            io_thread: spec.io_thread.as_ref().map(IoThread::new),
            accepted: 0,
            waiting: List::EMPTY,
            latencies: stream(seed, "volume latencies", u64::from(part.0)),
            phases: [Phases::default(); 2],
            content: None,
        }
    }

    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        match core.slab[slot].state {
            State::Issued => self.arrive(core, slot),
            State::Sensed if self.io_thread.is_some() => self.carry_out_next(core),
            State::Transferred if self.io_thread.is_some() => self.carried_out(core, slot),
            // The data of a read is ready to be sent.
            State::Sensed => {
                let end_ns = self.send(core, slot, 0);
                core.at(end_ns, slot, State::Transferred);
            }
            State::Transferred => self.end(core, slot),
            State::Done => self.done(core, slot),
            state => unreachable!("unexpected event of a cloud volume in state {state:?}"),
        }
    }

    /// Accepts a request from a host or another component, or queues it if the volume's command queue is full.
    fn arrive(&mut self, core: &mut Core, slot: u32) {
        let now_ns = core.now;
        let request = &mut core.slab[slot];
        let end = request.at + u64::from(request.len);
        if request.kind != OpKind::Flush && end > self.spec.capacity_bytes {
            core.complete(slot, Some(IoError::OutOfRange));
            return;
        }
        (request.state, request.entered_ns) = (State::Waiting, now_ns);
        if self.accepted < self.spec.queue_max {
            self.accept(core, slot);
        } else {
            self.waiting.push(&mut core.slab, slot);
        }
    }

    /// Starts a request: a read takes its latency before the data is sent, a write sends its data first.
    fn accept(&mut self, core: &mut Core, slot: u32) {
        self.accepted += 1;
        if self.io_thread.is_some() {
            self.hand_over(core, slot);
            return;
        }
        let kind = core.slab[slot].kind;
        let waited_ns = core.now - core.slab[slot].entered_ns;
        let latency_ns = self.latency_ns(kind);
        if let Some(phases) = self.phases_of(kind) {
            phases.ns[0] += waited_ns;
            phases.ns[1] += latency_ns;
            phases.count += 1;
        }
        let (sent_ns, state) = match kind {
            OpKind::Read => (core.now, State::Sensed),
            OpKind::Write => (self.send(core, slot, 1), State::Transferred),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes => (core.now, State::Transferred),
        };
        core.at(sent_ns.saturating_add(latency_ns), slot, state);
    }

    /// Ends a request, and accepts the first waiting one.
    fn end(&mut self, core: &mut Core, slot: u32) {
        self.accepted -= 1;
        let end_ns = core.notified_ns(core.now, slot);
        core.at(end_ns, slot, State::Done);
        if let Some(next) = self.waiting.pop(&core.slab) {
            self.accept(core, next);
        }
    }

    fn phases_of(&mut self, kind: OpKind) -> Option<&mut Phases> {
        match kind {
            OpKind::Read => Some(&mut self.phases[0]),
            OpKind::Write => Some(&mut self.phases[1]),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes => None,
        }
    }

    /// Draws an operation's latency: the constant part plus an exponentially distributed one.
    fn latency_ns(&mut self, kind: OpKind) -> u64 {
        let mean_ns = match kind {
            OpKind::Read => self.spec.read_ns,
            OpKind::Write | OpKind::Trim | OpKind::WriteZeroes => self.spec.write_ns,
            OpKind::Flush => self.spec.flush_ns,
        };
        let share = self.spec.varying_share;
        let varying = -libm::log(unit_open_closed(&mut self.latencies));
        libm::round(mean_ns as f64 * (1.0 - share + share * varying)) as u64
    }

    /// Occupies one direction of the network for a request's data. Returns the end of the transfer, ns.
    fn send(&mut self, core: &Core, slot: u32, direction: usize) -> u64 {
        let request = &core.slab[slot];
        let cost_ticks = transfer_ticks(request.len.into(), self.spec.bytes_per_s);
        let end_ns = self.network[direction].take(core.now, cost_ticks);
        if let Some(phases) = self.phases_of(request.kind) {
            phases.ns[2] += end_ns - core.now;
        }
        end_ns
    }

    /// Completes a request, and updates the stored content.
    fn done(&mut self, core: &mut Core, slot: u32) {
        if let Some(content) = &mut self.content {
            let request = &core.slab[slot];
            let (from, to) = (request.at, request.at + u64::from(request.len));
            let (part, token) = (self.part, request.token);
            match request.kind {
                OpKind::Write => {
                    for unit in request.units() {
                        let token = core.value(slot, unit);
                        content.insert(unit, token);
                        core.tell(ContentEvent::Accepted { part, unit, token, kept: true });
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
        core.complete(slot, None);
    }

    /// Stores the content of writes from now on.
    pub(crate) fn keep_content(&mut self) {
        self.content.get_or_insert_default();
    }

    /// Returns the token that a read of a 4 KiB unit would return; `None` if the unit has not been written since
    /// content storage was turned on.
    pub(crate) fn unit_value(&self, unit: u64) -> Option<u64> {
        self.content.as_ref()?.get(&unit).copied()
    }

    /// Processes a power failure: all requests are gone, all acknowledged data stays.
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        self.accepted = 0;
        self.waiting = List::EMPTY;
        for direction in &mut self.network {
            direction.reset(core.now);
        }
        if let Some(thread) = &mut self.io_thread {
            thread.power_off(core.now);
        }
    }

    /// The volume's resources with their busy time since the start.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        let networks = [
            ("network to the host", &self.network[0]),
            ("network to the volume", &self.network[1]),
        ];
        let thread = self.io_thread.iter().map(|thread| ("hypervisor's thread", &thread.server));
        let of = |(name, server): (_, &Server)| {
            let (part, busy_ns) = (Some(self.part), server.busy_ns(core.now));
            Resource { name, part, count: 1, held: false, busy_ns }
        };
        let networks = networks.into_iter().filter(|_| self.io_thread.is_none());
        networks.chain(thread).map(of).collect()
    }

    /// Total time that the volume's reads and writes have spent in each phase since the start.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let names = if self.io_thread.is_some() { PHASES_OF_A_THREAD } else { PHASES };
        let of_kind = |(of, phases): (Of, Phases)| {
            let named = names.into_iter().zip(phases.ns);
            named.map(move |(name, total_ns)| Phase { name, of, total_ns, count: phases.count })
        };
        [Of::Read, Of::Write].into_iter().zip(self.phases).flat_map(of_kind).collect()
    }
}
