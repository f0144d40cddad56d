//! The cell: one workload on one target (or on several, merged) under one set of conditions, and
//! everything that was counted.

use crate::{Evidence, Histogram, Interval, IoKinds, Level, MessageLog, Verdict};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Coordinates of a cell, unique within a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellKey {
    /// Name within the run, such as `random-read`.
    pub name: String,
    /// Canonical target name; `all (N targets)` for the merged cell of several.
    pub target: String,
    /// Workload name.
    pub workload: String,
    /// I/O engine of the cell, such as `uring`.
    pub engine: String,
    /// Workers per target.
    pub threads: u32,
    /// Outstanding I/Os per worker (closed loop), or their upper bound (open loop).
    pub depth: u32,
    /// Block sizes and their shares (which sum to 1), largest share first.
    pub blocks: Vec<(u32, f64)>,
    /// Offered operations per second in open loop; None in closed loop.
    pub offered_iops: Option<f64>,
    /// Seed of the random streams.
    pub seed: u64,
    /// Step of the method to which the cell belongs; None without a method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Number of the repeat of the cell within its run, from 0.
    #[serde(default)]
    pub repeat: u32,
}

/// The step of a method that a cell belongs to: stage, round and grid point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// Number of the method's subject, if the method is applied to each target separately; 0 otherwise.
    pub subject: u32,
    /// Number of the stage, from 0.
    pub stage: u32,
    /// Number of the round, repeat or sample, from 0.
    pub round: u32,
    /// Number of the point of the grid, from 0.
    pub index: u32,
    /// Purpose of the step.
    pub role: Role,
    /// Name and value on each axis as text, outermost axis first.
    pub at: Vec<(String, String)>,
}

/// Purpose of a step of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The step measures: its figures are a result.
    #[default]
    Measure,
    /// The step brings the target into a state: a purge, a fill, writes before a round, a wait.
    Prepare,
}

/// Returns a predicate that selects the cells that stand for their workloads in summaries: the merged cell if a
/// workload ran on several targets, otherwise each of its cells.
pub fn representative(cells: &[Cell]) -> impl Fn(&CellKey) -> bool {
    let merged = cells.iter().filter(|cell| cell.key.is_of_all_targets());
    let merged: BTreeSet<String> = merged.map(|cell| cell.key.name.clone()).collect();
    move |key| key.is_of_all_targets() || !merged.contains(&key.name)
}

impl CellKey {
    /// Coordinates that a cell shares with its repeats and with its counterparts in other runs: all except the seed,
    /// the repeat (in a method: the round) and the engine, which is a condition and not a coordinate.
    #[must_use]
    pub fn coordinates(&self) -> Self {
        let place = self.place.clone().map(|place| Place { round: 0, ..place });
        Self { seed: 0, repeat: 0, engine: String::new(), place, ..self.clone() }
    }

    /// Whether this is the merged cell of several targets.
    pub fn is_of_all_targets(&self) -> bool {
        self.target.starts_with("all (")
    }

    /// Number of targets of the cell.
    pub fn targets(&self) -> u32 {
        let number = self.target.strip_prefix("all (").and_then(|rest| rest.split(' ').next());
        number.and_then(|number| number.parse().ok()).unwrap_or(1)
    }

    /// Block size with the largest share, bytes.
    pub fn block_bytes(&self) -> u32 {
        self.blocks.first().map_or(0, |b| b.0)
    }
}

/// Reason why a cell ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The measured time elapsed.
    #[default]
    Time,
    /// The requested number of operations completed.
    Ops,
    /// The requested number of bytes was moved.
    Bytes,
    /// In virtual time: rate and latency were steady, and their confidence intervals narrow enough;
    /// [`Evidence::settled`] gives the precision.
    Settled,
    /// The user or another process stopped the run (Ctrl-C, SIGTERM).
    Interrupted,
    /// Too many operations failed, or an engine could not continue; [`Evidence::failure`] gives the engine's error.
    Errors,
    /// The target stopped answering: operations still in flight after the cell's end never completed;
    /// [`Evidence::hung`](crate::Evidence::hung) holds their number.
    Hung,
    /// The process died; the cell holds the intervals that had reached the notebook.
    Crashed,
    /// The cell has not ended: another process is still measuring it. Only readers of the notebook see this.
    Running,
}

/// Resolution of the completion stamps. Completions reaped together share one stamp; each may have occurred at any
/// time since the engine's previous poll. The stamp of a completion reaped alone is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StampQuality {
    /// Number of polls that reaped at least one completion.
    pub reaps: u64,
    /// Number of completions reaped.
    pub completions: u64,
    /// Time since the engine's previous poll, summed over completions that were reaped together, ns.
    pub span_sum_ns: u128,
    /// Longest time since the previous poll for completions reaped together, ns.
    pub span_max_ns: u64,
}

impl StampQuality {
    /// Counts one poll that reaped `completions`, each of which may have occurred at any time in the last `span_ns`.
    /// Pass a span of 0 for a completion reaped alone.
    #[inline]
    pub fn add(&mut self, completions: u64, span_ns: u64) {
        self.reaps += 1;
        self.completions += completions;
        self.span_sum_ns += u128::from(span_ns) * u128::from(completions);
        self.span_max_ns = self.span_max_ns.max(span_ns);
    }

    /// Mean uncertainty of a completion stamp, ns; None when nothing was reaped.
    pub fn span_mean_ns(&self) -> Option<f64> {
        (self.completions > 0).then(|| self.span_sum_ns as f64 / self.completions as f64)
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Self) {
        self.reaps += other.reaps;
        self.completions += other.completions;
        self.span_sum_ns += other.span_sum_ns;
        self.span_max_ns = self.span_max_ns.max(other.span_max_ns);
    }
}

/// Kernel counters of the worker threads: context switches and page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduling {
    /// Context switches, voluntary and involuntary.
    pub context_switches: u64,
    /// Page faults that waited for storage.
    pub major_faults: u64,
    /// Page faults that did not wait for storage.
    pub minor_faults: u64,
}

impl Scheduling {
    /// Adds the counts of other threads.
    pub fn add(&mut self, other: &Self) {
        self.context_switches += other.context_switches;
        self.major_faults += other.major_faults;
        self.minor_faults += other.minor_faults;
    }
}

/// Waits of runnable threads for a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunDelay {
    /// Time runnable without a processor, ns.
    pub waited_ns: u64,
    /// Number of waits for a processor; every wake-up counts as one.
    pub waits: u64,
}

/// Maximum wake-up latency on an idle machine, ns: an inter-processor interrupt and the exit from an idle state. Every
/// I/O for which a thread sleeps includes it, so it is not evidence of other programs.
const WAKE_UP_NS: u64 = 20_000;

impl RunDelay {
    /// Time that other programs had the processor, ns: the waiting time less the usual wake-up latency of each wait.
    pub fn starved_ns(&self) -> u64 {
        self.waited_ns.saturating_sub(self.waits.saturating_mul(WAKE_UP_NS))
    }
}

/// Resources that the workers used during the measured window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// CPU time of each worker in user mode, ns. The sum of user and kernel time is exact; the kernel estimates the
    /// split by ticks of a few ms.
    pub cpu_user_ns: Vec<u64>,
    /// CPU time of each worker in the kernel, ns, without kernel worker threads (io-wq).
    pub cpu_system_ns: Vec<u64>,
    /// Kernel counters summed over all workers; None in virtual time, and in runs before this was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Time that each worker waited for a processor; empty in virtual time, and if the kernel keeps no such counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run_delay: Vec<RunDelay>,
    /// Per interval of the series, time that workers waited for a processor beyond their wake-ups, ns, summed over
    /// workers; empty if there was none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starved_by_interval_ns: Vec<u64>,
    /// Bytes moved by all operations from the start to the last completion, including the ramp and operations in
    /// flight at the window's end.
    pub moved_bytes: u64,
    /// Integral of the number of operations in flight over the window, operation × ns.
    pub outstanding_area_ns: u128,
    /// Time before the window's start that operations in flight at that moment had spent in flight, summed, ns. Their
    /// latencies include it, the area does not.
    pub carried_in_ns: i128,
    /// Time within the window that operations in flight at its end had spent in flight, summed, ns. The area includes
    /// it, no counted latency does.
    pub carried_out_ns: i128,
}

impl Resources {
    /// CPU time of all workers, seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu_user_ns.iter().chain(&self.cpu_system_ns).sum::<u64>() as f64 / 1e9
    }

    /// Adds `ns` to the time that workers waited for a processor in an interval.
    pub fn add_starved(&mut self, interval: usize, ns: u64) {
        if ns > 0 {
            let length = self.starved_by_interval_ns.len().max(interval + 1);
            self.starved_by_interval_ns.resize(length, 0);
            self.starved_by_interval_ns[interval] += ns;
        }
    }

    /// Number of the worker that waited longest for a processor, with its waiting time as a share (0 to 1) of
    /// `window_ns`.
    pub fn most_starved(&self, window_ns: u64) -> Option<(usize, f64)> {
        let share = |delay: &RunDelay| delay.starved_ns() as f64 / window_ns.max(1) as f64;
        let shares = self.run_delay.iter().map(share).enumerate();
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// CPU time of the busiest worker as a share of a core (0 to 1) over `window_ns`.
    pub fn busiest_share(&self, window_ns: u64) -> f64 {
        self.cpu_user_ns
            .iter()
            .zip(&self.cpu_system_ns)
            .map(|(u, s)| (u + s) as f64 / window_ns.max(1) as f64)
            .fold(0.0, f64::max)
    }
}

/// Completed operations of a cell per recorded interval, before intervals were merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Length of an interval, ns. The last one may be shorter.
    pub interval_ns: u64,
    /// Completed operations per interval, of the kinds counted in IOPS.
    pub ops: Vec<u64>,
}

/// Results of one cell of a run. A plain value: cells of workers and targets merge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// Coordinates of the cell.
    pub key: CellKey,
    /// Length of the measured window (after the ramp), ns.
    pub window_ns: u64,
    /// Length of one interval of the series, ns. The last one may be shorter.
    pub interval_ns: u64,
    /// All completions in the window, by interval; an interval without completions is present but empty.
    pub series: Vec<Interval>,
    /// Operations per interval before neighbouring intervals of `series` were merged, because a short stall is not
    /// visible in a long interval. None if nothing was merged. Set by the code that merges; not stored.
    #[serde(skip)]
    pub recorded: Option<Recorded>,
    /// Resources used by the workers.
    pub resources: Resources,
    /// Resolution of the completion stamps.
    pub stamps: StampQuality,
    /// Open loop: delay of submissions after their intended start, ns.
    pub lateness: Option<Histogram>,
    /// Open loop: operations that were due but not submitted when the window ended.
    pub backlog_ops: u64,
    /// Results of a message log; None for other workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Box<MessageLog>>,
    /// Reason why the cell ended.
    pub ended: Ended,
    /// Evidence for judging the figures.
    pub evidence: Evidence,
    /// Effective settings, for people only: engine flags, alignment, refusals of the kernel. Code displays facts, and
    /// decides nothing by their keys or texts; it uses [`Evidence`].
    pub facts: BTreeMap<String, String>,
    /// Verdicts given when the cell ended; [`crate::verdict::judge`] computes them again.
    pub verdicts: Vec<Verdict>,
}

impl Cell {
    /// Merges all intervals into one.
    pub fn total(&self) -> Interval {
        let mut sum = Interval::default();
        self.series.iter().for_each(|i| sum.merge(i));
        sum
    }

    /// Copy of the cell with every `merge` (1 or more) neighbouring intervals merged into one.
    #[must_use]
    pub fn coarser(&self, merge: usize) -> Self {
        let series = self.series.chunks(merge.max(1)).map(|chunk| {
            let mut sum = chunk[0].clone();
            chunk[1..].iter().for_each(|i| sum.merge(i));
            sum
        });
        let series = series.collect();
        let interval_ns = self.interval_ns.saturating_mul(merge.max(1) as u64);
        let (recorded_ns, ops) = self.recorded();
        let recorded =
            (merge > 1).then(|| Recorded { interval_ns: recorded_ns, ops: ops.into_owned() });
        Self { interval_ns, series, recorded, ..self.without_series() }
    }

    /// Kinds of operation counted in the cell's IOPS.
    pub fn io_kinds(&self) -> IoKinds {
        IoKinds::of(self.series.iter().flat_map(Interval::kinds))
    }

    /// Operations per second of the window, of the kinds in [`Self::io_kinds`].
    pub fn iops(&self) -> f64 {
        let of = self.io_kinds();
        self.per_second(self.series.iter().map(|interval| interval.ios(of)).sum::<u64>() as f64)
    }

    /// Length of a recorded interval, ns, and the number of operations counted in IOPS in each interval.
    pub fn recorded(&self) -> (u64, Cow<'_, [u64]>) {
        if let Some(recorded) = &self.recorded {
            return (recorded.interval_ns, Cow::Borrowed(&recorded.ops));
        }
        let of = self.io_kinds();
        (self.interval_ns, self.series.iter().map(|interval| interval.ios(of)).collect())
    }

    /// Length of a recorded interval, ns, and the IOPS in each complete one. A shorter last interval is left out; a
    /// cell shorter than one interval gives one value, over its own length. Empty for an empty window.
    pub fn rates_iops(&self) -> (u64, Vec<f64>) {
        let (interval_ns, ops) = self.recorded();
        let length_ns = interval_ns.min(self.window_ns);
        if length_ns == 0 {
            return (0, Vec::new());
        }
        let whole = (self.window_ns / length_ns) as usize;
        let rate = |n: &u64| *n as f64 * 1e9 / length_ns as f64;
        (length_ns, ops.iter().take(whole).map(rate).collect())
    }

    /// Copy of the cell without its per-interval data.
    #[must_use]
    pub fn without_series(&self) -> Self {
        Self {
            key: self.key.clone(),
            window_ns: self.window_ns,
            interval_ns: self.interval_ns,
            series: Vec::new(),
            recorded: None,
            resources: self.resources.clone(),
            stamps: self.stamps,
            lateness: self.lateness.clone(),
            backlog_ops: self.backlog_ops,
            log: self.log.clone(),
            ended: self.ended,
            evidence: self.evidence.clone(),
            facts: self.facts.clone(),
            verdicts: self.verdicts.clone(),
        }
    }

    /// Lengths of the intervals of `series`, ns. All are `interval_ns` except the last, which ends with the window.
    pub fn interval_lengths_ns(&self) -> impl Iterator<Item = u64> {
        let (count, interval_ns) = (self.series.len() as u64, self.interval_ns);
        let rest_ns = self.window_ns.saturating_sub(interval_ns * count.saturating_sub(1));
        let last_ns = if (1..interval_ns).contains(&rest_ns) { rest_ns } else { interval_ns };
        (1..=count).map(move |i| if i == count { last_ns } else { interval_ns })
    }

    /// Most severe level of the verdicts; None if the cell was never judged.
    pub fn level(&self) -> Option<Level> {
        self.verdicts.iter().map(|v| v.level).max()
    }

    /// Length of the measured window, seconds.
    pub fn seconds(&self) -> f64 {
        self.window_ns as f64 / 1e9
    }

    /// `n` per second of the window; 0 for an empty window.
    pub fn per_second(&self, n: f64) -> f64 {
        if self.window_ns == 0 { 0.0 } else { n / self.seconds() }
    }

    /// Whether the cell was skipped because it does not fit the target.
    pub fn is_skipped(&self) -> bool {
        self.evidence.skipped.is_some()
    }

    /// Mean number of operations in flight over the window.
    pub fn oio_mean(&self) -> f64 {
        if self.window_ns == 0 {
            return 0.0;
        }
        self.resources.outstanding_area_ns as f64 / self.window_ns as f64
    }

    /// Adds another cell that ran at the same time: another worker's share, or another target's. Keys, facts,
    /// evidence and verdicts of `self` are kept; the caller names the sum and judges it again. All counts are
    /// associative and commutative.
    pub fn merge(&mut self, other: &Self) {
        self.window_ns = self.window_ns.max(other.window_ns);
        self.interval_ns = self.interval_ns.max(other.interval_ns);
        if self.series.len() < other.series.len() {
            self.series.resize_with(other.series.len(), Interval::default);
        }
        for (mine, theirs) in self.series.iter_mut().zip(&other.series) {
            mine.merge(theirs);
        }
        self.resources.cpu_user_ns.extend_from_slice(&other.resources.cpu_user_ns);
        self.resources.cpu_system_ns.extend_from_slice(&other.resources.cpu_system_ns);
        if let Some(theirs) = &other.resources.scheduling {
            self.resources.scheduling.get_or_insert_default().add(theirs);
        }
        self.resources.run_delay.extend_from_slice(&other.resources.run_delay);
        for (interval, ns) in other.resources.starved_by_interval_ns.iter().enumerate() {
            self.resources.add_starved(interval, *ns);
        }
        self.resources.moved_bytes += other.resources.moved_bytes;
        self.resources.outstanding_area_ns += other.resources.outstanding_area_ns;
        self.resources.carried_in_ns += other.resources.carried_in_ns;
        self.resources.carried_out_ns += other.resources.carried_out_ns;
        self.stamps.merge(&other.stamps);
        if let Some(theirs) = &other.lateness {
            self.lateness.get_or_insert_default().merge(theirs);
        }
        self.backlog_ops += other.backlog_ops;
        if let Some(theirs) = &other.log {
            self.log.get_or_insert_default().merge(theirs);
        }
    }
}
