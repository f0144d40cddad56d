//! The cell: one workload on one target (or on several, merged) under one set of conditions, and
//! everything that was counted.

use crate::{Evidence, Histogram, Interval, IoKinds, Level, MessageLog, Verdict};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The coordinates of a cell. They distinguish the cells of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellKey {
    /// Name within the run, such as `random-read`.
    pub name: String,
    /// Canonical target name; `all (N targets)` for the merged cell of several.
    pub target: String,
    /// Workload name.
    pub workload: String,
    /// Engine that ran it.
    pub engine: String,
    /// Workers on each target.
    pub threads: u32,
    /// Outstanding I/Os of each worker (closed loop), or the most it may have (open loop).
    pub depth: u32,
    /// Block sizes and their shares (which sum to 1), largest share first.
    pub blocks: Vec<(u32, f64)>,
    /// Offered operations a second in open loop; None in closed loop.
    pub offered_iops: Option<f64>,
    /// Seed of the streams.
    pub seed: u64,
    /// Its position in a method; None for a cell of no method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The number of the repeat of the cell within its run; 0 is the first, and the only one where nothing was
    /// repeated.
    #[serde(default)]
    pub repeat: u32,
}

/// The position of a cell in a method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The number of the method's subject, where it is applied to each target alone; 0 otherwise.
    pub subject: u32,
    /// The number of the stage, from 0.
    pub stage: u32,
    /// The number of its round, repeat or sample, from 0.
    pub round: u32,
    /// The number of the point of its grid, from 0.
    pub index: u32,
    /// Its purpose.
    pub role: Role,
    /// The value on each axis, in words, the outermost first.
    pub at: Vec<(String, String)>,
}

/// The purpose of a step of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Its figures are the result.
    #[default]
    Measure,
    /// It brings the target into a state: a purge, a fill, writes before a round, a wait.
    Prepare,
}

/// Whether a cell is the representative one of its workload, among the cells of a run: the merged one of several targets where
/// there is one.
pub fn representative(cells: &[Cell]) -> impl Fn(&CellKey) -> bool {
    let merged = cells.iter().filter(|cell| cell.key.is_of_all_targets());
    let merged: BTreeSet<String> = merged.map(|cell| cell.key.name.clone()).collect();
    move |key| key.is_of_all_targets() || !merged.contains(&key.name)
}

impl CellKey {
    /// The coordinates that a cell shares with its repeats and with its counterparts in other runs: all but the
    /// seed, the repeat (in a method: the round) and the engine, which is a condition and not a coordinate.
    #[must_use]
    pub fn coordinates(&self) -> Self {
        let place = self.place.clone().map(|place| Place { round: 0, ..place });
        Self { seed: 0, repeat: 0, engine: String::new(), place, ..self.clone() }
    }

    /// Whether it is the merged cell of several targets.
    pub fn is_of_all_targets(&self) -> bool {
        self.target.starts_with("all (")
    }

    /// How many targets it is of.
    pub fn targets(&self) -> u32 {
        let number = self.target.strip_prefix("all (").and_then(|rest| rest.split(' ').next());
        number.and_then(|number| number.parse().ok()).unwrap_or(1)
    }

    /// The block size with the largest share, bytes.
    pub fn block_bytes(&self) -> u32 {
        self.blocks.first().map_or(0, |b| b.0)
    }
}

/// Why a cell ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The measured time was over.
    #[default]
    Time,
    /// The number of operations was reached.
    Ops,
    /// The number of bytes was reached.
    Bytes,
    /// In virtual time: what it measures was shown to be steady, and is known well enough;
    /// [`Evidence::settled`] says how well.
    Settled,
    /// The user or another process stopped it (Ctrl-C, SIGTERM).
    Interrupted,
    /// Too many operations failed, or a whole engine: then [`Evidence::failure`] says why.
    Errors,
    /// The target stopped answering: operations were in flight beyond the end, and none completed any more;
    /// [`Evidence::hung`](crate::Evidence::hung) holds their number.
    Hung,
    /// The process died; this is what it had written to the notebook.
    Crashed,
    /// It has not ended: another process is still measuring it. Only a reader of the notebook sees this.
    Running,
}

/// How coarse the completion stamps are. Completions that are reaped together share one stamp; each may have
/// happened at any time since the engine's previous poll. One that is reaped alone is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StampQuality {
    /// Times that at least one completion was taken.
    pub reaps: u64,
    /// Completions taken.
    pub completions: u64,
    /// Sum over completions reaped together of the time since the engine's previous poll, ns.
    pub span_sum_ns: u128,
    /// The longest such time, ns.
    pub span_max_ns: u64,
}

impl StampQuality {
    /// Counts a reap of `completions` that may have happened at any time in the last `span_ns`; 0
    /// for one that came alone.
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

    /// Adds another worker's figures to these.
    pub fn merge(&mut self, other: &Self) {
        self.reaps += other.reaps;
        self.completions += other.completions;
        self.span_sum_ns += other.span_sum_ns;
        self.span_max_ns = self.span_max_ns.max(other.span_max_ns);
    }
}

/// The kernel's counts of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduling {
    /// Times that a thread left its processor, of its own accord or not.
    pub context_switches: u64,
    /// Page faults that waited for storage.
    pub major_faults: u64,
    /// Page faults that did not.
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

/// How long threads that could have run waited for a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunDelay {
    /// Time runnable without a processor, ns.
    pub waited_ns: u64,
    /// Number of such waits, each wake-up included.
    pub waits: u64,
}

/// A wake-up takes up to this long on an idle machine, ns: the interrupt of another processor, and the end of its idle state.
/// It is a part of every I/O that is waited for, and no other program's doing.
const WAKE_UP_NS: u64 = 20_000;

impl RunDelay {
    /// The time that others had the processor, ns: what was waited beyond a wake-up each time.
    pub fn starved_ns(&self) -> u64 {
        self.waited_ns.saturating_sub(self.waits.saturating_mul(WAKE_UP_NS))
    }
}

/// Resources that the workers used during the measured window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// CPU time of each worker in user mode, ns. With the time in the kernel it adds up to the scheduler's
    /// count; the kernel divides that by ticks of some ms only.
    pub cpu_user_ns: Vec<u64>,
    /// CPU time of each worker in the kernel, ns. Kernel workers are not in it.
    pub cpu_system_ns: Vec<u64>,
    /// What the kernel counted of all workers; None in virtual time, and in runs before this was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// How long each worker waited for a processor; empty in virtual time, and where the kernel keeps no such counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run_delay: Vec<RunDelay>,
    /// By interval of the series, the time that workers waited for a processor beyond their wake-ups, summed, ns; empty
    /// where none did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starved_by_interval_ns: Vec<u64>,
    /// Bytes moved by all operations from the start to the last completion: ramp, window and what
    /// was in flight at the end.
    pub moved_bytes: u64,
    /// Integral over the window of the operations in flight, operation × ns.
    pub outstanding_area_ns: u128,
    /// Time that operations in flight at the window's start had spent in flight before it, summed,
    /// ns. It is in their latencies and not in the area.
    pub carried_in_ns: i128,
    /// Time that operations in flight at the window's end had spent in flight within it, summed,
    /// ns. It is in the area and in no counted latency.
    pub carried_out_ns: i128,
}

impl Resources {
    /// CPU time of all workers, seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu_user_ns.iter().chain(&self.cpu_system_ns).sum::<u64>() as f64 / 1e9
    }

    /// Adds the time that a worker waited for a processor in an interval, ns.
    pub fn add_starved(&mut self, interval: usize, ns: u64) {
        if ns > 0 {
            let length = self.starved_by_interval_ns.len().max(interval + 1);
            self.starved_by_interval_ns.resize(length, 0);
            self.starved_by_interval_ns[interval] += ns;
        }
    }

    /// The share (0 to 1) of `window_ns` that the worker which waited longest was without a processor, and its number.
    pub fn most_starved(&self, window_ns: u64) -> Option<(usize, f64)> {
        let share = |delay: &RunDelay| delay.starved_ns() as f64 / window_ns.max(1) as f64;
        let shares = self.run_delay.iter().map(share).enumerate();
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The busiest worker's share of a core (0 to 1) over `window_ns`.
    pub fn busiest_share(&self, window_ns: u64) -> f64 {
        self.cpu_user_ns
            .iter()
            .zip(&self.cpu_system_ns)
            .map(|(u, s)| (u + s) as f64 / window_ns.max(1) as f64)
            .fold(0.0, f64::max)
    }
}

/// The operations of a cell by recorded interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Length of an interval, ns. The last one may be shorter.
    pub interval_ns: u64,
    /// Completed operations in each, of the kinds that its IOPS count.
    pub ops: Vec<u64>,
}

/// One cell of a run: plain data that merges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// Its coordinates.
    pub key: CellKey,
    /// Length of the measured window (after the ramp), ns.
    pub window_ns: u64,
    /// Length of one interval of the series, ns. The last one may be shorter.
    pub interval_ns: u64,
    /// All that completed in the window, by interval; an empty interval is there, empty.
    pub series: Vec<Interval>,
    /// Where neighbouring intervals of `series` were made one: the operations of the recorded ones, for a short
    /// stall is not visible in a long interval. Known to the caller that merged them, and not kept.
    #[serde(skip)]
    pub recorded: Option<Recorded>,
    /// The workers' resources.
    pub resources: Resources,
    /// How coarse the completion stamps are.
    pub stamps: StampQuality,
    /// Open loop: how late operations were submitted after their intended start, ns.
    pub lateness: Option<Histogram>,
    /// Open loop: operations that were due when the window ended and had not been submitted.
    pub backlog_ops: u64,
    /// Messages of a message log, where the workload is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Box<MessageLog>>,
    /// Why it ended.
    pub ended: Ended,
    /// Evidence beside the figures.
    pub evidence: Evidence,
    /// What took effect, for people only: engine flags, alignment, what the kernel refused. Code shows facts
    /// and decides nothing by their keys or texts; what it needs is [`Evidence`].
    pub facts: BTreeMap<String, String>,
    /// Judged once, when the cell ended; [`crate::verdict::judge`] gives them again.
    pub verdicts: Vec<Verdict>,
}

impl Cell {
    /// All intervals as one.
    pub fn total(&self) -> Interval {
        let mut sum = Interval::default();
        self.series.iter().for_each(|i| sum.merge(i));
        sum
    }

    /// The same with neighbouring intervals made one, `merge` of them (1 or more) each.
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

    /// The kinds of operation that its IOPS count.
    pub fn io_kinds(&self) -> IoKinds {
        IoKinds::of(self.series.iter().flat_map(Interval::kinds))
    }

    /// Operations of those kinds a second of the window.
    pub fn iops(&self) -> f64 {
        let of = self.io_kinds();
        self.per_second(self.series.iter().map(|interval| interval.ios(of)).sum::<u64>() as f64)
    }

    /// The length of the intervals that were recorded, ns, and the operations that IOPS count of each.
    pub fn recorded(&self) -> (u64, Cow<'_, [u64]>) {
        if let Some(recorded) = &self.recorded {
            return (recorded.interval_ns, Cow::Borrowed(&recorded.ops));
        }
        let of = self.io_kinds();
        (self.interval_ns, self.series.iter().map(|interval| interval.ios(of)).collect())
    }

    /// The length of the whole intervals that were recorded, ns, and the IOPS in each. The last
    /// interval may be shorter and is left out; a cell that is shorter than its interval has one, of its own
    /// length. Empty for an empty window.
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

    /// All but its figures by interval.
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

    /// The lengths of the intervals of `series`, ns. All are `interval_ns` but the last, which ends with the
    /// window.
    pub fn interval_lengths_ns(&self) -> impl Iterator<Item = u64> {
        let (count, interval_ns) = (self.series.len() as u64, self.interval_ns);
        let rest_ns = self.window_ns.saturating_sub(interval_ns * count.saturating_sub(1));
        let last_ns = if (1..interval_ns).contains(&rest_ns) { rest_ns } else { interval_ns };
        (1..=count).map(move |i| if i == count { last_ns } else { interval_ns })
    }

    /// The gravest level of its verdicts; None where it was never judged.
    pub fn level(&self) -> Option<Level> {
        self.verdicts.iter().map(|v| v.level).max()
    }

    /// The measured window, seconds.
    pub fn seconds(&self) -> f64 {
        self.window_ns as f64 / 1e9
    }

    /// `n` a second over the window; 0 for an empty window.
    pub fn per_second(&self, n: f64) -> f64 {
        if self.window_ns == 0 { 0.0 } else { n / self.seconds() }
    }

    /// Whether it was not issued, because it does not fit the target.
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
    /// evidence and verdicts of `self` are kept; the caller names the sum and judges it anew. Everything
    /// counted is associative and commutative.
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
