//! The devices and systems of the catalog: each file is valid, and the devices that it names exist.
//! `calypso.rs` and `data_sheets.rs` check that they reproduce the figures from which they were made.

use std::collections::BTreeSet;

use iodyno_catalog::{File, FileError, Kind, Problem, find, list};
use iodyno_emulate::describe::{self, DescribedDevice, DescribedSystem, Source};
use iodyno_emulate::spec::{self, Flash, Preconditioned, System, Written};

fn drawn<T>(file: &File, read: Result<T, Vec<FileError>>) -> T {
    read.unwrap_or_else(|errors| {
        let drawn = errors.into_iter().map(|e| Problem::at(file, e.span, e.message, e.help));
        panic!("{}", drawn.map(|p| p.to_string()).collect::<Vec<_>>().join("\n"))
    })
}

fn device(name: &str) -> DescribedDevice {
    let file = find(Kind::Device, name).unwrap_or_else(|problem| panic!("{problem}"));
    drawn(&file, describe::device(name, &file.text))
}

fn system(name: &str) -> DescribedSystem {
    let file = find(Kind::System, name).unwrap_or_else(|problem| panic!("{problem}"));
    drawn(&file, on_bases(name, &file.text))
}

/// Parses a system file with the values of its bases.
fn on_bases(name: &str, text: &str) -> Result<DescribedSystem, Vec<FileError>> {
    describe::system(name, text, &mut |base| {
        Ok(find(Kind::System, base).unwrap_or_else(|problem| panic!("{problem}")).text.to_string())
    })
}

const FRESH: Preconditioned = Preconditioned { how: Written::Fresh, fill: 0.0 };

#[test]
fn every_device_fits_its_system() {
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
        // `iodyno-run` tests those that list arrays, whose names it can read.
        let devices: Vec<_> = described
            .volumes
            .iter()
            .filter(|of| !of.device.contains('('))
            .flat_map(|of| vec![(device(&of.device).device, FRESH); of.count as usize])
            .collect();
        if !devices.is_empty() {
            let whole = System::populate(name, described.host, devices);
            whole.unwrap_or_else(|broken| panic!("{name}: {broken:?}"));
        }
    }
}

/// The study's server holds 32 flash DIMMs, 8 on each of its books (sockets).
#[test]
fn the_flash_dimms_of_the_study_are_spread_over_the_books() {
    let described = system("x3850-x6");
    let [of] = described.volumes.as_slice() else { panic!("{:?}", described.volumes) };
    assert_eq!((of.device.as_str(), of.count), ("exflash-400g", 32));
    let devices = vec![(device(&of.device).device, FRESH); 32];
    let whole = System::populate("x3850-x6", described.host, devices).unwrap();
    for socket in 0..4 {
        assert_eq!(whole.devices().filter(|placed| placed.socket == socket).count(), 8);
    }
}

/// Every device that a study names exists in the catalog.
#[test]
fn the_devices_of_the_studies_exist() {
    let names: BTreeSet<&str> = list(Kind::Device).map(|(name, _)| name).collect();
    let printed = [
        "sshd-7200-sata-500g",
        "hdd-15k-sas-80g",
        "ssd-msata-mlc-128g",
        "ssd-m2x2-mlc-512g",
        "ssd-sata3-mlc-200g",
        "ssd-sata3-emlc-800g",
        "ssd-sas12-mlc-800g",
        "ssd-sff8639-mlc-700g",
        "ssd-pcie8-mlc-1400g",
        "ramdisk-ddr3-16g",
        "exflash-200g",
        "exflash-400g",
        "iodrive2-785g",
        "hdd-10k-300g",
        "ssd-gen1-emlc",
        "ssd-gen2-emlc",
        "ssd-gen3-emlc",
        "ssd-gen4-emlc",
        "hdd-15k-300g",
    ];
    for name in printed {
        assert!(names.contains(name), "{name}");
    }
}

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

/// Write amplification of greedy collection under uniformly random writes (Desnoyers 2012), if the
/// flash holds `a` times the user data.
fn desnoyers(a: f64) -> f64 {
    a / (a + lambert_w(-a * libm::exp(-a)))
}

/// The write amplification of a device that keeps four blocks of each plane open or free, so that
/// these are not spare.
fn write_amplification(flash: &Flash) -> f64 {
    let nand = &flash.nand;
    let planes = nand.channels * nand.dies_per_channel * nand.planes;
    let row = f64::from(planes) * f64::from(nand.page_bytes) * f64::from(nand.pages_per_block);
    let usable = nand.raw_bytes as f64 * (1.0 - flash.translation.reserved_share);
    desnoyers(((usable / row).floor() - 4.0) * row / flash.capacity_bytes as f64)
}

fn near(name: &str, what: &str, found: f64, printed: f64, within: f64) {
    let off = (found / printed - 1.0).abs();
    assert!(off <= within, "{name}: {what} {found}, printed {printed}");
}

/// Checks the formula against the table in the literature (spare factors .07, .25 and .50).
#[test]
fn the_formula_of_write_amplification() {
    for (spare, expected) in [(0.07, 7.32), (0.25, 2.20), (0.5, 1.26)] {
        near("formula", "WA", desnoyers(1.0 / (1.0 - spare)), expected, 0.005);
    }
}

/// On the flash DIMM, the rate of sequential writes divided by that of random writes is the write
/// amplification.
#[test]
fn the_spare_of_the_flash_dimm_follows_from_its_figures() {
    let name = "exflash-400g";
    near(name, "write amplification", write_amplification(&flash(name)), 405.0 / 180.2, 0.03);
}

/// Parameters are listed with their units as written, and counted by source.
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

/// No parameter has a default: a file that lacks a parameter is refused with an error that names it, unless a base of
/// the system has the parameter. Exceptions are `suspend`, `suspend_share`, `slc.read`, `unit`, `victim`,
/// `freed_per_write`, `idle`, `io_thread.write_command`, `memory.varying`, `memory.queue`, `pooled` and `on_demand`, and
/// `idle_w`, which few sources state.
#[test]
fn no_parameter_may_be_left_out() {
    for (kind, name, text) in [Kind::Device, Kind::System]
        .into_iter()
        .flat_map(|kind| list(kind).map(move |(name, text)| (kind, name, text)))
    {
        let lines: Vec<&str> = text.lines().collect();
        for i in (0..lines.len()).filter(|&i| lines[i].contains("from = \"")) {
            let key = lines[i].split(' ').next().unwrap();
            let table = lines[..i].iter().rfind(|line| line.starts_with('['));
            let is_slc_read = key == "read" && table == Some(&"[slc]");
            let is_of_thread = key == "write_command" && table == Some(&"[io_thread]");
            let is_of_memory = ["varying", "queue"].contains(&key) && table == Some(&"[memory]");
            let less = [&lines[..i], &lines[i + 1..]].concat().join("\n");
            let errors = match kind {
                Kind::System => on_bases(name, &less).err(),
                _ => describe::device(name, &less).err(),
            };
            match errors.as_deref() {
                Some([only]) => {
                    assert!(only.message.contains(key) && only.message.contains("is missing"));
                }
                None if text.contains("\nbase = ") => {}
                None => {
                    assert!(
                        [
                            "suspend",
                            "suspend_share",
                            "idle_w",
                            "idle",
                            "on_demand",
                            "pooled",
                            "unit",
                            "victim",
                            "freed_per_write"
                        ]
                        .contains(&key)
                            || is_slc_read
                            || is_of_thread
                            || is_of_memory,
                        "{name}: {key}"
                    );
                }
                Some(errors) => panic!("{name} without {key}: {errors:?}"),
            }
        }
    }
}
