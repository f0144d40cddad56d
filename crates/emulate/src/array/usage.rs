//! Usage of an array: its processor, and the time of its pieces by phase.

use super::{Array, Phase};
use crate::core::Core;
use crate::usage::{self, Of, Resource};
use iodyno_units::OpKind;

/// Time of the pieces by phase, ns, and their number: of reads, and of writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Phases {
    of: [[u64; 4]; 2],
    pieces: [u64; 2],
}

const NAMES: [&str; 4] =
    ["waits for its stripe", "members read", "array computes parity", "members write"];

impl Phases {
    /// A piece ends a phase; the next begins.
    pub(super) fn end(&mut self, since_ns: &mut u64, core: &Core, slot: u32, phase: Phase) {
        let kind = match core.slab[slot].kind {
            OpKind::Read => 0,
            OpKind::Write => 1,
            _ => return,
        };
        let passed_ns = core.now - std::mem::replace(since_ns, core.now);
        self.of[kind][phase as usize] += passed_ns;
        self.pieces[kind] += u64::from(phase == Phase::Stripe);
    }
}

impl Array {
    /// Its resources, since the start.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        if !self.has_parity() || self.path.is_some() {
            return Vec::new();
        }
        let busy_ns = self.processor.busy_ns(core.now);
        let name = "array's processor";
        vec![Resource { name, part: Some(self.part), count: 1, held: false, busy_ns }]
    }

    /// The time of its operations by phase, since the start: of their pieces, one in each stripe.
    pub(crate) fn phases(&self) -> Vec<usage::Phase> {
        let phase = |kind: usize, of| {
            let count = self.phases.pieces[kind];
            let times = NAMES.iter().zip(self.phases.of[kind]);
            times.map(move |(name, total_ns)| usage::Phase { name, of, total_ns, count })
        };
        phase(0, Of::Read).chain(phase(1, Of::Write)).collect()
    }
}
