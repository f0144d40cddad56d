//! How long ranks wait for one another, and what is said of one that is lost.

use std::fmt;
use std::time::Duration;

/// How long ranks wait for one another.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// A rank that is silent for longer is lost.
    pub patience: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { patience: Duration::from_secs(10) }
    }
}

/// A rank that fell silent, or ended before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Which one.
    pub rank: u32,
    /// For how long it was silent when it was given up; 0 for one that ended.
    pub silent: Duration,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, silent } = self;
        if silent.is_zero() {
            return write!(f, "rank {rank} ended before the others");
        }
        write!(f, "rank {rank} has sent nothing for {:.0} s", silent.as_secs_f64())
    }
}

impl std::error::Error for Lost {}
