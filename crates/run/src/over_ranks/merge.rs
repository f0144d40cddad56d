//! Merges the cells of all ranks: rank 0 collects them, and distributes the merged ones.

use super::through_first;
use crate::all_targets::all_targets;
use crate::outcome::RunError;
use crate::resolved_run::ResolvedRun;
use iodyno_measure::verdict::judge;
use iodyno_measure::{Cell, Level, RankFigures};
use iodyno_workload::CellSpec;

/// Returns this process's cells, in the order of targets and then of workloads, followed by the merged cell
/// of each workload if there are several targets.
pub(crate) fn merged_here(mut cells: Vec<Cell>, of: &CellSpec) -> Vec<Cell> {
    let loads = of.beside.len() + 1;
    if core::iter::once(of).chain(&of.beside).any(|load| load.only_on.is_some()) {
        return cells;
    }
    if cells.len() > loads {
        cells.extend(of_all_targets(&cells, loads));
    }
    cells
}

/// Merges the cells of all ranks. Returns the cells of all ranks (on rank 0) or of this rank (on others),
/// followed by the merged cells.
pub(crate) fn merged(
    run: &ResolvedRun,
    own: Result<Vec<Cell>, RunError>,
    loads: usize,
) -> Result<Vec<Cell>, RunError> {
    let ranks = &run.process.ranks;
    let kept = own.as_ref().ok().filter(|_| !ranks.is_first()).cloned();
    let mut of_all_ranks = None;
    let merged = through_first(ranks, own, |of_ranks: Vec<Vec<Cell>>| {
        let all: Vec<Cell> = of_ranks.into_iter().flatten().collect();
        let merged = of_all_targets(&all, loads);
        of_all_ranks = Some(all);
        merged
    })?;
    let mut cells = of_all_ranks.or(kept).unwrap_or_default();
    cells.extend(merged);
    Ok(cells)
}

fn of_all_targets(cells: &[Cell], loads: usize) -> Vec<Cell> {
    let of = |load| cells.iter().skip(load).step_by(loads).cloned().collect::<Vec<_>>();
    (0..loads).map(|load| of_one_workload(&of(load))).collect()
}

fn of_one_workload(cells: &[Cell]) -> Cell {
    let mut all = all_targets(cells);
    // The generator's ceiling is known once per rank, whatever the number of its targets.
    let mut ranks: Vec<RankFigures> = Vec::new();
    for cell in cells {
        match ranks.iter_mut().find(|r| Some(r.rank) == rank_of(cell)) {
            Some(of) => of.add(cell),
            None => ranks.extend(RankFigures::of(cell)),
        }
    }
    if ranks.len() > 1 {
        let ceilings = ranks.iter().map(|rank| rank.ceiling_iops);
        all.evidence.generator_ceiling_iops = ceilings.sum();
        all.evidence.rank = None;
        all.evidence.start_late_ns = cells.iter().filter_map(|c| c.evidence.start_late_ns).max();
        all.evidence.ranks = ranks;
    }
    if all.evidence.generator_ceiling_iops.is_none() && all.total().ops() > 0 {
        // The null engine measures the generator itself.
        let ns = all.resources.cpu_seconds() * 1e9 / all.total().ops() as f64;
        all.evidence.generator_ns_per_io = all.evidence.generator_ns_per_io.map(|_| ns);
    }
    all.verdicts = judge(&all);
    // Verdicts on one target stay in that target's cell.
    let kept = ["RATE_MET", "EMULATED"];
    all.verdicts.retain(|v| v.level != Level::Note || kept.contains(&v.code.as_str()));
    all
}

fn rank_of(cell: &Cell) -> Option<u32> {
    cell.evidence.rank.as_ref().map(|of| of.rank)
}

/// Combines the records of a preparation without I/O: returns rank 0's cell, with the deviations of other
/// ranks added.
pub(crate) fn record_of_all(
    run: &ResolvedRun,
    own: Result<Vec<Cell>, RunError>,
) -> Result<Vec<Cell>, RunError> {
    let ranks = &run.process.ranks;
    if ranks.is_alone() {
        return own;
    }
    through_first(ranks, own, |of_ranks: Vec<Vec<Cell>>| {
        let others: Vec<String> = of_ranks
            .iter()
            .zip(ranks.hosts())
            .zip(0..)
            .skip(1)
            .filter_map(|((cells, host), rank)| {
                let deviation = cells.first()?.evidence.deviation.as_ref()?;
                Some(format!("rank {rank} on {}: {deviation}", host.name))
            })
            .collect();
        let mut first = of_ranks.into_iter().next().unwrap_or_default();
        for cell in first.iter_mut().filter(|_| !others.is_empty()) {
            let own = cell.evidence.deviation.take();
            let words: Vec<String> = own.into_iter().chain(others.iter().cloned()).collect();
            cell.facts.insert("deviation".to_owned(), words.join("; "));
            cell.evidence.deviation = Some(words.join("; "));
            cell.verdicts = judge(cell);
        }
        first
    })
}
