//! The hypervisor's thread that serves the requests of a virtual disk one after the other (`spec::IoThread`).

use super::CloudVolume;
use crate::core::Core;
use crate::request::{List, State};
use crate::server::{Server, ticks, transfer_ticks};
use crate::spec::IoThread as Times;
use iodyno_units::OpKind;

/// State of the hypervisor's thread: the requests that wait for execution, and the executed requests of the current
/// batch, which complete together.
#[derive(Clone, Debug)]
pub(super) struct IoThread {
    times: Times,
    pub(super) server: Server,
    is_awake: bool,
    waiting: List,
    carried_out: List,
}

impl IoThread {
    pub(super) fn new(times: &Times) -> Self {
        let (server, lists) = (Server::default(), [List::EMPTY; 2]);
        let [waiting, carried_out] = lists;
        Self { times: times.clone(), server, is_awake: false, waiting, carried_out }
    }

    pub(super) fn power_off(&mut self, now_ns: u64) {
        self.server.reset(now_ns);
        (self.is_awake, self.waiting, self.carried_out) = (false, List::EMPTY, List::EMPTY);
    }
}

impl CloudVolume {
    /// Hands a request to the hypervisor's thread. An idle thread wakes after the request's latency. A flush wakes it
    /// at once, and the thread itself then spends the latency.
    pub(super) fn hand_over(&mut self, core: &mut Core, slot: u32) {
        let latency_ns = match core.slab[slot].kind {
            OpKind::Flush => 0,
            kind => self.latency_ns(kind),
        };
        let Some(thread) = &mut self.io_thread else { return };
        thread.waiting.push(&mut core.slab, slot);
        if !thread.is_awake {
            thread.is_awake = true;
            core.at(core.now.saturating_add(latency_ns), slot, State::Sensed);
        }
    }

    /// Makes the thread carry out the next waiting request or, if none waits, complete all requests that it has
    /// carried out.
    pub(super) fn carry_out_next(&mut self, core: &mut Core) {
        let Some(thread) = &mut self.io_thread else { return };
        let Some(slot) = thread.waiting.pop(&core.slab) else {
            thread.is_awake = false;
            let all = std::mem::take(&mut thread.carried_out);
            self.announce(core, all);
            return;
        };
        let (kind, bytes) = (core.slab[slot].kind, u64::from(core.slab[slot].len));
        let moved_ticks = |rate| transfer_ticks(bytes, rate);
        let times = &thread.times;
        let command_ns = match kind {
            OpKind::Write => times.write_command_ns.unwrap_or(times.command_ns),
            _ => times.command_ns,
        };
        let own_ticks = match kind {
            OpKind::Read => moved_ticks(times.read_bytes_per_s),
            OpKind::Write => moved_ticks(times.write_bytes_per_s),
            OpKind::Flush => ticks(self.latency_ns(kind)),
            OpKind::Trim | OpKind::WriteZeroes => 0,
        };
        let Some(thread) = &mut self.io_thread else { return };
        let of_network_ticks = match kind {
            OpKind::Read | OpKind::Write => moved_ticks(self.spec.bytes_per_s),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes => 0,
        };
        let cost_ticks = ticks(command_ns) + own_ticks + of_network_ticks;
        let end_ns = thread.server.take(core.now, cost_ticks);
        let since_ns = std::mem::replace(&mut core.slab[slot].entered_ns, end_ns);
        let now_ns = core.now;
        core.at(end_ns, slot, State::Transferred);
        if let Some(phases) = self.phases_of(kind) {
            phases.ns[0] += now_ns - since_ns;
            phases.ns[1] += end_ns - now_ns;
        }
    }

    /// Processes the end of the thread's work on a request, which completes later, together with the others of its
    /// batch.
    pub(super) fn carried_out(&mut self, core: &mut Core, slot: u32) {
        let Some(thread) = &mut self.io_thread else { return };
        thread.carried_out.push(&mut core.slab, slot);
        self.carry_out_next(core);
    }

    fn announce(&mut self, core: &mut Core, mut all: List) {
        while let Some(slot) = all.pop(&core.slab) {
            let request = &core.slab[slot];
            let (kind, waited_ns) = (request.kind, core.now - request.entered_ns);
            if let Some(phases) = self.phases_of(kind) {
                phases.ns[2] += waited_ns;
                phases.count += 1;
            }
            self.end(core, slot);
        }
    }
}
