//! The represented form against the exact one, through the whole machine: what a device does must
//! not depend on how many of its pages are held.

mod common;

use common::{Loop, flash, system};
use iodyno_emulate::Machine;
use iodyno_emulate::spec::{Flash, Kind, Written};

/// 16 GiB on 32 dies, with a spare of a fifth.
fn device() -> Flash {
    let mut f = flash();
    f.capacity_bytes = 16 << 30;
    f.nand.raw_bytes = 20 << 30;
    f.nand.dies_per_channel = 2;
    f.nand.channel_bytes_per_s = 200e6;
    f.nand.programs_max = 16;
    f
}

/// Write amplification within 3 %, rates within 3 % and p99 within 5 %, for pure writes and a mix.
#[test]
fn a_sample_of_the_pages_does_what_all_pages_do() {
    for read_share in [0.0, 0.7] {
        let run = |represent| {
            let how = Written::Random { block_bytes: 4096 };
            let s = system(Kind::Flash(Box::new(device())), how, 1);
            let mut m = Machine::represented(&s, 1, represent).unwrap();
            let l = Loop {
                read_share,
                ramp_ns: 200_000_000,
                time_ns: 20_000_000_000,
                ..Loop::reads(64)
            };
            let outcome = l.run(&mut m);
            (outcome, m.flash_counts(0).unwrap().write_amplification())
        };
        let (exact, exact_wa) = run(1);
        assert!(exact_wa > 2.0, "garbage collection is at work: {exact_wa}");
        for represent in [4, 16] {
            let (sample, wa) = run(represent);
            let near = |a: f64, b: f64, within: f64, what: &str| {
                let off = a / b - 1.0;
                println!(
                    "reads {read_share}, 1 in {represent}: {what} {a:.4}, exact {b:.4}: {off:+.4}"
                );
                assert!(off.abs() < within, "{what}: {a} against {b} ({off:+.4})");
            };
            near(wa, exact_wa, 0.03, "write amplification");
            near(sample.iops, exact.iops, 0.03, "rate");
            near(sample.p99_ns as f64, exact.p99_ns as f64, 0.05, "p99");
            near(sample.mean_ns, exact.mean_ns, 0.03, "mean");
        }
    }
}

/// How many flash pages are read for what garbage collection copies: neighbours in one are read together, however
/// full the victims are. (In order at first, so that victims become fuller and fuller.)
#[test]
fn a_sample_reads_as_many_pages_for_its_copies() {
    let run = |represent| {
        let mut device = device();
        (device.capacity_bytes, device.nand.raw_bytes) = (4 << 30, 5 << 30);
        device.nand.page_bytes = 16 << 10;
        let s = system(Kind::Flash(Box::new(device)), Written::Sequential, 1);
        let counts = [5, 10, 20, 40].map(|seconds| {
            let mut m = Machine::represented(&s, 1, represent).unwrap();
            let time_ns = seconds * 1_000_000_000;
            Loop { read_share: 0.0, time_ns, ..Loop::reads(64) }.run(&mut m);
            m.flash_counts(0).unwrap()
        });
        let of = |n: usize| (counts[n].copied_pages, counts[n].copy_senses);
        let share = |n: usize| (of(n + 1).1 - of(n).1) as f64 / (of(n + 1).0 - of(n).0) as f64;
        (0..3).map(share).collect::<Vec<f64>>()
    };
    let exact = run(1);
    println!("{exact:?}");
    println!("{:?}", run(4));
    println!("{:?}", run(16));
}
