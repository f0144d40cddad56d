//! Recipes: how a value is computed from cells.

use crate::cell::{CellFigure, CellKey, Taken};
use iodyno_measure::Quantity;
use std::collections::BTreeMap;

/// How a value is computed from the results of cells.
#[derive(Clone, Debug, PartialEq)]
pub enum Recipe {
    /// A quantity of one cell.
    Of(Quantity, CellKey),
    /// A figure of one cell that [`Quantity`] does not cover.
    Figure(CellFigure, CellKey),
    /// Messages a second of one cell, whose operations contain this number of messages.
    Messages(u32, CellKey),
    /// The fewest threads with which one of these cells reaches this share of their largest rate.
    FewestThreads(f64, Vec<CellKey>),
    /// The largest rate of several cells.
    MaxIops(Vec<CellKey>),
    /// The first value divided by the second.
    Ratio(Box<Recipe>, Box<Recipe>),
    /// A time (ns) × a rate (1/s): the number of operations in service.
    Little(Box<Recipe>, Box<Recipe>),
    /// The depth at which the rate of these cells, in ascending order of depth, first reaches this share of the
    /// largest; interpolated linearly.
    DepthReached(f64, Vec<CellKey>),
    /// A property of the point that is the optimum.
    AtOptimum(AtOptimum, Optimum),
    /// The lowest of several values.
    Lowest(Vec<Recipe>),
    /// The highest of several values.
    Highest(Vec<Recipe>),
    /// The mean of several values.
    Mean(Vec<Recipe>),
    /// The number of devices at which a rate in proportion to the first cell's reaches the rate of the second; at
    /// most the devices of the second.
    Saturation(CellKey, CellKey),
    /// A number that the model takes from the paper.
    Given(f64),
}

/// The optimum: of the points of demand within a limit of the mean latency and near the largest rate, the one
/// with the fewest outstanding operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// The points among which the optimum is chosen.
    pub cells: Vec<CellKey>,
    /// The longest accepted mean latency, ns.
    pub ceiling_ns: u64,
}

/// A property of the point that is the optimum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AtOptimum {
    /// A quantity of the long cell at the optimum.
    Of(Quantity),
    /// Number of outstanding operations.
    Oio,
    /// Number of threads.
    Threads,
    /// Outstanding operations of each thread.
    Depth,
}

/// The least share of the largest rate at the optimum.
const OPTIMUM_SHARE: f64 = 0.98;

impl Optimum {
    /// The optimum; if no point is within the limit, the one with the fewest outstanding operations. Of points
    /// with equally many, the faster one.
    ///
    /// # Panics
    /// If there are no points, or one of them is not in `taken`.
    pub fn find(&self, taken: &BTreeMap<CellKey, Taken>) -> CellKey {
        let within = |cell: &&CellKey| taken[*cell].mean_ns <= self.ceiling_ns as f64;
        let rate = |cell: &CellKey| taken[cell].iops;
        let best = self.cells.iter().filter(within).map(rate).fold(0.0, f64::max);
        let is_near = |cell: &&CellKey| within(cell) && rate(cell) >= OPTIMUM_SHARE * best;
        let fewest =
            |a: &&CellKey, b: &&CellKey| a.oio().cmp(&b.oio()).then(rate(b).total_cmp(&rate(a)));
        let found = self.cells.iter().filter(is_near).min_by(fewest);
        *found.or_else(|| self.cells.iter().min_by(fewest)).expect("there are points")
    }

    /// The long cell at the optimum.
    pub fn long(&self, taken: &BTreeMap<CellKey, Taken>) -> CellKey {
        CellKey { long: true, ..self.find(taken) }
    }
}

impl Recipe {
    /// The cells that the recipe needs, without the long cells at optima that are not known yet.
    pub fn cells(&self) -> Vec<CellKey> {
        match self {
            Self::Of(_, cell) | Self::Figure(_, cell) | Self::Messages(_, cell) => vec![*cell],
            Self::MaxIops(cells) | Self::DepthReached(_, cells) | Self::FewestThreads(_, cells) => {
                cells.clone()
            }
            Self::Ratio(a, b) | Self::Little(a, b) => [a.cells(), b.cells()].concat(),
            Self::AtOptimum(_, optimum) => optimum.cells.clone(),
            Self::Lowest(all) | Self::Highest(all) | Self::Mean(all) => {
                all.iter().flat_map(Self::cells).collect()
            }
            Self::Saturation(one, all) => vec![*one, *all],
            Self::Given(_) => Vec::new(),
        }
    }

    /// The long cells at the recipe's optima.
    pub fn long_cells(&self, taken: &BTreeMap<CellKey, Taken>) -> Vec<CellKey> {
        match self {
            Self::AtOptimum(AtOptimum::Of(_), optimum) => vec![optimum.long(taken)],
            _ => self.ingredients().iter().flat_map(|i| i.long_cells(taken)).collect(),
        }
    }

    /// The recipes that this one combines; none if it uses cells directly.
    pub fn ingredients(&self) -> Vec<&Self> {
        match self {
            Self::Ratio(a, b) | Self::Little(a, b) => vec![a, b],
            Self::Lowest(all) | Self::Highest(all) | Self::Mean(all) => all.iter().collect(),
            _ => Vec::new(),
        }
    }
}
