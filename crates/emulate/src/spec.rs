//! The specification of a system, in checked numbers: host and devices here, and their composition to volumes
//! in `system`. `describe` converts catalog files to these types; the machine is built from them.
//!
//! All times are ns, all sizes bytes, all rates bytes a second, unless the name says otherwise.

mod adapter;
mod array;
mod read_cache;
mod system;

use crate::disk::DiskSpec;
pub use adapter::{
    Access, AdapterPath, Adapters, Cache, Drawers, HostPaths, ParityEngine, Processor, Slot,
};
pub use array::{Array, ArrayShape, SECTOR_BYTES, STRIP_BYTES};
use core::fmt;
use iodyno_units::{Precondition, human};
pub use read_cache::ReadCache;
pub use system::{Group, Part, PlacedDevice, System, Volume};

/// A device's state before the machine starts: a [`Precondition`] with all that it leaves to the workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preconditioned {
    /// The pattern of its writes.
    pub how: Written,
    /// The written share of its capacity, 0 to 1.
    pub fill: f64,
}

/// The pattern of a device's earlier writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Never: fresh out of the box, or after a secure erase.
    Fresh,
    /// Once, in order.
    Sequential,
    /// At random, in aligned blocks of this many bytes, until steady state.
    Random {
        /// Size of one write.
        block_bytes: u32,
    },
    /// The same within a part of the capacity. The rest was written once before.
    RandomWithin {
        /// Size of one write.
        block_bytes: u32,
        /// Where the part begins, in millionths of the capacity.
        start_ppm: u32,
        /// Where it ends.
        end_ppm: u32,
    },
}

impl Written {
    /// Of so many units in order, those that random writes went to.
    pub fn rewritten(self, units: u64) -> core::ops::Range<u64> {
        let at = |ppm: u32| (u128::from(units) * u128::from(ppm) / 1_000_000) as u64;
        match self {
            Self::Fresh | Self::Sequential => 0..0,
            Self::Random { .. } => 0..units,
            Self::RandomWithin { start_ppm, end_ppm, .. } => at(start_ppm)..at(end_ppm),
        }
    }

    /// The size of random writes; None where there were none.
    pub const fn random_block_bytes(self) -> Option<u32> {
        match self {
            Self::Fresh | Self::Sequential => None,
            Self::Random { block_bytes } | Self::RandomWithin { block_bytes, .. } => {
                Some(block_bytes)
            }
        }
    }

    /// The pattern of `asked`, where the workload goes through the device in order, or else at random in blocks
    /// of so many bytes.
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

/// The server.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// CPU sockets.
    pub sockets: u32,
    /// Physical cores of one socket.
    pub cores_per_socket: u32,
    /// The load generator's time for an I/O before it hands it over.
    pub generator_ns: u64,
    /// The time to wake a generator that sleeps until its next completion.
    pub wake_ns: u64,
    /// Memory bandwidth of one socket, all channels together.
    pub memory_bytes_per_s: f64,
    /// Bandwidth of one memory channel, which a flash DIMM shares with RDIMMs.
    pub memory_channel_bytes_per_s: f64,
    /// Whether all memory channels of a socket are populated equally.
    pub memory_balanced: bool,
    /// The remaining share of a memory channel's bandwidth where they are not, 0 to 1.
    pub unbalanced_share: f64,
    /// The factor on the time of a copy that crosses to another socket, 1 = no longer.
    pub remote_copy_factor: f64,
    /// Workers run on the socket of their device; otherwise on any.
    pub workers_near: bool,
    /// The further time of a flash DIMM's driver thread for each write, once the module has its data.
    pub driver_write_ns: u64,
    /// Rules of population for flash DIMMs.
    pub slots: Slots,
}

/// The permitted places of flash DIMMs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Most flash DIMMs on one socket; 0: the system accepts none.
    pub flash_dimms_per_socket: u32,
    /// Memory channels of a socket.
    pub channels_per_socket: u32,
    /// RDIMMs on one channel.
    pub rdimms_per_channel: u32,
    /// Kind of the other modules.
    pub memory_kind: MemoryKind,
    /// Mode of the channels.
    pub memory_mode: MemoryMode,
}

/// Kind of memory module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Registered.
    Rdimm,
    /// Load-reduced.
    Lrdimm,
    /// Unbuffered.
    Udimm,
}

/// Mode of memory channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryMode {
    /// Independent channels.
    Independent,
    /// In pairs.
    Lockstep,
    /// With a rank in reserve.
    Sparing,
    /// With every rank mirrored.
    Mirroring,
}

/// One device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name in the catalog.
    pub name: String,
    /// Its family and specification.
    pub kind: Kind,
    /// It can be replaced while the system is on.
    pub hot_swap: bool,
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
}

/// Memory as a block device: the submitter does the work.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Its capacity.
    pub capacity_bytes: u64,
    /// Software for one I/O: system call, block layer, driver.
    pub io_ns: u64,
    /// One core copies from the device this fast.
    pub read_bytes_per_s: f64,
    /// One core copies to the device this fast.
    pub write_bytes_per_s: f64,
    /// How often each byte of a read crosses the memory bus.
    pub read_passes: f64,
    /// How often each byte of a write crosses the memory bus.
    pub write_passes: f64,
    /// Cost of a flush.
    pub flush_ns: u64,
    /// Content survives a power cut.
    pub protected: bool,
}

/// NAND flash behind a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Flash {
    /// The capacity that the host sees.
    pub capacity_bytes: u64,
    /// Its attachment to the host.
    pub attach: Attach,
    /// The controller.
    pub controller: Controller,
    /// The NAND.
    pub nand: Nand,
    /// The write buffer.
    pub buffer: Buffer,
    /// The translation layer.
    pub translation: Translation,
    /// Its rating.
    pub endurance: Endurance,
}

/// The attachment of a flash device to the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Attach {
    /// In a memory slot, served by a driver thread that polls and copies.
    MemoryChannel {
        /// How many devices share a driver thread (2 by default, 1 with `max-occupancy`).
        devices_per_thread: u32,
        /// The thread's time for a command.
        command_ns: u64,
        /// One thread copies from the device this fast.
        read_copy_bytes_per_s: f64,
        /// One thread copies to the device this fast.
        write_copy_bytes_per_s: f64,
        /// Interval at which the thread polls for data, where it has a core for itself.
        poll_ns: u64,
        /// The same where there are more threads than cores on the socket.
        poll_crowded_ns: u64,
    },
    /// Behind a link.
    Link {
        /// From the device to the host.
        read_bytes_per_s: f64,
        /// From the host to the device.
        write_bytes_per_s: f64,
        /// Both directions at once.
        full_duplex: bool,
        /// A command and its answer occupy it for this long, in addition to the data.
        command_ns: u64,
        /// Host software, protocol and wire for one I/O; occupies nothing.
        latency_ns: u64,
        /// Commands that may be outstanding; more wait in the host.
        queue_max: u32,
        /// Work of the host's core on one I/O beyond the generator's (a host-side FTL).
        host_ns: u64,
        /// One core of the host pins and maps memory for the device this fast.
        host_bytes_per_s: f64,
    },
}

/// The controller's own time.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// One read command occupies it for this long.
    pub read_command_ns: u64,
    /// From the flash to the host's interface, beyond the modelled steps; occupies nothing.
    pub read_latency_ns: u64,
    /// One write command occupies it for this long.
    pub write_command_ns: u64,
    /// One page of 4 KiB that garbage collection copies occupies it for this long.
    pub copy_ns: u64,
    /// Changing from reads to writes, or back, occupies it for this long.
    pub turn_ns: u64,
    /// Page reads that may be in progress at once; 0: no limit.
    pub read_contexts: u32,
    /// Independent halves between which 4 KiB units alternate.
    pub lanes: u32,
    /// Neighbouring units of a lane that one write wrote lie in different flash pages with this
    /// probability.
    pub page_split: f64,
}

/// The NAND array.
#[derive(Clone, Debug, PartialEq)]
pub struct Nand {
    /// Channels.
    pub channels: u32,
    /// Dies of one channel.
    pub dies_per_channel: u32,
    /// Planes that are programmed together.
    pub planes: u32,
    /// A flash page of one plane.
    pub page_bytes: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// The total capacity, spare included.
    pub raw_bytes: u64,
    /// Page read.
    pub read_ns: u64,
    /// Page program, fast pages (LSB).
    pub program_fast_ns: u64,
    /// Page program, slow pages (MSB).
    pub program_slow_ns: u64,
    /// Block erase.
    pub erase_ns: u64,
    /// One channel moves this much, error correction included.
    pub channel_bytes_per_s: f64,
    /// Programs that may run at once (power); 0: no limit.
    pub programs_max: u32,
    /// A read may suspend a program or erase; it waits this long for that. None: it waits to the end.
    pub suspend_ns: Option<u64>,
    /// Reads that wait for a die go before programs and erases that wait for it.
    pub reads_first: bool,
    /// Variation of page reads. None: each takes `read_ns`.
    pub variation: Option<Variation>,
    /// A part of the NAND that is written first, one bit a cell.
    pub slc: Option<Slc>,
    /// Pages of a stripe that one parity page protects; 0: none.
    pub parity_stripe: u32,
}

/// A cache of single-level cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slc {
    /// Its capacity.
    pub bytes: u64,
    /// Page program there.
    pub program_ns: u64,
    /// Page read there. None: as elsewhere.
    pub read_ns: Option<u64>,
}

/// Variation of page reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// Types of pages (2 for MLC, 3 for TLC, 4 for QLC), of which a device has equally many.
    pub page_types: u32,
    /// The slowest type takes this much longer than the mean, the fastest as much less, the others lie in equal steps.
    pub spread_ns: u64,
    /// Share of page reads that are repeated; and of the repeats, 0 to 1.
    pub retried_share: f64,
    /// Each repeat.
    pub retry_ns: u64,
}

/// The write buffer in front of the NAND.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Its capacity.
    pub bytes: u64,
    /// From the data's arrival to the acknowledgement; occupies nothing.
    pub accept_ns: u64,
    /// Capacitors: survives a power cut.
    pub protected: bool,
}

/// The translation layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// Share of the raw space that is no spare for writes (parity, bad blocks, firmware), 0 to 1.
    pub reserved_share: f64,
    /// Programs of mapping pages for each host page that is written at random.
    pub map_writes_per_page: f64,
    /// Housekeeping that stops the whole device.
    pub stall: Option<Stall>,
}

/// A pause of the whole device after so many written bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// After so many bytes of host writes.
    pub every_bytes: u64,
    /// For this long.
    pub for_ns: u64,
}

/// The rating of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Endurance {
    /// Drive writes a day.
    pub drive_writes_per_day: f64,
    /// For so many years.
    pub years: f64,
    /// Program and erase cycles of a block.
    pub cycles: u32,
}

impl Device {
    /// Its family of devices, in a word.
    pub fn family(&self) -> &'static str {
        match &self.kind {
            Kind::Flash(_) => "flash",
            Kind::Disk(_) => "disk",
            Kind::Memory(_) => "memory",
        }
    }

    /// The capacity that the host sees, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Flash(f) => f.capacity_bytes,
            Kind::Disk(d) => d.capacity_bytes,
            Kind::Memory(m) => m.capacity_bytes,
        }
    }
}
