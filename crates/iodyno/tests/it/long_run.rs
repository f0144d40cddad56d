//! Cells in virtual time start in the state that their workload reaches in the long run: a short cell, whatever its ramp,
//! has the rate of a long one, or a warning.
//!
//! `IODYNO_LONG_RUN=catalog` checks every drive of the catalog, which takes some minutes.

use crate::place::{Place, cells, codes, number};
use serde_json::Value;
use std::fmt::Write as _;

/// Permitted relative difference of a short cell from a long one, in addition to the chance error of few operations.
const DIFFERENCE_MAX: f64 = 0.05;
/// Permitted chance error of a rate from few operations, in standard errors. (Rates of disks vary more, because reads
/// and writes differ.)
const ERRORS_MAX: f64 = 3.0;

/// Devices whose buffer a short ramp does not fill, a disk with a cache, and an adapter with one.
const FEW: [&str; 4] = [
    "hdd-nearline-20t",
    "ssd-sas12-mlc-800g",
    "ssd-m2x2-mlc-512g",
    "raid5(hdd-10k-300g*4)@x3650-m4-m5110e",
];

fn rate_and_ops(document: &Value) -> (f64, f64, bool, String) {
    let cell = &cells(document)[0];
    let rate = number(&cell["total"]["ops_per_s"]);
    let is_valid = codes(cell).contains(&"VALID");
    (rate, rate * number(&cell["seconds"]), is_valid, codes(cell).join(" "))
}

fn check(place: &Place, device: &str, failures: &mut String) {
    let is_disk = device.contains("hdd");
    // Beyond half a minute a walk in order reaches the slower tracks.
    let long = |workload: &str| match (is_disk, workload) {
        (false, _) => "--time 5s --ramp 5s",
        (true, "seq-write") => "--time 20s --ramp 1s",
        (true, _) => "--time 300s --ramp 300s",
    };
    for workload in ["random-write", "seq-write", "oltp1"] {
        for depth in [1, 32] {
            let run = |times: &str| {
                let words = format!(
                    "run {workload} --on model:{device} --depth {depth} {times} --no-notebook"
                );
                rate_and_ops(&place.document(&words))
            };
            let (expected, ..) = run(long(workload));
            for times in ["--time 300ms --ramp 50ms", "--time 1s", "--time 1s --ramp 0s"] {
                let (rate, ops, is_valid, codes) = run(times);
                let allowed = DIFFERENCE_MAX + ERRORS_MAX / ops.max(1.0).sqrt();
                let difference = rate / expected - 1.0;
                let line = format!(
                    "{device} {workload} depth {depth} {times}: {difference:+.3} of {expected:.0}/s, {codes}\n"
                );
                print!("{line}");
                if is_valid && difference.abs() > allowed {
                    failures.write_str(&line).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_short_cell_has_the_rate_of_a_long_one() {
    let place = Place::new();
    let mut failures = String::new();
    if std::env::var("IODYNO_LONG_RUN").as_deref() == Ok("catalog") {
        let all = iodyno_catalog::list(iodyno_catalog::Kind::Device).map(|(name, _)| name);
        // (A second of `ssd-msata-mlc-128g` may hold one of its pauses of half a second or none.)
        let others = ["ramdisk", "nvdimm", "msata"];
        for device in all.filter(|name| others.iter().all(|other| !name.contains(other))) {
            check(&place, device, &mut failures);
        }
    }
    for device in FEW {
        check(&place, device, &mut failures);
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// A cell that does not reach its long-run state has a warning: on a fresh disk whose cache fills, and on an adapter's
/// cache that takes hours to fill.
#[test]
fn a_transient_is_not_valid() {
    let place = Place::new();
    for words in [
        "run random-write --on model:hdd-nearline-20t?state=fresh --depth 16 --time 1s --ramp 0s",
        "run oltp1 --on model:raid5(hdd-10k-300g*4)@x3650-m4-m5110e --depth 16 --time 1s",
    ] {
        let document = place.document(&format!("{words} --no-notebook"));
        let cell = &cells(&document)[0];
        assert_eq!(codes(cell)[0], "TRANSIENT", "{words}: {cell}");
    }
    // A fill of the devices is not a transient.
    let document = place
        .document("run seq-write --on model:ssd-gen3-emlc?state=fresh --time 300ms --no-notebook");
    assert!(!codes(&cells(&document)[0]).contains(&"TRANSIENT"), "{document}");
}

/// Uniform writes to a part of a flash device start in the steady state of that part. Skewed writes have no such state,
/// and get a warning.
#[test]
fn flash_starts_in_the_state_of_its_writes() {
    let place = Place::new();
    let of = |words: &str| {
        let run = format!("run {words} --on model:exflash-400g --time 1s");
        let document = place.document(&run);
        let cell = cells(&document)[0].clone();
        let iops = [&cell["read"]["iops"], &cell["write"]["iops"]];
        let iops: f64 = iops.iter().filter_map(|iops| iops.as_f64()).sum();
        (iops, codes(&cell).contains(&"TRANSIENT"))
    };
    let (everywhere, warns) = of("random-write");
    assert!(!warns);
    let (tenth, warns) = of("random-write --active 10%");
    assert!(!warns && tenth > 1.8 * everywhere, "{tenth} and {everywhere} writes a second");
    assert!(of("random-write --hot 90/10").1, "skewed writes warn");
    assert!(!of("random-read --hot 90/10").1, "skewed reads need no other state of flash");
}
