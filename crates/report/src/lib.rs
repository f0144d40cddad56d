//! Reports on stored runs, for people and programs: terminal text, pages, JSON with a published schema, CSV,
//! HdrHistogram's percentile text, fio's JSON, OpenMetrics.
//!
//! Every figure is computed in one place (`measure/src/summary.rs`) from merged histograms, so the same
//! percentile is the same number in every format. Figures that the samples can't support are absent from
//! tables, JSON and CSV; the two foreign formats, HdrHistogram's and fio's, have everything that their readers
//! expect, with the counts beside it.
//!
//! **Invariant:** everything here is a pure function of stored runs. No clock, no file, no environment: an old
//! run is always shown the same, and judged by the verdicts stored with it.

#![forbid(unsafe_code)]

pub mod compare;
pub mod csv;
pub mod fio;
mod headline;
pub mod hgrm;
pub mod json;
mod kinds;
pub mod method;
mod method_headlines;
mod neighbours;
pub mod openmetrics;
pub mod page;
mod ranks;
mod repeats;
pub mod run_verdict;
pub mod sysbench_text;
pub mod terminal;
pub mod thresholds;
mod verdict_groups;

pub use headline::{Standing, headline};
pub use run_verdict::RunVerdict;
