//! The specification of one cell: a workload under a name, with its seed, its limits of failure and, for emulated
//! devices, their initial state. A method or a list of cells creates it, and it reaches the
//! driver unchanged; targets, engines and the place in a method are added on the way.

use crate::{ActiveRange, Edge, Percent, Replay, Spec};
use iodyno_units::Precondition;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSpec {
    /// Name within the run.
    pub name: String,
    /// The workload's name in the record.
    pub workload: String,
    /// The workload, after all overrides.
    pub spec: Spec,
    /// Seed of all streams.
    pub seed: u64,
    /// Which repeat of the cell it is, from 0.
    pub repeat: u32,
    /// It is a fill, or a pass of verification: each target is written, or read, in so many whole passes over
    /// its active range, whatever the workload's own limits are, and the completed operations prove it.
    /// The workload writes, or reads, blocks of one size, one after the other by a shared cursor, and does
    /// nothing else.
    pub fill_passes: Option<u8>,
    /// Length of one interval of the series, ns; None chooses by the length of the cell.
    pub interval_ns: Option<u64>,
    /// The run stops when more operations than this have failed.
    pub errors_max: u64,
    /// The engine by its name, where the workload brings one: job files of fio do. None leaves it to the run.
    pub engine: Option<String>,
    /// Which pages of its active range leave the page cache before it, where its I/O goes through the page cache.
    pub drop_cache: Option<DropCache>,
    /// Options for emulated devices alone.
    pub emulation: EmulationOptions,
    /// Workloads on the same targets at the same time, with figures, workers and limits of their own; none has one beside
    /// it.
    pub beside: Vec<CellSpec>,
    /// The trace that it issues, whose mix, sizes and rate the workload describes; None for a cell that issues the
    /// workload's own stream.
    pub replay: Option<Arc<Replay>>,
    /// Which of the processes that share its targets this one is.
    pub part: TargetPart,
    /// The one target that it runs on, by its number in the run; None: all targets of the cell.
    pub only_on: Option<usize>,
}

/// Pages that leave the page cache before a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropCache {
    /// Of a file those that are written back already; of a block device all, which are written back first.
    Clean,
    /// All: they are written back first.
    All,
}

/// The part of a target's workers that one process runs, where several processes share the target. Each of them runs
/// the workload's `threads`. Workers are numbered over all of them: rates and limits of operations and bytes are those
/// of all workers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetPart {
    /// The number of the process among those that share the target, from 0.
    pub index: u32,
    /// How many share it; 1 for a target of one process.
    pub of: u32,
    /// Each process has a region of its own, which the workload's active range already is: its workers divide that
    /// region among themselves. Otherwise all workers of all processes divide the active range.
    pub own_region: bool,
}

impl TargetPart {
    /// A target that no other process uses.
    pub const WHOLE: Self = Self { index: 0, of: 1, own_region: false };

    /// Worker `number` of a process, and the number of workers, over all processes.
    pub const fn over_all(self, number: u32, threads: u32) -> (u32, u32) {
        (self.index * threads + number, self.of * threads)
    }

    /// The same over those that divide the active range.
    pub const fn over_range(self, number: u32, threads: u32) -> (u32, u32) {
        if self.own_region { (number, threads) } else { self.over_all(number, threads) }
    }

    /// The part of an active range that belongs to this process, with a region of its own. Parts have nothing in common,
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
            // A range from bytes to a share has no part without a capacity: see `has_regions`.
            (start, _) if n == self.index => start,
            (_, end) => end,
        };
        ActiveRange::between(edge(self.index), edge(self.index + 1))
    }

    /// Whether an active range can be divided into regions: both of its ends are bytes, or shares.
    pub fn has_regions(range: ActiveRange) -> bool {
        matches!(
            (range.start, range.end),
            (Edge::Bytes(_), Edge::Bytes(_)) | (Edge::Share(_), Edge::Share(_))
        )
    }
}

/// The initial state of emulated devices, and a cell's duration in virtual time. Real storage ignores it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EmulationOptions {
    /// The state of the devices; [`Precondition::Workload`] leaves it to the names of the targets.
    pub precondition: Precondition,
    /// Which share of each device was written before; None leaves it to the names of the targets.
    pub fill: Option<f64>,
    /// When the cell may end before its limits, in virtual time; never, without it.
    pub settle: Option<Settle>,
}

/// The end condition of a cell in virtual time: its rate and its mean latency are known well enough
/// and shown to be steady (by batch means, and without a trend or a break of the level). Its limits
/// still apply.
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
    /// Number of batches in the shortest window: an even number from 20; [`Settle::BATCHES`]
    /// by default.
    pub batches_min: u32,
    /// The fewest operations that are measured, over all targets.
    pub ops_min: u64,
}

impl CellSpec {
    /// The first repeat of a workload under a name that is the workload's too, with seed 1. No operation may fail.
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

    /// Whether it runs on this target of the run.
    pub fn is_on(&self, target: usize) -> bool {
        self.only_on.is_none_or(|only| only == target)
    }

    /// Length of one interval of the series, ns: by default one that gives a useful series of no more than some
    /// thousand points.
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
    /// Enough to distinguish a trend from noise.
    pub const BATCHES: u32 = 64;

    /// Rate and mean latency are known to 1 %, from so many operations or more.
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

    /// The regions of all parts follow one another, from the start of the range to its end.
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
                // Shares are added in parts of 10⁹, bytes exactly.
                assert!(regions[of as usize - 1].1.abs_diff(end) <= 1, "{range:?} of {of}");
                assert!(regions.windows(2).all(|two| two[0].1 == two[1].0), "{range:?} of {of}");
                assert!(regions.iter().all(|(start, end)| start < end), "{range:?} of {of}");
            }
        }
        assert!(!TargetPart::has_regions(ActiveRange::between(Edge::Bytes(0), share(50.0))));
    }
}
