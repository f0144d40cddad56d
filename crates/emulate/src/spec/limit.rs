//! The specification of a limit: a rate that the owner of a volume has paid for, with or without burst credits.
//! Implemented by `limit`.

/// Whether a limit counts operations or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// I/Os: an IOPS limit.
    Operations,
    /// Bytes: a throughput limit.
    Bytes,
}

/// The operations that a limit counts. A flush is never counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitOf {
    /// Reads, writes, trims and zeroes.
    #[default]
    All,
    /// Reads only.
    Reads,
    /// Writes, trims and zeroes.
    Writes,
}

/// A limit on the operations or on the bytes per second that a device serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The kinds of operations that the limit counts.
    pub of: LimitOf,
    /// The unit of the rates and of the credits.
    pub counts: Counted,
    /// Sustained rate, in units per second.
    pub rate: u64,
    /// Burst allowance as a time, ns: after idling, the device serves at once as many units as `rate`, or the burst
    /// rate if the limit has credits, allows in this time.
    pub window_ns: u64,
    /// Accounting unit in bytes: an operation counts as one operation per accounting unit or part of one, and its
    /// bytes are rounded up to whole accounting units. `None`: every operation counts as one, and bytes are counted
    /// exactly.
    pub account_bytes: Option<u64>,
    /// Whether a sequential operation first uses up the rest of its predecessor's last accounting unit.
    pub merges: bool,
    /// Burst credits. `None`: the rate is never exceeded for longer than the window.
    pub credits: Option<Credits>,
}

/// Burst credits: units that a device may serve beyond its rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Maximum number of credits that can accrue, in units.
    pub most: u64,
    /// Credits when the machine starts, in units. If more than `most`, the excess is granted only once.
    pub start: u64,
    /// Maximum rate while credits last, in units per second.
    pub burst: u64,
}
