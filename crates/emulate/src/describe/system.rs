//! Converts a system file to a [`DescribedSystem`]: a server and its default devices.

use std::collections::BTreeSet;
use std::ops::Range;

use iodyno_catalog::{FileError, Kind, Parameter, Reader, Record};

use super::check;
use super::limit;
use super::rules::{self, RuleBroken};
use super::schema;
use crate::spec::{
    Access, Adapters, Cache, Drawers, Host, HostPaths, Limit, MemoryKind, MemoryMode, ParityEngine,
    Processor, Slot, Slots,
};

/// A server as described by a system file: host, adapters and default devices.
#[derive(Clone, Debug)]
pub struct DescribedSystem {
    /// Name in the catalog.
    pub name: String,
    /// The server without its devices.
    pub host: Host,
    /// RAID adapters, if the server has any.
    pub adapters: Option<Adapters>,
    /// Limits that all cloud volumes in the server share; empty without limits.
    pub limits: Vec<Limit>,
    /// Default devices; empty if the file describes only a server.
    pub volumes: Vec<VolumesOf>,
    /// One-line description from the file.
    pub summary: String,
    /// All parameters with their sources, in the order of the schema.
    pub parameters: Vec<Parameter>,
    /// The values of the file, merged with those of its bases.
    record: Record,
}

/// An entry of `[[volumes]]`: N equal devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumesOf {
    /// Catalog name of the device.
    pub device: String,
    /// Number of devices, each of which is a volume.
    pub count: u32,
    /// Position of the device name in the file, for the error message about an unknown device.
    pub span: Range<usize>,
    /// Device that serves as a read cache for each volume: its catalog name and the name's position in
    /// the file. `None` without a read cache.
    pub read_cache: Option<(String, Range<usize>)>,
    /// Size of the read cache in bytes; 0: the whole device.
    pub read_cache_bytes: u64,
}

impl DescribedSystem {
    /// Converts a violated rule to an error with its position in the system file.
    pub fn error(&self, broken: &RuleBroken) -> FileError {
        let error = FileError::new(self.record.place(broken.path), broken.to_string());
        FileError { rule: Some(broken.rule), ..error }
    }

    /// Returns the values that files based on this one inherit: those of the server and its adapters,
    /// without `[[volumes]]`.
    fn server(&self) -> Record {
        let mut server = self.record.clone();
        server.retain(|path| !["schema", "kind", "summary", "base", "volumes"].contains(&path));
        server
    }
}

/// Rule name of errors about the file's `base`. Their messages quote only the base's name.
const ABOUT_BASE: &str = "base";
/// Maximum number of nested base files. More indicate a cycle.
const BASES_MAX: u32 = 4;

/// Parses a system file. `name` is its name in the catalog. Missing values are inherited from the files that its key
/// `base` names. These can have a `base` themselves. `find` returns the text of a base file.
///
/// # Errors
/// All errors in the order of the file. An error in a base file is reported at the key `base` that names it.
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
            return Err(format!(
                "the chain of bases is too long at `{base}`: check whether bases refer to each other"
            ));
        }
        let text = find(base)?;
        on_bases(base, &text, find, bases_max - 1).map_err(|errors| {
            if errors[0].rule == Some(ABOUT_BASE) {
                return errors[0].message.clone();
            }
            // Leaves out the message, which may quote a file that another user named.
            let start = errors[0].span.start.min(text.len());
            let line = text.as_bytes()[..start].split(|&byte| byte == b'\n').count();
            format!("`{base}` has an error in line {line}; check that file alone to see it")
        })
    };
    let own = Reader::default().file(text, Some(Kind::System), schema::SYSTEM).unwrap_or_default();
    let named = own.items("base").iter().filter_map(|base| Some((base.text()?, &base.span)));
    let bases = named.map(|(base, span)| {
        resolve(base).map_err(|why| {
            let error = FileError::new(span.clone(), why);
            vec![FileError { rule: Some(ABOUT_BASE), ..error }]
        })
    });
    let bases: Vec<DescribedSystem> = bases.collect::<Result<_, _>>()?;
    let mut reader = Reader::on(bases.iter().map(DescribedSystem::server).collect());
    let read = reader.file(text, Some(Kind::System), schema::SYSTEM);
    let is_system = read.is_some();
    let record = read.unwrap_or_default();
    check(&mut reader, &record, rules::SYSTEM);
    for of_volumes in limit::records(&record) {
        check(&mut reader, of_volumes, limit::RULES);
        limit::check_constant(&mut reader, of_volumes);
    }
    for volumes in record.records("volumes") {
        if volumes.get("read_cache_size").is_some() && volumes.get("read_cache").is_none() {
            let message = "`read_cache_size` requires `read_cache`, which names the device";
            let error = FileError::new(volumes.place("read_cache_size"), message.to_owned());
            reader.errors.push(FileError { rule: Some("read-cache"), ..error });
        }
    }
    if is_system {
        check_whole(&record, &mut reader);
    }
    let mut parameters = reader.finish()?;
    let (Some(host), Some(summary)) = (host(&record), record.text("summary").map(str::to_owned))
    else {
        unreachable!("missing parameters are errors");
    };
    let adapters = adapters(&record);
    let limits = limit::constant(&record);
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
    for base in bases {
        let known: BTreeSet<&str> = parameters.iter().map(|p| p.key).collect();
        let inherited = base.parameters.into_iter().filter(|p| !known.contains(p.key));
        let inherited: Vec<Parameter> = inherited.collect();
        parameters.extend(inherited);
    }
    let name = name.to_owned();
    Ok(DescribedSystem { name, host, adapters, limits, volumes, summary, parameters, record })
}

/// Reports required tables that are missing in both the system file and its bases.
fn check_whole(record: &Record, reader: &mut Reader) {
    let has = |path: &str| record.get(path).is_some();
    let mut missing = |path: &str, message: String| {
        let error = FileError::new(record.place(path), message);
        reader.errors.push(FileError { rule: Some("whole-system"), ..error });
    };
    for table in ["host", "slots"] {
        if !has(table) {
            missing(table, format!("table [{table}] is missing in this file and in its `base`"));
        }
    }
    let has_adapters = has("adapters");
    for table in ["cache", "drawers", "pcie"].into_iter().chain(schema::GENERATIONS) {
        if has(table) && !has_adapters {
            missing(
                table,
                format!("`{table}` describes adapters, but the table [adapters] is missing"),
            );
        }
    }
    if !has_adapters {
        return;
    }
    if !has("drawers") {
        missing(
            "adapters",
            "table [drawers] is missing: it describes the drawers of the adapters' devices"
                .to_owned(),
        );
    }
    match record.word("pcie") {
        None => missing(
            "adapters",
            "`pcie` is missing: it names the PCIe generation of the adapters' slots, such as \"gen3\""
                .to_owned(),
        ),
        Some(slot) if !has(slot) => {
            missing(
                "slot",
                format!("table [{slot}] is missing: it describes the adapters' performance in a PCIe {slot} slot"),
            );
        }
        Some(_) => {}
    }
}

/// Reads the adapters of a system; `None` if it has none.
fn adapters(v: &Record) -> Option<Adapters> {
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

fn host(v: &Record) -> Option<Host> {
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
