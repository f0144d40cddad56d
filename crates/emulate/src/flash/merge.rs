//! Programming of data that must not be split: a translation unit larger than 4 KiB or, on a zoned device, a complete
//! program operation. If the host writes part of a translation unit, the rest is read from flash first.

use super::stored_runs::Stored;
use super::{Batch, FlashDevice};
use crate::core::Core;
use crate::ftl::Stream;
use crate::request::{NIL, State};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// A 4 KiB unit that is programmed again because the host has written other parts of its translation unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    unit: u64,
    /// Index in `Batch::host`; `None` if the unit is not in the map.
    host: Option<usize>,
    /// Index in `Batch::stored`; `None` if no content is stored.
    stored: Option<usize>,
}

/// State for programming translation units larger than 4 KiB or, on a zoned device, complete program operations.
#[derive(Clone, Debug)]
pub(super) struct Merging {
    /// Size of a translation unit or, on a zoned device, of a program operation, in units of 4 KiB.
    pub(super) units: u64,
    /// Translation units whose program operations have not ended, by number.
    programming: BTreeSet<u64>,
    /// Sequence numbers of the units that wait in the buffer, in the buffer's order. The numbers have gaps where
    /// units were taken early.
    numbers: VecDeque<u64>,
}

impl Merging {
    /// Creates the state for translation units of `units` × 4 KiB each.
    pub(super) fn of(units: u64) -> Self {
        Self { units, programming: BTreeSet::new(), numbers: VecDeque::new() }
    }

    /// Returns a range of 4 KiB units, extended to whole translation units.
    pub(super) fn whole(&self, units: Range<u64>) -> Range<u64> {
        units.start / self.units * self.units..units.end.next_multiple_of(self.units)
    }

    /// Records the end of a program operation that contained the host's `units`.
    pub(super) fn programmed(&mut self, units: &[u64]) {
        for unit in units {
            self.programming.remove(&(unit / self.units));
        }
    }

    /// Processes a power cut, which ends all program operations. `numbers`: sequence numbers of the units in the
    /// buffer.
    pub(super) fn power_off(&mut self, numbers: Range<u64>) {
        self.programming.clear();
        self.numbers = numbers.collect();
    }

    /// Records that units with these sequence numbers have entered the buffer.
    pub(super) fn enter(&mut self, numbers: Range<u64>) {
        self.numbers.extend(numbers);
    }

    /// Removes the unit at a position in the buffer's order.
    pub(super) fn forget(&mut self, index: usize) {
        self.numbers.remove(index);
    }

    /// Returns the sequence number of the oldest unit that waits in the buffer; `None` if none waits.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.numbers.front().copied()
    }

    /// Returns whether a program operation in progress contains any of these units of 4 KiB.
    pub(super) fn is_programming(&self, units: &Range<u64>) -> bool {
        let whole = units.start / self.units..units.end.div_ceil(self.units);
        self.programming.range(whole).next().is_some()
    }
}

impl FlashDevice {
    /// Returns whether no program operation can begin now: on a zoned device because none has all its data, otherwise
    /// because the translation unit of the buffer's oldest unit is still being programmed, or too many reads for
    /// merging are in progress.
    pub(super) fn waits_to_merge(&self) -> bool {
        if let Some(zones) = &self.zones {
            return !zones.has_complete();
        }
        let (Some(merging), Some(&unit)) = (&self.merging, self.buffer.drain.front()) else {
            return false;
        };
        merging.is_programming(&(unit..unit + 1)) || self.copies_reading >= self.copies_ahead()
    }

    /// Moves translation units from the buffer to `batch` until the program operation is full. Their parts that the
    /// host has not written are read from flash later (`Batch::merges`), or padded if they have no data. Returns the
    /// number of slots that the translation units occupy, and the number of written 4 KiB units that had no data
    /// before.
    pub(super) fn take_whole(&mut self, batch: &mut Batch, merging: &mut Merging) -> (u32, u64) {
        let (mut slots, mut new) = (0, 0);
        while slots + merging.units as u32 <= self.program_units
            && let Some(first) = self.next_whole(merging)
        {
            merging.programming.insert(first / merging.units);
            let whole = merging.whole(first..first + 1);
            let written = self.take_all_of(batch, &mut merging.numbers, &whole);
            let (mut missing, mut fillers) = (0, 0);
            for (unit, (is_written, mut stored)) in whole.clone().zip(written) {
                let held = unit < self.logical_units && self.ftl.holds(unit);
                if is_written {
                    new += u64::from(!held);
                } else if held {
                    missing += 1;
                    stored =
                        self.content.as_ref().and_then(|content| content.moved(unit, &self.ftl));
                } else {
                    fillers += 1;
                    continue;
                }
                let stored_at = self.content.is_some().then_some(batch.stored.len());
                let before = batch.host.len();
                if self.content.is_some() {
                    batch.stored.push(stored);
                }
                if let Some(page) = self.ftl.applies(unit).filter(|_| self.zones.is_none()) {
                    let slot = self.ftl.reserve(Stream::Host(0)).expect("space was checked");
                    batch.host.push((page, slot));
                }
                if !is_written {
                    let host = (batch.host.len() > before).then_some(before);
                    batch.moved.push(Moved { unit, host, stored: stored_at });
                }
            }
            if missing > 0 {
                self.counts.merged_pages += u64::from(missing);
                batch.merges.push((self.scattered_die(first), missing));
            }
            if fillers > 0 {
                self.fill_up(batch, 0, fillers);
            }
            slots += merging.units as u32;
        }
        (slots, new)
    }

    /// Returns a unit of the translation unit to program next or, on a zoned device, the first unit of the complete
    /// program operation to begin next. `None` if none is ready.
    fn next_whole(&mut self, merging: &Merging) -> Option<u64> {
        if let Some(zones) = &mut self.zones {
            return zones.take_complete();
        }
        let first = *self.buffer.drain.front()?;
        (!merging.is_programming(&(first..first + 1))).then_some(first)
    }

    /// Leaves trimmed units out of the program operations that move them.
    pub(super) fn trim_moved(&mut self, units: &Range<u64>) {
        for batch in self.batches.iter_mut().filter(|batch| !batch.committed) {
            for moved in batch.moved.extract_if(.., |moved| units.contains(&moved.unit)) {
                if let Some(host) = moved.host {
                    batch.filler.push(std::mem::replace(&mut batch.host[host].1, NIL));
                }
                if let Some(stored) = moved.stored {
                    batch.stored[stored] = None;
                }
            }
        }
    }

    /// Removes all units in the range `whole` from the buffer. Returns for each unit of the range whether the host
    /// wrote it, and its newest value, if content is stored.
    fn take_all_of(
        &mut self,
        batch: &mut Batch,
        numbers: &mut VecDeque<u64>,
        whole: &Range<u64>,
    ) -> Vec<(bool, Option<Stored>)> {
        let mut written = vec![(false, None); (whole.end - whole.start) as usize];
        let mut index = 0;
        while let Some(&unit) = self.buffer.drain.get(index) {
            if whole.contains(&unit) {
                self.buffer.drain.remove(index);
                numbers.remove(index);
                let stored = self.content.as_mut().and_then(|content| content.take_at(index));
                batch.units.push(unit);
                written[(unit - whole.start) as usize] = (true, stored);
            } else {
                index += 1;
            }
        }
        written
    }

    /// Starts the reads that complete partly written translation units. The batch of the request `slot` is programmed
    /// once these reads have ended.
    pub(super) fn merge(&mut self, core: &mut Core, slot: u32) {
        core.slab[slot].state = State::Waiting;
        core.slab[slot].pending = 1;
        self.copies_reading += 1;
        let number = core.slab[slot].at as usize;
        for (die, mut units) in std::mem::take(&mut self.batches[number].merges) {
            while units > 0 {
                let of_page = units.min(self.units_per_page);
                self.copy_sense(core, slot, u64::from(die), of_page);
                units -= of_page;
            }
        }
        self.part_read(core, slot);
    }
}
