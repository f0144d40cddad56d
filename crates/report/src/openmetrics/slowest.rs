//! Exemplars of a cell's latency histograms. The slowest operation of each interval is a candidate. The exemplar of a
//! bucket is the slowest candidate in it.

use iodyno_measure::exposition::{Exemplars, labels};
use iodyno_measure::{Cell, Interval};
use iodyno_units::OpKind;

/// Exemplars of the latencies of a cell, indexed by [`OpKind::index`].
#[derive(Clone, Debug, Default)]
pub(super) struct Slowest {
    pub(super) latency: [Exemplars; OpKind::COUNT],
    /// Exemplars of the service time, in open loop only.
    pub(super) service: [Exemplars; OpKind::COUNT],
}

impl Slowest {
    /// Takes the exemplars from a finished cell. Their Unix times are unknown.
    pub(super) fn of(cell: &Cell) -> Self {
        let mut slowest = Self::default();
        for (index, interval) in (0..).zip(&cell.series) {
            slowest.add(index * cell.interval_ns, None, interval);
        }
        slowest
    }

    /// Adds an interval that starts `at_ns` after the start of the window. `unix_ns`: Unix time of the interval's end,
    /// if known.
    pub(super) fn add(&mut self, at_ns: u64, unix_ns: Option<u64>, interval: &Interval) {
        let labels = || labels(&[("interval_start_seconds", &(at_ns as f64 / 1e9).to_string())]);
        for (kind, stats) in interval.iter() {
            if let Some(max_ns) = stats.response_time().max_ns() {
                self.latency[kind.index()].offer(max_ns, unix_ns, labels);
            }
            if let (Some(_), Some(max_ns)) = (&stats.response, stats.service.max_ns()) {
                self.service[kind.index()].offer(max_ns, unix_ns, labels);
            }
        }
    }
}
