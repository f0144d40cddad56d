//! Follows writes through the store: registration, the machine's events about the location of their data (in a cache,
//! on the medium, lost), and completion.

use super::durable::Durable;
use super::overlay::{Dropped, Kind, Payload};
use super::units::{UNIT_BYTES, covered, ends, touched};
use super::{ReadError, Store, WriteError};
use iodyno_emulate::ContentEvent;
use iodyno_units::{Op, OpKind};
use std::ops::Range;

impl Store {
    fn check_range(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        if self.base().holds(offset_bytes, len_bytes) {
            return Ok(());
        }
        Err(WriteError::OutOfRange { offset_bytes, len_bytes })
    }

    /// Registers a write before it is submitted to the machine. The store keeps a copy of the data until the
    /// write has completed and is entirely on the medium. A token must not be reused.
    ///
    /// # Errors
    /// The range exceeds the end of the volume.
    pub fn begin_write(
        &mut self,
        token: u64,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<(), WriteError> {
        self.begin(Kind::Data, token, offset_bytes, data.len() as u64, data)
    }

    /// Registers a write of zeroes, of any length, before it is submitted. The device deallocates the whole
    /// units; the partial units at both ends are zeroed at completion.
    ///
    /// # Errors
    /// Same as [`Self::begin_write`].
    pub fn begin_zeroes(
        &mut self,
        token: u64,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), WriteError> {
        self.begin(Kind::Zeroes, token, offset_bytes, len_bytes, &[])
    }

    /// Registers a trim before it is submitted. Units that it covers only partly do not change.
    ///
    /// # Errors
    /// Same as [`Self::begin_write`].
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

    /// Completes a write that the machine has completed. The machine's content events up to the completion must
    /// already have been applied.
    ///
    /// # Errors
    /// The host refused data of the write, or the write covers a part of a corrupt unit. The write has then
    /// failed, even if the machine reports success. If an acknowledged write fails later, on reaching the medium,
    /// [`Self::settle`] returns the error.
    pub fn end_write(&mut self, token: u64) -> Result<(), WriteError> {
        let Some(slot) = self.overlay.slot(token) else { return Ok(()) };
        let payload = self.overlay.payload(slot);
        let (kind, failure) = (payload.kind, payload.failure.clone());
        let (offset, len) = (payload.offset_bytes, payload.len_bytes);
        let mut outcome = failure.map_or(Ok(()), Err);
        if kind == Kind::Zeroes {
            outcome = outcome.and(self.zero_ends(slot));
        }
        self.overlay.payload_mut(slot).acknowledged = outcome.is_ok();
        self.overlay.end(slot);
        // Zeroes and trims must be durable when they end.
        if kind != Kind::Data && !self.durable.is_clear() {
            outcome = outcome.and(self.settle_range(offset, len));
        }
        outcome
    }

    /// Removes a write that has failed, or that a power cut has lost. Data that it has already changed stays
    /// changed.
    pub fn cancel_write(&mut self, token: u64) {
        if let Some(slot) = self.overlay.slot(token) {
            self.overlay.end(slot);
        }
    }

    /// Zeroes the partial units at both ends of a completed write of zeroes, in the base and in all volatile
    /// versions, unless the device has reported them.
    fn zero_ends(&mut self, slot: u32) -> Result<(), WriteError> {
        let payload = self.overlay.payload(slot);
        let (offset, len, ends_reported) =
            (payload.offset_bytes, payload.len_bytes, payload.ends_reported);
        let units = touched(offset, len);
        let mut outcome = Ok(());
        for part in ends(offset, len) {
            if !ends_reported[usize::from(part.unit != units.start)] {
                outcome = outcome.and(self.durable.zero_part(part));
                self.overlay.zero(part);
            }
        }
        outcome
    }

    /// Applies one content event of the machine, as [`Self::changes`] does for several.
    pub fn change(&mut self, change: &ContentEvent) {
        self.changes(std::slice::from_ref(change));
    }

    /// Applies the machine's content events for this volume, in order. If the host's file
    /// system fails to store bytes of a write, that write returns the error when it ends.
    pub fn changes(&mut self, changes: &[ContentEvent]) {
        let mut left = changes;
        while let [change, rest @ ..] = left {
            left = rest;
            match *change {
                ContentEvent::Accepted { unit, token, kept, .. } => {
                    let slot = self.begun(token);
                    if !kept && !self.options.emptied_by_power_failure {
                        self.overlay.accept(unit, slot);
                        continue;
                    }
                    // Consecutive units of one write are applied in one piece.
                    let follows = |(i, c): &(usize, &ContentEvent)| {
                        matches!(**c, ContentEvent::Accepted { unit: u, token: t, kept: k, .. }
                            if (u, t, k) == (unit + 1 + *i as u64, token, kept))
                    };
                    let more = rest.iter().enumerate().take_while(follows).count();
                    left = &rest[more..];
                    self.overlay.payload_mut(slot).landed += 1 + more as u32;
                    let kept = self.keep(slot, unit..unit + 1 + more as u64);
                    self.note(slot, kept);
                }
                ContentEvent::Landed { unit, token, .. } => {
                    if let Some(version) = self.overlay.lands(unit, token) {
                        self.land(unit, version);
                    }
                }
                ContentEvent::Written { unit, token, overtaken, .. } => {
                    let slot = self.begun(token);
                    self.overlay.payload_mut(slot).landed += 1;
                    let older = self.older(slot, overtaken);
                    let written = self.replace(slot, unit, older);
                    self.note(slot, written);
                }
                ContentEvent::Dropped { unit, count, token, overtaken, .. } => {
                    let slot = self.begun(token);
                    let dropped = self.drop_range(slot, unit..unit + count, overtaken);
                    self.note(slot, dropped);
                }
                ContentEvent::Torn { unit, token, until, .. } => {
                    let slot = self.begun(token);
                    let torn = self.tear(slot, unit, until.into());
                    self.note(slot, torn);
                }
                ContentEvent::PowerCut { .. } => {
                    let dropped = self.overlay.forget_all();
                    self.dropped.add(dropped);
                }
                ContentEvent::Emptied { .. } => {
                    self.overlay.forget_all();
                    let bytes = self.base().data_bytes();
                    self.dropped.add(Dropped { bytes, ..Dropped::default() });
                    // Bytes that the host refuses are stranded, and reported when they are settled.
                    let _ = self.durable.empty();
                }
                _ => unreachable!("a step of an array: {change:?}"),
            }
        }
    }

    /// Index of the write with this token, to which a content event refers. Panics if the write was not registered.
    fn begun(&self, token: u64) -> u32 {
        let slot = self.overlay.slot(token);
        slot.unwrap_or_else(|| {
            panic!("a content event has token {token}, whose write was not begun")
        })
    }

    fn note(&mut self, slot: u32, outcome: Result<(), WriteError>) {
        if let Err(why) = outcome {
            self.overlay.payload_mut(slot).failure.get_or_insert(why);
        }
    }

    /// Sequence number of the newest version that a write replaces when it reaches the medium. The write replaces
    /// all versions; if the buffer has newer data (`overtaken`), only those accepted before the write began.
    fn older(&self, slot: u32, overtaken: bool) -> u64 {
        if overtaken { self.overlay.payload(slot).begun } else { u64::MAX }
    }

    /// Writes units of an accepted write directly to the base, the durable content, because the device keeps accepted
    /// data in a power cut.
    fn keep(&mut self, slot: u32, units: Range<u64>) -> Result<(), WriteError> {
        if !self.overlay.is_empty() {
            let replace = |unit| self.replace(slot, unit, u64::MAX);
            return units.map(replace).fold(Ok(()), Result::and);
        }
        let mut outcome = Ok(());
        let payload = self.overlay.payload(slot);
        for unit in [units.start, units.end - 1] {
            let part = payload.part(unit);
            // Zeroes in flight, which the device does not report if something newer is kept, come first.
            if !part.is_whole() {
                for zeroes in self.overlay.zeroes_over(unit) {
                    outcome = outcome.and(self.durable.zero_part(zeroes));
                }
            }
        }
        let from = payload.part(units.start);
        let to = payload.part(units.end - 1);
        let bytes = &payload.bytes[from.range().start..to.range().end];
        outcome.and(self.durable.write(from.offset_bytes(), bytes))
    }

    /// Stores in the base the section of a unit that a write covers. Before it, stores the unit's volatile versions up
    /// to sequence number `older`.
    fn replace(&mut self, slot: u32, unit: u64, older: u64) -> Result<(), WriteError> {
        let part = self.overlay.payload(slot).part(unit);
        let mut written = Ok(());
        if !part.is_whole() && self.overlay.has_until(unit, older) {
            written = self.write_versions(unit, older, Some(slot));
        } else {
            written = written.and(put(&mut self.durable, self.overlay.payload(slot), unit));
        }
        self.overlay.forget_until(unit, older);
        written
    }

    /// Stores in the base the part of a write's unit below byte `until`. Before it, stores volatile versions of the
    /// unit that were accepted before the write, also up to `until`.
    fn tear(&mut self, slot: u32, unit: u64, until: usize) -> Result<(), WriteError> {
        let offset = unit * UNIT_BYTES;
        if let Some(version) = self.overlay.tears(unit, slot, until)
            && let Ok(bytes) =
                self.overlay.landed(unit, version, |into| self.beneath(unit, 0, into))
        {
            let len = (self.base().capacity_bytes - offset).min(until as u64) as usize;
            let written = self.durable.write(offset, &bytes[..len]);
            if self.overlay.ends_by(unit, version, until) {
                self.overlay.forget_until(unit, version);
            }
            return written;
        }
        let payload = self.overlay.payload(slot);
        let part = payload.part(unit);
        let bytes = &payload.bytes[part.range()];
        let len = until.clamp(part.from, part.to) - part.from;
        self.durable.write(part.offset_bytes(), &bytes[..len])
    }

    /// Reads a unit's durable content from byte `from`. Bytes beyond the end of the volume read as zeroes.
    pub(super) fn beneath(&self, unit: u64, from: usize, into: &mut [u8]) -> Result<(), ReadError> {
        let offset = unit * UNIT_BYTES + from as u64;
        let len = (self.base().capacity_bytes - offset).min(into.len() as u64) as usize;
        into[len..].fill(0);
        self.durable.read(offset, &mut into[..len])
    }

    /// Writes a unit's volatile versions up to sequence number `until` to the base, oldest first, and then the
    /// section of the write with index `last`.
    fn write_versions(
        &mut self,
        unit: u64,
        until: u64,
        last: Option<u32>,
    ) -> Result<(), WriteError> {
        let landed = self.overlay.landed(unit, until, |into| self.beneath(unit, 0, into));
        let Ok(mut bytes) = landed else {
            // The rest of the unit can't be read: each version changes only the bytes that it covers.
            let slots = self.overlay.payloads_until(unit, until).into_iter().chain(last);
            let mut outcome = Ok(());
            for slot in slots {
                outcome = outcome.and(put(&mut self.durable, self.overlay.payload(slot), unit));
            }
            if let Err(why @ WriteError::Corrupt { .. }) = &outcome {
                // Nothing is stranded: if the write is over, only the next flush can return the error.
                if !self.overlay.fail_until(unit, until, why) {
                    self.durable.note_late(why.clone());
                }
            }
            return outcome;
        };
        if let Some(slot) = last {
            let payload = self.overlay.payload(slot);
            let part = payload.part(unit);
            let to = &mut bytes[part.from..part.to];
            match payload.kind {
                Kind::Data => to.copy_from_slice(&payload.bytes[part.range()]),
                Kind::Zeroes | Kind::Trim => to.fill(0),
            }
        }
        let offset = unit * UNIT_BYTES;
        let len = (self.base().capacity_bytes - offset).min(UNIT_BYTES) as usize;
        self.durable.write(offset, &bytes[..len])
    }

    /// Writes a volatile version of a unit and all older ones to the base. Data that the host refuses stays in
    /// memory, and [`Self::settle`] reports it.
    fn land(&mut self, unit: u64, version: u64) {
        let _ = self.write_versions(unit, version, None);
        self.overlay.forget_until(unit, version);
    }

    /// Zeroes the units that the device has deallocated for a write of zeroes or a trim.
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
        let mut outcome = Ok(());
        if !whole.is_empty() {
            outcome = self.durable.drop_units(&whole);
            let replaced: Vec<u64> = if ((whole.end - whole.start) as usize) < self.overlay.len() {
                whole.filter(|&unit| self.overlay.has(unit)).collect()
            } else {
                self.overlay.units().filter(|unit| whole.contains(unit)).collect()
            };
            for unit in replaced {
                self.overlay.forget_until(unit, older);
            }
        }
        if kind == Kind::Zeroes {
            let first = touched(offset, len).start;
            for part in ends(offset, len).filter(|part| units.contains(&part.unit)) {
                outcome = outcome.and(self.replace(slot, part.unit, older));
                let ends_reported = &mut self.overlay.payload_mut(slot).ends_reported;
                ends_reported[usize::from(part.unit != first)] = true;
            }
        }
        outcome
    }

    /// Retries failed writes to the backing file. Their data would be lost if the server were killed. Must be called
    /// for each flush and at shutdown. Later servers treat any older version of the content as corrupt, even if this
    /// call returns an error.
    ///
    /// # Errors
    /// A write fails again. Or an acknowledged partial write hit a corrupt unit, which stays corrupt until it is
    /// rewritten whole; this error is returned only once.
    pub fn settle(&mut self) -> Result<(), WriteError> {
        let settled = self.durable.settle(&(0..u64::MAX));
        let late = self.durable.take_late();
        settled.and(late).and(self.base().close_generation())
    }

    /// Retries the failed writes to a range of the backing file. Called before an operation that promises durability
    /// (FUA) is acknowledged.
    ///
    /// # Errors
    /// A write to the range fails again.
    pub fn settle_range(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), WriteError> {
        if self.durable.is_clear() {
            return Ok(());
        }
        let units = touched(offset_bytes, len_bytes);
        let settled = self.durable.settle(&units);
        match settled {
            Err(WriteError::Corrupt { .. }) => settled,
            _ => {
                self.durable.trouble_in(&units).map_or(Ok(()), |why| settled.and(Err(why.clone())))
            }
        }
    }

    /// Error with which the host refused data that is still kept in memory; `None` if there is no such data.
    pub fn trouble(&self) -> Option<&WriteError> {
        self.durable.trouble()
    }

    /// Estimated memory used by data that the host refused to write, bytes.
    pub fn stranded_bytes(&self) -> u64 {
        self.durable.memory_bytes()
    }

    /// Returns the number of writes that the host (its file system or memory) refused since the last call.
    pub fn take_refusals(&mut self) -> u64 {
        self.durable.take_refusals()
    }

    /// Retries the writes that the host refused. Returns the host's error if it refuses one again; otherwise `None`.
    pub fn is_stranded(&mut self) -> Option<WriteError> {
        if self.durable.is_clear() || self.durable.settle_some() {
            return None;
        }
        self.trouble().cloned()
    }

    /// Retries the writes that the host refused, and decides whether an operation may be submitted. Returns the host's
    /// error if a write is refused again and the operation needs space on the host or could exceed `memory_bytes_max`;
    /// otherwise `None`. Must be called before each submission.
    pub fn refuses(&mut self, op: &Op, memory_bytes_max: u64) -> Option<WriteError> {
        if matches!(op.kind, OpKind::Read | OpKind::Flush) {
            return None;
        }
        self.is_stranded()?;
        let (offset, len) = (op.offset_bytes, u64::from(op.len_bytes));
        let is_taken = match op.kind {
            OpKind::Write => {
                self.durable.has_space(offset, len) && self.stranded_bytes() < memory_bytes_max
            }
            // These free space; if refused, they take little memory.
            _ => self.stranded_bytes() < 2 * memory_bytes_max,
        };
        if is_taken { None } else { self.trouble().cloned() }
    }
}

/// Stores the section of a unit that the payload covers, as durable content.
fn put(durable: &mut Durable, payload: &Payload, unit: u64) -> Result<(), WriteError> {
    let part = payload.part(unit);
    match payload.kind {
        Kind::Data => durable.write(part.offset_bytes(), &payload.bytes[part.range()]),
        Kind::Zeroes | Kind::Trim => durable.zero_part(part),
    }
}
