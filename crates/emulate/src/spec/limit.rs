//! The specification of a rate limit, with or without burst credits. Implemented by `limit`.

/// Whether a limit counts operations or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The limit counts I/Os (IOPS limit).
    Operations,
    /// The limit counts bytes (throughput limit).
    Bytes,
}

/// The operations that a limit counts. A flush is never counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitOf {
    /// Reads, writes, trims and zeroes.
    #[default]
    All,
    /// Reads; other operations pass without delay.
    Reads,
    /// Writes, trims and zeroes; reads pass without delay.
    Writes,
}

/// An upper bound for the operations per second, or for the bytes per second, that a device serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Operations that the limit counts.
    pub of: LimitOf,
    /// The unit of the rates and of the credits.
    pub counts: Counted,
    /// Sustained rate, in operations or bytes per second.
    pub rate: u64,
    /// Burst allowance, as a time in ns. After idling, the device may serve at once what the rate allows in this time.
    /// The rate is `rate`, or the burst rate if the limit has credits.
    pub window_ns: u64,
    /// Accounting unit in bytes. An operation is charged for whole accounting units: its bytes are rounded up, and an
    /// IOPS limit counts one operation per unit. `None`: each operation counts once, with its exact bytes.
    pub account_bytes: Option<u64>,
    /// Whether a sequential operation first uses up the accounting unit that the previous operation paid for but did
    /// not fill.
    pub merges: bool,
    /// Burst credits. `None`: the rate is never exceeded for longer than the window.
    pub credits: Option<Credits>,
}

/// Burst credits: operations or bytes that a device may serve beyond its sustained rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Maximum number of credits that can accrue, in operations or bytes.
    pub most: u64,
    /// Credits when the machine starts, in operations or bytes. If more than `most`, the excess is granted only once.
    pub start: u64,
    /// Maximum rate while credits last, in operations or bytes per second.
    pub burst: u64,
}
