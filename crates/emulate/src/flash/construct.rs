//! Constructs a flash device from its specification, in its preconditioned state.

use super::collect::{GarbageCollection, parts};
use super::commits::Commits;
use super::merge::Merging;
use super::placing::Placing;
use super::sensing::{Sensing, share_of_u64};
use super::slc::Slc;
use super::tear::Tear;
use super::write::WriteBuffer;
use super::zone::ZoneBuffer;
use super::{
    Counts, Die, FlashDevice, HostInterface, ONE, Phases, SLOW, UNIT_BYTES, UNPLACED, unit_of,
};
use crate::bug_injection::InjectedBug;
use crate::core::{Core, Thread};
use crate::ftl::{self, Ftl, Shape};
use crate::gauge::Gauge;
use crate::part_id::PartId;
use crate::request::{List, State};
use crate::server::{PerByte, Server, ticks, transfer_ticks};
use crate::spec::{
    self, Attach, DurableOrder, Isolation, Kind, PlacedDevice, Preconditioned, System, Written,
};
use iodyno_units::rng;

/// Maximum total number of mapped pages of all devices of a machine, if only a sample of pages is in the
/// maps.
const REPRESENTED_PAGES_MAX: u64 = 1 << 20;
/// Minimum number of mapped pages per device. With fewer, its map would have too few blocks.
const REPRESENTED_PAGES_MIN: u64 = 3 << 17;

/// Parameters that determine a translation layer's initial state. Devices with equal parameters start in
/// the same state.
#[derive(Clone, PartialEq)]
struct Made {
    shape: Shape,
    placement: ftl::Placement,
    state: ftl::State,
    /// Number of logical pages that preconditioning has written.
    written: u64,
}

/// The flash devices of a machine while it is constructed: common parameters and shared resources.
pub(crate) struct Population {
    devices: u64,
    seed: u64,
    /// Time per byte on the memory channel, ns.
    channel_ns_per_byte: f64,
    remote_factor: f64,
    driver_write_ns: u64,
    /// Sampling ratio k: a device's map contains one of every k logical pages. `None`: the size and number of the
    /// devices determine k.
    represent: Option<u32>,
    made: Vec<(Made, Ftl)>,
    /// Driver threads created so far: socket, index, and number of further devices that the thread can serve.
    threads: Vec<(u32, usize, u32)>,
}

impl Population {
    pub(crate) fn new(system: &System, seed: u64, represent: Option<u32>) -> Self {
        let host = &system.host;
        let share = if host.memory_balanced { 1.0 } else { host.unbalanced_share };
        let remote = !host.workers_near && host.sockets > 1;
        // A worker is equally likely on each socket.
        let away = if remote { 1.0 - 1.0 / f64::from(host.sockets) } else { 0.0 };
        let is_flash = |placed: &&PlacedDevice| matches!(placed.device.kind, Kind::Flash(_));
        Self {
            devices: system.devices().filter(is_flash).count() as u64,
            seed,
            channel_ns_per_byte: 1e9 / (host.memory_channel_bytes_per_s * share),
            remote_factor: 1.0 + away * (host.remote_copy_factor - 1.0),
            driver_write_ns: host.driver_write_ns,
            represent,
            made: Vec::new(),
            threads: Vec::new(),
        }
    }

    /// Returns a driver thread for one more flash DIMM on a socket: an existing one with capacity, or a new
    /// one. `usize::MAX` for devices behind a link.
    fn thread(&mut self, core: &mut Core, attach: &Attach, socket: u32) -> usize {
        let Attach::MemoryChannel { devices_per_thread, poll_ns, poll_crowded_ns, .. } = *attach
        else {
            return usize::MAX;
        };
        if let Some((_, thread, room)) =
            self.threads.iter_mut().find(|(on, _, room)| *on == socket && *room > 0)
        {
            *room -= 1;
            return *thread;
        }
        let thread = core.threads.len();
        core.threads.push(Thread { core: 0, socket, poll_ns, poll_crowded_ns });
        self.threads.push((socket, thread, devices_per_thread - 1));
        thread
    }

    /// Returns the translation layer of device `number`: a copy of an equal device's initial state, or a new
    /// one.
    fn translation(&mut self, of: Made, number: u64) -> Ftl {
        if let Some((_, ftl)) = self.made.iter().find(|(made, _)| *made == of) {
            return ftl.twin(self.seed, number);
        }
        let Made { shape, state, written, .. } = of;
        let placement = of.placement.clone();
        let mut ftl = Ftl::placed(shape, placement, state, 0..written, self.seed, number);
        if self.devices > 1 {
            ftl.share();
            self.made.push((of, ftl.clone()));
        }
        ftl
    }

    /// Returns the sampling ratio k: the map contains one of every k logical pages of a device.
    fn represent(&self, logical_pages: u64) -> u32 {
        self.represent.unwrap_or_else(|| {
            let share = (REPRESENTED_PAGES_MAX / self.devices.max(1)).max(REPRESENTED_PAGES_MIN);
            Shape::auto_represent(logical_pages, share)
        })
    }

    /// Returns the cost per byte of a driver thread's copy: the time of the thread at `bytes_per_s`, plus the time of
    /// the memory channel.
    fn copy(&self, bytes_per_s: f64) -> PerByte {
        PerByte::new((1e9 / bytes_per_s + self.channel_ns_per_byte) * self.remote_factor)
    }
}

/// Identity of a device in a system: its number among the components, and its socket.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub part: PartId,
    pub socket: u32,
}

impl FlashDevice {
    /// Creates a flash device at the place `at`, preconditioned according to `before`.
    pub(crate) fn new(
        spec: &spec::Flash,
        before: &Preconditioned,
        at: Place,
        population: &mut Population,
        core: &mut Core,
    ) -> Result<Self, String> {
        let before = &whole_units(spec, before);
        let thread = population.thread(core, &spec.attach, at.socket);
        let part = at.part;
        let (seed, number) = (population.seed, u64::from(part.0));
        let n = &spec.nand;
        let die_count = n.channels * n.dies_per_channel;
        let program_units = program_units(n) as u32;
        let logical_pages = spec.capacity_bytes / UNIT_BYTES;
        // Behind zones the map only records which pages are written, so a sample of pages suffices.
        let represent_min = if spec.zones.is_some() { 2 } else { 1 };
        let represent = population.represent(logical_pages).max(represent_min);
        let written = (logical_pages as f64 * before.fill.clamp(0.0, 1.0)) as u64;
        let mut ftl = preconditioned_ftl(spec, before, written, represent, number, population)?;
        let handles = placement(spec).handles();
        let gc = garbage_collection(spec, before, &mut ftl, represent, number);
        let ftl_slots = ftl.slots();
        let front = host_interface(spec, thread, part, population, core);
        let unlimited = |count: u32| if count == 0 { u32::MAX } else { count };
        let is_fresh = before.how == Written::Fresh;
        let stored_units = if is_fresh { 0 } else { written };
        let usable_units = (usable_bytes(spec) / UNIT_BYTES as f64) as u64;
        Ok(Self {
            part,
            front,
            dies: (0..die_count)
                .map(|die| Die { channel: (die % n.channels) as u16, ..Die::default() })
                .collect(),
            slow: vec![SLOW; die_count as usize],
            channels: vec![Server::default(); n.channels as usize],
            contexts_max: unlimited(spec.controller.read_contexts),
            contexts: Gauge::default(),
            context_waiting: List::default(),
            lanes: spec.controller.lanes.max(1),
            sends_frames: spec.controller.read_contexts > spec.controller.lanes,
            split: share_of_u64(spec.controller.page_split),
            units_per_page: unit_of(u64::from(n.page_bytes)) as u32,
            written_units: pages_per_write(before),
            read_latency_ns: spec.controller.read_latency_ns,
            read_ns: n.read_ns,
            sensing: Sensing::new(n, seed, number),
            program_ns: [n.program_fast_ns, n.program_slow_ns],
            erase_ns: n.erase_ns,
            suspend_ns: n.suspend_ns,
            reads_first: n.reads_first,
            unit_ticks: transfer_ticks(UNIT_BYTES, n.channel_bytes_per_s),
            buffer: WriteBuffer::new(spec, program_units * u32::from(handles)),
            program_units,
            programs_max: unlimited(n.programs_max).min(2 * die_count),
            programs: Gauge::default(),
            next_die: 0,
            batches: Vec::new(),
            batches_free: Vec::new(),
            unprocessed: List::default(),
            copies_ready: List::default(),
            copies_reading: 0,
            slc: Slc::new(n, usable_units, stored_units, is_fresh),
            logical_units: logical_pages,
            stored_units,
            ftl,
            unit_dies: if represent == 1 {
                vec![UNPLACED; (ftl_slots / program_units + 1) as usize]
            } else {
                Vec::new()
            },
            represent,
            merging: merging(spec).map(Box::new),
            commits: commits(spec).map(Box::new),
            tear: Tear::of(spec, seed, number),
            placing: (handles > 1).then(|| Box::new(Placing::new(handles))),
            zones: spec.zones.map(|zones| {
                let zone_units = zones.capacity_bytes / UNIT_BYTES;
                Box::new(ZoneBuffer::new(zone_units, program_units, zones.reset_ns))
            }),
            gc,
            stall: spec.translation.stall,
            stall_left: spec.translation.stall.map_or(u64::MAX, |s| s.every_bytes),
            rng: rng::stream(seed, "collection", number),
            capacity_bytes: spec.capacity_bytes,
            cycles: spec.endurance.cycles,
            key: rng::key(seed, "placement", number),
            raw_units: n.raw_bytes / UNIT_BYTES,
            parity_stripe: n.parity_stripe,
            damage: None,
            content: None,
            injected_bug: InjectedBug::Nothing,
            phases: Phases::default(),
            counts: Counts::default(),
        })
    }
}

/// Returns the state for programming translation units larger than 4 KiB or, on a zoned device, complete program
/// operations. `None` if each 4 KiB unit can be programmed by itself.
fn merging(spec: &spec::Flash) -> Option<Merging> {
    if spec.zones.is_some() {
        return Some(Merging::of(program_units(&spec.nand)));
    }
    let units = unit_of(u64::from(spec.translation.unit_bytes));
    (units > 1).then(|| Merging::of(units))
}

/// Returns the state for making data durable in atomic blocks or in order; `None` if each program operation makes its
/// data durable.
fn commits(spec: &spec::Flash) -> Option<Commits> {
    let cut = spec.power_cut.filter(|_| !spec.buffer.protected)?;
    let is_ordered = cut.order == DurableOrder::Acknowledged;
    Some(Commits::new(is_ordered, unit_of(cut.atomic_bytes.into())))
}

/// Returns the preconditioning with its random writes enlarged to at least one translation unit.
fn whole_units(spec: &spec::Flash, before: &Preconditioned) -> Preconditioned {
    let mut before = *before;
    if let Written::Random { block_bytes } | Written::RandomWithin { block_bytes, .. } =
        &mut before.how
    {
        *block_bytes = (*block_bytes).max(spec.translation.unit_bytes);
    }
    before
}

/// Returns the translation layer of device `number` after preconditioning has written `written` pages.
fn preconditioned_ftl(
    spec: &spec::Flash,
    before: &Preconditioned,
    written: u64,
    represent: u32,
    number: u64,
    population: &mut Population,
) -> Result<Ftl, String> {
    let shape = shape(spec, represent);
    shape.check()?;
    let state = ftl_state(before, shape.logical_pages);
    let placement = placement(spec);
    let mut ftl = population.translation(Made { shape, placement, state, written }, number);
    ftl.choose_victims_by(spec.translation.victim);
    Ok(ftl)
}

/// Creates the state of garbage collection after preconditioning.
fn garbage_collection(
    spec: &spec::Flash,
    before: &Preconditioned,
    ftl: &mut Ftl,
    represent: u32,
    number: u64,
) -> GarbageCollection {
    let n = &spec.nand;
    let is_random = before.how.random_block_bytes().is_some();
    // Without random writes, future overwrites are unknown.
    let units_per_page = unit_of(u64::from(n.page_bytes)) as u32;
    let parts =
        if is_random { parts(u64::from(pages_per_write(before)), units_per_page) } else { 0.0 };
    let dies = n.channels * n.dies_per_channel;
    let block_units = u64::from(n.pages_per_block) * program_units(n);
    let map_writes = spec.translation.map_writes_per_page;
    let rows = 1.0 / f64::from(spec.scale);
    let gc = GarbageCollection::new(
        ftl,
        map_writes,
        f64::from(dies) * rows,
        block_units,
        is_random,
        parts,
    );
    let freed_per_write = (spec.translation.freed_per_write * ONE as f64) as i64;
    let pause_units = if gc.collecting { first_pause(spec, ftl, represent, number) } else { 0 };
    let collecting = gc.collecting && pause_units == 0;
    GarbageCollection { freed_per_write, pause_units, collecting, ..gc }
}

/// Number of units that the host of device `number` writes before the first burst of garbage collection. The first
/// device starts with a burst. The others start within a pause, each at a different point, so that the bursts of an
/// array's devices do not coincide.
fn first_pause(spec: &spec::Flash, ftl: &mut Ftl, represent: u32, number: u64) -> i64 {
    /// The golden ratio, whose multiples are spread evenly modulo 1.
    const SPREAD: f64 = 0.618_033_988_75;
    let Some(victim) = ftl.victim() else { return 0 };
    let in_burst = 1.0 / spec.translation.freed_per_write;
    let at = libm::modf(number as f64 * SPREAD).0;
    let free = f64::from(victim.pages_per_block - victim.valid) * f64::from(represent);
    (free * (1.0 - in_burst) * at) as i64
}

/// Creates the device's interface to the host. `thread` is its driver thread if it is a DIMM.
fn host_interface(
    spec: &spec::Flash,
    thread: usize,
    part: PartId,
    population: &Population,
    core: &mut Core,
) -> HostInterface {
    match &spec.attach {
        Attach::MemoryChannel {
            command_ns, read_copy_bytes_per_s, write_copy_bytes_per_s, ..
        } => HostInterface::Channel {
            thread,
            ready: List::default(),
            poll: {
                let poll = core.add(part);
                core.slab[poll].state = State::Waiting;
                poll
            },
            polling: false,
            command_ticks: ticks(*command_ns),
            read_copy: population.copy(*read_copy_bytes_per_s),
            write_copy: population.copy(*write_copy_bytes_per_s),
            write_end_ticks: ticks(population.driver_write_ns),
        },
        Attach::Link {
            read_bytes_per_s,
            write_bytes_per_s,
            full_duplex,
            command_ns,
            latency_ns,
            queue_max,
            ..
        } => HostInterface::Link {
            down: Server::default(),
            up: Server::default(),
            full_duplex: *full_duplex,
            read: PerByte::new(1e9 / read_bytes_per_s),
            write: PerByte::new(1e9 / write_bytes_per_s),
            command_ticks: ticks(*command_ns),
            latency_ns: *latency_ns,
            outstanding: 0,
            queue_max: *queue_max,
            waiting: List::default(),
            processor: Server::default(),
            read_command_ticks: ticks(spec.controller.read_command_ns),
            write_command_ticks: ticks(match spec.zones {
                Some(zones) if zones.appends => zones.append_command_ns,
                _ => spec.controller.write_command_ns,
            }),
            copy_ticks: ticks(spec.controller.copy_ns) * program_units(&spec.nand),
            turn_ticks: ticks(spec.controller.turn_ns),
            reading: true,
        },
    }
}

/// Converts the preconditioning of a device to the initial state of its translation layer.
fn ftl_state(before: &Preconditioned, logical_pages: u64) -> ftl::State {
    let pages_per_write = pages_per_write(before);
    match before.how {
        Written::Fresh => ftl::State::Fresh,
        Written::Sequential => ftl::State::Sequential,
        Written::Random { .. } => ftl::State::Random { pages_per_write },
        Written::RandomWithin { .. } => {
            let lpns = before.how.rewritten(logical_pages);
            ftl::State::RandomWithin { pages_per_write, first_lpn: lpns.start, end_lpn: lpns.end }
        }
    }
}

/// Returns the number of 4 KiB pages per random write of the preconditioning.
fn pages_per_write(before: &Preconditioned) -> u32 {
    before.how.random_block_bytes().map_or(1, |bytes| unit_of(u64::from(bytes)) as u32)
}

/// Returns the number of 4 KiB units that a die programs in one operation, on all its planes.
fn program_units(nand: &spec::Nand) -> u64 {
    unit_of(u64::from(nand.planes) * u64::from(nand.page_bytes))
}

/// Returns the raw space without the reserved share, bytes.
fn usable_bytes(spec: &spec::Flash) -> f64 {
    spec.nand.raw_bytes as f64 * (1.0 - spec.translation.reserved_share)
}

/// Returns the shape of a device's translation layer, without the reserved space. Its erase unit is a
/// row of one block on every plane.
pub(crate) fn shape(spec: &spec::Flash, represent: u32) -> Shape {
    let n = &spec.nand;
    let program_units = program_units(n);
    let dies = u64::from(n.channels) * u64::from(n.dies_per_channel);
    let row = u64::from(n.pages_per_block) * program_units * dies / u64::from(spec.scale);
    let row = row.next_multiple_of(program_units);
    Shape {
        logical_pages: spec.capacity_bytes / UNIT_BYTES,
        raw_pages: (usable_bytes(spec) as u64 / UNIT_BYTES) / row * row,
        pages_per_block: row as u32,
        represent,
        frontiers: placement(spec).frontiers(),
    }
}

/// Returns the size of a superblock of a device, a row of one block on every plane, bytes.
pub fn superblock_bytes(spec: &spec::Flash) -> u64 {
    u64::from(shape(spec, 1).pages_per_block) * UNIT_BYTES
}

/// Returns the placement of a device's logical pages: one handle for each namespace of the specification.
fn placement(spec: &spec::Flash) -> ftl::Placement {
    let Some(of) = &spec.placement else { return ftl::Placement::default() };
    let pages = spec.capacity_bytes / UNIT_BYTES;
    let mut sum = 0.0;
    let ends = of.shares.iter().map(|share| {
        sum += share;
        ((pages as f64 * sum).round() as u64).min(pages)
    });
    let mut ends: Vec<u64> = ends.collect();
    ends.pop();
    ftl::Placement::new(ends, of.isolation == Isolation::Persistent)
}
