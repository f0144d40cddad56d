//! What a system file means: the server, and the devices that it holds where none are named.

use std::collections::BTreeMap;

use std::ops::Range;

use serde_spanned::Spanned;

use super::error::FormError;
use super::raw::{Node, RawFile, Table};
use super::reader::{Reader, Values, entry, place};
use super::rules::{self, RuleBroken, VOLUMES_MAX};
use super::schema;
use super::source::Parameter;
use super::{check, finish};
use crate::spec::{Host, MemoryKind, MemoryMode, Slots};

/// A server, and what its file says besides the numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedSystem {
    /// What it is called in the catalog.
    pub name: String,
    /// The server.
    pub host: Host,
    /// The devices that the file puts into it; none where it is a server only.
    pub volumes: Vec<VolumesOf>,
    /// One line that says what it is.
    pub summary: String,
    /// Every parameter with its source, in the order of the form.
    pub parameters: Vec<Parameter>,
    spans: BTreeMap<String, Range<usize>>,
}

/// `[[volumes]]`: some devices of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumesOf {
    /// The device's name in the catalog.
    pub device: String,
    /// How many.
    pub count: u32,
    /// Where the name stands in the file, for the error that there is no such device.
    pub span: Range<usize>,
}

impl DescribedSystem {
    /// A rule of population that this server breaks, at its place in the server's file.
    pub fn error(&self, broken: &RuleBroken) -> FormError {
        FormError {
            span: place(&self.spans, broken.path),
            rule: Some(broken.rule),
            message: broken.to_string(),
            help: None,
        }
    }
}

/// What a system file means; `name` is what it is called in the catalog.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn system(name: &str, raw: &RawFile) -> Result<DescribedSystem, Vec<FormError>> {
    let RawFile(root) = raw;
    let mut reader = Reader::default();
    if !reader.header(root, "system") {
        return Err(reader.errors);
    }
    let summary = reader.text(root, "summary", "what it is, in one line");
    reader.tables(root, &["schema", "kind", "summary", "volumes"], schema::SYSTEM);
    let volumes = volumes(&mut reader, root);
    check(&mut reader, rules::SYSTEM);
    let host = host(&reader.values);
    finish(&mut reader)?;
    let (Some(host), Some(summary)) = (host, summary) else {
        unreachable!("what is missing is an error");
    };
    let parameters = std::mem::take(&mut reader.parameters);
    let name = name.to_owned();
    Ok(DescribedSystem { name, host, volumes, summary, parameters, spans: reader.into_spans() })
}

fn volumes(reader: &mut Reader, root: &Table) -> Vec<VolumesOf> {
    let help = || Some("write `[[volumes]]`, `device = \"exflash-400g\"`, `count = 32`".to_owned());
    let Some(node) = entry(root, "volumes") else { return Vec::new() };
    reader.note("volumes", node.span());
    let Node::Array(items) = node.get_ref() else {
        reader.refuse(node.span(), "`volumes` is an array of tables", help());
        return Vec::new();
    };
    let mut all = Vec::new();
    for item in items {
        let Node::Table(table) = item.get_ref() else {
            reader.refuse(item.span(), "`volumes` is an array of tables", help());
            continue;
        };
        reader.unknown(table, &["device", "count"]);
        let device = match entry(table, "device").map(|node| (node.get_ref(), node.span())) {
            Some((Node::Text(text), span)) if !text.is_empty() => Some((text.clone(), span)),
            Some((_, span)) => {
                reader.refuse(span, "`device` is the name of a device", help());
                None
            }
            None => {
                reader.refuse(item.span(), "these volumes have no `device`", help());
                None
            }
        };
        let count = count(reader, entry(table, "count"));
        if let (Some((device, span)), Some(count)) = (device, count) {
            all.push(VolumesOf { device, count, span });
        }
    }
    all
}

/// How many; one where it is not said.
fn count(reader: &mut Reader, node: Option<&Spanned<Node>>) -> Option<u32> {
    let Some(node) = node else { return Some(1) };
    match node.get_ref() {
        Node::Whole(count) if (1..=VOLUMES_MAX as i64).contains(count) => Some(*count as u32),
        _ => {
            let message = format!("`count` is a whole number from 1 to {VOLUMES_MAX}");
            reader.refuse(node.span(), message, None);
            None
        }
    }
}

fn host(v: &Values) -> Option<Host> {
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
