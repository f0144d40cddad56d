//! Shares of a whole, and the part of the target that a workload uses.

use core::fmt;
use core::str::FromStr;

use iodyno_units::{parse_percent, parse_size};
use serde::{Deserialize, Serialize};

/// A fraction from 0 to 1, stored as a whole number of billionths. It converts to text and back exactly, on every
/// machine. In JSON it is a number from 0 to 1.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(into = "f64", from = "f64")]
pub struct Percent(u32);

impl Percent {
    /// Nothing: 0 %.
    pub const ZERO: Self = Self(0);
    /// Everything: 100 %.
    pub const ALL: Self = Self(1_000_000_000);

    /// Nearest representable value to `fraction`, clamped to 0 to 1.
    pub fn from_fraction(fraction: f64) -> Self {
        Self((fraction.clamp(0.0, 1.0) * 1e9 + 0.5) as u32)
    }

    /// The share as a fraction from 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 1e9
    }

    pub const fn parts_per_billion(self) -> u32 {
        self.0
    }

    /// Returns this fraction of `whole`, rounded down.
    pub const fn of(self, whole: u64) -> u64 {
        (whole as u128 * self.0 as u128 / 1_000_000_000) as u64
    }
}

impl From<Percent> for f64 {
    fn from(share: Percent) -> Self {
        share.fraction()
    }
}

impl From<f64> for Percent {
    fn from(fraction: f64) -> Self {
        Self::from_fraction(fraction)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000_000, self.0 % 10_000_000);
        if rest == 0 {
            return write!(f, "{whole}%");
        }
        let digits = format!("{rest:07}");
        write!(f, "{whole}.{}%", digits.trim_end_matches('0'))
    }
}

/// One end of the active range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Number of bytes from the start of the target.
    Bytes(u64),
    /// Share of the target's capacity.
    Share(Percent),
}

impl Edge {
    /// Position of the edge on a target with this capacity, in bytes from the target's start.
    pub const fn on(self, capacity_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => share.of(capacity_bytes),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.trim_end().ends_with('%') {
            let share = parse_percent(text).map_err(|e| e.to_string())?;
            return Ok(Self::Share(Percent::from_fraction(share)));
        }
        parse_size(text).map(Self::Bytes).map_err(|e| e.to_string())
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&size_text(*bytes)),
            Self::Share(share) => share.fmt(f),
        }
    }
}

/// The part of the target to which operations go. Its start is rounded up and its end down to the workload's
/// alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveRange {
    pub start: Edge,
    /// End of the active range (exclusive), or its length if `is_length` is set.
    pub end: Edge,
    /// Whether `end` gives the length of the range instead of its end.
    pub is_length: bool,
}

impl ActiveRange {
    /// The range that covers the whole target, whatever its capacity.
    pub const WHOLE: Self = Self::between(Edge::Share(Percent::ZERO), Edge::Share(Percent::ALL));

    /// Creates the range from `start` to `end` (exclusive).
    pub const fn between(start: Edge, end: Edge) -> Self {
        Self { start, end, is_length: false }
    }

    /// Start and end (exclusive) of the range on a target with this capacity, bytes. The start is rounded up
    /// to a multiple of `align_bytes`. The end can exceed the capacity.
    pub const fn on(self, capacity_bytes: u64, align_bytes: u64) -> (u64, u64) {
        let start_bytes = match self.start.on(capacity_bytes).checked_next_multiple_of(align_bytes)
        {
            Some(bytes) => bytes,
            None => u64::MAX,
        };
        let end_bytes = self.end.on(capacity_bytes);
        (
            start_bytes,
            if self.is_length { start_bytes.saturating_add(end_bytes) } else { end_bytes },
        )
    }

    /// Whether the range is given by its end (not its length) as a percentage of the capacity. If each worker
    /// has its own range, the last worker's range then ends at that percentage.
    pub const fn ends_with_target(self) -> bool {
        !self.is_length && matches!(self.end, Edge::Share(_))
    }

    /// Whether the range is the same on targets of any capacity.
    pub const fn is_in_bytes(self) -> bool {
        matches!((self.start, self.end), (Edge::Bytes(_), Edge::Bytes(_)))
    }
}

impl FromStr for ActiveRange {
    type Err = String;

    /// Parses `START..END` or `START..+LENGTH`, where each is a size or a percentage. A single value is the end
    /// of a range from 0.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((start, end)) = text.split_once("..") else {
            return Ok(Self::between(Edge::Bytes(0), Edge::parse(text)?));
        };
        let start = Edge::parse(start)?;
        match end.trim_start().strip_prefix('+') {
            Some(length) => Ok(Self { start, end: Edge::parse(length)?, is_length: true }),
            None => Ok(Self::between(start, Edge::parse(end)?)),
        }
    }
}

impl fmt::Display for ActiveRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_length { "+" } else { "" };
        write!(f, "{}..{sign}{}", self.start, self.end)
    }
}

/// Formats a time in the largest unit that divides it, so that parsing returns exactly the same time.
pub fn time_text(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    match units.into_iter().find(|(unit_ns, _)| ns.is_multiple_of(*unit_ns)) {
        Some((unit_ns, unit)) => format!("{}{unit}", ns / unit_ns),
        None => format!("{ns}ns"),
    }
}

/// Formats a size in the largest binary unit that divides it, so that parsing returns exactly the same size.
pub fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = if bytes == 0 { 0 } else { (bytes.trailing_zeros() / 10).min(5) as usize };
    format!("{}{}", bytes >> (10 * unit), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_exact_in_text_and_back() {
        for text in ["0%", "0.1%", "33%", "33.3333333%", "66.67%", "99.9999999%", "100%"] {
            let percent = Percent::from_fraction(parse_percent(text).unwrap());
            assert_eq!(percent.to_string(), text);
        }
        assert_eq!(Percent::from_fraction(0.1).of(u64::MAX), u64::MAX / 10);
    }

    #[test]
    fn ranges_read_what_they_print() {
        for text in [
            "0%..100%",
            "0B..8GiB",
            "0B..1024PiB",
            "10%..20GiB",
            "1537B..12.5%",
            "25%..+1GiB",
            "1MiB..+50%",
        ] {
            assert_eq!(text.parse::<ActiveRange>().unwrap().to_string(), text);
        }
        assert_eq!("8GiB".parse::<ActiveRange>().unwrap().to_string(), "0B..8GiB");
        // A length counts from the rounded start.
        assert_eq!(
            "25%..+1MiB".parse::<ActiveRange>().unwrap().on(4 << 20, 4096),
            (1 << 20, 2 << 20)
        );
        assert_eq!("25%..+50%".parse::<ActiveRange>().unwrap().on(10_000, 4096), (4096, 9096));
        assert_eq!("1..+4".parse::<ActiveRange>().unwrap().on(10_000, 512), (512, 516));
        assert!("0..8x".parse::<ActiveRange>().unwrap_err().contains("`8x` is not a size"));
    }
}
