//! A zoned device: a flash device whose address space consists of zones, each written in order from its start and
//! reset as a whole. A zone consists of whole erase blocks, so there is no garbage collection, and write
//! amplification is 1.
//!
//! A command is accepted or refused when it arrives. An accepted write moves the write pointer and goes to the flash
//! device, whose address space consists of the writable parts of all zones. A reset or a finish begins when the
//! earlier writes have ended, and later commands to the zone wait for it.

use crate::core::Core;
use crate::flash::{FlashDevice, Place, Population};
use crate::request::{State, Work};
use crate::spec::{self, Preconditioned, Written};
use crate::usage::{Phase, Resource};
use crate::zone_table::{BLOCK_BYTES, ZoneAction, ZoneState, ZoneTable};
use iodyno_units::{IoError, OpKind, ZoneError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// State of one zone of a zoned device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Start of the zone in the device's address space, bytes.
    pub start_bytes: u64,
    /// Number of writable bytes from the zone's start.
    pub capacity_bytes: u64,
    /// Address of the next write, bytes. Of a full zone, the end of its capacity.
    pub pointer_bytes: u64,
    /// State as in the NVMe zone state machine, such as open or full.
    pub state: ZoneState,
}

/// Commands of one zone that have not ended.
#[derive(Clone, Debug, Default)]
struct Line {
    writes: u32,
    /// Whether a reset or finish is in progress.
    managing: bool,
    waiting: VecDeque<u32>,
}

/// A zoned device as a component of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Zoned {
    spec: spec::Zones,
    table: ZoneTable,
    pub(crate) flash: FlashDevice,
    /// Zones with commands that have not ended.
    lines: BTreeMap<usize, Line>,
}

impl Zoned {
    /// Creates a zoned device at the place `at`. If preconditioning has written data, the first zones are full.
    pub(crate) fn new(
        flash: &spec::Flash,
        spec: spec::Zones,
        before: &Preconditioned,
        at: Place,
        population: &mut Population,
        core: &mut Core,
    ) -> Result<Self, String> {
        let count = flash.capacity_bytes / spec.size_bytes;
        let full = match before.how {
            Written::Fresh => 0,
            _ => (count as f64 * before.fill.clamp(0.0, 1.0)) as u64,
        };
        // One more zone, which is never written, answers reads of addresses without space.
        let capacity_bytes = (count + 1) * spec.capacity_bytes;
        let flash = spec::Flash { capacity_bytes, ..flash.clone() };
        let how = if full == 0 { Written::Fresh } else { Written::Sequential };
        let blocks = (capacity_bytes / BLOCK_BYTES) as f64;
        let fill = ((full * spec.capacity_bytes / BLOCK_BYTES) as f64 + 0.5) / blocks;
        let before = Preconditioned { how, fill };
        let (open_max, active_max) = (spec.open_max, spec.active_max);
        let (count, full) = (count as usize, full as usize);
        Ok(Self {
            spec,
            table: ZoneTable::new(count, full, spec.capacity_bytes, open_max, active_max),
            flash: FlashDevice::new(&flash, &before, at, population, core)?,
            lines: BTreeMap::new(),
        })
    }

    pub(crate) fn zones(&self) -> Vec<Zone> {
        let zone = |number: usize| {
            let (state, pointer) = self.table.zone(number);
            let start_bytes = number as u64 * self.spec.size_bytes;
            let pointer_bytes = start_bytes + pointer;
            Zone { start_bytes, capacity_bytes: self.spec.capacity_bytes, pointer_bytes, state }
        };
        (0..self.table.len()).map(zone).collect()
    }

    /// Processes a request's next event, according to the request's state.
    // Not inlined: it contains another copy of the whole path of an event, which other devices never run.
    #[inline(never)]
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        match core.slab[slot].state {
            State::Issued => self.issued(core, slot),
            State::Done => {
                let ending = self.ending(core, slot);
                self.flash.event(core, slot);
                self.ended(core, ending);
            }
            _ => self.flash.event(core, slot),
        }
    }

    /// Ends a request with an error.
    pub(crate) fn fail(&mut self, core: &mut Core, slot: u32) {
        let ending = self.ending(core, slot);
        self.flash.fail(core, slot);
        self.ended(core, ending);
    }

    /// Accepts or refuses a command that arrives.
    fn issued(&mut self, core: &mut Core, slot: u32) {
        match self.decide(core, slot) {
            Err(error) => core.complete(slot, Some(error)),
            Ok(None) => self.flash.event(core, slot),
            Ok(Some(zone)) => {
                core.slab[slot].state = State::Waiting;
                self.lines.entry(zone).or_default().waiting.push_back(slot);
                self.begin(core, zone);
            }
        }
    }

    /// Applies a command to the state of its zone, and translates its address to one of the flash device. Returns the
    /// zone if the command must wait its turn there; `None` if it need not.
    fn decide(&mut self, core: &mut Core, slot: u32) -> Result<Option<usize>, IoError> {
        let spec = self.spec;
        let request = &mut core.slab[slot];
        if request.kind == OpKind::Flush {
            return Ok(None);
        }
        let (at, len) = (request.at, u64::from(request.len));
        let zone = (at / spec.size_bytes) as usize;
        if at + len > self.table.len() as u64 * spec.size_bytes {
            return Err(IoError::OutOfRange);
        }
        let within = at % spec.size_bytes;
        let start = zone as u64 * spec.capacity_bytes;
        match request.kind {
            OpKind::Read if within + len <= spec.size_bytes => {
                // Blocks from the capacity to the end of the zone read as never written. In a read that begins below
                // the capacity, they take no time.
                let left = spec.capacity_bytes.saturating_sub(within);
                let without_space = self.table.len() as u64 * spec.capacity_bytes;
                let (at, len_max) = match left {
                    0 => (without_space, spec.capacity_bytes),
                    _ => (start + within, left),
                };
                (request.at, request.len) = (at, len.min(len_max) as u32);
                Ok(None)
            }
            OpKind::Read => Err(IoError::Zone(ZoneError::Boundary)),
            OpKind::Write => {
                let at = if spec.appends {
                    self.table.append(zone, len)
                } else {
                    self.table.write(zone, within, len).map(|()| within)
                };
                request.at = start + at.map_err(IoError::Zone)?;
                Ok(Some(zone))
            }
            OpKind::Trim => {
                let is_whole = within == 0 && len == spec.size_bytes;
                let action = match request.work {
                    Work::Manage(action) => Some(action),
                    _ => is_whole.then_some(ZoneAction::Reset),
                };
                let (state, pointer) = self.table.zone(zone);
                if let Some(action) = action {
                    self.table.manage(zone, action).map_err(IoError::Zone)?;
                }
                let changes_data = match action {
                    Some(ZoneAction::Reset) => state != ZoneState::Empty,
                    Some(ZoneAction::Finish) => state.is_active(),
                    _ => false,
                };
                if !changes_data {
                    // The protected buffer has nothing to do for a flush, which takes the time of a command.
                    request.kind = OpKind::Flush;
                    return Ok(None);
                }
                (request.at, request.len) = (start, spec.capacity_bytes as u32);
                request.work = action.map_or(request.work, Work::Manage);
                request.pending = (pointer / BLOCK_BYTES) as u32;
                Ok(Some(zone))
            }
            OpKind::WriteZeroes | OpKind::Flush => Err(IoError::Zone(ZoneError::InvalidWrite)),
        }
    }

    /// Begins a zone's waiting commands, in order, as far as those in progress allow: writes run concurrently, a reset
    /// or finish runs alone.
    fn begin(&mut self, core: &mut Core, zone: usize) {
        while let Some(line) = self.lines.get_mut(&zone)
            && !line.managing
            && let Some(&slot) = line.waiting.front()
        {
            if core.slab[slot].kind == OpKind::Write {
                line.writes += 1;
            } else if line.writes == 0 {
                line.managing = true;
            } else {
                return;
            }
            line.waiting.pop_front();
            core.slab[slot].state = State::Issued;
            self.flash.event(core, slot);
        }
    }

    /// Returns the zone and the kind of a command that is about to end; `None` if the command did not wait its turn
    /// in a zone.
    fn ending(&self, core: &Core, slot: u32) -> Option<(usize, OpKind)> {
        let request = &core.slab[slot];
        let is_ordered = matches!(request.kind, OpKind::Write | OpKind::Trim);
        is_ordered.then_some(((request.at / self.spec.capacity_bytes) as usize, request.kind))
    }

    /// Begins the commands that waited for the command `ended`.
    fn ended(&mut self, core: &mut Core, ended: Option<(usize, OpKind)>) {
        let Some((zone, kind)) = ended else { return };
        let Some(line) = self.lines.get_mut(&zone) else { return };
        if kind == OpKind::Write {
            line.writes -= 1;
        } else {
            line.managing = false;
        }
        if line.writes == 0 && !line.managing && line.waiting.is_empty() {
            self.lines.remove(&zone);
        } else {
            self.begin(core, zone);
        }
    }

    /// Processes a power failure, after all requests have been dropped.
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        self.flash.power_off(core);
        self.lines.clear();
        let buffered: BTreeSet<u64> = self.flash.waiting_units().collect();
        let zone_blocks = self.spec.capacity_bytes / BLOCK_BYTES;
        let flash = &self.flash;
        self.table.power_off(|zone, block| {
            let unit = zone as u64 * zone_blocks + block;
            buffered.contains(&unit) || flash.holds(unit)
        });
    }

    /// Processes the return of power: completes program operations that full zones had begun, and writes the content
    /// of the buffer to flash.
    pub(crate) fn power_on(&mut self, core: &mut Core) {
        let full = (0..self.table.len()).filter(|&zone| self.table.zone(zone).0 == ZoneState::Full);
        let begun: BTreeSet<usize> = self
            .flash
            .waiting_units()
            .map(|unit| (unit * BLOCK_BYTES / self.spec.capacity_bytes) as usize)
            .collect();
        for zone in full.filter(|zone| begun.contains(zone)) {
            self.flash.complete_zone(zone as u64);
        }
        self.flash.power_on(core);
    }

    /// Translates an address of the zoned device to one of the flash device.
    pub(crate) fn stored_at(&self, at: u64) -> u64 {
        let spec = self.spec;
        let (zone, within) = (at / spec.size_bytes, at % spec.size_bytes);
        if within < spec.capacity_bytes {
            return zone * spec.capacity_bytes + within;
        }
        // The zone that is never written stands for addresses without space.
        self.table.len() as u64 * spec.capacity_bytes
    }

    /// Returns the device's resources with their busy time since the start.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        self.flash.resources(core)
    }

    /// Returns the time that the device's operations have spent in each phase since the start.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        self.flash.phases()
    }

    /// Checks the invariants of the zones and of the flash device.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.table.check().and_then(|()| self.flash.check())
    }
}
