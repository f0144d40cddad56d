//! Coordinates a run that several processes (ranks) execute. If any rank refuses the request, all do. The ranks start
//! each cell together. Rank 0 collects the cells of all ranks, merges them, and distributes the merged cells. With one
//! process these steps are no-ops.
//!
//! Every rank executes the same steps, because each next step follows from the merged cells, which are equal on all
//! ranks.

mod merge;
mod progress;
mod targets;

pub(crate) use merge::{merged, merged_here, record_of_all};
pub(crate) use progress::rates;
pub(crate) use targets::{Parts, open};

use crate::outcome::RunError;
use crate::resolved_run::ResolvedRun;
use iodyno_drive::{StartTogether, TargetPlan};
use iodyno_measure::{Cell, RankEvidence};
use iodyno_ranks::{CommonStart, Ranks};
use iodyno_targets::Inspection;
use iodyno_workload::{Content, TargetPart};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// Failure of one rank, in the form sent to the other ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RankFailure {
    rank: u32,
    exit_code: u8,
    why: String,
}

impl RankFailure {
    fn of(ranks: &Ranks, e: &RunError) -> Self {
        Self { rank: ranks.rank(), exit_code: e.exit_code(), why: e.to_string() }
    }

    fn error(&self, ranks: &Ranks) -> RunError {
        let host = ranks.hosts()[self.rank as usize].name.clone();
        let Self { rank, exit_code, why } = self.clone();
        RunError::OtherRank { rank, host, exit_code, why }
    }
}

/// Returns this rank's value if all ranks succeed. Otherwise, all ranks return the first failure.
pub(crate) fn vote<T>(run: &ResolvedRun, own: Result<T, RunError>) -> Result<T, RunError> {
    let ranks = &run.process.ranks;
    if ranks.is_alone() {
        return own;
    }
    let failure = own.as_ref().err().map(|e| RankFailure::of(ranks, e));
    let failures: Vec<Option<RankFailure>> = ranks.all(&failure)?;
    match failures.into_iter().flatten().next() {
        None => own,
        // The rank's own error may have more than the text, such as a position in a file.
        Some(first) if first.rank == ranks.rank() => own,
        Some(first) => Err(first.error(ranks)),
    }
}

/// Collects the values of all ranks at rank 0, applies `make` to them, and returns the result on all ranks.
/// If any rank fails, all ranks return the first failure.
pub(crate) fn through_first<T, U>(
    ranks: &Ranks,
    own: Result<T, RunError>,
    make: impl FnOnce(Vec<T>) -> U,
) -> Result<U, RunError>
where
    T: Serialize + DeserializeOwned,
    U: Serialize + DeserializeOwned,
{
    let (own, error) = match own {
        Ok(own) => (Ok(own), None),
        Err(e) => (Err(RankFailure::of(ranks, &e)), Some(e)),
    };
    let gathered = ranks.gather(&own)?;
    let made = gathered.map(|all| all.into_iter().collect::<Result<Vec<T>, _>>().map(make));
    let made: Result<U, RankFailure> = ranks.of_first(made.as_ref())?;
    made.map_err(|failure| match error {
        Some(e) if failure.rank == ranks.rank() => e,
        _ => failure.error(ranks),
    })
}

/// Whether any rank wants to stop. All ranks get the same result.
pub(crate) fn any_stops(run: &ResolvedRun, stops: bool) -> Result<bool, RunError> {
    let ranks = &run.process.ranks;
    if ranks.is_alone() {
        return Ok(stops);
    }
    Ok(ranks.all(&stops)?.contains(&true))
}

/// Refuses requests that require a single process, if there are several ranks.
pub(crate) fn impossible(run: &ResolvedRun) -> Result<(), RunError> {
    if run.process.ranks.is_alone() {
        return Ok(());
    }
    let refused = |why: &str| Err(RunError::Impossible(why.to_owned()));
    let request = &run.request;
    if run.emulated.as_ref().is_some_and(|emulated| !emulated.live) && run.method.is_none() {
        return refused(
            "in virtual time, ranks can share the cells of a method or of a sweep (`--vary`), but not those of a list: name a method or a sweep, or run without ranks",
        );
    }
    if request.record_trace.is_some() {
        return refused(
            "--record-trace writes the operations of one process: leave it out, or run without ranks",
        );
    }
    if run.method.as_ref().is_some_and(|of| of.reuse) {
        return refused(
            "--reuse does not work with ranks: leave it out, so that the method prepares its targets again",
        );
    }
    for cell in run.loads() {
        let name = &cell.name;
        let limits = cell.spec.limits();
        let why = if cell.spec.log().is_some() {
            "is a message log, whose writer is one process"
        } else if limits.steady.is_some() {
            "ends once its figures are steady, which each rank would find at a different time"
        } else if limits.ends_others {
            "ends other workloads, which also run on other hosts"
        } else if cell.spec.batches().flow.is_some() {
            "keeps its operations in proportion to those of other workloads, but ranks do not share the counters"
        } else {
            continue;
        };
        return Err(RunError::Impossible(format!("`{name}` {why}: run it without ranks")));
    }
    Ok(())
}

/// Refuses requests that are impossible if ranks share a target.
pub(crate) fn impossible_when_shared(run: &ResolvedRun, parts: Parts) -> Result<(), RunError> {
    if parts.of == 1 || parts.own_region {
        return Ok(());
    }
    for cell in run.loads() {
        let name = &cell.name;
        let why = if cell.spec.has_shared_cursor() && cell.fill_passes.is_none() {
            "uses one cursor for all workers, which several processes can't share"
        } else if cell.spec.content() == Content::Verifiable {
            "verifies content that other ranks overwrite"
        } else {
            continue;
        };
        return Err(RunError::Impossible(format!(
            "`{name}` {why}: leave --overlap out, so that each rank has a region of its own"
        )));
    }
    Ok(())
}

/// Synchronises the ranks for one cell. Each rank takes part in each exchange exactly once, even if its cell
/// fails.
#[derive(Debug)]
pub(crate) struct StartOverRanks {
    ranks: Arc<Ranks>,
    agreed: Mutex<Agreed>,
}

#[derive(Debug, Default)]
struct Agreed {
    was_asked: bool,
    start: Option<CommonStart>,
    gave_cells: bool,
}

/// Uses rank 0's choice of engine for targets that all ranks share, because the ranks' own probes might
/// choose differently.
pub(crate) fn agree_on_engines(
    run: &ResolvedRun,
    part: TargetPart,
    targets: &mut [TargetPlan],
    choices: &mut [String],
) -> Result<(), RunError> {
    let ranks = &run.process.ranks;
    let own: Vec<String> = targets.iter().map(|target| target.engine().name().to_owned()).collect();
    let first: Vec<String> = ranks.of_first(Some(&own))?;
    if part.of != ranks.size() {
        return Ok(());
    }
    for ((target, why), name) in targets.iter_mut().zip(choices).zip(&first) {
        if let Ok(engine) = name.parse()
            && engine != target.engine()
            && target.medium.set_engine(engine)
        {
            *why = format!(
                "the engine of rank 0, because the ranks share the target; this rank alone would choose another: {why}"
            );
        }
    }
    Ok(())
}

/// Data about a cell that a rank sends to others: kernel of its machine, inspected target, and the cell.
type Companion = (String, Inspection, Cell);

impl StartOverRanks {
    /// Prepares the synchronisation for a cell; None if the run has a single process.
    pub(crate) fn of(run: &ResolvedRun) -> Option<Arc<Self>> {
        let ranks = &run.process.ranks;
        let agreed = Mutex::default();
        (!ranks.is_alone()).then(|| Arc::new(Self { ranks: Arc::clone(ranks), agreed }))
    }

    fn take_part(&self, is_ready: bool) -> Option<CommonStart> {
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        if !agreed.was_asked {
            agreed.was_asked = true;
            // A lost rank is noticed by the next exchange.
            agreed.start = self.ranks.agree_on_start(is_ready).ok().flatten();
            self.ranks.measures(agreed.start.is_some());
        }
        agreed.start
    }

    /// Exchanges cells with the other ranks. Returns the cells that other ranks measured simultaneously on this
    /// machine, so that their I/O is not attributed to other programs. Each rank takes part exactly once.
    pub(crate) fn companions(
        &self,
        inspections: &[Inspection],
        cells: &[Cell],
    ) -> Result<Vec<(Inspection, Cell)>, RunError> {
        self.ranks.measures(false);
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner).gave_cells = true;
        let kernel = &self.ranks.hosts()[self.ranks.rank() as usize].kernel;
        let light = |cell: &Cell| cell.coarser(cell.series.len().max(1));
        let own = inspections.iter().zip(cells);
        let own: Vec<Companion> = own
            .map(|(inspection, cell)| (kernel.clone(), inspection.clone(), light(cell)))
            .collect();
        let of_ranks: Vec<Vec<Companion>> = self.ranks.all(&own)?;
        let others = of_ranks.into_iter().zip(0..).filter(|(_, rank)| *rank != self.ranks.rank());
        let here = others.flat_map(|(cells, _)| cells).filter(|(of, ..)| of == kernel);
        Ok(here.map(|(_, inspection, cell)| (inspection, cell)).collect())
    }

    /// Takes part in exchanges that this rank has missed because of a failure, and returns the rank's evidence.
    pub(crate) fn end(&self) -> RankEvidence {
        let start = self.take_part(false);
        if !self.agreed.lock().unwrap_or_else(PoisonError::into_inner).gave_cells {
            // A lost rank is noticed by the next exchange.
            let _ = self.companions(&[], &[]);
        }
        self.ranks.measures(false);
        RankEvidence {
            rank: self.ranks.rank(),
            host: self.ranks.hosts()[self.ranks.rank() as usize].name.clone(),
            clock_bound_ns: start.map_or(0, |start| start.clock.bound_ns),
        }
    }
}

impl StartTogether for StartOverRanks {
    fn agree(&self) -> Option<u64> {
        self.take_part(true).map(|start| start.monotonic_ns)
    }
}
