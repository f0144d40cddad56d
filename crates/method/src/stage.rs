//! Validated stages of a method.

use crate::grid::{Grid, Order};
use crate::rate_search::RateSearch;
use core::str::FromStr;
use iodyno_measure::metric::{NoMetric, Quantity};
use iodyno_measure::statistics::steady::SteadyLimits;
use iodyno_units::parse_duration_ns;
use iodyno_workload::Spec;
use serde::{Deserialize, Serialize};

/// One stage of a method.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name, unique within the method.
    pub name: String,
    /// Action.
    pub act: Act,
}

/// Action of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Returns the targets to a state as if never written, where possible.
    Purge,
    /// Preconditioning that is independent of the workload.
    Fill(Fill),
    /// Idle time.
    Wait {
        /// Duration, ns.
        ns: u64,
    },
    /// A grid, measured once or several times.
    Cells(Cells),
    /// A grid, repeated until the steady state.
    Rounds(Rounds),
    /// One workload, sampled for long.
    Series(Series),
    /// A few points, chosen from an earlier stage's results.
    Points(Points),
    /// Search for the highest rate at which a latency stays under a limit.
    RateSearch(RateSearch),
}

/// Sequential writes over the active range, in several passes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// The writes; only threads, depth, block and active range are used.
    pub spec: Spec,
    /// Passes over the active range, 1 to 3.
    pub passes: u8,
}

/// Arguments of [`Act::Cells`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    /// Points to measure.
    pub grid: Grid,
    /// Order of the points.
    pub order: Order,
    /// Number of repeats, at least 1.
    pub repeats: u32,
    /// Latency ceilings under which a point is chosen.
    pub ceilings: Vec<Ceiling>,
}

/// Maximum of a latency that a point may have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Latency that has the maximum.
    pub of: Quantity,
    /// The longest response time allowed at the quantile, ns.
    pub ns: u64,
}

impl Ceiling {
    /// A limit on the latency with this name.
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

/// Arguments of [`Act::Rounds`].
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// Points to measure in a round.
    pub grid: Grid,
    /// Writes before each round, with their duration, ns.
    pub before: Option<(Spec, u64)>,
    /// Figures that must be steady, all over the same window.
    pub track: Vec<Track>,
    /// Limits of the steady state.
    pub limits: SteadyLimits,
    /// Ceilings for a point that a later stage chooses from these results.
    pub ceilings: Vec<Ceiling>,
}

/// A tracking variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Index of the point in the grid.
    pub point: usize,
    /// Figure of the point.
    pub quantity: Quantity,
    /// Name for people, such as `iops of read=0% block=4KiB`.
    pub name: String,
}

/// Arguments of [`Act::Series`].
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Workload of one sample; a grid of one point.
    pub grid: Grid,
    /// Maximum number of samples.
    pub samples_max: u32,
    /// Idle time between samples, ns.
    pub wait_ns: u64,
    /// The series also ends after this many writes of the whole active range (drive fills); `None` for no such end.
    pub fills_max: Option<f64>,
    /// The series also ends in the steady state, judged on every n-th sample; `None` for no such end.
    pub steady_every: Option<u32>,
    /// Limits of the steady state.
    pub limits: SteadyLimits,
}

/// Arguments of [`Act::Points`].
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// Index of an earlier stage to choose from: cells or rounds.
    pub of: usize,
    /// Points to choose.
    pub choose: Vec<Which>,
    /// Latency ceilings under which a point is chosen.
    pub ceilings: Vec<Ceiling>,
    /// Measured time at each point, ns.
    pub time_ns: u64,
    /// Writes before each point, with their duration, ns.
    pub before: Option<(Spec, u64)>,
}

/// Choice of a point from an earlier stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Highest IOPS under the ceilings.
    Max,
    /// Fewest outstanding I/Os that give 98 % of the highest IOPS.
    Optimal,
    /// Under the ceilings, nearest to the middle between lowest and highest IOPS.
    Mid,
    /// Fewest outstanding I/Os.
    Min,
}

impl Which {
    /// Name in a file and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Optimal => "optimal",
            Self::Mid => "mid",
            Self::Min => "min",
        }
    }
}
