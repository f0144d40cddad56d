//! Devices with several reclaim unit handles: the rules of their files, and write amplification of a cache on the drive of
//! the catalog, against what is printed of CacheLib.

use crate::common;

use common::system;
use iodyno_catalog::{Kind as FileKind, find};
use iodyno_emulate::spec::{Flash, Isolation, Kind, Placement, Written};
use iodyno_emulate::{Machine, describe};
use iodyno_units::rng::{below, stream, unit_open_closed};
use iodyno_units::{Op, OpKind};

/// The drive of the catalog, with its number of superblocks and a fraction of its capacity.
fn drive(scale: u32) -> Flash {
    let file = find(FileKind::Device, "fdp-tlc-1880g").unwrap();
    let Kind::Flash(flash) = describe::device("fdp", &file.text).unwrap().device.kind else {
        panic!("a flash device");
    };
    let mut flash = *flash;
    flash.scale_down(scale);
    flash
}

/// Write amplification of a cache of the first `used` share of a fresh drive, of which `small` is rewritten at random in
/// units of 4 KiB with `random` of the written bytes, and the rest is a log. Measured after the log was written 3 times.
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

#[test]
fn table() {
    for (random, small, used) in [(0.8, 0.04, 1.0), (0.9, 0.04, 1.0), (0.8, 0.16, 1.0)] {
        for isolation in Isolation::ALL {
            let mut flash = drive(1024);
            let shares = vec![small * used, 1.0 - small * used];
            flash.placement = Some(Placement { shares, isolation });
            println!("random {random} small {small} used {used} {isolation:?} {:.3}", cache(flash, used, small, random));
        }
    }
}
