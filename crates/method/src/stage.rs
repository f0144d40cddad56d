//! Validated stages of a method.

use crate::grid::{Grid, Order};
use crate::rate_search::RateSearch;
use core::str::FromStr;
use iodyno_measure::metric::{NoMetric, Quantity};
use iodyno_measure::statistics::steady::SteadyLimits;
use iodyno_units::parse_duration_ns;
use iodyno_workload::Spec;
use serde::{Deserialize, Serialize};

/// One stage of a method's plan, such as a fill or a grid of measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name of the stage, unique within the method.
    pub name: String,
    pub act: Act,
}

/// Action of a stage, with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Purges the targets where possible (NVMe format, discard), so that they are as if never written.
    Purge,
    /// Writes the active range sequentially: workload-independent preconditioning.
    Fill(Fill),
    /// Leaves the targets idle.
    Wait {
        /// Duration of the wait, ns.
        ns: u64,
    },
    /// Measures a grid of points once or several times.
    Cells(Cells),
    /// Measures a grid of points in rounds, until the steady state.
    Rounds(Rounds),
    /// Measures one workload over a long time, in samples.
    Series(Series),
    /// Measures a few operating points, chosen from the results of an earlier stage.
    Points(Points),
    /// Searches for the highest rate at which a latency stays under a limit.
    RateSearch(RateSearch),
}

/// Sequential writes of the active range in one or more passes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// Workload that provides threads, depth, block size and active range; its other settings are ignored.
    pub spec: Spec,
    /// Number of passes over the active range, 1 to 3.
    pub passes: u8,
}

/// A grid to measure once or several times: parameters of [`Act::Cells`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    /// Points to measure.
    pub grid: Grid,
    /// Order of the points within each repeat.
    pub order: Order,
    /// Number of times that the grid is measured, at least 1.
    pub repeats: u32,
    /// Latency ceilings (maximum latencies) that the best point of the load curve must meet. They also apply to
    /// `points` stages that choose from this stage and have no ceilings of their own.
    pub ceilings: Vec<Ceiling>,
}

/// Limit on a latency statistic. A point that exceeds it is not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Latency statistic that must not exceed [`Self::ns`].
    pub of: Quantity,
    /// Maximum of the latency statistic, ns.
    pub ns: u64,
}

impl Ceiling {
    /// Creates a ceiling for the latency statistic `name`, such as `p99`.
    pub(crate) fn new(name: &str, ns: u64) -> Result<Self, String> {
        let of: Quantity = name.parse().map_err(|e: NoMetric| e.to_string())?;
        if !of.is_latency() {
            return Err(format!("a ceiling needs a latency, and {name} is not one"));
        }
        Ok(Self { of, ns })
    }
}

impl FromStr for Ceiling {
    type Err = String;

    /// Parses a ceiling such as `p99=1ms`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, time)) = text.split_once('=') else {
            return Err("name a latency and its maximum, such as `p99=1ms`".to_owned());
        };
        match parse_duration_ns(time).map_err(|e| e.to_string())? {
            0 => Err("a ceiling must be a time above 0".to_owned()),
            ns => Self::new(name, ns),
        }
    }
}

/// A grid to measure in rounds until the steady state: parameters of [`Act::Rounds`].
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// Points to measure in each round.
    pub grid: Grid,
    /// Writes before each round: their workload, and their duration in ns. `None` for no writes.
    pub before: Option<(Spec, u64)>,
    /// Tracking variables of the steady-state test, such as the IOPS at one grid point. The steady state is reached
    /// when all tracking variables are steady over the same window of rounds.
    pub track: Vec<Track>,
    /// Limits of the steady-state test: those of the SNIA PTS, unless the method file changes them.
    pub limits: SteadyLimits,
    /// Latency ceilings (maximum latencies) for `points` stages that choose from this stage and have no ceilings of
    /// their own. The rounds themselves ignore them.
    pub ceilings: Vec<Ceiling>,
}

/// Tracking variable of the steady-state test: a quantity, such as IOPS, at one grid point.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Index of the variable's point in the grid.
    pub point: usize,
    /// Quantity of the point that must become steady.
    pub quantity: Quantity,
    /// Display name of the variable, such as `iops of read=0% block=4KiB`.
    pub name: String,
}

/// A workload to sample over time: parameters of [`Act::Series`].
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Workload of each sample, as a grid of one point.
    pub grid: Grid,
    pub samples_max: u32,
    /// Idle time between samples, ns.
    pub wait_ns: u64,
    /// Amount of writing after which the series ends, as a multiple of the capacity (of an active range in bytes: of
    /// its size); `None` for no such limit.
    pub fills_max: Option<f64>,
    /// The steady-state test uses every n-th sample, where n is this value. The series ends once the test is passed.
    /// `None` for no steady-state test.
    pub steady_every: Option<u32>,
    /// Limits of the steady-state test: those of the SNIA PTS, unless the method file changes them.
    pub limits: SteadyLimits,
}

/// Operating points to measure: parameters of [`Act::Points`].
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// Index of the earlier stage (cells or rounds) from whose results the points are chosen.
    pub of: usize,
    /// Types of operating point to choose.
    pub choose: Vec<Which>,
    /// Latency ceilings (maximum latencies) of the chosen points. If the method file has none for this stage, those of
    /// the earlier stage are used. Without a point that meets them, `max` and `optimal` choose one that exceeds them.
    pub ceilings: Vec<Ceiling>,
    /// Duration of the measurement at each point, ns.
    pub time_ns: u64,
    /// Writes before each point: their workload, and their duration in ns. `None` for no writes.
    pub before: Option<(Spec, u64)>,
}

/// Type of operating point: the rule by which a point is chosen from the results of an earlier stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The point with the highest IOPS among those within all latency limits. If none is within them, the point with
    /// the fewest outstanding I/Os.
    Max,
    /// The point that needs the fewest outstanding I/Os to reach 98 % of the IOPS of [`Which::Max`] within all latency
    /// limits. If no point is within them, the point with the fewest outstanding I/Os.
    Optimal,
    /// The point whose IOPS are closest to the mean of the IOPS of two others: the point with the fewest outstanding
    /// I/Os, and that with the highest IOPS. Considers only points within all latency limits.
    Mid,
    /// The point with the fewest outstanding I/Os, regardless of latency limits.
    Min,
}

impl Which {
    /// Name of the type in method files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Optimal => "optimal",
            Self::Mid => "mid",
            Self::Min => "min",
        }
    }
}
