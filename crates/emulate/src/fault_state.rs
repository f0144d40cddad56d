//! The faults in effect on each component: slow, delayed, failing, hung, lost, without power, or partly unreadable. A
//! machine without faults allocates no fault state.
//!
//! A slow or hung device continues to work inside. Only the last event of an operation is postponed: by the extra time
//! if the device is slow, until the fault is cleared if the device hangs. Unreadable parts of flash are in
//! `flash/recovery`, where parity may rebuild them.

use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::part_id::PartId;
use crate::ranges::Ranges;
use crate::request::{Origin, Request, Slab, State};
use iodyno_units::IoError;
use iodyno_units::OpKind;
use iodyno_units::rng::{Generator, stream, unit_open_closed};
use std::collections::BTreeSet;

/// Faults that affect a whole device or other component, rather than single units of its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultState {
    /// Factor by which operations take longer; 1: no fault.
    pub slow_factor: f64,
    /// Extra latency by type of operation, ns.
    pub delay_ns: [u64; OpKind::COUNT],
    /// Probability of failure by type of operation, 0 to 1.
    pub error_share: [f64; OpKind::COUNT],
    /// Whether the component hangs, so that no operation completes.
    pub hung: bool,
    /// Whether the component is lost, so that every operation on it fails.
    pub lost: bool,
    /// Whether the power is off, so that every operation fails.
    pub off: bool,
}

impl FaultState {
    /// No fault: normal speed, no errors, power on.
    pub const NONE: Self = Self {
        slow_factor: 1.0,
        delay_ns: [0; OpKind::COUNT],
        error_share: [0.0; OpKind::COUNT],
        hung: false,
        lost: false,
        off: false,
    };

    /// Returns whether every operation fails, because the component is lost or has no power.
    fn is_away(&self) -> bool {
        self.lost || self.off
    }
}

/// Faults of one component of the machine, and the operations that they delay.
#[derive(Clone, Debug)]
struct PartFaults {
    state: FaultState,
    /// Time at which `slow_factor` took effect, ns.
    since_ns: u64,
    /// Unreadable 4 KiB units of a disk or memory. Not used for flash.
    unreadable: Ranges,
    /// Requests whose last event is held back until a hang ends, in the order of these events.
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

/// Faults of all components of a machine.
#[derive(Clone, Debug)]
pub(crate) struct FaultStates {
    parts: Vec<PartFaults>,
    /// For each request, by index, the time at which its component received it, ns. Recorded only from the
    /// first fault on.
    handed_ns: Vec<u64>,
    /// Indices of the requests whose last event has already been postponed.
    put_off: BTreeSet<u32>,
    /// Random numbers that decide which operations fail.
    errors: Generator,
}

/// Effect of the present faults on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The event takes effect as usual.
    Happens,
    /// The operation must end with an error instead.
    Fails,
    /// The event has been postponed, or the fault has already ended the event's operation.
    Handled,
}

/// Returns whether the next event of the request `slot` completes it.
fn ends(slab: &Slab, slot: u32) -> bool {
    matches!(slab[slot].state, State::Done | State::Delivered)
}

impl FaultStates {
    /// Creates the state of `parts` components without faults. `number` selects one of the independent random
    /// streams of `seed`.
    pub(crate) fn new(parts: usize, seed: u64, number: u64) -> Self {
        Self {
            parts: vec![PartFaults::default(); parts],
            handed_ns: Vec::new(),
            put_off: BTreeSet::new(),
            errors: stream(seed, "errors", number),
        }
    }

    /// Records the time at which a component received a request, from which a slow component's delay is computed.
    pub(crate) fn handed(&mut self, slot: u32, at_ns: u64) {
        let slot = slot as usize;
        if self.handed_ns.len() <= slot {
            self.handed_ns.resize(slot + 1, 0);
        }
        self.handed_ns[slot] = at_ns;
    }

    /// Applies the present faults to the due event of the request `slot`.
    pub(crate) fn meets(&mut self, core: &mut Core, slot: u32) -> Verdict {
        let request = &core.slab[slot];
        // (Hosts' requests were recorded before this event.)
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

    /// Slows a component down by `factor` from now on.
    pub(crate) fn slow(&mut self, part: PartId, factor: f64, now_ns: u64) {
        let illness = &mut self.parts[part.index()];
        if illness.state.slow_factor <= 1.0 {
            illness.since_ns = now_ns;
        }
        // (NaN counts as 1 too.)
        illness.state.slow_factor = factor.max(1.0);
    }

    /// Delays operations of the type `kind` (`None`: of all types) by `delay_ns` from now on; 0 ends the delay.
    pub(crate) fn delay(&mut self, part: PartId, delay_ns: u64, kind: Option<OpKind>) {
        set(&mut self.parts[part.index()].state.delay_ns, kind, delay_ns);
    }

    /// Makes a percentage of the operations of the type `kind` (`None`: of all types) fail from now on; 0 ends the
    /// failures.
    pub(crate) fn fail(&mut self, part: PartId, percent: f64, kind: Option<OpKind>) {
        // (NaN counts as 0.)
        set(&mut self.parts[part.index()].state.error_share, kind, percent.max(0.0) / 100.0);
    }

    /// Turns the power of all components off or on.
    pub(crate) fn power(&mut self, off: bool) {
        self.parts.iter_mut().for_each(|v| v.state.off = off);
    }

    pub(crate) fn hang(&mut self, part: PartId) {
        self.parts[part.index()].state.hung = true;
    }

    pub(crate) fn of(&self, part: PartId) -> FaultState {
        self.parts[part.index()].state
    }

    /// Marks a component as lost. It must have no power or be lost already, so that it has no requests to
    /// end.
    pub(crate) fn lose_without_power(&mut self, part: PartId) {
        self.parts[part.index()].state.lost = true;
    }

    /// Marks a component as lost. Its requests from hosts and other components fail, and internal ones are
    /// dropped. Requests for which `later` returns true remain until they arrive, unless a fault has postponed
    /// their end.
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

    /// Makes a range of units of a disk or memory unreadable.
    pub(crate) fn damage(&mut self, part: PartId, units: std::ops::Range<u64>) {
        self.parts[part.index()].unreadable.add(units);
    }

    /// Clears a component's faults and completes the operations that a hang held back. Returns whether the
    /// component was lost and has power.
    pub(crate) fn clear(&mut self, core: &mut Core, part: PartId) -> bool {
        let was = std::mem::take(&mut self.parts[part.index()]);
        for slot in was.parked {
            core.at(core.now, slot, core.slab[slot].state);
        }
        self.parts[part.index()].state.off = was.state.off;
        was.state.lost && !was.state.off
    }

    /// Replaces a device with a new one without faults.
    pub(crate) fn replace(&mut self, core: &mut Core, part: PartId) {
        // Only hosts' requests can reach the new device later.
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

    /// Drops the delays recorded for requests, because a power failure has dropped all requests.
    pub(crate) fn power_cut(&mut self) {
        self.put_off.clear();
        self.handed_ns.clear();
        self.parts.iter_mut().for_each(|v| v.parked.clear());
    }
}

/// Sets the value for the type of operation `kind`; `None`: for all types.
fn set<T: Copy>(of_kinds: &mut [T; OpKind::COUNT], kind: Option<OpKind>, value: T) {
    match kind {
        Some(kind) => of_kinds[kind.index()] = value,
        None => of_kinds.fill(value),
    }
}

/// Returns whether an operation that is about to complete needs an unreadable unit: a read needs every unit that it
/// touches, a host's write (also of zeroes) those that it covers only in part. Units that the operation has written, or
/// has trimmed as a whole, become readable.
fn touches_unreadable(illness: &mut PartFaults, core: &Core, slot: u32) -> bool {
    let request = &core.slab[slot];
    if request.failed {
        return false;
    }
    let (from, to) = (request.at, request.at + u64::from(request.len));
    let touched = from / UNIT_BYTES..to.div_ceil(UNIT_BYTES);
    match request.kind {
        OpKind::Read => return illness.unreadable.first_in(touched).is_some(),
        OpKind::Write | OpKind::WriteZeroes => {
            let is_host = matches!(request.origin, Origin::Host { .. });
            let mut partial = partial_units(from, to).filter(|_| is_host);
            if partial.any(|unit| illness.unreadable.contains(unit)) {
                return true;
            }
            illness.unreadable.remove(touched);
        }
        OpKind::Trim => {
            illness.unreadable.remove(from.div_ceil(UNIT_BYTES)..to / UNIT_BYTES);
        }
        OpKind::Flush => {}
    }
    false
}

/// The units that the bytes from `from` to `to` cover only in part: a device reads them to write the rest again.
pub(crate) fn partial_units(from: u64, to: u64) -> impl Iterator<Item = u64> {
    let ends = [from, to].into_iter().filter(|end| !end.is_multiple_of(UNIT_BYTES));
    ends.map(|end| end / UNIT_BYTES)
}
