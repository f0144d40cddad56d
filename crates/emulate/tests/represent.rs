//! Compares a sample of the pages with all pages, through the whole machine: a device's behaviour
//! must not depend on the number of pages held in memory.

use crate::common;

use common::{Loop, flash, system};
use iodyno_emulate::Machine;
use iodyno_emulate::spec::{Flash, Kind, Written};

/// A flash device of 16 GiB on 32 dies, with a fifth of spare.
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
fn a_sample_of_the_pages_represents_all_pages() {
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

/// A sample is also representative if a flash page holds several units, of which garbage collection
/// reads the valid ones at once, on channels with little time to spare. Each unit that the host
/// writes crosses a channel once, each copied unit twice.
#[test]
fn a_sample_copies_like_all_pages() {
    const CHANNEL_BYTES_PER_S: f64 = 20e6;
    let run = |represent, how, block, time_ns| {
        let mut device = device();
        (device.capacity_bytes, device.nand.raw_bytes) = (4 << 30, 5 << 30);
        device.nand.page_bytes = 16 << 10;
        device.nand.channel_bytes_per_s = CHANNEL_BYTES_PER_S;
        let s = system(Kind::Flash(Box::new(device)), how, 1);
        let mut m = Machine::represented(&s, 1, represent).unwrap();
        let depth = (256 << 10) / block;
        let got = Loop { read_share: 0.0, block, time_ns, ..Loop::reads(depth) }.run(&mut m);
        let counts = m.flash_counts(0).unwrap();
        let channels = m.resources(0).into_iter().find(|r| r.name == "flash channels").unwrap();
        let moved = counts.host_pages + 2 * counts.copied_pages;
        let busy_ns = moved as f64 * 4096e9 / CHANNEL_BYTES_PER_S;
        let off = channels.busy_ns as f64 / busy_ns - 1.0;
        assert!(off.abs() < 1e-3, "1 in {represent}, {how:?}: channels {off:+.5}");
        (got.iops, counts.copied_pages as f64, counts.copy_senses as f64)
    };
    // In order at first, victims become fuller and fuller: the pages read for a copy change. And
    // units that one write overwrites are valid or not together.
    let random = |block_bytes| Written::Random { block_bytes };
    for (how, block, time_ns) in [
        (random(4096), 4096, 20_000_000_000),
        (random(8192), 8192, 20_000_000_000),
        (random(65536), 65536, 20_000_000_000),
        // No whole number of pages.
        (random(12288), 12288, 20_000_000_000),
        (random(20480), 20480, 20_000_000_000),
        (Written::Sequential, 4096, 60_000_000_000),
        (Written::Sequential, 65536, 60_000_000_000),
        // By writes of another size than those that preconditioned it.
        (random(4096), 65536, 5_000_000_000),
        (random(4096), 65536, 60_000_000_000),
        (random(4096), 65536, 15_000_000_000),
        (random(4096), 65536, 30_000_000_000),
        (random(65536), 4096, 15_000_000_000),
        (random(65536), 4096, 30_000_000_000),
        (random(65536), 4096, 5_000_000_000),
        (random(65536), 4096, 60_000_000_000),
    ] {
        let exact = run(1, how, block, time_ns);
        for represent in [2, 8] {
            let sample = run(represent, how, block, time_ns);
            let near = |a: f64, b: f64, within: f64, what: &str| {
                let off = a / b - 1.0;
                assert!(off.abs() < within, "{how:?}, {block}, 1 in {represent}: {what} {off:+.4}");
            };
            near(sample.0, exact.0, 0.03, "rate");
            near(sample.2 / sample.1, exact.2 / exact.1, 0.06, "pages read for a copy");
        }
    }
}
