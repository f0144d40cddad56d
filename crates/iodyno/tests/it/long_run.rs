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

/// A drive of 500 MB with superblocks of 8 MiB and a spare of a fifth, which random writes bring to its steady state in
/// seconds. Only programs take time.
fn small_drive() -> String {
    let device = include_str!("../../../../catalog/devices/nvme-tlc-3840g.toml");
    let mut text = String::new();
    let mut table = "";
    for line in device.lines() {
        table = if line.starts_with('[') { line } else { table };
        let key = line.split(' ').next().unwrap_or_default();
        let value = match (table, key) {
            ("", "capacity") => "\"500000KiB\"",
            ("[link]", "read" | "write") => "\"10 GB/s\"",
            ("[controller]", "read_command" | "write_command") => "\"100ns\"",
            ("[controller]", "turn") => "\"0ns\"",
            ("[nand]", "channels" | "dies_per_channel") => "4",
            ("[nand]", "pages_per_block") => "16",
            ("[nand]", "parity_stripe") => "0",
            ("[nand]", "raw") => "\"640MiB\"",
            ("[nand]", "read" | "erase") => "\"1us\"",
            ("[nand]", "program_fast" | "program_slow") => "\"400us\"",
            ("[buffer]", "size") => "\"4MiB\"",
            ("[translation]", "reserved") => "\"0%\"",
            _ => "",
        };
        if value.is_empty() {
            writeln!(text, "{line}").unwrap();
        } else {
            writeln!(text, "{key} = {{ is = {value}, from = \"assumed: a test\" }}").unwrap();
        }
    }
    text
}

/// Flash is in the state that all writes of a cell together reach, whatever their pattern: streams, strides, zones and
/// long runs leave whole superblocks invalid, a log beside random writes does not, and trims leave more spare.
#[test]
fn flash_starts_in_the_state_of_all_writes_together() {
    let place = Place::new();
    place.write("small.toml", small_drive());
    let iops = |words: &str, times: &str| {
        let run = format!("run {words} --on model:./small.toml {times} --no-notebook");
        let document = place.document(&run);
        let of = |cell: &Value| {
            let name = cell["workload"].as_str().unwrap().to_owned();
            (name, number(&cell["total"]["ops_per_s"]))
        };
        let mut all: Vec<_> = cells(&document).iter().map(of).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    let sequential = |share: u32| {
        format!(
            "{{ pattern = \"sequential\", share = {share} }}, {{ pattern = \"uniform\", share = {} }}",
            100 - share
        )
    };
    let of_64k = |addresses: &str| {
        format!("block = \"64KiB\"\n[mix]\nwrite = 1\n[all]\naddresses = {addresses}")
    };
    let mut failures = String::new();
    let mut check = |words: &str| {
        let short = iops(words, "--time 100ms --ramp 50ms");
        let long = iops(words, "--time 500ms --ramp 5s");
        for ((name, short), (_, long)) in short.iter().zip(&long) {
            let line = format!("{words} {name}: {short:.0}/s, in the long run {long:.0}/s\n");
            print!("{line}");
            if (short / long - 1.0).abs() > 0.15 {
                failures.push_str(&line);
            }
        }
    };
    for (name, text) in [
        ("streams", of_64k("{ pattern = \"sequential\", streams = 8 }")),
        ("stride", of_64k("{ pattern = \"strided\", stride = \"64KiB\" }")),
        ("backward", of_64k("{ pattern = \"strided\", stride = \"64KiB\", backward = true }")),
        ("zones", of_64k("{ pattern = \"zones\", zone = \"32MiB\", open = 1 }")),
        ("runs", of_64k("{ pattern = \"sequential\", run = 512 }")),
        ("log", format!("[mix]\nwrite = 1\n[all]\naddresses = [{}]", sequential(50))),
        ("mostly", format!("[mix]\nwrite = 1\n[all]\naddresses = [{}]", sequential(95))),
        ("trims", "[mix]\nwrite = 1\ntrim = 1\n".to_owned()),
        ("zeroes", "[mix]\nwrite = 7\nwrite_zeroes = 3\n".to_owned()),
    ] {
        place.write(&format!("{name}.toml"), format!("schema = 1\ndepth = 32\n{text}"));
        check(&format!("./{name}.toml"));
    }
    for (one, other) in [("random-read", "seq-write"), ("random-write", "seq-write")] {
        check(&format!("{one} --with {other}"));
        check(&format!("{other} --with {one}"));
    }
    assert!(failures.is_empty(), "\n{failures}");
}
