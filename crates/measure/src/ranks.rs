//! The figures of each rank of a run, stored in the merged cell so that an outlier is seen.

use crate::Histogram;
use serde::{Deserialize, Serialize};

/// Results of one rank in a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankFigures {
    /// Number of the rank, from 0.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// Operations in the measured window.
    pub ops: u64,
    /// Bytes moved in the measured window.
    pub bytes: u64,
    /// Length of the window, ns.
    pub window_ns: u64,
    /// Median of the service time of reads and writes, ns; None without enough samples.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the service time of reads and writes, ns; None without enough samples.
    pub p99_ns: Option<u64>,
    /// CPU time of its workers, as a share (0 to 1) of the processor time available to them: one processor per worker,
    /// or all its processors if there are fewer.
    pub cpu_share: f64,
    /// Operations per second that its generator reaches on the null engine; None if unknown.
    pub ceiling_iops: Option<f64>,
    /// I/O of other programs on its device, as a share of the rank's own.
    pub foreign_share: Option<f64>,
    /// Processor time stolen by its hypervisor, as a share (0 to 1) of all processors' time.
    pub steal_share: Option<f64>,
    /// Share (0 to 1) of operations submitted over 1 ms after their intended start; None in closed loop.
    pub late_share: Option<f64>,
    /// Times that its processors were throttled for heat.
    pub processor_throttles: Option<u64>,
    /// Temperature of its device's hottest sensor, °C; with several devices, of the one nearest to its warning.
    pub temperature_c: Option<f64>,
    /// Warning temperature of that sensor, °C.
    pub temperature_warning_c: Option<f64>,
    /// Uncertainty of the offset of its clock from rank 0's, ns.
    pub clock_bound_ns: u64,
    /// Longest time between the agreed start and the start of one of its workers, ns.
    pub start_late_ns: u64,
    /// Number of targets that it measured.
    pub targets: u32,
    /// Service times, to compute percentiles over several targets.
    #[serde(skip)]
    pub(crate) service: Histogram,
    #[serde(skip)]
    pub(crate) lateness: Histogram,
    #[serde(skip)]
    pub(crate) cpu_seconds: f64,
    #[serde(skip)]
    pub(crate) workers: u32,
    #[serde(skip)]
    pub(crate) cpus: u32,
}

impl RankFigures {
    /// Operations per second.
    pub fn iops(&self) -> f64 {
        if self.window_ns == 0 { 0.0 } else { self.ops as f64 * 1e9 / self.window_ns as f64 }
    }
}
