//! Splits a host's read into page reads: finds the location of its units, and those that share a flash page.

use super::read::child_ended;
use super::{FlashDevice, UNIT_BYTES};
use crate::core::Core;
use crate::ftl::{Ftl, Residence};
use crate::request::{NIL, Request, State, Work};
use iodyno_units::rng::splitmix64;
use std::ops::Range;

/// The most lanes of a controller.
pub(crate) const LANES_MAX: usize = 8;

/// By lane: the page read that may also contain the next unit, and its number of units.
struct OpenPages([(u32, u32); LANES_MAX]);

impl Default for OpenPages {
    fn default() -> Self {
        Self([(NIL, 0); LANES_MAX])
    }
}

impl FlashDevice {
    /// Splits the request into page reads: one for each flash page that holds part of it.
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

    /// The same for a request of several units.
    #[inline(never)]
    fn fork_many(&mut self, core: &mut Core, slot: u32) {
        let request = &mut core.slab[slot];
        let (at, len) = (request.at, u64::from(request.len));
        // The parent waits for itself too, so that it can't complete before all are forked.
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
            // The controller answers by itself: nothing is in the cells.
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

    /// Units that were written in order: side by side in the pages of successive dies. Gives how
    /// many bytes of them were not written.
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

    /// Units that were written out of order: those written at once lie in pages together, in lanes.
    /// Gives how many bytes of them were not written.
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
            let lane = unit as usize % self.lanes as usize;
            let (child, count) = open.0[lane];
            if child != NIL && count < self.units_per_page && self.written_together(unit) {
                core.slab[child].len += bytes;
                open.0[lane].1 += 1;
                continue;
            }
            if child != NIL {
                self.read_page(core, child);
            }
            let die = self.scattered_die(unit);
            open.0[lane] = (self.child(core, slot, unit, bytes, die), 1);
        }
        unwritten
    }

    /// Issues the open page reads: no neighbouring unit follows.
    fn read_open(&mut self, core: &mut Core, open: &mut OpenPages) {
        for (child, _) in std::mem::take(open).0 {
            if child != NIL {
                self.read_page(core, child);
            }
        }
    }

    /// A page read for a host's read.
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

    /// A request of one page is its own page read.
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

    /// The die of a unit. None: not written.
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

    /// The die of a unit that was written out of order.
    #[inline(always)]
    fn scattered_die(&self, unit: u64) -> u16 {
        if self.represent == 1
            && let Residence::Slot(slot) = self.ftl.find(unit)
        {
            return self.die_of_slot(slot);
        }
        let hash = splitmix64(unit ^ self.key);
        ((u128::from(hash) * self.dies.len() as u128) >> 64) as u16
    }

    /// Whether a unit lies in the flash page of its predecessor in the same lane.
    fn written_together(&self, unit: u64) -> bool {
        let block = u64::from(self.written_units);
        let before = unit - u64::from(self.lanes);
        unit / block == before / block && splitmix64(unit ^ !self.key) >= self.split
    }
}

/// The bytes of a request that lie in a range of units.
#[inline(always)]
fn bytes_within(request: &Request, units: Range<u64>) -> u32 {
    let from = request.at.max(units.start * UNIT_BYTES);
    let to = (request.at + u64::from(request.len)).min(units.end * UNIT_BYTES);
    (to - from) as u32
}
