//! A step of a method, ready for execution.

use iodyno_measure::Place;
use iodyno_workload::{CellSpec, Spec};

/// Next step of a method, to be carried out by the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Purge the targets where possible, so that they are as if never written.
    Purge {
        /// The step's position in the method: stage, round and point.
        place: Place,
    },
    /// Write the active range sequentially.
    Fill {
        /// The step's position in the method: stage, round and point.
        place: Place,
        /// Workload of the writes, including the active range.
        spec: Box<Spec>,
        /// Number of passes over the active range.
        passes: u8,
    },
    /// Leave the targets idle.
    Wait {
        /// The step's position in the method: stage, round and point.
        place: Place,
        /// Duration of the wait, ns.
        ns: u64,
    },
    /// Run a cell, which is one measurement.
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

/// A cell (measurement) to run, with its position in the method and the number of targets.
#[derive(Clone, Debug, PartialEq)]
pub struct CellStep {
    /// Measurement to run. The caller must set its seed.
    pub cell: CellSpec,
    /// The step's position in the method: stage, round and point.
    pub place: Place,
    /// Number of targets to use, counted from the first; `None` for all.
    pub targets: Option<u32>,
    /// Name of the I/O engine; `None` for the run's engine.
    pub engine: Option<String>,
    /// Idle time after the cell, ns.
    pub then_wait_ns: u64,
}
