//! Random histories of RAID adapters with content: operations, power cuts, lost devices and adapters, failed links
//! and batteries. Each read must return a value that the previous operations allow; see [`Run`] for the rules. A
//! history depends only on its seed: `HISTORY=seed` runs and prints one, `HISTORIES=n` sets their number.

use crate::common;

use common::{disk, flash, host};
use iodyno_emulate::spec::{
    Access, Adapters, ArrayShape, Cache, Device, Drawers, HostPaths, Kind, ParityEngine,
    Preconditioned, Processor, Slot, Written,
};
use iodyno_emulate::{AdapterFault, Completion, Fault, Machine, PartId, System};
use iodyno_raid::{Level, Rotation};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{Op, OpKind};
use std::collections::{BTreeMap, BTreeSet};

const UNIT: u64 = 4096;
/// Value of a unit that may be reported as unreadable.
const LOST: u64 = u64::MAX;

type Values = BTreeSet<u64>;

/// The values that a unit may have.
#[derive(Clone, Debug)]
struct Unit {
    /// Values that a read may return now.
    now: Values,
    /// Values that a read may return after a power cut.
    before: Values,
    /// By token: the value of a write in progress, and the values of writes to the unit that ended during this write.
    writes: BTreeMap<u64, (u64, Values)>,
    /// The latest token in use when a write to the unit last began or ended.
    written: u64,
}

/// A history in progress, and its oracle. For each unit of a volume:
/// * A read returns the value of the last write that was acknowledged before it, or of a write that
///   overlaps it in time. Of writes that overlapped each other, it may return any. Once a read
///   without a concurrent write has returned a value, the unit has that value.
/// * If the adapters have a cache, acknowledged data survives everything. Otherwise, data survives
///   that was acknowledged before a successful flush was submitted, and a power cut may bring back
///   older data.
/// * A trim changes nothing. A failed write leaves the old value or its own.
/// * **A unit is reported as lost, or an operation fails, only** after no adapter was present, or
///   two adapters could not reach each other, or a battery had failed (`is_dubious`). Even then, a
///   value is never old.
#[derive(Debug)]
struct Run {
    machine: Machine,
    random: Generator,
    caching: bool,
    adapters: u32,
    links: u32,
    members: u32,
    level: Level,
    on_disks: bool,
    volumes: Vec<Vec<Unit>>,
    token: u64,
    /// By token: the volume, the operation, and the values that a read may return for each unit.
    open: BTreeMap<u64, (u32, Op, Vec<Values>)>,
    lost: BTreeSet<u32>,
    batteries: BTreeSet<u32>,
    links_down: BTreeSet<u32>,
    lost_devices: BTreeSet<u32>,
    is_dubious: bool,
    /// The latest token in use when some volume could not be served.
    down: u64,
    checked: u64,
    prints: bool,
}

impl Run {
    fn new(seed: u64, prints: bool) -> Self {
        let mut random = stream(seed, "adapter-histories", 0);
        let mut one = |n: u64| below(&mut random, n);
        let caching = one(4) > 0;
        let adapters = 1 + u32::from(one(4) > 0);
        let links = 1 + one(2) as u32;
        let (level, members) = [
            (Level::Jbod, 1),
            (Level::Raid0, 2),
            (Level::Raid5, 3),
            (Level::Raid6, 4),
            (Level::Raid10, 4),
        ][one(5) as usize];
        let volumes = 1 + one(3) as u32;
        let device = one(3);
        let spec = Adapters {
            count: adapters,
            access: [Access::Balanced, Access::Balanced, Access::Cleared][one(3) as usize],
            host_paths: [HostPaths::Optimized, HostPaths::Both][one(2) as usize],
            commands_max: 1 + one(12) as u32,
            slot: Slot { read_bytes_per_s: 1e9, write_bytes_per_s: 1e9, fetch_ns: one(2) * 500 },
            processor: Processor {
                read_ns: one(3000),
                write_ns: one(3000),
                device_ns: one(3000),
                raid6_ns: 100,
                forward_ns: 0,
            },
            parity: ParityEngine { xor_bytes_per_s: 1e9, gf_bytes_per_s: 1e9 },
            latency_ns: one(2) * 5000,
            strip_bytes: UNIT,
            cache: caching.then(|| Cache {
                bytes: u64::from(adapters)
                    * (4 + if one(2) == 0 { one(6) } else { one(40) })
                    * UNIT,
                write_ns: one(1000),
                mirror_ns: one(1000),
                mirror_bytes_per_s: 1e9,
                mirror_latency_ns: one(3000),
                destage_share: one(3) as f64 / 8.0,
                destage_ramp_bytes: UNIT << one(3),
                destage_depth: 1 + one(4) as u32,
                keeps_reads: one(2) == 0,
            }),
            devices_max: 96,
            ssds_max: 96,
            aa_links: links,
            failover_ns: one(3) * 20_000,
            drawers: Drawers { count: 1, bays: 96, bytes_per_s: 1e9 },
        };
        if prints {
            println!("{level} of {members} on device {device}: {spec:?}");
        }
        let mut system = System::new("test", host());
        for _ in 0..volumes * members {
            let kind = match device {
                0 => disk(true),
                protected => {
                    let mut flash = flash();
                    flash.capacity_bytes = 64 * UNIT;
                    flash.nand.channels = 2;
                    flash.nand.pages_per_block = 8;
                    flash.nand.raw_bytes = 192 * UNIT;
                    flash.nand.parity_stripe = 0;
                    flash.buffer.protected = protected == 1;
                    flash.buffer.bytes = 16 * UNIT;
                    Kind::Flash(Box::new(flash))
                }
            };
            let state = Preconditioned { how: Written::Fresh, fill: 0.0 };
            system.add_device(
                Device { name: "device".to_owned(), kind, hot_swap: true, limits: Vec::new() },
                state,
                0,
            );
        }
        system.attach(spec).unwrap();
        let strip_bytes = UNIT * [1, 2, 4][one(3) as usize];
        let shape = ArrayShape { level, members, strip_bytes, rotation: Rotation::LeftSymmetric };
        let range = |n: u32| (n * members) as usize..((n + 1) * members) as usize;
        let shaped = |n| (range(n), (members > 1).then(|| (shape, "array".to_owned())));
        system.group((0..volumes).map(shaped).collect()).unwrap();
        let mut machine = Machine::represented(&system, seed, 1).unwrap();
        machine.keep_content();
        (0..volumes).for_each(|volume| _ = machine.add_worker(volume));
        let zero = Unit {
            now: Values::from([0]),
            before: Values::from([0]),
            writes: BTreeMap::new(),
            written: 0,
        };
        let units = |v| (machine.capacity_bytes(v) / UNIT).min(48) as usize;
        let volumes = (0..volumes).map(|v| vec![zero.clone(); units(v)]).collect();
        Self {
            machine,
            random,
            caching,
            adapters,
            links,
            members,
            level,
            on_disks: device == 0,
            volumes,
            token: 0,
            open: BTreeMap::new(),
            lost: BTreeSet::new(),
            batteries: BTreeSet::new(),
            links_down: BTreeSet::new(),
            lost_devices: BTreeSet::new(),
            is_dubious: false,
            down: 0,
            checked: 0,
            prints,
        }
    }

    fn any(&mut self, n: u64) -> u64 {
        below(&mut self.random, n)
    }

    fn log(&self, what: impl FnOnce() -> String) {
        if self.prints {
            println!("{} ns: {}", self.machine.now_ns(), what());
        }
    }

    fn units_of(op: &Op) -> std::ops::Range<usize> {
        if op.kind == OpKind::Flush {
            return 0..0;
        }
        let end = op.offset_bytes + u64::from(op.len_bytes);
        (op.offset_bytes / UNIT) as usize..end.div_ceil(UNIT) as usize
    }

    fn submit(&mut self, volume: u32, op: Op) {
        self.token += 1;
        let token = self.token;
        if !self.machine.adapters().unwrap().volumes_down.is_empty() {
            self.down = token;
        }
        let mut readable = Vec::new();
        for unit in Self::units_of(&op) {
            let unit = &mut self.volumes[volume as usize][unit];
            match op.kind {
                OpKind::Read => {
                    let mut may = unit.now.clone();
                    may.extend(unit.writes.values().map(|write| write.0));
                    readable.push(may);
                }
                OpKind::Trim => {}
                kind => {
                    let value = if kind == OpKind::WriteZeroes { 0 } else { token };
                    unit.writes.insert(token, (value, Values::new()));
                    unit.written = token;
                }
            }
        }
        // Reads that are under way may return it.
        if matches!(op.kind, OpKind::Write | OpKind::WriteZeroes) {
            let value = if op.kind == OpKind::Write { token } else { 0 };
            for (of, read, may) in self.open.values_mut() {
                if *of != volume || read.kind != OpKind::Read {
                    continue;
                }
                for (unit, may) in Self::units_of(read).zip(may) {
                    if Self::units_of(&op).contains(&unit) {
                        may.insert(value);
                    }
                }
            }
        }
        self.log(|| format!("{token}: {op:?} on {volume}"));
        self.machine.submit(self.machine.now_ns(), volume, volume, &op, token);
        self.open.insert(token, (volume, op, readable));
    }

    fn ended(&mut self, done: &Completion) {
        let (volume, op, readable) = self.open.remove(&done.token).expect("submitted");
        let (failed, token) = (done.failure.is_some(), done.token);
        self.log(|| format!("{token} ended {:?}", done.failure));
        let what = format!("{token}: {op:?} on {volume}: {:?}", done.failure);
        assert!(!failed || self.is_dubious, "{what}");
        // Units that were lost or unavailable during the operation.
        let is_lost =
            Self::units_of(&op).any(|unit| self.volumes[volume as usize][unit].now.contains(&LOST));
        assert!(!failed || token <= self.down || is_lost, "{what}");
        match op.kind {
            OpKind::Read if !failed => {
                let values = self.machine.values_read().unwrap().to_vec();
                for ((unit, may), value) in Self::units_of(&op).zip(readable).zip(values) {
                    self.checked += 1;
                    let unit_now = &mut self.volumes[volume as usize][unit];
                    assert!(
                        may.contains(&value),
                        "{what}: unit {unit} is {value} of {may:?}, {unit_now:?}"
                    );
                    let is_quiet = unit_now.writes.is_empty() && unit_now.written < token;
                    if is_quiet && unit_now.now.len() > 1 {
                        unit_now.now = Values::from([value]);
                    }
                }
            }
            OpKind::Read | OpKind::Trim => {}
            OpKind::Flush => {
                for unit in self.volumes[volume as usize].iter_mut().filter(|_| !failed) {
                    if unit.written < token {
                        unit.before.clone_from(&unit.now);
                    }
                }
            }
            OpKind::Write | OpKind::WriteZeroes => {
                for number in Self::units_of(&op) {
                    let unit = &mut self.volumes[volume as usize][number];
                    let (value, mut now) = unit.writes.remove(&token).expect("it was submitted");
                    unit.written = self.token;
                    let is_alone = now.is_empty() && unit.writes.is_empty();
                    now.insert(value);
                    unit.writes.values_mut().for_each(|write| write.1.extend([value]));
                    let from = number as u64 * UNIT;
                    let is_whole = from >= op.offset_bytes
                        && from + UNIT <= op.offset_bytes + u64::from(op.len_bytes);
                    if failed || (!is_whole && unit.now.contains(&LOST)) {
                        now.extend(&unit.now);
                    }
                    if self.caching && !failed && is_alone {
                        unit.before.clone_from(&now);
                    } else {
                        unit.before.extend(&now);
                    }
                    unit.now = now;
                }
            }
        }
    }

    fn step_until(&mut self, until_ns: u64) -> bool {
        let Some(done) = self.machine.next_completion(until_ns) else { return false };
        self.ended(&done);
        true
    }

    fn drain(&mut self) {
        while !self.open.is_empty() {
            assert!(self.step_until(u64::MAX), "operations are left: {:?}", self.open);
        }
    }

    /// Allows every unit to be lost.
    fn may_lose(&mut self) {
        for unit in self.volumes.iter_mut().flatten() {
            unit.now.insert(LOST);
            unit.before.insert(LOST);
            unit.writes.values_mut().for_each(|write| _ = write.1.insert(LOST));
        }
    }

    fn cut(&mut self) {
        self.log(|| "power cut".to_owned());
        self.machine.apply_fault(&Fault::PowerCut);
        self.open.clear();
        for unit in self.volumes.iter_mut().flatten() {
            let mut all = unit.now.clone();
            all.extend(&unit.before);
            all.extend(unit.writes.values().map(|write| write.0));
            unit.writes.clear();
            (unit.before, unit.now) = (all.clone(), all);
        }
        if self.is_dubious {
            self.may_lose();
        }
    }

    fn fault(&mut self) {
        let adapter = self.any(u64::from(self.adapters)) as u32;
        let link = self.any(u64::from(self.links)) as u32;
        let fault = match self.any(14) {
            0 | 1 => return self.cut(),
            2 | 3 => {
                self.lost.insert(adapter);
                AdapterFault::Lose { adapter }
            }
            4..=6 => {
                self.lost.remove(&adapter);
                self.batteries.remove(&adapter);
                AdapterFault::Clear { adapter }
            }
            7 => {
                // Its partner holds everything, if it is there, and reached it.
                let alone = self.adapters as usize
                    == self.lost.len() + usize::from(!self.lost.contains(&adapter));
                self.is_dubious |= alone;
                self.lost.remove(&adapter);
                self.batteries.remove(&adapter);
                AdapterFault::Replace { adapter }
            }
            8 => {
                self.batteries.insert(adapter);
                self.is_dubious = true;
                AdapterFault::BatteryFails { adapter }
            }
            9 | 10 if self.adapters == 1 => return,
            9 => {
                self.links_down.insert(link);
                AdapterFault::LinkDown { link }
            }
            10 => {
                self.links_down.remove(&link);
                AdapterFault::LinkUp { link }
            }
            12 | 13 => {
                let volume = self.any(self.volumes.len() as u64) as u32;
                let on = [None, Some(0), Some(self.adapters - 1)][self.any(3) as usize];
                AdapterFault::Access { volume, on, from: self.any(8) as u32 / 7 % self.adapters }
            }
            _ => {
                let first = self.any(self.volumes.len() as u64) as u32 * self.members;
                let device = first + self.any(u64::from(self.members)) as u32;
                let is_redundant = !matches!(self.level, Level::Jbod | Level::Raid0);
                if is_redundant && self.lost_devices.is_empty() && self.caching {
                    self.log(|| format!("lose device {device}"));
                    self.lost_devices.insert(device);
                    self.machine.apply_fault(&Fault::Lose { part: PartId(device) });
                } else if self.lost_devices.contains(&device) && !self.on_disks {
                    self.log(|| format!("replace device {device}"));
                    self.machine.apply_fault(&Fault::Replace { part: PartId(device) });
                }
                return;
            }
        };
        let cannot_reach = self.links_down.len() as u32 == self.links && self.adapters > 1;
        self.is_dubious |= self.lost.len() as u32 == self.adapters || cannot_reach;
        self.log(|| format!("{fault:?}"));
        self.machine.apply_fault(&Fault::Adapters(fault));
        if !self.machine.adapters().unwrap().volumes_down.is_empty() {
            self.down = self.token;
        }
        if self.is_dubious && matches!(fault, AdapterFault::Replace { .. }) {
            self.may_lose();
            for (_, op, may) in self.open.values_mut().filter(|o| o.1.kind == OpKind::Read) {
                debug_assert_eq!(op.kind, OpKind::Read);
                for may in may {
                    may.insert(LOST);
                }
            }
        }
    }

    fn any_op(&mut self) -> (u32, Op) {
        let volume = self.any(self.volumes.len() as u64) as u32;
        let units = self.volumes[volume as usize].len() as u64;
        let kind = match self.any(12) {
            0 => OpKind::Flush,
            1 => OpKind::Trim,
            2 => OpKind::WriteZeroes,
            3..=6 => OpKind::Read,
            _ => OpKind::Write,
        };
        let (mut offset_bytes, mut len_bytes) = {
            let from = self.any(units);
            (from * UNIT, (1 + self.any((units - from).min(6))) * UNIT)
        };
        if kind != OpKind::WriteZeroes && self.any(4) == 0 {
            // Sectors.
            offset_bytes += self.any(8) * 512;
            len_bytes = (1 + self.any(12)) * 512;
            len_bytes = len_bytes.min(units * UNIT - offset_bytes);
        }
        if kind == OpKind::Flush {
            return (volume, Op::FLUSH);
        }
        let fua = kind == OpKind::Write && self.any(8) == 0;
        (volume, Op { offset_bytes, len_bytes: len_bytes as u32, kind, fua })
    }

    fn read_all(&mut self) {
        for volume in 0..self.volumes.len() as u32 {
            let units = self.volumes[volume as usize].len() as u64;
            for at in (0..units).step_by(5) {
                let len_bytes = ((units - at).min(5) * UNIT) as u32;
                let op = Op { offset_bytes: at * UNIT, len_bytes, kind: OpKind::Read, fua: false };
                self.submit(volume, op);
                self.drain();
            }
        }
    }

    fn run(mut self) -> Self {
        let steps = 30 + self.any(60);
        let depth = 1 + self.any(8) as usize;
        let fault_every = [8, 20, 1000][self.any(3) as usize];
        for _ in 0..steps {
            if self.any(fault_every) == 0 {
                self.fault();
            } else if self.any(6) == 0 {
                let until_ns = self.machine.now_ns() + self.any(300_000);
                while self.step_until(until_ns) {}
            } else {
                let (volume, op) = self.any_op();
                self.submit(volume, op);
                while self.open.len() >= depth {
                    assert!(self.step_until(u64::MAX), "{:?}", self.open);
                }
            }
        }
        self.drain();
        // At last all adapters are there, and everything is read: as it is, after all is on the devices, and after a
        // power cut.
        for adapter in 0..self.adapters {
            self.machine.apply_fault(&Fault::Adapters(AdapterFault::Clear { adapter }));
        }
        for link in 0..if self.adapters == 1 { 0 } else { self.links } {
            self.machine.apply_fault(&Fault::Adapters(AdapterFault::LinkUp { link }));
        }
        (self.lost, self.batteries, self.links_down) = <_>::default();
        self.read_all();
        while self.machine.step(u64::MAX) {}
        self.read_all();
        self.cut();
        self.read_all();
        // Content as the owner sees it is that.
        while self.machine.step(u64::MAX) {}
        for (volume, units) in (0..).zip(&self.volumes) {
            for (number, unit) in (0..).zip(units) {
                let value = self.machine.content(volume, number * UNIT).unwrap_or(0);
                assert!(
                    unit.now.contains(&value) || unit.now.contains(&LOST),
                    "unit {number} of {volume} is {value}, {unit:?}"
                );
            }
        }
        assert_eq!(self.machine.check(), Ok(()));
        self
    }
}

/// Runs the histories of these seeds. Returns the number of checked units, and the number of
/// histories in which data may have been lost.
fn histories(seeds: std::ops::Range<u64>, prints: bool) -> (u64, u64) {
    let (mut checked, mut dubious) = (0, 0);
    for seed in seeds {
        let run = std::panic::catch_unwind(|| Run::new(seed, prints).run());
        let Ok(run) = run else { panic!("HISTORY={seed}") };
        checked += run.checked;
        dubious += u64::from(run.is_dubious);
    }
    (checked, dubious)
}

#[test]
fn every_read_returns_what_was_written() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    if let Some(seed) = number("HISTORY") {
        histories(seed..seed + 1, true);
        return;
    }
    if let (Some(from), Some(to)) = (number("HISTORIES_FROM"), number("HISTORIES_TO")) {
        histories(from..to, false);
        return;
    }
    let count = number("HISTORIES").unwrap_or(4000);
    let each = count / 2;
    let results: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let halves = [0..each, each..count];
        let handles = halves.map(|seeds| scope.spawn(move || histories(seeds, false)));
        handles
            .into_iter()
            .map(|h| h.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
            .collect()
    });
    let checked: u64 = results.iter().map(|r| r.0).sum();
    let dubious: u64 = results.iter().map(|r| r.1).sum();
    assert!(checked > count * 50, "{checked} units were checked");
    assert!(dubious < count * 2 / 3, "{dubious} histories may lose something");
}
