//! Flags of `history`.

use clap::Args;
use iodyno_measure::Metric;
use std::path::PathBuf;

/// Flags of `history`.
#[derive(Debug, Args)]
pub struct History {
    /// Name of the workload or method, as `iodyno ls` shows it [default: that of the last run]
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// Take the runs on this target [default: the targets of the last run of the workload]
    #[arg(long, value_name = "TARGET")]
    pub on: Option<String>,
    /// Follow this metric, such as iops, bandwidth, p99 or write.mean
    #[arg(long, value_name = "METRIC", default_value = "iops")]
    pub metric: Metric,
    /// Take at most this many runs, the latest
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u16).range(2..=4000))]
    pub last: u16,
    /// Write an HTML page to this file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}
