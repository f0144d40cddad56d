//! Samples external influences on a cell before and after it: I/O of other programs on the same device, processor time
//! stolen by the hypervisor, settings, heat, interrupts. Verdicts interpret the samples.

use crate::device_bytes::{self, device_number};
use iodyno_measure::{Cell, Conditions, DiskUse, IoLimit};
use iodyno_targets::{
    Counted, DeviceState, DiskStats, Inspection, Kind, MachineFacts, MachineState, PcieLink,
    SysRoot, io_limits, raid_at_work, used_share,
};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

/// Snapshot of the machine and of the targets' devices.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// Time at which the device counters were read.
    counted: Option<Instant>,
    machine: MachineState,
    cpu: Option<CpuTimes>,
    /// I/O counters of each target's device, or of the device with the target's file system.
    disks: Vec<Option<DiskStats>>,
    /// I/O counters of the devices at the bottom of each target's storage stack.
    bottoms: Vec<Option<Counted>>,
    /// State of the physical device below each target.
    devices: Vec<Option<DeviceState>>,
    /// Background work, such as a resync, of the RAID sets below each target.
    raid: Vec<Vec<String>>,
}

#[derive(Clone, Copy, Debug)]
struct CpuTimes {
    total: u64,
    stolen: u64,
}

impl Surroundings {
    /// Takes a snapshot of the counters and settings of the machine and the targets' devices before a cell.
    pub(crate) fn before(inspections: &[Inspection]) -> Self {
        let mut found = Self::state(inspections);
        // Counters are read last before the cell and first after it, so that this function's own reads are not
        // counted as the cell's I/O.
        found.count(inspections);
        found
    }

    /// Takes a snapshot of the counters and settings right after the cell.
    pub(crate) fn after(inspections: &[Inspection]) -> Self {
        let mut counted = Self::default();
        counted.count(inspections);
        let Self { counted, disks, bottoms, .. } = counted;
        Self { counted, disks, bottoms, ..Self::state(inspections) }
    }

    fn count(&mut self, inspections: &[Inspection]) {
        let root = SysRoot::real();
        let disk = |i: &Inspection| DiskStats::read(&root, device_number(i)?);
        self.counted = Some(Instant::now());
        self.disks = inspections.iter().map(disk).collect();
        let bottom = |i: &Inspection| i.stack.as_ref()?.count(&root);
        self.bottoms = inspections.iter().map(bottom).collect();
    }

    fn state(inspections: &[Inspection]) -> Self {
        let root = SysRoot::real();
        let carrier = |i: &Inspection| i.physical.first().or(i.device.as_ref()).map(|d| d.dev);
        let devices =
            inspections.iter().map(|i| carrier(i).and_then(|dev| DeviceState::now(&root, dev)));
        let cpu = std::fs::read_to_string("/proc/stat").ok().and_then(|text| cpu_times(&text));
        Self {
            machine: MachineState::now(&root),
            cpu,
            devices: devices.collect(),
            raid: inspections.iter().map(|i| raid_at_work(&root, i)).collect(),
            ..Self::default()
        }
    }

    /// Records the state of the machine, and its changes since `before`, in the evidence of `cells`. `companions`
    /// are cells that other ranks measured on this machine simultaneously; their I/O is not attributed to other
    /// programs.
    pub(crate) fn judge(
        &self,
        before: &Self,
        inspections: &[Inspection],
        cells: &mut [Cell],
        companions: &[(Inspection, Cell)],
    ) {
        let steal = match (before.cpu, self.cpu) {
            (Some(a), Some(b)) if b.total > a.total => {
                Some((b.stolen - a.stolen) as f64 / (b.total - a.total) as f64)
            }
            _ => None,
        };
        let pairs = self.disks.iter().zip(&before.disks);
        let mut moved: Vec<Option<DiskStats>> =
            pairs.map(|(now, then)| Some((*now)?.since(&(*then)?))).collect();
        let bottoms = before.bottoms.iter().copied().zip(self.bottoms.iter().copied());
        let mut bottoms: Vec<_> = bottoms.collect();
        let (mut all_inspections, mut all_cells) = (inspections.to_vec(), cells.to_vec());
        for (inspection, cell) in companions {
            // A device that this rank uses, too, has known counters; devices of other ranks only were not read here.
            let device = device_number(inspection);
            let own =
                inspections.iter().position(|i| device.is_some() && device_number(i) == device);
            moved.push(own.and_then(|own| moved[own]));
            bottoms.push(own.map_or((None, None), |own| bottoms[own]));
            all_inspections.push(inspection.clone());
            all_cells.push(cell.clone());
        }
        let foreign = device_bytes::foreign_shares(&all_inspections, &all_cells, &moved);
        let storage = device_bytes::storage(&all_inspections, &all_cells, &bottoms);
        let found = foreign.into_iter().zip(storage).enumerate();
        for ((i, (foreign, storage)), cell) in found.zip(cells.iter_mut()) {
            cell.evidence.steal_share = steal;
            cell.evidence.conditions = Some(self.conditions(before, i, &inspections[i]));
            cell.evidence.foreign_share = foreign;
            cell.evidence.storage = storage;
            let is_first =
                |dev| !inspections[..i].iter().any(|other| device_number(other) == Some(dev));
            cell.evidence.disk_use = match (&inspections[i].device, &moved[i]) {
                // NVMe passthrough commands bypass the block layer's counters.
                (Some(device), Some(moved))
                    if is_first(device.dev) && inspections[i].generic.is_none() =>
                {
                    Some(self.disk_use(before, &device.kernel_name, moved))
                }
                _ => None,
            };
        }
    }

    fn disk_use(&self, before: &Self, name: &str, moved: &DiskStats) -> DiskUse {
        let elapsed = self.counted.zip(before.counted).map(|(now, then)| now - then);
        DiskUse {
            name: name.to_owned(),
            elapsed_ns: elapsed.unwrap_or_default().as_nanos() as u64,
            reads: moved.reads,
            writes: moved.writes,
            read_bytes: moved.read_bytes,
            written_bytes: moved.written_bytes,
            read_merges: moved.read_merges,
            write_merges: moved.write_merges,
            read_ms: moved.read_ms,
            write_ms: moved.write_ms,
            queue_ms: moved.queue_ms,
            busy_ms: moved.busy_ms,
        }
    }

    /// Fraction of the time since `before` during which at least one program waited for a processor.
    fn processor_pressure(&self, before: &Self) -> Option<f64> {
        let elapsed = self.counted?.duration_since(before.counted?).as_micros() as f64;
        let waited_us = self.machine.cpu_waited_us?.saturating_sub(before.machine.cpu_waited_us?);
        (elapsed > 0.0).then(|| (waited_us as f64 / elapsed).min(1.0))
    }

    /// Conditions of the machine and the device during the cell of target `i`.
    fn conditions(&self, before: &Self, i: usize, inspection: &Inspection) -> Conditions {
        let facts = machine_facts();
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let (now, then) = (&self.machine, &before.machine);
        let mut found = Conditions {
            governor: now.governor.clone(),
            turbo: now.turbo,
            processor_pressure: self.processor_pressure(before),
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
        let limits = io_limits(&SysRoot::real(), inspection).into_iter();
        found.io_limits = limits
            .map(|of| IoLimit {
                source: of.source,
                is_of_reads: of.is_of_reads,
                is_of_bytes: of.is_of_bytes,
                per_s: of.per_s,
            })
            .collect();
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

/// Describes a PCIe link: `8.0 GT/s PCIe x2, of at most 16.0 GT/s PCIe x4`.
fn link_in_words(link: &PcieLink) -> String {
    let words = |speed: &Option<String>, width: Option<u64>| {
        let speed = speed.as_deref().unwrap_or("an unknown speed");
        width.map_or(speed.to_owned(), |lanes| format!("{speed} x{lanes}"))
    };
    format!(
        "{}, of at most {}",
        words(&link.current_speed, link.current_width),
        words(&link.max_speed, link.max_width)
    )
}

/// Properties of the machine that do not change while the process runs.
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

/// Used fraction of the file system that contains the target's file. None for a file system in memory, which
/// does not fragment.
fn file_system_used(inspection: &Inspection) -> Option<f64> {
    let file_system = inspection.file_system.as_ref()?;
    if inspection.kind != Kind::File || file_system.is_memory() {
        return None;
    }
    used_share(Path::new(inspection.canonical_path.as_deref()?))
}

/// Parses the line `cpu  user nice system idle iowait irq softirq steal …` of /proc/stat.
fn cpu_times(text: &str) -> Option<CpuTimes> {
    let fields: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    Some(CpuTimes { total: fields.iter().take(8).sum(), stolen: *fields.get(7)? })
}

/// Size of the machine's memory, bytes.
pub(crate) fn ram_bytes() -> Option<u64> {
    // SAFETY: sysconf reads constants of the system.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    (pages > 0 && size > 0).then_some(pages as u64 * size as u64)
}
