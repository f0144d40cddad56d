//! Repairs units whose write was cut short by the host, and closes generations of checksums.

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

/// Possible content of a unit whose checksum may not match because a write failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doubt {
    /// The write ended in the middle of the unit, so any content is accepted.
    Torn,
    /// The content must match one of these two checksums; otherwise the unit was corrupt before the write, and
    /// stays so.
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
    /// After a failed write, repairs the checksums of its units to match their content; units that were corrupt before
    /// stay corrupt. `entries` has the checksum entries for the complete write; only `written_bytes` of its data were
    /// written. The caller holds the units' lock.
    #[cold]
    pub(super) fn resume(&self, units: &Range<u64>, written_bytes: usize, entries: &[u8]) {
        for (i, unit) in units.clone().enumerate() {
            let entry = sums::entry(entries, i);
            let is_torn = (i * UNIT + 1..(i + 1) * UNIT).contains(&written_bytes);
            let either = Doubt::Either([entry.sum, entry.former]);
            self.doubt(unit, if is_torn { Doubt::Torn } else { either });
            // If this fails, it is repeated before the generation is closed.
            let _ = self.resolve(unit, entry.generation);
        }
    }

    #[cold]
    fn doubt(&self, unit: u64, doubt: Doubt) {
        let mut doubtful = held(&self.doubtful);
        doubtful.insert(unit, doubt);
        self.doubts.store(doubtful.len(), Ordering::Relaxed);
    }

    /// Possible content of a unit after a failed write; `None` if the unit's checksum is reliable.
    #[inline]
    pub(super) fn doubt_of(&self, unit: u64) -> Option<Doubt> {
        if self.doubts.load(Ordering::Relaxed) == 0 {
            return None;
        }
        held(&self.doubtful).get(&unit).copied()
    }

    /// Marks the checksums of units as reliable: the units are no longer doubtful.
    #[cold]
    pub(super) fn trust(&self, units: &Range<u64>) {
        let mut doubtful = held(&self.doubtful);
        doubtful.retain(|unit, _| !units.contains(unit));
        self.doubts.store(doubtful.len(), Ordering::Relaxed);
    }

    /// Tries to write a checksum that matches a unit's content after a failed write. A corrupt unit keeps its checksum,
    /// which reveals the corruption. The caller holds the unit's lock.
    #[cold]
    fn resolve(&self, unit: u64, generation: u64) -> io::Result<()> {
        let mut bytes = [0; UNIT];
        let Some(doubt) = self.doubt_of(unit) else { return Ok(()) };
        self.read_unit(unit, &mut bytes)?;
        let sum = sum(&bytes);
        let mut entry = [0; ENTRY_BYTES];
        sums::set_entry(&mut entry, 0, Entry { sum, former: 0, generation });
        if doubt.permits(sum) {
            self.sums.write(unit, &entry)?;
        }
        self.trust(&(unit..unit + 1));
        Ok(())
    }

    /// Tries to resolve all doubtful units. Returns the first error after that.
    #[cold]
    fn resolve_all(&self) -> io::Result<()> {
        let doubtful: Vec<u64> = held(&self.doubtful).keys().copied().collect();
        let mut resolved = Ok(());
        for unit in doubtful {
            let lock = self.lock(unit).write();
            let _lock = lock.unwrap_or_else(PoisonError::into_inner);
            resolved = resolved.and(self.resolve(unit, self.generation.load(Ordering::Relaxed)));
        }
        // Another write may have failed since.
        let is_clear = self.doubts.load(Ordering::Relaxed) == 0;
        resolved.and_then(|()| if is_clear { Ok(()) } else { Err(Errno::IO.into()) })
    }

    /// Called before a write: marks the current generation as used, and returns its number. The caller holds the lock
    /// of the units.
    #[inline]
    pub(super) fn begin_write(&self) -> io::Result<u64> {
        // In this order: a thread that sees the next generation also sees that the previous one is over.
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

    /// Closes the current generation of writes. From now on, this and later servers treat older versions of its units
    /// as corrupt. `ended`: the server shuts down and writes nothing more.
    pub(in super::super) fn close_generation(&self, ended: bool) -> Result<(), WriteError> {
        // Locked before the test: while another flush is closing a generation, it is not closed yet.
        let _closing = held(&self.closing);
        if !self.is_dirty.load(Ordering::SeqCst) && !ended {
            return Ok(());
        }
        self.is_dirty.store(false, Ordering::SeqCst);
        let generation = self.generation.fetch_add(1, Ordering::SeqCst);
        // Once each lock was free, all writes that began in the generation have ended.
        for lock in &self.locks {
            drop(lock.read().unwrap_or_else(PoisonError::into_inner));
        }
        let resolved =
            if self.doubts.load(Ordering::Relaxed) > 0 { self.resolve_all() } else { Ok(()) };
        let closed = resolved.and_then(|()| {
            let mut generations = held(&self.generations);
            let mut closed = generations.clone();
            closed.close(generation, ended);
            write_generations(&self.sums, &closed).map(|()| *generations = closed)
        });
        closed.map_err(|e| {
            self.is_dirty.store(true, Ordering::SeqCst);
            WriteError::io(WRITING_SUMS, &e)
        })
    }
}

pub(super) fn write_generations(sums: &Sums, generations: &Generations) -> io::Result<()> {
    sums.host().write(&generations.slot(), generations.place())
}
