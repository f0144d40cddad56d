//! Recipes: rules by which a value of the study is computed from cells.

use crate::cell::{CellFigure, CellKey, Taken};
use iodyno_measure::Quantity;
use std::collections::BTreeMap;

/// Computation of a value from the results of cells.
#[derive(Clone, Debug, PartialEq)]
pub enum Recipe {
    /// A quantity of one cell, such as its rate.
    Of(Quantity, CellKey),
    /// A result of one cell, selected by [`CellFigure`].
    Figure(CellFigure, CellKey),
    /// Messages per second in one cell: its rate times this number of messages per operation.
    Messages(u32, CellKey),
    /// Smallest number of threads among the cells whose rate is at least this fraction of the highest rate.
    FewestThreads(f64, Vec<CellKey>),
    /// Highest rate among the cells.
    MaxIops(Vec<CellKey>),
    /// The first value divided by the second.
    Ratio(Box<Recipe>, Box<Recipe>),
    /// Number of outstanding operations by Little's law: the first value (a latency in ns) times the second (a rate in
    /// 1/s).
    Little(Box<Recipe>, Box<Recipe>),
    /// Queue depth at which the rate first reaches this fraction of its maximum. The cells are in ascending order of
    /// depth; between them, the rate is interpolated linearly.
    DepthReached(f64, Vec<CellKey>),
    /// A property of the optimum operating point.
    AtOptimum(AtOptimum, Optimum),
    /// The lowest of several values; no value if any is missing.
    Lowest(Vec<Recipe>),
    /// The highest of several values; no value if any is missing.
    Highest(Vec<Recipe>),
    /// Arithmetic mean of several values; no value if any is missing.
    Mean(Vec<Recipe>),
    /// Number of devices that saturate a system: the rate of the second cell, divided by the rate per device of the
    /// first cell. The second cell loads all devices of the system, and their number is the upper bound of the result.
    Saturation(CellKey, CellKey),
    /// A constant that the model takes from the paper.
    Given(f64),
}

/// Rule that selects the optimum operating point. Only cells with a mean latency of at most [`Self::ceiling_ns`] count.
/// Of those with at least 98 % of the highest rate among them, the cell with the fewest outstanding operations is the
/// optimum.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// Cells among which the optimum is chosen.
    pub cells: Vec<CellKey>,
    /// Maximum accepted mean latency, ns.
    pub ceiling_ns: u64,
}

/// A property of the optimum operating point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AtOptimum {
    /// A quantity at the optimum. A separate, longer cell ([`CellKey::long`]) measures it.
    Of(Quantity),
    /// Total number of outstanding operations at the optimum.
    Oio,
    /// Number of threads at the optimum.
    Threads,
    /// Outstanding operations per thread at the optimum.
    Depth,
}

/// Minimum rate of the optimum, as a fraction of the highest rate within the latency ceiling.
const OPTIMUM_SHARE: f64 = 0.98;

impl Optimum {
    /// Finds the optimum in the results `taken`. If no candidate is within the latency ceiling, returns the one with
    /// the fewest outstanding operations. Ties go to the faster candidate.
    ///
    /// # Panics
    ///
    /// If there are no candidates, or one of them is not in `taken`.
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

    /// Key of the long cell ([`CellKey::long`]) that measures the optimum more precisely.
    pub fn long(&self, taken: &BTreeMap<CellKey, Taken>) -> CellKey {
        CellKey { long: true, ..self.find(taken) }
    }
}

impl Recipe {
    /// Cells whose results the recipe needs. Excludes [`Self::long_cells`], which can be chosen only after these cells
    /// have been simulated.
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

    /// Returns this recipe with all of its cells on the system that has this index in `Study::systems`.
    #[must_use]
    pub fn on_system(self, system: usize) -> Self {
        let on = |cell: CellKey| CellKey { system, ..cell };
        let all = |cells: Vec<CellKey>| cells.into_iter().map(on).collect();
        let each = |recipes: Vec<Self>| recipes.into_iter().map(|r| r.on_system(system)).collect();
        let boxed = |recipe: Box<Self>| Box::new(recipe.on_system(system));
        match self {
            Self::Of(quantity, cell) => Self::Of(quantity, on(cell)),
            Self::Figure(figure, cell) => Self::Figure(figure, on(cell)),
            Self::Messages(messages, cell) => Self::Messages(messages, on(cell)),
            Self::FewestThreads(share, cells) => Self::FewestThreads(share, all(cells)),
            Self::MaxIops(cells) => Self::MaxIops(all(cells)),
            Self::Ratio(a, b) => Self::Ratio(boxed(a), boxed(b)),
            Self::Little(a, b) => Self::Little(boxed(a), boxed(b)),
            Self::DepthReached(share, cells) => Self::DepthReached(share, all(cells)),
            Self::AtOptimum(at, Optimum { cells, ceiling_ns }) => {
                Self::AtOptimum(at, Optimum { cells: all(cells), ceiling_ns })
            }
            Self::Lowest(recipes) => Self::Lowest(each(recipes)),
            Self::Highest(recipes) => Self::Highest(each(recipes)),
            Self::Mean(recipes) => Self::Mean(each(recipes)),
            Self::Saturation(one, cell) => Self::Saturation(on(one), on(cell)),
            Self::Given(value) => Self::Given(value),
        }
    }

    /// Long cells ([`CellKey::long`]) that measure the optimum operating points of this recipe. `taken` holds the
    /// results of [`Self::cells`].
    pub fn long_cells(&self, taken: &BTreeMap<CellKey, Taken>) -> Vec<CellKey> {
        match self {
            Self::AtOptimum(AtOptimum::Of(_), optimum) => vec![optimum.long(taken)],
            _ => self.ingredients().iter().flat_map(|i| i.long_cells(taken)).collect(),
        }
    }

    /// Recipes whose values this recipe combines; empty if it uses cells directly.
    pub fn ingredients(&self) -> Vec<&Self> {
        match self {
            Self::Ratio(a, b) | Self::Little(a, b) => vec![a, b],
            Self::Lowest(all) | Self::Highest(all) | Self::Mean(all) => all.iter().collect(),
            _ => Vec::new(),
        }
    }
}
