//! Executes a method's preparation steps: purges, fills and waits. For a resumed run, also repeats finished cells to
//! restore the state of emulated devices.

use crate::fill::FillShape;
use crate::open_targets::{OpenTarget, target_name};
use crate::outcome::RunError;
use crate::over_ranks;
use crate::resolved_run::ResolvedRun;
use crate::reuse::{self, FILL_NAME, PURGE_NAME};
use crate::run_cell::run_cell;
use crate::schedule::{CellPosition, Next, Prepare, Schedule, Task, record};
use crate::step_context::StepContext;
use crate::watch::{Phase, Watch};
use core::ops::{ControlFlow, Range};
use iodyno_drive::Medium;
use iodyno_measure::{Cell, Evidence, Place, Preparation};
use iodyno_targets::purge::{PurgeOptions, PurgeOutcome, Verified, purge_opened};
use iodyno_targets::{Confirm, Opened, TargetError};
use iodyno_units::{Precondition, human};
use iodyno_workload::Spec;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval at which the wait between cells checks the stop flag.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Prepares the targets with the indices `targets` (purge, fill or wait); other ranks do the same for theirs.
/// Returns a cell that records the step, or the measured cells of a fill.
pub(crate) fn prepare(
    on: StepContext<'_, '_>,
    place: Place,
    how: Prepare,
    targets: Range<usize>,
) -> Result<Vec<Cell>, RunError> {
    let run = on.run;
    // A fill is an ordinary cell.
    if run.process.ranks.is_alone() || run.is_farmed() || matches!(how, Prepare::Fill { .. }) {
        return prepare_own(on, place, how, targets);
    }
    over_ranks::record_of_all(run, prepare_own(on, place, how, targets))
}

fn prepare_own(
    mut on: StepContext<'_, '_>,
    place: Place,
    how: Prepare,
    targets: Range<usize>,
) -> Result<Vec<Cell>, RunError> {
    let open_targets = &on.open_targets[targets.clone()];
    let target = target_name(open_targets);
    let mut evidence = Evidence::default();
    let name = match how {
        Prepare::Purge => PURGE_NAME,
        Prepare::Fill { .. } => FILL_NAME,
        Prepare::Wait { .. } => "wait",
    };
    let is_emulated = on.run.emulated.is_some();
    let done = match how {
        Prepare::Wait { ns } => {
            wait(on.run, on.schedule, ns, on.watch);
            Preparation::Waited(human::duration_ns(ns))
        }
        Prepare::Purge if is_emulated => {
            on.schedule.purged(targets);
            Preparation::Purged("emulated devices, new".to_owned())
        }
        Prepare::Fill { spec, .. } if is_emulated => {
            let range = on.schedule.filled(targets, &spec);
            let words = format!(
                "constructed: emulated devices start each cell in the steady state of the cell's own writes. If cells continue from each other, the first one starts after sequential writes over {range}"
            );
            let less = "preconditioning was constructed, not written";
            evidence.deviation = Some(less.to_owned());
            Preparation::Constructed(words)
        }
        _ if reuse::reused(&mut on, &targets, &place, &mut evidence)? => {
            return Ok(vec![record(name, &target, place, evidence)]);
        }
        Prepare::Purge => {
            let (words, deviation) = purge(on.run, &on.open_targets[targets])?;
            evidence.deviation = deviation;
            Preparation::Purged(words)
        }
        Prepare::Fill { spec, passes } => {
            let mut cells = fill(on, place, &spec, passes, targets)?;
            for cell in &mut cells {
                let why = evidence.not_reused.clone();
                cell.facts.extend(why.clone().map(|why| ("not reused".to_owned(), why)));
                cell.evidence.not_reused = why;
            }
            return Ok(cells);
        }
    };
    evidence.preparation = Some(done);
    Ok(vec![record(name, &target, place, evidence)])
}

/// Purges the targets that support it and that the user named for destruction. Other targets are reported,
/// and the method continues. Returns a description, and the deviation from a complete purge.
fn purge(
    run: &ResolvedRun,
    open_targets: &[OpenTarget],
) -> Result<(String, Option<String>), RunError> {
    let (mut words, mut less): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for open_target in open_targets {
        let name = &open_target.name;
        let why = match &open_target.medium {
            Medium::Ram(_) | Medium::Null(_) => {
                words.push(format!("{name}: memory needs no purge"));
                continue;
            }
            _ => match open_target.opened() {
                Some(opened) if opened.made_here => {
                    words.push(format!("{name}: the file is new"));
                    less.push(format!("the storage below the file {name} was not purged"));
                    continue;
                }
                Some(opened) => match purge_opened_target(run, opened)? {
                    Ok(how) => {
                        words.push(format!("{name}: {how}"));
                        continue;
                    }
                    Err(why) => why,
                },
                None => "a run can't purge this kind of target".to_owned(),
            },
        };
        words.push(format!("{name}: not purged: {why}"));
        less.push(format!("{name} was not purged"));
    }
    // A run does not change volatile write caches, although standards specify their setting.
    let of_standard = run.method.as_ref().is_some_and(|m| m.method.standard.is_some());
    if of_standard
        && open_targets.iter().any(|open_target| !open_target.inspection.physical.is_empty())
    {
        less.push("the devices' volatile write caches were left as they were".to_owned());
    }
    Ok((words.join("; "), (!less.is_empty()).then(|| less.join("; "))))
}

/// Purges one target, and describes how. The outer error ends the run; the inner one explains why the target
/// was not purged.
fn purge_opened_target(
    run: &ResolvedRun,
    opened: &Opened,
) -> Result<Result<String, String>, RunError> {
    let options = PurgeOptions { method: None, confirm: Confirm(run.request.destroy.clone()) };
    let mut progress = |_: Option<f64>| {
        if run.process.stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let record = match purge_opened(opened, &options, &mut progress) {
        Ok(record) => record,
        // The user did not confirm a purge of this target. The method reports that and continues. The text is stored as
        // a fact, which is a single line.
        Err(e @ TargetError::Refused(_)) => {
            return Ok(Err(e.to_string().split_whitespace().collect::<Vec<_>>().join(" ")));
        }
        Err(e) => return Err(e.into()),
    };
    let by = record.method.map_or(String::new(), |method| format!(" by {method}"));
    let verified = match record.verified {
        Verified::Yes => "verified",
        Verified::No => "but earlier content can still be read",
        Verified::Unknown => "not verified",
    };
    let long = human::duration_ns(record.duration_ns);
    Ok(match &record.outcome {
        PurgeOutcome::Purged if record.is_purged() => {
            Ok(format!("purged{by} in {long}, {verified}"))
        }
        PurgeOutcome::Purged => Err(verified.to_owned()),
        PurgeOutcome::NotPossible(why) | PurgeOutcome::Failed(why) => Err(why.clone()),
    })
}

/// Writes the active range sequentially, `passes` times, and proves that every block was written.
fn fill(
    on: StepContext<'_, '_>,
    place: Place,
    spec: &Spec,
    passes: u8,
    targets: Range<usize>,
) -> Result<Vec<Cell>, RunError> {
    let shape = FillShape {
        threads: spec.threads(),
        depth: spec.depth(),
        block_bytes: spec.max_data_bytes(),
        active: spec.active(),
        passes,
    };
    let capacities = on.open_targets[targets.clone()].iter().map(|p| p.medium.capacity_bytes());
    let cell = crate::fill::fill(FILL_NAME, &shape, capacities.max().unwrap_or(0))?;
    let task = Task {
        cell: on.schedule.cell(cell, on.run.request.seed),
        place: Some(place),
        targets,
        engine: on.run.request.engine,
        then_wait_ns: 0,
        position: CellPosition { index: on.first_index, count: 0 },
    };
    run_cell(on, &task)
}

/// Waits for `ns`. With emulated devices, advances virtual time instead.
pub(crate) fn wait(run: &ResolvedRun, schedule: &mut Schedule<'_>, ns: u64, watch: &mut dyn Watch) {
    if run.emulated.as_ref().is_some_and(|e| !e.live) {
        schedule.idle(ns);
        return;
    }
    watch.phase(Phase::Waiting { ns });
    let end = Instant::now() + Duration::from_nanos(ns);
    while Instant::now() < end && !run.process.stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY.min(end.saturating_duration_since(Instant::now())));
    }
}

/// Adds to the schedule the steps that an earlier process finished. If emulated devices carry state from cell to cell,
/// repeats the steps to restore that state, and discards the results.
pub(crate) fn catch_up<'r>(
    run: &'r ResolvedRun,
    open_targets: &mut [OpenTarget],
    schedule: &mut Schedule<'r>,
    cells: &[Cell],
    watch: &mut dyn Watch,
) -> Result<(), RunError> {
    same_targets(run, open_targets)?;
    let again =
        run.emulated.is_some() && run.method.as_ref().is_some_and(|m| m.method.carries_state());
    let mut start = 0;
    while start < cells.len() {
        let place = &cells[start].key.place;
        let n = cells[start..].iter().take_while(|c| c.key.place == *place).count();
        let step = &cells[start..start + n];
        schedule.pass_over_other_shards()?;
        let next = schedule.next()?;
        let fits = match &next {
            Next::Measure(task) => same_place(task.place.as_ref(), place.as_ref()),
            Next::Prepare { place: of, .. } => same_place(Some(of), place.as_ref()),
            Next::Finished => false,
        };
        if !fits {
            return Err(RunError::Impossible(format!(
                "the stored cells are not those of this method: `{}` does not follow cell {start}; begin a new run",
                step[0].key.name
            )));
        }
        let on = StepContext {
            run,
            open_targets,
            schedule,
            writer: None,
            notebook: None,
            first_index: start,
            watch,
            events: None,
        };
        match next {
            Next::Measure(task)
                if again && task.cell.emulation.precondition != Precondition::Workload =>
            {
                on.watch.phase(Phase::Replaying);
                run_cell(StepContext { watch: &mut Unwatched, ..on }, &task)?;
                if run.process.stop.load(Ordering::Relaxed) {
                    return Err(RunError::Interrupted);
                }
                if task.then_wait_ns > 0 {
                    wait(run, schedule, task.then_wait_ns, watch);
                }
            }
            Next::Prepare { place, how, targets } if run.emulated.is_some() => {
                prepare(on, place, how, targets)?;
            }
            Next::Measure(task) if step.iter().all(|cell| cell.evidence.skipped.is_none()) => {
                schedule.ran(&task);
            }
            _ => {}
        }
        schedule.note(step);
        start += n;
    }
    Ok(())
}

/// Refuses to resume a run if the size of a target has changed.
fn same_targets(run: &ResolvedRun, open_targets: &[OpenTarget]) -> Result<(), RunError> {
    let Some(resume) = run.process.resume.as_ref() else {
        return Ok(());
    };
    for (open_target, &was) in open_targets.iter().zip(&resume.capacities_bytes) {
        let is = open_target.medium.capacity_bytes();
        if was != 0 && was != is {
            return Err(RunError::Impossible(format!(
                "{}: the target had {} when the run began, but now has {}, so it is a different target: begin a new run",
                open_target.name,
                human::size(was),
                human::size(is)
            )));
        }
    }
    Ok(())
}

fn same_place(a: Option<&Place>, b: Option<&Place>) -> bool {
    a == b
}

struct Unwatched;
impl Watch for Unwatched {}
