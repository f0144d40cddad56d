//! The named rules: constraints between the values of a device or system file, and on the flash DIMMs in a system. A
//! rule is skipped if one of its values is missing or invalid, so one wrong value does not hide other errors.
//!
//! The population rules are those of the study of flash DIMMs (Lenovo Press REDP-5188).

mod flash;
mod placement;

use iodyno_catalog::{Fault, Record};
use iodyno_units::human;

use crate::disk::{Excess, Platters};
use crate::spec::{Attach, Device, Host, Kind, MemoryKind, MemoryMode};
pub(super) use flash::{FLASH, SPARE_BLOCKS_MIN, SPARE_MIN};
pub(super) use placement::{PLACEMENT, shares as placement_shares};

/// Maximum number of devices in a system.
pub(super) const VOLUMES_MAX: usize = 1024;

/// A named rule for the values of a file. `check` returns `None` if the rule is met or one of its
/// values is missing.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) check: fn(&Record) -> Option<Fault>,
}

pub(super) fn fault(path: &str, message: String, help: impl Into<Option<String>>) -> Fault {
    Fault { path: path.to_owned(), message, help: help.into() }
}

/// Formats a size in the notation of device files, such as `64KiB`: in the largest binary unit that represents it
/// exactly.
fn exact(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit));
    whole.map_or(format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// Rules that the file of a rotating disk must satisfy.
pub(super) const DISK: &[Rule] = &[
    Rule { name: "capacity-sectors", check: whole_sectors },
    Rule {
        name: "outer-above-inner",
        check: |v| {
            if v.real("platters.inner")? <= v.real("platters.outer")? {
                return None;
            }
            let message = "the innermost zone must not be faster than the outermost zone, whose tracks are longer";
            Some(fault("platters.inner", message.to_owned(), None))
        },
    },
    Rule {
        name: "seek-curve",
        check: |v| {
            // The curve a + b sqrt(x) + c x through the three times must rise everywhere.
            let (least, average) = (v.whole("seek.track_to_track")?, v.whole("seek.average")?);
            let most = v.whole("seek.full_stroke")?;
            let Some(rise) = most.checked_sub(least) else {
                let message =
                    "a seek over all tracks must not take less time than a seek to the next track";
                return Some(fault("seek.full_stroke", message.to_owned(), None));
            };
            let (low, high) = (least + rise.div_ceil(3), least + rise * 11 / 15);
            if (low..=high).contains(&average) {
                return None;
            }
            let message = "this average is impossible for a seek curve that rises with distance";
            let help = format!(
                "for seek times from {} to {}, the average must be {} to {}",
                human::time_ns(least as f64),
                human::time_ns(most as f64),
                human::time_ns(low as f64),
                human::time_ns(high as f64)
            );
            Some(fault("seek.average", message.to_owned(), help))
        },
    },
    Rule { name: "shingled-sectors", check: shingled_sectors },
    Rule {
        name: "media-cache",
        check: |v| {
            if v.whole("shingled.cache")? >= v.whole("shingled.band")? {
                return None;
            }
            let message = "the media cache must hold at least one band";
            Some(fault("shingled.cache", message.to_owned(), None))
        },
    },
    Rule { name: "platters", check: platters },
];

/// Requires tracks and cylinders whose angles the emulator can represent.
fn platters(v: &Record) -> Option<Fault> {
    let platters = Platters {
        bytes: v.whole("capacity")? + v.whole("shingled.cache").unwrap_or(0),
        rpm: v.whole("platters.rpm")?,
        heads: v.whole("platters.heads")?,
        zones: v.whole("platters.zones")?,
        outer_bytes_per_s: v.real("platters.outer")?,
        inner_bytes_per_s: v.real("platters.inner")?,
        head_switch_ns: v.whole("platters.head_switch")?,
        cylinder_switch_ns: v.whole("platters.cylinder_switch")?,
    };
    let excess = platters.check().err()?;
    let (path, help) = match excess {
        Excess::TrackBytes(_) => ("platters.outer", "lower `outer`, or raise `rpm`"),
        Excess::Cylinders(_) => ("capacity", "raise `outer`, `inner` or `heads`"),
    };
    Some(fault(path, excess.message(), help.to_owned()))
}

/// Requires that the bands and the media cache of a shingled disk consist of 4 KiB sectors.
fn shingled_sectors(v: &Record) -> Option<Fault> {
    let mut sizes = ["shingled.band", "shingled.cache"].into_iter();
    let (path, bytes) =
        sizes.find_map(|path| Some((path, v.whole(path).filter(|b| !b.is_multiple_of(4096))?)))?;
    let help = format!("the next multiple is \"{}\"", exact(bytes.next_multiple_of(4096)));
    Some(fault(path, "this size must be a multiple of 4 KiB".to_owned(), help))
}

/// Rules that the files of memory devices and cloud volumes must satisfy.
pub(super) const WHOLE_SECTORS: &[Rule] =
    &[Rule { name: "capacity-sectors", check: whole_sectors }];

fn whole_sectors(v: &Record) -> Option<Fault> {
    let capacity = v.whole("capacity")?;
    if capacity.is_multiple_of(512) {
        return None;
    }
    let help = format!("the next multiple is \"{}\"", exact(capacity.next_multiple_of(512)));
    Some(fault("capacity", "the capacity of a device must be a multiple of 512 B".to_owned(), help))
}

/// Rules that a system file must satisfy.
pub(super) const SYSTEM: &[Rule] = &[
    Rule {
        name: "memory-bandwidth",
        check: |v| {
            let socket = v.real("host.memory")?;
            let channels = v.whole("slots.channels_per_socket")?;
            let most = v.real("host.memory_channel")? * channels as f64;
            // Tolerates the rounding of data sheets.
            if socket <= most * 1.01 {
                return None;
            }
            let message = format!(
                "the memory of a socket can't reach {}: its {channels} channels together reach {}",
                human::throughput(socket),
                human::throughput(most)
            );
            Some(fault("host.memory", message, None))
        },
    },
    Rule {
        name: "unbalanced",
        check: |v| {
            if v.real("host.unbalanced")? > 0.0 {
                return None;
            }
            let message = "an unbalanced channel must have some bandwidth left";
            Some(fault(
                "host.unbalanced",
                message.to_owned(),
                "use `\"100%\"` for no loss".to_owned(),
            ))
        },
    },
];

/// A violated rule about which devices and adapters a system accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleBroken {
    /// Name of the rule, such as `rdimms-only`.
    pub rule: &'static str,
    /// Key of the system file that the rule concerns, such as `slots.memory_kind`.
    pub path: &'static str,
    /// Error message, in one sentence.
    pub message: String,
}

impl std::fmt::Display for RuleBroken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (rule `{}`)", self.message, self.rule)
    }
}

impl std::error::Error for RuleBroken {}

/// A rule that checks whether a host can contain its flash DIMMs.
pub(super) struct Population {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) check: fn(&Host, &[&Device]) -> Option<String>,
}

/// The rules for hosts with flash DIMMs.
pub(super) const FLASH_DIMMS: &[Population] = &[
    Population {
        name: "flash-dimm-slots",
        path: "slots.flash_dimms_per_socket",
        check: |host, dimms| {
            let per_socket = host.slots.flash_dimms_per_socket;
            let most = per_socket as usize * host.sockets as usize;
            (dimms.len() > most).then(|| match most {
                0 => "this system has no slots for flash DIMMs".to_owned(),
                _ => format!(
                    "{} flash DIMMs are too many for this system, which has slots for {most}, {per_socket} on each socket",
                    dimms.len()
                ),
            })
        },
    },
    Population {
        name: "one-flash-dimm-per-channel",
        path: "slots.channels_per_socket",
        check: |host, dimms| {
            let channels = host.slots.channels_per_socket;
            let busiest = dimms.len().div_ceil(host.sockets.max(1) as usize);
            (busiest > channels as usize).then(|| {
                format!(
                    "{busiest} flash DIMMs on one socket with {channels} memory channels: each \
                     channel can have at most one"
                )
            })
        },
    },
    Population {
        name: "rdimm-beside-flash-dimm",
        path: "slots.rdimms_per_channel",
        check: |host, _| {
            (host.slots.rdimms_per_channel == 0).then(|| {
                "a flash DIMM needs at least one RDIMM in its memory channel, and there is none"
                    .to_owned()
            })
        },
    },
    Population {
        name: "rdimms-only",
        path: "slots.memory_kind",
        check: |host, _| {
            let kind = match host.slots.memory_kind {
                MemoryKind::Rdimm => return None,
                MemoryKind::Lrdimm => "LRDIMMs",
                MemoryKind::Udimm => "UDIMMs",
            };
            Some(format!("flash DIMMs work only together with RDIMMs; this system has {kind}"))
        },
    },
    Population {
        name: "independent-mode-only",
        path: "slots.memory_mode",
        check: |host, _| {
            let mode = match host.slots.memory_mode {
                MemoryMode::Independent => return None,
                MemoryMode::Lockstep => "lockstep",
                MemoryMode::Sparing => "sparing",
                MemoryMode::Mirroring => "mirroring",
            };
            Some(format!(
                "flash DIMMs need memory channels in independent mode; this system has {mode}"
            ))
        },
    },
    Population {
        name: "one-flash-dimm-capacity",
        path: "volumes",
        check: |_, dimms| {
            let first = dimms.first()?;
            let other = dimms.iter().find(|d| d.capacity_bytes() != first.capacity_bytes())?;
            Some(format!(
                "all flash DIMMs of a server must have the same capacity, but `{}` and `{}` differ",
                first.name, other.name
            ))
        },
    },
];

/// Returns whether a device is flash on a memory channel.
pub(super) fn is_flash_dimm(device: &Device) -> bool {
    matches!(&device.kind, Kind::Flash(f) if matches!(f.attach, Attach::MemoryChannel { .. }))
}
