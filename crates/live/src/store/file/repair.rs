//! Repair of units whose write the host cut short, and the closing of a generation of sums.

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

/// The possible content of a unit whose sum may not be its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doubt {
    /// The host cut the write within it.
    Torn,
    /// One of these sums is its own; with any other it was corrupt before, and stays so.
    Either([u32; 2]),
}

impl Doubt {
    fn permits(self, found: u32) -> bool {
        match self {
            Self::Torn => true,
            Self::Either(sums) => sums.contains(&found),
        }
    }
}

impl File {
    /// A write of these units has failed, under their lock: each gets the sum of its content, unless that was
    /// corrupt before. `entries` are those that were to be written, `written_bytes` of the data are.
    #[cold]
    pub(super) fn resume(&self, units: &Range<u64>, written_bytes: usize, entries: &[u8]) {
        for (i, unit) in units.clone().enumerate() {
            let entry = sums::entry(entries, i);
            let is_torn = (i * UNIT + 1..(i + 1) * UNIT).contains(&written_bytes);
            let either = Doubt::Either([entry.sum, entry.former]);
            self.doubt(unit, if is_torn { Doubt::Torn } else { either });
            self.resolve(unit, entry.generation);
        }
    }

    #[cold]
    fn doubt(&self, unit: u64, doubt: Doubt) {
        let mut doubtful = held(&self.doubtful);
        doubtful.insert(unit, doubt);
        self.doubts.store(doubtful.len(), Ordering::Relaxed);
    }

    /// The possible content of a unit, if that is doubtful.
    #[inline]
    pub(super) fn doubt_of(&self, unit: u64) -> Option<Doubt> {
        if self.doubts.load(Ordering::Relaxed) == 0 {
            return None;
        }
        held(&self.doubtful).get(&unit).copied()
    }

    /// Nothing is doubtful about these units.
    #[cold]
    pub(super) fn trust(&self, units: &Range<u64>) {
        let mut doubtful = held(&self.doubtful);
        doubtful.retain(|unit, _| !units.contains(unit));
        self.doubts.store(doubtful.len(), Ordering::Relaxed);
    }

    /// Gives a doubtful unit the sum of its content, under its lock, if the host permits it. A corrupt unit
    /// keeps a sum that is not its own.
    #[cold]
    fn resolve(&self, unit: u64, generation: u64) {
        let mut bytes = [0; UNIT];
        let Some(doubt) = self.doubt_of(unit) else { return };
        if self.read_unit(unit, &mut bytes).is_err() {
            return;
        }
        let sum = sum(&bytes);
        let mut entry = [0; ENTRY_BYTES];
        sums::set_entry(&mut entry, 0, Entry { sum, former: 0, generation });
        if !doubt.permits(sum) || self.sums.write(unit, &entry).is_ok() {
            self.trust(&(unit..unit + 1));
        }
    }

    #[cold]
    fn resolve_all(&self) {
        let doubtful: Vec<u64> = held(&self.doubtful).keys().copied().collect();
        for unit in doubtful {
            let lock = self.lock(unit).write();
            let _lock = lock.unwrap_or_else(PoisonError::into_inner);
            self.resolve(unit, self.generation.load(Ordering::Relaxed));
        }
    }

    /// A write is about to begin, under its lock; gives the generation.
    #[inline]
    pub(super) fn begin_write(&self) -> io::Result<u64> {
        // In this order: a thread that has the next generation sees that the one before is over.
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

    /// Every write that has ended matches its first sum: a version older than that is refused from now on, also
    /// by a server that opens the file later. `ended`: nothing more will be written.
    pub(in super::super) fn close_generation(&self, ended: bool) -> Result<(), WriteError> {
        // Locked before the test: while another flush closes a generation, this one must not take it for
        // closed.
        let _closing = held(&self.closing);
        if !self.is_dirty.load(Ordering::SeqCst) && !ended {
            return Ok(());
        }
        self.is_dirty.store(false, Ordering::SeqCst);
        let generation = self.generation.fetch_add(1, Ordering::SeqCst);
        // Writes that began in it have ended once each lock was free.
        for lock in &self.locks {
            drop(lock.read().unwrap_or_else(PoisonError::into_inner));
        }
        if self.doubts.load(Ordering::Relaxed) > 0 {
            self.resolve_all();
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
