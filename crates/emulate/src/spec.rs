//! The specification of a system, in checked numbers: host and devices here, and their composition to volumes
//! in `system`. `describe` converts catalog files to these types; the machine is built from them.
//!
//! All times are ns, all sizes bytes, all rates bytes a second, unless the name says otherwise.

mod adapter;
mod array;
mod limit;
mod read_cache;
mod system;

use crate::disk::DiskSpec;
pub use adapter::{
    Access, AdapterPath, Adapters, Cache, Drawers, HostPaths, ParityEngine, Processor, Slot,
};
pub use array::{Array, ArrayShape, SECTOR_BYTES, STRIP_BYTES};
use core::fmt;
use iodyno_units::{Precondition, human};
pub use limit::{Counted, Credits, Limit};
pub use read_cache::ReadCache;
pub use system::{Group, Part, PlacedDevice, System, Volume};

/// State of a device before the machine starts: a [`Precondition`] with the values that it leaves to the workload
/// filled in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preconditioned {
    /// Pattern of the earlier writes.
    pub how: Written,
    /// The written share of the device's capacity, 0 to 1.
    pub fill: f64,
}

/// The pattern of a device's earlier writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Never: fresh out of the box, or after a secure erase.
    Fresh,
    /// Once, in address order.
    Sequential,
    /// At random, in aligned blocks of this many bytes, until steady state.
    Random {
        /// Size of one write.
        block_bytes: u32,
    },
    /// At random within a part of the capacity, until steady state. The rest was written once
    /// before, in address order.
    RandomWithin {
        /// Size of one write.
        block_bytes: u32,
        /// Start of the randomly written part, in millionths of the capacity.
        start_ppm: u32,
        /// End of the randomly written part, in millionths of the capacity.
        end_ppm: u32,
    },
}

impl Written {
    /// Returns the units to which random writes went, on a device of `units` units; empty if there
    /// were none.
    pub fn rewritten(self, units: u64) -> core::ops::Range<u64> {
        let at = |ppm: u32| (u128::from(units) * u128::from(ppm) / 1_000_000) as u64;
        match self {
            Self::Fresh | Self::Sequential => 0..0,
            Self::Random { .. } => 0..units,
            Self::RandomWithin { start_ppm, end_ppm, .. } => at(start_ppm)..at(end_ppm),
        }
    }

    /// Size of the random writes in bytes; `None` if there were none.
    pub const fn random_block_bytes(self) -> Option<u32> {
        match self {
            Self::Fresh | Self::Sequential => None,
            Self::Random { block_bytes } | Self::RandomWithin { block_bytes, .. } => {
                Some(block_bytes)
            }
        }
    }

    /// Derives the pattern from `asked`. If that leaves it to the workload: sequential if the
    /// workload goes through the device in address order, otherwise random in blocks of
    /// `block_bytes`.
    pub const fn of(asked: Precondition, in_order: bool, block_bytes: u32) -> Self {
        match asked {
            Precondition::Fresh => Self::Fresh,
            Precondition::Sequential => Self::Sequential,
            Precondition::Random { block_bytes: Some(block_bytes) } => Self::Random { block_bytes },
            Precondition::Workload | Precondition::Carried if in_order => Self::Sequential,
            Precondition::Random { .. } | Precondition::Workload | Precondition::Carried => {
                Self::Random { block_bytes }
            }
        }
    }
}

/// `random in 4 KiB blocks, 50 % full`.
impl fmt::Display for Preconditioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.how {
            Written::Fresh => return f.write_str("fresh"),
            Written::Sequential => f.write_str("sequential")?,
            Written::Random { block_bytes } => {
                write!(f, "random in {} blocks", human::size(block_bytes.into()))?;
            }
            Written::RandomWithin { block_bytes, start_ppm, end_ppm } => {
                let block = human::size(block_bytes.into());
                let percent = |ppm: u32| f64::from(ppm) / 1e4;
                let (start, end) = (percent(start_ppm), percent(end_ppm));
                write!(
                    f,
                    "random in {block} blocks from {start} % to {end} %, the rest written once"
                )?;
            }
        }
        if self.fill < 1.0 { write!(f, ", {} % full", self.fill * 100.0) } else { Ok(()) }
    }
}

/// The server: processors, memory and times of its software.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Number of CPU sockets.
    pub sockets: u32,
    /// Physical cores of one socket.
    pub cores_per_socket: u32,
    /// The load generator's CPU time per I/O before submission.
    pub generator_ns: u64,
    /// The time to wake a generator that sleeps until its next completion.
    pub wake_ns: u64,
    /// Memory bandwidth of one socket, all channels together.
    pub memory_bytes_per_s: f64,
    /// Bandwidth of one memory channel, which a flash DIMM shares with RDIMMs.
    pub memory_channel_bytes_per_s: f64,
    /// Whether all memory channels of a socket are populated equally.
    pub memory_balanced: bool,
    /// Share of a memory channel's bandwidth that remains if the channels are unbalanced, 0 to 1.
    pub unbalanced_share: f64,
    /// Factor on the time of a copy that crosses to another socket; 1: no slowdown.
    pub remote_copy_factor: f64,
    /// Whether workers run on the socket of their device; otherwise on any socket.
    pub workers_near: bool,
    /// Additional time of a flash DIMM's driver thread per write, after the module has the data.
    pub driver_write_ns: u64,
    /// How flash DIMMs may be placed in the server.
    pub slots: Slots,
}

/// How flash DIMMs may be placed in the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Maximum number of flash DIMMs on one socket; 0: the system accepts none.
    pub flash_dimms_per_socket: u32,
    /// Memory channels of a socket.
    pub channels_per_socket: u32,
    /// RDIMMs on one channel.
    pub rdimms_per_channel: u32,
    /// Kind of the memory modules other than the flash DIMMs.
    pub memory_kind: MemoryKind,
    /// Mode of the memory channels.
    pub memory_mode: MemoryMode,
}

/// Kind of memory module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Registered DIMMs.
    Rdimm,
    /// Load-reduced DIMMs.
    Lrdimm,
    /// Unbuffered DIMMs.
    Udimm,
}

/// Mode of memory channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryMode {
    /// Independent channels.
    Independent,
    /// Channels in lockstep pairs.
    Lockstep,
    /// Channels with a rank in reserve.
    Sparing,
    /// Channels with every rank mirrored.
    Mirroring,
}

/// A storage device: name, family and specification.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name in the catalog.
    pub name: String,
    /// Family and specification.
    pub kind: Kind,
    /// Whether the device can be replaced while the system is on.
    pub hot_swap: bool,
    /// Limits of its rates, all of which hold at once.
    pub limits: Vec<Limit>,
}

/// The families of devices.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// NAND flash behind a controller.
    Flash(Box<Flash>),
    /// A rotating disk.
    Disk(Box<DiskSpec>),
    /// Memory as a block device.
    Memory(Box<Memory>),
    /// A volume of a cloud provider.
    Volume(Box<CloudVolume>),
}

/// A volume of a cloud provider: a latency behind a network.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudVolume {
    /// Capacity that the host sees.
    pub capacity_bytes: u64,
    /// Mean latency of a read, without waiting and without the transfer of its data.
    pub read_ns: u64,
    /// Mean latency of a write, as for a read.
    pub write_ns: u64,
    /// Mean latency of a flush.
    pub flush_ns: u64,
    /// Share of the latencies that is exponentially distributed, 0 to 1; the rest is constant. It is the ratio of
    /// their standard deviation to their mean.
    pub varying_share: f64,
    /// Bandwidth of the network in each direction.
    pub bytes_per_s: f64,
    /// Maximum number of outstanding commands; more wait in the host.
    pub queue_max: u32,
}

/// Memory as a block device: the submitter does the work.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Capacity that the host sees.
    pub capacity_bytes: u64,
    /// Software time per I/O: system call, block layer, driver.
    pub io_ns: u64,
    /// Rate at which one core copies from the device.
    pub read_bytes_per_s: f64,
    /// Rate at which one core copies to the device.
    pub write_bytes_per_s: f64,
    /// Number of times that each byte of a read crosses the memory bus.
    pub read_passes: f64,
    /// Number of times that each byte of a write crosses the memory bus.
    pub write_passes: f64,
    /// Time of a flush.
    pub flush_ns: u64,
    /// Whether content survives a power cut.
    pub protected: bool,
}

/// NAND flash behind a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Flash {
    /// The capacity that the host sees.
    pub capacity_bytes: u64,
    /// How the device is attached to the host.
    pub attach: Attach,
    /// Times and limits of the controller.
    pub controller: Controller,
    /// Geometry and times of the NAND.
    pub nand: Nand,
    /// The write buffer in front of the NAND.
    pub buffer: Buffer,
    /// The translation layer: reserve, mapping writes and stalls.
    pub translation: Translation,
    /// Rated write endurance.
    pub endurance: Endurance,
}

/// The attachment of a flash device to the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Attach {
    /// In a memory slot, served by a driver thread that polls and copies.
    MemoryChannel {
        /// Devices per driver thread (2 by default, 1 with `max-occupancy`).
        devices_per_thread: u32,
        /// Time of the driver thread per command.
        command_ns: u64,
        /// Rate at which one thread copies from the device.
        read_copy_bytes_per_s: f64,
        /// Rate at which one thread copies to the device.
        write_copy_bytes_per_s: f64,
        /// Interval at which the thread polls for data, if it has a core for itself.
        poll_ns: u64,
        /// Interval at which the thread polls if there are more threads than cores on the socket.
        poll_crowded_ns: u64,
    },
    /// On a link such as SATA, SAS or PCIe.
    Link {
        /// Bandwidth from the device to the host.
        read_bytes_per_s: f64,
        /// Bandwidth from the host to the device.
        write_bytes_per_s: f64,
        /// Whether both directions transfer at once.
        full_duplex: bool,
        /// Time for which a command and its answer occupy the link, in addition to the data.
        command_ns: u64,
        /// Latency of host software, protocol and wire per I/O; occupies nothing.
        latency_ns: u64,
        /// Maximum number of outstanding commands; more wait in the host.
        queue_max: u32,
        /// CPU time of the host per I/O beyond the generator's (a host-side FTL).
        host_ns: u64,
        /// Rate at which one core of the host pins and maps memory for the device.
        host_bytes_per_s: f64,
    },
}

/// Times and limits of a flash device's controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Time for which a read command occupies the controller.
    pub read_command_ns: u64,
    /// Latency from the flash to the host's interface, beyond the modelled steps; occupies nothing.
    pub read_latency_ns: u64,
    /// Time for which a write command occupies the controller.
    pub write_command_ns: u64,
    /// Time for which a 4 KiB page that garbage collection copies occupies the controller.
    pub copy_ns: u64,
    /// Time for which a change from reads to writes, or back, occupies the controller.
    pub turn_ns: u64,
    /// Maximum number of page reads in progress at once; 0: no limit.
    pub read_contexts: u32,
    /// Number of independent parts of the controller, between which 4 KiB units alternate.
    pub lanes: u32,
    /// Probability that two neighbouring units of a lane lie in different flash pages although the
    /// same write wrote both.
    pub page_split: f64,
}

/// The NAND array.
#[derive(Clone, Debug, PartialEq)]
pub struct Nand {
    /// Number of channels.
    pub channels: u32,
    /// Number of dies per channel.
    pub dies_per_channel: u32,
    /// Number of planes that are programmed together.
    pub planes: u32,
    /// Size of a flash page of one plane.
    pub page_bytes: u32,
    /// Pages per erase block.
    pub pages_per_block: u32,
    /// Total capacity, spare included.
    pub raw_bytes: u64,
    /// Time of a page read.
    pub read_ns: u64,
    /// Time of a page program, fast pages (LSB).
    pub program_fast_ns: u64,
    /// Time of a page program, slow pages (MSB).
    pub program_slow_ns: u64,
    /// Time of a block erase.
    pub erase_ns: u64,
    /// Bandwidth of one channel, error correction included.
    pub channel_bytes_per_s: f64,
    /// Maximum number of programs at once (power limit); 0: no limit.
    pub programs_max: u32,
    /// Time that a read takes to suspend a program or erase. `None`: reads wait until it ends.
    pub suspend_ns: Option<u64>,
    /// Whether reads that wait for a die go before programs and erases that wait for it.
    pub reads_first: bool,
    /// Variation of page reads. None: each takes `read_ns`.
    pub variation: Option<Variation>,
    /// SLC cache, a part of the NAND that is written first, one bit a cell. None: no cache.
    pub slc: Option<Slc>,
    /// Pages of a stripe that one parity page protects; 0: none.
    pub parity_stripe: u32,
}

/// A cache of single-level cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slc {
    /// Capacity of the cache.
    pub bytes: u64,
    /// Time of a page program in the cache.
    pub program_ns: u64,
    /// Time of a page read in the cache. `None`: the same as outside the cache.
    pub read_ns: Option<u64>,
}

/// Variation of page reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// Number of page types (2 for MLC, 3 for TLC, 4 for QLC); a device has equally many pages of each.
    pub page_types: u32,
    /// Additional time of the slowest page type over the mean. The fastest type is as much faster; the others lie in
    /// equal steps between.
    pub spread_ns: u64,
    /// Probability that a page read, or a retry of it, must be retried, 0 to 1.
    pub retried_share: f64,
    /// Time of a retry.
    pub retry_ns: u64,
}

/// The write buffer in front of the NAND.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Capacity of the buffer.
    pub bytes: u64,
    /// Latency from the data's arrival to the acknowledgement; occupies nothing.
    pub accept_ns: u64,
    /// Whether capacitors let the buffer survive a power cut.
    pub protected: bool,
}

/// Parameters of a flash translation layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// Share of the raw space that is not available as spare for writes (parity, bad blocks, firmware), 0 to 1.
    pub reserved_share: f64,
    /// Mapping-page programs per host page that is written at random.
    pub map_writes_per_page: f64,
    /// Housekeeping that stops the whole device. None: no stalls.
    pub stall: Option<Stall>,
}

/// A pause of the whole device after a fixed amount of written bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Bytes of host writes between pauses.
    pub every_bytes: u64,
    /// Duration of a pause.
    pub for_ns: u64,
}

/// The write endurance for which a device is rated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Endurance {
    /// Drive writes a day for which the device is rated.
    pub drive_writes_per_day: f64,
    /// Years for which the drive writes are rated.
    pub years: f64,
    /// Program and erase cycles per block.
    pub cycles: u32,
}

impl Device {
    /// Name of the family: `flash`, `disk`, `memory` or `volume`.
    pub fn family(&self) -> &'static str {
        match &self.kind {
            Kind::Flash(_) => "flash",
            Kind::Disk(_) => "disk",
            Kind::Memory(_) => "memory",
            Kind::Volume(_) => "volume",
        }
    }

    /// The capacity that the host sees, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Flash(f) => f.capacity_bytes,
            Kind::Disk(d) => d.capacity_bytes,
            Kind::Memory(m) => m.capacity_bytes,
            Kind::Volume(v) => v.capacity_bytes,
        }
    }
}
