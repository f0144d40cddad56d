//! Conditions that may change during a measurement: settings, counters and sensors of the machine and of a device.
//! Readings before and after a measurement show what changed.
//!
//! This module reads only `/proc` and `/sys`; [`health`](crate::health()) sends commands to a device.

use std::collections::BTreeMap;

use crate::inspect::topology::BlockNode;
use crate::inspect::{BlockDevice, Inspection};
use crate::machine::{governors, turbo};
use crate::sysroot::{DevNo, SysRoot};

/// Settings and counters of the machine at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineState {
    /// CPU frequency governors in use, joined by commas.
    pub governor: Option<String>,
    /// Whether the processor's turbo (boost) mode is enabled.
    pub turbo: Option<bool>,
    /// The kernel's clock source in use, such as `tsc`.
    pub clock_source: Option<String>,
    /// Thermal throttling events of all processors since boot.
    pub throttles: Option<u64>,
    /// Pages swapped in and out since boot.
    pub swapped_pages: Option<u64>,
    /// Major page faults of this process since its start.
    pub major_faults: Option<u64>,
    /// Time since boot during which some task waited for a CPU, µs (pressure stall information).
    pub cpu_waited_us: Option<u64>,
}

impl MachineState {
    /// Reads the settings and counters; those that the machine lacks are `None`.
    pub fn now(root: &SysRoot) -> Self {
        Self {
            governor: governors(root),
            turbo: turbo(root),
            clock_source: root
                .read("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            throttles: throttles(root),
            swapped_pages: swapped_pages(root),
            major_faults: major_faults(root),
            cpu_waited_us: cpu_waited_us(root),
        }
    }

    /// Settings that changed since `before`, as text such as `clock source: tsc, then hpet`.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let word = |turbo: Option<bool>| turbo.map(|on| if on { "on" } else { "off" }.to_owned());
        let settings = [
            ("frequency governor", before.governor.clone(), self.governor.clone()),
            ("turbo", word(before.turbo), word(self.turbo)),
            ("clock source", before.clock_source.clone(), self.clock_source.clone()),
        ];
        settings.into_iter().filter_map(|(what, a, b)| changed(what, a, b)).collect()
    }
}

/// Describes a changed setting; `None` if it did not change or either value is unknown.
fn changed(what: &str, before: Option<String>, after: Option<String>) -> Option<String> {
    let (before, after) = (before?, after?);
    (before != after).then(|| format!("{what}: {before}, then {after}"))
}

/// Sums the throttling counts of all cores and packages. CPUs of one core or package all count the same
/// event, so the sum counts it several times.
fn throttles(root: &SysRoot) -> Option<u64> {
    let base = "sys/devices/system/cpu";
    let mut sum = None;
    for cpu in root.list(base) {
        let folder = format!("{base}/{cpu}/thermal_throttle");
        for file in ["core_throttle_count", "package_throttle_count"] {
            if let Some(n) = root.read_u64(format!("{folder}/{file}")) {
                *sum.get_or_insert(0) += n;
            }
        }
    }
    sum
}

fn swapped_pages(root: &SysRoot) -> Option<u64> {
    let text = root.read("proc/vmstat")?;
    let count = |key: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
    };
    Some(count("pswpin ")? + count("pswpout ")?)
}

/// Reads the total CPU wait (pressure stall), µs: `total=` of `some avg10=0.00 avg60=0.00 avg300=0.00
/// total=12345`.
fn cpu_waited_us(root: &SysRoot) -> Option<u64> {
    let text = root.read("proc/pressure/cpu")?;
    text.lines().find_map(|line| line.strip_prefix("some ")?.rsplit_once("total=")?.1.parse().ok())
}

/// Reads major page faults, field 12 of the process's `stat`. Field 2 is its name, which may contain blanks
/// and brackets.
fn major_faults(root: &SysRoot) -> Option<u64> {
    let text = root.read("proc/self/stat")?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(9)?.parse().ok()
}

/// Attributes and interrupts of a device at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceState {
    /// Attributes and I/O counters from sysfs.
    pub device: BlockDevice,
    /// Interrupts of the device since boot, by processor; empty if unknown.
    pub interrupts: Vec<u64>,
}

impl DeviceState {
    /// Reads the device's present state; `None` if no device has this number.
    pub fn now(root: &SysRoot, dev: DevNo) -> Option<Self> {
        let node = BlockNode::by_number(root, dev)?;
        let disk = node.whole_disk().unwrap_or_else(|| node.clone());
        let device = BlockDevice::of(root, &node);
        let controller = disk.dir.join("device").canonicalize().ok();
        let controller = controller.and_then(|d| Some(d.file_name()?.to_str()?.to_owned()));
        let address = device.pcie.as_ref().map(|link| link.address.clone());
        let names: Vec<String> = controller.into_iter().chain(address).collect();
        let interrupts = root.read("proc/interrupts").unwrap_or_default();
        Some(Self { interrupts: interrupts_of(&interrupts, &names), device })
    }

    /// Settings that changed since `before`, as text such as `scheduler of sda: none, then bfq`.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let (now, then) = (settings(&self.device), settings(&before.device));
        let name = &self.device.kernel_name;
        let pairs = now.into_iter().zip(then);
        pairs
            .filter_map(|((what, b), (_, a))| changed(&format!("{what} of {name}"), a, b))
            .collect()
    }

    /// Number of interrupts since an earlier reading, and the fraction (0 to 1) that the busiest processor handled.
    /// `None` if there were no interrupts or their number is unknown.
    pub fn interrupts_since(&self, before: &Self) -> Option<(u64, f64)> {
        if self.interrupts.is_empty() || self.interrupts.len() != before.interrupts.len() {
            return None;
        }
        let pairs = self.interrupts.iter().zip(&before.interrupts);
        let counts: Vec<u64> = pairs.map(|(now, then)| now.saturating_sub(*then)).collect();
        let sum: u64 = counts.iter().sum();
        let most = counts.into_iter().max().unwrap_or(0);
        (sum > 0).then(|| (sum, most as f64 / sum as f64))
    }
}

/// Names and values of the settings that a user may change.
fn settings(device: &BlockDevice) -> Vec<(&'static str, Option<String>)> {
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    vec![
        ("scheduler", device.scheduler.clone()),
        ("nr_requests", number(device.nr_requests)),
        ("read_ahead_kb", number(device.read_ahead_kib)),
        ("max_sectors_kb", number(device.max_sectors_kib)),
        ("nomerges", number(device.nomerges)),
        ("rq_affinity", number(device.rq_affinity)),
        ("io_poll", device.io_poll.map(|on| on.to_string())),
        ("wbt_lat_usec", number(device.wbt_lat_usec)),
        ("write_cache", device.write_cache.clone()),
    ]
}

/// Interrupts by processor, summed over all lines of `/proc/interrupts` that belong to one of `names` (a
/// driver instance or PCI function), such as `nvme0q3`, `virtio2-req.0` or `PCI-MSI-0000:00:1f.2`.
fn interrupts_of(text: &str, names: &[String]) -> Vec<u64> {
    let is_ours = |word: &str| {
        names.iter().any(|name| {
            word.find(name.as_str()).is_some_and(|at| {
                let before = word[..at].chars().next_back();
                let after = word[at + name.len()..].chars().next();
                !before.is_some_and(char::is_alphanumeric)
                    && !after.is_some_and(|c| c.is_ascii_digit())
            })
        })
    };
    let mut lines = text.lines();
    let cpus = lines.next().unwrap_or_default().split_whitespace().count();
    let mut sums = Vec::new();
    for line in lines {
        let mut words = line.split_whitespace().skip(1);
        let counts: Vec<u64> =
            words.by_ref().take(cpus).map_while(|word| word.parse().ok()).collect();
        if counts.len() == cpus && words.any(is_ours) {
            sums.resize(cpus, 0);
            sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        }
    }
    sums
}

/// RAID sets below or above the target that are being checked or rebuilt, each with the action in progress: `md0:
/// resync`.
pub fn raid_at_work(root: &SysRoot, inspection: &Inspection) -> Vec<String> {
    let devices = inspection.device.iter().chain(&inspection.physical);
    let names: Vec<&str> = devices
        .flat_map(|d| [Some(d.kernel_name.as_str()), d.partition_of.as_deref()])
        .flatten()
        .collect();
    let mut found = BTreeMap::new();
    for set in root.list("sys/class/block").iter().filter(|name| name.starts_with("md")) {
        let action = root.read(format!("sys/class/block/{set}/md/sync_action"));
        let Some(action) = action.filter(|action| action != "idle") else { continue };
        let parts = root.list(format!("sys/class/block/{set}/slaves"));
        // The member may be a partition of the target's device.
        let ours = |part: &str| {
            let disk = root.path(format!("sys/class/block/{part}")).canonicalize().ok();
            let disk = disk.and_then(|d| Some(d.parent()?.file_name()?.to_str()?.to_owned()));
            names.contains(&part) || disk.is_some_and(|disk| names.contains(&disk.as_str()))
        };
        if names.contains(&set.as_str()) || parts.iter().any(|part| ours(part)) {
            found.insert(set.clone(), format!("{set}: {action}"));
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::fake::Tree;
    use crate::inspect::inspect;
    use crate::name::TargetName;

    const NVME: &str = "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";

    fn disk(tree: &Tree) -> DeviceState {
        DeviceState::now(&tree.root(), "259:0".parse().unwrap()).unwrap()
    }

    #[test]
    fn settings_and_sensors_of_a_device() {
        let tree = Tree::new();
        tree.disk(NVME, "259:0", 8192);
        let at = |file: &str| format!("sys/devices/{NVME}/{file}");
        tree.file(&at("queue/scheduler"), "[none] mq-deadline\n");
        tree.file(&at("queue/nr_requests"), "1023\n");
        // The hottest sensor counts, against its own limit.
        for (file, text) in [
            ("temp1_input", "48000"),
            ("temp1_max", "81000"),
            ("temp2_input", "71850"),
            ("temp2_max", "70000"),
        ] {
            tree.file(&at(&format!("device/hwmon3/{file}")), text);
        }
        let before = disk(&tree);
        assert_eq!(before.device.temperature_c, Some(71.85));
        assert_eq!(before.device.temperature_warning_c, Some(70.0));
        assert_eq!(before.changed_since(&before), Vec::<String>::new());
        tree.file(&at("queue/scheduler"), "none [mq-deadline]\n");
        tree.file(&at("queue/write_cache"), "write back\n");
        let after = disk(&tree);
        // A change from unknown does not count.
        assert_eq!(after.changed_since(&before), ["scheduler of nvme0n1: none, then mq-deadline"]);
    }

    #[test]
    fn interrupts_are_counted_by_processor() {
        let text = |a: u64, b: u64| {
            format!(
                "           CPU0       CPU1\n  1:        10         10  IO-APIC  1-edge  i8042\n \
                 24:   {a}  3  PCI-MSI-0000:01:00.0  0-edge  nvme0q0\n \
                 25:   4  {b}  PCI-MSI-0000:01:00.0  1-edge  nvme0q1\n \
                 26:   900 900  PCI-MSI-0000:02:00.0  0-edge  nvme01q1\n NMI: 5 6 Non-maskable\n ERR: 0\n"
            )
        };
        let count = |a, b| interrupts_of(&text(a, b), &["nvme0".to_owned()]);
        assert_eq!(count(100, 200), [104, 203]);
        let by_address = interrupts_of(&text(100, 200), &["0000:02:00.0".to_owned()]);
        assert_eq!(by_address, [900, 900]);
        assert!(interrupts_of(&text(1, 2), &["sda".to_owned()]).is_empty());
        let tree = Tree::new();
        tree.disk(NVME, "259:0", 8192);
        let mut before = disk(&tree);
        let mut after = before.clone();
        assert_eq!(after.interrupts_since(&before), None, "no processor counts");
        (before.interrupts, after.interrupts) = (count(100, 200), count(110, 290));
        assert_eq!(after.interrupts_since(&before), Some((100, 0.9)));
    }

    #[test]
    fn the_machine_s_counters() {
        let tree = Tree::new();
        let cpu = |n: u32, file: &str, text: &str| {
            tree.file(&format!("sys/devices/system/cpu/cpu{n}/{file}"), text);
        };
        cpu(0, "thermal_throttle/core_throttle_count", "3\n");
        cpu(0, "thermal_throttle/package_throttle_count", "2\n");
        cpu(1, "thermal_throttle/core_throttle_count", "4\n");
        cpu(0, "cpufreq/scaling_governor", "powersave\n");
        tree.file("proc/vmstat", "pgpgin 7\npswpin 5\npswpout 6\npgmajfault 99\n");
        tree.file(
            "proc/pressure/cpu",
            "some avg10=7.97 avg60=8.18 avg300=4.73 total=24514703\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
        );
        tree.file("proc/self/stat", "41 (a) b) R 1 2 3 4 -1 64 700 0 12 0 8 9\n");
        let before = MachineState::now(&tree.root());
        assert_eq!((before.throttles, before.swapped_pages), (Some(9), Some(11)));
        assert_eq!((before.major_faults, before.cpu_waited_us), (Some(12), Some(24_514_703)));
        assert_eq!((before.turbo, before.clock_source.clone()), (None, None));
        cpu(0, "cpufreq/scaling_governor", "performance\n");
        tree.file("sys/devices/system/cpu/cpufreq/boost", "1\n");
        let after = MachineState::now(&tree.root());
        assert_eq!(
            after.changed_since(&before),
            ["frequency governor: powersave, then performance"]
        );
    }

    #[test]
    fn raid_sets_of_the_target_alone() {
        let tree = Tree::new();
        let part = format!("{NVME}/nvme0n1p1");
        tree.disk(NVME, "259:0", 8192);
        tree.partition(&part, "259:1", 1);
        tree.disk("virtual/block/md0", "9:0", 8192);
        tree.disk("virtual/block/md1", "9:1", 8192);
        tree.stack("virtual/block/md0", &part);
        for set in ["md0", "md1"] {
            let file = format!("sys/devices/virtual/block/{set}/md/sync_action");
            tree.file(&file, "resync\n");
        }
        let mut inspection = inspect(&TargetName::Null { size_bytes: 1 << 20 }).unwrap();
        inspection.device = BlockDevice::read(&tree.root(), "259:0".parse().unwrap());
        assert_eq!(raid_at_work(&tree.root(), &inspection), ["md0: resync"]);
        inspection.device = BlockDevice::read(&tree.root(), "9:1".parse().unwrap());
        assert_eq!(raid_at_work(&tree.root(), &inspection), ["md1: resync"]);
        tree.file("sys/devices/virtual/block/md1/md/sync_action", "idle\n");
        assert!(raid_at_work(&tree.root(), &inspection).is_empty());
    }
}
