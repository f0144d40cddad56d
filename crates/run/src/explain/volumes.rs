//! Accounts for the volumes of a simulated cell: phases and limit of all volumes of the same name together, because
//! different volumes have different phases and limits.

use super::account::{KindAccount, LevelAccount, kinds, levels};
use super::limit::{Limit, Load, Queue, limit};
use super::shares::Share;
use iodyno_drive::Modelled;
use iodyno_emulate::System;
use iodyno_emulate::spec::{Attach, Kind};
use iodyno_emulate::usage::VolumeUsage;
use iodyno_measure::{Cell, Summary};
use iodyno_workload::{ArrivalKind, Spec};
use std::collections::BTreeSet;

/// Results of the volumes of one name.
#[derive(Debug)]
pub struct VolumesAccount {
    /// Name of the volumes; None if all volumes of the cell have the same name.
    pub name: Option<String>,
    /// Number of volumes.
    pub volumes: usize,
    /// Operations per second, summed over the volumes.
    pub iops: f64,
    /// Bytes read and written per second, summed over the volumes.
    pub bytes_per_s: f64,
    /// Rate, latency and phases of each kind of operation that the cell issued.
    pub kinds: Vec<KindAccount>,
    /// Operations on components below the volumes: arrays behind adapters, and devices of arrays.
    pub below: Vec<LevelAccount>,
    /// The factor that limits the throughput of the volumes.
    pub limit: Limit,
}

/// Accounts for the volumes of each name, in the order of the volumes. `shares` are the resources of the whole system.
pub(super) fn by_name(spec: &Spec, m: &Modelled, shares: &[Share]) -> Vec<VolumesAccount> {
    let system = m.machine.system();
    let mut names: Vec<&str> = Vec::new();
    for volume in &system.volumes {
        if !names.contains(&volume.name.as_str()) {
            names.push(&volume.name);
        }
    }
    let is_one = names.len() == 1;
    let account = |name: &str| {
        let with_name = (0..).zip(&system.volumes).filter(|(_, of)| of.name == name);
        let volumes: Vec<usize> = with_name.map(|(volume, _)| volume).collect();
        VolumesAccount {
            name: (!is_one).then(|| name.to_owned()),
            ..of_volumes(spec, m, name, &volumes, shares)
        }
    };
    names.into_iter().map(account).collect()
}

/// Accounts for the volumes with these indices, which have the same name.
fn of_volumes(
    spec: &Spec,
    m: &Modelled,
    name: &str,
    volumes: &[usize],
    shares: &[Share],
) -> VolumesAccount {
    let system = m.machine.system();
    let mut all = m.cells[volumes[0]].clone();
    volumes[1..].iter().for_each(|&volume| all.merge(&m.cells[volume]));
    let usages: Vec<&VolumeUsage> = volumes.iter().map(|&of| &m.usage.volumes[of]).collect();
    let below = levels(&usages, m.usage.at_ns);
    let summary = Summary::of(&all);
    let shares: Vec<Share> = shares.iter().filter(|share| share.serves(name)).cloned().collect();
    let load = Load {
        ops_per_s: summary.ops_per_s,
        oio_mean: all.oio_mean(),
        offered_iops: match spec.arrivals() {
            ArrivalKind::Open { rate_iops, .. } => Some(rate_iops * volumes.len() as f64),
            ArrivalKind::Closed { .. } => None,
        },
        queue: queue(spec, system, volumes, &all, (&below, &shares)),
        has_free_cores: has_free_cores(spec, system),
    };
    VolumesAccount {
        name: None,
        volumes: volumes.len(),
        iops: summary.iops,
        bytes_per_s: summary.bytes_per_s,
        kinds: kinds(summary, &usages),
        below,
        limit: limit(&shares, load),
    }
}

/// The shortest command queue of the volumes' devices, and the load on it; None if no device has a limit. If the volumes
/// are not devices themselves, the load follows from Little's law, and is that of the busiest device. `below` and
/// `shares` are the accounts of the volumes.
fn queue(
    spec: &Spec,
    system: &System,
    volumes: &[usize],
    all: &Cell,
    (below, shares): (&[LevelAccount], &[Share]),
) -> Option<Queue> {
    let devices = volumes.iter().flat_map(|&volume| system.devices_of(volume as u32));
    let max = devices.filter_map(|placed| queue_max(&placed.device.kind)).min()?;
    if system.is_device(volumes[0] as u32) {
        let outstanding = u64::from(spec.threads()) * u64::from(spec.depth());
        let mean = all.oio_mean() / volumes.len() as f64;
        return Some(Queue { of: "the device", max, outstanding, mean });
    }
    let of_devices = below.iter().filter(|level| DEVICES.contains(&level.level));
    let on_devices: f64 = of_devices.map(|of| of.rate_iops * of.phases_ns() / 1e9).sum();
    let of_devices = shares.iter().filter(|share| share.is_of_devices());
    let busiest = of_devices.max_by(|a, b| a.peak().total_cmp(&b.peak()))?;
    let (part, is_even) = busiest.busiest_part();
    let of = if is_even { "each device" } else { "the busiest device" };
    let mean = on_devices * part;
    Some(Queue { of, max, outstanding: mean.round() as u64, mean })
}

/// Levels of [`LevelAccount`] that are devices with command queues.
const DEVICES: [&str; 3] = ["flash device", "disk", "cloud volume"];

/// Maximum number of commands that a device accepts simultaneously; None if the device has no limit.
fn queue_max(kind: &Kind) -> Option<u32> {
    match kind {
        Kind::Flash(flash) => match flash.attach {
            Attach::Link { queue_max, .. } => Some(queue_max),
            Attach::MemoryChannel { .. } => None,
        },
        Kind::Disk(disk) => Some(disk.queue_max),
        Kind::Volume(volume) => Some(volume.queue_max),
        Kind::Memory(_) => None,
    }
}

/// Whether a core on which workers may run has no worker.
fn has_free_cores(spec: &Spec, system: &System) -> bool {
    let volumes = system.volumes.len() as u32;
    let first = |volume| system.devices_of(volume).next().map(|placed| placed.socket);
    let near: BTreeSet<Option<u32>> = (0..volumes).map(first).collect();
    let host = &system.host;
    let sockets = if host.workers_near { near.len() as u32 } else { host.sockets };
    volumes * spec.threads() < sockets * host.cores_per_socket
}
