//! A read cache: a fast device holds 4 KiB units of a larger device or array, the backing. The cache runs in the host
//! and models bcache in `writethrough` mode (Linux, `Documentation/admin-guide/bcache.rst`) with LRU replacement. A
//! write ends when both the fast device and the backing have it. The cache itself takes no time.
//!
//! Two properties differ from bcache. The cache admits every missed or written unit: it does not bypass long
//! sequential streams. Its metadata is volatile, so a power cut empties it. Since cached data is also on the backing,
//! no data is lost.
//!
//! ```text
//! read    all units held ─▶ fast device ───────────────────────▶ host
//!         else           ─▶ backing ───────────────────────────▶ host
//!                                 └ later: the units ─▶ fast device
//! write   ─▶ backing ───┬──────────────────────────────────────▶ host
//!         ─▶ fast device┘
//! ```
//!
//! A unit is not held while it is being written. It is not held after overlapping writes either, because the backing
//! may execute them in any order.

mod held;

use crate::content_event::{ContentEvent, UNIT_BYTES};
use crate::core::Core;
use crate::part_id::PartId;
use crate::read_cache_counts::ReadCacheCounts;
use crate::request::{NIL, Origin, Request, State};
use crate::spec::{self, Preconditioned, Written};
use crate::store::{Keeps, Store};
use crate::usage::{Of, Phase, Resource};
use held::{Held, Slot};
use iodyno_units::{IoError, Op, OpKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Maximum number of units that are being written to the fast device after misses. Further misses are not
/// cached, as bcache bypasses a congested device.
const ADMISSIONS_MAX: u64 = 256;

/// Kind of a request, which determines its operations on the fast device and the backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A read from the fast device.
    Hit,
    /// A read from the backing, the device or array that is cached.
    Miss,
    /// A write to both the fast device and the backing.
    Write,
    /// A trim, zeroing or flush, which is sent to the backing only.
    Pass,
    /// An internal write of missed units to the fast device.
    Admit,
}

/// A request of the read cache in progress.
#[derive(Clone, Debug)]
struct Open {
    step: Step,
    units: Range<u64>,
    /// Units read or written on the fast device, each with its location there.
    slots: Vec<(u64, Slot)>,
    /// Units that were written while the request was in progress. The request's data of these units must not be
    /// cached.
    stale: BTreeSet<u64>,
    /// Whether an operation of the request has failed on the fast device; whether one has failed on the backing.
    failed: (bool, bool),
}

/// A read cache as a component of the machine: a fast device in front of a backing device or array.
#[derive(Clone, Debug)]
pub(crate) struct ReadCache {
    part: PartId,
    fast: PartId,
    backing: PartId,
    capacity_bytes: u64,
    is_lost: bool,
    held: Held,
    open: BTreeMap<u32, Open>,
    /// Number of units that are being written to the fast device after misses.
    admissions: u64,
    /// Number of writes in progress, for each unit that is being written.
    writing: BTreeMap<u64, u32>,
    counts: ReadCacheCounts,
    /// Total time of hits, of misses and of writes since the start, ns.
    times_ns: [u64; 3],
    writes: u64,
}

/// Returns two ranges of 4 KiB units: those that a request covers in full or in part, and those that it covers in full.
fn units(request: &Request) -> (Range<u64>, Range<u64>) {
    let (from, to) = (request.at, request.at + u64::from(request.len));
    (from / UNIT_BYTES..to.div_ceil(UNIT_BYTES), from.div_ceil(UNIT_BYTES)..to / UNIT_BYTES)
}

impl ReadCache {
    pub(crate) fn new(spec: &spec::ReadCache, part: PartId, before: &Preconditioned) -> Self {
        let mut held = Held::new(spec.bytes / UNIT_BYTES);
        let units = (spec.capacity_bytes as f64 * before.fill) as u64 / UNIT_BYTES;
        match before.how {
            Written::Fresh => {}
            Written::Sequential => held.begin_with_last(units),
            Written::Random { .. } | Written::RandomWithin { .. } => held.begin_with_sample(units),
        }
        Self {
            part,
            fast: spec.fast,
            backing: spec.backing,
            capacity_bytes: spec.capacity_bytes,
            is_lost: false,
            held,
            open: BTreeMap::new(),
            admissions: 0,
            writing: BTreeMap::new(),
            counts: ReadCacheCounts::default(),
            times_ns: [0; 3],
            writes: 0,
        }
    }

    /// Processes a request's next event, according to the request's state.
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        let request = &core.slab[slot];
        match (request.state, request.internal) {
            (State::Issued, false) => self.issued(core, slot),
            (State::Done, false) => {
                let failed = request.failed;
                core.complete(slot, failed.then_some(IoError::Io));
            }
            (state, _) => unreachable!("unexpected event of a read cache in state {state:?}"),
        }
    }

    /// Accepts a request from a host or another component.
    fn issued(&mut self, core: &mut Core, slot: u32) {
        let now_ns = core.now;
        let request = &mut core.slab[slot];
        (request.state, request.entered_ns) = (State::Waiting, now_ns);
        let (kind, (touched, whole)) = (request.kind, units(request));
        if kind != OpKind::Flush && request.at + u64::from(request.len) > self.capacity_bytes {
            core.complete(slot, Some(IoError::OutOfRange));
            return;
        }
        match kind {
            OpKind::Read => {
                if let Some(values) = &mut core.values {
                    values.set(slot, vec![0; (touched.end - touched.start) as usize]);
                }
                let is_hit = touched.clone().all(|unit| self.held.holds(unit));
                if is_hit && !self.is_lost {
                    self.counts.hits += 1;
                    self.hit(core, slot, touched);
                } else {
                    self.counts.misses += 1;
                    self.ask_backing(core, slot, Step::Miss, touched);
                }
            }
            OpKind::Flush => self.ask_backing(core, slot, Step::Pass, 0..0),
            _ => {
                for unit in touched.clone() {
                    *self.writing.entry(unit).or_default() += 1;
                    self.held.remove(unit);
                }
                for open in self.open.values_mut() {
                    let both = open.units.start.max(touched.start)..open.units.end.min(touched.end);
                    open.stale.extend(both);
                }
                let is_write = kind == OpKind::Write;
                let step = if is_write { Step::Write } else { Step::Pass };
                self.ask_backing(core, slot, step, touched);
                if is_write && !self.is_lost {
                    // Units of overlapping writes stay out of the cache.
                    let alone = whole.filter(|unit| self.writing[unit] == 1);
                    let slots = alone.map_while(|unit| Some((unit, self.held.reserve()?)));
                    let slots: Vec<(u64, Slot)> = slots.collect();
                    self.ask_fast(core, slot, OpKind::Write, &slots);
                    self.open.get_mut(&slot).expect("it began").slots = slots;
                }
            }
        }
    }

    /// Serves a read whose units are all cached.
    fn hit(&mut self, core: &mut Core, slot: u32, units: Range<u64>) {
        let slots: Vec<(u64, Slot)> =
            units.clone().map(|unit| (unit, self.held.touch(unit))).collect();
        for &(_, slot) in &slots {
            self.held.read_begins(slot);
        }
        self.ask_fast(core, slot, OpKind::Read, &slots);
        let (stale, failed) = (BTreeSet::new(), (false, false));
        self.open.insert(slot, Open { step: Step::Hit, units, slots, stale, failed });
    }

    fn ask_backing(&mut self, core: &mut Core, slot: u32, step: Step, units: Range<u64>) {
        // A read during a write may return the old data.
        let is_written = |unit: &u64| step == Step::Miss && self.writing.contains_key(unit);
        let stale: BTreeSet<u64> = units.clone().filter(is_written).collect();
        let failed = (false, false);
        self.open.insert(slot, Open { step, units, slots: Vec::new(), stale, failed });
        let (op, token) = (core.slab[slot].op(), core.slab[slot].token);
        core.slab[slot].pending += 1;
        let child = core.ask(self.backing, slot, &op, token);
        match op.kind {
            OpKind::Write => give(core, slot, child, units_of(&op)),
            OpKind::Trim | OpKind::WriteZeroes => clear(core, child),
            OpKind::Read | OpKind::Flush => {}
        }
    }

    /// Reads or writes units on the fast device, with one operation for each run of adjoining locations.
    fn ask_fast(&self, core: &mut Core, slot: u32, kind: OpKind, slots: &[(u64, Slot)]) {
        let request = &core.slab[slot];
        let (from, to) = (request.at, request.at + u64::from(request.len));
        let token = request.token;
        let is_next = |a: &(u64, Slot), b: &(u64, Slot)| (a.0 + 1, a.1 + 1) == *b;
        for run in slots.chunk_by(is_next) {
            let ((first, place), count) = (run[0], run.len() as u64);
            let begin = from.max(first * UNIT_BYTES);
            let end = to.min((first + count) * UNIT_BYTES);
            let offset_bytes = place * UNIT_BYTES + (begin - first * UNIT_BYTES);
            let op = Op { offset_bytes, len_bytes: (end - begin) as u32, kind, fua: false };
            core.slab[slot].pending += 1;
            // The token of a read is its first unit.
            let token = if kind == OpKind::Read { first } else { token };
            let child = core.ask(self.fast, slot, &op, token);
            if kind == OpKind::Write {
                give(core, slot, child, first..first + count);
            }
        }
    }

    /// Processes the completion of an operation on the fast device or the backing.
    pub(crate) fn child_completed(
        &mut self,
        core: &mut Core,
        parent: u32,
        child: u32,
        failure: Option<IoError>,
    ) {
        let is_fast = core.slab[child].part == self.fast;
        let open = self.open.get_mut(&parent).expect("it is under way");
        let failed = if is_fast { &mut open.failed.0 } else { &mut open.failed.1 };
        *failed |= failure.is_some();
        if core.slab[child].kind == OpKind::Read && failure.is_none() {
            receive(core, parent, child, is_fast);
        }
        core.slab[parent].pending -= 1;
        if core.slab[parent].pending > 0 {
            return;
        }
        let open = self.open.remove(&parent).expect("it is under way");
        match open.step {
            Step::Hit => self.hit_ended(core, parent, &open),
            Step::Miss => {
                self.end(core, parent, 1, open.failed.1);
                if !open.failed.1 && !self.is_lost {
                    self.admit(core, parent, &open);
                }
                return_names(core, parent, open.failed.1);
            }
            Step::Write | Step::Pass => {
                self.written(core, parent, &open);
                self.end(core, parent, 2, open.failed.1);
            }
            Step::Admit => {
                self.admissions -= open.slots.len() as u64;
                self.keep(&open, !open.failed.0);
                core.slab.remove(parent);
            }
        }
    }

    /// Processes the end of a hit. If the fast device failed, reads the same data from the backing.
    fn hit_ended(&mut self, core: &mut Core, slot: u32, open: &Open) {
        for &(_, place) in &open.slots {
            self.held.read_ended(place);
        }
        if !open.failed.0 {
            self.end(core, slot, 0, false);
            return_names(core, slot, false);
            return;
        }
        open.units.clone().for_each(|unit| self.held.remove(unit));
        self.ask_backing(core, slot, Step::Miss, open.units.clone());
    }

    /// Processes the end of a write. Caches its units, unless the write failed or overlapped another write.
    fn written(&mut self, core: &Core, slot: u32, open: &Open) {
        for unit in open.units.clone() {
            let count = self.writing.get_mut(&unit).expect("it is written");
            *count -= 1;
            if *count == 0 {
                self.writing.remove(&unit);
            }
        }
        self.writes += u64::from(core.slab[slot].kind == OpKind::Write);
        self.keep(open, open.failed == (false, false));
    }

    /// Writes the units of a missed read to the fast device, as far as [`ADMISSIONS_MAX`] and the free slots allow.
    fn admit(&mut self, core: &mut Core, read: u32, open: &Open) {
        let whole = units(&core.slab[read]).1;
        if self.admissions + (whole.end.saturating_sub(whole.start)) > ADMISSIONS_MAX {
            return;
        }
        let wanted: Vec<u64> = whole
            .filter(|unit| !open.stale.contains(unit) && !self.writing.contains_key(unit))
            .filter(|&unit| !self.held.holds(unit))
            .collect();
        let reserved = wanted.into_iter().map_while(|unit| Some((unit, self.held.reserve()?)));
        let slots: Vec<(u64, Slot)> = reserved.collect();
        if slots.is_empty() {
            return;
        }
        self.admissions += slots.len() as u64;
        let own = core.add(self.part);
        let (at, len) = (core.slab[read].at, core.slab[read].len);
        let request = &mut core.slab[own];
        (request.internal, request.origin, request.parent) = (true, Origin::Own, NIL);
        (request.at, request.len, request.kind) = (at, len, OpKind::Write);
        request.state = State::Waiting;
        if let Some(values) = &mut core.values
            && let Some(read) = values.of_mut(read).cloned()
        {
            values.set(own, read);
        }
        self.ask_fast(core, own, OpKind::Write, &slots);
        if let Some(values) = &mut core.values {
            values.take(own);
        }
        let (stale, failed) = (BTreeSet::new(), (false, false));
        let units = open.units.clone();
        self.open.insert(own, Open { step: Step::Admit, units, slots, stale, failed });
    }

    /// Adds units to the cache after they were written to the fast device, unless that failed or the host has
    /// written them again in the meantime.
    fn keep(&mut self, open: &Open, is_written: bool) {
        for &(unit, slot) in &open.slots {
            let is_current = !open.stale.contains(&unit) && !self.writing.contains_key(&unit);
            if is_current && is_written && !self.is_lost && !self.held.holds(unit) {
                self.held.insert(unit, slot);
                self.counts.admitted_units += 1;
            } else {
                self.held.release(slot);
            }
        }
    }

    /// Completes a request from a host or another component. `time`: index in `times_ns` of the total to which the
    /// duration of a read or write is added.
    fn end(&mut self, core: &mut Core, slot: u32, time: usize, failed: bool) {
        let request = &mut core.slab[slot];
        request.failed = failed;
        if matches!(request.kind, OpKind::Read | OpKind::Write) {
            self.times_ns[time] += core.now - request.entered_ns;
        }
        let end_ns = core.notified_ns(core.now, slot);
        core.at(end_ns, slot, State::Done);
    }

    /// Processes the loss of a device or array. While the fast device is lost, all reads go to the backing.
    pub(crate) fn part_lost(&mut self, part: PartId) {
        if part == self.fast {
            self.is_lost = true;
            self.forget();
        }
    }

    /// Processes the replacement of a device or array by a new one.
    pub(crate) fn part_replaced(&mut self, part: PartId) {
        if part == self.fast || part == self.backing {
            self.is_lost &= part != self.fast;
            self.forget();
        }
    }

    /// Drops all cached units, including those that are being written to the fast device.
    fn forget(&mut self) {
        self.held.remove_all();
        for open in self.open.values_mut() {
            open.stale.extend(open.units.clone());
        }
    }

    /// Processes a power failure: drops all requests and all cached units.
    pub(crate) fn power_off(&mut self, _: &mut Core) {
        self.open.clear();
        self.admissions = 0;
        self.writing.clear();
        self.held.clear();
    }

    /// Stores content from now on. Empties the cache, because the content of its initial units is unknown.
    pub(crate) fn keep_content(&mut self) {
        self.held.clear();
    }

    /// Returns the backing: the device or array that stores all data.
    pub(crate) fn backing(&self) -> PartId {
        self.backing
    }

    /// Returns the fill level of the cache, counting only units used since the start.
    pub(crate) fn store(&self) -> Store {
        let (held_units, slots) = self.held.used_since_start();
        Store {
            name: "host's read cache",
            keeps: Keeps::Sample,
            held_bytes: held_units * UNIT_BYTES,
            capacity_bytes: slots * UNIT_BYTES,
            passed_bytes: (self.counts.hits + self.counts.admitted_units) * UNIT_BYTES,
            choice_bytes: 0,
        }
    }

    pub(crate) fn counts(&self) -> ReadCacheCounts {
        self.counts
    }

    #[expect(clippy::unused_self, reason = "all kinds of parts share this signature")]
    pub(crate) fn resources(&self, _: &Core) -> Vec<Resource> {
        Vec::new()
    }

    /// Returns the time that the cache's operations have spent in each phase since the start.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let reads = self.counts.hits + self.counts.misses;
        let phase = |name, of, total_ns, count| Phase { name, of, total_ns, count };
        vec![
            phase("cache reads", Of::Read, self.times_ns[0], reads),
            phase("misses read", Of::Read, self.times_ns[1], reads),
            phase("cache and backing write", Of::Write, self.times_ns[2], self.writes),
        ]
    }
}

/// Returns the 4 KiB units that an operation covers in full or in part.
fn units_of(op: &Op) -> Range<u64> {
    op.offset_bytes / UNIT_BYTES..(op.offset_bytes + u64::from(op.len_bytes)).div_ceil(UNIT_BYTES)
}

/// Passes the values of units from a request to its child write, if the request has a value for each.
fn give(core: &mut Core, parent: u32, child: u32, units: Range<u64>) {
    let Some(values) = &mut core.values else { return };
    let first = core.slab[parent].at / UNIT_BYTES;
    let of_units = units.clone().map(|unit| values.of(parent, unit - first));
    let mut given = of_units.collect::<Option<Vec<u64>>>();
    if core.names_values() {
        given = give_names(core, parent, child, units, given);
    }
    if let (Some(values), Some(given)) = (&mut core.values, given) {
        values.set(child, given);
    }
}

/// Passes the content of units to a child write: the parent's names, or a host's data. For a device, reports a
/// separate write per unit and returns the tokens of these writes; for an array, returns the names unchanged.
fn give_names(
    core: &mut Core,
    parent: u32,
    child: u32,
    units: Range<u64>,
    names: Option<Vec<u64>>,
) -> Option<Vec<u64>> {
    let (part, first) = (core.slab[child].part, core.slab[child].at / UNIT_BYTES);
    if part.index() >= core.devices {
        return names;
    }
    let from = core.slab[parent].token;
    let tokens = units.zip(first..).enumerate().map(|(index, (of, unit))| {
        if let Some(names) = &names {
            return core.give(part, unit, core.slab[child].part_of(unit), names[index]);
        }
        let token = core.new_name();
        core.tell(ContentEvent::Passed { part, unit, token, from, of });
        token
    });
    Some(tokens.collect())
}

/// Reports a trim or write of zeroes to a device as a separate operation with a new token.
fn clear(core: &mut Core, child: u32) {
    let Request { part, at: offset_bytes, len: len_bytes, kind, .. } = core.slab[child];
    if !core.names_values() || part.index() >= core.devices {
        return;
    }
    let (token, trim) = (core.new_name(), kind == OpKind::Trim);
    core.slab[child].token = token;
    core.tell(ContentEvent::Cleared { part, offset_bytes, len_bytes, trim, token });
}

/// Reports the content that a host's read returns, and frees its names.
fn return_names(core: &mut Core, slot: u32, failed: bool) {
    if !core.names_values() {
        return;
    }
    let names = core.values.as_mut().and_then(|values| values.take(slot)).unwrap_or_default();
    let (token, first) = (core.slab[slot].token, core.slab[slot].at / UNIT_BYTES);
    for (unit, name) in (first..).zip(names) {
        if !failed {
            core.tell(ContentEvent::Returned { token, unit, name });
        }
        core.free(name);
    }
}

/// Gives a parent request the values that its child read has returned. `is_fast`: whether the child read the fast
/// device; its token is then the first unit.
fn receive(core: &mut Core, parent: u32, child: u32, is_fast: bool) {
    let request = &core.slab[child];
    let first = if is_fast { request.token } else { request.at / UNIT_BYTES };
    let index = (first - core.slab[parent].at / UNIT_BYTES) as usize;
    let Some(values) = &mut core.values else { return };
    let Some(read) = values.take(child) else { return };
    let Some(all) = values.of_mut(parent) else { return };
    let range = index..index + read.len();
    let before: Vec<u64> = all.splice(range, read).collect();
    // (Values of a failed read of the fast part.)
    for name in before {
        core.free(name);
    }
}
