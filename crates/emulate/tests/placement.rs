//! Devices with several reclaim unit handles: the rules of their files, and write amplification of a cache on the
//! catalog's drive, compared with published figures of CacheLib.

use crate::common;

use common::system;
use iodyno_catalog::{Kind as FileKind, find};
use iodyno_emulate::spec::{Flash, Isolation, Kind, Placement, Written};
use iodyno_emulate::{Machine, describe};
use iodyno_units::rng::{below, stream, unit_open_closed};
use iodyno_units::{Op, OpKind};

/// The drive of the catalog with 1/`scale` of its capacity and the same number of superblocks.
fn drive(scale: u32) -> Flash {
    let file = find(FileKind::Device, "fdp-tlc-1880g").unwrap();
    let Kind::Flash(flash) = describe::device("fdp", &file.text).unwrap().device.kind else {
        panic!("a flash device");
    };
    let mut flash = *flash;
    flash.scale_down(scale);
    flash
}

/// Write amplification of a cache on the fraction `used` of a fresh drive. The fraction `small` of the cache is
/// rewritten at random in units of 4 KiB with the fraction `random` of the written bytes; the rest is a log. Measured
/// after 3 passes of the log.
fn cache(flash: Flash, used: f64, small: f64, random: f64) -> f64 {
    let units = (flash.capacity_bytes as f64 * used) as u64 / 4096;
    let small = (units as f64 * small) as u64;
    let s = system(Kind::Flash(Box::new(flash)), Written::Fresh, 1);
    let mut m = Machine::represented(&s, 1, 1).unwrap();
    let (mut rng, mut next) = (stream(5, "cache", 0), 0);
    let mut write = || {
        let unit = if unit_open_closed(&mut rng) <= random {
            below(&mut rng, small)
        } else {
            next = (next + 1) % (units - small);
            small + next
        };
        Op { offset_bytes: unit * 4096, len_bytes: 4096, kind: OpKind::Write, fua: false }
    };
    let mut left = (3.0 * units as f64 / (1.0 - random)) as u64;
    assert!(m.age(|| {
        left = left.checked_sub(1)?;
        Some((0, write()))
    }));
    let worker = m.add_worker(0);
    for _ in 0..256 {
        m.submit(0, worker, 0, &write(), 0);
    }
    for _ in 0..units / 4 {
        let at_ns = m.next_completion(u64::MAX).unwrap().at_ns;
        m.submit(at_ns, worker, 0, &write(), 0);
    }
    while m.next_completion(u64::MAX).is_some() {}
    m.check().unwrap();
    m.flash_counts(0).unwrap().write_amplification()
}

/// CacheLib's guide to FDP prints 1.03 with placement, and 1.22 and 3.22 without it, if the cache uses half of the
/// drive or all of it (1.3 and 3.5 in arXiv 2503.11665). The share of small objects in the written bytes is not
/// printed and is assumed to be 80 %. No parameter was fitted to these figures. With placement and all of the drive
/// the model is 5 to 7 % above, of which 2 % are due to the small blocks of a drive scaled down. Without placement it
/// is twice the printed figure: its spare of 7 % follows from an assumed raw capacity, and the paper says 7 to 20 %
/// of such drives.
#[test]
fn a_cache_on_the_drive_of_the_catalog() {
    let amplification = |used: f64, isolation: Option<Isolation>| {
        let mut flash = drive(1024);
        let shares = vec![0.04 * used, 1.0 - 0.04 * used];
        flash.placement = isolation.map(|isolation| Placement { shares, isolation });
        let found = cache(flash, used, 0.04, 0.8);
        println!("{used} of the drive, {isolation:?}: {found:.3}");
        found
    };
    for isolation in Isolation::ALL {
        for used in [0.5, 1.0] {
            let placed = amplification(used, Some(isolation));
            assert!((placed / 1.03 - 1.0).abs() < 0.07, "{placed}");
        }
    }
    let (half, all) = (amplification(0.5, None), amplification(1.0, None));
    assert!((half / 1.22 - 1.0).abs() < 0.1, "{half}");
    assert!((3.22..8.0).contains(&all), "{all}");
}

#[test]
fn every_rule_of_placement_is_reported() {
    let file = find(FileKind::Device, "fdp-tlc-1880g").unwrap();
    let rules = |changes: &[(&str, &str)]| -> Vec<&str> {
        let mut text = file.text.to_string();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        let errors = describe::device("placed", &text).err().unwrap_or_default();
        errors.iter().map(|error| error.rule.unwrap_or("no rule")).collect()
    };
    let namespaces = |count: usize| format!("{:?}", vec![1.0 / count as f64; count]);
    let shares = "[\"4%\", \"96%\"]";
    let persistent = ("is = \"initial\"", "is = \"persistent\"");
    assert_eq!(rules(&[]), [""; 0]);
    assert_eq!(rules(&[persistent]), [""; 0]);
    assert_eq!(rules(&[(shares, "[1.0]")]), [""; 0]);
    for wrong in ["[]", "[\"4%\", \"95%\"]", "[\"0%\", \"100%\"]"] {
        assert_eq!(rules(&[(shares, wrong)]), ["placement-shares"], "{wrong}");
    }
    assert_eq!(rules(&[(shares, &namespaces(129))])[0], "placement-shares");
    // 348 superblocks are not reserved; the data has 319. Each namespace more takes an open one and one of spare, and two
    // of each if handles are persistently isolated.
    assert_eq!(rules(&[(shares, &namespaces(12))]), [""; 0]);
    assert_eq!(rules(&[(shares, &namespaces(13))]), ["placement-blocks"]);
    assert_eq!(rules(&[(shares, &namespaces(6)), persistent]), [""; 0]);
    assert_eq!(rules(&[(shares, &namespaces(7)), persistent]), ["placement-blocks"]);
    let small = ("size = { is = \"32MiB\"", "size = { is = \"32KiB\"");
    assert_eq!(rules(&[small]), ["placement-buffer"]);
    let unit = "[translation]\nunit = { is = \"8KiB\", from = \"assumed: x\" }";
    assert_eq!(rules(&[("[translation]", unit)]), ["placement-alone"]);
}
