//! The storage of a target's bytes, and how many of a cell's bytes reached it.
//!
//! Found by `target` and `run`; [`verdict`](crate::verdict) interprets it.

use serde::{Deserialize, Serialize};

/// The storage of a target; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// The layers, from the target's name down.
    pub layers: Vec<StorageLayer>,
    /// The kind of its bottom.
    pub end: StorageEnd,
    /// Kernel names of the devices at the bottom.
    pub lowest: Vec<String>,
    /// Layers that go through the page cache whatever the run requested, in words, with the remedy.
    pub page_cache: Vec<String>,
    /// What layers do to the I/O that passes them, where that changes figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<LayerEffect>,
    /// How many bytes reached the bottom while the cell ran; None where that can't be counted.
    pub reached: Option<Reached>,
    /// Capacity of the devices at the bottom, bytes.
    pub device_bytes: Option<u64>,
    /// Bytes that were written to them from the start of this machine to the beginning of the cell.
    pub device_written_bytes: Option<u64>,
    /// Whether one of them rotates; None where that is not known.
    pub rotational: Option<bool>,
}

/// One layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageLayer {
    /// Its kind, such as `loop`.
    pub kind: String,
    /// Its own name, such as `loop0`.
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
    /// Answers from a second, faster device where that holds the block.
    Caches,
    /// Acknowledges writes from a second, faster device.
    CachesWrites,
    /// Copies old data at the first write of a block, or reads blocks from another device until then.
    CopiesOnWrite,
    /// Records each write on a second device.
    RecordsWrites,
    /// Lacks members of a RAID set.
    Degraded,
    /// Rebuilds or checks members of a RAID set.
    Resyncs,
    /// Allocates a block at its first write; reads of others touch no medium.
    Allocates,
    /// Compresses or deduplicates.
    Reduces,
    /// Encrypts.
    Encrypts,
    /// Keeps checksums of blocks and verifies them.
    Verifies,
    /// Passes direct writes through the page cache, since it keeps checksums.
    BuffersWrites,
    /// Unknown: recorded by a later version.
    #[serde(other)]
    Unknown,
}

/// An effect, and the layer that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerEffect {
    /// The layer's own name.
    pub layer: String,
    /// Its driver, such as `writecache`.
    pub driver: String,
    /// The effect.
    pub effect: Effect,
    /// Its amount, in words, such as `1 of 2 members`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
}

/// The kind of the bottom of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageEnd {
    /// Unknown.
    #[default]
    Unknown,
    /// Devices, as far as the machine can see.
    Device,
    /// A process of this machine, or an unknown layer: its bytes may come from any disk or over the network.
    Served,
    /// Another machine, or this one's host: nothing can be counted here.
    Remote,
    /// A server that reports that it emulates a device.
    Emulated,
    /// Memory of this machine.
    Memory,
}

/// Bytes that a cell issued, and those that the bottom moved meanwhile: from the first operation to the last, ramp
/// and what was in flight at the end included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reached {
    /// Bytes that the cell's reads gave.
    pub issued_read_bytes: u64,
    /// Bytes that were read from the bottom.
    pub device_read_bytes: u64,
    /// Bytes that the cell's writes took.
    pub issued_written_bytes: u64,
    /// Bytes that were written to the bottom.
    pub device_written_bytes: u64,
}

/// What the page cache held of a cell's active range, where I/O went through it and was to leave nothing there
/// (`RWF_DONTCACHE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uncached {
    /// Bytes of the range, or of what the cell moved if that is less: buffered I/O can leave no more there.
    pub bytes: u64,
    /// Before the cell, after what was clean had been dropped; None where the kernel does not count it.
    pub before_bytes: Option<u64>,
    /// After it, pages included that are still to be written.
    pub after_bytes: Option<u64>,
    /// Of these, bytes that are dirty or being written.
    pub unwritten_bytes: Option<u64>,
}

impl Uncached {
    /// Bytes that I/O left in the page cache though they need no more writing, as a share of what buffered I/O
    /// can leave; None where that is not known.
    pub fn kept_share(&self) -> Option<f64> {
        let kept = self.after_bytes?.saturating_sub(self.unwritten_bytes?);
        Some(kept.saturating_sub(self.before_bytes?) as f64 / self.bytes.max(1) as f64)
    }

    /// Adds that of another target that was measured at the same time.
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

/// What a block device did while a cell ran, ramp included, by the kernel's counters: of every program, and not
/// of the cell alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskUse {
    /// Its kernel name.
    pub name: String,
    /// Time between the two readings of its counters, ns.
    pub elapsed_ns: u64,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads that were merged with others.
    pub read_merges: u64,
    /// Writes that were merged with others.
    pub write_merges: u64,
    /// Time that reads took, summed over reads, ms.
    pub read_ms: u64,
    /// Time that writes took, summed over writes, ms.
    pub write_ms: u64,
    /// Time that all I/Os were in flight, summed over I/Os, ms.
    pub queue_ms: u64,
    /// Time with at least one I/O in flight, ms.
    pub busy_ms: u64,
}

impl DiskUse {
    /// Adds what the device did at another time.
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
            // Of an untrusted notebook the sum may not fit.
            *mine = mine.saturating_add(theirs);
        }
    }
}

impl Storage {
    /// True where all of it is memory of this machine, or some of it.
    pub fn is_memory(&self) -> bool {
        self.end == StorageEnd::Memory
    }

    /// Adds the storage of another target that was measured at the same time. Layers are those of the target
    /// that proves least about a device.
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
        // Each target's own cell shows how full its device is.
        (self.device_bytes, self.device_written_bytes, self.rotational) = (None, None, None);
    }
}

impl Reached {
    /// Adds the bytes that another target's cell issued and that its bottom moved.
    pub fn add(&mut self, other: &Self) {
        self.issued_read_bytes += other.issued_read_bytes;
        self.device_read_bytes += other.device_read_bytes;
        self.issued_written_bytes += other.issued_written_bytes;
        self.device_written_bytes += other.device_written_bytes;
    }
}
