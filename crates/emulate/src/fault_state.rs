//! The faults that are in effect on each part: slow, hung, lost, or unreadable in places. A machine
//! without faults holds none of this, and checks one option an event.
//!
//! A device that is slow or hangs works on inside. Only the event that would end what it was asked
//! for is put off: by so much for a slow one, until it is cleared for a hung one. (Unreadable places of
//! flash are in `flash/recovery`, where parity may rebuild them.)

use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::part_id::PartId;
use crate::ranges::Ranges;
use crate::request::{Origin, Slab, State};
use iodyno_units::IoError;
use iodyno_units::OpKind;
use std::collections::BTreeSet;

/// What is wrong with a part as a whole, until it is cleared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultState {
    /// Everything takes this many times as long; 1: no fault.
    pub slow_factor: f64,
    /// Nothing completes.
    pub hung: bool,
    /// It is lost.
    pub lost: bool,
}

impl FaultState {
    /// No fault.
    pub const NONE: Self = Self { slow_factor: 1.0, hung: false, lost: false };
}

/// One part.
#[derive(Clone, Debug)]
struct PartFaults {
    state: FaultState,
    /// Start of the slowness.
    since_ns: u64,
    /// Units that can't be read (disks and memory).
    unreadable: Ranges,
    /// Requests whose last event waits for the end of a hang, in order.
    parked: Vec<u32>,
}

impl Default for PartFaults {
    fn default() -> Self {
        Self {
            state: FaultState::NONE,
            since_ns: 0,
            unreadable: Ranges::default(),
            parked: Vec::new(),
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct FaultStates {
    parts: Vec<PartFaults>,
    /// By slot: when what was asked for was handed over, if that was since something is wrong.
    handed_ns: Vec<u64>,
    /// Slots whose last event was postponed already.
    put_off: BTreeSet<u32>,
}

/// Disposition of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It takes effect.
    Happens,
    /// It was postponed, or the operation was ended here.
    Handled,
}

/// Whether the event of `slot` is to end what was asked for.
fn ends(slab: &Slab, slot: u32) -> bool {
    matches!(slab[slot].state, State::Done | State::Delivered)
}

impl FaultStates {
    pub(crate) fn new(parts: usize) -> Self {
        Self {
            parts: vec![PartFaults::default(); parts],
            handed_ns: Vec::new(),
            put_off: BTreeSet::new(),
        }
    }

    /// What was asked for is handed over.
    pub(crate) fn handed(&mut self, slot: u32, at_ns: u64) {
        let slot = slot as usize;
        if self.handed_ns.len() <= slot {
            self.handed_ns.resize(slot + 1, 0);
        }
        self.handed_ns[slot] = at_ns;
    }

    /// Applies the faults to the event of `slot`.
    pub(crate) fn meets(&mut self, core: &mut Core, slot: u32) -> Verdict {
        let request = &core.slab[slot];
        // (Those of a host were handed over before this event.)
        if request.state == State::Issued && matches!(request.origin, Origin::Parent(_)) {
            self.handed(slot, core.now);
        }
        let illness = &mut self.parts[request.part.index()];
        if illness.state.lost && request.origin != Origin::Own {
            self.put_off.remove(&slot);
            core.complete(slot, Some(IoError::Gone));
            return Verdict::Handled;
        }
        if !ends(&core.slab, slot) {
            return Verdict::Happens;
        }
        let put_off_before = self.put_off.remove(&slot);
        if illness.state.hung {
            illness.parked.push(slot);
            return Verdict::Handled;
        }
        if illness.state.slow_factor > 1.0 && !put_off_before {
            let handed_ns = self.handed_ns.get(slot as usize).copied().unwrap_or(0);
            let took_ns = core.now - handed_ns.max(illness.since_ns);
            let more_ns = (took_ns as f64 * (illness.state.slow_factor - 1.0)) as u64;
            self.put_off.insert(slot);
            core.at(core.now.saturating_add(more_ns), slot, core.slab[slot].state);
            return Verdict::Handled;
        }
        if !illness.unreadable.is_empty() && touches_unreadable(illness, core, slot) {
            core.complete(slot, Some(IoError::Io));
            return Verdict::Handled;
        }
        Verdict::Happens
    }

    /// From now on everything takes `factor` times as long.
    pub(crate) fn slow(&mut self, part: PartId, factor: f64, now_ns: u64) {
        let illness = &mut self.parts[part.index()];
        if illness.state.slow_factor <= 1.0 {
            illness.since_ns = now_ns;
        }
        // (NaN counts as 1 too.)
        illness.state.slow_factor = factor.max(1.0);
    }

    pub(crate) fn hang(&mut self, part: PartId) {
        self.parts[part.index()].state.hung = true;
    }

    pub(crate) fn of(&self, part: PartId) -> FaultState {
        self.parts[part.index()].state
    }

    pub(crate) fn is_lost(&self, part: PartId) -> bool {
        self.parts[part.index()].state.lost
    }

    /// The device is gone. Of its requests, those that were asked for and handed over fail; all others
    /// go, but for those that are handed over later and fail then (`later` says which).
    pub(crate) fn lose(&mut self, core: &mut Core, part: PartId, later: impl Fn(State) -> bool) {
        let illness = &mut self.parts[part.index()];
        illness.state.lost = true;
        let parked = std::mem::take(&mut illness.parked);
        let gone: BTreeSet<u32> = (0..core.slab.len() as u32)
            .filter(|slot| {
                let request = &core.slab[*slot];
                let was_handed = self.put_off.contains(slot) || parked.contains(slot);
                let waits = later(request.state) && !was_handed;
                request.state != State::Free && request.part == part && !waits
            })
            .collect();
        self.put_off.retain(|slot| !gone.contains(slot));
        core.queue.retain(|slot| !gone.contains(&slot));
        for slot in gone {
            if core.slab[slot].origin == Origin::Own {
                core.slab.remove(slot);
            } else {
                core.complete(slot, Some(IoError::Gone));
            }
        }
    }

    /// Units of a disk or of memory can't be read.
    pub(crate) fn damage(&mut self, part: PartId, units: std::ops::Range<u64>) {
        self.parts[part.index()].unreadable.add(units);
    }

    /// Clears the part's faults: what was parked happens now. Gives whether the device had been
    /// gone.
    pub(crate) fn clear(&mut self, core: &mut Core, part: PartId) -> bool {
        let was = std::mem::take(&mut self.parts[part.index()]);
        for slot in was.parked {
            core.at(core.now, slot, core.slab[slot].state);
        }
        was.state.lost
    }

    /// Whether no fault is in effect.
    pub(crate) fn is_over(&self) -> bool {
        let is_clear = |v: &PartFaults| v.state == FaultState::NONE && v.unreadable.is_empty();
        self.parts.iter().all(is_clear)
    }

    /// The power fails: no request survives.
    pub(crate) fn power_cut(&mut self) {
        self.put_off.clear();
        self.handed_ns.clear();
        self.parts.iter_mut().for_each(|v| v.parked.clear());
    }
}

/// Whether the operation that ends reads what can't be read; what it writes or drops is whole again.
fn touches_unreadable(illness: &mut PartFaults, core: &Core, slot: u32) -> bool {
    let request = &core.slab[slot];
    if request.failed {
        return false;
    }
    let (from, to) = (request.at, request.at + u64::from(request.len));
    let touched = from / UNIT_BYTES..to.div_ceil(UNIT_BYTES);
    match request.kind {
        OpKind::Read => return illness.unreadable.first_in(touched).is_some(),
        OpKind::Write => illness.unreadable.remove(touched),
        OpKind::WriteZeroes | OpKind::Trim => {
            illness.unreadable.remove(from.div_ceil(UNIT_BYTES)..to / UNIT_BYTES);
        }
        OpKind::Flush => {}
    }
    false
}
