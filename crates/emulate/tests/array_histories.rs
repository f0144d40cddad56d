//! Random histories of arrays, and of arrays of arrays, with content: operations, losses, replacements, spares,
//! unreadable sectors, power cuts, scrubs. Each read must return a value that the previous operations allow, or fail
//! if more was lost than the level survives; see [`Shadow`] for the rules. A history depends only on its seed:
//! `HISTORY=seed` runs and prints one, `HISTORIES=n` sets their number.

use crate::common;

use common::{disk, flash, host, memory};
use iodyno_emulate::spec::{ArrayShape, Device, Kind, Part, Preconditioned, Written};
use iodyno_emulate::{Completion, Fault, Machine, PartId, System};
use iodyno_raid::layout::InStripe;
use iodyno_raid::{Layout, Level, MemberSet, Role, Rotation};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{Op, OpKind};
use std::collections::{BTreeMap, BTreeSet};

const UNIT: u64 = 4096;
/// Value of a unit that may be reported as unreadable.
const LOST: u64 = u64::MAX;

type Values = BTreeSet<u64>;

/// A write to one unit, in progress.
#[derive(Clone, Debug)]
struct Write {
    value: u64,
    /// Values of writes to the unit that ended during this write. The order of such a write and this one is
    /// undefined.
    meanwhile: Values,
}

/// The values that a unit may have.
#[derive(Clone, Debug, Default)]
struct Unit {
    /// By event number: the values that the unit may have had since that event. A read returns one
    /// of the last; earlier ones may come back after a power cut.
    versions: Vec<(u64, Values)>,
    /// Writes in progress, by token.
    writes: BTreeMap<u64, Write>,
}

impl Unit {
    fn now(&self) -> &Values {
        &self.versions.last().expect("it holds something").1
    }

    fn readable(&self) -> Values {
        self.now().iter().copied().chain(self.writes.values().map(|w| w.value)).collect()
    }

    /// Records that only values from event `number` on may come back.
    fn durable_since(&mut self, number: u64) {
        let last = self.versions.iter().rposition(|version| version.0 <= number).unwrap_or(0);
        self.versions.drain(..last);
    }
}

/// Missing members of the array; if they are arrays, missing devices of each member.
#[derive(Clone, Debug, Default)]
struct Missing {
    outer: MemberSet,
    inner: Vec<MemberSet>,
}

/// The oracle. For each unit:
/// * A read returns the value of the last write that was acknowledged before it, or of a write that
///   overlaps it in time. Of writes that overlapped each other, it may return any.
/// * A successful flush or forced write makes durable what was acknowledged before it was
///   submitted.
/// * After a power cut, the unit has any one of the values that it had since it was last durable,
///   or of the writes in progress.
/// * Once a read without a concurrent write has returned a value, the unit has that value.
/// * A trim leaves the old value or zeroes. A failed write leaves the old value or its own.
/// * A read fails only if it includes a unit that may be lost. A unit may be lost if a row of its
///   stripe lacks, or once lacked, more members (missing, or unreadable there) than the level
///   survives. Without a journal, it may also be lost if the power was cut while its row was not
///   durable, and its member was missing or unreadable then or until the resync. It remains so
///   until the whole unit is rewritten durably.
///
/// A member that is an array lacks a unit by the rules of its own level. (The oracle does not track
/// rows of such a member that a power cut may have left inconsistent: if the member lacks anything,
/// all of it counts as unreadable.)
#[derive(Debug)]
struct Shadow {
    layout: Layout,
    /// If the members are arrays: the layout of each, and whether it has parity without a journal.
    inner: Option<(Layout, bool)>,
    units: Vec<Unit>,
    event: u64,
    /// By device: its units that may be unreadable.
    unreadable: Vec<BTreeSet<u64>>,
    /// Members that are arrays and may have lost any of their units.
    untrusted: BTreeSet<usize>,
    /// Whether the power was cut, and no member array was flushed since its resync.
    inner_unsynced: bool,
    /// Rows (stripe and offset) that are not durable: the event of the last write, and the number
    /// of writes in progress. (A forced write to a durable row leaves it durable.)
    rows: BTreeMap<(u64, u64), (u64, u64)>,
    /// Rows that were not durable at the last power cut, and have not been flushed since the array
    /// resynced them. `is_synced`: whether it has resynced.
    unsynced: BTreeSet<(u64, u64)>,
    is_synced: bool,
}

impl Shadow {
    fn new(layout: Layout, inner: Option<(Layout, bool)>, units: u64) -> Self {
        let zero = Unit { versions: vec![(0, Values::from([0]))], ..Unit::default() };
        let devices = layout.members() * inner.map_or(1, |inner| inner.0.members());
        let unreadable = vec![BTreeSet::new(); devices];
        let unsynced = BTreeSet::new();
        let units = vec![zero; units as usize];
        Self {
            layout,
            inner,
            units,
            event: 0,
            unreadable,
            untrusted: BTreeSet::new(),
            inner_unsynced: false,
            rows: BTreeMap::new(),
            unsynced,
            is_synced: true,
        }
    }

    /// Whether a unit of a member may be lost.
    fn is_gone(&self, member: usize, unit: u64, missing: &Missing) -> bool {
        if missing.outer.contains(member) {
            return true;
        }
        let Some((inner, _)) = &self.inner else { return self.unreadable[member].contains(&unit) };
        let gone = |device: usize, unit: u64| {
            missing.inner[member].contains(device)
                || self.unreadable[member * inner.members() + device].contains(&unit)
        };
        self.untrusted.contains(&member) || lacking(inner, unit, gone).1
    }

    /// Whether a unit's data may be lost, and whether its row lacks more than the level survives.
    fn lacking(&self, unit: u64, missing: &Missing) -> (bool, bool) {
        lacking(&self.layout, unit, |member, unit| self.is_gone(member, unit, missing))
    }

    /// Whether all data can be recovered without the missing members and devices.
    fn survives(&self, missing: &Missing) -> bool {
        let Some((inner, _)) = &self.inner else { return self.layout.survives(missing.outer) };
        let broken = missing.inner.iter().enumerate().filter(|(_, of)| !inner.survives(**of));
        self.layout.survives(broken.fold(missing.outer, |all, (member, _)| all.with(member)))
    }

    /// Records that members that are arrays may have lost data that was not durable when the power
    /// was cut.
    fn distrust(&mut self, missing: &Missing) {
        let Some((inner, true)) = &self.inner else { return };
        for member in (0..self.layout.members()).filter(|_| self.inner_unsynced) {
            let first = member * inner.members();
            let mut devices = self.unreadable[first..first + inner.members()].iter();
            if !missing.inner[member].is_empty() || devices.any(|of| !of.is_empty()) {
                self.untrusted.insert(member);
            }
        }
    }

    /// Records that members are missing or unreadable from now on, so that units may be lost.
    fn lose(&mut self, missing: &Missing) {
        self.event += 1;
        self.distrust(missing);
        for unit in 0..self.units.len() as u64 {
            let at = self.layout.locate(unit * 8);
            let (own, too_much) = self.lacking(unit, missing);
            let has_hole = !self.is_synced && self.unsynced.contains(&(at.stripe, at.offset));
            if too_much || (own && has_hole) {
                let event = self.event;
                let unit = &mut self.units[unit as usize];
                let mut now = unit.now().clone();
                now.insert(LOST);
                unit.versions.push((event, now));
                unit.writes.values_mut().for_each(|write| _ = write.meanwhile.insert(LOST));
            }
        }
    }

    fn cut(&mut self, missing: &Missing, journal: bool) {
        self.event += 1;
        self.inner_unsynced = true;
        self.distrust(missing);
        self.lose(missing);
        let rows = |at: InStripe| (at.stripe, at.offset);
        let mut open: BTreeSet<_> = std::mem::take(&mut self.rows).into_keys().collect();
        let has_hole = !journal && self.layout.level().parities() > 0;
        if has_hole {
            open.append(&mut self.unsynced);
            self.unsynced.clone_from(&open);
            self.is_synced = false;
        }
        for number in 0..self.units.len() as u64 {
            let is_open = open.contains(&rows(self.layout.locate(number * 8)));
            let hole = has_hole && is_open && self.lacking(number, missing).0;
            let unit = &mut self.units[number as usize];
            let mut all: Values = unit.versions.iter().flat_map(|v| &v.1).copied().collect();
            all.extend(unit.writes.values().map(|write| write.value));
            if hole {
                all.insert(LOST);
            }
            unit.writes.clear();
            unit.versions = vec![(self.event, all)];
        }
    }

    fn row(&self, unit: u64) -> (u64, u64) {
        let at = self.layout.locate(unit * 8);
        (at.stripe, at.offset)
    }

    /// Records that a write, trim or write of zeroes to a unit is submitted.
    fn submit(&mut self, unit: u64, token: u64, value: u64) {
        let row = self.row(unit);
        self.rows.entry(row).or_default().1 += 1;
        let write = Write { value, meanwhile: Values::new() };
        self.units[unit as usize].writes.insert(token, write);
    }

    /// Records that a write, trim or write of zeroes has ended.
    fn end(&mut self, number: u64, op: &Op, token: u64, failed: bool) {
        self.event += 1;
        let row = self.row(number);
        let (last, writes) = self.rows.get_mut(&row).expect("it is written");
        *writes -= 1;
        if op.fua && !failed && *writes == 0 && *last == 0 {
            self.rows.remove(&row);
        } else {
            *last = self.event;
        }
        let unit = &mut self.units[number as usize];
        let write = unit.writes.remove(&token).expect("it was submitted");
        unit.writes.values_mut().for_each(|w| _ = w.meanwhile.insert(write.value));
        let mut now = write.meanwhile;
        now.insert(write.value);
        let from = number * UNIT;
        let is_whole =
            from >= op.offset_bytes && from + UNIT <= op.offset_bytes + u64::from(op.len_bytes);
        if failed || op.kind == OpKind::Trim {
            now.extend(unit.now());
        } else if !is_whole && unit.now().contains(&LOST) {
            now.insert(LOST);
        }
        let overlapped = now.len() > 1 || !unit.writes.is_empty();
        unit.versions.push((self.event, now));
        if op.fua && !failed && !overlapped {
            unit.durable_since(self.event);
        }
    }

    /// Records the value returned by a read that no write overlapped: the unit has this value and
    /// no other.
    fn is_read(&mut self, number: u64, value: u64, since: u64) {
        let unit = &mut self.units[number as usize];
        let (event, now) = unit.versions.last().expect("it holds something");
        if *event <= since && unit.writes.is_empty() && now.len() > 1 && now.contains(&value) {
            unit.versions.push((self.event, Values::from([value])));
        }
    }

    fn flushed(&mut self, since: u64) {
        self.units.iter_mut().for_each(|unit| unit.durable_since(since));
        self.rows.retain(|_, (last, writes)| *writes > 0 || *last > since);
    }
}

/// Whether the unit's data may be lost, and whether its row lacks more than the level survives.
fn lacking(layout: &Layout, unit: u64, gone: impl Fn(usize, u64) -> bool) -> (bool, bool) {
    let at = layout.locate(unit * 8);
    let stripe = layout.stripe(at.stripe);
    let gone = |place: iodyno_raid::Place| gone(place.member, (place.sector + at.offset) / 8);
    let Role::Data(strip) = at.role else { unreachable!() };
    let own = (0..layout.copies()).all(|c| gone(stripe.data(usize::from(strip), c)));
    let parities = [stripe.p(), stripe.q()].into_iter().flatten();
    let data = (0..layout.data_strips()).map(|strip| stripe.data(strip, 0));
    let all = parities.chain(data).filter(|&place| gone(place)).count();
    let too_much = match layout.level() {
        Level::Raid5 | Level::Raid6 => all > layout.level().parities(),
        _ => own,
    };
    (own, too_much)
}

/// Members that are arrays.
#[derive(Debug)]
struct Inner {
    shape: ArrayShape,
    journal: bool,
}

/// Random parameters of a history.
#[derive(Debug)]
struct Setup {
    level: Level,
    members: u32,
    inner: Option<Inner>,
    strip_units: u64,
    rotation: Rotation,
    journal: bool,
    spares: u32,
    kind: usize,
    losses: u64,
    latent: bool,
    cuts: bool,
    /// Mean number of steps per fault.
    fault_every: u64,
}

/// A small device. `kind`: 0 for memory that keeps everything, 1 for flash with a volatile buffer, otherwise a disk
/// with a volatile cache. Only memory has the size `units`.
fn device(kind: usize, units: u64) -> Kind {
    match (kind, memory(true)) {
        (0, Kind::Memory(mut memory)) => {
            memory.capacity_bytes = units * UNIT;
            Kind::Memory(memory)
        }
        (1, _) => {
            let mut flash = flash();
            flash.capacity_bytes = 64 * UNIT;
            flash.nand.channels = 2;
            flash.nand.pages_per_block = 8;
            flash.nand.raw_bytes = 192 * UNIT;
            flash.nand.parity_stripe = 0;
            flash.buffer.protected = false;
            flash.buffer.bytes = 16 * UNIT;
            Kind::Flash(Box::new(flash))
        }
        _ => disk(true),
    }
}

/// A history in progress.
struct Run {
    machine: Machine,
    shadow: Shadow,
    setup: Setup,
    random: Generator,
    token: u64,
    /// By token: the operation, the event of its submission, and the values that a read may return for each unit.
    open: BTreeMap<u64, (Op, u64, Vec<Values>)>,
    /// Flushes that were submitted after the array had resynced.
    synced: BTreeSet<u64>,
    /// Devices that the test has lost and that are not rebuilt, even if a spare has replaced them.
    lost: BTreeSet<u32>,
    /// Members that are arrays and lacked more devices than they survive. `made_again`: those that got a replaced
    /// device. They may have been re-created, and their members disagree until they are rebuilt.
    lost_branches: BTreeSet<u32>,
    made_again: BTreeSet<u32>,
    /// Whether too much was lost at one time, so that any operation may fail from then on.
    failed: bool,
    units: u64,
    checked: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = stream(seed, "array-histories", 0);
        let one = |random: &mut Generator, n: u64| below(random, n);
        let level = Level::ALL[one(&mut random, 6) as usize];
        let kind = [0, 0, 1, 1, 1, 2][one(&mut random, 6) as usize];
        let mut nesting = stream(seed, "array-nesting", 0);
        let any = &mut |n: u64| one(&mut nesting, n);
        let inner = (any(4) == 0).then(|| {
            let level = Level::ALL[any(6) as usize];
            let members = level.least_members() as u32 + any(2) as u32;
            let strip_bytes = [1, 2, 4][any(3) as usize] * UNIT;
            let rotation = Rotation::ALL[any(4) as usize];
            Inner {
                shape: ArrayShape { level, members, strip_bytes, rotation },
                journal: any(2) == 0,
            }
        });
        let mut setup = Setup {
            inner,
            level,
            members: level.least_members() as u32 + one(&mut random, 3) as u32,
            strip_units: [1, 2, 4][one(&mut random, 3) as usize],
            rotation: Rotation::ALL[one(&mut random, 4) as usize],
            journal: one(&mut random, 3) == 0,
            spares: if kind == 2 { 0 } else { one(&mut random, 3).saturating_sub(1) as u32 },
            kind,
            losses: [0, 1, 1, 2, 4][one(&mut random, 5) as usize],
            latent: one(&mut random, 3) == 0,
            cuts: one(&mut random, 2) == 0,
            fault_every: [10, 10, 4][one(&mut random, 3) as usize],
        };
        let mut system = System::new("test", host());
        if setup.inner.is_some() {
            setup.members = setup.members.min(level.least_members() as u32 + 1);
            setup.spares = 0;
        }
        let of_member = setup.inner.as_ref().map_or(1, |inner| inner.shape.members);
        for _ in 0..setup.members * of_member + setup.spares {
            let device = Device {
                name: "device".to_owned(),
                kind: device(setup.kind, 64),
                hot_swap: true,
                limits: Vec::new(),
            };
            system.add_device(device, Preconditioned { how: Written::Fresh, fill: 0.0 }, 0);
        }
        let strip_bytes = setup.strip_units * UNIT;
        let shape =
            ArrayShape { level, members: setup.members, strip_bytes, rotation: setup.rotation };
        let all = setup.members as usize;
        let mut groups = vec![(0..all, Some((shape, "array".to_owned())))];
        groups.extend((all..all + setup.spares as usize).map(|at| (at..at + 1, None)));
        if let Some(Inner { shape, .. }) = &setup.inner {
            let range = |n: u32| (n * of_member) as usize..((n + 1) * of_member) as usize;
            let inner = |n| (range(n), Some((*shape, "inner".to_owned())));
            system.group((0..setup.members).map(inner).collect()).unwrap();
        }
        system.group(groups).unwrap();
        let rebuild_bytes_per_s = [50e6, 1e9][one(&mut random, 2) as usize];
        let mut inner_layout = None;
        if let Some(Inner { journal, .. }) = setup.inner {
            for part in &mut system.parts {
                let Part::Array(array) = part else { continue };
                (array.journal, array.rebuild_bytes_per_s) = (journal, rebuild_bytes_per_s);
                let has_hole = array.layout.level().parities() > 0 && !journal;
                inner_layout = inner_layout.or(Some((array.layout, has_hole)));
            }
        }
        let Some(Part::Array(array)) = system.parts.last_mut() else { unreachable!() };
        array.journal = setup.journal;
        array.spares = (setup.members..setup.members + setup.spares).map(PartId).collect();
        array.rebuild_bytes_per_s = rebuild_bytes_per_s;
        let layout = array.layout;
        let mut machine = Machine::represented(&system, seed, 1).unwrap();
        machine.keep_content();
        machine.add_worker(0);
        let units = (layout.sectors() / 8).min(96);
        Self {
            machine,
            shadow: Shadow::new(layout, inner_layout, units),
            setup,
            random,
            token: 0,
            open: BTreeMap::new(),
            synced: BTreeSet::new(),
            lost: BTreeSet::new(),
            lost_branches: BTreeSet::new(),
            made_again: BTreeSet::new(),
            failed: false,
            units,
            checked: 0,
        }
    }

    fn any(&mut self, n: u64) -> u64 {
        below(&mut self.random, n)
    }

    /// Members that the array may lack. Checks that the array has dropped no other member.
    fn missing(&mut self) -> Missing {
        if self.setup.inner.is_some() {
            return self.missing_below();
        }
        let missing = self.machine.array_state(0).unwrap().missing;
        let known: BTreeSet<u32> = missing.iter().map(|m| m as u32).collect();
        assert!(known.is_subset(&self.lost), "{missing} of {:?}: {:?}", self.lost, self.setup);
        let mut outer = missing;
        if self.setup.level == Level::Raid0 || self.setup.level == Level::Jbod {
            outer = self.lost.iter().map(|&m| m as usize).collect();
        } else {
            self.lost = known;
        }
        Missing { outer, inner: Vec::new() }
    }

    /// Same as `missing`, for an array of arrays.
    fn missing_below(&mut self) -> Missing {
        let Some((layout, has_hole)) = self.shadow.inner else { unreachable!() };
        let outer = self.machine.array_state(0).unwrap().missing;
        let mut inner = Vec::new();
        for branch in 0..self.setup.members {
            let first = branch * layout.members() as u32;
            let devices = first..first + layout.members() as u32;
            let lost = devices.filter(|d| self.lost.contains(d)).map(|d| (d - first) as usize);
            let mut lost: MemberSet = lost.collect();
            let state = self.machine.array_state_of(self.branch(branch)).unwrap();
            if self.made_again.contains(&branch) && layout.is_redundant() {
                self.lost.extend(state.missing.iter().map(|m| first + m as u32));
                lost = state.missing.iter().fold(lost, MemberSet::with);
            }
            if layout.is_redundant() {
                let is_subset = state.missing.iter().all(|m| lost.contains(m));
                assert!(is_subset, "{} of {lost} on {branch}: {:?}", state.missing, self.setup);
                for member in lost.iter().filter(|&m| !state.missing.contains(m)) {
                    self.lost.remove(&(first + member as u32));
                }
                inner.push(state.missing);
            } else {
                // Replaced ones are missing until the array is made again.
                inner.push(state.missing.iter().fold(lost, MemberSet::with));
            }
            // A member that can't write somewhere is dropped too.
            let is_lost = !layout.survives(inner[branch as usize]);
            if is_lost || self.setup.latent || has_hole {
                self.lost_branches.insert(branch);
            } else if !outer.contains(branch as usize) {
                self.lost_branches.remove(&branch);
            }
        }
        let known = outer.iter().all(|m| self.lost_branches.contains(&(m as u32)));
        assert!(known, "{outer} of {:?}: {:?}", self.lost_branches, self.setup);
        Missing { outer, inner }
    }

    /// The component that is member `member` of the outer array, in an array of arrays.
    fn branch(&self, member: u32) -> PartId {
        PartId(self.devices() + member)
    }

    /// Number of devices, not counting spares.
    fn devices(&self) -> u32 {
        self.setup.members * self.setup.inner.as_ref().map_or(1, |inner| inner.shape.members)
    }

    /// Whether no array has rows to resync.
    fn is_synced(&self) -> bool {
        let members = if self.setup.inner.is_some() { 0..self.setup.members } else { 0..0 };
        let inner = members.map(|m| self.machine.array_state_of(self.branch(m)));
        inner.chain([self.machine.array_state(0)]).all(|state| state.unwrap().resyncs == 0)
    }

    fn submit(&mut self, op: Op) {
        self.token += 1;
        let (token, first) = (self.token, op.offset_bytes / UNIT);
        let end = (op.offset_bytes + u64::from(op.len_bytes)).div_ceil(UNIT);
        let units = first..if op.kind == OpKind::Flush { first } else { end };
        let mut readable = Vec::new();
        for unit in units {
            match op.kind {
                OpKind::Read => readable.push(self.shadow.units[unit as usize].readable()),
                OpKind::Trim | OpKind::WriteZeroes => self.shadow.submit(unit, token, 0),
                _ => self.shadow.submit(unit, token, token),
            }
            if op.kind != OpKind::Read {
                let value = if op.kind == OpKind::Write { token } else { 0 };
                for (read, _, values) in self.open.values_mut() {
                    let of = read.offset_bytes / UNIT;
                    if read.kind == OpKind::Read && unit >= of && unit - of < values.len() as u64 {
                        values[(unit - of) as usize].insert(value);
                    }
                }
            }
        }
        self.log(|| format!("{token} {op:?}"));
        if self.machine.array_state(0).unwrap().resyncs == 0 {
            self.shadow.is_synced = true;
        }
        if self.is_synced() {
            self.synced.insert(token);
        }
        self.open.insert(token, (op, self.shadow.event, readable));
        self.machine.submit(self.machine.now_ns(), 0, 0, &op, token);
    }

    fn any_op(&mut self) -> Op {
        let kinds = [OpKind::Read, OpKind::Write, OpKind::Write, OpKind::Read, OpKind::Write];
        let rare = [OpKind::Flush, OpKind::Flush, OpKind::Trim, OpKind::WriteZeroes];
        let kind = match self.any(20) {
            0..=3 => rare[self.any(4) as usize],
            _ => kinds[self.any(5) as usize],
        };
        let fua = self.any(8) == 0;
        if kind == OpKind::Flush {
            return Op::FLUSH;
        }
        let len = [1, 1, 2, 3, 8, 16][self.any(6) as usize].min(self.units);
        let at = self.any(self.units - len + 1);
        let (mut offset_bytes, mut len_bytes) = (at * UNIT, (len * UNIT) as u32);
        if matches!(kind, OpKind::Read | OpKind::Write) && self.any(4) == 0 {
            // A part of the first unit, and of the last.
            let cut = self.any(7) + 1;
            offset_bytes += cut * 512;
            len_bytes -= (cut * 512) as u32;
            let cut = self.any(u64::from(len_bytes / 512).min(8));
            len_bytes -= (cut * 512) as u32;
        }
        Op { offset_bytes, len_bytes, kind, fua: fua && kind == OpKind::Write }
    }

    fn end(&mut self, done: &Completion) {
        if done.failure.is_some() && self.setup.inner.is_some() {
            // A member that could not write somewhere is dropped.
            self.update_failed();
        }
        let (op, since, readable) = self.open.remove(&done.token).expect("it was submitted");
        let failed = done.failure.is_some();
        self.log(|| format!("{} ended: {:?}", done.token, done.failure));
        let first = op.offset_bytes / UNIT;
        let end = (op.offset_bytes + u64::from(op.len_bytes)).div_ceil(UNIT);
        let what = || format!("{op:?} at {} ns", done.at_ns);
        match op.kind {
            OpKind::Read => {
                let may_fail = self.failed || readable.iter().any(|values| values.contains(&LOST));
                let of_now = |u| self.shadow.units[u as usize].now().contains(&LOST);
                assert!(!failed || may_fail || (first..end).any(of_now), "{}", what());
                let values = self.machine.values_read().map(<[u64]>::to_vec);
                for (at, allowed) in (0..).zip(&readable).filter(|_| !failed) {
                    let value = values.as_ref().expect("it was read")[at];
                    self.checked += 1;
                    let unit = first + at as u64;
                    self.shadow.is_read(unit, value, since);
                    assert!(
                        allowed.contains(&value),
                        "{}: unit {unit} is {value} of {allowed:?}; {:?}",
                        what(),
                        self.shadow.units[unit as usize]
                    );
                }
            }
            OpKind::Flush => {
                assert!(!failed || self.failed, "{}", what());
                if !failed {
                    self.shadow.flushed(since);
                    if self.synced.contains(&done.token) {
                        self.shadow.unsynced.clear();
                        self.shadow.inner_unsynced = false;
                    }
                }
            }
            _ => {
                let of_now = |u| self.shadow.units[u as usize].now().contains(&LOST);
                let row_lost = |u| self.row_mates(u).any(of_now);
                assert!(!failed || self.failed || (first..end).any(row_lost), "{}", what());
                for unit in first..end {
                    self.shadow.end(unit, &op, done.token, failed);
                }
            }
        }
    }

    /// The array's units that are in the same stripe as `unit`; all units if the members are arrays.
    fn row_mates(&self, unit: u64) -> impl Iterator<Item = u64> {
        // (Of arrays of arrays all: a stripe of a member is of many.)
        let per_stripe = match self.shadow.inner {
            Some(_) => self.units,
            None => self.shadow.layout.stripe_sectors() / 8,
        };
        let first = unit / per_stripe * per_stripe;
        (first..first + per_stripe).take_while({
            let units = self.units;
            move |&unit| unit < units
        })
    }

    fn step_until(&mut self, until_ns: u64) -> bool {
        let Some(done) = self.machine.next_completion(until_ns) else { return false };
        self.end(&done);
        true
    }

    /// Waits until all submitted operations have ended.
    fn drain(&mut self) {
        while !self.open.is_empty() {
            assert!(self.step_until(u64::MAX), "operations are left: {:?}", self.open);
        }
    }

    /// Waits until the array has ended all its internal work.
    fn settle(&mut self) {
        self.drain();
        while self.machine.step(u64::MAX) {}
        assert_eq!(self.machine.check(), Ok(()));
    }

    fn update_failed(&mut self) {
        let missing = self.missing();
        self.failed |= !self.shadow.survives(&missing);
        if self.machine.array_state(0).unwrap().resyncs == 0 {
            self.shadow.is_synced = true;
        }
        self.shadow.lose(&missing);
        for (op, _, readable) in self.open.values_mut().filter(|o| o.0.kind == OpKind::Read) {
            for (unit, values) in (op.offset_bytes / UNIT..).zip(readable) {
                if self.shadow.units[unit as usize].now().contains(&LOST) {
                    values.insert(LOST);
                }
            }
        }
    }

    fn log(&self, what: impl FnOnce() -> String) {
        if std::env::var_os("HISTORY").is_some() {
            println!("{} ns: {}", self.machine.now_ns(), what());
        }
    }

    fn fault(&mut self) {
        let member = self.any(u64::from(self.devices())) as u32;
        match self.any(6) {
            0 if self.setup.cuts => {
                let missing = self.missing();
                self.log(|| "power cut".to_owned());
                self.machine.apply_fault(&Fault::PowerCut);
                self.open.clear();
                self.shadow.cut(&missing, self.setup.journal);
            }
            1 | 2 if self.setup.losses > 0 => {
                self.missing();
                let part = self.part(member);
                self.setup.losses -= 1;
                self.lost.insert(member);
                self.log(|| format!("lose {member}"));
                self.machine.apply_fault(&Fault::Lose { part });
                self.update_failed();
            }
            3 | 4 if self.setup.kind != 2 => {
                let Some(&member) = self.lost.iter().next() else { return };
                let part = self.part(member);
                self.log(|| format!("replace {member}"));
                if let Some((inner, _)) = self.shadow.inner {
                    self.made_again.insert(member / inner.members() as u32);
                }
                self.machine.apply_fault(&Fault::Replace { part });
                self.shadow.unreadable[member as usize].clear();
                if let Some((inner, _)) = self.shadow.inner
                    && self.shadow.layout.is_redundant()
                    && !inner.is_redundant()
                {
                    // Its array is made again without what it held.
                    self.lost.remove(&member);
                }
                self.update_failed();
            }
            5 if self.setup.latent => {
                let units = self.setup.strip_units * 6;
                for _ in 0..=self.any(2) {
                    let (at, len) = (self.any(units), 1 + self.any(3));
                    let member = self.any(u64::from(self.devices())) as u32;
                    let fault = Fault::Latent {
                        part: self.part(member),
                        offset_bytes: at * UNIT,
                        len_bytes: len * UNIT,
                    };
                    self.log(|| format!("{fault:?}"));
                    self.machine.apply_fault(&fault);
                    self.shadow.unreadable[member as usize].extend(at..at + len);
                }
                self.update_failed();
            }
            _ => {}
        }
    }

    /// The device that is a member now.
    fn part(&self, member: u32) -> PartId {
        if self.setup.inner.is_some() {
            return PartId(member);
        }
        self.machine.array_state(0).unwrap().members[member as usize]
    }

    fn read_all(&mut self) {
        for at in (0..self.units).step_by(3) {
            let len_bytes = ((self.units - at).min(3) * UNIT) as u32;
            self.submit(Op { offset_bytes: at * UNIT, len_bytes, kind: OpKind::Read, fua: false });
            self.drain();
        }
    }

    fn run(mut self) -> Self {
        self.log(|| format!("{:?}", self.setup));
        let steps = 20 + self.any(30);
        let depth = 1 + self.any(8) as usize;
        for _ in 0..steps {
            if self.any(self.setup.fault_every) == 0 {
                self.fault();
                continue;
            }
            match self.any(10) {
                1 => self.machine.scrub(0),
                2 | 3 => {
                    let ns = self.any(200_000);
                    let until_ns = self.machine.now_ns() + ns;
                    while self.step_until(until_ns) {}
                }
                _ => {
                    let op = self.any_op();
                    self.submit(op);
                    while self.open.len() >= depth {
                        assert!(self.step_until(u64::MAX), "{:?}", self.open);
                    }
                }
            }
        }
        // At last everything is read as it is, and again without as many members as the level survives; parity and
        // copies agree with the data.
        self.drain();
        self.read_all();
        if self.setup.kind != 2 {
            self.settle();
            let redundant = self.shadow.layout.copies() > 1 || self.setup.level.parities() > 0;
            let before = self.machine.array_state(0).unwrap().counts;
            self.machine.scrub(0);
            self.settle();
            let counts = self.machine.array_state(0).unwrap().counts;
            assert_eq!(counts.contradictions, 0);
            assert_eq!(counts.scrubs - before.scrubs, u64::from(redundant));
            self.read_all();
        }
        for member in 0..self.devices() {
            let mut missing = self.missing();
            if let Some((inner, _)) = self.shadow.inner {
                let (branch, device) = (member as usize / inner.members(), member as usize);
                missing.inner[branch] = missing.inner[branch].with(device % inner.members());
            } else {
                missing.outer = missing.outer.with(member as usize);
            }
            if self.any(3) > 0 && self.shadow.survives(&missing) {
                let part = self.part(member);
                self.lost.insert(member);
                self.log(|| format!("lose {member}"));
                self.machine.apply_fault(&Fault::Lose { part });
                self.update_failed();
                self.read_all();
            }
        }
        self
    }
}

/// Runs the histories of these seeds. Returns the number of checked units, and the number of
/// histories in which too much was lost.
fn histories(seeds: std::ops::Range<u64>) -> (u64, u64) {
    let (mut checked, mut failed) = (0, 0);
    for seed in seeds {
        let run = std::panic::catch_unwind(|| Run::new(seed).run());
        let Ok(run) = run else { panic!("HISTORY={seed}") };
        checked += run.checked;
        failed += u64::from(run.failed);
    }
    (checked, failed)
}

#[test]
fn every_read_returns_what_was_written_or_fails() {
    if let Some(seed) = std::env::var("HISTORY").ok().and_then(|seed| seed.parse().ok()) {
        histories(seed..seed + 1);
        return;
    }
    let count = std::env::var("HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(12_000);
    let threads = 2;
    let each = u64::div_ceil(count, threads);
    let results: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let run = |n| scope.spawn(move || histories(n * each..(n + 1) * each));
        let handles: Vec<_> = (0..threads).map(run).collect();
        handles
            .into_iter()
            .map(|h| h.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
            .collect()
    });
    let checked: u64 = results.iter().map(|r| r.0).sum();
    let failed: u64 = results.iter().map(|r| r.1).sum();
    assert!(checked > count * 20, "{checked} units were checked");
    assert!(failed < count / 3, "{failed} histories lost too much");
}
