//! Completion of a host operation: its time, worker, and error.

use iodyno_units::IoError;

/// One completed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Time of completion, ns.
    pub at_ns: u64,
    /// The submitter's token.
    pub token: u64,
    /// Number of the volume.
    pub volume: u32,
    /// Number of the submitting worker.
    pub worker: u32,
    /// The error of a failed operation.
    pub failure: Option<IoError>,
}
