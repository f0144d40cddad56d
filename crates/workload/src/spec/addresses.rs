//! Address patterns: how a workload chooses the addresses of its operations.

use crate::range::Percent;

/// A hot spot of [`Pattern::HotSpots`]: a part of the active range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// Weight of the hot spot, relative to the other hot spots; 0 makes it an unused gap.
    pub share: f64,
    /// Size of the hot spot, as a fraction of the active range. Each hot spot starts where the previous one ends.
    pub range: Percent,
}

/// How the addresses of operations are chosen: an order or a random distribution.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Random blocks, each with equal probability. Either independent of earlier draws, or each block once per
    /// pass, in a new random order for each pass.
    Uniform {
        /// Whether each block comes once before any block is repeated.
        once_per_pass: bool,
    },
    /// Consecutive blocks. After the end of the range, continues at its start.
    Sequential {
        /// Whether all workers of the target share one cursor; otherwise each has its own.
        shared: bool,
        /// Number of blocks after which to jump to a random address; None: never.
        run: Option<u64>,
    },
    /// Zipf distribution: the block with rank k has a probability proportional to k^-theta. A bijection scatters
    /// ranks over the range.
    Zipf {
        /// Exponent of the distribution, in (0, 5]. Larger exponents are more skewed.
        theta: f64,
    },
    /// fio's Pareto distribution. A uniform draw `u` gives the rank `u^(ln h / ln(1 - h))`, as a fraction of all
    /// ranks: `1 - h` of the draws are among the first `h` of the ranks. A bijection scatters ranks over blocks.
    Pareto {
        /// Fraction of ranks that are hot, above 0 and below 1.
        h: f64,
    },
    /// fio's normal distribution. The rank is the mean of twelve uniform draws, plus a uniform shift with a total
    /// width of `deviation`. A bijection scatters ranks over blocks.
    Normal {
        /// Width of the uniform shift, as a fraction of the range.
        deviation: Percent,
    },
    /// Each operation accesses the next block of a randomly chosen open zone. A full zone is closed, and another one is
    /// opened at its start.
    Zones {
        /// Size of each zone, bytes: the distance between the starts of two consecutive zones.
        zone_bytes: u64,
        /// Number of open zones of all workers together. Each worker has at least one, and no zone belongs to two
        /// workers.
        open: u32,
        /// Whether a zone is trimmed when it is opened, before its first write.
        trim: bool,
        /// Writable bytes at the start of each zone of a zoned device; a single trim then resets a zone. None: the
        /// whole zone is written, and it is trimmed in parts of at most 1 GiB.
        capacity_bytes: Option<u64>,
    },
    /// Consecutive blocks up to the end of the range, with one cursor per worker. If there are several sizes, a
    /// block that does not fit before the end gets another random size.
    ToEnd,
    /// Runs of consecutive blocks, separated by gaps of `skip_bytes`. After the end of the range, continues at
    /// its start.
    Skips {
        /// Number of consecutive blocks before each gap.
        run: u64,
        /// Distance from the end of a run to the start of the next, bytes.
        skip_bytes: u64,
    },
    /// Interleaved sequential streams, one in each of `streams` equal parts of the range. The streams take turns, one
    /// block each.
    Streams {
        /// Number of streams, and of the parts of the range.
        streams: u32,
    },
    /// Consecutive blocks. Before each block, jumps to a random one with probability `share`.
    Jumps {
        /// Probability of a jump before each block.
        share: Percent,
    },
    /// Several parts of the range, each with a fixed share of the operations.
    HotSpots {
        /// Parts of the range, in ascending order from its start.
        spots: Vec<Spot>,
        /// Whether a bijection scatters the blocks of each part over the whole range.
        scatter: bool,
    },
    /// A random one of the addresses that this worker read recently.
    RecentlyRead {
        /// Number of recently read addresses from which to choose.
        window: u32,
    },
    /// A random one of the addresses that this worker wrote recently.
    RecentlyWritten {
        /// Number of recently written addresses from which to choose.
        window: u32,
    },
    /// Addresses at a fixed distance from one another. After the end of the range, continues at its start.
    Strided {
        /// Distance between the starts of successive operations, bytes.
        stride_bytes: u64,
        /// Offset of the first address from the start of the active range, bytes. If `backward`, from the last
        /// address.
        start_bytes: u64,
        /// Whether addresses descend from the end of the range to its start.
        backward: bool,
    },
}

/// An address pattern, and the share of operations that use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// How the addresses of these operations are chosen.
    pub pattern: Pattern,
    /// Weight of this pattern, relative to the other patterns in the same table of the workload file, such as `[read]`.
    pub share: f64,
}
