//! One cell of a run: prepares its targets, drives it, gathers the evidence around it and judges it. Its targets
//! and engines are in `cell_plan`; the order of the cells is in `schedule`.

use crate::Emulated;
use crate::cell_plan::{cell_plan, targets_of};
use crate::foreign_activity::{Surroundings, ram_bytes};
use crate::open_targets::{OpenTarget, target_name};
use crate::outcome::RunError;
use crate::over_ranks::{self, StartOverRanks};
use crate::page_cache;
use crate::parallel_cells;
use crate::persist::CellWriter;
use crate::refuse;
use crate::resolved_run::ResolvedRun;
use crate::schedule::{Schedule, Task, record};
use crate::step_context::StepContext;
use crate::verified;
use crate::watch::{Phase, Watch};
use iodyno_drive::engine::live::CompletionHandle;
use iodyno_drive::{DriveError, Medium, StartTogether, calibrate, drive_carried};
use iodyno_live::served::Live;
use iodyno_measure::verdict::judge;
use iodyno_measure::{Cell, Ended, Evidence, Place, Verification};
use iodyno_units::{OpKind, human};
use iodyno_workload::{CellSpec, Content, NewFile, Spec};
use std::sync::Arc;

/// Duration of the calibration on the null engine, ns.
const CALIBRATION_NS: u64 = 100_000_000;

/// Measures one cell. Returns each target's cell, and the merged one if there are several. A cell that does not
/// fit its targets yields a record instead.
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

/// The judged cells of this rank's targets, in their order.
fn own_cells(
    on: StepContext<'_, '_>,
    task: &Task,
    start: Option<&Arc<StartOverRanks>>,
) -> Result<Vec<Cell>, RunError> {
    let StepContext { run, open_targets, schedule, watch, .. } = on;
    let beside = parallel_cells::beside(run, task, open_targets, schedule)?;
    let open_targets = &mut open_targets[task.targets.clone()];
    let (cell, spec) = (&task.cell, &task.cell.spec);
    if let Some(place) = &task.place {
        let own = refuse::misfit(run, spec, task.engine, open_targets);
        // If one rank can't issue it, no rank does.
        let of_all = if start.is_some() { run.process.ranks.all(&own)? } else { vec![own] };
        if let Some(why) = of_all.into_iter().flatten().next() {
            return Ok(vec![skipped(task, place, open_targets, why)]);
        }
    }
    let system = schedule.system(cell)?;
    let is_live = run.emulated.as_ref().is_some_and(|emulated| emulated.live);
    let mut served = None;
    if let Some(system) = &system {
        watch.phase(Phase::Preparing);
        if is_live {
            served = Some(Emulated::served(system, cell).map_err(RunError::Impossible)?);
        }
    } else {
        for (number, open_target) in task.targets.clone().zip(&mut *open_targets) {
            // The first workload speaks for all on its target.
            let mut own = core::iter::once(cell).chain(&cell.beside);
            if let Some(load) = own.find(|load| load.is_on(number)) {
                open_target.renew(&load.spec)?;
                verified::ready(run, load, open_target);
            }
        }
    }
    let media = served.as_ref().map(|(_, media)| media.as_slice());
    let (mut targets, mut choices) = targets_of(task, open_targets, system.as_ref(), media);
    if start.is_some() {
        over_ranks::agree_on_engines(run, cell.part, &mut targets, &mut choices)?;
    }
    let calibration = calibrated(run, spec, &open_targets[0].medium, schedule, watch)?;
    let mut plan = cell_plan(run, task, targets, schedule.walks(task), on.events);
    plan.start = start.map(|start| Arc::clone(start) as Arc<dyn StartTogether>);

    // One entry per target and workload: the target's number, and the workload.
    let loads: Vec<(usize, &CellSpec)> = plan
        .targets
        .iter()
        .enumerate()
        .map(|(i, t)| (t.number as usize, plan.cell_on(i)))
        .collect();
    let inspections: Vec<_> =
        loads.iter().map(|(target, _)| open_targets[*target].inspection.clone()).collect();
    let uncached = |(target, load): &(usize, &CellSpec)| {
        let CellSpec { spec, drop_cache, .. } = load;
        let open_target = &open_targets[*target];
        if let Some(what) = drop_cache {
            page_cache::drop_range(open_target, spec, *what);
        }
        page_cache::Before::drop_range(open_target, spec)
    };
    let uncached: Vec<_> = loads.iter().map(uncached).collect();
    let before = system.is_none().then(|| Surroundings::before(&inspections));
    let mut writer =
        CellWriter::new(on.writer, watch, &run.process.ranks, on.first_index, task.position);
    let mut cells = match schedule.carried_for(task, &plan)? {
        Some(carried) => drive_carried(&plan, carried, &run.process.stop, &mut writer)?,
        None => parallel_cells::drive(run, task, &plan, beside, schedule, &mut writer)?,
    };
    let hangs = cells.iter().any(|cell| cell.ended == Ended::Hung);
    match before {
        // Reading a hung target would block this thread, too.
        Some(before) if !hangs => {
            let after = Surroundings::after(&inspections);
            let companions = start.map(|start| start.companions(&inspections, &cells));
            let companions = companions.transpose()?.unwrap_or_default();
            after.judge(&before, &inspections, &mut cells, &companions);
        }
        Some(_) => {}
        None => {
            let states = schedule.states(task).into_iter().enumerate().skip(task.targets.start);
            for ((volume, state), done) in states.zip(&mut cells) {
                let is_skew_missing = |of: &Emulated| of.is_skew_missing(volume, &task.cell.spec);
                done.evidence.skew_missing =
                    task.place.is_none() && run.emulated.as_ref().is_some_and(is_skew_missing);
                done.facts.insert("state".to_owned(), state.clone());
                done.evidence.device_state = Some(state);
            }
        }
    }
    if let Some((live, _)) = &served {
        record_lateness(live, &mut cells);
    }
    if system.is_none() {
        // First note the trims of all simultaneous workloads: each may read what another trimmed.
        for ((target, load), done) in loads.iter().zip(&cells) {
            open_targets[*target].note_trims(&load.spec, done);
        }
    }
    for (index, (done, why)) in cells.iter_mut().zip(choices).enumerate() {
        let (target, load) = loads[index];
        let (open_target, spec) = (&mut open_targets[target], &load.spec);
        if system.is_none() {
            done.evidence.ram_bytes = ram_bytes();
            done.evidence.trimmed_bytes = open_target.trimmed_bytes;
            if let Some(before) = uncached[index].as_ref().filter(|_| !hangs) {
                before.record(done);
            }
            open_target.record_evidence(spec, &mut done.evidence);
            if spec.issues(OpKind::Read) && !hangs {
                open_target.sample(cell.seed, spec, &mut done.evidence);
            }
            done.facts.insert("engine.why".to_owned(), why);
            let file = match spec.new_file() {
                NewFile::Written => None,
                NewFile::Allocated => {
                    Some("its space was reserved, and never written, before the cell")
                }
                NewFile::Empty => {
                    Some("empty before the cell: writes allocate space and make it longer")
                }
            };
            done.facts.extend(file.map(|words| ("file".to_owned(), words.to_owned())));
            let pinned = run.request.processors.as_ref().map(ToString::to_string);
            done.facts.extend(pinned.map(|list| ("processors".to_owned(), list)));
        }
        let others =
            loads.iter().enumerate().filter(|(at, other)| *at != index && other.0 == target);
        done.evidence.beside = others.map(|(_, (_, load))| load.workload.clone()).collect();
        record_unverified(spec, done);
        record_replay(done);
        open_target.verified.note(done);
        if system.is_none() {
            open_target.note_writes(spec, done);
        }
    }
    let is_null = matches!(open_targets[0].medium, Medium::Null(_));
    Ok(judged(cells, calibration, is_null))
}

/// The generator's cost with this workload, in ns per operation, and its maximum IOPS. None on the null engine,
/// which measures it itself, and for emulated devices.
fn calibrated(
    run: &ResolvedRun,
    spec: &Spec,
    medium: &Medium,
    schedule: &mut Schedule<'_>,
    watch: &mut dyn Watch,
) -> Result<Option<(f64, f64)>, DriveError> {
    if run.emulated.is_some() || matches!(medium, Medium::Null(_)) {
        return Ok(None);
    }
    watch.phase(Phase::Calibrating);
    let capacity_bytes = medium.capacity_bytes();
    let measure = || calibrate(spec, run.request.seed, capacity_bytes, run.clock, CALIBRATION_NS);
    schedule.calibrated(spec, measure).map(Some)
}

/// Adds their verdicts to the cells.
fn judged(mut cells: Vec<Cell>, calibration: Option<(f64, f64)>, is_null: bool) -> Vec<Cell> {
    for done in &mut cells {
        if let Some((ns_per_io, ceiling_iops)) = calibration {
            done.evidence.generator_ns_per_io = Some(ns_per_io);
            done.evidence.generator_ceiling_iops = Some(ceiling_iops);
        } else if is_null && done.total().ops() > 0 {
            let ns = done.resources.cpu_seconds() * 1e9 / done.total().ops() as f64;
            done.evidence.generator_ns_per_io = Some(ns);
        }
        done.verdicts = judge(done);
    }
    cells
}

/// Records, for each volume, how late completions were compared with the model's times.
fn record_lateness(live: &Live<CompletionHandle>, cells: &mut [Cell]) {
    let counts = live.look(|_, _, counts| counts.to_vec());
    for (counts, cell) in counts.iter().zip(cells) {
        let lateness = &counts.lateness;
        cell.evidence.emulated_live = true;
        let share = |count: u64| Some(count as f64 / lateness.count().max(1) as f64);
        cell.evidence.late_share = share(counts.late);
        cell.evidence.late_away_share = share(counts.late_away);
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

/// Records the facts of a replay: which trace it issued.
fn record_replay(cell: &mut Cell) {
    let words = cell.evidence.trace.clone();
    cell.facts.extend(words.map(|words| ("trace".to_owned(), words)));
}

/// Adds an empty verification to the evidence if content was to be verified, but no read could be.
fn record_unverified(spec: &Spec, cell: &mut Cell) {
    let has_read = cell.total().class(OpKind::Read).is_some_and(|reads| reads.ops() > 0);
    if spec.content() == Content::Verifiable && has_read {
        cell.evidence.verification.get_or_insert_with(|| Verification {
            unit_bytes: spec.verify_unit_bytes(),
            ..Verification::default()
        });
    }
}

/// The record of a cell that can't be issued on its targets.
fn skipped(task: &Task, place: &Place, open_targets: &[OpenTarget], why: String) -> Cell {
    let evidence = Evidence { skipped: Some(why), ..Evidence::default() };
    let CellSpec { name, spec, .. } = &task.cell;
    let mut cell = record(name, &target_name(open_targets), place.clone(), evidence);
    cell.key.threads = spec.threads();
    cell.key.depth = spec.depth();
    cell.key.blocks = iodyno_drive::blocks(spec);
    cell
}
