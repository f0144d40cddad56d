//! A sweep: a grid given as values rather than as a method file. `rules/sweep.rs` makes the method.

use crate::axis::Axis;
use crate::grid::Order;
use crate::rate_search::LatencyLimit;
use crate::stage::Ceiling;
use serde::{Deserialize, Serialize};

/// A grid over the workloads of a [`MethodSource`](crate::MethodSource). All cells run as long as the longest of the
/// workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Axes, outermost first.
    pub axes: Vec<Axis>,
    /// Order of the cells.
    pub order: Order,
    /// Repeats of each cell, at least 1.
    pub repeats: u32,
    /// Passes of sequential writes over the active range before the cells, 0 to 3.
    #[serde(default)]
    pub fill_passes: u8,
    /// Search for the highest rate that meets this limit, instead of the cells; allows no axes and only one workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_rate: Option<LatencyLimit>,
    /// Latency ceilings under which the best point is chosen.
    pub ceilings: Vec<Ceiling>,
}
