//! Computes the latency breakdown of a measured window (the time of one I/O by phase), from the counters of the emulated
//! machine's parts.

use iodyno_emulate::usage::{self, Of, Phase, VolumeUsage};
use iodyno_measure::{KindSummary, Quantity, Summary};
use iodyno_units::OpKind;
use serde_json::{Value, json};

/// Operations of one kind in the measured window, with their mean time in each phase.
#[derive(Debug)]
pub struct KindAccount {
    /// Rate and latencies of the operations of this kind.
    pub summary: KindSummary,
    /// Mean time in each phase, in the order of the I/O path. Phases without time are left out.
    pub phases: Vec<PhaseAccount>,
    /// Mean number of flash pages per read, if reads fetch several pages in parallel. `phases` then describe a single
    /// page. None: `phases` describe whole operations.
    pub pages: Option<f64>,
    /// Mean service time that belongs to no phase, ns; 0 if the phases describe single pages.
    pub beyond_ns: f64,
}

/// Mean time that operations of one kind spend in one phase.
#[derive(Debug)]
pub struct PhaseAccount {
    /// Name of the phase, as a noun for a table.
    pub name: &'static str,
    /// Mean time per I/O or per flash page (see `of_page`), ns.
    pub mean_ns: f64,
    /// Whether the time is per flash page rather than per I/O.
    pub of_page: bool,
}

impl PhaseAccount {
    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "mean_ns": self.mean_ns,
            "of": if self.of_page { "page" } else { "operation" },
        })
    }
}

impl KindAccount {
    /// Mean service time of the operations of this kind in the window, ns.
    pub fn mean_ns(&self) -> Option<f64> {
        self.summary.service_time().mean_ns
    }

    /// 99th percentile of the service time in the window, ns; None if there are too few samples.
    pub fn p99_ns(&self) -> Option<f64> {
        self.summary.service_time().get(Quantity::Quantile(0.99))
    }

    /// Sum of the mean times of all phases, per I/O or per flash page, ns.
    pub fn phases_ns(&self) -> f64 {
        self.phases.iter().map(|p| p.mean_ns).sum()
    }

    /// Returns the rates, latencies and phases as JSON.
    pub fn json(&self) -> Value {
        json!({
            "kind": self.summary.kind.name(),
            "iops": self.summary.iops,
            "bytes_per_s": self.summary.bytes_per_s,
            "mean_ns": self.mean_ns(),
            "p99_ns": self.p99_ns().map(|ns| ns as u64),
            "pages": self.pages,
            "phases": self.phases.iter().map(PhaseAccount::json).collect::<Vec<_>>(),
        })
    }
}

/// Operations of one kind on components below the volumes: arrays behind adapters, or the devices of arrays.
#[derive(Debug)]
pub struct LevelAccount {
    /// Kind of component: `array`, `flash device` or `disk`.
    pub level: &'static str,
    /// Reads or writes. Operations of an array are counted per stripe, and include operations by caches and rebuilds.
    pub kind: OpKind,
    /// Operations of this kind per second, summed over all components of the level.
    pub rate_iops: f64,
    /// Mean number of flash pages per read, if reads fetch several pages in parallel. `phases` then describe a single
    /// page. None: `phases` describe whole operations.
    pub pages: Option<f64>,
    /// Mean time of an operation in each phase. Phases without time are left out.
    pub phases: Vec<PhaseAccount>,
}

impl LevelAccount {
    /// Sum of the mean times of all phases, per operation or per flash page, ns.
    pub fn phases_ns(&self) -> f64 {
        self.phases.iter().map(|p| p.mean_ns).sum()
    }

    /// Returns the rate and phases as JSON.
    pub fn json(&self) -> Value {
        json!({
            "level": self.level,
            "kind": self.kind.name(),
            "iops": self.rate_iops,
            "pages": self.pages,
            "phases": self.phases.iter().map(PhaseAccount::json).collect::<Vec<_>>(),
        })
    }
}

/// Accounts for operations on components below the given volumes, from the top level down. `window_ns` is the length of
/// the window.
pub(super) fn levels(volumes: &[&VolumeUsage], window_ns: u64) -> Vec<LevelAccount> {
    let mut all: Vec<(&'static str, Vec<Phase>)> = Vec::new();
    for (level, phases) in volumes.iter().flat_map(|volume| &volume.below) {
        let at = all.iter().position(|known| known.0 == *level).unwrap_or_else(|| {
            all.push((level, Vec::new()));
            all.len() - 1
        });
        usage::sum(&mut all[at].1, phases);
    }
    let of_level = |(level, phases): (&'static str, Vec<Phase>)| {
        let of_kind = move |kind| {
            let (pages, phases_of_kind) = by_phase(&phases, kind);
            let unit = if kind == OpKind::Read { Of::Read } else { Of::Write };
            let count = phases.iter().find(|p| p.of == unit).map_or(0, |p| p.count);
            let rate_iops = count as f64 * 1e9 / window_ns.max(1) as f64;
            LevelAccount { level, kind, rate_iops, pages, phases: phases_of_kind }
        };
        [OpKind::Read, OpKind::Write].map(of_kind)
    };
    let all = all.into_iter().flat_map(of_level);
    all.filter(|of| of.rate_iops > 0.0 && !of.phases.is_empty()).collect()
}

/// Mean time in each phase for one kind of operation, and the number of pages per read if reads fetch several
/// pages in parallel.
fn by_phase(phases: &[Phase], kind: OpKind) -> (Option<f64>, Vec<PhaseAccount>) {
    let is_of = |of| match kind {
        OpKind::Read => matches!(of, Of::Read | Of::PageRead),
        OpKind::Write => of == Of::Write,
        _ => false,
    };
    let count = |of| phases.iter().find(|p| p.of == of).map_or(0, |p| p.count);
    let (reads, pages) = (count(Of::Read), count(Of::PageRead));
    // Operations that cross the edges of the window are counted on one side only.
    let side_by_side = kind == OpKind::Read && pages as f64 > 1.05 * reads as f64;
    let pages = (side_by_side && reads > 0).then(|| pages as f64 / reads as f64);
    let of_kind = phases.iter().filter(|p| is_of(p.of) && p.count > 0 && p.total_ns > 0);
    let of_one = |p: &Phase| PhaseAccount {
        name: p.name,
        mean_ns: p.total_ns as f64 / p.count as f64,
        of_page: p.of == Of::PageRead,
    };
    (pages, of_kind.map(of_one).collect())
}

/// Accounts for each kind of operation in a cell on the given volumes, whose parts have the same phases. Only reads and
/// writes have phases.
pub(super) fn kinds(cell: Summary, volumes: &[&VolumeUsage]) -> Vec<KindAccount> {
    let mut phases = Vec::new();
    for volume in volumes {
        usage::sum(&mut phases, &volume.phases);
    }
    let account = |summary: KindSummary| {
        let (pages, phases) = by_phase(&phases, summary.kind);
        let mean_ns = summary.service_time().mean_ns;
        let phases_ns: f64 = phases.iter().map(|p| p.mean_ns).sum();
        let beyond_ns = match mean_ns {
            Some(mean_ns) if pages.is_none() && phases_ns > 0.0 => mean_ns - phases_ns,
            _ => 0.0,
        };
        KindAccount { summary, phases, pages, beyond_ns }
    };
    cell.kinds.into_iter().map(account).collect()
}
