//! The interface for running a cell: the plan with targets, engines and clock, the errors, and the progress observer.

use crate::clock::Clock;
use crate::engine::{EngineKind, EngineOptions, Medium};
use crate::sequential_cursors::Walks;
use crate::trace_recorder::TraceEvents;
use crate::verify::VerifyMap;
use iodyno_emulate::System;
use iodyno_measure::{Cell, Interval, Place};
use iodyno_units::rng;
use iodyno_workload::{ArrivalKind, CellSpec, Flow, Spec};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A target of a cell, with its engine and its workload.
#[derive(Clone, Debug)]
pub struct TargetPlan {
    /// Name of the target, in canonical form.
    pub name: String,
    /// The open storage to measure, with its engine.
    pub medium: Medium,
    /// Alignment that the target requires of offsets and lengths, bytes.
    pub align_bytes: u32,
    /// Map of the target's verifiable content; `None` if content is not verifiable, or no data is transferred.
    pub verify: Option<Arc<VerifyMap>>,
    /// Index in [`CellSpec::beside`] of the workload that runs on this target; `None`: the cell's main workload runs on
    /// it. A target with several simultaneous workloads has one entry for each.
    pub beside: Option<usize>,
    /// Index of the target in the cell, from 0; equal in all entries for one target.
    pub number: u32,
}

impl TargetPlan {
    /// Creates a target that is a volume of an emulated system in virtual time.
    pub fn model(name: String, system: &Arc<System>, volume: u32) -> Self {
        let medium = Medium::Model { system: Arc::clone(system), volume };
        Self { name, medium, align_bytes: 512, verify: None, beside: None, number: volume }
    }

    pub fn engine(&self) -> EngineKind {
        self.medium.engine()
    }
}

/// Random seed of the workload on the target with this index. Each target has its own random streams: with equal
/// streams all targets would get the same data, and the same operations at the same time. The first target uses the
/// run's own seed, so that the workload on one emulated device equals that on a real device.
pub(crate) fn seed_of(seed: u64, target: usize) -> u64 {
    if target == 0 { seed } else { rng::key(seed, "target", target as u64) }
}

/// Everything needed to run one measured cell, such as workload, targets and clock.
#[derive(Debug)]
pub struct CellPlan {
    /// Workload and settings of the cell: seed, limits and background workloads.
    pub cell: CellSpec,
    /// The cell's step in its method; `None` without a method.
    pub place: Option<Place>,
    /// Targets of the cell. Each has its own set of workers.
    pub targets: Vec<TargetPlan>,
    /// Clock that all workers of the cell use for timestamps.
    pub clock: Clock,
    /// Polling and set-up flags of io_uring; other engines have no options.
    pub options: EngineOptions,
    /// Positions where sequential workloads continue from one cell to the next; `None` for a cell that begins at
    /// the start of its range.
    pub walks: Option<Arc<Walks>>,
    /// Shared operation counts of workloads that run in a fixed proportion.
    pub flow: Arc<Flow>,
    /// Channel that receives a trace of operations and completions; `None` if the cell is not recorded.
    pub events: Option<TraceEvents>,
    /// Agreement on the start time with other processes that run the same cell. `None` for a cell of this process
    /// alone, and in virtual time.
    pub start: Option<Arc<dyn StartTogether>>,
    /// Maximum number of SSD events that a warm-up simulates, for targets in virtual time. The warm-up runs the
    /// workload before the ramp until the fill of buffers and caches no longer changes. `None`: the cell has no
    /// warm-up.
    pub warm_up_events_max: Option<u64>,
    /// Number of times that the workloads write the capacity of emulated flash devices before the cell, in no
    /// simulated time (`model/aging.rs`); 0: the devices are not aged.
    pub aged_passes: f64,
    /// Sampling ratio k of emulated flash devices, 1 to 2^20: a device's map contains one of every k logical pages.
    /// `None`: the size and number of the devices determine k. With a larger k the map is created in less time, but
    /// garbage collection is simulated less accurately.
    pub represent: Option<u32>,
    /// Timeout for a worker's final flush, ns. An allowance for writing the worker's bytes is added.
    pub flush_ns: u64,
}

/// Lets the processes that run the same cell agree on a common start time.
pub trait StartTogether: core::fmt::Debug + Send + Sync {
    /// Reports that this process's workers are ready, and waits for other processes. Returns the start time by
    /// CLOCK_MONOTONIC, ns; `None` if another process's workers are not ready, so that the cell does not start.
    fn agree(&self) -> Option<u64>;
}

impl CellPlan {
    /// Default limit of a warm-up, in simulated events: some seconds of CPU time.
    pub const WARM_UP_EVENTS_MAX: u64 = 16_000_000;

    /// Default of `flush_ns`, ns. Exceeds the kernel's timeout for a device command.
    pub const FLUSH_NS: u64 = 120_000_000_000;

    /// Workload and settings for the target with this index: those of the cell's main workload, or of a background
    /// workload.
    pub fn cell_on(&self, target: usize) -> &CellSpec {
        let beside = self.targets.get(target).and_then(|target| target.beside);
        beside.map_or(&self.cell, |beside| &self.cell.beside[beside])
    }

    /// Target number and worker number in a trace, for worker `number` of `targets[target]`. Workers of
    /// simultaneous workloads on one target are numbered consecutively.
    pub(crate) fn place_in_trace(&self, target: usize, number: u32) -> (u32, u32) {
        let own = self.targets[target].number;
        let same = (0..target).filter(|other| self.targets[*other].number == own);
        let before = same.map(|other| self.cell_on(other).spec.threads()).sum::<u32>();
        (own, before + number)
    }

    /// Maximum duration of the cell, including delays and ramps, ns; `None` if a workload has no time limit.
    pub(crate) fn total_ns(&self) -> Option<u64> {
        let of = |cell: &CellSpec| {
            let limits = cell.spec.limits();
            Some(limits.start_after_ns + limits.ramp_ns + limits.time_ns?)
        };
        let all = core::iter::once(&self.cell).chain(&self.cell.beside).map(of);
        all.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// True if some workers issue operations after their last planned one: flushes, or reads of the blocks
    /// written.
    pub(crate) fn goes_on_at_end(&self) -> bool {
        core::iter::once(&self.cell)
            .chain(&self.cell.beside)
            .any(|cell| cell.spec.flush_at_end() > 0 || cell.spec.read_back() > 0)
    }

    /// Creates a plan with the system's clock and default options, for a cell outside any method.
    pub fn new(cell: CellSpec, targets: Vec<TargetPlan>) -> Self {
        let (clock, options) = (Clock::system(), EngineOptions::default());
        let (flow, events, start) = (Arc::default(), None, None);
        let flush_ns = Self::FLUSH_NS;
        Self {
            cell,
            place: None,
            targets,
            clock,
            options,
            walks: None,
            flow,
            events,
            start,
            warm_up_events_max: None,
            aged_passes: 0.0,
            represent: None,
            flush_ns,
        }
    }
}

/// Error of a cell: its workload does not fit the target, or an I/O engine failed.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The workload is impossible on the target.
    #[error("{target}: {why}")]
    DoesNotFit {
        /// Name of the target, or of the emulated system.
        target: String,
        /// Why the workload does not fit, and how to correct it.
        why: String,
    },
    /// An engine could not be set up for a worker.
    #[error("{target}: the {engine} engine can't be set up: {source}{hint}")]
    SetUp {
        /// Name or path of the target.
        target: String,
        /// Name of the I/O engine, such as `uring`.
        engine: &'static str,
        /// Error of the system call that failed.
        source: io::Error,
        /// Advice that ends the message, such as `; use fewer --threads`; may be empty.
        hint: &'static str,
    },
    /// An engine failed while it ran. Single failed operations do not count as a failure of the engine.
    #[error("{target}: the {engine} engine failed: {source}")]
    Engine {
        /// Name or path of the target.
        target: String,
        /// Name of the I/O engine, such as `uring`.
        engine: &'static str,
        /// Error that the engine reported when it failed.
        source: io::Error,
    },
}

/// Minimum length of an interval of a time series, ns.
pub const INTERVAL_NS_MIN: u64 = 1_000_000;
/// Maximum length of an interval of a time series, ns: a day.
pub const INTERVAL_NS_MAX: u64 = 86_400_000_000_000;
/// Maximum number of intervals in a cell, since each is stored.
pub const INTERVALS_MAX: u64 = 1_000_000;

/// Progress of a running cell, for display.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Time since the start of the ramp, ns.
    pub elapsed_ns: u64,
    /// Duration of ramp and window together, ns; `None` without a time limit.
    pub total_ns: Option<u64>,
    /// Whether the cell is still in its ramp, whose operations are not counted.
    pub ramping: bool,
    /// Results of the latest interval, summed over all targets; `None` before the first.
    pub latest: Option<&'a Interval>,
    /// Length of one interval of the time series, ns.
    pub interval_ns: u64,
    /// Number of operations of all workers that have failed so far.
    pub errors: u64,
}

/// Receives the progress of a cell. Called on the coordinating thread, never on a worker's thread.
pub trait Observer {
    /// Called when the workers are ready to start. `cells` has one cell per target, without results.
    fn ready(&mut self, _cells: &[Cell]) {}
    /// Called when a worker of target `target` has finished interval `index`. Each worker delivers its own part
    /// of the interval, so the observer must merge the parts.
    fn interval(&mut self, _target: usize, _index: usize, _interval: &Interval) {}
    /// Called about ten times per second with the cell's progress.
    fn tick(&mut self, _progress: &Progress<'_>) {}
}

/// An observer that ignores everything.
#[derive(Debug)]
pub struct Unobserved;
impl Observer for Unobserved {}

/// Block sizes of all operations that have an address, each with its fraction of the operations. Largest
/// fraction first.
pub fn blocks(spec: &Spec) -> Vec<(u32, f64)> {
    let mut shares: BTreeMap<u32, f64> = BTreeMap::new();
    for (kind, kind_share) in spec.kinds() {
        let of_kind: f64 = spec.blocks(kind).iter().map(|b| b.share).sum();
        for block in spec.blocks(kind) {
            *shares.entry(block.bytes).or_default() += kind_share * block.share / of_kind;
        }
    }
    let total: f64 = shares.values().sum();
    let mut shares: Vec<(u32, f64)> =
        shares.into_iter().map(|(bytes, share)| (bytes, share / total)).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// Range of bytes that all workers of a workload access on a target of this capacity.
pub fn active_range(spec: &Spec, capacity_bytes: u64) -> Range<u64> {
    let moved_bytes =
        spec.worker_step_bytes().unwrap_or(0).saturating_mul(u64::from(spec.threads() - 1));
    let active = spec.active();
    let (start_bytes, end_bytes) = spec.active_on(capacity_bytes);
    let moved_bytes = if active.ends_with_target() { 0 } else { moved_bytes };
    let end_bytes = end_bytes.saturating_add(moved_bytes);
    start_bytes.min(capacity_bytes)..end_bytes.min(capacity_bytes)
}

/// Scheduled operations per second on each target, summed over all processes that share it; `None` in closed
/// loop.
pub(crate) fn offered_iops(spec: &Spec) -> Option<f64> {
    match spec.arrivals() {
        ArrivalKind::Open { rate_iops, .. } => Some(rate_iops * scheduled_share(spec, rate_iops)),
        ArrivalKind::Closed { .. } => None,
    }
}

/// Fraction of the time in which operations become due: pauses that delay the schedule are not part of it.
fn scheduled_share(spec: &Spec, rate_iops: f64) -> f64 {
    let batches = spec.batches();
    let by_count_s = batches
        .think_after
        .map_or(f64::INFINITY, |ops| f64::from(ops) * f64::from(spec.threads()) / rate_iops);
    let by_time_s = batches.think_after_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e9);
    let between_s = by_count_s.min(by_time_s);
    if !batches.think_shifts || between_s.is_infinite() {
        return 1.0;
    }
    between_s / (between_s + batches.pause_ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two workers of 500/s each: 1,000 operations a pause take 2 s, and 0.5 s are not scheduled.
    #[test]
    fn pauses_that_delay_the_schedule_lower_the_offered_rate() {
        let offered = |more: &str| {
            let text = format!(
                "schema = 1\nthreads = 2\nmix = {{ read = 1 }}\n[arrivals]\nkind = \"open\"\nrate = 1000\nthink_time = \"500ms\"\n{more}"
            );
            offered_iops(&Spec::from_toml(&text).unwrap()).unwrap()
        };
        let near = |more: &str, iops: f64| {
            let found = offered(more);
            assert!((found - iops).abs() < 1e-9, "{more}: {found}");
        };
        near("think_after = 1000", 1000.0);
        near("think_after = 1000\nthink_shifts = true", 800.0);
        near("think_after_time = \"1s\"\nthink_shifts = true", 1000.0 / 1.5);
    }
}
