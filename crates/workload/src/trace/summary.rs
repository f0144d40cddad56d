//! Statistics of a trace, computed once when the trace is complete.

use super::Row;
use iodyno_units::OpKind;
use std::collections::{BTreeMap, HashMap};

/// Initial granularity at which the working set is counted, bytes.
const TOUCHED_UNIT_BYTES: u64 = 4096;
/// Maximum number of groups of 64 blocks with which the working set is counted; they take about 100 MB of memory. If
/// more are needed, the granularity is doubled.
const GROUPS_MAX: usize = 1 << 21;
const SECOND_NS: u64 = 1_000_000_000;

/// A file or device of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePart {
    /// Name of the file or device in the trace.
    pub name: String,
    /// Number of operations on this file or device.
    pub ops: u64,
    /// Highest end address of an operation, bytes from the start of this file or device.
    pub end_bytes: u64,
    /// Offset on the target at which this file or device is placed, bytes.
    pub start_bytes: u64,
}

/// One operation size, and how often it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSize {
    /// Size of these operations, bytes.
    pub bytes: u32,
    /// Number of operations of this size.
    pub ops: u64,
}

/// Counts, sizes, rates and address ranges of a trace's operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSummary {
    /// Number of operations by kind, indexed by [`OpKind::index`].
    pub ops: [u64; OpKind::COUNT],
    /// Total bytes of operations by kind, indexed by [`OpKind::index`].
    pub bytes: [u64; OpKind::COUNT],
    /// Operation sizes by kind, indexed by [`OpKind::index`], the most frequent first; empty for flushes.
    pub sizes: [Vec<TraceSize>; OpKind::COUNT],
    /// Number of writes that the trace marks as force unit access.
    pub fua: u64,
    /// Counts of sequential operations: reads that begin where the previous read ended; writes that begin where the
    /// previous write ended; reads and writes that begin where the previous read or write ended.
    pub sequential: [u64; 3],
    /// Time from the trace's start to its last operation, ns.
    pub span_ns: u64,
    /// Maximum number of operations in one second. Seconds are consecutive and begin at the trace's start.
    pub peak_ops_per_s: u64,
    /// Maximum number of bytes read and written in one second. Seconds are consecutive and begin at the trace's start.
    pub peak_bytes_per_s: u64,
    /// Highest end address of an operation on the target, bytes, if the replay begins at offset 0.
    pub end_bytes: u64,
    /// Highest end address on the target, bytes, of the operations at all times of the file, including those outside
    /// the selected time.
    pub whole_end_bytes: u64,
    /// Size of the working set, bytes: all blocks of [`Self::touched_unit_bytes`] that are read or written at least
    /// once.
    pub touched_bytes: u64,
    /// Block size with which [`Self::touched_bytes`] was counted, bytes.
    pub touched_unit_bytes: u64,
    /// Largest power of two, up to 1 GiB, that divides every offset and length.
    pub align_bytes: u32,
    /// Number of operations with a known response time, and their mean response time, ns.
    pub responses: (u64, f64),
    /// Files or devices, in the order of their first operation.
    pub parts: Vec<TracePart>,
    /// Whether the operations were in ascending order of time in the source file.
    pub is_sorted: bool,
    /// Number of operations that were enlarged to the alignment.
    pub rounded: u64,
    /// Number of operations that were split because of their length.
    pub divided: u64,
}

impl TraceSummary {
    /// Number of operations of all kinds, including flushes.
    pub fn all_ops(&self) -> u64 {
        self.ops.iter().sum()
    }

    /// Fraction of reads and writes that begin where the previous read or write ended.
    pub fn sequential_share(&self) -> f64 {
        let of = self.ops[OpKind::Read.index()] + self.ops[OpKind::Write.index()];
        self.sequential[2] as f64 / of.max(1) as f64
    }

    /// Size of the largest operation that transfers data, bytes.
    pub fn max_data_bytes(&self) -> u32 {
        let sizes = [OpKind::Read, OpKind::Write].into_iter().flat_map(|k| &self.sizes[k.index()]);
        sizes.map(|size| size.bytes).max().unwrap_or(0)
    }

    /// Sum of the lengths of all writes. Excludes writes of zeroes; a block written twice counts twice.
    pub fn written_bytes(&self) -> u64 {
        self.bytes[OpKind::Write.index()]
    }

    pub(super) fn of(rows: &[Row]) -> Self {
        let mut all = Self::default();
        let mut sizes: [BTreeMap<u32, u64>; OpKind::COUNT] = Default::default();
        let mut touched = Touched::new();
        // End of the last read, of the last write, and of the last of either.
        let mut ends = [u64::MAX; 3];
        let (mut second, mut second_ops, mut second_bytes) = (0, 0, 0);
        let (mut places, mut responses_ns) = (1_u64 << 30, 0.0);
        for row in rows {
            let (op, at_ns) = (row.op(), row.at_ns());
            let (kind, len) = (op.kind.index(), u64::from(op.len_bytes));
            all.ops[kind] += 1;
            all.bytes[kind] += len;
            all.span_ns = at_ns;
            all.fua += u64::from(op.fua && op.kind == OpKind::Write);
            if at_ns / SECOND_NS != second {
                (second, second_ops, second_bytes) = (at_ns / SECOND_NS, 0, 0);
            }
            second_ops += 1;
            all.peak_ops_per_s = all.peak_ops_per_s.max(second_ops);
            if let Some(ns) = row.response_ns() {
                all.responses.0 += 1;
                responses_ns += ns as f64;
            }
            if op.kind == OpKind::Flush {
                continue;
            }
            let end = op.offset_bytes + len;
            *sizes[kind].entry(op.len_bytes).or_default() += 1;
            places |= op.offset_bytes | len;
            all.end_bytes = all.end_bytes.max(end);
            if kind > OpKind::Write.index() {
                continue;
            }
            second_bytes += len;
            all.peak_bytes_per_s = all.peak_bytes_per_s.max(second_bytes);
            touched.add(op.offset_bytes, end);
            for at in [kind, 2] {
                all.sequential[at] += u64::from(ends[at] == op.offset_bytes);
                ends[at] = end;
            }
        }
        all.align_bytes = 1 << places.trailing_zeros();
        all.responses.1 = responses_ns / all.responses.0.max(1) as f64;
        (all.touched_bytes, all.touched_unit_bytes) = touched.bytes();
        all.sizes = sizes.map(|sizes| {
            let mut sizes: Vec<_> =
                sizes.into_iter().map(|(bytes, ops)| TraceSize { bytes, ops }).collect();
            sizes.sort_by_key(|size| core::cmp::Reverse(size.ops));
            sizes
        });
        all
    }
}

/// Bitmap of the blocks that the trace has read or written, 64 blocks per word.
struct Touched {
    groups: HashMap<u64, u64>,
    unit_bytes: u64,
}

impl Touched {
    fn new() -> Self {
        Self { groups: HashMap::new(), unit_bytes: TOUCHED_UNIT_BYTES }
    }

    fn add(&mut self, start: u64, end: u64) {
        let (mut unit, last) = (start / self.unit_bytes, (end - 1) / self.unit_bytes);
        while unit <= last {
            let (group, first) = (unit / 64, unit % 64);
            let count = (last - unit + 1).min(64 - first);
            let bits = (u64::MAX >> (64 - count)) << first;
            *self.groups.entry(group).or_default() |= bits;
            unit += count;
        }
        if self.groups.len() > GROUPS_MAX {
            self.double();
        }
    }

    #[cold]
    fn double(&mut self) {
        let mut groups: HashMap<u64, u64> = HashMap::with_capacity(self.groups.len());
        for (&group, &bits) in &self.groups {
            let mut halved = 0;
            for pair in 0..32 {
                halved |= u64::from(bits >> (2 * pair) & 3 != 0) << pair;
            }
            *groups.entry(group / 2).or_default() |= halved << (32 * (group % 2));
        }
        self.groups = groups;
        self.unit_bytes *= 2;
    }

    fn bytes(&self) -> (u64, u64) {
        let units: u64 = self.groups.values().map(|bits| u64::from(bits.count_ones())).sum();
        (units * self.unit_bytes, self.unit_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_counted_once_and_more_coarsely_where_there_are_many() {
        let mut touched = Touched::new();
        touched.add(0, 4096);
        touched.add(2048, 8192);
        touched.add(300 << 10, 1 << 20);
        assert_eq!(touched.bytes(), (8192 + (724 << 10), 4096));
        touched.double();
        assert_eq!(
            touched.bytes(),
            (8192 + (728 << 10), 8192),
            "300 KiB is in the middle of a unit"
        );
        touched.add(0, 1);
        assert_eq!(touched.bytes().0, 8192 + (728 << 10));
    }
}
