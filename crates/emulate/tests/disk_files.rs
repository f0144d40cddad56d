//! Consistency of the schema and rules of disk files with the machine. They must accept exactly the disks that the
//! machine can build, particularly at the limits.

use iodyno_emulate::describe;
use iodyno_emulate::disk::{DiskSpec, Scheduler, Shingled};
use iodyno_emulate::spec::Kind;
use proptest::prelude::*;

/// A value between two limits: often one of the limits, and sometimes beyond.
fn around(least: u64, most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        40 => least..=most,
        5 => Just(least),
        5 => Just(most),
        1 => Just(least.saturating_sub(1)),
        1 => Just(most + 1),
    ]
}

const S: u64 = 1_000_000_000;

/// A sequential rate in MB/s: often that of a real disk.
fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 1..=500_u64, 1 => around(1, 100_000)]
}

fn spec() -> impl Strategy<Value = DiskSpec> {
    let medium = (
        prop_oneof![Just(300_000_000_000_u64), 2_048_u64..1 << 40],
        around(1_000, 30_000),
        around(1, 64),
        around(1, 1_000),
        rate(),
        rate(),
    );
    let seek = (around(0, S / 1000), around(0, S / 100), around(0, S / 60), around(0, S));
    let switch = || prop_oneof![3 => 0..=S / 500, 1 => around(0, S)];
    let times = (switch(), switch(), around(0, S), around(0, S));
    let rest = (around(1, 1_024), around(4_096, 1 << 40), around(0, 1 << 40), around(1, 1_024));
    let satf = proptest::option::of((around(1, 100 * S), around(1, 65_536)));
    let flash = proptest::option::of((around(1 << 20, 1 << 40), around(0, S)));
    let any = (around(16, 1 << 18), around(16, 1 << 28), around(1, 1 << 24), 0_u64..8);
    let idle = proptest::option::of(around(0, 3_600 * S));
    let shingled = proptest::option::of((any, idle)).prop_map(|of| {
        let ((band, cache, entries, odd), idle_ns) = of?;
        Some(Shingled {
            band_bytes: (band << 12) + u64::from(odd == 1),
            cache_bytes: (cache << 12) + u64::from(odd == 2),
            entries_max: entries as u32,
            idle_ns,
        })
    });
    let rest = (rest, shingled);
    (medium, seek, times, rest, satf, flash).prop_map(|(medium, seek, times, rest, satf, flash)| {
        let (rest, shingled) = rest;
        DiskSpec {
            capacity_bytes: medium.0,
            rpm: medium.1 as u32,
            heads: medium.2 as u32,
            zones: medium.3 as u32,
            outer_bytes_per_s: medium.4 as f64 * 1e6,
            inner_bytes_per_s: medium.5 as f64 * 1e6,
            track_to_track_ns: seek.0,
            average_seek_ns: seek.1,
            full_stroke_ns: seek.2,
            write_settle_ns: seek.3,
            head_switch_ns: times.0,
            cylinder_switch_ns: times.1,
            command_ns: times.2,
            link_bytes_per_s: 1e8,
            queue_max: rest.0 as u32,
            scheduler: satf.map_or(Scheduler::Fifo, |(age_max_ns, window)| Scheduler::Satf {
                age_max_ns,
                window: window as u32,
            }),
            buffer_bytes: rest.1,
            write_cache: rest.0 % 2 == 0,
            accept_ns: times.3,
            read_ahead_bytes: rest.2,
            read_segments: rest.3 as u32,
            flash_bytes: flash.map_or(0, |f| f.0),
            flash_read_ns: flash.map_or(0, |f| f.1),
            shingled,
        }
    })
}

/// The text of the file of a disk.
fn text(disk: &DiskSpec) -> String {
    let mut text = "schema = 1\nkind = \"device\"\nfamily = \"disk\"\nsummary = \"a disk\"\n\
                    host = \"rtp\"\n"
        .to_owned();
    let mut put = |line: String| {
        let line = match line.split_once(' ') {
            Some((key, is)) => format!("{key} = {{ is = {is}, from = \"assumed: any\" }}"),
            None => line,
        };
        text.push_str(&line);
        text.push('\n');
    };
    put(format!("capacity \"{}B\"", disk.capacity_bytes));
    put("[platters]".into());
    put(format!("rpm {}", disk.rpm));
    put(format!("heads {}", disk.heads));
    put(format!("zones {}", disk.zones));
    put(format!("outer \"{} MB/s\"", disk.outer_bytes_per_s / 1e6));
    put(format!("inner \"{} MB/s\"", disk.inner_bytes_per_s / 1e6));
    put(format!("head_switch \"{}ns\"", disk.head_switch_ns));
    put(format!("cylinder_switch \"{}ns\"", disk.cylinder_switch_ns));
    put("[seek]".into());
    put(format!("track_to_track \"{}ns\"", disk.track_to_track_ns));
    put(format!("average \"{}ns\"", disk.average_seek_ns));
    put(format!("full_stroke \"{}ns\"", disk.full_stroke_ns));
    put(format!("write_settle \"{}ns\"", disk.write_settle_ns));
    put("[interface]".into());
    put(format!("rate \"{} MB/s\"", disk.link_bytes_per_s / 1e6));
    put(format!("command \"{}ns\"", disk.command_ns));
    put(format!("queue_max {}", disk.queue_max));
    if let Scheduler::Satf { age_max_ns, window } = disk.scheduler {
        put("[satf]".into());
        put(format!("age_max \"{age_max_ns}ns\""));
        put(format!("window {window}"));
    }
    put("[cache]".into());
    put(format!("buffer \"{}B\"", disk.buffer_bytes));
    put(format!("write_cache {}", disk.write_cache));
    put(format!("accept \"{}ns\"", disk.accept_ns));
    put(format!("read_ahead \"{}B\"", disk.read_ahead_bytes));
    put(format!("read_segments {}", disk.read_segments));
    if disk.flash_bytes > 0 {
        put("[flash]".into());
        put(format!("size \"{}B\"", disk.flash_bytes));
        put(format!("read \"{}ns\"", disk.flash_read_ns));
    }
    if let Some(shingled) = disk.shingled {
        put("[shingled]".into());
        put(format!("band \"{}B\"", shingled.band_bytes));
        put(format!("cache \"{}B\"", shingled.cache_bytes));
        put(format!("entries {}", shingled.entries_max));
        if let Some(idle_ns) = shingled.idle_ns {
            put(format!("idle \"{idle_ns}ns\""));
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn a_file_accepts_exactly_the_possible_disks(disk in spec()) {
        let text = text(&disk);
        match (describe::device("disk", &text), disk.check()) {
            (Ok(read), Ok(())) => prop_assert_eq!(read.device.kind, Kind::Disk(Box::new(disk))),
            (Err(_), Err(_)) => {}
            // The file requires a little more flash than none at all, and less than ages of time.
            (Err(errors), Ok(())) if errors.iter().all(|e| {
                e.message.contains("flash.size") || e.message.contains("satf.age_max")
            }) => {}
            (file, disk) => prop_assert!(false, "{file:?} but {disk:?}\n{text}"),
        }
    }
}
