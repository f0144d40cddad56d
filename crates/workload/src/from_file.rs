//! Converts a file to a specification: fills in defaults, and then applies the rules. An unreadable value is replaced
//! by one that passes all rules, so that the other errors of the file are also reported.

use iodyno_catalog::{FileError, Reader, Record};

use crate::group::{Group, Workload};
use crate::keys::{self, KEYS};
use crate::log_load::{LogDurability, LogLoad};
use crate::rules;
use crate::spec::{Address, Block, Limits, Pattern, Scope, Spec};

impl Workload {
    /// Parses a workload file, which describes one workload or a group.
    ///
    /// # Errors
    /// All errors of the file.
    pub fn from_toml(text: &str) -> Result<Self, Vec<FileError>> {
        let mut reader = Reader::default();
        match reader.file(text, None, KEYS) {
            None => Err(reader.errors),
            Some(record) if record.get("group").is_some() => {
                Group::read(reader, &record).map(Self::Group)
            }
            Some(record) => read(reader, &record).map(|spec| Self::Single(Box::new(spec))),
        }
    }
}

impl Spec {
    /// Parses a workload file that must describe a single workload.
    ///
    /// # Errors
    /// All errors of the file, including that it is a group.
    pub fn from_toml(text: &str) -> Result<Self, Vec<FileError>> {
        let mut reader = Reader::default();
        match reader.file(text, None, KEYS) {
            None => Err(reader.errors),
            Some(record) => read(reader, &record),
        }
    }

    /// Converts a parsed TOML table whose keys were checked against [`KEYS`].
    ///
    /// # Errors
    /// All errors of the table, including that it is a group.
    pub fn from_record(record: &Record) -> Result<Self, Vec<FileError>> {
        read(Reader::default(), record)
    }
}

fn read(mut reader: Reader, record: &Record) -> Result<Spec, Vec<FileError>> {
    if let Some(group) = record.get("group") {
        reader.refuse(group.span.clone(), "this is a group, not one workload", "");
        return Err(reader.errors);
    }
    let spec = spec(&mut reader, record);
    for fault in rules::check(&spec) {
        reader.fault(record, fault);
    }
    reader.finish().map(|_| spec)
}

fn spec(reader: &mut Reader, record: &Record) -> Spec {
    let mut spec = Spec::blank();
    keys::read(&mut spec, reader, record);
    if let Some(log) = &mut spec.log {
        if log.fua && log.durability == LogDurability::None {
            let help = "leave `fua` out, or set `durability = \"batch\"`";
            let message = "FUA makes writes durable, contrary to `durability = \"none\"`";
            reader.refuse(record.place("log.fua"), message, help);
        }
        log.backlog = log.backlog.or(log.rate_per_s.map(|_| LogLoad::DEFAULT_BACKLOG));
        if record.whole("threads").is_none() {
            spec.threads = log.threads();
        }
        spec.align_bytes = spec.align_bytes.or(Some(4096));
        if record.get("mix").is_none() {
            spec.mix = log.mix();
        }
    }
    with_defaults(spec)
}

/// Sets missing values whose default depends on other keys.
pub(crate) fn with_defaults(mut spec: Spec) -> Spec {
    if spec.block.is_empty() {
        // The default chunk of a log is 64 KiB.
        let bytes = if spec.log.is_some() { 64 << 10 } else { 4096 };
        spec.block.push(Block { bytes, share: 1.0 });
    }
    let all = &mut spec.tables[Scope::All as usize].addresses;
    if all.is_empty() {
        all.push(Address { pattern: Pattern::Uniform { once_per_pass: false }, share: 1.0 });
    }
    let Limits { time_ns, ops, bytes, passes, .. } = spec.limits;
    if (time_ns, ops, bytes, passes) == (None, None, None, None) {
        spec.limits.time_ns = Some(Limits::DEFAULT_TIME_NS);
    }
    spec
}
