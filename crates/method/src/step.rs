//! One step of a method, ready to be carried out.

use iodyno_measure::Place;
use iodyno_units::Precondition;
use iodyno_workload::Spec;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Purge the targets, where they can be.
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

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellStep {
    /// Its place in the method.
    pub place: Place,
    /// Name for people and for the record.
    pub name: String,
    /// The workload, with its time.
    pub spec: Spec,
    /// The state of an emulated device.
    pub state: Precondition,
    /// Which share of an emulated device was written before; None for all.
    pub fill: Option<f64>,
    /// How many targets work, from the first; None for all.
    pub targets: Option<u32>,
    /// Nothing to do after it for so long, ns.
    pub then_wait_ns: u64,
    /// In virtual time it may end early once its steady state is proven and it has so many operations: a
    /// cell of a state that does not change. None for one that runs its time.
    pub settle_ops: Option<u64>,
}
