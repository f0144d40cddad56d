//! Duration of failover after the loss of an adapter or of the links between two, and the adapter that serves
//! afterwards. (`adapter_histories` checks the content.)

use crate::common;

use common::{flash, host};
use iodyno_emulate::spec::{
    Access, Adapters, Cache, Device, Drawers, HostPaths, Kind, ParityEngine, Preconditioned,
    Processor, Slot, Written,
};
use iodyno_emulate::{AdapterFault, Fault, Machine, System};
use iodyno_units::{IoError, Op, OpKind};

const UNIT: u64 = 4096;
const FAILOVER_NS: u64 = 3_000_000;
/// Time for which a host's read occupies an adapter's processor. Apart from that, only the device
/// takes time: 50 us.
const READ_NS: u64 = 40_000;

fn machine(count: u32, aa_links: u32) -> Machine {
    with(count, aa_links, |_| ())
}

fn with(count: u32, aa_links: u32, change: impl Fn(&mut Adapters)) -> Machine {
    let mut system = System::new("test", host());
    for _ in 0..4 {
        let mut flash = flash();
        flash.nand.parity_stripe = 0;
        let kind = Kind::Flash(Box::new(flash));
        let state = Preconditioned { how: Written::Sequential, fill: 1.0 };
        system.add_device(
            Device { name: "device".to_owned(), kind, hot_swap: true, limits: Vec::new() },
            state,
            0,
        );
    }
    let mut adapters = Adapters {
        count,
        access: Access::Balanced,
        host_paths: HostPaths::Optimized,
        commands_max: 1 << 20,
        slot: Slot { read_bytes_per_s: 1e12, write_bytes_per_s: 1e12, fetch_ns: 0 },
        processor: Processor {
            read_ns: READ_NS,
            write_ns: 0,
            device_ns: 0,
            raid6_ns: 0,
            forward_ns: 0,
        },
        parity: ParityEngine { xor_bytes_per_s: 1e12, gf_bytes_per_s: 1e12 },
        latency_ns: 0,
        strip_bytes: 64 << 10,
        cache: Some(Cache {
            bytes: 64 << 20,
            write_ns: 0,
            mirror_ns: 0,
            mirror_bytes_per_s: 4096e6 / 100.0,
            mirror_latency_ns: 0,
            destage_share: 0.0,
            destage_ramp_bytes: 1 << 20,
            destage_depth: 8,
            keeps_reads: false,
        }),
        devices_max: 96,
        ssds_max: 48,
        aa_links,
        failover_ns: FAILOVER_NS,
        drawers: Drawers { count: 1, bays: 96, bytes_per_s: 1e12 },
    };
    change(&mut adapters);
    system.attach(adapters).unwrap();
    system.group((0..4).map(|n| (n..n + 1, None)).collect()).unwrap();
    let mut machine = Machine::new(&system, 1).unwrap();
    (0..4).for_each(|volume| _ = machine.add_worker(volume));
    machine
}

fn fault(machine: &mut Machine, fault: AdapterFault) {
    machine.apply_fault(&Fault::Adapters(fault));
}

/// Runs one operation. Returns its duration.
fn took_ns(machine: &mut Machine, volume: u32, kind: OpKind) -> Result<u64, IoError> {
    let op = Op { offset_bytes: 8 * UNIT, len_bytes: UNIT as u32, kind, fua: false };
    let begin_ns = machine.submit(machine.now_ns(), volume, volume, &op, 7);
    let done = machine.next_completion(u64::MAX).unwrap();
    done.failure.map_or(Ok(done.at_ns - begin_ns), Err)
}

fn near(is_ns: u64, expected_ns: u64) -> bool {
    is_ns.abs_diff(expected_ns) < 1000
}

#[test]
fn an_adapter_is_lost_and_comes_back() {
    let mut m = machine(2, 1);
    let alone_ns = took_ns(&mut m, 0, OpKind::Read).unwrap();
    // Volume 0 is optimized on adapter 0, volume 1 on adapter 1.
    fault(&mut m, AdapterFault::Lose { adapter: 0 });
    let other_ns = took_ns(&mut m, 1, OpKind::Read).unwrap();
    assert!(near(other_ns, alone_ns), "{other_ns}: what the other served is not concerned");
    let rest_ns = FAILOVER_NS - other_ns;
    let taken_over_ns = took_ns(&mut m, 0, OpKind::Read).unwrap();
    assert!(near(taken_over_ns, rest_ns + alone_ns), "{taken_over_ns}");
    let later_ns = took_ns(&mut m, 0, OpKind::Read).unwrap();
    assert!(near(later_ns, alone_ns), "{later_ns}");
    // It is back, and takes its own again.
    fault(&mut m, AdapterFault::Clear { adapter: 0 });
    let back_ns = took_ns(&mut m, 0, OpKind::Read).unwrap();
    assert!(near(back_ns, FAILOVER_NS + alone_ns), "{back_ns}");
    let served = m.adapters().unwrap().adapters;
    assert_eq!((&served[0].volumes[..], &served[1].volumes[..]), (&[0, 2][..], &[1, 3][..]));
}

/// Operations that the lost adapter had in flight end later, wherever they were. Completed operations are not
/// repeated.
#[test]
fn operations_of_a_lost_adapter_begin_again() {
    let ends_ns = |lost_after_ns: Option<u64>| -> Vec<u64> {
        let mut m = machine(2, 1);
        let op = Op { offset_bytes: 0, len_bytes: UNIT as u32, kind: OpKind::Read, fua: false };
        (0..3).for_each(|token| _ = m.submit(0, 0, 0, &op, token));
        if let Some(at_ns) = lost_after_ns {
            m.inject(at_ns, Fault::Adapters(AdapterFault::Lose { adapter: 0 }));
        }
        let done = std::iter::from_fn(|| m.next_completion(u64::MAX));
        done.inspect(|done| assert_eq!(done.failure, None)).map(|done| done.at_ns).collect()
    };
    let usual = ends_ns(None);
    for lost_after_ns in (0..=usual[2]).step_by(7000) {
        let ends = ends_ns(Some(lost_after_ns));
        let before: Vec<u64> = usual.iter().copied().filter(|&end| end <= lost_after_ns).collect();
        let after = &ends[before.len()..];
        assert_eq!((ends.len(), &ends[..before.len()]), (3, &before[..]), "{lost_after_ns}");
        let first_ns = lost_after_ns + FAILOVER_NS;
        assert!(after.iter().all(|&end| end > first_ns), "{lost_after_ns}: {ends:?}");
    }
}

#[test]
fn one_adapter_does_the_work_of_two() {
    // 40 us of one of two processors a read, or of the only one.
    for (lost, expected_ns) in [(None, 20_000.0), (Some(1), 40_000.0)] {
        let mut m = machine(2, 1);
        if let Some(adapter) = lost {
            fault(&mut m, AdapterFault::Lose { adapter });
        }
        let op = |n: u64| Op {
            offset_bytes: n * UNIT,
            len_bytes: UNIT as u32,
            kind: OpKind::Read,
            fua: false,
        };
        let mut ends = Vec::new();
        for n in 0..64 {
            m.submit(0, n as u32 % 4, n as u32 % 4, &op(n), 0);
        }
        for n in 64..2000 {
            let done = m.next_completion(u64::MAX).unwrap();
            ends.push(done.at_ns);
            m.submit(done.at_ns, done.worker, done.volume, &op(n), 0);
        }
        let period_ns = (ends[1900] - ends[900]) as f64 / 1000.0;
        assert!((0.95..1.05).contains(&(period_ns / expected_ns)), "{lost:?}: {period_ns}");
    }
}

#[test]
fn links_carry_the_mirrored_writes() {
    // A unit takes 100 us on one link.
    let mut m = machine(2, 2);
    let of = |m: &mut Machine| took_ns(m, 0, OpKind::Write).unwrap();
    assert!(near(of(&mut m), 50_000));
    fault(&mut m, AdapterFault::LinkDown { link: 1 });
    assert!(near(of(&mut m), 100_000));
    // Without a link the write is acknowledged on the device.
    fault(&mut m, AdapterFault::LinkDown { link: 0 });
    assert!(!m.adapters().unwrap().is_caching);
    while m.step(u64::MAX) {}
    assert!(of(&mut m) < 50_000);
    assert_eq!(m.adapters().unwrap().dirty_bytes, 0);
    fault(&mut m, AdapterFault::LinkUp { link: 0 });
    assert!(near(of(&mut m), 100_000));
    // An adapter alone mirrors nothing, and goes on caching.
    fault(&mut m, AdapterFault::Lose { adapter: 1 });
    assert!(of(&mut m) < 1000 && m.adapters().unwrap().is_caching);
    // No other cache holds its dirty data.
    fault(&mut m, AdapterFault::Lose { adapter: 0 });
    fault(&mut m, AdapterFault::Clear { adapter: 1 });
    assert_eq!(took_ns(&mut m, 0, OpKind::Read), Err(IoError::Gone));
    fault(&mut m, AdapterFault::Replace { adapter: 0 });
    assert_eq!(took_ns(&mut m, 0, OpKind::Read), Err(IoError::Io), "the unit is lost");
    assert!(took_ns(&mut m, 1, OpKind::Read).is_ok());
    // A single adapter has no link.
    let mut single = machine(1, 1);
    assert!(of(&mut single) < 1000);
    assert!(single.adapters().unwrap().links_down.is_empty());
}

/// A host that uses both adapters sends every other operation on a volume to the forwarding adapter.
#[test]
fn an_adapter_forwards_what_its_partner_serves() {
    let forwards = |adapters: &mut Adapters| {
        adapters.host_paths = HostPaths::Both;
        adapters.processor.forward_ns = 7000;
    };
    let mut m = with(2, 1, forwards);
    let mut times = |kind| [0; 4].map(|_| took_ns(&mut m, 1, kind).unwrap());
    // The command, and the data over the link: 100 us.
    let [forwarded, direct, again, _] = times(OpKind::Read);
    assert!(
        near(forwarded, direct + 7000 + 100_000) && near(again, forwarded),
        "{forwarded} {direct}"
    );
    let [forwarded, direct, ..] = times(OpKind::Write);
    assert!(near(forwarded, direct + 7000 + 100_000), "{forwarded} {direct}");
    // Over a link that is down nothing is forwarded.
    fault(&mut m, AdapterFault::LinkDown { link: 0 });
    let mut times = |kind| [0; 3].map(|_| took_ns(&mut m, 0, kind).unwrap());
    let [first, second, third] = times(OpKind::Read);
    assert!(near(first, second) && near(second, third), "{first} {second} {third}");
    // A volume's share of the processors is not where it is served.
    let volumes = |m: &Machine| m.adapters().unwrap().adapters.into_iter().map(|a| a.volumes);
    assert_eq!(volumes(&m).collect::<Vec<_>>(), [vec![0, 2], vec![1, 3]]);
    let cleared = with(2, 1, |adapters| adapters.access = Access::Cleared);
    assert_eq!(volumes(&cleared).collect::<Vec<_>>(), [vec![0, 1, 2, 3], vec![]]);
}

/// A volume that is optimized on the other adapter is served there after the takeover, and by that adapter's processor.
#[test]
fn an_access_state_moves_a_volume() {
    let both = |adapters: &mut Adapters| adapters.host_paths = HostPaths::Both;
    let mut m = with(2, 1, |adapters| {
        adapters.access = Access::Cleared;
        adapters.processor.forward_ns = 7000;
    });
    let access = |volume, on| AdapterFault::Access { volume, on, from: 0 };
    let optimized = |m: &Machine| {
        let state = m.adapters().unwrap();
        let of = |n: usize| state.adapters[n].optimized.clone();
        assert_eq!((of(0), of(1)), (state.adapters[0].volumes.clone(), of(1)));
        (of(0), of(1), state.cleared)
    };
    assert_eq!(optimized(&m), (vec![0, 1, 2, 3], vec![], vec![0, 1, 2, 3]));
    let alone_ns = took_ns(&mut m, 1, OpKind::Read).unwrap();
    fault(&mut m, access(1, Some(1)));
    fault(&mut m, access(2, Some(0)));
    assert_eq!(optimized(&m), (vec![0, 2, 3], vec![1], vec![0, 3]));
    let other_ns = took_ns(&mut m, 2, OpKind::Read).unwrap();
    assert!(near(other_ns, alone_ns), "{other_ns}: it was there before");
    let moved_ns = took_ns(&mut m, 1, OpKind::Read).unwrap();
    assert!(near(moved_ns, FAILOVER_NS - other_ns + alone_ns), "{moved_ns}");
    // Two volumes of one adapter share 40 us of its processor a read, those of two do not.
    let period_ns = |m: &mut Machine, volumes: [u32; 2]| {
        let op = |n: u64| {
            let (offset_bytes, len_bytes) = (n * UNIT, UNIT as u32);
            Op { offset_bytes, len_bytes, kind: OpKind::Read, fua: false }
        };
        for (n, volume) in (0..64).zip(volumes.into_iter().cycle()) {
            m.submit(m.now_ns(), volume, volume, &op(n), 0);
        }
        let mut begin_ns = 0;
        for n in 0..1000 {
            let done = m.next_completion(u64::MAX).unwrap();
            if n == 100 {
                begin_ns = done.at_ns;
            }
            m.submit(done.at_ns, done.worker, done.volume, &op(64 + n), 0);
        }
        let period_ns = (m.now_ns() - begin_ns) / 899;
        while m.next_completion(u64::MAX).is_some() {}
        period_ns
    };
    assert!(near(period_ns(&mut m, [0, 2]), READ_NS));
    assert!(near(period_ns(&mut m, [0, 1]), READ_NS / 2));
    fault(&mut m, access(2, Some(1)));
    while m.step(m.now_ns() + FAILOVER_NS) {}
    assert!(near(period_ns(&mut m, [0, 2]), READ_NS / 2));
    assert!(near(period_ns(&mut m, [1, 2]), READ_NS));
    // Where hosts use both, what is not optimized on an adapter is forwarded by it: the command, and the data over the
    // link, 100 us.
    let mut m = with(2, 1, |adapters| {
        both(adapters);
        adapters.processor.forward_ns = 7000;
    });
    let busy_ns = |m: &Machine| {
        let of = m.resources(0).into_iter().find(|of| of.name == "adapter's processor");
        of.unwrap().busy_ns
    };
    for (on, busiest_ns) in [(None, READ_NS), (Some(1), READ_NS)] {
        fault(&mut m, access(0, on));
        m.next_completion(m.now_ns() + FAILOVER_NS);
        let before_ns = busy_ns(&m);
        let [forwarded, direct] = [0; 2].map(|_| took_ns(&mut m, 0, OpKind::Read).unwrap());
        assert!(near(forwarded, direct + 7000 + 100_000), "{on:?}: {forwarded} {direct}");
        assert!(busy_ns(&m) - before_ns <= 2 * busiest_ns + 7000, "{on:?}");
    }
    // Only the primary changes it, and only while both are there and reach each other.
    let now = optimized(&m);
    fault(&mut m, AdapterFault::Access { volume: 0, on: Some(0), from: 1 });
    for gone in [AdapterFault::Lose { adapter: 0 }, AdapterFault::LinkDown { link: 0 }] {
        fault(&mut m, gone);
        assert!(m.adapters().unwrap().access_is_fixed(0).is_some(), "{gone:?}");
        fault(&mut m, access(0, Some(0)));
        fault(&mut m, AdapterFault::Clear { adapter: 0 });
    }
    fault(&mut m, AdapterFault::LinkUp { link: 0 });
    assert_eq!(optimized(&m), now);
    let single = machine(1, 1);
    assert!(single.adapters().unwrap().access_is_fixed(0).is_some());
}

/// The units of a volume in the cache move with it: dirty units, units being destaged, and units
/// that the device refused.
#[test]
fn a_moved_volume_takes_its_part_of_the_cache() {
    let keeps_half = |adapters: &mut Adapters| {
        let cache = adapters.cache.as_mut().unwrap();
        (cache.bytes, cache.destage_share, cache.mirror_bytes_per_s) = (128 * UNIT, 0.5, 1e12);
    };
    let mut m = with(2, 1, keeps_half);
    m.keep_content();
    let write = |m: &mut Machine, volume: u32, unit: u64, token| {
        let at = unit * UNIT;
        let op = Op { offset_bytes: at, len_bytes: UNIT as u32, kind: OpKind::Write, fua: false };
        m.submit(m.now_ns(), volume, volume, &op, token);
        assert_eq!(m.next_completion(u64::MAX).unwrap().failure, None);
    };
    let access = |on| AdapterFault::Access { volume: 0, on: Some(on), from: 0 };
    let dirty = |m: &Machine| m.adapters().unwrap().dirty_bytes / UNIT;
    // Half of a cache of 64 units is destaged at once.
    for unit in 0..40 {
        write(&mut m, 0, unit, 100 + unit);
    }
    for on in [1, 0, 1] {
        let before = dirty(&m);
        assert!(before >= 32, "{before}");
        fault(&mut m, access(on));
        assert_eq!((dirty(&m), m.check()), (before, Ok(())));
        for unit in 0..40 {
            assert_eq!(m.content(0, unit * UNIT), Some(100 + unit));
        }
    }
    // Destages end in the cache to which they went.
    while m.step(u64::MAX) {}
    let rest = dirty(&m);
    assert!((1..=32).contains(&rest) && m.check() == Ok(()), "{rest}");
    // What it brought takes space there: the volume of the other adapter has none.
    let part = iodyno_emulate::PartId(0);
    m.apply_fault(&Fault::Lose { part });
    for unit in 0..32 {
        write(&mut m, 1, unit, 300 + unit);
    }
    while m.step(u64::MAX) {}
    fault(&mut m, access(0));
    while m.step(u64::MAX) {}
    let state = m.adapters().unwrap();
    assert_eq!((state.refused_bytes > 0, m.check()), (true, Ok(())));
    m.apply_fault(&Fault::Clear { part });
    fault(&mut m, AdapterFault::BatteryFails { adapter: 0 });
    while m.step(u64::MAX) {}
    assert_eq!((dirty(&m), m.check()), (0, Ok(())));
    for unit in 0..40 {
        assert_eq!(m.content(0, unit * UNIT), Some(100 + unit));
    }
}

/// A cache whose battery has failed is destaged, and loses its content with the power.
#[test]
fn a_cache_without_a_battery_holds_nothing() {
    let fails = |adapter| AdapterFault::BatteryFails { adapter };
    let keeps_half = |adapters: &mut Adapters| {
        adapters.cache.as_mut().unwrap().destage_share = 0.5;
    };
    for count in [1, 2] {
        let mut m = with(count, 1, keeps_half);
        m.keep_content();
        fault(&mut m, fails(count - 1));
        assert!(!m.adapters().unwrap().is_caching);
        took_ns(&mut m, 0, OpKind::Write).unwrap();
        assert_eq!(m.adapters().unwrap().dirty_bytes, 0, "it is on the device");
        m.apply_fault(&Fault::PowerCut);
        assert_eq!(m.content(0, 8 * UNIT), Some(7));
        fault(&mut m, AdapterFault::Clear { adapter: count - 1 });
        // The write is in the cache when its battery fails, at the instant of the power cut: only a partner holds it.
        took_ns(&mut m, 0, OpKind::Write).unwrap();
        assert!(m.adapters().unwrap().dirty_bytes > 0);
        fault(&mut m, fails(0));
        m.apply_fault(&Fault::PowerCut);
        assert_eq!(m.content(0, 8 * UNIT), (count == 2).then_some(7));
        let read = took_ns(&mut m, 0, OpKind::Read);
        assert_eq!(read.is_ok(), count == 2, "{read:?}");
    }
}

/// Data that one device refuses takes no space from other volumes, and is written once the device
/// accepts it again.
#[test]
fn a_lost_device_stops_only_its_own_volume() {
    let small = |adapters: &mut Adapters| {
        let cache = adapters.cache.as_mut().unwrap();
        (cache.bytes, cache.destage_ramp_bytes, cache.mirror_bytes_per_s) =
            (128 * UNIT, UNIT, 1e12);
    };
    let mut m = with(2, 1, small);
    m.keep_content();
    let write = |m: &mut Machine, volume: u32, unit: u64| {
        let at = unit * UNIT;
        let op = Op { offset_bytes: at, len_bytes: UNIT as u32, kind: OpKind::Write, fua: false };
        m.submit(m.now_ns(), volume, volume, &op, 100 + unit);
        m.next_completion(u64::MAX).unwrap().failure
    };
    // Volume 0 and 2 share a cache.
    let part = iodyno_emulate::PartId(0);
    m.apply_fault(&Fault::Lose { part });
    let refused = (0..40).filter(|&unit| write(&mut m, 0, unit).is_some()).count();
    assert!((30..40).contains(&refused), "{refused} of 40: few are in the cache before it knows");
    let accepted = m.adapters().unwrap().dirty_bytes / UNIT;
    assert_eq!(accepted, 40 - refused as u64);
    for unit in 0..300 {
        assert_eq!(write(&mut m, 2, unit), None, "unit {unit} of another device");
    }
    while m.step(u64::MAX) {}
    assert_eq!(m.adapters().unwrap().dirty_bytes, accepted * UNIT);
    // It is there again, and is given what it lacks.
    m.apply_fault(&Fault::Clear { part });
    while m.step(u64::MAX) {}
    assert_eq!(m.adapters().unwrap().dirty_bytes, 0);
    for unit in 0..accepted {
        assert_eq!(m.content(0, unit * UNIT), Some(100 + unit));
    }
    assert_eq!(write(&mut m, 0, 50), None);
    assert_eq!(m.check(), Ok(()));
    // One that refuses some goes on: the next write asks it again.
    m.apply_fault(&Fault::Errors { part, percent: 30.0, kind: Some(OpKind::Write) });
    let failed = (0..400).filter(|&unit| {
        // (Refused writes take no time here.)
        while m.next_completion(m.now_ns() + 100_000).is_some() {}
        write(&mut m, 0, unit).is_some()
    });
    let failed = failed.count();
    assert!((50..350).contains(&failed), "{failed} of 400");
    m.apply_fault(&Fault::Clear { part });
    while m.step(u64::MAX) {}
    assert_eq!(m.adapters().unwrap().dirty_bytes, 0);
}
