//! Limits of control groups on this process's I/O to a target's devices: `io.max` of version 2, and `blkio.throttle.*`
//! of version 1. Limits of hypervisors, volumes and devices can't be read.

use crate::inspect::Inspection;
use crate::machine::cgroup_folders;
use crate::sysroot::{self, DevNo, SysRoot};
use std::path::Path;

/// A control group's limit on the rate of reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoLimit {
    /// File and line that set the limit: `/sys/fs/cgroup/box/io.max, 8:0 riops`.
    pub source: String,
    /// True if reads are limited; false if writes are.
    pub is_of_reads: bool,
    /// True if the limit is in bytes; false if in operations.
    pub is_of_bytes: bool,
    /// Maximum rate, in bytes or operations per second.
    pub per_s: u64,
}

/// Files of control groups version 1. The flags are true for a limit on reads (not writes) and on bytes (not
/// operations).
const VERSION_1: [(&str, bool, bool); 4] = [
    ("blkio.throttle.read_iops_device", true, false),
    ("blkio.throttle.write_iops_device", false, false),
    ("blkio.throttle.read_bps_device", true, true),
    ("blkio.throttle.write_bps_device", false, true),
];
/// Keys of `io.max`. The flags are true for a limit on reads (not writes) and on bytes (not operations).
const VERSION_2: [(&str, bool, bool); 4] =
    [("rbps", true, true), ("wbps", false, true), ("riops", true, false), ("wiops", false, false)];

/// I/O limits on a target's devices, set by this process's control group and its ancestors.
pub fn io_limits(root: &SysRoot, inspection: &Inspection) -> Vec<IoLimit> {
    let devices = devices(root, inspection);
    if devices.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for folder in cgroup_folders(root, "") {
        let file = folder.join("io.max");
        for line in sysroot::read(&file).iter().flat_map(|text| text.lines()) {
            let mut words = line.split_whitespace();
            if words.next().is_none_or(|device| !devices.iter().any(|d| d == device)) {
                continue;
            }
            let device = line.split_whitespace().next().unwrap_or_default();
            for (key, value) in words.filter_map(|word| word.split_once('=')) {
                let known = VERSION_2.iter().find(|(name, ..)| *name == key);
                if let (Some(&(_, is_of_reads, is_of_bytes)), Ok(per_s)) = (known, value.parse()) {
                    let source = source(root, &file, &format!("{device} {key}"));
                    found.push(IoLimit { source, is_of_reads, is_of_bytes, per_s });
                }
            }
        }
    }
    for folder in cgroup_folders(root, "blkio") {
        for (name, is_of_reads, is_of_bytes) in VERSION_1 {
            let file = folder.join(name);
            for line in sysroot::read(&file).iter().flat_map(|text| text.lines()) {
                let Some((device, value)) = line.split_once(' ') else { continue };
                // 0 removes a limit.
                let value = value.trim().parse().ok().filter(|per_s| *per_s > 0);
                if let (true, Some(per_s)) = (devices.iter().any(|d| d == device), value) {
                    let source = source(root, &file, device);
                    found.push(IoLimit { source, is_of_reads, is_of_bytes, per_s });
                }
            }
        }
    }
    found
}

fn source(root: &SysRoot, file: &Path, which: &str) -> String {
    let file = file.strip_prefix(root.path("")).unwrap_or(file);
    format!("/{}, {which}", file.display())
}

/// Device numbers of the target's device, the devices below it, and the disks of partitions, as text. Disks
/// are included because the kernel sets limits on whole disks only.
fn devices(root: &SysRoot, inspection: &Inspection) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for device in inspection.device.iter().chain(&inspection.physical) {
        let disk = device.partition_of.as_ref();
        let disk = disk.and_then(|name| root.read(format!("sys/class/block/{name}/dev")));
        let disk = disk.and_then(|text| text.parse::<DevNo>().ok());
        for number in [Some(device.dev), disk].into_iter().flatten() {
            let text = number.to_string();
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::fake::Tree;
    use crate::inspect::{BlockDevice, inspect};
    use crate::name::TargetName;

    #[test]
    fn limits_of_both_versions_and_of_groups_above() {
        let tree = Tree::new();
        let disk = "pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1";
        tree.disk(disk, "259:0", 8192);
        tree.partition(&format!("{disk}/nvme0n1p1"), "259:1", 1);
        tree.file("proc/self/cgroup", "7:blkio:/box\n0::/pod/box\n");
        let base = "sys/fs/cgroup";
        tree.file(&format!("{base}/unified/pod/io.max"), "8:0 riops=1\n259:0 rbps=max wiops=300\n");
        tree.file(&format!("{base}/blkio/box/blkio.throttle.read_iops_device"), "259:0 1000\n");
        tree.file(&format!("{base}/blkio/blkio.throttle.write_bps_device"), "259:0 0\n8:0 5\n");
        let mut inspection = inspect(&TargetName::Null { size_bytes: 1 << 20 }).unwrap();
        assert_eq!(io_limits(&tree.root(), &inspection), []);
        inspection.device = BlockDevice::read(&tree.root(), "259:1".parse().unwrap());
        let limit = |source: &str, is_of_reads, per_s| IoLimit {
            source: source.to_owned(),
            is_of_reads,
            is_of_bytes: false,
            per_s,
        };
        assert_eq!(
            io_limits(&tree.root(), &inspection),
            [
                limit("/sys/fs/cgroup/unified/pod/io.max, 259:0 wiops", false, 300),
                limit(
                    "/sys/fs/cgroup/blkio/box/blkio.throttle.read_iops_device, 259:0",
                    true,
                    1000
                ),
            ]
        );
    }
}
