//! Four disks compared with published figures.
//!
//! A few parameters of each disk are fitted (as noted); the rest are typical of its class.

use super::*;

/// Runs random operations; `reads` is the number of reads per thousand.
fn random_load(spec: &DiskSpec, depth: u32, reads: u64) -> Outcome {
    let mut disk = Disk::new(spec, 1, 0);
    closed_loop(&mut disk, 0, depth, 6_000, random(spec.capacity_bytes, 4096, reads, 11))
}

/// MB/s of 1 MiB transfers at depth 32 from the outer edge.
fn sequential_mb_per_s(spec: &DiskSpec, kind: OpKind) -> f64 {
    let mut disk = Disk::new(spec, 1, 0);
    let outcome = closed_loop(&mut disk, 0, 32, 2_000, sequential(kind, 0, 1 << 20));
    if kind == OpKind::Read {
        return outcome.iops() * 1.048_576;
    }
    // Acknowledged writes may still be in the buffer: they count only once they are on the medium.
    let drained_ns = settle(&mut disk, outcome.ended_ns);
    2_031.0 * 1_048_576e3 / drained_ns as f64
}

/// Compares the model's figures with the published ones, and prints a table (see it with `--nocapture`).
fn hold(disk: &str, rows: &[(&str, f64, f64, f64)]) {
    let mut wrong = Vec::new();
    for &(what, printed, ours, tolerance) in rows {
        let error = ours / printed - 1.0;
        let row = format!("{disk:16} {what:24} {printed:8.2} {ours:8.2} {:+6.1} %", error * 100.0);
        println!("{row}");
        if error.abs() > tolerance {
            wrong.push(row);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A 2.5-inch 7.2 K hybrid disk of 500 GB with its write cache off, as the SNIA test specification requires.
/// Fitted: average_seek_ns to the random reads, write_settle_ns to the random writes,
/// outer_bytes_per_s halfway between the sequential figures.
fn sshd_7200_sata_500g() -> DiskSpec {
    DiskSpec {
        capacity_bytes: 500_107_862_016,
        rpm: 7_200,
        heads: 4,
        zones: 16,
        outer_bytes_per_s: 105e6,
        inner_bytes_per_s: 55e6,
        track_to_track_ns: 1_500 * US,
        average_seek_ns: 13_100 * US,
        full_stroke_ns: 28 * MS,
        write_settle_ns: 550 * US,
        head_switch_ns: 1_200 * US,
        cylinder_switch_ns: 1_500 * US,
        command_ns: 300 * US,
        link_bytes_per_s: 300e6,
        queue_max: 32,
        scheduler: Scheduler::Satf { age_max_ns: 800 * MS, window: 32 },
        buffer_bytes: 32 << 20,
        write_cache: false,
        accept_ns: 20 * US,
        read_ahead_bytes: 1 << 20,
        read_segments: 16,
        flash_bytes: 4 << 30,
        flash_read_ns: 150 * US,
        shingled: None,
    }
}

#[test]
fn sshd_7200_sata_500g_as_printed() {
    let spec = sshd_7200_sata_500g();
    let single = random_load(&spec, 1, 0);
    hold(
        "sshd-7200-500g",
        &[
            ("random read T2Q16", 148.0, random_load(&spec, 32, 1000).iops(), 0.05),
            ("random write T2Q16", 134.0, random_load(&spec, 32, 0).iops(), 0.05),
            ("random write T4Q32", 134.0, random_load(&spec, 128, 0).iops(), 0.05),
            ("65:35 T2Q16, predicted", 131.0, random_load(&spec, 32, 650).iops(), 0.12),
            ("sequential read", 103.0, sequential_mb_per_s(&spec, OpKind::Read), 0.05),
            ("sequential write", 107.0, sequential_mb_per_s(&spec, OpKind::Write), 0.05),
            ("write T1Q1 mean ms", 18.54, single.mean_ms(), 0.15),
            ("write T1Q1 max ms", 40.63, single.max_ms(), 0.15),
        ],
    );
}

/// A 15 K disk of 80 GB, write cache off. Seeks are the 2.9 and 3.3 ms of 2.5-inch disks of that
/// speed. Fitted: the scheduler's window to the random reads, outer_bytes_per_s halfway between the
/// sequential figures. The printed latency (55 ms for one write) is not fitted.
fn hdd_15k_sas_80g() -> DiskSpec {
    DiskSpec {
        capacity_bytes: 80_026_361_856,
        rpm: 15_000,
        heads: 2,
        zones: 12,
        outer_bytes_per_s: 87e6,
        inner_bytes_per_s: 60e6,
        track_to_track_ns: 300 * US,
        average_seek_ns: 2_900 * US,
        full_stroke_ns: 6 * MS,
        write_settle_ns: 400 * US,
        head_switch_ns: 400 * US,
        cylinder_switch_ns: 400 * US,
        command_ns: 100 * US,
        link_bytes_per_s: 300e6,
        queue_max: 64,
        scheduler: Scheduler::Satf { age_max_ns: 1_000 * MS, window: 11 },
        buffer_bytes: 16 << 20,
        write_cache: false,
        accept_ns: 20 * US,
        read_ahead_bytes: 512 << 10,
        read_segments: 32,
        flash_bytes: 0,
        flash_read_ns: 0,
        shingled: None,
    }
}

#[test]
fn hdd_15k_sas_80g_as_printed() {
    let spec = hdd_15k_sas_80g();
    hold(
        "hdd-15k-80g",
        &[
            ("random read T2Q16", 401.0, random_load(&spec, 32, 1000).iops(), 0.05),
            ("random write T2Q16", 340.0, random_load(&spec, 32, 0).iops(), 0.05),
            ("random write T4Q32", 350.0, random_load(&spec, 128, 0).iops(), 0.05),
            ("65:35 T2Q16, predicted", 398.0, random_load(&spec, 32, 650).iops(), 0.12),
            ("sequential read", 90.0, sequential_mb_per_s(&spec, OpKind::Read), 0.05),
            ("sequential write", 84.0, sequential_mb_per_s(&spec, OpKind::Write), 0.05),
        ],
    );
}

/// A 10 K 2.5-inch disk of 300 GB. From the product manuals of Seagate's Savvio 10K family: sustained
/// 67 to 124 MB/s (10K.3); seeks of 3.8 ms (read), 4.4 (write), 0.3 (track to track), 7.81 (full stroke), and 0.2 ms
/// controller time (10K.4). The rest is typical of its class; nothing is fitted.
fn hdd_10k_300g() -> DiskSpec {
    DiskSpec {
        capacity_bytes: 300_000_000_000,
        rpm: 10_000,
        heads: 4,
        zones: 16,
        outer_bytes_per_s: 124e6,
        inner_bytes_per_s: 67e6,
        track_to_track_ns: 300 * US,
        average_seek_ns: 3_800 * US,
        full_stroke_ns: 7_810 * US,
        write_settle_ns: 600 * US,
        head_switch_ns: 500 * US,
        cylinder_switch_ns: 500 * US,
        command_ns: 200 * US,
        link_bytes_per_s: 600e6,
        queue_max: 128,
        scheduler: Scheduler::Satf { age_max_ns: 1_000 * MS, window: 64 },
        buffer_bytes: 12 << 20,
        write_cache: true,
        accept_ns: 20 * US,
        read_ahead_bytes: 512 << 10,
        read_segments: 16,
        flash_bytes: 0,
        flash_read_ns: 0,
        shingled: None,
    }
}

#[test]
fn hdd_10k_300g_reproduces_its_data_sheet() {
    let spec = hdd_10k_300g();
    hold(
        "hdd-10k-300g",
        &[
            // Access time of the data sheet: seek 4.0 with controller, latency 3.0.
            ("read T1Q1 mean ms", 7.0, random_load(&spec, 1, 1000).mean_ms(), 0.03),
            ("sequential read", 124.0, sequential_mb_per_s(&spec, OpKind::Read), 0.01),
            ("sequential write", 124.0, sequential_mb_per_s(&spec, OpKind::Write), 0.01),
        ],
    );
}

/// A helium-filled nearline disk of 20 TB, 7.2 K: 285 MB/s sustained and 256 MB of memory (Exos X20). The random
/// rates at depth 16 are from the data sheet of a similar disk (Exos X24): 168 reads, and 550 writes,
/// here into the cache. The innermost rate is an estimate. Fitted: average_seek_ns to the
/// reads, the scheduler's window to the writes.
fn hdd_7200_sata_20t() -> DiskSpec {
    DiskSpec {
        capacity_bytes: 20_000_588_955_648,
        rpm: 7_200,
        heads: 20,
        zones: 30,
        outer_bytes_per_s: 285e6,
        inner_bytes_per_s: 135e6,
        track_to_track_ns: 300 * US,
        average_seek_ns: 8_900 * US,
        full_stroke_ns: 17_500 * US,
        write_settle_ns: 300 * US,
        head_switch_ns: 600 * US,
        cylinder_switch_ns: 600 * US,
        command_ns: 100 * US,
        link_bytes_per_s: 600e6,
        queue_max: 32,
        scheduler: Scheduler::Satf { age_max_ns: 1_000 * MS, window: 1_800 },
        buffer_bytes: 192 << 20,
        write_cache: true,
        accept_ns: 20 * US,
        read_ahead_bytes: 2 << 20,
        read_segments: 24,
        flash_bytes: 0,
        flash_read_ns: 0,
        shingled: None,
    }
}

#[test]
fn hdd_7200_sata_20t_as_its_data_sheet() {
    let spec = hdd_7200_sata_20t();
    // Writes count only once the buffer is full; before that they run at the controller's rate.
    let mut disk = Disk::new(&spec, 1, 0);
    let mut load = random(spec.capacity_bytes, 4096, 0, 11);
    let fill = (spec.buffer_bytes / 4096 * 5 / 4) as usize;
    closed_loop(&mut disk, 0, 16, fill, &mut load);
    assert!(disk.usage().buffer_full > 0);
    let now = disk.wake_at();
    let written = closed_loop(&mut disk, now, 16, 6_000, &mut load);
    hold(
        "hdd-7200-20t",
        &[
            ("random read Q16", 168.0, random_load(&spec, 16, 1000).iops(), 0.05),
            ("random write Q16", 550.0, written.iops(), 0.05),
            ("sequential read", 285.0, sequential_mb_per_s(&spec, OpKind::Read), 0.01),
            ("sequential write", 285.0, sequential_mb_per_s(&spec, OpKind::Write), 0.02),
        ],
    );
}
