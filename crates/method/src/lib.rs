//! Methods: ordered plans of cells, which are single measurements. A method file becomes a validated [`Method`].
//! [`Method::next`] computes the next step from the completed steps alone, and [`findings()`] evaluates the finished
//! cells.
//!
//! A method is a list of stages. A stage has one of these acts:
//!
//! | act | effect |
//! |---|---|
//! | `purge` | erases the targets, so that they are as if never written |
//! | `fill` | writes the active range (preconditioning independent of the workload) |
//! | `wait` | leaves the targets idle |
//! | `cells` | measures a grid of workloads over some axes |
//! | `rounds` | repeats a grid until the steady state of SNIA's performance test specification |
//! | `series` | samples one workload for a long time |
//! | `points` | measures a few operating points, chosen from an earlier stage's results |
//! | rate search (sweeps only) | finds the highest rate under a latency limit |
//!
//! The catalog has method files for the tests of SNIA's specification, and for plain sweeps.
//!
//! **Invariant:** pure. This crate reads no clock, does no I/O, and draws random numbers only from named streams of the
//! run's seed. A killed run therefore continues after its last finished cell, and an old run can be judged again.

#![forbid(unsafe_code)]

mod axis;
mod budget;
mod choice;
mod completed_step;
pub mod findings;
mod grid;
mod next_step;
mod prologue;
pub mod rate_search;
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

/// Whether the text is a method file rather than a workload file: a method file has stages.
pub fn is_method(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("[[stages]]"))
}
