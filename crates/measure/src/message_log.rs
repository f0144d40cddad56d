//! What a cell with a message log measured beside its operations: messages, and how long they took to be persisted.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Messages of a cell, in its measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageLog {
    /// When messages counted as persisted: `none`, `batch` or `each`, as in a workload file.
    pub durability: String,
    /// Messages a second that were offered; None: as many as the log takes.
    pub rate_per_s: Option<f64>,
    /// Messages that were persisted.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// From the time at which a message was due to the completion that made it durable, ns.
    pub persist: Histogram,
    /// Chunks that became durable.
    pub chunks: u64,
    /// Flushes that completed.
    pub flushes: u64,
    /// The most messages that were due and not persisted.
    pub backlog_max: u64,
    /// Those at the end.
    pub backlog_end: u64,
    /// How long the publishers waited since they held as many messages as they may, ns.
    pub blocked_ns: u64,
    /// Messages that they dropped instead.
    pub dropped: u64,
    /// Messages that replays read.
    pub replayed: u64,
    /// Chunks that replays read and whose checksum, place or messages were wrong.
    pub replay_errors: u64,
    /// By interval.
    pub intervals: Vec<LogInterval>,
}

/// An interval of the cell's series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogInterval {
    /// Messages that were persisted.
    pub messages: u64,
    /// Median of the time to persist them, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// The most messages that were due and not persisted.
    pub backlog_max: u64,
    /// On emulated storage, of an interval with a spike: the phase of writes that took longer than usual, as `explain` names
    /// it, or `flush`; and what the device did meanwhile. In real time it may be this machine. Empty where nothing is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
}

impl MessageLog {
    /// Adds what another worker of the same cell counted. Intervals are those of the writer: only one of the two has some.
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
            // Of several logs the slower one: percentiles can't be added.
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

/// A message that took so many times the median is a spike.
pub const SPIKE_FACTOR: u64 = 5;

/// Intervals with spikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spikes {
    /// Intervals that have one.
    pub intervals: usize,
    /// Intervals in which messages were persisted.
    pub of: usize,
    /// Where they come at regular times: the median distance from one to the next, ns. Regular are at least four, of which
    /// half of the distances are within a quarter of the median.
    pub every_ns: Option<u64>,
    /// What delayed writes in most of them, on emulated storage, and in how many.
    pub cause: Option<(String, usize)>,
}

impl MessageLog {
    /// Intervals in which a message took more than [`SPIKE_FACTOR`] times the median. None: there is no such interval.
    pub fn spikes(&self, interval_ns: u64) -> Option<Spikes> {
        let median_ns = self.persist.quantile_ns(0.5)?;
        let is_spike = |it: &LogInterval| it.max_ns > median_ns.saturating_mul(SPIKE_FACTOR);
        let at: Vec<usize> =
            (0..self.intervals.len()).filter(|&i| is_spike(&self.intervals[i])).collect();
        if at.is_empty() {
            return None;
        }
        // Spikes of neighbouring intervals are one.
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
