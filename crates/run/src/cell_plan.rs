//! Construction of a cell's plan: its targets, open or emulated, the engine of each and the reason for the choice.

use crate::open_targets::OpenTarget;
use crate::resolved_run::ResolvedRun;
use crate::schedule::Task;
use crate::verified;
use iodyno_drive::probe::{Load, default_engine};
use iodyno_drive::{CellPlan, EngineKind, Medium, TargetPlan, TraceEvents, Walks};
use iodyno_emulate::System;
use iodyno_emulate::spec::Written;
use iodyno_units::{OpKind, Precondition};
use iodyno_workload::{ArrivalKind, Content, Spec};
use std::sync::Arc;

/// Builds the plan of a task.
pub(crate) fn cell_plan(
    run: &ResolvedRun,
    task: &Task,
    targets: Vec<TargetPlan>,
    walks: Option<Arc<Walks>>,
    events: Option<&TraceEvents>,
) -> CellPlan {
    let warms_up = warms_up(task, &targets);
    CellPlan {
        cell: task.cell.clone(),
        place: task.place.clone(),
        targets,
        clock: run.clock,
        options: run.request.options,
        walks,
        flow: Arc::default(),
        // Fills are not recorded: they are not part of the measurement.
        events: events.filter(|_| task.cell.fill_passes.is_none()).cloned(),
        start: None,
        warm_up_events_max: warms_up.then_some(CellPlan::WARM_UP_EVENTS_MAX),
        flush_ns: CellPlan::FLUSH_NS,
    }
}

/// Whether a cell needs a warm-up: it starts in the steady state of its workload. False for fresh devices, and for
/// devices that carry the state of the previous cell.
fn warms_up(task: &Task, targets: &[TargetPlan]) -> bool {
    let is_used = |target: &TargetPlan| match &target.medium {
        Medium::Model { system, volume } => {
            system.volumes[*volume as usize].state.how != Written::Fresh
        }
        _ => false,
    };
    task.cell.emulation.precondition != Precondition::Carried && targets.iter().all(is_used)
}

/// The plans of a cell's targets, one for each of the workloads that run on them, and the reason for each engine. The
/// targets are open, or volumes of an emulated system, or of a served one (`media`).
pub(crate) fn targets_of(
    task: &Task,
    open_targets: &[OpenTarget],
    system: Option<&Arc<System>>,
    media: Option<&[Medium]>,
) -> (Vec<TargetPlan>, Vec<String>) {
    let cell = &task.cell;
    let mut all = (Vec::new(), Vec::new());
    for (number, open_target) in (0..).zip(open_targets) {
        let volume = task.targets.start as u32 + number;
        let mut medium = match (media, system) {
            (Some(media), _) => media[volume as usize].clone(),
            (None, Some(system)) => Medium::Model { system: Arc::clone(system), volume },
            (None, None) => open_target.medium.clone(),
        };
        let beside = cell.beside.iter().enumerate().map(|(n, cell)| (Some(n), cell));
        let loads = core::iter::once((None, cell)).chain(beside);
        for (beside, cell) in loads.filter(|(_, cell)| cell.is_on(volume as usize)) {
            let spec = &cell.spec;
            // Other media have only one engine.
            let own = cell.engine.as_deref().filter(|_| matches!(medium, Medium::File(_)));
            let own = own.and_then(|name| name.parse().ok());
            let asked = task.engine.or(own);
            let (engine, why) = engine_for(asked, spec, &medium, open_target.align_bytes);
            all.0.push(TargetPlan {
                name: open_target.name.clone(),
                align_bytes: open_target.align_bytes,
                engine,
                verify: match media {
                    // Each cell has a machine of its own, without content.
                    Some(_) => verified::fresh(spec, medium.capacity_bytes()),
                    None => open_target
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
    all
}

/// Chooses the engine for one target, and states the reason.
fn engine_for(
    asked: Option<EngineKind>,
    spec: &Spec,
    medium: &Medium,
    align_bytes: u32,
) -> (EngineKind, String) {
    let block_bytes = spec.align_bytes().max(align_bytes);
    // An open loop needs a queue, even if its cap is 1.
    let open = matches!(spec.arrivals(), ArrivalKind::Open { .. });
    let depth = if open { spec.depth().max(2) } else { spec.depth() };
    if let Some(asked) = asked {
        return (asked, "asked for".to_owned());
    }
    // An open loop has a short queue if the target sustains the rate.
    let outstanding = if open { 1 } else { depth.saturating_mul(spec.threads()) };
    let writes = spec.issues(OpKind::Write);
    let range = iodyno_drive::active_range(spec, medium.capacity_bytes());
    default_engine(medium, Load { depth, outstanding, block_bytes, range, writes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::Emulated;
    use crate::emulated_system::emulated;
    use crate::files::Files;
    use iodyno_targets::{TargetName, inspect};
    use iodyno_workload::CellSpec;

    /// Each workload of a volume has its own workers in the machine; their numbers follow one another.
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
            position: (0, 1),
        };
        let open_target = || OpenTarget::new(name.to_string(), inspect(&name).unwrap());
        let (plans, _) = targets_of(&task, &[open_target(), open_target()], None, Some(&media));
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
