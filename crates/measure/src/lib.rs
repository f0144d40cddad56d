//! The data of a measurement: histograms by kind of operation, interval series, the cell that they form, and
//! the verdicts on it.
//!
//! A cell is a *value*: plain data, without handles and without percentiles. Cells of parallel workers or of several
//! targets merge, in any order and grouping, into the same cell. Percentiles are computed only for output, from merged
//! histograms, and are never averaged.
//!
//! **Invariant:** latency is aggregated here and nowhere else. Reads, writes, flushes, trims and
//! write-zeroes are never mixed in one histogram.

#![forbid(unsafe_code)]

pub mod cell;
pub mod conditions;
pub mod coverage;
pub mod errors;
pub mod evidence;
pub mod exposition;
pub mod histogram;
pub mod interval;
mod level;
pub mod message_log;
pub mod metric;
pub mod offered_rate;
mod rank_of_cell;
mod ranks;
pub mod stationarity;
pub mod statistics;
pub mod storage;
pub mod summary;
pub mod threshold;
pub mod verdict;
pub mod verification;

pub use cell::{
    Cell, CellKey, Ended, Place, Recorded, Resources, Role, RunDelay, Scheduling, StampQuality,
};
pub use conditions::{Conditions, IoLimit};
pub use coverage::{Coverage, FillProof};
pub use errors::{ErrorCounts, ErrorKind, errno_name};
pub use evidence::{
    Busy, Evidence, Hung, OtherTool, Preparation, RankEvidence, Spent, SpentOf, StoreLevel, WarmUp,
};
pub use histogram::Histogram;
pub use interval::{ClassStats, Interval, IoKinds};
pub use level::{Level, Verdict};
pub use message_log::{LogInterval, MessageLog};
pub use metric::{Metric, Quantity};
pub use ranks::RankFigures;
pub use storage::{
    DiskUse, Effect, LayerEffect, Reached, Storage, StorageEnd, StorageLayer, Uncached,
};
pub use summary::{KindSummary, Latency, PERCENTILES, Summary};
pub use threshold::Threshold;

pub use verification::{Finding, Found, KeptMap, Verification, Writer};
