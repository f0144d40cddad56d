//! The units of printed figures, with their conversion to the program's own: operations a second, bytes a
//! second, nanoseconds, or a bare number.

use iodyno_page::Quantity;

/// What a unit measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Operations a second.
    Rate,
    /// Bytes a second.
    Throughput,
    /// Time, ns.
    Time,
    /// A number without a unit: a ratio, a count.
    Number,
}

/// A unit in which a file of figures may give values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `1/s`.
    PerSecond,
    /// `MB/s`, of 1000 · 1000 bytes.
    MegabytesPerSecond,
    /// `GB/s`.
    GigabytesPerSecond,
    /// `ns`.
    Nanoseconds,
    /// `us`.
    Microseconds,
    /// `ms`.
    Milliseconds,
    /// `s`.
    Seconds,
    /// `ratio`.
    Ratio,
    /// `1`: a count.
    One,
}

impl Unit {
    /// Every unit.
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

    /// Name of the metric in files.
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

    /// Dimension of the unit.
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

    /// The quantity that formats a value in the program's own unit.
    pub(crate) const fn quantity(self) -> Quantity {
        match self.dimension() {
            Dimension::Rate => Quantity::Iops,
            Dimension::Throughput => Quantity::Throughput,
            Dimension::Time => Quantity::LatencyNs,
            Dimension::Number => Quantity::Ratio,
        }
    }

    /// One unit in the program's own unit: 1/s, bytes/s, ns or a bare number.
    pub const fn scale(self) -> f64 {
        match self {
            Self::PerSecond | Self::Nanoseconds | Self::Ratio | Self::One => 1.0,
            Self::Microseconds => 1e3,
            Self::MegabytesPerSecond | Self::Milliseconds => 1e6,
            Self::GigabytesPerSecond | Self::Seconds => 1e9,
        }
    }
}
