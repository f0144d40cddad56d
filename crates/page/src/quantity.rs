//! Physical quantities, such as latency or throughput, with their units and formats.

use iodyno_units::human;

/// Physical quantity of a number, which determines its unit and format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Operations per second, displayed with the prefixes k, M and G.
    Iops,
    /// Bytes per second, displayed in powers of 1000, such as MB/s.
    Throughput,
    /// A latency in nanoseconds, displayed in ns, µs, ms or s.
    LatencyNs,
    /// Time since the start of a run, in seconds.
    Seconds,
    /// A fraction, displayed in percent.
    Share,
    /// A relative change, displayed in percent with its sign; 0.1 is +10 %.
    Change,
    /// A size, displayed in binary units.
    Bytes,
    /// A count of anything, such as I/Os, threads or targets.
    Count,
    /// A ratio, such as a speed-up, or bytes written divided by the target's size (drive fills).
    Ratio,
    /// A quantile, 0 to 1, displayed in percent: 0.999 is 99.9 %.
    Quantile,
    /// A temperature in degrees Celsius.
    Celsius,
}

impl Quantity {
    /// All quantities, in the order in which the variants are declared.
    pub const ALL: [Self; 11] = [
        Self::Iops,
        Self::Throughput,
        Self::LatencyNs,
        Self::Seconds,
        Self::Share,
        Self::Change,
        Self::Bytes,
        Self::Count,
        Self::Ratio,
        Self::Quantile,
        Self::Celsius,
    ];

    /// Formats a value with its unit, in few digits, for display.
    pub fn words(self, value: f64) -> String {
        // Converting the unit of a larger value would not be finite.
        if !value.is_finite() || value.abs() > 1e290 {
            return "–".to_owned();
        }
        match self {
            // Counts of rounds or targets are integers.
            Self::Count if value.fract() == 0.0 && (0.0..1e15).contains(&value) => {
                human::whole(value as u64)
            }
            Self::Iops | Self::Count => human::count(value),
            Self::Throughput => human::throughput(value),
            Self::LatencyNs => human::time_ns(value),
            Self::Seconds => human::time_ns(value * 1e9),
            Self::Share => format!("{} %", human::three_digits(value * 100.0)),
            Self::Change => {
                let percent = human::three_digits(value.abs() * 100.0);
                // A value that rounds to zero has no sign.
                let is_zero = percent.bytes().all(|b| matches!(b, b'0' | b'.'));
                let sign = match value > 0.0 {
                    _ if is_zero => "",
                    true => "+",
                    false => "-",
                };
                format!("{sign}{percent} %")
            }
            Self::Bytes => human::size(value.max(0.0) as u64),
            Self::Ratio => human::three_digits(value),
            Self::Quantile => quantile(value),
            Self::Celsius => format!("{} °C", human::three_digits(value)),
        }
    }

    /// Unit of raw values, for the header of a column in a data file.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::Throughput => "bytes/s",
            Self::LatencyNs => "ns",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::Share | Self::Change | Self::Ratio | Self::Count | Self::Quantile => "",
            Self::Celsius => "°C",
        }
    }
}

/// Formats a quantile in percent with all its nines, such as `99.99 %`.
fn quantile(q: f64) -> String {
    let percent = format!("{:.6}", q * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}
