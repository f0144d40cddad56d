//! Splits a host's read into page reads: locates its units, and groups those that share a flash page.

use super::read::child_ended;
use super::{FlashDevice, UNIT_BYTES};
use crate::core::Core;
use crate::ftl::{Ftl, Residence};
use crate::request::{NIL, Request, State, Work};
use iodyno_units::rng::splitmix64;
use std::ops::Range;

/// Maximum number of lanes of a controller, to which 4 KiB units are assigned in turn.
pub(crate) const LANES_MAX: usize = 8;

/// Number of a lane's units in one link frame. A SATA frame contains up to 8 KiB of data.
const FRAME_UNITS: u64 = 2;

/// The latest page read of a lane, not started yet. It also reads the lane's next unit if that unit is in the same
/// flash page.
#[derive(Clone, Copy)]
struct OpenPage {
    read: u32,
    units: u32,
    /// Number of the frame that contains the read's first unit.
    frame: u64,
}

/// The latest page read of each lane, to which further units may be added.
struct OpenPages([OpenPage; LANES_MAX]);

impl Default for OpenPages {
    fn default() -> Self {
        Self([OpenPage { read: NIL, units: 0, frame: 0 }; LANES_MAX])
    }
}

impl FlashDevice {
    /// Splits a read into page reads: one for each flash page that contains some of its data.
    #[inline(always)]
    pub(super) fn fork_reads(&mut self, core: &mut Core, slot: u32) {
        let request = &mut core.slab[slot];
        let first = request.at / UNIT_BYTES;
        if first == (request.at + u64::from(request.len) - 1) / UNIT_BYTES {
            request.pending = 0;
            self.read_alone(core, slot, first);
        } else {
            self.fork_many(core, slot);
        }
    }

    /// Splits a read of several units into page reads.
    #[inline(never)]
    fn fork_many(&mut self, core: &mut Core, slot: u32) {
        let request = &mut core.slab[slot];
        let (at, len) = (request.at, u64::from(request.len));
        // Counts the splitting itself, so that the parent can't complete before all children exist.
        request.pending = 1;
        request.state = State::Waiting;
        let mut rest = at / UNIT_BYTES..(at + len - 1) / UNIT_BYTES + 1;
        let mut open = OpenPages::default();
        let mut unwritten = 0;
        while !rest.is_empty() {
            let end = rest.end.min(Ftl::chunk_end(rest.start));
            let units = rest.start..end;
            unwritten += if self.ftl.sequential(rest.start) {
                self.read_open(core, &mut open);
                self.fork_in_order(core, slot, units)
            } else {
                self.fork_scattered(core, slot, units, &mut open)
            };
            rest.start = end;
        }
        self.read_open(core, &mut open);
        if unwritten > 0 {
            // Unwritten units need no die: the controller answers by itself.
            let child = core.add(self.part);
            core.slab[child].parent = slot;
            core.slab[child].len = unwritten;
            core.slab[slot].pending += 1;
            core.slab[child].entered_ns = core.now;
            core.slab[child].state = State::Waiting;
            core.slab[child].work = Work::Nothing;
            self.take_context(core, child);
        }
        child_ended(core, slot);
    }

    /// Splits a read of a sequentially written range, whose consecutive flash pages are on successive dies.
    /// Returns the number of unwritten bytes.
    fn fork_in_order(&mut self, core: &mut Core, slot: u32, mut units: Range<u64>) -> u32 {
        let (per_page, dies) = (u64::from(self.units_per_page), self.dies.len() as u64);
        let full = self.ftl.is_full();
        let mut unwritten = 0;
        while !units.is_empty() {
            let page = units.start / per_page;
            let end = units.end.min((page + 1) * per_page);
            let mut bytes = bytes_within(&core.slab[slot], units.start..end);
            if !full {
                let missing = (units.start..end).filter(|&unit| !self.ftl.holds(unit));
                let missing: u32 =
                    missing.map(|unit| bytes_within(&core.slab[slot], unit..unit + 1)).sum();
                unwritten += missing;
                bytes -= missing;
            }
            if bytes > 0 {
                let die = (page % dies) as u16;
                let child = self.child(core, slot, units.start, bytes, die);
                self.read_page(core, child);
            }
            units.start = end;
        }
        unwritten
    }

    /// Splits a read of a range that was not written sequentially. Units that were written together share
    /// flash pages, separately for each lane. Returns the number of unwritten bytes.
    fn fork_scattered(
        &mut self,
        core: &mut Core,
        slot: u32,
        units: Range<u64>,
        open: &mut OpenPages,
    ) -> u32 {
        let mut unwritten = 0;
        for unit in units {
            let bytes = bytes_within(&core.slab[slot], unit..unit + 1);
            if !self.ftl.holds(unit) {
                unwritten += bytes;
                continue;
            }
            let last = &mut open.0[unit as usize % self.lanes as usize];
            let is_open = last.read != NIL;
            if is_open && last.units < self.units_per_page && self.written_together(unit) {
                core.slab[last.read].len += bytes;
                last.units += 1;
                continue;
            }
            let frame = unit / u64::from(self.lanes) / FRAME_UNITS;
            let read = self.child(core, slot, unit, bytes, self.scattered_die(unit));
            if is_open {
                if self.sends_frames && last.frame == frame {
                    send_together(core, last.read, read);
                }
                self.read_page(core, last.read);
            }
            *last = OpenPage { read, units: 1, frame };
        }
        unwritten
    }

    /// Starts the latest page read of each lane. From then on no further unit can be added to it.
    fn read_open(&mut self, core: &mut Core, open: &mut OpenPages) {
        for page in std::mem::take(open).0 {
            if page.read != NIL {
                self.read_page(core, page.read);
            }
        }
    }

    /// Creates a page read as a child request of a host's read. Returns its index.
    #[inline(always)]
    fn child(&self, core: &mut Core, parent: u32, unit: u64, len: u32, die: u16) -> u32 {
        let child = core.add(self.part);
        core.slab[parent].pending += 1;
        let request = &mut core.slab[child];
        request.parent = parent;
        request.at = unit;
        request.len = len;
        request.die = die;
        child
    }

    /// Serves a read of one unit, which needs no child request.
    #[inline(always)]
    fn read_alone(&mut self, core: &mut Core, slot: u32, unit: u64) {
        if let Some(die) = self.place(unit) {
            core.slab[slot].die = die;
            self.read_page(core, slot);
        } else {
            core.slab[slot].work = Work::Nothing;
            self.take_context(core, slot);
        }
    }

    /// Returns the die that stores a unit; `None` if the unit is not written.
    #[inline(always)]
    pub(super) fn place(&self, unit: u64) -> Option<u16> {
        if !self.ftl.holds(unit) {
            return None;
        }
        if self.ftl.sequential(unit) {
            let page = unit / u64::from(self.units_per_page);
            return Some((page % self.dies.len() as u64) as u16);
        }
        Some(self.scattered_die(unit))
    }

    /// Returns the die that stores a unit which was not written sequentially.
    #[inline(always)]
    pub(super) fn scattered_die(&self, unit: u64) -> u16 {
        if self.represent == 1
            && let Residence::Slot(slot) = self.ftl.find(unit)
        {
            return self.die_of_slot(slot);
        }
        let hash = splitmix64(unit ^ self.key);
        ((u128::from(hash) * self.dies.len() as u128) >> 64) as u16
    }

    /// Returns whether a unit is in the same flash page as the preceding unit of its lane.
    fn written_together(&self, unit: u64) -> bool {
        let block = u64::from(self.written_units);
        let before = unit - u64::from(self.lanes);
        unit / block == before / block && splitmix64(unit ^ !self.key) >= self.split
    }
}

/// Links two page reads that share a frame: the token of each becomes the other's request index plus 1.
fn send_together(core: &mut Core, first: u32, second: u32) {
    core.slab[first].token = u64::from(second) + 1;
    core.slab[second].token = u64::from(first) + 1;
}

/// Returns the number of bytes of a request that are within a range of units.
#[inline(always)]
fn bytes_within(request: &Request, units: Range<u64>) -> u32 {
    let from = request.at.max(units.start * UNIT_BYTES);
    let to = (request.at + u64::from(request.len)).min(units.end * UNIT_BYTES);
    (to - from) as u32
}
