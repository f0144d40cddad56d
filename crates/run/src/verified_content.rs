//! The state of a target's verified content during a run. Its persistence between runs is in
//! `verified`.

use iodyno_drive::verify::{VerifyMap, Written};
use iodyno_measure::{Cell, Ended, ErrorKind};
use std::sync::Arc;

/// The state of a target's verified content.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// Stamp that identifies this run's writes.
    pub(crate) stamp: u64,
    /// The unit of the verifiable content with which the target was laid out, bytes; None if it was
    /// not.
    pub(crate) laid_out: Option<u32>,
    /// Whether the target was newly laid out with other content, so that an earlier run's content
    /// is gone.
    pub(crate) is_laid_out_otherwise: bool,
    /// Map by which reads are verified, created before the first cell that verifies.
    pub(crate) map: Option<Arc<VerifyMap>>,
    /// Map of written content that an earlier run left.
    pub(crate) before: Option<Arc<Written>>,
    /// Whether an operation failed, so that the success of a final flush proves nothing.
    pub(crate) failed: bool,
}

impl Verified {
    /// Updates the state with the result of a cell.
    pub(crate) fn note(&mut self, cell: &Cell) {
        let errors = cell.total().errors();
        self.failed |=
            errors.total() > errors.of(ErrorKind::Corrupt) || cell.ended == Ended::Errors;
        self.laid_out = None;
    }

    /// Forgets the map after other content was written.
    pub(crate) fn forget(&mut self) {
        (self.map, self.before, self.laid_out) = (None, None, None);
    }
}
