//! Shingled tracks: the map of the media cache against a copy of the platters, rates in closed form, and parameters
//! recovered from latencies as Skylight does (Aghayev and Desnoyers, FAST 2015).

use super::*;
use crate::disk::bands::{Bands, Way};
use crate::disk::seek::SeekCurve;
use proptest::prelude::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const SMALL: Shingled =
    Shingled { band_bytes: 16 * MIB, cache_bytes: 256 * MIB, entries_max: 1_000, idle_ns: None };

/// A shingled disk that is never limited by its controller.
fn shingled(shingled: Shingled, write_cache: bool) -> DiskSpec {
    let spec = DiskSpec { command_ns: 5 * US, accept_ns: 0, write_cache, ..plain() };
    DiskSpec { shingled: Some(shingled), ..spec }
}

/// The platters of a shingled disk: the content of each 4 KiB sector of the media cache and of the bands.
struct Platters {
    cache: Vec<u32>,
    bands: Vec<u32>,
}

const SECTOR: u64 = 4096;

impl Platters {
    /// Writes version `version` of the sectors of `part` to position `at` of a region. The content of a sector
    /// identifies sector and version.
    fn put(of: &mut [u32], at: u64, part: &std::ops::Range<u64>, version: u32) {
        let sectors = (part.start / SECTOR) as u32..(part.end / SECTOR) as u32;
        for (place, sector) in of[(at / SECTOR) as usize..].iter_mut().zip(sectors) {
            *place = version << 7 | sector;
        }
    }

    /// Content that a read of a range would return.
    fn read(&self, bands: &Bands, range: std::ops::Range<u64>) -> Vec<u32> {
        let mut versions = Vec::new();
        for source in bands.sources(range) {
            let (of, at) = match source.cached_at {
                Some(at) => (&self.cache, at),
                None => (&self.bands, source.start),
            };
            let from = (at / SECTOR) as usize;
            let count = ((source.end - source.start) / SECTOR) as usize;
            versions.extend_from_slice(&of[from..from + count]);
        }
        versions
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// The map finds each sector's newest version, after any writes, cleanings and power cuts. A write that a power cut
    /// interrupts leaves garbage in the log.
    #[test]
    fn the_map_finds_the_newest_version(
        seed in any::<u64>(),
        band in 1_u64..9,
        cache in 0_u64..30,
        entries_max in 1_u32..40,
        sectors in 1_u64..100,
    ) {
        const GARBAGE: u32 = 1 << 24;
        let (band_bytes, cache_bytes) = (band * SECTOR, (band + cache) * SECTOR);
        let spec = Shingled { band_bytes, cache_bytes, entries_max, idle_ns: None };
        let mut bands = Bands::new(spec, sectors * SECTOR);
        let mut platters = Platters {
            cache: vec![0; (band + cache) as usize],
            bands: vec![0; sectors as usize],
        };
        Platters::put(&mut platters.bands, 0, &(0..sectors * SECTOR), 0);
        let mut newest = platters.bands.clone();
        let mut draw: Generator = stream(seed, "platters", 0);
        let mut next = 0;
        for version in 1..300 {
            if below(&mut draw, 3) > 0 {
                next = below(&mut draw, sectors);
            }
            let len = (1 + below(&mut draw, 12)).min(sectors - next);
            let mut range = next * SECTOR..(next + len) * SECTOR;
            next = (next + len) % sectors;
            while !range.is_empty() {
                let part = bands.first_part(range.clone());
                let way = bands.way(&part);
                let (to, at) = match way {
                    Way::Cache(at) => (&mut platters.cache, at),
                    Way::Band => (&mut platters.bands, part.start),
                    Way::Clean(byte) => {
                        let band = bands.band(byte);
                        let merged = platters.read(&bands, band.clone());
                        let from = (band.start / SECTOR) as usize;
                        platters.bands[from..from + merged.len()].copy_from_slice(&merged);
                        bands.cleaned(byte);
                        continue;
                    }
                };
                let is_cut = below(&mut draw, 20) == 0;
                // Garbage in a spare band, after its frontier, is never read.
                if way != Way::Band || !is_cut {
                    Platters::put(to, at, &part, if is_cut { GARBAGE } else { version });
                }
                bands.begin(part.clone(), way == Way::Band);
                if is_cut {
                    bands.power_cut();
                } else {
                    bands.landed();
                    Platters::put(&mut newest, part.start, &part, version);
                }
                range.start = part.end;
            }
            prop_assert_eq!(platters.read(&bands, 0..sectors * SECTOR), newest.clone());
        }
    }
}

/// Mean time of a seek between the outer edge and a random place.
fn mean_seek_from_edge_ns(spec: &DiskSpec) -> f64 {
    let curve = SeekCurve::new(spec, 10_001);
    (1..=10_000).map(|distance| curve.seek_ns(distance) as f64).sum::<f64>() / 10_000.0
}

/// Random writes run at the sequential rate until the map has no entry left. From then on each write waits until a
/// band is cleaned: one write is read from the media cache, the band is read and written.
#[test]
fn random_writes_run_at_the_rate_of_the_log_and_then_at_that_of_cleaning() {
    for write_cache in [true, false] {
        // With 238 000 bands, few have two writes in the cache.
        let spec = DiskSpec { capacity_bytes: 4_000_000_000_000, ..shingled(SMALL, write_cache) };
        let mut disk = Disk::new(&spec, 1, 0);
        let mut load = random(spec.capacity_bytes, 64 << 10, 0, 3);
        let fast = closed_loop(&mut disk, 0, 32, SMALL.entries_max as usize - 31, &mut load);
        let now = settle(&mut disk, fast.ended_ns);
        let usage = disk.usage();
        assert_eq!(usage.media_cache_bytes, u64::from(SMALL.entries_max) * 65_536);
        let rate = usage.media_cache_bytes as f64 * 1e9 / now as f64;
        assert!((rate / 150e6 - 1.0).abs() < 0.03, "{rate}");
        assert_eq!(usage.cleaned_bands, 0);
        let before = disk.usage();
        let slow = closed_loop(&mut disk, now, 32, 300, &mut load);
        settle(&mut disk, slow.ended_ns);
        let after = disk.usage();
        let bands = (after.cleaned_bands - before.cleaned_bands) as f64;
        let written = (after.media_cache_bytes - before.media_cache_bytes) as f64 / 65_536.0;
        assert!((written / bands - 1.0).abs() < 0.02, "{written} writes, {bands} bands");
        // To the log and its oldest write, to the band twice: four waits of half a revolution.
        let positioning = 2.0 * mean_seek_from_edge_ns(&spec)
            + 2.0 * spec.track_to_track_ns as f64
            + 2.0 * spec.write_settle_ns as f64
            + 4.0 * 30e9 / f64::from(spec.rpm);
        let expected = 2.0 * SMALL.band_bytes as f64 / 150e6 * 1e9
            + 2.0 * 65_536.0 / 150e6 * 1e9
            + positioning;
        let ours = (after.heads_ns() - before.heads_ns()) as f64 / bands;
        assert!((ours / expected - 1.0).abs() < 0.02, "{ours} ns a band for {expected}");
    }
}

/// A sequential stream passes through the media cache only up to the first border of bands, also during random writes.
#[test]
fn a_sequential_stream_bypasses_the_media_cache() {
    for (write_cache, from, most) in [
        (true, 0, SMALL.band_bytes),
        (false, 0, SMALL.band_bytes),
        (true, 5 * MIB, SMALL.band_bytes - 5 * MIB),
    ] {
        let spec = shingled(SMALL, write_cache);
        let mut disk = Disk::new(&spec, 1, 0);
        let outcome =
            closed_loop(&mut disk, 0, 32, 1_000, sequential(OpKind::Write, from, 1 << 20));
        let now = settle(&mut disk, outcome.ended_ns);
        assert_eq!(disk.usage().media_cache_bytes, most);
        let rate = 1_031.0 * 1_048_576e9 / now as f64;
        assert!((rate / 150e6 - 1.0).abs() < 0.02, "{rate}");
        // With a random write after every eight.
        let (mut next, mut stray) =
            (sequential(OpKind::Write, 0, 1 << 20), random(50 << 30, 4096, 0, 1));
        let mut count = 0;
        let before = disk.usage().media_cache_bytes;
        closed_loop(&mut disk, now, 8, 900, || {
            count += 1;
            if count % 9 == 0 {
                let op = stray();
                return Op { offset_bytes: op.offset_bytes + (40 << 30), ..op };
            }
            next()
        });
        let passed = disk.usage().media_cache_bytes - before;
        assert!(passed <= SMALL.band_bytes + 110 * 4096, "{passed}");
        assert_eq!(disk.usage().cleaned_bands, 0);
    }
}

/// A read of data in the media cache and on both sides of it moves the heads there and back.
#[test]
fn a_read_collects_its_parts() {
    let spec = shingled(SMALL, false);
    let mut disk = Disk::new(&spec, 1, 0);
    let at = 60 << 30;
    let whole = op(OpKind::Read, at, 64 << 10);
    let phases = |disk: &Disk| disk.phases(OpKind::Read);
    one(&mut disk, 0, whole);
    let direct = phases(&disk);
    let mut now = settle(&mut disk, 100 * MS);
    for part in [16, 32] {
        now += one(&mut disk, now, op(OpKind::Write, at + part * KIB, 4 << 10));
        now = settle(&mut disk, now);
    }
    one(&mut disk, now, whole);
    let parts = phases(&disk);
    let seeks = (parts.seek_ns - direct.seek_ns) as f64 / direct.seek_ns as f64;
    // To the cache and back, twice.
    assert!((3.5..5.5).contains(&seeks), "{direct:?} {parts:?}");
    assert!(parts.transfer_ns - direct.transfer_ns <= direct.transfer_ns + MS);
}

/// After the idle time, all bands with data in the media cache are cleaned. A request restarts the idle time.
#[test]
fn an_idle_disk_cleans() {
    let idle_ns = 500 * MS;
    let spec = shingled(Shingled { idle_ns: Some(idle_ns), ..SMALL }, true);
    let mut disk = Disk::new(&spec, 1, 0);
    let mut done = Vec::new();
    for band in 0..10 {
        disk.submit(0, band, op(OpKind::Write, u64::from(band) * 160 * MIB, 4096));
    }
    while disk.usage().media_cache_bytes < 10 * 4096 {
        let now = disk.wake_at();
        disk.wake(now, &mut done);
    }
    let rest_ns = disk.wake_at();
    let read_ns = rest_ns - 100 * MS;
    disk.submit(read_ns, 10, op(OpKind::Read, 0, 4096));
    while disk.usage().cleaned_bands == 0 {
        let now = disk.wake_at();
        disk.wake(now, &mut done);
        assert!(disk.usage().cleaning_ns == 0 || now > read_ns + idle_ns);
    }
    // So does a write that is acknowledged while a band is cleaned.
    disk.submit(disk.wake_at() - 100 * MS, 11, op(OpKind::Write, 1_600 * MIB, 4096));
    let mut cleaned_ns = Vec::new();
    while cleaned_ns.len() < 2 {
        let (now, before) = (disk.wake_at(), disk.usage().cleaned_bands);
        disk.wake(now, &mut done);
        cleaned_ns.extend((disk.usage().cleaned_bands > before).then_some(now));
    }
    assert!(cleaned_ns[1] - cleaned_ns[0] > idle_ns + 200 * MS, "{cleaned_ns:?}");
    settle(&mut disk, cleaned_ns[1]);
    assert_eq!((disk.usage().cleaned_bands, done.len()), (11, 12));
    let lazy = shingled(SMALL, true);
    let mut disk = Disk::new(&lazy, 1, 0);
    one(&mut disk, 0, op(OpKind::Write, 0, 4096));
    settle(&mut disk, MS);
    assert_eq!(disk.usage().cleaned_bands, 0);
}

/// Latency above which a write waited for cleaning, ns. Other writes take a few revolutions.
const SLOW_NS: u64 = 60 * MS;

/// Number of random writes before the first slow one.
fn writes_until_slow(spec: &DiskSpec, len_bytes: u32) -> u64 {
    let mut disk = Disk::new(spec, 1, 0);
    let mut load = random(spec.capacity_bytes, len_bytes, 0, 8);
    let (mut now, mut count) = (0, 0);
    loop {
        let latency = one(&mut disk, now, load());
        if latency > SLOW_NS {
            return count;
        }
        (now, count) = (now + latency, count + 1);
    }
}

/// Writes at distances of `step_bytes`, then fills the media cache with random writes elsewhere. From then on, the
/// number of writes between two slow ones is the number of writes that the cleaned band had in the cache. Returns the
/// most frequent number, multiplied by `step_bytes`.
fn band_from_latencies(spec: &DiskSpec, entries: u64, step_bytes: u64) -> u64 {
    let mut disk = Disk::new(spec, 1, 0);
    let mut load = random(spec.capacity_bytes / 2, 4096, 0, 8);
    let mut counts = std::collections::BTreeMap::new();
    let (mut now, mut since_slow, near) = (0, None, entries / 2);
    for number in 0..entries + near {
        let far = load();
        let op = if number < near {
            op(OpKind::Write, number * step_bytes, 4096)
        } else {
            Op { offset_bytes: far.offset_bytes + spec.capacity_bytes / 2, ..far }
        };
        let latency = one(&mut disk, now, op);
        now += latency;
        since_slow = since_slow.map(|count| count + 1);
        if latency > SLOW_NS {
            let count = since_slow.replace(0).unwrap_or(0);
            *counts.entry(count).or_insert(0) += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|&(_, times)| times);
    most.map_or(0, |(count, _)| count) * step_bytes
}

#[test]
fn latencies_reveal_the_size_of_the_cache_its_map_and_the_bands() {
    for (band_bytes, cache_bytes, entries_max) in
        [(8 * MIB, 64 * MIB, 500), (16 * MIB, 200 * MIB, 900), (20 * MIB, 128 * MIB, 700)]
    {
        let of = Shingled { band_bytes, cache_bytes, entries_max, idle_ns: None };
        let spec = shingled(of, false);
        let entries = writes_until_slow(&spec, 4096);
        assert!(entries.abs_diff(u64::from(entries_max)) <= 1, "{entries} of {entries_max}");
        let len = 1 << 20;
        let cache = writes_until_slow(&spec, len) * u64::from(len);
        assert!(cache.abs_diff(cache_bytes) <= u64::from(len), "{cache} of {cache_bytes}");
        let step = 512 * KIB;
        let band = band_from_latencies(&spec, entries, step);
        assert!(band.abs_diff(band_bytes) <= step, "{band} of {band_bytes}");
    }
}

/// A media cache that was constructed full behaves like one that was filled by many random writes.
#[test]
fn a_constructed_cache_is_as_one_in_the_long_run() {
    let band_bytes = MIB;
    for (cache_bytes, entries_max) in [(256 * MIB, 400), (4 * MIB, 1 << 20)] {
        let of = Shingled { band_bytes, cache_bytes, entries_max, idle_ns: None };
        let spec = DiskSpec { capacity_bytes: 512 * MIB, ..shingled(of, false) };
        let bands_per_write = |disk: &mut Disk, start_ns: u64, count: usize| {
            let before = disk.usage();
            let load = random(spec.capacity_bytes, 4096, 0, start_ns + 5);
            let outcome = closed_loop(disk, start_ns, 4, count, load);
            let bands = (disk.usage().cleaned_bands - before.cleaned_bands) as f64;
            (bands / count as f64, outcome.ended_ns)
        };
        let mut simulated = Disk::new(&spec, 1, 0);
        let (_, now) = bands_per_write(&mut simulated, 0, 12_000);
        let (long_run, _) = bands_per_write(&mut simulated, now, 6_000);
        let mut constructed = Disk::new(&spec, 1, 0);
        let mut draw = stream(3, "fill", 0);
        constructed.fill_media_cache(&(0..spec.capacity_bytes), 4096, &mut draw);
        let (first, _) = bands_per_write(&mut constructed, 0, 1_000);
        assert!(long_run > 0.1 && (first / long_run - 1.0).abs() < 0.05, "{first} for {long_run}");
    }
}
