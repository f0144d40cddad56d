//! The specification of a workload: the I/O to issue, as types that can't be wrong.
//!
//! A [`Spec`] comes from a file ([`Spec::from_toml`]) and is changed by the
//! `with_…` functions, as flags on a command line do. Every constructor applies the same rules
//! (`rules.rs`), so a holder of a `Spec` may rely on them. Conditions that depend on the
//! target (does the range fit, does the alignment suffice) are checked when a stream is made.

mod addresses;
mod limits;

use core::str::FromStr;

use crate::file_set::FileSet;
use crate::log_load::LogLoad;
use iodyno_units::{OpKind, parse_percent, parse_size};

pub use crate::range::{ActiveRange, Edge, Percent};
pub use addresses::{Address, Pattern, Spot};
pub use limits::{Limits, Steady, SteadyFigure};

/// The most worker threads of one target.
pub const MAX_THREADS: u32 = 1024;
/// The longest ramp and the longest measured time, ns: 365 days.
pub const MAX_TIME_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;
/// The most outstanding operations of one worker.
pub const MAX_DEPTH: u32 = 65_536;

/// One block size of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// Bytes of an operation.
    pub bytes: u32,
    /// Its share of the operations, relative to the other shares.
    pub share: f64,
}

impl Block {
    /// Reads a distribution as a flag gives it: `4KiB`, or `4KiB:60,8KiB:40` with shares.
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
                Ok(Self { bytes: saturated(bytes), share })
            })
            .collect()
    }
}

/// A size in the type of a block; one that is too large stays too large, and the rules refuse it.
pub(crate) fn saturated(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The gaps between the arrivals of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// Exponential gaps, independent: the arrivals of many independent users.
    Poisson,
    /// Equal gaps.
    Constant,
}

/// The start condition of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalKind {
    /// As soon as one of the worker's outstanding operations has completed.
    Closed {
        /// How long the place of a completed operation stays empty, in ns.
        think_time_ns: u64,
        /// Let all outstanding operations complete before thinking, as fio does.
        think_drains: bool,
    },
    /// At times that do not depend on completions.
    Open {
        /// Operations a second of one target, over all of its workers.
        rate_iops: f64,
        /// The gaps.
        process: Process,
    },
}

/// How a cell of writes finds a file that its run made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewFile {
    /// Written once before: writes overwrite.
    #[default]
    Written,
    /// With its length and its space reserved, and never written: each first write also records that it was.
    Allocated,
    /// Empty: writes beyond its end allocate space and make it longer, as an appended log does.
    Empty,
}

/// How the kind of the next operation is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MixOrder {
    /// Each operation's kind is drawn independently, by the shares.
    #[default]
    Drawn,
    /// A read, as long as (reads + 1) / (writes + 1) is below the ratio of their shares, else a write; of the
    /// operations that all workers of the target have completed. The mix is of reads and writes.
    Ratio,
}

/// Bursts of flushes between the operations of all workers of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushBursts {
    /// After so many operations of any kind, if a write was among those since the last burst; 1 to 10⁹.
    pub every: u32,
    /// Number of flushes, which the workers take in turn; 1 to 10⁶.
    pub burst: u32,
}

/// The content of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Random bytes; no two blocks alike.
    Incompressible,
    /// Bytes of which a share compresses away, and blocks of which a share repeats.
    Compressible {
        /// The share of each 4 KiB that compresses away.
        compressible: Percent,
        /// The share of 4 KiB blocks that are one of a small set.
        dedupable: Percent,
    },
    /// Each unit contains the place and time of its write, and a checksum.
    Verifiable,
    /// Zeroes.
    Zeroes,
}

impl FromStr for Content {
    type Err = String;

    /// As a flag gives it: `incompressible`, `verifiable`, `zeroes`, or a list such as
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

/// What delays the operations of a worker further: pauses, marks of its queue, and a proportion to other workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Operations between two pauses: of a closed loop with think time that drains (by default its depth), of an open one
    /// with [`Batches::pause_ns`].
    pub think_after: Option<u32>,
    /// The longest time between two pauses, ns. Alone: the number of operations does not matter.
    pub think_after_ns: Option<u64>,
    /// Open loop: length of a pause, ns; 0: none. All operations of the worker complete before.
    pub pause_ns: u64,
    /// Open loop: the schedule stops during a pause; otherwise what was due then is issued late.
    pub think_shifts: bool,
    /// Once all slots are taken, none is used again until at most this many operations are in flight.
    pub refill_at: Option<u32>,
    /// The workload's weight among those of the cell that have one: it waits while its share of the operations is larger
    /// than its share of the weights.
    pub flow: Option<u32>,
}

/// The table of a workload file that is the origin of settings by kind. A cursor or a pass belongs to the
/// table in which it was written: under `[all]` reads and writes advance the same one.
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

    /// The table of one kind; a flush has none.
    pub(crate) const fn of(kind: OpKind) -> Option<Self> {
        match kind {
            OpKind::Read => Some(Self::Read),
            OpKind::Write => Some(Self::Write),
            OpKind::Trim => Some(Self::Trim),
            OpKind::WriteZeroes => Some(Self::WriteZeroes),
            OpKind::Flush => None,
        }
    }

    /// The kind whose table this is; `[all]` belongs to none.
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

/// The settings in a table of one kind; empty lists where it has none. `[all]` is always given, if
/// only by its default.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Table {
    pub(crate) given: bool,
    pub(crate) block: Vec<Block>,
    pub(crate) addresses: Vec<Address>,
}

/// A workload that can be issued. See the module's text; `docs/formats/workload.md` describes the
/// file.
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
    /// A description of the workload, in a line; empty if the file has none.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Where the workload was published.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Worker threads of each target, 1 to [`MAX_THREADS`].
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Outstanding operations of each worker, 1 to [`MAX_DEPTH`]: exactly so many in a closed loop
    /// without think time, at most so many in an open one.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Operations that a worker submits by one system call, at most, 1 to [`MAX_DEPTH`]; None where the worker decides by the
    /// rate at which they complete.
    pub fn submit_batch(&self) -> Option<u32> {
        self.submit_batch
    }

    /// Every address and length is a multiple of this many bytes: a power of two, 512 or above.
    /// Where the file gives none, the largest one that divides every block size.
    pub fn align_bytes(&self) -> u32 {
        self.align_bytes.unwrap_or_else(|| {
            let all = self.kinds().flat_map(|(kind, _)| self.blocks(kind));
            // A block of 0 bytes, which the rules refuse, has as many zeros as bits.
            1 << all.map(|block| block.bytes.trailing_zeros().min(30)).min().unwrap_or(9)
        })
    }

    /// Addresses that are drawn are multiples of this many bytes, also where blocks are smaller; None where the alignment
    /// decides.
    pub fn address_align_bytes(&self) -> Option<u32> {
        self.address_align_bytes
    }

    /// Worker w has the active range for itself, moved by w times this; None where the workers share the range.
    pub fn worker_step_bytes(&self) -> Option<u64> {
        self.worker_step_bytes
    }

    /// Whether all workers of a target go through it by one cursor.
    pub fn has_shared_cursor(&self) -> bool {
        let shared =
            |address: &Address| matches!(address.pattern, Pattern::Sequential { shared: true, .. });
        self.kinds().any(|(kind, _)| self.addresses(kind).iter().any(shared))
    }

    /// The part of the target that operations go to; with [`Spec::worker_step_bytes`], of the first worker.
    pub fn active(&self) -> ActiveRange {
        self.active
    }

    /// First byte of the active range on a target of this capacity, as the alignment rounds it, and the byte behind its
    /// end, which may be beyond the target; with [`Spec::worker_step_bytes`], of the first worker.
    pub fn active_on(&self, capacity_bytes: u64) -> (u64, u64) {
        // Drawn addresses are rounded down, and must not leave the range.
        let align_bytes = self.address_align_bytes.unwrap_or_else(|| self.align_bytes()).max(1);
        self.active.on(capacity_bytes, align_bytes.into())
    }

    /// The kinds that are issued, with their shares (relative to one another).
    pub fn kinds(&self) -> impl Iterator<Item = (OpKind, f64)> + '_ {
        OpKind::ALL.into_iter().map(|kind| (kind, self.mix[kind.index()])).filter(|k| k.1 > 0.0)
    }

    /// Whether a kind is issued; flushes after every so many writes or operations count too.
    pub fn issues(&self, kind: OpKind) -> bool {
        let flushes = self.flush_every > 0 || self.flush_bursts.is_some() || self.flush_at_end > 0;
        self.mix[kind.index()] > 0.0
            || (kind == OpKind::Flush && flushes)
            || (kind == OpKind::Read && self.read_back > 0)
    }

    /// The files that it goes to, where it has such.
    pub fn file_set(&self) -> Option<FileSet> {
        self.file_set
    }

    /// The load of a message log, where the workload is one.
    pub fn log(&self) -> Option<&LogLoad> {
        self.log.as_ref()
    }

    /// How the kind of the next operation is chosen.
    pub fn mix_order(&self) -> MixOrder {
        self.mix_order
    }

    /// Bursts of flushes after so many operations of all workers of the target.
    pub fn flush_bursts(&self) -> Option<FlushBursts> {
        self.flush_bursts
    }

    /// Whether the workload changes the target's content.
    pub fn changes_content(&self) -> bool {
        self.kinds().any(|(kind, _)| kind.changes_content())
    }

    /// The block sizes of a kind; none for flushes.
    pub fn blocks(&self, kind: OpKind) -> &[Block] {
        // What is read back has the sizes of writes.
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

    /// The largest operation that carries data, in bytes: the size of a buffer. 0 if none does.
    pub fn max_data_bytes(&self) -> u32 {
        let carrying = [OpKind::Read, OpKind::Write].into_iter().filter(|&kind| self.issues(kind));
        carrying.flat_map(|kind| self.blocks(kind)).map(|block| block.bytes).max().unwrap_or(0)
    }

    /// How the addresses of a kind are chosen; none for flushes.
    pub fn addresses(&self, kind: OpKind) -> &[Address] {
        self.address_scope(kind).map_or(&[], |scope| &self.tables[scope as usize].addresses)
    }

    /// The table that a kind's addresses come from.
    pub(crate) fn address_scope(&self, kind: OpKind) -> Option<Scope> {
        let own = Scope::of(kind)?;
        let is_empty = self.tables[own as usize].addresses.is_empty();
        Some(if is_empty { Scope::All } else { own })
    }

    /// The share of writes with force unit access.
    pub fn fua(&self) -> Percent {
        self.fua
    }

    /// The number of writes of a worker between flushes; 0 = never.
    pub fn flush_every(&self) -> u32 {
        self.flush_every
    }

    /// A flush after so many writes is issued again after each operation until the next write.
    pub fn flush_again(&self) -> bool {
        self.flush_again
    }

    /// Flushes of a worker, one after the other, behind its last operation; they belong to the measured time.
    pub fn flush_at_end(&self) -> u32 {
        self.flush_at_end
    }

    /// How a cell finds a file that its run made.
    pub fn new_file(&self) -> NewFile {
        self.new_file
    }

    /// After so many writes a worker reads them back, in their order; 0 = never.
    pub fn read_back(&self) -> u32 {
        self.read_back
    }

    /// How the slots of a closed loop are used again.
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

    /// Under [`Content::Verifiable`], the bytes of one unit with a header and a checksum of its
    /// own: the alignment, but at most 4 KiB, so that damage is located closely.
    pub fn verify_unit_bytes(&self) -> u32 {
        self.align_bytes().min(4096)
    }

    /// When the measurement ends.
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
