//! Reproduces published studies by simulating the tested systems and workloads in virtual time. Each simulated value is
//! compared with the published one. A null model (a prediction without a device model) is compared in the same way, as
//! a baseline.
//!
//! A study is a file of the catalog ([`load`]) with systems, workloads and panels. A panel is a table or figure of the
//! paper, given by its axes; every combination of axis values becomes a row. [`run`] simulates the cells that the rows
//! need and returns an [`Outcome`], which [`json`] and [`terminal`] format.
//!
//! Published values that break a law of arrays are detected (`implausible.rs`) and not scored.
//!
//! **Invariants**
//!
//! - A study can't tune parameters: device and system files set them, and the study's file only lists the published
//!   values from which they were chosen.
//! - An outcome depends only on the files and the seed, not on threads or time.

#![forbid(unsafe_code)]

mod assign_provenance;
mod cell;
mod conclusion;
pub mod demerit;
mod error_strata;
mod implausible;
mod job;
pub mod json;
mod lab;
mod metric;
mod null;
mod outcome;
mod over_time;
pub mod page;
mod panel;
mod provenance;
pub mod published;
mod row;
mod schema;
mod score;
pub mod series;
mod strata_table;
mod study;
pub mod terminal;
mod testbed;
mod unit;
mod wanted;

pub use cell::{CellFigure, CellKey, Rounds, Taken};
pub use conclusion::{Conclusion, Finding, Verdict};
pub use error_strata::{Spread, Stratum};
pub use job::Options;
pub use lab::{Progress, StudyError, run};
pub use metric::{AtOptimum, Metric, Optimum, Recipe};
pub use null::NullModel;
pub use outcome::{Outcome, TimeLine};
pub use over_time::{OverTime, Spikes};
pub use panel::Panel;
pub use provenance::Provenance;
pub use row::{Nearer, Null, Row};
pub use score::{Score, score};
pub use study::{Study, load, title};
pub use testbed::{Bench, MemberRates, Owned};
pub use unit::{Dimension, Unit};
pub use wanted::{Wanted, Workload};
