//! The bytes of one emulated volume. The machine decides what becomes of written data and tells it
//! step by step ([`Change`]); the store does the same with the bytes.
//!
//! ```text
//! begin_write(token, …)   machine.submit(…, token)
//!                         machine.next_completion(…)  machine.changes(…)
//! changes(…)              the completion: end_write(token), answer; or read(…), answer
//! ```
//!
//! The lower part, the base, is what a power cut leaves: in memory or in a file, each 4 KiB unit with
//! a sum that is checked whenever it is read. The upper part, the overlay, is what a power cut
//! takes: what a volatile buffer has accepted. A change is carried out at once, so that a server
//! that is killed leaves in the file what the modelled device would have left at that moment, as
//! long as changes are passed on before the acknowledgements that came with them.
//!
//! Without a machine (a device with a protected buffer, at native speed) the base is used directly:
//! [`Store::write_now`], [`Store::zero_now`], [`Store::trim_now`] and [`Store::read`] take `&self`
//! and any number of threads at once. What follows the machine takes `&mut self`.

mod base;
mod error;
mod file;
mod guard;
mod memory;
mod overlay;
mod settled;
mod sums;
mod units;

pub use error::{OpenError, ReadError, WriteError};
pub use units::UNIT_BYTES;

use base::{Base, Run, Soundness};
use iodyno_emulate::Change;
use overlay::{Kind, Overlay};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use units::{Part, UNIT, covered, ends, parts, touched};

/// How a store treats its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is read is held against its sum (about 0.1 µs for 4 KiB). Without, only damage that was
    /// done on purpose is found, and what [`Store::scrub`] finds.
    pub check_reads: bool,
    /// The device is memory that a power failure empties. What it accepts goes to the base at once,
    /// since nothing but [`Change::Emptied`] ever takes it back; a volatile buffer's waits in the
    /// overlay until it lands.
    pub emptied_by_power_failure: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { check_reads: true, emptied_by_power_failure: false }
    }
}

/// A run of bytes alike, for a client that wants to know where data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How long it is.
    pub len_bytes: u64,
    /// Something is held; or it is a hole, and reads as zeroes.
    pub data: bool,
}

/// What a scrub found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    /// Units that hold what was written.
    pub sound_units: u64,
    /// Units that were there before they had a sum, or the holes beside data: taken as they are.
    pub unknown_units: u64,
    /// Units that do not hold what was written.
    pub corrupt_units: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Store {
    base: Base,
    overlay: Overlay,
    options: Options,
    /// By unit: the version that has landed, and could not be written.
    stranded: BTreeMap<u64, (u64, WriteError)>,
    /// The base was to be emptied, and could not.
    not_emptied: Option<WriteError>,
}

impl Store {
    /// A volume in memory, of which what was never written takes none; at most `memory_bytes_max`
    /// bytes, tables included. A write beyond that fails.
    pub fn in_memory(capacity_bytes: u64, memory_bytes_max: u64, options: Options) -> Self {
        Self::over(Base::in_memory(capacity_bytes, memory_bytes_max, options.check_reads), options)
    }

    /// A volume in a file, which is made if it is not there: sparse, byte for byte, its sums beside
    /// it in `PATH.sums`. An image without sums is taken as it is. (Whoever changes it by other
    /// means removes its sums: those units would read as corrupt.)
    ///
    /// # Errors
    /// It is no plain file, it has another size, another server has it open, its sums are not its
    /// own, or the system refuses.
    pub fn in_file(path: &Path, capacity_bytes: u64, options: Options) -> Result<Self, OpenError> {
        Ok(Self::over(Base::in_file(path, capacity_bytes, options.check_reads)?, options))
    }

    fn over(base: Base, options: Options) -> Self {
        Self {
            base,
            overlay: Overlay::default(),
            options,
            stranded: BTreeMap::new(),
            not_emptied: None,
        }
    }

    /// Bytes of the volume.
    pub fn capacity_bytes(&self) -> u64 {
        self.base.capacity_bytes
    }

    /// Memory that the data take, tables included; 0 where they are in a file.
    pub fn memory_bytes(&self) -> u64 {
        self.base.memory_bytes()
    }

    /// Units of which a power cut would take something.
    pub fn volatile_units(&self) -> usize {
        self.overlay.len()
    }

    fn check_range(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        if self.base.holds(offset_bytes, len_bytes) {
            return Ok(());
        }
        Err(WriteError::OutOfRange { offset_bytes, len_bytes })
    }

    /// A write is about to be submitted to the machine: its bytes are kept (a copy) until it has
    /// ended and nothing is left to land. A token is never used twice.
    ///
    /// # Errors
    /// It ends beyond the volume.
    pub fn begin_write(
        &mut self,
        token: u64,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<(), WriteError> {
        self.begin(Kind::Data, token, offset_bytes, data.len() as u64, data)
    }

    /// The same for a write of zeroes, of any length. The device drops whole units of it; what is
    /// left at its ends is zeroed when it ends.
    ///
    /// # Errors
    /// As [`Self::begin_write`].
    pub fn begin_zeroes(
        &mut self,
        token: u64,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), WriteError> {
        self.begin(Kind::Zeroes, token, offset_bytes, len_bytes, &[])
    }

    /// The same for a trim: of units that it covers in part nothing changes.
    ///
    /// # Errors
    /// As [`Self::begin_write`].
    pub fn begin_trim(
        &mut self,
        token: u64,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), WriteError> {
        self.begin(Kind::Trim, token, offset_bytes, len_bytes, &[])
    }

    fn begin(
        &mut self,
        kind: Kind,
        token: u64,
        offset_bytes: u64,
        len_bytes: u64,
        data: &[u8],
    ) -> Result<(), WriteError> {
        self.check_range(offset_bytes, len_bytes)?;
        self.overlay.begin(kind, token, offset_bytes, len_bytes, data);
        Ok(())
    }

    /// The machine has completed the write, and its changes up to then were passed on.
    ///
    /// # Errors
    /// What went wrong as they were carried out: the write has failed, whatever the machine says.
    /// (What lands later and can't be written is not lost; [`Self::settle`] tells.)
    pub fn end_write(&mut self, token: u64) -> Result<(), WriteError> {
        let Some(slot) = self.overlay.slot(token) else { return Ok(()) };
        let payload = self.overlay.payload(slot);
        let mut outcome = payload.failure.clone().map_or(Ok(()), Err);
        if payload.kind == Kind::Zeroes && outcome.is_ok() {
            outcome = self.zero_ends(slot);
        }
        self.overlay.end(slot);
        outcome
    }

    /// The write has failed, or the machine has lost it in a power cut: what it has changed so far
    /// stays.
    pub fn cancel_write(&mut self, token: u64) {
        if let Some(slot) = self.overlay.slot(token) {
            self.overlay.end(slot);
        }
    }

    /// The parts of units at the ends of a write of zeroes, of which the device has not told: in
    /// the base and in every version, since the write is over.
    fn zero_ends(&mut self, slot: u32) -> Result<(), WriteError> {
        let payload = self.overlay.payload(slot);
        let (offset, len, told) = (payload.offset_bytes, payload.len_bytes, payload.told);
        let units = touched(offset, len);
        for part in ends(offset, len) {
            if !told[usize::from(part.unit != units.start)] {
                self.base.zero_part(part)?;
                self.overlay.zero(part);
            }
        }
        Ok(())
    }

    /// Carries out one change; see [`Self::changes`].
    pub fn change(&mut self, change: &Change) {
        self.changes(std::slice::from_ref(change));
    }

    /// Carries out what the machine tells of this volume, in its order. A write that fails here
    /// tells so as it ends.
    pub fn changes(&mut self, changes: &[Change]) {
        let mut left = changes;
        while let [change, rest @ ..] = left {
            left = rest;
            match *change {
                Change::Accepted { unit, token, kept, .. } => {
                    let slot = self.begun(token);
                    if !kept && !self.options.emptied_by_power_failure {
                        self.overlay.accept(unit, slot);
                        continue;
                    }
                    // The units of one write are told one after the other, and go in one piece.
                    let follows = |(i, c): &(usize, &Change)| {
                        matches!(**c, Change::Accepted { unit: u, token: t, kept: k, .. }
                            if (u, t, k) == (unit + 1 + *i as u64, token, kept))
                    };
                    let more = rest.iter().enumerate().take_while(follows).count();
                    left = &rest[more..];
                    let kept = self.keep(slot, unit..unit + 1 + more as u64);
                    self.note(slot, kept);
                }
                Change::Landed { unit, token, .. } => {
                    if let Some(version) = self.overlay.find(unit, token) {
                        self.land(unit, version);
                    }
                }
                Change::Written { unit, token, overtaken, .. } => {
                    let slot = self.begun(token);
                    let older = self.older(slot, overtaken);
                    let written = self.replace(slot, unit, older);
                    self.note(slot, written);
                }
                Change::Dropped { unit, count, token, overtaken, .. } => {
                    let slot = self.begun(token);
                    let dropped = self.drop_range(slot, unit..unit + count, overtaken);
                    self.note(slot, dropped);
                }
                Change::PowerCut { .. } => self.cut(),
                Change::Emptied { .. } => {
                    self.stranded.clear();
                    self.cut();
                    self.not_emptied = self.base.drop_units(&(0..self.base.units())).err();
                }
            }
        }
    }

    /// The payload of a write that the machine speaks of.
    fn begun(&self, token: u64) -> u32 {
        let slot = self.overlay.slot(token);
        slot.unwrap_or_else(|| panic!("the machine speaks of {token}, which was not begun"))
    }

    fn note(&mut self, slot: u32, outcome: Result<(), WriteError>) {
        if let Err(why) = outcome {
            self.overlay.payload_mut(slot).failure.get_or_insert(why);
        }
    }

    /// The number of the last version that a write which is on the medium replaces. Where newer ones
    /// are in the buffer, those that were accepted before it began are older for certain; others
    /// were under way together with it, and may count as newer.
    fn older(&self, slot: u32, overtaken: bool) -> u64 {
        if overtaken { self.overlay.payload(slot).begun } else { u64::MAX }
    }

    /// A write's units are accepted, and a power cut leaves them.
    fn keep(&mut self, slot: u32, units: Range<u64>) -> Result<(), WriteError> {
        if self.overlay.is_empty() {
            let payload = self.overlay.payload(slot);
            for unit in [units.start, units.end - 1] {
                let part = payload.part(unit);
                // Zeroes under way, of which the device tells nothing where something newer is
                // kept: they come first.
                if !part.is_whole() {
                    self.overlay.zeroes_over(unit).try_for_each(|p| self.base.zero_part(p))?;
                }
            }
            let from = payload.part(units.start);
            let to = payload.part(units.end - 1);
            let bytes = &payload.bytes[from.range().start..to.range().end];
            return self.base.write(from.offset_bytes(), bytes);
        }
        units.into_iter().try_for_each(|unit| self.replace(slot, unit, u64::MAX))
    }

    /// A write's part of a unit goes to the base, over the versions up to number `older`, which go
    /// there with it.
    fn replace(&mut self, slot: u32, unit: u64, older: u64) -> Result<(), WriteError> {
        let payload = self.overlay.payload(slot);
        let part = payload.part(unit);
        let zeroes = payload.kind != Kind::Data;
        if part.is_whole() || !self.overlay.has_until(unit, older) {
            if zeroes {
                self.base.zero_part(part)?;
            } else {
                self.base.write(part.offset_bytes(), &payload.bytes[part.range()])?;
            }
        } else {
            let mut bytes = self.landed(unit, older)?;
            let to = &mut bytes[part.from..part.to];
            if zeroes {
                to.fill(0);
            } else {
                to.copy_from_slice(&payload.bytes[part.range()]);
            }
            self.write_unit(unit, &bytes)?;
        }
        self.settled(unit, older);
        Ok(())
    }

    /// Versions up to number `until` are in the base, or replaced there.
    fn settled(&mut self, unit: u64, until: u64) {
        self.overlay.forget_until(unit, until);
        if self.stranded.get(&unit).is_some_and(|s| s.0 <= until) {
            self.stranded.remove(&unit);
        }
    }

    /// What the base holds of a unit; zeroes beyond the end of the volume.
    fn beneath(&self, unit: u64, from: usize, into: &mut [u8]) -> Result<(), ReadError> {
        let offset = unit * UNIT_BYTES + from as u64;
        let len = (self.base.capacity_bytes - offset).min(into.len() as u64) as usize;
        into[len..].fill(0);
        self.base.read(offset, &mut into[..len])
    }

    fn landed(&self, unit: u64, until: u64) -> Result<[u8; UNIT], ReadError> {
        self.overlay.landed(unit, until, |into| self.beneath(unit, 0, into))
    }

    fn write_unit(&self, unit: u64, bytes: &[u8; UNIT]) -> Result<(), WriteError> {
        let offset = unit * UNIT_BYTES;
        let len = (self.base.capacity_bytes - offset).min(UNIT_BYTES) as usize;
        self.base.write(offset, &bytes[..len])
    }

    /// A version is on the medium, with those before it.
    fn land(&mut self, unit: u64, version: u64) {
        let landed = self.landed(unit, version).map_err(WriteError::from);
        match landed.and_then(|bytes| self.write_unit(unit, &bytes)) {
            Ok(()) => self.settled(unit, version),
            Err(why) => {
                self.stranded.insert(unit, (version, why));
            }
        }
    }

    /// Zeroes over units that a write of zeroes or a trim has dropped.
    fn drop_range(
        &mut self,
        slot: u32,
        units: Range<u64>,
        overtaken: bool,
    ) -> Result<(), WriteError> {
        let payload = self.overlay.payload(slot);
        let (offset, len, kind) = (payload.offset_bytes, payload.len_bytes, payload.kind);
        let older = self.older(slot, overtaken);
        let within = covered(offset, len);
        let whole = units.start.max(within.start)..units.end.min(within.end);
        if !whole.is_empty() {
            self.base.drop_units(&whole)?;
            let replaced: Vec<u64> = if ((whole.end - whole.start) as usize) < self.overlay.len() {
                whole.filter(|&unit| self.overlay.has(unit)).collect()
            } else {
                self.overlay.units().filter(|unit| whole.contains(unit)).collect()
            };
            replaced.into_iter().for_each(|unit| self.settled(unit, older));
        }
        if kind == Kind::Zeroes {
            let first = touched(offset, len).start;
            for part in ends(offset, len).filter(|part| units.contains(&part.unit)) {
                self.replace(slot, part.unit, older)?;
                let told = &mut self.overlay.payload_mut(slot).told;
                told[usize::from(part.unit != first)] = true;
            }
        }
        Ok(())
    }

    /// The power fails: versions are gone, but for those that had landed.
    fn cut(&mut self) {
        let units: Vec<u64> = self.overlay.units().collect();
        for unit in units {
            let landed = self.stranded.get(&unit).map_or(0, |s| s.0);
            self.overlay.forget_beyond(unit, landed);
        }
    }

    /// Writes what has landed and could not be written then: after room was made, say. Nothing of it
    /// was lost, a read gives it; but a server that is killed would lose it. To be called for a
    /// flush, and before the server ends.
    ///
    /// # Errors
    /// It still can't.
    pub fn settle(&mut self) -> Result<(), WriteError> {
        if self.not_emptied.is_some() {
            self.base.drop_units(&(0..self.base.units()))?;
            self.not_emptied = None;
        }
        let stranded: Vec<(u64, u64)> = self.stranded.iter().map(|(&u, s)| (u, s.0)).collect();
        stranded.into_iter().for_each(|(unit, version)| self.land(unit, version));
        self.trouble().map_or(Ok(()), |why| Err(why.clone()))
    }

    /// Why something that has landed could not be written; None: all is well.
    pub fn trouble(&self) -> Option<&WriteError> {
        let stranded = self.stranded.first_key_value().map(|(_, (_, why))| why);
        self.not_emptied.as_ref().or(stranded)
    }

    /// What a read gives now: the newest that was accepted.
    ///
    /// # Errors
    /// It ends beyond the volume; a unit does not hold what was written; the system refuses.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), ReadError> {
        if self.overlay.is_empty() {
            return self.base.read(offset_bytes, into);
        }
        let len_bytes = into.len() as u64;
        if !self.base.holds(offset_bytes, len_bytes) {
            return Err(ReadError::OutOfRange { offset_bytes, len_bytes });
        }
        // What lies between units with versions is read in one piece.
        let mut plain = 0;
        for part in parts(offset_bytes, len_bytes).filter(|p| self.overlay.has(p.unit)) {
            let Part { unit, from, .. } = part;
            let range = part.range();
            self.base.read(offset_bytes + plain as u64, &mut into[plain..range.start])?;
            plain = range.end;
            self.overlay.compose(unit, u64::MAX, from, &mut into[range], |into| {
                self.beneath(unit, from, into)
            })?;
        }
        self.base.read(offset_bytes + plain as u64, &mut into[plain..])
    }

    /// Where data are in a range, and where holes: at most `extents_max` extents, from its beginning
    /// on. What waits to land counts as data.
    ///
    /// # Errors
    /// It ends beyond the volume.
    pub fn extents(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, ReadError> {
        if !self.base.holds(offset_bytes, len_bytes) {
            return Err(ReadError::OutOfRange { offset_bytes, len_bytes });
        }
        let units = touched(offset_bytes, len_bytes);
        let mut volatile: Vec<u64> = self.overlay.units().filter(|u| units.contains(u)).collect();
        volatile.sort_unstable();
        let mut volatile = volatile.into_iter().peekable();
        let mut extents: Vec<Extent> = Vec::new();
        let (end, mut at) = (offset_bytes + len_bytes, offset_bytes);
        let mut unit = units.start;
        let mut run = Run { data: false, end: unit };
        while unit < units.end {
            if run.end <= unit {
                run = self.base.run(unit, units.end);
            }
            while volatile.next_if(|&v| v < unit).is_some() {}
            let (data, to) = match volatile.peek() {
                _ if run.data => (true, run.end),
                Some(&v) if v == unit => (true, unit + 1),
                Some(&v) => (false, run.end.min(v)),
                None => (false, run.end),
            };
            let to_bytes = (to * UNIT_BYTES).min(end);
            let len_bytes = to_bytes - at;
            let room = extents.len() < extents_max;
            match extents.last_mut() {
                Some(last) if last.data == data => last.len_bytes += len_bytes,
                _ if room => extents.push(Extent { len_bytes, data }),
                _ => break,
            }
            (unit, at) = (to, to_bytes);
        }
        Ok(extents)
    }

    /// Reads every unit of the base that is held, and holds it against its sum; `corrupt` hears of
    /// each that fails. Others may read and write meanwhile.
    ///
    /// # Errors
    /// The system refuses.
    pub fn scrub(&self, mut corrupt: impl FnMut(u64)) -> Result<Scrub, ReadError> {
        let mut scrub = Scrub::default();
        let mut at = 0;
        while at < self.base.units() {
            let run = self.base.run(at, self.base.units());
            for unit in (at..run.end).filter(|_| run.data) {
                match self.base.verify(unit)? {
                    Soundness::Sound => scrub.sound_units += 1,
                    Soundness::Unknown => scrub.unknown_units += 1,
                    Soundness::Unwritten => {}
                    Soundness::Corrupt => {
                        scrub.corrupt_units += 1;
                        corrupt(unit);
                    }
                }
            }
            at = run.end;
        }
        Ok(scrub)
    }

    /// Damages the medium: of every unit that the range touches one to three bits, which follow from
    /// `seed`, are flipped in what is read back, until it is healed or written anew. What is a hole
    /// has no bits.
    pub fn corrupt(&self, range_bytes: &Range<u64>, seed: u64) {
        self.base.guard.damage(range_bytes, seed);
    }

    /// Lifts the damage to a unit: what a device does that has rebuilt it.
    pub fn heal(&self, unit: u64) {
        self.base.guard.lift(&(unit..unit + 1));
    }

    /// Lifts all damage.
    pub fn clear_corruption(&self) {
        self.base.guard.lift(&(0..u64::MAX));
    }

    /// Brings the file to where a crash of this host leaves it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn sync(&self) -> Result<(), WriteError> {
        self.base.sync()
    }

    /// Without a machine: writes, durably at once.
    ///
    /// # Errors
    /// It ends beyond the volume, there is no room, or the rest of a unit that is written in part is
    /// corrupt.
    pub fn write_now(&self, offset_bytes: u64, data: &[u8]) -> Result<(), WriteError> {
        self.alone();
        self.base.write(offset_bytes, data)
    }

    /// Without a machine: zeroes, of which whole units take no room.
    ///
    /// # Errors
    /// As [`Self::write_now`].
    pub fn zero_now(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        self.alone();
        self.base.zero(offset_bytes, len_bytes)
    }

    /// Without a machine: whole units of the range are given up, and read as zeroes.
    ///
    /// # Errors
    /// As [`Self::write_now`].
    pub fn trim_now(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        self.alone();
        self.base.trim(offset_bytes, len_bytes)
    }

    fn alone(&self) {
        debug_assert!(self.overlay.is_empty(), "a machine is followed: it writes");
    }
}
