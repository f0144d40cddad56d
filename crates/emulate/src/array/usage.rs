//! Usage of an array: its processor, and the time of its pieces by phase.

use super::{Array, Phase};
use crate::core::Core;
use crate::part_id::PartId;
use crate::usage::{self, Of, Resource};
use iodyno_raid::MemberSet;
use iodyno_units::OpKind;

/// What an array has done to restore its members' data, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayCounts {
    /// Members that were rebuilt to their end.
    pub rebuilt_members: u64,
    /// Bytes that were written to members that are rebuilt.
    pub rebuilt_bytes: u64,
    /// Rows of 4 KiB units that were restored after power cuts.
    pub resynced_units: u64,
    /// Units of data that could not be recovered: each was reported from then on, until it was written.
    pub lost_units: u64,
    /// Scrubs that ended.
    pub scrubs: u64,
    /// Rows whose parity or copies contradicted the data in a scrub, where content is kept.
    pub contradictions: u64,
}

/// The state of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayState {
    /// The parts that are its members now.
    pub members: Vec<PartId>,
    /// Members that are missing, or not rebuilt yet.
    pub missing: MemberSet,
    /// The one that is rebuilt, and how much of it is.
    pub rebuilt: Option<(usize, f64)>,
    /// Runs of rows that are restored after a power cut.
    pub resyncs: u32,
    /// It reads all stripes.
    pub scrubs: bool,
    /// Some data is lost, and reported as unreadable.
    pub lost: bool,
    /// Since the start.
    pub counts: ArrayCounts,
}

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

/// What an array's members hold, as far as the array knows and a new machine can't: to be kept beside the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayHealth {
    /// Members that are missing, or not rebuilt yet.
    pub missing: MemberSet,
    /// Some data is lost, or was and is written again, but not durably.
    pub lost: bool,
}

impl Array {
    /// What its members hold.
    #[inline]
    pub(crate) fn health(&self) -> ArrayHealth {
        let lost = !self.bad.is_empty() || self.heals();
        ArrayHealth { missing: self.missing, lost }
    }

    /// Its state.
    pub(crate) fn state(&self) -> ArrayState {
        ArrayState {
            members: self.members.clone(),
            missing: self.missing,
            rebuilt: self.rebuild.as_ref().map(|r| r.member).zip(self.share_rebuilt()),
            resyncs: self.resyncs,
            scrubs: self.scrub.is_some(),
            lost: !self.bad.is_empty(),
            counts: self.counts,
        }
    }

    /// Its resources, since the start.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        if !self.has_parity() || self.path.is_some() {
            return Vec::new();
        }
        let busy_ns = self.processor.busy_ns(core.now);
        let name = if self.is_of_arrays { "outer array's processor" } else { "array's processor" };
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
