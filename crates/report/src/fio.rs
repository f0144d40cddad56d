//! Runs in the output formats of fio 3, for the many tools that read them: JSON with and without bins, terse lines,
//! log files. `job` defines which cells are jobs, and their options.
//!
//! fio's *clat* is our service time (submission to completion), *lat* is our response time (from the intended start
//! in open loop; in closed loop both are the same). *slat* is empty, as with fio's `disable_slat`: only a sample of
//! operations has its submission timed, and not by direction.

mod bins;
mod job;
pub mod json;
pub mod logs;
mod steady;
pub mod terse;

pub use bins::COARSENESS_MAX;

/// The version of fio that the formats follow.
const VERSION: &str = "fio-3.36";
