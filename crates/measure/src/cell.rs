//! A cell: one workload on one target (or on several, merged) under one set of conditions, with all its counts and
//! histograms.

use crate::{Evidence, Histogram, Interval, IoKinds, Level, MessageLog, Verdict};
use iodyno_units::OpKind;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Key that identifies a cell within a run: target, workload, engine, load and step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellKey {
    /// Name of the cell within the run, such as `random-read`.
    pub name: String,
    /// Canonical target name; `all (N targets)` for the merged cell of N targets.
    pub target: String,
    /// Name of the workload, which several cells may share.
    pub workload: String,
    /// I/O engine of the cell, such as `uring`.
    pub engine: String,
    /// Number of worker threads per target.
    pub threads: u32,
    /// Outstanding I/Os per worker (closed loop), or their upper bound (open loop).
    pub depth: u32,
    /// Block sizes in bytes, each with its fraction of the operations, in descending order of fraction. The fractions
    /// sum to 1.
    pub blocks: Vec<(u32, f64)>,
    /// Offered operations per second in open loop; None in closed loop.
    pub offered_iops: Option<f64>,
    /// Seed of the workload's random streams.
    pub seed: u64,
    /// The cell's step in its method; None without a method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Index of this repeat of the cell within its run, from 0.
    #[serde(default)]
    pub repeat: u32,
}

/// A cell's step in its method: stage, round and grid point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// Index of the step's target, if the method treats each target separately; 0 otherwise.
    pub subject: u32,
    /// Index of the stage in the method, from 0.
    pub stage: u32,
    /// Index of the round, repetition or sample within the stage, from 0.
    pub round: u32,
    /// Index of the measured point within the round, from 0.
    pub index: u32,
    pub role: Role,
    /// Grid point: name and value of each axis as text, outermost axis first.
    pub at: Vec<(String, String)>,
    /// Whether the step tries an offered rate, which may be too high.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_trial: bool,
}

/// Purpose of a step of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Measurement. Only the figures of such cells are results.
    #[default]
    Measure,
    /// Preparation of the target: a purge, a fill, writes before a round, or a wait.
    Prepare,
}

/// Returns a predicate that selects the cells to show in summaries. For a workload that ran on several targets, it
/// selects the merged cell; otherwise, every cell of the workload.
pub fn representative(cells: &[Cell]) -> impl Fn(&CellKey) -> bool {
    let merged = cells.iter().filter(|cell| cell.key.is_of_all_targets());
    let merged: BTreeSet<String> = merged.map(|cell| cell.key.name.clone()).collect();
    move |key| key.is_of_all_targets() || !merged.contains(&key.name)
}

impl CellKey {
    /// Copy of the key without the seed, the repeat (in a method, the round) and the engine. Repeats of the cell and
    /// comparable cells of other runs have equal copies.
    #[must_use]
    pub fn coordinates(&self) -> Self {
        let place = self.place.clone().map(|place| Place { round: 0, ..place });
        Self { seed: 0, repeat: 0, engine: String::new(), place, ..self.clone() }
    }

    /// Whether the key belongs to the merged cell of several targets.
    pub fn is_of_all_targets(&self) -> bool {
        self.target.starts_with("all (")
    }

    /// Number of targets in the cell: N for a merged cell `all (N targets)`, otherwise 1.
    pub fn targets(&self) -> u32 {
        let number = self.target.strip_prefix("all (").and_then(|rest| rest.split(' ').next());
        number.and_then(|number| number.parse().ok()).unwrap_or(1)
    }

    /// Block size with the largest share of the operations, bytes; 0 if there is none.
    pub fn block_bytes(&self) -> u32 {
        self.blocks.first().map_or(0, |b| b.0)
    }
}

/// Reason why a cell ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The configured measuring time elapsed.
    #[default]
    Time,
    /// The requested number of operations completed.
    Ops,
    /// The requested number of bytes was moved.
    Bytes,
    /// Rate and latency were steady, and their confidence intervals narrow enough. Only in virtual time;
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
    /// The cell has not ended, because another process is still measuring it. Occurs only when reading a
    /// notebook.
    Running,
}

/// Resolution of the completion timestamps. Completions reaped together share one timestamp; each may have occurred
/// at any time since the engine's previous poll. The timestamp of a completion reaped alone is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StampQuality {
    /// Number of engine polls that returned at least one completion.
    pub reaps: u64,
    /// Number of completions that these polls returned.
    pub completions: u64,
    /// Sum of the timestamps' uncertainties over all completions that were reaped together with others, ns. The
    /// uncertainty is the time since the engine's previous poll.
    pub span_sum_ns: u128,
    /// Maximum uncertainty of a timestamp, ns: the longest time between a poll that returned several completions and
    /// the poll before it.
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

    /// Mean uncertainty of a completion timestamp, ns; None without completions.
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
    /// Major page faults, which waited for storage.
    pub major_faults: u64,
    /// Minor page faults, which did not wait for storage.
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

/// Time that a runnable thread waited for a processor (scheduler run delay).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunDelay {
    /// Total time that the thread was runnable but not running, ns.
    pub waited_ns: u64,
    /// Number of waits for a processor; every wake-up counts as one.
    pub waits: u64,
}

/// Maximum time to wake a thread on an idle machine, ns: an inter-processor interrupt and the exit from an idle state.
/// Every I/O that a thread sleeps for includes such a wake-up, so shorter waits are no sign of other programs.
const WAKE_UP_NS: u64 = 20_000;

impl RunDelay {
    /// Waiting time caused by other programs, ns: `waited_ns` minus the normal wake-up latency of every wait.
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
    /// Context switches and page faults, summed over all workers; None in virtual time and in old runs that did
    /// not record them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Time that each worker waited for a processor; empty in virtual time or if the kernel does not report it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run_delay: Vec<RunDelay>,
    /// Time that workers waited for a processor in each interval of the series, ns, summed over workers and without
    /// normal wake-up latency. Intervals after the last wait are absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starved_by_interval_ns: Vec<u64>,
    /// Bytes moved by all reads and writes of the cell, including those of the ramp and those that completed after the
    /// window. Trims and zeroes move none.
    pub moved_bytes: u64,
    /// Number of operations in flight, integrated over the window, operation × ns.
    pub outstanding_area_ns: u128,
    /// Total time that operations in flight at the window's start had spent in flight before it, ns. Their latencies
    /// include this time; `outstanding_area_ns` does not.
    pub carried_in_ns: i128,
    /// Total time that operations in flight at the window's end had spent in flight within the window, ns.
    /// `outstanding_area_ns` includes this time; no recorded latency does.
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

    /// Index of the worker that lost most time to other programs, and that time as a fraction (0 to 1) of
    /// `window_ns`; None without records.
    pub fn most_starved(&self, window_ns: u64) -> Option<(usize, f64)> {
        let share = |delay: &RunDelay| delay.starved_ns() as f64 / window_ns.max(1) as f64;
        let shares = self.run_delay.iter().map(share).enumerate();
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// CPU utilisation (0 to 1) of the busiest worker over `window_ns`.
    pub fn busiest_share(&self, window_ns: u64) -> f64 {
        self.cpu_user_ns
            .iter()
            .zip(&self.cpu_system_ns)
            .map(|(u, s)| (u + s) as f64 / window_ns.max(1) as f64)
            .fold(0.0, f64::max)
    }
}

/// Operations completed in each interval as originally recorded, before neighbouring intervals were merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Length of an interval, ns. The last one may be shorter.
    pub interval_ns: u64,
    /// Number of completed operations in each interval, counting only the kinds that IOPS include.
    pub ops: Vec<u64>,
}

/// Results of one cell of a run. Cells of several workers or targets can be merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// Name, target, workload, engine, load and step of the cell.
    pub key: CellKey,
    /// Length of the measured window (after the ramp), ns.
    pub window_ns: u64,
    /// Length of one interval of the series, ns. The last one may be shorter.
    pub interval_ns: u64,
    /// All completions in the window, by interval; an interval without completions is present but empty.
    pub series: Vec<Interval>,
    /// Operations per original interval, if neighbouring intervals of `series` were merged; otherwise None. Kept
    /// because longer intervals hide short stalls. Not stored in the notebook.
    #[serde(skip)]
    pub recorded: Option<Recorded>,
    /// CPU time and context switches of the workers, and operations in flight, during the window.
    pub resources: Resources,
    pub stamps: StampQuality,
    /// Delay of submissions after their intended start, ns; None in closed loop.
    pub lateness: Option<Histogram>,
    /// Number of operations that were due but not yet submitted at the window's end; 0 in closed loop.
    pub backlog_ops: u64,
    /// Results of a message log; None for other workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Box<MessageLog>>,
    /// Reason why measuring ended, such as the elapsed time or too many errors.
    pub ended: Ended,
    /// Recorded circumstances by which the figures are judged.
    pub evidence: Evidence,
    /// Effective settings for display, such as engine flags, alignment and options that the kernel refused. Code
    /// must not decide by them; it uses [`Evidence`].
    pub facts: BTreeMap<String, String>,
    /// Verdicts stored when the cell ended; [`crate::verdict::judge`] recomputes them.
    pub verdicts: Vec<Verdict>,
}

impl Cell {
    /// Merges all intervals of the series into one.
    pub fn total(&self) -> Interval {
        let mut sum = Interval::default();
        self.series.iter().for_each(|i| sum.merge(i));
        sum
    }

    /// Copy of the cell in which each group of `merge` neighbouring intervals is one. `merge` must be at least 1.
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

    /// Mean rate over the window, operations per second, of the kinds in [`Self::io_kinds`].
    pub fn iops(&self) -> f64 {
        let of = self.io_kinds();
        self.per_second(self.series.iter().map(|interval| interval.ios(of)).sum::<u64>() as f64)
    }

    /// Returns the interval length with which the cell was recorded, ns, and the number of operations in each such
    /// interval. Counts the kinds of operation in [`Self::io_kinds`].
    pub fn recorded(&self) -> (u64, Cow<'_, [u64]>) {
        if let Some(recorded) = &self.recorded {
            return (recorded.interval_ns, Cow::Borrowed(&recorded.ops));
        }
        let of = self.io_kinds();
        (self.interval_ns, self.series.iter().map(|interval| interval.ios(of)).collect())
    }

    /// Returns the interval length with which the cell was recorded, ns, and the IOPS of each complete interval. A
    /// shorter last interval is omitted. A window shorter than one interval counts as one interval of its own length;
    /// an empty window gives no values.
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

    /// Lengths of the intervals of `series`, ns. All equal `interval_ns` except the last, which may be shorter.
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

    /// Rate per second of a count `n` over the window; 0 for an empty window.
    pub fn per_second(&self, n: f64) -> f64 {
        if self.window_ns == 0 { 0.0 } else { n / self.seconds() }
    }

    /// Whether the cell was skipped because it does not fit the target.
    pub fn is_skipped(&self) -> bool {
        self.evidence.skipped.is_some()
    }

    /// Whether the latencies of each interval are known for a kind of operation. False if another program recorded only
    /// the latencies of the whole cell.
    pub fn has_latency_over_time(&self, kind: OpKind) -> bool {
        let tool = self.evidence.other_tool.as_ref();
        tool.is_none_or(|tool| tool.spread_evenly.iter().all(|name| name != kind.name()))
    }

    /// Whether the whole distribution of latencies is known. False if another program recorded only some percentiles.
    pub fn has_distribution(&self) -> bool {
        self.evidence.other_tool.as_ref().is_none_or(|tool| !tool.only_percentiles)
    }

    /// Mean number of operations in flight over the window. If the process died before it counted them, the number
    /// follows from the completed operations by Little's law.
    pub fn oio_mean(&self) -> f64 {
        if self.window_ns == 0 {
            return 0.0;
        }
        let area_ns = match self.resources.outstanding_area_ns {
            0 if self.ended == Ended::Crashed => {
                let total = self.total();
                let summed = |of: &Histogram| of.mean_ns().unwrap_or(0.0) * of.count() as f64;
                total.iter().map(|(_, class)| summed(&class.service)).sum()
            }
            counted => counted as f64,
        };
        area_ns / self.window_ns as f64
    }

    /// Adds the results of a cell that ran at the same time on another worker or target. Keeps the key, facts,
    /// evidence and verdicts of `self`, so the caller must rename and judge the sum. The counts may be merged in
    /// any order.
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
