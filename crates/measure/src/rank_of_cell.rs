//! Computes the figures of a rank (a process of a distributed run) from its cells.

use crate::cell::Cell;
use crate::ranks::RankFigures;
use crate::verdict::late_share;

impl RankFigures {
    /// Extracts the results of the rank that measured `cell`; None if no rank is recorded.
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

    /// Adds the results of a cell that this rank measured on another target.
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
        if let Some(lateness) = &cell.lateness {
            self.lateness.merge(lateness);
            self.late_share = Some(late_share(&self.lateness));
        }
        if let Some(found) = &cell.evidence.conditions {
            // The machine's count, hence the same for each of its targets.
            self.processor_throttles = self.processor_throttles.max(found.processor_throttles);
            let below = |now: Option<f64>, limit: Option<f64>| Some(limit? - now?);
            let is_nearer = match (
                below(found.temperature_c, found.temperature_warning_c),
                below(self.temperature_c, self.temperature_warning_c),
            ) {
                (Some(one), Some(other)) => one < other,
                (one, _) => one.is_some() || self.temperature_c.is_none(),
            };
            if is_nearer {
                self.temperature_c = found.temperature_c;
                self.temperature_warning_c = found.temperature_warning_c;
            }
        }
        self.start_late_ns = self.start_late_ns.max(cell.evidence.start_late_ns.unwrap_or(0));
        self.targets += 1;
    }
}
