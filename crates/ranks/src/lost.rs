//! Timeouts of communication between ranks, and the error for a lost rank.

use std::fmt;
use std::time::Duration;

/// Timeouts for communication between ranks.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Time without any message after which a rank counts as lost.
    pub patience: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { patience: Duration::from_secs(10) }
    }
}

/// A rank (process of the run) that no longer responds, or that ended before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub rank: u32,
    /// Time without messages before the rank was declared lost; 0 if it ended.
    pub silent: Duration,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, silent } = self;
        if silent.is_zero() {
            return write!(f, "rank {rank} ended before the other ranks");
        }
        write!(f, "rank {rank} has sent nothing for {:.0} s", silent.as_secs_f64())
    }
}

impl std::error::Error for Lost {}
