//! How a host operation ended: when, for which worker, and why it failed if it did.

use iodyno_units::IoError;

/// One operation that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When, ns.
    pub at_ns: u64,
    /// What the submitter called it.
    pub token: u64,
    /// Which volume.
    pub volume: u32,
    /// Which worker submitted it.
    pub worker: u32,
    /// Why it failed, if it did.
    pub failure: Option<IoError>,
}
