//! Program operations, which fill all planes of a die with pages from the buffer or from garbage collection.

use super::commits::Programmed;
use super::{Batch, Doing, FlashDevice, ONE};
use crate::bug_injection::InjectedBug;
use crate::core::Core;
use crate::ftl::{Handle, Page, Stream};
use crate::prefetch::Address;
use crate::request::{NIL, State, Work};

impl FlashDevice {
    /// Starts all work that can start: due copies, program operations, erases.
    pub(super) fn pump(&mut self, core: &mut Core) {
        self.collect(core);
        while self.programs.used() < self.programs_max {
            if let Some(slot) = self.copies_ready.pop(&core.slab) {
                self.begin_program(core, slot);
                continue;
            }
            if self.gc.map_credit >= ONE * i64::from(self.program_units) {
                self.gc.map_credit -= ONE * i64::from(self.program_units);
                self.counts.map_pages += u64::from(self.program_units);
                self.owe_erase_of_program();
                let batch = self.new_batch();
                let slot = self.new_internal(core, batch);
                self.begin_program(core, slot);
                continue;
            }
            let Some((handle, units)) = self.next_program() else { break };
            let full = units >= self.program_units
                || self.zones.as_ref().is_some_and(|zones| zones.has_complete());
            let held = self.owes_copies() || !self.copies_ready.is_empty();
            if held || (!full && self.buffer.flushes.is_empty()) {
                break;
            }
            if self.slc.is_out_of_cells(self.program_units, self.stored_units)
                || self.waits_to_merge()
            {
                break;
            }
            let Some(batch) = self.gather(handle, units) else {
                self.hurry(core);
                // An operation may have ended immediately, without an event.
                if !self.copies_ready.is_empty()
                    || self.ftl.has_space(Stream::Host(handle), self.program_units)
                {
                    continue;
                }
                break;
            };
            let slot = self.new_internal(core, batch);
            if self.batches[batch].merges.is_empty() {
                self.begin_program(core, slot);
            } else {
                self.merge(core, slot);
            }
            self.collect(core);
        }
        if self.slc.units > 0 {
            self.fold(core);
        }
    }

    /// Removes `units` pages with a reclaim unit handle from the buffer for a program operation, and pads it with pages
    /// without data. Returns the index of its batch; `None` if the map has no space now.
    fn gather(&mut self, handle: Handle, units: u32) -> Option<usize> {
        if !self.ftl.has_space(Stream::Host(handle), self.program_units) {
            return None;
        }
        let number = self.new_batch();
        let mut batch = std::mem::take(&mut self.batches[number]);
        batch.first = self.begun();
        let (slots, stored) = match self.merging.take() {
            None => (units, self.take(&mut batch, handle, units)),
            Some(mut merging) => {
                let taken = self.take_whole(&mut batch, &mut merging);
                self.merging = Some(merging);
                taken
            }
        };
        let units = batch.units.len() as u32;
        if slots < self.program_units {
            self.fill_up(&mut batch, handle, self.program_units - slots);
        }
        self.stored_units = (self.stored_units + stored).min(self.logical_units);
        if self.slc.units > 0 {
            let to_cache = self.slc.take(self.program_units, self.stored_units);
            batch.program_ns = to_cache.unwrap_or(0);
        }
        self.batches[number] = batch;
        self.counts.host_pages += u64::from(units);
        if self.zones.is_none() {
            self.earn(self.program_units);
        }
        Some(number)
    }

    /// Moves `units` pages with a reclaim unit handle from the buffer to `batch`. Returns the number of them that had
    /// no data before, or `units` if no SLC cache depends on that number.
    fn take(&mut self, batch: &mut Batch, handle: Handle, units: u32) -> u64 {
        let (mut stored, counts_new) = (0, self.slc.is_by_fill());
        // Position in the buffer, if units of other handles stay in it.
        let mut at = 0;
        for _ in 0..units {
            let unit = if self.placing.is_none() {
                self.buffer.drain.pop_front().expect("as many as were counted")
            } else {
                self.take_placed(handle, &mut at)
            };
            batch.units.push(unit);
            if let Some(content) = &mut self.content {
                batch.stored.push(content.take_at(at));
            }
            stored += u64::from(!counts_new || !self.ftl.holds(unit));
            if let Some(page) = self.ftl.applies(unit) {
                let slot = self.ftl.reserve(Stream::Host(handle)).expect("space was checked");
                batch.host.push((page, slot));
            } else if self.commits.is_some() {
                // Each unit has an entry.
                batch.host.push((Page::NONE, NIL));
            }
        }
        stored
    }

    /// Pads a program operation of a reclaim unit handle with `units` pages without data. As with data, one page in k
    /// takes space in a map that contains one page in k.
    #[cold]
    pub(super) fn fill_up(&mut self, batch: &mut Batch, handle: Handle, units: u32) {
        self.counts.filler_pages += u64::from(units);
        if self.zones.is_some() {
            return;
        }
        for _ in 0..units {
            self.gc.filler_phase += 1;
            if self.gc.filler_phase >= self.represent {
                self.gc.filler_phase = 0;
                let slot = self.ftl.reserve(Stream::Host(handle));
                batch.filler.push(slot.expect("space was checked"));
            }
        }
    }

    pub(super) fn new_batch(&mut self) -> usize {
        self.batches_free.pop().map_or_else(
            || {
                self.batches.push(Batch::default());
                self.batches.len() - 1
            },
            |n| n as usize,
        )
    }

    /// Creates the internal request of a program or erase operation. Returns its index.
    pub(super) fn new_internal(&mut self, core: &mut Core, batch: usize) -> u32 {
        let slot = core.add(self.part);
        let request = &mut core.slab[slot];
        request.internal = true;
        request.at = batch as u64;
        slot
    }

    /// Begins a program operation on the next die, or queues it until the die is free.
    fn begin_program(&mut self, core: &mut Core, slot: u32) {
        self.programs.add(core.now);
        self.counts.programs += 1;
        // Program operations are assigned to dies round-robin.
        self.next_die = (self.next_die + 1) % self.dies.len() as u32;
        let die = self.next_die as u16;
        core.slab[slot].die = die;
        if self.represent == 1 {
            let batch = &self.batches[core.slab[slot].at as usize];
            let copies = batch.copies.iter().map(|c| c.1);
            for place in batch.host.iter().map(|h| h.1).filter(|&h| h != NIL).chain(copies) {
                self.unit_dies[(place / self.program_units) as usize] = die;
            }
        }
        core.slab[slot].work = Work::Program;
        if self.injected_bug == InjectedBug::HastyMap {
            let number = core.slab[slot].at as usize;
            let mut batch = std::mem::take(&mut self.batches[number]);
            self.commit(&mut batch);
            batch.committed = true;
            self.batches[number] = batch;
        }
        self.enter_die_or_wait(core, slot);
        self.erase_some(core);
    }

    /// Begins a program or erase operation, or queues it until its die is free.
    fn enter_die_or_wait(&mut self, core: &mut Core, slot: u32) {
        let index = core.slab[slot].die as usize;
        let die = &mut self.dies[index];
        if die.doing != Doing::Nothing || die.suspended {
            core.slab[slot].state = State::Waiting;
            if self.reads_first {
                die.others_wait = true;
                self.slow[index].others.push(&mut core.slab, slot);
            } else {
                die.reads.push(&mut core.slab, slot);
            }
            return;
        }
        self.begin_other(core, slot);
    }

    fn begin_other(&mut self, core: &mut Core, slot: u32) {
        match core.slab[slot].work {
            Work::Erase => self.erase(core, slot),
            Work::Program => self.load(core, slot),
            Work::Sense | Work::Nothing | Work::Manage(_) => {
                unreachable!("only programs and erases wait in `others`")
            }
        }
    }

    /// Transfers the data of a program operation to the die, and schedules the end of the operation. The die is
    /// occupied from the start of the transfer.
    fn load(&mut self, core: &mut Core, slot: u32) {
        let index = core.slab[slot].die as usize;
        let (die, slow) = (&mut self.dies[index], &mut self.slow[index]);
        die.doing = Doing::Programming;
        die.since_ns = core.now;
        let cost = u64::from(self.program_units) * self.unit_ticks;
        slow.begins_ns = self.channels[die.channel as usize].take(core.now, cost);
        let own_ns = self.batches[core.slab[slot].at as usize].program_ns;
        let ns = if own_ns > 0 {
            own_ns
        } else {
            let page = slow.programs as usize % 2;
            slow.programs = slow.programs.wrapping_add(1);
            self.program_ns[page]
        };
        slow.running = slot;
        slow.ends_ns = slow.begins_ns + ns;
        core.at(slow.ends_ns, slot, State::Programmed);
    }

    /// Returns whether the end event of a program or erase operation is premature, because a read has suspended the
    /// operation.
    fn postponed(&mut self, core: &mut Core, slot: u32, state: State) -> bool {
        let index = core.slab[slot].die as usize;
        let slow = &mut self.slow[index];
        if self.dies[index].suspended {
            debug_assert_eq!(slow.running, slot);
            slow.event_spent = true;
            return true;
        }
        if slow.ends_ns > core.now {
            core.at(slow.ends_ns, slot, state);
            return true;
        }
        false
    }

    /// Processes the end of a program operation, and updates the map.
    pub(super) fn programmed(&mut self, core: &mut Core, slot: u32) {
        if self.postponed(core, slot, State::Programmed) {
            return;
        }
        let (die, number) = (core.slab[slot].die as usize, core.slab[slot].at as usize);
        // The batch was written long ago and is no longer in the cache.
        let batch = Address::of(&self.batches[number]);
        batch.prefetch();
        batch.line(1).prefetch();
        batch.line(2).prefetch();
        self.release(core, die);
        self.programs.drop(core.now);
        let mut batch = std::mem::take(&mut self.batches[number]);
        self.commit(&mut batch);
        if self.content.is_some() {
            self.keep_batch(core, &batch);
        }
        if self.commits.is_some() {
            self.commit_programmed(core, &batch);
        }
        batch.stored.clear();
        batch.host.clear();
        batch.copies.clear();
        batch.moved.clear();
        self.note_erases();
        self.slc.folded(std::mem::take(&mut batch.folds));
        if self.damage.is_some() && self.commits.is_none() {
            self.mend_units(batch.units.iter().copied());
        }
        if let Some(merging) = &mut self.merging {
            merging.programmed(&batch.units);
        }
        let freed = batch.units.len() as u32;
        batch.units.clear();
        batch.program_ns = 0;
        self.batches[number] = batch;
        self.batches_free.push(number as u32);
        core.slab.remove(slot);
        if freed > 0 {
            self.buffer.free += freed;
            self.buffer.units_out += u64::from(freed);
            debug_assert!(self.buffer.free <= self.buffer.units);
            self.end_flushes(core);
            if self.zones.is_some() {
                self.end_zone_waits(core);
            }
            self.admit_waiting(core);
        }
        self.pump(core);
    }

    /// Updates the map with the physical slots of a completed program operation.
    fn commit(&mut self, batch: &mut Batch) {
        if std::mem::take(&mut batch.committed) {
            return;
        }
        for slot in batch.filler.drain(..) {
            self.ftl.discard(slot);
        }
        if self.injected_bug != InjectedBug::Nothing {
            self.commit_badly(batch);
            return;
        }
        if self.merging.is_some() {
            // Moved units that were trimmed have no place.
            batch
                .host
                .iter()
                .filter(|host| host.1 != NIL)
                .for_each(|host| self.ftl.commit(host.0, host.1));
        } else if self.commits.is_none() {
            batch.host.iter().for_each(|host| self.ftl.commit(host.0, host.1));
        }
        for &(copy, place) in &batch.copies {
            self.ftl.commit_copy(copy, place);
        }
    }

    /// Same as [`Self::commit`], with one of the injected bugs.
    #[cold]
    fn commit_badly(&mut self, batch: &Batch) {
        for &(page, place) in batch.host.iter().filter(|host| host.1 != NIL) {
            if self.injected_bug == InjectedBug::LastProgramWins {
                self.ftl.commit_last(page, place);
            } else {
                self.ftl.commit(page, place);
            }
        }
        for &(copy, place) in &batch.copies {
            if self.injected_bug == InjectedBug::StaleCopy {
                self.ftl.commit_stale(copy, place);
            } else {
                self.ftl.commit_copy(copy, place);
            }
        }
    }

    /// Stores the values of a program operation in its physical slots.
    #[cold]
    fn keep_batch(&mut self, core: &mut Core, batch: &Batch) {
        let exact = self.represent == 1;
        for (index, &(_, slot)) in batch.copies.iter().enumerate() {
            self.land_copy(batch.stored.get(index).copied().flatten(), slot);
        }
        if !batch.units.is_empty() && self.commits.is_none() {
            for (index, stored) in batch.stored.iter().enumerate() {
                let slot = if exact { Some(batch.host[index].1) } else { None };
                if let Some(stored) = *stored {
                    self.land(core, stored, slot);
                }
            }
        }
    }

    /// Makes the units of a program operation durable, except those that must wait for other data.
    #[cold]
    fn commit_programmed(&mut self, core: &mut Core, batch: &Batch) {
        let Some(commits) = &mut self.commits else { return };
        let mut durable = Vec::new();
        for (index, &unit) in batch.units.iter().enumerate() {
            let stored = batch.stored.get(index).copied().flatten();
            let unit = Programmed { unit, host: batch.host[index], stored };
            commits.programmed(batch.first + index as u64, unit, &mut durable);
        }
        self.commit_durable(core, &durable);
    }

    /// Updates the map with programmed units, which are durable from now on.
    pub(super) fn commit_durable(&mut self, core: &mut Core, durable: &[Programmed]) {
        for &Programmed { host: (page, slot), .. } in durable.iter().filter(|of| of.host.1 != NIL) {
            self.ftl.commit(page, slot);
        }
        let exact = self.represent == 1;
        for of in durable {
            if let Some(stored) = of.stored {
                self.land(core, stored, exact.then_some(of.host.1));
            }
        }
        if self.damage.is_some() {
            self.mend_units(durable.iter().map(|of| of.unit));
        }
    }

    /// Begins an erase if one is due. Erases are spread over the program operations that will fill the freed space,
    /// slightly faster than necessary, so that none accumulate.
    fn erase_some(&mut self, core: &mut Core) {
        self.gc.programs_since_erase += 1;
        let programs_per_erase = self.gc.pages_per_erase / u64::from(self.program_units);
        if self.gc.erases_due == 0 || self.gc.programs_since_erase * 8 < programs_per_erase * 7 {
            return;
        }
        self.gc.programs_since_erase = 0;
        self.gc.erases_due -= 1;
        self.counts.erases += 1;
        let batch = self.new_batch();
        let slot = self.new_internal(core, batch);
        let die = self.counts.erases % self.dies.len() as u64;
        core.slab[slot].die = die as u16;
        core.slab[slot].work = Work::Erase;
        self.enter_die_or_wait(core, slot);
    }

    fn erase(&mut self, core: &mut Core, slot: u32) {
        let index = core.slab[slot].die as usize;
        let (die, slow) = (&mut self.dies[index], &mut self.slow[index]);
        die.doing = Doing::Erasing;
        die.since_ns = core.now;
        slow.begins_ns = core.now;
        slow.running = slot;
        slow.ends_ns = core.now + self.erase_ns;
        core.at(slow.ends_ns, slot, State::Erased);
    }

    pub(super) fn erased(&mut self, core: &mut Core, slot: u32) {
        if self.postponed(core, slot, State::Erased) {
            return;
        }
        let (die, number) = (core.slab[slot].die as usize, core.slab[slot].at as u32);
        self.batches_free.push(number);
        core.slab.remove(slot);
        self.release(core, die);
    }

    /// Frees a die and starts its next operation: a waiting read, the suspended operation, or another waiting
    /// one.
    #[inline(always)]
    pub(super) fn release(&mut self, core: &mut Core, index: usize) {
        let die = &mut self.dies[index];
        die.busy_ns += core.now - die.since_ns;
        die.doing = Doing::Nothing;
        if !die.reads.is_empty() || die.suspended || die.others_wait {
            self.use_free_die(core, index);
        }
    }

    /// Starts the next operation of a die that has become free, or resumes its suspended one.
    fn use_free_die(&mut self, core: &mut Core, index: usize) {
        let die = &mut self.dies[index];
        if let Some(slot) = die.reads.first() {
            let sense = core.slab[slot].work == Work::Sense;
            // A suspended operation must end before another program or erase operation begins.
            if sense || !die.suspended {
                die.reads.pop(&core.slab);
                if sense {
                    self.begin_sense(core, slot, 0);
                } else {
                    self.begin_other(core, slot);
                }
                return;
            }
        }
        let slow = &mut self.slow[index];
        if std::mem::take(&mut die.suspended) {
            die.doing = slow.was;
            die.since_ns = core.now;
            slow.ends_ns = core.now + slow.left_ns;
            if std::mem::take(&mut slow.event_spent) {
                let state = core.slab[slow.running].state;
                core.at(slow.ends_ns, slow.running, state);
            }
            return;
        }
        if let Some(slot) = slow.others.pop(&core.slab) {
            die.others_wait = !slow.others.is_empty();
            self.begin_other(core, slot);
        }
    }
}
