//! One interval of a series: its completions, by kind of operation. A cell is the sum of its intervals, so a
//! run that is cut off keeps every interval that it had finished.

use crate::{ErrorCounts, Histogram};
use iodyno_units::OpKind;
use serde::{Deserialize, Serialize};

/// The figures of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassStats {
    /// Bytes moved by operations that completed without error.
    pub bytes: u64,
    /// From submission to completion, ns. Its count is the number of completed operations.
    pub service: Histogram,
    /// From the *intended* start to completion, ns; only in open loop (in closed loop the intended
    /// start is the submission).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Histogram>,
    /// Operations that failed.
    #[serde(default)]
    pub errors: ErrorCounts,
}

impl ClassStats {
    /// Completed operations.
    pub fn ops(&self) -> u64 {
        self.service.count()
    }

    /// The histogram of the latency that a user of the storage sees: response time where there is one.
    pub fn response_time(&self) -> &Histogram {
        self.response.as_ref().unwrap_or(&self.service)
    }

    /// Adds another's figures to these.
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

    /// Clears everything, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes = 0;
        self.service.clear();
        if let Some(h) = &mut self.response {
            h.clear();
        }
        self.errors = ErrorCounts::default();
    }

    /// Moves everything out, without empty buckets, and keeps the memory.
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

    /// True when nothing completed and nothing failed.
    pub fn is_empty(&self) -> bool {
        self.ops() == 0 && self.errors.total() == 0
    }
}

/// The kinds of operation that IOPS count: reads and writes. Flushes, trims and write-zeroes beside them have rates
/// of their own; of a workload that neither reads nor writes, all operations count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoKinds {
    all: bool,
}

impl IoKinds {
    /// Reads and writes.
    pub const DATA: Self = Self { all: false };

    /// Those of a workload that issued these kinds.
    pub fn of(mut kinds: impl Iterator<Item = OpKind>) -> Self {
        Self { all: !kinds.any(|kind| Self::DATA.count(kind)) }
    }

    /// Whether IOPS count this kind.
    pub const fn count(self, kind: OpKind) -> bool {
        self.all || matches!(kind, OpKind::Read | OpKind::Write)
    }
}

/// The completions of one interval of the measured window. Kinds without any are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// By [`OpKind::index`].
    pub classes: [Option<Box<ClassStats>>; OpKind::COUNT],
}

impl Interval {
    /// Figures of one kind, where it has any.
    pub fn class(&self, kind: OpKind) -> Option<&ClassStats> {
        self.classes[kind.index()].as_deref()
    }

    /// Figures of one kind, empty ones where there were none.
    pub fn class_mut(&mut self, kind: OpKind) -> &mut ClassStats {
        self.classes[kind.index()].get_or_insert_default()
    }

    /// The kinds with figures, in the order of [`OpKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (OpKind, &ClassStats)> {
        OpKind::ALL.into_iter().filter_map(|k| self.class(k).map(|c| (k, c)))
    }

    /// Adds another interval's figures to these. A kind that is new here takes no more memory than it does there.
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

    /// The latency that a user of the storage sees, all kinds of operation together: its display must state
    /// that.
    pub fn response_time(&self) -> Histogram {
        let mut all = Histogram::trimmed();
        self.iter().for_each(|(_, stats)| all.merge(stats.response_time()));
        all
    }

    /// Completed operations of all kinds, flushes included.
    pub fn ops(&self) -> u64 {
        self.iter().map(|(_, c)| c.ops()).sum()
    }

    /// The kinds that did anything.
    pub fn kinds(&self) -> impl Iterator<Item = OpKind> {
        self.iter().filter(|(_, stats)| !stats.is_empty()).map(|(kind, _)| kind)
    }

    /// Completed operations of the kinds that IOPS count.
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

    /// Failed operations of all kinds.
    pub fn errors(&self) -> ErrorCounts {
        let mut sum = ErrorCounts::default();
        self.iter().for_each(|(_, c)| sum.merge(&c.errors));
        sum
    }
}
