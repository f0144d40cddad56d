//! The specification of a limit: a rate that the owner of a volume has paid for, with or without burst credits.
//! Implemented by `limit`.

/// What a limit counts.
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

/// A limit on the operations or on the bytes of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The operations that count.
    pub of: LimitOf,
    /// The unit of the rates and of the credits.
    pub counts: Counted,
    /// Sustained rate, in units per second.
    pub rate: u64,
    /// Burst allowance as a time, ns: a device that was idle serves `rate` times this time without delay, or the
    /// burst rate times this time if it has credits.
    pub window_ns: u64,
    /// Accounting unit in bytes: an operation counts as one for each begun accounting unit, and as many bytes.
    /// `None`: every operation counts as one, and bytes are counted exactly.
    pub account_bytes: Option<u64>,
    /// Whether a sequential operation first fills the last accounting unit of its predecessor.
    pub merges: bool,
    /// Burst credits. `None`: the rate is never exceeded for longer than the window.
    pub credits: Option<Credits>,
}

/// Burst credits: units that a device may serve beyond its rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Credits that the bucket holds, in units.
    pub most: u64,
    /// Credits when the machine starts, in units. If more than `most`, the excess is granted only once.
    pub start: u64,
    /// Units per second while credits last.
    pub burst: u64,
}
