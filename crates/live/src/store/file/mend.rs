//! What becomes of a unit whose write the host cut short, and when a generation of sums is closed.

use super::super::error::WriteError;
use super::super::generation::Generations;
use super::super::sums::{self, ENTRY_BYTES, Entry, Sums};
use super::super::units::{UNIT, sum};
use super::{File, WRITING_SUMS, held};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// A write that has begun to change a unit has changed so much of it at least.
const SECTOR_BYTES: usize = 512;

impl File {
    /// A write of these units has failed, under their lock: each gets the sum of what is there. `entries`
    /// are those that were to be written.
    #[cold]
    pub(super) fn resume(&self, units: &Range<u64>, data: &[u8], entries: &[u8]) {
        for (i, unit) in units.clone().enumerate() {
            let entry = sums::entry(entries, i);
            let mut bytes = [0; UNIT];
            let is_read = self.read_unit(unit, &mut bytes).is_ok();
            let wanted = &data[i * UNIT..(i + 1) * UNIT];
            let found = sum(&bytes);
            let is_whole = [entry.sum, entry.former].contains(&found);
            // What was corrupt before, and was not touched, stays so.
            let is_touched = || bytes[..SECTOR_BYTES] == wanted[..SECTOR_BYTES];
            if is_read && !is_whole && !is_touched() {
                continue;
            }
            self.doubt(unit);
            if is_read {
                self.mend(unit, found, entry.generation);
            }
        }
    }

    #[cold]
    fn doubt(&self, unit: u64) {
        let mut doubtful = held(&self.doubtful);
        doubtful.insert(unit);
        self.doubts.store(doubtful.len(), Ordering::Relaxed);
    }

    /// Nothing is doubtful about these units.
    #[cold]
    pub(super) fn trust(&self, units: &Range<u64>) {
        let mut doubtful = held(&self.doubtful);
        doubtful.retain(|unit| !units.contains(unit));
        self.doubts.store(doubtful.len(), Ordering::Relaxed);
    }

    /// Gives a doubtful unit the sum of what it holds, under its lock.
    #[cold]
    fn mend(&self, unit: u64, sum: u32, generation: u64) {
        let mut entry = [0; ENTRY_BYTES];
        sums::set_entry(&mut entry, 0, Entry { sum, former: 0, generation });
        if self.sums.write(unit, &entry).is_ok() {
            self.trust(&(unit..unit + 1));
        }
    }

    #[cold]
    fn mend_all(&self) {
        let doubtful: Vec<u64> = held(&self.doubtful).iter().copied().collect();
        for unit in doubtful {
            let lock = self.lock(unit).write();
            let _lock = lock.unwrap_or_else(PoisonError::into_inner);
            let mut bytes = [0; UNIT];
            if self.is_doubtful(unit) && self.read_unit(unit, &mut bytes).is_ok() {
                self.mend(unit, sum(&bytes), self.generation.load(Ordering::Relaxed));
            }
        }
    }

    /// Something is about to be written, under its lock; gives the generation.
    #[inline]
    pub(super) fn begin_write(&self) -> io::Result<u64> {
        // In this order: who has the next generation sees that the one before is over.
        let generation = self.generation.load(Ordering::SeqCst);
        if !self.is_dirty.load(Ordering::SeqCst) {
            let mut generations = held(&self.generations);
            if generations.is_ended() {
                let mut reopened = generations.clone();
                reopened.close(generations.closed, false);
                write_generations(&self.sums, &reopened)?;
                *generations = reopened;
            }
            self.is_dirty.store(true, Ordering::SeqCst);
        }
        Ok(generation)
    }

    /// Every write that has ended is what its first sum says: a version older than that is refused from now
    /// on, also by a server that opens the file later. `ended`: nothing more will be written.
    pub(in super::super) fn close_generation(&self, ended: bool) -> Result<(), WriteError> {
        if !self.is_dirty.load(Ordering::SeqCst) && !ended {
            return Ok(());
        }
        let _closing = held(&self.closing);
        self.is_dirty.store(false, Ordering::SeqCst);
        let generation = self.generation.fetch_add(1, Ordering::SeqCst);
        // What was begun in it has ended once each lock was free.
        for lock in &self.locks {
            drop(lock.read().unwrap_or_else(PoisonError::into_inner));
        }
        if self.doubts.load(Ordering::Relaxed) > 0 {
            self.mend_all();
        }
        let closed = if self.doubts.load(Ordering::Relaxed) > 0 {
            Err(Errno::IO.into())
        } else {
            let mut generations = held(&self.generations);
            let mut closed = generations.clone();
            closed.close(generation, ended);
            write_generations(&self.sums, &closed).map(|()| *generations = closed)
        };
        closed.map_err(|e| {
            self.is_dirty.store(true, Ordering::SeqCst);
            WriteError::io(WRITING_SUMS, &e)
        })
    }
}

pub(super) fn write_generations(sums: &Sums, generations: &Generations) -> io::Result<()> {
    sums.host().write(&generations.slot(), generations.place())
}
