//! Choice of addresses, with one state machine per pattern. Addresses and lengths here are in units of the
//! alignment; addresses count from the start of the active range.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use iodyno_units::rng::{self, Generator, RngCore as _, below, splitmix64, unit_open_closed};

use super::permute::Permutation;
use super::ring::Ring;
use super::weighted::Weighted;
use super::zipf::Zipf;
use crate::worker_index::WorkerIndex;

/// Sequential cursor that all workers of a target share. It has cache lines of its own, because every worker
/// writes it at every operation.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Cursor(AtomicU64);

/// Size of the active range and of the largest block of one address table, in units of the workload's
/// alignment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Size of the whole active range, in units of the workload's alignment.
    pub(crate) units: u64,
    /// Size of the largest block, in units of the workload's alignment.
    pub(crate) block_units: u64,
}

impl Extent {
    /// Number of aligned start addresses at which even the largest block fits into the range.
    pub(crate) fn places(self) -> u64 {
        self.units - self.block_units + 1
    }

    /// Number of blocks of the largest size that fit into the range without overlap.
    pub(crate) fn blocks(self) -> u64 {
        self.units / self.block_units
    }
}

/// One worker's state of an address pattern.
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
        /// Whether a block that does not fit before the end of the range gets another random size.
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
        /// For each hot spot, its first start address and its number of start addresses, in units of the
        /// workload's alignment.
        spots: Box<[(u64, u64)]>,
        scatter: Option<Arc<Permutation>>,
    },
    Recent {
        rng: Generator,
        /// Which recent addresses to repeat: 0 for reads, 1 for writes.
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
        /// Next position of each stream within its part of the range.
        next: Box<[u64]>,
        turn: usize,
        part: u64,
    },
    Zones {
        rng: Generator,
        /// Number of zones that belong to this worker: the zones `first`, `first + apart` and so on.
        zones: u64,
        first: u64,
        apart: u64,
        zone_units: u64,
        /// Part of each zone that is written, in units of the workload's alignment.
        written_units: u64,
        /// Open zones: number of the zone, and next position within it in units of the workload's alignment.
        open: Box<[(u64, u64)]>,
        trims: bool,
        /// Whether one trim covers the zone, whatever its size.
        one_trim: bool,
        /// Start of the zone that must be trimmed before the write to the latest address, in units of the workload's
        /// alignment; `None` if no trim is needed.
        opened: Option<u64>,
    },
    Jumps {
        rng: Generator,
        next: u64,
        /// Threshold of the random number that decides on a jump: below it, the pattern jumps.
        below: u64,
        units: u64,
        block_units: u64,
    },
}

/// State of a pass, which visits each block of the range once, in random order. The workers divide a pass:
/// worker w of W visits the blocks w, w + W, w + 2 W, … of that order.
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

/// Address that a pattern has chosen for an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Start address, in units of the workload's alignment from the start of the active range.
    pub(crate) unit: u64,
    /// Whether the address is random because there was no recent address to repeat.
    pub(crate) missed: bool,
}

impl Pattern {
    /// Replaces a shared cursor by a private copy at the same position.
    pub(crate) fn own_cursor(&mut self) {
        if let Self::Shared { cursor, .. } = self {
            let at = cursor.0.load(Ordering::Relaxed);
            *cursor = Arc::new(Cursor(AtomicU64::new(at)));
        }
    }

    /// Returns the address of the next operation, which has a length of `len` units of the workload's alignment.
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
            Self::Zones {
                rng,
                zones,
                first,
                apart,
                zone_units,
                written_units,
                open,
                trims,
                opened,
                ..
            } => {
                let at = below(rng, open.len() as u64) as usize;
                if open[at].1 + len > *written_units {
                    open[at] = (another_zone(rng, *zones, open, at), 0);
                }
                let (zone, next) = &mut open[at];
                let start = (*first + *zone * *apart) * *zone_units;
                *opened = (*trims && *next == 0).then_some(start);
                start + step(next, len)
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

    /// Distance from the next address to the end of the range, in units of the workload's alignment; None unless
    /// a sequential pattern stops at the end (`to_end`).
    pub(crate) fn left(&self) -> Option<u64> {
        match self {
            Self::Sequential { next, units, to_end: true } => Some(units.saturating_sub(*next)),
            _ => None,
        }
    }

    /// Current position of a sequential or strided pattern; None for patterns with random addresses.
    pub(crate) fn walked(&self) -> Option<u64> {
        match self {
            Self::Shared { cursor, .. } => Some(cursor.0.load(Ordering::Relaxed)),
            Self::Sequential { next, .. }
            | Self::Strided { next, .. }
            | Self::Skips { next, .. } => Some(*next),
            _ => None,
        }
    }

    /// Continues from a position that [`Self::walked`] returned earlier. A shared cursor never moves backwards.
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

    /// Takes the zone, in units of the workload's alignment, that must be trimmed before the write to the latest
    /// address, and whether one trim covers it.
    #[inline]
    pub(crate) fn take_opened(&mut self) -> Option<(Range<u64>, bool)> {
        let Self::Zones { zone_units, opened, one_trim, .. } = self else { return None };
        opened.take().map(|start| (start..start + *zone_units, *one_trim))
    }

    /// Whether addresses are drawn at random rather than sequential.
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

    /// Whether the pattern repeats addresses from this ring. Repeated addresses are not added to the ring again,
    /// because a few addresses would displace all others.
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

/// Draws one of the last `window` addresses of a ring, or, if the ring is empty, a uniform address from 0 to
/// `last`.
#[inline]
fn repeated(ring: Option<&Ring>, window: u32, last: u64, rng: &mut Generator) -> Place {
    match ring.and_then(|ring| ring.draw(window, rng)) {
        // A block that is longer than the repeated one may not fit before the end.
        Some(unit) => Place { unit: unit.min(last), missed: false },
        None => Place { unit: below(rng, last + 1), missed: true },
    }
}

/// Draws a rank from fio's Pareto distribution, with a rounding error of about 2⁻⁵³ of the range.
#[inline]
fn pareto_rank(rng: &mut Generator, places: u64, power: f64) -> u64 {
    ((places - 1) as f64 * libm::pow(unit_open_closed(rng), power)) as u64
}

/// Chooses a random zone to open after the open zone at index `at` is full. If all zones are open, the full
/// zone is opened again.
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

/// Draws a rank from fio's normal distribution: the mean of twelve draws, rounded up, plus a uniform shift
/// with the width `deviation` around 0. A shift beyond the ranks is halved until the sum is a valid rank.
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

/// Computes remainders by a fixed divisor without a division instruction (Barrett reduction).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: u64,
    /// Reciprocal of the divisor as a 64-bit fixed-point fraction: ⌊(2⁶⁴ - 1) / by⌋.
    reciprocal: u64,
}

impl Divisor {
    /// Creates a divisor; `by` must be at least 1.
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

/// Name of a pattern's random stream or key. It contains the table and the pattern's position within it, so
/// that a change of one pattern does not affect the random draws of other patterns.
pub(crate) fn stream_name(what: &str, table: &str, position: usize) -> String {
    format!("{what}.{table}.{position}")
}

/// The bijection that scatters ranks over `places` addresses. All patterns and workers of a run with the same
/// number of addresses use the same bijection, and so have the same hot blocks.
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
