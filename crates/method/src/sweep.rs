//! A sweep: a grid defined on the command line instead of in a method file. `rules/sweep.rs` converts it to a method.

use crate::axis::Axis;
use crate::grid::Order;
use crate::rate_search::LatencyLimit;
use crate::stage::Ceiling;
use serde::{Deserialize, Serialize};

/// A grid over the workloads of a [`MethodSource`](crate::MethodSource), defined on the command line. All
/// measurements last for the longest time limit of the workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Axes, outermost first.
    pub axes: Vec<Axis>,
    /// Order of the points within each repeat.
    pub order: Order,
    /// Number of times that each point is measured, at least 1.
    pub repeats: u32,
    /// Number of sequential passes that fill the active range before the measurements, 0 to 3.
    #[serde(default)]
    pub fill_passes: u8,
    /// Latency limit of a rate search. If it is set, the sweep is a search for the highest rate that meets the limit,
    /// and allows no axes and only one workload. `None` for a grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_rate: Option<LatencyLimit>,
    /// Latency ceilings (maximum latencies) that the best point of the load curve must meet.
    pub ceilings: Vec<Ceiling>,
}
