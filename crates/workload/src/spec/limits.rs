//! End conditions of a workload's measurement.

use crate::range::Percent;

/// Limits of the measurement of one target; the first one that is reached ends it. None: no such limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Measured time after the ramp, ns.
    pub time_ns: Option<u64>,
    /// Number of operations after the ramp, over all workers of the target.
    pub ops: Option<u64>,
    /// Bytes moved after the ramp, over all workers of the target.
    pub bytes: Option<u64>,
    /// Time before the measurement that is not counted, ns.
    pub ramp_ns: u64,
    /// Bytes moved after the ramp, as a multiple of the active range of one worker.
    pub passes: Option<f64>,
    /// Delay of the workload's workers before the ramp, ns, for a start after other workloads of the cell.
    pub start_after_ns: u64,
    /// Whether the other workloads of the cell end when this one does.
    pub ends_others: bool,
    /// Steady state that ends the cell; None: no steady state ends it.
    pub steady: Option<Steady>,
}

/// The measured value whose steady state ends a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyFigure {
    /// Operations per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// The mean latency.
    Latency,
}

/// A steady state as in fio, judged by the measured value of each second, over a window that moves by one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady {
    /// Measured value that must be steady.
    pub figure: SteadyFigure,
    /// Whether to use the slope of a least-squares line, per second, rather than the largest deviation from
    /// the mean.
    pub by_slope: bool,
    /// Limit of the slope or deviation, as a share of the mean; steady below it.
    pub within: Percent,
    /// Length of the window, ns: a whole number of seconds.
    pub window_ns: u64,
    /// Time from the start of the measurement to the first window, ns.
    pub after_ns: u64,
}

impl Limits {
    /// Default measured time if no limit is given: 10 s, in ns.
    pub const DEFAULT_TIME_NS: u64 = 10_000_000_000;
    /// Limits without a ramp or an end.
    pub const UNLIMITED: Self = Self {
        time_ns: None,
        ops: None,
        bytes: None,
        ramp_ns: 0,
        passes: None,
        start_after_ns: 0,
        ends_others: false,
        steady: None,
    };
    /// Default ramp: 1 s, in ns.
    pub const DEFAULT_RAMP_NS: u64 = 1_000_000_000;
}
