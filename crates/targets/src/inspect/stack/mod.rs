//! The stack of a target: the layers from its name down to the storage.
//!
//! An example is a loop device on a file, on a file system, on a RAID set, on disks. A measurement's meaning depends on
//! the bottom layer: a disk, memory, a serving process or another machine. [`stack_of`] finds the layers without
//! opening anything. [`Stack::count`] reads the byte counters of the bottom devices, so that two readings show how much
//! of a run's I/O reached them. The storage below an unknown layer may be anywhere, so bytes are then counted on every
//! disk of the machine.

mod count;
mod effects;
mod walk;

use serde::{Deserialize, Serialize};

use crate::sysroot::{DevNo, SysRoot};

pub use count::Counted;
pub use effects::{Effect, LayerEffect};
pub(crate) use walk::stack_of;

/// Kind of a storage layer: a file system, a block device, or a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// A file system on block devices.
    FileSystem,
    /// A file system whose files are memory: tmpfs, ramfs.
    MemoryFileSystem,
    /// An overlay file system, which merges folders of other file systems.
    Overlay,
    /// A file system with its data on another machine.
    NetworkFileSystem,
    /// A file system of the hypervisor's host: 9p, virtiofs.
    HostFileSystem,
    /// A file system served by a process (FUSE).
    Fuse,
    /// A file system whose device is unknown.
    UnknownFileSystem,
    /// A loop device, which presents a file or a device as a block device.
    Loop,
    /// A device-mapper device, such as an LVM volume or a crypt device.
    DeviceMapper,
    /// A RAID set of Linux (md).
    Raid,
    /// Any other block device that is built on block devices, such as bcache.
    Composed,
    /// A partition of a disk or of another block device.
    Partition,
    /// A physical disk, as far as this machine can tell.
    Disk,
    /// Compressed memory (zram).
    Zram,
    /// A RAM disk of the kernel (`/dev/ram0`).
    RamDisk,
    /// A kernel test device: `null_blk` or `scsi_debug`.
    TestDevice,
    /// Persistent memory (`/dev/pmem0`).
    PersistentMemory,
    /// A block device served by a process or another machine: nbd, ublk, a SCSI target.
    ServedDevice,
    /// A virtual block device of an unknown kind.
    UnknownDevice,
    /// An NBD server that iodyno connects to directly.
    NbdServer,
}

/// A layer of a storage stack, such as a file system or a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    pub kind: LayerKind,
    /// Name of the device, or of the file system with its mount point.
    pub name: String,
}

/// Kind of storage at the bottom of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Storage of an unknown kind, for example because the device is gone.
    #[default]
    Unknown,
    /// Physical devices, as far as this machine can tell.
    Device,
    /// Storage served by a process on this machine, or storage below a layer of an unknown kind.
    Served,
    /// Storage of another machine, or of the host of this virtual machine.
    Remote,
    /// Emulated storage, according to its server.
    Emulated,
    /// Memory of this machine.
    Memory,
}

/// A block device at the bottom of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lowest {
    /// Kernel name; for a stack on a partition, the partition's name.
    pub name: String,
    /// Device number, such as `259:0`.
    pub dev: DevNo,
    /// Capacity of the device or partition, bytes.
    pub size_bytes: Option<u64>,
    /// True for a rotating disk. `None` if unknown or unreliable, as with virtio.
    pub rotational: Option<bool>,
}

/// Storage layers below a target, down to its lowest block devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Layers from top to bottom. If a layer has several devices below it, each is followed by the layers below that
    /// device.
    pub layers: Vec<Layer>,
    /// Kind of storage at the bottom of the stack. If there are several kinds, the one that comes last in [`End`].
    pub end: End,
    /// Disks or partitions at the bottom of the stack; empty if the data is in memory or on another machine, or if the
    /// devices are unknown.
    pub lowest: Vec<Lowest>,
    /// Clauses for warnings. Each states which layer uses the page cache even with direct I/O, and how to avoid that.
    pub page_cache: Vec<String>,
    /// Device numbers of all block devices in the stack, including the disk of each partition.
    pub passes: Vec<DevNo>,
    /// True if the data may be on any disk of this machine, or come over its network.
    pub anywhere: bool,
    /// Effects of layers that change results, such as caching or encryption.
    #[serde(default)]
    pub effects: Vec<LayerEffect>,
    /// True if some data may be on devices that are unknown or have no byte counters.
    #[serde(default)]
    pub uncounted: bool,
}

impl Stack {
    /// True if the device with this number is in the stack. The disk of a partition counts as well.
    pub fn passes(&self, dev: DevNo) -> bool {
        self.passes.contains(&dev)
    }

    /// Reads a stack from a recorded tree of `/proc` and `/sys`. `name` is a device's kernel name or a file's
    /// path.
    pub fn recorded(root: &SysRoot, name: &str) -> Self {
        walk::recorded(root, name)
    }

    /// Name of the bottom layer, to be used in a sentence, such as `tmpfs at /dev/shm`.
    pub fn bottom_in_words(&self) -> String {
        self.layers.last().map_or_else(|| "it".to_owned(), |layer| layer.name.clone())
    }
}

#[cfg(test)]
mod effects_tests;
#[cfg(test)]
mod tests;
