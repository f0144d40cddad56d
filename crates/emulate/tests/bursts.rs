//! Garbage collection in bursts: long-run rate and write amplification are those of continuous collection, and the rates
//! in a burst and in a pause follow from the work per page.

use crate::common;

use common::{RANDOM, flash, system};
use iodyno_emulate::Machine;
use iodyno_emulate::spec::Kind;
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};

/// Length of the intervals, ns: at least one in each pause of [`rates`].
const INTERVAL_NS: u64 = 10_000_000;
/// Number of intervals over which the slowest rate is taken: fewer than in each burst.
const IN_BURST: usize = 6;

/// Rates of a closed loop of random writes in steady state, and its write amplification.
struct Rates {
    mean_iops: f64,
    slowest_iops: f64,
    fastest_iops: f64,
    write_amplification: f64,
}

fn rates(freed_per_write: f64, seed: u64) -> Rates {
    let mut f = flash();
    // 320 superblocks of 32 MiB: a burst and its pause last some 0.4 s.
    (f.capacity_bytes, f.nand.raw_bytes) = (8 << 30, 10 << 30);
    (f.nand.pages_per_block, f.nand.erase_ns) = (512, 0);
    f.translation.freed_per_write = freed_per_write;
    let blocks = f.capacity_bytes / 4096;
    let mut m = Machine::new(&system(Kind::Flash(Box::new(f)), RANDOM, 1), seed).unwrap();
    let worker = m.add_worker(0);
    let mut rng = stream(seed, "bursts", 0);
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
    let slowest = done.windows(IN_BURST).map(|of| of.iter().sum::<u32>()).min().unwrap();
    let iops = |count: u32, intervals: usize| {
        f64::from(count) * 1e9 / (INTERVAL_NS * intervals as u64) as f64
    };
    Rates {
        mean_iops: iops(done.iter().sum(), done.len()),
        slowest_iops: iops(slowest, IN_BURST),
        fastest_iops: iops(*done.iter().max().unwrap(), 1),
        write_amplification: m.flash_counts(0).unwrap().write_amplification(),
    }
}

#[test]
fn a_burst_takes_the_work_of_its_pause() {
    let steady = rates(1.0, 1);
    let of_mean = |iops: f64| iops / steady.mean_iops;
    assert!(of_mean(steady.slowest_iops) > 0.9 && of_mean(steady.fastest_iops) < 1.25);
    let programs_per_s = 16.0 / 500e-6;
    for freed_per_write in [1.5, 2.5, 6.0] {
        let of = rates(freed_per_write, 1);
        let what = format!("{freed_per_write} freed pages per write");
        let near = |name, got: f64, expected: f64, tolerance: f64| {
            assert!((got / expected - 1.0).abs() < tolerance, "{what}: {name} {got} {expected}");
        };
        near("mean rate", of.mean_iops, steady.mean_iops, 0.02);
        let amplification = (of.write_amplification, steady.write_amplification);
        near("write amplification", amplification.0, amplification.1, 0.02);
        // A copy takes a program of 500 µs and a read of 50 µs.
        let copies = (of.write_amplification - 1.0) * freed_per_write;
        let in_burst = programs_per_s / (1.0 + copies * 1.1);
        near("rate in a burst", of.slowest_iops, in_burst, 0.08);
        near("rate in a pause", of.fastest_iops, programs_per_s, 0.05);
    }
}
