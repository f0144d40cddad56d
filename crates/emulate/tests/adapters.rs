//! RAID adapters: closed forms of one operation and of each bottleneck, absorption by the write cache, and completion
//! of every operation under any load.

use crate::common;

use common::{flash, host};
use iodyno_emulate::describe;
use iodyno_emulate::spec::{
    Access, Adapters, ArrayShape, Cache, Device, Drawers, HostPaths, Kind, ParityEngine,
    Preconditioned, Processor, Slot, Written,
};
use iodyno_emulate::{Fault, Machine, System};
use iodyno_raid::{Level, Rotation};
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};
use std::collections::BTreeSet;

const UNIT: u64 = 4096;
const STRIP: u64 = 64 << 10;
/// A rate at which nothing is a bottleneck.
const FAST: f64 = 1e12;

/// Adapters that take no time, without a cache.
fn adapters() -> Adapters {
    Adapters {
        count: 2,
        access: Access::Balanced,
        host_paths: HostPaths::Optimized,
        commands_max: 1 << 20,
        slot: Slot { read_bytes_per_s: FAST, write_bytes_per_s: FAST, fetch_ns: 0 },
        processor: Processor { read_ns: 0, write_ns: 0, device_ns: 0, raid6_ns: 0, forward_ns: 0 },
        parity: ParityEngine { xor_bytes_per_s: FAST, gf_bytes_per_s: FAST },
        latency_ns: 0,
        strip_bytes: STRIP,
        cache: None,
        devices_max: 96,
        ssds_max: 48,
        aa_links: 1,
        failover_ns: 0,
        drawers: Drawers { count: 2, bays: 24, bytes_per_s: FAST },
    }
}

/// A cache that takes no time and destages at once.
fn cache() -> Cache {
    Cache {
        bytes: 64 << 20,
        write_ns: 0,
        mirror_ns: 0,
        mirror_bytes_per_s: FAST,
        mirror_latency_ns: 0,
        destage_share: 0.0,
        destage_ramp_bytes: 1 << 20,
        destage_depth: 8,
        keeps_reads: false,
    }
}

/// Arrays of this level behind adapters; a JBOD of one member is a single device.
fn machine(adapters: Adapters, level: Level, members: u32, arrays: u32) -> Machine {
    let mut system = System::new("test", host());
    let state = Preconditioned { how: Written::Sequential, fill: 1.0 };
    for _ in 0..members * arrays {
        let mut flash = flash();
        flash.nand.parity_stripe = 0;
        let kind = Kind::Flash(Box::new(flash));
        system.add_device(
            Device { name: "device".to_owned(), kind, hot_swap: true, limits: Vec::new() },
            state,
            0,
        );
    }
    system.attach(adapters).unwrap();
    let shape =
        ArrayShape { level, members, strip_bytes: STRIP, rotation: Rotation::LeftSymmetric };
    let range = |n: u32| (n * members) as usize..((n + 1) * members) as usize;
    let shaped = |n| (range(n), (members > 1).then(|| (shape, "array".to_owned())));
    system.group((0..arrays).map(shaped).collect()).unwrap();
    let mut machine = Machine::new(&system, 1).unwrap();
    for array in 0..arrays {
        machine.add_worker(array);
    }
    machine
}

fn op(kind: OpKind, offset_bytes: u64, len_bytes: u64) -> Op {
    Op { offset_bytes, len_bytes: len_bytes as u32, kind, fua: false }
}

fn alone(machine: &mut Machine, op: &Op) -> u64 {
    let from_ns = machine.submit(machine.now_ns(), 0, 0, op, 7);
    let done = machine.next_completion(u64::MAX).expect("it ends");
    assert_eq!(done.failure, None);
    done.at_ns - from_ns
}

/// Mean time between completions with `depth` random operations of `len` bytes outstanding on each
/// array, ns.
fn period_ns(machine: &mut Machine, kind: OpKind, len: u64, depth: u32) -> f64 {
    let rng = &mut stream(3, "adapters", 0);
    let arrays = machine.volumes();
    let blocks = (machine.capacity_bytes(0) / len).min(4096);
    let mut issue = |machine: &mut Machine, array| {
        let op = op(kind, below(rng, blocks) * len, len);
        machine.submit(machine.now_ns(), array, array, &op, u64::from(array));
    };
    for array in 0..arrays {
        (0..depth).for_each(|_| issue(machine, array));
    }
    let mut run = |machine: &mut Machine, operations: u32| {
        for _ in 0..operations {
            let done = machine.next_completion(u64::MAX).expect("some are outstanding");
            assert_eq!(done.failure, None);
            issue(machine, done.volume);
        }
        machine.now_ns()
    };
    let from_ns = run(machine, 400);
    let to_ns = run(machine, 2500);
    assert_eq!(machine.check(), Ok(()));
    (to_ns - from_ns) as f64 / 2500.0
}

/// Time in which a device reads a unit, as in `arrays.rs`.
const READ_NS: u64 = 50_000;
/// Time in which a device accepts a write of a unit, as in `arrays.rs`.
const WRITE_NS: u64 = 2_000;

#[test]
fn one_operation_takes_its_way() {
    let slow = Adapters {
        slot: Slot { read_bytes_per_s: 1e9, write_bytes_per_s: 2e9, fetch_ns: 300 },
        processor: Processor {
            read_ns: 1000,
            write_ns: 2000,
            device_ns: 400,
            raid6_ns: 5000,
            forward_ns: 0,
        },
        parity: ParityEngine { xor_bytes_per_s: 1e9, gf_bytes_per_s: 2e9 },
        latency_ns: 10_000,
        ..adapters()
    };
    let cached = Adapters {
        cache: Some(Cache {
            write_ns: 700,
            mirror_ns: 800,
            mirror_bytes_per_s: 1e9,
            mirror_latency_ns: 900,
            destage_share: 0.5,
            ..cache()
        }),
        ..slow.clone()
    };
    let read = op(OpKind::Read, 8 * UNIT, UNIT);
    let write = op(OpKind::Write, 8 * UNIT, UNIT);
    // Fetch, processor, device operation, device, slot, driver.
    let read_ns = 300 + 1000 + 400 + READ_NS + 4096 + 10_000;
    let from_host_ns = 2 * 300 + 2000 + 2048;
    let (write, read) = (&write, &read);
    for (adapters, level, members, op, expected_ns) in [
        (&slow, Level::Jbod, 1, read, read_ns),
        (&slow, Level::Raid5, 3, read, read_ns),
        (&slow, Level::Raid6, 4, read, read_ns + 5000),
        (&slow, Level::Jbod, 1, write, from_host_ns + 400 + WRITE_NS + 10_000),
        // The rest of the stripe is read, then two members are written, each after the other's command.
        (
            &slow,
            Level::Raid5,
            3,
            write,
            from_host_ns + 400 + READ_NS + 4096 + 800 + WRITE_NS + 10_000,
        ),
        (
            &slow,
            Level::Raid6,
            4,
            write,
            from_host_ns + 5000 + 400 + READ_NS + 4096 + 2048 + 1200 + WRITE_NS + 10_000,
        ),
        // In the cache of both: the link between them takes longer than the partner's processor.
        (&cached, Level::Raid5, 3, write, from_host_ns + 700 + 4096 + 900 + 10_000),
    ] {
        let mut m = machine(adapters.clone(), level, members, 1);
        let took_ns = alone(&mut m, op);
        assert_eq!(m.check(), Ok(()));
        let off = took_ns as i64 - expected_ns as i64;
        assert!((-8..200).contains(&off), "{level}, {op:?}: {took_ns} for {expected_ns}");
    }
}

/// Each parameter alone sets the rate by its closed form (devices that collect garbage make the
/// rate some per cent uneven). Parameters without an effect on the rate have another effect.
#[test]
fn every_parameter_has_an_effect() {
    type Change = fn(&mut Adapters);
    let mut tested: BTreeSet<&str> = BTreeSet::new();
    let processor: [(&str, Change, OpKind, u64, Level, u32, f64); 13] = [
        // Two adapters: half of the cost of each operation. A pair's read has one device operation.
        (
            "adapters.read",
            |a| a.processor.read_ns = 8000,
            OpKind::Read,
            UNIT,
            Level::Jbod,
            1,
            4000.0,
        ),
        (
            "adapters.count",
            |a| {
                (a.count, a.processor.read_ns) = (1, 8000);
            },
            OpKind::Read,
            UNIT,
            Level::Jbod,
            1,
            8000.0,
        ),
        (
            "adapters.write",
            |a| a.processor.write_ns = 40_000,
            OpKind::Write,
            UNIT,
            Level::Jbod,
            1,
            20_000.0,
        ),
        (
            "adapters.device",
            |a| a.processor.device_ns = 8000,
            OpKind::Read,
            UNIT,
            Level::Raid5,
            3,
            4000.0,
        ),
        (
            "adapters.raid6",
            |a| a.processor.raid6_ns = 8000,
            OpKind::Read,
            UNIT,
            Level::Raid6,
            4,
            4000.0,
        ),
        (
            "adapters.xor",
            |a| a.parity.xor_bytes_per_s = 1e8,
            OpKind::Write,
            UNIT,
            Level::Raid5,
            3,
            20_480.0,
        ),
        (
            "adapters.gf",
            |a| a.parity.gf_bytes_per_s = 1e8,
            OpKind::Write,
            UNIT,
            Level::Raid6,
            4,
            20_480.0,
        ),
        (
            "gen1.read",
            |a| a.slot.read_bytes_per_s = 1e8,
            OpKind::Read,
            UNIT,
            Level::Jbod,
            1,
            20_480.0,
        ),
        (
            "gen1.write",
            |a| a.slot.write_bytes_per_s = 1e8,
            OpKind::Write,
            UNIT,
            Level::Jbod,
            1,
            20_480.0,
        ),
        ("gen1.fetch", |a| a.slot.fetch_ns = 40_000, OpKind::Write, UNIT, Level::Jbod, 1, 40_000.0),
        // Device 0 and 2 are in one drawer, 1 and 3 in the other.
        (
            "drawers.rate",
            |a| a.drawers.bytes_per_s = 1e8,
            OpKind::Read,
            UNIT,
            Level::Jbod,
            1,
            20_480.0,
        ),
        (
            "drawers.count",
            |a| {
                a.drawers = Drawers { count: 1, bays: 24, bytes_per_s: 1e8 };
            },
            OpKind::Read,
            UNIT,
            Level::Jbod,
            1,
            40_960.0,
        ),
        (
            "adapters.commands_max",
            |a| a.commands_max = 1,
            OpKind::Read,
            UNIT,
            Level::Jbod,
            1,
            25_000.0,
        ),
    ];
    for (name, change, kind, len, level, members, expected_ns) in processor {
        let mut adapters = adapters();
        change(&mut adapters);
        let is = period_ns(&mut machine(adapters, level, members, 4), kind, len, 32);
        let off = is / expected_ns;
        assert!((0.95..1.05).contains(&off), "{name}: {is} ns for {expected_ns}");
        tested.insert(name);
    }
    let cached: [(&str, Change, f64); 3] = [
        ("cache.write", |a| a.cache = Some(Cache { write_ns: 100_000, ..cache() }), 50_000.0),
        (
            "cache.mirror_rate",
            |a| {
                a.cache = Some(Cache { mirror_bytes_per_s: 4e7, ..cache() });
            },
            51_200.0,
        ),
        // 32 outstanding on each of four arrays in that time.
        (
            "cache.mirror_latency",
            |a| {
                a.cache = Some(Cache { mirror_latency_ns: 6_400_000, ..cache() });
            },
            50_000.0,
        ),
    ];
    for (name, change, expected_ns) in cached {
        let mut adapters = adapters();
        change(&mut adapters);
        let is = period_ns(&mut machine(adapters, Level::Jbod, 1, 4), OpKind::Write, UNIT, 32);
        let off = is / expected_ns;
        assert!((0.95..1.05).contains(&off), "{name}: {is} ns for {expected_ns}");
        tested.insert(name);
    }
    // The partner's writes go before its own commands, so adapters wait for each other: at least the work, at most
    // twice that.
    let mirror = Cache { mirror_ns: 100_000, ..cache() };
    let adapters = Adapters { cache: Some(mirror), ..adapters() };
    let mut m = machine(adapters, Level::Jbod, 1, 4);
    let is = period_ns(&mut m, OpKind::Write, UNIT, 32);
    assert!((50_000.0..100_000.0).contains(&is), "{is}");
    let busy_ns = |name| {
        m.resources(0).iter().find(|r| r.name == name).map_or(0, |resource| resource.busy_ns)
    };
    assert!(busy_ns("adapter's processor") >= 1450 * 100_000);
    tested.insert("cache.mirror");
    // `latency` and the strip: one operation alone; what the cache holds: `the_cache_*`; the rules: `rules`.
    tested.extend(["adapters.latency", "adapters.strip", "cache.size", "cache.destage"]);
    tested.extend(["cache.ramp", "cache.depth", "cache.keeps_reads"]);
    tested.extend(["adapters.devices_max", "adapters.ssds_max", "drawers.bays"]);
    // `an_adapter_is_lost_and_comes_back`.
    tested.extend(["adapters.aa_links", "adapters.failover", "adapters.access"]);
    tested.extend(["adapters.host_paths", "adapters.forward"]);
    let all = describe::keys().filter(|(of, key)| *of == "adapters" && !key.starts_with("gen"));
    let slots = ["gen1.read", "gen1.write", "gen1.fetch"];
    assert_eq!(tested, all.map(|(_, key)| key).chain(slots).collect());
}

/// Number of pages that devices wrote for the host.
fn written_pages(machine: &Machine) -> u64 {
    let volumes = 0..machine.volumes();
    let on_flash = |v| machine.flash_counts(v).unwrap().host_pages;
    let in_buffer = |v| machine.buffered_bytes(v).unwrap().0 / UNIT;
    volumes.map(|v| on_flash(v) + in_buffer(v)).sum()
}

#[test]
fn the_cache_absorbs_and_coalesces() {
    // It destages nothing while it is less than half full: 8 MiB of the 16 MiB of each adapter.
    let keeps = |keeps_reads| Adapters {
        cache: Some(Cache { bytes: 32 << 20, destage_share: 0.5, keeps_reads, ..cache() }),
        ..adapters()
    };
    let mut m = machine(keeps(false), Level::Raid5, 3, 1);
    let senses = |m: &Machine| m.flash_counts(0).unwrap().senses;
    // What `writes` cost: pages read from and written to devices.
    let cost = |m: &mut Machine, units: &mut dyn Iterator<Item = u64>| {
        let before = (senses(m), written_pages(m));
        for unit in units {
            alone(m, &op(OpKind::Write, unit * UNIT, UNIT));
        }
        while m.step(u64::MAX) {}
        assert_eq!(m.check(), Ok(()));
        (senses(m) - before.0, written_pages(m) - before.1)
    };
    // At first the cache holds earlier writes, which were in order: the first of its own push those out, in full
    // stripes, which need no reads and one page of parity for two of data.
    let sparse = || (0..2048).map(|n| n * 32);
    assert_eq!(cost(&mut m, &mut sparse()), (0, 2048 * 3 / 2));
    // It absorbs what it holds, three times.
    assert_eq!(cost(&mut m, &mut sparse().chain(sparse()).chain(sparse())), (0, 0));
    // What it holds is read without a device.
    let read = senses(&m);
    assert!(alone(&mut m, &op(OpKind::Read, 64 * UNIT, UNIT)) < 10);
    assert_eq!(senses(&m), read);
    // Units without neighbours go out at a read and two writes each, neighbours again in full stripes.
    assert_eq!(cost(&mut m, &mut (1 << 17..(1 << 17) + 2048)), (2048, 4096));
    assert_eq!(cost(&mut m, &mut sparse().map(|unit| unit + 1)), (0, 2048 * 3 / 2));
    // It holds what hosts read, where it does.
    for (keeps_reads, senses_again) in [(true, 0), (false, 1)] {
        let mut m = machine(keeps(keeps_reads), Level::Raid5, 3, 1);
        let same = op(OpKind::Read, 8 * UNIT, UNIT);
        alone(&mut m, &same);
        let read = senses(&m);
        alone(&mut m, &same);
        assert_eq!(senses(&m) - read, senses_again);
    }
}

/// A full cache accepts writes at the rate at which it destages them.
#[test]
fn the_cache_fills_and_then_follows_its_devices() {
    let with = |bytes, destage_ramp_bytes, destage_depth| Adapters {
        // 100 us for each operation on a device, on one of two adapters.
        processor: Processor { device_ns: 100_000, ..adapters().processor },
        cache: Some(Cache { bytes, destage_ramp_bytes, destage_depth, ..cache() }),
        ..adapters()
    };
    let steady = |adapters: Adapters| {
        let mut m = machine(adapters, Level::Jbod, 1, 2);
        period_ns(&mut m, OpKind::Write, UNIT, 32);
        period_ns(&mut m, OpKind::Write, UNIT, 32)
    };
    let off = steady(with(1 << 20, 64 << 10, 8)) / 50_000.0;
    assert!((0.98..1.02).contains(&off), "{off}");
    // A cache that has space left does not wait.
    let off = steady(with(64 << 20, 32 << 20, 8)) / 50_000.0;
    assert!(off < 0.1, "{off}");
    // One write to a device at once takes its command and the device's time.
    let slow = steady(with(1 << 20, 64 << 10, 1)) / 51_000.0;
    assert!((0.98..1.05).contains(&slow), "{slow}");
}

/// Levels without strips are destaged in pieces, as devices are: mirrors sustain the rate of one device, without pauses
/// for the destage of a whole cache.
#[test]
fn mirrors_take_sequential_writes_as_one_device_does() {
    let (len, rate) = (16 * UNIT, 1e8);
    let slow = Adapters {
        cache: Some(Cache { destage_share: 0.5, ..cache() }),
        drawers: Drawers { count: 2, bays: 24, bytes_per_s: rate },
        ..adapters()
    };
    let members = [(Level::Jbod, 1), (Level::Raid10, 2), (Level::Raid1, 2), (Level::Jbod, 2)];
    for (level, members) in members {
        let mut m = machine(slow.clone(), level, members, 1);
        let (mut ends, mut next) = (Vec::new(), 0);
        // Twice the dirty data that the cache holds, then as much again.
        for _ in 0..2048 {
            while next < ends.len() as u64 + 4 {
                m.submit(m.now_ns(), 0, 0, &op(OpKind::Write, next * len, len), next);
                next += 1;
            }
            ends.push(m.next_completion(u64::MAX).expect("some are outstanding").at_ns);
        }
        let steady = &ends[1024..];
        let seconds = (steady[1023] - steady[0]) as f64 / 1e9;
        let off = 1023.0 * len as f64 / seconds / rate;
        assert!((0.95..1.05).contains(&off), "{level} of {members}: {off}");
        let pause_ns = steady.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(pause_ns < 20_000_000, "{level} of {members}: {pause_ns} ns");
    }
}

/// Every operation ends under any load, even around power cuts and lost devices.
#[test]
fn every_operation_ends() {
    for seed in 0..300 {
        let rng = &mut stream(seed, "histories", 0);
        let mut adapters = adapters();
        adapters.count = 1 + below(rng, 2) as u32;
        adapters.commands_max = 1 + below(rng, 20) as u32;
        adapters.processor.device_ns = below(rng, 4000);
        if below(rng, 3) > 0 {
            adapters.cache = Some(Cache {
                bytes: 1 << 20,
                destage_share: below(rng, 3) as f64 / 4.0,
                destage_ramp_bytes: UNIT << below(rng, 6),
                destage_depth: 1 + below(rng, 4) as u32,
                keeps_reads: below(rng, 2) == 0,
                ..cache()
            });
        }
        let (level, members) = [
            (Level::Jbod, 1),
            (Level::Raid0, 2),
            (Level::Raid5, 3),
            (Level::Raid6, 4),
            (Level::Raid10, 4),
        ][below(rng, 5) as usize];
        let mut m = machine(adapters, level, members, 1 + below(rng, 3) as u32);
        let volumes = m.volumes();
        let mut outstanding = 0_u64;
        for token in 0..400 {
            let volume = below(rng, u64::from(volumes)) as u32;
            let kind = match below(rng, 12) {
                0 => OpKind::Flush,
                1 => OpKind::Trim,
                2 => OpKind::WriteZeroes,
                3..=6 => OpKind::Read,
                _ => OpKind::Write,
            };
            let len = UNIT << below(rng, 6);
            let at = below(rng, m.capacity_bytes(volume).min(4 << 20) / len) * len;
            m.submit(m.now_ns(), volume, volume, &op(kind, at, len), token);
            outstanding += 1;
            if below(rng, 2) == 0 {
                outstanding -= u64::from(m.next_completion(u64::MAX).is_some());
            }
            if below(rng, 300) == 0 {
                let device = below(rng, u64::from(members * volumes)) as u32;
                m.inject(m.now_ns(), Fault::Lose { part: iodyno_emulate::PartId(device) });
            }
            if below(rng, 300) == 0 {
                m.inject(m.now_ns(), Fault::PowerCut);
                let now_ns = m.now_ns();
                while m.next_completion(now_ns).is_some() {}
                outstanding = 0;
            }
        }
        while outstanding > 0 {
            assert!(m.next_completion(u64::MAX).is_some(), "seed {seed}: {outstanding} never end");
            outstanding -= 1;
        }
        while m.step(u64::MAX) {}
        assert_eq!(m.check(), Ok(()), "seed {seed}");
    }
}

#[test]
fn rules() {
    let attach = |devices: u32, change: fn(&mut Adapters)| {
        let mut system = System::new("test", host());
        for _ in 0..devices {
            let kind = Kind::Flash(Box::new(flash()));
            let state = Preconditioned { how: Written::Fresh, fill: 1.0 };
            system.add_device(
                Device { name: "device".to_owned(), kind, hot_swap: true, limits: Vec::new() },
                state,
                0,
            );
        }
        let mut adapters = adapters();
        change(&mut adapters);
        system.attach(adapters).err().map(|broken| broken[0].rule)
    };
    assert_eq!(attach(48, |_| ()), None);
    assert_eq!(attach(49, |a| a.drawers.bays = 30), Some("adapter-ssds"));
    assert_eq!(attach(40, |a| a.devices_max = 39), Some("adapter-devices"));
    assert_eq!(attach(48, |a| a.drawers.bays = 23), Some("drawer-bays"));
    assert_eq!(
        attach(48, |a| (a.drawers.bays, a.ssds_max) = (23, 40)),
        Some("adapter-ssds"),
        "in the order of the file"
    );
}
