//! The specification of a workload: the I/O to issue, as types that can't hold invalid values.
//!
//! [`Spec::from_toml`] reads a [`Spec`] from a file. The `with_…` functions override single settings, as command-line
//! flags do. Every constructor applies the same rules (`rules.rs`), so users of a `Spec` may rely on them. Conditions
//! that depend on the target (whether the range fits, whether the alignment suffices) are checked when a stream is
//! created.

mod addresses;
mod limits;

use core::str::FromStr;

use crate::file_set::FileSet;
use crate::log_load::LogLoad;
use iodyno_units::{OpKind, parse_percent, parse_size};

pub use crate::range::{ActiveRange, Edge, Percent};
pub use addresses::{Address, Pattern, Spot};
pub use limits::{Limits, Steady, SteadyFigure};

/// Maximum number of worker threads per target.
pub const MAX_THREADS: u32 = 1024;
/// Maximum duration of a ramp and of a measurement, ns: 365 days.
pub const MAX_TIME_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;
/// Maximum number of outstanding operations per worker.
pub const MAX_DEPTH: u32 = 65_536;
/// Maximum number of entries in a list of block sizes, patterns or hot spots.
pub const MAX_ITEMS: usize = 64;

/// One block size of a workload, and how often it is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// Size of the operations, bytes.
    pub bytes: u32,
    /// Weight of this size, relative to the other sizes.
    pub share: f64,
}

impl Block {
    /// Creates a block size. A size that exceeds `u32` becomes the maximum, which the rules refuse.
    pub fn new(bytes: u64, share: f64) -> Self {
        Self { bytes: saturated(bytes), share }
    }

    /// Parses block sizes as given on the command line: `4KiB`, or `4KiB:60,8KiB:40` with weights.
    ///
    /// # Errors
    /// The error in the text, as a sentence.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',')
            .map(|item| {
                let (size, share) = item.split_once(':').unwrap_or((item, "1"));
                let bytes = parse_size(size).map_err(|e| e.to_string())?;
                let share = share.trim().parse().map_err(|_| {
                    format!("`{share}` is not a share: use a number, as in `4KiB:60,8KiB:40`")
                })?;
                Ok(Self::new(bytes, share))
            })
            .collect()
    }
}

/// Converts a number to `u32`. A larger number becomes the maximum, which the rules refuse.
pub(crate) fn saturated(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Distribution of the gaps between arrivals in an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// Independent, exponentially distributed gaps, as from many independent users.
    Poisson,
    /// Equal gaps: a constant rate.
    Constant,
}

/// When an operation starts: after a completion (closed loop) or at a scheduled time (open loop).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalKind {
    /// Each completion starts the worker's next operation.
    Closed {
        /// Think time, ns: delay between a completion and the next operation in its place.
        think_time_ns: u64,
        /// Whether all outstanding operations complete before the think time begins, as in fio.
        think_drains: bool,
    },
    /// Operations start at scheduled times, regardless of completions.
    Open {
        /// Rate of all workers of one target together, operations per second.
        rate_iops: f64,
        /// Distribution of the gaps between arrivals.
        process: Process,
    },
}

/// Initial state of a file that the run creates for a workload that writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewFile {
    /// The file is completely written, so all writes of the workload are overwrites.
    #[default]
    Written,
    /// The file has its full length in unwritten extents (`fallocate`). The first write to an extent marks it as
    /// written.
    Allocated,
    /// The file is empty. Writes beyond its end allocate space and extend it, as in an append-only log.
    Empty,
}

/// How the kind of the next operation is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MixOrder {
    /// Each kind is drawn independently, with the fractions of the mix as probabilities.
    #[default]
    Drawn,
    /// The next operation is a read if (reads + 1) / (writes + 1) is below the ratio of reads to writes in the mix,
    /// otherwise a write. Counts the completed operations of all workers of the target. Requires a mix of only reads
    /// and writes.
    Ratio,
}

/// Bursts of flushes, triggered by the number of operations of all workers of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushBursts {
    /// Number of operations of any kind between bursts, 1 to 10⁹. A burst is skipped if there was no write since
    /// the previous one.
    pub every: u32,
    /// Number of flushes in a burst, 1 to 10⁶. Any of the target's workers can issue them.
    pub burst: u32,
}

/// Bytes that writes store: random, compressible, verifiable or zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Random bytes that neither compress nor deduplicate.
    Incompressible,
    /// Content that can be partly compressed and partly deduplicated.
    Compressible {
        /// Fraction of each 4 KiB block that compresses away.
        compressible: Percent,
        /// Fraction of 4 KiB blocks that are duplicates from a small set of blocks.
        dedupable: Percent,
    },
    /// Content that reads can verify: each block has a header with its address, writer and generation, and a
    /// checksum.
    Verifiable,
    /// All bytes are 0. Devices that compress or detect zeroes may store none of them.
    Zeroes,
}

impl FromStr for Content {
    type Err = String;

    /// Parses a value from the command line: `incompressible`, `verifiable`, `zeroes`, or a list such as
    /// `compressible=50%,dedupable=20%`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "incompressible" => return Ok(Self::Incompressible),
            "verifiable" => return Ok(Self::Verifiable),
            "zeroes" => return Ok(Self::Zeroes),
            _ => {}
        }
        let (mut compressible, mut dedupable) = (Percent::ZERO, Percent::ZERO);
        for part in text.split(',') {
            let (name, share) = part.split_once('=').unwrap_or((part, ""));
            let place = match name {
                "compressible" => &mut compressible,
                "dedupable" => &mut dedupable,
                _ => {
                    return Err(format!(
                        "`{part}` is not a kind of content: use incompressible, verifiable, \
                         zeroes or `compressible=50%,dedupable=20%`"
                    ));
                }
            };
            if text.split(',').filter(|other| other.starts_with(&format!("{name}="))).count() > 1 {
                return Err(format!("`{name}` is given twice: leave one of them out"));
            }
            *place = Percent::from_fraction(parse_percent(share).map_err(|e| e.to_string())?);
        }
        Ok(Self::Compressible { compressible, dedupable })
    }
}

/// Optional settings that delay a worker's operations: pauses, submission in batches once the queue has drained to a
/// threshold, and waits that keep the number of operations in a fixed ratio to that of other workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Number of operations between two pauses. Applies to a closed loop whose think time drains the queue, and to an
    /// open loop with [`Batches::pause_ns`]. None: only [`Batches::think_after_ns`] triggers pauses; if that is None
    /// too, a closed loop pauses after each `depth` operations.
    pub think_after: Option<u32>,
    /// Maximum time between two pauses, ns. Without [`Batches::think_after`], only this time triggers a pause.
    pub think_after_ns: Option<u64>,
    /// Open loop: length of a pause, ns; 0: no pauses. A pause begins when all operations of the worker have
    /// completed.
    pub pause_ns: u64,
    /// Open loop: whether a pause delays the remaining schedule. Otherwise operations due during the pause are
    /// issued late.
    pub think_shifts: bool,
    /// Refill threshold: once the queue is full, no operation is issued until at most this number are in flight.
    /// None: a completed operation is replaced immediately.
    pub refill_at: Option<u32>,
    /// Weight of this workload in a cell with several weighted workloads; None: it has no weight. The workers wait
    /// while their share of all operations exceeds their share of the weights.
    pub flow: Option<u32>,
}

/// A table of a workload file: for one kind of operation, or `[all]`. Each table has its own cursors and
/// passes, so reads and writes under `[all]` advance the same cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    Read,
    Write,
    Trim,
    WriteZeroes,
}

impl Scope {
    pub(crate) const COUNT: usize = 5;
    pub(crate) const ALL: [Self; Self::COUNT] =
        [Self::All, Self::Read, Self::Write, Self::Trim, Self::WriteZeroes];

    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::WriteZeroes => "write_zeroes",
        }
    }

    /// Table of a kind of operation; None for a flush.
    pub(crate) const fn of(kind: OpKind) -> Option<Self> {
        match kind {
            OpKind::Read => Some(Self::Read),
            OpKind::Write => Some(Self::Write),
            OpKind::Trim => Some(Self::Trim),
            OpKind::WriteZeroes => Some(Self::WriteZeroes),
            OpKind::Flush => None,
        }
    }

    /// Kind of operation of a table; None for `[all]`.
    pub(crate) const fn kind(self) -> Option<OpKind> {
        match self {
            Self::All => None,
            Self::Read => Some(OpKind::Read),
            Self::Write => Some(OpKind::Write),
            Self::Trim => Some(OpKind::Trim),
            Self::WriteZeroes => Some(OpKind::WriteZeroes),
        }
    }
}

/// Block sizes and address patterns of one table; empty lists mean that the table has none. The table `[all]`
/// always has at least the default pattern.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Table {
    pub(crate) given: bool,
    pub(crate) block: Vec<Block>,
    pub(crate) addresses: Vec<Address>,
}

/// Specification of a workload. It is always valid. `docs/formats/workload.md` describes the file format.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub(crate) about: String,
    pub(crate) source: Option<String>,
    pub(crate) threads: u32,
    pub(crate) depth: u32,
    pub(crate) submit_batch: Option<u32>,
    pub(crate) block: Vec<Block>,
    pub(crate) align_bytes: Option<u32>,
    pub(crate) address_align_bytes: Option<u32>,
    pub(crate) worker_step_bytes: Option<u64>,
    pub(crate) active: ActiveRange,
    pub(crate) file_set: Option<FileSet>,
    pub(crate) log: Option<LogLoad>,
    /// Relative share of each kind of operation, by [`OpKind::index`]; 0 if the kind is not issued.
    pub(crate) mix: [f64; OpKind::COUNT],
    pub(crate) mix_order: MixOrder,
    pub(crate) flush_bursts: Option<FlushBursts>,
    pub(crate) tables: [Table; Scope::COUNT],
    pub(crate) fua: Percent,
    pub(crate) flush_every: u32,
    pub(crate) flush_again: bool,
    pub(crate) flush_waits: bool,
    pub(crate) flush_at_end: u32,
    pub(crate) read_back: u32,
    pub(crate) new_file: NewFile,
    pub(crate) arrivals: ArrivalKind,
    pub(crate) batches: Batches,
    pub(crate) content: Content,
    pub(crate) limits: Limits,
}

impl Spec {
    /// Creates a specification with the defaults of all keys except mix, blocks and addresses, which are empty. The
    /// specification becomes valid only when these three are set.
    pub(crate) fn blank() -> Self {
        let mut tables: [Table; Scope::COUNT] = Default::default();
        tables[Scope::All as usize].given = true;
        Self {
            about: String::new(),
            source: None,
            threads: 1,
            depth: 1,
            submit_batch: None,
            block: Vec::new(),
            align_bytes: None,
            address_align_bytes: None,
            worker_step_bytes: None,
            active: ActiveRange::WHOLE,
            file_set: None,
            log: None,
            mix: [0.0; OpKind::COUNT],
            mix_order: MixOrder::Drawn,
            flush_bursts: None,
            tables,
            fua: Percent::ZERO,
            flush_every: 0,
            flush_again: false,
            flush_waits: false,
            flush_at_end: 0,
            read_back: 0,
            new_file: NewFile::Written,
            arrivals: ArrivalKind::Closed { think_time_ns: 0, think_drains: false },
            batches: Batches::default(),
            content: Content::Incompressible,
            limits: Limits { ramp_ns: Limits::DEFAULT_RAMP_NS, ..Limits::UNLIMITED },
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.arrivals, ArrivalKind::Open { .. })
    }

    /// One-line description of the workload; empty if the file has none.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Publication that defines the workload; None if unknown.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Number of worker threads per target, 1 to [`MAX_THREADS`].
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Outstanding operations per worker, 1 to [`MAX_DEPTH`]: constant in a closed loop without think time, a
    /// maximum in an open loop.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Maximum number of operations per system call for submission, 1 to [`MAX_DEPTH`]; None: the worker
    /// adapts this number to the rate of completions.
    pub fn submit_batch(&self) -> Option<u32> {
        self.submit_batch
    }

    /// Alignment of every address and length, bytes: a power of two, at least 512 unless the file sets less.
    /// Default: the largest power of two that divides every block size.
    pub fn align_bytes(&self) -> u32 {
        self.align_bytes.unwrap_or_else(|| {
            let all = self.kinds().flat_map(|(kind, _)| self.blocks(kind));
            // A block of 0 bytes, which the rules refuse, has only zero bits.
            1 << all.map(|block| block.bytes.trailing_zeros().min(30)).min().unwrap_or(9)
        })
    }

    /// Alignment of randomly drawn addresses, bytes, if coarser than the workload's alignment; None: the
    /// workload's alignment applies.
    pub fn address_align_bytes(&self) -> Option<u32> {
        self.address_align_bytes
    }

    /// Distance between the active ranges of consecutive workers, bytes. None: all workers use the same range.
    pub fn worker_step_bytes(&self) -> Option<u64> {
        self.worker_step_bytes
    }

    /// Whether all workers of a target share one cursor.
    pub fn has_shared_cursor(&self) -> bool {
        let shared =
            |address: &Address| matches!(address.pattern, Pattern::Sequential { shared: true, .. });
        self.kinds().any(|(kind, _)| self.addresses(kind).iter().any(shared))
    }

    /// The part of the target to which operations go. If each worker has its own range
    /// ([`Spec::worker_step_bytes`]), the returned range starts with the first worker's range. It ends with the last
    /// worker's range if [`ActiveRange::ends_with_target`] is true, otherwise with the first worker's range.
    pub fn active(&self) -> ActiveRange {
        self.active
    }

    /// Start and end (exclusive) of [`Spec::active`] on a target with this capacity, bytes. The start is
    /// aligned; the end can exceed the capacity.
    pub fn active_on(&self, capacity_bytes: u64) -> (u64, u64) {
        // Drawn addresses are rounded down, and must stay in the range.
        let align_bytes = self.address_align_bytes.unwrap_or_else(|| self.align_bytes()).max(1);
        self.active.on(capacity_bytes, align_bytes.into())
    }

    /// Kinds of operations in the mix, each with its relative share.
    pub fn kinds(&self) -> impl Iterator<Item = (OpKind, f64)> + '_ {
        OpKind::ALL.into_iter().map(|kind| (kind, self.mix[kind.index()])).filter(|k| k.1 > 0.0)
    }

    /// Whether the workload issues this kind of operation. Includes flushes after a number of writes or
    /// operations.
    pub fn issues(&self, kind: OpKind) -> bool {
        let flushes = self.flush_every > 0 || self.flush_bursts.is_some() || self.flush_at_end > 0;
        self.mix[kind.index()] > 0.0
            || (kind == OpKind::Flush && flushes)
            || (kind == OpKind::Read && self.read_back > 0)
            || (kind == OpKind::Trim && self.trims_zones())
    }

    /// Whether writes trim each zone that they open.
    fn trims_zones(&self) -> bool {
        let mut patterns = self.addresses(OpKind::Write).iter().map(|address| &address.pattern);
        self.mix[OpKind::Write.index()] > 0.0
            && patterns.any(|pattern| matches!(pattern, Pattern::Zones { trim: true, .. }))
    }

    /// The set of files to which operations go; None: operations go directly to the target.
    pub fn file_set(&self) -> Option<FileSet> {
        self.file_set
    }

    /// Parameters of a message-log workload; None for other workloads.
    pub fn log(&self) -> Option<&LogLoad> {
        self.log.as_ref()
    }

    /// How the kind of the next operation is chosen.
    pub fn mix_order(&self) -> MixOrder {
        self.mix_order
    }

    /// Bursts of flushes after a number of operations of all the target's workers together; None without bursts.
    pub fn flush_bursts(&self) -> Option<FlushBursts> {
        self.flush_bursts
    }

    /// Whether the workload writes, trims or zeroes data on the target.
    pub fn changes_content(&self) -> bool {
        self.kinds().any(|(kind, _)| kind.changes_content())
    }

    /// Block sizes of a kind of operation; empty for flushes.
    pub fn blocks(&self, kind: OpKind) -> &[Block] {
        // Reads that verify writes have the sizes of writes.
        let is_read_back =
            kind == OpKind::Read && self.mix[kind.index()] == 0.0 && self.read_back > 0;
        match Scope::of(if is_read_back { OpKind::Write } else { kind }) {
            None => &[],
            Some(scope) => match self.tables[scope as usize].block.as_slice() {
                [] => &self.block,
                own => own,
            },
        }
    }

    /// Size of the largest read or write, bytes; 0 if there are none. Each buffer must have this size.
    pub fn max_data_bytes(&self) -> u32 {
        let carrying = [OpKind::Read, OpKind::Write].into_iter().filter(|&kind| self.issues(kind));
        carrying.flat_map(|kind| self.blocks(kind)).map(|block| block.bytes).max().unwrap_or(0)
    }

    /// Address patterns of a kind of operation; empty for flushes.
    pub fn addresses(&self, kind: OpKind) -> &[Address] {
        self.address_scope(kind).map_or(&[], |scope| &self.tables[scope as usize].addresses)
    }

    /// The table that defines a kind's address patterns: its own or `[all]`.
    pub(crate) fn address_scope(&self, kind: OpKind) -> Option<Scope> {
        let own = Scope::of(kind)?;
        let is_empty = self.tables[own as usize].addresses.is_empty();
        Some(if is_empty { Scope::All } else { own })
    }

    /// The share of writes with force unit access.
    pub fn fua(&self) -> Percent {
        self.fua
    }

    /// Number of writes between a worker's flushes; 0: no flushes.
    pub fn flush_every(&self) -> u32 {
        self.flush_every
    }

    /// Whether a flush that is due after [`Spec::flush_every`] writes is repeated after each following operation
    /// until the next write.
    pub fn flush_again(&self) -> bool {
        self.flush_again
    }

    /// Whether a worker issues nothing while its flush is in flight. Its earlier operations go on.
    pub fn flush_waits(&self) -> bool {
        self.flush_waits
    }

    /// Number of flushes that each worker issues, one after the other, after its last operation. The measured
    /// time includes them.
    pub fn flush_at_end(&self) -> u32 {
        self.flush_at_end
    }

    /// Initial state of a file that the run creates.
    pub fn new_file(&self) -> NewFile {
        self.new_file
    }

    /// Number of writes after which a worker reads the same blocks back, in the same order; 0: never.
    pub fn read_back(&self) -> u32 {
        self.read_back
    }

    /// Optional settings that delay a worker's operations: pauses, refill threshold and proportion to other
    /// workloads.
    pub fn batches(&self) -> Batches {
        self.batches
    }

    /// When operations start: after completions (closed loop) or at scheduled times (open loop).
    pub fn arrivals(&self) -> ArrivalKind {
        self.arrivals
    }

    /// Kind of content that writes store.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Size of a block with its own header and checksum under [`Content::Verifiable`], bytes: the alignment, but
    /// at most 4 KiB, so that damage is located precisely.
    pub fn verify_unit_bytes(&self) -> u32 {
        self.align_bytes().min(4096)
    }

    /// Length of the ramp, and the conditions that end the measurement of a target.
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_read_what_they_say() {
        let list = Block::parse_list("4k:60, 8k:40").unwrap();
        assert_eq!(list, [Block { bytes: 4096, share: 60.0 }, Block { bytes: 8192, share: 40.0 }]);
        assert!(Block::parse_list("4k:x").unwrap_err().contains("`x` is not a share"));
        let half = Percent::from_fraction(0.5);
        assert_eq!(
            "compressible=50%".parse(),
            Ok(Content::Compressible { compressible: half, dedupable: Percent::ZERO })
        );
        assert!("random".parse::<Content>().unwrap_err().contains("not a kind of content"));
    }
}
