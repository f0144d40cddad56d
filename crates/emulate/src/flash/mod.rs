//! A flash device: host interface, page reads, write buffer, program operations, garbage collection.
//!
//! A host read passes the front end (driver thread, or link and controller), creates one child request for each flash
//! page, and completes when the last page is delivered. A host write is acknowledged when its pages are in the buffer.
//! They are programmed later, in operations that fill all planes of a die, and the map changes when a program operation
//! ends.

mod collect;
mod commits;
mod construct;
mod content;
mod fork;
mod merge;
mod placing;
mod power;
mod program;
mod read;
mod recovery;
mod sensing;
mod slc;
mod stored_runs;
mod tear;
mod usage;
mod write;
mod zone;

use crate::bug_injection::InjectedBug;
use crate::content_event::UNIT_BYTES;
use crate::core::Core;
pub use crate::flash_counts::Counts;
use crate::ftl::{self, Ftl};
use crate::gauge::Gauge;
use crate::part_id::PartId;
use crate::prefetch::{Address, DIE_BYTES, Hot};
use crate::request::{List, NIL, State};
use crate::server::{PerByte, Server};
use crate::spec;
use collect::GarbageCollection;
use commits::Commits;
pub use construct::superblock_bytes;
pub(crate) use construct::{Place, Population, shape};
pub(crate) use fork::LANES_MAX;
use iodyno_units::IoError;
use iodyno_units::OpKind;
use iodyno_units::rng::Generator;
use merge::Merging;
use placing::Placing;
use sensing::Sensing;
use slc::Slc;
use tear::Tear;
use write::WriteBuffer;
use zone::ZoneBuffer;

/// The operation that occupies a die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doing {
    #[default]
    Nothing,
    Reading,
    Programming,
    Erasing,
}

/// State of a die that every page read needs. 32 bytes, so that many dies fit into the CPU cache.
#[derive(Clone, Copy, Debug, Default)]
struct Die {
    since_ns: u64,
    busy_ns: u64,
    reads: List,
    /// Channel of the die; dies are assigned to channels round-robin.
    channel: u16,
    doing: Doing,
    /// Whether a read has suspended a program or erase operation.
    suspended: bool,
    /// Whether program or erase operations wait in `Slow::others`.
    others_wait: bool,
}

const _: () = assert!(size_of::<Die>() == DIE_BYTES);

/// Part of a die's state that page reads rarely access. Stored separately, so that the state that page reads do
/// access stays small.
#[derive(Clone, Copy, Debug)]
struct Slow {
    /// Program and erase operations that wait for the die, if page reads have priority.
    others: List,
    /// Number of program operations so far. Selects the program time, because fast and slow pages alternate.
    programs: u32,
    /// Index of the request of the program or erase operation that is in progress or suspended.
    running: u32,
    /// Time at which the current program or erase operation begins, ns. A program operation begins once its data
    /// has crossed the channel.
    begins_ns: u64,
    /// Time at which the current program or erase operation ends, ns.
    ends_ns: u64,
    /// Remaining time of a suspended program or erase operation, ns.
    left_ns: u64,
    /// Kind of the suspended operation: program or erase.
    was: Doing,
    /// Whether the scheduled end event of a suspended operation occurred during the suspension, so that a
    /// new one is needed.
    event_spent: bool,
}

const SLOW: Slow = Slow {
    others: List::EMPTY,
    programs: 0,
    running: NIL,
    begins_ns: 0,
    ends_ns: 0,
    left_ns: 0,
    was: Doing::Nothing,
    event_spent: false,
};

/// The interface between host and device: a memory channel with a driver thread, or a link.
#[derive(Clone, Debug)]
enum HostInterface {
    Channel {
        thread: usize,
        /// Page reads whose data waits for a poll.
        ready: List,
        /// Internal request whose events are the driver thread's polls.
        poll: u32,
        /// Whether a poll is scheduled.
        polling: bool,
        command_ticks: u64,
        read_copy: PerByte,
        write_copy: PerByte,
        /// Additional time of the driver thread for a write, after the module has received its data.
        write_end_ticks: u64,
    },
    Link {
        down: Server,
        up: Server,
        full_duplex: bool,
        read: PerByte,
        write: PerByte,
        command_ticks: u64,
        latency_ns: u64,
        outstanding: u32,
        queue_max: u32,
        waiting: List,
        /// The controller's processor. Executes commands in the order in which they cross the link, and also works on
        /// the copies of garbage collection.
        processor: Server,
        read_command_ticks: u64,
        write_command_ticks: u64,
        /// Processor time for the pages that one program operation of garbage collection copies.
        copy_ticks: u64,
        /// Processor time for switching between reads and other commands.
        turn_ticks: u64,
        /// Whether the last command was a read.
        reading: bool,
    },
}

/// A program operation in flight, with its pages.
#[derive(Clone, Debug, Default)]
struct Batch {
    /// Units written by the host, including those that are not in the map.
    units: Vec<u64>,
    /// Values of the host's units, or the values read for each copy. Empty unless content is stored.
    stored: Vec<Option<stored_runs::Stored>>,
    host: Vec<(ftl::Page, u32)>,
    copies: Vec<(ftl::PageCopy, u32)>,
    /// Reads that complete partly written translation units: die, and number of 4 KiB units.
    merges: Vec<(u16, u32)>,
    /// Units that the host did not write, programmed again because it wrote other units of the same translation unit.
    moved: Vec<merge::Moved>,
    /// Physical slots programmed without data, because too few units were waiting.
    filler: Vec<u32>,
    /// Sequence number of the program operation's first unit, counted from the first unit that entered the buffer.
    first: u64,
    /// Whether the map was updated at the start of the program operation, by an injected bug.
    committed: bool,
    /// Number of units that the program operation moves from the SLC cache to full-density cells.
    folds: u32,
    /// Program time, ns; 0: the die's normal time, which alternates between fast and slow pages.
    program_ns: u64,
}

/// Total time of the device's requests in each phase, in ns, and numbers of requests.
#[derive(Clone, Copy, Debug, Default)]
struct Phases {
    front_ns: u64,
    context_ns: u64,
    die_wait_ns: u64,
    sense_ns: u64,
    channel_ns: u64,
    deliver_ns: u64,
    write_front_ns: u64,
    buffer_wait_ns: u64,
    accept_ns: u64,
    /// Wait of forced writes (FUA) for their program operations.
    force_ns: u64,
    answer_ns: u64,
    reads: u64,
    page_reads: u64,
    writes: u64,
}

/// An emulated flash device.
#[derive(Clone, Debug)]
pub(crate) struct FlashDevice {
    part: PartId,
    front: HostInterface,
    dies: Vec<Die>,
    slow: Vec<Slow>,
    channels: Vec<Server>,
    contexts_max: u32,
    contexts: Gauge,
    context_waiting: List,
    lanes: u32,
    /// Whether both pages of a frame are sent together and keep their read contexts until then. Requires more contexts
    /// than lanes, because each lane may have one page that holds a context while it waits for the other page of its
    /// frame.
    sends_frames: bool,
    split: u64,
    units_per_page: u32,
    /// Size in units of the aligned blocks in which non-sequential data was written.
    written_units: u32,
    read_latency_ns: u64,
    read_ns: u64,
    /// State of varying read times; `None` if each page read takes `read_ns`.
    sensing: Option<Box<Sensing>>,
    program_ns: [u64; 2],
    erase_ns: u64,
    suspend_ns: Option<u64>,
    reads_first: bool,
    unit_ticks: u64,
    buffer: WriteBuffer,
    program_units: u32,
    programs_max: u32,
    programs: Gauge,
    next_die: u32,
    batches: Vec<Batch>,
    batches_free: Vec<u32>,
    /// Program operations of garbage collection whose pages have been read, and which wait for the controller's
    /// processor. The processor works on the first of them.
    unprocessed: List,
    copies_ready: List,
    copies_reading: u32,
    slc: Slc,
    /// Number of units that contain data, up to the device's capacity. Overwrites count too, unless the size of an
    /// SLC cache depends on this number.
    stored_units: u64,
    logical_units: u64,
    ftl: Ftl,
    represent: u32,
    /// If every page is in the map: the die of each group of physical slots that one program operation fills. Groups
    /// without an entry, or with `UNPLACED`, are on the dies round-robin.
    unit_dies: Vec<u16>,
    /// State for programming translation units larger than 4 KiB or, on a zoned device, complete program operations;
    /// `None` if each 4 KiB unit can be programmed by itself.
    merging: Option<Box<Merging>>,
    /// The waiting units by reclaim unit handle; `None` if there is one handle.
    placing: Option<Box<Placing>>,
    /// Data of a volatile buffer that is not durable yet; `None` if each program operation makes its data durable.
    commits: Option<Box<Commits>>,
    /// State for tearing the writes that a power cut interrupts; `None`: nothing of these writes survives.
    tear: Option<Box<Tear>>,
    /// State of a zoned device's write buffer; `None` for other devices.
    zones: Option<Box<ZoneBuffer>>,
    gc: GarbageCollection,
    stall: Option<spec::Stall>,
    stall_left: u64,
    rng: Generator,
    capacity_bytes: u64,
    /// Rated program/erase cycles of a block.
    cycles: u32,
    key: u64,
    raw_units: u64,
    parity_stripe: u32,
    damage: Option<recovery::Damage>,
    content: Option<content::Content>,
    pub(crate) injected_bug: InjectedBug,
    phases: Phases,
    pub(crate) counts: Counts,
}

/// Converts a size to 4 KiB pages, at least one.
fn unit_of(bytes: u64) -> u64 {
    (bytes / UNIT_BYTES).max(1)
}

/// Marks a group of physical slots for which no program operation has recorded a die.
const UNPLACED: u16 = u16::MAX;
/// Credit of garbage collection for copying one page.
pub(crate) const ONE: i64 = 1 << 16;

impl FlashDevice {
    /// Processes a request's next event, according to the request's state.
    #[inline(always)]
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        match core.slab[slot].state {
            State::Issued => self.issued(core, slot),
            State::Admitted => self.admitted(core, slot),
            State::Sensed => self.sensed(core, slot),
            State::Transferred => self.transferred(core, slot),
            State::Delivered => self.delivered(core, slot),
            State::Done => self.done(core, slot, None),
            State::Programmed => self.programmed(core, slot),
            State::Erased => self.erased(core, slot),
            State::Processed => self.copies_processed(core, slot),
            State::Poll => self.poll(core, slot),
            state @ (State::Free
            | State::Allowed
            | State::AllowedByInstance
            | State::Wake
            | State::Waiting
            | State::Forwarded) => {
                unreachable!("unexpected event of a flash device in state {state:?}")
            }
        }
    }

    /// Accepts a request from a host or another component.
    #[inline(always)]
    fn issued(&mut self, core: &mut Core, slot: u32) {
        let request = &mut core.slab[slot];
        request.entered_ns = core.now;
        let beyond = request.at + u64::from(request.len) > self.capacity_bytes;
        let moves_data = matches!(request.kind, OpKind::Read | OpKind::Write);
        if beyond && request.kind != OpKind::Flush {
            core.complete(slot, Some(IoError::OutOfRange));
            return;
        }
        debug_assert!(!moves_data || request.len > 0);
        match &mut self.front {
            HostInterface::Channel {
                thread, command_ticks, write_copy, write_end_ticks, ..
            } => {
                let (mut cost, mut after) = (*command_ticks, 0);
                if request.kind == OpKind::Write {
                    cost += write_copy.ticks(request.len);
                    after = *write_end_ticks;
                }
                let thread = &mut core.cores[core.threads[*thread].core];
                let end = thread.take(core.now, cost);
                thread.take(core.now, after);
                core.at(end, slot, State::Admitted);
                // The driver thread also polls for data when it accepts a command.
                self.take_ready(core);
            }
            HostInterface::Link { outstanding, queue_max, waiting, .. } => {
                if *outstanding == *queue_max {
                    request.state = State::Waiting;
                    waiting.push(&mut core.slab, slot);
                    return;
                }
                *outstanding += 1;
                self.over_link(core, slot);
            }
        }
    }

    /// Transfers a command, and a write's data, over the link to the controller's processor. Commands are
    /// processed in the order of the link, so their times are known in advance.
    fn over_link(&mut self, core: &mut Core, slot: u32) {
        let HostInterface::Link {
            down,
            up,
            full_duplex,
            write,
            command_ticks,
            processor,
            read_command_ticks,
            write_command_ticks,
            turn_ticks,
            reading,
            ..
        } = &mut self.front
        else {
            unreachable!("memory channels have no link")
        };
        let request = &core.slab[slot];
        let server = if *full_duplex { down } else { up };
        let (data_ticks, mut process_ticks) = match request.kind {
            OpKind::Read => (0, *read_command_ticks),
            OpKind::Write => (write.ticks(request.len), *write_command_ticks),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes => (0, *write_command_ticks),
        };
        if *reading != (request.kind == OpKind::Read) {
            *reading = !*reading;
            process_ticks += *turn_ticks;
        }
        let arrived_ns = server.take(core.now, *command_ticks + data_ticks);
        let end = processor.take(arrived_ns, process_ticks);
        core.at(end, slot, State::Admitted);
    }

    /// Continues a request that has passed the host interface.
    #[inline(always)]
    fn admitted(&mut self, core: &mut Core, slot: u32) {
        let passed = core.now - core.slab[slot].entered_ns;
        core.slab[slot].entered_ns = core.now;
        match core.slab[slot].kind {
            OpKind::Read => {
                self.phases.front_ns += passed;
                self.phases.reads += 1;
                self.fork_reads(core, slot);
            }
            OpKind::Write => {
                self.phases.write_front_ns += passed;
                self.phases.writes += 1;
                self.enter_buffer(core, slot);
            }
            OpKind::Flush => self.flush(core, slot),
            OpKind::Trim | OpKind::WriteZeroes => self.trim(core, slot),
        }
    }

    /// Completes a host request.
    #[inline(always)]
    fn done(&mut self, core: &mut Core, slot: u32, failure: Option<IoError>) {
        if core.slab[slot].kind == OpKind::Write {
            // A fault may end the write before the buffer has accepted it.
            self.phases.answer_ns += core.now.saturating_sub(core.slab[slot].entered_ns);
        }
        core.complete(slot, failure);
        if let HostInterface::Link { outstanding, waiting, .. } = &mut self.front {
            match waiting.pop(&core.slab) {
                Some(next) => self.over_link(core, next),
                None => *outstanding -= 1,
            }
        }
    }

    /// Ends a request with an error.
    pub(crate) fn fail(&mut self, core: &mut Core, slot: u32) {
        core.slab[slot].failed = true;
        if core.slab[slot].state == State::Delivered {
            self.delivered(core, slot);
        } else {
            self.done(core, slot, Some(IoError::Io));
        }
    }

    /// Returns the die that contains a physical slot. Valid only if every page is in the map.
    fn die_of_slot(&self, slot: u32) -> u16 {
        let unit = slot / self.program_units;
        match self.unit_dies.get(unit as usize) {
            Some(&die) if die != UNPLACED => die,
            _ => (unit % self.dies.len() as u32) as u16,
        }
    }

    /// Returns the addresses of the state that most events of the device use, for prefetching.
    pub(crate) fn hot(&self) -> Hot {
        let front = Address::of(&self.front);
        let dies = self.dies.first().map_or(front, Address::of);
        Hot::new([front, Address::of(&self.dies), Address::of(&self.phases)], dies)
    }

    /// Returns the latency of host software and link, ns; 0 on a memory channel.
    #[inline(always)]
    fn latency_ns(&self) -> u64 {
        match &self.front {
            HostInterface::Channel { .. } => 0,
            HostInterface::Link { latency_ns, .. } => *latency_ns,
        }
    }
}
