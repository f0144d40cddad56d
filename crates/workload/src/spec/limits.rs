//! When the measurement of a workload ends.

use crate::range::Percent;

/// The end of the measurement of one target: the first limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Measured time after the ramp, in ns.
    pub time_ns: Option<u64>,
    /// Operations after the ramp, over all workers of the target.
    pub ops: Option<u64>,
    /// Bytes moved after the ramp, over all workers of the target.
    pub bytes: Option<u64>,
    /// Time before the measurement that is not counted, in ns.
    pub ramp_ns: u64,
    /// Bytes moved after the ramp, as a multiple of the active range of one worker.
    pub passes: Option<f64>,
    /// How long its workers wait before the ramp, in ns: other workloads of the cell have begun then.
    pub start_after_ns: u64,
    /// The other workloads of the cell end when this one does.
    pub ends_others: bool,
    /// A steady state that ends the cell.
    pub steady: Option<Steady>,
}

/// The figure whose steady state ends a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyFigure {
    /// Operations a second.
    Iops,
    /// Bytes a second.
    Bandwidth,
    /// The mean latency.
    Latency,
}

/// A steady state as fio has it: the figure's values of each second, over a window that moves on by a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady {
    /// The figure.
    pub figure: SteadyFigure,
    /// By the slope of a least-squares line, each second; otherwise by the largest deviation from the mean.
    pub by_slope: bool,
    /// The most it may be, as a share of the mean; it must be below.
    pub within: Percent,
    /// The window's length, ns: a whole number of seconds.
    pub window_ns: u64,
    /// How long after the start of the measurement the first window begins, ns.
    pub after_ns: u64,
}

impl Limits {
    /// The measured time where no limit is given at all: 10 s.
    pub const DEFAULT_TIME_NS: u64 = 10_000_000_000;
    /// Without a ramp or an end.
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
    /// The ramp where none is given: 1 s.
    pub const DEFAULT_RAMP_NS: u64 = 1_000_000_000;
}
