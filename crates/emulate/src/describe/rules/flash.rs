//! Rules that the file of a flash device must satisfy, beyond the limits of each value.

use iodyno_catalog::{Fault, Record};
use iodyno_units::human;

use super::{Rule, exact, fault};
use crate::content_event::UNIT_BYTES;

/// Minimum spare space as a fraction of the writable space. With less, write amplification exceeds
/// 50 and reflects the model rather than the device.
pub(in crate::describe) const SPARE_MIN: f64 = 0.01;
/// Minimum number of blocks per plane, enough for open blocks, free blocks and candidates for garbage collection.
const BLOCKS_PER_PLANE_MIN: u64 = 16;
/// Minimum number of blocks per plane beyond the exported capacity: open blocks, the free reserve,
/// and one spare.
pub(in crate::describe) const SPARE_BLOCKS_MIN: u64 = 6;
/// Maximum size, in bytes, of one program operation and of the copies collected for it.
const PROGRAM_BYTES_MAX: u64 = 32 * UNIT_BYTES;

/// Rules that the file of a flash device must satisfy.
pub(in crate::describe) const FLASH: &[Rule] = &[
    Rule {
        name: "capacity-units",
        check: |v| {
            let capacity = v.whole("capacity")?;
            if capacity.is_multiple_of(UNIT_BYTES) {
                return None;
            }
            let help = format!(
                "the next multiple is \"{}\"",
                exact(capacity.next_multiple_of(UNIT_BYTES))
            );
            Some(fault(
                "capacity",
                "the capacity of a flash device must be a multiple of 4 KiB".to_owned(),
                help,
            ))
        },
    },
    Rule {
        name: "page",
        check: |v| {
            let page = v.whole("nand.page")?;
            if page.is_power_of_two() && page >= UNIT_BYTES {
                return None;
            }
            let message = "a flash page must be a power of two, and at least 4 KiB";
            Some(fault(
                "nand.page",
                message.to_owned(),
                "\"8KiB\" and \"16KiB\" are usual".to_owned(),
            ))
        },
    },
    Rule {
        name: "program-size",
        check: |v| {
            let program = v.whole("nand.planes")? * v.whole("nand.page")?;
            if program <= PROGRAM_BYTES_MAX {
                return None;
            }
            let message = format!(
                "one program operation writes {}, a page on each plane of a die; the maximum is {}",
                human::size(program),
                human::size(PROGRAM_BYTES_MAX)
            );
            let help = "if the planes of a die work independently, describe each as a die";
            Some(fault("nand.planes", message, help.to_owned()))
        },
    },
    Rule {
        name: "whole-blocks",
        check: |v| {
            let raw = v.whole("nand.raw")?;
            let row = row_bytes(v)?;
            if raw.is_multiple_of(row) {
                return None;
            }
            let message = format!(
                "the raw space must be a multiple of one block on every plane of every die, {}",
                human::size(row)
            );
            let help = format!("the next multiple is \"{}\"", exact(raw.next_multiple_of(row)));
            Some(fault("nand.raw", message, help))
        },
    },
    Rule {
        name: "enough-blocks",
        check: |v| {
            let blocks = v.whole("nand.raw")? / row_bytes(v)?;
            if blocks >= BLOCKS_PER_PLANE_MIN {
                return None;
            }
            let message = format!(
                "{blocks} blocks on each plane are too few for garbage collection: the minimum is \
                 {BLOCKS_PER_PLANE_MIN}"
            );
            let help = "fewer dies, fewer planes or smaller blocks give more blocks per plane";
            Some(fault("nand.raw", message, help.to_owned()))
        },
    },
    Rule {
        name: "raw-above-capacity",
        check: |v| {
            let (raw, capacity) = (v.whole("nand.raw")?, stored_bytes(v)?);
            if raw > capacity {
                return None;
            }
            let message = format!(
                "the raw space, {}, must be larger than the capacity, {}",
                human::size(raw),
                human::size(capacity)
            );
            Some(fault(
                "nand.raw",
                message,
                "400 GB are usually built from 512 GiB of NAND".to_owned(),
            ))
        },
    },
    Rule {
        name: "spare",
        check: |v| {
            let (raw, capacity) = (v.whole("nand.raw")?, stored_bytes(v)?);
            let spare = spare(v)?;
            if raw <= capacity || spare >= SPARE_MIN {
                return None;
            }
            let message = format!(
                "with {} of unreserved raw space, only {:.1} % is spare for writes; the minimum is {} %",
                human::size(usable_bytes(v)?),
                (spare * 100.0).max(0.0),
                SPARE_MIN * 100.0
            );
            let most = 1.0 - capacity as f64 / (1.0 - SPARE_MIN) / raw as f64;
            let help = if most > 0.0 {
                format!("reserve at most {:.1}% of this raw space", most * 1e3 / 10.0)
            } else {
                "more raw space gives more spare".to_owned()
            };
            Some(fault("translation.reserved", message, help))
        },
    },
    Rule {
        name: "spare-blocks",
        check: |v| {
            let (raw, row) = (v.whole("nand.raw")?, row_bytes(v)?);
            let usable = usable_bytes(v)? / row;
            let needed = stored_bytes(v)?.div_ceil(row) + SPARE_BLOCKS_MIN;
            // Other rules report a shortage of raw or spare space.
            let others = raw / row < BLOCKS_PER_PLANE_MIN || spare(v)? < SPARE_MIN;
            if usable >= needed || others {
                return None;
            }
            let message = format!(
                "each plane has only {usable} blocks that are not reserved, too few for this \
                 capacity: the minimum is {needed}, of which {SPARE_BLOCKS_MIN} are open, free or \
                 spare"
            );
            let help = "smaller blocks waste less of the space; more raw space gives more blocks";
            Some(fault("nand.pages_per_block", message, help.to_owned()))
        },
    },
    Rule {
        name: "program-order",
        check: |v| {
            let (fast, slow) = (v.whole("nand.program_fast")?, v.whole("nand.program_slow")?);
            if fast <= slow {
                return None;
            }
            let message = "a fast page must not take longer to program than a slow page";
            let help = "for NAND with only one kind of page, use the same time for both";
            Some(fault("nand.program_fast", message.to_owned(), help.to_owned()))
        },
    },
    Rule {
        name: "lanes",
        check: |v| {
            let (lanes, channels) = (v.whole("controller.lanes")?, v.whole("nand.channels")?);
            if channels.is_multiple_of(lanes) {
                return None;
            }
            let channels = human::counted(channels, "channel");
            let message = format!("{channels} can't be divided among {lanes} lanes");
            Some(fault("controller.lanes", message, "one lane is always valid".to_owned()))
        },
    },
    Rule { name: "commands-by-thread", check: |v| by_thread(v, "controller.read_command") },
    Rule { name: "commands-by-thread", check: |v| by_thread(v, "controller.write_command") },
    Rule { name: "commands-by-thread", check: |v| by_thread(v, "controller.copy") },
    Rule { name: "commands-by-thread", check: |v| by_thread(v, "controller.turn") },
    Rule {
        name: "parity-stripe",
        check: |v| {
            let stripe = v.whole("nand.parity_stripe")?;
            let planes = planes(v)?;
            if stripe < planes {
                return None;
            }
            let message = format!(
                "a stripe of {stripe} data pages and 1 parity page needs more than {planes} planes"
            );
            Some(fault(
                "nand.parity_stripe",
                message,
                "use 0 for a device without parity".to_owned(),
            ))
        },
    },
    Rule {
        name: "slc-in-raw",
        check: |v| {
            let (slc, raw) = (v.whole("slc.size")?, v.whole("nand.raw")?);
            if slc < raw {
                return None;
            }
            Some(fault(
                "slc.size",
                "the SLC cache must be smaller than the raw space".to_owned(),
                None,
            ))
        },
    },
    Rule {
        name: "translation-unit",
        check: |v| {
            let unit = v.whole("translation.unit")?;
            let program = v.whole("nand.planes")? * v.whole("nand.page")?;
            if unit.is_power_of_two() && unit <= program {
                return None;
            }
            let message = format!(
                "a mapping unit must be a power of two, and at most one program operation, {} (a page on each plane of a die)",
                human::size(program)
            );
            Some(fault("translation.unit", message, None))
        },
    },
    Rule {
        name: "power-cut-atomic",
        check: |v| {
            if v.whole("power_cut.atomic")?.is_power_of_two() {
                return None;
            }
            let message = "the size of an atomic block must be a power of two";
            Some(fault("power_cut.atomic", message.to_owned(), None))
        },
    },
    Rule {
        name: "power-cut-alone",
        check: |v| {
            let others: &[&str] = if v.flag("buffer.protected")? {
                &["zones.size"]
            } else {
                &["zones.size", "placement.isolation", "translation.unit"]
            };
            v.get("power_cut")?;
            let other = others.iter().find(|key| v.get(key).is_some())?;
            let is_zoned = *other == "zones.size";
            let unless = if is_zoned { "" } else { " unless the buffer is protected" };
            let message = format!("`[power_cut]` is not modelled together with `{other}`{unless}");
            Some(fault(other, message, "remove one of them".to_owned()))
        },
    },
    Rule {
        name: "folding-slc",
        check: |v| {
            v.whole("folding.bits")?;
            if v.get("slc").is_some() {
                return None;
            }
            let message = "`[folding]` empties an SLC cache, which this device lacks";
            Some(fault("folding.bits", message.to_owned(), "add `[slc]`".to_owned()))
        },
    },
    Rule {
        name: "buffer",
        check: |v| {
            let buffer = v.whole("buffer.size")?;
            let program = v.whole("nand.planes")? * v.whole("nand.page")?;
            if buffer >= program {
                return None;
            }
            let message = format!(
                "the buffer must hold at least one program operation, {} (a page on each plane of a die)",
                human::size(program)
            );
            Some(fault("buffer.size", message, None))
        },
    },
    Rule {
        name: "zone-size",
        check: |v| {
            let (size, capacity) = (v.whole("zones.size")?, v.whole("capacity")?);
            let writable = v.whole("zones.capacity")?;
            let (message, help) = if !capacity.is_multiple_of(size) {
                let next = exact(capacity.next_multiple_of(size));
                let message = "the capacity of the device must be a multiple of the zone size";
                (message, format!("the next multiple is \"{next}\""))
            } else if writable > size {
                let message = "the capacity of a zone must not exceed the zone size";
                (message, format!("the capacity is \"{}\"", exact(writable)))
            } else {
                return None;
            };
            Some(fault("zones.size", message.to_owned(), help))
        },
    },
    Rule {
        name: "zone-blocks",
        check: |v| {
            let (writable, row) = (v.whole("zones.capacity")?, row_bytes(v)?);
            if writable.is_multiple_of(row) {
                return None;
            }
            let message = format!(
                "a zone is erased as a whole, so its capacity must be a multiple of one block on every plane of every die, {}",
                human::size(row)
            );
            let help =
                format!("the next multiple is \"{}\"", exact(writable.next_multiple_of(row)));
            Some(fault("zones.capacity", message, help))
        },
    },
    Rule {
        name: "zone-limits",
        check: |v| {
            if v.whole("zones.open_max")? <= v.whole("zones.active_max")? {
                return None;
            }
            let message = "the limit of active zones must be at least that of open zones, since each open zone is active";
            Some(fault("zones.active_max", message.to_owned(), None))
        },
    },
    Rule {
        name: "zone-buffer",
        check: |v| {
            let program = v.whole("nand.planes")? * v.whole("nand.page")?;
            let needed = (v.whole("zones.active_max")? + 1) * program;
            if v.flag("buffer.protected")? && v.whole("buffer.size")? >= needed {
                return None;
            }
            let message = format!(
                "the buffer must be protected and hold at least {}: one program operation for each active zone, and one more",
                human::size(needed)
            );
            Some(fault("buffer.size", message, None))
        },
    },
    Rule {
        name: "zones-alone",
        check: |v| {
            v.whole("zones.size")?;
            let other =
                ["slc.size", "translation.unit"].into_iter().find(|key| v.get(key).is_some())?;
            let message = format!(
                "a zoned device can't have an SLC cache or a mapping unit: remove `{other}`"
            );
            Some(fault(other, message, None))
        },
    },
    Rule {
        name: "poll",
        check: |v| {
            let alone = v.whole("memory_channel.poll")?;
            let crowded = v.whole("memory_channel.poll_crowded")?;
            if alone <= crowded {
                return None;
            }
            let message = "a driver thread on a crowded socket must not poll more often than a thread with its own core";
            Some(fault("memory_channel.poll_crowded", message.to_owned(), None))
        },
    },
];

/// Checks that a controller behind a memory channel has no command time: a driver thread accepts
/// its commands, so the time would have no effect.
fn by_thread(v: &Record, path: &str) -> Option<Fault> {
    v.whole("memory_channel.command")?;
    if v.whole(path)? == 0 {
        return None;
    }
    let message = "on a memory channel the driver thread handles commands, so the controller must not take time for them";
    let help = "use `\"0ns\"`, and give the thread's time as `memory_channel.command`";
    Some(fault(path, message.to_owned(), help.to_owned()))
}

/// Returns the number of planes of the whole device.
fn planes(v: &Record) -> Option<u64> {
    Some(v.whole("nand.channels")? * v.whole("nand.dies_per_channel")? * v.whole("nand.planes")?)
}

/// Returns the raw capacity in bytes without the reserved fraction.
pub(super) fn usable_bytes(v: &Record) -> Option<u64> {
    Some((v.whole("nand.raw")? as f64 * (1.0 - v.real("translation.reserved")?)) as u64)
}

/// Returns the space for data, in bytes: the capacity or, for a zoned device, the writable bytes of all zones and of
/// one more zone.
fn stored_bytes(v: &Record) -> Option<u64> {
    let capacity = v.whole("capacity")?;
    if v.get("zones.size").is_none() && v.get("zones.capacity").is_none() {
        return Some(capacity);
    }
    Some((capacity / v.whole("zones.size")? + 1) * v.whole("zones.capacity")?)
}

/// Returns the fraction of the usable bytes that is spare; negative if the exported capacity
/// exceeds them.
fn spare(v: &Record) -> Option<f64> {
    Some(1.0 - stored_bytes(v)? as f64 / usable_bytes(v)? as f64)
}

/// Returns the total size in bytes of one block on every plane.
pub(super) fn row_bytes(v: &Record) -> Option<u64> {
    Some(planes(v)? * v.whole("nand.page")? * v.whole("nand.pages_per_block")?)
}
