//! The interface for driving a cell: the cell with its targets, engines and clock; the errors; the observer.

use crate::clock::Clock;
use crate::engine::{EngineKind, EngineOptions, Medium};
use crate::sequential_cursors::Walks;
use crate::trace_recorder::TraceEvents;
use crate::verify::VerifyMap;
use iodyno_emulate::System;
use iodyno_measure::{Cell, Interval, Place};
use iodyno_workload::{ArrivalKind, CellSpec, Flow, Spec};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A target of a cell, with its engine, and the workload that runs on it.
#[derive(Clone, Debug)]
pub struct TargetPlan {
    /// Name of the target, in canonical form.
    pub name: String,
    /// The open target, with its engine.
    pub medium: Medium,
    /// Alignment of offsets and lengths, bytes.
    pub align_bytes: u32,
    /// The map for verification; None if the workload's content is not verifiable, or if no bytes move.
    pub verify: Option<Arc<VerifyMap>>,
    /// Index of the target's workload in [`CellSpec::beside`]; None for the cell's own. A target with several
    /// simultaneous workloads has one entry for each.
    pub beside: Option<usize>,
    /// Number of the target in the cell, from 0.
    pub number: u32,
}

impl TargetPlan {
    /// A volume of an emulated system in virtual time.
    pub fn model(name: String, system: &Arc<System>, volume: u32) -> Self {
        let medium = Medium::Model { system: Arc::clone(system), volume };
        Self { name, medium, align_bytes: 512, verify: None, beside: None, number: volume }
    }

    /// The engine that executes the operations.
    pub fn engine(&self) -> EngineKind {
        self.medium.engine()
    }
}

/// A cell with everything that is needed to run it.
#[derive(Debug)]
pub struct CellPlan {
    /// The cell.
    pub cell: CellSpec,
    /// Step of the method to which the cell belongs; None without a method.
    pub place: Option<Place>,
    /// Targets; each has its own workers of the workload.
    pub targets: Vec<TargetPlan>,
    /// The clock of all timestamps.
    pub clock: Clock,
    /// Options of the engines.
    pub options: EngineOptions,
    /// Positions of sequential walks, which successive cells pass on; None for a cell that begins at the start of its
    /// range.
    pub walks: Option<Arc<Walks>>,
    /// Shared counts of workloads that keep their operations in proportion.
    pub flow: Arc<Flow>,
    /// Receives the issued operations and their completions; None for a cell that is not recorded.
    pub events: Option<TraceEvents>,
    /// Agreement with other processes on the start time; None for a cell of this process alone, and in virtual time.
    pub start: Option<Arc<dyn StartTogether>>,
    /// Maximum length of the warm-up before the ramp in virtual time, in events of SSDs: the workload first runs until
    /// buffers and caches are at rest. None for no warm-up.
    pub warm_up_events_max: Option<u64>,
    /// Timeout for the final flush of a worker, ns; the time for writing its bytes is added to it.
    pub flush_ns: u64,
}

/// Lets all processes that measure a cell agree on its start time.
pub trait StartTogether: core::fmt::Debug + Send + Sync {
    /// Called when this process's workers are ready. Returns the start by this process's CLOCK_MONOTONIC, ns; None if
    /// the cell does not start, because another process's workers are not ready.
    fn agree(&self) -> Option<u64>;
}

impl CellPlan {
    /// Default limit of a warm-up, in events: some seconds of processor time.
    pub const WARM_UP_EVENTS_MAX: u64 = 16_000_000;

    /// Default of `flush_ns`, ns: longer than the kernel's timeout for a device command.
    pub const FLUSH_NS: u64 = 120_000_000_000;

    /// The cell of the workload that runs on a target.
    pub fn cell_on(&self, target: usize) -> &CellSpec {
        let beside = self.targets.get(target).and_then(|target| target.beside);
        beside.map_or(&self.cell, |beside| &self.cell.beside[beside])
    }

    /// Numbers of the target and worker in a trace, for a worker of `targets[target]`. The workers of simultaneous
    /// workloads on one target are numbered consecutively.
    pub(crate) fn place_in_trace(&self, target: usize, number: u32) -> (u32, u32) {
        let own = self.targets[target].number;
        let same = (0..target).filter(|other| self.targets[*other].number == own);
        let before = same.map(|other| self.cell_on(other).spec.threads()).sum::<u32>();
        (own, before + number)
    }

    /// Maximum duration of the cell, including delays and ramps, ns; None if a workload has no time limit.
    pub(crate) fn total_ns(&self) -> Option<u64> {
        let of = |cell: &CellSpec| {
            let limits = cell.spec.limits();
            Some(limits.start_after_ns + limits.ramp_ns + limits.time_ns?)
        };
        let all = core::iter::once(&self.cell).chain(&self.cell.beside).map(of);
        all.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Whether some workers issue more after their last planned operation: flushes, or reads of the written blocks.
    pub(crate) fn goes_on_at_end(&self) -> bool {
        core::iter::once(&self.cell)
            .chain(&self.cell.beside)
            .any(|cell| cell.spec.flush_at_end() > 0 || cell.spec.read_back() > 0)
    }

    /// A plan with the system's clock for a cell outside any method.
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
            flush_ns,
        }
    }
}

/// Why a cell could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The workload does not fit the target.
    #[error("{target}: {why}")]
    DoesNotFit {
        /// Name or path of the target.
        target: String,
        /// The reason and the remedy.
        why: String,
    },
    /// An engine could not be set up.
    #[error("{target}: the {engine} engine can't be set up: {source}{hint}")]
    SetUp {
        /// Name or path of the target.
        target: String,
        /// Engine name.
        engine: &'static str,
        /// The system's error.
        source: io::Error,
        /// Remedy, as the end of the message, such as `; use fewer --threads`; may be empty.
        hint: &'static str,
    },
    /// An engine failed while it ran.
    #[error("{target}: the {engine} engine failed: {source}")]
    Engine {
        /// Name or path of the target.
        target: String,
        /// Engine name.
        engine: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Minimum interval of a series, ns.
pub const INTERVAL_NS_MIN: u64 = 1_000_000;
/// Maximum interval of a series, ns: a day.
pub const INTERVAL_NS_MAX: u64 = 86_400_000_000_000;
/// Maximum number of intervals in a cell: each is stored.
pub const INTERVALS_MAX: u64 = 1_000_000;

/// The progress of a running cell.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Time since the ramp began, ns.
    pub elapsed_ns: u64,
    /// Duration of ramp and window together, ns; None if time does not limit the cell.
    pub total_ns: Option<u64>,
    /// Whether the cell is still in its ramp.
    pub ramping: bool,
    /// The latest interval, over all targets; None before the first.
    pub latest: Option<&'a Interval>,
    /// Length of an interval, ns.
    pub interval_ns: u64,
    /// Number of failed operations so far.
    pub errors: u64,
}

/// The observer of a cell. Called from the coordinating thread, never from a worker.
pub trait Observer {
    /// The workers are ready. `cells` has one cell per target, still empty.
    fn ready(&mut self, _cells: &[Cell]) {}
    /// A worker of target `target` has finished interval `index`. Several workers deliver the same index; their
    /// intervals merge.
    fn interval(&mut self, _target: usize, _index: usize, _interval: &Interval) {}
    /// Called about ten times per second.
    fn tick(&mut self, _progress: &Progress<'_>) {}
}

/// An observer that ignores everything.
#[derive(Debug)]
pub struct Unobserved;
impl Observer for Unobserved {}

/// Block sizes over all kinds of operation that have an address, with their shares of the operations, largest share
/// first.
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

/// The bytes that all workers of a workload address on a target of this capacity.
pub fn active_range(spec: &Spec, capacity_bytes: u64) -> Range<u64> {
    let moved_bytes =
        spec.worker_step_bytes().unwrap_or(0).saturating_mul(u64::from(spec.threads() - 1));
    let active = spec.active();
    let (start_bytes, end_bytes) = spec.active_on(capacity_bytes);
    let moved_bytes = if active.ends_with_target() { 0 } else { moved_bytes };
    let end_bytes = end_bytes.saturating_add(moved_bytes);
    start_bytes.min(capacity_bytes)..end_bytes.min(capacity_bytes)
}

/// Operations per second that are due on each target, from all processes that share it; None in closed loop.
pub(crate) fn offered_iops(spec: &Spec) -> Option<f64> {
    match spec.arrivals() {
        ArrivalKind::Open { rate_iops, .. } => Some(rate_iops),
        ArrivalKind::Closed { .. } => None,
    }
}
