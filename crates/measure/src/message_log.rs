//! Results of a message log in addition to the results of its I/Os: messages, and the time until they were persisted.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Results of a message log within a cell's measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageLog {
    /// Durability setting of the workload file, which decides when a message counts as persisted: `none`, `batch`
    /// or `each`.
    pub durability: String,
    /// Offered messages per second; None if publishers send as fast as the log accepts.
    pub rate_per_s: Option<f64>,
    /// Number of messages persisted in the window.
    pub messages: u64,
    /// Total size of the persisted messages without headers, bytes.
    pub body_bytes: u64,
    /// Time from a message's due time until it is persisted, ns.
    pub persist: Histogram,
    /// Number of chunks that were persisted. A chunk is one write to the log, with one or more messages.
    pub chunks: u64,
    /// Number of completed flushes.
    pub flushes: u64,
    /// Largest backlog in the window: number of messages that were due but not yet persisted.
    pub backlog_max: u64,
    /// Number of messages that were due but not persisted at the end of the window.
    pub backlog_end: u64,
    /// Time that publishers were blocked because they had reached their limit of unpersisted messages, ns.
    pub blocked_ns: u64,
    /// Number of messages that publishers dropped, instead of blocking, because they had reached their limit.
    pub dropped: u64,
    /// Number of messages that replays of the log read.
    pub replayed: u64,
    /// Number of chunks in which a replay found a wrong checksum, position or message.
    pub replay_errors: u64,
    /// Results for each interval of the cell's time series.
    pub intervals: Vec<LogInterval>,
}

/// Throughput, latency and backlog of a message log in one interval of the time series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogInterval {
    /// Number of messages persisted in the interval.
    pub messages: u64,
    /// Median time from a message's due time until it is persisted, ns.
    pub p50_ns: u64,
    /// 99th percentile of the time from a message's due time until it is persisted, ns.
    pub p99_ns: u64,
    /// Maximum time from a message's due time until it is persisted, ns.
    pub max_ns: u64,
    /// Largest backlog in the interval: number of messages that were due but not yet persisted.
    pub backlog_max: u64,
    /// Cause of the latency spike in this interval; empty without a spike, or if the cause is unknown, as on real
    /// storage. The cause is `flush`, or the phase of writes (as named by `iodyno explain`) that was unusually slow,
    /// plus the device's background activity. On storage emulated in real time, the cause can also be a delay on this
    /// machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
}

impl MessageLog {
    /// Adds the counts of another worker of the same cell. Only the worker that writes the log has per-interval
    /// results.
    pub fn merge(&mut self, other: &Self) {
        if self.durability.is_empty() {
            self.durability.clone_from(&other.durability);
        }
        self.rate_per_s = match (self.rate_per_s, other.rate_per_s) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.messages += other.messages;
        self.body_bytes += other.body_bytes;
        self.persist.merge(&other.persist);
        self.chunks += other.chunks;
        self.flushes += other.flushes;
        self.backlog_max += other.backlog_max;
        self.backlog_end += other.backlog_end;
        self.blocked_ns = self.blocked_ns.max(other.blocked_ns);
        self.dropped += other.dropped;
        self.replayed += other.replayed;
        self.replay_errors += other.replay_errors;
        if self.intervals.len() < other.intervals.len() {
            self.intervals.resize_with(other.intervals.len(), LogInterval::default);
        }
        for (mine, theirs) in self.intervals.iter_mut().zip(&other.intervals) {
            mine.messages += theirs.messages;
            // For several logs the slower one, because percentiles can't be added.
            mine.p50_ns = mine.p50_ns.max(theirs.p50_ns);
            mine.p99_ns = mine.p99_ns.max(theirs.p99_ns);
            mine.max_ns = mine.max_ns.max(theirs.max_ns);
            mine.backlog_max += theirs.backlog_max;
            if mine.cause.is_empty() {
                mine.cause.clone_from(&theirs.cause);
            }
        }
    }
}

/// An interval has a latency spike if one of its messages took more than this multiple of the median latency.
pub const SPIKE_FACTOR: u64 = 5;

/// Latency spikes in a cell's series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spikes {
    /// Number of intervals that contain a spike.
    pub intervals: usize,
    /// Number of intervals with persisted messages.
    pub of: usize,
    /// Median time between spikes, ns; None if the spikes are not regular. Spikes are regular if there are at least
    /// four, if they occur in at most half of the intervals, and if at least half of the times between them are within
    /// 25 % of the median. Spikes in neighbouring intervals count as one.
    pub every_ns: Option<u64>,
    /// Most frequent cause of the spikes, with the number of intervals that name it; None if no cause is known, as on
    /// real storage.
    pub cause: Option<(String, usize)>,
}

impl MessageLog {
    /// Finds latency spikes: intervals in which a message took more than [`SPIKE_FACTOR`] times the median. None
    /// if there are none.
    pub fn spikes(&self, interval_ns: u64) -> Option<Spikes> {
        let median_ns = self.persist.quantile_ns(0.5)?;
        let is_spike = |it: &LogInterval| it.max_ns > median_ns.saturating_mul(SPIKE_FACTOR);
        let at: Vec<usize> =
            (0..self.intervals.len()).filter(|&i| is_spike(&self.intervals[i])).collect();
        if at.is_empty() {
            return None;
        }
        // Spikes of neighbouring intervals count as one.
        let starts: Vec<usize> =
            at.iter().copied().filter(|i| *i == 0 || !at.contains(&(i - 1))).collect();
        let mut gaps: Vec<u64> = starts.windows(2).map(|two| (two[1] - two[0]) as u64).collect();
        gaps.sort_unstable();
        let median = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
        let near = gaps.iter().filter(|gap| 4 * gap.abs_diff(median) <= median).count();
        let is_regular =
            starts.len() >= 4 && 2 * near >= gaps.len() && 2 * at.len() <= self.intervals.len();
        let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
        for &i in at.iter().filter(|&&i| !self.intervals[i].cause.is_empty()) {
            *causes.entry(&self.intervals[i].cause).or_default() += 1;
        }
        let cause = causes.into_iter().max_by_key(|(_, n)| *n);
        Some(Spikes {
            cause: cause.map(|(name, n)| (name.to_owned(), n)),
            intervals: at.len(),
            of: self.intervals.iter().filter(|it| it.messages > 0).count(),
            every_ns: is_regular.then_some(median * interval_ns),
        })
    }
}
