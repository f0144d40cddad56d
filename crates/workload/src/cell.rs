//! The specification of one cell: a workload with a name, a seed, a limit of failures and, for emulated devices, an
//! initial state. A method or a list of cells creates it, and it reaches the driver unchanged; targets, engines and
//! the place in a method are added on the way.

use crate::{ActiveRange, Edge, Percent, Replay, Spec, WorkerIndex};
use iodyno_units::Precondition;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A cell to be run: its workload, seed and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSpec {
    /// Name of the cell within the run.
    pub name: String,
    /// Name of the workload, as stored with the run.
    pub workload: String,
    /// The workload, after all overrides.
    pub spec: Spec,
    /// Seed of all random streams.
    pub seed: u64,
    /// Number of the repeat of the cell, from 0.
    pub repeat: u32,
    /// Number of passes of a fill or of a verification: each target is written, or read, in whole passes over its
    /// active range, whatever the workload's own limits are, which the number of completed operations proves. The
    /// workload only writes, or only reads, blocks of one size, sequentially by a shared cursor. None for other cells.
    pub fill_passes: Option<u8>,
    /// Length of one interval of the series, ns; None chooses by the length of the cell.
    pub interval_ns: Option<u64>,
    /// Number of failed operations above which the run stops.
    pub errors_max: u64,
    /// Name of the engine, if the workload specifies one, as job files of fio do. None leaves the choice to the run.
    pub engine: Option<String>,
    /// Pages of the active range to drop from the page cache before the cell, if its I/O goes through the page cache.
    pub drop_cache: Option<DropCache>,
    /// Options that apply only to emulated devices.
    pub emulation: EmulationOptions,
    /// Other workloads that run on the same targets at the same time, with their own results, workers and limits. They
    /// can't have simultaneous workloads themselves.
    pub beside: Vec<CellSpec>,
    /// The trace to issue, whose mix, sizes and rate the workload describes; None for a cell that issues the
    /// workload's own stream.
    pub replay: Option<Arc<Replay>>,
    /// The part of the targets that this process uses, if several processes share them.
    pub part: TargetPart,
    /// The only target on which the cell runs, by its number in the run; None: all targets of the cell.
    pub only_on: Option<usize>,
}

/// Pages to drop from the page cache before a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropCache {
    /// Clean pages of a file; all pages of a block device, after writing them back.
    Clean,
    /// All pages, after writing them back.
    All,
}

/// The part of a target's workers that one process runs, if several processes share the target. Each process runs the
/// workload's `threads`. Workers are numbered across all processes; rates and limits of operations and bytes apply to
/// all workers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetPart {
    /// Number of the process among those that share the target, from 0.
    pub index: u32,
    /// Number of processes that share the target; 1 for a target of one process.
    pub of: u32,
    /// Whether each process has its own region, to which the workload's active range is already set, and which its
    /// own workers divide. Otherwise all workers of all processes divide the active range.
    pub own_region: bool,
}

impl TargetPart {
    /// The part of a process that has the target for itself.
    pub const WHOLE: Self = Self { index: 0, of: 1, own_region: false };

    /// Worker `index` of a process with `threads` workers, among the workers of all processes.
    pub const fn over_all(self, index: u32, threads: u32) -> WorkerIndex {
        WorkerIndex { index: self.index * threads + index, of: self.of * threads }
    }

    /// Worker `index` of a process with `threads` workers, among those that divide the active range.
    pub const fn over_range(self, index: u32, threads: u32) -> WorkerIndex {
        if self.own_region {
            WorkerIndex { index, of: threads }
        } else {
            self.over_all(index, threads)
        }
    }

    /// The part of an active range that belongs to this process, if each has its own region. The parts are disjoint,
    /// and together are the range.
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

    /// Whether an active range can be divided into regions: its ends must be both in bytes or both shares.
    pub fn has_regions(range: ActiveRange) -> bool {
        matches!(
            (range.start, range.end),
            (Edge::Bytes(_), Edge::Bytes(_)) | (Edge::Share(_), Edge::Share(_))
        )
    }
}

/// The initial state of emulated devices, and the end condition in virtual time. Real storage ignores them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EmulationOptions {
    /// State of the devices; with [`Precondition::Workload`], the targets' names decide.
    pub precondition: Precondition,
    /// Share of each device that was written before; None: the targets' names decide.
    pub fill: Option<f64>,
    /// Condition under which the cell may end before its limits, in virtual time; None: it never does.
    pub settle: Option<Settle>,
}

/// The end condition of a cell in virtual time: its rate and its mean latency are known precisely enough and shown to
/// be steady (by batch means, and without a trend or a break of the level). The cell's limits still apply.
///
/// The measured window is then 1, 1.5, 2, 3, 4, 6, … times the shortest one. It is a whole number of intervals if
/// `time_min_ns` is a multiple of two intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settle {
    /// Maximum half width of the 95 % interval of the rate, and of the mean latency, as a share of the mean; above 0.
    pub half_width_share_max: f64,
    /// Shortest measured window, ns; rounded up to a multiple of `batches_min`.
    pub time_min_ns: u64,
    /// Number of batches in the shortest window: an even number from 20; [`Settle::BATCHES`]
    /// by default.
    pub batches_min: u32,
    /// Minimum number of measured operations, over all targets.
    pub ops_min: u64,
}

impl CellSpec {
    /// The first repeat of a workload, named after the workload, with seed 1. No operation may fail.
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

    /// Whether the cell runs on this target of the run.
    pub fn is_on(&self, target: usize) -> bool {
        self.only_on.is_none_or(|only| only == target)
    }

    /// Length of one interval of the series, ns: by default one that gives a series of up to some thousand points.
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
    /// Default number of batches: enough to distinguish a trend from noise.
    pub const BATCHES: u32 = 64;

    /// Rate and mean latency must be known to 1 %, from at least `ops_min` operations.
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

    /// The regions of all parts follow each other, from the start of the range to its end.
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
