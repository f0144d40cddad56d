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
use std::sync::Arc;

/// One target of a cell.
#[derive(Clone, Debug)]
pub struct TargetPlan {
    /// Canonical name.
    pub name: String,
    /// The open target.
    pub medium: Medium,
    /// Offsets and lengths must be multiples of this, bytes.
    pub align_bytes: u32,
    /// The engine that executes the operations.
    pub engine: EngineKind,
    /// The map for verification; None where the workload's content is not verifiable, and
    /// where no bytes move.
    pub verify: Option<Arc<VerifyMap>>,
    /// Which of the cell's workloads beside its own it gets; None for the cell's own. A target with several
    /// workloads at once is there several times.
    pub beside: Option<usize>,
    /// Number of the target in the cell, from 0.
    pub number: u32,
}

impl TargetPlan {
    /// A volume of an emulated system in virtual time.
    pub fn model(name: String, system: &Arc<System>, volume: u32) -> Self {
        let medium = Medium::Model { system: Arc::clone(system), volume };
        Self {
            name,
            medium,
            align_bytes: 512,
            engine: EngineKind::Model,
            verify: None,
            beside: None,
            number: volume,
        }
    }
}

/// A cell, with all inputs for driving it.
#[derive(Debug)]
pub struct CellPlan {
    /// The cell.
    pub cell: CellSpec,
    /// Its place in a method.
    pub place: Option<Place>,
    /// Targets; each gets the workload's workers for itself.
    pub targets: Vec<TargetPlan>,
    /// The stamps' clock.
    pub clock: Clock,
    /// Choices about the engines.
    pub options: EngineOptions,
    /// The positions of sequential walks, taken over from the cell before and handed on; None for a cell that begins
    /// at the start of its range.
    pub walks: Option<Arc<Walks>>,
    /// What workloads count together that keep their operations in proportion.
    pub flow: Arc<Flow>,
    /// Takes what the workers issue; None for a cell that is not recorded.
    pub events: Option<TraceEvents>,
    /// Agrees on the start with other processes; None for a cell of this process alone. Cells in virtual time have none.
    pub start: Option<Arc<dyn StartTogether>>,
    /// In virtual time: the workload runs until buffers and caches are at rest, or for so many events of SSDs, before the ramp
    /// begins; None: there is no warm-up.
    pub warm_up_events_max: Option<u64>,
    /// The time for a flush behind a worker's last operation, ns, before its target is given up; that for what was written
    /// comes on top.
    pub flush_ns: u64,
}

/// Agrees with the other processes that measure a cell on the instant at which it starts.
pub trait StartTogether: core::fmt::Debug + Send + Sync {
    /// This process's workers are ready. Gives the start by this process's CLOCK_MONOTONIC, ns; None where the cell does not
    /// start, because another process's workers are not ready.
    fn agree(&self) -> Option<u64>;
}

impl CellPlan {
    /// Effort of a warm-up: some seconds of a processor.
    pub const WARM_UP_EVENTS_MAX: u64 = 16_000_000;

    /// See `flush_ns`: longer than the kernel waits for a command to a device.
    pub const FLUSH_NS: u64 = 120_000_000_000;

    /// The workload on a target, with all that belongs to it.
    pub fn cell_on(&self, target: usize) -> &CellSpec {
        let beside = self.targets.get(target).and_then(|target| target.beside);
        beside.map_or(&self.cell, |beside| &self.cell.beside[beside])
    }

    /// Which target and which of its workers a trace names for a worker of `targets[target]`: the workers of workloads at
    /// the same time on one target are counted one after the other.
    pub(crate) fn place_in_trace(&self, target: usize, number: u32) -> (u32, u32) {
        let own = self.targets[target].number;
        let same = (0..target).filter(|other| self.targets[*other].number == own);
        let before = same.map(|other| self.cell_on(other).spec.threads()).sum::<u32>();
        (own, before + number)
    }

    /// How long the cell takes at most, ns: delays and ramps included; None where a workload has no limit of time.
    pub(crate) fn total_ns(&self) -> Option<u64> {
        let of = |cell: &CellSpec| {
            let limits = cell.spec.limits();
            Some(limits.start_after_ns + limits.ramp_ns + limits.time_ns?)
        };
        let all = core::iter::once(&self.cell).chain(&self.cell.beside).map(of);
        all.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Whether some workers issue more after their last planned operation: flushes, or reads of what they wrote.
    pub(crate) fn goes_on_at_end(&self) -> bool {
        core::iter::once(&self.cell)
            .chain(&self.cell.beside)
            .any(|cell| cell.spec.flush_at_end() > 0 || cell.spec.read_back() > 0)
    }

    /// A cell of no method, by the system's clock.
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
        /// Target name.
        target: String,
        /// The reason and the remedy.
        why: String,
    },
    /// An engine could not be set up.
    #[error("{target}: the {engine} engine can't be set up: {source}{hint}")]
    SetUp {
        /// Target name.
        target: String,
        /// Engine name.
        engine: &'static str,
        /// The system's error.
        source: io::Error,
        /// The remedy.
        hint: &'static str,
    },
    /// An engine failed while it ran.
    #[error("{target}: the {engine} engine failed: {source}")]
    Engine {
        /// Target name.
        target: String,
        /// Engine name.
        engine: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// The shortest interval of a series, ns.
pub const INTERVAL_NS_MIN: u64 = 1_000_000;
/// The longest interval of a series, ns: a day.
pub const INTERVAL_NS_MAX: u64 = 86_400_000_000_000;
/// The most intervals that a cell's time is divided into: each is stored.
pub const INTERVALS_MAX: u64 = 1_000_000;

/// The progress of a running cell.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Since the ramp began, ns.
    pub elapsed_ns: u64,
    /// Ramp and window together, ns, where time limits the cell.
    pub total_ns: Option<u64>,
    /// Whether it is still in the ramp.
    pub ramping: bool,
    /// The latest interval, over all targets; None before the first.
    pub latest: Option<&'a Interval>,
    /// Length of an interval, ns.
    pub interval_ns: u64,
    /// Failures so far.
    pub errors: u64,
}

/// The observer of a cell. Called from the coordinating thread, never from a worker.
pub trait Observer {
    /// The workers are ready; these are the cells to come, one for each target, still empty.
    fn ready(&mut self, _cells: &[Cell]) {}
    /// A worker of target `target` has finished interval `index`. Several workers deliver the same
    /// index: they merge.
    fn interval(&mut self, _target: usize, _index: usize, _interval: &Interval) {}
    /// About ten times a second.
    fn tick(&mut self, _progress: &Progress<'_>) {}
}

/// An observer that ignores everything.
#[derive(Debug)]
pub struct Unobserved;
impl Observer for Unobserved {}

/// Block sizes over all kinds that carry an address, with their share of the operations, largest
/// share first.
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

/// The bytes that the workload addresses on a target of this capacity, over all its workers: first, and one past the
/// last.
pub fn active_range(spec: &Spec, capacity_bytes: u64) -> (u64, u64) {
    let moved_bytes =
        spec.worker_step_bytes().unwrap_or(0).saturating_mul(u64::from(spec.threads() - 1));
    let active = spec.active();
    let (start_bytes, end_bytes) = spec.active_on(capacity_bytes);
    let moved_bytes = if active.ends_with_target() { 0 } else { moved_bytes };
    let end_bytes = end_bytes.saturating_add(moved_bytes);
    (start_bytes.min(capacity_bytes), end_bytes.min(capacity_bytes))
}

/// Operations a second that are due on each target, from all processes that share it; None in closed loop.
pub(crate) fn offered_iops(spec: &Spec) -> Option<f64> {
    match spec.arrivals() {
        ArrivalKind::Open { rate_iops, .. } => Some(rate_iops),
        ArrivalKind::Closed { .. } => None,
    }
}
