//! Names of emulated storage. The general form is `model:DEVICE[*N][@SYSTEM][?OPTIONS]`, or `live:` for real time. An
//! array can replace the device. `model:SYSTEM` names a system that lists its own volumes. The catalog decides whether
//! the first word is a device or a system.
//!
//! ```text
//! model:exflash-400g                         one device in its default system
//! model:exflash-400g*32@x3850-x6             32 of them in one server
//! model:raid5(ssd-sas12-mlc-800g*8)@rtp      an array of 8 of them, one volume; `*2` after it: two such arrays
//! model:raid1(raid0(ssd-sas12-mlc-800g*8)*2) an array of two such arrays, one volume
//! model:./mine.toml?state=random:16KiB       a description in a file, in a chosen state
//! model:ebs-gp3?size=500GiB&iops=6000        a cloud volume
//! ```
//!
//! | option | values |
//! |---|---|
//! | `state` | `auto` (as the measured workload leaves the device), `fresh`, `sequential`, `random`, `random:16KiB` |
//! | `fill` | the share of the capacity written beforehand: `50%`; default `100%` |
//! | `occupancy` | `max`: one driver thread per flash DIMM; `shared`: the device's description decides |
//! | `cache` | `off`: the write cache of the system's RAID adapters is off; default: as in the system's file |
//! | `workers` | `near` (on the CPU socket of their device) or `anywhere`; default: the system decides |
//! | `size`, `iops`, `mbps`, `bursting`, `credits` | of a cloud volume: see [`VolumeOptions`] |

use core::fmt;

use iodyno_units::human::exact_percent;
use iodyno_units::{
    Precondition, PreconditionError, VolumeOptionError, VolumeOptions, parse_percent,
};

use super::array::{ArrayName, Taken};
use super::{MODEL_COUNT_MAX, TargetError, bad, once_each};

/// Fill of 100 %, in millionths.
const FILL_ALL_PPM: u32 = 1_000_000;

const FORMS: &str = "use model:exflash-400g, model:exflash-400g*32@x3850-x6, or a path in place \
                     of either name, such as model:./mine.toml.";

/// Description of emulated storage in a target's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelName {
    /// True: emulation in real time (`live:`). False: in virtual time (`model:`).
    pub live: bool,
    /// Emulated device, or system that lists its own volumes, as a name in the catalog or the path of a description
    /// file.
    pub what: String,
    /// Nested arrays, innermost first. If empty, each device is a volume.
    pub arrays: Vec<ArrayName>,
    /// Number of devices, or of outermost arrays; 1 to [`MODEL_COUNT_MAX`].
    pub count: u32,
    /// System that contains the devices, as a name in the catalog or the path of a description file. `None`: the
    /// default system of the device.
    pub system: Option<String>,
    /// State of the devices before the run, such as fresh or written at random.
    pub state: Precondition,
    /// Fraction of the capacity written before the run, in millionths: 1 to 1 000 000.
    pub fill_ppm: u32,
    /// True: one driver thread per flash DIMM. False: the device's description sets the number of threads.
    pub max_occupancy: bool,
    /// True if the write cache of the system's RAID adapters is turned off.
    pub cache_off: bool,
    /// True: workers run on the CPU socket of their device. False: on any socket. `None`: the host's default.
    pub workers_near: Option<bool>,
    /// Size, provisioned rates and burst credits of cloud volumes.
    pub volume: VolumeOptions,
}

impl ModelName {
    /// Parses `rest`, the part of a name after `model:` or `live:`. `name` is the whole name, for error messages.
    pub(super) fn parse(name: &str, rest: &str, live: bool) -> Result<Self, TargetError> {
        let (body, query) = rest.rsplit_once('?').unwrap_or((rest, ""));
        let (body, system) = match body.split_once('@') {
            Some((body, system)) => (body, Some(system)),
            None => (body, None),
        };
        let taken = ArrayName::take(name, body)?.unwrap_or_else(|| {
            let (device, after) = body.split_at(body.find('*').unwrap_or(body.len()));
            Taken { arrays: Vec::new(), device, after }
        });
        let Taken { arrays, device: what, after: count } = taken;
        let count = match count.strip_prefix('*') {
            Some(count) => parse_count(name, count)?,
            None if count.is_empty() => 1,
            None => return bad(name, format!("`{count}` after the array is not valid."), FORMS),
        };
        if what.is_empty() {
            return bad(name, "the name of the device or system is missing.", FORMS);
        }
        if system == Some("") {
            return bad(name, "no system follows the `@`.", FORMS);
        }
        for part in [Some(what), system].into_iter().flatten() {
            if let Some(c) = part.chars().find(|c| "*@?#\0".contains(*c)) {
                return bad(
                    name,
                    format!("`{part}` can't contain `{}`.", c.escape_debug()),
                    format!(
                        "{FORMS} To use a file whose path has such a character, name a symbolic link to it."
                    ),
                );
            }
        }
        let mut model = Self {
            live,
            what: what.to_owned(),
            arrays,
            count,
            system: system.map(str::to_owned),
            state: Precondition::Workload,
            fill_ppm: FILL_ALL_PPM,
            max_occupancy: false,
            cache_off: false,
            workers_near: None,
            volume: VolumeOptions::default(),
        };
        once_each(name, query)?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            model.set(name, pair)?;
        }
        if model.state == Precondition::Fresh && model.fill_ppm != FILL_ALL_PPM {
            return bad(
                name,
                "`state=fresh` means an empty device, which contradicts `fill=`.",
                "leave fill= out, or use another state, such as state=sequential&fill=50%.",
            );
        }
        Ok(model)
    }

    /// Sets one option of the target; `pair` is its text, such as `fill=50%`.
    fn set(&mut self, name: &str, pair: &str) -> Result<(), TargetError> {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (key, value) {
            ("state", _) => match Precondition::parse(value) {
                Err(PreconditionError { problem, help }) => return bad(name, problem, help),
                Ok(state) => self.state = state,
            },
            ("fill", _) => match parse_percent(value) {
                Err(error) => return bad(name, "its fill is not valid.", format!("{error}.")),
                Ok(share) => {
                    self.fill_ppm = (share * f64::from(FILL_ALL_PPM)).round() as u32;
                    if self.fill_ppm == 0 {
                        return bad(name, "a fill must be above 0%.", "use `state=fresh`.");
                    }
                }
            },
            ("occupancy", "max") => self.max_occupancy = true,
            ("occupancy", "shared") => self.max_occupancy = false,
            ("cache", "off") => self.cache_off = true,
            ("cache", "on") => self.cache_off = false,
            ("workers", "near") => self.workers_near = Some(true),
            ("workers", "anywhere") => self.workers_near = Some(false),
            _ if VolumeOptions::KEYS.contains(&key) => {
                if let Err(VolumeOptionError { problem, help }) = self.volume.set(key, value) {
                    return bad(name, problem, help);
                }
            }
            ("occupancy", _) => {
                return bad(
                    name,
                    format!("`{pair}` is not a valid option."),
                    "use occupancy=max for one driver thread per flash DIMM, or \
                     occupancy=shared for the number in the device's file.",
                );
            }
            ("cache", _) => {
                return bad(
                    name,
                    format!("`{pair}` is not a valid option."),
                    "use cache=off to turn the write cache of the system's adapters off, or cache=on.",
                );
            }
            ("workers", _) => {
                return bad(
                    name,
                    format!("`{pair}` is not a valid option."),
                    "use workers=near to run the workers on their device's socket, or workers=anywhere.",
                );
            }
            _ => {
                return bad(
                    name,
                    format!("`{key}` is not an option of emulated storage."),
                    "after `?` give state=, fill=, occupancy=, cache= or workers=, and for a cloud volume \
                     size=, iops=, mbps=, bursting= or credits=, joined by `&`, such as \
                     ?state=random:16KiB&fill=50%.",
                );
            }
        }
        Ok(())
    }

    /// Fraction of the capacity written before the run, above 0 and at most 1.
    pub fn fill(&self) -> f64 {
        f64::from(self.fill_ppm) / f64::from(FILL_ALL_PPM)
    }

    /// Name of one volume, as shown in results: `model:exflash-400g#2` for `number` 2. Volumes count from 1; `None` if
    /// the target has only one.
    pub fn volume(&self, number: Option<u32>) -> String {
        let number = number.map_or(String::new(), |number| format!("#{number}"));
        self.text(&number)
    }

    /// Canonical form of the name. `suffix`, a count or volume number, follows the first part.
    fn text(&self, suffix: &str) -> String {
        let scheme = if self.live { "live" } else { "model" };
        let what = self.arrays.iter().fold(self.what.clone(), |what, array| array.text(&what));
        let mut text = format!("{scheme}:{what}{suffix}");
        if let Some(system) = &self.system {
            text.push('@');
            text.push_str(system);
        }
        let mut options = Vec::new();
        if self.volume != VolumeOptions::default() {
            options.push(self.volume.to_string());
        }
        if self.state != Precondition::Workload {
            options.push(format!("state={}", self.state));
        }
        if self.fill_ppm != FILL_ALL_PPM {
            options.push(format!("fill={}", exact_percent(self.fill_ppm)));
        }
        if self.max_occupancy {
            options.push("occupancy=max".to_owned());
        }
        if self.cache_off {
            options.push("cache=off".to_owned());
        }
        match self.workers_near {
            None => {}
            Some(true) => options.push("workers=near".to_owned()),
            Some(false) => options.push("workers=anywhere".to_owned()),
        }
        if !options.is_empty() {
            text.push('?');
            text.push_str(&options.join("&"));
        }
        text
    }
}

fn parse_count(name: &str, text: &str) -> Result<u32, TargetError> {
    match text.parse() {
        Ok(count @ 1..=MODEL_COUNT_MAX) => Ok(count),
        _ => bad(
            name,
            format!("`*{text}` is not a number of devices."),
            format!("use a number from 1 to {MODEL_COUNT_MAX}, such as model:exflash-400g*32."),
        ),
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = if self.count == 1 { String::new() } else { format!("*{}", self.count) };
        f.write_str(&self.text(&count))
    }
}
