//! The specification of one cell: a workload with a name, a seed, a maximum number of failures and, for emulated
//! devices, an initial state. A method or a list of cells creates the specification, and the driver receives it
//! unchanged.

use crate::{ActiveRange, Edge, Percent, Replay, Spec, WorkerIndex};
use iodyno_units::Precondition;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A cell to run (one measured configuration): its workload, seed, limits and initial state.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSpec {
    /// Name of the cell within the run, such as `random-read`.
    pub name: String,
    /// Name of the workload, as stored with the run.
    pub workload: String,
    /// The workload, after all overrides.
    pub spec: Spec,
    /// Seed from which all random streams of the cell are derived.
    pub seed: u64,
    /// Index of this repeat of the cell, from 0.
    pub repeat: u32,
    /// Number of passes of a cell that fills or verifies the target; None: any other cell. Each pass writes, or
    /// reads, the whole active range of each target, regardless of the workload's limits. The workload must have one
    /// kind of operation, one block size and a shared sequential cursor, so that the number of completed operations
    /// proves full coverage.
    pub fill_passes: Option<u8>,
    /// Length of one interval of the time series, ns; None: chosen from the length of the cell.
    pub interval_ns: Option<u64>,
    /// Number of failed operations above which the run stops.
    pub errors_max: u64,
    /// Name of the I/O engine that the workload requires, as fio job files do; None: the run chooses.
    pub engine: Option<String>,
    /// Pages to drop from the page cache before the cell, within the active range; None: none are dropped.
    /// Applies only to buffered I/O.
    pub drop_cache: Option<DropCache>,
    /// Options that apply only to emulated devices.
    pub emulation: EmulationOptions,
    /// Background workloads that run on the same targets at the same time, with their own results, workers and
    /// limits. They can't have background workloads themselves.
    pub beside: Vec<CellSpec>,
    /// Trace to replay. The workload then only summarises the trace: its mix, sizes and rate. None: the cell issues the
    /// workload's own operations.
    pub replay: Option<Arc<Replay>>,
    /// This process's part of each target, if several processes share the targets.
    pub part: TargetPart,
    /// Index, within the run, of the only target of the cell; None: the cell uses all targets.
    pub only_on: Option<usize>,
}

/// Which pages to drop from the page cache before a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropCache {
    /// The clean pages of a file. For a block device: all its pages, after writing dirty ones back.
    Clean,
    /// All pages of the active range, after writing dirty ones back.
    All,
}

/// One process's part of a target that several processes share. Each process runs `threads` workers, and
/// workers are numbered across all processes. Limits of rate, operations and bytes apply to all workers
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetPart {
    /// Index of this process among the processes that share the target, from 0.
    pub index: u32,
    /// Number of processes that share the target; 1 if only one process uses it.
    pub of: u32,
    /// Whether each process has its own region of the active range, which only its own workers divide. Otherwise
    /// the workers of all processes divide the active range.
    pub own_region: bool,
}

impl TargetPart {
    /// The whole target, used by a single process.
    pub const WHOLE: Self = Self { index: 0, of: 1, own_region: false };

    /// Returns the position of this process's worker `index` among the workers of all processes. Each process has
    /// `threads` workers.
    pub const fn over_all(self, index: u32, threads: u32) -> WorkerIndex {
        WorkerIndex { index: self.index * threads + index, of: self.of * threads }
    }

    /// Returns the position of this process's worker `index` among the workers that divide the same range: those of
    /// this process if it has its own region, otherwise those of all processes.
    pub const fn over_range(self, index: u32, threads: u32) -> WorkerIndex {
        if self.own_region {
            WorkerIndex { index, of: threads }
        } else {
            self.over_all(index, threads)
        }
    }

    /// Returns this process's own region of an active range. The regions of all processes are disjoint and cover the
    /// range.
    pub fn region_of(self, range: ActiveRange) -> ActiveRange {
        let between = |low: u64, high: u64, n: u32| {
            let apart = u128::from(high.saturating_sub(low)) * u128::from(n) / u128::from(self.of);
            low + apart as u64
        };
        let high = |low: u64, end: u64| if range.is_length { low.saturating_add(end) } else { end };
        let edge = |n: u32| match (range.start, range.end) {
            (Edge::Bytes(low), Edge::Bytes(end)) => Edge::Bytes(between(low, high(low, end), n)),
            (Edge::Share(low), Edge::Share(end)) => {
                let [low, end] = [low, end].map(|share| u64::from(share.parts_per_billion()));
                let high = high(low, end).min(u64::from(Percent::ALL.parts_per_billion()));
                Edge::Share(Percent::from_fraction(between(low, high, n) as f64 / 1e9))
            }
            // A range from bytes to a share can't be divided without a capacity: see `has_regions`.
            (start, _) if n == self.index => start,
            (_, end) => end,
        };
        ActiveRange::between(edge(self.index), edge(self.index + 1))
    }

    /// Whether an active range can be divided into regions: both of its ends are in bytes, or both are
    /// percentages.
    pub fn has_regions(range: ActiveRange) -> bool {
        matches!(
            (range.start, range.end),
            (Edge::Bytes(_), Edge::Bytes(_)) | (Edge::Share(_), Edge::Share(_))
        )
    }
}

/// Initial state of emulated devices, and end condition of the cell in virtual time. Real storage ignores
/// both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EmulationOptions {
    /// Initial state of the devices. [`Precondition::Workload`]: the target's name specifies it.
    pub precondition: Precondition,
    /// Fraction of each device's capacity that was written before the cell; None: the target's name specifies it.
    pub fill: Option<f64>,
    /// Condition under which the cell ends before its limits, in virtual time; None: it runs to its limits.
    pub settle: Option<Settle>,
}

/// End condition of a cell in virtual time: its rate and mean latency have narrow confidence intervals (by
/// batch means) and show neither a trend nor a change of level. The cell's limits still apply.
///
/// The measured window grows to 1, 1.5, 2, 3, 4, 6, … times `time_min_ns`. It is a whole number of intervals
/// of the time series if `time_min_ns` is a multiple of two intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settle {
    /// Maximum half width of the 95 % confidence intervals of rate and mean latency, as a fraction of the mean;
    /// above 0.
    pub half_width_share_max: f64,
    /// Minimum measured window, ns; rounded up to a multiple of `batches_min`.
    pub time_min_ns: u64,
    /// Number of batches (equal parts of the window, for the confidence intervals) in the minimum window. Even, at
    /// least 20; the default is [`Settle::BATCHES`].
    pub batches_min: u32,
    /// Minimum number of operations that must be measured, over all targets, before the cell may end.
    pub ops_min: u64,
}

impl CellSpec {
    /// Creates the first repeat of a cell, with seed 1. `name` is the name of both the cell and its workload. The first
    /// failed operation stops the run.
    pub fn new(name: impl Into<String>, spec: Spec) -> Self {
        let name = name.into();
        Self {
            workload: name.clone(),
            name,
            spec,
            seed: 1,
            repeat: 0,
            fill_passes: None,
            interval_ns: None,
            errors_max: 0,
            engine: None,
            drop_cache: None,
            emulation: EmulationOptions::default(),
            beside: Vec::new(),
            replay: None,
            part: TargetPart::WHOLE,
            only_on: None,
        }
    }

    /// Whether the cell uses the target with this index in the run.
    pub fn is_on(&self, target: usize) -> bool {
        self.only_on.is_none_or(|only| only == target)
    }

    /// Length of one interval of the time series, ns. The default gives up to a few thousand intervals.
    pub fn interval_ns(&self) -> u64 {
        let time_ns = self.spec.limits().time_ns.unwrap_or(60_000_000_000);
        self.interval_ns.unwrap_or(match time_ns / 1_000_000_000 {
            0..=30 => 100_000_000,
            31..=300 => 500_000_000,
            301..=7200 => 1_000_000_000,
            7201..=86_400 => 10_000_000_000,
            _ => 60_000_000_000,
        })
    }
}

impl Settle {
    /// Default of `batches_min`: enough batches to distinguish a trend from noise.
    pub const BATCHES: u32 = 64;

    /// Requires rate and mean latency to be known to within 1 %, from at least `ops_min` operations.
    pub const fn to_1_percent(ops_min: u64) -> Self {
        Self {
            half_width_share_max: 0.01,
            time_min_ns: 200_000_000,
            batches_min: Self::BATCHES,
            ops_min,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The regions of all processes are adjacent and cover the active range from start to end.
    #[test]
    fn regions_are_the_range() {
        let share = |percent: f64| Edge::Share(Percent::from_fraction(percent / 100.0));
        let length =
            |start, end| ActiveRange { is_length: true, ..ActiveRange::between(start, end) };
        let ranges = [
            ActiveRange::WHOLE,
            ActiveRange::between(share(12.5), share(99.0)),
            ActiveRange::between(Edge::Bytes(4096), Edge::Bytes(1_000_003)),
            length(Edge::Bytes(4096), Edge::Bytes(77_777)),
            length(share(10.0), share(30.0)),
        ];
        let capacity_bytes = (1 << 40) + 4096;
        for range in ranges {
            assert!(TargetPart::has_regions(range));
            let whole = |range: ActiveRange| {
                let start = range.start.on(capacity_bytes);
                let end = range.end.on(capacity_bytes);
                (start, if range.is_length { start + end } else { end })
            };
            for of in [1, 2, 3, 7, 64] {
                let regions: Vec<(u64, u64)> = (0..of)
                    .map(|index| whole(TargetPart { index, of, own_region: true }.region_of(range)))
                    .collect();
                let (start, end) = whole(range);
                assert_eq!(regions[0].0, start);
                // Shares are divided in parts of 10⁹, bytes exactly.
                assert!(regions[of as usize - 1].1.abs_diff(end) <= 1, "{range:?} of {of}");
                assert!(regions.windows(2).all(|two| two[0].1 == two[1].0), "{range:?} of {of}");
                assert!(regions.iter().all(|(start, end)| start < end), "{range:?} of {of}");
            }
        }
        assert!(!TargetPart::has_regions(ActiveRange::between(Edge::Bytes(0), share(50.0))));
    }
}
