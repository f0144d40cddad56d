//! Reports on stored runs, for people and programs: terminal text, pages, JSON with a published schema, CSV,
//! HdrHistogram's percentile text, fio's JSON, OpenMetrics.
//!
//! Every figure is computed in one place (`measure/src/summary.rs`) from merged histograms, so the same percentile is
//! the same number in every format. Tables, JSON and CSV omit figures that the samples can't support. The two foreign
//! formats, HdrHistogram's and fio's, contain every figure that their readers expect, with the sample counts.
//!
//! **Invariant:** everything here is a pure function of stored runs, without a clock, files or the environment: an old
//! run always looks the same, and is judged by the verdicts stored with it.

#![forbid(unsafe_code)]

pub mod compare;
pub mod csv;
pub mod fio;
pub mod formats;
mod headline;
pub mod hgrm;
pub mod history;
pub mod json;
mod kinds;
pub mod method;
mod method_headlines;
mod neighbours;
pub mod openmetrics;
pub mod page;
mod point_figures;
mod ranks;
mod rate_search;
mod repeats;
pub mod run_verdict;
pub mod sysbench_text;
pub mod table;
pub mod terminal;
pub mod thresholds;
mod verdict_groups;

pub use headline::{Standing, headline, level_of, listed_level, listed_result};
pub use run_verdict::RunVerdict;
