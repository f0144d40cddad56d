//! Choice of addresses, with one state machine per pattern. Addresses and lengths here are in units of the
//! alignment; addresses count from the start of the active range.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use iodyno_units::rng::{self, Generator, RngCore as _, below, splitmix64, unit_open_closed};

use super::permute::Permutation;
use super::ring::Ring;
use super::weighted::Weighted;
use super::zipf::Zipf;
use crate::worker_index::WorkerIndex;

/// A cursor that all workers of a target advance. It has its own cache lines, because every worker writes it at
/// every operation.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Cursor(AtomicU64);

/// The range for one table of addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Size of the whole active range, units.
    pub(crate) units: u64,
    /// Size of the largest block that is placed in the range, units.
    pub(crate) block_units: u64,
}

impl Extent {
    /// Number of start addresses, in units, from which even the largest block fits into the range.
    pub(crate) fn places(self) -> u64 {
        self.units - self.block_units + 1
    }

    /// Number of blocks of the largest size that fit side by side.
    pub(crate) fn blocks(self) -> u64 {
        self.units / self.block_units
    }
}

/// The state of one pattern of one worker.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    Uniform {
        rng: Generator,
        units: u64,
    },
    OncePerPass(Pass),
    Shared {
        cursor: Arc<Cursor>,
        blocks: Divisor,
        block_units: u64,
    },
    Sequential {
        next: u64,
        units: u64,
        /// Whether a block that does not fit before the end is drawn again.
        to_end: bool,
    },
    Runs {
        rng: Generator,
        next: u64,
        left: u64,
        run: u64,
        starts: u64,
        block_units: u64,
    },
    Zipf {
        rng: Generator,
        zipf: Arc<Zipf>,
        scatter: Arc<Permutation>,
    },
    HotSpots {
        rng: Generator,
        choice: Weighted,
        /// First start address and number of start addresses of each spot, units.
        spots: Box<[(u64, u64)]>,
        scatter: Option<Arc<Permutation>>,
    },
    Recent {
        rng: Generator,
        /// Ring to repeat from: 0 for reads, 1 for writes.
        ring: usize,
        window: u32,
        units: u64,
    },
    Strided {
        next: u64,
        step: u64,
        places: u64,
    },
    Pareto {
        rng: Generator,
        places: u64,
        power: f64,
        scatter: Arc<Permutation>,
    },
    Normal {
        rng: Generator,
        places: u64,
        deviation: u64,
        scatter: Arc<Permutation>,
    },
    Skips {
        next: u64,
        left: u64,
        run: u64,
        skip: u64,
        units: u64,
    },
    Streams {
        /// Position of each stream in its part.
        next: Box<[u64]>,
        turn: usize,
        part: u64,
    },
    Zones {
        rng: Generator,
        /// Number of this worker's zones; then the first, and the distance between successive ones.
        zones: u64,
        first: u64,
        apart: u64,
        zone_units: u64,
        /// The open zones, each with the next unit in the zone to use.
        open: Box<[(u64, u64)]>,
    },
    Jumps {
        rng: Generator,
        next: u64,
        /// A draw below this jumps.
        below: u64,
        units: u64,
        block_units: u64,
    },
}

/// The state of a pass, which visits each block once. The workers share a pass: of the permuted blocks, worker w of
/// W takes the w-th, the (w + W)-th and so on.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    order: Permutation,
    first: u64,
    next: u64,
    step: u64,
    block_units: u64,
    key: u64,
    number: u64,
}

impl Pass {
    pub(crate) fn new(key: u64, extent: Extent, worker: WorkerIndex) -> Self {
        let first = u64::from(worker.index);
        Self {
            order: Permutation::new(extent.blocks(), pass_key(key, 0)),
            first,
            next: first,
            step: u64::from(worker.of),
            block_units: extent.block_units,
            key,
            number: 0,
        }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        if self.next >= self.order.count() {
            self.number += 1;
            self.order = Permutation::new(self.order.count(), pass_key(self.key, self.number));
            self.next = self.first;
        }
        let block = self.order.apply(self.next);
        self.next += self.step;
        block * self.block_units
    }
}

fn pass_key(key: u64, pass: u64) -> u64 {
    splitmix64(key.wrapping_add(pass))
}

/// The address that a pattern chose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The address, in units.
    pub(crate) unit: u64,
    /// Whether there was no address to repeat yet, so that a uniform draw was made instead.
    pub(crate) missed: bool,
}

impl Pattern {
    /// Replaces a shared cursor by a copy at its current position.
    pub(crate) fn own_cursor(&mut self) {
        if let Self::Shared { cursor, .. } = self {
            let at = cursor.0.load(Ordering::Relaxed);
            *cursor = Arc::new(Cursor(AtomicU64::new(at)));
        }
    }

    /// The address of the next operation, of `len` units.
    #[inline]
    pub(crate) fn next(&mut self, len: u64, rings: &[Option<Ring>; 2]) -> Place {
        let unit = match self {
            Self::Uniform { rng, units } => below(rng, *units - len + 1),
            Self::OncePerPass(pass) => pass.next(),
            Self::Shared { cursor, blocks, block_units } => {
                blocks.remainder(cursor.0.fetch_add(1, Ordering::Relaxed)) * *block_units
            }
            Self::Sequential { next, units, .. } => {
                if *next + len > *units {
                    *next = 0;
                }
                step(next, len)
            }
            Self::Runs { rng, next, left, run, starts, block_units } => {
                if *left == 0 {
                    *left = *run;
                    *next = below(rng, *starts) * *block_units;
                }
                *left -= 1;
                step(next, len)
            }
            Self::Zipf { rng, zipf, scatter } => scatter.apply(zipf.draw(rng)),
            Self::HotSpots { rng, choice, spots, scatter } => {
                let (first, places) = spots[choice.draw(rng)];
                let rank = first + below(rng, places);
                scatter.as_ref().map_or(rank, |scatter| scatter.apply(rank))
            }
            Self::Recent { rng, ring, window, units } => {
                return repeated(rings[*ring].as_ref(), *window, *units - len, rng);
            }
            Self::Strided { next, step, places } => {
                let unit = *next;
                *next += *step;
                if *next >= *places {
                    *next -= *places;
                }
                unit
            }
            Self::Pareto { rng, places, power, scatter } => {
                scatter.apply(pareto_rank(rng, *places, *power))
            }
            Self::Normal { rng, places, deviation, scatter } => {
                scatter.apply(normal_rank(rng, *places, *deviation))
            }
            Self::Skips { next, left, run, skip, units } => {
                if *left == 0 {
                    *left = *run;
                    *next = next.saturating_add(*skip);
                }
                if next.saturating_add(len) > *units {
                    (*next, *left) = (0, *run);
                }
                *left -= 1;
                step(next, len)
            }
            Self::Streams { next, turn, part } => {
                let at = *turn;
                *turn = (at + 1) % next.len();
                if next[at] + len > *part {
                    next[at] = 0;
                }
                at as u64 * *part + step(&mut next[at], len)
            }
            Self::Zones { rng, zones, first, apart, zone_units, open } => {
                let at = below(rng, open.len() as u64) as usize;
                if open[at].1 + len > *zone_units {
                    open[at] = (another_zone(rng, *zones, open, at), 0);
                }
                let (zone, next) = &mut open[at];
                (*first + *zone * *apart) * *zone_units + step(next, len)
            }
            Self::Jumps { rng, next, below: jumps_below, units, block_units } => {
                if rng.next_u64() < *jumps_below {
                    *next = below(rng, *units / *block_units) * *block_units;
                } else if *next + len > *units {
                    *next = 0;
                }
                step(next, len)
            }
        };
        Place { unit, missed: false }
    }

    /// Units from the next address to the end of the range; None unless the pattern runs to the end.
    pub(crate) fn left(&self) -> Option<u64> {
        match self {
            Self::Sequential { next, units, to_end: true } => Some(units.saturating_sub(*next)),
            _ => None,
        }
    }

    /// Position of a sequential or strided pattern; None for patterns that draw addresses.
    pub(crate) fn walked(&self) -> Option<u64> {
        match self {
            Self::Shared { cursor, .. } => Some(cursor.0.load(Ordering::Relaxed)),
            Self::Sequential { next, .. }
            | Self::Strided { next, .. }
            | Self::Skips { next, .. } => Some(*next),
            _ => None,
        }
    }

    /// Continues from the position of an earlier state of the same pattern. A shared cursor takes the furthest
    /// position.
    pub(crate) fn go_on(&mut self, from: u64) {
        match self {
            Self::Shared { cursor, .. } => {
                cursor.0.fetch_max(from, Ordering::Relaxed);
            }
            Self::Sequential { next, units, .. } | Self::Skips { next, units, .. }
                if from <= *units =>
            {
                *next = from;
            }
            Self::Strided { next, places, .. } if from < *places => *next = from,
            _ => {}
        }
    }

    /// Whether addresses are drawn rather than walked.
    pub(crate) fn draws(&self) -> bool {
        !matches!(
            self,
            Self::Shared { .. }
                | Self::Sequential { .. }
                | Self::Strided { .. }
                | Self::Skips { .. }
                | Self::Streams { .. }
                | Self::Zones { .. }
        )
    }

    /// Whether the pattern repeats addresses from this ring: its addresses are not added to the ring again, because
    /// a few would displace the others.
    pub(crate) fn repeats(&self, of_ring: usize) -> bool {
        matches!(self, Self::Recent { ring, .. } if *ring == of_ring)
    }
}

/// Returns the position of a cursor, and advances the cursor by `len`.
#[inline]
fn step(next: &mut u64, len: u64) -> u64 {
    let unit = *next;
    *next += len;
    unit
}

/// One of the last `window` addresses of a ring, or a uniform draw up to `last` if it has none.
#[inline]
fn repeated(ring: Option<&Ring>, window: u32, last: u64, rng: &mut Generator) -> Place {
    match ring.and_then(|ring| ring.draw(window, rng)) {
        // A block that is longer than the repeated one may not fit before the end.
        Some(unit) => Place { unit: unit.min(last), missed: false },
        None => Place { unit: below(rng, last + 1), missed: true },
    }
}

/// A rank of fio's Pareto distribution. Both factors are exact to 2⁻⁵³ of the range.
#[inline]
fn pareto_rank(rng: &mut Generator, places: u64, power: f64) -> u64 {
    ((places - 1) as f64 * libm::pow(unit_open_closed(rng), power)) as u64
}

/// The zone that is opened when the open zone `at` is full: one that is not open, or the same again if all are open.
fn another_zone(rng: &mut Generator, zones: u64, open: &[(u64, u64)], at: usize) -> u64 {
    if zones <= open.len() as u64 {
        return open[at].0;
    }
    loop {
        let zone = below(rng, zones);
        if open.iter().all(|(other, _)| *other != zone) {
            return zone;
        }
    }
}

/// A rank of fio's normal distribution: the mean of twelve draws, rounded up, plus a draw with the width
/// `deviation` around 0, which is halved until the sum is a rank.
fn normal_rank(rng: &mut Generator, places: u64, deviation: u64) -> u64 {
    const DRAWS: u64 = 12;
    let sum: u128 = (0..DRAWS).map(|_| u128::from(below(rng, places + 1))).sum();
    let mean = sum.div_ceil(DRAWS.into()) as i128;
    let mut moved =
        if deviation == 0 { 0 } else { below(rng, deviation) as i128 - i128::from(deviation / 2) };
    while moved != 0 && !(0..i128::from(places)).contains(&(mean + moved)) {
        moved /= 2;
    }
    (mean + moved).clamp(0, i128::from(places) - 1) as u64
}

/// Remainders of a constant divisor, without a division: Barrett reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: u64,
    /// ⌊(2⁶⁴ - 1) / by⌋.
    reciprocal: u64,
}

impl Divisor {
    /// Creates a divisor; `by` must be 1 or more.
    pub(crate) fn new(by: u64) -> Self {
        Self { by, reciprocal: u64::MAX / by }
    }

    /// `value` mod `by`. The estimated quotient is at most 2 too small.
    #[inline]
    pub(crate) fn remainder(self, value: u64) -> u64 {
        let quotient = (u128::from(value) * u128::from(self.reciprocal)) >> 64;
        let mut remainder = value - quotient as u64 * self.by;
        while remainder >= self.by {
            remainder -= self.by;
        }
        remainder
    }
}

/// Name of the random stream, or key, of one pattern, from its table and its position there, so that a change of
/// one pattern does not affect the draws of the others.
pub(crate) fn stream_name(what: &str, table: &str, position: usize) -> String {
    format!("{what}.{table}.{position}")
}

/// The bijection that scatters ranks. All patterns and workers of a run with the same number of places share it, so
/// that they have the same hot blocks.
pub(crate) fn scatter(seed: u64, places: u64) -> Arc<Permutation> {
    Arc::new(Permutation::new(places, rng::key(seed, "scatter", 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn remainders_without_division(value: u64, by in prop_oneof![1_u64..100, 1_u64..=u64::MAX]) {
            prop_assert_eq!(Divisor::new(by).remainder(value), value % by);
        }
    }
}
