//! How a store follows the machine: writes that begin and end, and what becomes of them meanwhile.

use super::overlay::Kind;
use super::units::{UNIT, UNIT_BYTES, covered, ends, touched};
use super::{ReadError, Store, WriteError};
use iodyno_emulate::Change;
use std::ops::Range;

impl Store {
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
    pub(super) fn beneath(&self, unit: u64, from: usize, into: &mut [u8]) -> Result<(), ReadError> {
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
            for unit in replaced {
                self.settled(unit, older);
            }
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
        self.land_again(0..u64::MAX);
        self.trouble().map_or(Ok(()), |why| Err(why.clone()))
    }

    /// The same for a range: what a forced write must know of its own units before it is acknowledged.
    ///
    /// # Errors
    /// Something in the range has landed and can't be written.
    pub fn settle_range(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        let units = touched(offset_bytes, len_bytes);
        self.land_again(units.clone());
        let stranded = self.stranded.range(units).next();
        stranded.map_or(Ok(()), |(_, (_, why))| Err(why.clone()))
    }

    fn land_again(&mut self, units: Range<u64>) {
        let stranded: Vec<(u64, u64)> =
            self.stranded.range(units).map(|(&u, s)| (u, s.0)).collect();
        for (unit, version) in stranded {
            self.land(unit, version);
        }
    }

    /// Why something that has landed could not be written; None: all is well.
    pub fn trouble(&self) -> Option<&WriteError> {
        let stranded = self.stranded.first_key_value().map(|(_, (_, why))| why);
        self.not_emptied.as_ref().or(stranded)
    }
}
