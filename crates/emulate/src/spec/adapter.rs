//! The specification of RAID adapters: their processors, links, write caches and drawers of devices.

use crate::part_id::PartId;

/// One adapter, or a pair of equal adapters that serve the same arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapters {
    /// 1 or 2 (a pair). In a pair each volume is optimized on one adapter, which serves it.
    pub count: u32,
    /// On which adapter of a pair each volume is optimized.
    pub access: Access,
    /// The adapters to which hosts send operations on a volume.
    pub host_paths: HostPaths,
    /// Maximum number of outstanding commands of one adapter; further ones wait in the host.
    pub commands_max: u32,
    /// The PCIe slot of each adapter.
    pub slot: Slot,
    /// The processor of each adapter.
    pub processor: Processor,
    /// The parity engine of each adapter.
    pub parity: ParityEngine,
    /// Latency from the end of the adapter's work to the host's driver; occupies nothing.
    pub latency_ns: u64,
    /// Default strip size of arrays.
    pub strip_bytes: u64,
    /// The write cache of each adapter; `None` if it is absent or off.
    pub cache: Option<Cache>,
    /// Maximum number of devices in all drawers together.
    pub devices_max: u32,
    /// Maximum number of SSDs in all drawers together.
    pub ssds_max: u32,
    /// Links between the adapters of a pair, over which they mirror writes.
    pub aa_links: u32,
    /// Pause of the volumes that change adapters, during which they answer nothing: when an adapter is lost, when it is
    /// back, and when an access state is changed.
    pub failover_ns: u64,
    /// The drawers, over which devices are distributed round-robin.
    pub drawers: Drawers,
}

/// The adapter of a pair on which each volume is optimized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Alternating, beginning with the first volume on the first adapter.
    Balanced,
    /// Not set: all volumes are on the primary, which is the first adapter.
    Cleared,
}

/// The adapters to which hosts send operations on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPaths {
    /// Only the adapter on which the volume is optimized.
    Optimized,
    /// Both adapters, alternating. The other adapter forwards its operations over the links between
    /// the adapters.
    Both,
}

/// A PCIe slot, as its adapter uses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// Bandwidth from the adapter to the host.
    pub read_bytes_per_s: f64,
    /// Bandwidth from the host to the adapter.
    pub write_bytes_per_s: f64,
    /// Time that the adapter's processor waits for each fetch of a command or of write data from the host's memory.
    pub fetch_ns: u64,
}

/// Time that operations occupy an adapter's processor, which serves them one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// A host's read.
    pub read_ns: u64,
    /// A host's write, flush or trim.
    pub write_ns: u64,
    /// An operation on a device.
    pub device_ns: u64,
    /// Extra time of a host's operation on a RAID 6 array.
    pub raid6_ns: u64,
    /// A host's operation on a volume that is optimized on the partner, which it forwards.
    pub forward_ns: u64,
}

/// The engine that computes parity, one stripe at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParityEngine {
    /// Rate of computing P, in bytes of data per second.
    pub xor_bytes_per_s: f64,
    /// Rate of computing Q after P, in bytes of data per second.
    pub gf_bytes_per_s: f64,
}

/// A non-volatile write cache. A write is acknowledged once it is in the cache, in a pair in both caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cache {
    /// Capacity for data. In a pair, half is for the adapter's own data and half for its partner's.
    pub bytes: u64,
    /// Extra time that a write occupies the processor.
    pub write_ns: u64,
    /// Time that a mirrored write of the partner occupies the processor, ahead of waiting commands.
    pub mirror_ns: u64,
    /// Bandwidth of each link between the adapters of a pair, in each direction.
    pub mirror_bytes_per_s: f64,
    /// Latency from the end of a mirror transfer to the partner's answer.
    pub mirror_latency_ns: u64,
    /// Fraction of an adapter's part of the cache that is dirty when the adapter begins to destage.
    pub destage_share: f64,
    /// Dirty bytes beyond the destage threshold over which the destage rate rises to its maximum.
    /// Beyond these, hosts wait.
    pub destage_ramp_bytes: u64,
    /// Maximum number of concurrent destage operations per device.
    pub destage_depth: u32,
    /// Whether the cache also holds recent reads.
    pub keeps_reads: bool,
}

impl Cache {
    /// Parameters with which a cache costs and does nothing, for adapters without one.
    pub(crate) const NONE: Self = Self {
        bytes: 0,
        write_ns: 0,
        mirror_ns: 0,
        mirror_bytes_per_s: f64::INFINITY,
        mirror_latency_ns: 0,
        destage_share: 0.0,
        destage_ramp_bytes: 0,
        destage_depth: 0,
        keeps_reads: false,
    };
}

/// Drawers of devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawers {
    /// Number of drawers.
    pub count: u32,
    /// Maximum number of devices per drawer.
    pub bays: u32,
    /// Bandwidth of the ports of one drawer, in each direction.
    pub bytes_per_s: f64,
}

/// The path of a volume through the adapters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterPath {
    /// The array or device of the volume.
    pub child: PartId,
    /// Whether `child` is a device.
    pub is_device: bool,
    /// Number of the path among all paths through the adapters.
    pub number: u32,
    /// Whether host operations cost an extra [`Processor::raid6_ns`].
    pub is_raid6: bool,
    /// Capacity of the volume in bytes.
    pub capacity_bytes: u64,
    /// Data bytes of a stripe, within which neighbouring units are destaged together.
    pub stripe_bytes: u64,
}
