//! Facts about the measuring machine: kernel, processors, memory, limits. Reports disclose them, so that figures of
//! different machines or days can be compared.
//!
//! The host name may identify the owner, so reports do not show it; the notebook (the database of runs) and exported
//! data contain it. Everything comes from `/proc`, `/sys` and `/etc` below a [`SysRoot`]; `None` means unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use crate::sysroot::{self, SysRoot};

/// Limits that control groups impose on this process: for each resource, the setting of the nearest group that limits
/// it, starting with the process's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLimits {
    /// `cpu.max`: quota and period in µs, such as `200000 100000`.
    pub cpu: Option<String>,
    /// `io.max`: limits in bytes or operations per second, by device.
    pub io: Option<String>,
    /// `memory.max`: memory limit of the control group, bytes.
    pub memory_bytes: Option<u64>,
}

/// Hardware, kernel and limits of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Host name. Reports do not show it.
    #[serde(default)]
    pub host_name: Option<String>,
    /// Kernel release, such as `6.18.0`.
    pub kernel: Option<String>,
    /// Kernel build, as printed by `uname -v`.
    pub kernel_build: Option<String>,
    /// Distribution, such as `Debian GNU/Linux 12 (bookworm)`.
    pub distribution: Option<String>,
    /// Processor architecture that iodyno was compiled for, such as `x86_64`.
    pub architecture: String,
    /// Processor model from `/proc/cpuinfo`; `None` if that file does not state it.
    pub cpu_model: Option<String>,
    /// Microcode revision of the processor, from `/proc/cpuinfo`.
    pub microcode: Option<String>,
    pub cores_online: Option<u64>,
    /// Number of processors that this process may use.
    pub cores_usable: Option<u64>,
    /// True if simultaneous multithreading (SMT) is active.
    pub smt: Option<bool>,
    /// Processors isolated from scheduling, as a list such as `2-3`.
    pub cores_isolated: Option<String>,
    /// Number of NUMA nodes online.
    pub numa_nodes: Option<u64>,
    /// Total memory of the machine, bytes.
    pub ram_bytes: Option<u64>,
    /// Memory available when the machine was inspected, bytes.
    pub ram_available_bytes: Option<u64>,
    /// Total swap space, bytes.
    pub swap_bytes: Option<u64>,
    /// Memory in free reserved huge pages, bytes.
    pub huge_pages_free_bytes: Option<u64>,
    /// CPU frequency governors in use, joined by commas.
    pub governor: Option<String>,
    /// Whether the processor's turbo (boost) mode is enabled.
    pub turbo: Option<bool>,
    /// The kernel's clock source in use, such as `tsc`.
    pub clocksource: Option<String>,
    /// True if the processor's time stamp counter runs at a constant rate and never stops.
    pub tsc_stable: Option<bool>,
    /// True if the processor reports that a hypervisor is present.
    pub hypervisor: Option<bool>,
    /// Vendor and product of the machine, from its firmware.
    pub product: Option<String>,
    /// Setting of transparent huge pages: always, madvise or never.
    pub transparent_huge_pages: Option<String>,
    /// Who may use io_uring: 0 everyone, 1 privileged processes, 2 no one.
    pub io_uring_disabled: Option<u64>,
    /// System-wide limit on outstanding `libaio` requests.
    pub aio_max: Option<u64>,
    /// Limit on locked memory, bytes; `None` means unlimited.
    pub memlock_bytes: Option<u64>,
    /// Limit on open file descriptors of this process; `None` means unlimited.
    pub open_files_max: Option<u64>,
    /// Processor vulnerabilities, each with its mitigation.
    pub mitigations: BTreeMap<String, String>,
    /// CPU, I/O and memory limits imposed by control groups.
    pub cgroup: CgroupLimits,
    /// Kind of container detected: `docker`, `podman`, …
    pub container: Option<String>,
}

/// Number of processors in a list: `0-3,8` gives 5.
fn count_list(text: &str) -> Option<u64> {
    text.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            last.checked_sub(first).map(|n| n + 1)
        })
        .sum()
}

/// Value of `key` in `/proc/meminfo`, in bytes.
fn meminfo(root: &SysRoot, key: &str) -> Option<u64> {
    let text = root.read("proc/meminfo")?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let mut words = value.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    Some(if words.next() == Some("kB") { number * 1024 } else { number })
}

/// Value of the first line of `/proc/cpuinfo` that has one of these keys.
fn cpuinfo<'a>(text: &'a str, keys: &[&str]) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        keys.contains(&key.trim()).then(|| value.trim())
    })
}

/// Returns the choice that a sysfs list shows in brackets: `always [madvise] never` gives `madvise`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Folders of this process's control group and its ancestors, nearest first, in the hierarchy of `controller`
/// (empty for version 2).
pub(crate) fn cgroup_folders(root: &SysRoot, controller: &str) -> Vec<PathBuf> {
    let text = root.read("proc/self/cgroup").unwrap_or_default();
    let own = text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        controllers.split(',').any(|c| c == controller).then_some(path)
    });
    let Some(own) = own else { return Vec::new() };
    let base = root.path("sys/fs/cgroup");
    let base = match controller {
        "" if base.join("unified").is_dir() => base.join("unified"),
        "" => base,
        controller => base.join(controller),
    };
    let own = Path::new(own.trim_start_matches('/'));
    own.ancestors().map(|part| base.join(part)).collect()
}

fn cgroup_limits(root: &SysRoot) -> CgroupLimits {
    let v2 = cgroup_folders(root, "");
    let nearest = |file: &str| {
        let texts = v2.iter().filter_map(|dir| sysroot::read(&dir.join(file)));
        texts.into_iter().find(|text| !text.starts_with("max"))
    };
    let v1_number = |controller: &str, file: &str| -> Option<i64> {
        let folders = cgroup_folders(root, controller);
        folders.iter().find_map(|dir| sysroot::read(&dir.join(file))?.parse().ok())
    };
    let v1_cpu = || {
        let quota = v1_number("cpu", "cpu.cfs_quota_us").filter(|&quota| quota > 0)?;
        Some(format!("{quota} {}", v1_number("cpu", "cpu.cfs_period_us")?))
    };
    let v2_memory =
        v2.iter().filter_map(|dir| sysroot::read(&dir.join("memory.max"))?.parse().ok());
    // Version 1 writes "no limit" as the largest whole number of pages.
    let v1_memory = cgroup_folders(root, "memory")
        .into_iter()
        .filter_map(|dir| sysroot::read(&dir.join("memory.limit_in_bytes"))?.parse().ok())
        .filter(|&bytes: &u64| bytes < 1 << 60);
    CgroupLimits {
        cpu: nearest("cpu.max").or_else(v1_cpu),
        io: nearest("io.max"),
        memory_bytes: v2_memory.chain(v1_memory).min(),
    }
}

/// Memory that this process could still allocate: the kernel's available memory, limited by control groups.
/// `None` if `/proc/meminfo` can't be read.
pub fn memory_available_bytes(root: &SysRoot) -> Option<u64> {
    let mut available = meminfo(root, "MemAvailable").or_else(|| meminfo(root, "MemFree"))?;
    let files = [
        ("", "memory.max", "memory.current"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ];
    for (controller, limit, used) in files {
        for dir in cgroup_folders(root, controller) {
            let number = |file: &str| sysroot::read(&dir.join(file))?.parse::<u64>().ok();
            if let (Some(limit), Some(used)) = (number(limit), number(used)) {
                available = available.min(limit.saturating_sub(used));
            }
        }
    }
    Some(available)
}

pub(crate) fn governors(root: &SysRoot) -> Option<String> {
    let cpus = root.list("sys/devices/system/cpu");
    let governors: BTreeSet<String> = cpus
        .iter()
        .filter_map(|cpu| {
            root.read(format!("sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor"))
        })
        .collect();
    (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join(","))
}

pub(crate) fn turbo(root: &SysRoot) -> Option<bool> {
    let off = root.read_u64("sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| off == 0);
    off.or_else(|| root.read_u64("sys/devices/system/cpu/cpufreq/boost").map(|on| on != 0))
}

fn container(root: &SysRoot) -> Option<String> {
    if root.path(".dockerenv").exists() {
        return Some("docker".to_owned());
    }
    if let Some(text) = root.read("run/.containerenv") {
        let engine =
            text.lines().find_map(|line| line.strip_prefix("engine=\"")?.strip_suffix('"'));
        return Some(engine.unwrap_or("podman").to_owned());
    }
    if let Some(kind) = root.read("run/systemd/container") {
        return Some(kind);
    }
    let cgroup = root.read("proc/self/cgroup").unwrap_or_default();
    ["kubepods", "docker", "libpod", "lxc"]
        .into_iter()
        .find(|word| cgroup.contains(word))
        .map(str::to_owned)
}

impl MachineFacts {
    /// Gathers hardware, kernel and limits of the running machine.
    pub fn gather() -> Self {
        Self::gather_in(&SysRoot::real())
    }

    /// Like [`Self::gather`], but reads `/proc`, `/sys` and `/etc` below another root, for tests. The architecture and
    /// the limits of this process are those of the running system.
    pub fn gather_in(root: &SysRoot) -> Self {
        let cpu = root.read("proc/cpuinfo").unwrap_or_default();
        let flags: BTreeSet<&str> =
            cpuinfo(&cpu, &["flags", "Features"]).unwrap_or_default().split_whitespace().collect();
        let release = root.read("etc/os-release").unwrap_or_default();
        let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let dmi = |file: &str| root.read(format!("sys/class/dmi/id/{file}"));
        let product: Vec<String> =
            [dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().collect();
        let vulnerabilities = "sys/devices/system/cpu/vulnerabilities";
        let huge = meminfo(root, "HugePages_Free").zip(meminfo(root, "Hugepagesize"));
        Self {
            host_name: root.read("proc/sys/kernel/hostname"),
            kernel: root.read("proc/sys/kernel/osrelease"),
            kernel_build: root.read("proc/sys/kernel/version"),
            distribution: pretty.map(|name| name.trim_matches('"').to_owned()),
            architecture: std::env::consts::ARCH.to_owned(),
            cpu_model: cpuinfo(&cpu, &["model name", "Model", "cpu", "uarch"]).map(str::to_owned),
            microcode: cpuinfo(&cpu, &["microcode"]).map(str::to_owned),
            cores_online: root
                .read("sys/devices/system/cpu/online")
                .and_then(|list| count_list(&list)),
            cores_usable: std::thread::available_parallelism().ok().map(|n| n.get() as u64),
            smt: root.read_u64("sys/devices/system/cpu/smt/active").map(|on| on != 0),
            cores_isolated: root.read("sys/devices/system/cpu/isolated"),
            numa_nodes: root
                .read("sys/devices/system/node/online")
                .and_then(|list| count_list(&list)),
            ram_bytes: meminfo(root, "MemTotal"),
            ram_available_bytes: memory_available_bytes(root),
            swap_bytes: meminfo(root, "SwapTotal"),
            huge_pages_free_bytes: huge.map(|(pages, bytes)| pages * bytes),
            governor: governors(root),
            turbo: turbo(root),
            clocksource: root
                .read("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            tsc_stable: (!flags.is_empty() && cfg!(target_arch = "x86_64"))
                .then(|| flags.contains("constant_tsc") && flags.contains("nonstop_tsc")),
            hypervisor: (!flags.is_empty() && cfg!(target_arch = "x86_64"))
                .then(|| flags.contains("hypervisor")),
            product: (!product.is_empty()).then(|| product.join(" ")),
            transparent_huge_pages: root
                .read("sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| chosen(&text)),
            io_uring_disabled: root.read_u64("proc/sys/kernel/io_uring_disabled"),
            aio_max: root.read_u64("proc/sys/fs/aio-max-nr"),
            memlock_bytes: getrlimit(Resource::Memlock).current,
            open_files_max: getrlimit(Resource::Nofile).current,
            mitigations: root
                .list(vulnerabilities)
                .into_iter()
                .filter_map(|flaw| {
                    Some((flaw.clone(), root.read(format!("{vulnerabilities}/{flaw}"))?))
                })
                .collect(),
            cgroup: cgroup_limits(root),
            container: container(root),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::fake::Tree;

    #[test]
    fn a_fake_machine_is_read_whole() {
        let tree = Tree::new();
        tree.file("proc/sys/kernel/hostname", "box7\n");
        tree.file("proc/sys/kernel/osrelease", "6.1.0\n");
        tree.file(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Fast CPU\n\
             flags\t\t: fpu constant_tsc nonstop_tsc hypervisor\n",
        );
        tree.file(
            "proc/meminfo",
            "MemTotal: 1000 kB\nMemAvailable: 800 kB\nHugePages_Free: 3\nHugepagesize: 2048 kB\n",
        );
        tree.file("sys/devices/system/cpu/online", "0-3,8\n");
        tree.file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
        tree.file("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
        tree.file("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n");
        tree.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        tree.file("proc/self/cgroup", "0::/kubepods/pod1/box\n");
        tree.file("sys/fs/cgroup/kubepods/pod1/box/memory.max", "max\n");
        tree.file("sys/fs/cgroup/kubepods/pod1/memory.max", "524288\n");
        tree.file("sys/fs/cgroup/kubepods/pod1/memory.current", "24288\n");
        tree.file("sys/fs/cgroup/kubepods/pod1/box/cpu.max", "max 100000\n");
        tree.file("sys/fs/cgroup/kubepods/pod1/cpu.max", "150000 100000\n");
        tree.file("sys/fs/cgroup/kubepods/pod1/box/io.max", "8:0 rbps=1048576 wbps=max\n");
        let facts = MachineFacts::gather_in(&tree.root());
        assert_eq!(facts.host_name.as_deref(), Some("box7"));
        assert_eq!(facts.kernel.as_deref(), Some("6.1.0"));
        assert_eq!(facts.cpu_model.as_deref(), Some("Fast CPU"));
        assert_eq!(facts.cores_online, Some(5));
        assert_eq!(facts.governor.as_deref(), Some("performance,powersave"));
        assert_eq!(facts.huge_pages_free_bytes, Some(3 * 2048 * 1024));
        assert_eq!(facts.transparent_huge_pages.as_deref(), Some("madvise"));
        assert_eq!(facts.mitigations["meltdown"], "Mitigation: PTI");
        assert_eq!(facts.container.as_deref(), Some("kubepods"));
        assert_eq!(facts.cgroup.memory_bytes, Some(524_288));
        assert_eq!(facts.cgroup.cpu.as_deref(), Some("150000 100000"));
        assert_eq!(facts.cgroup.io.as_deref(), Some("8:0 rbps=1048576 wbps=max"));
        // The group above allows less than the kernel reports as available.
        assert_eq!(facts.ram_available_bytes, Some(500_000));
        assert_eq!(facts.clocksource, None);
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<MachineFacts>(&json).unwrap(), facts);
    }

    #[test]
    fn limits_of_the_older_control_groups() {
        let tree = Tree::new();
        tree.file("proc/self/cgroup", "4:memory:/box\n1:cpu,cpuacct:/box\n0::/\n");
        tree.file("proc/meminfo", "MemAvailable: 8 kB\n");
        tree.file("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
        tree.file("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
        tree.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        tree.file("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "65536\n");
        tree.file("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "60000\n");
        let limits = cgroup_limits(&tree.root());
        assert_eq!(limits.cpu.as_deref(), Some("50000 100000"));
        assert_eq!(limits.memory_bytes, Some(65_536));
        assert_eq!(memory_available_bytes(&tree.root()), Some(5_536));
    }
}
