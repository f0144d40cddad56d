//! The devices and systems of the catalog: each is read, what the files name is there, and the
//! values that are said to follow from printed figures do follow from them.

use std::collections::BTreeSet;

use iodyno_catalog::{File, Kind, Problem, find, list, parse};
use iodyno_emulate::describe::{self, DescribedDevice, DescribedSystem, FormError, Source};
use iodyno_emulate::spec::{self, Attach, Flash, Precondition, System, Written};

fn drawn<T>(file: &File, read: Result<T, Vec<FormError>>) -> T {
    read.unwrap_or_else(|errors| {
        let drawn = errors.into_iter().map(|e| Problem::at(file, e.span, e.message, e.help));
        panic!("{}", drawn.map(|p| p.to_string()).collect::<Vec<_>>().join("\n"))
    })
}

fn device(name: &str) -> DescribedDevice {
    let file = find(Kind::Device, name).unwrap_or_else(|problem| panic!("{problem}"));
    let raw = parse(&file).unwrap_or_else(|problem| panic!("{problem}"));
    drawn(&file, describe::device(name, &raw))
}

fn system(name: &str) -> DescribedSystem {
    let file = find(Kind::System, name).unwrap_or_else(|problem| panic!("{problem}"));
    let raw = parse(&file).unwrap_or_else(|problem| panic!("{problem}"));
    drawn(&file, describe::system(name, &raw))
}

const FRESH: Precondition = Precondition { how: Written::Fresh, fill: 0.0 };

#[test]
fn every_device_stands_in_its_system() {
    for (name, _) in list(Kind::Device) {
        let described = device(name);
        assert!(!described.parameters.is_empty(), "{name}");
        let host = system(&described.default_host).host;
        let whole = System::populate(name, host, vec![(described.device, FRESH)]);
        whole.unwrap_or_else(|broken| panic!("{name}: {broken:?}"));
    }
}

#[test]
fn every_system_holds_its_own_devices() {
    for (name, _) in list(Kind::System) {
        let described = system(name);
        let devices: Vec<_> = described
            .volumes
            .iter()
            .flat_map(|of| vec![(device(&of.device).device, FRESH); of.count as usize])
            .collect();
        if !devices.is_empty() {
            let whole = System::populate(name, described.host, devices);
            whole.unwrap_or_else(|broken| panic!("{name}: {broken:?}"));
        }
    }
}

/// The study's server holds 32 flash DIMMs, 8 on each of its books.
#[test]
fn the_flash_dimms_of_the_study_are_spread_over_the_books() {
    let described = system("x3850-x6");
    let [of] = described.volumes.as_slice() else { panic!("{:?}", described.volumes) };
    assert_eq!((of.device.as_str(), of.count), ("exflash-400g", 32));
    let devices = vec![(device(&of.device).device, FRESH); 32];
    let whole = System::populate("x3850-x6", described.host, devices).unwrap();
    for socket in 0..4 {
        assert_eq!(whole.volumes.iter().filter(|volume| volume.socket == socket).count(), 8);
    }
}

/// A name that a study prints is a device; `find` would suggest another for a misspelt one.
#[test]
fn the_devices_of_the_studies_are_there() {
    let names: BTreeSet<&str> = list(Kind::Device).map(|(name, _)| name).collect();
    let printed = CLASSES.iter().map(|class| class.name);
    let others = ["sshd-7200-sata-500g", "hdd-15k-sas-80g", "exflash-200g", "exflash-400g"];
    for name in printed.chain(others).chain(["iodrive2-785g", "hdd-10k-300g", "ramdisk-ddr3-16g"]) {
        assert!(names.contains(name), "{name}");
    }
}

/// One SSD of the nine-class table (Calypso, Year in Review 2014).
struct Class {
    name: &'static str,
    /// Random writes of 4 KiB a second, fresh and in steady state.
    writes_fresh: f64,
    writes_steady: f64,
    /// Random reads of 4 KiB a second.
    reads: f64,
    /// Sequential writes and reads of 1 MiB, MB/s.
    write_mb_per_s: f64,
    read_mb_per_s: f64,
}

const fn class(
    name: &'static str,
    writes_fresh: f64,
    writes_steady: f64,
    reads: f64,
    write_mb_per_s: f64,
    read_mb_per_s: f64,
) -> Class {
    Class { name, writes_fresh, writes_steady, reads, write_mb_per_s, read_mb_per_s }
}

const CLASSES: [Class; 7] = [
    class("ssd-msata-mlc-128g", 45_743.0, 1_359.0, 36_517.0, 187.0, 533.0),
    class("ssd-m2x2-mlc-512g", 61_506.0, 4_185.0, 71_282.0, 455.0, 535.0),
    class("ssd-sata3-mlc-200g", 54_788.0, 33_583.0, 63_640.0, 367.0, 480.0),
    class("ssd-sata3-emlc-800g", 57_422.0, 39_561.0, 70_604.0, 454.0, 504.0),
    class("ssd-sas12-mlc-800g", 97_950.0, 41_516.0, 145_407.0, 448.0, 973.0),
    class("ssd-sff8639-mlc-700g", 149_512.0, 44_872.0, 397_564.0, 564.0, 1_698.0),
    class("ssd-pcie8-mlc-1400g", 159_926.0, 87_419.0, 742_674.0, 614.0, 2_673.0),
];

fn flash(name: &str) -> Flash {
    match device(name).device.kind {
        spec::Kind::Flash(flash) => *flash,
        other => panic!("{name} is {other:?}"),
    }
}

/// Lambert's W, principal branch, on (-1/e, 0), by Newton's method.
fn lambert_w(z: f64) -> f64 {
    let mut w = -0.5_f64;
    for _ in 0..200 {
        w -= (w * libm::exp(w) - z) / (libm::exp(w) * (w + 1.0));
    }
    w
}

/// Write amplification of greedy collection under uniformly random writes (Desnoyers 2012), where
/// user data may take `a` times their size.
fn desnoyers(a: f64) -> f64 {
    a / (a + lambert_w(-a * libm::exp(-a)))
}

/// The same of a device, of whose blocks on each plane four are open or free and so no spare.
fn write_amplification(flash: &Flash) -> f64 {
    let nand = &flash.nand;
    let planes = nand.channels * nand.dies_per_channel * nand.planes;
    let row = f64::from(planes) * f64::from(nand.page_bytes) * f64::from(nand.pages_per_block);
    let usable = nand.raw_bytes as f64 * (1.0 - flash.translation.reserved_share);
    desnoyers(((usable / row).floor() - 4.0) * row / flash.capacity_bytes as f64)
}

/// What the NAND can take, bytes a second: programs at once, each a transfer and a program.
fn program_bytes_per_s(flash: &Flash) -> f64 {
    let nand = &flash.nand;
    let bytes = f64::from(nand.planes * nand.page_bytes);
    let dies = nand.channels * nand.dies_per_channel;
    let at_once = if nand.programs_max == 0 { dies } else { nand.programs_max.min(dies) };
    let mean_s = (nand.program_fast_ns + nand.program_slow_ns) as f64 / 2e9;
    f64::from(at_once) * bytes / (mean_s + bytes / nand.channel_bytes_per_s)
}

/// Random writes of 4 KiB a second in steady state, as far as arithmetic goes: what programs there
/// are over the write amplification; where all dies program, copies have to be read and blocks to be
/// erased besides.
fn steady_writes(flash: &Flash) -> f64 {
    let nand = &flash.nand;
    let amplification = write_amplification(flash);
    let s = 4096.0 / program_bytes_per_s(flash) * amplification;
    if nand.programs_max != 0 {
        return 1.0 / s;
    }
    let dies = f64::from(nand.channels * nand.dies_per_channel);
    let (units, valid) = (f64::from(nand.page_bytes / 4096), 1.0 - 1.0 / amplification);
    // One read of a page serves all of its units that are still valid.
    let senses = (1.0 - libm::pow(1.0 - valid, units)) / (valid * units);
    let copy_s = senses * nand.read_ns as f64 / 1e9 + 4096.0 / nand.channel_bytes_per_s;
    let block_units = units * f64::from(nand.planes * nand.pages_per_block);
    let erase_s = nand.erase_ns as f64 / 1e9 / block_units;
    1.0 / (s + ((amplification - 1.0) * copy_s + amplification * erase_s) / dies)
}

fn near(name: &str, what: &str, found: f64, printed: f64, within: f64) {
    let off = (found / printed - 1.0).abs();
    assert!(off <= within, "{name}: {what} {found}, printed {printed}");
}

/// The formula by its table in the literature (spare factors .07, .25 and .50).
#[test]
fn the_formula_of_write_amplification() {
    for (spare, expected) in [(0.07, 7.32), (0.25, 2.20), (0.5, 1.26)] {
        near("formula", "WA", desnoyers(1.0 / (1.0 - spare)), expected, 0.005);
    }
}

/// Values that are derived from the printed figures give these figures back.
#[test]
fn the_nine_classes_follow_from_their_printed_figures() {
    for class in CLASSES {
        let (name, flash) = (class.name, flash(class.name));
        let programs = program_bytes_per_s(&flash);
        near(name, "sequential writes", programs / 1e6, class.write_mb_per_s, 0.005);
        let Attach::Link { read_bytes_per_s, .. } = flash.attach else { panic!("{name}") };
        // The link gives what the sequential reads take, unless random ones take more.
        let random = class.reads * 4096.0;
        if random < class.read_mb_per_s * 1e6 {
            near(name, "sequential reads", read_bytes_per_s / 1e6, class.read_mb_per_s, 0.0);
        } else {
            near(name, "random reads", read_bytes_per_s, random, 0.06);
        }
        let command = &flash.controller;
        near(name, "reads", 1e9 / command.read_command_ns as f64, class.reads, 0.001);
        let commands = 1e9 / command.write_command_ns as f64;
        near(name, "fresh", commands.min(programs / 4096.0), class.writes_fresh, 0.09);
        // With next to no spare the law of large blocks is off itself.
        let within = if class.writes_steady < 10_000.0 { 0.2 } else { 0.03 };
        near(name, "steady", steady_writes(&flash), class.writes_steady, within);
    }
}

/// The same for the flash DIMM and for the drives that only a data sheet describes.
#[test]
fn other_flash_follows_from_its_figures() {
    let name = "exflash-400g";
    near(name, "write amplification", write_amplification(&flash(name)), 405.0 / 180.2, 0.03);
    let name = "nvme-tlc-3840g";
    near(name, "sequential writes", program_bytes_per_s(&flash(name)), 5.3e9, 0.01);
    near(name, "random writes", steady_writes(&flash(name)), 180_000.0, 0.1);
    let name = "iodrive2-785g";
    near(name, "sequential writes", program_bytes_per_s(&flash(name)), 1.1e9, 0.04);
    let mut qlc = flash("nvme-qlc-2048g");
    near("QLC", "writes past the cache", program_bytes_per_s(&qlc), 400e6, 0.02);
    let slc_ns = qlc.nand.slc.unwrap().program_ns;
    (qlc.nand.program_fast_ns, qlc.nand.program_slow_ns) = (slc_ns, slc_ns);
    near("QLC", "writes into the cache", program_bytes_per_s(&qlc), 2.7e9, 0.01);
}

/// Parameters are listed with their units as written, and counted by where they are from.
#[test]
fn parameters_are_listed_and_counted() {
    let described = device("exflash-400g");
    let read = described.parameters.iter().find(|p| p.key == "nand.channels").unwrap();
    assert_eq!((read.text.as_str(), read.from), ("16", Source::Printed));
    assert_eq!(described.parameters[0].key, "capacity");
    assert_eq!(described.parameters[0].text, "400GB");
    let counts = describe::count_by_source(&described.parameters);
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    assert_eq!(total, described.parameters.len());
    for (source, count) in counts.into_iter().filter(|(source, _)| *source != Source::DataSheet) {
        assert!(count > 0, "{source}");
    }
}

/// Nothing has a default: a file without any one of its parameters is refused, and at once tells
/// which. Only `suspend` may be left out by itself.
#[test]
fn no_parameter_may_be_left_out() {
    for (kind, name, text) in [Kind::Device, Kind::System]
        .into_iter()
        .flat_map(|kind| list(kind).map(move |(name, text)| (kind, name, text)))
    {
        let lines: Vec<&str> = text.lines().collect();
        for i in (0..lines.len()).filter(|&i| lines[i].contains(" = { is = ")) {
            let key = lines[i].split(' ').next().unwrap();
            let less = [&lines[..i], &lines[i + 1..]].concat().join("\n");
            let file = File { origin: "less.toml".into(), name: name.into(), text: less.into() };
            let raw = parse(&file).unwrap();
            let errors = match kind {
                Kind::System => describe::system(name, &raw).err(),
                _ => describe::device(name, &raw).err(),
            };
            match errors.as_deref() {
                Some([only]) => {
                    assert!(only.message.contains(key) && only.message.contains("is missing"));
                }
                None => assert_eq!(key, "suspend", "{name}"),
                Some(errors) => panic!("{name} without {key}: {errors:?}"),
            }
        }
    }
}
