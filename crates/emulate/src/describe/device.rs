//! What a device file means.

use super::error::FormError;
use super::raw::{Node, RawFile};
use super::reader::{Reader, Values, entry};
use super::rules::{self, Rule};
use super::schema::{self, TableSchema};
use super::source::Parameter;
use super::{check, finish};
use crate::disk::{DiskSpec, Scheduler};
use crate::spec::{
    Attach, Buffer, Collection, Controller, Device, Endurance, Flash, Kind, Memory, Nand, Slc,
    Stall, Translation,
};

/// A device, and what its file says besides the numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedDevice {
    /// The device.
    pub device: Device,
    /// One line that says what it is.
    pub summary: String,
    /// The system of the catalog that it stands in where none is named.
    pub default_host: String,
    /// Every parameter with its source, in the order of the form.
    pub parameters: Vec<Parameter>,
}

/// A family of devices: its name in files, its form, its rules, and how its values are put together.
struct Family {
    name: &'static str,
    tables: &'static [TableSchema],
    rules: &'static [Rule],
    build: fn(&Values) -> Option<Kind>,
}

const FAMILIES: [Family; 3] = [
    Family { name: "flash", tables: schema::FLASH, rules: rules::FLASH, build: flash },
    Family { name: "disk", tables: schema::DISK, rules: rules::DISK, build: disk },
    Family { name: "memory", tables: schema::MEMORY, rules: rules::MEMORY, build: memory },
];

/// What a device file means; `name` is what it is called in the catalog.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn device(name: &str, raw: &RawFile) -> Result<DescribedDevice, Vec<FormError>> {
    let RawFile(root) = raw;
    let mut reader = Reader::default();
    if !reader.header(root, "device") {
        return Err(reader.errors);
    }
    let summary = reader.text(root, "summary", "what it is, in one line");
    let default_host = reader.text(root, "host", "x3850-x6");
    let mut kind = None;
    if let Some(family) = reader_family(&mut reader, root) {
        let plain = ["schema", "kind", "family", "summary", "host"];
        reader.tables(root, &plain, family.tables);
        check(&mut reader, family.rules);
        kind = (family.build)(&reader.values);
    }
    finish(&mut reader)?;
    let (Some(kind), Some(summary), Some(default_host)) = (kind, summary, default_host) else {
        unreachable!("what is missing is an error");
    };
    Ok(DescribedDevice {
        device: Device { name: name.to_owned(), kind },
        summary,
        default_host,
        parameters: reader.parameters,
    })
}

fn reader_family(reader: &mut Reader, root: &super::raw::Table) -> Option<&'static Family> {
    let listed = "\"flash\", \"disk\" or \"memory\"";
    let Some(node) = entry(root, "family") else {
        let help = format!("write `family = ` and {listed}");
        reader.refuse(0..0, "the key `family` is missing", Some(help));
        return None;
    };
    let family = FAMILIES
        .iter()
        .find(|family| matches!(node.get_ref(), Node::Text(text) if text == family.name));
    if family.is_none() {
        let message = format!("`family` is {listed}, not {}", node.get_ref().in_words());
        reader.refuse(node.span(), message, None);
    }
    family
}

fn flash(v: &Values) -> Option<Kind> {
    let attach = match memory_channel(v) {
        Some(attach) => attach,
        None => link(v)?,
    };
    Some(Kind::Flash(Box::new(Flash {
        capacity_bytes: v.whole("capacity")?,
        attach,
        controller: Controller {
            read_command_ns: v.whole("controller.read_command")?,
            read_latency_ns: v.whole("controller.read_latency")?,
            write_command_ns: v.whole("controller.write_command")?,
            read_contexts: v.whole("controller.read_contexts")? as u32,
            lanes: v.whole("controller.lanes")? as u32,
            page_split: v.real("controller.page_split")?,
        },
        nand: nand(v)?,
        buffer: Buffer {
            bytes: v.whole("buffer.size")?,
            accept_ns: v.whole("buffer.accept")?,
            protected: v.flag("buffer.protected")?,
        },
        translation: Translation {
            reserved_share: v.real("translation.reserved")?,
            map_writes_per_page: v.real("translation.map_writes_per_page")?,
            collection: collection(v),
            stall: stall(v),
        },
        endurance: Endurance {
            drive_writes_per_day: v.real("endurance.drive_writes_per_day")?,
            years: v.real("endurance.years")?,
            cycles: v.whole("endurance.cycles")? as u32,
        },
    })))
}

fn memory_channel(v: &Values) -> Option<Attach> {
    Some(Attach::MemoryChannel {
        devices_per_thread: v.whole("memory_channel.devices_per_thread")? as u32,
        command_ns: v.whole("memory_channel.command")?,
        read_copy_bytes_per_s: v.real("memory_channel.read_copy")?,
        write_copy_bytes_per_s: v.real("memory_channel.write_copy")?,
        poll_ns: v.whole("memory_channel.poll")?,
        poll_crowded_ns: v.whole("memory_channel.poll_crowded")?,
    })
}

fn link(v: &Values) -> Option<Attach> {
    Some(Attach::Link {
        read_bytes_per_s: v.real("link.read")?,
        write_bytes_per_s: v.real("link.write")?,
        full_duplex: v.flag("link.full_duplex")?,
        command_ns: v.whole("link.command")?,
        latency_ns: v.whole("link.latency")?,
        queue_max: v.whole("link.queue_max")? as u32,
        host_ns: v.whole("link.host")?,
        host_bytes_per_s: v.real("link.host_rate")?,
    })
}

fn nand(v: &Values) -> Option<Nand> {
    Some(Nand {
        channels: v.whole("nand.channels")? as u32,
        dies_per_channel: v.whole("nand.dies_per_channel")? as u32,
        planes: v.whole("nand.planes")? as u32,
        page_bytes: v.whole("nand.page")? as u32,
        pages_per_block: v.whole("nand.pages_per_block")? as u32,
        raw_bytes: v.whole("nand.raw")?,
        read_ns: v.whole("nand.read")?,
        program_fast_ns: v.whole("nand.program_fast")?,
        program_slow_ns: v.whole("nand.program_slow")?,
        erase_ns: v.whole("nand.erase")?,
        channel_bytes_per_s: v.real("nand.channel_rate")?,
        programs_max: v.whole("nand.programs_max")? as u32,
        suspend_ns: v.whole("nand.suspend"),
        reads_first: v.flag("nand.reads_first")?,
        slc: slc(v),
        parity_stripe: v.whole("nand.parity_stripe")? as u32,
    })
}

fn slc(v: &Values) -> Option<Slc> {
    Some(Slc { bytes: v.whole("slc.size")?, program_ns: v.whole("slc.program")? })
}

fn collection(v: &Values) -> Option<Collection> {
    Some(Collection {
        programs_max: v.whole("collection.programs_max")? as u32,
        yields: v.flag("collection.yields")?,
    })
}

fn stall(v: &Values) -> Option<Stall> {
    Some(Stall { every_bytes: v.whole("stall.every")?, for_ns: v.whole("stall.lasts")? })
}

fn memory(v: &Values) -> Option<Kind> {
    Some(Kind::Memory(Box::new(Memory {
        capacity_bytes: v.whole("capacity")?,
        io_ns: v.whole("memory.io")?,
        read_bytes_per_s: v.real("memory.read")?,
        write_bytes_per_s: v.real("memory.write")?,
        read_passes: v.real("memory.read_passes")?,
        write_passes: v.real("memory.write_passes")?,
        flush_ns: v.whole("memory.flush")?,
        protected: v.flag("memory.protected")?,
    })))
}

fn disk(v: &Values) -> Option<Kind> {
    Some(Kind::Disk(Box::new(DiskSpec {
        capacity_bytes: v.whole("capacity")?,
        rpm: v.whole("platters.rpm")? as u32,
        heads: v.whole("platters.heads")? as u32,
        zones: v.whole("platters.zones")? as u32,
        outer_bytes_per_s: v.real("platters.outer")?,
        inner_bytes_per_s: v.real("platters.inner")?,
        track_to_track_ns: v.whole("seek.track_to_track")?,
        average_seek_ns: v.whole("seek.average")?,
        full_stroke_ns: v.whole("seek.full_stroke")?,
        write_settle_ns: v.whole("seek.write_settle")?,
        head_switch_ns: v.whole("platters.head_switch")?,
        cylinder_switch_ns: v.whole("platters.cylinder_switch")?,
        command_ns: v.whole("interface.command")?,
        link_bytes_per_s: v.real("interface.rate")?,
        queue_max: v.whole("interface.queue_max")? as u32,
        scheduler: satf(v).unwrap_or(Scheduler::Fifo),
        buffer_bytes: v.whole("cache.buffer")?,
        write_cache: v.flag("cache.write_cache")?,
        accept_ns: v.whole("cache.accept")?,
        read_ahead_bytes: v.whole("cache.read_ahead")?,
        read_segments: v.whole("cache.read_segments")? as u32,
        flash_bytes: v.whole("flash.size").unwrap_or(0),
        flash_read_ns: v.whole("flash.read").unwrap_or(0),
    })))
}

fn satf(v: &Values) -> Option<Scheduler> {
    let age_max_ns = v.whole("satf.age_max")?;
    Some(Scheduler::Satf { age_max_ns, window: v.whole("satf.window")? as u32 })
}
