//! Executes the commands that arrive over the control socket of a server with a timing model. The answer to a fault
//! command states which faults are then in effect, and which data was lost in a power cut or with a device.

use crate::adapters::{adapters_in_words, clear_adapters};
use crate::array_losses::{self, LostUnits};
use crate::fault_effect;
use crate::numbered::Numbered;
use iodyno_emulate::spec::Part;
use iodyno_emulate::{AdapterFault, Fault, PartId};
use iodyno_live::control::Answer;
use iodyno_live::counts::Taken;
use iodyno_live::fault_command::{self, Ask, Effect, in_effect};
use iodyno_live::frontend::Served;
use iodyno_live::interface_fault::Action;
use iodyno_live::metrics::{self, TextFormat};
use iodyno_live::status::{Status, observe};
use iodyno_live::store::Store;
use iodyno_units::human;
use iodyno_units::human::counted;
use iodyno_units::text::numbered;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns the function that executes the commands of a server's control socket and answers them.
pub(crate) fn answers(live: &Arc<Served>, seed: u64, stop: &Arc<AtomicBool>) -> Arc<Answer> {
    let (live, stop) = (Arc::clone(live), Arc::clone(stop));
    Arc::new(move |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["status"] => Status::Model(observe(&live)).to_json(),
            ["metrics"] => {
                json!({ "text": metrics::text(&observe(&live), TextFormat::Prometheus) })
            }
            ["stop"] => {
                stop.store(true, Ordering::Relaxed);
                done(STOPS)
            }
            words => fault_command::parse(words)
                .and_then(|ask| apply(&live, &ask, seed))
                .unwrap_or_else(|why| json!({ "error": why })),
        }
    })
}

/// Text of the response to the command `stop`.
pub(crate) const STOPS: &str = "the server flushes and shuts down";

/// Builds the response to a successful command.
pub(crate) fn done(text: &str) -> Value {
    json!({ "ok": true, "text": text })
}

/// Applies a fault command to a served system, and returns the response.
pub(crate) fn apply(live: &Served, ask: &Ask, seed: u64) -> Result<Value, String> {
    let (numbered, was_off) = live.look(|machine, _, _| {
        let numbered = Numbered::of(machine.system(), live.capacities_bytes().to_vec());
        (numbered, machine.fault_state(0).off)
    });
    numbered.check(ask)?;
    let effect = fault_effect::of(live, ask);
    let adapters_before = live.look(|machine, _, _| machine.adapters());
    refuse(live, ask, was_off, numbered.device)?;
    let units_before = array_losses::units_by_volume(live);
    let taken = carry_out(live, ask, seed, was_off);
    let lost_units = array_losses::units_since(live, &units_before);
    let mut text = in_effect(ask, was_off, numbered.device, &effect);
    let repaired_by = fault_effect::repaired_by(&effect);
    let mut why_none = if let Effect::None(why) = effect { Some(why) } else { None };
    let mut has_array = false;
    match ask {
        Ask::Fault(Fault::Adapters(_)) => {
            let state = live.look(|machine, _, _| machine.adapters());
            if state == adapters_before {
                why_none = Some("the adapters are already in this state".to_owned());
            }
            text = state.map_or(text, |state| adapters_in_words(&state));
            if let Some(why) = &why_none {
                text = format!("no effect: {why}\n{text}");
            }
        }
        Ask::Fault(fault) => {
            if let Some(array) = fault.part().and_then(|part| array_in_words(live, part)) {
                text = format!("{text}\n{array}");
                has_array = true;
            }
        }
        Ask::ClearAll => {
            text = [text].into_iter().chain(incomplete_arrays(live)).collect::<Vec<_>>().join("\n");
        }
        _ => {}
    }
    let is_lost = matches!(ask, Ask::Fault(Fault::Lose { .. }));
    let loses = is_lost || matches!(ask, Ask::Fault(Fault::PowerCut | Fault::PowerOff));
    let loses = loses && !was_off;
    let mut stored = array_losses::in_words(&lost_units);
    if matches!(ask, Ask::Fault(Fault::PowerOff)) {
        stored.extend(array_losses::at_power_on(live));
    }
    if matches!(ask, Ask::Fault(Fault::PowerOn | Fault::Adapters(_)) | Ask::ClearAll) {
        for line in &stored {
            text = format!("{text}\n{line}");
        }
    }
    // (The other members of an array have the data that one member loses.)
    if loses && !has_array {
        text = format!("{text}\n{}", losses(&taken, &stored));
        if is_lost && taken.iter().any(|taken| taken.dropped.bytes > 0) {
            text += "\nthe next flush on each connection fails";
        }
    }
    let mut answer = done(&text);
    if let Some(why) = why_none {
        answer["no_effect"] = why.into();
    }
    if let Some(by) = repaired_by {
        answer["repaired_by"] = by.into();
    }
    if loses || lost_units.iter().any(|of| of.total() > 0) {
        answer["taken"] = losses_of_volumes(&taken, &lost_units);
    }
    Ok(answer)
}

/// Returns an error if a command is impossible in the system's current state.
fn refuse(live: &Served, ask: &Ask, is_off: bool, device: &str) -> Result<(), String> {
    let why = live.look(|machine, _, _| match *ask {
        Ask::Fault(Fault::PowerCut) if is_off => {
            Some("the power is off: use power-on first".to_owned())
        }
        Ask::Fault(Fault::Replace { part })
            if fault_effect::redundant_array_above(machine.system(), part) == Some(false) =>
        {
            Some(format!(
                "the array of {device} {part} has no redundancy, so it can't rebuild an empty device: use `clear` to bring a lost device back with its data"
            ))
        }
        Ask::Fault(Fault::Replace { part }) if !is_off => {
            let placed = machine.system().devices().nth(part.index());
            placed.filter(|placed| !placed.device.hot_swap).map(|_| {
                format!(
                    "{device} {part} can't be replaced while powered on (`bay.hot_swap` in its file): use power-off, replace, power-on"
                )
            })
        }
        Ask::Fault(Fault::Adapters(AdapterFault::Access { from, .. })) => {
            machine.adapters().and_then(|state| state.access_is_fixed(from))
        }
        Ask::Full { volume } if !machine.system().is_device(volume) => Some(format!(
            "volume {volume} is an array, or behind adapters: `full` requires a single device"
        )),
        Ask::Interface { volume, fault } if !machine.system().is_device(volume) => {
            matches!(fault.action, Action::Lose | Action::Tear { .. } | Action::Stale).then(|| {
                format!(
                    "volume {volume} is an array, or behind adapters: `lost`, `torn` and `stale` require a single device"
                )
            })
        }
        _ => None,
    });
    why.map_or(Ok(()), Err)
}

/// Executes a command, and returns the data that each volume lost.
fn carry_out(live: &Served, ask: &Ask, seed: u64, is_off: bool) -> Vec<Taken> {
    match *ask {
        Ask::Fault(fault) => {
            let taken = live.inject(fault);
            let volume_of = |part: PartId| {
                let of = live.look(|machine, _, _| {
                    machine.system().volumes.iter().position(|volume| volume.root == part)
                });
                of.map(|volume| volume as u32)
            };
            match fault {
                Fault::Clear { part } => {
                    live.look(|_, stores, _| stores[part.index()].clear_corruption());
                    if let Some(volume) = volume_of(part) {
                        live.set_full(volume, false);
                        live.clear_interface_faults(volume);
                    }
                }
                // Ends the delays at the interface, too: of the volume, or of all if this is a device of an array.
                Fault::Delay { part, delay_ns: 0, kind } => {
                    let volumes = live.look(|machine, _, _| machine.system().volumes.len() as u32);
                    let ended = volume_of(part).map_or(0..volumes, |volume| volume..volume + 1);
                    ended.for_each(|volume| live.end_interface_delays(volume, kind));
                }
                _ => {}
            }
            return taken;
        }
        Ask::Interface { volume, fault } => live.add_interface_fault(volume, fault),
        Ask::Full { volume } => live.set_full(volume, true),
        Ask::Resize { volume, size_bytes } => live.resize(volume, size_bytes),
        Ask::Corrupt { volume, offset_bytes, len_bytes } => {
            let range = offset_bytes..offset_bytes + len_bytes;
            live.corrupt(PartId(volume), &range, seed);
        }
        Ask::ClearAll => {
            let devices = live.look(|machine, _, _| machine.system().devices().count() as u32);
            for part in (0..devices).map(PartId) {
                live.inject(Fault::Clear { part });
            }
            for fault in clear_adapters(live) {
                live.inject(Fault::Adapters(fault));
            }
            for volume in 0..live.volumes() {
                live.set_full(volume, false);
                live.clear_interface_faults(volume);
            }
            if is_off {
                live.inject(Fault::PowerOn);
            }
            live.look(|_, stores, _| stores.iter().for_each(Store::clear_corruption));
        }
    }
    Vec::new()
}

/// Converts the losses of all volumes to JSON. `taken` is empty if the command is not a fault.
fn losses_of_volumes(taken: &[Taken], lost_units: &[LostUnits]) -> Value {
    let of_volume = |(volume, lost): (usize, &LostUnits)| {
        let taken = taken.get(volume).copied().unwrap_or_default();
        json!({
            "volume": volume,
            "in_flight": taken.failed,
            "dropped_writes": taken.dropped.writes,
            "dropped_bytes": taken.dropped.bytes,
            "torn_writes": taken.dropped.torn,
            "lost_units": lost.total(),
        })
    };
    lost_units.iter().enumerate().map(of_volume).collect()
}

/// Describes the state of the array that contains a device, and of the arrays that contain this array. `None`
/// if the device is not in an array.
fn array_in_words(live: &Served, device: PartId) -> Option<String> {
    live.look(|machine, _, _| {
        let system = machine.system();
        let mut volumes = (0..).zip(&system.volumes);
        let (volume, of) =
            volumes.find(|(volume, _)| system.parts_of(*volume).any(|part| part == device))?;
        let mut above = system.arrays_above(device);
        let root = system.array_of(volume).map(|(part, _)| part);
        above.retain(|part| Some(*part) != root);
        let mut lines = Vec::new();
        for part in root.into_iter().chain(above.into_iter().rev()) {
            let Part::Array(array) = &system.parts[part.index()] else { continue };
            let (layout, state) = (array.layout, machine.array_state_of(part)?);
            let (missing, all) = (state.missing.len(), state.members.len());
            let what = match (missing, state.rebuilt) {
                (0, _) if !machine.serves(part) => "a required member is gone: not all of the array's data can be read".to_owned(),
                (0, _) => "all members are present".to_owned(),
                _ if !layout.survives(state.missing) => {
                    format!("{missing} of {all} members missing, more than the array tolerates: the missing data can't be read")
                }
                (_, None) => format!("{missing} of {all} members missing; the missing data is read from the others"),
                (_, Some((member, _))) => {
                    format!("{missing} of {all} members missing, and member {member} is being rebuilt")
                }
            };
            let level = layout.level();
            let inner = || format!("{level} of {}", numbered("device", system.devices_below(part)));
            let name = if Some(part) == root { of.name.clone() } else { inner() };
            lines.push(format!("{name}: {what}"));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    })
}

/// For each volume with an incomplete array: describes the array, and names the command that replaces its first missing
/// device.
fn incomplete_arrays(live: &Served) -> Vec<String> {
    let lacking = live.look(|machine, _, _| {
        let system = machine.system();
        let lacking = (0..system.volumes.len() as u32).filter_map(|volume| {
            let mut arrays = system.parts_of(volume).filter_map(|part| {
                let state = machine.array_state_of(part)?;
                let rebuilt = state.rebuilt.map(|(member, _)| member);
                let lacks =
                    |member: &usize| state.missing.contains(*member) && Some(*member) != rebuilt;
                (0..state.members.len()).find(lacks).map(|member| state.members[member])
            });
            let is_lost = |device: &PartId| machine.device_fault_state(*device).lost;
            arrays.find_map(|member| {
                let mut devices = system.devices_below(member);
                let first = devices.next()?;
                Some(std::iter::once(first).chain(devices).find(is_lost).unwrap_or(first))
            })
        });
        lacking.collect::<Vec<PartId>>()
    });
    let words = |device: PartId| {
        Some(format!(
            "{}: use `replace {device}` to replace the device",
            array_in_words(live, device)?
        ))
    };
    lacking.into_iter().filter_map(words).collect()
}

/// Describes the losses by a fault: the number of failed operations, one line per volume that lost data, and
/// `stored`, the losses of stored data.
fn losses(taken: &[Taken], stored: &[String]) -> String {
    let failed = taken.iter().map(|taken| taken.failed).sum();
    let mut lines = vec![format!("{} in flight failed", counted(failed, "operation"))];
    for (volume, Taken { dropped, .. }) in taken.iter().enumerate() {
        let bytes = human::size(dropped.bytes);
        if dropped.writes > 0 {
            lines.push(format!(
                "volume {volume} lost {} ({bytes}), acknowledged but not flushed",
                counted(dropped.writes, "write")
            ));
        } else if dropped.bytes > 0 {
            lines
                .push(format!("volume {volume} lost all its data ({bytes}), because it is memory"));
        }
        if dropped.torn > 0 {
            let writes = counted(dropped.torn, "write");
            lines.push(format!("volume {volume}: {writes} torn, and partly lost"));
        }
    }
    lines.extend_from_slice(stored);
    if stored.is_empty() && taken.iter().all(|taken| taken.dropped.bytes == 0) {
        lines.push("no acknowledged write is lost".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_live::store::Dropped;

    #[test]
    fn losses_are_told_by_volume() {
        let dropped = |writes, bytes, torn| Dropped { writes, bytes, torn };
        let taken = |failed, dropped| Taken { failed, dropped };
        assert_eq!(
            losses(&[taken(2, dropped(0, 0, 0)), taken(1, dropped(0, 0, 1))], &[]),
            "3 operations in flight failed\nvolume 1: 1 write torn, and partly lost\nno acknowledged write is lost"
        );
        assert_eq!(
            losses(&[taken(0, dropped(12, 49_152, 0)), taken(0, dropped(0, 1 << 20, 0))], &[]),
            "0 operations in flight failed\nvolume 0 lost 12 writes (48 KiB), acknowledged but not flushed\nvolume 1 lost all its data (1 MiB), because it is memory"
        );
        let hole = ["volume 0 lost 1 MiB of stored data".to_owned()];
        assert_eq!(
            losses(&[taken(0, dropped(0, 0, 0))], &hole),
            "0 operations in flight failed\nvolume 0 lost 1 MiB of stored data"
        );
    }
}
