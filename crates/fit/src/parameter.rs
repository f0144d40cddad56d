//! The parameters that a fit estimates, for each family of devices: their keys in the device file, and their fields
//! in the emulator's device. All are positive, and a fit works on their logarithms. Structure (numbers of channels,
//! dies, planes and heads, sizes of pages) is not fitted: it comes from the device that the fit starts from.

use iodyno_emulate::spec::{Attach, Counted, Device, Kind};
use iodyno_units::human;

/// Unit of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, for times.
    Ns,
    /// Bytes per second, for throughput.
    BytesPerS,
    /// Operations per second, for rates.
    OpsPerS,
    /// Revolutions per minute, for a disk's rotation.
    Rpm,
    /// A fraction from 0 to 1.
    Share,
}

impl Unit {
    /// Name of the unit in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::BytesPerS => "bytes_per_s",
            Self::OpsPerS => "ops_per_s",
            Self::Rpm => "rpm",
            Self::Share => "share",
        }
    }

    /// Formats a value for display, such as `73.2 µs`.
    pub fn human(self, value: f64) -> String {
        match self {
            Self::Ns => human::time_ns(value),
            Self::BytesPerS => human::throughput(value),
            Self::OpsPerS => format!("{}/s", human::count(value)),
            Self::Rpm => format!("{value:.0} rpm"),
            Self::Share => human::percent(value, 1),
        }
    }

    /// Formats a value for a device file, such as `"73.2us"`.
    pub(crate) fn toml(self, value: f64) -> String {
        match self {
            Self::Ns if value >= 1e6 => format!("\"{:.4}ms\"", value / 1e6),
            Self::Ns if value >= 1e3 => format!("\"{:.3}us\"", value / 1e3),
            Self::Ns => format!("\"{value:.0}ns\""),
            Self::BytesPerS => format!("\"{:.2} MB/s\"", value / 1e6),
            Self::OpsPerS | Self::Rpm => format!("{value:.0}"),
            Self::Share => format!("\"{:.2}%\"", value * 100.0),
        }
    }
}

/// A device parameter that a fit can estimate.
#[derive(Clone, Copy)]
pub struct Parameter {
    /// Key in the device file, such as `nand.read`.
    pub key: &'static str,
    /// Unit of its value in the device file.
    pub unit: Unit,
    /// Smallest and largest value that a fit tries.
    pub bounds: (f64, f64),
    place: fn(&mut Device) -> Option<Place<'_>>,
}

impl core::fmt::Debug for Parameter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.key)
    }
}

/// Reference to a parameter's field in a device, by the type of the field.
enum Place<'a> {
    Whole(&'a mut u64),
    Small(&'a mut u32),
    Real(&'a mut f64),
    /// Program times of fast and slow pages, whose ratio is kept.
    Both(&'a mut u64, &'a mut u64),
}

impl Parameter {
    /// The parameter's value in `device`; `None` if the device lacks the parameter or the value is 0.
    pub fn of(&self, device: &Device) -> Option<f64> {
        let mut device = device.clone();
        let value = match (self.place)(&mut device)? {
            Place::Whole(n) | Place::Both(n, _) => *n as f64,
            Place::Small(n) => f64::from(*n),
            Place::Real(x) => *x,
        };
        (value > 0.0).then_some(value)
    }

    /// Widens an interval to the values that a device file rounds to the same whole number as `at`. `at` is a
    /// logarithm, `sides` are distances from it as differences of logarithms.
    pub(crate) fn at_least_one_step(&self, at: f64, sides: (f64, f64)) -> (f64, f64) {
        if matches!(self.unit, Unit::BytesPerS | Unit::Share) {
            return sides;
        }
        let whole = at.exp().round().max(1.0);
        (sides.0.max(at - (whole - 0.5).ln()), sides.1.max((whole + 0.5).ln() - at))
    }

    /// Whether the parameter is the rate of a limit.
    pub(crate) fn is_limit(&self) -> bool {
        self.key.ends_with("_limit.rate")
    }

    /// Sets the parameter in `device` to `value`, rounded if the field is an integer. A no-op if the device lacks the
    /// parameter.
    pub fn set(&self, device: &mut Device, value: f64) {
        match (self.place)(device) {
            Some(Place::Whole(n)) => *n = value.round() as u64,
            Some(Place::Small(n)) => *n = value.round() as u32,
            Some(Place::Real(x)) => *x = value,
            Some(Place::Both(fast, slow)) => {
                let ratio = *slow as f64 / *fast as f64;
                (*fast, *slow) = (value.round() as u64, (value * ratio).round() as u64);
            }
            None => {}
        }
    }
}

macro_rules! of_kind {
    ($kind:ident, $way:ident, $($field:ident).+) => {
        |device| match &mut device.kind {
            Kind::$kind(it) => Some(Place::$way(&mut it.$($field).+)),
            _ => None,
        }
    };
}

macro_rules! of_link {
    ($way:ident, $field:ident) => {
        |device| match &mut device.kind {
            Kind::Flash(flash) => match &mut flash.attach {
                Attach::Link { $field, .. } => Some(Place::$way($field)),
                Attach::MemoryChannel { .. } => None,
            },
            _ => None,
        }
    };
}

macro_rules! of_thread {
    ($way:ident, $field:ident) => {
        |device| match &mut device.kind {
            Kind::Volume(volume) => {
                volume.io_thread.as_mut().map(|thread| Place::$way(&mut thread.$field))
            }
            _ => None,
        }
    };
}

fn limit(device: &mut Device, counts: Counted) -> Option<Place<'_>> {
    let mut found = device.limits.iter_mut().filter(|limit| limit.counts == counts);
    let first = found.next()?;
    // The burst rate of a limit with credits bounds its rate, and a fit does not see credits run out.
    (found.next().is_none() && first.credits.is_none()).then_some(Place::Whole(&mut first.rate))
}

/// Key of the parameter for the spare capacity, which has an effect only in the steady state of random writes.
pub(crate) const SPARE: &str = "translation.reserved";
const TIME: (f64, f64) = (50.0, 1e8);
const RATE: (f64, f64) = (1e6, 1e11);

const fn parameter(
    key: &'static str,
    unit: Unit,
    bounds: (f64, f64),
    place: fn(&mut Device) -> Option<Place<'_>>,
) -> Parameter {
    Parameter { key, unit, bounds, place }
}

/// All parameters that can be fitted, of all families. A device has some of them.
const ALL: &[Parameter] = &[
    parameter("volume.read", Unit::Ns, TIME, of_kind!(Volume, Whole, read_ns)),
    parameter("volume.write", Unit::Ns, TIME, of_kind!(Volume, Whole, write_ns)),
    parameter("volume.flush", Unit::Ns, TIME, of_kind!(Volume, Whole, flush_ns)),
    parameter("volume.varying", Unit::Share, (0.01, 1.0), of_kind!(Volume, Real, varying_share)),
    parameter("volume.network", Unit::BytesPerS, RATE, |device| match &mut device.kind {
        // A thread that moves the data hides the network.
        Kind::Volume(volume) if volume.io_thread.is_none() => {
            Some(Place::Real(&mut volume.bytes_per_s))
        }
        _ => None,
    }),
    parameter("io_thread.command", Unit::Ns, (50.0, 1e7), of_thread!(Whole, command_ns)),
    parameter("io_thread.write_command", Unit::Ns, (50.0, 1e7), |device| match &mut device.kind {
        Kind::Volume(volume) => {
            volume.io_thread.as_mut()?.write_command_ns.as_mut().map(Place::Whole)
        }
        _ => None,
    }),
    parameter("io_thread.read_copy", Unit::BytesPerS, RATE, of_thread!(Real, read_bytes_per_s)),
    parameter("io_thread.write_copy", Unit::BytesPerS, RATE, of_thread!(Real, write_bytes_per_s)),
    parameter("iops_limit.rate", Unit::OpsPerS, (1.0, 1e8), |device| {
        limit(device, Counted::Operations)
    }),
    parameter("throughput_limit.rate", Unit::BytesPerS, RATE, |device| {
        limit(device, Counted::Bytes)
    }),
    parameter("link.latency", Unit::Ns, (50.0, 1e9), of_link!(Whole, latency_ns)),
    parameter("link.read", Unit::BytesPerS, RATE, of_link!(Real, read_bytes_per_s)),
    parameter("link.write", Unit::BytesPerS, RATE, of_link!(Real, write_bytes_per_s)),
    parameter(
        "controller.read_command",
        Unit::Ns,
        (50.0, 1e7),
        of_kind!(Flash, Whole, controller.read_command_ns),
    ),
    parameter(
        "controller.write_command",
        Unit::Ns,
        (50.0, 1e7),
        of_kind!(Flash, Whole, controller.write_command_ns),
    ),
    parameter("controller.turn", Unit::Ns, (50.0, 1e7), of_kind!(Flash, Whole, controller.turn_ns)),
    parameter("nand.read", Unit::Ns, (1e3, 1e8), of_kind!(Flash, Whole, nand.read_ns)),
    parameter("nand.program_fast", Unit::Ns, (1e3, 1e8), |device| match &mut device.kind {
        Kind::Flash(flash) => {
            Some(Place::Both(&mut flash.nand.program_fast_ns, &mut flash.nand.program_slow_ns))
        }
        _ => None,
    }),
    parameter(
        "nand.channel_rate",
        Unit::BytesPerS,
        RATE,
        of_kind!(Flash, Real, nand.channel_bytes_per_s),
    ),
    parameter("buffer.accept", Unit::Ns, (50.0, 1e8), of_kind!(Flash, Whole, buffer.accept_ns)),
    parameter(SPARE, Unit::Share, (5e-4, 0.6), of_kind!(Flash, Real, translation.reserved_share)),
    parameter("variation.suspend", Unit::Ns, (50.0, 1e8), |device| match &mut device.kind {
        Kind::Flash(flash) => {
            flash.nand.variation.as_mut().map(|variation| Place::Whole(&mut variation.suspend_ns))
        }
        _ => None,
    }),
    parameter("platters.rpm", Unit::Rpm, (1000.0, 30000.0), of_kind!(Disk, Small, rpm)),
    parameter("platters.outer", Unit::BytesPerS, RATE, of_kind!(Disk, Real, outer_bytes_per_s)),
    parameter("platters.inner", Unit::BytesPerS, RATE, of_kind!(Disk, Real, inner_bytes_per_s)),
    parameter("seek.track_to_track", Unit::Ns, TIME, of_kind!(Disk, Whole, track_to_track_ns)),
    parameter("seek.average", Unit::Ns, TIME, of_kind!(Disk, Whole, average_seek_ns)),
    parameter("seek.full_stroke", Unit::Ns, TIME, of_kind!(Disk, Whole, full_stroke_ns)),
    parameter("seek.write_settle", Unit::Ns, TIME, of_kind!(Disk, Whole, write_settle_ns)),
    parameter("interface.command", Unit::Ns, TIME, of_kind!(Disk, Whole, command_ns)),
    parameter("cache.accept", Unit::Ns, (50.0, 1e8), of_kind!(Disk, Whole, accept_ns)),
    parameter("memory.io", Unit::Ns, (50.0, 1e6), of_kind!(Memory, Whole, io_ns)),
    parameter("memory.flush", Unit::Ns, (1.0, 1e6), of_kind!(Memory, Whole, flush_ns)),
    parameter("memory.varying", Unit::Share, (0.01, 1.0), of_kind!(Memory, Real, varying_share)),
    parameter("memory.read", Unit::BytesPerS, RATE, of_kind!(Memory, Real, read_bytes_per_s)),
    parameter("memory.write", Unit::BytesPerS, RATE, of_kind!(Memory, Real, write_bytes_per_s)),
];

/// Returns the parameters that a fit can estimate for `device`, in the order of the device file. Without `is_steady`,
/// the device is not in the steady state of random writes, so its spare capacity has no effect and is left out.
pub fn parameters(device: &Device, is_steady: bool) -> Vec<Parameter> {
    let has_effect = |parameter: &&Parameter| is_steady || parameter.key != SPARE;
    let has = |parameter: &&Parameter| parameter.of(device).is_some();
    ALL.iter().filter(has).filter(has_effect).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time of 14 ns stands for 13.5 to 14.5 ns; a rate is not rounded.
    #[test]
    fn intervals_cover_what_a_file_rounds_together() {
        let of = |key: &str| ALL.iter().find(|parameter| parameter.key == key).unwrap();
        let at = 14.3_f64.ln();
        let (low, high) = of("memory.flush").at_least_one_step(at, (0.001, 0.5));
        assert!(((at - low).exp() - 13.5).abs() < 1e-9 && high.to_bits() == 0.5_f64.to_bits());
        assert_eq!(of("memory.read").at_least_one_step(at, (0.001, 0.5)), (0.001, 0.5));
    }
}
