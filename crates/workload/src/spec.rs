//! The specification of a workload: the I/O to issue, as types that can't hold invalid values.
//!
//! A [`Spec`] comes from a file ([`Spec::from_toml`]) and is changed by the `with_…` functions, like command-line
//! flags. Every constructor applies the same rules (`rules.rs`), so users of a `Spec` may rely on them. Conditions
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
/// Maximum ramp and maximum measured time, ns: 365 days.
pub const MAX_TIME_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;
/// Maximum number of outstanding operations per worker.
pub const MAX_DEPTH: u32 = 65_536;
/// Maximum number of sizes in a distribution, patterns in a table, and spots in a pattern.
pub const MAX_ITEMS: usize = 64;

/// One block size of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// Size of an operation, bytes.
    pub bytes: u32,
    /// Share of the operations, relative to the other shares.
    pub share: f64,
}

impl Block {
    /// A block of this size. An excessive size saturates, so that the rules refuse it.
    pub fn new(bytes: u64, share: f64) -> Self {
        Self { bytes: saturated(bytes), share }
    }

    /// Parses a distribution as given by a flag: `4KiB`, or `4KiB:60,8KiB:40` with shares.
    ///
    /// # Errors
    /// The error in the text, as a sentence.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',')
            .map(|item| {
                let (size, share) = item.split_once(':').unwrap_or((item, "1"));
                let bytes = parse_size(size).map_err(|e| e.to_string())?;
                let share = share.trim().parse().map_err(|_| {
                    format!("`{share}` is not a share: write a number, as in `4KiB:60,8KiB:40`")
                })?;
                Ok(Self::new(bytes, share))
            })
            .collect()
    }
}

/// Converts a size to the type of a block size. An excessive size saturates, so that the rules refuse it.
pub(crate) fn saturated(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The gaps between the arrivals of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// Independent exponential gaps: the arrivals of many independent users.
    Poisson,
    /// Equal gaps.
    Constant,
}

/// The start condition of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalKind {
    /// As soon as one of the worker's outstanding operations has completed.
    Closed {
        /// Think time: how long the slot of a completed operation stays empty, ns.
        think_time_ns: u64,
        /// Whether all outstanding operations complete before thinking, as in fio.
        think_drains: bool,
    },
    /// At times that do not depend on completions.
    Open {
        /// Operations per second of one target, over all of its workers.
        rate_iops: f64,
        /// Distribution of the gaps.
        process: Process,
    },
}

/// Initial state of a file that the run creates, for a cell that writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewFile {
    /// Written once before: writes overwrite.
    #[default]
    Written,
    /// Space reserved at full length, but never written: each first write also marks its extent as written.
    Allocated,
    /// Empty: writes beyond its end allocate space and extend it, like an appended log.
    Empty,
}

/// How the kind of the next operation is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MixOrder {
    /// Each operation's kind is drawn independently, with the shares as probabilities.
    #[default]
    Drawn,
    /// A read, as long as (reads + 1) / (writes + 1) is below the ratio of their shares, otherwise a write, counting
    /// the operations that all workers of the target have completed. The mix has only reads and writes.
    Ratio,
}

/// Bursts of flushes between the operations of all workers of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushBursts {
    /// Number of operations of any kind after which a burst is due, if a write was among those since the last burst;
    /// 1 to 10⁹.
    pub every: u32,
    /// Number of flushes in a burst, which the workers take in turn; 1 to 10⁶.
    pub burst: u32,
}

/// The content of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Random bytes; no two blocks alike.
    Incompressible,
    /// Bytes of which a share is compressible, and blocks of which a share repeats.
    Compressible {
        /// Share of each 4 KiB that compresses away.
        compressible: Percent,
        /// Share of 4 KiB blocks that come from a small set.
        dedupable: Percent,
    },
    /// Each unit contains its address, its writer and generation, and a checksum, so that reads can check it.
    Verifiable,
    /// Zeroes.
    Zeroes,
}

impl FromStr for Content {
    type Err = String;

    /// Parses the value of a flag: `incompressible`, `verifiable`, `zeroes`, or a list such as
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
                        "`{part}` is not a kind of content: write incompressible, verifiable, \
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

/// Further settings that delay the operations of a worker: pauses, a refill threshold of its queue, and a proportion to
/// other workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Number of operations between two pauses, in a closed loop with a think time that drains (default: the depth) or
    /// in an open loop with [`Batches::pause_ns`].
    pub think_after: Option<u32>,
    /// Maximum time between two pauses, ns. Without [`Batches::think_after`], only this time decides.
    pub think_after_ns: Option<u64>,
    /// Open loop: length of a pause, ns, which begins when all operations of the worker have completed; 0: no pauses.
    pub pause_ns: u64,
    /// Open loop: whether the schedule stops during a pause. Otherwise operations due during the pause are issued late.
    pub think_shifts: bool,
    /// Once all slots are taken, none is used again until at most this many operations are in flight.
    pub refill_at: Option<u32>,
    /// Weight of the workload among those of the cell that have a weight. Its workers wait while their share of the
    /// operations is larger than their share of the weights.
    pub flow: Option<u32>,
}

/// A table of a workload file with settings by kind of operation. Each table has its own cursors and passes: under
/// `[all]`, reads and writes advance the same ones.
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

    /// The table of a kind; None for a flush.
    pub(crate) const fn of(kind: OpKind) -> Option<Self> {
        match kind {
            OpKind::Read => Some(Self::Read),
            OpKind::Write => Some(Self::Write),
            OpKind::Trim => Some(Self::Trim),
            OpKind::WriteZeroes => Some(Self::WriteZeroes),
            OpKind::Flush => None,
        }
    }

    /// The kind of a table; None for `[all]`.
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

/// The settings in a table of one kind; empty lists if it has none. `[all]` always has settings, at least the
/// default.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Table {
    pub(crate) given: bool,
    pub(crate) block: Vec<Block>,
    pub(crate) addresses: Vec<Address>,
}

/// A valid workload. `docs/formats/workload.md` describes the file.
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
    /// Shares by kind; 0 for a kind that is not issued.
    pub(crate) mix: [f64; OpKind::COUNT],
    pub(crate) mix_order: MixOrder,
    pub(crate) flush_bursts: Option<FlushBursts>,
    pub(crate) tables: [Table; Scope::COUNT],
    pub(crate) fua: Percent,
    pub(crate) flush_every: u32,
    pub(crate) flush_again: bool,
    pub(crate) flush_at_end: u32,
    pub(crate) read_back: u32,
    pub(crate) new_file: NewFile,
    pub(crate) arrivals: ArrivalKind,
    pub(crate) batches: Batches,
    pub(crate) content: Content,
    pub(crate) limits: Limits,
}

impl Spec {
    /// A specification without a mix, blocks and addresses, with the defaults of all other keys. It is not valid until
    /// the mix, blocks and addresses are set.
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

    /// Where the workload was published; None if unknown.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Worker threads per target, 1 to [`MAX_THREADS`].
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Outstanding operations per worker, 1 to [`MAX_DEPTH`]: exact in a closed loop without think time, a maximum in
    /// an open one.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Maximum number of operations that a worker submits by one system call, 1 to [`MAX_DEPTH`]; None: the worker
    /// decides by the rate of completions.
    pub fn submit_batch(&self) -> Option<u32> {
        self.submit_batch
    }

    /// Alignment of every address and length, bytes: a power of two, 512 or more unless the file sets less. By
    /// default, the largest one that divides every block size.
    pub fn align_bytes(&self) -> u32 {
        self.align_bytes.unwrap_or_else(|| {
            let all = self.kinds().flat_map(|(kind, _)| self.blocks(kind));
            // A block of 0 bytes, which the rules refuse, has only zero bits.
            1 << all.map(|block| block.bytes.trailing_zeros().min(30)).min().unwrap_or(9)
        })
    }

    /// Alignment of drawn addresses, bytes, even if blocks are smaller; None: the alignment of the workload.
    pub fn address_align_bytes(&self) -> Option<u32> {
        self.address_align_bytes
    }

    /// Distance between the ranges of successive workers, bytes: worker w uses the active range moved by w times this
    /// distance. None if the workers share the range.
    pub fn worker_step_bytes(&self) -> Option<u64> {
        self.worker_step_bytes
    }

    /// Whether all workers of a target share one cursor.
    pub fn has_shared_cursor(&self) -> bool {
        let shared =
            |address: &Address| matches!(address.pattern, Pattern::Sequential { shared: true, .. });
        self.kinds().any(|(kind, _)| self.addresses(kind).iter().any(shared))
    }

    /// The part of the target to which operations go; with [`Spec::worker_step_bytes`], that of the first worker.
    pub fn active(&self) -> ActiveRange {
        self.active
    }

    /// First byte of the active range on a target of this capacity, rounded to the alignment, and the byte after its
    /// end, which may be beyond the target; with [`Spec::worker_step_bytes`], of the first worker.
    pub fn active_on(&self, capacity_bytes: u64) -> (u64, u64) {
        // Drawn addresses are rounded down, and must stay in the range.
        let align_bytes = self.address_align_bytes.unwrap_or_else(|| self.align_bytes()).max(1);
        self.active.on(capacity_bytes, align_bytes.into())
    }

    /// The issued kinds, with their shares (relative to each other).
    pub fn kinds(&self) -> impl Iterator<Item = (OpKind, f64)> + '_ {
        OpKind::ALL.into_iter().map(|kind| (kind, self.mix[kind.index()])).filter(|k| k.1 > 0.0)
    }

    /// Whether a kind is issued, including flushes after a number of writes or operations.
    pub fn issues(&self, kind: OpKind) -> bool {
        let flushes = self.flush_every > 0 || self.flush_bursts.is_some() || self.flush_at_end > 0;
        self.mix[kind.index()] > 0.0
            || (kind == OpKind::Flush && flushes)
            || (kind == OpKind::Read && self.read_back > 0)
    }

    /// The file set to which the operations go; None without one.
    pub fn file_set(&self) -> Option<FileSet> {
        self.file_set
    }

    /// The load of a message log; None for other workloads.
    pub fn log(&self) -> Option<&LogLoad> {
        self.log.as_ref()
    }

    /// How the kind of the next operation is chosen.
    pub fn mix_order(&self) -> MixOrder {
        self.mix_order
    }

    /// Bursts of flushes between the operations of all workers of the target; None without bursts.
    pub fn flush_bursts(&self) -> Option<FlushBursts> {
        self.flush_bursts
    }

    /// Whether the workload changes the target's content.
    pub fn changes_content(&self) -> bool {
        self.kinds().any(|(kind, _)| kind.changes_content())
    }

    /// The block sizes of a kind; none for flushes.
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

    /// Size of the largest operation that carries data, bytes, which is the size of a buffer. 0 if none does.
    pub fn max_data_bytes(&self) -> u32 {
        let carrying = [OpKind::Read, OpKind::Write].into_iter().filter(|&kind| self.issues(kind));
        carrying.flat_map(|kind| self.blocks(kind)).map(|block| block.bytes).max().unwrap_or(0)
    }

    /// The address patterns of a kind; none for flushes.
    pub fn addresses(&self, kind: OpKind) -> &[Address] {
        self.address_scope(kind).map_or(&[], |scope| &self.tables[scope as usize].addresses)
    }

    /// The table from which a kind's addresses come.
    pub(crate) fn address_scope(&self, kind: OpKind) -> Option<Scope> {
        let own = Scope::of(kind)?;
        let is_empty = self.tables[own as usize].addresses.is_empty();
        Some(if is_empty { Scope::All } else { own })
    }

    /// The share of writes with force unit access.
    pub fn fua(&self) -> Percent {
        self.fua
    }

    /// Number of writes of a worker between flushes; 0: no flushes.
    pub fn flush_every(&self) -> u32 {
        self.flush_every
    }

    /// Whether a flush that is due after [`Spec::flush_every`] writes is repeated after each operation until the next
    /// write.
    pub fn flush_again(&self) -> bool {
        self.flush_again
    }

    /// Number of flushes that each worker issues in sequence after its last operation; they belong to the measured
    /// time.
    pub fn flush_at_end(&self) -> u32 {
        self.flush_at_end
    }

    /// Initial state of a file that the run creates.
    pub fn new_file(&self) -> NewFile {
        self.new_file
    }

    /// Number of writes after which a worker reads them back, in order; 0: never.
    pub fn read_back(&self) -> u32 {
        self.read_back
    }

    /// Pauses, refill threshold and proportion that delay the operations of a worker.
    pub fn batches(&self) -> Batches {
        self.batches
    }

    /// The start condition of an operation.
    pub fn arrivals(&self) -> ArrivalKind {
        self.arrivals
    }

    /// The content of writes.
    pub fn content(&self) -> Content {
        self.content
    }

    /// With [`Content::Verifiable`], size of a unit with its own header and checksum, bytes: the alignment, but at
    /// most 4 KiB, so that damage is located precisely.
    pub fn verify_unit_bytes(&self) -> u32 {
        self.align_bytes().min(4096)
    }

    /// The end conditions of the measurement.
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
