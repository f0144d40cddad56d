//! Media errors and recovery: an unreadable page is rebuilt from the other pages
//! of its parity stripe, each on another die.

use super::{FlashDevice, UNIT_BYTES};
use crate::core::Core;
use crate::fault_state::partial_units;
use crate::ftl::Residence;
use crate::medium::{Held, Medium};
use crate::ranges::Ranges;
use crate::request::{NIL, State, Work};
use iodyno_units::rng::splitmix64;
use std::collections::BTreeSet;
use std::ops::Range;

/// Unreadable blocks and units of a flash device.
#[derive(Clone, Debug, Default)]
pub(super) struct Damage {
    units: Ranges,
    /// Damaged blocks, as pairs of die and block number within the die.
    blocks: BTreeSet<(u16, u64)>,
    /// Units that were rewritten after their block was damaged, and are readable. Needed because a unit
    /// always belongs to the same block if only a sample of pages is in the map.
    elsewhere: BTreeSet<u64>,
}

impl Damage {
    /// Clears the damage of trimmed units. Damaged blocks need no change, because trimmed units are not read.
    pub(super) fn trim(&mut self, units: Range<u64>) {
        self.units.remove(units);
    }
}

impl FlashDevice {
    /// Makes the page at an offset, or its whole erase block, unreadable.
    pub(crate) fn damage(&mut self, offset_bytes: u64, whole_block: bool) {
        let unit = offset_bytes / UNIT_BYTES;
        let block = if whole_block { self.block_of(unit) } else { None };
        if let Some(block) = block {
            self.damage.get_or_insert_default().blocks.insert(block);
            return;
        }
        for unit in self.page_units(unit) {
            self.damage_units(unit..unit + 1);
        }
    }

    /// Returns the units in the same flash page as a unit. If only a sample of pages is in the map, the neighbours of
    /// randomly written data are unknown, and the unit is returned alone.
    fn page_units(&self, unit: u64) -> Vec<u64> {
        let per_page = u64::from(self.units_per_page);
        match self.ftl.find(unit) {
            Residence::Slot(slot) if self.represent == 1 => {
                let first = slot / self.units_per_page * self.units_per_page;
                let slots = first..first + self.units_per_page;
                slots.filter_map(|slot| Some(self.ftl.page_in(slot)?.index().into())).collect()
            }
            Residence::Unwritten => vec![unit],
            _ if self.ftl.sequential(unit) => {
                let first = unit / per_page * per_page;
                (first..first + per_page).filter(|&unit| self.ftl.sequential(unit)).collect()
            }
            _ => vec![unit],
        }
    }

    /// Makes a range of units unreadable.
    pub(crate) fn damage_units(&mut self, units: Range<u64>) {
        let units = units.start..units.end.min(self.capacity_bytes.div_ceil(UNIT_BYTES));
        self.damage.get_or_insert_default().units.add(units);
    }

    /// Returns where the data of `units` is now, so that the effect of a medium fault on them can be
    /// predicted.
    pub(crate) fn medium(&self, units: Range<u64>) -> Medium {
        let of_batches = self.batches.iter().flat_map(|batch| &batch.units);
        let not_durable = self.commits.iter().flat_map(|commits| commits.programmed_units());
        let buffered: BTreeSet<u64> = self
            .buffer
            .drain
            .iter()
            .chain(of_batches)
            .copied()
            .chain(not_durable)
            .filter(|u| units.contains(u))
            .collect();
        let on_medium = |unit: u64| self.ftl.holds(unit) && !buffered.contains(&unit);
        let held = if units.clone().any(on_medium) {
            Held::OnMedium
        } else if buffered.is_empty() {
            Held::Nothing
        } else {
            Held::InBuffer
        };
        Medium { held, has_pages: true, is_rebuilt: self.parity_stripe > 0 }
    }

    /// Makes all units readable again.
    pub(crate) fn mend(&mut self) {
        self.damage = None;
    }

    /// Makes units readable again, because they were rewritten to flash.
    #[cold]
    pub(super) fn mend_units(&mut self, units: impl Iterator<Item = u64>) {
        let Some(mut damage) = self.damage.take() else { return };
        for unit in units {
            damage.units.remove(unit..unit + 1);
            if !damage.blocks.is_empty() && self.in_damaged_block(&damage, unit) {
                damage.elsewhere.insert(unit);
            }
        }
        self.damage = Some(damage);
    }

    fn in_damaged_block(&self, damage: &Damage, unit: u64) -> bool {
        self.block_of(unit).is_some_and(|block| damage.blocks.contains(&block))
    }

    /// Returns the erase block that contains a unit, as die and block number; `None` if the unit is not written. If
    /// only a sample of pages is in the map, sequential data is placed in rows of one block per die, and a hash assigns
    /// each other unit a fixed block of its die.
    fn block_of(&self, unit: u64) -> Option<(u16, u64)> {
        let die = self.place(unit)?;
        let row_units = self.gc.pages_per_erase * self.dies.len() as u64;
        let per_die = self.raw_units / row_units;
        let block = match self.ftl.find(unit) {
            Residence::Slot(slot) if self.represent == 1 => u64::from(slot) / row_units,
            _ if self.ftl.sequential(unit) => unit / row_units,
            _ => splitmix64(unit.rotate_left(17) ^ self.key) % per_die.max(1),
        };
        Some((die, block))
    }

    /// Returns the units whose data a page read returns.
    fn units_of(&self, core: &Core, slot: u32) -> Vec<u64> {
        let request = &core.slab[slot];
        if request.parent == NIL {
            return vec![request.at / UNIT_BYTES];
        }
        let whole = &core.slab[request.parent];
        let (from, to) = (whole.at, whole.at + u64::from(whole.len));
        // Units written in order adjoin; others are spread over the lanes.
        let first = request.at;
        let per_page = u64::from(self.units_per_page);
        let (step, end) = if self.ftl.sequential(first) {
            (1, (first / per_page + 1) * per_page)
        } else {
            (u64::from(self.lanes), u64::MAX)
        };
        let (mut units, mut left) = (Vec::new(), u64::from(request.len));
        let mut unit = first;
        while left > 0 && unit < end && unit * UNIT_BYTES < to {
            if self.ftl.holds(unit) {
                let bytes = to.min((unit + 1) * UNIT_BYTES) - from.max(unit * UNIT_BYTES);
                left = left.saturating_sub(bytes);
                units.push(unit);
            }
            unit += step;
        }
        units
    }

    /// Returns whether a host's read of a unit is served from the buffer.
    fn is_buffered(&self, unit: u64) -> bool {
        self.buffers_any(&(unit..unit + 1))
    }

    /// Returns whether a unit can't be read, except from its parity stripe.
    fn is_damaged(&self, damage: &Damage, unit: u64) -> bool {
        let is_hit = damage.units.contains(unit)
            || (!damage.elsewhere.contains(&unit) && self.in_damaged_block(damage, unit));
        is_hit && !self.is_buffered(unit)
    }

    /// Returns whether a write covers only a part of a unit whose rest can't be read, not even from its parity stripe.
    #[cold]
    pub(super) fn needs_damaged(&self, at: u64, len: u64) -> bool {
        let Some(damage) = self.damage.as_ref().filter(|_| self.parity_stripe == 0) else {
            return false;
        };
        partial_units(at, at + len).any(|unit| self.is_damaged(damage, unit))
    }

    /// Checks the page read `slot` for damage. Returns whether the page is being rebuilt from its parity
    /// stripe. Without parity, marks the read of a damaged page as failed.
    #[cold]
    pub(super) fn recover(&mut self, core: &mut Core, slot: u32) -> bool {
        let Some(damage) = &self.damage else { return false };
        let units = self.units_of(core, slot);
        if !units.iter().any(|unit| self.is_damaged(damage, *unit)) {
            return false;
        }
        if self.parity_stripe == 0 {
            core.slab[slot].failed = true;
            self.counts.unrecovered += 1;
            return false;
        }
        self.counts.recovered += 1;
        // Rebuilt data is written elsewhere, so the page is readable from now on.
        self.mend_units(units.into_iter());
        let die = core.slab[slot].die;
        self.release(core, die as usize);
        // The stripe has this many other pages: those that the parity protects, and the parity.
        let others = self.parity_stripe;
        core.slab[slot].state = State::Waiting;
        core.slab[slot].work = Work::Nothing;
        core.slab[slot].pending = 0;
        core.slab[slot].entered_ns = core.now;
        let dies = self.dies.len() as u64;
        let units = core.slab[slot].len.div_ceil(UNIT_BYTES as u32);
        for other in 1..=u64::from(others) {
            let on = (u64::from(die) + other) % dies;
            self.copy_sense(core, slot, on, units);
        }
        true
    }

    /// Counts down the reads of a parity stripe, and sends the rebuilt page after the last.
    pub(super) fn stripe_read(&mut self, core: &mut Core, slot: u32) {
        core.slab[slot].pending -= 1;
        if core.slab[slot].pending == 0 {
            self.phases.sense_ns += core.now - core.slab[slot].entered_ns;
            core.slab[slot].entered_ns = core.now;
            self.out(core, slot);
        }
    }
}
