//! Live counts of a run in progress, summed from the intervals that its workers deliver.

use super::{CellCounts, RunLabels, exposition};
use iodyno_measure::exposition::TextFormat;
use iodyno_measure::{Cell, Interval};
use iodyno_units::OpKind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of finished cells whose counts are kept, in addition to the cells being measured.
const FINISHED_MAX: usize = 64;

/// Operation counts and latencies of a run's current cells and latest 64 finished cells. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SoFar {
    run: RunLabels,
    /// Counts of each cell, keyed by the index of the cell in the run.
    cells: BTreeMap<usize, Arc<Counting>>,
    /// Index in the run of the first cell that is being measured.
    first: usize,
}

/// Counts of a cell, and the interval that is still incomplete.
#[derive(Clone, Debug, Default)]
struct Counting {
    counts: CellCounts,
    interval_ns: u64,
    /// Index of the interval for which workers currently deliver counts.
    index: usize,
    growing: Interval,
}

impl SoFar {
    /// Creates empty counts for a new run. `id` is empty if the run is not stored in a notebook.
    pub fn new(id: &str, name: &str, version: &str) -> Self {
        let [id, name, version] = [id, name, version].map(str::to_owned);
        Self { run: RunLabels { id, name, version }, ..Self::default() }
    }

    /// Adds empty counts for cells whose measurement begins. `cells` contains one cell per target. `first` is the index
    /// of `cells[0]` among the cells of the run.
    pub fn begin(&mut self, first: usize, cells: &[Cell]) {
        self.first = first;
        for (at, cell) in cells.iter().enumerate() {
            let counts = CellCounts::empty(cell);
            let counting =
                Counting { counts, interval_ns: cell.interval_ns, ..Counting::default() };
            self.cells.insert(first + at, Arc::new(counting));
        }
    }

    /// Adds the counts that a worker of target `target` delivers for interval `index`. `unix_ns`: Unix time of the
    /// delivery.
    pub fn add(&mut self, target: usize, index: usize, interval: &Interval, unix_ns: u64) {
        if let Some(cell) = self.cells.get_mut(&(self.first + target)) {
            Arc::make_mut(cell).add(index, interval, unix_ns);
        }
    }

    /// Replaces the running counts with the counts of the finished `cells`. `first` is the index of
    /// `cells[0]` among the cells of the run.
    pub fn finish(&mut self, first: usize, cells: &[Cell]) {
        for (at, cell) in cells.iter().enumerate() {
            let mut counts = CellCounts::of(cell);
            if let Some(running) = self.cells.get(&(first + at)) {
                // These have Unix times.
                counts.slowest = running.counts.slowest.clone();
            }
            self.cells.insert(first + at, Arc::new(Counting { counts, ..Counting::default() }));
        }
        // The next cells come after these.
        self.first = first + cells.len();
        while self.cells.len() > FINISHED_MAX.max(cells.len()) {
            self.cells.pop_first();
        }
    }

    /// Returns the current counts as text for Prometheus.
    pub fn text(&self, format: TextFormat) -> String {
        exposition(format, &self.run, self.cells.iter().map(|(index, cell)| (*index, &cell.counts)))
    }
}

impl Counting {
    fn add(&mut self, index: usize, interval: &Interval, unix_ns: u64) {
        let unix_ns = (!self.counts.is_virtual).then_some(unix_ns);
        self.counts.slowest.add(self.interval_ns * index as u64, unix_ns, interval);
        if index > self.index {
            // Nearly all workers have delivered the previous interval.
            self.counts.rates = rates(&self.growing, self.interval_ns);
            self.growing = Interval::default();
            self.index = index;
        }
        if index == self.index {
            self.growing.merge(interval);
            self.growing.trim();
        }
        self.counts.total.merge(interval);
        self.counts.total.trim();
        let measured_ns = self.interval_ns * (index as u64 + 1);
        self.counts.measured_ns = self.counts.measured_ns.max(measured_ns);
    }
}

fn rates(interval: &Interval, interval_ns: u64) -> [Option<(f64, f64)>; OpKind::COUNT] {
    let rate = |n: u64| n as f64 * 1e9 / interval_ns.max(1) as f64;
    OpKind::ALL.map(|kind| {
        let (ops, bytes) = interval.class(kind).map_or((0, 0), |stats| (stats.ops(), stats.bytes));
        Some((rate(ops), rate(bytes)))
    })
}
