//! Aging of emulated flash devices before a measurement: the workloads to be measured write to the devices' flash
//! translation map, in no simulated time, until they have written the capacity a given number of times. Needed for
//! workloads whose steady state has no closed form: skewed or zoned writes, and data that is never rewritten.
//!
//! Aging takes its operations from the workers' sources; the measurement then continues with the sources' next
//! operations. Workers in open loop take no part.

use super::worker::Worker;
use crate::plan::{CellPlan, DriveError};
use iodyno_emulate::Machine;
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Next, Outcome, Source};

/// Ages the devices of a plan: writes their capacity `CellPlan::aged_passes` times with the cell's own workloads.
pub(super) fn age<S: Source>(
    plan: &CellPlan,
    machine: &mut Machine,
    workers: &mut [Worker<S>],
    start_ns: u64,
) -> Result<(), DriveError> {
    if plan.aged_passes <= 0.0 {
        return Ok(());
    }
    let capacity: u64 = (0..machine.volumes()).map(|volume| machine.capacity_bytes(volume)).sum();
    let mut left_bytes = (capacity as f64 * plan.aged_passes) as u64;
    for worker in &mut *workers {
        worker.source.start(start_ns);
    }
    let (mut turn, mut idle) = (0, 0);
    let next = || {
        while left_bytes > 0 && idle < workers.len() {
            turn = (turn + 1) % workers.len();
            let worker = &mut workers[turn];
            let Some(op) = take(&mut worker.source, start_ns) else {
                idle += 1;
                continue;
            };
            idle = 0;
            if op.kind == OpKind::Write {
                left_bytes = left_bytes.saturating_sub(op.len_bytes.into());
            }
            return Some((worker.volume, op));
        }
        None
    };
    if machine.age(next) && left_bytes == 0 {
        return Ok(());
    }
    let why =
        "only a flash device outside an array can be aged, and only by writes in a closed loop";
    Err(DriveError::DoesNotFit { target: plan.cell.name.clone(), why: why.to_owned() })
}

/// Takes an operation from a source as if it completed at once; `None` if none is due now.
fn take<S: Source>(source: &mut S, now_ns: u64) -> Option<Op> {
    match source.next(now_ns, 1) {
        Next::Issue(issue) => {
            source.completed(&issue.op, issue.token, Outcome::Succeeded, now_ns);
            Some(issue.op)
        }
        Next::WaitUntil(_) | Next::WaitCompletion | Next::Done => None,
    }
}
