//! Describes how simultaneous workloads affect each other: compares the results of each workload with its results when
//! it ran alone.

use iodyno_measure::Cell;
use iodyno_measure::summary::{KindSummary, PERCENTILES, Summary};
use iodyno_notebook::Run;
use iodyno_units::human;

/// Index of p99 in the list of percentiles.
const P99: usize = 2;

/// Pairs each cell that ran simultaneously with others with the cell in which the same workload ran alone on the same
/// target. In each pair, the cell that ran alone comes first.
fn pairs(run: &Run) -> impl Iterator<Item = (&Cell, &Cell)> {
    let load = |cell: &Cell| {
        let key = &cell.key;
        (key.workload.clone(), key.target.clone(), key.threads, key.depth, key.blocks.clone())
    };
    let together = run.cells.iter().filter(|cell| !cell.evidence.beside.is_empty());
    together.filter_map(move |cell| {
        let mut alone = run.cells.iter().filter(|cell| cell.evidence.beside.is_empty());
        let own = load(cell);
        Some((alone.find(|alone| load(alone) == own && alone.key.repeat == cell.key.repeat)?, cell))
    })
}

/// Returns one sentence per cell that ran simultaneously with others, comparing it with the same workload
/// alone.
pub(crate) fn sentences(run: &Run) -> Vec<String> {
    let several = run.head.targets.len() > 1;
    let sentence = |(alone, together): (&Cell, &Cell)| {
        let (before, after) = (Summary::of(alone), Summary::of(together));
        let on = if several { format!(" on {}", together.key.target) } else { String::new() };
        let mut words = Vec::new();
        // An offered rate is the same in both cells; the completed rate differs only by chance.
        if together.key.offered_iops.is_none() {
            words.push(format!(
                "{} of its IOPS when alone ({} of {})",
                human::percent(after.iops / before.iops, 0),
                human::count(after.iops),
                human::count(before.iops)
            ));
        }
        for kind in &after.kinds {
            let was = before.kinds.iter().find(|was| was.kind == kind.kind);
            words.extend(was.and_then(|was| slower(was, kind)));
        }
        let others = together.evidence.beside.join(" and ");
        format!("{}{on} with {others}: {}", together.key.workload, words.join(", "))
    };
    pairs(run).filter(|(alone, _)| alone.total().ops() > 0).map(sentence).collect()
}

/// Change of the p99 latency: `read p99 from 4.21 ms to 9.60 ms`. Uses the mean if the samples are too few for p99;
/// None if nothing completed.
fn slower(was: &KindSummary, is: &KindSummary) -> Option<String> {
    let p99 = |of: &KindSummary| of.response_time.percentiles_ns[P99].map(|ns| ns as f64);
    let (name, before, after) = match (p99(was), p99(is)) {
        (Some(before), Some(after)) => (PERCENTILES[P99].label, before, after),
        _ => ("mean", was.response_time.mean_ns?, is.response_time.mean_ns?),
    };
    let kind = is.kind.name();
    Some(format!("{kind} {name} from {} to {}", human::time_ns(before), human::time_ns(after)))
}
