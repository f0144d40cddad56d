//! Runs in the output formats of fio 3, for the many tools that read them: JSON with and without bins, terse
//! lines, log files. What a job is, and which options it would have had, is in `job`.
//!
//! fio's *clat* is our service time (submission to completion), *lat* is our response time (from the intended
//! start in open loop; in closed loop both are the same). *slat* is empty, as with fio's `disable_slat`: submission
//! is timed for a sample of operations only, and not by direction.

mod bins;
mod job;
pub mod json;
pub mod logs;
mod steady;
pub mod terse;

pub use bins::COARSENESS_MAX;

/// The version of fio whose formats these are.
const VERSION: &str = "fio-3.36";
