//! Figures of each rank (process) of a run, stored in the merged cell so that an outlying rank can be seen.

use crate::Histogram;
use serde::{Deserialize, Serialize};

/// Results of one rank (one process of a distributed run) in a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankFigures {
    /// Index of the process among all processes of the run, from 0.
    pub rank: u32,
    /// Host name of the rank's machine.
    pub host: String,
    /// Number of operations completed in the measured window.
    pub ops: u64,
    /// Bytes moved in the measured window.
    pub bytes: u64,
    /// Length of the measured window, ns.
    pub window_ns: u64,
    /// Median service time over all kinds of operation, ns; None with too few samples.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the service time over all kinds of operation, ns; None with too few samples.
    pub p99_ns: Option<u64>,
    /// CPU utilisation (0 to 1) of the rank's workers: their CPU time as a fraction of one processor per worker, or of
    /// all processors if the host has fewer processors than workers.
    pub cpu_share: f64,
    /// Maximum rate of the rank's load generator, operations per second, measured on the null engine; None if
    /// unknown.
    pub ceiling_iops: Option<f64>,
    /// I/O of other programs on the rank's device, as a fraction of the rank's own I/O; None if unknown.
    pub foreign_share: Option<f64>,
    /// Processor time stolen by the hypervisor, as a share (0 to 1) of the time of all processors of the host; None if
    /// unknown.
    pub steal_share: Option<f64>,
    /// Share (0 to 1) of operations submitted over 1 ms after their intended start; None in closed loop.
    pub late_share: Option<f64>,
    /// Number of thermal throttling events of the host's processors; None if unknown.
    pub processor_throttles: Option<u64>,
    /// Temperature of the hottest sensor of the rank's device, °C; None if unknown. If the rank uses several devices,
    /// the value is that of the device closest to its warning threshold.
    pub temperature_c: Option<f64>,
    /// Warning threshold of the sensor in `temperature_c`, °C; None if unknown.
    pub temperature_warning_c: Option<f64>,
    /// Uncertainty of the rank's clock offset from rank 0, ns.
    pub clock_bound_ns: u64,
    /// Longest delay between the agreed start and the start of one of the rank's workers, ns.
    pub start_late_ns: u64,
    /// Number of targets that the rank measured.
    pub targets: u32,
    /// Histogram of service times, kept so that percentiles can be computed over several targets.
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
    /// Completed operations per second of the measured window.
    pub fn iops(&self) -> f64 {
        if self.window_ns == 0 { 0.0 } else { self.ops as f64 * 1e9 / self.window_ns as f64 }
    }
}
