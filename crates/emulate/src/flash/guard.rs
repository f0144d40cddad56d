//! Faults of the medium, and how the device recovers: a page that can't be read is rebuilt from the
//! other pages of its parity stripe, each on another die.

use super::{FlashDevice, UNIT_BYTES};
use crate::core::Core;
use crate::ftl::Residence;
use crate::request::{NIL, State, Work};
use iodyno_units::rng::splitmix64;
use std::collections::BTreeSet;

/// What can't be read.
#[derive(Debug, Default)]
pub(super) struct Damage {
    units: BTreeSet<u64>,
    /// Die, and block of the die.
    blocks: BTreeSet<(u16, u64)>,
}

impl FlashDevice {
    /// The page at an offset fails, or the whole erase block that it lies in.
    pub(crate) fn damage(&mut self, offset_bytes: u64, whole_block: bool) {
        let unit = offset_bytes / UNIT_BYTES;
        let block = self.block_of(unit);
        let damage = self.damage.get_or_insert_default();
        match block {
            Some(block) if whole_block => {
                damage.blocks.insert(block);
            }
            _ => {
                damage.units.insert(unit);
            }
        }
    }

    /// The erase block that holds a unit. In the represented form blocks are drawn by hash: as many
    /// as there are, and each unit always in the same.
    fn block_of(&self, unit: u64) -> Option<(u16, u64)> {
        let (die, _) = self.place(unit)?;
        let per_die = self.raw_units / self.pages_per_erase / self.dies.len() as u64;
        let block = match self.ftl.find(unit) {
            Residence::Slot(slot) if self.represent == 1 => {
                u64::from(slot) / self.pages_per_erase / self.dies.len() as u64
            }
            _ => splitmix64(unit.rotate_left(17) ^ self.key) % per_die.max(1),
        };
        Some((die, block))
    }

    /// Whether the page read in `slot` hits damage; then it is being recovered, or has failed.
    #[cold]
    pub(super) fn recover(&mut self, core: &mut Core, slot: u32) -> bool {
        let Some(damage) = &self.damage else { return false };
        let request = &core.slab[slot];
        let unit = if request.parent == NIL { request.at / UNIT_BYTES } else { request.at };
        let count = u64::from(request.len).div_ceil(UNIT_BYTES);
        let hit = (unit..unit + count).find(|&unit| {
            damage.units.contains(&unit)
                || self.block_of(unit).is_some_and(|block| damage.blocks.contains(&block))
        });
        let Some(hit) = hit else { return false };
        if self.parity_stripe == 0 {
            core.slab[slot].failed = true;
            self.counts.unrecovered += 1;
            return false;
        }
        self.counts.recovered += 1;
        // Rebuilt data are written elsewhere: this page is whole from now on.
        if let Some(damage) = &mut self.damage {
            damage.units.remove(&hit);
        }
        let die = core.slab[slot].die;
        self.release(core, die as usize);
        // As many as the stripe has: the others that the parity protects, and the parity.
        let others = self.parity_stripe;
        core.slab[slot].state = State::Waiting;
        core.slab[slot].work = Work::Nothing;
        core.slab[slot].pending = others;
        let dies = self.dies.len() as u64;
        for other in 1..=u64::from(others) {
            let on = (u64::from(die) + other) % dies;
            self.copy_sense(core, slot, on, 1);
        }
        true
    }

    /// One page of the stripe of a damaged page is read.
    pub(super) fn stripe_read(&mut self, core: &mut Core, slot: u32) {
        core.slab[slot].pending -= 1;
        if core.slab[slot].pending == 0 {
            self.out(core, slot);
        }
    }
}
