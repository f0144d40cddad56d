//! What can't be together: engine and depth, engine and target, workload and target. All of it is
//! known before a byte is written or the notebook is touched, and is said then: who laid out
//! 100 GiB only to hear that the engine does not work there would rightly be angry.

use crate::request::{Request, RunError};
use crate::stage::Prop;
use iodyno_drive::{DriveError, EngineKind, Medium};
use iodyno_workload::{ArrivalKind, Geometry, Shared};

/// What can't be together, whatever the targets are.
pub(crate) fn impossible(request: &Request) -> Result<(), RunError> {
    let Some(engine) = request.engine else { return Ok(()) };
    for cell in &request.cells {
        let closed = matches!(cell.spec.arrivals(), ArrivalKind::Closed { .. });
        if !engine.queues() && cell.spec.depth() > 1 && closed {
            return Err(RunError::Impossible(format!(
                "{}: the {name} engine does one I/O at a time, so depth {depth} can't be: use `--depth 1 --threads {depth}` for as many outstanding I/Os, or `--engine libaio`",
                cell.name,
                name = engine.name(),
                depth = cell.spec.depth(),
            )));
        }
    }
    Ok(())
}

/// What does not fit the targets, as they were found.
pub(crate) fn misfits(request: &Request, props: &[Prop]) -> Result<(), RunError> {
    for prop in props {
        engine(request, prop)?;
        for cell in &request.cells {
            let geometry = Geometry {
                capacity_bytes: prop.medium.capacity_bytes(),
                align_bytes: prop.align_bytes,
                workers: cell.spec.threads(),
            };
            Shared::new(&cell.spec, request.seed, &geometry).map_err(|e| {
                DriveError::DoesNotFit { target: prop.name.clone(), why: e.to_string() }
            })?;
        }
    }
    Ok(())
}

/// An engine that was asked for and is none for this kind of target.
fn engine(request: &Request, prop: &Prop) -> Result<(), RunError> {
    let Some(asked) = request.engine else { return Ok(()) };
    // `ram:`, `null:` and `model:` bring their own engine, and no other works on them.
    let own = match &prop.medium {
        Medium::File(_) => None,
        Medium::Ram(_) => Some(EngineKind::Ram),
        Medium::Null(_) => Some(EngineKind::Null),
        Medium::Model { .. } => Some(EngineKind::Model),
        Medium::Live { .. } => Some(EngineKind::Live),
    };
    if own == Some(asked) || own.is_none() && !asked.comes_with_target() {
        return Ok(());
    }
    Err(RunError::Impossible(format!(
        "the {} engine does not work on `{}`: leave --engine out, and the engine that suits the target is taken",
        asked.name(),
        prop.name
    )))
}
