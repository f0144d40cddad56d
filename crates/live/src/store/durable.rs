//! The bytes of a volume that survive a power cut: the base, and above it *stranded* bytes, which the host refused to
//! write to the base.
//!
//! Stranded bytes stay in memory, where reads find them, until [`Durable::settle`] writes them to the base. A
//! stranded unit is kept whole, unless the rest of it can't be read. Stranded zeroes are kept as ranges, which take
//! little memory.
//!
//! A write to a part of a corrupt unit fails but is not stranded: its data is written, and the unit stays corrupt
//! ([`Base::write_beneath`]). If the write was already acknowledged, the next flush fails instead
//! ([`Durable::take_late`]).

use super::base::Base;
use super::error::{ReadError, WriteError};
use super::units::{Part, UNIT, UNIT_BYTES, parts, touched};
use std::collections::BTreeMap;
use std::ops::Range;

const ZEROES: [u8; UNIT] = [0; UNIT];
/// Estimated memory, bytes, for each 4 KiB unit that is kept in memory because the host refused to write it.
const UNIT_MEMORY_BYTES: u64 = UNIT_BYTES + 128;
/// Estimated memory, bytes, for each range of zeroes that is kept in memory because the host refused to write it.
const RANGE_MEMORY_BYTES: u64 = 64;

/// A 4 KiB unit whose newest data is kept in memory, because the host refused to write it.
#[derive(Debug)]
struct Stranded {
    bytes: Box<[u8; UNIT]>,
    /// Bit mask of the bytes of the unit that are valid here; `None`: all.
    known: Option<Box<[u64; UNIT / 64]>>,
    why: WriteError,
}

impl Stranded {
    fn put(&mut self, part: Part, bytes: &[u8]) {
        self.bytes[part.from..part.to].copy_from_slice(bytes);
        if let Some(known) = &mut self.known {
            for at in part.from..part.to {
                known[at / 64] |= 1 << (at % 64);
            }
            if known.iter().all(|&word| word == u64::MAX) {
                self.known = None;
            }
        }
    }

    fn is_known(&self, at: usize) -> bool {
        self.known.as_ref().is_none_or(|known| known[at / 64] >> (at % 64) & 1 == 1)
    }

    /// Ranges of valid bytes below offset `end` in the unit.
    fn runs(&self, end: usize) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for at in (0..end).filter(|&at| self.is_known(at)) {
            match runs.last_mut() {
                Some(run) if run.end == at => run.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
        runs
    }
}

/// Durable content of a volume: the base, and newer data kept in memory because the host's file system refused to
/// write it (for instance, because it is full). Later calls retry the write.
#[derive(Debug)]
pub(super) struct Durable {
    pub base: Base,
    units: BTreeMap<u64, Stranded>,
    /// Ranges of zeroes that the host refused to write, as start → (end, error). Refused data in `units` takes
    /// precedence. Ranges do not overlap.
    zeroes: BTreeMap<u64, (u64, WriteError)>,
    /// Number of writes, since the last [`Self::take_refusals`], that the host refused or that covered only a part of a
    /// corrupt unit.
    refusals: u64,
    /// Error of an already acknowledged write to a part of a corrupt unit, kept for the next flush to return.
    late: Option<WriteError>,
    /// Whether a write of zeroes to whole units punches a hole.
    holes_for_zeroes: bool,
    /// A range of units known to be a hole, which need not be zeroed again.
    hole: Range<u64>,
}

impl Durable {
    pub(super) fn over(base: Base, holes_for_zeroes: bool) -> Self {
        let (units, zeroes) = (BTreeMap::new(), BTreeMap::new());
        Self { base, units, zeroes, refusals: 0, late: None, holes_for_zeroes, hole: 0..0 }
    }

    /// Whether no refused data waits in memory, so that the base has all durable content.
    #[inline]
    pub(super) fn is_clear(&self) -> bool {
        self.units.is_empty() && self.zeroes.is_empty()
    }

    /// Estimated memory used by data that the host refused to write, bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.units.len() as u64 * UNIT_MEMORY_BYTES + self.zeroes.len() as u64 * RANGE_MEMORY_BYTES
    }

    /// Returns the number of writes that the host (its file system or memory) refused since the last call.
    pub(super) fn take_refusals(&mut self) -> u64 {
        std::mem::take(&mut self.refusals)
    }

    /// The host's error for refused data that waits in memory; `None` if no data waits.
    pub(super) fn trouble(&self) -> Option<&WriteError> {
        self.trouble_in(&(0..u64::MAX))
    }

    /// The host's error for refused data of these units that waits in memory; `None` if none waits.
    pub(super) fn trouble_in(&self, units: &Range<u64>) -> Option<&WriteError> {
        let unit = self.units.range(units.clone()).next().map(|(_, s)| &s.why);
        unit.or_else(|| self.zeroes_in(units).next().map(|(_, why)| why))
    }

    /// Records the error of an already acknowledged write; the next flush returns it.
    pub(super) fn note_late(&mut self, why: WriteError) {
        self.late.get_or_insert(why);
    }

    /// Returns and clears the error recorded by [`Self::note_late`], if any.
    pub(super) fn take_late(&mut self) -> Result<(), WriteError> {
        self.late.take().map_or(Ok(()), Err)
    }

    /// Units with refused data in memory, in ascending order. Refused ranges of zeroes are not included.
    pub(super) fn units(&self) -> impl Iterator<Item = u64> {
        self.units.keys().copied()
    }

    /// Ranges of zeroes that the host refused to write and that intersect `units`.
    fn zeroes_in(&self, units: &Range<u64>) -> impl Iterator<Item = (Range<u64>, &WriteError)> {
        let first = self.zeroes.range(..units.start).next_back();
        let start = units.start;
        let first = first.filter(move |(_, z)| z.0 > start);
        let rest = self.zeroes.range(units.clone());
        first.into_iter().chain(rest).map(|(&start, (end, why))| (start..*end, why))
    }

    fn is_stranded(&self, unit: u64) -> bool {
        self.units.contains_key(&unit) || self.zeroes_in(&(unit..unit + 1)).next().is_some()
    }

    pub(super) fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), ReadError> {
        if self.is_clear() {
            return self.base.read(offset_bytes, into);
        }
        let len_bytes = into.len() as u64;
        if !self.base.holds(offset_bytes, len_bytes) {
            return Err(ReadError::OutOfRange { offset_bytes, len_bytes });
        }
        for part in parts(offset_bytes, len_bytes) {
            self.read_part(part, &mut into[part.range()])?;
        }
        Ok(())
    }

    fn read_part(&self, part: Part, into: &mut [u8]) -> Result<(), ReadError> {
        let stranded = self.units.get(&part.unit);
        let is_known = |s: &Stranded| (part.from..part.to).all(|at| s.is_known(at));
        if !stranded.is_some_and(is_known) {
            if self.zeroes_in(&(part.unit..part.unit + 1)).next().is_some() {
                into.fill(0);
            } else {
                self.base.read(part.offset_bytes(), into)?;
            }
        }
        if let Some(stranded) = stranded {
            for at in (part.from..part.to).filter(|&at| stranded.is_known(at)) {
                into[at - part.from] = stranded.bytes[at];
            }
        }
        Ok(())
    }

    /// Writes data to the base, the volume's durable content. Data that the host refuses stays in memory, and the
    /// host's error is returned.
    pub(super) fn write(&mut self, offset_bytes: u64, data: &[u8]) -> Result<(), WriteError> {
        if self.holes_for_zeroes && is_zeroes(offset_bytes, data) {
            let begin = offset_bytes / UNIT_BYTES;
            return self.write_zeroes(&(begin..begin + data.len() as u64 / UNIT_BYTES));
        }
        self.hole = 0..0;
        let mut refused = None;
        if self.is_clear() {
            match self.base.write(offset_bytes, data) {
                Ok(()) => return Ok(()),
                Err(why @ WriteError::OutOfRange { .. }) => return Err(why),
                // The rest of the data can be written.
                Err(WriteError::Corrupt { .. }) => {}
                Err(why) => refused = Some(why),
            }
        }
        let mut outcome = Ok(());
        for part in parts(offset_bytes, data.len() as u64) {
            let bytes = &data[part.range()];
            let written = match &refused {
                Some(why) => Err(self.refused(part, bytes, why.clone())),
                None => self.write_part(part, bytes),
            };
            outcome = outcome.and(written);
        }
        outcome
    }

    fn write_zeroes(&mut self, units: &Range<u64>) -> Result<(), WriteError> {
        if self.hole.start <= units.start && units.end <= self.hole.end && self.is_clear() {
            return Ok(());
        }
        self.drop_units(units)?;
        let run = self.base.run(units.start, self.base.units());
        if !run.data {
            self.hole = units.start..run.end;
        }
        Ok(())
    }

    fn write_part(&mut self, part: Part, bytes: &[u8]) -> Result<(), WriteError> {
        if part.is_whole() || !self.is_stranded(part.unit) {
            return match self.base.write(part.offset_bytes(), bytes) {
                Ok(()) => {
                    self.forget(&(part.unit..part.unit + 1));
                    Ok(())
                }
                Err(why) => Err(self.refused(part, bytes, why)),
            };
        }
        if let Some(why) = self.trouble_in(&(part.unit..part.unit + 1)).cloned() {
            self.put(part, bytes, why);
        }
        self.land(part.unit)
    }

    /// Zeroes a part of a 4 KiB unit. If the part is the whole unit, the unit is deallocated.
    pub(super) fn zero_part(&mut self, part: Part) -> Result<(), WriteError> {
        self.hole = 0..0;
        if part.is_whole() {
            return self.drop_units(&(part.unit..part.unit + 1));
        }
        let zeroes = &ZEROES[part.from..part.to];
        if self.is_stranded(part.unit) {
            return self.write_part(part, zeroes);
        }
        self.base.zero_part(part).map_err(|why| self.refused(part, zeroes, why))
    }

    /// Deallocates whole 4 KiB units, which then read as zeroes.
    pub(super) fn drop_units(&mut self, units: &Range<u64>) -> Result<(), WriteError> {
        let units = units.start..units.end.min(self.base.units());
        let dropped = self.base.drop_units(&units);
        if dropped.is_ok() && self.is_clear() {
            return Ok(());
        }
        self.forget(&units);
        dropped.inspect_err(|why| {
            self.refusals += 1;
            let mut range = units.clone();
            // Merged with the range that it touches.
            if let Some((&start, &(end, _))) = self.zeroes.range(..range.start).next_back()
                && end == range.start
            {
                range.start = start;
            }
            if let Some((end, _)) = self.zeroes.remove(&range.end) {
                range.end = end;
            }
            self.zeroes.insert(range.start, (range.end, why.clone()));
        })
    }

    /// Keeps in memory the data that the host refused to write, so that reads find it. Data for a corrupt unit is
    /// instead written with [`Base::write_beneath`], and the unit stays corrupt.
    fn refused(&mut self, part: Part, bytes: &[u8], why: WriteError) -> WriteError {
        self.refusals += 1;
        let why = match why {
            WriteError::Corrupt { .. } => match self.base.write_beneath(part, bytes) {
                Ok(()) => return why,
                Err(why) => why,
            },
            why => why,
        };
        self.put(part, bytes, why.clone());
        why
    }

    fn put(&mut self, part: Part, bytes: &[u8], why: WriteError) {
        if !self.units.contains_key(&part.unit) {
            let mut unit = Box::new([0; UNIT]);
            let known = self.read_unit(part.unit, &mut unit);
            let known = known.err().map(|_| Box::new([0; UNIT / 64]));
            let stranded = Stranded { bytes: unit, known, why: why.clone() };
            self.units.insert(part.unit, stranded);
        }
        if let Some(stranded) = self.units.get_mut(&part.unit) {
            stranded.put(part, bytes);
            stranded.why = why;
        }
    }

    /// Reads a 4 KiB unit. Bytes beyond the end of the volume read as zeroes.
    fn read_unit(&self, unit: u64, into: &mut [u8; UNIT]) -> Result<(), ReadError> {
        let len = self.bytes_of(unit);
        self.read_part(Part { unit, from: 0, to: len, at: 0 }, &mut into[..len])
    }

    fn bytes_of(&self, unit: u64) -> usize {
        (self.base.capacity_bytes - unit * UNIT_BYTES).min(UNIT_BYTES) as usize
    }

    /// Discards refused data of these units from memory, because the base has newer data.
    fn forget(&mut self, units: &Range<u64>) {
        if self.is_clear() {
            return;
        }
        let gone: Vec<u64> = self.units.range(units.clone()).map(|(&unit, _)| unit).collect();
        for unit in gone {
            self.units.remove(&unit);
        }
        let touched: Vec<u64> = self.zeroes_in(units).map(|(range, _)| range.start).collect();
        for start in touched {
            let Some((end, why)) = self.zeroes.remove(&start) else { continue };
            if start < units.start {
                self.zeroes.insert(start, (units.start, why.clone()));
            }
            if end > units.end {
                self.zeroes.insert(units.end, (end, why));
            }
        }
    }

    /// Retries to write the refused data of a unit. If the unit has become corrupt, the data is written but the unit
    /// stays corrupt; this call and the next flush return the error.
    fn land(&mut self, unit: u64) -> Result<(), WriteError> {
        let Some(stranded) = self.units.get(&unit) else { return Ok(()) };
        let all = self.bytes_of(unit);
        let runs = match stranded.known {
            None => std::iter::once(0..all).collect(),
            Some(_) => stranded.runs(all),
        };
        let mut corrupt = None;
        let write = |run: Range<usize>| {
            let bytes = &stranded.bytes[run.clone()];
            let part = Part { unit, from: run.start, to: run.end, at: 0 };
            match self.base.write(part.offset_bytes(), bytes) {
                Err(why @ WriteError::Corrupt { .. }) => {
                    corrupt = Some(why);
                    self.base.write_beneath(part, bytes)
                }
                written => written,
            }
        };
        match runs.into_iter().try_for_each(write) {
            Ok(()) => {
                self.forget(&(unit..unit + 1));
                let Some(why) = corrupt else { return Ok(()) };
                self.refusals += 1;
                self.note_late(why.clone());
                Err(why)
            }
            Err(why) => {
                self.refusals += 1;
                if let Some(stranded) = self.units.get_mut(&unit) {
                    stranded.why = why.clone();
                }
                Err(why)
            }
        }
    }

    /// Retries all refused writes in a range of units, and continues after an error. A range of zeroes is retried
    /// whole, even beyond `units`. The error of a corrupt unit takes precedence over others, because its data is not
    /// retried again.
    pub(super) fn settle(&mut self, units: &Range<u64>) -> Result<(), WriteError> {
        self.hole = 0..0;
        if self.is_clear() {
            return Ok(());
        }
        let mut outcome = Ok(());
        let zeroes: Vec<Range<u64>> = self.zeroes_in(units).map(|(range, _)| range).collect();
        for range in zeroes {
            // Units written since then lie over the zeroes: they stay.
            let mut at = range.start;
            let over: Vec<u64> = self.units.range(range.clone()).map(|(&unit, _)| unit).collect();
            for end in over.into_iter().chain([range.end]) {
                if at < end
                    && let Err(why) = self.base.drop_units(&(at..end))
                {
                    self.refusals += 1;
                    outcome = outcome.and(Err(why));
                } else if at < end {
                    self.forget(&(at..end));
                }
                at = end + 1;
            }
        }
        let stranded: Vec<u64> = self.units.range(units.clone()).map(|(&unit, _)| unit).collect();
        let mut corrupt = Ok(());
        for unit in stranded {
            match self.land(unit) {
                Err(why @ WriteError::Corrupt { .. }) => corrupt = corrupt.and(Err(why)),
                landed => outcome = outcome.and(landed),
            }
        }
        corrupt.and(outcome)
    }

    /// Retries the refused writes, but unlike [`Self::settle`] stops when the host refuses one again. Skips corrupt
    /// units. Returns true if the host refused none.
    pub(super) fn settle_some(&mut self) -> bool {
        let zeroes: Vec<Range<u64>> = self.zeroes_in(&(0..u64::MAX)).map(|z| z.0).collect();
        let ranges = zeroes.into_iter().chain(self.units().map(|unit| unit..unit + 1));
        for range in ranges.collect::<Vec<_>>() {
            match self.settle(&range) {
                Ok(()) | Err(WriteError::Corrupt { .. }) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Clears the content of the volume after a power failure of unprotected memory.
    pub(super) fn empty(&mut self) -> Result<(), WriteError> {
        (self.units, self.zeroes, self.late) = (BTreeMap::new(), BTreeMap::new(), None);
        self.drop_units(&(0..self.base.units()))
    }

    /// Whether the whole range is allocated in the base, the volume's durable content, so that overwriting it needs no
    /// space on the host.
    pub(super) fn has_space(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        let mut units = touched(offset_bytes, len_bytes);
        while !units.is_empty() {
            let run = self.base.run(units.start, units.end);
            if !run.data {
                return false;
            }
            units.start = run.end;
        }
        true
    }
}

/// Whether a write consists of whole, aligned units of zeroes.
fn is_zeroes(offset_bytes: u64, data: &[u8]) -> bool {
    let (units, rest) = data.as_chunks::<UNIT>();
    offset_bytes.is_multiple_of(UNIT_BYTES)
        && !units.is_empty()
        && rest.is_empty()
        && units.iter().all(|unit| *unit == ZEROES)
}
