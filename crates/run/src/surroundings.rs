//! What happens around a cell and is not ours: I/O of others on the same device, processor time
//! stolen by the hypervisor.

use iodyno_measure::Cell;
use iodyno_target::{DevNo, DiskStats, Inspection, SysRoot};

/// Below this much of our own I/O, what others did is not compared with it.
const MOVED_BYTES_MIN: f64 = (64 << 20) as f64;

/// Counters at one instant.
#[derive(Debug)]
pub(crate) struct Surroundings {
    disks: Vec<Option<DiskStats>>,
    cpu: Option<CpuTimes>,
}

#[derive(Clone, Copy, Debug)]
struct CpuTimes {
    total: u64,
    stolen: u64,
}

impl Surroundings {
    /// Reads the counters of every target's device.
    pub(crate) fn now(inspections: &[Inspection]) -> Self {
        let root = SysRoot::real();
        let disks = inspections
            .iter()
            .map(|i| device_number(i).and_then(|dev| DiskStats::read(&root, dev)))
            .collect();
        let cpu = std::fs::read_to_string("/proc/stat").ok().and_then(|text| cpu_times(&text));
        Self { disks, cpu }
    }

    /// Puts what changed since `before` into the cells' evidence.
    pub(crate) fn judge(&self, before: &Self, cells: &mut [Cell]) {
        let steal = match (before.cpu, self.cpu) {
            (Some(a), Some(b)) if b.total > a.total => {
                Some((b.stolen - a.stolen) as f64 / (b.total - a.total) as f64)
            }
            _ => None,
        };
        for (i, cell) in cells.iter_mut().enumerate() {
            cell.evidence.steal_share = steal;
            if cell.evidence.direct != Some(true) {
                continue;
            }
            if let (Some(Some(a)), Some(Some(b))) = (before.disks.get(i), self.disks.get(i)) {
                cell.evidence.foreign_share = foreign_share(cell, &b.since(a));
            }
        }
    }
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
