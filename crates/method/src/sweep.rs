//! A sweep: workloads over some axes as values, rather than as a method file. `rules/sweep.rs` makes the method.

use crate::axis::Axis;
use crate::grid::Order;
use crate::rate_search::LatencyLimit;
use crate::stage::Ceiling;
use serde::{Deserialize, Serialize};

/// A grid over the workloads of a [`MethodSource`](crate::MethodSource). Its cells take the longest time of the workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Outermost first.
    pub axes: Vec<Axis>,
    /// Order of the cells.
    pub order: Order,
    /// How often each cell is measured, 1 or more.
    pub repeats: u32,
    /// Sequential writes over the active range before the cells, so many times; 0 to 3.
    #[serde(default)]
    pub fill_passes: u8,
    /// In place of the cells, the highest rate that holds this; there are no axes, and one workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_rate: Option<LatencyLimit>,
    /// Conditions on the chosen point.
    pub ceilings: Vec<Ceiling>,
}
