//! Relations between block devices: partitions and disks, holders (dm, md, bcache) and members, loop devices and their
//! backing, and the physical devices at the bottom.
//!
//! Reads only sysfs and queries the loop driver. The guard decides what the relations mean for safety.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::Identity;
use crate::ioctl;
use crate::sysroot::{self, DevNo, SysRoot};

/// A block device, or a partition of one, in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockNode {
    /// Folder in sysfs, without symbolic links.
    pub(crate) dir: PathBuf,
    /// Kernel name, such as `nvme0n1p2`.
    pub(crate) name: String,
    pub(crate) dev: DevNo,
}

/// Relation of a device to the target with which it shares data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Itself,
    Partition,
    /// The disk that the target is a partition of.
    WholeDisk,
    /// A device built on the target, on a part of the target, or on another holder.
    Holder,
}

/// A device that shares data with the target.
#[derive(Clone, Debug)]
pub(crate) struct Relative {
    pub(crate) node: BlockNode,
    pub(crate) relation: Relation,
    /// For a holder, the kernel name of the device below it.
    pub(crate) on: Option<String>,
}

impl Relative {
    /// Name of the device, for use as the subject of a sentence.
    pub(crate) fn subject(&self) -> String {
        let name = &self.node.name;
        match self.relation {
            Relation::Itself => "It".to_owned(),
            Relation::Partition => format!("Its partition {name}"),
            Relation::WholeDisk => format!("Its whole disk {name}"),
            Relation::Holder => {
                let holder = self.node.describe();
                match &self.on {
                    Some(on) => format!("A device on top of it ({holder}, on {on})"),
                    None => format!("A device on top of it ({holder})"),
                }
            }
        }
    }
}

impl BlockNode {
    fn from_dir(dir: &Path) -> Option<Self> {
        let dir = dir.canonicalize().ok()?;
        let dev = sysroot::read(&dir.join("dev"))?.parse().ok()?;
        let name = dir.file_name()?.to_str()?.to_owned();
        Some(Self { dir, name, dev })
    }

    pub(crate) fn by_number(root: &SysRoot, dev: DevNo) -> Option<Self> {
        Self::from_dir(&root.path("sys/dev/block").join(dev.to_string()))
    }

    pub(crate) fn by_name(root: &SysRoot, name: &str) -> Option<Self> {
        // A name with a slash would leave the folder.
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return None;
        }
        Self::from_dir(&root.path("sys/class/block").join(name))
    }

    /// Path of the device node. In kernel names `!` replaces `/`: `cciss!c0d0` is `/dev/cciss/c0d0`.
    pub(crate) fn node_path(&self) -> String {
        format!("/dev/{}", self.name.replace('!', "/"))
    }

    pub(crate) fn attr(&self, relative: &str) -> Option<String> {
        sysroot::read(&self.dir.join(relative))
    }

    pub(crate) fn attr_u64(&self, relative: &str) -> Option<u64> {
        self.attr(relative)?.parse().ok()
    }

    pub(crate) fn is_partition(&self) -> bool {
        self.dir.join("partition").exists()
    }

    /// True for a device of a driver without hardware: loop, dm, md, zram and the like.
    pub(crate) fn is_virtual(&self) -> bool {
        self.dir.to_string_lossy().contains("/virtual/block/")
    }

    /// The disk that contains this partition; `None` if this device is not a partition.
    pub(crate) fn whole_disk(&self) -> Option<Self> {
        if self.is_partition() { Self::from_dir(self.dir.parent()?) } else { None }
    }

    pub(crate) fn partitions(&self) -> Vec<Self> {
        sysroot::list(&self.dir)
            .iter()
            .map(|name| self.dir.join(name))
            .filter(|dir| dir.join("partition").exists())
            .filter_map(|dir| Self::from_dir(&dir))
            .collect()
    }

    fn linked(&self, root: &SysRoot, folder: &str) -> Vec<Self> {
        let dir = self.dir.join(folder);
        sysroot::list(&dir)
            .iter()
            .filter_map(|name| {
                Self::from_dir(&dir.join(name)).or_else(|| Self::by_name(root, name))
            })
            .collect()
    }

    /// Devices built directly on this device.
    pub(crate) fn holders(&self, root: &SysRoot) -> Vec<Self> {
        self.linked(root, "holders")
    }

    /// Devices that this device is built on directly.
    pub(crate) fn slaves(&self, root: &SysRoot) -> Vec<Self> {
        self.linked(root, "slaves")
    }

    /// Devices directly below this one that receive its I/O. Excludes failed members and idle spares of a RAID
    /// set.
    pub(crate) fn members(&self, root: &SysRoot) -> Vec<Self> {
        let is_idle = |slave: &Self| {
            let of = |file: &str| self.attr(&format!("md/dev-{}/{file}", slave.name));
            of("slot").is_some_and(|slot| slot == "none")
                || of("state").is_some_and(|state| state.split(',').any(|word| word == "faulty"))
        };
        let mut all = self.slaves(root);
        all.retain(|slave| !is_idle(slave));
        all
    }

    /// Kind and name of the device, for messages: `the LVM volume vg-home (dm-0)`, `the RAID set md0 (raid1)`.
    pub(crate) fn describe(&self) -> String {
        let name = &self.name;
        if let Some(uuid) = self.attr("dm/uuid") {
            let kind = match uuid.split('-').next().unwrap_or_default() {
                "LVM" => "the LVM volume",
                "CRYPT" => "the encrypted volume",
                "mpath" => "the multipath device",
                kind if kind.starts_with("part") => "the mapped partition",
                _ => "the device-mapper device",
            };
            return match self.attr("dm/name") {
                Some(mapped) => format!("{kind} {mapped} ({name})"),
                None => format!("{kind} {name}"),
            };
        }
        if let Some(mapped) = self.attr("dm/name") {
            return format!("the device-mapper device {mapped} ({name})");
        }
        if let Some(level) = self.attr("md/level") {
            return format!("the RAID set {name} ({level})");
        }
        if name.starts_with("bcache") {
            return format!("the bcache device {name}");
        }
        if self.is_loop() {
            return format!("the loop device {name}");
        }
        name.clone()
    }

    /// True for a loop device; false for a partition of one.
    pub(crate) fn is_loop(&self) -> bool {
        self.name.strip_prefix("loop").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    }
}

/// Backing file or device of a loop device.
#[derive(Clone, Debug)]
pub(crate) struct Backing {
    /// Path as the kernel shows it. It may lead to another file here if a process in another mount namespace
    /// attached the loop device.
    pub(crate) path: String,
    /// Identity of the backing; `None` if neither the driver nor the path reveals it.
    pub(crate) identity: Option<Identity>,
}

impl Backing {
    /// Backing of a loop device; `None` if the device has no backing or is not a loop device.
    pub(crate) fn of(root: &SysRoot, node: &BlockNode) -> Option<Self> {
        let path = node.attr("loop/backing_file").filter(|_| node.is_loop())?;
        let told = root.is_real().then(|| ask(node)).flatten();
        let by_path = || {
            let meta = std::fs::metadata(root.path(path.strip_prefix('/')?)).ok()?;
            Some(Identity::of(&meta))
        };
        let identity = told.or_else(by_path);
        Some(Self { path, identity })
    }

    /// The backing block device; `None` if the backing is a file.
    pub(crate) fn device(&self, root: &SysRoot) -> Option<DevNo> {
        match self.identity {
            Some(identity) => identity.device,
            None => device_of_path(root, &self.path),
        }
    }
}

/// Asks the loop driver for the identity of a device's backing.
fn ask(node: &BlockNode) -> Option<Identity> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = rustix::fs::open(node.node_path(), flags, Mode::empty()).ok()?;
    let is_it =
        rustix::fs::fstat(&fd).is_ok_and(|stat| DevNo::from_packed(stat.st_rdev) == node.dev);
    let (dev, inode, device) = ioctl::loop_backing(&fd).ok().filter(|_| is_it)?;
    let device = (device != 0 && device != dev).then(|| DevNo::from_packed(device));
    Some(Identity { dev: DevNo::from_packed(dev), inode, device })
}

/// Attached loop devices, each with its backing.
pub(crate) fn loop_devices(root: &SysRoot) -> Vec<(BlockNode, Backing)> {
    let names = root.list("sys/class/block");
    let nodes = names.iter().filter_map(|name| BlockNode::by_name(root, name));
    nodes.filter_map(|node| Backing::of(root, &node).map(|backing| (node, backing))).collect()
}

/// Device number for a path such as `/dev/sdb2`: from the device node if it exists, otherwise from the kernel
/// name.
pub(crate) fn device_of_path(root: &SysRoot, path: &str) -> Option<DevNo> {
    let relative = path.strip_prefix('/')?;
    if let Ok(meta) = std::fs::metadata(root.path(relative))
        && rustix::fs::FileType::from_raw_mode(meta.mode()).is_block_device()
    {
        return Some(DevNo::from_packed(meta.rdev()));
    }
    let name = path.strip_prefix("/dev/")?;
    BlockNode::by_name(root, &name.replace('/', "!")).map(|node| node.dev)
}

/// Devices built directly on `node`: its holders, and loop devices backed by it.
pub(crate) fn built_on(root: &SysRoot, node: &BlockNode) -> Vec<BlockNode> {
    let loops = loop_devices(root).into_iter();
    let on_it = loops.filter(|(_, backing)| backing.device(root) == Some(node.dev));
    node.holders(root).into_iter().chain(on_it.map(|(upper, _)| upper)).collect()
}

/// All devices that share data with `target`: the target itself (first), its partitions, its whole disk, and
/// every device built directly or indirectly on one of them.
pub(crate) fn relatives(root: &SysRoot, target: &BlockNode) -> Vec<Relative> {
    relatives_but(root, target, &BTreeSet::new())
}

/// Like [`relatives`], but omits the devices in `known` and those reachable only through them.
pub(crate) fn relatives_but(
    root: &SysRoot,
    target: &BlockNode,
    known: &BTreeSet<DevNo>,
) -> Vec<Relative> {
    let mut found = vec![Relative { node: target.clone(), relation: Relation::Itself, on: None }];
    // The disk's other partitions don't overlap with this one, so only the disk itself counts.
    if let Some(disk) = target.whole_disk() {
        found.push(Relative { node: disk, relation: Relation::WholeDisk, on: None });
    }
    up_from(root, found, known)
}

/// Loop devices backed by one file, and all devices built on them.
pub(crate) fn relatives_on_file(
    root: &SysRoot,
    loops: Vec<BlockNode>,
    known: &BTreeSet<DevNo>,
) -> Vec<Relative> {
    let found =
        loops.into_iter().map(|node| Relative { node, relation: Relation::Holder, on: None });
    up_from(root, found.collect(), known)
}

fn up_from(root: &SysRoot, mut found: Vec<Relative>, known: &BTreeSet<DevNo>) -> Vec<Relative> {
    let mut seen = known.clone();
    found.retain(|relative| seen.insert(relative.node.dev));
    let mut next = 0;
    while next < found.len() {
        let Relative { node, relation, .. } = found[next].clone();
        next += 1;
        if relation != Relation::WholeDisk {
            for partition in node.partitions() {
                let relation = if relation == Relation::Itself {
                    Relation::Partition
                } else {
                    Relation::Holder
                };
                if seen.insert(partition.dev) {
                    found.push(Relative { node: partition, relation, on: Some(node.name.clone()) });
                }
            }
        }
        for holder in built_on(root, &node) {
            if seen.insert(holder.dev) {
                let on = Some(node.name.clone());
                found.push(Relative { node: holder, relation: Relation::Holder, on });
            }
        }
    }
    found
}

/// Lowest devices below `node` that receive its I/O, such as the disk of a partition or the members of dm and
/// md. Returns `node` itself if it is not built on others.
pub(crate) fn physical(root: &SysRoot, node: &BlockNode) -> Vec<BlockNode> {
    let mut seen = BTreeSet::new();
    let mut open = vec![node.clone()];
    let mut bottom = Vec::new();
    while let Some(node) = open.pop() {
        if !seen.insert(node.dev) {
            continue;
        }
        if let Some(disk) = node.whole_disk() {
            open.push(disk);
            continue;
        }
        let slaves = node.members(root);
        if slaves.is_empty() {
            bottom.push(node);
        } else {
            // A stack is last in, first out; reversing keeps the members' order.
            open.extend(slaves.into_iter().rev());
        }
    }
    bottom
}
