//! Chooses the I/O engine of a target once for all measured cells of a run. If a probe chose anew before each cell, the
//! cells of a sweep or of repeats would not be comparable.

use crate::open_targets::OpenTarget;
use crate::resolved_run::ResolvedRun;
use iodyno_drive::probe::{self, Load};
use iodyno_drive::{EngineKind, Medium};
use iodyno_units::OpKind;
use iodyno_workload::{ArrivalKind, CellSpec, Spec};
use std::ops::Range;

/// Chooses the default engine of target `number` of a run before its first measured cell, `first`, and states the
/// reason. A resumed run keeps the engine of its finished cells. Otherwise, the highest load among the cells that name
/// no engine determines the choice. None if the request or every cell names an engine, or if only one engine works on
/// the target.
pub(crate) fn of_run(
    run: &ResolvedRun,
    number: usize,
    target: &OpenTarget,
    first: &CellSpec,
) -> Option<(EngineKind, String)> {
    // Other media have only one engine.
    if run.request.engine.is_some() || target.medium.file().is_none() {
        return None;
    }
    let earlier = run.process.resume.iter().flat_map(|resume| &resume.cells);
    let mut earlier =
        earlier.filter(|cell| cell.key.target == target.name && cell.evidence.fill.is_none());
    if let Some(engine) = earlier.find_map(|cell| cell.key.engine.parse().ok()) {
        return Some((engine, "the engine of the cells that were finished before".to_owned()));
    }
    let is_measured = |cell: &&CellSpec| cell.fill_passes.is_none() && cell.engine.is_none();
    let cells = run.cells.iter().filter(is_measured);
    let loads = cells.flat_map(|cell| core::iter::once(cell).chain(&cell.beside));
    let loads = loads.filter(|cell| cell.is_on(number));
    let highest =
        loads.map(|cell| load(&cell.spec, &target.medium, target.align_bytes)).reduce(|a, b| {
            let (most, other) = if a.outstanding >= b.outstanding { (a, b) } else { (b, a) };
            Load { depth: most.depth.max(other.depth), writes: most.writes || other.writes, ..most }
        })?;
    // The probe of a method that reuses an earlier preparation must not be what changes the target.
    let prepares = run.method.as_ref().is_some_and(|of| of.method.prologue().stages > 0);
    let writes = if prepares { first.spec.issues(OpKind::Write) } else { highest.writes };
    Some(probe::default_engine(&target.medium, Load { writes, ..highest }))
}

/// Chooses the default engine for a single workload, such as a fill.
pub(crate) fn of_workload(spec: &Spec, medium: &Medium, align_bytes: u32) -> (EngineKind, String) {
    probe::default_engine(medium, load(spec, medium, align_bytes))
}

/// The load of a workload for which an engine is chosen.
fn load(spec: &Spec, medium: &Medium, align_bytes: u32) -> Load {
    // An open loop needs a queue, even if its cap is 1.
    let open = matches!(spec.arrivals(), ArrivalKind::Open { .. });
    let depth = if open { spec.depth().max(2) } else { spec.depth() };
    let Range { start: start_bytes, end: end_bytes } =
        iodyno_drive::active_range(spec, medium.capacity_bytes());
    Load {
        depth,
        // An open loop has a short queue if the target sustains the rate.
        outstanding: if open { 1 } else { depth.saturating_mul(spec.threads()) },
        block_bytes: spec.align_bytes().max(align_bytes),
        start_bytes,
        end_bytes,
        writes: spec.issues(OpKind::Write),
    }
}
