//! One step of a method, ready for execution.

use iodyno_measure::Place;
use iodyno_workload::{CellSpec, Spec};

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Purge the targets, where possible.
    Purge {
        /// Its place in the method.
        place: Place,
    },
    /// Write the active range sequentially.
    Fill {
        /// Its place in the method.
        place: Place,
        /// The writes, over the active range.
        spec: Box<Spec>,
        /// Passes over it.
        passes: u8,
    },
    /// Do nothing.
    Wait {
        /// Its place in the method.
        place: Place,
        /// How long, ns.
        ns: u64,
    },
    /// Issue a workload.
    Cell(Box<CellStep>),
    /// All is done.
    Finished,
}

impl Step {
    /// Its place; none at the end.
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

/// One cell, with its place and targets.
#[derive(Clone, Debug, PartialEq)]
pub struct CellStep {
    /// The cell, without a seed of its own.
    pub cell: CellSpec,
    /// Its place in the method.
    pub place: Place,
    /// The number of targets at work, from the first; None for all.
    pub targets: Option<u32>,
    /// The name of the engine; None leaves it to the run.
    pub engine: Option<String>,
    /// Idle time after it, ns.
    pub then_wait_ns: u64,
}
