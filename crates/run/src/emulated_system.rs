//! Resolves the names of emulated targets to the one system that contains them all as volumes. Looks up devices and
//! host, places the devices, and refuses targets that don't form one system.

mod look_up;

use crate::emulated::{Emulated, EmulatedVolume};
use crate::files::Files;
use crate::outcome::RunError;
use iodyno_catalog::{File, Problem};
use iodyno_emulate::System;
use iodyno_emulate::describe::{
    Bay, DescribedDevice, DescribedSystem, VolumeClass, VolumesOf, start_with,
};
use iodyno_emulate::spec::{
    ArrayShape, Attach, Device, Group, Kind, Limit, Preconditioned, STRIP_BYTES, Written,
};
use iodyno_targets::{ArrayName, ModelName, TargetName};
use iodyno_units::{Precondition, VolumeOptions, human};
use look_up::{Found, look_up};
pub use look_up::{device as described_device, summary, system as described_system};
use std::collections::BTreeMap;

/// Builds the emulated system whose volumes are the targets of a run; None for real targets. Adds the text of each
/// file named by path to `files`; a file that `files` already contains is not read again.
///
/// # Errors
/// A name is unknown, a file is invalid, or the targets are not volumes of one system.
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
            "`{first}` and `{other}` can't share a run, because one is in virtual time and the other in real time: run them one after the other"
        )));
    }
    let live = first.live;
    if let Some(real) = real {
        return Err(RunError::Impossible(format!(
            "`{first}` is emulated and `{real}` is real, and such targets can't share a run: run them one after the other"
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

/// Returns the distinct devices of the system `name`, including read caches, as their files describe them; a single
/// device if `name` is a device.
///
/// # Errors
/// A name is unknown, or a file is invalid.
pub fn described(name: &ModelName) -> Result<Vec<DescribedDevice>, RunError> {
    let mut all: Vec<DescribedDevice> = Vec::new();
    let mut files = Files::default();
    match look_up(&name.what, &mut files)? {
        Found::Device(mut device) => {
            let shared = shared_limits(name, &device.default_host, &mut files)?;
            choose(&mut device, name, &name.volume, &shared)?;
            all.push(*device);
        }
        Found::System(system, file) => {
            for of in &system.volumes {
                let its = listed(of, &file)?;
                let mut device = look_up::device(&its.what, &mut files)?;
                choose(&mut device, name, &its.volume, &[])?;
                let cache = of.read_cache.as_ref();
                let cache = cache.map(|(cache, _)| look_up::device(cache, &mut files));
                for device in [device].into_iter().chain(cache.transpose()?) {
                    if all.iter().all(|d| d.device.name != device.device.name) {
                        all.push(device);
                    }
                }
            }
        }
    }
    Ok(all)
}

/// Builds a system whose file lists its volumes. A run on such a system can't have other targets.
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
            "the system `{0}` lists no devices of its own: name the device too, such as 'model:{device}@{0}'",
            name.what
        )));
    }
    let credits = name.volume.credits;
    if name.volume != (VolumeOptions { credits, ..VolumeOptions::default() }) {
        return Err(RunError::Impossible(format!(
            "`{name}`: size=, iops=, mbps= and bursting= can't be given here: set them in the system's file, after the name of the volume"
        )));
    }
    let mut wanted = Vec::new();
    for of in &described.volumes {
        let its = listed(of, file)?;
        let Found::Device(mut device) = look_up(&its.what, files)? else {
            let message = format!("`{}` is a system, not a device", its.what);
            return Err(Problem::at(file, of.span.clone(), message, None).into());
        };
        choose(&mut device, name, &VolumeOptions { credits, ..its.volume }, &described.limits)?;
        let (bay, class) = (device.bay, device.class);
        let mut device = device.device;
        settle(&mut device, name)?;
        let count = of.count * its.count;
        let cache = read_cache(of, described, file, files)?;
        wanted.extend((0..count).map(|_| Wanted {
            device: device.clone(),
            bay,
            class: class.clone(),
            arrays: its.arrays.clone(),
            read_cache: cache.clone().map(|cache| (cache, of.read_cache_bytes)),
            name,
        }));
    }
    populate(described, file, &wanted)
}

/// Looks up the device that caches reads for the volumes of an entry in a system file; None if the entry has
/// no read cache.
fn read_cache(
    of: &VolumesOf,
    system: &DescribedSystem,
    file: &File,
    files: &mut Files,
) -> Result<Option<Device>, RunError> {
    let Some((name, span)) = &of.read_cache else { return Ok(None) };
    let wrong = |message: String| Problem::at(file, span.clone(), message, None);
    if system.adapters.is_some() {
        let message = "a read cache must be attached to the host, but all devices of this system are behind adapters (rule `read-cache`)";
        return Err(wrong(message.to_owned()).into());
    }
    match look_up(name, files) {
        Ok(Found::Device(device)) if of.read_cache_bytes > device.device.capacity_bytes() => {
            let message = format!(
                "`read_cache_size` is {}, but {name} has only {} (rule `read-cache`)",
                human::size(of.read_cache_bytes),
                human::size(device.device.capacity_bytes())
            );
            Err(wrong(message).into())
        }
        Ok(Found::Device(device)) => Ok(Some(device.device)),
        Ok(Found::System(..)) => {
            Err(wrong(format!("`{name}` is a system, not a device (rule `read-cache`)")).into())
        }
        Err(error) => Err(wrong(error.to_string()).into()),
    }
}

/// Parses the device or array of a volume entry in a system file.
fn listed(of: &VolumesOf, file: &File) -> Result<ModelName, RunError> {
    let wrong = |message| Problem::at(file, of.span.clone(), message, None);
    match TargetName::parse(&format!("model:{}", of.device)) {
        Ok(TargetName::Model(name)) if is_device_alone(&name) => Ok(name),
        Err(error) => Err(wrong(error.to_string()).into()),
        Ok(_) => {
            let message = "name a device or an array, without `@` and with no options except those of a cloud volume";
            Err(wrong(message.to_owned()).into())
        }
    }
}

/// Whether a name has no system, and no options but those of a cloud volume.
fn is_device_alone(name: &ModelName) -> bool {
    name.system.is_none()
        && name.state == Precondition::Workload
        && name.fill() >= 1.0
        && !(name.max_occupancy || name.cache_off)
        && name.workers_near.is_none()
}

fn has_credits(limits: &[Limit]) -> bool {
    limits.iter().any(|limit| limit.credits.is_some())
}

/// Applies the options of a cloud volume to a device of the target `name`. `shared`: the limits of its system, to which
/// `credits=` applies too. A device without credits ignores `credits=` if the shared limits have any.
fn choose(
    device: &mut DescribedDevice,
    name: &ModelName,
    options: &VolumeOptions,
    shared: &[Limit],
) -> Result<(), RunError> {
    let mut choose = |options: &VolumeOptions| {
        device.choose(options).map_err(|why| RunError::Impossible(format!("`{name}`: {why}")))?;
        Ok::<_, RunError>(has_credits(&device.device.limits))
    };
    if options.credits.is_some() && has_credits(shared) {
        let has_own = choose(&VolumeOptions { credits: None, ..*options })?;
        if !has_own {
            return Ok(());
        }
    }
    choose(options).map(drop)
}

/// Limits of the system that a device is put into, if the name sets credits.
fn shared_limits(
    name: &ModelName,
    default_host: &str,
    files: &mut Files,
) -> Result<Vec<Limit>, RunError> {
    if name.volume.credits.is_none() {
        return Ok(Vec::new());
    }
    let host = name.system.as_deref().unwrap_or(default_host);
    Ok(look_up::system(host, files)?.0.limits)
}

/// A requested volume: a single device, an array of devices, or an array of arrays.
struct Wanted<'a> {
    device: Device,
    /// Bay or slot that the device occupies; `None`: unknown.
    bay: Option<Bay>,
    /// Class of the cloud volume; `None` for other devices.
    class: Option<VolumeClass>,
    arrays: Vec<ArrayName>,
    /// Device that caches the volume's reads, and size of the cache in bytes; 0: the whole device.
    read_cache: Option<(Device, u64)>,
    name: &'a ModelName,
}

/// Puts individually named devices into one system: the one that all names specify, or the default.
fn devices_in_one_system(names: &[&ModelName], files: &mut Files) -> Result<Emulated, RunError> {
    let mut wanted = Vec::new();
    let mut host: Option<(String, &ModelName)> = None;
    for name in names {
        let Found::Device(mut found) = look_up(&name.what, files)? else {
            return Err(not_beside_others(name));
        };
        let shared = shared_limits(name, &found.default_host, files)?;
        choose(&mut found, name, &name.volume, &shared)?;
        let its_host = name.system.clone().unwrap_or(found.default_host);
        match &host {
            Some((other, by)) if *other != its_host => {
                return Err(RunError::Impossible(format!(
                    "`{by}` is in the system {other} and `{name}` in {its_host}, but a run can use only one system: name the same one after `@` in both"
                )));
            }
            _ => host = Some((its_host, name)),
        }
        let mut device = found.device;
        settle(&mut device, name)?;
        wanted.extend((0..name.count).map(|_| Wanted {
            device: device.clone(),
            bay: found.bay,
            class: found.class.clone(),
            arrays: name.arrays.clone(),
            read_cache: None,
            name,
        }));
    }
    let Some((host_name, _)) = host else {
        return Err(RunError::Impossible("no target is given".to_owned()));
    };
    let (described, file) = look_up::system(&host_name, files)?;
    populate(&described, &file, &wanted)
}

fn not_beside_others(name: &ModelName) -> RunError {
    RunError::Impossible(format!(
        "`{}` is a system that lists its own devices: name it alone, without `*` and `@`",
        name.what
    ))
}

/// Puts the devices into the system, if the system's rules allow them, and builds the arrays.
fn populate(
    described: &DescribedSystem,
    file: &File,
    wanted: &[Wanted<'_>],
) -> Result<Emulated, RunError> {
    let cache_off = one_cache(wanted)?;
    let strip_bytes = described.adapters.as_ref().map_or(STRIP_BYTES, |a| a.strip_bytes);
    let mut alike: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for Wanted { name, .. } in wanted {
        alike.entry(name.volume(None)).or_default().1 += 1;
    }
    let (mut volumes, mut devices) = (Vec::new(), Vec::new());
    for Wanted { device, arrays, name, .. } in wanted {
        let (number, all) = alike.entry(name.volume(None)).or_default();
        *number += 1;
        let volume = volume(name, (*all > 1).then_some(*number));
        let state = Preconditioned { how: Written::Fresh, fill: volume.fill };
        let members = ArrayName::devices(arrays);
        devices.extend((0..members).map(|_| (device.clone(), state)));
        volumes.push(volume);
    }
    let pooled = pool(wanted, &mut devices).map_err(RunError::Impossible)?;
    // Read caches, after all volumes: the number of the cached volume, the device, the size in bytes.
    let mut caches = Vec::new();
    for (volume, of) in wanted.iter().enumerate() {
        let Some((device, bytes)) = &of.read_cache else { continue };
        let state = Preconditioned { how: Written::Fresh, fill: 1.0 };
        devices.push((device.clone(), state));
        caches.push((volume, *bytes));
    }
    let mut system = System::populate(described.name.as_str(), described.host.clone(), devices)
        .map_err(|broken| look_up::refused(described, file, &broken))?;
    system.limits.clone_from(&described.limits);
    system.limits.extend(pooled);
    let credits = wanted.iter().find_map(|of| of.name.volume.credits);
    if let Some(credits) = credits.filter(|_| has_credits(&system.limits)) {
        start_with(&described.name, credits, &mut system.limits).map_err(RunError::Impossible)?;
    }
    if let Some(mut adapters) = described.adapters.clone() {
        let bays = wanted.iter().filter_map(|of| Some((&of.device.name, of.bay?)));
        let broken = bays.map(|(name, bay)| bay.check_behind_adapters(name)).find_map(Result::err);
        if let Some(broken) = broken {
            return Err(look_up::refused(described, file, &[broken]));
        }
        if cache_off {
            adapters.cache = None;
        }
        system.attach(adapters).map_err(|broken| look_up::refused(described, file, &broken))?;
    }
    if cache_off && system.adapters.is_none() {
        return Err(RunError::Impossible(format!(
            "cache=off turns off the write cache of RAID adapters, but {} has none: leave cache=off out",
            described.name
        )));
    }
    let depth = wanted.iter().map(|of| of.arrays.len()).max().unwrap_or(0);
    for level in 0..depth.max(1) {
        // An array behind adapters has their strip size; an array of such volumes is made by the host.
        let strip_bytes = if level == 0 { strip_bytes } else { STRIP_BYTES };
        let (mut groups, of) = groups(wanted, level, strip_bytes);
        let end = groups.last().map_or(0, |group| group.0.end);
        groups.extend((end..end + caches.len()).map(|at| (at..at + 1, None)));
        system.group(groups).map_err(|(group, broken)| {
            RunError::Impossible(format!("`{}`: {broken}", volumes[of[group]].name))
        })?;
    }
    system.cache_reads(&caches);
    system.check_trees().map_err(RunError::Impossible)?;
    Ok(Emulated { system, volumes, live: false })
}

/// Takes the limits of devices that share them, and returns the shared ones: those of a pooled class, as Google's
/// Persistent Disks ("Configure disks to meet performance requirements"). Volumes of other classes beside them would
/// share these limits too, so the limits then stay with each volume.
fn pool(
    wanted: &[Wanted<'_>],
    devices: &mut [(Device, Preconditioned)],
) -> Result<Vec<Limit>, String> {
    let is_volume = |device: &Device| matches!(device.kind, Kind::Volume(_));
    let mut volumes = wanted.iter().filter(|of| is_volume(&of.device));
    let Some((first, class)) = volumes.next().and_then(|of| Some((of, of.class.as_ref()?))) else {
        return Ok(Vec::new());
    };
    let all = devices.iter_mut().map(|(device, _)| device).filter(|device| is_volume(device));
    let mut all: Vec<&mut Device> = all.collect();
    if !class.is_pooled || all.len() < 2 || volumes.any(|of| of.class.as_ref() != Some(class)) {
        return Ok(Vec::new());
    }
    let all_bytes = all.iter().map(|device| device.capacity_bytes()).sum();
    for device in &mut all {
        device.limits.clear();
    }
    class.pooled_limits(&first.name.volume, all_bytes)
}

/// Groups existing volumes into the arrays of one level (0: arrays of devices). Returns the groups, and for each group
/// the index of the requested volume to which it belongs.
fn groups(wanted: &[Wanted<'_>], level: usize, strip_bytes: u64) -> (Vec<Group>, Vec<usize>) {
    let (mut groups, mut of) = (Vec::<Group>::new(), Vec::new());
    for (number, Wanted { device, arrays, .. }) in wanted.iter().enumerate() {
        let from = groups.last().map_or(0, |group| group.0.end);
        let Some(array) = arrays.get(level) else {
            groups.push((from..from + 1, None));
            of.push(number);
            continue;
        };
        let shape = ArrayShape {
            level: array.level,
            members: array.members,
            strip_bytes: array.strip_bytes.unwrap_or(strip_bytes),
            rotation: array.rotation,
        };
        let text = |text: String, array: &ArrayName| array.text(&text);
        let name = arrays[..=level].iter().fold(device.name.clone(), text);
        let members = array.members as usize;
        for n in 0..ArrayName::devices(&arrays[level + 1..]) as usize {
            let from = from + n * members;
            groups.push((from..from + members, Some((shape, name.clone()))));
            of.push(number);
        }
    }
    (groups, of)
}

/// Whether `cache=off` turns the adapters' write cache off. An error if only some of the targets specify it.
fn one_cache(wanted: &[Wanted<'_>]) -> Result<bool, RunError> {
    let off = wanted.first().is_some_and(|first| first.name.cache_off);
    if wanted.iter().any(|other| other.name.cache_off != off) {
        return Err(RunError::Impossible(
            "cache=off applies to all adapters of the system: give it to all targets or to none"
                .to_owned(),
        ));
    }
    Ok(off)
}

/// Creates a volume with the options in its name. Appends `number` to the volume's name if the target's name stands for
/// several volumes.
fn volume(name: &ModelName, number: Option<u32>) -> EmulatedVolume {
    EmulatedVolume {
        asked: TargetName::Model(name.clone()),
        name: name.volume(number),
        state: name.state,
        fill: name.fill(),
    }
}

/// Applies options of the name, such as `occupancy=`, to the device.
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
        "`{name}`: occupancy= sets the driver threads of flash DIMMs, but {} is not one: leave occupancy= out",
        device.name
    )))
}

/// Value of the option `workers=` (true: `near`); None if no name has the option. An error if names
/// contradict each other.
fn one_choice(names: &[&ModelName]) -> Result<Option<bool>, RunError> {
    let mut given = names.iter().filter_map(|name| name.workers_near);
    let first = given.next();
    if given.any(|near| Some(near) != first) {
        return Err(RunError::Impossible(
            "workers=near and workers=anywhere can't be combined: workers= applies to the whole system".to_owned(),
        ));
    }
    Ok(first)
}

/// Describes the preconditioning of a volume, for use before a workload is known.
pub fn state_in_words(volume: &EmulatedVolume) -> String {
    match volume.state {
        Precondition::Workload => {
            "auto: the state in which each workload would leave the device".to_owned()
        }
        Precondition::Random { block_bytes: None } => {
            "random, in the block size of each workload".to_owned()
        }
        given => {
            Preconditioned { how: Written::of(given, false, 0), fill: volume.fill }.to_string()
        }
    }
}
