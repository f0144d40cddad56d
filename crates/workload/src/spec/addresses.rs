//! How the addresses of operations are chosen.

use crate::range::Percent;

/// One part of the range under [`Pattern::HotSpots`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// Its share of the operations, relative to the other spots; 0 leaves a gap.
    pub share: f64,
    /// How much of the active range it takes; it starts where the spot before it ends.
    pub range: Percent,
}

/// How an address is chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Any block with equal probability, each draw independent; or, once per pass, each block of
    /// the range once in a random order, and then again in another.
    Uniform {
        /// Each block once before any comes again.
        once_per_pass: bool,
    },
    /// One block after the other; at the end, again from the start.
    Sequential {
        /// One cursor for all workers of the target, rather than one for each.
        shared: bool,
        /// After that many blocks, jump to a random place.
        run: Option<u64>,
    },
    /// Rank k has probability proportional to k^-theta; a bijection scatters ranks over blocks.
    Zipf {
        /// The exponent, in (0, 5].
        theta: f64,
    },
    /// fio's Pareto distribution: the share `u^(ln h / ln(1 - h))` of the range, `u` uniform, gives the rank; a bijection
    /// scatters ranks over blocks. `1 - h` of the draws are among the first `h` of the ranks.
    Pareto {
        /// Above 0 and below 1.
        h: f64,
    },
    /// fio's normal distribution: the mean of twelve uniform draws over the ranks, moved by a uniform draw as wide as
    /// `deviation` of the range; a bijection scatters ranks over blocks.
    Normal {
        /// The width of the move.
        deviation: Percent,
    },
    /// The next block of one of the open zones, drawn; a zone that is full is closed, and another one opened at its start.
    Zones {
        /// The length of a zone.
        zone_bytes: u64,
        /// Open zones, over all workers; each worker has at least one, of zones of its own.
        open: u32,
    },
    /// One block after the other, each worker by its own cursor, to the end of the range: of several sizes a block that does
    /// not fit there is drawn again.
    ToEnd,
    /// So many blocks in sequence, then on by `skip_bytes`; past the end, from the start.
    Skips {
        /// Blocks in sequence.
        run: u64,
        /// From the end of a run to the start of the next.
        skip_bytes: u64,
    },
    /// The range in equal parts, each walked from its start; a block of each in turn.
    Streams {
        /// How many parts.
        streams: u32,
    },
    /// One block after the other; before each, with this probability, a jump to a random block.
    Jumps {
        /// The probability.
        share: Percent,
    },
    /// Parts of the range, each with its share of the operations.
    HotSpots {
        /// The parts, from the start of the range.
        spots: Vec<Spot>,
        /// Scatter the blocks of each part over the whole range, by a bijection.
        scatter: bool,
    },
    /// One of the addresses that this worker read last.
    RecentlyRead {
        /// How many of them are remembered.
        window: u32,
    },
    /// One of the addresses that this worker wrote last.
    RecentlyWritten {
        /// How many of them are remembered.
        window: u32,
    },
    /// A fixed distance from one operation to the next; past the end, on from the start.
    Strided {
        /// From the start of one operation to the start of the next.
        stride_bytes: u64,
        /// The first address, from the start of the active range; backward, from its last one.
        start_bytes: u64,
        /// From the end of the range to its start.
        backward: bool,
    },
}

/// One pattern and its share of a kind's operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// How the address is chosen.
    pub pattern: Pattern,
    /// How often, relative to the other patterns of the same table.
    pub share: f64,
}
