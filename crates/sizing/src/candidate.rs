//! The candidates among which a search chooses. Each combines a host (RAID adapters or a plain server) with arrays of
//! equal devices, all with the same RAID level and width.
//!
//! By default, all hot-swappable drives of the catalog are searched. A SAS drive is combined with each kind of RAID
//! adapter, in its fastest slots; any other drive with the server that is named in the drive's file. Devices that can't
//! be hot-swapped are searched only if the user names them.

use crate::demand::Demand;
use iodyno_catalog::{Kind as FileKind, list};
use iodyno_emulate::describe::{Bay, DescribedDevice, DescribedSystem, Parameter};
use iodyno_emulate::spec::{Adapters, Kind, Limit, Part};
use iodyno_raid::Level;
use iodyno_run::{Files, RunError, described_device, described_system, emulated};
use iodyno_targets::TargetName;
use iodyno_units::OpKind;

/// Maximum number of drives in a server without RAID adapters. A server of two rack units has this number of bays.
pub const SERVER_BAYS: u32 = 24;

/// The user's choice of what to search. An empty list means all suitable systems, devices or levels of the catalog.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Names of systems to search.
    pub hosts: Vec<String>,
    /// Names of devices to search.
    pub devices: Vec<String>,
    /// RAID levels to search.
    pub levels: Vec<Level>,
    /// Number of devices per array; `None`: the default for the RAID level.
    pub width: Option<u32>,
}

/// RAID levels that are searched by default. All of them survive the loss of a device.
pub const LEVELS: [Level; 3] = [Level::Raid5, Level::Raid6, Level::Raid10];

/// A system to be sized: host, device model and RAID level.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Name of the host, as it is used in target names. The host is a system with RAID adapters, or a server without
    /// them.
    pub host: String,
    pub host_summary: String,
    /// Parameters of the host, from its description in the catalog.
    pub host_parameters: Vec<Parameter>,
    /// RAID adapters of the host; `None` for a server without RAID adapters.
    pub adapters: Option<Adapters>,
    /// Name of the device, as in the name of an emulated target.
    pub device_name: String,
    /// Description of the device from the catalog or a file.
    pub device: DescribedDevice,
    pub level: Level,
    /// Number of devices per array.
    pub members: u32,
    /// Maximum number of arrays in one system.
    pub arrays_max: u32,
    /// Usable capacity of an array, bytes.
    pub array_bytes: u64,
    /// Whether a limit of the devices or of the host has burst credits. They don't count, so every trial starts without
    /// any.
    pub has_credits: bool,
    /// Assumed parameters of a software array's processor: time per stripe, ns, and rate of computing parity, bytes per
    /// second. `None` behind RAID adapters.
    pub(crate) parity: Option<(u64, f64)>,
}

impl Candidate {
    /// Name of one array, such as `raid5(ssd-gen3-emlc*3)`.
    pub fn array(&self) -> String {
        format!("{}({}*{})", self.level_word(), self.device_name, self.members)
    }

    /// Name of the RAID level, such as `raid5`.
    pub fn level_word(&self) -> &'static str {
        self.level.word()
    }

    /// Name of the emulated target that consists of one system with this number of arrays. It starts without burst
    /// credits.
    pub fn target(&self, arrays: u32) -> String {
        let credits = if self.has_credits { "?credits=0" } else { "" };
        format!("model:{}*{arrays}@{}{credits}", self.array(), self.host)
    }

    /// Name of the emulated target that consists of a single device in its default host. It starts without burst
    /// credits of its own.
    pub(crate) fn single_device(&self) -> String {
        let credits = if has_credits(&self.device.device.limits) { "?credits=0" } else { "" };
        format!("model:{}{credits}", self.device_name)
    }

    /// Number of RAID adapters in one system.
    pub fn adapter_count(&self) -> u32 {
        self.adapters.as_ref().map_or(0, |adapters| adapters.count)
    }

    /// True if the RAID adapters have a write cache.
    pub fn has_cache(&self) -> bool {
        self.adapters.as_ref().is_some_and(|adapters| adapters.cache.is_some())
    }

    /// Upper bound of one system's operations per second, set by the processors and PCIe slots of its adapters;
    /// infinite without adapters.
    pub fn iops_max(&self, demand: &Demand) -> f64 {
        let Some(a) = &self.adapters else { return f64::INFINITY };
        let writes = demand.write_share();
        let reads = 1.0 - writes;
        let (read_ns, write_ns) = (a.processor.read_ns as f64, a.processor.write_ns as f64);
        let processor = 1e9 / (reads * read_ns + writes * write_ns).max(f64::MIN_POSITIVE);
        let slot = |share: f64, kind: OpKind, bytes_per_s: f64| {
            bytes_per_s / (share * demand.mean_bytes(kind)).max(f64::MIN_POSITIVE)
        };
        let read_slot = slot(reads, OpKind::Read, a.slot.read_bytes_per_s);
        let write_slot = slot(writes, OpKind::Write, a.slot.write_bytes_per_s);
        f64::from(a.count) * processor.min(read_slot).min(write_slot)
    }
}

fn has_credits(limits: &[Limit]) -> bool {
    limits.iter().any(|limit| limit.credits.is_some())
}

struct Host {
    name: String,
    system: DescribedSystem,
}

/// Lists the candidates that match the user's choice, in the catalog's order.
///
/// # Errors
/// A name is unknown, a file is invalid, the RAID level does not allow the number of devices, or there is no
/// candidate.
pub fn candidates(choice: &Choice) -> Result<Vec<Candidate>, RunError> {
    let mut files = Files::default();
    let mut devices = Vec::new();
    let named = !choice.devices.is_empty();
    let in_catalog = list(FileKind::Device).map(|(name, _)| name.to_owned());
    let names = if named { choice.devices.clone() } else { in_catalog.collect() };
    for name in names {
        let device = described_device(&name, &mut files)?;
        if named && is_zoned(&device) {
            let message = format!(
                "`{name}` is zoned, but the demand's writes are not sequential within zones: name a device without zones"
            );
            return Err(RunError::Impossible(message));
        }
        if named || is_usual(&device) {
            devices.push((name, device));
        }
    }
    let hosts = hosts(choice, &mut files)?;
    let levels = if choice.levels.is_empty() { &LEVELS[..] } else { &choice.levels };
    let mut all = Vec::new();
    let mut refused = None;
    for (name, device) in &devices {
        let mut of_device: Vec<&Host> =
            hosts.iter().filter(|host| fits(host, device, choice)).collect();
        if choice.hosts.is_empty() {
            only_fastest_slots(&mut of_device, device);
        }
        let own = if of_device.is_empty() && choice.hosts.is_empty() {
            let system = described_system(&device.default_host, &mut files)?.0;
            Some(Host { name: device.default_host.clone(), system })
        } else {
            None
        };
        for host in of_device.into_iter().chain(&own) {
            for &level in levels {
                let members = choice.width.unwrap_or(level.least_members() as u32);
                match candidate(host, name, device, level, members, &mut files) {
                    Ok(candidate) => all.push(candidate),
                    Err(why) => refused = refused.or(Some(why)),
                }
            }
        }
    }
    if !all.is_empty() {
        return Ok(all);
    }
    Err(refused.unwrap_or_else(|| {
        RunError::Impossible(
            "no system is left to search: RAID adapters take only SAS devices; omit --adapter for other devices"
                .to_owned(),
        )
    }))
}

/// True for devices that are searched by default: hot-swappable drives.
fn is_usual(device: &DescribedDevice) -> bool {
    device.bay.is_some()
        && device.device.hot_swap
        && !matches!(device.device.kind, Kind::Memory(_))
        && !is_zoned(device)
}

fn is_zoned(device: &DescribedDevice) -> bool {
    matches!(&device.device.kind, Kind::Flash(flash) if flash.zones.is_some())
}

/// The systems that the user named, otherwise all systems with RAID adapters.
fn hosts(choice: &Choice, files: &mut Files) -> Result<Vec<Host>, RunError> {
    let named = !choice.hosts.is_empty();
    let in_catalog = list(FileKind::System).map(|(name, _)| name.to_owned());
    let names = if named { choice.hosts.clone() } else { in_catalog.collect() };
    let mut all = Vec::new();
    for name in names {
        let (system, _) = described_system(&name, files)?;
        if named && !system.volumes.is_empty() {
            let message = format!(
                "`{name}` lists devices of its own: name a system without devices, since `size` determines their number"
            );
            return Err(RunError::Impossible(message));
        }
        if named || (system.adapters.is_some() && system.volumes.is_empty()) {
            all.push(Host { name, system });
        }
    }
    Ok(all)
}

/// True if the host can use the device. Adapters accept SAS drives and, if the user named hosts, also drives
/// whose file states no kind of bay.
fn fits(host: &Host, device: &DescribedDevice, choice: &Choice) -> bool {
    match host.system.adapters {
        Some(_) => device.bay == Some(Bay::Sas) || !choice.hosts.is_empty() && device.bay.is_none(),
        None => true,
    }
}

/// Among adapters that differ only in PCIe slots or drawers, keeps one: that with the most devices, then the
/// fastest slots, then the fewest drawers, then the last one listed.
fn only_fastest_slots(hosts: &mut Vec<&Host>, device: &DescribedDevice) {
    let all: Vec<&Adapters> =
        hosts.iter().filter_map(|host| host.system.adapters.as_ref()).collect();
    let rank = |at: usize| {
        let (a, most) = (all[at], devices_max(Some(all[at]), device, None));
        (most, a.slot.read_bytes_per_s as u64, core::cmp::Reverse(a.drawers.count), at)
    };
    let same = |a: usize, b: usize| {
        let alike = Adapters { slot: all[b].slot, drawers: all[b].drawers, ..all[a].clone() };
        alike == *all[b]
    };
    let mut at = 0;
    hosts.retain(|host| {
        if host.system.adapters.is_none() {
            return true;
        }
        let own = at;
        at += 1;
        (0..all.len()).filter(|&other| same(own, other)).all(|other| rank(other) <= rank(own))
    });
}

/// Maximum number of devices of this kind behind the adapters, or in a server without adapters.
fn devices_max(adapters: Option<&Adapters>, device: &DescribedDevice, host: Option<&Host>) -> u32 {
    match adapters {
        Some(a) => {
            let is_ssd = matches!(device.device.kind, Kind::Flash(_));
            let by_kind = if is_ssd { a.ssds_max } else { u32::MAX };
            a.devices_max.min(by_kind).min(a.drawers.count * a.drawers.bays)
        }
        None if device.bay == Some(Bay::MemorySlot) => host.map_or(0, |host| {
            let slots = &host.system.host.slots;
            slots.flash_dimms_per_socket * host.system.host.sockets
        }),
        None => SERVER_BAYS,
    }
}

fn candidate(
    host: &Host,
    name: &str,
    device: &DescribedDevice,
    level: Level,
    members: u32,
    files: &mut Files,
) -> Result<Candidate, RunError> {
    let adapters = host.system.adapters.clone();
    let most = devices_max(adapters.as_ref(), device, Some(host));
    let mut candidate = Candidate {
        host: host.name.clone(),
        host_summary: host.system.summary.clone(),
        host_parameters: host.system.parameters.clone(),
        adapters,
        device_name: name.to_owned(),
        device: device.clone(),
        level,
        members,
        arrays_max: most / members.max(1),
        array_bytes: 0,
        has_credits: has_credits(&device.device.limits) || has_credits(&host.system.limits),
        parity: None,
    };
    if candidate.arrays_max == 0 {
        return Err(RunError::Impossible(format!(
            "{} takes at most {most} of {name}, but an array has {members}: use a smaller --width",
            host.name
        )));
    }
    // The emulator decides the usable capacity.
    let target = TargetName::parse(&candidate.target(1))?;
    if let Some(found) = emulated(&[target], files)? {
        candidate.array_bytes = found.system.capacity_bytes(0);
        candidate.parity = found.system.parts.iter().find_map(|part| match part {
            Part::Array(array) if array.path.is_none() => {
                Some((array.stripe_ns, array.parity_bytes_per_s))
            }
            _ => None,
        });
    }
    Ok(candidate)
}
