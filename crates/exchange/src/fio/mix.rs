//! The operations of a job: its kinds with their block sizes, the order of their addresses, and the files that they
//! use.

use iodyno_units::OpKind;
use iodyno_workload::Block;

/// Kinds of operation that a job can issue, in the order of fio's comma-separated values.
pub(super) const KINDS: [OpKind; 3] = [OpKind::Read, OpKind::Write, OpKind::Trim];

/// A block size, with its share of the operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) share: f64,
}

/// Block sizes of each of [`KINDS`].
pub(super) type Blocks = [Vec<Size>; 3];

/// Smallest block of all kinds, bytes.
pub(super) fn smallest(blocks: &Blocks) -> u64 {
    blocks.iter().flatten().map(|size| size.bytes).min().unwrap_or(1).max(1)
}

/// A kind that a job issues.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    pub(super) kind: OpKind,
    pub(super) share: f64,
    pub(super) sizes: Vec<Size>,
}

impl Issued {
    /// Position in [`KINDS`].
    pub(super) fn at(&self) -> usize {
        KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0)
    }

    /// Block sizes as a workload has them.
    pub(super) fn blocks(&self) -> Vec<Block> {
        self.sizes.iter().map(|size| Block::new(size.bytes, size.share)).collect()
    }
}

/// The kinds that a job issues.
#[derive(Clone, Debug)]
pub(super) struct Mix(pub(super) Vec<Issued>);

impl Mix {
    pub(super) fn has(&self, kind: OpKind) -> bool {
        self.0.iter().any(|issued| issued.kind == kind)
    }

    /// Whether the job issues this kind alone.
    pub(super) fn is_only(&self, kind: OpKind) -> bool {
        self.0.iter().all(|issued| issued.kind == kind)
    }

    /// Sum of the shares.
    pub(super) fn whole(&self) -> f64 {
        self.0.iter().map(|issued| issued.share).sum()
    }

    /// Block sizes of all issued kinds, bytes.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|issued| &issued.sizes).map(|size| size.bytes)
    }

    /// The block size, if all issued blocks have the same.
    pub(super) fn one_size(&self) -> Option<u64> {
        let first = self.sizes().next();
        first.filter(|first| self.sizes().all(|bytes| bytes == *first))
    }

    /// Largest power of two that divides all issued block sizes, at most 1 GiB.
    pub(super) fn natural_align(&self) -> u64 {
        1 << self.sizes().map(u64::trailing_zeros).min().unwrap_or(9).min(30)
    }
}

/// Order of the addresses of a job.
pub(super) enum Walk {
    Random,
    /// Runs of this many adjacent blocks, then a jump.
    Runs(u64),
    Sequential,
    /// Runs of adjacent blocks, then a skip: number of blocks, bytes to skip.
    Skips(u64, u64),
    /// A block, then a hole: bytes of each. The walk ends with the file.
    Holes(u64, u64),
    /// Each operation goes to the next block of one of the open zones: bytes of a zone, number of open zones.
    Zones(u64, u64),
    /// Backward from the end of the range: the stride, and the distance of the first block before the last block of the
    /// range, bytes.
    Backward(u64, u64),
}

impl Walk {
    pub(super) fn is_random(&self) -> bool {
        matches!(self, Self::Random | Self::Runs(_))
    }
}

/// Files of a job, and the ranges of its clones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Region {
    pub(super) size: Option<Extent>,
    /// Bytes of each clone; None if unknown.
    pub(super) each_bytes: Option<u64>,
    /// Whether the clones share one file or one set of files.
    pub(super) is_shared: bool,
    pub(super) threads: u64,
    /// Number of files of each clone.
    pub(super) files: u64,
    /// Size of each file that fio draws from a range, bytes; empty: equal sizes.
    pub(super) drawn: Vec<u64>,
    /// `offset_increment`, bytes.
    pub(super) step: u64,
}

/// A size or offset as an option gives it: bytes, or percent of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extent {
    Bytes(u64),
    Percent(u64),
}

/// What a job issues, and where: addresses, alignment and limits depend on all of it.
pub(super) struct Plan {
    pub(super) mix: Mix,
    pub(super) walk: Walk,
    pub(super) region: Region,
}
