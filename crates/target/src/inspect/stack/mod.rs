//! The stack of a target: the layers from its name down to the storage of its bytes.
//!
//! A loop device lies on a file, the file on a file system, that on a RAID set, the set on disks. The meaning
//! of a measurement at the top depends on the bottom: a disk, memory, a process that serves, another machine.
//! [`stack_of`] walks down and opens nothing; [`Stack::count`] reads how many bytes the bottom has moved, so
//! that two readings give how many of a run's bytes reached it. Layers with unknown names are not trusted:
//! their bytes are searched on every disk of the machine.

mod count;
mod effects;
mod walk;

use serde::{Deserialize, Serialize};

use crate::sysroot::{DevNo, SysRoot};

pub use count::Counted;
pub use effects::{Effect, LayerEffect};
pub(crate) use walk::stack_of;

/// The kind of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// A file system on block devices.
    FileSystem,
    /// A file system whose files are memory: tmpfs, ramfs.
    MemoryFileSystem,
    /// Layers of other file systems.
    Overlay,
    /// A file system whose bytes another machine keeps.
    NetworkFileSystem,
    /// A file system of the hypervisor's host: 9p, virtiofs.
    HostFileSystem,
    /// A file system that a process serves.
    Fuse,
    /// A file system without a known device.
    UnknownFileSystem,
    /// A loop device.
    Loop,
    /// A device-mapper device.
    DeviceMapper,
    /// A RAID set of md.
    Raid,
    /// Another device that is built on devices.
    Composed,
    /// A partition.
    Partition,
    /// A disk, as far as this machine can see.
    Disk,
    /// Compressed memory.
    Zram,
    /// A RAM disk of the kernel.
    RamDisk,
    /// A device that answers without storing: `null_blk`, `scsi_debug`.
    TestDevice,
    /// Memory that is addressed as storage.
    PersistentMemory,
    /// A block device that a process or another machine serves: nbd, ublk, a SCSI target.
    ServedDevice,
    /// A virtual block device of an unknown kind.
    UnknownDevice,
    /// A server that iodyno connects to directly.
    NbdServer,
}

/// One layer of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Its kind.
    pub kind: LayerKind,
    /// Its own name: a device's, or a file system's with its mount point.
    pub name: String,
}

/// The kind of storage at the end of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Unknown.
    #[default]
    Unknown,
    /// Devices, as far as this machine can see.
    Device,
    /// A process of this machine, or an unknown layer.
    Served,
    /// Another machine, or this one's host.
    Remote,
    /// A server that reports that it emulates a device.
    Emulated,
    /// Memory of this machine.
    Memory,
}

/// A block device at the bottom of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lowest {
    /// The kernel's name: of the partition, where the stack stands on one.
    pub name: String,
    /// Its number.
    pub dev: DevNo,
    /// Capacity, bytes.
    pub size_bytes: Option<u64>,
    /// Whether it rotates; `None` also where the driver's report is unreliable, as virtio's is.
    pub rotational: Option<bool>,
}

/// The layers of a target and the devices at their bottom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// From the top to the bottom; members of one layer one after the other.
    pub layers: Vec<Layer>,
    /// The kind of its bottom. Of several ends the one that proves least about a device.
    pub end: End,
    /// The devices at the bottom.
    pub lowest: Vec<Lowest>,
    /// Layers that go through the page cache whatever the run requests, each with the remedy.
    pub page_cache: Vec<String>,
    /// Numbers of all block devices on the way, disks of partitions among them.
    pub passes: Vec<DevNo>,
    /// The bytes may be on any disk of this machine, or come over its network.
    pub anywhere: bool,
    /// What layers do to the I/O that passes them, where that changes figures.
    #[serde(default)]
    pub effects: Vec<LayerEffect>,
    /// Bytes may be on further devices, which are not known or keep no counters.
    #[serde(default)]
    pub uncounted: bool,
}

impl Stack {
    /// True where this run's I/O goes through the device.
    pub fn passes(&self, dev: DevNo) -> bool {
        self.passes.contains(&dev)
    }

    /// The stack of a device, by its kernel name, or of a file, by its path, in a recorded tree of `/proc` and `/sys`.
    pub fn recorded(root: &SysRoot, name: &str) -> Self {
        walk::recorded(root, name)
    }

    /// The layer at the bottom, in words: `tmpfs at /dev/shm`.
    pub fn bottom_in_words(&self) -> String {
        self.layers.last().map_or_else(|| "it".to_owned(), |layer| layer.name.clone())
    }
}

#[cfg(test)]
mod effects_tests;
#[cfg(test)]
mod tests;
