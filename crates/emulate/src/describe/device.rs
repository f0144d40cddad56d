//! Conversion of a device file to a device and its description. `rules` has the constraints.

use iodyno_catalog::{self as catalog, FileError, Parameter, Reader, Record};
use iodyno_units::VolumeOptions;

use super::bay::{Bay, Power};
use super::check;
use super::limit;
use super::rules::{self, Rule, placement_shares};
use super::schema::DEVICE;
use super::volume_class::{VolumeClass, one_size, start_with};
use crate::content_event::UNIT_BYTES;
use crate::disk::{DiskSpec, Scheduler, Shingled};
use crate::spec::{
    Attach, Buffer, CloudVolume, Controller, Device, DurableOrder, Endurance, Flash, Folding,
    IoThread, Isolation, Kind, Memory, Nand, Placement, PowerCut, Slc, Stall, Translation,
    Variation, VictimRule, Zones,
};

/// A device as described by a device file: its parameters, with summary, bay and power.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedDevice {
    /// Parameters for the emulator. For a class of cloud volumes: those of a volume of the default size.
    pub device: Device,
    /// One-line description from the file.
    pub summary: String,
    /// Name of the catalog system in which the device is placed if the user selects none.
    pub default_host: String,
    /// Bay or slot that the device occupies; `None` if the file does not state it.
    pub bay: Option<Bay>,
    /// Rules that compute a volume's limits from its size and options; `None` unless the file describes a class of
    /// cloud volumes.
    pub class: Option<VolumeClass>,
    /// Power draw in W. Values that the file does not state are `None`.
    pub power: Power,
    /// All parameters with their sources, in the order of the schema.
    pub parameters: Vec<Parameter>,
}

impl DescribedDevice {
    /// Applies the options of a cloud volume: size, provisioned rates and initial burst credits. A device of a fixed
    /// size accepts only credits.
    ///
    /// # Errors
    /// An option that the device lacks, or a value outside its range. The message states the range and a remedy.
    pub fn choose(&mut self, options: &VolumeOptions) -> Result<(), String> {
        if *options == VolumeOptions::default() {
            return Ok(());
        }
        let name = self.device.name.clone();
        let Some(class) = &self.class else {
            let VolumeOptions { size_bytes, iops, mbps, on_demand, credits } = options;
            let given =
                [(iops.is_some(), "iops"), (mbps.is_some(), "mbps"), (*on_demand, "bursting")];
            if size_bytes.is_some() {
                return Err(one_size(&name, self.device.capacity_bytes()));
            }
            if let Some((_, key)) = given.into_iter().find(|(is_given, _)| *is_given) {
                return Err(format!(
                    "the limits of {name} can't be chosen, because its file has no rules for them: leave {key}= out"
                ));
            }
            return credits.map_or(Ok(()), |of| start_with(&name, of, &mut self.device.limits));
        };
        let (size_bytes, limits) = class.volume(&name, options)?;
        if let Kind::Volume(volume) = &mut self.device.kind {
            volume.capacity_bytes = size_bytes;
        }
        self.parameters = class.parameters(size_bytes, &limits);
        self.device.limits = limits;
        Ok(())
    }
}

/// Parses a device file. `name` is the device's name in the catalog.
///
/// # Errors
/// All errors, in the order of the file.
pub fn device(name: &str, text: &str) -> Result<DescribedDevice, Vec<FileError>> {
    let mut reader = Reader::default();
    let record = reader.file(text, Some(catalog::Kind::Device), DEVICE).unwrap_or_default();
    let family = record.word("family");
    let rules: &[Rule] = match family {
        Some("flash") => rules::FLASH,
        Some("disk") => rules::DISK,
        _ => rules::WHOLE_SECTORS,
    };
    if family == Some("flash") {
        attached_once(&mut reader, &record);
        check(&mut reader, &record, rules::PLACEMENT);
    }
    check(&mut reader, &record, rules);
    for limit in limit::records(&record) {
        check(&mut reader, limit, limit::RULES);
    }
    let class = class(&mut reader, &record);
    let parameters = reader.finish()?;
    let say = |path: &str| record.text(path).map(str::to_owned);
    let kind = match family {
        Some("flash") => flash(&record),
        Some("disk") => disk(&record),
        Some("volume") => volume(&record, class.sizes_bytes[1]),
        _ => memory(&record),
    };
    let (Some(kind), Some(summary), Some(default_host)) = (kind, say("summary"), say("host"))
    else {
        unreachable!("missing parameters are errors");
    };
    // By default only drives and volumes are hot-swappable.
    let is_drive = match &kind {
        Kind::Flash(flash) => matches!(flash.attach, Attach::Link { .. }),
        Kind::Disk(_) | Kind::Volume(_) => true,
        Kind::Memory(_) => false,
    };
    let hot_swap = record.flag("bay.hot_swap").unwrap_or(is_drive);
    let class = VolumeClass { parameters, ..class };
    let (size_bytes, limits) = class.default_volume();
    let parameters = class.parameters(size_bytes, &limits);
    let is_class = class.has_sizes() || class.is_pooled || limit::has_rules(&record);
    let class = is_class.then_some(class);
    let device = Device { name: name.to_owned(), kind, hot_swap, limits };
    let bay = record.word("bay.kind").and_then(Bay::of);
    let power =
        Power { idle_w: record.real("power.idle_w"), active_w: record.real("power.active_w") };
    Ok(DescribedDevice { device, summary, default_host, bay, class, power, parameters })
}

/// Reads the size limits and rate limits of a device, and records violations of their rules. Leaves the field
/// `parameters` empty.
fn class(reader: &mut Reader, record: &Record) -> VolumeClass {
    let class = |sizes_bytes| VolumeClass {
        sizes_bytes,
        is_pooled: record.flag("volume.pooled").unwrap_or(false),
        limits: limit::limits(record),
        parameters: Vec::new(),
    };
    let sizes = record.get("capacity").and_then(|entry| Some((entry, entry.record()?)));
    let Some((entry, sizes)) = sizes else {
        return class([record.whole("capacity").unwrap_or(0); 3]);
    };
    let mut refuse = |message: &str, help: &str| reader.refuse(entry.span.clone(), message, help);
    if record.word("family").is_some_and(|family| family != "volume") {
        refuse("only a cloud volume has a size that can be chosen", "write `is` alone");
        return class([0; 3]);
    }
    let parts = [sizes.whole("at_least"), sizes.whole("is"), sizes.whole("at_most")];
    let [Some(least), Some(default), Some(most)] = parts else {
        let help = "write `{ chosen = \"size\", is = \"500GiB\", at_least = \"1GiB\", at_most = \"16TiB\", from = … }`";
        refuse("a size that can be chosen needs a default and bounds", help);
        return class([0; 3]);
    };
    let class = class([least, default, most]);
    if sizes.word("chosen").is_none() {
        refuse("a size with bounds must be one that users can choose", "add `chosen = \"size\"`");
    } else if !(least <= default && default <= most) {
        refuse(
            "the default size must lie within its bounds",
            "give the key `is` a value between `at_least` and `at_most`",
        );
    } else if !class.has_rate_at_all_sizes() {
        refuse(
            "a limit has no rate for some sizes between `at_least` and `at_most`",
            "extend `by_size` to `at_most`, or raise `at_least`",
        );
    }
    class
}

/// Checks that a flash device is attached in exactly one way.
fn attached_once(reader: &mut Reader, record: &Record) {
    let ways = "`[memory_channel]` or `[link]`";
    match (record.get("memory_channel"), record.get("link")) {
        (None, None) => {
            let help = "use `[memory_channel]` for a device in a memory slot, and `[link]` for a device on SATA, SAS or PCIe";
            reader.refuse(0..0, format!("the table {ways} is missing"), help);
        }
        (Some(_), Some(second)) => {
            let message = format!("a device must be attached in exactly one way: {ways}");
            reader.refuse(second.span.clone(), message, "remove one of them");
        }
        _ => {}
    }
}

fn flash(v: &Record) -> Option<Kind> {
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
            copy_ns: v.whole("controller.copy")?,
            turn_ns: v.whole("controller.turn")?,
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
            unit_bytes: v.whole("translation.unit").map_or(UNIT_BYTES as u32, |bytes| bytes as u32),
            victim: victim(v),
            freed_per_write: v.real("translation.freed_per_write").unwrap_or(1.0),
            stall: stall(v),
        },
        zones: zones(v),
        placement: placement(v),
        power_cut: power_cut(v),
        endurance: Endurance {
            drive_writes_per_day: v.real("endurance.drive_writes_per_day")?,
            years: v.real("endurance.years")?,
            cycles: v.whole("endurance.cycles")? as u32,
        },
        scale: 1,
    })))
}

fn memory_channel(v: &Record) -> Option<Attach> {
    Some(Attach::MemoryChannel {
        devices_per_thread: v.whole("memory_channel.devices_per_thread")? as u32,
        command_ns: v.whole("memory_channel.command")?,
        read_copy_bytes_per_s: v.real("memory_channel.read_copy")?,
        write_copy_bytes_per_s: v.real("memory_channel.write_copy")?,
        poll_ns: v.whole("memory_channel.poll")?,
        poll_crowded_ns: v.whole("memory_channel.poll_crowded")?,
    })
}

fn link(v: &Record) -> Option<Attach> {
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

fn nand(v: &Record) -> Option<Nand> {
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
        variation: variation(v),
        slc: slc(v),
        folding: folding(v),
        parity_stripe: v.whole("nand.parity_stripe")? as u32,
    })
}

fn zones(v: &Record) -> Option<Zones> {
    Some(Zones {
        size_bytes: v.whole("zones.size")?,
        capacity_bytes: v.whole("zones.capacity")?,
        open_max: v.whole("zones.open_max")? as u32,
        active_max: v.whole("zones.active_max")? as u32,
        append_command_ns: v.whole("zones.append_command")?,
        reset_ns: v.whole("zones.reset")?,
        appends: false,
    })
}

fn placement(v: &Record) -> Option<Placement> {
    let word = v.word("placement.isolation");
    let at = Isolation::WORDS.iter().position(|known| Some(*known) == word)?;
    Some(Placement { shares: placement_shares(v)?, isolation: Isolation::ALL[at] })
}

fn power_cut(v: &Record) -> Option<PowerCut> {
    let atomic_bytes = v.whole("power_cut.atomic")? as u32;
    let word = v.word("power_cut.order");
    let at = DurableOrder::WORDS.iter().position(|known| Some(*known) == word);
    Some(PowerCut {
        atomic_bytes,
        order: at.map_or_else(Default::default, |at| DurableOrder::ALL[at]),
    })
}

fn slc(v: &Record) -> Option<Slc> {
    Some(Slc {
        bytes: v.whole("slc.size")?,
        program_ns: v.whole("slc.program")?,
        read_ns: v.whole("slc.read"),
    })
}

fn folding(v: &Record) -> Option<Folding> {
    Some(Folding {
        bits: v.whole("folding.bits")? as u32,
        program_ns: v.whole("folding.program")?,
        share: v.real("folding.share")?,
        pause_ns: v.whole("folding.pause")?,
    })
}

fn variation(v: &Record) -> Option<Variation> {
    Some(Variation {
        page_types: v.whole("variation.page_types")? as u32,
        spread_ns: v.whole("variation.spread")?,
        retried_share: v.real("variation.retried")?,
        retry_ns: v.whole("variation.retry")?,
        suspend_ns: v.whole("variation.suspend").unwrap_or(0),
        suspend_share: v.real("variation.suspend_share").unwrap_or(1.0),
    })
}

fn victim(v: &Record) -> VictimRule {
    let word = v.word("translation.victim");
    let at = VictimRule::WORDS.iter().position(|known| Some(*known) == word);
    at.map_or_else(VictimRule::default, |at| VictimRule::ALL[at])
}

fn stall(v: &Record) -> Option<Stall> {
    Some(Stall { every_bytes: v.whole("stall.every")?, for_ns: v.whole("stall.lasts")? })
}

fn memory(v: &Record) -> Option<Kind> {
    Some(Kind::Memory(Box::new(Memory {
        capacity_bytes: v.whole("capacity")?,
        io_ns: v.whole("memory.io")?,
        read_bytes_per_s: v.real("memory.read")?,
        write_bytes_per_s: v.real("memory.write")?,
        read_passes: v.real("memory.read_passes")?,
        write_passes: v.real("memory.write_passes")?,
        flush_ns: v.whole("memory.flush")?,
        varying_share: v.real("memory.varying").unwrap_or(0.0),
        queues: v.flag("memory.queue").unwrap_or(false),
        protected: v.flag("memory.protected")?,
    })))
}

fn volume(v: &Record, capacity_bytes: u64) -> Option<Kind> {
    Some(Kind::Volume(Box::new(CloudVolume {
        capacity_bytes,
        read_ns: v.whole("volume.read")?,
        write_ns: v.whole("volume.write")?,
        flush_ns: v.whole("volume.flush")?,
        varying_share: v.real("volume.varying")?,
        bytes_per_s: v.real("volume.network")?,
        queue_max: v.whole("volume.queue_max")? as u32,
        io_thread: io_thread(v),
    })))
}

fn io_thread(v: &Record) -> Option<IoThread> {
    Some(IoThread {
        command_ns: v.whole("io_thread.command")?,
        write_command_ns: v.whole("io_thread.write_command"),
        read_bytes_per_s: v.real("io_thread.read_copy")?,
        write_bytes_per_s: v.real("io_thread.write_copy")?,
    })
}

fn disk(v: &Record) -> Option<Kind> {
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
        shingled: shingled(v),
    })))
}

fn shingled(v: &Record) -> Option<Shingled> {
    Some(Shingled {
        band_bytes: v.whole("shingled.band")?,
        cache_bytes: v.whole("shingled.cache")?,
        entries_max: v.whole("shingled.entries")? as u32,
        idle_ns: v.whole("shingled.idle"),
    })
}

fn satf(v: &Record) -> Option<Scheduler> {
    let age_max_ns = v.whole("satf.age_max")?;
    Some(Scheduler::Satf { age_max_ns, window: v.whole("satf.window")? as u32 })
}
