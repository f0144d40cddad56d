//! Paced garbage collection: the host's writes earn credit for copies, so that each page written is matched by the
//! copies that free one page of the victim. Copies are read, programmed together in full program operations, and
//! committed only if the source is still valid.
//!
//! With [`Translation::freed_per_write`](crate::spec::Translation::freed_per_write) above 1, credit is earned faster
//! while a victim is collected, and not at all in the pause after it.
//!
//! If the map contains only one page in k, only one copy in k changes the map. The other copies take the same time, but
//! change nothing.

use super::{FlashDevice, HostInterface, ONE, UNIT_BYTES};
use crate::bug_injection::InjectedBug;
use crate::core::Core;
use crate::ftl::{FREE_BLOCKS, Ftl, PageCopy};
use crate::request::State;
use crate::server::passed_ns;

/// Maximum number of program operations whose pages are read in advance, per program operation that may run
/// concurrently.
const COPIES_AHEAD: u32 = 2;
/// Number of free blocks above which garbage collection does not start. One more than in steady state,
/// so that collection continues from one victim to the next without a pause.
const PAUSE_ABOVE: u32 = FREE_BLOCKS;
/// Smoothing divisor of the pace: each new victim changes the pace by 1/8 of the difference between the victim's need
/// and the pace.
const PACE_OVER: i64 = 8;
/// Number of blocks by which the free blocks may fall below `FREE_BLOCKS` before garbage collection speeds up.
const BEHIND_BELOW: u32 = 2;
/// Averaging period for the number of writes per flash page: amount of written data, as a fraction of the device's
/// raw capacity.
const PARTS_OVER: f64 = 0.6;
/// Change of the average number of writes per flash page above which the number of flash pages to read per copied page
/// is recomputed.
const PARTS_STEP: f64 = 0.01;
/// Upper bound of the pages copied per page that the host writes, for any victim, in bursts too.
const RATIO_MAX: i64 = 64;
/// Upper bound of the pages copied per page that the host writes, for a victim chosen for its low wear,
/// which frees little space.
const RATIO_MAX_FOR_WEAR: i64 = 2;

/// State of garbage collection. One credit is 1/65536 of a page to copy.
#[derive(Clone, Debug)]
pub(super) struct GarbageCollection {
    pub(super) erases_due: u32,
    pub(super) programs_since_erase: u64,
    pub(super) copy_credit: i64,
    /// Pages to copy per page that the host writes, in credits (see [`ONE`]).
    pub(super) pace: i64,
    pub(super) paced: bool,
    /// Pages that a collection frees per page that the host writes at the same time, in credits.
    pub(super) freed_per_write: i64,
    /// Number of units that the host will write after the present victim, before the next collection begins.
    pub(super) pause_after: i64,
    /// Number of units that the host still has to write before a collection begins; 0 or less: no pause.
    pub(super) pause_units: i64,
    pub(super) copy_phase: u32,
    pub(super) filler_phase: u32,
    pub(super) sense_credit: u32,
    /// Average number of writes whose data shares one flash page; 0: nothing was written yet. Each write's
    /// part of the page is valid or invalid as a whole. Used if only a sample of pages is in the map.
    pub(super) parts: f64,
    /// Length, in units, of the latest writes; 0 if further writes of this length would change `parts`.
    pub(super) parts_of: u64,
    /// Cache of a computation: valid pages of the victim (0: no victim), writes per flash page, and the result, which
    /// is the number of flash pages to read per copied page.
    pub(super) senses_a_unit: (u32, f64, f64),
    /// Number of units to copy whose flash page has not been read yet.
    pub(super) copy_units: u32,
    /// Die of the last read for copies. Data was programmed round-robin over the dies, so it is read
    /// round-robin.
    pub(super) copy_die: u32,
    /// Flash page last read for copies of the present victim. Used if every page is in the map.
    pub(super) copied_from: u32,
    pub(super) map_credit: i64,
    pub(super) map_per_page: i64,
    pub(super) collecting: bool,
    pub(super) pages_per_erase: u64,
    pub(super) erase_credit: f64,
    pub(super) erases_seen: u64,
    pub(super) erases_per_map_erase: f64,
}

impl GarbageCollection {
    /// Creates the state after preconditioning. `block_units`: units of one erase block on all planes of a die.
    /// `erases_per_row`: number of erases of such blocks per erased superblock. `parts`: average number of writes whose
    /// data shares a flash page.
    pub(super) fn new(
        ftl: &mut Ftl,
        map_writes_per_page: f64,
        erases_per_row: f64,
        block_units: u64,
        is_random: bool,
        parts: f64,
    ) -> Self {
        // In steady state without bursts, a collection is always in progress.
        let collecting = is_random && ftl.victim().is_some();
        let erases_per_map_erase = ftl.erase_weight() * erases_per_row;
        Self {
            // The victim before this one has just been retired: the erases of its row are spread over the program
            // operations to come.
            erases_due: if collecting { erases_per_map_erase as u32 } else { 0 },
            programs_since_erase: 0,
            copy_credit: 0,
            pace: 0,
            paced: false,
            freed_per_write: ONE,
            pause_after: 0,
            pause_units: 0,
            copy_phase: 0,
            filler_phase: 0,
            sense_credit: 0,
            parts,
            parts_of: 0,
            senses_a_unit: (u32::MAX, 0.0, 0.0),
            copy_units: 0,
            copy_die: 0,
            copied_from: u32::MAX,
            map_credit: 0,
            map_per_page: (map_writes_per_page * ONE as f64) as i64,
            collecting,
            pages_per_erase: block_units,
            erase_credit: 0.0,
            erases_seen: 0,
            erases_per_map_erase,
        }
    }
}

/// Returns the average number of writes that share a flash page of `per_page` units, for sequential
/// writes of `units` units each.
pub(super) fn parts(units: u64, per_page: u32) -> f64 {
    // The page size is a power of two.
    let common = 1 << units.trailing_zeros().min(per_page.trailing_zeros());
    (units + u64::from(per_page) - common) as f64 / units as f64
}

impl FlashDevice {
    /// Adds credit for the copies that garbage collection must make because the host has written `units`
    /// pages.
    pub(super) fn earn(&mut self, units: u32) {
        if !self.gc.collecting && self.ftl.free_blocks() > PAUSE_ABOVE {
            return;
        }
        if !self.gc.collecting && self.gc.pause_units > 0 {
            self.gc.pause_units -= i64::from(units);
            if self.is_pausing() {
                self.gc.map_credit += self.gc.map_per_page * i64::from(units);
                return;
            }
        }
        let Some(victim) = self.ftl.victim() else { return };
        self.gc.collecting = true;
        if victim.valid == 0 {
            self.end_victim();
            return;
        }
        // Sequential writes, and writes to a fresh device, earn no map credit: they change the map rarely, and in
        // whole pages.
        self.gc.map_credit += self.gc.map_per_page * i64::from(units);
        if !self.gc.paced {
            // A new victim: averages its need with that of earlier ones, so that random differences between blocks
            // do not change the pace abruptly.
            self.gc.paced = true;
            let free = (victim.pages_per_block - victim.valid).max(1);
            let (max, faster) = if victim.for_wear {
                (RATIO_MAX_FOR_WEAR, ONE)
            } else {
                (RATIO_MAX, self.gc.freed_per_write)
            };
            let needed = i64::from(victim.valid) * ONE / i64::from(free);
            let ratio = (needed * faster / ONE).min(max * ONE);
            // The host writes the rest of the freed space in the pause.
            self.gc.pause_after = 0;
            if ratio > needed {
                let rest = i64::from(free) - i64::from(victim.valid) * ONE / ratio;
                self.gc.pause_after = rest.max(0) * i64::from(self.represent);
            }
            self.gc.pace = match self.gc.pace {
                0 => ratio,
                pace => pace + (ratio - pace) / PACE_OVER,
            };
        }
        let pace = if self.is_behind() { self.gc.pace * 5 / 4 } else { self.gc.pace };
        self.gc.copy_credit += pace * i64::from(units);
    }

    /// Returns whether garbage collection has fallen behind its pace, which is smoothed over victims.
    fn is_behind(&self) -> bool {
        self.ftl.free_blocks() + BEHIND_BELOW < FREE_BLOCKS
    }

    /// Returns whether garbage collection pauses between two victims.
    fn is_pausing(&self) -> bool {
        !self.gc.collecting && self.gc.pause_units > 0 && !self.is_behind()
    }

    /// Continues garbage collection ahead of its pace, because no block is free for the host.
    pub(super) fn hurry(&mut self, core: &mut Core) {
        if !self.owes_copies() && self.copies_reading == 0 && self.copies_ready.is_empty() {
            self.gc.collecting = self.ftl.victim().is_some();
            if self.gc.collecting {
                self.gc.copy_credit += ONE * i64::from(self.program_units);
                self.collect(core);
            }
        }
    }

    /// Returns whether garbage collection has credit for copies that have not begun. The host's program operations
    /// wait for these copies.
    pub(super) fn owes_copies(&self) -> bool {
        self.gc.copy_credit >= ONE * i64::from(self.program_units)
    }

    /// Maximum number of program operations whose pages may be read in advance.
    pub(super) fn copies_ahead(&self) -> u32 {
        COPIES_AHEAD.saturating_mul(self.programs_max).min(1 << 12)
    }

    /// Begins the copies for which there is credit, for up to [`Self::copies_ahead`] program operations.
    pub(super) fn collect(&mut self, core: &mut Core) {
        while self.owes_copies() && self.copies_reading < self.copies_ahead() {
            self.gc.copy_credit -= ONE * i64::from(self.program_units);
            self.begin_copies(core);
        }
    }

    /// Chooses the pages that one program operation will copy, and starts to read them.
    fn begin_copies(&mut self, core: &mut Core) {
        let number = self.new_batch();
        let slot = self.new_internal(core, number);
        core.slab[slot].state = State::Waiting;
        self.copies_reading += 1;
        // Counts the beginning as one read, so that the request can't continue before all reads have begun.
        core.slab[slot].pending = 1;
        let mut taken = 0;
        for _ in 0..self.program_units {
            self.gc.copy_phase += 1;
            if self.gc.copy_phase < self.represent {
                taken += 1;
                continue;
            }
            self.gc.copy_phase = 0;
            let Some((copy, place)) = self.next_copy() else { continue };
            let source = copy.source;
            self.batches[number].copies.push((copy, place));
            taken += 1;
            if self.represent == 1 {
                self.read_source(core, slot, source);
            }
        }
        if taken == 0 {
            // Victims have nothing left to copy, or there is no space.
            self.copies_reading -= 1;
            self.batches_free.push(number as u32);
            core.slab.remove(slot);
            return;
        }
        self.counts.copied_pages += u64::from(taken);
        if self.represent > 1 {
            // Each read brings its share of the valid pages; a remainder comes with the next read.
            self.gc.copy_units += taken;
            for left in (1..=self.senses_for(taken)).rev() {
                self.gc.copy_die = (self.gc.copy_die + 1) % self.dies.len() as u32;
                let die = u64::from(self.gc.copy_die);
                let units = self.gc.copy_units.div_ceil(left).min(self.units_per_page);
                self.gc.copy_units -= units;
                self.copy_sense(core, slot, die, units);
            }
        }
        self.part_read(core, slot);
    }

    /// Reads the flash page that contains a page to copy, if every page is in the map. A flash page is read only once,
    /// even if a later program operation copies other pages in it. That operation need not wait for the read, because
    /// the source is erased only after all its copies are committed.
    fn read_source(&mut self, core: &mut Core, slot: u32, source: u32) {
        let page = source / self.units_per_page;
        if self.gc.copied_from == page {
            return;
        }
        self.gc.copied_from = page;
        let rest = source + 1..(page + 1) * self.units_per_page;
        let more = rest.filter(|&slot| self.ftl.page_in(slot).is_some()).count();
        let die = self.die_of_slot(page * self.units_per_page);
        self.copy_sense(core, slot, u64::from(die), 1 + more as u32);
    }

    /// Reads one flash page for the copy request `parent`.
    pub(super) fn copy_sense(&mut self, core: &mut Core, parent: u32, die: u64, units: u32) {
        let child = core.add(self.part);
        core.slab[parent].pending += 1;
        let request = &mut core.slab[child];
        request.internal = true;
        request.parent = parent;
        request.die = die as u16;
        request.len = units * UNIT_BYTES as u32;
        self.sense(core, child);
    }

    /// Returns the number of flash pages to read for `units` valid pages of a victim. Valid pages per flash
    /// page are binomially distributed, where pages written together count as one, because they are
    /// overwritten together.
    fn senses_for(&mut self, units: u32) -> u32 {
        let valid = self.ftl.victim().map_or(0, |victim| victim.valid.max(1));
        let (of_valid, of_parts, _) = self.gc.senses_a_unit;
        if of_valid != valid || (of_parts - self.gc.parts).abs() > PARTS_STEP {
            let of = f64::from(self.ftl.pages_per_block());
            let share = if valid == 0 { 0.5 } else { f64::from(valid) / of };
            let group = f64::from(self.units_per_page);
            let some = 1.0 - libm::pow(1.0 - share, self.gc.parts);
            self.gc.senses_a_unit = (valid, self.gc.parts, some / (group * share));
        }
        self.gc.sense_credit += (f64::from(units) * self.gc.senses_a_unit.2 * 65536.0) as u32;
        let senses = (self.gc.sense_credit >> 16).min(32);
        self.gc.sense_credit &= 0xFFFF;
        senses
    }

    /// Updates the average number of writes that share a flash page, for a host write of `units` units.
    #[inline(always)]
    pub(super) fn note_parts(&mut self, units: u64) {
        // Most writes are as long as the previous one, which leaves the average unchanged.
        if units != self.gc.parts_of {
            self.change_parts(units);
        }
    }

    #[inline(never)]
    fn change_parts(&mut self, units: u64) {
        let now = parts(units, self.units_per_page);
        if self.gc.parts == 0.0 {
            self.gc.parts = now;
        }
        let share = units as f64 / (self.raw_units as f64 * PARTS_OVER);
        self.gc.parts += (now - self.gc.parts) * share.min(1.0);
        let is_there = (now - self.gc.parts).abs() < PARTS_STEP / 100.0;
        self.gc.parts_of = if is_there { units } else { 0 };
    }

    /// Returns the next valid page of the victim, or of the next victim, and the slot for its copy. `None` if nothing
    /// needs to be collected, or there is no space. Data of another reclaim unit handle may fill the rest of a
    /// victim's last program operation.
    fn next_copy(&mut self) -> Option<(PageCopy, u32)> {
        loop {
            let stream = self.ftl.copy_stream();
            if stream.is_some_and(|stream| !self.ftl.has_space(stream, 1)) {
                return None;
            }
            if let Some(stream) = stream
                && let Some(copy) = self.ftl.next_copy()
            {
                let place = self.ftl.reserve(stream).expect("space was checked");
                return Some((copy, place));
            }
            self.end_victim();
            if self.ftl.free_blocks() > PAUSE_ABOVE || self.is_pausing() {
                return None;
            }
            self.ftl.victim()?;
            self.gc.collecting = true;
        }
    }

    /// Retires a victim without valid pages. It is erased when all its copies are committed.
    fn end_victim(&mut self) {
        if self.injected_bug == InjectedBug::HastyErase {
            self.erase_early();
        }
        self.ftl.retire_victim();
        self.gc.copied_from = u32::MAX;
        self.gc.collecting = false;
        self.gc.paced = false;
        // 0 if no copies were due, in which case a pause in progress goes on.
        if self.gc.pause_after > 0 {
            self.gc.pause_units = std::mem::take(&mut self.gc.pause_after);
        }
        self.note_erases();
    }

    /// Schedules block erases on the dies for the blocks that the map has erased.
    pub(super) fn note_erases(&mut self) {
        let erases = self.ftl.counters().erases;
        if erases == self.gc.erases_seen {
            return;
        }
        self.owe_erases((erases - self.gc.erases_seen) as f64 * self.gc.erases_per_map_erase);
        self.gc.erases_seen = erases;
        self.take_erased();
    }

    /// Adds the erases that one program operation of pages outside the map (the map's own pages, or the SLC cache)
    /// causes in the long run.
    pub(super) fn owe_erase_of_program(&mut self) {
        self.owe_erases(f64::from(self.program_units) / self.gc.pages_per_erase as f64);
    }

    pub(super) fn owe_erases(&mut self, count: f64) {
        self.gc.erase_credit += count;
        self.gc.erases_due += self.gc.erase_credit as u32;
        self.gc.erase_credit -= libm::floor(self.gc.erase_credit);
    }

    /// Processes the end of a page read for copies, or for the parity stripe of an unreadable page.
    pub(super) fn copy_read(&mut self, core: &mut Core, slot: u32) {
        let parent = core.slab[slot].parent;
        core.slab.remove(slot);
        if core.slab[parent].internal {
            self.copies_read(core, parent);
        } else {
            self.stripe_read(core, parent);
        }
    }

    /// Counts down the reads of the pages that one program operation copies. After the last read, starts the work
    /// that waits for them.
    fn copies_read(&mut self, core: &mut Core, parent: u32) {
        if self.part_read(core, parent) {
            self.pump(core);
        }
    }

    /// Counts down the outstanding steps before a program operation that copies pages: one per read, and one for
    /// starting the reads. Returns whether the program operation may begin. It may not if the controller must process
    /// the copies first.
    #[inline(always)]
    pub(super) fn part_read(&mut self, core: &mut Core, parent: u32) -> bool {
        let request = &mut core.slab[parent];
        request.pending -= 1;
        if request.pending > 0 {
            return false;
        }
        if matches!(self.front, HostInterface::Link { copy_ticks: 1.., .. }) {
            let idle = self.unprocessed.is_empty();
            self.unprocessed.push(&mut core.slab, parent);
            if idle {
                self.process_copies(core);
            }
            return false;
        }
        self.is_ready(core, parent);
        true
    }

    /// Starts controller processing for the first program operation whose pages to copy have been read. Host commands
    /// and copies alternate, so that neither waits long for the other. Accepted commands keep their times and later
    /// ones wait longer, so the total time is correct.
    fn process_copies(&mut self, core: &mut Core) {
        if let Some(slot) = self.unprocessed.first()
            && let HostInterface::Link { processor, copy_ticks, .. } = &mut self.front
        {
            let commands_ns = processor.free_ns().saturating_sub(core.now);
            processor.take(core.now, *copy_ticks);
            let own_ns = passed_ns(*copy_ticks);
            core.at(core.now + own_ns + commands_ns.min(own_ns), slot, State::Processed);
        }
    }

    /// Continues a program operation after the controller has processed the pages that it copies.
    pub(super) fn copies_processed(&mut self, core: &mut Core, slot: u32) {
        self.unprocessed.pop(&core.slab);
        core.slab[slot].state = State::Waiting;
        self.is_ready(core, slot);
        self.process_copies(core);
        self.pump(core);
    }

    /// Queues a program operation of garbage collection, all of whose pages have been read.
    fn is_ready(&mut self, core: &mut Core, parent: u32) {
        let request = &core.slab[parent];
        self.copies_reading -= 1;
        if let Some(content) = &self.content {
            let batch = &mut self.batches[request.at as usize];
            batch.stored.extend(batch.copies.iter().map(|(copy, _)| content.sensed(copy.source)));
        }
        self.copies_ready.push(&mut core.slab, parent);
    }
}
