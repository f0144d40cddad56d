//! A step of a method, ready for execution.

use iodyno_measure::Place;
use iodyno_workload::{CellSpec, Spec};

/// Next step of a method.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Purge the targets if possible.
    Purge {
        /// The step's position in the method: stage, round and point.
        place: Place,
    },
    /// Write the active range sequentially.
    Fill {
        /// The step's position in the method: stage, round and point.
        place: Place,
        /// The writes, over the active range.
        spec: Box<Spec>,
        /// Number of passes.
        passes: u8,
    },
    /// Stay idle.
    Wait {
        /// The step's position in the method: stage, round and point.
        place: Place,
        /// Duration, ns.
        ns: u64,
    },
    /// Issue a workload.
    Cell(Box<CellStep>),
    /// The method is complete.
    Finished,
}

impl Step {
    /// The step's position in the method; `None` when the method is complete.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Purge { place } | Self::Fill { place, .. } | Self::Wait { place, .. } => {
                Some(place)
            }
            Self::Cell(cell) => Some(&cell.place),
            Self::Finished => None,
        }
    }
}

/// A cell to issue, with its position in the method and its targets.
#[derive(Clone, Debug, PartialEq)]
pub struct CellStep {
    /// The cell, whose seed is not yet set.
    pub cell: CellSpec,
    /// The step's position in the method.
    pub place: Place,
    /// Number of targets at work, from the first on; `None`: all.
    pub targets: Option<u32>,
    /// Name of the engine; `None`: the run's.
    pub engine: Option<String>,
    /// Idle time after the cell, ns.
    pub then_wait_ns: u64,
}
