//! What is known of a target's verified content while a run goes on. What one run leaves for the next is in
//! `verified`.

use iodyno_drive::verify::{VerifyMap, Written};
use iodyno_measure::{Cell, Ended, ErrorKind};
use std::sync::Arc;

/// What is known of a target's verified content.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// What this run's writes bear.
    pub(crate) stamp: u64,
    /// The unit in which the target was laid out with verifiable content, if it was.
    pub(crate) laid_out: Option<u32>,
    /// The target was laid out anew with other content: what an earlier run wrote there is gone.
    pub(crate) is_laid_out_otherwise: bool,
    /// What content is checked against; made before the first cell that verifies.
    pub(crate) map: Option<Arc<VerifyMap>>,
    /// The map that an earlier run left.
    pub(crate) before: Option<Arc<Written>>,
    /// Something failed, so that a last flush proves nothing.
    pub(crate) failed: bool,
}

impl Verified {
    /// Notes how a cell went.
    pub(crate) fn note(&mut self, cell: &Cell) {
        let errors = cell.total().errors();
        self.failed |=
            errors.total() > errors.of(ErrorKind::Corrupt) || cell.ended == Ended::Errors;
        self.laid_out = None;
    }

    /// Something else was written: nothing is known any more.
    pub(crate) fn forget(&mut self) {
        (self.map, self.before, self.laid_out) = (None, None, None);
    }
}
