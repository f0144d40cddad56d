//! What a system is made of, in checked numbers: host, devices and how many of which. Catalog
//! files become these types (`describe`); the machine is built from them.
//!
//! All times are ns, all sizes bytes, all rates bytes a second, unless the name says otherwise.

use crate::disk::DiskSpec;

/// A server with devices: what a machine is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// Name in the catalog.
    pub name: String,
    /// The server.
    pub host: Host,
    /// The volumes, in order; each is one device (JBOD).
    pub volumes: Vec<Volume>,
}

/// One device in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// What it is.
    pub device: Device,
    /// In which state it is when the machine starts.
    pub state: Precondition,
    /// Which socket it hangs on.
    pub socket: u32,
}

/// What a device went through before the machine starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precondition {
    /// How it was written.
    pub how: Written,
    /// Which share of its capacity was written, 0 to 1.
    pub fill: f64,
}

/// How a device was written before.
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
}

/// The server.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// CPU sockets.
    pub sockets: u32,
    /// Physical cores of one socket.
    pub cores_per_socket: u32,
    /// What the load generator spends on an I/O before it hands it over.
    pub generator_ns: u64,
    /// Waking a generator that sleeps until its next completion.
    pub wake_ns: u64,
    /// Memory bandwidth of one socket, all channels together.
    pub memory_bytes_per_s: f64,
    /// Bandwidth of one memory channel, which a flash DIMM shares with RDIMMs.
    pub memory_channel_bytes_per_s: f64,
    /// All memory channels of a socket hold the same.
    pub memory_balanced: bool,
    /// What remains of a memory channel's bandwidth where they do not, 0 to 1.
    pub unbalanced_share: f64,
    /// How much longer a copy takes that crosses to another socket, 1 = no longer.
    pub remote_copy_factor: f64,
    /// Workers run on the socket of their device; otherwise on any.
    pub workers_near: bool,
    /// Rules of population for flash DIMMs.
    pub slots: Slots,
}

/// Where flash DIMMs may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Most flash DIMMs on one socket; 0: the system takes none.
    pub flash_dimms_per_socket: u32,
    /// Memory channels of a socket.
    pub channels_per_socket: u32,
    /// RDIMMs on one channel.
    pub rdimms_per_channel: u32,
    /// Kind of the other modules.
    pub memory_kind: MemoryKind,
    /// How the channels work together.
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

/// How memory channels work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryMode {
    /// Each for itself.
    Independent,
    /// In pairs.
    Lockstep,
    /// With a rank in reserve.
    Sparing,
    /// Each twice.
    Mirroring,
}

/// One device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name in the catalog.
    pub name: String,
    /// What it is made of.
    pub kind: Kind,
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

impl Kind {
    /// The family as files have it.
    pub fn family(&self) -> &'static str {
        match self {
            Self::Flash(_) => "flash",
            Self::Disk(_) => "disk",
            Self::Memory(_) => "memory",
        }
    }
}

/// Memory as a block device: the work is done in the submitter.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// What it holds.
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
    /// What the host sees.
    pub capacity_bytes: u64,
    /// How the host reaches it.
    pub attach: Attach,
    /// The controller.
    pub controller: Controller,
    /// The NAND.
    pub nand: Nand,
    /// Where writes wait.
    pub buffer: Buffer,
    /// The translation layer.
    pub translation: Translation,
    /// What it is rated for.
    pub endurance: Endurance,
}

/// How the host reaches a flash device.
#[derive(Clone, Debug, PartialEq)]
pub enum Attach {
    /// In a memory slot, served by a driver thread that polls and copies.
    MemoryChannel {
        /// How many devices share a driver thread (2 by default, 1 with `max-occupancy`).
        devices_per_thread: u32,
        /// The thread's work on a command.
        command_ns: u64,
        /// One thread copies from the device this fast.
        read_copy_bytes_per_s: f64,
        /// One thread copies to the device this fast.
        write_copy_bytes_per_s: f64,
        /// The thread looks this often whether data is there, where it has a core for itself.
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
        /// A command and its answer occupy it for this long, beside the data.
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
    /// From the flash to the host's interface, beyond all that is modelled; occupies nothing.
    pub read_latency_ns: u64,
    /// One write command occupies it for this long.
    pub write_command_ns: u64,
    /// Page reads that may be on their way at once; 0: no limit.
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
    /// Everything that there is, spare included.
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
    /// A part of the NAND that is written first, one bit a cell.
    pub slc: Option<Slc>,
    /// Pages of a stripe that one parity page protects; 0: none.
    pub parity_stripe: u32,
}

/// A cache of single-level cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slc {
    /// What it holds.
    pub bytes: u64,
    /// Page program there.
    pub program_ns: u64,
}

/// Where writes wait for the NAND.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// What it holds.
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
    /// What holds garbage collection back, if anything does.
    pub collection: Option<Collection>,
    /// Housekeeping that stops everything.
    pub stall: Option<Stall>,
}

/// What holds garbage collection back beyond the limits of the NAND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Programs of copies that may run at once; 0: no limit of their own.
    pub programs_max: u32,
    /// No copies are begun while the device has reads of the host under way.
    pub yields: bool,
}

/// A pause of the whole device after so much was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// After this much was written by the host.
    pub every_bytes: u64,
    /// For this long.
    pub for_ns: u64,
}

/// What a device is rated for.
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
    /// What the host sees, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Flash(f) => f.capacity_bytes,
            Kind::Disk(d) => d.capacity_bytes,
            Kind::Memory(m) => m.capacity_bytes,
        }
    }
}
