//! Runs a cell on real targets or on this process's memory. Records the conditions of the machine before and after the
//! cell, calibrates the load generator, and collects facts that only real targets have, such as I/O by other programs.

use super::{Load, loads, planned, record_evidence};
use crate::foreign_activity::{Surroundings, ram_bytes};
use crate::open_targets::OpenTarget;
use crate::outcome::RunError;
use crate::over_ranks::StartOverRanks;
use crate::page_cache;
use crate::persist::CellWriter;
use crate::resolved_run::ResolvedRun;
use crate::schedule::{Schedule, Task};
use crate::step_context::StepContext;
use crate::verified;
use crate::watch::{Phase, Watch};
use iodyno_drive::{DriveError, EngineKind, Medium, calibrate, drive_cell};
use iodyno_measure::{Cell, Ended};
use iodyno_units::OpKind;
use iodyno_workload::{NewFile, Spec};
use std::sync::Arc;

/// Duration of the load generator's calibration on the null engine, ns.
const CALIBRATION_NS: u64 = 100_000_000;

/// Overhead of the load generator itself, measured by running the workload on the null engine.
#[derive(Clone, Copy)]
struct Calibration {
    ns_per_io: f64,
    ceiling_iops: f64,
}

/// Measures a cell on real targets.
pub(super) fn measure(
    mut on: StepContext<'_, '_>,
    task: &Task,
    start: Option<&Arc<StartOverRanks>>,
) -> Result<Vec<Cell>, RunError> {
    let media = ready(&mut on, task)?;
    let medium = media[0].clone();
    let (plan, choices) = planned(&mut on, task, start, media)?;
    let StepContext { run, open_targets, schedule, writer, first_index, watch, .. } = on;
    let open_targets = &mut open_targets[task.targets.clone()];
    let calibration = calibrated(run, &task.cell.spec, &medium, schedule, watch)?;

    let loads = loads(&plan);
    let inspections: Vec<_> =
        loads.iter().map(|load| open_targets[load.target].inspection.clone()).collect();
    let uncached: Vec<_> = loads
        .iter()
        .map(|Load { target, cell }| {
            let open_target = &open_targets[*target];
            if let Some(what) = cell.drop_cache {
                page_cache::drop_range(open_target, &cell.spec, what);
            }
            page_cache::Before::drop_range(open_target, &cell.spec)
        })
        .collect();
    let before = Surroundings::before(&inspections);
    let ranks = &run.process.ranks;
    let mut writer = CellWriter::new(writer, watch, ranks, first_index, task.position);
    let mut cells = drive_cell(&plan, &run.process.stop, &mut writer)?;
    let hangs = cells.iter().any(|cell| cell.ended == Ended::Hung);
    // Reading a hung target would block this thread, too.
    if !hangs {
        let after = Surroundings::after(&inspections);
        let companions = start.map(|start| start.companions(&inspections, &cells));
        let companions = companions.transpose()?.unwrap_or_default();
        after.judge(&before, &inspections, &mut cells, &companions);
    }
    // First note the trims of all simultaneous workloads: each may read what another trimmed.
    for (Load { target, cell }, done) in loads.iter().zip(&cells) {
        open_targets[*target].note_trims(&cell.spec, done);
    }
    for (index, (done, why)) in cells.iter_mut().zip(choices).enumerate() {
        let Load { target, cell } = loads[index];
        let open_target = &mut open_targets[target];
        done.evidence.ram_bytes = ram_bytes();
        done.evidence.trimmed_bytes = open_target.trimmed_bytes;
        if let Some(before) = uncached[index].as_ref().filter(|_| !hangs) {
            before.record(done);
        }
        open_target.record_evidence(&cell.spec, &mut done.evidence);
        if cell.spec.issues(OpKind::Read) && !hangs {
            open_target.sample(task.cell.seed, &cell.spec, &mut done.evidence);
        }
        record_facts(run, &cell.spec, why, done);
        record_evidence(&loads, index, open_target, done);
        open_target.note_writes(&cell.spec, done);
        record_generator(calibration, medium.engine(), done);
    }
    Ok(cells)
}

/// Re-creates files and verification maps of the targets before a cell, and returns the targets' media.
fn ready(on: &mut StepContext<'_, '_>, task: &Task) -> Result<Vec<Medium>, RunError> {
    let open_targets = &mut on.open_targets[task.targets.clone()];
    for (number, open_target) in task.targets.clone().zip(&mut *open_targets) {
        // The first workload speaks for all on its target.
        let mut own = core::iter::once(&task.cell).chain(&task.cell.beside);
        if let Some(load) = own.find(|load| load.is_on(number)) {
            open_target.renew(&load.spec)?;
            verified::ready(on.run, load, open_target);
        }
    }
    Ok(open_targets.iter().map(|open_target: &OpenTarget| open_target.medium.clone()).collect())
}

/// Calibrates the load generator with this workload. None on the null engine, which measures the generator
/// itself.
fn calibrated(
    run: &ResolvedRun,
    spec: &Spec,
    medium: &Medium,
    schedule: &mut Schedule<'_>,
    watch: &mut dyn Watch,
) -> Result<Option<Calibration>, DriveError> {
    if medium.engine() == EngineKind::Null {
        return Ok(None);
    }
    watch.phase(Phase::Calibrating);
    let capacity_bytes = medium.capacity_bytes();
    let measure = || calibrate(spec, run.request.seed, capacity_bytes, run.clock, CALIBRATION_NS);
    let (ns_per_io, ceiling_iops) = schedule.calibrated(spec, measure)?;
    Ok(Some(Calibration { ns_per_io, ceiling_iops }))
}

/// Records the load generator's overhead, from the calibration or from the null engine's own results.
fn record_generator(calibration: Option<Calibration>, engine: EngineKind, done: &mut Cell) {
    if let Some(Calibration { ns_per_io, ceiling_iops }) = calibration {
        done.evidence.generator_ns_per_io = Some(ns_per_io);
        done.evidence.generator_ceiling_iops = Some(ceiling_iops);
    } else if engine == EngineKind::Null && done.total().ops() > 0 {
        let ns = done.resources.cpu_seconds() * 1e9 / done.total().ops() as f64;
        done.evidence.generator_ns_per_io = Some(ns);
    }
}

/// Records the engine, the file's properties and the processors of a cell on a real target.
fn record_facts(run: &ResolvedRun, spec: &Spec, why: String, done: &mut Cell) {
    done.facts.insert("engine.why".to_owned(), why);
    let file = match spec.new_file() {
        NewFile::Written => None,
        NewFile::Allocated => {
            Some("before the cell, the file's space was reserved but never written")
        }
        NewFile::Empty => Some("empty before the cell: writes allocate space and extend the file"),
    };
    done.facts.extend(file.map(|words| ("file".to_owned(), words.to_owned())));
    let pinned = run.request.processors.as_ref().map(ToString::to_string);
    done.facts.extend(pinned.map(|list| ("processors".to_owned(), list)));
}
