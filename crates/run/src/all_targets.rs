//! Merges the cells (measurements) of several targets into one cell with the sum of their operations.

use iodyno_measure::{Cell, Ended, Storage};

/// Prefix of the target name in cells merged over all targets.
pub(crate) const ALL_TARGETS: &str = "all";

/// Merges the cells of several targets into one cell.
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
        sum.passthrough |= one.passthrough;
        sum.emulated_live |= one.emulated_live;
        // The maximum.
        if one.late_share > sum.late_share {
            (sum.late_share, sum.late_away_share) = (one.late_share, one.late_away_share);
        }
        sum.direct = sum.direct.into_iter().chain(one.direct).min();
        sum.why_not_direct = sum.why_not_direct.take().or_else(|| one.why_not_direct.clone());
        sum.active_bytes += one.active_bytes;
        if sum.active_start_bytes != one.active_start_bytes {
            sum.active_start_bytes = None;
        }
        match (&mut sum.storage, &one.storage) {
            (Some(sum), Some(one)) => sum.add(one),
            (None, Some(one)) => sum.storage = Some(Storage { reached: None, ..one.clone() }),
            // The other target is memory of this process, whose I/O no disk's counters show.
            (Some(sum), None) => sum.reached = None,
            (None, None) => {}
        }
        // Conditions are per device: each target's cell has its own.
        sum.conditions = None;
        sum.forced_share = sum.forced_share.min(one.forced_share);
        sum.written_share = sum.written_share.into_iter().chain(one.written_share).reduce(f64::min);
        sum.fill = sum.fill.into_iter().chain(one.fill).reduce(|a, b| a.with(&b));
        sum.failure = sum.failure.take().or_else(|| one.failure.clone());
        sum.map_sync = sum.map_sync.filter(|sync| one.map_sync == Some(*sync));
        for (of_all, of_one) in
            [(&mut sum.device_state, &one.device_state), (&mut sum.settled, &one.settled)]
        {
            of_all.take_if(|words| of_one.as_ref() != Some(&*words));
        }
        sum.blocks_sampled += one.blocks_sampled;
        sum.blocks_zero += one.blocks_zero;
        sum.kernel_workers = sum.kernel_workers.max(one.kernel_workers);
        sum.kernel_workers_cpu_ns = sum.kernel_workers_cpu_ns.max(one.kernel_workers_cpu_ns);
        sum.foreign_share = sum.foreign_share.into_iter().chain(one.foreign_share).reduce(f64::max);
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
    }
    // Device counters are per target.
    all.evidence.disk_use = None;
    // Known only if it is known for every cell that used the page cache.
    let is_known = |c: &Cell| c.evidence.direct != Some(false) || c.evidence.uncached.is_some();
    let uncached = cells.iter().filter_map(|c| c.evidence.uncached).reduce(|a, b| a.with(&b));
    all.evidence.uncached = uncached.filter(|_| cells.iter().all(is_known));
    // Keep only the facts on which all targets agree.
    all.facts.retain(|key, value| cells.iter().all(|c| c.facts.get(key) == Some(value)));
    all.facts.extend(all.evidence.failure.clone().map(|why| ("failure".to_owned(), why)));
    all.key.target = format!("{ALL_TARGETS} ({} targets)", cells.len());
    all.key.offered_iops = all.key.offered_iops.map(|iops| iops * cells.len() as f64);
    all
}
