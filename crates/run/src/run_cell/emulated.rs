//! Measures a cell on an emulated system, in virtual or real time. In virtual time, a cell either starts with a new
//! system or continues with the system of earlier cells.

use super::{Load, loads, planned, record_evidence};
use crate::Emulated;
use crate::emulated::volumes;
use crate::outcome::RunError;
use crate::over_ranks::StartOverRanks;
use crate::parallel_cells::{self, Beside};
use crate::persist::CellWriter;
use crate::schedule::Task;
use crate::step_context::StepContext;
use crate::watch::Phase;
use iodyno_drive::engine::live::CompletionHandle;
use iodyno_drive::{CellPlan, drive_carried, drive_cell};
use iodyno_emulate::System;
use iodyno_live::served::Live;
use iodyno_measure::{Cell, Role};
use iodyno_units::{Precondition, human};
use std::sync::Arc;

/// Simulates a cell in virtual time, in parallel with the cells in `beside`.
pub(super) fn simulate(
    mut on: StepContext<'_, '_>,
    task: &Task,
    start: Option<&Arc<StartOverRanks>>,
    system: &Arc<System>,
    beside: Vec<Beside>,
) -> Result<Vec<Cell>, RunError> {
    on.watch.phase(Phase::Preparing);
    let media = volumes(system, task.targets.clone());
    let (plan, _) = planned(&mut on, task, start, media)?;
    let StepContext { run, schedule, writer, watch, first_index, .. } = &mut on;
    let (writer, ranks) = (writer.as_deref_mut(), &run.process.ranks);
    let mut writer = CellWriter::new(writer, *watch, ranks, *first_index, task.position);
    let mut cells = match schedule.machine(task, &plan)? {
        Some(carried) => drive_carried(&plan, carried, &run.process.stop, &mut writer)?,
        None => parallel_cells::drive(run, task, &plan, beside, schedule, &mut writer)?,
    };
    record_states(&mut on, task, &plan, &mut cells);
    on.schedule.ran(task);
    Ok(cells)
}

/// Measures a cell on a new emulated machine that runs in real time.
pub(super) fn serve(
    mut on: StepContext<'_, '_>,
    task: &Task,
    start: Option<&Arc<StartOverRanks>>,
    system: &System,
) -> Result<Vec<Cell>, RunError> {
    on.watch.phase(Phase::Preparing);
    let (live, media) = Emulated::served(system, &task.cell).map_err(RunError::Impossible)?;
    let media = media[task.targets.clone()].to_vec();
    let (plan, _) = planned(&mut on, task, start, media)?;
    let ranks = &on.run.process.ranks;
    let writer = on.writer.as_deref_mut();
    let mut writer = CellWriter::new(writer, on.watch, ranks, on.first_index, task.position);
    let mut cells = drive_cell(&plan, &on.run.process.stop, &mut writer)?;
    record_lateness(&live, task, &plan, &mut cells);
    record_states(&mut on, task, &plan, &mut cells);
    on.schedule.ran(task);
    Ok(cells)
}

/// Records the initial device state of each cell, and the evidence that all cells have.
fn record_states(on: &mut StepContext<'_, '_>, task: &Task, plan: &CellPlan, cells: &mut [Cell]) {
    let states = on.schedule.states(task);
    // A method follows the drift of cells that continue, or that begin on an empty device; the figures of writes before
    // a round do not matter.
    let is_part = task.place.as_ref().is_some_and(|place| {
        place.role == Role::Prepare || task.cell.emulation.precondition != Precondition::Workload
    });
    let open_targets = &mut on.open_targets[task.targets.clone()];
    let loads = loads(plan);
    for (index, done) in cells.iter_mut().enumerate() {
        let Load { target, .. } = loads[index];
        let volume = task.targets.start + target;
        let is_skew_missing = |of: &Emulated| of.is_skew_missing(volume, &task.cell);
        done.evidence.skew_missing =
            !is_part && on.run.emulated.as_ref().is_some_and(is_skew_missing);
        done.facts.insert("state".to_owned(), states[volume].clone());
        done.evidence.device_state = Some(states[volume].clone());
        record_evidence(&loads, index, &mut open_targets[target], done);
    }
}

/// Records how late the volume of each cell completed its I/Os, compared with the simulated completion times.
fn record_lateness(
    live: &Live<CompletionHandle>,
    task: &Task,
    plan: &CellPlan,
    cells: &mut [Cell],
) {
    let counts = live.look(|_, _, counts| counts.to_vec());
    for (Load { target, .. }, cell) in loads(plan).into_iter().zip(cells) {
        let counts = &counts[task.targets.start + target];
        let lateness = &counts.lateness;
        cell.evidence.emulated_live = true;
        let share = |count: u64| Some(count as f64 / lateness.count().max(1) as f64);
        cell.evidence.late_share = share(counts.late);
        cell.evidence.late_away_share = share(counts.late_away);
        // After the simulated time was held back, no completion has the model's time.
        if live.is_held_back() {
            (cell.evidence.late_share, cell.evidence.late_away_share) = (Some(1.0), None);
        }
        let words = [("p50", 0.5), ("p99", 0.99)].into_iter().filter_map(|(name, q)| {
            let ns = lateness.supported_quantile_ns(q)?;
            Some(format!("{name} {}", human::time_ns(ns as f64)))
        });
        let words = words.collect::<Vec<_>>().join(", ");
        if !words.is_empty() {
            cell.facts.insert("late".to_owned(), format!("{words} after the model"));
        }
    }
}
