//! Creates the shared state of message-log loads on the targets of a cell, and stores their results in the cell.

use crate::engine::EngineKind;
use crate::plan::{CellPlan, DriveError, active_range};
use iodyno_measure::Cell;
use iodyno_msglog::{LoadOfTarget, LoadShape};
use std::sync::Arc;

/// Creates the message-log load of each target, in the plan's order; `None` for other workloads. `slots`
/// returns the maximum number of operations in flight per worker of a target.
pub(crate) fn of_targets(
    plan: &CellPlan,
    slots: impl Fn(usize) -> u32,
) -> Result<Vec<Option<Arc<LoadOfTarget>>>, DriveError> {
    plan.targets
        .iter()
        .enumerate()
        .map(|(index, target)| {
            let cell = plan.cell_on(index);
            let Some(load) = cell.spec.log() else { return Ok(None) };
            let limits = cell.spec.limits();
            let active = active_range(&cell.spec, target.medium.capacity_bytes());
            let shape = LoadShape {
                start_bytes: active.start,
                end_bytes: active.end,
                chunk_bytes: cell.spec.max_data_bytes(),
                align_bytes: cell.spec.align_bytes().max(target.align_bytes).max(512),
                depth: slots(index),
                ramp_ns: limits.ramp_ns,
                time_ns: limits.time_ns,
                interval_ns: cell.interval_ns(),
                // An emulated device in real time stores bytes only for verifiable content.
                returns_bytes: target.engine() != EngineKind::Live,
                seed: cell.seed,
            };
            LoadOfTarget::new(load, shape).map(Some).map_err(|e| DriveError::DoesNotFit {
                target: target.name.clone(),
                why: e.to_string(),
            })
        })
        .collect()
}

/// Stores the result of each target's message log in its cell.
pub(crate) fn keep(logs: &[Option<Arc<LoadOfTarget>>], cells: &mut [Cell]) {
    for (log, cell) in logs.iter().zip(cells) {
        if let Some(log) = log {
            cell.log = Some(Box::new(log.outcome()));
        }
    }
}
