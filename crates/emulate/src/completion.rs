//! The completion of a host's operation: its time, worker and error.

use iodyno_units::IoError;

/// A host's operation that has ended, with or without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Virtual time at which the operation completed, ns.
    pub at_ns: u64,
    /// Token that the submitter gave the operation.
    pub token: u64,
    /// Index of the volume that executed the operation.
    pub volume: u32,
    /// Index of the worker (a thread of the load generator) that submitted the operation.
    pub worker: u32,
    /// Why the operation failed; `None` if it succeeded.
    pub failure: Option<IoError>,
}
