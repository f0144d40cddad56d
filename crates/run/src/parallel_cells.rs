//! Several cells of a round at once, in virtual time: each of them makes its device in the steady state of its own
//! writes, so none needs to know what came of the one before.
//!
//! While a cell runs here, watched, the next ones of its round run beside it, one a processor, and wait until
//! it is their turn to be kept. So the notebook gets whole cells in their order, and all figures are those of one
//! cell after the other; a run that is killed loses the cells that were at work.

use crate::execute::{cell_plan, targets_of};
use crate::open_targets::OpenTarget;
use crate::refuse;
use crate::request::{Request, RunError};
use crate::schedule::{Schedule, Task};
use iodyno_drive::{CellPlan, Observer, TargetPlan, Unobserved, drive_cell};
use iodyno_measure::Cell;

/// A cell to run beside another.
pub(crate) struct Beside {
    task: Task,
    targets: Vec<TargetPlan>,
}

/// The cells that may run beside this one: none where it was already run beside another, or where cells hand
/// anything on.
pub(crate) fn beside(
    request: &Request,
    task: &Task,
    open_targets: &[OpenTarget],
    schedule: &mut Schedule<'_>,
) -> Result<Vec<Beside>, RunError> {
    let Some(emulated) = request.emulated.as_ref().filter(|e| !e.live) else {
        return Ok(Vec::new());
    };
    if schedule.has_ahead(task) {
        return Ok(Vec::new());
    }
    let more = std::thread::available_parallelism().map_or(0, |n| n.get() - 1);
    let mut all = Vec::new();
    for next in schedule.following(task, more) {
        let own = &open_targets[next.targets.clone()];
        if refuse::misfit(request, &next.spec, own).is_some() {
            continue;
        }
        let system = schedule.system(emulated, &next)?;
        let (targets, _) = targets_of(request, &next, own, Some(&system), None);
        all.push(Beside { task: next, targets });
    }
    Ok(all)
}

/// The cells of this plan: those that were made beside an earlier one, or made now, with others beside it.
pub(crate) fn drive(
    request: &Request,
    task: &Task,
    plan: &CellPlan<'_>,
    beside: Vec<Beside>,
    schedule: &mut Schedule<'_>,
    observer: &mut dyn Observer,
) -> Result<Vec<Cell>, RunError> {
    if let Some(cells) = schedule.take_ahead(task) {
        return Ok(cells);
    }
    let (mine, others) = std::thread::scope(|scope| {
        let threads: Vec<_> = beside
            .into_iter()
            .map(|other| {
                scope.spawn(move || {
                    let Beside { task, targets } = other;
                    let plan = cell_plan(request, &task, targets, None);
                    let cells = drive_cell(&plan, &request.stop, &mut Unobserved);
                    (task, cells)
                })
            })
            .collect();
        let mine = drive_cell(plan, &request.stop, observer);
        let others: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        (mine, others)
    });
    // One that failed is run once more when it is its turn, and fails there.
    for (task, cells) in others.into_iter().flatten() {
        if let Ok(cells) = cells {
            schedule.put_ahead(task, cells);
        }
    }
    Ok(mine?)
}
