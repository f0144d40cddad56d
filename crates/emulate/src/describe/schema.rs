//! The schema of device and system files: the tables and keys of each device family and of a system, with the form and
//! limits of each value. `docs/formats/device.md` and `system.md` explain the keys; a test compares those pages with
//! these lists.

mod limits;
mod placement;
mod zones;

use std::ops::RangeInclusive;

use iodyno_catalog::{Key, ValueType, parameters};

use super::bay::Bay;
use super::rules::VOLUMES_MAX;
use crate::flash::LANES_MAX;
use crate::spec::{DurableOrder, VictimRule};
use limits::{IOPS_LIMIT, SIZE_RULE, THROUGHPUT_LIMIT};
use placement::PLACEMENT;
use zones::ZONES;

const fn parameter(path: &'static str, value: ValueType) -> Key {
    Key::required(path, value).sourced()
}
/// Declares a required table in the files of the device families `of`; if `of` is empty, in system
/// files.
const fn required(of: Families, path: &'static str, keys: &'static [Key]) -> Key {
    Key::required(path, ValueType::Table(keys)).only(of)
}
/// Declares an optional table in the files of the device families `of`; if `of` is empty, in system
/// files.
const fn optional(of: Families, path: &'static str, keys: &'static [Key]) -> Key {
    Key::optional(path, ValueType::Table(keys)).only(of)
}
const fn size(path: &'static str, limits: RangeInclusive<u64>) -> Key {
    parameter(path, ValueType::Size(*limits.start(), *limits.end()))
}
const fn time(path: &'static str, limits: RangeInclusive<u64>) -> Key {
    parameter(path, ValueType::Time(*limits.start(), *limits.end()))
}
const fn count(path: &'static str, limits: RangeInclusive<u64>) -> Key {
    parameter(path, ValueType::Count(*limits.start(), *limits.end()))
}
const fn number(path: &'static str, least: f64, most: f64) -> Key {
    parameter(path, ValueType::Number(least, most))
}
const fn bandwidth(path: &'static str) -> Key {
    parameter(path, ValueType::Bandwidth(1e6, 1e11))
}
const fn share(path: &'static str, most: f64) -> Key {
    parameter(path, ValueType::Share(most))
}
const fn flag(path: &'static str) -> Key {
    parameter(path, ValueType::Flag)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const PIB: u64 = 1 << 50;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

const SUMMARY: Key =
    Key::required("summary", ValueType::Text).such_as("\"what it is, in one line\"");

type Families = &'static [&'static str];
/// The device family of NAND flash behind a controller.
const FLASH: Families = &["flash"];
/// The device family of rotating disks. `DiskSpec::check` defines the limits of the values in their files.
const DISK: Families = &["disk"];
/// The device family of memory that is used as a block device.
const MEMORY: Families = &["memory"];
/// The device family of volumes of cloud providers.
const VOLUME: Families = &["volume"];

/// The tables and keys of device files of all families.
pub(super) const DEVICE: &[Key] = &[
    Key::optional("schema", ValueType::Header),
    Key::optional("kind", ValueType::Header),
    Key::required(
        "family",
        ValueType::Kind(&["flash", "disk", "memory", "volume"], "a device of the family"),
    ),
    SUMMARY,
    Key::required("host", ValueType::Text).such_as("\"x3850-x6\""),
    size("capacity", MIB..=PIB).ruled(SIZE_RULE),
    Key::optional(
        "bay",
        ValueType::Table(&[
            parameter("bay.kind", ValueType::Word(&Bay::WORDS)),
            flag("bay.hot_swap"),
        ]),
    ),
    Key::optional(
        "power",
        ValueType::Table(&[
            Key { required: false, ..number("power.idle_w", 0.0, 1000.0) },
            number("power.active_w", 0.0, 1000.0),
        ]),
    ),
    Key::optional("iops_limit", ValueType::TableOrTables(IOPS_LIMIT)),
    Key::optional("throughput_limit", ValueType::TableOrTables(THROUGHPUT_LIMIT)),
    optional(
        FLASH,
        "memory_channel",
        &[
            count("memory_channel.devices_per_thread", 1..=64),
            time("memory_channel.command", 0..=MS),
            bandwidth("memory_channel.read_copy"),
            bandwidth("memory_channel.write_copy"),
            time("memory_channel.poll", 0..=MS),
            time("memory_channel.poll_crowded", 0..=MS),
        ],
    ),
    optional(
        FLASH,
        "link",
        &[
            bandwidth("link.read"),
            bandwidth("link.write"),
            flag("link.full_duplex"),
            time("link.command", 0..=MS),
            time("link.latency", 0..=S),
            count("link.queue_max", 1..=65_536),
            time("link.host", 0..=MS),
            bandwidth("link.host_rate"),
        ],
    ),
    required(
        FLASH,
        "controller",
        &[
            time("controller.read_command", 0..=10 * MS),
            time("controller.read_latency", 0..=10 * MS),
            time("controller.write_command", 0..=10 * MS),
            time("controller.copy", 0..=10 * MS),
            time("controller.turn", 0..=10 * MS),
            count("controller.read_contexts", 0..=65_536),
            count("controller.lanes", 1..=LANES_MAX as u64),
            share("controller.page_split", 1.0),
        ],
    ),
    required(
        FLASH,
        "nand",
        &[
            count("nand.channels", 1..=256),
            count("nand.dies_per_channel", 1..=64),
            count("nand.planes", 1..=16),
            size("nand.page", 512..=256 * KIB),
            count("nand.pages_per_block", 1..=65_536),
            size("nand.raw", MIB..=PIB),
            time("nand.read", US..=100 * MS),
            time("nand.program_fast", US..=100 * MS),
            time("nand.program_slow", US..=100 * MS),
            time("nand.erase", US..=S),
            bandwidth("nand.channel_rate"),
            count("nand.programs_max", 0..=65_536),
            Key { required: false, ..time("nand.suspend", 0..=100 * MS) },
            flag("nand.reads_first"),
            count("nand.parity_stripe", 0..=1024),
        ],
    ),
    optional(
        FLASH,
        "variation",
        &[
            count("variation.page_types", 1..=5),
            time("variation.spread", 0..=100 * MS),
            share("variation.retried", 0.5),
            time("variation.retry", 0..=100 * MS),
            Key { required: false, ..time("variation.suspend", 0..=100 * MS) },
            Key { required: false, ..share("variation.suspend_share", 1.0) },
        ],
    ),
    optional(
        FLASH,
        "slc",
        &[
            size("slc.size", MIB..=PIB),
            time("slc.program", US..=100 * MS),
            Key { required: false, ..time("slc.read", US..=100 * MS) },
        ],
    ),
    optional(
        FLASH,
        "folding",
        &[
            count("folding.bits", 2..=5),
            time("folding.program", US..=100 * MS),
            share("folding.share", 0.9),
            time("folding.pause", 0..=100 * S),
        ],
    ),
    required(
        FLASH,
        "buffer",
        &[
            size("buffer.size", 4 * KIB..=PIB),
            time("buffer.accept", 0..=100 * MS),
            flag("buffer.protected"),
        ],
    ),
    required(
        FLASH,
        "translation",
        &[
            share("translation.reserved", 0.9),
            number("translation.map_writes_per_page", 0.0, 1000.0),
            Key { required: false, ..size("translation.unit", 4 * KIB..=128 * KIB) },
            Key {
                required: false,
                ..parameter("translation.victim", ValueType::Word(&VictimRule::WORDS))
            },
            Key { required: false, ..number("translation.freed_per_write", 1.0, 20.0) },
        ],
    ),
    optional(FLASH, "zones", ZONES),
    optional(FLASH, "placement", PLACEMENT),
    optional(
        FLASH,
        "power_cut",
        &[
            size("power_cut.atomic", 512..=128 * KIB),
            Key {
                required: false,
                ..parameter("power_cut.order", ValueType::Word(&DurableOrder::WORDS))
            },
        ],
    ),
    optional(FLASH, "stall", &[size("stall.every", MIB..=PIB), time("stall.lasts", 1..=100 * S)]),
    required(
        FLASH,
        "endurance",
        &[
            number("endurance.drive_writes_per_day", 0.0, 1000.0),
            number("endurance.years", 0.0, 100.0),
            count("endurance.cycles", 1..=10_000_000),
        ],
    ),
    required(
        DISK,
        "platters",
        &[
            count("platters.rpm", 1_000..=30_000),
            count("platters.heads", 1..=64),
            count("platters.zones", 1..=1_000),
            bandwidth("platters.outer"),
            bandwidth("platters.inner"),
            time("platters.head_switch", 0..=S),
            time("platters.cylinder_switch", 0..=S),
        ],
    ),
    required(
        DISK,
        "seek",
        &[
            time("seek.track_to_track", 0..=S),
            time("seek.average", 0..=S),
            time("seek.full_stroke", 0..=S),
            time("seek.write_settle", 0..=S),
        ],
    ),
    required(
        DISK,
        "interface",
        &[
            bandwidth("interface.rate"),
            time("interface.command", 0..=S),
            count("interface.queue_max", 1..=1_024),
        ],
    ),
    optional(DISK, "satf", &[time("satf.age_max", 1..=100 * S), count("satf.window", 1..=65_536)]),
    required(
        DISK,
        "cache",
        &[
            size("cache.buffer", 4 * KIB..=TIB),
            flag("cache.write_cache"),
            time("cache.accept", 0..=S),
            size("cache.read_ahead", 0..=TIB),
            count("cache.read_segments", 1..=1_024),
        ],
    ),
    optional(DISK, "flash", &[size("flash.size", MIB..=TIB), time("flash.read", 0..=S)]),
    optional(
        DISK,
        "shingled",
        &[
            size("shingled.band", 64 * KIB..=GIB),
            size("shingled.cache", 64 * KIB..=TIB),
            count("shingled.entries", 1..=1 << 24),
            Key { required: false, ..time("shingled.idle", 0..=3600 * S) },
        ],
    ),
    required(
        MEMORY,
        "memory",
        &[
            time("memory.io", 0..=MS),
            bandwidth("memory.read"),
            bandwidth("memory.write"),
            number("memory.read_passes", 0.0, 10.0),
            number("memory.write_passes", 0.0, 10.0),
            time("memory.flush", 0..=S),
            Key { required: false, ..share("memory.varying", 1.0) },
            Key { required: false, ..flag("memory.queue") },
            flag("memory.protected"),
        ],
    ),
    required(
        VOLUME,
        "volume",
        &[
            time("volume.read", 0..=S),
            time("volume.write", 0..=S),
            time("volume.flush", 0..=S),
            share("volume.varying", 1.0),
            bandwidth("volume.network"),
            count("volume.queue_max", 1..=65_536),
            Key { required: false, ..flag("volume.pooled") },
        ],
    ),
    optional(
        VOLUME,
        "io_thread",
        &[
            time("io_thread.command", 0..=10 * MS),
            Key { required: false, ..time("io_thread.write_command", 0..=10 * MS) },
            bandwidth("io_thread.read_copy"),
            bandwidth("io_thread.write_copy"),
        ],
    ),
];

/// Keys of a `[[volumes]]` table, which adds N equal devices to a server.
const VOLUMES: &[Key] = &[
    Key::required("device", ValueType::Text).such_as("\"exflash-400g\""),
    Key::optional("count", ValueType::Count(1, VOLUMES_MAX as u64)),
    Key::optional("read_cache", ValueType::Text).such_as("\"ssd-sata3-mlc-200g\""),
    Key::optional("read_cache_size", ValueType::Size(4 * KIB, PIB)),
];

/// Declares the table of adapter parameters for a PCIe slot of one generation.
macro_rules! slot {
    ($table:literal, $read:literal, $write:literal, $fetch:literal) => {
        Key::optional(
            $table,
            ValueType::Table(&[bandwidth($read), bandwidth($write), time($fetch, 0..=MS)]),
        )
    };
}

/// The tables and keys of system files.
pub(super) const SYSTEM: &[Key] = &[
    Key::optional("schema", ValueType::Header),
    Key::optional("kind", ValueType::Header),
    SUMMARY,
    Key::optional("base", ValueType::OneOrMany(&ValueType::Text)).such_as("\"power8\""),
    Key::optional("pcie", ValueType::Word(&GENERATIONS)),
    Key::optional("volumes", ValueType::Tables(VOLUMES)),
    Key::optional("iops_limit", ValueType::TableOrTables(IOPS_LIMIT)),
    Key::optional("throughput_limit", ValueType::TableOrTables(THROUGHPUT_LIMIT)),
    Key::optional("host", ValueType::Table(HOST)),
    Key::optional(
        "slots",
        ValueType::Table(&[
            count("slots.flash_dimms_per_socket", 0..=64),
            count("slots.channels_per_socket", 1..=64),
            count("slots.rdimms_per_channel", 0..=16),
            parameter("slots.memory_kind", ValueType::Word(&["rdimm", "lrdimm", "udimm"])),
            parameter(
                "slots.memory_mode",
                ValueType::Word(&["independent", "lockstep", "sparing", "mirroring"]),
            ),
        ]),
    ),
    Key::optional(
        "adapters",
        ValueType::Table(&[
            count("adapters.count", 1..=2),
            parameter("adapters.access", ValueType::Word(&["balanced", "cleared"])),
            parameter("adapters.host_paths", ValueType::Word(&["optimized", "both"])),
            count("adapters.commands_max", 1..=1 << 20),
            time("adapters.read", 0..=MS),
            time("adapters.write", 0..=MS),
            time("adapters.device", 0..=MS),
            time("adapters.raid6", 0..=MS),
            time("adapters.forward", 0..=MS),
            bandwidth("adapters.xor"),
            bandwidth("adapters.gf"),
            time("adapters.latency", 0..=S),
            size("adapters.strip", 4 * KIB..=TIB),
            count("adapters.devices_max", 1..=1024),
            count("adapters.ssds_max", 0..=1024),
            count("adapters.aa_links", 1..=2),
            time("adapters.failover", 0..=60 * S),
        ]),
    ),
    slot!("gen1", "gen1.read", "gen1.write", "gen1.fetch"),
    slot!("gen2", "gen2.read", "gen2.write", "gen2.fetch"),
    slot!("gen3", "gen3.read", "gen3.write", "gen3.fetch"),
    Key::optional(
        "cache",
        ValueType::Table(&[
            size("cache.size", MIB..=TIB),
            time("cache.write", 0..=MS),
            time("cache.mirror", 0..=MS),
            bandwidth("cache.mirror_rate"),
            time("cache.mirror_latency", 0..=S),
            share("cache.destage", 1.0),
            size("cache.ramp", 4 * KIB..=TIB),
            count("cache.depth", 1..=1024),
            flag("cache.keeps_reads"),
        ]),
    ),
    Key::optional(
        "drawers",
        ValueType::Table(&[
            count("drawers.count", 1..=64),
            count("drawers.bays", 1..=1024),
            bandwidth("drawers.rate"),
        ]),
    ),
];

/// Keys of the table `[host]`: the server without its devices.
const HOST: &[Key] = &[
    count("host.sockets", 1..=64),
    count("host.cores_per_socket", 1..=1024),
    time("host.generator", 0..=MS),
    time("host.wake", 0..=MS),
    parameter("host.memory", ValueType::Bandwidth(1e8, 1e13)),
    parameter("host.memory_channel", ValueType::Bandwidth(1e8, 1e13)),
    flag("host.memory_balanced"),
    share("host.unbalanced", 1.0),
    number("host.remote_copy_factor", 1.0, 100.0),
    flag("host.workers_near"),
    Key { required: false, ..time("host.driver_write", 0..=MS) },
];

/// Names of the PCIe generations of adapter slots.
pub(super) const GENERATIONS: [&str; 3] = ["gen1", "gen2", "gen3"];

/// Returns the keys of all parameters in the order of the schema. Each is paired with its device family, `system` or
/// `adapters`: `("flash", "nand.read")`. A system's limits have the same keys as a device's.
pub fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_devices = ["flash", "disk", "memory", "volume"].map(|family| (family, DEVICE));
    of_devices
        .into_iter()
        .chain([("system", SYSTEM)])
        .flat_map(|(of, schema)| parameters(schema, of).into_iter().map(move |k| (of, k.path)))
        .filter(|(of, path)| *of != "system" || !path.contains("_limit."))
        .map(|(of, path)| {
            let of_host = path.starts_with("host.") || path.starts_with("slots.");
            (if of == "system" && !of_host { "adapters" } else { of }, path)
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn page(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats").join(name);
        fs::read_to_string(path).unwrap()
    }

    /// Returns the first cell, and the cell of column `limits`, of each table row below the heading that contains
    /// `name`.
    fn rows(page: &str, name: &str, limits: usize) -> Vec<(String, String)> {
        let is_heading = |line: &&str| line.starts_with("## ") && line.contains(name);
        let mut lines = page.lines().skip_while(|line| !is_heading(line));
        assert!(lines.next().is_some(), "no heading with {name}");
        let section = lines.take_while(|line| !line.starts_with('#'));
        let rows = section.filter_map(|line| line.strip_prefix("| `"));
        rows.map(|row| {
            let cells: Vec<&str> = row.split(" | ").collect();
            (cells[0].trim_end_matches('`').to_owned(), cells[limits].to_owned())
        })
        .collect()
    }

    /// Checks that the documentation pages list exactly the existing keys, each with its limits.
    #[test]
    fn every_parameter_is_documented_with_its_limits() {
        let row = |key: &Key| (key.name().to_owned(), key.value.limits());
        for (name, schema) in [("device.md", DEVICE), ("system.md", SYSTEM)] {
            let page = page(name);
            for key in schema {
                if key.sourced {
                    assert!(rows(&page, "Top level", 1).contains(&row(key)), "{key:?}");
                }
                let (keys, column) = match key.value {
                    ValueType::Table(keys) => (keys, 1),
                    // The table of limits has a column for operations and one for bytes.
                    ValueType::TableOrTables(keys) if name == "device.md" => {
                        (keys, if key.path == "throughput_limit" { 2 } else { 1 })
                    }
                    _ => continue,
                };
                let expected: Vec<_> = keys.iter().map(row).collect();
                let found = rows(&page, &format!("`[{}]`", key.path), column);
                assert_eq!(found, expected, "[{}] in {name}", key.path);
            }
        }
    }
}
