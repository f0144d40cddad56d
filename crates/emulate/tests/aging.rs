//! Aging of devices by a workload without time, and devices scaled down.

use crate::common;

use common::{Loop, flash, memory, system};
use iodyno_emulate::Machine;
use iodyno_emulate::spec::{Flash, Kind, Written};
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};

/// A flash device of 4 GiB on 32 dies, with a fifth of spare, divided by `scale`.
fn device(scale: u32) -> Flash {
    let mut f = flash();
    (f.capacity_bytes, f.nand.raw_bytes) = (4 << 30, 5 << 30);
    f.nand.dies_per_channel = 2;
    f.nand.channel_bytes_per_s = 200e6;
    f.nand.programs_max = 16;
    f.scale_down(scale);
    f
}

/// Uniform writes without time lead from any state to the constructed steady state, and a device of a fraction of the
/// capacity has the same rate, latency, write amplification and erases.
#[test]
fn aged_and_scaled_devices_behave_like_the_constructed_one() {
    let run = |how, scale, passes: u64| {
        let s = system(Kind::Flash(Box::new(device(scale))), how, 1);
        let mut m = Machine::represented(&s, 1, 1).unwrap();
        let (mut rng, pages) = (stream(5, "age", 0), m.capacity_bytes(0) / 4096);
        let mut left = passes * pages;
        let aged = m.age(|| {
            left = left.checked_sub(1)?;
            let offset_bytes = below(&mut rng, pages) * 4096;
            Some((0, Op { offset_bytes, len_bytes: 4096, kind: OpKind::Write, fua: false }))
        });
        assert!(aged);
        let time_ns = 10_000_000_000;
        let of = Loop { read_share: 0.2, ramp_ns: 200_000_000, time_ns, ..Loop::reads(64) };
        let got = of.run(&mut m);
        let counts = m.flash_counts(0).unwrap();
        let erases = counts.erases as f64 / counts.programs as f64;
        [got.iops, got.mean_ns, got.p99_ns as f64, counts.write_amplification(), erases]
    };
    let random = Written::Random { block_bytes: 4096 };
    let expected = run(random, 1, 0);
    for (how, scale, passes) in
        [(Written::Sequential, 1, 4), (Written::Sequential, 4, 4), (random, 4, 0)]
    {
        for (found, expected) in run(how, scale, passes).into_iter().zip(expected) {
            let off = found / expected - 1.0;
            assert!(off.abs() < 0.04, "{how:?}, {scale}: {found} against {expected}");
        }
    }
}

/// A trim without time frees pages, and only flash devices can be aged.
#[test]
fn trims_take_effect_and_other_devices_are_refused() {
    let s = system(Kind::Flash(Box::new(device(16))), Written::Random { block_bytes: 4096 }, 1);
    let mut m = Machine::represented(&s, 1, 1).unwrap();
    let capacity = m.capacity_bytes(0);
    let trim = Op { offset_bytes: 0, len_bytes: capacity as u32, kind: OpKind::Trim, fua: false };
    let mut ops = vec![(0, trim)];
    assert!(m.age(|| ops.pop()));
    let writes = Loop { read_share: 0.0, time_ns: 50_000_000, ..Loop::reads(64) };
    let written = writes.run(&mut m).iops / 20.0 * 4096.0;
    assert!((100e3..capacity as f64).contains(&written), "{written} bytes");
    let amplification = m.flash_counts(0).unwrap().write_amplification();
    assert!(amplification < 1.01, "all blocks were free: {amplification}");
    let mut m = Machine::new(&system(memory(true), Written::Fresh, 1), 1).unwrap();
    let mut ops = vec![(0, Op { len_bytes: 4096, ..trim })];
    assert!(!m.age(|| ops.pop()));
}
