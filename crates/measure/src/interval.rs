//! One interval of a cell's time series: completed operations by kind. A cell is the sum of its intervals, so an
//! interrupted run keeps every finished interval.

use crate::{ErrorCounts, Histogram};
use iodyno_units::OpKind;
use serde::{Deserialize, Serialize};

/// Results of one kind of operation: bytes, latencies and errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassStats {
    /// Bytes moved by operations that completed without error.
    pub bytes: u64,
    /// Time from submission to completion, ns. Contains one value per completed operation.
    pub service: Histogram,
    /// Time from the intended start to completion, ns; None in closed loop, where it equals the service time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Histogram>,
    /// Failed operations, by kind of error.
    #[serde(default)]
    pub errors: ErrorCounts,
}

impl ClassStats {
    /// Number of operations that completed without error.
    pub fn ops(&self) -> u64 {
        self.service.count()
    }

    /// Latency that a user of the storage sees: response time in open loop, service time in closed loop.
    pub fn response_time(&self) -> &Histogram {
        self.response.as_ref().unwrap_or(&self.service)
    }

    pub fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.service.merge(&other.service);
        match (&mut self.response, &other.response) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (None, Some(theirs)) => self.response = Some(theirs.clone()),
            (_, None) => {}
        }
        self.errors.merge(&other.errors);
    }

    /// Clears all counts, but keeps the histograms allocated.
    pub fn clear(&mut self) {
        self.bytes = 0;
        self.service.clear();
        if let Some(h) = &mut self.response {
            h.clear();
        }
        self.errors = ErrorCounts::default();
    }

    /// Moves all counts into a trimmed copy. The original becomes empty but keeps its memory for reuse.
    #[must_use]
    pub fn take_trimmed(&mut self) -> Self {
        Self {
            bytes: std::mem::take(&mut self.bytes),
            service: self.service.take_trimmed(),
            response: self.response.as_mut().map(Histogram::take_trimmed),
            errors: std::mem::take(&mut self.errors),
        }
    }

    /// Frees the memory of empty buckets; see [`Histogram::trim`].
    pub fn trim(&mut self) {
        self.service.trim();
        if let Some(h) = &mut self.response {
            h.trim();
        }
    }

    /// Whether nothing completed and nothing failed.
    pub fn is_empty(&self) -> bool {
        self.ops() == 0 && self.errors.total() == 0
    }
}

/// Kinds of operation that count as IOPS: reads and writes. If the workload has neither, all kinds count. Otherwise
/// flushes, trims and write-zeroes have separate rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoKinds {
    all: bool,
}

impl IoKinds {
    /// Reads and writes only.
    pub const DATA: Self = Self { all: false };

    /// Kinds that count as IOPS for a workload that issued `kinds`.
    pub fn of(mut kinds: impl Iterator<Item = OpKind>) -> Self {
        Self { all: !kinds.any(|kind| Self::DATA.count(kind)) }
    }

    /// Whether IOPS include this kind of operation.
    pub const fn count(self, kind: OpKind) -> bool {
        self.all || matches!(kind, OpKind::Read | OpKind::Write)
    }
}

/// Results of one interval of the measured window, by kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Results per kind of operation, at [`OpKind::index`]; None for kinds that did not occur.
    pub classes: [Option<Box<ClassStats>>; OpKind::COUNT],
}

impl Interval {
    /// Results of one kind of operation; None if it did not occur.
    pub fn class(&self, kind: OpKind) -> Option<&ClassStats> {
        self.classes[kind.index()].as_deref()
    }

    /// Mutable results of one kind of operation, created empty if it did not occur.
    pub fn class_mut(&mut self, kind: OpKind) -> &mut ClassStats {
        self.classes[kind.index()].get_or_insert_default()
    }

    /// Iterates over the kinds of operation that occurred, with their results, in the order of [`OpKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (OpKind, &ClassStats)> {
        OpKind::ALL.into_iter().filter_map(|k| self.class(k).map(|c| (k, c)))
    }

    /// Adds the counts of another interval. If a kind of operation is new to `self`, its histograms are copied as they
    /// are: trimmed histograms remain trimmed.
    pub fn merge(&mut self, other: &Self) {
        for (kind, stats) in other.iter() {
            match &mut self.classes[kind.index()] {
                Some(mine) => mine.merge(stats),
                none => *none = Some(Box::new(stats.clone())),
            }
        }
    }

    /// Frees the memory of empty buckets; see [`Histogram::trim`].
    pub fn trim(&mut self) {
        self.classes.iter_mut().flatten().for_each(|c| c.trim());
    }

    /// Latency that a user of the storage sees, over all kinds of operation. Output must say that the kinds are
    /// mixed.
    pub fn response_time(&self) -> Histogram {
        let mut all = Histogram::trimmed();
        self.iter().for_each(|(_, stats)| all.merge(stats.response_time()));
        all
    }

    /// Number of completed operations of all kinds, flushes included.
    pub fn ops(&self) -> u64 {
        self.iter().map(|(_, c)| c.ops()).sum()
    }

    /// Iterates over the kinds of operation that completed or failed.
    pub fn kinds(&self) -> impl Iterator<Item = OpKind> {
        self.iter().filter(|(_, stats)| !stats.is_empty()).map(|(kind, _)| kind)
    }

    /// Number of completed operations of the kinds that `of` includes.
    pub fn ios(&self, of: IoKinds) -> u64 {
        self.iter().filter(|(kind, _)| of.count(*kind)).map(|(_, stats)| stats.ops()).sum()
    }

    /// Bytes moved by reads and writes.
    pub fn bytes(&self) -> u64 {
        self.iter()
            .filter(|(k, _)| matches!(k, OpKind::Read | OpKind::Write))
            .map(|(_, c)| c.bytes)
            .sum()
    }

    /// Counts of failed operations, summed over all kinds of operation.
    pub fn errors(&self) -> ErrorCounts {
        let mut sum = ErrorCounts::default();
        self.iter().for_each(|(_, c)| sum.merge(&c.errors));
        sum
    }
}
