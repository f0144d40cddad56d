//! Resolution of emulated targets' names to the one system of which they are volumes: finds the devices
//! and the host, places each device, and refuses combinations that are not one system.

mod look_up;

use crate::emulated::{Emulated, EmulatedVolume};
use crate::files::Files;
use crate::outcome::RunError;
use iodyno_catalog::{File, Problem};
use iodyno_emulate::System;
use iodyno_emulate::describe::{DescribedDevice, DescribedSystem, VolumesOf};
use iodyno_emulate::spec::{
    ArrayShape, Attach, Device, Kind, Preconditioned, STRIP_BYTES, Written,
};
use iodyno_target::{ArrayName, ModelName, TargetName};
use iodyno_units::Precondition;
use look_up::{Found, look_up};
pub use look_up::{catalog_entries, device as described_device, system as described_system};
use std::collections::BTreeMap;

/// The system that a run's targets are volumes of; None where they are real.
/// Files given by path are read and added to `files`, unless they are there.
///
/// # Errors
/// An unknown name, a wrong file, and targets that are not volumes of one system.
pub fn emulated(targets: &[TargetName], files: &mut Files) -> Result<Option<Emulated>, RunError> {
    let mut names = Vec::new();
    let mut real = None;
    for target in targets {
        match target {
            TargetName::Model(name) => names.push(name),
            other => real = Some(other),
        }
    }
    let Some(first) = names.first() else { return Ok(None) };
    if let Some(other) = names.iter().find(|name| name.live != first.live) {
        return Err(RunError::Impossible(format!(
            "`{first}` and `{other}` live in different times, virtual and real: run them one after the other, and both are in the notebook"
        )));
    }
    let live = first.live;
    if let Some(real) = real {
        return Err(RunError::Impossible(format!(
            "`{first}` is emulated and `{real}` is real: virtual and real time can't share a run; run them one after the other, and both are in the notebook"
        )));
    }
    let mut emulated = match look_up(&first.what, files)? {
        Found::System(system, file) => whole_system(&system, &file, &names, files)?,
        Found::Device(_) => devices_in_one_system(&names, files)?,
    };
    if let Some(near) = one_choice(&names)? {
        emulated.system.host.workers_near = near;
    }
    emulated.live = live;
    Ok(Some(emulated))
}

/// The devices that a name stands for, each once, with the descriptions in their files.
///
/// # Errors
/// An unknown name, and a wrong file.
pub fn described(name: &ModelName) -> Result<Vec<DescribedDevice>, RunError> {
    let mut all: Vec<DescribedDevice> = Vec::new();
    let mut files = Files::default();
    match look_up(&name.what, &mut files)? {
        Found::Device(device) => all.push(*device),
        Found::System(system, file) => {
            for of in &system.volumes {
                let device = look_up::device(&listed(of, &file)?.what, &mut files)?;
                if all.iter().all(|d| d.device.name != device.device.name) {
                    all.push(device);
                }
            }
        }
    }
    Ok(all)
}

/// A system that lists its own volumes; a run on it has no other targets.
fn whole_system(
    described: &DescribedSystem,
    file: &File,
    names: &[&ModelName],
    files: &mut Files,
) -> Result<Emulated, RunError> {
    let name = names[0];
    if names.len() > 1 || name.count > 1 || name.system.is_some() {
        return Err(not_beside_others(name));
    }
    if described.volumes.is_empty() {
        let device = match described.adapters {
            Some(_) => "raid5(ssd-gen3-emlc*3)*16",
            None if described.host.slots.flash_dimms_per_socket > 0 => "exflash-400g*8",
            None => "nvme-tlc-3840g*8",
        };
        return Err(RunError::Impossible(format!(
            "the system `{0}` lists no devices of its own: say which, such as 'model:{device}@{0}'",
            name.what
        )));
    }
    let mut wanted = Vec::new();
    for of in &described.volumes {
        let its = listed(of, file)?;
        let Found::Device(device) = look_up(&its.what, files)? else {
            let message = format!("`{}` is a system, not a device", its.what);
            return Err(Problem::at(file, of.span.clone(), message, None).into());
        };
        let mut device = device.device;
        settle(&mut device, name)?;
        let count = of.count * its.count;
        wanted.extend((0..count).map(|_| Wanted {
            device: device.clone(),
            array: its.array,
            name,
        }));
    }
    populate(described, file, wanted)
}

/// The devices or arrays of an entry in a system's list.
fn listed(of: &VolumesOf, file: &File) -> Result<ModelName, RunError> {
    let wrong = |message| Problem::at(file, of.span.clone(), message, None);
    match TargetName::parse(&format!("model:{}", of.device)) {
        Ok(TargetName::Model(name)) if !of.device.contains(['@', '?']) => Ok(name),
        Err(error) => Err(wrong(error.to_string()).into()),
        Ok(_) => Err(wrong("name a device or an array, without `@` and `?`".to_owned()).into()),
    }
}

/// A volume that is wanted: a device, or several as an array.
struct Wanted<'a> {
    device: Device,
    array: Option<ArrayName>,
    name: &'a ModelName,
}

/// Individually named devices, in the system that all of them name or are in by default.
fn devices_in_one_system(names: &[&ModelName], files: &mut Files) -> Result<Emulated, RunError> {
    let mut wanted = Vec::new();
    let mut host: Option<(String, &ModelName)> = None;
    for name in names {
        let Found::Device(found) = look_up(&name.what, files)? else {
            return Err(not_beside_others(name));
        };
        let its_host = name.system.clone().unwrap_or(found.default_host);
        match &host {
            Some((other, by)) if *other != its_host => {
                return Err(RunError::Impossible(format!(
                    "`{by}` is in the system {other} and `{name}` in {its_host}: one run is on one system; name the same one after `@` in both"
                )));
            }
            _ => host = Some((its_host, name)),
        }
        let mut device = found.device;
        settle(&mut device, name)?;
        let array = name.array;
        wanted.extend((0..name.count).map(|_| Wanted { device: device.clone(), array, name }));
    }
    let Some((host_name, _)) = host else {
        return Err(RunError::Impossible("there is no target".to_owned()));
    };
    let (described, file) = look_up::system(&host_name, files)?;
    populate(&described, &file, wanted)
}

fn not_beside_others(name: &ModelName) -> RunError {
    RunError::Impossible(format!(
        "`{}` is a system that lists its own devices: name it alone, without `*` and `@`",
        name.what
    ))
}

/// Places the devices in the server, if its rules allow it, and makes the arrays.
fn populate(
    described: &DescribedSystem,
    file: &File,
    wanted: Vec<Wanted<'_>>,
) -> Result<Emulated, RunError> {
    let cache_off = one_cache(&wanted)?;
    let strip_bytes = described.adapters.as_ref().map_or(STRIP_BYTES, |a| a.strip_bytes);
    let mut alike: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for Wanted { name, .. } in &wanted {
        alike.entry(name.volume(None)).or_default().1 += 1;
    }
    let (mut volumes, mut devices, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    for Wanted { device, array, name } in wanted {
        let (number, all) = alike.entry(name.volume(None)).or_default();
        *number += 1;
        let volume = volume(name, (*all > 1).then_some(*number));
        let members = array.map_or(1, |array| array.members as usize);
        let shape = array.map(|array| {
            let shape = ArrayShape {
                level: array.level,
                members: array.members,
                strip_bytes: array.strip_bytes.unwrap_or(strip_bytes),
                rotation: array.rotation,
            };
            (shape, array.text(&device.name))
        });
        groups.push((devices.len()..devices.len() + members, shape));
        let state = Preconditioned { how: Written::Fresh, fill: volume.fill };
        devices.extend((0..members).map(|_| (device.clone(), state)));
        volumes.push(volume);
    }
    let mut system = System::populate(described.name.as_str(), described.host.clone(), devices)
        .map_err(|broken| look_up::refused(described, file, &broken))?;
    if let Some(mut adapters) = described.adapters.clone() {
        if cache_off {
            adapters.cache = None;
        }
        system.attach(adapters).map_err(|broken| look_up::refused(described, file, &broken))?;
    }
    if cache_off && system.adapters.is_none() {
        return Err(RunError::Impossible(format!(
            "cache=off is about the write cache of RAID adapters, and {} has none: leave it out",
            described.name
        )));
    }
    system.group(groups).map_err(|(volume, broken)| {
        RunError::Impossible(format!("`{}`: {broken}", volumes[volume].name))
    })?;
    Ok(Emulated { system, volumes, live: false })
}

/// Whether the adapters' write cache is off, in which all names must agree.
fn one_cache(wanted: &[Wanted<'_>]) -> Result<bool, RunError> {
    let off = wanted.first().is_some_and(|first| first.name.cache_off);
    if wanted.iter().any(|other| other.name.cache_off != off) {
        return Err(RunError::Impossible(
            "cache=off is one choice for the adapters of the whole system: give it to all targets"
                .to_owned(),
        ));
    }
    Ok(off)
}

/// One volume as its name describes it.
fn volume(name: &ModelName, number: Option<u32>) -> EmulatedVolume {
    EmulatedVolume {
        asked: TargetName::Model(name.clone()),
        name: name.volume(number),
        state: name.state,
        fill: name.fill(),
    }
}

/// Applies the name's options to the device itself.
fn settle(device: &mut Device, name: &ModelName) -> Result<(), RunError> {
    if !name.max_occupancy {
        return Ok(());
    }
    if let Kind::Flash(flash) = &mut device.kind
        && let Attach::MemoryChannel { devices_per_thread, .. } = &mut flash.attach
    {
        *devices_per_thread = 1;
        return Ok(());
    }
    Err(RunError::Impossible(format!(
        "`{name}`: occupancy= is about the driver threads of flash DIMMs, and {} is none: leave it out",
        device.name
    )))
}

/// Where workers run, if any name gives it; all that do must agree.
fn one_choice(names: &[&ModelName]) -> Result<Option<bool>, RunError> {
    let mut given = names.iter().filter_map(|name| name.workers_near);
    let first = given.next();
    if given.any(|near| Some(near) != first) {
        return Err(RunError::Impossible(
            "workers=near and workers=anywhere can't be together: the workers' place is one choice for the whole system".to_owned(),
        ));
    }
    Ok(first)
}

/// The preconditioning of a volume, for a description without a workload.
pub fn state_in_words(volume: &EmulatedVolume) -> String {
    match volume.state {
        Precondition::Workload => "auto: as each workload would leave the device itself".to_owned(),
        Precondition::Random { block_bytes: None } => {
            "random in each workload's own blocks".to_owned()
        }
        given => {
            Preconditioned { how: Written::of(given, false, 0), fill: volume.fill }.to_string()
        }
    }
}
