//! The storage below a target, and the number of a cell's bytes that reached it.
//!
//! `targets` and `run` fill it in; [`verdict`](crate::verdict) interprets it.

use serde::{Deserialize, Serialize};

/// Layers and devices below a target, and the number of the cell's bytes that reached them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// Layers, from the target's name down.
    pub layers: Vec<StorageLayer>,
    /// Kind of storage at the bottom of the stack.
    pub end: StorageEnd,
    /// Kernel names of the devices at the bottom.
    pub lowest: Vec<String>,
    /// Layers that use the page cache whatever the run requested, as text, with the remedy.
    pub page_cache: Vec<String>,
    /// Effects of layers that change the measured figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<LayerEffect>,
    /// Bytes that reached the bottom during the cell; None if they can't be counted.
    pub reached: Option<Reached>,
    /// Capacity of the devices at the bottom, bytes.
    pub device_bytes: Option<u64>,
    /// Bytes written to the devices at the bottom from the machine's boot to the beginning of the cell.
    pub device_written_bytes: Option<u64>,
    /// Whether one of the devices rotates; None if unknown.
    pub rotational: Option<bool>,
}

/// One layer of storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageLayer {
    /// Kind, such as `loop`.
    pub kind: String,
    /// Name, such as `loop0`.
    pub name: String,
}

/// An effect of a layer on the I/O that passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Delays operations on purpose.
    Delays,
    /// Fails or drops operations on purpose.
    Fails,
    /// Answers from a second, faster device if that holds the block.
    Caches,
    /// Acknowledges writes from a second, faster device.
    CachesWrites,
    /// Copies old data on the first write of a block, or reads blocks from another device until then.
    CopiesOnWrite,
    /// Records each write on a second device.
    RecordsWrites,
    /// Lacks members of a RAID set.
    Degraded,
    /// Rebuilds or checks members of a RAID set.
    Resyncs,
    /// Allocates a block on its first write; reads of unallocated blocks touch no medium.
    Allocates,
    /// Compresses or deduplicates data.
    Reduces,
    /// Encrypts data.
    Encrypts,
    /// Stores checksums of blocks and verifies them.
    Verifies,
    /// Passes direct writes through the page cache, because it stores checksums.
    BuffersWrites,
    /// Unknown: recorded by a later version.
    #[serde(other)]
    Unknown,
}

/// An effect with the layer that causes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerEffect {
    /// Name of the layer.
    pub layer: String,
    /// Driver of the layer, such as `writecache`.
    pub driver: String,
    /// Kind of effect.
    pub effect: Effect,
    /// Extent of the effect, as text, such as `1 of 2 members`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
}

/// Kind of the bottom of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageEnd {
    /// The pattern is not known.
    #[default]
    Unknown,
    /// Devices, as far as the machine can tell.
    Device,
    /// A process of this machine, or an unknown layer: the bytes may come from any disk or over the network.
    Served,
    /// Another machine, or the host of this virtual one: nothing can be counted here.
    Remote,
    /// A server that reports that it emulates a device.
    Emulated,
    /// Memory of this machine.
    Memory,
}

/// Bytes that a cell issued, and bytes that the storage at the bottom moved in the same time: from the first operation
/// to the last, including the ramp and operations in flight at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reached {
    /// Bytes returned by the cell's reads.
    pub issued_read_bytes: u64,
    /// Bytes read from the storage at the bottom.
    pub device_read_bytes: u64,
    /// Bytes of the cell's writes.
    pub issued_written_bytes: u64,
    /// Bytes written to the storage at the bottom.
    pub device_written_bytes: u64,
}

/// Content of the page cache for a cell's active range, if the cell's I/O should leave nothing there
/// (`RWF_DONTCACHE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uncached {
    /// Size of the range, or bytes moved by the cell if that is less: the most that buffered I/O can leave in the
    /// cache.
    pub bytes: u64,
    /// Bytes in the page cache before the cell, after clean pages were dropped; None if the kernel does not count
    /// them.
    pub before_bytes: Option<u64>,
    /// Bytes in the page cache after the cell, including pages still to be written.
    pub after_bytes: Option<u64>,
    /// Bytes in the page cache after the cell that are dirty or under write-back.
    pub unwritten_bytes: Option<u64>,
}

impl Uncached {
    /// Bytes that I/O left clean in the page cache, as a share of the most that buffered I/O can leave; None if
    /// unknown.
    pub fn kept_share(&self) -> Option<f64> {
        let kept = self.after_bytes?.saturating_sub(self.unwritten_bytes?);
        Some(kept.saturating_sub(self.before_bytes?) as f64 / self.bytes.max(1) as f64)
    }

    /// Adds the figures of another target that was measured at the same time.
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

/// Activity of a block device during a cell, including the ramp, by the kernel's counters: of all programs, not only
/// of the cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskUse {
    /// Kernel name.
    pub name: String,
    /// Time between the two readings of the counters, ns.
    pub elapsed_ns: u64,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes read from the target, in all.
    pub read_bytes: u64,
    /// Bytes written or discarded.
    pub written_bytes: u64,
    /// Reads that were merged with others.
    pub read_merges: u64,
    /// Writes that were merged with others.
    pub write_merges: u64,
    /// Time of all reads, summed over reads, ms.
    pub read_ms: u64,
    /// Time of all writes, summed over writes, ms.
    pub write_ms: u64,
    /// Time of all I/Os in flight, summed over I/Os, ms.
    pub queue_ms: u64,
    /// Time with at least one I/O in flight, ms.
    pub busy_ms: u64,
}

impl DiskUse {
    /// Adds the activity of the device in another period.
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

    /// Adds the storage of another target that was measured at the same time. The layers are those of the target that
    /// proves least about a device.
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
    /// Adds the issued and moved bytes of another target's cell.
    pub fn add(&mut self, other: &Self) {
        self.issued_read_bytes += other.issued_read_bytes;
        self.device_read_bytes += other.device_read_bytes;
        self.issued_written_bytes += other.issued_written_bytes;
        self.device_written_bytes += other.device_written_bytes;
    }
}
