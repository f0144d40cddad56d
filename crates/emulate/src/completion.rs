//! Completion of a host operation: its time, its worker, and the reason if it failed.

use iodyno_units::IoError;

/// One completed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When, ns.
    pub at_ns: u64,
    /// The submitter's token.
    pub token: u64,
    /// Which volume.
    pub volume: u32,
    /// Which worker submitted it.
    pub worker: u32,
    /// Why it failed, if it did.
    pub failure: Option<IoError>,
}
