//! Usage of adapters: their busy times, and the time of a path's operations by phase.

use super::AdapterPath;
use crate::core::Core;
use crate::usage::{self, Of, Resource};
use iodyno_units::OpKind;

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A command of the adapter.
    Commands,
    /// The adapter's processor.
    Processor,
    /// A write's data, and space in the cache for them.
    FromHost,
    /// The array and its devices.
    Devices,
    /// A read's data, the partner's copy of a write's, and the way to the driver.
    Answer,
}

const NAMES: [&str; 5] = [
    "waits for a command",
    "adapter's processor",
    "data from host, space in the cache",
    "array and devices",
    "data to host, copy on the partner",
];

/// Time of the operations by phase, ns, and their number: of reads, and of writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Phases {
    of: [[u64; 5]; 2],
    operations: [u64; 2],
}

impl Phases {
    /// An operation ends a phase; the next begins.
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
    /// The resources of the adapters, since the start: those of all paths, which each path gives.
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

    /// The time of its operations by phase, since the start.
    pub(crate) fn phases(&self) -> Vec<usage::Phase> {
        let phase = |kind: usize, of| {
            let count = self.phases.operations[kind];
            let times = NAMES.iter().zip(self.phases.of[kind]);
            times.map(move |(name, total_ns)| usage::Phase { name, of, total_ns, count })
        };
        phase(0, Of::Read).chain(phase(1, Of::Write)).collect()
    }
}
