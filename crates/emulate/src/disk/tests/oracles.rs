//! Comparison with known results: closed forms, data-sheet values, and the gain of queueing in another simulation.

use super::*;
use crate::disk::seek::SeekCurve;

/// Random 4 KiB reads at a queue depth.
fn random_reads(spec: &DiskSpec, depth: u32, count: usize) -> Outcome {
    let mut disk = Disk::new(spec, 1, 0);
    closed_loop(&mut disk, 0, depth, count, random(spec.capacity_bytes, 4096, 1000, 7))
}

fn assert_near(what: &str, ours: f64, known: f64, tolerance: f64) {
    let error = ours / known - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {ours} for {known}, {:+.2} %", error * 100.0);
}

/// Time in which 4 KiB pass the head, ns: a track holds what the sequential rate transfers in a
/// revolution plus the mean switch time.
fn transfer_4k_ns(spec: &DiskSpec) -> f64 {
    let revolution_ns = 60e9 / f64::from(spec.rpm);
    let heads = f64::from(spec.heads);
    let switches = (heads - 1.0) * spec.head_switch_ns as f64 + spec.cylinder_switch_ns as f64;
    let track_bytes = spec.outer_bytes_per_s * (revolution_ns + switches / heads) * 1e-9;
    4096.0 / track_bytes * revolution_ns
}

#[test]
fn the_seek_curve_has_the_three_figures_of_the_data_sheet_and_rises() {
    let spec = plain();
    let curve = SeekCurve::new(&spec, 40_001);
    assert_eq!(curve.seek_ns(0), 0);
    assert_eq!(curve.seek_ns(1), spec.track_to_track_ns);
    assert_eq!(curve.seek_ns(40_000), spec.full_stroke_ns);
    // There are 40 001 - d pairs of cylinders at distance d in each direction.
    let (mut sum, mut pairs, mut before) = (0.0, 0.0, 0);
    for d in 1..=40_000_u64 {
        let seek = curve.seek_ns(d);
        assert!(seek >= before);
        before = seek;
        sum += seek as f64 * (40_001 - d) as f64;
        pairs += (40_001 - d) as f64;
    }
    assert_near("average seek", sum / pairs, spec.average_seek_ns as f64, 1e-3);
}

#[test]
fn one_random_read_takes_command_seek_half_a_revolution_and_transfer() {
    for (rpm, average_us) in [(7_200, 8_500), (15_000, 6_000)] {
        let spec = DiskSpec { rpm, average_seek_ns: average_us * US, ..plain() };
        let outcome = random_reads(&spec, 1, 20_000);
        let expected = spec.command_ns as f64
            + spec.average_seek_ns as f64
            + 30e9 / f64::from(rpm)
            + transfer_4k_ns(&spec)
            + 4096e9 / spec.link_bytes_per_s;
        assert_near("mean latency", outcome.mean_ms() * 1e6, expected, 0.01);
    }
}

/// Compares with the IOPS of random 4 KiB reads in an independent simulation (greedy SATF, without aging or
/// controller). When that simulation chooses a request, the next one has already arrived, which gains 5 % at depth 4.
#[test]
fn queueing_gains_as_in_another_simulation() {
    let table = [
        (7_200, 8_500, 16_000, 1_000, [78, 112, 134, 161, 194, 233, 277]),
        (10_000, 4_000, 8_000, 400, [140, 207, 254, 313, 381, 457, 544]),
        (15_000, 2_900, 6_000, 400, [200, 293, 359, 443, 537, 643, 761]),
    ];
    for (rpm, average_us, full_us, first_us, known) in table {
        let spec = DiskSpec {
            rpm,
            average_seek_ns: average_us * US,
            full_stroke_ns: full_us * US,
            track_to_track_ns: first_us * US,
            ..plain()
        };
        for (depth, known) in [1, 4, 8, 16, 32, 64, 128].into_iter().zip(known) {
            let iops = random_reads(&spec, depth, 4_000).iops();
            assert_near(&format!("{rpm} rpm, depth {depth}"), iops, f64::from(known), 0.08);
        }
    }
}

#[test]
fn in_the_order_of_arrival_queueing_gains_only_the_overlap_of_command_and_link() {
    let spec = DiskSpec { scheduler: Scheduler::Fifo, ..plain() };
    let service = spec.average_seek_ns as f64 + 30e9 / 7200.0 + transfer_4k_ns(&spec);
    for depth in [4, 32] {
        assert_near("rate", random_reads(&spec, depth, 10_000).iops(), 1e9 / service, 0.01);
    }
}

#[test]
fn aging_bounds_the_wait_and_costs_less_than_a_fifth() {
    let aged = |depth, age_max_ms: u64| {
        let scheduler = Scheduler::Satf { age_max_ns: age_max_ms * MS, window: 128 };
        random_reads(&DiskSpec { scheduler, ..plain() }, depth, 6_000)
    };
    for (depth, age_max_ms) in [(32, 500), (128, 1_000)] {
        let (greedy, aged) = (random_reads(&plain(), depth, 6_000), aged(depth, age_max_ms));
        assert!(aged.max_ms() < age_max_ms as f64 * 1.1, "{}", aged.max_ms());
        assert!(greedy.max_ms() > aged.max_ms() * 2.0, "{}", greedy.max_ms());
        assert!(aged.iops() > greedy.iops() * 0.8, "{} {}", aged.iops(), greedy.iops());
    }
    // The load is too high for the age limit (200 ms): every second access serves the oldest request, so no request
    // waits for more than two accesses per earlier request.
    let overloaded = aged(128, 200);
    let access_ms = 1e3 / overloaded.iops();
    let bound_ms = 200.0 + 2.0 * 128.0 * access_ms;
    assert!(overloaded.max_ms() < bound_ms, "{} {bound_ms}", overloaded.max_ms());
}

#[test]
fn sequential_transfers_run_at_the_rates_of_the_outermost_and_innermost_zone() {
    for (heads, cache) in [(1, false), (4, true), (20, false)] {
        let spec =
            DiskSpec { heads, zones: 16, inner_bytes_per_s: 75e6, write_cache: cache, ..plain() };
        let inner = spec.capacity_bytes - (3 << 30);
        for (at, rate) in [(0, 150e6), (inner, 75e6)] {
            for (kind, len, depth) in [
                (OpKind::Read, 1 << 20, 32),
                (OpKind::Write, 1 << 20, 32),
                (OpKind::Read, 128 << 10, 1),
                (OpKind::Read, 64 << 10, 4),
            ] {
                let mut disk = Disk::new(&spec, 1, 0);
                let count = (512 << 20) / len as usize;
                let outcome = closed_loop(&mut disk, 0, depth, count, sequential(kind, at, len));
                let drained = settle(&mut disk, outcome.ended_ns);
                // Acknowledged writes may still be in the buffer; reads may have been read ahead.
                let elapsed = if kind == OpKind::Write { drained } else { outcome.elapsed_ns };
                let rest = if kind == OpKind::Write { depth as usize - 1 } else { 0 };
                let bytes = (count + rest) * len as usize;
                let what = format!("{heads} heads, {kind:?} {len} depth {depth} at {at}");
                assert_near(&what, bytes as f64 * 1e9 / elapsed as f64, rate, 0.01);
            }
        }
    }
}

#[test]
fn uncached_sequential_writes_one_by_one_lose_a_revolution_each() {
    let spec = plain();
    let mut disk = Disk::new(&spec, 1, 0);
    let outcome = closed_loop(&mut disk, 0, 1, 2_000, sequential(OpKind::Write, 0, 4096));
    let expected = 60e9 / 7200.0 + transfer_4k_ns(&spec);
    assert_near("cycle", outcome.mean_ms() * 1e6, expected, 0.01);
}

#[test]
fn caches_answer_in_the_time_of_their_parts() {
    let spec = DiskSpec { write_cache: true, flash_bytes: 1 << 20, ..plain() };
    let mut disk = Disk::new(&spec, 1, 0);
    let link = disk.link_ns(8192);
    // The write buffer.
    let write = one(&mut disk, 0, op(OpKind::Write, 1 << 30, 8192));
    assert_eq!(write, spec.command_ns + link + spec.accept_ns);
    assert_eq!(disk.phases(OpKind::Write).queue_ns, 0);
    assert_eq!(
        one(&mut disk, write, op(OpKind::Read, (1 << 30) + 4096, 4096)),
        spec.command_ns + disk.link_ns(4096)
    );
    let now = settle(&mut disk, write);
    // Read-ahead reaches its configured distance and no further.
    let place = 5 << 30;
    one(&mut disk, now, op(OpKind::Read, place, 8192));
    let now = settle(&mut disk, now);
    let last = place + 8192 + spec.read_ahead_bytes - 8192;
    assert_eq!(one(&mut disk, now, op(OpKind::Read, last, 8192)), spec.command_ns + link);
    let now = settle(&mut disk, now);
    let (hits, reads) = (disk.usage().segment_hits, disk.usage().medium_reads);
    one(&mut disk, now, op(OpKind::Read, last + spec.read_ahead_bytes + 8192, 8192));
    assert_eq!((disk.usage().segment_hits, disk.usage().medium_reads), (hits, reads + 1));
    // A written range is not read from its stale cached copy.
    let kept = last + 8192 + spec.read_ahead_bytes + (64 << 10);
    for (write, hit) in [(false, 1), (true, 0)] {
        let mut now = settle(&mut disk, now);
        if write {
            one(&mut disk, now, Op { fua: true, ..op(OpKind::Write, kept, 4096) });
            now = settle(&mut disk, now);
        }
        let hits = disk.usage().segment_hits;
        one(&mut disk, now, op(OpKind::Read, kept, 8192));
        assert_eq!(disk.usage().segment_hits, hits + hit);
    }
    // The NAND keeps a block that was read from the medium twice until the block is written. Between these reads, other
    // reads evict the block from the segments.
    let mut now = settle(&mut disk, now);
    let mut latency = 0;
    for round in 0..4 {
        if round == 3 {
            one(&mut disk, now, op(OpKind::Write, 0, 4096));
            now = settle(&mut disk, now);
        }
        latency = one(&mut disk, now, op(OpKind::Read, 0, 8192));
        assert_eq!(round == 2, latency == spec.command_ns + spec.flash_read_ns + link, "{round}");
        now = settle(&mut disk, now);
        for i in 1..=u64::from(spec.read_segments) {
            one(&mut disk, now, op(OpKind::Read, (i + 20 * round) << 30, 4096));
            now = settle(&mut disk, now);
        }
    }
    assert!(latency > MS);
}

#[test]
fn the_link_follows_the_heads() {
    // A faster link ends one piece after the medium; a slower one begins with the first byte.
    for link_bytes_per_s in [600e6, 50e6] {
        let spec = DiskSpec { link_bytes_per_s, ..plain() };
        let mut disk = Disk::new(&spec, 1, 0);
        let latency = one(&mut disk, 0, op(OpKind::Read, 7 << 30, 1 << 20));
        let phases = disk.phases(OpKind::Read);
        let before = phases.command_ns + phases.seek_ns + phases.rotation_ns;
        let expected = (phases.transfer_ns + disk.link_ns(4096)).max(disk.link_ns(1 << 20));
        assert_eq!(latency, before + expected);
        assert_eq!(latency, phases.total_ns());
    }
}

#[test]
fn read_ahead_keeps_ahead_of_a_slow_reader_and_keeps_no_more_than_a_segment() {
    let spec = plain();
    let mut disk = Disk::new(&spec, 1, 0);
    let (mut now, len) = (0, 64 << 10);
    for i in 0..100 {
        one(&mut disk, now, op(OpKind::Read, i * len, len as u32));
        now = settle(&mut disk, now) + 20 * MS;
    }
    assert_eq!((disk.usage().medium_reads, disk.usage().segment_hits), (1, 99));
    for (at, medium_reads) in [(99, 1), (90, 2)] {
        one(&mut disk, now, op(OpKind::Read, at * len, len as u32));
        now = settle(&mut disk, now);
        assert_eq!(disk.usage().medium_reads, medium_reads, "{at}");
    }
}

/// The request of the other sequence always waits when the heads could read ahead.
#[test]
fn interleaved_sequences_without_pauses_get_no_read_ahead() {
    for (sequences, has_hits) in [(1, true), (2, false)] {
        let mut disk = Disk::new(&plain(), 1, 0);
        let mut readers = [0, 50 << 30].map(|start| sequential(OpKind::Read, start, 64 << 10));
        let mut turn = 0;
        closed_loop(&mut disk, 0, sequences, 200, || {
            turn += 1;
            readers[turn % sequences as usize]()
        });
        assert_eq!(disk.usage().segment_hits > 0, has_hits, "{sequences}");
    }
}
