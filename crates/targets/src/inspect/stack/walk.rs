//! Walks from a target down to its storage, using only `/proc/self/mountinfo` and sysfs.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};
use std::path::{Path, PathBuf};

use iodyno_nbd::client::{Address, Uri};

use super::{End, Layer, LayerKind, Lowest, Stack, effects};
use crate::inspect::mounts::{self, Mount};
use crate::inspect::topology::{BlockNode, device_of_path};
use crate::inspect::{FileSystem, Inspection, Kind, file_system};
use crate::name::TargetName;
use crate::sysroot::{DevNo, SysRoot};

/// Maximum number of layers to follow; the storage below a deeper stack counts as unknown.
const DEPTH_MAX: u32 = 32;

/// Last words of the description that `iodyno serve` gives to each NBD export.
const EMULATED: &str = "emulated by iodyno";

/// Storage layers of an inspected target; `None` for a target without layers, such as memory of this process.
pub(crate) fn stack_of(root: &SysRoot, inspection: &Inspection) -> Option<Stack> {
    let mut walk = Walk::new(root);
    match inspection.kind {
        Kind::File => {
            let path = PathBuf::from(inspection.canonical_path.as_ref()?);
            walk.on(&path, inspection.file_system.as_ref()?, 0);
        }
        Kind::Block => {
            let dev = inspection.identity?.device?;
            match BlockNode::by_number(root, dev) {
                Some(node) => walk.node(&node, 0),
                None => walk.end(End::Unknown),
            }
        }
        Kind::Nbd => {
            let TargetName::Nbd(uri) = &inspection.name else { return None };
            let says = inspection.nbd.as_ref().map_or("", |export| export.description.as_str());
            walk.server(uri, says);
        }
        Kind::Null | Kind::Ram | Kind::Model | Kind::Char | Kind::Other => return None,
    }
    Some(walk.stack)
}

/// Reads a stack from a recorded tree of `/proc` and `/sys`; see [`Stack::recorded`].
pub(super) fn recorded(root: &SysRoot, name: &str) -> Stack {
    let mut walk = Walk::new(root);
    match BlockNode::by_name(root, name) {
        Some(node) => walk.node(&node, 0),
        None => walk.file(Path::new(name), 0),
    }
    walk.stack
}

/// Descends through the layers of a storage stack and records them.
pub(super) struct Walk<'a> {
    root: &'a SysRoot,
    pub(super) stack: Stack,
    seen: BTreeSet<DevNo>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(root: &'a SysRoot) -> Self {
        Self { root, stack: Stack::default(), seen: BTreeSet::new() }
    }

    fn layer(&mut self, kind: LayerKind, name: impl Into<String>) {
        self.stack.layers.push(Layer { kind, name: name.into() });
    }

    /// Records the kind of storage at the bottom. Of several kinds, keeps the one that is least certain to be a
    /// physical device.
    fn end(&mut self, end: End) {
        self.stack.end = self.stack.end.max(end);
    }

    /// Records that a process on this machine serves the data, from an unknown source.
    fn served(&mut self) {
        self.stack.anywhere = true;
        self.end(End::Served);
    }

    /// Follows the layers below a file or, for a new file, below its folder.
    pub(super) fn file(&mut self, path: &Path, depth: u32) {
        match file_system_at(self.root, path) {
            Some(fs) if depth < DEPTH_MAX => self.on(path, &fs, depth + 1),
            _ => self.served(),
        }
    }

    /// Follows the layers below `path`, which lies on the file system `fs`.
    pub(super) fn on(&mut self, path: &Path, fs: &FileSystem, depth: u32) {
        let fs_type = fs.fs_type.as_str();
        let name = match &fs.mount_point {
            Some(point) => format!("{fs_type} at {point}"),
            None => fs_type.to_owned(),
        };
        match fs_type {
            "tmpfs" | "ramfs" | "devtmpfs" | "rootfs" | "hugetlbfs" => {
                self.layer(LayerKind::MemoryFileSystem, name);
                self.end(End::Memory);
            }
            "overlay" => {
                self.layer(LayerKind::Overlay, name);
                match beneath_overlay(self.root, path, fs) {
                    Some(below) => self.file(&below, depth + 1),
                    None => self.served(),
                }
            }
            "nfs" | "nfs4" | "cifs" | "smb2" | "smb3" | "ceph" | "afs" | "lustre" | "gpfs"
            | "beegfs" | "orangefs" | "glusterfs" | "coda" => {
                self.layer(LayerKind::NetworkFileSystem, name);
                if server_is_here(self.root, fs) { self.served() } else { self.end(End::Remote) }
            }
            "9p" | "virtiofs" | "vboxsf" | "vmhgfs" | "prl_fs" => {
                self.layer(LayerKind::HostFileSystem, name);
                self.end(End::Remote);
            }
            "fuse.iodyno" => {
                self.layer(LayerKind::Fuse, name);
                self.end(End::Emulated);
            }
            _ if fs_type.starts_with("fuse") => {
                self.layer(LayerKind::Fuse, name);
                self.served();
            }
            _ => {
                let nodes = self.devices_of(fs);
                if nodes.is_empty() {
                    self.layer(LayerKind::UnknownFileSystem, name);
                    self.served();
                } else {
                    if let Some(words) = journalled(fs) {
                        self.stack.page_cache.push(format!("{name} {words}"));
                    }
                    self.stack.effects.extend(effects::of_file(self.root, path, fs, &name));
                    self.layer(LayerKind::FileSystem, name);
                    self.stack.uncounted |= has_more_devices(fs, &nodes);
                    for node in &nodes {
                        self.node(node, depth + 1);
                    }
                }
            }
        }
    }

    /// Devices of a file system: several for btrfs and bcachefs, and perhaps a second data device for XFS.
    fn devices_of(&self, fs: &FileSystem) -> Vec<BlockNode> {
        let mut devices: Vec<DevNo> = fs.dev.into_iter().collect();
        if matches!(fs.fs_type.as_str(), "btrfs" | "bcachefs") {
            let members = mounts::multi_device_members(self.root);
            // bcachefs names all devices, joined by colons.
            let source = fs.source.as_deref().unwrap_or_default();
            devices.extend(source.split(':').filter_map(|path| device_of_path(self.root, path)));
            let whose = members.iter().find(|(dev, _)| devices.contains(dev));
            if let Some((_, id)) = whose {
                devices.extend(members.iter().filter(|(_, of)| of == id).map(|(dev, _)| *dev));
            }
        }
        let options = fs.super_options.as_deref().unwrap_or_default();
        if let Some(second) = option(options, "rtdev") {
            devices.extend(device_of_path(self.root, second));
        }
        devices.sort_unstable();
        devices.dedup();
        devices.into_iter().filter_map(|dev| BlockNode::by_number(self.root, dev)).collect()
    }

    pub(super) fn node(&mut self, node: &BlockNode, depth: u32) {
        // Two paths may lead to the same device.
        if !self.seen.insert(node.dev) {
            return;
        }
        if depth >= DEPTH_MAX {
            self.served();
            return;
        }
        self.stack.passes.push(node.dev);
        let name = node.name.as_str();
        if let Some(disk) = node.whole_disk() {
            self.layer(LayerKind::Partition, name);
            if self.is_disk(&disk) {
                self.stack.passes.push(disk.dev);
                self.disk(&disk, node);
            } else {
                self.node(&disk, depth + 1);
            }
            return;
        }
        let slaves = node.members(self.root);
        if let Some(kind) = memory_device(node) {
            self.layer(kind, name);
            self.end(End::Memory);
        } else if is_numbered(name, "loop") {
            self.layer(LayerKind::Loop, name);
            self.beneath_loop(node, depth);
        } else if !slaves.is_empty() {
            let kind = match name {
                _ if name.starts_with("dm-") => LayerKind::DeviceMapper,
                _ if name.starts_with("md") => LayerKind::Raid,
                _ => LayerKind::Composed,
            };
            let name = self.composed(node);
            self.layer(kind, name);
            for slave in &slaves {
                self.node(slave, depth + 1);
            }
        } else if is_numbered(name, "pmem") {
            // Direct access by load and store bypasses the I/O counters.
            self.layer(LayerKind::PersistentMemory, name);
            self.end(End::Device);
            self.stack.uncounted = true;
        } else if is_served(node) {
            self.layer(LayerKind::ServedDevice, name);
            self.served();
        } else if node.is_virtual() {
            let name = self.composed(node);
            self.layer(LayerKind::UnknownDevice, name);
            self.served();
        } else {
            self.disk(node, node);
        }
    }

    /// Records the effects of a device built on others. Returns its name with its mapping and drivers, for
    /// messages.
    fn composed(&mut self, node: &BlockNode) -> String {
        let (drivers, found) = effects::of_device(self.root, node);
        self.stack.effects.extend(found);
        let words: Vec<String> = node.attr("dm/name").into_iter().chain(drivers).collect();
        if words.is_empty() {
            node.name.clone()
        } else {
            format!("{} ({})", node.name, words.join(": "))
        }
    }

    fn is_disk(&self, node: &BlockNode) -> bool {
        memory_device(node).is_none()
            && !is_numbered(&node.name, "pmem")
            && !is_served(node)
            && !node.is_virtual()
            && node.slaves(self.root).is_empty()
    }

    /// Records `disk` as the bottom of the stack. Bytes are counted on `part`: the counters of a partition
    /// include less I/O by others.
    fn disk(&mut self, disk: &BlockNode, part: &BlockNode) {
        self.layer(LayerKind::Disk, disk.name.clone());
        // virtio's driver calls every disk rotational.
        let is_virtio = disk.dir.to_string_lossy().contains("/virtio");
        let rotational = disk.attr_u64("queue/rotational").map(|n| n != 0);
        self.stack.lowest.push(Lowest {
            name: part.name.clone(),
            dev: part.dev,
            size_bytes: part.attr_u64("size").map(|sectors| sectors * 512),
            rotational: rotational.filter(|turns| !(is_virtio && *turns)),
        });
        self.end(End::Device);
    }

    fn beneath_loop(&mut self, node: &BlockNode, depth: u32) {
        let Some(file) = node.attr("loop/backing_file") else {
            self.served();
            return;
        };
        if node.attr_u64("loop/dio") == Some(0) {
            let name = &node.name;
            self.stack.page_cache.push(format!(
                "{name} reads and writes {file} through the page cache (`losetup --direct-io=on /dev/{name}` avoids that)"
            ));
        }
        let below = device_of_path(self.root, &file);
        match below.and_then(|dev| BlockNode::by_number(self.root, dev)) {
            Some(device) => self.node(&device, depth + 1),
            None => self.file(Path::new(&file), depth),
        }
    }

    /// Records an NBD server that iodyno connects to directly as the bottom of the stack.
    pub(super) fn server(&mut self, uri: &Uri, says: &str) {
        self.layer(LayerKind::NbdServer, uri.address.to_string());
        if says.ends_with(EMULATED) {
            self.end(End::Emulated);
        } else if is_here(self.root, &uri.address) {
            self.served();
        } else {
            self.end(End::Remote);
        }
    }
}

/// True if `name` is the prefix and a number: `loop7`, but not `loopback`.
fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Kind of a device that keeps data in memory or nowhere; `None` for other devices.
pub(super) fn memory_device(node: &BlockNode) -> Option<LayerKind> {
    let name = node.name.as_str();
    if is_numbered(name, "zram") {
        Some(LayerKind::Zram)
    } else if is_numbered(name, "ram") {
        Some(LayerKind::RamDisk)
    } else if is_numbered(name, "nullb")
        || node.attr("device/model").as_deref() == Some("scsi_debug")
    {
        Some(LayerKind::TestDevice)
    } else {
        None
    }
}

/// True for devices served by a process, by another machine, or by this kernel's own SCSI or NVMe target,
/// whose data may be in a file.
pub(super) fn is_served(node: &BlockNode) -> bool {
    // Behind a PCI adapter, the LIO target is on another machine or the hypervisor's.
    let is_lio = || {
        node.attr("device/vendor").as_deref() == Some("LIO-ORG")
            && !node.dir.to_string_lossy().contains("/pci")
    };
    // The device of a head is the subsystem, which holds the controllers.
    let is_looped_head = || {
        let controllers = crate::sysroot::list(&node.dir.join("device"));
        is_multipath_head(node)
            && controllers.iter().any(|name| {
                is_numbered(name, "nvme")
                    && node.attr(&format!("device/{name}/transport")).as_deref() == Some("loop")
            })
    };
    is_numbered(&node.name, "nbd")
        || is_numbered(&node.name, "ublkb")
        || node.attr("device/transport").as_deref() == Some("loop")
        || is_lio()
        || is_looped_head()
}

/// True for the multipath device of an NVMe namespace, which combines all paths to it.
pub(super) fn is_multipath_head(node: &BlockNode) -> bool {
    node.dir.to_string_lossy().contains("/nvme-subsystem/")
}

/// Describes the effect of data journalling on direct I/O; `None` if the file system does not journal data.
fn journalled(fs: &FileSystem) -> Option<&'static str> {
    let mode = option(fs.super_options.as_deref()?, "data")?;
    (matches!(fs.fs_type.as_str(), "ext3" | "ext4") && mode == "journal")
        .then_some("buffers direct I/O (data=journal; mounting with data=ordered avoids that)")
}

/// True if an f2fs is larger than its mounted device, so that it must span further devices. Only its superblock names
/// them.
fn has_more_devices(fs: &FileSystem, nodes: &[BlockNode]) -> bool {
    let sectors: Option<u64> = nodes.iter().map(|node| node.attr_u64("size")).sum();
    let is_larger = |bytes: u64| sectors.is_none_or(|sectors| bytes > sectors * 512);
    fs.fs_type == "f2fs" && fs.total_bytes.is_none_or(is_larger)
}

/// The value of `key=value` in a mount's options.
fn option<'t>(options: &'t str, key: &str) -> Option<&'t str> {
    options.split(',').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// File system that contains a path. In a simulated tree, selects it by the longest mount point alone.
fn file_system_at(root: &SysRoot, path: &Path) -> Option<FileSystem> {
    if root.is_real() {
        return file_system::file_system(root, path);
    }
    let holds = |mount: &Mount| path.starts_with(&mount.point);
    let mount = mounts::mounts(root).into_iter().filter(holds).max_by_key(|m| m.point.len())?;
    Some(file_system::of_mount(root, mount))
}

/// Folder below an overlay that contains `path`: the uppermost that has the file, otherwise the writable one.
fn beneath_overlay(root: &SysRoot, path: &Path, fs: &FileSystem) -> Option<PathBuf> {
    let options = fs.super_options.as_deref()?;
    let all_of = |key: &str| {
        let words = options.split(',').filter_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        words.map(mounts::unescape).collect::<Vec<String>>()
    };
    // In data-only layers a file has another name.
    if !all_of("datadir+").is_empty() {
        return None;
    }
    let upper = all_of("upperdir").into_iter().next();
    // One option for all lower layers, or since Linux 6.8 one for each.
    let below = all_of("lowerdir");
    let below = below.iter().flat_map(|layers| layers.split(':')).map(str::to_owned);
    let below = below.chain(all_of("lowerdir+")).filter(|folder| !folder.is_empty());
    let inside = path.strip_prefix(fs.mount_point.as_deref()?).ok()?;
    let is_there =
        |path: &PathBuf| path.strip_prefix("/").is_ok_and(|relative| root.path(relative).exists());
    let all = upper.iter().cloned().chain(below).map(|folder| Path::new(&folder).join(inside));
    // A new path is created in the upper folder; a folder that can't be seen from here proves nothing.
    let folder = upper.as_ref().map(PathBuf::from).filter(|folder| is_there(folder));
    all.into_iter().find(|path| is_there(path)).or(folder)
}

/// True if the server of a network file system is this machine.
fn server_is_here(root: &SysRoot, fs: &FileSystem) -> bool {
    let named = fs.super_options.as_deref().and_then(|options| option(options, "addr"));
    let source = || fs.source.as_deref()?.split_once(":/").map(|(host, _)| host);
    match named.or_else(source) {
        Some("localhost") => true,
        Some(host) => {
            host.trim_matches(['[', ']']).parse().is_ok_and(|address| is_own(root, address))
        }
        None => false,
    }
}

fn is_here(root: &SysRoot, address: &Address) -> bool {
    match address {
        Address::Unix(_) => true,
        Address::Tcp(host, port) => (host.as_str(), *port)
            .to_socket_addrs()
            .is_ok_and(|mut all| all.any(|address| is_own(root, address.ip()))),
    }
}

/// True for an address of this machine: loopback, or one that a socket can be bound to.
fn is_own(root: &SysRoot, address: IpAddr) -> bool {
    address.is_loopback() || root.is_real() && UdpSocket::bind((address, 0)).is_ok()
}
