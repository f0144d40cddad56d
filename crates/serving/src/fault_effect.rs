//! Predicts the effect of a fault before it is injected. A fault without effect, for example at an offset where nothing
//! is stored, is reported, so that no test passes only because its fault hit nothing.

use iodyno_emulate::spec::Part;
use iodyno_emulate::{Fault, Held, Machine, PartId, System};
use iodyno_live::fault_command::{Ask, Effect};
use iodyno_live::frontend::Served;
use iodyno_live::store::{Store, UNIT_BYTES};
use std::ops::Range;

const NOTHING_STORED: &str = "nothing is stored there";
const IN_BUFFER: &str = "the data there is still in the write buffer, and would overwrite the damage: flush, and wait until `status` shows an empty buffer";
const BY_DEVICE: &str = "the device rebuilds the data from its parity";
const BY_ARRAY: &str = "the array rebuilds the data from its other members";

/// Component that rebuilds data that a fault makes unreadable: the device or the array; `None` if there is none.
pub(crate) fn repaired_by(effect: &Effect) -> Option<&'static str> {
    match *effect {
        Effect::Rebuilt(by) => Some(if by == BY_ARRAY { "array" } else { "device" }),
        Effect::Usual | Effect::Excluded | Effect::None(_) => None,
    }
}

/// Determines the effect that a command would have in the current state.
pub(crate) fn of(live: &Served, ask: &Ask) -> Effect {
    live.look(|machine, stores, _| match *ask {
        Ask::Fault(fault) => of_fault(machine, fault),
        Ask::Corrupt { volume: device, offset_bytes, len_bytes } => {
            let store = &stores[device as usize];
            match of_corruption(store, &(offset_bytes..offset_bytes + len_bytes)) {
                Effect::Usual => {
                    let device = PartId(device);
                    let is_volume = machine.system().volumes.iter().any(|v| v.root == device);
                    if is_volume {
                        rebuilt(machine, device, offset_bytes, len_bytes)
                    } else {
                        // `Served::corrupt` leaves the damage to the model of the device.
                        of_medium(machine, device, offset_bytes, len_bytes)
                    }
                }
                none => none,
            }
        }
        Ask::Full { volume } => {
            let store = stores.get(machine.system().volumes[volume as usize].root.index());
            let size_bytes = live.size_bytes(volume);
            none_if(
                store.is_some_and(|store| is_all_data(store, size_bytes)),
                "the whole volume already holds data",
            )
        }
        Ask::Resize { volume, size_bytes } => {
            none_if(live.size_bytes(volume) == size_bytes, "it already has that size")
        }
        Ask::ClearAll | Ask::Interface { .. } => Effect::Usual,
    })
}

/// Determines the effect of corrupting stored bytes, assuming that no redundancy rebuilds them.
pub(crate) fn of_corruption(store: &Store, range_bytes: &Range<u64>) -> Effect {
    match store.held(range_bytes) {
        Held::OnMedium => Effect::Usual,
        Held::InBuffer => Effect::None(IN_BUFFER.to_owned()),
        Held::Nothing => Effect::None(NOTHING_STORED.to_owned()),
    }
}

/// Whether a volume has no holes. Holes are usually at its end, which is checked first and quickly.
fn is_all_data(store: &Store, size_bytes: u64) -> bool {
    let is_data = |from: u64, len_bytes: u64| {
        let extents = store.extents(from, len_bytes, 1).unwrap_or_default();
        extents.first().is_some_and(|first| first.data && first.len_bytes == len_bytes)
    };
    let end_bytes = size_bytes.min(UNIT_BYTES);
    is_data(size_bytes - end_bytes, end_bytes) && is_data(0, size_bytes)
}

fn none_if(is_so: bool, why: &str) -> Effect {
    if is_so { Effect::None(why.to_owned()) } else { Effect::Usual }
}

fn of_fault(machine: &Machine, fault: Fault) -> Effect {
    let state = |part| machine.device_fault_state(part);
    match fault {
        Fault::PowerOn => none_if(!state(PartId(0)).off, "the power is already on"),
        Fault::PowerOff => none_if(state(PartId(0)).off, "the power is already off"),
        Fault::Lose { part } if state(part).lost => Effect::None("it is already gone".to_owned()),
        Fault::Lose { part } if redundant_array_above(machine.system(), part) == Some(true) => {
            Effect::Excluded
        }
        Fault::Hang { part } => none_if(state(part).hung, "it already hangs"),
        Fault::Latent { part, offset_bytes, len_bytes } => {
            of_medium(machine, part, offset_bytes, len_bytes)
        }
        Fault::Page { part, offset_bytes } | Fault::Block { part, offset_bytes } => {
            if machine.medium(part, offset_bytes, 1).has_pages {
                of_medium(machine, part, offset_bytes, 1)
            } else {
                Effect::None(
                    "the device is not flash, so it has no pages or erase blocks: use the fault `latent`"
                        .to_owned(),
                )
            }
        }
        _ => Effect::Usual,
    }
}

/// Whether any of the arrays that contain a device has redundancy; `None` if it is not in an array.
pub(crate) fn redundant_array_above(system: &System, device: PartId) -> Option<bool> {
    let is_redundant = |part: &PartId| match &system.parts[part.index()] {
        Part::Array(array) => array.layout.is_redundant(),
        _ => false,
    };
    let arrays = system.arrays_above(device);
    (!arrays.is_empty()).then(|| arrays.iter().any(is_redundant))
}

fn of_medium(machine: &Machine, part: PartId, offset_bytes: u64, len_bytes: u64) -> Effect {
    match machine.medium(part, offset_bytes, len_bytes).held {
        Held::OnMedium => rebuilt(machine, part, offset_bytes, len_bytes),
        Held::InBuffer => Effect::None(IN_BUFFER.to_owned()),
        Held::Nothing => Effect::None(NOTHING_STORED.to_owned()),
    }
}

/// Determines the effect of unreadable data on a device, including whether the device itself or else an array rebuilds
/// it.
fn rebuilt(machine: &Machine, device: PartId, offset_bytes: u64, len_bytes: u64) -> Effect {
    if machine.medium(device, offset_bytes, len_bytes).is_rebuilt {
        return Effect::Rebuilt(BY_DEVICE);
    }
    let system = machine.system();
    for array in system.arrays_above(device) {
        let Part::Array(spec) = &system.parts[array.index()] else { continue };
        let Some(state) = machine.array_state_of(array) else { continue };
        let is_below = |member: &PartId| system.devices_below(*member).any(|of| of == device);
        let Some(member) = state.members.iter().position(is_below) else { continue };
        if !state.missing.contains(member) && spec.layout.survives(state.missing.with(member)) {
            return Effect::Rebuilt(BY_ARRAY);
        }
    }
    Effect::Usual
}
