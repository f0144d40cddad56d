//! The stages of a method, checked.

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
    /// Unique within the method.
    pub name: String,
    /// Its action.
    pub act: Act,
}

/// The action of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Returns the target to a state as if it had never been written, where possible.
    Purge,
    /// Preconditioning that does not depend on the workload.
    Fill(Fill),
    /// Idle time.
    Wait {
        /// How long, ns.
        ns: u64,
    },
    /// A grid, once or several times.
    Cells(Cells),
    /// A grid over and over, until the steady state.
    Rounds(Rounds),
    /// One workload, sampled for long.
    Series(Series),
    /// A few points, chosen from the results of an earlier stage.
    Points(Points),
    /// The highest rate at which a latency stays under a limit.
    RateSearch(RateSearch),
}

/// Sequential writes over the active range, several times.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// The writes: only threads, depth, block and active range of it are used.
    pub spec: Spec,
    /// Passes over the active range, 1 to 3.
    pub passes: u8,
}

/// See [`Act::Cells`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    /// The measured points.
    pub grid: Grid,
    /// Their order.
    pub order: Order,
    /// Number of repeats, 1 or more.
    pub repeats: u32,
    /// Conditions on a chosen point.
    pub ceilings: Vec<Ceiling>,
}

/// A largest latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The limited latency.
    pub of: Quantity,
    /// At most, ns.
    pub ns: u64,
}

impl Ceiling {
    /// A limit on the latency of this name.
    pub(crate) fn new(name: &str, ns: u64) -> Result<Self, String> {
        let of: Quantity = name.parse().map_err(|e: NoMetric| e.to_string())?;
        if !of.is_latency() {
            return Err(format!("a ceiling is over a latency, and {name} is none"));
        }
        Ok(Self { of, ns })
    }
}

impl FromStr for Ceiling {
    type Err = String;

    /// Reads a ceiling on one line, such as `p99=1ms`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, time)) = text.split_once('=') else {
            return Err("say of which latency and how much, such as `p99=1ms`".to_owned());
        };
        match parse_duration_ns(time).map_err(|e| e.to_string())? {
            0 => Err("a ceiling is a time above 0".to_owned()),
            ns => Self::new(name, ns),
        }
    }
}

/// See [`Act::Rounds`].
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// The measured points of a round.
    pub grid: Grid,
    /// Writes before each round.
    pub before: Option<(Spec, u64)>,
    /// The figures that have to be steady, all of them over the same window.
    pub track: Vec<Track>,
    /// The limits of the steady state.
    pub limits: SteadyLimits,
    /// Conditions on a point that a later stage chooses.
    pub ceilings: Vec<Ceiling>,
}

/// A tracking variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// The point of the grid.
    pub point: usize,
    /// The figure of it.
    pub quantity: Quantity,
    /// In words.
    pub name: String,
}

/// See [`Act::Series`].
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The workload of one sample; one point.
    pub grid: Grid,
    /// Samples at most.
    pub samples_max: u32,
    /// Between two samples, ns.
    pub wait_ns: u64,
    /// It also ends when so many bytes were written, in active ranges of the target.
    pub fills_max: Option<f64>,
    /// It also ends in the steady state, judged on every n-th sample.
    pub steady_every: Option<u32>,
    /// The limits of the steady state.
    pub limits: SteadyLimits,
}

/// See [`Act::Points`].
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// The stage to choose from, an earlier one: cells or rounds.
    pub of: usize,
    /// The points to choose.
    pub choose: Vec<Which>,
    /// Conditions on a chosen point.
    pub ceilings: Vec<Ceiling>,
    /// Measured time at each point, ns.
    pub time_ns: u64,
    /// Writes before each point.
    pub before: Option<(Spec, u64)>,
}

/// A choice of a point of an earlier stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The most IOPS under the ceilings.
    Max,
    /// The fewest outstanding I/Os that give 98 % of that.
    Optimal,
    /// Under the ceilings and nearest to the middle of the IOPS between least and most.
    Mid,
    /// The fewest outstanding I/Os.
    Min,
}

impl Which {
    /// Its name in a file and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Optimal => "optimal",
            Self::Mid => "mid",
            Self::Min => "min",
        }
    }
}
