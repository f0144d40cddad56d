//! Units of published values, and their conversion to base units: operations per second, bytes per second,
//! nanoseconds, or a bare number.

use iodyno_page::Quantity;

/// Physical dimension of a unit. Units of one dimension can be converted into each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A rate, with operations per second as base unit.
    Rate,
    /// A throughput, with bytes per second as base unit.
    Throughput,
    /// A time, with nanoseconds as base unit.
    Time,
    /// A number without a unit, such as a ratio or a count.
    Number,
}

/// A unit that is allowed in a file of published values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `1/s`: operations per second.
    PerSecond,
    /// `MB/s`: 1 000 000 bytes per second.
    MegabytesPerSecond,
    /// `GB/s`: 1 000 000 000 bytes per second.
    GigabytesPerSecond,
    /// `ns` in a file of published values.
    Nanoseconds,
    /// `us` in a file of published values.
    Microseconds,
    /// `ms` in a file of published values.
    Milliseconds,
    /// `s` in a file of published values.
    Seconds,
    /// `ratio`: the ratio of two values.
    Ratio,
    /// `1`: a count.
    One,
}

impl Unit {
    /// All units, for the lookup of a name in the file of published values.
    pub const ALL: [Self; 9] = [
        Self::PerSecond,
        Self::MegabytesPerSecond,
        Self::GigabytesPerSecond,
        Self::Nanoseconds,
        Self::Microseconds,
        Self::Milliseconds,
        Self::Seconds,
        Self::Ratio,
        Self::One,
    ];

    /// Name of the unit in files of published values.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "1/s",
            Self::MegabytesPerSecond => "MB/s",
            Self::GigabytesPerSecond => "GB/s",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Ratio => "ratio",
            Self::One => "1",
        }
    }

    /// Dimension of the unit. Only units of the same dimension can be converted into each other.
    pub const fn dimension(self) -> Dimension {
        match self {
            Self::PerSecond => Dimension::Rate,
            Self::MegabytesPerSecond | Self::GigabytesPerSecond => Dimension::Throughput,
            Self::Nanoseconds | Self::Microseconds | Self::Milliseconds | Self::Seconds => {
                Dimension::Time
            }
            Self::Ratio | Self::One => Dimension::Number,
        }
    }

    /// Quantity by which a value in the base unit of this dimension is formatted.
    pub(crate) const fn quantity(self) -> Quantity {
        match self.dimension() {
            Dimension::Rate => Quantity::Iops,
            Dimension::Throughput => Quantity::Throughput,
            Dimension::Time => Quantity::LatencyNs,
            Dimension::Number => Quantity::Ratio,
        }
    }

    /// Factor that converts a value in this unit to the base unit of its dimension: 1/s, bytes/s, ns or a bare number.
    pub const fn scale(self) -> f64 {
        match self {
            Self::PerSecond | Self::Nanoseconds | Self::Ratio | Self::One => 1.0,
            Self::Microseconds => 1e3,
            Self::MegabytesPerSecond | Self::Milliseconds => 1e6,
            Self::GigabytesPerSecond | Self::Seconds => 1e9,
        }
    }
}
