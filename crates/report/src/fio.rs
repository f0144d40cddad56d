//! Formats runs as fio 3 does, for the many tools that read its output: JSON with and without bins, terse lines, log
//! files. The module `job` selects the cells that become fio jobs, and derives the options of each job.
//!
//! fio's *clat* is our service time (submission to completion), *lat* is our response time (from the intended start in
//! open loop; in closed loop both are the same). *slat* is empty, as with fio's `disable_slat`: submission is timed
//! only for a sample of operations, and not separately for reads and writes.

mod bins;
mod job;
pub mod json;
pub mod logs;
mod not_in_options;
mod steady;
pub mod terse;

pub use bins::COARSENESS_MAX;

/// Version of fio whose output formats are reproduced.
const VERSION: &str = "fio-3.36";
