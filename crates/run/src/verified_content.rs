//! The state of a target's verified content during a run. Its persistence between runs is in
//! `verified`.

use iodyno_drive::verify::{VerifyMap, Written};
use iodyno_measure::{Cell, Ended, ErrorKind};
use std::sync::Arc;

/// The state of a target's verified content.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// The stamp of this run's writes.
    pub(crate) stamp: u64,
    /// The unit in which the target was laid out with verifiable content, if it was.
    pub(crate) laid_out: Option<u32>,
    /// The target was laid out anew with other content: the content of an earlier run is gone.
    pub(crate) is_laid_out_otherwise: bool,
    /// The map for verification; made before the first cell that verifies.
    pub(crate) map: Option<Arc<VerifyMap>>,
    /// The map that an earlier run left.
    pub(crate) before: Option<Arc<Written>>,
    /// A failure occurred, so that a last flush proves nothing.
    pub(crate) failed: bool,
}

impl Verified {
    /// Records the result of a cell.
    pub(crate) fn note(&mut self, cell: &Cell) {
        let errors = cell.total().errors();
        self.failed |=
            errors.total() > errors.of(ErrorKind::Corrupt) || cell.ended == Ended::Errors;
        self.laid_out = None;
    }

    /// Other content was written: nothing is known any more.
    pub(crate) fn forget(&mut self) {
        (self.map, self.before, self.laid_out) = (None, None, None);
    }
}
