//! The bytes that a power cut loses: the payloads of writes in flight, and the versions of units that a
//! volatile buffer has accepted and that are not on the medium.
//!
//! A version is a part of a payload, not a merged unit: a read puts the parts over the medium's bytes in the
//! order of acceptance. So a write of some sectors that lands late changes those alone, whatever a newer write
//! of other sectors of the unit does meanwhile. A payload's bytes are kept until the write has ended and no
//! version is left of them. Memory is bounded by the device's buffer and the operations in flight (a payload is
//! kept whole while one unit of it waits). Buffers are reused.

use super::error::WriteError;
use super::units::{Part, UNIT, touched};
use std::collections::HashMap;

const NIL: u32 = u32::MAX;
/// A longer buffer is not kept for the next payload.
const POOLED_BYTES_MAX: usize = 128 << 10;

/// The content of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes.
    Data,
    /// Zeroes over all of the range.
    Zeroes,
    /// Zeroes over what the device drops of it.
    Trim,
}

/// What a power cut takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Acknowledged writes of which something is lost. (Not counted where a volume is emptied.)
    pub writes: u64,
    /// Bytes of them that are lost; all that it held where a volume is emptied.
    pub bytes: u64,
    /// Writes, acknowledged or not, of which some units were on the medium and others are lost.
    pub torn: u64,
}

impl Dropped {
    /// Adds what another power cut takes.
    pub fn add(&mut self, more: Self) {
        let Self { writes, bytes, torn } = more;
        self.writes += writes;
        self.bytes += bytes;
        self.torn += torn;
    }
}

/// A write that was begun, and has not ended or has versions left.
#[derive(Debug)]
pub(super) struct Payload {
    pub token: u64,
    pub kind: Kind,
    pub offset_bytes: u64,
    pub len_bytes: u64,
    /// Of data.
    pub bytes: Vec<u8>,
    /// How many versions had been accepted when it began: those that it is certain to follow.
    pub begun: u64,
    /// The first error.
    pub failure: Option<WriteError>,
    /// Of zeroes: whether the device has reported the units at either end.
    pub ends_reported: [bool; 2],
    /// Its units that came to the medium.
    pub landed: u32,
    pub acknowledged: bool,
    versions: u32,
    open: bool,
}

impl Payload {
    /// The part of a unit that it covers.
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

/// The versions of one unit, from the oldest to the newest.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: u32,
    last: u32,
}

/// The versions and payloads; see the module.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    payloads: Vec<Payload>,
    payloads_free: Vec<u32>,
    by_token: HashMap<u64, u32>,
    versions: Vec<Version>,
    versions_free: Vec<u32>,
    chains: HashMap<u64, Chain>,
    accepted: u64,
    /// Writes of zeroes and trims in flight, oldest first.
    zeroes: Vec<u32>,
}

impl Overlay {
    /// A write begins.
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
            acknowledged: false,
            versions: 0,
            open: true,
        };
        let former = self.by_token.insert(token, slot);
        assert!(former.is_none(), "token {token} is that of a write that is not over");
        if kind != Kind::Data {
            self.zeroes.push(slot);
        }
    }

    /// The write that a token denotes.
    pub(super) fn slot(&self, token: u64) -> Option<u32> {
        self.by_token.get(&token).copied()
    }

    pub(super) fn payload(&self, slot: u32) -> &Payload {
        &self.payloads[slot as usize]
    }

    pub(super) fn payload_mut(&mut self, slot: u32) -> &mut Payload {
        &mut self.payloads[slot as usize]
    }

    /// The parts of a unit that writes of zeroes and trims in flight cover, oldest first. (A trim is of whole
    /// units.)
    pub(super) fn zeroes_over(&self, unit: u64) -> impl Iterator<Item = Part> {
        let payloads = self.zeroes.iter().map(|&slot| self.payload(slot));
        payloads.filter_map(move |payload| {
            let part = payload.part(unit);
            let zeroes =
                if payload.kind == Kind::Trim { part.is_whole() } else { part.from < part.to };
            zeroes.then_some(part)
        })
    }

    /// The write is over: its payload is dropped, or stays as long as its versions do.
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

    /// No unit has a version.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Number of units that have a version.
    pub(super) fn len(&self) -> usize {
        self.chains.len()
    }

    /// The units that have one, in no order.
    pub(super) fn units(&self) -> impl Iterator<Item = u64> {
        self.chains.keys().copied()
    }

    pub(super) fn has(&self, unit: u64) -> bool {
        self.chains.contains_key(&unit)
    }

    /// The unit has a new version.
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

    /// A unit's versions, oldest first.
    fn chain(&self, unit: u64) -> impl Iterator<Item = &Version> {
        let mut at = self.chains.get(&unit).map_or(NIL, |c| c.first);
        std::iter::from_fn(move || {
            let version = self.versions.get(at as usize)?;
            at = version.next;
            Some(version)
        })
    }

    /// A token's version of a unit comes to the medium; gives its number.
    pub(super) fn lands(&mut self, unit: u64, token: u64) -> Option<u64> {
        let version = self.chain(unit).find(|v| self.payload(v.payload).token == token)?;
        let (slot, sequence) = (version.payload, version.sequence);
        self.payload_mut(slot).landed += 1;
        Some(sequence)
    }

    /// Whether a unit has a version not newer than number `until`.
    pub(super) fn has_until(&self, unit: u64, until: u64) -> bool {
        self.chain(unit).next().is_some_and(|v| v.sequence <= until)
    }

    /// The content of a unit from byte `from` on, where versions newer than number `until` don't count;
    /// `beneath` gives the medium's bytes, where they show.
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

    /// Drops a unit's versions up to number `until`.
    pub(super) fn forget_until(&mut self, unit: u64, until: u64) {
        let Some(mut chain) = self.chains.get(&unit).copied() else { return };
        while chain.first != NIL && self.versions[chain.first as usize].sequence <= until {
            chain.first = self.free(chain.first);
        }
        self.put_back(unit, chain);
    }

    /// Drops all versions, and counts what is lost.
    pub(super) fn forget_all(&mut self) -> Dropped {
        let mut dropped = Dropped::default();
        for payload in self.payloads.iter().filter(|p| p.open || p.versions > 0) {
            let units = touched(payload.offset_bytes, payload.len_bytes);
            let in_part = (1..units.end - units.start).contains(&u64::from(payload.landed));
            dropped.torn += u64::from(in_part);
            dropped.writes += u64::from(payload.acknowledged);
        }
        for (unit, chain) in std::mem::take(&mut self.chains) {
            let mut at = chain.first;
            while at != NIL {
                let payload = self.payload(self.versions[at as usize].payload);
                if payload.acknowledged {
                    dropped.bytes += payload.part(unit).range().len() as u64;
                }
                at = self.free(at);
            }
        }
        dropped
    }

    /// The payloads of a unit's versions up to number `until`, oldest first.
    pub(super) fn payloads_until(&self, unit: u64, until: u64) -> Vec<u32> {
        self.chain(unit).take_while(|v| v.sequence <= until).map(|v| v.payload).collect()
    }

    /// Fails the writes in flight that have versions up to number `until` of a unit. True: all that have such
    /// versions are in flight.
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

    /// Frees a version; gives the next one.
    fn free(&mut self, at: u32) -> u32 {
        let Version { payload, next, .. } = self.versions[at as usize];
        self.versions_free.push(at);
        self.payloads[payload as usize].versions -= 1;
        self.release(payload);
        next
    }

    /// Zeroes a part of a unit, in all its versions.
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

    /// A unit as it is once the versions up to number `until` have landed.
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
