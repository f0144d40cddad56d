//! The form of the files: which tables and keys each family of devices and a system has, how each
//! value is written, and within which limits. `docs/formats/device.md` and `system.md` say what
//! they mean; a test holds those pages against these lists.

use crate::flash::LANES_MAX;
use std::ops::RangeInclusive;

use iodyno_units::human;

/// How a value is written, and its limits.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueType {
    /// Bytes: `"8KiB"`. Limits in bytes.
    Size(u64, u64),
    /// A time: `"80us"`. Limits in ns.
    Time(u64, u64),
    /// Bytes a second: `"405 MB/s"`. Limits in bytes a second.
    Bandwidth(f64, f64),
    /// A whole number.
    Count(u64, u64),
    /// A fraction: `"27%"` or `0.27`, from 0 to at most this.
    Share(f64),
    /// A number, whole or not.
    Number(f64, f64),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
}

impl ValueType {
    /// A value of this form, for help.
    pub(super) fn example(self) -> String {
        match self {
            Self::Size(..) => "\"8KiB\"".to_owned(),
            Self::Time(..) => "\"80us\"".to_owned(),
            Self::Bandwidth(..) => "\"405 MB/s\"".to_owned(),
            Self::Count(..) => "16".to_owned(),
            Self::Share(_) => "\"27%\"".to_owned(),
            Self::Number(..) => "2.5".to_owned(),
            Self::Flag => "true".to_owned(),
            Self::Word(words) => format!("\"{}\"", words[0]),
        }
    }

    /// Its limits, as errors and the documentation have them.
    pub(super) fn limits(self) -> String {
        match self {
            Self::Size(least, most) => format!("{} to {}", human::size(least), human::size(most)),
            Self::Time(least, most) => format!("{} to {}", exact_time(least), exact_time(most)),
            Self::Bandwidth(least, most) => {
                // Both are powers of ten, so that no digit after the point says anything.
                let rate = |bytes_per_s| {
                    human::throughput(bytes_per_s).replace(".00 ", " ").replace(".0 ", " ")
                };
                format!("{} to {}", rate(least), rate(most))
            }
            Self::Count(least, most) => format!("{least} to {most}"),
            Self::Share(most) => format!("0% to {}%", most * 100.0),
            Self::Number(least, most) => format!("{least} to {most}"),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Word(words) => {
                words.iter().map(|w| format!("`\"{w}\"`")).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// A time in the largest unit that is exact.
fn exact_time(ns: u64) -> String {
    let units = [(S, "s"), (MS, "ms"), (US, "us")];
    let whole = units.into_iter().find(|(unit, _)| ns > 0 && ns.is_multiple_of(*unit));
    whole.map_or(format!("{ns} ns"), |(unit, name)| format!("{} {name}", ns / unit))
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// The key with its table: `nand.read`.
    pub(super) path: &'static str,
    /// How its value is written.
    pub(super) form: ValueType,
    /// It may be left out.
    pub(super) optional: bool,
}

impl Key {
    const fn new(path: &'static str, form: ValueType) -> Self {
        Self { path, form, optional: false }
    }

    const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// The key as it stands in its table.
    pub(super) fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

/// Whether a table has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
    /// Exactly one of the tables that say so.
    Alternative,
}

/// One table of parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSchema {
    /// Its name; empty for the top of the file.
    pub(super) name: &'static str,
    pub(super) presence: Presence,
    pub(super) keys: &'static [Key],
}

const fn required(name: &'static str, keys: &'static [Key]) -> TableSchema {
    TableSchema { name, presence: Presence::Required, keys }
}

const fn size(path: &'static str, limits: RangeInclusive<u64>) -> Key {
    Key::new(path, ValueType::Size(*limits.start(), *limits.end()))
}
const fn time(path: &'static str, limits: RangeInclusive<u64>) -> Key {
    Key::new(path, ValueType::Time(*limits.start(), *limits.end()))
}
const fn count(path: &'static str, limits: RangeInclusive<u64>) -> Key {
    Key::new(path, ValueType::Count(*limits.start(), *limits.end()))
}
const fn number(path: &'static str, least: f64, most: f64) -> Key {
    Key::new(path, ValueType::Number(least, most))
}
const fn bandwidth(path: &'static str) -> Key {
    Key::new(path, ValueType::Bandwidth(1e6, 1e11))
}
const fn share(path: &'static str, most: f64) -> Key {
    Key::new(path, ValueType::Share(most))
}
const fn flag(path: &'static str) -> Key {
    Key::new(path, ValueType::Flag)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const PIB: u64 = 1 << 50;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

const CAPACITY: TableSchema = required("", &[size("capacity", MIB..=PIB)]);

/// NAND flash behind a controller.
pub(super) const FLASH: &[TableSchema] = &[
    CAPACITY,
    TableSchema {
        name: "memory_channel",
        presence: Presence::Alternative,
        keys: &[
            count("memory_channel.devices_per_thread", 1..=64),
            time("memory_channel.command", 0..=MS),
            bandwidth("memory_channel.read_copy"),
            bandwidth("memory_channel.write_copy"),
            time("memory_channel.poll", 0..=MS),
            time("memory_channel.poll_crowded", 0..=MS),
        ],
    },
    TableSchema {
        name: "link",
        presence: Presence::Alternative,
        keys: &[
            bandwidth("link.read"),
            bandwidth("link.write"),
            flag("link.full_duplex"),
            time("link.command", 0..=MS),
            time("link.latency", 0..=S),
            count("link.queue_max", 1..=65_536),
            time("link.host", 0..=MS),
            bandwidth("link.host_rate"),
        ],
    },
    required(
        "controller",
        &[
            time("controller.read_command", 0..=10 * MS),
            time("controller.read_latency", 0..=10 * MS),
            time("controller.write_command", 0..=10 * MS),
            count("controller.read_contexts", 0..=65_536),
            count("controller.lanes", 1..=LANES_MAX as u64),
            share("controller.page_split", 1.0),
        ],
    ),
    required(
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
            time("nand.suspend", 0..=100 * MS).optional(),
            flag("nand.reads_first"),
            count("nand.parity_stripe", 0..=1024),
        ],
    ),
    TableSchema {
        name: "slc",
        presence: Presence::Optional,
        keys: &[size("slc.size", MIB..=PIB), time("slc.program", US..=100 * MS)],
    },
    required(
        "buffer",
        &[
            size("buffer.size", 4 * KIB..=PIB),
            time("buffer.accept", 0..=100 * MS),
            flag("buffer.protected"),
        ],
    ),
    required(
        "translation",
        &[
            share("translation.reserved", 0.9),
            number("translation.map_writes_per_page", 0.0, 1000.0),
        ],
    ),
    TableSchema {
        name: "collection",
        presence: Presence::Optional,
        keys: &[count("collection.programs_max", 0..=65_536), flag("collection.yields")],
    },
    TableSchema {
        name: "stall",
        presence: Presence::Optional,
        keys: &[size("stall.every", MIB..=PIB), time("stall.lasts", 1..=100 * S)],
    },
    required(
        "endurance",
        &[
            number("endurance.drive_writes_per_day", 0.0, 1000.0),
            number("endurance.years", 0.0, 100.0),
            count("endurance.cycles", 1..=10_000_000),
        ],
    ),
];

/// A rotating disk. What each value may be is as `DiskSpec::check` has it.
pub(super) const DISK: &[TableSchema] = &[
    CAPACITY,
    required(
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
        "seek",
        &[
            time("seek.track_to_track", 0..=S),
            time("seek.average", 0..=S),
            time("seek.full_stroke", 0..=S),
            time("seek.write_settle", 0..=S),
        ],
    ),
    required(
        "interface",
        &[
            bandwidth("interface.rate"),
            time("interface.command", 0..=S),
            count("interface.queue_max", 1..=1_024),
        ],
    ),
    TableSchema {
        name: "satf",
        presence: Presence::Optional,
        keys: &[time("satf.age_max", 1..=100 * S), count("satf.window", 1..=65_536)],
    },
    required(
        "cache",
        &[
            size("cache.buffer", 4 * KIB..=TIB),
            flag("cache.write_cache"),
            time("cache.accept", 0..=S),
            size("cache.read_ahead", 0..=TIB),
            count("cache.read_segments", 1..=1_024),
        ],
    ),
    TableSchema {
        name: "flash",
        presence: Presence::Optional,
        keys: &[size("flash.size", MIB..=TIB), time("flash.read", 0..=S)],
    },
];

/// Memory as a block device.
pub(super) const MEMORY: &[TableSchema] = &[
    CAPACITY,
    required(
        "memory",
        &[
            time("memory.io", 0..=MS),
            bandwidth("memory.read"),
            bandwidth("memory.write"),
            number("memory.read_passes", 0.0, 10.0),
            number("memory.write_passes", 0.0, 10.0),
            time("memory.flush", 0..=S),
            flag("memory.protected"),
        ],
    ),
];

/// A server.
pub(super) const SYSTEM: &[TableSchema] = &[
    required(
        "host",
        &[
            count("host.sockets", 1..=64),
            count("host.cores_per_socket", 1..=1024),
            time("host.generator", 0..=MS),
            time("host.wake", 0..=MS),
            Key::new("host.memory", ValueType::Bandwidth(1e8, 1e13)),
            Key::new("host.memory_channel", ValueType::Bandwidth(1e8, 1e13)),
            flag("host.memory_balanced"),
            share("host.unbalanced", 1.0),
            number("host.remote_copy_factor", 1.0, 100.0),
            flag("host.workers_near"),
        ],
    ),
    required(
        "slots",
        &[
            count("slots.flash_dimms_per_socket", 0..=64),
            count("slots.channels_per_socket", 1..=64),
            count("slots.rdimms_per_channel", 0..=16),
            Key::new("slots.memory_kind", ValueType::Word(&["rdimm", "lrdimm", "udimm"])),
            Key::new(
                "slots.memory_mode",
                ValueType::Word(&["independent", "lockstep", "sparing", "mirroring"]),
            ),
        ],
    ),
];

/// Every key of the files that is a parameter, with the family of devices that has it, or `system`:
/// `("flash", "nand.read")`. In the order of the form.
pub fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    [("flash", FLASH), ("disk", DISK), ("memory", MEMORY), ("system", SYSTEM)].into_iter().flat_map(
        |(of, tables)| tables.iter().flat_map(move |t| t.keys.iter().map(move |k| (of, k.path))),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::describe::rules::{self, Rule};

    fn page(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats").join(name);
        fs::read_to_string(path).unwrap()
    }

    /// First and second column of each table row under the heading that begins with `heading`.
    fn rows(page: &str, heading: &str) -> Vec<(String, String)> {
        let mut lines = page.lines().skip_while(|line| !line.starts_with(heading));
        assert!(lines.next().is_some(), "no heading {heading}");
        let section = lines.take_while(|line| !line.starts_with('#'));
        let cells = section.filter_map(|line| line.strip_prefix("| `"));
        cells
            .map(|row| {
                let mut cells = row.split(" | ").map(str::to_owned);
                let key = cells.next().unwrap().trim_end_matches('`').to_owned();
                (key, cells.next().unwrap())
            })
            .collect()
    }

    /// The pages list exactly the keys that there are, each with its limits.
    #[test]
    fn every_parameter_is_documented_with_its_limits() {
        for (name, families) in
            [("device.md", [FLASH, DISK, MEMORY].as_slice()), ("system.md", &[SYSTEM])]
        {
            let page = page(name);
            for form in families.iter().copied().flatten() {
                let expected: Vec<_> =
                    form.keys.iter().map(|k| (k.name().to_owned(), k.form.limits())).collect();
                if form.name.is_empty() {
                    let found = rows(&page, "## Top level");
                    assert!(expected.iter().all(|row| found.contains(row)), "{expected:?}");
                } else {
                    let found = rows(&page, &format!("## `[{}]`", form.name));
                    assert_eq!(found, expected, "[{}] in {name}", form.name);
                }
            }
        }
    }

    #[test]
    fn every_rule_is_documented() {
        let listed = |page: &str| -> BTreeSet<String> {
            let rules = page.split("# Rules").nth(1).unwrap();
            let rows = rules.lines().filter_map(|line| line.strip_prefix("| `"));
            rows.map(|row| row.split('`').next().unwrap().to_owned()).collect()
        };
        let names = |rules: &[&[Rule]]| {
            rules.iter().copied().flatten().map(|r| r.name.to_owned()).collect()
        };
        let device: BTreeSet<String> = names(&[rules::FLASH, rules::DISK, rules::MEMORY]);
        assert_eq!(listed(&page("device.md")), device);
        let mut system: BTreeSet<String> = names(&[rules::SYSTEM]);
        system.extend(rules::FLASH_DIMMS.iter().map(|rule| rule.name.to_owned()));
        system.insert("device-count".to_owned());
        assert_eq!(listed(&page("system.md")), system);
    }
}
