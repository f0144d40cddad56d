//! Bytes that a power cut loses: payloads of writes in flight, and versions of units that a volatile buffer has
//! accepted but that are not on the medium.
//!
//! A version is a part of a payload, not a merged unit: a read lays the parts over the medium's bytes in the order of
//! acceptance. A late write of some sectors of a unit thus does not undo a newer write of other sectors. A payload is
//! kept whole until its write has ended and each of its units is on the medium or superseded. The device's buffer and
//! the operations in flight bound the memory.

use super::error::WriteError;
use super::units::{Part, UNIT, touched};
use std::collections::HashMap;

const NIL: u32 = u32::MAX;
/// Maximum size of a payload buffer that is kept for reuse, bytes.
const POOLED_BYTES_MAX: usize = 128 << 10;

/// Content that a write stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The data of the write's payload.
    Data,
    /// Zeroes in the whole range.
    Zeroes,
    /// Zeroes, but only in the whole units that the device deallocates.
    Trim,
}

/// Data that a volume lost in power cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Number of acknowledged writes that lost data. Not counted when unprotected memory loses power.
    pub writes: u64,
    /// Lost data of acknowledged writes, bytes. When unprotected memory loses power, the whole content of the
    /// volume.
    pub bytes: u64,
    /// Number of torn writes, acknowledged or not. A part of each reached the medium; the rest is lost.
    pub torn: u64,
}

impl Dropped {
    /// Adds the losses of another power cut.
    pub fn add(&mut self, more: Self) {
        let Self { writes, bytes, torn } = more;
        self.writes += writes;
        self.bytes += bytes;
        self.torn += torn;
    }
}

/// Data and state of a write that is in flight, or of which some units have not reached the medium.
#[derive(Debug)]
pub(super) struct Payload {
    pub token: u64,
    pub kind: Kind,
    pub offset_bytes: u64,
    pub len_bytes: u64,
    /// Data to write; empty for zeroes and trims.
    pub bytes: Vec<u8>,
    /// Sequence number of the last unit version accepted before this write began. Versions up to this number are older
    /// than the write.
    pub begun: u64,
    /// First error of the write, if any.
    pub failure: Option<WriteError>,
    /// For a write of zeroes: whether a content event has zeroed the partial unit at the start of the range, and the
    /// one at the end. A partial unit without such an event is zeroed at completion.
    pub ends_reported: [bool; 2],
    /// Number of the write's 4 KiB units that reached the medium.
    pub landed: u32,
    /// Whether one of the write's 4 KiB units has reached the medium only in part.
    pub torn: bool,
    pub acknowledged: bool,
    versions: u32,
    open: bool,
}

impl Payload {
    /// Section of a unit that the write covers.
    pub(super) fn part(&self, unit: u64) -> Part {
        Part::of(unit, self.offset_bytes, self.len_bytes)
    }
}

#[derive(Debug)]
struct Version {
    payload: u32,
    sequence: u64,
    next: u32,
}

/// Linked list of the volatile versions of one unit, from oldest to newest.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: u32,
    last: u32,
}

/// Volatile content of a volume: writes in flight, and versions of units that have not reached the medium.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    payloads: Vec<Payload>,
    payloads_free: Vec<u32>,
    by_token: HashMap<u64, u32>,
    versions: Vec<Version>,
    versions_free: Vec<u32>,
    chains: HashMap<u64, Chain>,
    accepted: u64,
    /// Writes of zeroes and trims in flight, oldest first, as indices into `payloads`.
    zeroes: Vec<u32>,
    /// Units torn by a power cut that is not yet processed. For each: the sequence number of the version that is on the
    /// medium in part, and the byte at which that part ends.
    torn: HashMap<u64, (u64, usize)>,
}

impl Overlay {
    /// Registers a write that is about to be submitted, with a copy of its data.
    pub(super) fn begin(
        &mut self,
        kind: Kind,
        token: u64,
        offset_bytes: u64,
        len_bytes: u64,
        data: &[u8],
    ) {
        let slot = self.payloads_free.pop().unwrap_or_else(|| {
            self.payloads.push(Payload {
                token,
                kind,
                offset_bytes,
                len_bytes,
                bytes: Vec::new(),
                begun: 0,
                failure: None,
                ends_reported: [false; 2],
                landed: 0,
                torn: false,
                acknowledged: false,
                versions: 0,
                open: true,
            });
            self.payloads.len() as u32 - 1
        });
        let payload = &mut self.payloads[slot as usize];
        let mut bytes = std::mem::take(&mut payload.bytes);
        bytes.clear();
        bytes.extend_from_slice(data);
        *payload = Payload {
            token,
            kind,
            offset_bytes,
            len_bytes,
            bytes,
            begun: self.accepted,
            failure: None,
            ends_reported: [false; 2],
            landed: 0,
            torn: false,
            acknowledged: false,
            versions: 0,
            open: true,
        };
        let former = self.by_token.insert(token, slot);
        assert!(former.is_none(), "token {token} is still used by another write");
        if kind != Kind::Data {
            self.zeroes.push(slot);
        }
    }

    /// Index in `payloads` of the write with this token; `None` if the write is over and none of its units wait
    /// in the overlay.
    pub(super) fn slot(&self, token: u64) -> Option<u32> {
        self.by_token.get(&token).copied()
    }

    pub(super) fn payload(&self, slot: u32) -> &Payload {
        &self.payloads[slot as usize]
    }

    pub(super) fn payload_mut(&mut self, slot: u32) -> &mut Payload {
        &mut self.payloads[slot as usize]
    }

    /// Sections of a unit that will be zeroed by the writes of zeroes and trims in flight, oldest first. A trim counts
    /// only if it covers the whole unit.
    pub(super) fn zeroes_over(&self, unit: u64) -> impl Iterator<Item = Part> {
        let payloads = self.zeroes.iter().map(|&slot| self.payload(slot));
        payloads.filter_map(move |payload| {
            let part = payload.part(unit);
            let zeroes =
                if payload.kind == Kind::Trim { part.is_whole() } else { part.from < part.to };
            zeroes.then_some(part)
        })
    }

    /// Marks a write as completed. Its payload is freed once each of its units has reached the medium or is
    /// superseded.
    pub(super) fn end(&mut self, slot: u32) {
        self.payloads[slot as usize].open = false;
        if self.payloads[slot as usize].kind != Kind::Data {
            self.zeroes.retain(|&s| s != slot);
        }
        self.release(slot);
    }

    fn release(&mut self, slot: u32) {
        let payload = &mut self.payloads[slot as usize];
        if payload.open || payload.versions > 0 {
            return;
        }
        if payload.bytes.capacity() > POOLED_BYTES_MAX {
            payload.bytes = Vec::new();
        }
        self.by_token.remove(&payload.token);
        self.payloads_free.push(slot);
    }

    /// Whether no unit has volatile content.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Number of units with volatile content.
    pub(super) fn len(&self) -> usize {
        self.chains.len()
    }

    /// Units with volatile content, in no particular order.
    pub(super) fn units(&self) -> impl Iterator<Item = u64> {
        self.chains.keys().copied()
    }

    pub(super) fn has(&self, unit: u64) -> bool {
        self.chains.contains_key(&unit)
    }

    /// Adds a volatile version to a unit: the section of the unit that the write with index `slot` covers.
    pub(super) fn accept(&mut self, unit: u64, slot: u32) {
        self.accepted += 1;
        let version = Version { payload: slot, sequence: self.accepted, next: NIL };
        let at = if let Some(at) = self.versions_free.pop() {
            self.versions[at as usize] = version;
            at
        } else {
            self.versions.push(version);
            self.versions.len() as u32 - 1
        };
        self.payloads[slot as usize].versions += 1;
        let chain = self.chains.entry(unit).or_insert(Chain { first: at, last: NIL });
        let last = std::mem::replace(&mut chain.last, at);
        if last != NIL {
            self.versions[last as usize].next = at;
        }
    }

    /// Iterates over the volatile versions of a unit, oldest first.
    fn chain(&self, unit: u64) -> impl Iterator<Item = &Version> {
        let mut at = self.chains.get(&unit).map_or(NIL, |c| c.first);
        std::iter::from_fn(move || {
            let version = self.versions.get(at as usize)?;
            at = version.next;
            Some(version)
        })
    }

    /// Counts a unit of a write as on the medium. Returns the sequence number of the write's version of the unit, or
    /// `None` if it has none.
    pub(super) fn lands(&mut self, unit: u64, token: u64) -> Option<u64> {
        let version = self.chain(unit).find(|v| self.payload(v.payload).token == token)?;
        let (slot, sequence) = (version.payload, version.sequence);
        self.payload_mut(slot).landed += 1;
        Some(sequence)
    }

    /// Counts the bytes below `until` of a write's unit as on the medium. Returns the sequence number of the write's
    /// version of the unit, or `None` if it has none.
    pub(super) fn tears(&mut self, unit: u64, slot: u32, until: usize) -> Option<u64> {
        let payload = self.payload_mut(slot);
        let part = payload.part(unit);
        payload.torn |= part.from < until && until < part.to;
        payload.landed += u32::from(part.to <= until);
        let sequence = self.chain(unit).find(|v| v.payload == slot)?.sequence;
        self.torn.insert(unit, (sequence, until));
        Some(sequence)
    }

    /// Whether all volatile versions of a unit with sequence numbers up to `sequence` end at the byte `until` or
    /// before.
    pub(super) fn ends_by(&self, unit: u64, sequence: u64, until: usize) -> bool {
        let mut versions = self.chain(unit).take_while(|v| v.sequence <= sequence);
        versions.all(|v| self.payload(v.payload).part(unit).to <= until)
    }

    /// Whether a unit has a volatile version with a sequence number of at most `until`.
    pub(super) fn has_until(&self, unit: u64, until: u64) -> bool {
        self.chain(unit).next().is_some_and(|v| v.sequence <= until)
    }

    /// Fills `into` with the unit's content from byte `from` on: the medium's, overlaid with the volatile versions up to
    /// sequence number `until`. Calls `beneath` to read the medium, unless a single version covers all of `into`.
    pub(super) fn compose<E>(
        &self,
        unit: u64,
        until: u64,
        from: usize,
        into: &mut [u8],
        beneath: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let to = from + into.len();
        let versions = || self.chain(unit).take_while(|v| v.sequence <= until).map(|v| v.payload);
        let covers = |part: Part| part.from <= from && to <= part.to;
        let skipped = versions().enumerate().filter(|&(_, p)| covers(self.payload(p).part(unit)));
        let first = skipped.last().map(|(i, _)| i);
        if first.is_none() {
            beneath(into)?;
        }
        for slot in versions().skip(first.unwrap_or(0)) {
            let payload = self.payload(slot);
            let part = payload.part(unit);
            let (a, b) = (part.from.max(from), part.to.min(to));
            if a < b {
                let at = part.at as usize + a - part.from;
                into[a - from..b - from].copy_from_slice(&payload.bytes[at..at + b - a]);
            }
        }
        Ok(())
    }

    /// Discards a unit's volatile versions with sequence numbers up to `until`.
    pub(super) fn forget_until(&mut self, unit: u64, until: u64) {
        let Some(mut chain) = self.chains.get(&unit).copied() else { return };
        while chain.first != NIL && self.versions[chain.first as usize].sequence <= until {
            chain.first = self.free(chain.first);
        }
        self.put_back(unit, chain);
    }

    /// Discards all volatile versions, as a power cut does, and counts the losses.
    pub(super) fn forget_all(&mut self) -> Dropped {
        let mut dropped = Dropped::default();
        for payload in self.payloads.iter().filter(|p| p.open || p.versions > 0) {
            let units = touched(payload.offset_bytes, payload.len_bytes);
            let in_part = (1..units.end - units.start).contains(&u64::from(payload.landed));
            dropped.torn += u64::from(in_part || payload.torn);
            dropped.writes += u64::from(payload.acknowledged);
        }
        let torn = std::mem::take(&mut self.torn);
        for (unit, chain) in std::mem::take(&mut self.chains) {
            let torn = torn.get(&unit).copied();
            let mut at = chain.first;
            while at != NIL {
                let version = &self.versions[at as usize];
                let payload = self.payload(version.payload);
                if payload.acknowledged {
                    let part = payload.part(unit);
                    let kept =
                        torn.filter(|torn| version.sequence <= torn.0).map_or(0, |torn| torn.1);
                    dropped.bytes += part.to.saturating_sub(part.from.max(kept)) as u64;
                }
                at = self.free(at);
            }
        }
        dropped
    }

    /// Indices of the writes with a version of a unit up to sequence number `until`, oldest first.
    pub(super) fn payloads_until(&self, unit: u64, until: u64) -> Vec<u32> {
        self.chain(unit).take_while(|v| v.sequence <= until).map(|v| v.payload).collect()
    }

    /// Sets the error of all writes with a version of a unit up to sequence number `until`. Returns true if these
    /// writes are all in flight, so that each can still report the error.
    pub(super) fn fail_until(&mut self, unit: u64, until: u64, why: &WriteError) -> bool {
        let mut all = true;
        for slot in self.payloads_until(unit, until) {
            let payload = self.payload_mut(slot);
            all &= payload.open;
            payload.failure.get_or_insert_with(|| why.clone());
        }
        all
    }

    fn put_back(&mut self, unit: u64, chain: Chain) {
        if chain.first == NIL {
            self.chains.remove(&unit);
        } else {
            self.chains.insert(unit, chain);
        }
    }

    /// Frees a version of a unit. Returns the index of the next version.
    fn free(&mut self, at: u32) -> u32 {
        let Version { payload, next, .. } = self.versions[at as usize];
        self.versions_free.push(at);
        self.payloads[payload as usize].versions -= 1;
        self.release(payload);
        next
    }

    /// Zeroes a section of a unit in all its volatile versions.
    pub(super) fn zero(&mut self, part: Part) {
        let slots: Vec<u32> = self.chain(part.unit).map(|v| v.payload).collect();
        for slot in slots {
            let payload = &mut self.payloads[slot as usize];
            let held = payload.part(part.unit);
            let (a, b) = (part.from.max(held.from), part.to.min(held.to));
            if a < b {
                let at = held.at as usize + a - held.from;
                payload.bytes[at..at + b - a].fill(0);
            }
        }
    }

    /// Content that a unit will have once its volatile versions up to sequence number `until` are on the medium.
    pub(super) fn landed<E>(
        &self,
        unit: u64,
        until: u64,
        beneath: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<[u8; UNIT], E> {
        let mut bytes = [0; UNIT];
        self.compose(unit, until, 0, &mut bytes, beneath)?;
        Ok(bytes)
    }
}
