//! Memory as a block device (RAM disk, NVDIMM): the submitter's core does the work, so threads
//! scale and queue depth does not; the memory bus of the socket is the ceiling.

use crate::core::Core;
use crate::machine::Failure;
use crate::request::State;
use crate::server::{Server, transfer_ps};
use crate::spec::{Host, Memory};
use crate::usage::Resource;
use iodyno_units::OpKind;

/// See the module.
#[derive(Debug)]
pub(crate) struct MemoryDevice {
    capacity_bytes: u64,
    io_ps: u64,
    read_bytes_per_s: f64,
    write_bytes_per_s: f64,
    /// Bus bytes a second over how often each byte crosses it.
    read_bus_bytes_per_s: f64,
    write_bus_bytes_per_s: f64,
    flush_ps: u64,
    bus: Server,
}

impl MemoryDevice {
    pub(crate) fn new(spec: &Memory, host: &Host) -> Self {
        let share = if host.memory_balanced { 1.0 } else { host.unbalanced_share };
        // Interleaved over all sockets, as a RAM disk's pages are.
        let bus = host.memory_bytes_per_s * f64::from(host.sockets) * share;
        Self {
            capacity_bytes: spec.capacity_bytes,
            io_ps: spec.io_ns * 1000,
            read_bytes_per_s: spec.read_bytes_per_s,
            write_bytes_per_s: spec.write_bytes_per_s,
            read_bus_bytes_per_s: bus / spec.read_passes,
            write_bus_bytes_per_s: bus / spec.write_passes,
            flush_ps: spec.flush_ns * 1000,
            bus: Server::default(),
        }
    }

    /// The submitter carries it out, beginning at `issued_ns` on core `on`.
    pub(crate) fn submit(&mut self, core: &mut Core, slot: u32, issued_ns: u64, on: usize) {
        let request = &mut core.slab[slot];
        let len = u64::from(request.len);
        let beyond = request.at + len > self.capacity_bytes && request.kind != OpKind::Flush;
        request.failed = beyond;
        let (copy_ps, bus_ps) = match request.kind {
            _ if beyond => (0, 0),
            OpKind::Read => (
                transfer_ps(len, self.read_bytes_per_s),
                transfer_ps(len, self.read_bus_bytes_per_s),
            ),
            OpKind::Write | OpKind::WriteZeroes => (
                transfer_ps(len, self.write_bytes_per_s),
                transfer_ps(len, self.write_bus_bytes_per_s),
            ),
            OpKind::Flush => (self.flush_ps, 0),
            OpKind::Trim => (0, 0),
        };
        // The bus is asked when the copy begins: cores take turns there in the order of submission.
        let bus_ns = self.bus.take(issued_ns, bus_ps);
        let copied_ns = core.cores[on].take(issued_ns, self.io_ps + copy_ps);
        let waited_ns = bus_ns.saturating_sub(copied_ns);
        let end_ns = core.cores[on].take(copied_ns, waited_ns * 1000);
        core.at(end_ns, slot, State::Done);
    }

    /// The submitter is through.
    pub(crate) fn done(core: &mut Core, slot: u32) {
        let failed = core.slab[slot].failed;
        core.complete(slot, failed.then_some(Failure::OutOfRange));
    }

    /// The power fails.
    pub(crate) fn power_cut(&mut self) {
        self.bus = Server::default();
    }

    /// Its resources, since the start.
    pub(crate) fn resources(&self, volume: u32, now_ns: u64) -> Vec<Resource> {
        let busy_ns = self.bus.busy_ns(now_ns);
        vec![Resource { name: "memory bus", volume: Some(volume), count: 1, busy_ns }]
    }
}
