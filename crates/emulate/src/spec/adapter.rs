//! The specification of RAID adapters: their processors, links and write caches, and the drawers behind them.

use crate::part_id::PartId;

/// One adapter, or two equal ones that serve the same arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapters {
    /// 1, or 2: a pair. In a pair each volume is optimized on one adapter, which serves it.
    pub count: u32,
    /// Which.
    pub access: Access,
    /// The adapters to which hosts send operations on a volume.
    pub host_paths: HostPaths,
    /// Outstanding commands of one adapter; more wait in the host.
    pub commands_max: u32,
    /// The slot of each adapter.
    pub slot: Slot,
    /// The processor of each adapter.
    pub processor: Processor,
    /// The engine of each adapter that computes parity.
    pub parity: ParityEngine,
    /// From the end of the adapter's work to the host's driver; occupies nothing.
    pub latency_ns: u64,
    /// A strip of its arrays where the array names none.
    pub strip_bytes: u64,
    /// The write cache of each adapter; None: there is none, or it is off.
    pub cache: Option<Cache>,
    /// Devices of all drawers, at most.
    pub devices_max: u32,
    /// Of these SSDs, at most.
    pub ssds_max: u32,
    /// Links between the adapters of a pair, by which they mirror their writes.
    pub aa_links: u32,
    /// After an adapter is lost, after it is back, and after an access state is changed, the volumes that change
    /// adapters answer nothing for this long.
    pub failover_ns: u64,
    /// The drawers, over which the devices are spread in turn.
    pub drawers: Drawers,
}

/// On which adapter of a pair volumes are optimized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The first volume on the first adapter, the next on the other, in turn.
    Balanced,
    /// None is set: all are on the primary, which is the first.
    Cleared,
}

/// The adapters to which hosts send operations on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPaths {
    /// The one on which it is optimized.
    Optimized,
    /// Both, in turn: the other forwards its part over the links between them.
    Both,
}

/// A PCIe slot as its adapter uses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// From the adapter to the host.
    pub read_bytes_per_s: f64,
    /// From the host to the adapter.
    pub write_bytes_per_s: f64,
    /// The adapter's processor waits for so long when it fetches a command, or a write's data, from the host's memory.
    pub fetch_ns: u64,
}

/// Occupancy of an adapter's processor, which serves one operation after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// By a host's read.
    pub read_ns: u64,
    /// By a host's write, flush or trim.
    pub write_ns: u64,
    /// By an operation on a device.
    pub device_ns: u64,
    /// By a host's operation on a RAID 6 array, in addition.
    pub raid6_ns: u64,
    /// By a host's operation on a volume that is not optimized there, which it forwards.
    pub forward_ns: u64,
}

/// The engine that computes parity, one stripe after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParityEngine {
    /// P of this many bytes of data a second.
    pub xor_bytes_per_s: f64,
    /// Q of this many bytes of data a second, after P.
    pub gf_bytes_per_s: f64,
}

/// A write cache in non-volatile memory: a write is acknowledged when it is there, in both adapters of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cache {
    /// Bytes of data that it holds: of a pair, those of the adapter and those of its partner, half each.
    pub bytes: u64,
    /// A write occupies the processor for this long, in addition.
    pub write_ns: u64,
    /// A write of the partner occupies the processor for this long, before the commands that wait for it.
    pub mirror_ns: u64,
    /// Each link between the adapters of a pair carries this much, in each direction.
    pub mirror_bytes_per_s: f64,
    /// From the end of that transfer to the partner's answer.
    pub mirror_latency_ns: u64,
    /// The adapter begins to write to devices (destage) when this share of its half holds data that are not on them.
    pub destage_share: f64,
    /// Over the next so many bytes it writes faster and faster. When they are full too, hosts wait.
    pub destage_ramp_bytes: u64,
    /// Destage operations in progress, at most, for each device.
    pub destage_depth: u32,
    /// It also holds what hosts lately read.
    pub keeps_reads: bool,
}

impl Cache {
    /// The costs where there is no cache.
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
    /// Their number.
    pub count: u32,
    /// Devices of one, at most.
    pub bays: u32,
    /// The ports of one carry this much, in each direction.
    pub bytes_per_s: f64,
}

/// The path of a volume through the adapters of its system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterPath {
    /// The array or the device.
    pub child: PartId,
    /// It is a device.
    pub is_device: bool,
    /// Its number among the paths of the adapters.
    pub number: u32,
    /// The host's operations on it occupy the processor for [`Processor::raid6_ns`] more.
    pub is_raid6: bool,
    /// Bytes of the volume.
    pub capacity_bytes: u64,
    /// Bytes of a stripe's data, within which neighbours are destaged together.
    pub stripe_bytes: u64,
}
