//! Effects of layers on I/O. They are derived from the type of a device-mapper target, the state of a RAID set, the
//! mode of a cache, or the checksums of a file system.
//!
//! Only root can read the types of device-mapper targets. For other users, the uuids of LVM and cryptsetup give the
//! type.

use std::path::Path;

use rustix::fs::{IFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::inspect::FileSystem;
use crate::inspect::topology::BlockNode;
use crate::ioctl;
use crate::sysroot::SysRoot;

/// Control node of the device-mapper driver.
const CONTROL: &str = "/dev/mapper/control";
/// Prefixes of device-mapper uuids, each with the driver that it implies; if several match, the longest comes
/// first.
const PREFIXES: [(&str, &str); 4] = [
    ("CRYPT-VERITY", "verity"),
    ("CRYPT-INTEGRITY", "integrity"),
    ("CRYPT-", "crypt"),
    ("mpath-", "multipath"),
];
/// First kernel version in which direct writes to btrfs files with checksums go through the page cache.
const BTRFS_BUFFERS_SINCE: (u32, u32) = (6, 15);

/// Effect of a storage layer on I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The layer delays operations on purpose.
    Delays,
    /// The layer fails or drops operations on purpose.
    Fails,
    /// The layer serves cached blocks from a faster device.
    Caches,
    /// The layer acknowledges writes as soon as they are on a faster cache device.
    CachesWrites,
    /// The layer copies old data before a block's first write, or reads unwritten blocks from another device.
    CopiesOnWrite,
    /// The layer records each write on a second device.
    RecordsWrites,
    /// A RAID set of the layer lacks members.
    Degraded,
    /// A RAID set of the layer rebuilds or checks members.
    Resyncs,
    /// The layer allocates blocks on first write; reads of unallocated blocks touch no medium.
    Allocates,
    /// The layer compresses or deduplicates data.
    Reduces,
    /// The layer encrypts data, so each latency includes its CPU time.
    Encrypts,
    /// The layer verifies checksums of the blocks that it reads.
    Verifies,
    /// The layer sends direct writes through the page cache, to compute checksums.
    BuffersWrites,
}

/// An effect of one storage layer on I/O, such as caching, and the driver that causes the effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerEffect {
    /// Name of the device, or of the file system with its mount point.
    pub layer: String,
    /// Driver that causes the effect, such as `writecache`.
    pub driver: String,
    pub effect: Effect,
    /// Extent of the effect, such as `1 of 2 members`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
}

/// A device-mapper target: one row of a device's mapping table.
struct Target {
    driver: String,
    /// The target's parameters in the mapping table; `None` if not read.
    table: Option<String>,
    status: String,
}

/// Name of the driver of a composed device, such as `crypt` or `raid1`, and the driver's effects on I/O.
pub(super) fn of_device(root: &SysRoot, node: &BlockNode) -> (Option<String>, Vec<LayerEffect>) {
    if let Some(level) = node.attr("md/level") {
        let found = of_raid(node).map(|(effect, amount)| (level.clone(), effect, amount));
        let found = named(node, found.collect());
        return (Some(level), found);
    }
    if node.name.starts_with("bcache") {
        let of = |file: &str| node.attr(&format!("bcache/{file}")).unwrap_or_default();
        let is_idle = of("state") == "no cache" || of("cache_mode").contains("[none]");
        let found = (!is_idle).then(|| ("bcache".to_owned(), Effect::Caches, None));
        return (None, named(node, found.into_iter().collect()));
    }
    let targets = targets(root, node);
    let mut drivers: Vec<&str> = targets.iter().map(|target| target.driver.as_str()).collect();
    drivers.dedup();
    let mut found: Vec<(String, Effect, Option<String>)> = Vec::new();
    for target in &targets {
        if let Some((effect, amount)) = of_target(target)
            && !found.iter().any(|(_, known, _)| *known == effect)
        {
            found.push((target.driver.clone(), effect, amount));
        }
    }
    ((!drivers.is_empty()).then(|| drivers.join(", ")), named(node, found))
}

fn named(node: &BlockNode, found: Vec<(String, Effect, Option<String>)>) -> Vec<LayerEffect> {
    let one =
        |(driver, effect, amount)| LayerEffect { layer: node.name.clone(), driver, effect, amount };
    found.into_iter().map(one).collect()
}

/// Effects on I/O of a Linux RAID set's state, such as a rebuild.
fn of_raid(node: &BlockNode) -> impl Iterator<Item = (Effect, Option<String>)> {
    let missing = node.attr_u64("md/degraded").filter(|missing| *missing > 0).map(|missing| {
        let of = node.attr_u64("md/raid_disks").map_or(String::new(), |all| format!(" of {all}"));
        (Effect::Degraded, Some(format!("{missing}{of} members")))
    });
    let mode = node.attr("md/journal_mode");
    let journal = mode.filter(|mode| mode.contains("[write-back]"));
    missing.into_iter().chain(journal.map(|_| (Effect::CachesWrites, None)))
}

/// Derives a device-mapper target's effect from its driver, table and status.
fn of_target(target: &Target) -> Option<(Effect, Option<String>)> {
    let status: Vec<&str> = target.status.split_whitespace().collect();
    let table: Option<Vec<&str>> =
        target.table.as_ref().map(|table| table.split_whitespace().collect());
    let plain = |effect| Some((effect, None));
    match target.driver.as_str() {
        "delay" => delay(table.as_deref()),
        "flakey" => flakey(table.as_deref()),
        "dust" if !status.iter().any(|word| word.starts_with("fail_read")) => None,
        "dust" | "error" => plain(Effect::Fails),
        // In passthrough mode all reads come from the origin.
        "cache" if status.contains(&"passthrough") => None,
        "cache" => plain(Effect::Caches),
        "writecache" => plain(Effect::CachesWrites),
        "snapshot" | "snapshot-origin" | "snapshot-merge" | "clone" => plain(Effect::CopiesOnWrite),
        "log-writes" => plain(Effect::RecordsWrites),
        "raid" | "mirror" => raid(&target.driver, &status),
        "thin" => plain(Effect::Allocates),
        "vdo" => plain(Effect::Reduces),
        "crypt" => plain(Effect::Encrypts),
        "integrity" | "verity" => plain(Effect::Verifies),
        _ => None,
    }
}

/// Parses parameters of dm-delay: `DEVICE OFFSET MS`, once for all operations, or once each for reads, writes
/// and flushes.
fn delay(table: Option<&[&str]>) -> Option<(Effect, Option<String>)> {
    let Some(words) = table else { return Some((Effect::Delays, None)) };
    let each: Vec<u64> = words.chunks_exact(3).filter_map(|of| of.get(2)?.parse().ok()).collect();
    if !each.is_empty() && each.iter().all(|ms| *ms == 0) {
        return None;
    }
    let amount = match each.as_slice() {
        [] => None,
        [all] => Some(format!("{all} ms")),
        [reads, writes, ..] => Some(format!("{reads} ms a read, {writes} ms a write")),
    };
    Some((Effect::Delays, amount))
}

/// Parses parameters of dm-flakey: `DEVICE OFFSET SECONDS_UP SECONDS_DOWN`, followed by the behaviour while
/// down.
fn flakey(table: Option<&[&str]>) -> Option<(Effect, Option<String>)> {
    let seconds = |at: usize| table.and_then(|words| words.get(at)?.parse::<u64>().ok());
    match (seconds(2), seconds(3)) {
        (_, Some(0)) => None,
        (Some(up), Some(down)) => Some((
            Effect::Fails,
            Some(format!("for {down} s of every {} s", up.saturating_add(down))),
        )),
        _ => Some((Effect::Fails, None)),
    }
}

/// Parses the status of dm-raid, `TYPE MEMBERS HEALTH SYNCED/ALL ACTION …`, or dm-mirror, `MEMBERS DEVICE…
/// SYNCED/ALL 1 HEALTH …`. HEALTH has one letter per member.
fn raid(driver: &str, status: &[&str]) -> Option<(Effect, Option<String>)> {
    let (health, action) = if driver == "raid" {
        (*status.get(2)?, status.get(4).copied().unwrap_or("idle"))
    } else {
        let members: usize = status.first()?.parse().ok()?;
        let synced = *status.get(members.checked_add(1)?)?;
        let is_synced = synced.split_once('/').is_none_or(|(done, all)| done == all);
        (*status.get(members.checked_add(3)?)?, if is_synced { "idle" } else { "resync" })
    };
    let failed = health.chars().filter(|of| matches!(of, 'D' | 'S' | 'R' | 'F')).count();
    if failed > 0 {
        return Some((Effect::Degraded, Some(format!("{failed} of {} members", health.len()))));
    }
    (!matches!(action, "idle" | "frozen")).then(|| (Effect::Resyncs, Some(action.to_owned())))
}

/// Device-mapper targets of a device, from the driver or a recorded tree, otherwise derived from uuids.
fn targets(root: &SysRoot, node: &BlockNode) -> Vec<Target> {
    let asked = if root.is_real() { ask(node) } else { recorded(node) };
    asked.filter(|targets| !targets.is_empty()).unwrap_or_else(|| by_uuid(root, node))
}

fn ask(node: &BlockNode) -> Option<Vec<Target>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let control = rustix::fs::open(CONTROL, flags, Mode::empty()).ok()?;
    let mut found: Vec<Target> = ioctl::dm_targets(&control, node.dev, false)
        .ok()?
        .into_iter()
        .map(|(driver, status)| Target { driver, table: None, status })
        .collect();
    // Tables of other drivers may hold keys.
    let is_asked = |target: &Target| matches!(target.driver.as_str(), "delay" | "flakey");
    if found.iter().any(is_asked) && found.iter().all(is_asked) {
        let tables = ioctl::dm_targets(&control, node.dev, true).ok()?;
        for (target, (_, table)) in found.iter_mut().zip(tables) {
            target.table = Some(table);
        }
    }
    Some(found)
}

/// Device-mapper targets in a recorded tree: files `dm/table` and `dm/status`, in the format of `dmsetup
/// table` and `dmsetup status`.
fn recorded(node: &BlockNode) -> Option<Vec<Target>> {
    let table = node.attr("dm/table")?;
    let rest =
        |line: &str, skip: usize| line.split_whitespace().skip(skip).collect::<Vec<_>>().join(" ");
    let status = node.attr("dm/status").unwrap_or_default();
    let mut status = status.lines();
    let of_line = |line: &str| Target {
        driver: line.split_whitespace().nth(2).unwrap_or_default().to_owned(),
        table: Some(rest(line, 3)),
        status: status.next().map_or(String::new(), |line| rest(line, 3)),
    };
    Some(table.lines().map(of_line).collect())
}

/// Derives a device's driver from the prefix of its device-mapper uuid, or from suffixes of the uuids of the
/// devices below.
fn by_uuid(root: &SysRoot, node: &BlockNode) -> Vec<Target> {
    let Some(uuid) = node.attr("dm/uuid") else { return Vec::new() };
    let below: Vec<String> =
        node.slaves(root).iter().filter_map(|slave| slave.attr("dm/uuid")).collect();
    let has = |suffix: &str| below.iter().any(|uuid| uuid.ends_with(suffix));
    let prefixed = PREFIXES.iter().find(|(prefix, _)| uuid.starts_with(prefix));
    let driver = match prefixed {
        Some((_, driver)) => *driver,
        None if !uuid.starts_with("LVM-") || uuid.ends_with("-pool") => return Vec::new(),
        None if has("-tpool") => "thin",
        None if has("-cdata") || has("-cpool") || has("-cvol") => "cache",
        None if has("-cow") => "snapshot",
        None if has("-real") => "snapshot-origin",
        None if has("-vpool") => "vdo",
        None => return Vec::new(),
    };
    vec![Target { driver: driver.to_owned(), table: None, status: String::new() }]
}

/// Effect of a file system on direct writes to a file.
pub(super) fn of_file(
    root: &SysRoot,
    path: &Path,
    fs: &FileSystem,
    layer: &str,
) -> Option<LayerEffect> {
    if fs.fs_type != "btrfs" || kernel(root)? < BTRFS_BUFFERS_SINCE {
        return None;
    }
    let options = fs.super_options.as_deref().unwrap_or_default();
    let is_without = options.split(',').any(|word| matches!(word, "nodatasum" | "nodatacow"));
    if is_without || (root.is_real() && is_nocow(path)) {
        return None;
    }
    Some(LayerEffect {
        layer: layer.to_owned(),
        driver: "btrfs".to_owned(),
        effect: Effect::BuffersWrites,
        amount: None,
    })
}

/// True if the file has no checksums (`chattr +C`). A new file inherits this attribute from its folder.
fn is_nocow(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = |path: &Path| rustix::fs::open(path, flags, Mode::empty()).ok();
    let found = open(path).or_else(|| open(path.parent()?));
    found
        .and_then(|fd| rustix::fs::ioctl_getflags(&fd).ok())
        .is_some_and(|flags| flags.contains(IFlags::NOCOW))
}

/// Version and patch level of the kernel (`6.15` gives `(6, 15)`).
fn kernel(root: &SysRoot) -> Option<(u32, u32)> {
    let release = root.read("proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
