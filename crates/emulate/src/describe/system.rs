//! Conversion of a system file: the server, and the devices that it holds where none are named.

use std::ops::Range;

use iodyno_catalog::{FileError, Kind, Parameter, Reader, Record};

use super::check;
use super::rules::{self, RuleBroken};
use super::schema;
use crate::spec::{Host, MemoryKind, MemoryMode, Slots};

/// A server, and its file's data besides the numbers.
#[derive(Clone, Debug)]
pub struct DescribedSystem {
    /// Its name in the catalog.
    pub name: String,
    /// The server.
    pub host: Host,
    /// The devices in the file; none where it describes a server only.
    pub volumes: Vec<VolumesOf>,
    /// A description in one line.
    pub summary: String,
    /// Every parameter with its source, in the order of the schema.
    pub parameters: Vec<Parameter>,
    record: Record,
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
}

impl DescribedSystem {
    /// A rule of population that this server violates, at its position in the server's file.
    pub fn error(&self, broken: &RuleBroken) -> FileError {
        let error = FileError::new(self.record.place(broken.path), broken.to_string());
        FileError { rule: Some(broken.rule), ..error }
    }
}

/// Converts a system file; `name` is its name in the catalog.
///
/// # Errors
/// All its errors, in the order of the file.
pub fn system(name: &str, text: &str) -> Result<DescribedSystem, Vec<FileError>> {
    let mut reader = Reader::default();
    let record = reader.file(text, Some(Kind::System), schema::SYSTEM).unwrap_or_default();
    check(&mut reader, &record, rules::SYSTEM);
    let parameters = reader.finish()?;
    let (Some(host), Some(summary)) = (host(&record), record.text("summary").map(str::to_owned))
    else {
        unreachable!("what is missing is an error");
    };
    let volumes = record.records("volumes").filter_map(|volumes| {
        let device = volumes.text("device")?.to_owned();
        let count = volumes.whole("count").map_or(1, |count| count as u32);
        Some(VolumesOf { device, count, span: volumes.place("device") })
    });
    let (name, volumes) = (name.to_owned(), volumes.collect());
    Ok(DescribedSystem { name, host, volumes, summary, parameters, record })
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
        slots,
    })
}
