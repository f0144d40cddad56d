//! Garbage collection in bursts: long-run rate and write amplification are those of continuous collection, and the rates
//! in a burst and in a pause follow from the work per page.

use crate::common;

use common::{RANDOM, flash, system};
use iodyno_emulate::Machine;
use iodyno_emulate::spec::Kind;
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};

/// Length of the intervals, ns: several in each burst and in each pause of [`rates`].
const INTERVAL_NS: u64 = 25_000_000;

/// Rates of a closed loop of random writes in steady state, and its write amplification.
struct Rates {
    mean_iops: f64,
    slowest_iops: f64,
    fastest_iops: f64,
    write_amplification: f64,
}

fn rates(freed_per_write: f64, seed: u64) -> Rates {
    let mut f = flash();
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
    let mut done = [0_u32; 400];
    while let Some(c) = m.next_completion(INTERVAL_NS * done.len() as u64 - 1) {
        done[(c.at_ns / INTERVAL_NS) as usize] += 1;
        write(&mut m, c.at_ns, c.token);
    }
    assert_eq!(m.check(), Ok(()));
    let iops = |count: f64| count * 1e9 / INTERVAL_NS as f64;
    let done = &done[4..];
    Rates {
        mean_iops: iops(f64::from(done.iter().sum::<u32>()) / done.len() as f64),
        slowest_iops: iops(f64::from(*done.iter().min().unwrap())),
        fastest_iops: iops(f64::from(*done.iter().max().unwrap())),
        write_amplification: m.flash_counts(0).unwrap().write_amplification(),
    }
}

#[test]
fn a_burst_takes_the_work_of_its_pause() {
    let steady = rates(1.0, 1);
    let of_mean = |iops: f64| iops / steady.mean_iops;
    assert!(of_mean(steady.slowest_iops) > 0.95 && of_mean(steady.fastest_iops) < 1.05);
    // One die in nine holds parity.
    let programs_per_s = 16.0 / 500e-6 * 8.0 / 9.0;
    for freed_per_write in [1.5, 2.5, 6.0] {
        let of = rates(freed_per_write, 1);
        let what = format!("{freed_per_write} freed pages per write");
        let near = |name, got: f64, expected: f64, tolerance: f64| {
            assert!((got / expected - 1.0).abs() < tolerance, "{what}: {name} {got} {expected}");
        };
        near("mean rate", of.mean_iops, steady.mean_iops, 0.02);
        let amplification = (of.write_amplification, steady.write_amplification);
        near("write amplification", amplification.0, amplification.1, 0.02);
        // A copy also reads its page.
        let copies = (of.write_amplification * 8.0 / 9.0 - 1.0) * freed_per_write;
        let in_burst = programs_per_s / (1.0 + copies * (1.0 + 50.0 / 500.0 * 8.0 / 9.0));
        near("rate in a burst", of.slowest_iops, in_burst, 0.05);
        near("rate in a pause", of.fastest_iops, programs_per_s, 0.05);
    }
}
