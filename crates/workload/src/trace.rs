//! A trace: operations with the times at which they were issued, in memory. [`TraceBuilder`] accepts them in any
//! order from the reader of a format. [`Trace::summary`] returns statistics. [`Replay`](crate::Replay) issues the
//! operations again.
//!
//! An operation takes 24 bytes: 2.4 GB for 100 million. A trace is not read during the replay, because the reader
//! would take a processor from the workers, and might cause I/O on the measured storage. [`TraceBuilder::new`] takes
//! the maximum number of operations.

mod summary;

use core::cmp::Reverse;
use core::fmt;
use iodyno_units::{Op, OpKind, human};
use std::collections::{BinaryHeap, HashMap};

pub use summary::{TracePart, TraceSize, TraceSummary};

/// Granularity of addresses and lengths in a trace, bytes.
const UNIT_BYTES: u64 = 512;
/// Maximum size of reads and writes, bytes. Each operation in flight needs a buffer of its size.
const DATA_BYTES_MAX: u64 = 64 << 20;
/// Maximum length of a trim or write of zeroes, bytes; longer operations are split.
const RANGE_BYTES_MAX: u64 = 1 << 30;
/// Upper bound of end addresses, bytes: 42 bits of 512-byte units.
const END_BYTES_MAX: u64 = UNIT_BYTES << 42;
/// Maximum time of an operation, ns from the start: 56 bits, two years.
const AT_NS_MAX: u64 = (1 << 56) - 1;
/// Marks an unknown response time.
const NO_RESPONSE: u64 = (1 << 48) - 1;
/// Marks an operation that was in flight when the recording ended.
const UNFINISHED: u64 = NO_RESPONSE - 1;
/// Longest representable response time, ns: 78 hours.
const RESPONSE_NS_MAX: u64 = UNFINISHED - 1;
/// Maximum number of files or devices in a trace.
const PARTS_MAX: usize = 1 << 16;
/// Alignment of a trace's files and devices on the target, where they are placed one after the other, bytes.
const PART_ALIGN_BYTES: u64 = 1 << 20;

/// An operation packed into three words: time, kind and FUA; offset and length in 512-byte units; file or
/// device, and response time.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Row([u64; 3]);

impl Row {
    fn new(at_ns: u64, op: &Op, part: u16, response_ns: Option<u64>) -> Self {
        let response_ns = response_ns.map_or(NO_RESPONSE, |ns| ns.min(RESPONSE_NS_MAX));
        Self([
            at_ns << 8 | (op.kind as u64) << 1 | u64::from(op.fua),
            ((op.offset_bytes / UNIT_BYTES) << 22) | (u64::from(op.len_bytes) / UNIT_BYTES),
            u64::from(part) << 48 | response_ns,
        ])
    }

    #[inline]
    const fn at_ns(self) -> u64 {
        self.0[0] >> 8
    }

    #[inline]
    const fn op(self) -> Op {
        Op {
            offset_bytes: (self.0[1] >> 22) * UNIT_BYTES,
            len_bytes: ((self.0[1] & ((1 << 22) - 1)) * UNIT_BYTES) as u32,
            kind: OpKind::ALL[(self.0[0] >> 1 & 7) as usize],
            fua: self.0[0] & 1 == 1,
        }
    }

    const fn part(self) -> usize {
        (self.0[2] >> 48) as usize
    }

    const fn response_ns(self) -> Option<u64> {
        match self.0[2] & NO_RESPONSE {
            NO_RESPONSE | UNFINISHED => None,
            ns => Some(ns),
        }
    }

    /// Replaces the response time, or sets one of the marks.
    const fn set_response(&mut self, ns: u64) {
        self.0[2] = self.0[2] >> 48 << 48 | ns;
    }

    /// Whether it is unknown when the operation completed, and whether it did.
    const fn is_unknown(self) -> bool {
        self.0[2] & NO_RESPONSE == NO_RESPONSE
    }
}

/// One operation of a trace: what was issued, when, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOp {
    /// Time at which the operation was issued, ns from the trace's start.
    pub at_ns: u64,
    pub op: Op,
    /// Time from issue to completion, ns; None if the trace does not have it.
    pub response_ns: Option<u64>,
}

/// Start condition of an operation that waits for completions: see [`Trace::add_waits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Number of completions that must precede the operation, counted from the start of the trace.
    pub(crate) completions: u64,
    /// Think time between the last of the required completions and the operation, ns. If none is required, from
    /// the start.
    pub(crate) think_ns: u64,
}

/// Operations of a trace, in the order of their times.
#[derive(Clone)]
pub struct Trace {
    rows: Vec<Row>,
    waits: Vec<Wait>,
    summary: TraceSummary,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("ops", &self.rows.len()).finish_non_exhaustive()
    }
}

impl PartialEq for Trace {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other) || self.rows == other.rows
    }
}

impl Trace {
    /// Number of operations in the trace, 1 or more.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Always false: a trace has at least one operation.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Counts, sizes, rates and address ranges of the trace's operations.
    pub fn summary(&self) -> &TraceSummary {
        &self.summary
    }

    /// Iterates over the operations in the order of their times.
    pub fn ops(&self) -> impl Iterator<Item = TraceOp> + '_ {
        self.rows.iter().map(|row| TraceOp {
            at_ns: row.at_ns(),
            op: row.op(),
            response_ns: row.response_ns(),
        })
    }

    /// Time (ns from the trace's start) and operation at `index`; None after the last.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<(u64, Op)> {
        self.rows.get(index).map(|row| (row.at_ns(), row.op()))
    }

    /// Number of operations whose time is before `at_ns`.
    pub(crate) fn due_before(&self, at_ns: u64) -> usize {
        self.rows.partition_point(|row| row.at_ns() < at_ns)
    }

    #[inline]
    pub(crate) fn wait(&self, index: usize) -> Wait {
        self.waits[index]
    }

    /// Computes the start condition of each operation: the number of operations that had completed when it was
    /// issued, and the time since the last of those completions. Uses 16 more bytes per operation.
    ///
    /// # Errors
    /// An operation that is followed by others has no response time, and was not in flight at the end of the recording.
    pub fn add_waits(&mut self) -> Result<(), String> {
        let last_ns = self.rows.last().map_or(0, |row| row.at_ns());
        let is_missing = |row: &&Row| row.is_unknown() && row.at_ns() < last_ns;
        let missing = self.rows.iter().filter(is_missing).count() as u64;
        if missing > 0 {
            let have = if missing == 1 { "has" } else { "have" };
            return Err(format!(
                "{} of the {} operations of the trace {have} no response time, so think times are unknown: replay the trace without --think",
                human::whole(missing),
                human::whole(self.rows.len() as u64)
            ));
        }
        // End times of the operations in flight, the earliest on top.
        let mut in_flight: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        let (mut completions, mut since_ns) = (0, 0);
        self.waits = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let at_ns = row.at_ns();
            while let Some(&Reverse(end_ns)) = in_flight.peek()
                && end_ns <= at_ns
            {
                in_flight.pop();
                completions += 1;
                since_ns = end_ns;
            }
            self.waits.push(Wait { completions, think_ns: at_ns - since_ns });
            in_flight.extend(row.response_ns().map(|ns| Reverse(at_ns + ns)));
        }
        Ok(())
    }
}

/// An operation of another tool's trace, with any length and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignOp {
    /// Kind that the reader of the trace has assigned to the operation.
    pub kind: OpKind,
    /// Whether the operation is a write that must be durable when it completes.
    pub fua: bool,
    /// Offset in the file or device on which the operation was issued, bytes; ignored for a flush.
    pub offset_bytes: u64,
    /// Length of the operation, bytes, which may be any number; ignored for a flush.
    pub len_bytes: u64,
}

/// Builds a trace from operations, which may be added in any order.
#[derive(Debug)]
pub struct TraceBuilder {
    rows: Vec<Row>,
    ops_max: usize,
    parts: Vec<TracePart>,
    numbers: HashMap<String, u16>,
    /// For each file or device, the highest end address of its operations, bytes, including operations outside
    /// the trace. Determines where files and devices are placed on the target.
    part_ends_bytes: Vec<u64>,
    align_bytes: Option<u64>,
    is_sorted: bool,
    last_at_ns: u64,
    rounded: u64,
    divided: u64,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.at_ns(), self.op())
    }
}

impl TraceBuilder {
    /// Creates a builder for up to `ops_max` operations. If `align_bytes` is given (a power of two, at least
    /// 512), each operation is enlarged to multiples of it.
    pub fn new(ops_max: usize, align_bytes: Option<u32>) -> Self {
        Self {
            rows: Vec::new(),
            ops_max,
            parts: Vec::new(),
            numbers: HashMap::new(),
            part_ends_bytes: Vec::new(),
            align_bytes: align_bytes.map(u64::from),
            is_sorted: true,
            last_at_ns: 0,
            rounded: 0,
            divided: 0,
        }
    }

    /// Number of files and devices found so far.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Returns the index of the file or device called `name`. A new name gets the next index.
    ///
    /// # Errors
    /// There are too many files or devices.
    pub fn part(&mut self, name: &str) -> Result<u16, String> {
        if let Some(known) = self.numbers.get(name) {
            return Ok(*known);
        }
        if self.parts.len() == PARTS_MAX {
            return Err(format!("the trace has more than {PARTS_MAX} files or devices"));
        }
        self.parts.push(TracePart { name: name.to_owned(), ..TracePart::default() });
        self.part_ends_bytes.push(0);
        let number = (self.parts.len() - 1) as u16;
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Extends a file or device to the end of an operation that the trace omits. The other operations then have the
    /// same addresses on the target as if that operation were included.
    pub fn reach(&mut self, part: u16, offset_bytes: u64, len_bytes: u64) {
        let end = offset_bytes.saturating_add(len_bytes).min(END_BYTES_MAX);
        let end = end.next_multiple_of(self.align_bytes.unwrap_or(UNIT_BYTES));
        let known = &mut self.part_ends_bytes[usize::from(part)];
        *known = (*known).max(end);
    }

    /// Number of operations added to the trace so far.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no operation has been added to the trace yet.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds an operation on a file or device. Returns its index, for [`Self::completed`].
    ///
    /// # Errors
    /// The operation can't be issued to block storage, or the trace exceeds a limit of length or time.
    pub fn push(
        &mut self,
        part: u16,
        at_ns: u64,
        op: ForeignOp,
        response_ns: Option<u64>,
    ) -> Result<usize, String> {
        let ForeignOp { kind, fua, offset_bytes, len_bytes } = op;
        if at_ns > AT_NS_MAX {
            return Err("the operation is more than two years after the start".to_owned());
        }
        let (mut from, mut end) = (0, 0);
        if kind != OpKind::Flush {
            if len_bytes == 0 {
                return Err(format!("a {} needs a length", kind.name()));
            }
            from = offset_bytes;
            end = offset_bytes
                .checked_add(len_bytes)
                .filter(|&end| end <= END_BYTES_MAX - PART_ALIGN_BYTES)
                .ok_or_else(|| {
                    format!("the operation ends beyond {}", human::size(END_BYTES_MAX))
                })?;
            if let Some(align_bytes) = self.align_bytes {
                from = from / align_bytes * align_bytes;
                end = end.next_multiple_of(align_bytes);
                self.rounded += u64::from((from, end) != (offset_bytes, offset_bytes + len_bytes));
            } else if !from.is_multiple_of(UNIT_BYTES) || !end.is_multiple_of(UNIT_BYTES) {
                return Err(
                    "the operation does not begin and end at multiples of 512 bytes: --align 512 enlarges such operations to multiples of 512 bytes, --align 4KiB to multiples of 4 KiB"
                        .to_owned(),
                );
            }
            let carries = matches!(kind, OpKind::Read | OpKind::Write);
            if carries && end - from > DATA_BYTES_MAX {
                return Err(format!(
                    "the operation is larger than {}",
                    human::size(DATA_BYTES_MAX)
                ));
            }
        }
        self.is_sorted &= at_ns >= self.last_at_ns;
        self.last_at_ns = at_ns;
        let index = self.rows.len();
        self.divided += u64::from(end - from > RANGE_BYTES_MAX);
        loop {
            if self.rows.len() >= self.ops_max {
                return Err(format!(
                    "the trace is too long: memory holds {} operations (24 bytes for each); replay a part of the trace (--from, --to, --only)",
                    human::whole(self.ops_max as u64)
                ));
            }
            let len = (end - from).min(RANGE_BYTES_MAX);
            let op = Op { offset_bytes: from, len_bytes: len as u32, kind, fua };
            self.rows.push(Row::new(at_ns, &op, part, response_ns));
            from += len;
            if from >= end {
                break;
            }
        }
        let of = &mut self.parts[usize::from(part)];
        of.ops += 1;
        of.end_bytes = of.end_bytes.max(end);
        let known = &mut self.part_ends_bytes[usize::from(part)];
        *known = (*known).max(end);
        Ok(index)
    }

    /// Sets the completion time of an operation, ns, in the same time base as the issue times. Ignored if it is before
    /// the operation's issue time. If a long operation was split, all parts of it get the time.
    pub fn completed(&mut self, index: usize, end_ns: u64) {
        let at_ns = self.rows.get(index).map_or(u64::MAX, |row| row.at_ns());
        if let Some(response_ns) = end_ns.checked_sub(at_ns) {
            self.of_operation(index, |row| row.set_response(response_ns.min(RESPONSE_NS_MAX)));
        }
    }

    /// Marks an operation as in flight at the end of the recording: no operation waited for it.
    pub fn unfinished(&mut self, index: usize) {
        self.of_operation(index, |row| row.set_response(UNFINISHED));
    }

    /// Calls `change` for each part of the operation at `index`; a long operation was split into several.
    fn of_operation(&mut self, index: usize, mut change: impl FnMut(&mut Row)) {
        let Some(first) = self.rows.get(index).copied() else { return };
        let mut end_bytes = first.op().offset_bytes;
        for row in &mut self.rows[index..] {
            let op = row.op();
            let is_same = (row.0[0], row.part()) == (first.0[0], first.part());
            if !is_same || op.offset_bytes != end_bytes {
                break;
            }
            change(row);
            if u64::from(op.len_bytes) < RANGE_BYTES_MAX {
                break;
            }
            end_bytes += u64::from(op.len_bytes);
        }
    }

    /// Moves an operation to `at_ns`, because it was put back into its queue and issued again at that time. If a long
    /// operation was split, all parts of it move.
    pub fn reissued(&mut self, index: usize, at_ns: u64) {
        if at_ns > AT_NS_MAX || index >= self.rows.len() {
            return;
        }
        self.of_operation(index, |row| row.0[0] = at_ns << 8 | row.0[0] & 0xff);
        self.is_sorted &= index + 1 == self.rows.len();
        self.last_at_ns = self.last_at_ns.max(at_ns);
    }

    /// Time of the earliest operation, ns; None if there are no operations.
    pub fn first_at_ns(&self) -> Option<u64> {
        if self.is_sorted {
            return self.rows.first().map(|row| row.at_ns());
        }
        self.rows.iter().map(|row| row.at_ns()).min()
    }

    /// Completes the trace. Times become relative to `start_ns`, or, if it is None, to the first operation.
    ///
    /// # Errors
    /// There are no operations.
    pub fn finish(mut self, start_ns: Option<u64>) -> Result<Trace, String> {
        let was_sorted = self.is_sorted;
        if !was_sorted {
            // Stable: operations at the same time keep their order.
            self.rows.sort_by_key(|row| row.at_ns());
        }
        let Some(first) = self.rows.first() else {
            return Err("the trace has no operation to replay".to_owned());
        };
        let start_ns = start_ns.unwrap_or(first.at_ns());
        let (mut at_bytes, mut whole_end_bytes) = (0, 0);
        for (part, end_bytes) in self.parts.iter_mut().zip(&self.part_ends_bytes) {
            part.start_bytes = at_bytes;
            whole_end_bytes = if *end_bytes > 0 { at_bytes + end_bytes } else { whole_end_bytes };
            at_bytes += end_bytes.next_multiple_of(PART_ALIGN_BYTES);
            if part.ops > 0 && at_bytes > END_BYTES_MAX {
                return Err(format!(
                    "the files of the trace are placed one after the other, and end beyond {}: choose some with --only",
                    human::size(END_BYTES_MAX)
                ));
            }
        }
        for row in &mut self.rows {
            let is_flush = row.op().kind == OpKind::Flush;
            let start_bytes = if is_flush { 0 } else { self.parts[row.part()].start_bytes };
            row.0[0] = row.at_ns().saturating_sub(start_ns) << 8 | row.0[0] & 0xff;
            row.0[1] += (start_bytes / UNIT_BYTES) << 22;
        }
        self.parts.retain(|part| part.ops > 0);
        let mut summary = TraceSummary::of(&self.rows);
        summary.parts = self.parts;
        summary.whole_end_bytes = whole_end_bytes;
        summary.is_sorted = was_sorted;
        (summary.rounded, summary.divided) = (self.rounded, self.divided);
        Ok(Trace { rows: self.rows, waits: Vec::new(), summary })
    }
}

#[cfg(test)]
mod tests;
