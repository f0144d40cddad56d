//! State of a target's verifiable content during a run. The module `verified` hands it on from run to run.

use iodyno_drive::verify::{VerifyMap, Written};
use iodyno_measure::{Cell, Ended, ErrorKind};
use std::sync::Arc;

/// Verifiable content of a target, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// Stamp that identifies this run's writes.
    pub(crate) stamp: u64,
    /// Size of a verification unit in the initial content, bytes. None if the run wrote no verifiable initial content.
    pub(crate) laid_out: Option<u32>,
    /// Whether new, unverifiable initial content has replaced the content of earlier runs.
    pub(crate) is_laid_out_otherwise: bool,
    /// Map against which reads are verified; None before the first cell that verifies.
    pub(crate) map: Option<Arc<VerifyMap>>,
    /// Map of the content that earlier runs wrote.
    pub(crate) before: Option<Arc<Written>>,
    /// Whether any operation failed. If so, a successful final flush does not prove that all writes are durable.
    pub(crate) failed: bool,
}

impl Verified {
    /// Updates the state after a cell: notes failed operations, and that the initial content may have changed.
    pub(crate) fn note(&mut self, cell: &Cell) {
        let errors = cell.total().errors();
        self.failed |=
            errors.total() > errors.of(ErrorKind::Corrupt) || cell.ended == Ended::Errors;
        self.laid_out = None;
    }

    /// Forgets all known content because unverifiable content was written.
    pub(crate) fn forget(&mut self) {
        (self.map, self.before, self.laid_out) = (None, None, None);
    }
}
