//! Measures one cell of a run: prepares the targets, runs the workload, collects evidence, and issues verdicts.
//! `cell_plan` chooses targets and engines; `schedule` determines the order of cells.

mod emulated;
mod real;

use crate::cell_plan::{cell_plan, targets_of};
use crate::default_engine;
use crate::open_targets::{OpenTarget, target_name};
use crate::outcome::RunError;
use crate::over_ranks::{self, StartOverRanks};
use crate::parallel_cells;
use crate::refuse;
use crate::schedule::{Task, record};
use crate::step_context::StepContext;
use iodyno_drive::{CellPlan, Medium, StartTogether};
use iodyno_measure::verdict::judge;
use iodyno_measure::{Cell, Evidence, Place, Verification};
use iodyno_units::OpKind;
use iodyno_workload::{CellSpec, Content, Spec};
use std::sync::Arc;

/// Measures one cell. Returns the cell of each target, and the merged cell if there are several. If a target
/// can't run the workload, returns a cell that records the reason.
pub(crate) fn run_cell(on: StepContext<'_, '_>, task: &Task) -> Result<Vec<Cell>, RunError> {
    let run = on.run;
    let start = if run.is_farmed() { None } else { StartOverRanks::of(run) };
    let own = own_cells(on, task, start.as_ref());
    let loads = task.cell.beside.len() + 1;
    let Some(start) = start else { return Ok(over_ranks::merged_here(own?, &task.cell)) };
    let evidence = start.end();
    if own.as_ref().is_ok_and(|cells| cells.iter().any(|cell| cell.evidence.skipped.is_some())) {
        return over_ranks::record_of_all(run, own);
    }
    let own = own.map(|mut cells| {
        for cell in &mut cells {
            cell.evidence.rank = Some(evidence.clone());
        }
        cells
    });
    over_ranks::merged(run, own, loads)
}

/// Measures and judges the cells of this rank's targets, in their order.
fn own_cells(
    on: StepContext<'_, '_>,
    task: &Task,
    start: Option<&Arc<StartOverRanks>>,
) -> Result<Vec<Cell>, RunError> {
    let beside = parallel_cells::beside(on.run, task, on.open_targets, on.schedule)?;
    if let Some(place) = &task.place {
        let open_targets = &on.open_targets[task.targets.clone()];
        let own = refuse::misfit(on.run, &task.cell.spec, task.engine, open_targets);
        // If one rank can't issue it, no rank does.
        let of_all = if start.is_some() { on.run.process.ranks.all(&own)? } else { vec![own] };
        if let Some(why) = of_all.into_iter().flatten().next() {
            return Ok(vec![skipped(task, place, open_targets, why)]);
        }
    }
    let is_live = on.run.emulated.as_ref().is_some_and(|emulated| emulated.live);
    let mut cells = match on.schedule.system(task)? {
        None => real::measure(on, task, start),
        Some(system) if is_live => emulated::serve(on, task, start, &system),
        Some(system) => emulated::simulate(on, task, start, &system, beside),
    }?;
    for done in &mut cells {
        done.verdicts = judge(done);
    }
    Ok(cells)
}

/// Plans a task on the given media. Returns the plan, with one entry per target, and the reason for each
/// choice of engine.
fn planned(
    on: &mut StepContext<'_, '_>,
    task: &Task,
    start: Option<&Arc<StartOverRanks>>,
    media: Vec<Medium>,
) -> Result<(CellPlan, Vec<String>), RunError> {
    let open_targets = &mut on.open_targets[task.targets.clone()];
    if task.cell.fill_passes.is_none() {
        for (number, target) in task.targets.clone().zip(&mut *open_targets) {
            if target.default_engine.is_none() {
                target.default_engine = default_engine::of_run(on.run, number, target, &task.cell);
            }
        }
    }
    let (mut targets, mut choices) = targets_of(task, open_targets, media)?;
    if start.is_some() {
        over_ranks::agree_on_engines(on.run, task.cell.part, &mut targets, &mut choices)?;
    }
    let mut plan = cell_plan(on.run, task, targets, on.schedule.walks(task), on.events);
    plan.start = start.map(|start| Arc::clone(start) as Arc<dyn StartTogether>);
    Ok((plan, choices))
}

/// A workload on one target, whose results become one cell.
#[derive(Clone, Copy)]
struct Load<'a> {
    /// Index of the target among the task's targets.
    target: usize,
    cell: &'a CellSpec,
}

/// Lists the workload and target of each cell that a plan produces, in the order of the cells.
fn loads(plan: &CellPlan) -> Vec<Load<'_>> {
    let targets = plan.targets.iter().enumerate();
    targets
        .map(|(i, target)| Load { target: target.number as usize, cell: plan.cell_on(i) })
        .collect()
}

/// Records the evidence that real and emulated targets have in common.
fn record_evidence(
    loads: &[Load<'_>],
    index: usize,
    open_target: &mut OpenTarget,
    done: &mut Cell,
) {
    let Load { target, cell } = loads[index];
    let others =
        loads.iter().enumerate().filter(|(at, other)| *at != index && other.target == target);
    done.evidence.beside = others.map(|(_, other)| other.cell.workload.clone()).collect();
    record_unverified(&cell.spec, done);
    record_replay(done);
    open_target.verified.note(done);
}

/// Adds the replayed trace to the facts of a cell.
fn record_replay(cell: &mut Cell) {
    let words = cell.evidence.trace.clone();
    cell.facts.extend(words.map(|words| ("trace".to_owned(), words)));
}

/// Adds an empty verification result if reads were to be verified, but none could be.
fn record_unverified(spec: &Spec, cell: &mut Cell) {
    let has_read = cell.total().class(OpKind::Read).is_some_and(|reads| reads.ops() > 0);
    if spec.content() == Content::Verifiable && has_read {
        cell.evidence.verification.get_or_insert_with(|| Verification {
            unit_bytes: spec.verify_unit_bytes(),
            ..Verification::default()
        });
    }
}

/// Creates the cell that records why a workload was skipped on its targets.
fn skipped(task: &Task, place: &Place, open_targets: &[OpenTarget], why: String) -> Cell {
    let evidence = Evidence { skipped: Some(why), ..Evidence::default() };
    let CellSpec { name, spec, .. } = &task.cell;
    let mut cell = record(name, &target_name(open_targets), place.clone(), evidence);
    cell.key.threads = spec.threads();
    cell.key.depth = spec.depth();
    cell.key.blocks = iodyno_drive::blocks(spec);
    cell
}
