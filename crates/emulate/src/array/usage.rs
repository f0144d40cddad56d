//! Usage of an array: the busy time of its processor, phase times of its operations, and its state.

use super::{Array, Phase};
use crate::core::Core;
use crate::part_id::PartId;
use crate::usage::{self, Of, Resource};
use iodyno_raid::MemberSet;
use iodyno_units::OpKind;

/// Counters of an array's rebuilds, resyncs and scrubs, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayCounts {
    /// Number of members whose rebuild was completed.
    pub rebuilt_members: u64,
    /// Bytes written to members by rebuilds.
    pub rebuilt_bytes: u64,
    /// Number of rows that were resynced after power cuts. A row is one 4 KiB unit of every strip of a stripe.
    pub resynced_units: u64,
    /// Number of 4 KiB units whose data could not be recovered. They can't be read until rewritten.
    pub lost_units: u64,
    /// Number of completed scrubs.
    pub scrubs: u64,
    /// Number of rows in which a scrub found inconsistent parity or copies; 0 unless content is stored.
    pub contradictions: u64,
}

/// State of an array: its members, and the repairs in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayState {
    /// Devices or arrays that are members now.
    pub members: Vec<PartId>,
    /// Set of the members that are missing or not yet rebuilt.
    pub missing: MemberSet,
    /// Member being rebuilt, and its rebuilt fraction (0 to 1); `None` without a rebuild.
    pub rebuilt: Option<(usize, f64)>,
    /// Number of ranges of rows that are being resynced after a power cut.
    pub resyncs: u32,
    /// Whether a scrub is in progress.
    pub scrubs: bool,
    /// Whether the array has lost data, which can't be read until it is rewritten.
    pub lost: bool,
    /// Counters of rebuilds, resyncs and scrubs since the machine started.
    pub counts: ArrayCounts,
}

/// Total time of the pieces of operations (one per stripe) in each phase, in ns, and number of pieces, separately for
/// reads and writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Phases {
    of: [[u64; 4]; 2],
    pieces: [u64; 2],
}

const NAMES: [&str; 4] =
    ["waits for its stripe", "members read", "array computes parity", "members write"];

impl Phases {
    /// Adds the duration of a phase that ends now. The phase belongs to a piece (the part of an operation within one
    /// stripe) and began at `since_ns`, which is set to the current time.
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

/// State of an array that must be saved, because a new machine can't derive it from the members'
/// content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayHealth {
    /// Set of the members that are missing or not yet rebuilt.
    pub missing: MemberSet,
    /// Whether data is lost, including lost data that has been rewritten but is not durable yet.
    pub lost: bool,
}

impl Array {
    /// Returns the part of the array's state that must be saved.
    #[inline]
    pub(crate) fn health(&self) -> ArrayHealth {
        let lost = !self.bad.is_empty() || self.heals();
        ArrayHealth { missing: self.missing, lost }
    }

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

    /// The array's resources with their busy time since the start.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        if !self.has_parity() || self.path.is_some() {
            return Vec::new();
        }
        let busy_ns = self.processor.busy_ns(core.now);
        let name = if self.is_of_arrays { "outer array's processor" } else { "array's processor" };
        vec![Resource { name, part: Some(self.part), count: 1, held: false, busy_ns }]
    }

    /// Returns the time that the array's operations have spent in each phase since the start, summed
    /// over their pieces (one per stripe).
    pub(crate) fn phases(&self) -> Vec<usage::Phase> {
        let phase = |kind: usize, of| {
            let count = self.phases.pieces[kind];
            let times = NAMES.iter().zip(self.phases.of[kind]);
            times.map(move |(name, total_ns)| usage::Phase { name, of, total_ns, count })
        };
        phase(0, Of::Read).chain(phase(1, Of::Write)).collect()
    }
}
