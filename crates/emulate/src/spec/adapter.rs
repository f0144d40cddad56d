//! The specification of RAID adapters: their processors, links, write caches and drawers of devices.

use crate::part_id::PartId;

/// A RAID adapter, or a pair of equal adapters that serve the same arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapters {
    /// Number of adapters: 1, or 2 (a pair). In a pair, each volume has one optimized adapter, which serves the volume.
    pub count: u32,
    /// Assignment of volumes to the adapters of a pair.
    pub access: Access,
    /// The adapters to which hosts send a volume's operations.
    pub host_paths: HostPaths,
    /// Maximum number of outstanding commands per adapter. Further ones wait in the host.
    pub commands_max: u32,
    /// PCIe slot of each adapter: bandwidths and fetch times.
    pub slot: Slot,
    /// Processor of each adapter: its time per host operation and per device operation.
    pub processor: Processor,
    /// Parity engine of each adapter: the rates at which it computes P and Q.
    pub parity: ParityEngine,
    /// Latency from the end of the adapter's work to the host's driver, ns. Occupies no resource.
    pub latency_ns: u64,
    /// Strip size of arrays that specify none, bytes.
    pub strip_bytes: u64,
    /// The write cache of each adapter; `None` if it is absent or off.
    pub cache: Option<Cache>,
    /// Maximum number of devices in all drawers combined.
    pub devices_max: u32,
    /// Maximum number of SSDs in all drawers combined.
    pub ssds_max: u32,
    /// Number of links between the adapters of a pair, over which they mirror writes.
    pub aa_links: u32,
    /// Time for which a volume is not served while it moves to another adapter, ns. A volume moves when an adapter is
    /// lost or returns, and when an access state changes.
    pub failover_ns: u64,
    /// The drawers, over which devices are distributed round-robin.
    pub drawers: Drawers,
}

/// Assignment of volumes to the adapters of a pair. Each volume is optimized on its adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Alternating between the adapters, beginning with the first volume on the first adapter.
    Balanced,
    /// No assignment: all volumes are on the primary, the first adapter.
    Cleared,
}

/// The adapters to which hosts send a volume's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPaths {
    /// All operations go to the adapter on which the volume is optimized.
    Optimized,
    /// Operations go to both adapters in turn. The non-optimized adapter forwards its operations over the links
    /// between the adapters.
    Both,
}

/// Bandwidths and DMA fetch time of an adapter in its PCIe slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// Bandwidth from the adapter to the host.
    pub read_bytes_per_s: f64,
    /// Bandwidth from the host to the adapter.
    pub write_bytes_per_s: f64,
    /// Time for which the adapter's processor waits whenever it fetches a command or write data from host memory, ns.
    pub fetch_ns: u64,
}

/// Time for which each type of operation occupies an adapter's processor. The processor serves one operation at a
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Processor time of a host's read, ns.
    pub read_ns: u64,
    /// Processor time of a host's write, flush or trim, ns.
    pub write_ns: u64,
    /// Processor time of an operation on a device, ns.
    pub device_ns: u64,
    /// Additional processor time of a host's operation on a RAID 6 array, ns.
    pub raid6_ns: u64,
    /// Processor time to forward a host's operation to the partner, which serves the operation's volume, ns.
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

/// A non-volatile write cache. A write is acknowledged once it is in the cache; in a pair, once it is in
/// both caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cache {
    /// Capacity for data in bytes. In a pair, one half is for the adapter's own data, the other mirrors its
    /// partner's.
    pub bytes: u64,
    /// Additional processor time of a write that is cached, ns.
    pub write_ns: u64,
    /// Processor time to store the mirror copy of a partner's write, ns. This work has priority over waiting commands.
    pub mirror_ns: u64,
    /// Bandwidth of each link between the adapters of a pair, in each direction.
    pub mirror_bytes_per_s: f64,
    /// Latency from the end of a mirror transfer to the partner's acknowledgement.
    pub mirror_latency_ns: u64,
    /// Destage threshold: dirty fraction of the adapter's own part of the cache, 0 to 1. Above it, the adapter
    /// destages.
    pub destage_share: f64,
    /// Amount of dirty data above the destage threshold at which the number of concurrent destages reaches its maximum,
    /// bytes. Host writes that would exceed this amount wait.
    pub destage_ramp_bytes: u64,
    /// Maximum number of concurrent destage operations per device.
    pub destage_depth: u32,
    /// Whether the cache also keeps recently read data.
    pub keeps_reads: bool,
}

impl Cache {
    /// Parameters for adapters without a cache: no size, no effect and no cost.
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

/// The drawers that contain the adapters' devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawers {
    /// Number of drawers, which all adapters share.
    pub count: u32,
    /// Maximum number of devices per drawer.
    pub bays: u32,
    /// Bandwidth of the ports of one drawer, in each direction.
    pub bytes_per_s: f64,
}

/// A volume's path through RAID adapters to an array or device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterPath {
    /// The array or device behind the path.
    pub child: PartId,
    /// Whether `child` is a device rather than an array.
    pub is_device: bool,
    /// Index of the path among all paths through the adapters.
    pub number: u32,
    /// Whether each host operation costs the additional [`Processor::raid6_ns`].
    pub is_raid6: bool,
    /// Capacity that the host sees, bytes.
    pub capacity_bytes: u64,
    /// Bytes of data per stripe; for devices and levels without strips, [`Adapters::strip_bytes`]. Neighbouring dirty
    /// units within a stripe are destaged together.
    pub stripe_bytes: u64,
}
