//! Invariants of any disk under any load.

use super::*;
use proptest::prelude::*;

type ContentEvent = fn(&mut DiskSpec);

/// A load of all kinds of operations, over a range small enough for overlaps.
fn everything(span_bytes: u64, seed: u64) -> impl FnMut() -> Op {
    let mut draw: Generator = stream(seed, "disk-laws", 0);
    let mut next = 0;
    move || {
        let len = 512 << below(&mut draw, 10);
        let kind = match below(&mut draw, 100) {
            0..45 => OpKind::Read,
            45..92 => OpKind::Write,
            92..95 => return Op::FLUSH,
            95..98 => OpKind::Trim,
            _ => OpKind::WriteZeroes,
        };
        // Half of the operations are sequential.
        if below(&mut draw, 2) == 0 {
            next = below(&mut draw, span_bytes / 512) * 512;
        }
        let offset_bytes = next.min(span_bytes - len);
        next = offset_bytes + len;
        Op { offset_bytes, len_bytes: len as u32, kind, fua: below(&mut draw, 8) == 0 }
    }
}

fn any_disk() -> impl Strategy<Value = DiskSpec> {
    let mechanics = (1_u32..6, 1_u32..9, 0_u64..3, 4_000_u32..16_000);
    let firmware = (1_u32..33, 0_u32..3, 1_u32..40, 0_u64..300);
    let memory = (any::<bool>(), 12_u32..22, 0_u64..400_000, 1_u32..5, 0_u64..2);
    let shingled = (1_u64..20, 0_u64..20, 1_u32..300, proptest::option::of(0..20 * MS));
    let shingled = shingled.prop_map(|(band, more, entries_max, idle_ns)| Shingled {
        band_bytes: (15 + band) << 12,
        cache_bytes: (15 + band + more) << 12,
        entries_max,
        idle_ns,
    });
    (mechanics, firmware, memory, proptest::option::of(shingled)).prop_map(
        |((heads, zones, settle, rpm), (queue_max, fifo, window, command), memory, shingled)| {
            let (write_cache, buffer_log, read_ahead_bytes, read_segments, flash) = memory;
            let satf = Scheduler::Satf { age_max_ns: 50 * MS, window };
            DiskSpec {
                capacity_bytes: 1 << 30,
                rpm,
                heads,
                zones,
                inner_bytes_per_s: 90e6,
                outer_bytes_per_s: 150e6,
                write_settle_ns: settle * 400 * US,
                command_ns: command * US,
                queue_max,
                scheduler: if fifo == 0 { Scheduler::Fifo } else { satf },
                write_cache,
                buffer_bytes: 1 << buffer_log,
                read_ahead_bytes,
                read_segments,
                flash_bytes: flash << 20,
                shingled,
                ..plain()
            }
        },
    )
}

/// Lower bound of an operation's time, whatever is cached.
fn least_ns(spec: &DiskSpec, disk: &Disk, op: &Op) -> u64 {
    let fastest = spec.outer_bytes_per_s * 1.5;
    let medium = (f64::from(op.len_bytes) / fastest * 1e9) as u64;
    let link = disk.link_ns(u64::from(op.len_bytes));
    spec.command_ns
        + match op.kind {
            OpKind::Read => link,
            OpKind::Write if spec.write_cache && !op.fua => link + spec.accept_ns,
            OpKind::Write => link + medium,
            OpKind::WriteZeroes => medium,
            OpKind::Flush | OpKind::Trim => 0,
        }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// All submitted operations complete exactly once, not too early, and the counters agree.
    #[test]
    fn the_counters_agree(spec in any_disk(), depth in 1_u32..50, seed in any::<u64>()) {
        spec.check().unwrap();
        let run = |number| {
            let mut disk = Disk::new(&spec, seed, number);
            let mut next = everything(8 << 20, seed);
            let mut open: Vec<(u64, Op)> = Vec::new();
            let mut latency_ns = [0_u64; OpKind::COUNT];
            let (mut now, mut done, mut hash, mut finished) = (0, Vec::new(), 0_u64, 0);
            let mut pending = vec![false; 500];
            while finished < pending.len() {
                while open.len() < pending.len() && open.len() - finished < depth as usize {
                    let op = next();
                    disk.submit(now, open.len() as u32, op);
                    pending[open.len()] = true;
                    open.push((now, op));
                }
                prop_assert!(disk.wake_at() != u64::MAX && disk.wake_at() >= now);
                now = disk.wake_at();
                done.clear();
                disk.wake(now, &mut done);
                for &id in &done {
                    prop_assert!(std::mem::take(&mut pending[id as usize]), "{} twice", id);
                    let (submitted, op) = open[id as usize];
                    prop_assert!(now - submitted >= least_ns(&spec, &disk, &op), "{:?} too early", op);
                    latency_ns[op.kind.index()] += now - submitted;
                    hash = hash.rotate_left(7) ^ now ^ u64::from(id);
                    finished += 1;
                }
                let usage = disk.usage();
                prop_assert!(usage.heads_ns() <= now, "heads {:?} at {}", usage, now);
                prop_assert!(usage.link_ns <= now && usage.command_ns <= now);
            }
            for kind in OpKind::ALL {
                prop_assert_eq!(disk.phases(kind).total_ns(), latency_ns[kind.index()]);
            }
            let usage = disk.usage();
            let count = |kind: OpKind| disk.phases(kind).count;
            prop_assert_eq!(
                usage.medium_reads + usage.segment_hits + usage.buffer_hits + usage.flash_hits,
                count(OpKind::Read)
            );
            prop_assert_eq!(
                usage.medium_writes + usage.cached_writes,
                count(OpKind::Write) + count(OpKind::WriteZeroes)
            );
            // A settled disk has nothing left to lose.
            settle(&mut disk, now);
            prop_assert_eq!(disk.power_cut().lost, vec![]);
            Ok((now, hash))
        };
        let first = run(0)?;
        prop_assert_eq!(first, run(0)?, "the same seed gave a different result");
        prop_assert_ne!(first, run(1)?, "the platters of two disks stand alike");
    }
}

#[test]
fn littles_law() {
    let spec = DiskSpec { queue_max: 16, write_cache: true, ..plain() };
    for depth in [1, 16, 64] {
        let mut disk = Disk::new(&spec, 3, 0);
        let load = random(spec.capacity_bytes, 4096, 650, 5);
        let outcome = closed_loop(&mut disk, 0, depth, 8_000, load);
        let outstanding = outcome.outstanding_ns as f64 / outcome.elapsed_ns as f64;
        let by_law = outcome.iops() * outcome.mean_ms() / 1e3;
        assert!((by_law / outstanding - 1.0).abs() < 0.01, "{by_law} {outstanding}");
    }
}

/// Returns hashes of the outcome of several loads. Every parameter of the disk should affect at least one.
fn fingerprint(spec: &DiskSpec) -> Vec<u64> {
    let run = |spec: &DiskSpec, depth, count, load: &mut dyn FnMut() -> Op| {
        let mut disk = Disk::new(spec, 1, 0);
        let outcome = closed_loop(&mut disk, 0, depth, count, load);
        settle(&mut disk, outcome.ended_ns);
        // Busy times are included, because a longer seek may only shorten the following wait.
        outcome.hash ^ disk.usage().heads_ns() ^ disk.usage().seeking_ns.rotate_left(32)
    };
    let end = spec.capacity_bytes - (64 << 20);
    let mut count = 0;
    let mut five_streams = || {
        count += 1;
        op(OpKind::Read, ((count % 5) << 30) + (count / 5 * 16_384), 16_384)
    };
    vec![
        run(spec, 1, 200, &mut five_streams),
        run(spec, 48, 600, &mut random(spec.capacity_bytes, 4096, 650, 1)),
        run(spec, 4, 800, &mut random(1 << 20, 4096, 1000, 2)),
        run(spec, 2, 200, &mut sequential(OpKind::Read, 0, 256 << 10)),
        run(spec, 2, 100, &mut sequential(OpKind::Read, end, 256 << 10)),
        run(spec, 40, 300, &mut random(spec.capacity_bytes, 65_536, 0, 3)),
    ]
}

#[test]
fn every_parameter_has_an_effect() {
    let base = DiskSpec {
        zones: 4,
        inner_bytes_per_s: 75e6,
        queue_max: 32,
        scheduler: Scheduler::Satf { age_max_ns: 200 * MS, window: 16 },
        buffer_bytes: 1 << 20,
        write_cache: true,
        read_ahead_bytes: 64 << 10,
        read_segments: 4,
        flash_bytes: 512 << 10,
        ..plain()
    };
    let satf = |age_max_ns, window| Scheduler::Satf { age_max_ns, window };
    let changes: [(&str, ContentEvent); 21] = [
        ("capacity_bytes", |s| s.capacity_bytes += s.capacity_bytes / 10),
        ("rpm", |s| s.rpm += 1),
        ("heads", |s| s.heads += 1),
        ("zones", |s| s.zones += 1),
        ("outer_bytes_per_s", |s| s.outer_bytes_per_s *= 1.01),
        ("inner_bytes_per_s", |s| s.inner_bytes_per_s *= 1.01),
        ("track_to_track_ns", |s| s.track_to_track_ns += 10_000),
        ("average_seek_ns", |s| s.average_seek_ns += 10_000),
        ("full_stroke_ns", |s| s.full_stroke_ns += 10_000),
        ("write_settle_ns", |s| s.write_settle_ns += 10_000),
        ("head_switch_ns", |s| s.head_switch_ns += 10_000),
        ("cylinder_switch_ns", |s| s.cylinder_switch_ns += 10_000),
        ("command_ns", |s| s.command_ns += 1_000),
        ("link_bytes_per_s", |s| s.link_bytes_per_s *= 1.01),
        ("queue_max", |s| s.queue_max += 1),
        ("buffer_bytes", |s| s.buffer_bytes += 8192),
        ("write_cache", |s| s.write_cache = false),
        ("accept_ns", |s| s.accept_ns += 1_000),
        ("read_ahead_bytes", |s| s.read_ahead_bytes += 8192),
        ("read_segments", |s| s.read_segments += 1),
        ("flash_read_ns", |s| s.flash_read_ns += 1_000),
    ];
    let known = fingerprint(&base);
    let mut specs: Vec<(&str, DiskSpec)> = Vec::new();
    for (name, change) in changes {
        let mut spec = base.clone();
        change(&mut spec);
        specs.push((name, spec));
    }
    specs.push(("flash_bytes", DiskSpec { flash_bytes: 256 << 10, ..base.clone() }));
    specs.push(("age_max_ns", DiskSpec { scheduler: satf(190 * MS, 16), ..base.clone() }));
    specs.push(("window", DiskSpec { scheduler: satf(200 * MS, 15), ..base.clone() }));
    specs.push(("scheduler", DiskSpec { scheduler: Scheduler::Fifo, ..base.clone() }));
    let shingled =
        Shingled { band_bytes: 1 << 20, cache_bytes: 4 << 20, entries_max: 40, idle_ns: None };
    let known_shingled = fingerprint(&DiskSpec { shingled: Some(shingled), ..base.clone() });
    assert_ne!(known_shingled, known);
    for (name, of) in [
        ("band_bytes", Shingled { band_bytes: 2 << 20, ..shingled }),
        ("cache_bytes", Shingled { cache_bytes: 3 << 20, ..shingled }),
        ("entries_max", Shingled { entries_max: 41, ..shingled }),
        ("idle_ns", Shingled { idle_ns: Some(MS), ..shingled }),
    ] {
        let spec = DiskSpec { shingled: Some(of), ..base.clone() };
        spec.check().unwrap();
        assert_ne!(fingerprint(&spec), known_shingled, "{name} has no effect");
    }
    for (name, spec) in specs {
        spec.check().unwrap();
        assert_ne!(fingerprint(&spec), known, "{name} has no effect");
    }
}

#[test]
fn an_impossible_disk_is_refused_with_its_field() {
    fn shingle(s: &mut DiskSpec, band_bytes: u64, cache_bytes: u64) {
        s.shingled = Some(Shingled { band_bytes, cache_bytes, entries_max: 1, idle_ns: None });
    }
    let refused: [(&str, ContentEvent); 11] = [
        ("capacity_bytes", |s| s.capacity_bytes += 1),
        ("rpm", |s| s.rpm = 0),
        ("outer_bytes_per_s", |s| s.outer_bytes_per_s = f64::NAN),
        ("inner_bytes_per_s", |s| s.inner_bytes_per_s = 151e6),
        ("full_stroke_ns", |s| s.full_stroke_ns = 0),
        ("average_seek_ns", |s| s.average_seek_ns = 5_900 * US),
        ("average_seek_ns", |s| s.average_seek_ns = 12_100 * US),
        ("queue_max", |s| s.queue_max = 0),
        ("window", |s| s.scheduler = Scheduler::Satf { age_max_ns: 1, window: 0 }),
        ("band_bytes", |s| shingle(s, (1 << 20) + 512, 1 << 30)),
        ("cache_bytes", |s| shingle(s, 1 << 20, 1 << 19)),
    ];
    for (field, change) in refused {
        let mut spec = plain();
        change(&mut spec);
        assert_eq!(spec.check().unwrap_err().0, field);
    }
}

/// The longest tracks and the most cylinders that are accepted, on which the last sector is read, and the next ones.
#[test]
fn angles_are_exact_on_every_disk_that_is_accepted() {
    let one_head = DiskSpec { heads: 1, head_switch_ns: 0, ..plain() };
    let of_rate = |rate: f64| DiskSpec {
        rpm: 1_000,
        cylinder_switch_ns: 0,
        outer_bytes_per_s: rate,
        inner_bytes_per_s: rate,
        ..one_head.clone()
    };
    // Tracks of 4 KiB, and a skew of 95 % of a revolution.
    let of_size = |capacity_bytes: u64| DiskSpec {
        capacity_bytes,
        rpm: 30_000,
        cylinder_switch_ns: 1_900 * US,
        outer_bytes_per_s: 1e6,
        inner_bytes_per_s: 1e6,
        ..one_head.clone()
    };
    for spec in [of_rate(4.47e9), of_size(1 << 40)] {
        assert_eq!(spec.check(), Ok(()));
        let last = op(OpKind::Read, spec.capacity_bytes - 512, 512);
        let latency_ns = one(&mut Disk::new(&spec, 1, 0), 0, last);
        assert!((8 * MS..200 * MS).contains(&latency_ns), "{latency_ns}");
    }
    for (spec, field) in
        [(of_rate(4.48e9), "outer_bytes_per_s"), (of_size((1 << 40) + 512), "capacity_bytes")]
    {
        assert_eq!(spec.check().unwrap_err().0, field);
    }
}
