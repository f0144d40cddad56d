//! Options of a cloud volume in the name of a target: `size=500GiB&iops=6000&mbps=250&credits=30s`. `emulate` derives
//! the volume's limits from these options and from the rules of the volume's class.

use crate::{human, parse_duration_ns, parse_percent, parse_size};
use core::fmt;

/// Options of a cloud volume. `None` means the default of the volume's class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeOptions {
    /// Size of the volume, bytes, above 0; `None` for the default of the class.
    pub size_bytes: Option<u64>,
    /// Provisioned operations per second, above 0; `None` for the default of the class.
    pub iops: Option<u64>,
    /// Provisioned throughput, in the provider's unit for the class: MB/s or MiB/s. `None` for the default of the
    /// class.
    pub mbps: Option<u64>,
    /// Whether the volume may burst at any time and for any length (on-demand bursting), instead of using burst
    /// credits.
    pub on_demand: bool,
    /// Burst credits at the start; `None`: the default of the volume's class.
    pub credits: Option<StartCredits>,
}

/// Burst credits that a volume starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StartCredits {
    /// Credits that last for this time at the burst rate, ns.
    LastFor(u64),
    /// Share of the full credit bucket, in millionths: 1 to 1 000 000.
    Share(u32),
}

/// Error of parsing an option of a cloud volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeOptionError {
    /// Problem with the option, as a sentence.
    pub problem: String,
    /// Correction that the user can make, such as `use size=500GiB.`
    pub help: String,
}

/// A full credit bucket, in millionths.
const ALL_PPM: u32 = 1_000_000;

impl VolumeOptions {
    /// Names of the options, as in the name of a target.
    pub const KEYS: [&str; 5] = ["size", "iops", "mbps", "bursting", "credits"];

    /// Parses `text` and sets the option `key`, one of [`Self::KEYS`], to the value.
    ///
    /// # Errors
    /// The text is not a value of the option, or `key` is not an option; see [`VolumeOptionError`].
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), VolumeOptionError> {
        let refused = |problem: String, help: &str| VolumeOptionError {
            problem,
            help: format!("use {help}."),
        };
        let whole = |noun: &str, help: &str| {
            let number = text.parse().ok().filter(|&number: &u64| number > 0);
            number.ok_or_else(|| refused(format!("`{text}` is not {noun}."), help))
        };
        match key {
            "size" => {
                let bytes =
                    parse_size(text).map_err(|e| refused(format!("{e}."), "size=500GiB"))?;
                if bytes == 0 {
                    return Err(refused("its size is 0.".to_owned(), "size=500GiB"));
                }
                self.size_bytes = Some(bytes);
            }
            "iops" => self.iops = Some(whole("a number of operations a second", "iops=6000")?),
            "mbps" => {
                let help = "mbps=250, in the provider's unit";
                self.mbps = Some(whole("a whole throughput", help)?);
            }
            "bursting" if text == "on-demand" => self.on_demand = true,
            "bursting" => {
                let help = "bursting=on-demand, or leave bursting= out";
                return Err(refused(format!("`{text}` is not a kind of bursting."), help));
            }
            "credits" => {
                let problem = format!("`{text}` is not an amount of burst credits.");
                let help = "credits=0, a duration at the burst rate such as credits=30s, or a share such as credits=50%";
                self.credits = Some(credits(text).ok_or_else(|| refused(problem, help))?);
            }
            _ => {
                let help = "size=, iops=, mbps=, bursting= or credits=";
                return Err(refused(format!("`{key}` is not an option of a volume."), help));
            }
        }
        Ok(())
    }
}

fn credits(text: &str) -> Option<StartCredits> {
    if text == "0" {
        return Some(StartCredits::LastFor(0));
    }
    if text.ends_with('%') {
        let ppm = (parse_percent(text).ok()? * f64::from(ALL_PPM)).round() as u32;
        return (1..=ALL_PPM).contains(&ppm).then_some(StartCredits::Share(ppm));
    }
    parse_duration_ns(text).ok().map(StartCredits::LastFor)
}

/// Formats the options as in the name of a target, joined by `&`; empty without options.
impl fmt::Display for VolumeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credits = self.credits.map(|credits| match credits {
            StartCredits::LastFor(0) => "0".to_owned(),
            StartCredits::LastFor(ns) => exact_duration(ns),
            StartCredits::Share(ppm) => human::exact_percent(ppm),
        });
        let pairs = [
            ("size", self.size_bytes.map(human::exact_size)),
            ("iops", self.iops.map(|iops| iops.to_string())),
            ("mbps", self.mbps.map(|mbps| mbps.to_string())),
            ("bursting", self.on_demand.then(|| "on-demand".to_owned())),
            ("credits", credits),
        ];
        let pairs = pairs.into_iter().filter_map(|(key, value)| Some((key, value?)));
        for (number, (key, value)) in pairs.enumerate() {
            let before = if number == 0 { "" } else { "&" };
            write!(f, "{before}{key}={value}")?;
        }
        Ok(())
    }
}

/// Formats a duration exactly, in the largest of the units s, ms, us and ns that divides it.
fn exact_duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units.into_iter().find(|(unit_ns, _)| ns.is_multiple_of(*unit_ns));
    unit.map_or(format!("{ns}ns"), |(unit_ns, name)| format!("{}{name}", ns / unit_ns))
}
