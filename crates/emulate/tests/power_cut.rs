//! Writes that survive a power cut of a drive with the table `[power_cut]`: whole aligned blocks, in any order or in
//! the order of acceptance. Also tests the rules of that table.

use crate::common::{flash, system};
use crate::load::Files;
use iodyno_emulate::spec::{DurableOrder, Flash, Kind, PowerCut, Written};
use iodyno_emulate::{Fault, Machine, describe};
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};
use std::ops::Range;

const UNIT: u64 = 4096;
const UNITS: u64 = 64;
/// Number of histories for each device; each history ends with a power cut.
const HISTORIES: u64 = 300;
/// Multiplier that repeats a byte in each of the 8 sectors of a unit.
const WIDE: u64 = 0x0101_0101_0101_0101;

/// A small device whose program operations hold two units and end in another order than they begin, and whose link takes a
/// noticeable time.
fn drive(protected: bool, atomic_bytes: u32, order: DurableOrder) -> Flash {
    let mut f = flash();
    f.capacity_bytes = UNITS * UNIT;
    f.nand.channels = 4;
    f.nand.planes = 2;
    f.nand.pages_per_block = 2;
    f.nand.raw_bytes = (UNITS + 8 * 16) * UNIT;
    f.nand.program_fast_ns = 200_000;
    f.nand.program_slow_ns = 1_100_000;
    f.buffer.bytes = 24 * UNIT;
    f.buffer.protected = protected;
    f.power_cut = Some(PowerCut { atomic_bytes, order });
    if let iodyno_emulate::spec::Attach::Link { write_bytes_per_s, .. } = &mut f.attach {
        *write_bytes_per_s = 200e6;
    }
    f
}

/// Runs until none of the `in_flight` operations is outstanding. Returns the time, ns.
fn rest(machine: &mut Machine, in_flight: &mut u64) -> u64 {
    while *in_flight > 0 {
        machine.next_completion(u64::MAX).expect("one is in flight");
        *in_flight -= 1;
    }
    machine.now_ns()
}

/// A write to these units; a trim, if the value is 0.
struct Change {
    units: Range<u64>,
    value: u64,
}

/// Writes and trims in the order of their submission, and the values of all units after a power cut.
struct Cut {
    changes: Vec<Change>,
    values: Vec<u64>,
}

impl Cut {
    fn after(flash: &Flash, seed: u64, represent: u32) -> Self {
        let mut random = stream(seed, "power cut test", 0);
        let mut flash = flash.clone();
        if represent > 1 {
            // A sample must have some thousands of pages.
            flash.capacity_bytes = 8192 * UNIT;
            flash.nand.pages_per_block = 64;
            flash.nand.raw_bytes = 12_288 * UNIT;
        }
        let whole = system(Kind::Flash(Box::new(flash)), Written::Fresh, 1);
        let mut machine = Machine::represented(&whole, seed, represent).unwrap();
        machine.keep_content();
        let worker = machine.add_worker(0);
        let pace_ns = [20_000, 100_000, 400_000][below(&mut random, 3) as usize];
        let (mut changes, mut now_ns, mut in_flight) = (Vec::new(), 0, 0);
        for number in 1..=10 + below(&mut random, 90) {
            let first = below(&mut random, UNITS);
            let units = first..UNITS.min(first + 1 + below(&mut random, 9));
            let (offset_bytes, len_bytes) = (first * UNIT, (units.end - first) * UNIT);
            let kind = [OpKind::Flush, OpKind::Trim, OpKind::Write]
                [below(&mut random, 30).min(2) as usize];
            let op = match kind {
                OpKind::Flush => Op::FLUSH,
                _ => Op { offset_bytes, len_bytes: len_bytes as u32, kind, fua: false },
            };
            let value = if kind == OpKind::Write { number * WIDE } else { 0 };
            // A trim is not submitted or in flight together with others, whose order would be open.
            if kind == OpKind::Trim {
                now_ns = now_ns.max(rest(&mut machine, &mut in_flight));
            }
            machine.submit(now_ns, worker, 0, &op, value);
            in_flight += 1;
            if kind == OpKind::Trim {
                now_ns = now_ns.max(rest(&mut machine, &mut in_flight));
            }
            if kind != OpKind::Flush {
                changes.push(Change { units, value });
            }
            now_ns += below(&mut random, 2 * pace_ns);
            while machine.next_completion(now_ns).is_some() {
                in_flight -= 1;
            }
        }
        machine.apply_fault(&Fault::PowerCut);
        machine.check().unwrap();
        let value = |unit| machine.content(0, unit * UNIT).unwrap_or(0);
        let cut = Self { changes, values: (0..UNITS).map(value).collect() };
        // What the cut left survives another one, and the recovery.
        while machine.next_completion(now_ns + 100_000_000).is_some() {}
        machine.apply_fault(&Fault::PowerCut);
        for unit in 0..UNITS {
            assert_eq!(
                machine.content(0, unit * UNIT).unwrap_or(0),
                cut.values[unit as usize],
                "unit {unit} after another cut"
            );
        }
        machine.check().unwrap();
        cut
    }

    /// Number of blocks of `block_units` units that hold only a part of a write, and number of writes that survive in
    /// part. Units that were overwritten later don't count.
    fn torn(&self, block_units: u64) -> (u64, u64) {
        let (mut torn_blocks, mut torn_writes) = (0, 0);
        for (number, write) in self.changes.iter().enumerate().filter(|of| of.1.value > 0) {
            let later = &self.changes[number + 1..];
            let is_last = |unit: &u64| !later.iter().any(|other| other.units.contains(unit));
            let survives = |unit: u64| self.values[unit as usize] == write.value;
            let (mut alive, mut lost) = (false, false);
            for block in write.units.start / block_units..write.units.end.div_ceil(block_units) {
                let within = write.units.start.max(block * block_units)
                    ..write.units.end.min((block + 1) * block_units);
                let of_block: Vec<bool> = within.filter(is_last).map(survives).collect();
                torn_blocks += u64::from(of_block.contains(&true) && of_block.contains(&false));
                alive |= of_block.contains(&true);
                lost |= of_block.contains(&false);
            }
            torn_writes += u64::from(alive && lost);
        }
        (torn_blocks, torn_writes)
    }

    /// Number of units that hold sectors of more than one version. Checks that each aligned block of `block_bytes`
    /// within a unit holds a single version.
    fn torn_units(&self, block_bytes: usize) -> u64 {
        let mut torn = 0;
        for (unit, value) in (0..).zip(&self.values) {
            let sectors = value.to_le_bytes();
            torn += u64::from(sectors.iter().any(|sector| *sector != sectors[0]));
            for block in sectors.chunks(block_bytes / 512) {
                assert!(block.iter().all(|sector| *sector == block[0]), "unit {unit}: {value:x}");
                let versions = self.changes.iter().filter(|change| change.units.contains(&unit));
                let known = block[0] == 0 || versions.clone().any(|of| of.value as u8 == block[0]);
                assert!(known, "unit {unit}: {value:x}");
            }
        }
        torn
    }

    /// Whether the values result from a prefix of the changes, counted in units. The last unit of the prefix may be
    /// torn.
    fn is_in_order(&self) -> bool {
        let mut values = vec![0; UNITS as usize];
        let units =
            self.changes.iter().flat_map(|of| of.units.clone().map(|unit| (unit, of.value)));
        if values == self.values {
            return true;
        }
        for (unit, value) in units {
            let old = std::mem::replace(&mut values[unit as usize], value);
            let found = self.values[unit as usize];
            let torn = found.to_le_bytes();
            let from_new = torn.iter().take_while(|sector| **sector == value as u8).count();
            let is_torn = torn[from_new..].iter().all(|sector| *sector == old as u8);
            values[unit as usize] = if is_torn { found } else { value };
            if values == self.values {
                return true;
            }
            values[unit as usize] = value;
        }
        false
    }
}

/// For each block size and each order, on devices with a full and with a sampled map: a power cut keeps each block
/// whole or not at all, tears larger writes, and with the order `acknowledged` loses only the last writes.
#[test]
fn blocks_survive_whole_and_in_order() {
    for order in DurableOrder::ALL {
        for (protected, atomic_bytes) in [512, 2048, 4096, 16 << 10, 32 << 10]
            .into_iter()
            .flat_map(|bytes| [(false, bytes), (true, bytes)])
        {
            let name = format!("protected {protected}, {atomic_bytes} bytes, {order:?}");
            let flash = drive(protected, atomic_bytes, order);
            let (mut torn_writes, mut torn_units, mut torn_of_16k, mut disordered) = (0, 0, 0, 0);
            for seed in 0..HISTORIES {
                let cut = Cut::after(&flash, seed, if seed % 4 == 3 { 2 } else { 1 });
                let block_units = (u64::from(atomic_bytes) / UNIT).max(1);
                let (blocks, writes) = cut.torn(block_units);
                assert_eq!(blocks, 0, "{name}, seed {seed}");
                torn_writes += writes;
                torn_units += cut.torn_units(atomic_bytes.min(4096) as usize);
                torn_of_16k += cut.torn(4).0;
                let in_order = cut.is_in_order();
                disordered += u64::from(!in_order);
                let must = order == DurableOrder::Acknowledged && !protected;
                assert!(in_order || !must, "{name}, seed {seed}");
            }
            println!(
                "{name}: {torn_writes} torn writes, {torn_units} torn units, {torn_of_16k} torn blocks of 16 KiB, {disordered} cuts out of order"
            );
            assert!(torn_writes > 5, "{name}: {torn_writes} writes in part");
            assert_eq!(torn_units > 5, atomic_bytes < 4096, "{name}: {torn_units} torn units");
            assert_eq!(torn_of_16k > 5, atomic_bytes < 16 << 10, "{name}: {torn_of_16k}");
            let is_ordered = order == DurableOrder::Acknowledged;
            assert!(is_ordered || protected || disordered > 5, "{name}: {disordered} disordered");
        }
    }
}

/// The same seed leaves the same content.
#[test]
fn a_seed_tears_the_same() {
    let flash = drive(false, 512, DurableOrder::Any);
    let values = |seed| Cut::after(&flash, seed, 1).values;
    assert_eq!(values(3), values(3));
    let cuts: Vec<_> = (0..20).map(values).collect();
    assert!(cuts.iter().any(|other| *other != cuts[0]));
}

/// Whether content is stored changes no event after the cut.
#[test]
fn stored_content_changes_no_event_after_a_cut() {
    for protected in [true, false] {
        let kind = Kind::Flash(Box::new(drive(protected, 512, DurableOrder::Any)));
        let hash = |keeps: bool| {
            let mut machine =
                Machine::represented(&system(kind.clone(), Written::Fresh, 1), 1, 1).unwrap();
            if keeps {
                machine.keep_content();
            }
            let worker = machine.add_worker(0);
            for unit in 0..40 {
                let op = Op {
                    offset_bytes: unit * UNIT,
                    len_bytes: 4096,
                    kind: OpKind::Write,
                    fua: false,
                };
                machine.submit(unit * 10_000, worker, 0, &op, unit + 1);
            }
            machine.inject(350_000, Fault::PowerCut);
            while machine.next_completion(20_000_000).is_some() {}
            for unit in 0..40 {
                let op = Op {
                    offset_bytes: unit * UNIT,
                    len_bytes: 4096,
                    kind: OpKind::Read,
                    fua: false,
                };
                machine.submit(20_000_000 + unit * 10_000, worker, 0, &op, unit + 1);
            }
            while machine.next_completion(40_000_000).is_some() {}
            machine.event_hash()
        };
        assert_eq!(hash(true), hash(false), "protected {protected}");
    }
}

#[test]
fn every_rule_of_the_table_is_reported() {
    let rules = |changes: &[(&str, &str)]| -> Vec<&str> {
        let files = Files::new("nvme-tlc-3840g", "workstation");
        let files = changes.iter().fold(files, |files, change| files.with(*change));
        match describe::device("any", &files.device) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(|error| error.rule.unwrap_or("no rule")).collect(),
        }
    };
    let atomic = |size| ("power_cut.atomic", size);
    let order = ("power_cut.order", "\"acknowledged\"");
    let volatile = ("buffer.protected", "false");
    let unit = ("translation.unit", "\"16KiB\"");
    for size in ["\"512B\"", "\"4KiB\"", "\"16KiB\"", "\"128KiB\""] {
        assert_eq!(rules(&[atomic(size), order]), [""; 0], "{size}");
        assert_eq!(rules(&[atomic(size), volatile]), [""; 0], "{size}");
    }
    assert_eq!(rules(&[atomic("\"12KiB\"")]), ["power-cut-atomic"]);
    assert_eq!(rules(&[atomic("\"256KiB\"")]), ["no rule"]);
    assert_eq!(rules(&[order]), ["no rule"], "the order alone");
    assert_eq!(rules(&[atomic("\"16KiB\""), unit]), [""; 0]);
    assert_eq!(rules(&[atomic("\"16KiB\""), unit, volatile]), ["power-cut-alone"]);
}
