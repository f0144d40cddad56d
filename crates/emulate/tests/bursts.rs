//! Garbage collection in bursts: long-run rate and write amplification are those of continuous collection, and the
//! rates in a burst and in a pause follow from the work per page.

use crate::common;

use common::{RANDOM, flash, system};
use iodyno_emulate::Machine;
use iodyno_emulate::spec::{Flash, Kind};
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};

/// Length of the intervals in which [`rates`] counts completions, ns. Each pause contains at least one whole interval.
const INTERVAL_NS: u64 = 10_000_000;
/// Number of consecutive intervals over which the slowest rate is measured. Each burst lasts longer.
const IN_BURST: usize = 6;

/// Rates of a closed loop of random writes in steady state, its write amplification, and its bursts.
struct Rates {
    mean_iops: f64,
    slowest_iops: f64,
    fastest_iops: f64,
    write_amplification: f64,
    /// Pages written by the host from the end of one burst to the end of the next.
    cycle_pages: f64,
}

/// A device of 320 superblocks. A burst frees one of them, and lasts about 0.2 s.
fn device(freed_per_write: f64) -> Flash {
    let mut f = flash();
    (f.capacity_bytes, f.nand.raw_bytes) = (8 << 30, 10 << 30);
    (f.nand.pages_per_block, f.nand.erase_ns) = (512, 0);
    f.translation.freed_per_write = freed_per_write;
    f
}

fn rates(f: &Flash, represent: u32) -> Rates {
    let blocks = f.capacity_bytes / 4096;
    let system = system(Kind::Flash(Box::new(f.clone())), RANDOM, 1);
    let mut m = Machine::represented(&system, 1, represent).unwrap();
    let worker = m.add_worker(0);
    let mut rng = stream(1, "bursts", 0);
    let mut write = |m: &mut Machine, at_ns, token| {
        let offset_bytes = below(&mut rng, blocks) * 4096;
        let op = Op { offset_bytes, len_bytes: 4096, kind: OpKind::Write, fua: false };
        m.submit(at_ns, worker, 0, &op, token);
    };
    (0..128).for_each(|token| write(&mut m, 0, token));
    let mut done = [0_u32; 1000];
    while let Some(c) = m.next_completion(INTERVAL_NS * done.len() as u64 - 1) {
        done[(c.at_ns / INTERVAL_NS) as usize] += 1;
        write(&mut m, c.at_ns, c.token);
    }
    assert_eq!(m.check(), Ok(()));
    let done = &done[20..];
    let (all, most) = (done.iter().sum::<u32>(), *done.iter().max().unwrap());
    let slowest = done.windows(IN_BURST).map(|of| of.iter().sum::<u32>()).min().unwrap();
    let iops = |count: u32, intervals: usize| {
        f64::from(count) * 1e9 / (INTERVAL_NS * intervals as u64) as f64
    };
    // Sums of two intervals, so that a pause within two counts.
    let is_fast = |of: &[u32]| of.iter().sum::<u32>() > most * 6 / 5;
    let ends = done.windows(3).filter(|of| is_fast(&of[1..]) && !is_fast(&of[..2])).count();
    Rates {
        mean_iops: iops(all, done.len()),
        slowest_iops: iops(slowest, IN_BURST),
        fastest_iops: iops(most, 1),
        write_amplification: m.flash_counts(0).unwrap().write_amplification(),
        cycle_pages: f64::from(all) / ends as f64,
    }
}

#[track_caller]
fn near(what: &str, got: f64, expected: f64, tolerance: f64) {
    assert!((got / expected - 1.0).abs() < tolerance, "{what}: {got} for {expected}");
}

#[test]
fn a_burst_takes_the_work_of_its_pause() {
    let steady = rates(&device(1.0), 2);
    let of_mean = |iops: f64| iops / steady.mean_iops;
    assert!(of_mean(steady.slowest_iops) > 0.9 && of_mean(steady.fastest_iops) < 1.25);
    let programs_per_s = 16.0 / 500e-6;
    for freed_per_write in [1.5, 2.5, 6.0] {
        let of = rates(&device(freed_per_write), 2);
        let what = |of: &str| format!("{freed_per_write} freed pages per write, {of}");
        near(&what("mean rate"), of.mean_iops, steady.mean_iops, 0.02);
        let amplification = of.write_amplification;
        near(&what("write amplification"), amplification, steady.write_amplification, 0.02);
        // A copy takes a program of 500 µs and a read of 50 µs.
        let copies = (amplification - 1.0) * freed_per_write;
        let in_burst = programs_per_s / (1.0 + copies * 1.1);
        near(&what("rate in a burst"), of.slowest_iops, in_burst, 0.08);
        near(&what("rate in a pause"), of.fastest_iops, programs_per_s, 0.05);
    }
}

/// Each victim is followed by its pause, however many pages a program operation has and however many are in the map,
/// and the map's own writes are the same.
#[test]
fn a_burst_frees_one_superblock() {
    let large_pages = |freed_per_write| {
        let mut f = device(freed_per_write);
        (f.nand.channels, f.nand.planes, f.nand.page_bytes) = (4, 2, 16 << 10);
        (f.nand.pages_per_block, f.translation.map_writes_per_page) = (256, 0.5);
        f
    };
    for represent in [1, 4, 16] {
        for device in [device, large_pages] {
            let steady = rates(&device(1.0), represent);
            for freed_per_write in [2.5, 6.0] {
                let f = device(freed_per_write);
                let of = rates(&f, represent);
                let planes = f.nand.channels * f.nand.planes;
                let bytes = planes * f.nand.page_bytes * f.nand.pages_per_block;
                let what = |of: &str| {
                    format!("1 in {represent}, {freed_per_write}, {} planes, {of}", f.nand.planes)
                };
                let maps = f.translation.map_writes_per_page;
                let expected = f64::from(bytes / 4096) / (of.write_amplification - maps);
                near(&what("cycle"), of.cycle_pages, expected, 0.15);
                near(&what("mean rate"), of.mean_iops, steady.mean_iops, 0.03);
            }
        }
    }
}

/// The devices of a system are not slow at the same time: their bursts begin at different times.
#[test]
fn bursts_of_several_devices_do_not_coincide() {
    let f = device(2.5);
    let blocks = f.capacity_bytes / 4096;
    let mut m = Machine::represented(&system(Kind::Flash(Box::new(f)), RANDOM, 2), 1, 4).unwrap();
    let workers = [m.add_worker(0), m.add_worker(1)];
    let mut rng = stream(1, "bursts", 0);
    let mut write = |m: &mut Machine, at_ns, volume: u32| {
        let offset_bytes = below(&mut rng, blocks) * 4096;
        let op = Op { offset_bytes, len_bytes: 4096, kind: OpKind::Write, fua: false };
        m.submit(at_ns, workers[volume as usize], volume, &op, 0);
    };
    (0..256).for_each(|i| write(&mut m, 0, i % 2));
    // In the first 50 ms the first device is in a burst, the second in its pause.
    let mut done = [0_u32; 2];
    while let Some(c) = m.next_completion(50_000_000) {
        done[c.volume as usize] += 1;
        write(&mut m, c.at_ns, c.volume);
    }
    assert!(done[0] * 2 < done[1], "{done:?}");
}
