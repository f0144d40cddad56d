//! What happens around a cell and is not ours: I/O of others on the same device, processor time
//! stolen by the hypervisor, settings, heat, interrupts. Read before it and after it; what it means is said by
//! the verdicts.

use iodyno_measure::{Cell, Conditions};
use iodyno_target::{
    DevNo, DeviceState, DiskStats, Inspection, Kind, MachineFacts, MachineState, PcieLink, SysRoot,
    raid_at_work, used_share,
};
use std::path::Path;
use std::sync::OnceLock;

/// Below this much of our own I/O, what others did is not compared with it.
const MOVED_BYTES_MIN: f64 = (64 << 20) as f64;

/// What is around the cells at one instant.
#[derive(Debug)]
pub(crate) struct Surroundings {
    machine: MachineState,
    cpu: Option<CpuTimes>,
    /// By target.
    disks: Vec<Option<DiskStats>>,
    /// By target, the device that carries it.
    devices: Vec<Option<DeviceState>>,
    /// By target, what its RAID sets do for themselves.
    raid: Vec<Vec<String>>,
}

#[derive(Clone, Copy, Debug)]
struct CpuTimes {
    total: u64,
    stolen: u64,
}

impl Surroundings {
    /// Reads the counters and settings of the machine and of every target's device.
    pub(crate) fn now(inspections: &[Inspection]) -> Self {
        let root = SysRoot::real();
        let disks = inspections
            .iter()
            .map(|i| device_number(i).and_then(|dev| DiskStats::read(&root, dev)))
            .collect();
        let carrier = |i: &Inspection| i.physical.first().or(i.device.as_ref()).map(|d| d.dev);
        let devices =
            inspections.iter().map(|i| carrier(i).and_then(|dev| DeviceState::now(&root, dev)));
        let cpu = std::fs::read_to_string("/proc/stat").ok().and_then(|text| cpu_times(&text));
        Self {
            machine: MachineState::now(&root),
            cpu,
            disks,
            devices: devices.collect(),
            raid: inspections.iter().map(|i| raid_at_work(&root, i)).collect(),
        }
    }

    /// Puts what was so, and what changed since `before`, into the evidence of these targets' cells.
    pub(crate) fn judge(&self, before: &Self, inspections: &[Inspection], cells: &mut [Cell]) {
        let steal = match (before.cpu, self.cpu) {
            (Some(a), Some(b)) if b.total > a.total => {
                Some((b.stolen - a.stolen) as f64 / (b.total - a.total) as f64)
            }
            _ => None,
        };
        for (i, (cell, inspection)) in cells.iter_mut().zip(inspections).enumerate() {
            cell.evidence.steal_share = steal;
            cell.evidence.conditions = Some(self.conditions(before, i, inspection));
            if cell.evidence.direct != Some(true) {
                continue;
            }
            if let (Some(Some(a)), Some(Some(b))) = (before.disks.get(i), self.disks.get(i)) {
                cell.evidence.foreign_share = foreign_share(cell, &b.since(a));
            }
        }
    }

    /// The conditions of target `i`.
    fn conditions(&self, before: &Self, i: usize, inspection: &Inspection) -> Conditions {
        let facts = machine_facts();
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let (now, then) = (&self.machine, &before.machine);
        let mut found = Conditions {
            governor: now.governor.clone(),
            turbo: now.turbo,
            processor_throttles: since(now.throttles, then.throttles),
            clock_source: now.clock_source.clone(),
            hypervisor: facts.hypervisor,
            mitigations: Some(facts.mitigated),
            swapped_pages: since(now.swapped_pages, then.swapped_pages),
            major_faults: since(now.major_faults, then.major_faults),
            changed: now.changed_since(then),
            file_system_used: file_system_used(inspection),
            ..Conditions::default()
        };
        found.raid_at_work.clone_from(&self.raid[i]);
        for words in &before.raid[i] {
            if !found.raid_at_work.contains(words) {
                found.raid_at_work.push(words.clone());
            }
        }
        if let (Some(a), Some(b)) = (before.disks[i], self.disks[i]) {
            found.in_flight_before = Some(a.reads_in_flight + a.writes_in_flight);
            found.discarded_bytes = Some(b.since(&a).discarded_bytes);
        }
        if let (Some(a), Some(b)) = (&before.devices[i], &self.devices[i]) {
            found.changed.extend(b.changed_since(a));
            let interrupts = b.interrupts_since(a);
            found.interrupts = interrupts.map(|(n, _)| n);
            found.interrupts_on_one = interrupts.map(|(_, share)| share);
            found.temperature_c = b.device.temperature_c;
            found.temperature_warning_c = b.device.temperature_warning_c;
            found.physical_block_bytes = b.device.physical_block_bytes;
            found.write_cache.clone_from(&b.device.write_cache);
            found.link_below =
                b.device.pcie.as_ref().filter(|l| l.is_below_capability()).map(link_in_words);
        }
        found
    }
}

/// `8.0 GT/s PCIe x2, and could at 16.0 GT/s PCIe x4`.
fn link_in_words(link: &PcieLink) -> String {
    let words = |speed: &Option<String>, width: Option<u64>| {
        let speed = speed.as_deref().unwrap_or("an unknown speed");
        width.map_or(speed.to_owned(), |lanes| format!("{speed} x{lanes}"))
    };
    format!(
        "{}, and could at {}",
        words(&link.current_speed, link.current_width),
        words(&link.max_speed, link.max_width)
    )
}

/// What does not change while a process lives.
struct Facts {
    hypervisor: Option<bool>,
    mitigated: u32,
}

fn machine_facts() -> &'static Facts {
    static FACTS: OnceLock<Facts> = OnceLock::new();
    FACTS.get_or_init(|| {
        let facts = MachineFacts::gather();
        let guarded = facts.mitigations.values().filter(|text| text.starts_with("Mitigation"));
        Facts { hypervisor: facts.hypervisor, mitigated: guarded.count() as u32 }
    })
}

/// Of the file system that holds a file; what is memory does not fragment.
fn file_system_used(inspection: &Inspection) -> Option<f64> {
    let file_system = inspection.file_system.as_ref()?;
    if inspection.kind != Kind::File || file_system.is_memory() {
        return None;
    }
    used_share(Path::new(inspection.canonical_path.as_deref()?))
}

/// The device whose counters show a target's I/O.
fn device_number(inspection: &Inspection) -> Option<DevNo> {
    inspection.device.as_ref().map(|d| d.dev)
}

/// `cpu  user nice system idle iowait irq softirq steal …` of /proc/stat.
fn cpu_times(text: &str) -> Option<CpuTimes> {
    let fields: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    Some(CpuTimes { total: fields.iter().take(8).sum(), stolen: *fields.get(7)? })
}

/// Bytes that the device moved beyond ours, as a share of ours.
fn foreign_share(cell: &Cell, device: &DiskStats) -> Option<f64> {
    let ours = cell.resources.moved_bytes as f64;
    let all = (device.read_bytes + device.written_bytes) as f64;
    // Short cells are dominated by whatever the file system does once.
    (ours >= MOVED_BYTES_MIN).then(|| (all / ours - 1.0).max(0.0))
}

/// Memory of the machine, bytes.
pub(crate) fn ram_bytes() -> Option<u64> {
    // SAFETY: sysconf reads constants of the system.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    (pages > 0 && size > 0).then_some(pages as u64 * size as u64)
}
