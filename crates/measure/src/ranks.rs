//! The figures of each process of a run that several processes measured: kept in the merged cell, so that one that differs
//! is seen.

use crate::Histogram;
use serde::{Deserialize, Serialize};

/// The figures of one rank in a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankFigures {
    /// Its number, from 0.
    pub rank: u32,
    /// The name of its host.
    pub host: String,
    /// Operations in the measured window.
    pub ops: u64,
    /// Bytes moved in it.
    pub bytes: u64,
    /// Length of the window, ns.
    pub window_ns: u64,
    /// Service time of reads and writes: median and 99th percentile, ns; None without enough samples.
    pub p50_ns: Option<u64>,
    /// See [`Self::p50_ns`].
    pub p99_ns: Option<u64>,
    /// CPU time of its workers, as a share of the time of the processors that they could occupy: the fewer of its workers
    /// and its processors.
    pub cpu_share: f64,
    /// Operations a second that its generator reaches without storage; None where that is not known.
    pub ceiling_iops: Option<f64>,
    /// I/O of other programs on its device, as a share of its own.
    pub foreign_share: Option<f64>,
    /// Processor time stolen by its hypervisor, as a share.
    pub steal_share: Option<f64>,
    /// Share (0 to 1) of its operations that were submitted over 1 ms after their intended start; None in closed loop.
    pub late_share: Option<f64>,
    /// Times that its processors were slowed down for heat.
    pub processor_throttles: Option<u64>,
    /// The hottest sensor of its device, °C, of several the one that is nearest to its warning.
    pub temperature_c: Option<f64>,
    /// The temperature at which that one warns, °C.
    pub temperature_warning_c: Option<f64>,
    /// Its clock's offset from rank 0's is known to this, ns.
    pub clock_bound_ns: u64,
    /// The longest time between the agreed start and that of one of its workers, ns.
    pub start_late_ns: u64,
    /// Targets that it measured.
    pub targets: u32,
    /// For the percentiles of several targets.
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
    /// Operations a second.
    pub fn iops(&self) -> f64 {
        if self.window_ns == 0 { 0.0 } else { self.ops as f64 * 1e9 / self.window_ns as f64 }
    }
}
