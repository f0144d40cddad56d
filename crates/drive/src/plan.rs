//! What one cell is asked to be, and who watches it: the plan, the targets, the errors, the
//! observer.

use crate::clock::Clock;
use crate::engine::{EngineKind, EngineOptions, Medium};
use crate::sequential_cursors::Walks;
use crate::verify::VerifyMap;
use iodyno_measure::{Cell, Interval, Place};
use iodyno_workload::{ArrivalKind, Edge, Spec};
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
    /// What carries the operations out.
    pub engine: EngineKind,
    /// What verifiable content is checked against; None where the workload's content is not verifiable, and
    /// where no bytes move.
    pub verify: Option<Arc<VerifyMap>>,
}

/// What to run.
#[derive(Debug)]
pub struct CellPlan<'a> {
    /// Name within the run.
    pub name: String,
    /// Name of the workload.
    pub workload: String,
    /// The workload.
    pub spec: &'a Spec,
    /// Seed of all streams.
    pub seed: u64,
    /// Which repeat of the cell it is, from 0.
    pub repeat: u32,
    /// Targets; each gets the workload's workers for itself.
    pub targets: Vec<TargetPlan>,
    /// Length of one interval of the series, ns.
    pub interval_ns: u64,
    /// Where in a method the cell stands.
    pub place: Option<Place>,
    /// The run stops when more operations than this have failed.
    pub errors_max: u64,
    /// It is a fill, or a pass of verification: each target is written, or read, in so many whole passes over
    /// its active range, whatever the workload's own limits are, and the cells prove it by what completed.
    /// The workload writes, or reads, blocks of one size, one after the other by a shared cursor, and does
    /// nothing else.
    pub fill_passes: Option<u8>,
    /// The stamps' clock.
    pub clock: Clock,
    /// Choices about the engines.
    pub options: EngineOptions,
    /// When a cell in virtual time may end before its limits; never, without it. Real time takes no
    /// notice of it.
    pub settle: Option<Settle>,
    /// Where sequential walks go on from the cell before, and what they hand on; None for a cell that begins
    /// at the start of its range.
    pub walks: Option<&'a Walks>,
}

/// When a cell in virtual time has measured enough: its rate and its mean latency are known well enough
/// and shown to be steady (by batch means, and without a trend or a break of the level). Its limits
/// hold all the same.
///
/// The measured window is then 1, 1.5, 2, 3, 4, 6, … times the shortest: a whole number of intervals
/// where `time_min_ns` is a multiple of two of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settle {
    /// Half of the width of the 95 % interval of the rate, and of the mean latency, may be this share of
    /// it; above 0.
    pub half_width_share_max: f64,
    /// The shortest measured window, ns; rounded up to a multiple of `batches_min`.
    pub time_min_ns: u64,
    /// Batches that the shortest window is cut into: an even number from 20; [`Settle::BATCHES`] where
    /// nothing else is wanted.
    pub batches_min: u32,
    /// The fewest operations that are measured, over all targets.
    pub ops_min: u64,
}

impl Settle {
    /// Enough for a trend to be told from noise.
    pub const BATCHES: u32 = 64;
}

/// Why a cell could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The workload does not fit the target.
    #[error("{target}: {why}")]
    DoesNotFit {
        /// Target name.
        target: String,
        /// The reason and the mend.
        why: String,
    },
    /// An engine could not be set up.
    #[error("{target}: the {engine} engine can't be set up: {source}{hint}")]
    SetUp {
        /// Target name.
        target: String,
        /// Engine name.
        engine: &'static str,
        /// What the system said.
        source: io::Error,
        /// How to mend it.
        hint: &'static str,
    },
    /// An engine failed while it ran.
    #[error("{target}: the {engine} engine failed: {source}")]
    Engine {
        /// Target name.
        target: String,
        /// Engine name.
        engine: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// The shortest interval of a series, ns.
pub const INTERVAL_NS_MIN: u64 = 1_000_000;
/// The longest interval of a series, ns: a day.
pub const INTERVAL_NS_MAX: u64 = 86_400_000_000_000;
/// The most intervals that a cell's time is divided into: each is kept.
pub const INTERVALS_MAX: u64 = 1_000_000;

/// What is known while a cell runs.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Since the ramp began, ns.
    pub elapsed_ns: u64,
    /// Ramp and window together, ns, where time limits the cell.
    pub total_ns: Option<u64>,
    /// Still in the ramp.
    pub ramping: bool,
    /// The latest interval, over all targets; None before the first.
    pub latest: Option<&'a Interval>,
    /// Length of an interval, ns.
    pub interval_ns: u64,
    /// Failures so far.
    pub errors: u64,
}

/// Who watches a cell. Called from the coordinating thread, never from a worker.
pub trait Observer {
    /// The workers are ready; these are the cells to come, one for each target, still empty.
    fn ready(&mut self, _cells: &[Cell]) {}
    /// A worker of target `target` has finished interval `index`. Several workers give the same
    /// index: they merge.
    fn interval(&mut self, _target: usize, _index: usize, _interval: &Interval) {}
    /// About ten times a second.
    fn tick(&mut self, _progress: &Progress<'_>) {}
}

/// An observer that does not look.
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

/// The bytes that the workload addresses on a target of this capacity: first, and one past the
/// last.
pub fn active_range(spec: &Spec, capacity_bytes: u64) -> (u64, u64) {
    let active = spec.active();
    let at = |edge: Edge| match edge {
        Edge::Bytes(bytes) => bytes.min(capacity_bytes),
        Edge::Share(share) => share.of(capacity_bytes),
    };
    (at(active.start), at(active.end))
}

/// Operations a second that are due on each target; None in closed loop.
pub(crate) fn offered_iops(spec: &Spec) -> Option<f64> {
    match spec.arrivals() {
        ArrivalKind::Open { rate_iops, .. } => Some(rate_iops),
        ArrivalKind::Closed { .. } => None,
    }
}
