//! The specification of a system: the host and its devices. `system` combines devices into volumes. `describe` converts
//! catalog files to these types, from which the machine is built.
//!
//! All times are ns, all sizes bytes, all rates bytes per second, unless the name says otherwise.

mod adapter;
mod array;
mod cloud_volume;
mod limit;
mod placement;
mod power_cut;
mod read_cache;
mod system;
mod zones;

use crate::content_event::UNIT_BYTES;
use crate::disk::DiskSpec;
pub use adapter::{
    Access, AdapterPath, Adapters, Cache, Drawers, HostPaths, ParityEngine, Processor, Slot,
};
pub use array::{Array, ArrayShape, SECTOR_BYTES, STRIP_BYTES};
pub use cloud_volume::{CloudVolume, IoThread};
use core::fmt;
use iodyno_units::{Precondition, human};
pub use limit::{Counted, Credits, Limit, LimitOf};
pub use placement::{Isolation, Placement};
pub use power_cut::{DurableOrder, PowerCut};
pub use read_cache::ReadCache;
pub use system::{Group, Part, PlacedDevice, System, Volume};
pub use zones::Zones;

/// State of a device when the machine starts: the pattern of earlier writes, and how full the device is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preconditioned {
    /// Pattern of the writes before the machine starts.
    pub how: Written,
    /// Fraction of the device's capacity that has been written, 0 to 1.
    pub fill: f64,
}

/// Pattern of a device's writes before the machine starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// No writes: fresh out of the box, or after a secure erase.
    Fresh,
    /// Written once, in address order.
    Sequential,
    /// Written at random, in aligned blocks of `block_bytes`, until steady state.
    Random {
        /// Size of one write, bytes.
        block_bytes: u32,
    },
    /// Written at random within a part of the capacity, until steady state. The rest was written once before,
    /// in address order.
    RandomWithin {
        /// Size of one write, bytes.
        block_bytes: u32,
        /// Start of the randomly written part, in millionths of the capacity.
        start_ppm: u32,
        /// End of the randomly written part, in millionths of the capacity.
        end_ppm: u32,
    },
}

impl Written {
    /// Returns the range of units that was written at random, on a device of `units` units. Empty without random
    /// writes.
    pub fn rewritten(self, units: u64) -> core::ops::Range<u64> {
        let at = |ppm: u32| (u128::from(units) * u128::from(ppm) / 1_000_000) as u64;
        match self {
            Self::Fresh | Self::Sequential => 0..0,
            Self::Random { .. } => 0..units,
            Self::RandomWithin { start_ppm, end_ppm, .. } => at(start_ppm)..at(end_ppm),
        }
    }

    /// Returns the size of the random writes in bytes; `None` without random writes.
    pub const fn random_block_bytes(self) -> Option<u32> {
        match self {
            Self::Fresh | Self::Sequential => None,
            Self::Random { block_bytes } | Self::RandomWithin { block_bytes, .. } => {
                Some(block_bytes)
            }
        }
    }

    /// Derives the pattern from the requested precondition. If the precondition depends on the workload, the pattern is
    /// sequential for a sequential workload (`in_order`), otherwise random in blocks of `block_bytes`.
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

impl Preconditioned {
    /// Returns the state of a part of the preconditioned device, in fractions of its capacity.
    pub(crate) fn of_part(self, part: core::ops::Range<f64>) -> Self {
        let within = |share: f64| ((share - part.start) / (part.end - part.start)).clamp(0.0, 1.0);
        let ppm = |ppm: u32| (within(f64::from(ppm) / 1e6) * 1e6).round() as u32;
        let how = match self.how {
            Written::RandomWithin { block_bytes, start_ppm, end_ppm } => {
                match (ppm(start_ppm), ppm(end_ppm)) {
                    (0, 1_000_000) => Written::Random { block_bytes },
                    (start_ppm, end_ppm) if start_ppm < end_ppm => {
                        Written::RandomWithin { block_bytes, start_ppm, end_ppm }
                    }
                    _ => Written::Sequential,
                }
            }
            how => how,
        };
        let fill = within(self.fill);
        Self { how: if fill > 0.0 { how } else { Written::Fresh }, fill }
    }
}

/// Formats the state as text: `random in 4 KiB blocks, 50 % full`.
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
                    "random in {block} blocks from {start} % to {end} % of the capacity, the rest written once"
                )?;
            }
        }
        if self.fill < 1.0 { write!(f, ", {} % full", self.fill * 100.0) } else { Ok(()) }
    }
}

/// The server: its processors, memory, and software times.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Number of CPU sockets. Each has its own cores, memory channels and devices.
    pub sockets: u32,
    /// Number of physical cores per socket.
    pub cores_per_socket: u32,
    /// The load generator's CPU time per I/O before submission.
    pub generator_ns: u64,
    /// Time to wake a load generator that sleeps until its next completion, ns.
    pub wake_ns: u64,
    /// Memory bandwidth of one socket, summed over its channels.
    pub memory_bytes_per_s: f64,
    /// Bandwidth of one memory channel, which a flash DIMM shares with RDIMMs.
    pub memory_channel_bytes_per_s: f64,
    /// Whether all memory channels of a socket are populated equally.
    pub memory_balanced: bool,
    /// Fraction of a memory channel's bandwidth that is usable if the channels are unbalanced, 0 to 1.
    pub unbalanced_share: f64,
    /// Factor by which a copy to another socket takes longer; 1: no slowdown.
    pub remote_copy_factor: f64,
    /// Whether workers run on the socket of their device. If false, they are distributed over all sockets.
    pub workers_near: bool,
    /// CPU time that a flash DIMM's driver thread spends on each write after the module has received the data, ns.
    pub driver_write_ns: u64,
    /// Memory slots, and the limits for flash DIMMs in them.
    pub slots: Slots,
}

/// Memory slots of a server, and the limits for flash DIMMs in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Maximum number of flash DIMMs per socket; 0: the system accepts none.
    pub flash_dimms_per_socket: u32,
    /// Number of memory channels per socket.
    pub channels_per_socket: u32,
    /// Number of RDIMMs per channel. A flash DIMM requires at least one in its channel.
    pub rdimms_per_channel: u32,
    /// Type of the conventional memory modules. Flash DIMMs require registered ones.
    pub memory_kind: MemoryKind,
    /// Operating mode of the memory channels. Flash DIMMs require independent channels.
    pub memory_mode: MemoryMode,
}

/// DIMM type: registered, load-reduced or unbuffered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Registered DIMMs. Required by flash DIMMs.
    Rdimm,
    /// Load-reduced DIMMs. Not compatible with flash DIMMs.
    Lrdimm,
    /// Unbuffered DIMMs. Not compatible with flash DIMMs.
    Udimm,
}

/// Operating mode of memory channels: independent, or redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryMode {
    /// Channels that work separately, without redundancy. Required by flash DIMMs.
    Independent,
    /// Channels in lockstep pairs.
    Lockstep,
    /// Channels with a spare rank.
    Sparing,
    /// Channels with every rank mirrored.
    Mirroring,
}

/// A storage device: name, family and specification.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name in the catalog.
    pub name: String,
    /// Family of the device, such as flash or disk, and the specification for this family.
    pub kind: Kind,
    /// Whether the device can be replaced while the system is on.
    pub hot_swap: bool,
    /// Rate limits on the device's I/Os or bytes per second. All limits apply. Empty: no limits.
    pub limits: Vec<Limit>,
}

/// Family of a device, with the specification for this family.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// NAND flash behind a controller.
    Flash(Box<Flash>),
    /// A rotating disk.
    Disk(Box<DiskSpec>),
    /// Memory as a block device.
    Memory(Box<Memory>),
    /// A cloud volume, or another device of which only latency and bandwidth are known.
    Volume(Box<CloudVolume>),
}

/// Memory as a block device: the CPU core that submits an operation copies the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Capacity that the host sees.
    pub capacity_bytes: u64,
    /// Software time per I/O: system call, block layer, driver.
    pub io_ns: u64,
    /// Rate at which one core copies data from the device.
    pub read_bytes_per_s: f64,
    /// Rate at which one core copies data to the device.
    pub write_bytes_per_s: f64,
    /// Number of times that each byte of a read crosses the memory bus.
    pub read_passes: f64,
    /// Number of times that each byte of a write crosses the memory bus.
    pub write_passes: f64,
    /// Time for which a flush occupies the submitter's core, in addition to `io_ns` unless `queues`.
    pub flush_ns: u64,
    /// Fraction of an operation's mean time that is random (exponentially distributed), 0 to 1; the rest is constant.
    pub varying_share: f64,
    /// Whether the device is memory of the submitter's process: a thread queues its operations, which wait for each
    /// other, and a flush is a fence. If false, each operation ends before the thread submits the next.
    pub queues: bool,
    /// Whether content survives a power cut.
    pub protected: bool,
}

/// A NAND flash device: flash behind a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Flash {
    /// Capacity that the host sees, without the spare area.
    pub capacity_bytes: u64,
    /// Attachment to the host: in a memory slot or behind a link.
    pub attach: Attach,
    /// Times and limits of the controller.
    pub controller: Controller,
    /// Geometry and times of the NAND.
    pub nand: Nand,
    /// The write buffer in front of the NAND.
    pub buffer: Buffer,
    /// The flash translation layer: reserved space, unit size, writes of the map, garbage collection, and stalls.
    pub translation: Translation,
    /// Zones, which must be written in order. `None`: a device that accepts writes anywhere.
    pub zones: Option<Zones>,
    /// Namespaces with separate reclaim unit handles (NVMe FDP). `None`: one handle for all data.
    pub placement: Option<Placement>,
    /// Effect of a power cut on writes. `None`: each 4 KiB unit survives or is lost independently, and data that was
    /// still arriving is lost.
    pub power_cut: Option<PowerCut>,
    /// Rated endurance: drive writes per day, and program and erase cycles.
    pub endurance: Endurance,
    /// Factor by which [`Self::scale_down`] has divided the capacity and the raw space; 1: full size.
    pub scale: u32,
}

impl Flash {
    /// Divides the capacity and the raw space by `by`. The number of superblocks, the resources and the times stay
    /// the same. A workload whose sizes are also divided has the same write amplification, rates and latencies as on
    /// the full device, and ages the device in one `by`-th of the operations.
    pub fn scale_down(&mut self, by: u32) {
        let by = by.max(1);
        self.capacity_bytes = self.capacity_bytes / u64::from(by) / 4096 * 4096;
        self.nand.raw_bytes /= u64::from(by);
        if let Some(slc) = &mut self.nand.slc {
            slc.bytes /= u64::from(by);
        }
        self.scale *= by;
    }
}

/// How a flash device is attached to the host: in a memory slot, or by a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Attach {
    /// The device is in a memory slot. A driver thread polls it and copies its data.
    MemoryChannel {
        /// Number of flash DIMMs per driver thread (2 by default, 1 with the driver option `max-occupancy`).
        devices_per_thread: u32,
        /// Time of the driver thread per command.
        command_ns: u64,
        /// Rate at which one driver thread copies data from the device.
        read_copy_bytes_per_s: f64,
        /// Rate at which one driver thread copies data to the device.
        write_copy_bytes_per_s: f64,
        /// Interval at which the driver thread polls for data if it has a core to itself, ns.
        poll_ns: u64,
        /// Interval at which the driver thread polls if the socket has more driver threads than cores, ns.
        poll_crowded_ns: u64,
    },
    /// The device is attached by a link such as SATA, SAS or PCIe.
    Link {
        /// Bandwidth from the device to the host.
        read_bytes_per_s: f64,
        /// Bandwidth from the host to the device.
        write_bytes_per_s: f64,
        /// Whether data can be transferred in both directions simultaneously.
        full_duplex: bool,
        /// Time for which a command and its completion occupy the link, in addition to the data, ns.
        command_ns: u64,
        /// Latency of host software, protocol and link per I/O, ns. Occupies no resource.
        latency_ns: u64,
        /// Maximum number of outstanding commands. Further ones wait in the host.
        queue_max: u32,
        /// Host CPU time per I/O in addition to the load generator's, ns, such as for a host-side FTL.
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
    /// Additional latency of a read, from the flash to the host's interface, ns. Occupies no resource.
    pub read_latency_ns: u64,
    /// Time for which a write command occupies the controller.
    pub write_command_ns: u64,
    /// Time for which the copying of a 4 KiB page by garbage collection occupies the controller.
    pub copy_ns: u64,
    /// Time for which a switch between reads and writes occupies the controller.
    pub turn_ns: u64,
    /// Maximum number of concurrent page reads; 0: no limit.
    pub read_contexts: u32,
    /// Number of independent lanes of the controller, to which 4 KiB units are assigned in turn.
    pub lanes: u32,
    /// Probability that two successive 4 KiB units of one write, on the same lane, are in different flash pages.
    pub page_split: f64,
}

/// Geometry and times of a device's NAND: channels, dies, planes, pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Nand {
    /// Number of channels between the controller and the dies.
    pub channels: u32,
    /// Number of dies per channel. Each die works on one operation at a time, independently of the others.
    pub dies_per_channel: u32,
    /// Number of planes per die, which are programmed together.
    pub planes: u32,
    /// Size of a flash page of one plane.
    pub page_bytes: u32,
    /// Number of pages per erase block of one plane.
    pub pages_per_block: u32,
    /// Total capacity including spare.
    pub raw_bytes: u64,
    /// Time to read a page from the cells, without retries; the mean if `variation` is set.
    pub read_ns: u64,
    /// Program time of a fast page (LSB), ns.
    pub program_fast_ns: u64,
    /// Program time of a slow page (MSB), ns.
    pub program_slow_ns: u64,
    /// Time to erase one block on every plane of a die.
    pub erase_ns: u64,
    /// Rate at which one channel transfers data. The time for error correction is included.
    pub channel_bytes_per_s: f64,
    /// Maximum number of concurrent program operations (power limit); 0: no limit.
    pub programs_max: u32,
    /// Time to suspend a program or erase operation for a read. `None`: reads wait until the program or erase
    /// operation ends.
    pub suspend_ns: Option<u64>,
    /// Whether waiting reads have priority over program and erase operations that wait for the same die.
    pub reads_first: bool,
    /// Variation of the page read time. `None`: each read takes `read_ns`.
    pub variation: Option<Variation>,
    /// SLC cache: a part of the NAND with one bit per cell, which is written first. `None`: no cache.
    pub slc: Option<Slc>,
    /// Folding, which empties a dynamic SLC cache. `None`: the cache has a fixed size.
    pub folding: Option<Folding>,
    /// Number of pages that one parity page protects; 0: no parity.
    pub parity_stripe: u32,
}

/// Parameters of an SLC cache: NAND used with one bit per cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slc {
    /// Capacity for data; the maximum if the cache is dynamic ([`Folding`]).
    pub bytes: u64,
    /// Time to program a page in the cache, ns.
    pub program_ns: u64,
    /// Time to read a page in the cache, ns. `None`: the same as outside of the cache.
    pub read_ns: Option<u64>,
}

/// Parameters of a dynamic SLC cache, which uses cells that hold no other data. The cache shrinks as the device fills,
/// and is at most as large as [`Slc::bytes`]. Folding empties the cache: it moves data to cells at full density.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Folding {
    /// Bits per cell outside the cache, at least 2.
    pub bits: u32,
    /// Time to program a page during folding, ns.
    pub program_ns: u64,
    /// Fraction of program operations that are used for folding while the host's writes bypass the full cache, 0 to
    /// 0.9.
    pub share: f64,
    /// Minimum pause in the host's writes after which writes that bypassed the full cache use the cache again, ns.
    pub pause_ns: u64,
}

/// Variation of the page read time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// Number of page types (2 for MLC, 3 for TLC, 4 for QLC). A device has equal numbers of pages of each
    /// type.
    pub page_types: u32,
    /// Difference between the read time of the slowest page type and the mean, ns. The types' read times are
    /// equally spaced and symmetrical around the mean.
    pub spread_ns: u64,
    /// Probability that a page read must be retried, 0 to 1. Each retry fails with the same probability.
    pub retried_share: f64,
    /// Additional time of each retry, ns.
    pub retry_ns: u64,
    /// Mean of the random time (exponentially distributed) that a program or erase operation takes to stop when it is
    /// suspended, ns; 0: it stops at once.
    pub suspend_ns: u64,
    /// Probability that a suspension takes the random time of `suspend_ns`, 0 to 1. Otherwise the operation stops at
    /// once.
    pub suspend_share: f64,
}

/// The write buffer in front of the NAND.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Capacity of the buffer. The emulated buffer holds at least the data of one program operation.
    pub bytes: u64,
    /// Latency from the data's arrival to the acknowledgement, ns. Occupies no resource.
    pub accept_ns: u64,
    /// Whether capacitors preserve the buffer's content in a power cut.
    pub protected: bool,
}

/// Parameters of a flash translation layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// Fraction of the raw capacity that is not available as spare (parity, bad blocks, firmware), 0 to 1.
    pub reserved_share: f64,
    /// Number of map pages programmed per host page that is written at random.
    pub map_writes_per_page: f64,
    /// Size of the unit in which the map locates data, at least 4 KiB. A smaller write programs the whole unit.
    pub unit_bytes: u32,
    /// Rule by which garbage collection chooses a block.
    pub victim: VictimRule,
    /// Number of pages that garbage collection frees per page that the host writes while it runs, 1 to 20. At 1
    /// it runs all the time, at the pace of the host's writes. Above 1 it runs in bursts: after each superblock it
    /// pauses until the host has used the space.
    pub freed_per_write: f64,
    /// Housekeeping that periodically stops the controller. `None`: no stalls.
    pub stall: Option<Stall>,
}

/// Rule by which garbage collection chooses the block to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimRule {
    /// The block with the fewest valid pages (greedy).
    #[default]
    FewestValid,
    /// Cost-benefit: the block with the largest a · (1 - u) / 2u, where u is the valid share and a the age (Kawaguchi
    /// et al., "A flash-memory based file system", 1995). Separates static data from data that is rewritten.
    CostBenefit,
}

impl VictimRule {
    pub const ALL: [Self; 2] = [Self::FewestValid, Self::CostBenefit];
    /// Names of the victim selection rules in device files, in the order of [`Self::ALL`].
    pub const WORDS: [&str; 2] = ["fewest-valid", "cost-benefit"];
}

/// A periodic stall of the whole device for housekeeping, triggered by the volume of host writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Bytes of host writes between stalls.
    pub every_bytes: u64,
    /// Duration of a stall. The controller, or the driver thread of a flash DIMM, processes nothing else during this
    /// time.
    pub for_ns: u64,
}

/// The write endurance for which a device is rated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Endurance {
    /// Rated writes of the full capacity per day, over [`Self::years`].
    pub drive_writes_per_day: f64,
    /// Number of years for which the drive writes per day are rated.
    pub years: f64,
    /// Rated program and erase cycles per block.
    pub cycles: u32,
}

impl Device {
    /// Size in bytes of aligned blocks that are atomic in a power cut: afterwards each block is either old or new as a
    /// whole. `None` except for flash devices.
    pub fn atomic_bytes(&self) -> Option<u32> {
        match &self.kind {
            Kind::Flash(flash) => {
                Some(flash.power_cut.map_or(UNIT_BYTES as u32, |cut| cut.atomic_bytes))
            }
            Kind::Disk(_) | Kind::Memory(_) | Kind::Volume(_) => None,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A JBOD's members are consecutive parts of it, so a state of a part of the JBOD is that of some members.
    #[test]
    fn parts_have_the_state_of_their_range() {
        let within = |start_ppm, end_ppm| {
            let how = Written::RandomWithin { block_bytes: 4096, start_ppm, end_ppm };
            Preconditioned { how, fill: 1.0 }
        };
        let random = Written::Random { block_bytes: 4096 };
        assert_eq!(within(0, 250_000).of_part(0.0..0.25).how, random);
        assert_eq!(within(0, 250_000).of_part(0.25..0.5).how, Written::Sequential);
        assert_eq!(within(125_000, 500_000).of_part(0.0..0.25).how, within(500_000, 1_000_000).how);
        let half = Preconditioned { how: random, fill: 0.5 };
        assert_eq!(half.of_part(0.0..0.25), Preconditioned { how: random, fill: 1.0 });
        let empty = half.of_part(0.5..0.75);
        assert_eq!((empty.how, empty.fill), (Written::Fresh, 0.0));
    }
}
