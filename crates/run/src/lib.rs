//! Executes what was asked for: inspects the targets, tells the cost first, guards and opens them,
//! lays files out, drives one cell after the other, gathers the evidence around each, judges it,
//! and keeps it in the notebook while it grows.
//!
//! **Invariant:** the only room that sees targets, engines and notebook together.

mod execute;
mod keeper;
mod plan;
mod refuse;
mod request;
mod stage;
mod surroundings;

pub use execute::execute;
pub use plan::Plan;
pub use request::{CellRequest, Outcome, Phase, Request, RunError, Watch};
