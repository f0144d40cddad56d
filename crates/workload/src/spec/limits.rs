//! End conditions of a workload's measurement.

use crate::range::Percent;

/// End conditions of the measurement of one target. The first limit that is reached ends it; None: there is no such
/// limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Duration of the measurement after the ramp, ns.
    pub time_ns: Option<u64>,
    /// The measurement ends when all workers of the target together have completed this number of operations since the
    /// ramp.
    pub ops: Option<u64>,
    /// The measurement ends when all workers of the target together have moved this number of bytes since the ramp.
    pub bytes: Option<u64>,
    /// Length of the ramp (warm-up before the measurement), ns.
    pub ramp_ns: u64,
    /// The measurement ends when all workers of the target together have moved this multiple of the active range's size
    /// since the ramp. If workers have ranges of their own, the size is that of one range.
    pub passes: Option<f64>,
    /// Whether `bytes` and `passes` include what was moved during the ramp.
    pub ramp_counts: bool,
    /// Delay before the ramp, ns, so that this workload starts after the other workloads of the cell.
    pub start_after_ns: u64,
    /// Whether the other workloads of the cell end when this one does.
    pub ends_others: bool,
    /// Steady-state criterion that ends the cell; None: there is no such criterion.
    pub steady: Option<Steady>,
}

/// The measured value whose steady state ends a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyFigure {
    /// Operations per second, one value for each second.
    Iops,
    /// Bytes per second, one value for each second.
    Bandwidth,
    /// Mean latency of the operations that complete in each second.
    Latency,
}

/// Steady-state criterion as in fio. Each second it is evaluated over a window of the latest one-second values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady {
    /// Measured value that must be steady.
    pub figure: SteadyFigure,
    /// Whether the criterion is the slope per second of a least-squares line, rather than the largest deviation from
    /// the mean.
    pub by_slope: bool,
    /// Upper limit of the slope or deviation, as a fraction of the mean. Smaller values count as steady.
    pub within: Percent,
    /// Length of the window, ns: a whole number of seconds.
    pub window_ns: u64,
    /// Time from the start of the measurement to the start of the first window, ns.
    pub after_ns: u64,
}

impl Limits {
    /// Default duration of the measurement if no limit is given: 10 s, in ns.
    pub const DEFAULT_TIME_NS: u64 = 10_000_000_000;
    /// No ramp, and no end condition.
    pub const UNLIMITED: Self = Self {
        time_ns: None,
        ops: None,
        bytes: None,
        ramp_ns: 0,
        passes: None,
        ramp_counts: false,
        start_after_ns: 0,
        ends_others: false,
        steady: None,
    };
    /// Default ramp: 1 s, in ns.
    pub const DEFAULT_RAMP_NS: u64 = 1_000_000_000;
}
