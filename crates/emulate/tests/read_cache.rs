//! Flash as a read cache in front of disks: closed forms of its hit ratio and latency, and histories of its content
//! with power cuts and the loss of the flash.

use crate::common;

use common::{disk, flash, host, memory};
use iodyno_emulate::spec::{ArrayShape, Attach, Device, Kind, Part, Preconditioned, Written};
use iodyno_emulate::{Fault, Machine, PartId, System};
use iodyno_raid::{Level, Rotation};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{Op, OpKind};
use std::collections::{BTreeMap, BTreeSet};

const UNIT: u64 = 4096;

fn state(how: Written) -> Preconditioned {
    Preconditioned { how, fill: 1.0 }
}

fn add(system: &mut System, kind: &Kind, how: Written) {
    let device = Device {
        name: "device".to_owned(),
        kind: kind.clone(),
        hot_swap: true,
        limits: Vec::new(),
    };
    system.add_device(device, state(how), 0);
}

/// A machine that caches reads of `backing` in `units` units of `fast`.
fn cached(backing: &Kind, fast: &Kind, units: u64, how: Written) -> Machine {
    let mut system = System::new("test", host());
    add(&mut system, backing, how);
    add(&mut system, fast, how);
    system.cache_reads(&[(0, units * UNIT)]);
    let mut machine = Machine::represented(&system, 1, 1).unwrap();
    machine.add_worker(0);
    machine
}

fn small_flash(units: u64) -> Kind {
    let mut flash = flash();
    flash.capacity_bytes = units * UNIT;
    flash.nand.raw_bytes = (2 * units + 64) * UNIT;
    flash.nand.channels = 2;
    flash.nand.pages_per_block = 8;
    flash.nand.parity_stripe = 0;
    flash.buffer.protected = false;
    Kind::Flash(Box::new(flash))
}

fn op(kind: OpKind, unit: u64, units: u64) -> Op {
    Op { offset_bytes: unit * UNIT, len_bytes: (units * UNIT) as u32, kind, fua: false }
}

/// Issues uniform random reads of a working set in units, one at a time. Returns the share of hits,
/// and the mean times of hits and misses, ns.
fn uniform(m: &mut Machine, working_set: u64, operations: u64) -> (f64, f64, f64) {
    let random = &mut stream(5, "uniform", 0);
    let (mut hits, mut of_hits_ns, mut of_misses_ns) = (0, 0, 0);
    for _ in 0..operations {
        let before = m.read_cache_counts(0).unwrap().hits;
        let read = op(OpKind::Read, below(random, working_set), 1);
        let from_ns = m.submit(m.now_ns(), 0, 0, &read, 0);
        let done = m.next_completion(u64::MAX).expect("it ends");
        assert_eq!(done.failure, None);
        let is_hit = m.read_cache_counts(0).unwrap().hits > before;
        hits += u64::from(is_hit);
        *if is_hit { &mut of_hits_ns } else { &mut of_misses_ns } += done.at_ns - from_ns;
        // What was missed is on the flash before the next.
        while m.step(u64::MAX) {}
    }
    let mean = |sum_ns: u64, count: u64| sum_ns as f64 / count.max(1) as f64;
    (hits as f64 / operations as f64, mean(of_hits_ns, hits), mean(of_misses_ns, operations - hits))
}

/// Host software sends a write to both devices, and a read to one of them.
#[test]
fn the_host_works_for_both_devices() {
    let costly = |ns| {
        let mut kind = small_flash(1024);
        let Kind::Flash(flash) = &mut kind else { unreachable!() };
        let Attach::Link { host_ns, .. } = &mut flash.attach else { unreachable!() };
        *host_ns = ns;
        kind
    };
    let mut m = cached(&costly(10_000), &costly(30_000), 500, Written::Fresh);
    for (kind, expected_ns) in
        [(OpKind::Read, 30_000), (OpKind::Write, 40_000), (OpKind::Trim, 10_000)]
    {
        let now_ns = m.now_ns();
        assert_eq!(m.submit(now_ns, 0, 0, &op(kind, 0, 1), 0) - now_ns, expected_ns, "{kind:?}");
        while m.step(u64::MAX) {}
    }
}

#[test]
fn the_hit_ratio_is_the_share_of_the_working_set_that_fits() {
    let (cache, operations) = (500, 20_000);
    for (working_set, expected) in [(1000, 0.5), (2000, 0.25), (500, 1.0)] {
        let mut m = cached(&disk(false), &small_flash(1024), cache, Written::Fresh);
        // Until every unit had its chance.
        uniform(&mut m, working_set, 8 * working_set);
        let (ratio, hit_ns, miss_ns) = uniform(&mut m, working_set, operations);
        // Three standard errors.
        let error = 3.0 * (expected * (1.0 - expected) / operations as f64).sqrt();
        assert!((ratio - expected).abs() <= error + 1e-9, "{working_set}: {ratio}");
        if working_set == cache {
            continue;
        }
        // A hit costs the flash, a miss the disk, and nothing else.
        let alone = |kind: &Kind| {
            let mut system = System::new("test", host());
            add(&mut system, kind, Written::Fresh);
            let mut m = Machine::represented(&system, 1, 1).unwrap();
            m.add_worker(0);
            let random = &mut stream(6, "alone", 0);
            let mut sum_ns = 0;
            for _ in 0..8000 {
                let read = op(OpKind::Read, below(random, working_set), 1);
                let from_ns = m.submit(m.now_ns(), 0, 0, &read, 0);
                sum_ns += m.next_completion(u64::MAX).unwrap().at_ns - from_ns;
            }
            sum_ns as f64 / 8000.0
        };
        let disk_ns = alone(&disk(false));
        assert!((miss_ns / disk_ns - 1.0).abs() < 0.05, "{miss_ns} of {disk_ns}");
        assert!((hit_ns / 50_000.0 - 1.0).abs() < 0.01, "{hit_ns}");
        // The mean is that of both.
        let usage = m.snapshot();
        let phase = |name| {
            let mut phases = usage.volumes[0].phases.iter();
            phases.find(|p| p.name == name).map(|p| p.total_ns as f64 / p.count as f64).unwrap()
        };
        let (counts, mean_ns) =
            (m.read_cache_counts(0).unwrap(), phase("cache reads") + phase("misses read"));
        let of_all = counts.hits as f64 / (counts.hits + counts.misses) as f64;
        let law_ns = of_all * hit_ns + (1.0 - of_all) * miss_ns;
        assert!((mean_ns / law_ns - 1.0).abs() < 0.05, "{mean_ns} of {law_ns}");
    }
}

/// On a randomly written volume the cache begins with a sample, on a sequentially written one with the volume's end.
#[test]
fn it_begins_as_a_long_workload_leaves_it() {
    let random = Written::Random { block_bytes: 4096 };
    let mut m = cached(&small_flash(4096), &small_flash(1024), 1024, random);
    let (ratio, ..) = uniform(&mut m, 4096, 4000);
    assert!((ratio - 0.25).abs() < 0.03, "{ratio}");
    let mut m = cached(&small_flash(4096), &small_flash(1024), 1024, Written::Sequential);
    for (unit, hits) in [(4095, 1), (3072, 2), (3071, 2)] {
        m.submit(m.now_ns(), 0, 0, &op(OpKind::Read, unit, 1), 0);
        m.next_completion(u64::MAX).unwrap();
        assert_eq!(m.read_cache_counts(0).unwrap().hits, hits, "{unit}");
    }
    let mut m = cached(&small_flash(4096), &small_flash(1024), 1024, Written::Fresh);
    assert!(uniform(&mut m, 4096, 500).0 < 0.1);
}

#[test]
fn what_was_written_or_missed_is_held_until_others_are_used() {
    let mut m = cached(&disk(false), &small_flash(64), 4, Written::Fresh);
    m.keep_content();
    let mut run = |op: Op| {
        let from_ns = m.submit(m.now_ns(), 0, 0, &op, 9);
        let done = m.next_completion(u64::MAX).unwrap();
        while m.step(u64::MAX) {}
        assert_eq!((done.failure, m.check()), (None, Ok(())));
        let counts = m.read_cache_counts(0).unwrap();
        (done.at_ns - from_ns, counts.hits, counts.admitted_units)
    };
    // A write takes the longer of both.
    assert!(run(op(OpKind::Write, 0, 2)).0 > 500_000);
    assert_eq!(run(op(OpKind::Read, 0, 2)).1, 1);
    assert!(run(op(OpKind::Read, 1, 1)).0 < 60_000);
    // A part of it, too; of what is not held nothing is served.
    let part = Op { offset_bytes: 512, len_bytes: 512, kind: OpKind::Read, fua: false };
    assert_eq!(run(part).1, 3);
    assert_eq!(run(op(OpKind::Read, 1, 2)).1, 3);
    assert_eq!(run(op(OpKind::Read, 1, 2)).1, 4);
    // The least recently used goes: 0.
    run(op(OpKind::Read, 10, 2));
    assert_eq!(run(op(OpKind::Read, 0, 1)).1, 4);
    assert_eq!(run(op(OpKind::Read, 10, 2)).1, 5);
    // A part of a unit that is written, and trims, leave nothing.
    run(Op { kind: OpKind::Write, offset_bytes: 10 * UNIT + 512, ..part });
    assert_eq!(run(op(OpKind::Read, 10, 1)).1, 5);
    run(op(OpKind::Trim, 11, 1));
    assert_eq!(run(op(OpKind::Read, 11, 1)).1, 5);
}

type Values = BTreeSet<u64>;

/// The values that a unit may have, and its writes in progress by token, each with the values of writes that ended
/// during this write.
#[derive(Clone, Debug, Default)]
struct Unit {
    now: Values,
    writes: BTreeMap<u64, (u64, Values)>,
}

/// Runs a history on a device that keeps everything that it acknowledged: every read returns the
/// last value, or the value of a write that overlaps the read.
fn history(seed: u64) -> (u64, u64) {
    const UNITS: u64 = 24;
    let random = &mut stream(seed, "read-cache", 0);
    let one = |random: &mut Generator, n: u64| below(random, n);
    let durable = || {
        let Kind::Memory(mut memory) = memory(true) else { unreachable!() };
        memory.capacity_bytes = 64 * UNIT;
        Kind::Memory(memory)
    };
    let slow = || {
        let Kind::Flash(mut flash) = small_flash(64) else { unreachable!() };
        flash.buffer.protected = true;
        Kind::Flash(flash)
    };
    let mut system = System::new("test", host());
    let backings = 1 + 2 * one(random, 2);
    let backing = if one(random, 2) == 0 { durable() } else { slow() };
    (0..backings).for_each(|_| add(&mut system, &backing, Written::Fresh));
    let fast = if one(random, 2) == 0 { durable() } else { small_flash(64) };
    add(&mut system, &fast, Written::Fresh);
    if backings > 1 {
        let (level, strip_bytes) = (Level::Raid5, UNIT);
        let shape = ArrayShape { level, members: 3, strip_bytes, rotation: Rotation::default() };
        let array = (0..3, Some((shape, "array".to_owned())));
        system.group(vec![array, (3..4, None)]).unwrap();
        for part in &mut system.parts {
            // A power cut loses nothing where a member is missing.
            if let Part::Array(array) = part {
                array.journal = true;
            }
        }
    }
    system.cache_reads(&[(0, (1 + one(random, 16)) * UNIT)]);
    let mut m = Machine::represented(&system, seed, 1).unwrap();
    m.keep_content();
    m.add_worker(0);
    let fast = PartId(backings as u32);
    let mut units = vec![Unit { now: Values::from([0]), ..Unit::default() }; UNITS as usize];
    // By token: the operation, and for reads what each unit may return.
    let mut open: BTreeMap<u64, (Op, Vec<Values>)> = BTreeMap::new();
    let depth = 1 + one(random, 8) as usize;
    let mut checked = 0;
    for token in 1..400 {
        let kind = match one(random, 20) {
            0 => OpKind::Trim,
            1 => OpKind::WriteZeroes,
            2 => OpKind::Flush,
            3..=8 => OpKind::Write,
            _ => OpKind::Read,
        };
        let len = 1 + one(random, 3);
        let at = one(random, UNITS - len + 1);
        let mut op = if kind == OpKind::Flush { Op::FLUSH } else { op(kind, at, len) };
        if matches!(kind, OpKind::Read | OpKind::Write) && one(random, 4) == 0 {
            op.offset_bytes += 512;
            op.len_bytes -= 1024;
        }
        let touched = if kind == OpKind::Flush { 0..0 } else { at..at + len };
        let mut readable = Vec::new();
        for unit in touched {
            let known = &mut units[unit as usize];
            if kind == OpKind::Read {
                let open = known.writes.values().map(|write| write.0);
                readable.push(known.now.iter().copied().chain(open).collect());
                continue;
            }
            let value = if kind == OpKind::Write { token } else { 0 };
            known.writes.insert(token, (value, Values::new()));
            for (read, values) in open.values_mut().filter(|o| o.0.kind == OpKind::Read) {
                let first = read.offset_bytes / UNIT;
                if unit >= first && unit < first + values.len() as u64 {
                    values[(unit - first) as usize].insert(value);
                }
            }
        }
        open.insert(token, (op, readable));
        m.submit(m.now_ns(), 0, 0, &op, token);
        while open.len() >= depth || (token == 399 && !open.is_empty()) {
            let done = m.next_completion(u64::MAX).expect("all end");
            assert_eq!(done.failure, None, "seed {seed}: {:?}", open[&done.token]);
            let (op, readable) = open.remove(&done.token).unwrap();
            let first = op.offset_bytes / UNIT;
            if op.kind == OpKind::Read {
                let values = m.values_read().unwrap();
                assert_eq!(values.len(), readable.len());
                for ((unit, value), allowed) in (first..).zip(values).zip(&readable) {
                    assert!(
                        allowed.contains(value),
                        "seed {seed}: {unit} is {value} of {allowed:?}"
                    );
                    checked += 1;
                }
            } else if op.kind != OpKind::Flush {
                let end = (op.offset_bytes + u64::from(op.len_bytes)).div_ceil(UNIT);
                for unit in &mut units[first as usize..end as usize] {
                    let (value, mut now) = unit.writes.remove(&done.token).unwrap();
                    unit.writes.values_mut().for_each(|write| _ = write.1.insert(value));
                    now.insert(value);
                    if op.kind == OpKind::Trim {
                        now.append(&mut unit.now);
                    }
                    unit.now = now;
                }
            }
        }
        match one(random, 60) {
            0 => {
                m.apply_fault(&Fault::PowerCut);
                open.clear();
                for unit in &mut units {
                    let writes = std::mem::take(&mut unit.writes);
                    unit.now.extend(writes.into_values().map(|write| write.0));
                }
                let admitted = m.read_cache_counts(0).unwrap();
                let read = self::op(OpKind::Read, 0, 1);
                m.submit(m.now_ns(), 0, 0, &read, 0);
                assert_eq!(m.next_completion(u64::MAX).unwrap().failure, None);
                assert_eq!(m.read_cache_counts(0).unwrap().hits, admitted.hits, "it is cold");
            }
            1 => m.apply_fault(&Fault::Lose { part: fast }),
            2 => m.apply_fault(&Fault::Replace { part: fast }),
            3 if backings > 1 => m.apply_fault(&Fault::Lose { part: PartId(1) }),
            4 if backings > 1 => m.apply_fault(&Fault::Replace { part: PartId(1) }),
            _ => {}
        }
    }
    while m.step(u64::MAX) {}
    assert_eq!(m.check(), Ok(()));
    (checked, m.read_cache_counts(0).unwrap().hits)
}

#[test]
fn every_read_returns_what_was_written() {
    let (mut checked, mut hits) = (0, 0);
    for seed in 0..1500 {
        let (of_checked, of_hits) = history(seed);
        checked += of_checked;
        hits += of_hits;
    }
    assert!(checked > 400_000 && hits > 10_000, "{checked} units, {hits} hits");
}
