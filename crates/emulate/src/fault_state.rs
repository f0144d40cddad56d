//! The faults that are in effect on each part: slow, delayed, failing, hung, lost, without power, or unreadable
//! in places. A machine without faults holds none of this, and checks one option an event.
//!
//! A device that is slow or hangs works on inside. Only the event that would end what it was asked
//! for is put off: by so much for a slow one, until it is cleared for a hung one. (Unreadable places of
//! flash are in `flash/recovery`, where parity may rebuild them.)

use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::part_id::PartId;
use crate::ranges::Ranges;
use crate::request::{Origin, Request, Slab, State};
use iodyno_units::IoError;
use iodyno_units::OpKind;
use iodyno_units::rng::{Generator, stream, unit_open_closed};
use std::collections::BTreeSet;

/// What is wrong with a part as a whole, until it is cleared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultState {
    /// Everything takes this many times as long; 1: no fault.
    pub slow_factor: f64,
    /// By kind of operation: each ends so much later.
    pub delay_ns: [u64; OpKind::COUNT],
    /// By kind: the probability that one fails.
    pub error_share: [f64; OpKind::COUNT],
    /// Nothing completes.
    pub hung: bool,
    /// It is lost.
    pub lost: bool,
    /// The power is off.
    pub off: bool,
}

impl FaultState {
    /// No fault.
    pub const NONE: Self = Self {
        slow_factor: 1.0,
        delay_ns: [0; OpKind::COUNT],
        error_share: [0.0; OpKind::COUNT],
        hung: false,
        lost: false,
        off: false,
    };

    /// Whether every operation fails.
    fn is_away(&self) -> bool {
        self.lost || self.off
    }
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
    /// Which operations fail.
    errors: Generator,
}

/// Disposition of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It takes effect.
    Happens,
    /// The operation ends with an error instead.
    Fails,
    /// It was postponed, or the operation was ended here.
    Handled,
}

/// Whether the event of `slot` is to end what was asked for.
fn ends(slab: &Slab, slot: u32) -> bool {
    matches!(slab[slot].state, State::Done | State::Delivered)
}

impl FaultStates {
    /// No faults yet; `number` makes the draws of a seed new.
    pub(crate) fn new(parts: usize, seed: u64, number: u64) -> Self {
        Self {
            parts: vec![PartFaults::default(); parts],
            handed_ns: Vec::new(),
            put_off: BTreeSet::new(),
            errors: stream(seed, "errors", number),
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
        if illness.state.is_away() && request.origin != Origin::Own {
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
        let (kind, is_failed) = (request.kind.index(), request.failed);
        let delay_ns = illness.state.delay_ns[kind];
        if (illness.state.slow_factor > 1.0 || delay_ns > 0) && !put_off_before {
            let handed_ns = self.handed_ns.get(slot as usize).copied().unwrap_or(0);
            let took_ns = core.now - handed_ns.max(illness.since_ns);
            let more_ns = (took_ns as f64 * (illness.state.slow_factor - 1.0)) as u64;
            let more_ns = more_ns.saturating_add(delay_ns);
            self.put_off.insert(slot);
            core.at(core.now.saturating_add(more_ns), slot, core.slab[slot].state);
            return Verdict::Handled;
        }
        let share = illness.state.error_share[kind];
        if share > 0.0 && !is_failed && unit_open_closed(&mut self.errors) <= share {
            return Verdict::Fails;
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

    /// From now on operations of a kind, or of all kinds, end so much later.
    pub(crate) fn delay(&mut self, part: PartId, delay_ns: u64, kind: Option<OpKind>) {
        set(&mut self.parts[part.index()].state.delay_ns, kind, delay_ns);
    }

    /// From now on such a share of them fails.
    pub(crate) fn fail(&mut self, part: PartId, percent: f64, kind: Option<OpKind>) {
        // (NaN counts as 0.)
        set(&mut self.parts[part.index()].state.error_share, kind, percent.max(0.0) / 100.0);
    }

    /// The power of all parts is off, or on.
    pub(crate) fn power(&mut self, off: bool) {
        self.parts.iter_mut().for_each(|v| v.state.off = off);
    }

    pub(crate) fn hang(&mut self, part: PartId) {
        self.parts[part.index()].state.hung = true;
    }

    pub(crate) fn of(&self, part: PartId) -> FaultState {
        self.parts[part.index()].state
    }

    /// The device is gone, when there is no power that it could lose.
    pub(crate) fn lose_without_power(&mut self, part: PartId) {
        self.parts[part.index()].state.lost = true;
    }

    /// The device is gone. Of its requests, those that were asked for and handed over fail; all others
    /// go, but for those that are handed over later and fail then (`later` says which).
    pub(crate) fn lose(&mut self, core: &mut Core, part: PartId, later: impl Fn(&Request) -> bool) {
        let illness = &mut self.parts[part.index()];
        illness.state.lost = true;
        let parked = std::mem::take(&mut illness.parked);
        let gone: BTreeSet<u32> = (0..core.slab.len() as u32)
            .filter(|slot| {
                let request = &core.slab[*slot];
                let was_handed = self.put_off.contains(slot) || parked.contains(slot);
                let waits = later(request) && !was_handed;
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
    /// gone, and has power.
    pub(crate) fn clear(&mut self, core: &mut Core, part: PartId) -> bool {
        let was = std::mem::take(&mut self.parts[part.index()]);
        for slot in was.parked {
            core.at(core.now, slot, core.slab[slot].state);
        }
        self.parts[part.index()].state.off = was.state.off;
        was.state.lost && !was.state.off
    }

    /// Another device is in the part's place.
    pub(crate) fn replace(&mut self, core: &mut Core, part: PartId) {
        // What reaches the new device later is from hosts.
        let is_host = |request: &Request| matches!(request.origin, Origin::Host { .. });
        self.lose(core, part, |request| request.state == State::Issued && is_host(request));
        let off = self.parts[part.index()].state.off;
        self.parts[part.index()] = PartFaults::default();
        self.parts[part.index()].state.off = off;
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

/// Sets the value of a kind, or of all.
fn set<T: Copy>(of_kinds: &mut [T; OpKind::COUNT], kind: Option<OpKind>, value: T) {
    match kind {
        Some(kind) => of_kinds[kind.index()] = value,
        None => of_kinds.fill(value),
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
