//! Reports on stored runs as terminal text, pages, JSON with a published schema, CSV, HdrHistogram's percentile text,
//! fio's formats and OpenMetrics.
//!
//! All formats show the same percentiles, because one place computes every result from merged histograms
//! (`measure/src/summary.rs`). Tables, JSON and CSV omit values with too few samples. The formats of HdrHistogram and
//! fio contain all values that their readers expect, with the sample counts.
//!
//! **Invariant:** every report is a pure function of stored runs. It reads no clock, files or environment variables.

#![forbid(unsafe_code)]

pub mod compare;
pub mod csv;
pub mod fio;
pub mod formats;
mod headline;
pub mod hgrm;
pub mod history;
mod interval_words;
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
