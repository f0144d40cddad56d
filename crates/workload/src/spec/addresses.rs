//! Choice of the addresses of operations.

use crate::range::Percent;

/// A part of the range under [`Pattern::HotSpots`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// Share of the operations, relative to the other spots; 0 leaves a gap.
    pub share: f64,
    /// Size, as a share of the active range; the spot starts where the previous one ends.
    pub range: Percent,
}

/// The order or distribution of the addresses of operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Any block with equal probability, independently; or, once per pass, each block of the range once in random
    /// order, and then again in another order.
    Uniform {
        /// Whether each block comes once before any is repeated.
        once_per_pass: bool,
    },
    /// Consecutive blocks; after the end, again from the start.
    Sequential {
        /// Whether all workers of the target share one cursor, rather than having one each.
        shared: bool,
        /// Number of blocks after which to jump to a random place; None: never.
        run: Option<u64>,
    },
    /// Zipf: rank k has a probability proportional to k^-theta; a bijection scatters ranks over blocks.
    Zipf {
        /// Exponent, in (0, 5].
        theta: f64,
    },
    /// fio's Pareto distribution: the share `u^(ln h / ln(1 - h))` of the range, `u` uniform, gives the rank; a bijection
    /// scatters ranks over blocks. `1 - h` of the draws are among the first `h` of the ranks.
    Pareto {
        /// Share of the hottest ranks, above 0 and below 1.
        h: f64,
    },
    /// fio's normal distribution: the mean of twelve uniform draws over the ranks, shifted by a uniform draw with the
    /// width `deviation` of the range; a bijection scatters ranks over blocks.
    Normal {
        /// Width of the shift, as a share of the range.
        deviation: Percent,
    },
    /// The next block of one of the open zones, chosen at random. A full zone is closed, and another one is opened at
    /// its start.
    Zones {
        /// Size of a zone, bytes.
        zone_bytes: u64,
        /// Number of open zones, over all workers; each worker has at least one, in zones of its own.
        open: u32,
    },
    /// Consecutive blocks to the end of the range, with a cursor per worker. With several sizes, a block that does
    /// not fit there is drawn again.
    ToEnd,
    /// Runs of consecutive blocks with gaps of `skip_bytes`; after the end, again from the start.
    Skips {
        /// Number of blocks in a run.
        run: u64,
        /// Distance from the end of a run to the start of the next, bytes.
        skip_bytes: u64,
    },
    /// Interleaved streams: equal parts of the range, each walked from its start, with one block of each in turn.
    Streams {
        /// Number of parts.
        streams: u32,
    },
    /// Consecutive blocks; before each, a jump to a random block with this probability.
    Jumps {
        /// Probability of a jump.
        share: Percent,
    },
    /// Parts of the range, each with its share of the operations.
    HotSpots {
        /// The parts, from the start of the range.
        spots: Vec<Spot>,
        /// Whether a bijection scatters the blocks of each part over the whole range.
        scatter: bool,
    },
    /// One of the addresses that this worker read recently.
    RecentlyRead {
        /// Number of addresses that are remembered.
        window: u32,
    },
    /// One of the addresses that this worker wrote recently.
    RecentlyWritten {
        /// Number of addresses that are remembered.
        window: u32,
    },
    /// A fixed distance from one operation to the next; after the end, on from the start.
    Strided {
        /// Distance between the starts of successive operations, bytes.
        stride_bytes: u64,
        /// Offset of the first address from the start of the active range, bytes; if backward, from its last address.
        start_bytes: u64,
        /// Whether to go from the end of the range to its start.
        backward: bool,
    },
}

/// One pattern and its share of a kind's operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// Pattern of the addresses.
    pub pattern: Pattern,
    /// Share of the operations, relative to the other patterns of the same table.
    pub share: f64,
}
