//! Methods: ordered plans of cells. A method file becomes a [`Method`] that can't be wrong;
//! [`Method::next`] says, from what was done so far and nothing else, what to do next; and
//! [`findings()`] says what the finished cells show.
//!
//! A method is a list of stages. Each is one of seven acts: `purge`, `fill` (preconditioning that does not
//! depend on the workload), `wait`, `cells` (a grid of workloads over some axes), `rounds` (the same grid over
//! and over until the steady state of the SNIA performance test specification), `series` (one workload,
//! sampled for long), and `points` (a few operating points, chosen from what an earlier stage showed).
//! The tests of SNIA's specification are such files in the catalog, and so are plain sweeps.
//!
//! **Invariant:** pure. Reads no clock, does no I/O, draws no random number but from a named stream of
//! the run's seed. So a run that was killed goes on where its last finished cell was, and an old run
//! can be judged again.

#![forbid(unsafe_code)]

mod axis;
mod budget;
mod choice;
mod completed_step;
pub mod findings;
mod grid;
mod next_step;
mod prologue;
mod rate_search;
mod rules;
mod schema;
mod stage;
mod step;
mod sweep;

pub use axis::{Axis, AxisKind, Value};
pub use budget::Budget;
pub use choice::{Choice, MethodSource};
pub use completed_step::{Done, Figures};
pub use findings::{Findings, findings};
pub use grid::{Grid, Order, Point};
pub use next_step::Method;
pub use prologue::Prologue;
pub use rate_search::{LatencyLimit, RateSearch};
pub use stage::{Act, Ceiling, Cells, Fill, Points, Rounds, Series, Stage, Track, Which};
pub use step::{CellStep, Step};
pub use sweep::Sweep;

/// Whether a file of this text is a method rather than a workload: it has stages.
pub fn is_method(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("[[stages]]"))
}
