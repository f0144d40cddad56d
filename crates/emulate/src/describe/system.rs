//! Conversion of a system file: the server, and the devices that it holds where none are named.

use std::ops::Range;

use iodyno_catalog::{FileError, Kind, Parameter, Reader, Record};

use super::check;
use super::rules::{self, RuleBroken};
use super::schema;
use crate::spec::{
    Access, Adapters, Cache, Drawers, Host, HostPaths, MemoryKind, MemoryMode, ParityEngine,
    Processor, Slot, Slots,
};

/// A server, and its file's data besides the numbers.
#[derive(Clone, Debug)]
pub struct DescribedSystem {
    /// Its name in the catalog.
    pub name: String,
    /// The server.
    pub host: Host,
    /// Its RAID adapters, if it has some.
    pub adapters: Option<Adapters>,
    /// The devices in the file; none where it describes a server only.
    pub volumes: Vec<VolumesOf>,
    /// A description in one line.
    pub summary: String,
    /// Every parameter with its source, in the order of the schema.
    pub parameters: Vec<Parameter>,
    /// Of its file, then of its base, of the base of that, and so on.
    records: Vec<Record>,
}

/// `[[volumes]]`: some devices of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumesOf {
    /// The device's name in the catalog.
    pub device: String,
    /// Their number.
    pub count: u32,
    /// The position of the name in the file, for the error that there is no such device.
    pub span: Range<usize>,
    /// The device that caches the reads of each: its name in the catalog, and the name's position.
    pub read_cache: Option<(String, Range<usize>)>,
    /// Bytes that it caches; 0: as many as it has.
    pub read_cache_bytes: u64,
}

impl DescribedSystem {
    /// A rule of population that this server violates, at its position in the server's file.
    pub fn error(&self, broken: &RuleBroken) -> FileError {
        let table = table_of(broken.path);
        let own = &self.records[0];
        let path = if own.get(table).is_some() { broken.path } else { "base" };
        let error = FileError::new(own.place(path), broken.to_string());
        FileError { rule: Some(broken.rule), ..error }
    }
}

/// The most bases below one another; more are a circle.
const BASES_MAX: u32 = 4;

/// Converts a system file; `name` is its name in the catalog. What it leaves out has the file that it names as its `base`,
/// whose text `find` returns.
///
/// # Errors
/// All its errors, in the order of the file, and those of its base, at the base's name.
pub fn system(
    name: &str,
    text: &str,
    find: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<DescribedSystem, Vec<FileError>> {
    on_bases(name, text, find, BASES_MAX)
}

fn on_bases(
    name: &str,
    text: &str,
    find: &mut dyn FnMut(&str) -> Result<String, String>,
    bases_max: u32,
) -> Result<DescribedSystem, Vec<FileError>> {
    let mut resolve = |base: &str| {
        if bases_max == 0 {
            return Err(format!("`{base}` is one base too many: do they stand on each other?"));
        }
        let text = find(base)?;
        on_bases(base, &text, find, bases_max - 1)
            .map_err(|errors| format!("`{base}` is wrong: {}", errors[0].message))
    };
    let mut reader = Reader::default();
    let read = reader.file(text, Some(Kind::System), schema::SYSTEM);
    let is_system = read.is_some();
    let record = read.unwrap_or_default();
    check(&mut reader, &record, rules::SYSTEM);
    for volumes in record.records("volumes") {
        if volumes.get("read_cache_size").is_some() && volumes.get("read_cache").is_none() {
            let message = "`read_cache_size` is about a device that `read_cache` names";
            let error = FileError::new(volumes.place("read_cache_size"), message.to_owned());
            reader.errors.push(FileError { rule: Some("read-cache"), ..error });
        }
    }
    let base = record.text("base").map(&mut resolve);
    if let Some(Err(why)) = &base {
        reader.errors.push(FileError::new(record.place("base"), why.clone()));
    }
    let knows_base = !matches!(base, Some(Err(_)));
    let base = base.and_then(Result::ok);
    let bases = base.as_ref().map_or(&[][..], |base| &base.records);
    let tables = Tables([&record].into_iter().chain(bases).collect());
    if is_system && knows_base {
        tables.check(&mut reader);
    }
    let own = reader.finish()?;
    let (Some(host), Some(summary)) = (host(&tables), record.text("summary").map(str::to_owned))
    else {
        unreachable!("what is missing is an error");
    };
    let adapters = adapters(&tables);
    let volumes = record.records("volumes").filter_map(|volumes| {
        let device = volumes.text("device")?.to_owned();
        let count = volumes.whole("count").map_or(1, |count| count as u32);
        let cache = volumes.text("read_cache").map(str::to_owned);
        Some(VolumesOf {
            device,
            count,
            span: volumes.place("device"),
            read_cache: cache.map(|cache| (cache, volumes.place("read_cache"))),
            read_cache_bytes: volumes.whole("read_cache_size").unwrap_or(0),
        })
    });
    let volumes = volumes.collect();
    let (mut parameters, mut records) = (own, vec![record]);
    if let Some(base) = base {
        let lacks = |key: &str| records[0].get(table_of(key)).is_none();
        parameters.extend(base.parameters.into_iter().filter(|p| lacks(p.key)));
        records.extend(base.records);
    }
    let name = name.to_owned();
    Ok(DescribedSystem { name, host, adapters, volumes, summary, parameters, records })
}

/// The table of a key.
fn table_of(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// The tables of a file, and of its bases for those that it has not itself: the file first.
struct Tables<'a>(Vec<&'a Record>);

impl Tables<'_> {
    /// The record that has a key's table.
    fn of(&self, path: &str) -> &Record {
        let has = |record: &&&Record| record.get(table_of(path)).is_some();
        self.0.iter().find(has).unwrap_or(&self.0[0])
    }

    fn has(&self, path: &str) -> bool {
        self.of(path).get(path).is_some()
    }

    fn whole(&self, path: &str) -> Option<u64> {
        self.of(path).whole(path)
    }

    fn real(&self, path: &str) -> Option<f64> {
        self.of(path).real(path)
    }

    fn flag(&self, path: &str) -> Option<bool> {
        self.of(path).flag(path)
    }

    fn word(&self, path: &str) -> Option<&'static str> {
        self.of(path).word(path)
    }

    /// What a system must have, in its file or in its base.
    fn check(&self, reader: &mut Reader) {
        let mut missing = |path: &str, message: String| {
            let error = FileError::new(self.0[0].place(path), message);
            reader.errors.push(FileError { rule: Some("whole-system"), ..error });
        };
        for table in ["host", "slots"] {
            if !self.has(table) {
                missing(
                    table,
                    format!("table [{table}] is missing, and there is no `base` that has it"),
                );
            }
        }
        let has_adapters = self.has("adapters");
        for table in ["cache", "drawers", "pcie"].into_iter().chain(schema::GENERATIONS) {
            if self.has(table) && !has_adapters {
                missing(
                    table,
                    format!("`{table}` is about adapters, and there is no table [adapters]"),
                );
            }
        }
        if has_adapters {
            if !self.has("drawers") {
                missing(
                    "adapters",
                    "table [drawers] is missing: adapters have their devices there".to_owned(),
                );
            }
            match self.word("pcie") {
                None => missing(
                    "adapters",
                    "`pcie` is missing, which names the generation of the adapters' slots, such as \"gen3\""
                        .to_owned(),
                ),
                Some(slot) if !self.has(slot) => {
                    missing(
                        "slot",
                        format!(
                            "table [{slot}] is missing: it says what adapters reach in such a slot"
                        ),
                    );
                }
                Some(_) => {}
            }
        }
    }
}

/// The adapters of a system; None: it has none.
fn adapters(v: &Tables<'_>) -> Option<Adapters> {
    let slot = v.word("pcie")?;
    let of = |key: &str| format!("{slot}.{key}");
    let cache = || {
        Some(Cache {
            bytes: v.whole("cache.size")?,
            write_ns: v.whole("cache.write")?,
            mirror_ns: v.whole("cache.mirror")?,
            mirror_bytes_per_s: v.real("cache.mirror_rate")?,
            mirror_latency_ns: v.whole("cache.mirror_latency")?,
            destage_share: v.real("cache.destage")?,
            destage_ramp_bytes: v.whole("cache.ramp")?,
            destage_depth: v.whole("cache.depth")? as u32,
            keeps_reads: v.flag("cache.keeps_reads")?,
        })
    };
    Some(Adapters {
        count: v.whole("adapters.count")? as u32,
        access: match v.word("adapters.access")? {
            "balanced" => Access::Balanced,
            _ => Access::Cleared,
        },
        host_paths: match v.word("adapters.host_paths")? {
            "optimized" => HostPaths::Optimized,
            _ => HostPaths::Both,
        },
        commands_max: v.whole("adapters.commands_max")? as u32,
        slot: Slot {
            read_bytes_per_s: v.real(&of("read"))?,
            write_bytes_per_s: v.real(&of("write"))?,
            fetch_ns: v.whole(&of("fetch"))?,
        },
        processor: Processor {
            read_ns: v.whole("adapters.read")?,
            write_ns: v.whole("adapters.write")?,
            device_ns: v.whole("adapters.device")?,
            raid6_ns: v.whole("adapters.raid6")?,
            forward_ns: v.whole("adapters.forward")?,
        },
        parity: ParityEngine {
            xor_bytes_per_s: v.real("adapters.xor")?,
            gf_bytes_per_s: v.real("adapters.gf")?,
        },
        latency_ns: v.whole("adapters.latency")?,
        strip_bytes: v.whole("adapters.strip")?,
        cache: cache(),
        devices_max: v.whole("adapters.devices_max")? as u32,
        ssds_max: v.whole("adapters.ssds_max")? as u32,
        aa_links: v.whole("adapters.aa_links")? as u32,
        failover_ns: v.whole("adapters.failover")?,
        drawers: Drawers {
            count: v.whole("drawers.count")? as u32,
            bays: v.whole("drawers.bays")? as u32,
            bytes_per_s: v.real("drawers.rate")?,
        },
    })
}

fn host(v: &Tables<'_>) -> Option<Host> {
    let slots = Slots {
        flash_dimms_per_socket: v.whole("slots.flash_dimms_per_socket")? as u32,
        channels_per_socket: v.whole("slots.channels_per_socket")? as u32,
        rdimms_per_channel: v.whole("slots.rdimms_per_channel")? as u32,
        memory_kind: match v.word("slots.memory_kind")? {
            "rdimm" => MemoryKind::Rdimm,
            "lrdimm" => MemoryKind::Lrdimm,
            _ => MemoryKind::Udimm,
        },
        memory_mode: match v.word("slots.memory_mode")? {
            "independent" => MemoryMode::Independent,
            "lockstep" => MemoryMode::Lockstep,
            "sparing" => MemoryMode::Sparing,
            _ => MemoryMode::Mirroring,
        },
    };
    Some(Host {
        sockets: v.whole("host.sockets")? as u32,
        cores_per_socket: v.whole("host.cores_per_socket")? as u32,
        generator_ns: v.whole("host.generator")?,
        wake_ns: v.whole("host.wake")?,
        memory_bytes_per_s: v.real("host.memory")?,
        memory_channel_bytes_per_s: v.real("host.memory_channel")?,
        memory_balanced: v.flag("host.memory_balanced")?,
        unbalanced_share: v.real("host.unbalanced")?,
        remote_copy_factor: v.real("host.remote_copy_factor")?,
        workers_near: v.flag("host.workers_near")?,
        driver_write_ns: v.whole("host.driver_write").unwrap_or(0),
        slots,
    })
}
