//! Runs the cells of a round in parallel, in virtual time. The cells are independent, because each preconditions its
//! device to the steady state of its own writes.
//!
//! While this thread runs the current cell, other threads run the next cells of the round. The results of a cell are
//! kept until all earlier cells are stored. The notebook thus stores whole cells in order, and all results equal those
//! of sequential execution. A run that is killed loses its unfinished cells.

use crate::cell_plan::{cell_plan, targets_of};
use crate::emulated::volumes;
use crate::open_targets::OpenTarget;
use crate::outcome::RunError;
use crate::persist::CellWriter;
use crate::refuse;
use crate::resolved_run::ResolvedRun;
use crate::schedule::{Schedule, Task};
use iodyno_drive::parallel::{at_once, processors};
use iodyno_drive::{CellPlan, Unobserved, drive_cell};
use iodyno_measure::Cell;

/// A cell to run in parallel with another one, and its plan.
pub(crate) type Beside = (Task, CellPlan);

/// Returns the cells that may run in parallel with `task`. Empty if `task` itself already ran in parallel, or
/// if cells depend on the device state that earlier cells leave.
pub(crate) fn beside(
    run: &ResolvedRun,
    task: &Task,
    open_targets: &[OpenTarget],
    schedule: &mut Schedule<'_>,
) -> Result<Vec<Beside>, RunError> {
    if run.emulated.as_ref().is_none_or(|e| e.live) || schedule.has_ahead(task) {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    let ranks = &run.process.ranks;
    let most =
        if run.is_farmed() { ranks.threads_in_all() * CELLS_OF_THREAD } else { processors() };
    for next in schedule.following(task, most - 1) {
        let own = &open_targets[next.targets.clone()];
        if refuse::misfit(run, &next.cell.spec, next.engine, own).is_some() {
            continue;
        }
        let Some(system) = schedule.system(&next)? else { continue };
        let (targets, _) = targets_of(&next, own, volumes(&system, next.targets.clone()))?;
        let plan = cell_plan(run, &next, targets, None, None);
        all.push((next, plan));
    }
    Ok(all)
}

/// Returns the results of `task`. An earlier call may have computed them in parallel with another task; otherwise runs
/// the task's plan in parallel with the plans in `beside`, and keeps the other results for later calls.
pub(crate) fn drive(
    run: &ResolvedRun,
    task: &Task,
    plan: &CellPlan,
    beside: Vec<Beside>,
    schedule: &mut Schedule<'_>,
    writer: &mut CellWriter<'_>,
) -> Result<Vec<Cell>, RunError> {
    if let Some(cells) = schedule.take_ahead(task) {
        return Ok(cells);
    }
    if run.is_farmed() && !beside.is_empty() {
        return over_ranks(run, plan, beside, schedule, writer);
    }
    let other = |(_, plan): &Beside| drive_cell(plan, &run.process.stop, &mut Unobserved);
    let own = || drive_cell(plan, &run.process.stop, writer);
    let (mine, others) = at_once(beside.len(), &beside, other, own);
    // A failed cell runs again in its turn, and reports its error then.
    for ((task, _), cells) in beside.into_iter().zip(others) {
        if let Some(Ok(cells)) = cells {
            schedule.put_ahead(task, cells);
        }
    }
    Ok(mine?)
}

/// Mean number of cells per thread in a batch. Threads idle at the end of a batch, so larger batches waste less time.
const CELLS_OF_THREAD: usize = 16;

/// Runs this plan's cells and those in `beside`, distributed over all ranks. Rank 0 keeps the complete
/// results; other ranks keep only totals, which suffice to choose the next step.
fn over_ranks(
    run: &ResolvedRun,
    plan: &CellPlan,
    beside: Vec<Beside>,
    schedule: &mut Schedule<'_>,
    writer: &mut CellWriter<'_>,
) -> Result<Vec<Cell>, RunError> {
    let plans: Vec<&CellPlan> =
        core::iter::once(plan).chain(beside.iter().map(|(_, plan)| plan)).collect();
    let work = |plan: &&CellPlan| {
        drive_cell(plan, &run.process.stop, &mut Unobserved).map_err(|e| e.to_string())
    };
    let thin = |cells: &Vec<Cell>| {
        cells.iter().map(|cell| cell.coarser(cell.series.len().max(1))).collect()
    };
    let ranks = &run.process.ranks;
    let mut begun = |cells| writer.begun(cells);
    let done = ranks.share_out(ranks.threads_here(), &plans, work, thin, &mut begun)?;
    let mut done = done.into_iter();
    let own = done.next().flatten();
    for ((task, _), cells) in beside.into_iter().zip(done) {
        if let Some(Ok(cells)) = cells {
            schedule.put_ahead(task, cells);
        }
    }
    match own {
        Some(Ok(cells)) => Ok(cells),
        // Run it again here, to get its error with its type.
        _ => Ok(drive_cell(plan, &run.process.stop, &mut Unobserved)?),
    }
}
