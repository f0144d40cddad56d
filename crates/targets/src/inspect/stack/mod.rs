//! The stack of a target: the layers from its name down to the storage.
//!
//! For example, a loop device on a file, on a file system, on a RAID set, on disks. The meaning of a measurement
//! depends on the bottom: a disk, memory, a serving process, another machine. [`stack_of`] walks down and opens
//! nothing. [`Stack::count`] reads the bytes moved at the bottom, so that two readings show how many of a run's bytes
//! arrived there. The storage below an unknown layer may be anywhere, so bytes are then counted on every disk of the
//! machine.

mod count;
mod effects;
mod walk;

use serde::{Deserialize, Serialize};

use crate::sysroot::{DevNo, SysRoot};

pub use count::Counted;
pub use effects::{Effect, LayerEffect};
pub(crate) use walk::stack_of;

/// What a layer of a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// A file system on block devices.
    FileSystem,
    /// A file system whose files are memory: tmpfs, ramfs.
    MemoryFileSystem,
    /// An overlay of several file systems' folders.
    Overlay,
    /// A file system whose data is on another machine.
    NetworkFileSystem,
    /// A file system of the hypervisor's host: 9p, virtiofs.
    HostFileSystem,
    /// A file system served by a process.
    Fuse,
    /// A file system without a known device.
    UnknownFileSystem,
    /// A loop device.
    Loop,
    /// A device-mapper device.
    DeviceMapper,
    /// A RAID set of Linux md.
    Raid,
    /// Another block device built on block devices.
    Composed,
    /// A partition.
    Partition,
    /// A disk, as far as this machine can tell.
    Disk,
    /// Compressed memory (zram).
    Zram,
    /// A RAM disk of the kernel (`/dev/ram0`).
    RamDisk,
    /// A test device: `null_blk`, `scsi_debug`.
    TestDevice,
    /// Persistent memory.
    PersistentMemory,
    /// A block device served by a process or another machine: nbd, ublk, a SCSI target.
    ServedDevice,
    /// A virtual block device of an unknown kind.
    UnknownDevice,
    /// An NBD server that iodyno connects to directly.
    NbdServer,
}

/// One layer of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// What the layer is, such as a partition.
    pub kind: LayerKind,
    /// Name of the device, or of the file system with its mount point.
    pub name: String,
}

/// Kind of storage at the bottom of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Unknown kind of storage.
    #[default]
    Unknown,
    /// Devices, as far as this machine can tell.
    Device,
    /// A process on this machine, or an unknown layer.
    Served,
    /// Another machine, or the host of this virtual machine.
    Remote,
    /// A server that reports an emulated device.
    Emulated,
    /// Memory of this machine.
    Memory,
}

/// A block device at the bottom of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lowest {
    /// Kernel name; the partition's, if the stack lies on one.
    pub name: String,
    /// Device number, such as `259:0`.
    pub dev: DevNo,
    /// Capacity, bytes.
    pub size_bytes: Option<u64>,
    /// True for a rotating disk; `None` also if the driver's report is unreliable, as virtio's is.
    pub rotational: Option<bool>,
}

/// Layers of a target and the devices at the bottom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Layers from top to bottom; members of one layer follow each other.
    pub layers: Vec<Layer>,
    /// Kind of storage at the bottom. Of several kinds, the one that proves least about a device.
    pub end: End,
    /// Block devices at the bottom of the stack.
    pub lowest: Vec<Lowest>,
    /// Layers that use the page cache even if the run bypasses it, each with the remedy.
    pub page_cache: Vec<String>,
    /// Device numbers of all block devices in the stack, including the disks of partitions.
    pub passes: Vec<DevNo>,
    /// The data may be on any disk of this machine, or come over its network.
    pub anywhere: bool,
    /// What layers do to I/O that changes results, such as caching or encryption.
    #[serde(default)]
    pub effects: Vec<LayerEffect>,
    /// Some data may be on devices that are unknown or keep no counters.
    #[serde(default)]
    pub uncounted: bool,
}

impl Stack {
    /// True if this run's I/O passes through the device.
    pub fn passes(&self, dev: DevNo) -> bool {
        self.passes.contains(&dev)
    }

    /// Stack in a recorded tree of `/proc` and `/sys`, for a device's kernel name or a file's path.
    pub fn recorded(root: &SysRoot, name: &str) -> Self {
        walk::recorded(root, name)
    }

    /// Name of the bottom layer for a sentence, such as `tmpfs at /dev/shm`.
    pub fn bottom_in_words(&self) -> String {
        self.layers.last().map_or_else(|| "it".to_owned(), |layer| layer.name.clone())
    }
}

#[cfg(test)]
mod effects_tests;
#[cfg(test)]
mod tests;
