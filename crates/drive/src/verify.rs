//! Verifies content that many workers write. A map records, for each unit of the target, the write whose data the unit
//! contains. The map also prevents conflicting operations from being in flight on the same unit.
//!
//! The workers of a target and the cells of a run share the map. A write claims its units exclusively; a read may share
//! units with other reads. A worker that can't claim an operation's units does not wait: it draws the next operation
//! instead, and the cell counts the replaced operations.
//!
//! For the run's own writes, the map knows the latest acknowledged write of each unit, and the latest one that a flush
//! or FUA made durable. For earlier content, it uses a [`Written`] map that an earlier run has saved (`written.rs`).
//! `diagnosis.rs` classifies the units that are read.

mod diagnosis;
mod written;

pub use diagnosis::Wrong;
pub use written::{Column, Written};

use iodyno_measure::{KeptMap, Verification};
use iodyno_units::verifiable::{self, WriteId};
use iodyno_units::{Op, OpKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Value that marks a verification unit as claimed by a writer. Smaller values count the readers that have claimed it.
const WRITER: u8 = u8::MAX;
/// Maximum number of simultaneous readers of a verification unit.
const READERS_MAX: u8 = 250;
/// Bit in a unit's generation (the sequence number of its latest write) that flags the content as uncertain, after a
/// failed write or a trim. The lower bits keep the count of writes.
const UNSURE: u32 = 1 << 31;

/// Map of a target's verifiable content. For each verification unit (a block with its own checksum) it has the latest
/// known write, against which reads are checked.
#[derive(Debug)]
pub struct VerifyMap {
    unit_bytes: u64,
    /// Stamp that identifies this run's writes to this target.
    writer: u64,
    /// For each verification unit: generation (sequence number) of this run's latest acknowledged write; 0 if there is
    /// none.
    generation: Box<[AtomicU32]>,
    claims: Box<[AtomicU8]>,
    /// One bit per verification unit, set if the unit was found corrupt in this cell.
    found: Box<[AtomicU64]>,
    /// True if this run filled the whole target with verifiable content of generation 1, durably, before its first
    /// cell.
    laid_out: bool,
    durable: Option<Durable>,
    /// Map of the content that earlier runs wrote; `None` if there is none.
    before: Option<Arc<Written>>,
}

/// Tracks which writes flushes and FUA have made durable. Exists only in runs that use flushes or FUA.
#[derive(Debug)]
struct Durable {
    /// The current epoch. Submitting a flush begins a new one.
    epoch: AtomicU32,
    /// All writes that completed before this epoch are durable.
    flushed: AtomicU32,
    /// True if a flush failed. Later flushes are then not trusted, even if they succeed.
    failed: AtomicBool,
    /// For each verification unit: epoch in which the latest write completed.
    written: Box<[AtomicU32]>,
    /// For each verification unit: generation that was known to be durable when the latest write completed.
    generation: Box<[AtomicU32]>,
}

/// Content of a target before the run's first write, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Map of the content that earlier runs left on the target; `None` if unknown.
    pub before: Option<Arc<Written>>,
    /// True if this run filled the whole target with verifiable content, which has generation 1.
    pub laid_out: bool,
    /// Whether the run issues flushes or writes with FUA.
    pub flushes: bool,
}

fn zeroes(units: usize) -> Box<[AtomicU32]> {
    (0..units).map(|_| AtomicU32::new(0)).collect()
}

impl VerifyMap {
    /// Creates a map of `capacity_bytes` in verification units of `unit_bytes`. `writer` is the stamp that identifies
    /// this run's writes. Uses 5 bytes of memory per unit, or 13 if the run flushes.
    pub fn new(capacity_bytes: u64, unit_bytes: u32, writer: u64, known: Known) -> Self {
        let Known { before, laid_out, flushes } = known;
        let units = (capacity_bytes / u64::from(unit_bytes)) as usize;
        let durable = || Durable {
            epoch: AtomicU32::new(1),
            flushed: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            written: zeroes(units),
            generation: (0..units).map(|_| AtomicU32::new(laid_out.into())).collect(),
        };
        Self {
            unit_bytes: u64::from(unit_bytes),
            writer,
            generation: (0..units).map(|_| AtomicU32::new(laid_out.into())).collect(),
            claims: (0..units).map(|_| AtomicU8::new(0)).collect(),
            found: (0..units.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            laid_out,
            durable: flushes.then(durable),
            before: before.filter(|b| b.unit_bytes == unit_bytes),
        }
    }

    /// Length of a verification unit (a block with its own header and checksum), bytes.
    pub fn unit_bytes(&self) -> u32 {
        self.unit_bytes as u32
    }

    /// Verification counts for one worker, initially all 0.
    pub(crate) fn tally(&self) -> Verification {
        Verification::of_units(self.unit_bytes as u32)
    }

    /// Clears the flags of units that the previous cell found corrupt.
    pub(crate) fn begin_cell(&self) {
        self.found.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Extent to which the map knows content from earlier runs.
    pub(crate) fn kept_map(&self) -> KeptMap {
        match &self.before {
            _ if self.laid_out => KeptMap::Whole,
            Some(before) if before.unfinished.is_some() => KeptMap::Unfinished,
            Some(_) => KeptMap::Whole,
            None => KeptMap::None,
        }
    }

    fn units(&self, op: &Op) -> std::ops::Range<usize> {
        let first = op.offset_bytes / self.unit_bytes;
        let count = u64::from(op.len_bytes).div_ceil(self.unit_bytes);
        first as usize..(first + count) as usize
    }

    /// Tries to claim the verification units that an operation accesses, so that no conflicting operation runs at the
    /// same time. Returns false if a conflicting operation has claimed one of them. A flush claims nothing.
    pub fn claim(&self, op: &Op) -> bool {
        let units = self.units(op);
        for unit in units.clone() {
            let claim = &self.claims[unit];
            let got = if op.kind == OpKind::Read {
                claim
                    .fetch_update(Ordering::Acquire, Ordering::Relaxed, |c| {
                        (c < READERS_MAX).then(|| c + 1)
                    })
                    .is_ok()
            } else {
                claim.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
            };
            if !got {
                self.release_units(op.kind, units.start..unit);
                return false;
            }
        }
        true
    }

    fn release_units(&self, kind: OpKind, units: std::ops::Range<usize>) {
        for claim in &self.claims[units] {
            if kind == OpKind::Read {
                claim.fetch_sub(1, Ordering::Release);
            } else {
                claim.store(0, Ordering::Release);
            }
        }
    }

    /// Fills the buffer of a write with the next generation of each unit. The units must be claimed.
    pub fn fill(&self, op: &Op, buffer: &mut [u8]) {
        for (i, unit) in self.units(op).enumerate() {
            let from = i * self.unit_bytes as usize;
            let bytes = &mut buffer[from..from + self.unit_bytes as usize];
            let next = self.next_generation(unit);
            verifiable::fill(bytes, unit as u64 * self.unit_bytes, self.writer, next);
        }
    }

    fn next_generation(&self, unit: usize) -> u32 {
        let now = self.generation[unit].load(Ordering::Relaxed) & !UNSURE;
        (now + 1) & !UNSURE | u32::from(now + 1 == UNSURE)
    }

    /// Records that a flush is about to be submitted. Returns its epoch, the argument for [`Self::flushed`].
    pub(crate) fn flush_begins(&self) -> u32 {
        self.durable.as_ref().map_or(0, |d| d.epoch.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Records that the flush with this epoch, or a later one, has completed.
    pub(crate) fn flushed(&self, epoch: u32, succeeded: bool) {
        let Some(durable) = &self.durable else { return };
        if !succeeded {
            durable.failed.store(true, Ordering::Relaxed);
        } else if !durable.failed.load(Ordering::Relaxed) {
            durable.flushed.fetch_max(epoch, Ordering::AcqRel);
        }
    }

    /// Completes a claimed operation: verifies the data read, or records the write, and releases the claim. The
    /// error describes the first corrupt unit.
    pub fn complete(
        &self,
        op: &Op,
        succeeded: bool,
        buffer: &[u8],
        tally: &mut Verification,
    ) -> Result<(), Wrong> {
        let units = self.units(op);
        let mut wrong = Ok(());
        for (i, unit) in units.clone().enumerate() {
            match op.kind {
                OpKind::Write if succeeded => self.note_written(unit, op.fua),
                OpKind::Write | OpKind::Trim | OpKind::WriteZeroes => self.doubt(unit),
                OpKind::Read if succeeded => {
                    let from = i * self.unit_bytes as usize;
                    let bytes = &buffer[from..from + self.unit_bytes as usize];
                    let one = self.check(unit, bytes, tally);
                    if wrong.is_ok() {
                        wrong = one;
                    }
                }
                OpKind::Read | OpKind::Flush => {}
            }
        }
        self.release_units(op.kind, units);
        wrong
    }

    fn note_written(&self, unit: usize, fua: bool) {
        let before = self.generation[unit].load(Ordering::Relaxed);
        let next = self.next_generation(unit);
        if let Some(durable) = &self.durable {
            if fua {
                durable.generation[unit].store(next, Ordering::Relaxed);
            } else if before & UNSURE == 0
                && durable.written[unit].load(Ordering::Relaxed)
                    < durable.flushed.load(Ordering::Acquire)
            {
                durable.generation[unit].store(before, Ordering::Relaxed);
            }
            durable.written[unit].store(durable.epoch.load(Ordering::Acquire), Ordering::Relaxed);
        }
        self.generation[unit].store(next, Ordering::Relaxed);
    }

    /// Marks a unit's content as uncertain from now on.
    fn doubt(&self, unit: usize) {
        self.generation[unit].fetch_or(UNSURE, Ordering::Relaxed);
    }

    /// Records that an operation was lost with its engine. Units that it may have written become uncertain.
    #[cold]
    pub(crate) fn abandon(&self, op: &Op) {
        let units = self.units(op);
        if !matches!(op.kind, OpKind::Read | OpKind::Flush) {
            units.clone().for_each(|unit| self.doubt(unit));
        }
        self.release_units(op.kind, units);
    }

    /// Generation of the latest durable write of this run to a unit; 0 if none of its writes is known to be durable.
    fn durable_generation(&self, unit: usize) -> u32 {
        let now = self.generation[unit].load(Ordering::Relaxed);
        match &self.durable {
            None => now.min(self.laid_out.into()),
            Some(d)
                if d.written[unit].load(Ordering::Relaxed) < d.flushed.load(Ordering::Acquire) =>
            {
                now
            }
            Some(d) => d.generation[unit].load(Ordering::Relaxed),
        }
    }

    /// Map of the target's present content, for later runs. `all_durable`: whether a final flush succeeded and no
    /// earlier operation failed. Must not be called while operations are in flight.
    pub fn written(&self, all_durable: bool) -> Written {
        let before = self.before.as_deref();
        // A unit may or may not hold a write that never completed.
        let now = |unit: usize| match self.claims.get(unit).map(|c| c.load(Ordering::Relaxed)) {
            Some(WRITER) => UNSURE,
            Some(_) => self.generation[unit].load(Ordering::Relaxed),
            // Beyond the part of the target that this run uses.
            None => 0,
        };
        let own = |generation| Some(WriteId { writer: self.writer, generation });
        let latest = |unit| match now(unit) {
            0 => before.and_then(|b| b.latest(unit)),
            unsure if unsure & UNSURE != 0 => None,
            generation => own(generation),
        };
        let durable = |unit| match now(unit) {
            0 => before.and_then(|b| b.durable(unit)),
            unsure if unsure & UNSURE != 0 => None,
            generation if all_durable => own(generation),
            _ => match self.durable_generation(unit) {
                0 => before.and_then(|b| b.durable(unit)),
                generation => own(generation),
            },
        };
        let units = self.generation.len().max(before.map_or(0, Written::units));
        let mut written = Written::of(self.unit_bytes as u32, units, latest, durable);
        // Units that this run did not touch stay uncertain if an unfinished run may have overwritten them.
        written.unfinished = before.and_then(|b| b.unfinished);
        written
    }

    /// True if this run wrote, or may have written, verifiable content.
    pub fn has_written(&self) -> bool {
        let first: u32 = self.laid_out.into();
        self.laid_out || self.generation.iter().any(|g| g.load(Ordering::Relaxed) != first)
    }
}

#[cfg(test)]
mod tests;
