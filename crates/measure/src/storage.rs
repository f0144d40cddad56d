//! The storage below a target, and the bytes that its devices moved during a cell. The crates `targets` and `run`
//! record these facts; [`verdict`](crate::verdict) interprets them.

use serde::{Deserialize, Serialize};

/// Stack of layers and devices below a target, and the bytes that the devices moved during a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// Layers of the storage stack, from the target down.
    pub layers: Vec<StorageLayer>,
    /// Kind of storage at the bottom of the stack.
    pub end: StorageEnd,
    /// Kernel names of the devices at the bottom of the stack.
    pub lowest: Vec<String>,
    /// Layers that always use the page cache, even for direct I/O. Each text includes the remedy.
    pub page_cache: Vec<String>,
    /// Layers that affect the measured figures, each with its effect, such as caching.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<LayerEffect>,
    /// Bytes that reached the bottom of the stack during the cell; None if they cannot be counted.
    pub reached: Option<Reached>,
    /// Total capacity of the devices at the bottom of the stack, bytes; None if unknown.
    pub device_bytes: Option<u64>,
    /// Bytes written to the devices at the bottom of the stack between boot and the start of the cell; None if unknown.
    pub device_written_bytes: Option<u64>,
    /// Whether at least one of the devices is rotational; None if unknown.
    pub rotational: Option<bool>,
}

/// One layer of a storage stack, such as a loop device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageLayer {
    /// Kind of layer, such as `loop`.
    pub kind: String,
    /// Name of the layer, such as `loop0`.
    pub name: String,
}

/// Effect of a storage layer on the I/O that passes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The layer delays operations on purpose.
    Delays,
    /// The layer fails or drops operations on purpose.
    Fails,
    /// The layer serves cached blocks from a second, faster device.
    Caches,
    /// The layer acknowledges writes once they are on a second, faster device.
    CachesWrites,
    /// The layer copies old data on the first write to a block (snapshot), or reads unwritten blocks from another
    /// device.
    CopiesOnWrite,
    /// The layer logs each write on a second device.
    RecordsWrites,
    /// A RAID array of the layer lacks members.
    Degraded,
    /// A RAID array of the layer is being rebuilt or checked.
    Resyncs,
    /// The layer is thin-provisioned: it allocates blocks on first write, and answers reads of unallocated blocks
    /// itself.
    Allocates,
    /// The layer compresses or deduplicates data.
    Reduces,
    /// The layer encrypts data, so each latency includes its CPU time.
    Encrypts,
    /// The layer stores checksums of blocks and verifies them on reads.
    Verifies,
    /// The layer passes direct writes through the page cache, because it stores checksums.
    BuffersWrites,
    /// An effect that this version does not know. Occurs in results stored by a later version.
    #[serde(other)]
    Unknown,
}

/// An effect on I/O, and the layer that causes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerEffect {
    /// Name of the device or file system that forms the layer.
    pub layer: String,
    /// Driver of the layer, such as `writecache` of the device mapper.
    pub driver: String,
    /// What the layer does to I/O, such as caching or encryption.
    pub effect: Effect,
    /// Extent of the effect, as text, such as `1 of 2 members`; None if the effect has no extent or it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
}

/// Kind of storage at the bottom of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageEnd {
    /// The kind of storage is unknown, for example because the device is gone.
    #[default]
    Unknown,
    /// The stack ends in block devices that appear to be physical.
    Device,
    /// The stack ends in a local server process or an unknown layer. The storage behind it may be any disk or a
    /// network.
    Served,
    /// The stack ends at another machine, or at the host of this virtual machine. The devices' I/O can't be counted on
    /// this machine.
    Remote,
    /// The stack ends in a server that reports that it emulates a device.
    Emulated,
    /// The stack ends in this machine's memory.
    Memory,
}

/// Bytes issued by a cell, and bytes moved by the devices at the bottom of the stack in the same period: from
/// the first operation to the last, including the ramp and operations that completed after the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reached {
    /// Bytes returned by the cell's reads.
    pub issued_read_bytes: u64,
    /// Bytes read from the devices at the bottom of the stack.
    pub device_read_bytes: u64,
    /// Bytes sent by the cell's writes.
    pub issued_written_bytes: u64,
    /// Bytes written to the devices at the bottom of the stack.
    pub device_written_bytes: u64,
}

/// Page cache content of a cell's active range before and after uncached buffered I/O (`RWF_DONTCACHE`), which should
/// leave nothing in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uncached {
    /// Maximum that buffered I/O could leave in the page cache, bytes: the size of the active range, or the bytes
    /// moved by the cell if fewer.
    pub bytes: u64,
    /// Bytes of the range in the page cache before the cell, after clean pages were dropped; None if the kernel
    /// does not count them.
    pub before_bytes: Option<u64>,
    /// Bytes of the range in the page cache after the cell, including dirty pages and those under write-back; None if
    /// unknown.
    pub after_bytes: Option<u64>,
    /// Dirty bytes of the range in the page cache after the cell, including those under write-back; None if unknown.
    pub unwritten_bytes: Option<u64>,
}

impl Uncached {
    /// Clean bytes that the cell left in the page cache, as a fraction of the maximum `bytes`; None if unknown.
    pub fn kept_share(&self) -> Option<f64> {
        let kept = self.after_bytes?.saturating_sub(self.unwritten_bytes?);
        Some(kept.saturating_sub(self.before_bytes?) as f64 / self.bytes.max(1) as f64)
    }

    /// Adds the byte counts of another target that was measured at the same time.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            before_bytes: sum(self.before_bytes, other.before_bytes),
            after_bytes: sum(self.after_bytes, other.after_bytes),
            unwritten_bytes: sum(self.unwritten_bytes, other.unwritten_bytes),
        }
    }
}

/// Activity of a block device during a cell including its ramp, from the kernel's counters. The counters include the
/// I/O of all programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskUse {
    /// Kernel name of the device, such as `sda`.
    pub name: String,
    /// Time between the two readings of the counters, ns.
    pub elapsed_ns: u64,
    /// Number of reads that the device completed, after the kernel merged them.
    pub reads: u64,
    /// Number of writes that the device completed, after the kernel merged them.
    pub writes: u64,
    /// Bytes that all programs together read from the device.
    pub read_bytes: u64,
    /// Bytes that all programs together wrote to the device. Before Linux 4.18, the kernel's count includes discarded
    /// bytes.
    pub written_bytes: u64,
    /// Number of reads that the kernel merged into others.
    pub read_merges: u64,
    /// Number of writes that the kernel merged into others.
    pub write_merges: u64,
    /// Summed duration of all reads, ms.
    pub read_ms: u64,
    /// Summed duration of all writes, ms.
    pub write_ms: u64,
    /// Summed time of all I/Os in flight, ms (weighted I/O time).
    pub queue_ms: u64,
    /// Time during which at least one I/O was in flight, ms.
    pub busy_ms: u64,
}

impl DiskUse {
    /// Adds the activity of the same device in another period.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.elapsed_ns, other.elapsed_ns),
            (&mut self.reads, other.reads),
            (&mut self.writes, other.writes),
            (&mut self.read_bytes, other.read_bytes),
            (&mut self.written_bytes, other.written_bytes),
            (&mut self.read_merges, other.read_merges),
            (&mut self.write_merges, other.write_merges),
            (&mut self.read_ms, other.read_ms),
            (&mut self.write_ms, other.write_ms),
            (&mut self.queue_ms, other.queue_ms),
            (&mut self.busy_ms, other.busy_ms),
        ] {
            // In an untrusted notebook the sum may overflow.
            *mine = mine.saturating_add(theirs);
        }
    }
}

impl Storage {
    /// Whether all or part of the storage is memory of this machine.
    pub fn is_memory(&self) -> bool {
        self.end == StorageEnd::Memory
    }

    /// Adds the storage of another target that was measured at the same time. Keeps only the layers of the target whose
    /// [`StorageEnd`] is later in the order of declaration.
    pub fn add(&mut self, other: &Self) {
        if other.end > self.end {
            (self.end, self.layers) = (other.end, other.layers.clone());
        }
        for name in &other.lowest {
            if !self.lowest.contains(name) {
                self.lowest.push(name.clone());
            }
        }
        for layer in &other.page_cache {
            if !self.page_cache.contains(layer) {
                self.page_cache.push(layer.clone());
            }
        }
        for effect in &other.effects {
            if !self.effects.contains(effect) {
                self.effects.push(effect.clone());
            }
        }
        if let (Some(mine), Some(theirs)) = (&mut self.reached, &other.reached) {
            mine.add(theirs);
        } else {
            self.reached = None;
        }
        // Only each target's own cell shows the fill of its device.
        (self.device_bytes, self.device_written_bytes, self.rotational) = (None, None, None);
    }
}

impl Reached {
    /// Adds the byte counts of another target's cell.
    pub fn add(&mut self, other: &Self) {
        self.issued_read_bytes += other.issued_read_bytes;
        self.device_read_bytes += other.device_read_bytes;
        self.issued_written_bytes += other.issued_written_bytes;
        self.device_written_bytes += other.device_written_bytes;
    }
}
