//! The flash of a zoned device: program operations that contain data of one zone only, and the zone commands reset
//! and finish.

use super::FlashDevice;
use crate::core::Core;
use crate::request::{State, Work};
use crate::zone_table::ZoneAction;
use std::collections::VecDeque;
use std::ops::Range;

/// State of a zoned device's write buffer: the program operations that are ready, and the commands that wait for
/// them.
#[derive(Clone, Debug)]
pub(super) struct ZoneBuffer {
    /// Number of 4 KiB units per zone.
    zone_units: u64,
    /// Number of 4 KiB units per program operation. Each zone has a whole number of them.
    program_units: u64,
    reset_ns: u64,
    /// First units of the program operations whose data is complete, oldest first.
    complete: VecDeque<u64>,
    /// Resets and finishes that wait for the program operations of their zone.
    waiting: Vec<u32>,
}

impl ZoneBuffer {
    pub(super) fn new(zone_units: u64, program_units: u32, reset_ns: u64) -> Self {
        let program_units = u64::from(program_units);
        Self { zone_units, program_units, reset_ns, complete: VecDeque::new(), waiting: Vec::new() }
    }

    /// Records that units have entered the buffer, and which program operations are complete now.
    pub(super) fn enter(&mut self, units: Range<u64>) {
        let size = self.program_units;
        self.complete.extend((units.start / size..units.end / size).map(|number| number * size));
    }

    /// Processes a power cut: determines again which program operations are complete. `waiting`: the units in the
    /// buffer.
    pub(super) fn power_off(&mut self, waiting: impl Iterator<Item = u64>) {
        let size = self.program_units;
        self.waiting.clear();
        let last = waiting.filter(|unit| (unit + 1).is_multiple_of(size));
        self.complete = last.map(|unit| unit + 1 - size).collect();
    }

    pub(super) fn has_complete(&self) -> bool {
        !self.complete.is_empty()
    }

    pub(super) fn take_complete(&mut self) -> Option<u64> {
        self.complete.pop_front()
    }
}

impl FlashDevice {
    /// Units in the buffer that wait for a program operation, oldest first.
    pub(crate) fn waiting_units(&self) -> impl Iterator<Item = u64> {
        self.buffer.drain.iter().copied()
    }

    /// Returns whether the flash holds data of a unit.
    pub(crate) fn holds(&self, unit: u64) -> bool {
        self.ftl.holds(unit)
    }

    /// Marks the partly filled program operation of a zone as complete. Pages without data fill the rest.
    pub(crate) fn complete_zone(&mut self, zone: u64) {
        let Some(zones) = &mut self.zones else { return };
        let units = zone * zones.zone_units..(zone + 1) * zones.zone_units;
        let of_zone = self.buffer.drain.iter().filter(|unit| units.contains(unit));
        let first = of_zone.max().map(|unit| unit / zones.program_units * zones.program_units);
        if let Some(first) = first.filter(|first| !zones.complete.contains(first)) {
            zones.complete.push_back(first);
        }
    }

    /// Processes the reset or finish of a zone.
    pub(super) fn manage_zone(&mut self, core: &mut Core, slot: u32) {
        let units = core.slab[slot].units();
        if core.slab[slot].work == Work::Manage(ZoneAction::Reset) {
            self.drop_waiting(core, &units);
        } else {
            let zone_units = units.end - units.start;
            self.complete_zone(units.start / zone_units);
        }
        core.slab[slot].state = State::Waiting;
        if let Some(zones) = &mut self.zones {
            zones.waiting.push(slot);
        }
        self.end_zone_waits(core);
        self.pump(core);
    }

    /// Removes from the buffer the units of a zone that wait for a program operation.
    fn drop_waiting(&mut self, core: &mut Core, units: &Range<u64>) {
        let (Some(merging), Some(zones)) = (&mut self.merging, &mut self.zones) else { return };
        zones.complete.retain(|first| !units.contains(first));
        let mut index = 0;
        while let Some(&unit) = self.buffer.drain.get(index) {
            if !units.contains(&unit) {
                index += 1;
                continue;
            }
            self.buffer.drain.remove(index);
            merging.forget(index);
            if let Some(content) = &mut self.content {
                content.forget(index, unit);
            }
            self.buffer.free += 1;
            self.buffer.units_out += 1;
        }
        self.admit_waiting(core);
    }

    /// Returns the number of erases that the reset of a zone causes: one per die for each row of blocks with data.
    /// Rows are programmed in order, each across all dies.
    fn blocks_with_data(&self, zone: &Range<u64>) -> u64 {
        let dies = self.dies.len() as u64;
        let row_units = self.gc.pages_per_erase * dies;
        let starts = zone.clone().step_by(row_units as usize);
        starts.take_while(|&start| self.ftl.holds(start)).count() as u64 * dies
    }

    /// Ends the resets and finishes whose zone has no data in the buffer.
    pub(super) fn end_zone_waits(&mut self, core: &mut Core) {
        let Some(zones) = &mut self.zones else { return };
        let (waiting, reset_ns) = (std::mem::take(&mut zones.waiting), zones.reset_ns);
        for slot in waiting {
            let units = core.slab[slot].units();
            if self.buffers_any(&units) {
                if let Some(zones) = &mut self.zones {
                    zones.waiting.push(slot);
                }
                continue;
            }
            let mut end_ns = core.now + self.buffer.accept_ns + self.latency_ns();
            if core.slab[slot].work == Work::Manage(ZoneAction::Reset) {
                let written = f64::from(core.slab[slot].pending);
                end_ns += (reset_ns as f64 * written / (units.end - units.start) as f64) as u64;
                let erases = self.blocks_with_data(&units);
                self.forget(core, slot);
                self.owe_erases(erases as f64);
            }
            core.at(end_ns, slot, State::Done);
        }
    }
}
