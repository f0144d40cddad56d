//! The SLC cache: its size, which writes go to it, and folding, which moves its data to cells at full density.
//!
//! A cache of a fixed size folds while no data waits to be programmed. A dynamic cache, which uses cells without
//! data, folds in three cases: during pauses in the host's writes; at a set rate while writes bypass the full cache;
//! and ahead of the host's program operations if no cells are left. The cache counts units, but does not track which
//! data it holds.

use super::{FlashDevice, ONE, UNIT_BYTES};
use crate::core::Core;
use crate::request::State;
use crate::spec;
use iodyno_units::rng::below;

/// The SLC cache. All fields are 0 on a device without one.
#[derive(Clone, Debug)]
pub(super) struct Slc {
    /// Units in the cache, without those that are being folded.
    pub(super) held_units: u64,
    pub(super) folding_units: u64,
    /// Maximum number of units. A dynamic cache may have space for fewer.
    pub(super) units: u64,
    program_ns: u64,
    /// State of a dynamic cache, which uses cells without data; `None`: the size is fixed.
    by_fill: Option<ByFill>,
}

/// State of a dynamic SLC cache, whose size follows from the number of cells without data.
#[derive(Clone, Debug)]
struct ByFill {
    /// Number of units that all cells hold at full density.
    cells: u64,
    /// Bits per cell at full density, minus 1: the space that folding frees per unit.
    freed: u64,
    fold_ns: u64,
    /// Units to fold per unit that bypasses the cache, in credits (see [`ONE`]).
    pace: i64,
    credit: i64,
    pause_ns: u64,
    /// Whether writes bypass the cache: from the time when the cache is full until the next pause in the host's writes.
    passed: bool,
    last_write_ns: u64,
}

impl Slc {
    /// Creates the cache: empty on a fresh device, otherwise full. `cells` is the number of units that the device can
    /// hold, of which `stored` are written.
    pub(super) fn new(nand: &spec::Nand, cells: u64, stored: u64, is_fresh: bool) -> Self {
        let units = nand.slc.map_or(0, |slc| slc.bytes / UNIT_BYTES);
        let by_fill = nand.folding.map(|folding| ByFill {
            cells,
            freed: u64::from(folding.bits) - 1,
            fold_ns: folding.program_ns,
            pace: (folding.share / (1.0 - folding.share) * ONE as f64) as i64,
            credit: 0,
            pause_ns: folding.pause_ns,
            passed: !is_fresh,
            last_write_ns: 0,
        });
        let program_ns = nand.slc.map_or(0, |slc| slc.program_ns);
        let mut slc = Self { held_units: 0, folding_units: 0, units, program_ns, by_fill };
        slc.held_units = if is_fresh { 0 } else { slc.limit_units(stored) };
        slc
    }

    /// Returns the capacity of the cache in units. `stored`: units that contain data, including those in the cache. A
    /// cached unit occupies the cells of as many full-density units as a cell has bits.
    fn limit_units(&self, stored: u64) -> u64 {
        match &self.by_fill {
            None => self.units,
            Some(by_fill) => self.units.min(by_fill.cells.saturating_sub(stored) / by_fill.freed),
        }
    }

    fn occupied_units(&self) -> u64 {
        self.held_units + self.folding_units
    }

    /// Adds `units` to the cache, unless they bypass it. Returns the time of their program operation; `None` if they
    /// go to cells at full density.
    pub(super) fn take(&mut self, units: u32, stored: u64) -> Option<u64> {
        let has_space = self.occupied_units() + u64::from(units) <= self.limit_units(stored);
        if let Some(by_fill) = &mut self.by_fill {
            by_fill.passed |= !has_space;
            if by_fill.passed {
                by_fill.credit += by_fill.pace * i64::from(units);
                return None;
            }
        }
        if !has_space {
            return None;
        }
        self.held_units += u64::from(units);
        Some(self.program_ns)
    }

    /// Returns whether the host's next `units` have to wait until folding has freed cells.
    pub(super) fn is_out_of_cells(&self, units: u32, stored: u64) -> bool {
        self.by_fill.as_ref().is_some_and(|by_fill| {
            let of_cache = by_fill.freed * self.occupied_units();
            of_cache > 0 && stored + of_cache + u64::from(units) > by_fill.cells
        })
    }

    /// Records a write of the host. After a pause, writes go to the cache again.
    #[inline(always)]
    pub(super) fn note_write(&mut self, now_ns: u64) {
        if let Some(by_fill) = &mut self.by_fill {
            by_fill.passed &= now_ns - by_fill.last_write_ns < by_fill.pause_ns;
            by_fill.last_write_ns = now_ns;
        }
    }

    /// Whether the written units must be counted exactly, because the cache's size depends on them.
    pub(super) fn is_by_fill(&self) -> bool {
        self.by_fill.is_some()
    }

    /// Records that the folding of `units` has ended.
    pub(super) fn folded(&mut self, units: u32) {
        self.folding_units -= u64::from(units);
    }

    /// Processes a power cut: units that were being folded count as cached again.
    pub(super) fn power_off(&mut self) {
        self.held_units += std::mem::take(&mut self.folding_units);
    }
}

impl FlashDevice {
    /// Returns the number of program operations in progress below which folding may start another one; 0: no folding
    /// now.
    fn folds_max(&self) -> u32 {
        let in_pause = (self.programs_max / 4).max(1);
        let Some(by_fill) = &self.slc.by_fill else {
            return if self.buffer.drain.is_empty() { in_pause } else { 0 };
        };
        if by_fill.credit >= ONE * i64::from(self.program_units) {
            u32::MAX
        } else if self.slc.is_out_of_cells(self.program_units, self.stored_units) {
            self.programs_max
        } else if self.buffer.free == self.buffer.units {
            in_pause
        } else {
            0
        }
    }

    /// Folds: reads data from the cache, and programs it at full density.
    pub(super) fn fold(&mut self, core: &mut Core) {
        while self.slc.held_units > 0
            && self.programs.used() + self.copies_reading < self.folds_max()
        {
            let units = u64::from(self.program_units).min(self.slc.held_units);
            self.slc.held_units -= units;
            self.slc.folding_units += units;
            let number = self.new_batch();
            self.batches[number].folds = units as u32;
            if let Some(by_fill) = &mut self.slc.by_fill {
                by_fill.credit = (by_fill.credit - ONE * units as i64).max(0);
                self.batches[number].program_ns = by_fill.fold_ns;
            }
            self.owe_erase_of_program();
            let slot = self.new_internal(core, number);
            core.slab[slot].state = State::Waiting;
            self.copies_reading += 1;
            for _ in 0..self.program_units.div_ceil(self.units_per_page) {
                let die = below(&mut self.rng, self.dies.len() as u64);
                self.copy_sense(core, slot, die, self.units_per_page.min(self.program_units));
            }
        }
    }
}
