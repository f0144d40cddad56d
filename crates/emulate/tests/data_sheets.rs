//! The data-sheet figures from which the current devices of the catalog were made: each device, alone in its system,
//! reproduces its figures. The figures were inputs, so this does not validate the model, only the interaction of its
//! parts. The files state which figures are printed for the device and which for its class.

use crate::catalog_devices as catalog;

use catalog::{Bench, Loop, Outcome, STEADY};
use iodyno_emulate::spec::Written;
use iodyno_emulate::spec::Written::{Fresh, Sequential};

/// Random reads of 4 KiB by 8 threads, each with 32 outstanding.
const READS: Loop = Loop {
    read_share: 1.0,
    block: 4096,
    in_order: false,
    threads: 8,
    depth: 32,
    before: STEADY,
    ramp_s: 0.01,
    time_s: 0.05,
};
const DEPTH_16: Loop = Loop { threads: 4, depth: 4, ..READS };
const WRITES: Loop = Loop { read_share: 0.0, ramp_s: 0.3, time_s: 0.5, ..READS };
/// Random writes to drives whose buffer takes longer to fill.
const SLOW_WRITES: Loop = Loop { ramp_s: 1.0, time_s: 2.0, ..WRITES };
const UNIT_WRITES_16: Loop = Loop { block: 16 << 10, before: RANDOM_16, ..SLOW_WRITES };
const UNIT_WRITES_64: Loop = Loop { block: 64 << 10, before: RANDOM_64, ..SLOW_WRITES };
const RANDOM_16: Written = Written::Random { block_bytes: 16 << 10 };
const RANDOM_64: Written = Written::Random { block_bytes: 64 << 10 };
const BURST: Loop = Loop { before: Fresh, ramp_s: 0.02, time_s: 0.05, ..WRITES };
const READ_ALONE: Loop = Loop { threads: 1, depth: 1, time_s: 0.1, ..READS };
const WRITE_ALONE: Loop = Loop { read_share: 0.0, before: Fresh, ..READ_ALONE };
/// Sequential reads of 128 KiB.
const STREAM: Loop = Loop {
    block: 128 << 10,
    in_order: true,
    threads: 1,
    before: Sequential,
    ramp_s: 0.1,
    time_s: 0.4,
    ..READS
};
const WRITE_STREAM: Loop = Loop { read_share: 0.0, ..STREAM };
const DISK_READS: Loop = Loop { threads: 1, depth: 16, ramp_s: 1.0, time_s: 60.0, ..READS };
/// Random writes to a disk, after its cache is full.
const DISK_WRITES: Loop = Loop { read_share: 0.0, ramp_s: 100.0, ..DISK_READS };

const MB_PER_S: fn(&Outcome) -> f64 = |o| o.mb_per_s;
const PER_S: fn(&Outcome) -> f64 = |o| o.iops;
const MEAN_US: fn(&Outcome) -> f64 = |o| o.mean_ms * 1e3;

/// Device, load, measure, and the maker's figure.
type Figure = (&'static str, Loop, fn(&Outcome) -> f64, f64);

const FIGURES: [Figure; 50] = [
    ("nvme-tlc-3840g", STREAM, MB_PER_S, 6_800.0),
    ("nvme-tlc-3840g", WRITE_STREAM, MB_PER_S, 5_300.0),
    ("nvme-tlc-3840g", READS, PER_S, 1_000_000.0),
    ("nvme-tlc-3840g", WRITES, PER_S, 180_000.0),
    ("nvme-tlc-3840g", READ_ALONE, MEAN_US, 80.0),
    ("nvme-tlc-3840g", WRITE_ALONE, MEAN_US, 15.0),
    ("nvme-qlc-2048g", STREAM, MB_PER_S, 3_500.0),
    ("nvme-qlc-2048g", Loop { before: Fresh, ..WRITE_STREAM }, MB_PER_S, 2_700.0),
    ("nvme-qlc-2048g", WRITE_STREAM, MB_PER_S, 400.0),
    ("nvme-qlc-2048g", READS, PER_S, 310_000.0),
    ("nvme-qlc-2048g", BURST, PER_S, 340_000.0),
    // The printed 20 000 are of data in the SLC cache, which holds a seventh of a full drive's.
    ("nvme-qlc-2048g", READ_ALONE, MEAN_US, 32.0 / 7.3 + 90.0 * 6.3 / 7.3 + 18.0),
    ("nvme-qlc-2048g", WRITE_ALONE, PER_S, 54_000.0),
    // Units of 16 and 64 KiB: the figures of 4 KiB follow, a quarter and a sixteenth of the writes of a whole unit.
    ("p5336-123t", WRITE_STREAM, MB_PER_S, 3_200.0),
    ("p5336-123t", UNIT_WRITES_16, PER_S, 43_000.0),
    ("p5336-123t", SLOW_WRITES, PER_S, 43_000.0),
    ("p5316-15t", WRITE_STREAM, MB_PER_S, 3_600.0),
    ("p5316-15t", UNIT_WRITES_64, MB_PER_S, 510.0),
    ("p5316-15t", SLOW_WRITES, PER_S, 510e6 / 65_536.0),
    ("optane-p4800x-375g", STREAM, MB_PER_S, 2_400.0),
    ("optane-p4800x-375g", WRITE_STREAM, MB_PER_S, 2_000.0),
    ("optane-p4800x-375g", DEPTH_16, PER_S, 550_000.0),
    ("optane-p4800x-375g", Loop { read_share: 0.0, ..DEPTH_16 }, PER_S, 500_000.0),
    ("optane-p4800x-375g", READ_ALONE, MEAN_US, 8.9),
    // No state: a used drive is as fast as a fresh one.
    ("optane-p4800x-375g", Loop { before: Fresh, read_share: 0.0, ..DEPTH_16 }, PER_S, 500_000.0),
    ("iodrive2-785g", STREAM, MB_PER_S, 1_500.0),
    ("iodrive2-785g", WRITE_STREAM, MB_PER_S, 1_100.0),
    ("iodrive2-785g", Loop { block: 512, ..READS }, PER_S, 141_000.0),
    ("iodrive2-785g", READ_ALONE, MEAN_US, 68.0),
    ("iodrive2-785g", WRITE_ALONE, MEAN_US, 15.0),
    ("hdd-nearline-20t", Loop { ramp_s: 1.0, time_s: 10.0, ..STREAM }, MB_PER_S, 285.0),
    ("hdd-nearline-20t", DISK_READS, PER_S, 168.0),
    ("hdd-nearline-20t", DISK_WRITES, PER_S, 550.0),
    ("hdd-archive-8t", Loop { ramp_s: 1.0, time_s: 10.0, ..WRITE_STREAM }, MB_PER_S, 190.0),
    ("hdd-10k-300g", Loop { ramp_s: 1.0, time_s: 10.0, ..STREAM }, MB_PER_S, 124.0),
    ("hdd-10k-300g", Loop { depth: 1, ..DISK_READS }, MEAN_US, 7_000.0),
    // The third generation has a data sheet; the others are shares of it (catalog/README.md).
    ("ssd-gen3-emlc", STREAM, MB_PER_S, 495.0),
    ("ssd-gen3-emlc", WRITE_STREAM, MB_PER_S, 385.0),
    ("ssd-gen3-emlc", READS, PER_S, 42_400.0),
    ("ssd-gen3-emlc", SLOW_WRITES, PER_S, 24_000.0),
    ("ssd-gen2-emlc", STREAM, MB_PER_S, 268.0),
    ("ssd-gen2-emlc", READS, PER_S, 21_800.0),
    ("ssd-gen2-emlc", SLOW_WRITES, PER_S, 12_000.0),
    ("ssd-gen4-emlc", STREAM, MB_PER_S, 643.5),
    ("ssd-gen4-emlc", READS, PER_S, 55_120.0),
    ("ssd-gen4-emlc", SLOW_WRITES, PER_S, 31_200.0),
    ("ssd-gen1-emlc", STREAM, MB_PER_S, 104.0),
    ("ssd-gen1-emlc", READS, PER_S, 8_478.0),
    ("ssd-gen1-emlc", SLOW_WRITES, PER_S, 4_667.0),
    ("hdd-15k-300g", Loop { ramp_s: 1.0, time_s: 10.0, ..STREAM }, MB_PER_S, 202.0),
];

#[test]
fn devices_reproduce_the_figures_of_their_makers() {
    let mut wrong = Vec::new();
    for (device, how, of, figure) in FIGURES {
        let ours = of(&Bench::new(device).run(&how));
        let off = ours / figure - 1.0;
        let line = format!("{device:16} {figure:9} {ours:9.0} {:+5.1} %", off * 100.0);
        println!("{line}");
        if off.abs() > 0.05 {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
