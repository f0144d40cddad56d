//! Published durations of bursts and refills of cloud volumes, reproduced by the limits alone.

use super::meter::Meter;
use crate::describe;
use crate::spec::{Counted, Credits, Limit, LimitOf};
use iodyno_units::{Op, OpKind, VolumeOptions};

const S: u64 = 1_000_000_000;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// A rate is busy in proportion to its use, whether or not an operation waits; credits only while one waits.
#[test]
fn a_limit_is_busy_in_proportion_to_its_use() {
    let limit = Limit { credits: None, ..bursting(Counted::Operations, 1000, 1000, 1, 256 * KIB) };
    let mut meter = Meter::new(&limit);
    let op =
        |n: u64| Op { offset_bytes: 8 * MIB * n, len_bytes: 4096, kind: OpKind::Read, fua: false };
    for n in 0..400 {
        let now_ns = n * S / 400;
        assert_eq!(meter.ready_ns(now_ns, &op(n)).0, now_ns);
        meter.take(&op(n));
    }
    let busy_ns = meter.gauges[0].busy_ns(S);
    assert!(busy_ns.abs_diff(2 * S / 5) <= S / 1000, "{busy_ns}");
    // At full rate all the time.
    for n in 400..3400 {
        let (now_ns, _) = meter.ready_ns(S, &op(n));
        meter.ready_ns(now_ns, &op(n));
        meter.take(&op(n));
    }
    let (end_ns, _) = meter.ready_ns(S, &op(0));
    assert!((meter.gauges[0].busy_ns(end_ns) - busy_ns).abs_diff(end_ns - S) <= S / 1000);
}

/// A limit with full credits.
fn bursting(counts: Counted, rate: u64, burst: u64, most: u64, account_bytes: u64) -> Limit {
    Limit {
        of: LimitOf::All,
        counts,
        rate,
        window_ns: S / 10,
        account_bytes: Some(account_bytes),
        merges: true,
        credits: Some(Credits { most, start: most, burst }),
    }
}

/// Limits of a cloud volume with `gib` GiB. `class` is the name of its device file in the catalog.
fn volume(class: &str, gib: u64) -> Vec<Limit> {
    let text = match class {
        "ebs-gp2" => include_str!("../../../../../catalog/devices/ebs-gp2.toml"),
        "ebs-st1" => include_str!("../../../../../catalog/devices/ebs-st1.toml"),
        "ebs-sc1" => include_str!("../../../../../catalog/devices/ebs-sc1.toml"),
        _ => include_str!("../../../../../catalog/devices/azure-premium.toml"),
    };
    let mut device = describe::device(class, text).unwrap();
    let size_bytes = Some(gib * GIB);
    device.choose(&VolumeOptions { size_bytes, ..VolumeOptions::default() }).unwrap();
    device.device.limits
}

fn read(offset_bytes: u64, len_bytes: u64) -> Op {
    Op { offset_bytes, len_bytes: len_bytes as u32, kind: OpKind::Read, fua: false }
}

/// Saturates a limit with sequential reads of `block_bytes` until `bytes` are read or the credits are used up. Returns
/// the time and the bytes.
fn saturate(meter: &mut Meter, mut now_ns: u64, block_bytes: u64, bytes: u64) -> (u64, u64) {
    let mut at = 0;
    while at < bytes {
        let op = read(at, block_bytes);
        let (ready_ns, gauge) = meter.ready_ns(now_ns, &op);
        if ready_ns > now_ns && gauge == 0 {
            break;
        }
        now_ns = ready_ns;
        meter.ready_ns(now_ns, &op);
        meter.take(&op);
        at += block_bytes;
    }
    (now_ns, at)
}

/// The credits of a limit at a time, in whole units.
fn credits(meter: &mut Meter, now_ns: u64) -> i128 {
    meter.gauges[0].bucket.gain(now_ns);
    meter.gauges[0].bucket.units()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / S as f64
}

/// Amazon's user guide (gp2): base rate, duration of the burst, and time in which an empty bucket fills, for several
/// sizes.
#[test]
fn gp2_bursts_and_refills_as_documented() {
    let table = [
        (33, 100, 1862, 54_000),
        (100, 300, 2000, 18_000),
        (334, 1002, 2703, 5389),
        (750, 2250, 7200, 2400),
    ];
    for (gib, base, bursts_s, fills_s) in table {
        let limit = &volume("ebs-gp2", gib)[0];
        assert_eq!((limit.counts, limit.rate), (Counted::Operations, base));
        let mut meter = Meter::new(limit);
        // I/Os of 4 MiB count as 16.
        let (empty_ns, bytes) = saturate(&mut meter, 0, 4 * MIB, u64::MAX);
        let of_guide = f64::from(bursts_s);
        assert!((seconds(empty_ns) - of_guide).abs() < 1.0, "{gib} GiB: {}", seconds(empty_ns));
        let rate = (bytes / (256 * KIB)) as f64 / seconds(empty_ns);
        assert!((rate - 3000.0).abs() < 1.0, "{gib} GiB: {rate} IOPS");
        let left = credits(&mut meter, empty_ns);
        assert!((0..16).contains(&left), "{gib} GiB: {left}");
        // The base rate fills it, to the second of the guide.
        let almost = credits(&mut meter, empty_ns + (fills_s - 1) * S);
        assert!(almost < 5_400_000, "{gib} GiB: full too early");
        assert_eq!(credits(&mut meter, empty_ns + (fills_s + 1) * S), 5_400_000, "{gib} GiB");
        assert_eq!(credits(&mut meter, empty_ns + 10 * fills_s * S), 5_400_000, "{gib} GiB");
    }
}

/// Amazon's user guide (gp2): volumes from 170 to 334 GiB reach 250 MiB/s only while credits last, because each 256 KiB
/// counts as an operation.
#[test]
fn gp2_throughput_needs_credits_up_to_334_gib() {
    for (gib, holds) in [(171, false), (333, false), (334, true), (1000, true)] {
        let mut limits = volume("ebs-gp2", gib);
        assert_eq!(limits[1].rate, 250 * MIB);
        if let Some(credits) = &mut limits[0].credits {
            credits.start = 0;
        }
        let mut meter = Meter::new(&limits[0]);
        let (mut now_ns, bytes) = (0, 10_000 * MIB);
        for at in (0..bytes).step_by(MIB as usize) {
            now_ns = meter.ready_ns(now_ns, &read(at, MIB)).0;
            meter.ready_ns(now_ns, &read(at, MIB));
            meter.take(&read(at, MIB));
        }
        let rate = bytes as f64 / seconds(now_ns);
        assert_eq!(rate >= 250.0 * MIB as f64, holds, "{gib} GiB: {rate}");
    }
}

/// A volume without credits serves exactly its base rate, and one that uses the base rate or less keeps its credits.
#[test]
fn the_base_rate_is_served_forever() {
    let mut limit = bursting(Counted::Operations, 300, 3000, 5_400_000, 256 * KIB);
    let mut meter = Meter::new(&limit);
    for number in 0..3000 {
        let now_ns = number * S / 300;
        assert!(meter.ready_ns(now_ns, &read(number * GIB, 4 * KIB)).0 <= now_ns);
        meter.take(&read(number * GIB, 4 * KIB));
    }
    assert_eq!(credits(&mut meter, 10 * S), 5_400_000);
    limit.credits.as_mut().unwrap().start = 0;
    let mut meter = Meter::new(&limit);
    let mut now_ns = 0;
    for number in 0..3000 {
        let op = read(number * GIB, 4 * KIB);
        (now_ns, _) = meter.ready_ns(now_ns, &op);
        meter.ready_ns(now_ns, &op);
        meter.take(&op);
        // The n-th starts in the first ns after n/300 s: without drift.
        assert_eq!(now_ns, ((number + 1) * S).div_ceil(300));
    }
}

/// Amazon's user guide (HDD volumes): hours to read a whole volume, starting with full credits.
#[test]
fn st1_and_sc1_are_scanned_in_the_documented_hours() {
    let table =
        [("ebs-st1", 1, 1.17), ("ebs-st1", 5, 2.91), ("ebs-sc1", 1, 3.64), ("ebs-sc1", 5, 5.83)];
    for (name, tib, hours) in table {
        let limit = &volume(name, tib << 10)[0];
        let (end_ns, bytes) = saturate(&mut Meter::new(limit), 0, 8 * MIB, tib * TIB);
        assert_eq!(bytes, tib * TIB, "{name} of {tib} TiB: credits don't last");
        let took = seconds(end_ns) / 3600.0;
        assert!((took - hours).abs() < 0.006, "{name} of {tib} TiB: {took} h");
    }
}

/// Azure's P20 bursts for 30 minutes, in operations and in bytes, and restocks in less than a day.
#[test]
fn azure_p20_bursts_for_half_an_hour() {
    for limit in volume("azure-premium", 512) {
        let most = limit.credits.as_ref().unwrap().most;
        let mut meter = Meter::new(&limit);
        let (empty_ns, _) = saturate(&mut meter, 0, 4 * MIB, u64::MAX);
        assert!((seconds(empty_ns) - 1800.0).abs() < 1.0, "{limit:?}: {}", seconds(empty_ns));
        assert_eq!(credits(&mut meter, empty_ns + 24 * 3600 * S), i128::from(most));
    }
}

/// Costs of I/Os with an accounting unit: rounded up, unless a sequential I/O continues the one before.
#[test]
fn small_sequential_ios_count_together() {
    let cost = |limit: &Limit, ops: &[Op]| -> i128 {
        let mut meter = Meter::new(limit);
        let before = credits(&mut meter, 0);
        for op in ops {
            meter.take(op);
        }
        before - credits(&mut meter, 0)
    };
    let mut st1 = bursting(Counted::Bytes, 40 * MIB, 250 * MIB, TIB, MIB);
    let mib = i128::from(MIB);
    let sequential: Vec<Op> = (0..257).map(|n| read(n * 4 * KIB, 4 * KIB)).collect();
    let random: Vec<Op> = (0..10).map(|n| read(n * GIB, 4 * KIB)).collect();
    assert_eq!(cost(&st1, &sequential), 2 * mib);
    assert_eq!(cost(&st1, &random), 10 * mib);
    assert_eq!(cost(&st1, &[read(0, 1536 * KIB), read(1536 * KIB, 512 * KIB)]), 2 * mib);
    // A write at the same place continues nothing.
    let write = Op { kind: OpKind::Write, ..read(4 * KIB, 4 * KIB) };
    assert_eq!(cost(&st1, &[read(0, 4 * KIB), write]), 2 * mib);
    st1.merges = false;
    assert_eq!(cost(&st1, &sequential), 257 * mib);
    let gp2 = bursting(Counted::Operations, 300, 3000, 5_400_000, 256 * KIB);
    assert_eq!(cost(&gp2, &[read(0, 1024 * KIB)]), 4);
    assert_eq!(cost(&gp2, &[read(0, 257 * KIB)]), 2);
    assert_eq!(cost(&gp2, &(0..8).map(|n| read(n * 32 * KIB, 32 * KIB)).collect::<Vec<_>>()), 1);
    let exact = Limit { account_bytes: None, ..gp2 };
    assert_eq!(cost(&exact, &[read(0, 1024 * KIB)]), 1);
}

/// Credits above the size are used once: only a level below the size gains.
#[test]
fn an_excess_of_the_start_is_granted_once() {
    let mut limit = bursting(Counted::Operations, 100, 1_000_000, 1000, 256 * KIB);
    limit.credits.as_mut().unwrap().start = 1500;
    let mut meter = Meter::new(&limit);
    assert_eq!(credits(&mut meter, 3600 * S), 1500);
    for number in 0..700 {
        meter.take(&read(number * GIB, 4 * KIB));
    }
    assert_eq!(credits(&mut meter, 7200 * S), 1000);
}
