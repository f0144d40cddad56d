//! Types that describe the operations of a fio job: their kinds and block sizes, the order of their addresses, and
//! their files.

use iodyno_units::OpKind;
use iodyno_workload::Block;

/// Kinds of operations that a job can issue, in the order of fio's comma-separated values: reads, writes,
/// trims.
pub(super) const KINDS: [OpKind; 3] = [OpKind::Read, OpKind::Write, OpKind::Trim];

/// A block size, and its share of the operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) share: f64,
}

/// Block sizes of reads, writes and trims, in the order of [`KINDS`].
pub(super) type Blocks = [Vec<Size>; 3];

/// Smallest block size of all kinds of operations, bytes.
pub(super) fn smallest(blocks: &Blocks) -> u64 {
    blocks.iter().flatten().map(|size| size.bytes).min().unwrap_or(1).max(1)
}

/// Largest power of two up to `natural` that divides all `steps`, bytes. A step of 0 has no effect.
pub(super) fn common_align(natural: u64, steps: &[u64]) -> u64 {
    steps.iter().fold(natural, |align, step| match step {
        0 => align,
        step => align.min(1 << step.trailing_zeros().min(30)),
    })
}

/// A kind of operation that a job issues, with its share and block sizes.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    pub(super) kind: OpKind,
    pub(super) share: f64,
    pub(super) sizes: Vec<Size>,
}

impl Issued {
    /// Index of this kind in [`KINDS`].
    pub(super) fn at(&self) -> usize {
        KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0)
    }

    /// Block sizes, converted for a workload.
    pub(super) fn blocks(&self) -> Vec<Block> {
        self.sizes.iter().map(|size| Block::new(size.bytes, size.share)).collect()
    }
}

/// Kinds of operations that a job issues, with their shares and block sizes.
#[derive(Clone, Debug)]
pub(super) struct Mix(pub(super) Vec<Issued>);

impl Mix {
    pub(super) fn has(&self, kind: OpKind) -> bool {
        self.0.iter().any(|issued| issued.kind == kind)
    }

    /// Whether the job issues this kind of operation and no other.
    pub(super) fn is_only(&self, kind: OpKind) -> bool {
        self.0.iter().all(|issued| issued.kind == kind)
    }

    /// Sum of the shares of all issued kinds.
    pub(super) fn whole(&self) -> f64 {
        self.0.iter().map(|issued| issued.share).sum()
    }

    /// Share of the most frequent kind, as a fraction of all operations.
    pub(super) fn largest_share(&self) -> f64 {
        self.0.iter().fold(0.0, |most: f64, issued| most.max(issued.share)) / self.whole()
    }

    /// Block sizes of all issued kinds, bytes.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|issued| &issued.sizes).map(|size| size.bytes)
    }

    /// The single block size of all issued kinds, bytes; None if there are several.
    pub(super) fn one_size(&self) -> Option<u64> {
        let first = self.sizes().next();
        first.filter(|first| self.sizes().all(|bytes| bytes == *first))
    }

    /// Largest power of two that divides all issued block sizes, at most 1 GiB.
    pub(super) fn natural_align(&self) -> u64 {
        1 << self.sizes().map(u64::trailing_zeros).min().unwrap_or(9).min(30)
    }
}

/// Order in which a job visits addresses.
pub(super) enum Walk {
    Random,
    /// Runs of this number of adjacent blocks, each run at a random address.
    Runs(u64),
    Sequential,
    /// Runs of adjacent blocks, each followed by a gap: blocks per run, bytes of the gap.
    Skips(u64, u64),
    /// Single blocks, each followed by a hole: bytes of the block, bytes of the hole. Ends at the end of the
    /// file.
    Holes(u64, u64),
    /// Each operation writes the next block of a randomly chosen open zone: bytes per zone, number of open zones.
    Zones(u64, u64),
    Backward(Backward),
}

/// Addresses that descend by a fixed distance, lap after lap.
#[derive(Clone, Copy)]
pub(super) struct Backward {
    /// Distance between the starts of successive operations, bytes.
    pub(super) stride: u64,
    /// Distance from the last address of the range back to the first address issued, bytes.
    pub(super) start: u64,
    /// Part of each clone's range in which every lap has the same addresses: its distance from the start of the range,
    /// and its length, bytes. None: the whole range, whose size is unknown.
    pub(super) lap: Option<(u64, u64)>,
}

impl Walk {
    pub(super) fn is_random(&self) -> bool {
        matches!(self, Self::Random | Self::Runs(_))
    }
}

/// Files of a job, and how its clones divide them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Region {
    pub(super) size: Option<Extent>,
    /// Bytes that each clone uses; None if unknown.
    pub(super) each_bytes: Option<u64>,
    /// Whether the clones share one file or set of files.
    pub(super) is_shared: bool,
    pub(super) threads: u64,
    /// Number of files of each clone.
    pub(super) files: u64,
    /// Sizes that fio draws for the files from a range, bytes; empty: all files have the same size.
    pub(super) drawn: Vec<u64>,
    /// Distance between the offsets of consecutive clones (`offset_increment`), bytes.
    pub(super) step: u64,
}

/// A size or offset from an option: in bytes, or in percent of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extent {
    Bytes(u64),
    Percent(u64),
}

/// The operations of a job and where they go. Address patterns, alignment and limits are derived from it.
pub(super) struct Plan {
    pub(super) mix: Mix,
    pub(super) walk: Walk,
    pub(super) region: Region,
}
