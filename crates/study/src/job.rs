//! Plans each cell of a study as a job. Determines how long the cell's ramp and measured window last.

use crate::cell::CellKey;
use crate::study::Study;
use iodyno_emulate::spec;
use iodyno_measure::statistics::steady::SteadyLimits;
use iodyno_workload::Spec;

/// Number of intervals per window, for the taper and the standard errors.
const BATCHES: u64 = 40;
/// Number of intervals of a cell that is plotted over time.
const OVER_TIME_INTERVALS: u64 = 500;
/// Minimum number of measured operations per volume. With fewer, effects at the edges of the window would
/// dominate.
const OPS_MIN: f64 = 64.0;
/// Minimum ramp, as a multiple of the time that an operation spends in the system, so that queues have
/// filled.
const RESIDENCES: f64 = 3.0;
/// Maximum number of outstanding operations in a pilot. More would hardly increase a device's rate.
const PILOT_OIO_MAX: u32 = 128;
/// Number of rounds in SNIA's measurement window.
pub(crate) const ROUNDS: usize = SteadyLimits::PTS.window_rounds as usize;
/// Minimum number of operations of a cell that is measured in rounds, as a multiple of its outstanding operations. Each
/// batch is then longer than one operation.
const TURNS: f64 = 40.0;
/// Maximum factor by which the window of a cell that is measured in rounds may be extended.
const LONGER_MAX: u64 = 8;
/// The window of a cell that is measured in rounds is a multiple of this time, ns, so that it divides into intervals
/// and batches.
const WINDOW_STEP_NS: u64 = 320;
/// Maximum simulated time of a cell: an hour, in ns.
const WINDOW_MAX_NS: f64 = 3.6e12;
/// Simulated time per minute for a cell that represents a longer run: one second, in ns.
const SECOND_NS: f64 = 1e9;
const MINUTE_NS: u64 = 60_000_000_000;

/// Effort and seed of the simulations of a study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Number of threads; 0: one per processor.
    pub threads: usize,
    /// Seed of all random streams. Each cell derives its own seed from this one and the name of the cell.
    pub seed: u64,
    /// Number of measured operations per cell, as a fraction of the number in the study's file.
    pub ops_share: f64,
    /// Length of the ramp (warm-up) of each cell, as a fraction of the length in the study's file.
    pub ramp_share: f64,
    /// Target for the half-width of the 95 % confidence intervals of rate and mean latency, as a fraction of the value.
    /// A cell with an extensible window ends when both are narrow enough.
    pub half_width_share: f64,
}

impl Options {
    /// Options for a full study, with the numbers of operations and the ramps that are in its file.
    pub const FULL: Self =
        Self { threads: 0, seed: 1, ops_share: 1.0, ramp_share: 1.0, half_width_share: 0.01 };
    /// Options for a quick study, with a tenth of the operations. Standard errors are up to three times as large.
    pub const QUICK: Self = Self { ops_share: 0.1, half_width_share: 0.04, ..Self::FULL };
}

/// Coordinates of the pilot of a cell: a short cell with limited depth on one device, which estimates the rate per
/// volume. For arrays, the pilot has all devices, because arrays share adapters.
pub(crate) fn pilot_of(study: &Study, key: &CellKey) -> CellKey {
    let depth = key.depth.min((PILOT_OIO_MAX / key.threads).max(1));
    let devices = if study.systems[key.system].array.is_some() { key.devices } else { 1 };
    CellKey { devices, depth, long: false, span_ns: None, over_ns: None, ..*key }
}

pub(crate) fn volumes(study: &Study, key: &CellKey) -> f64 {
    f64::from(key.devices / study.systems[key.system].members())
}

/// Key of the short cell that estimates the rate of a long cell.
pub(crate) fn short(key: &CellKey) -> CellKey {
    CellKey { long: false, ..*key }
}

/// A cell to simulate, with the lengths of its ramp and window.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) key: CellKey,
    pub(crate) ramp_ns: u64,
    /// Length of the window in virtual time, ns; None: the cell ends after `ops` operations.
    pub(crate) window_ns: Option<u64>,
    pub(crate) ops: u64,
    pub(crate) interval_ns: u64,
    /// Maximum factor by which the window is extended until the confidence intervals are narrow enough. 1: fixed
    /// length.
    pub(crate) longer_max: u64,
    /// Expected cost of the simulation, in operations of 4 KiB.
    pub(crate) units: u64,
    /// Whether the job is a pilot that is followed by the measured cell with the same coordinates.
    pub(crate) has_cell: bool,
}

impl Job {
    /// Number of cells in the job: 2 for a pilot that a cell follows, otherwise 1.
    pub(crate) fn cells(&self) -> usize {
        1 + usize::from(self.has_cell)
    }
}

/// Plans the simulations of a study.
#[derive(Clone, Copy)]
pub(crate) struct Planner<'a> {
    pub(crate) study: &'a Study,
    pub(crate) options: &'a Options,
}

impl Planner<'_> {
    /// Plans a pilot. `has_cell`: whether the cell with the same coordinates is measured after it.
    pub(crate) fn pilot(&self, key: &CellKey, has_cell: bool) -> Job {
        let workload = &self.study.workloads[key.workload];
        let ramp_ns = (workload.ramp_ns as f64 * self.options.ramp_share / 4.0) as u64;
        let ops = 200 + 8 * u64::from(key.depth);
        let ops = ops.max(2 * u64::from(key.oio()));
        Job {
            key: *key,
            ramp_ns,
            window_ns: None,
            ops,
            interval_ns: u64::MAX / 2,
            longer_max: 1,
            units: 0,
            has_cell,
        }
    }

    pub(crate) fn ramp_least_ns(&self, key: &CellKey) -> f64 {
        if key.over_ns.is_some() {
            // A cell over time is measured from its start, unless the panel has a ramp.
            return key.ramp_ns.unwrap_or(0) as f64;
        }
        let workload = &self.study.workloads[key.workload];
        let of_system_ns = self.study.systems[key.system].ramp_ns;
        let of_system_ns = if workload.read < 1.0 { of_system_ns } else { 0 };
        let remembers_ns = key.ramp_ns.unwrap_or(workload.ramp_ns.max(of_system_ns));
        remembers_ns as f64 * self.options.ramp_share
    }

    /// Plans a cell, given the approximate rate of each volume, operations per second.
    pub(crate) fn measured(&self, key: &CellKey, rate_iops: f64) -> Job {
        let workload = &self.study.workloads[key.workload];
        let block = u64::from(key.block_bytes).max(1);
        let wanted = if key.long { workload.long_ops } else { workload.ops };
        let asked = wanted.min(workload.bytes_max / block) as f64 * self.options.ops_share;
        let volumes = volumes(self.study, key);
        let ops = (asked / volumes).max(OPS_MIN);
        let residence_ns = f64::from(key.oio()) / rate_iops * 1e9;
        let ramp_ns = self.ramp_least_ns(key);
        let ramp_ns =
            if key.over_ns.is_some() { ramp_ns } else { ramp_ns.max(RESIDENCES * residence_ns) };
        // The ramp lasts as long as earlier operations affect the system. The window is at least as long, because a
        // shorter one would cover only one phase of the system.
        let window_ns = (ops / rate_iops * 1e9).max(ramp_ns);
        let window_ns = if let Some(over_ns) = key.over_ns {
            over_ns.next_multiple_of(OVER_TIME_INTERVALS)
        } else if self.study.in_rounds {
            let turns_ns = TURNS * residence_ns;
            let stalls_ns = if key.long { self.rounds_of_stalls_ns(key, rate_iops) } else { 0.0 };
            let window_ns = window_ns.max(turns_ns).max(stalls_ns).min(WINDOW_MAX_NS);
            (window_ns as u64 + 1).next_multiple_of(WINDOW_STEP_NS)
        } else if key.span_ns.is_some() {
            ((SECOND_NS * self.options.ops_share).max(ramp_ns) as u64 + 1)
                .next_multiple_of(WINDOW_STEP_NS)
        } else {
            let window_ns = window_ns.min(WINDOW_MAX_NS);
            (window_ns / BATCHES as f64).ceil().max(1.0) as u64 * BATCHES
        };
        let ramp_ns = ramp_ns as u64;
        let operations = (window_ns + ramp_ns) as f64 * 1e-9 * rate_iops * volumes;
        let units = (operations * block.div_ceil(4096) as f64) as u64;
        let intervals = if key.over_ns.is_some() { OVER_TIME_INTERVALS } else { BATCHES };
        let interval_ns = window_ns / intervals;
        let longer_max = match key.span_ns {
            Some(span_ns) => span_ns / MINUTE_NS,
            None if self.study.in_rounds && !key.long => LONGER_MAX,
            None => 1,
        };
        Job {
            key: *key,
            ramp_ns,
            window_ns: Some(window_ns),
            ops: 0,
            interval_ns,
            longer_max,
            units,
            has_cell: false,
        }
    }

    /// Minimum length of a measurement window, so that each round includes one stall of the device, ns; 0 if the
    /// device has no stalls.
    fn rounds_of_stalls_ns(&self, key: &CellKey, rate_iops: f64) -> f64 {
        let spec::Kind::Flash(flash) = &self.study.systems[key.system].device.kind else {
            return 0.0;
        };
        let written = 1.0 - self.study.workloads[key.workload].read;
        let Some(stall) = flash.translation.stall.filter(|_| written > 0.0) else { return 0.0 };
        let writes = stall.every_bytes as f64 / f64::from(key.block_bytes);
        ROUNDS as f64 * (writes / written / rate_iops * 1e9 + stall.for_ns as f64)
    }
}

/// Sets a job's ramp and length as limits of the workload.
pub(crate) fn limited(spec: Spec, job: &Job) -> Result<Spec, String> {
    let spec = spec.with_ramp(job.ramp_ns)?;
    match job.window_ns {
        Some(window_ns) => spec.with_time(window_ns.saturating_mul(job.longer_max)),
        None => spec.with_ops(job.ops)?.without_time(),
    }
}
