//! What a rank's cell adds to its figures.

use crate::cell::Cell;
use crate::ranks::RankFigures;

impl RankFigures {
    /// Of a rank's cell; None for one that no rank measured.
    pub fn of(cell: &Cell) -> Option<Self> {
        let of = cell.evidence.rank.as_ref()?;
        let mut figures = Self {
            rank: of.rank,
            host: of.host.clone(),
            clock_bound_ns: of.clock_bound_ns,
            ceiling_iops: cell.evidence.generator_ceiling_iops,
            ..Self::default()
        };
        figures.add(cell);
        Some(figures)
    }

    /// Adds the cell of another target of the same rank.
    pub fn add(&mut self, cell: &Cell) {
        let total = cell.total();
        self.ops += total.ops();
        self.bytes += total.bytes();
        self.window_ns = self.window_ns.max(cell.window_ns);
        for (_, stats) in total.iter() {
            self.service.merge(&stats.service);
        }
        self.p50_ns = self.service.supported_quantile_ns(0.5);
        self.p99_ns = self.service.supported_quantile_ns(0.99);
        self.cpu_seconds += cell.resources.cpu_seconds();
        self.workers += cell.key.threads;
        self.cpus = self.cpus.max(cell.evidence.cpus);
        let could_occupy = f64::from(self.workers.min(self.cpus.max(1)));
        let seconds = self.window_ns as f64 / 1e9 * could_occupy;
        self.cpu_share = if seconds > 0.0 { self.cpu_seconds / seconds } else { 0.0 };
        let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        self.foreign_share = larger(self.foreign_share, cell.evidence.foreign_share);
        self.steal_share = larger(self.steal_share, cell.evidence.steal_share);
        self.start_late_ns = self.start_late_ns.max(cell.evidence.start_late_ns.unwrap_or(0));
        self.targets += 1;
    }
}
