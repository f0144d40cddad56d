//! A simulated target under a closed loop, with known properties. The corpus of traps (`iodyno/tests/corpus`) uses it
//! too.

use iodyno_measure::{Cell, Interval};
use iodyno_units::{OpKind, rng};
use std::collections::BinaryHeap;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const INTERVAL_NS: u64 = 100 * MS;

/// Duration of an operation that starts at a given time, ns; the second argument draws random numbers.
pub(crate) type Service<'a> = &'a dyn Fn(u64, &mut dyn FnMut() -> f64) -> u64;

/// A simulated target and its load, with a given duration of each operation.
pub(crate) struct Simulated<'a> {
    /// Number of operations in flight at any time.
    pub(crate) depth: u32,
    pub(crate) window_ns: u64,
    /// Duration of each operation.
    pub(crate) service_ns: Service<'a>,
    /// Time between a completion and the next operation, ns.
    pub(crate) think_ns: u64,
}

impl Simulated<'_> {
    /// The cell of a closed loop on this target.
    pub(crate) fn cell(&self, seed: u64) -> Cell {
        let mut random = rng::stream(seed, "simulated target", 0);
        let mut draw = || rng::unit_open_closed(&mut random);
        let count = self.window_ns.div_ceil(INTERVAL_NS) as usize;
        let mut series = vec![Interval::default(); count];
        let mut cell =
            Cell { window_ns: self.window_ns, interval_ns: INTERVAL_NS, ..Cell::default() };
        let mut ends: BinaryHeap<std::cmp::Reverse<(u64, u64)>> = BinaryHeap::new();
        for _ in 0..self.depth {
            let start_ns = (draw() * MS as f64) as u64;
            let takes = (self.service_ns)(start_ns, &mut draw);
            ends.push(std::cmp::Reverse((start_ns + takes, start_ns)));
        }
        while let Some(std::cmp::Reverse((end_ns, start_ns))) = ends.pop() {
            let until_ns = end_ns.min(self.window_ns);
            cell.resources.outstanding_area_ns += u128::from(until_ns.saturating_sub(start_ns));
            if end_ns >= self.window_ns {
                let within = self.window_ns.saturating_sub(start_ns);
                cell.resources.carried_out_ns += i128::from(within);
                continue;
            }
            let class = series[(end_ns / INTERVAL_NS) as usize].class_mut(OpKind::Read);
            class.service.record(end_ns - start_ns);
            class.bytes += 4096;
            let next_ns = end_ns + self.think_ns;
            let takes = (self.service_ns)(next_ns, &mut draw);
            ends.push(std::cmp::Reverse((next_ns + takes, next_ns)));
        }
        cell.series = series;
        cell.key.depth = self.depth;
        cell
    }
}

/// Draws an exponentially distributed time with this mean, ns.
pub(crate) fn exponential(mean_ns: f64, draw: &mut dyn FnMut() -> f64) -> u64 {
    (-mean_ns * draw().ln()).max(1000.0) as u64
}

/// Duration of an operation that normally takes `takes_ns`, ns. An operation that overlaps the stall ends after the
/// stall.
pub(crate) fn stall(from_ns: u64, length_ns: u64, start_ns: u64, takes_ns: u64) -> u64 {
    let to_ns = from_ns + length_ns;
    if start_ns < to_ns && start_ns + takes_ns > from_ns {
        to_ns - start_ns + takes_ns
    } else {
        takes_ns
    }
}
