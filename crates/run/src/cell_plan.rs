//! Builds the plan of a cell (measurement): its targets, real or emulated, and for each target an engine with the
//! reason for the choice.

use crate::default_engine;
use crate::open_targets::OpenTarget;
use crate::outcome::RunError;
use crate::refuse::wrong_engine;
use crate::resolved_run::ResolvedRun;
use crate::schedule::Task;
use crate::verified;
use iodyno_drive::{CellPlan, EngineKind, Medium, TargetPlan, TraceEvents, Walks};
use iodyno_units::Precondition;
use iodyno_workload::{CellSpec, Content};
use std::sync::Arc;

/// Converts a task to the plan that the driver executes.
pub(crate) fn cell_plan(
    run: &ResolvedRun,
    task: &Task,
    targets: Vec<TargetPlan>,
    walks: Option<Arc<Walks>>,
    events: Option<&TraceEvents>,
) -> CellPlan {
    let plan = CellPlan {
        place: task.place.clone(),
        clock: run.clock,
        options: run.request.options,
        walks,
        // Fills are not recorded: they are not part of the measurement.
        events: events.filter(|_| task.cell.fill_passes.is_none()).cloned(),
        ..CellPlan::new(task.cell.clone(), targets)
    };
    // Devices that carry the state of the previous cell on need no warm-up.
    match task.cell.emulation.precondition {
        Precondition::Carried => plan,
        _ => plan.warmed_up(),
    }
}

/// Plans a cell on targets with the given media. Returns one plan per target and workload, and the reason for
/// each choice of engine.
///
/// # Errors
/// The requested engine does not work on a target.
pub(crate) fn targets_of(
    task: &Task,
    open_targets: &[OpenTarget],
    media: Vec<Medium>,
) -> Result<(Vec<TargetPlan>, Vec<String>), RunError> {
    let cell = &task.cell;
    let mut all = (Vec::new(), Vec::new());
    for (number, (open_target, mut medium)) in (0..).zip(open_targets.iter().zip(media)) {
        let volume = task.targets.start + number as usize;
        let beside = cell.beside.iter().enumerate().map(|(n, cell)| (Some(n), cell));
        let loads = core::iter::once((None, cell)).chain(beside);
        for (beside, cell) in loads.filter(|(_, cell)| cell.is_on(volume)) {
            let spec = &cell.spec;
            // Other media have only one engine.
            let own = cell.engine.as_deref().filter(|_| medium.file().is_some());
            let own = own.and_then(|name| name.parse().ok());
            let why = choose_engine(&mut medium, task.engine.or(own), cell, open_target)?;
            all.0.push(TargetPlan {
                name: open_target.name.clone(),
                align_bytes: open_target.align_bytes,
                verify: match medium {
                    // Each cell has a machine of its own, without content.
                    Medium::Live { .. } => verified::fresh(spec, medium.capacity_bytes()),
                    _ => open_target
                        .verified
                        .map
                        .clone()
                        .filter(|_| spec.content() == Content::Verifiable),
                },
                medium: medium.clone(),
                beside,
                number,
            });
            all.1.push(why);
            if let Medium::Live { first_worker, .. } = &mut medium {
                *first_worker += spec.threads();
            }
        }
    }
    Ok(all)
}

/// Sets the I/O engine for a target's medium, and returns the reason for the choice.
fn choose_engine(
    medium: &mut Medium,
    asked: Option<EngineKind>,
    cell: &CellSpec,
    open_target: &OpenTarget,
) -> Result<String, RunError> {
    if let Some(asked) = asked {
        if !medium.set_engine(asked) {
            return Err(RunError::Impossible(wrong_engine(asked, open_target)));
        }
        return Ok("asked for".to_owned());
    }
    let of_run = open_target.default_engine.clone().filter(|_| cell.fill_passes.is_none());
    let (engine, why) = of_run.unwrap_or_else(|| {
        default_engine::of_workload(&cell.spec, medium, open_target.align_bytes)
    });
    medium.set_engine(engine);
    Ok(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::Emulated;
    use crate::emulated_system::emulated;
    use crate::files::Files;
    use crate::schedule::CellPosition;
    use iodyno_targets::{TargetName, inspect};
    use iodyno_workload::Spec;

    /// If several workloads run simultaneously on a volume, each has its own, consecutively numbered workers.
    #[test]
    fn workloads_at_once_share_no_worker_of_a_live_machine() {
        let cell = |threads| {
            let text = format!("schema = 1\nthreads = {threads}\n[mix]\nread = 1");
            CellSpec::new("reads", Spec::from_toml(&text).unwrap())
        };
        let cell = CellSpec { beside: vec![cell(2), cell(4)], ..cell(3) };
        let name = TargetName::parse("live:exflash-400g*2").unwrap();
        let of = emulated(std::slice::from_ref(&name), &mut Files::default()).unwrap().unwrap();
        let (_live, media) = Emulated::served(&of.system, &cell).unwrap();
        let task = Task {
            cell,
            place: None,
            targets: 0..2,
            engine: None,
            then_wait_ns: 0,
            position: CellPosition { index: 0, count: 1 },
        };
        let open_target = || OpenTarget::new(name.to_string(), inspect(&name).unwrap());
        let (plans, _) = targets_of(&task, &[open_target(), open_target()], media).unwrap();
        let workers = plans.iter().map(|plan| match plan.medium {
            Medium::Live { volume, first_worker, .. } => (volume, first_worker, plan.beside),
            _ => panic!("{plan:?}"),
        });
        let expected = [
            (0, 0, None),
            (0, 3, Some(0)),
            (0, 5, Some(1)),
            (1, 9, None),
            (1, 12, Some(0)),
            (1, 14, Some(1)),
        ];
        assert_eq!(workers.collect::<Vec<_>>(), expected);
    }
}
