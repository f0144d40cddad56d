//! Runs a pilot (a short measurement), then the measurement that is planned from the pilot's results. If both begin
//! with the same operations, these are simulated only once: the machine and its workers are cloned before the pilot
//! deviates, and the second measurement continues from the clone.

use super::fork::{Fork, Forking};
use super::{Carried, Crew, Modelled, drive_model, new_workers, run_workers, seed_of};
use crate::engine::Medium;
use crate::limits::limits;
use crate::plan::{CellPlan, DriveError, TargetPlan, Unobserved};
use crate::worker_threads::{WorkerParts, shared};
use iodyno_measure::Cell;
use iodyno_workload::WorkloadSource;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs a pilot cell, which ends after a number of operations, then the cell that `next` plans from the pilot's
/// results. The second cell's window must begin no earlier than `before_ns`. The results equal those of two calls
/// of [`drive_model`], but the common beginning of the cells is simulated only once.
///
/// # Errors
/// As [`drive_model`].
pub fn drive_model_after_pilot<T>(
    pilot: &CellPlan,
    before_ns: u64,
    stop: &AtomicBool,
    next: impl FnOnce(&[Cell]) -> (T, Option<CellPlan>),
) -> Result<(T, Option<Modelled>), DriveError> {
    let (result, cell) = after_pilot(pilot, before_ns, stop, next)?;
    Ok((result, cell.map(|(cell, _)| cell)))
}

/// Like [`drive_model_after_pilot`], but also returns whether the second cell continued from the pilot.
pub(super) fn after_pilot<T>(
    pilot: &CellPlan,
    before_ns: u64,
    stop: &AtomicBool,
    next: impl FnOnce(&[Cell]) -> (T, Option<CellPlan>),
) -> Result<(T, Option<(Modelled, bool)>), DriveError> {
    if !is_plain(pilot) || pilot.cell.spec.limits().time_ns.is_some() {
        let (result, plan) = next(&drive_model(pilot, stop, &mut Unobserved)?.cells);
        let cell = plan.map(|plan| drive_model(&plan, stop, &mut Unobserved)).transpose()?;
        return Ok((result, cell.map(|cell| (cell, false))));
    }
    let mut carried = Carried::new(pilot)?;
    let source = |parts: &WorkerParts<'_>, seed| Ok(parts.stream_of(seed));
    let workers = new_workers(pilot, &carried, source)?;
    let forking = Forking::new(before_ns, WorkloadSource::fork, &workers);
    let crew = Crew { workers, begun: None, forking };
    let (ran, fork) = run_workers(pilot, &mut carried, crew, stop, &mut Unobserved)?;
    // Frees the pilot's machine, which would share tables with the fork's.
    drop(carried);
    let (result, plan) = next(&ran.cells);
    let Some(plan) = plan else { return Ok((result, None)) };
    let cell = match fork.filter(|_| is_alike(pilot, &plan, before_ns)) {
        Some(fork) => (resume(&plan, fork, stop)?, true),
        None => (drive_model(&plan, stop, &mut Unobserved)?, false),
    };
    Ok((result, Some(cell)))
}

/// True if each worker of the plan depends only on its own operations and starts immediately, so that it can
/// be cloned.
fn is_plain(plan: &CellPlan) -> bool {
    plan.cell.replay.is_none()
        && plan.cell.spec.log().is_none()
        && plan.cell.spec.threads() == 1
        && plan.cell.spec.limits().start_after_ns == 0
        && plan.cell.beside.is_empty()
        && plan.aged_passes <= 0.0
        && plan.walks.is_none()
        && plan.events.is_none()
        && plan.warm_up_events_max.is_none()
}

/// True if a plan differs from the pilot only in its limits, so that both cells begin identically.
fn is_alike(pilot: &CellPlan, plan: &CellPlan, before_ns: u64) -> bool {
    let volumes = |plan: &CellPlan| -> Vec<_> {
        let volume = |target: &TargetPlan| match &target.medium {
            Medium::Model { system, volume } => Some((Arc::as_ptr(system), *volume)),
            _ => None,
        };
        plan.targets.iter().map(volume).collect()
    };
    let issued = |plan: &CellPlan| {
        let CellPlan { cell, .. } = plan;
        cell.spec.clone().with_ramp(0).and_then(|spec| spec.with_ops(1)?.without_time())
    };
    pilot.cell.seed == plan.cell.seed
        && volumes(pilot) == volumes(plan)
        && issued(pilot).is_ok_and(|pilot| issued(plan).is_ok_and(|plan| pilot == plan))
        && plan.cell.spec.limits().ramp_ns >= before_ns
        && is_plain(plan)
}

fn resume(
    plan: &CellPlan,
    fork: Fork<WorkloadSource>,
    stop: &AtomicBool,
) -> Result<Modelled, DriveError> {
    let Fork { machine, mut workers, begun } = fork;
    for worker in &mut workers {
        let at = &plan.targets[worker.target];
        let shared = shared(&plan.cell, at, seed_of(plan.cell.seed, worker.target))?;
        worker.limit(limits(&plan.cell, &shared, 0).share);
    }
    let mut carried = Carried::resumed(machine);
    let crew = Crew { workers, begun: Some(begun), forking: None };
    let (ran, _) = run_workers(plan, &mut carried, crew, stop, &mut Unobserved)?;
    Ok(ran.modelled(carried))
}
