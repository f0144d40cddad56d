//! Counts the bytes moved by the devices at the bottom of a storage stack, from the kernel's sector counters.

use super::walk::{is_multipath_head, is_served, memory_device};
use super::{End, Stack};
use crate::inspect::DiskStats;
use crate::inspect::topology::BlockNode;
use crate::sysroot::{DevNo, SysRoot};

/// Bytes that the devices below a target have read and written, since boot or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes read, summed over the devices.
    pub read_bytes: u64,
    /// Bytes written, summed over the devices. Before Linux 4.18, discarded bytes are included.
    pub written_bytes: u64,
}

impl Counted {
    /// Bytes read and written since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }

    fn add(&mut self, other: Self) {
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

impl Stack {
    /// Reads the byte counters of the devices at the bottom of the stack. `None` if the counters can't show the
    /// target's I/O, for example because the storage is memory or on another machine, or because counting is disabled.
    pub fn count(&self, root: &SysRoot) -> Option<Counted> {
        if !matches!(self.end, End::Device | End::Served | End::Memory) || self.uncounted {
            return None;
        }
        let mut devices: Vec<DevNo> = self.lowest.iter().map(|lowest| lowest.dev).collect();
        let mut sum = Counted::default();
        if self.anywhere {
            sum = network(root)?;
            for disk in disks(root) {
                // A driver without counters hides bytes. A disk without a medium has none.
                if is_without_counts(root, disk.dev)?
                    && disk.attr_u64("size") != Some(0)
                    && disk.attr_u64("removable") != Some(1)
                {
                    return None;
                }
                devices.push(disk.dev);
            }
            devices.sort_unstable();
            devices.dedup();
        }
        let mut any = false;
        for dev in devices {
            let (counted, does_count) = counters(root, dev)?;
            sum.add(counted);
            any |= does_count;
        }
        any.then_some(sum)
    }
}

fn is_without_counts(root: &SysRoot, dev: DevNo) -> Option<bool> {
    counters(root, dev).map(|(_, does_count)| !does_count)
}

/// Counters of one device, and whether the kernel counts its I/O at all. The kernel's scan for partitions reads every
/// disk, so I/O is not counted on a disk whose counters are zero. `None` if counting is disabled (`queue/iostats`), if
/// the device is gone, or if I/O is counted on the disk but not on its partition.
fn counters(root: &SysRoot, dev: DevNo) -> Option<(Counted, bool)> {
    let node = BlockNode::by_number(root, dev)?;
    let disk = node.whole_disk().unwrap_or_else(|| node.clone());
    if disk.attr("queue/iostats").as_deref() == Some("0") {
        return None;
    }
    let whole = DiskStats::read(root, disk.dev)?;
    // The kernel counts all I/O of a multipath head under its disk, none under its partitions.
    let stats = if is_multipath_head(&disk) { whole } else { DiskStats::read(root, dev)? };
    let is_used = |stats: &DiskStats| stats.reads + stats.writes > 0;
    if is_used(&whole) && !is_used(&stats) {
        return None;
    }
    let counted = Counted { read_bytes: stats.read_bytes, written_bytes: stats.written_bytes };
    Some((counted, is_used(&whole)))
}

/// Physical disks of the machine: not composed of others, not memory, and not served by a process or the
/// kernel's own SCSI or NVMe target.
fn disks(root: &SysRoot) -> Vec<BlockNode> {
    let names = root.list("sys/class/block");
    let nodes = names.iter().filter_map(|name| BlockNode::by_name(root, name));
    let is_disk = |node: &BlockNode| {
        // The paths of a multipath head are hidden: their I/O is counted at the head.
        !node.is_partition()
            && !node.is_virtual()
            && node.attr_u64("hidden") != Some(1)
            && memory_device(node).is_none()
            && !is_served(node)
            && node.slaves(root).is_empty()
    };
    nodes.filter(is_disk).collect()
}

/// Bytes sent and received over the machine's network, through which a process may access storage elsewhere.
/// `None` if InfiniBand, or a device driven by a process, may transfer uncounted data.
fn network(root: &SysRoot) -> Option<Counted> {
    let has_function = |driver: &str| {
        root.list(format!("sys/bus/pci/drivers/{driver}")).iter().any(|name| name.contains(':'))
    };
    if !root.list("sys/class/infiniband").is_empty()
        || ["vfio-pci", "uio_pci_generic"].into_iter().any(has_function)
    {
        return None;
    }
    let text = root.read("proc/self/net/dev").unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let interfaces: Vec<(&str, Vec<u64>)> = lines
        .map(|(name, rest)| {
            (name.trim(), rest.split_whitespace().filter_map(|word| word.parse().ok()).collect())
        })
        .filter(|(name, _)| *name != "lo")
        .collect();
    // Traffic over a bridge to a container stays on this machine.
    let is_real = |name: &str| root.path(format!("sys/class/net/{name}/device")).exists();
    let any_real = interfaces.iter().any(|(name, _)| is_real(name));
    let mut sum = Counted::default();
    for (name, fields) in interfaces {
        if !any_real || is_real(name) {
            let field = |i: usize| fields.get(i).copied().unwrap_or(0);
            sum.add(Counted { read_bytes: field(0), written_bytes: field(8) });
        }
    }
    Some(sum)
}
