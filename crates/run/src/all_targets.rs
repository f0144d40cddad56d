//! The merged cell of several targets: what the cells of all of them are together.

use iodyno_measure::{Cell, Ended, FAILURE_FACT, Storage};

/// How the name of the merged cell's target begins.
pub(crate) const ALL_TARGETS: &str = "all";

/// The cells of all targets as one.
pub(crate) fn all_targets(cells: &[Cell]) -> Cell {
    let mut all = cells[0].clone();
    for cell in &cells[1..] {
        all.merge(cell);
        if cell.key.engine != all.key.engine {
            "several".clone_into(&mut all.key.engine);
        }
        let (sum, one) = (&mut all.evidence, &cell.evidence);
        sum.in_process &= one.in_process;
        sum.virtual_time |= one.virtual_time;
        sum.emulated_live |= one.emulated_live;
        // The worst of them.
        if one.late_share > sum.late_share {
            (sum.late_share, sum.late_away_share) = (one.late_share, one.late_away_share);
        }
        sum.direct = match (sum.direct, one.direct) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (a, b) => a.or(b),
        };
        sum.why_not_direct = sum.why_not_direct.take().or_else(|| one.why_not_direct.clone());
        sum.active_bytes += one.active_bytes;
        if sum.active_start_bytes != one.active_start_bytes {
            sum.active_start_bytes = None;
        }
        match (&mut sum.storage, &one.storage) {
            (Some(sum), Some(one)) => sum.add(one),
            (None, Some(one)) => sum.storage = Some(Storage { reached: None, ..one.clone() }),
            // Memory of this process beside it: what is counted is not all of it.
            (Some(sum), None) => sum.reached = None,
            (None, None) => {}
        }
        // Those of one device are not those of another: each target's cell has its own.
        sum.conditions = None;
        sum.written_share = match (sum.written_share, one.written_share) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        sum.fill = match (sum.fill, one.fill) {
            (Some(a), Some(b)) => Some(a.with(&b)),
            (a, b) => a.or(b),
        };
        sum.blocks_sampled += one.blocks_sampled;
        sum.blocks_zero += one.blocks_zero;
        sum.kernel_workers = sum.kernel_workers.max(one.kernel_workers);
        sum.kernel_workers_cpu_ns = sum.kernel_workers_cpu_ns.max(one.kernel_workers_cpu_ns);
        sum.foreign_share = match (sum.foreign_share, one.foreign_share) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        if let Some(hung) = &one.hung {
            sum.hung.get_or_insert_default().add(hung);
        }
        sum.recent_misses += one.recent_misses;
        sum.overlaps_skipped += one.overlaps_skipped;
        sum.first_corruption = sum.first_corruption.take().or_else(|| one.first_corruption.clone());
        if let Some(theirs) = &one.verification {
            sum.verification.get_or_insert_default().merge(theirs);
        }
        sum.add_usage(one);
        if !matches!(cell.ended, Ended::Time | Ended::Settled) && all.ended != Ended::Hung {
            all.ended = cell.ended;
        }
        if let Some(why) = cell.facts.get(FAILURE_FACT) {
            all.facts.entry(FAILURE_FACT.to_owned()).or_insert_with(|| why.clone());
        }
    }
    // What is so on one target alone is said in its own cell.
    all.facts.retain(|key, value| {
        key == FAILURE_FACT || cells.iter().all(|c| c.facts.get(key) == Some(value))
    });
    all.key.target = format!("{ALL_TARGETS} ({} targets)", cells.len());
    all.key.offered_iops = all.key.offered_iops.map(|iops| iops * cells.len() as f64);
    all
}
