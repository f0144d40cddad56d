//! Usage of adapters: how long each was busy, and how long a path's operations spent in each phase.

use super::AdapterPath;
use crate::core::Core;
use crate::usage::{self, Of, Resource};
use iodyno_units::OpKind;

/// Phases of an operation on an adapter path, each defined by what the operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for a free command slot of the adapter.
    Commands,
    /// Waits for the adapter's processor.
    Processor,
    /// Waits for the transfer of a write's data from the host, and for space in the cache.
    FromHost,
    /// Waits for the array or device to complete the operation.
    Devices,
    /// Waits for the transfer of a read's data to the host, or for the mirroring of a write; then for the adapter's
    /// latency.
    Answer,
}

const NAMES: [&str; 5] = [
    "waits for a command",
    "adapter's processor",
    "data from host, wait for cache space",
    "array and devices",
    "data to host, mirroring to partner",
];

/// Total time of operations in each phase, in ns, and number of operations, separately for reads and writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Phases {
    of: [[u64; 5]; 2],
    operations: [u64; 2],
}

impl Phases {
    /// Adds the duration of a request's phase, which ends now.
    pub(super) fn end(&mut self, core: &mut Core, slot: u32, phase: Phase) {
        let now_ns = core.now;
        let request = &mut core.slab[slot];
        let passed_ns = now_ns - std::mem::replace(&mut request.entered_ns, now_ns);
        let kind = match request.kind {
            OpKind::Read => 0,
            OpKind::Write => 1,
            _ => return,
        };
        self.of[kind][phase as usize] += passed_ns;
        self.operations[kind] += u64::from(phase == Phase::Answer);
    }
}

impl AdapterPath {
    /// Returns the resources of all adapters with their busy time since the start. The result is the
    /// same for every path.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        let Some(pair) = &core.adapters else { return Vec::new() };
        let resource = |(name, busy_ns)| Resource {
            name,
            part: Some(self.part),
            count: 1,
            held: false,
            busy_ns,
        };
        pair.busy(core.now).into_iter().map(resource).collect()
    }

    /// Returns the time that the path's operations have spent in each phase since the start.
    pub(crate) fn phases(&self) -> Vec<usage::Phase> {
        let phase = |kind: usize, of| {
            let count = self.phases.operations[kind];
            let times = NAMES.iter().zip(self.phases.of[kind]);
            times.map(move |(name, total_ns)| usage::Phase { name, of, total_ns, count })
        };
        phase(0, Of::Read).chain(phase(1, Of::Write)).collect()
    }
}
