//! A step of a method, ready for execution.

use iodyno_measure::Place;
use iodyno_workload::{CellSpec, Spec};

/// Next step of a method.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Purge the targets if possible.
    Purge {
        /// Place in the method.
        place: Place,
    },
    /// Write the active range sequentially.
    Fill {
        /// Place in the method.
        place: Place,
        /// The writes, over the active range.
        spec: Box<Spec>,
        /// Number of passes.
        passes: u8,
    },
    /// Stay idle.
    Wait {
        /// Place in the method.
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
    /// Place in the method; `None` when complete.
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

/// A cell with its place and targets.
#[derive(Clone, Debug, PartialEq)]
pub struct CellStep {
    /// The cell, without its own seed.
    pub cell: CellSpec,
    /// Place in the method.
    pub place: Place,
    /// Number of targets at work, from the first on; `None`: all.
    pub targets: Option<u32>,
    /// Name of the engine; `None`: the run's.
    pub engine: Option<String>,
    /// Idle time after the cell, ns.
    pub then_wait_ns: u64,
}
