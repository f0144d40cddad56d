//! The run itself, from request to outcome.

use crate::foreign_activity::{Surroundings, ram_bytes};
use crate::open_targets::{self, OpenTarget};
use crate::parallel_cells;
use crate::persist::{Books, CellWriter, keep_elsewhere};
use crate::plan::Plan;
use crate::prepare;
use crate::refuse;
use crate::request::{NotKept, Outcome, Request, RunError};
use crate::schedule::{Next, Schedule, Task};
use crate::verified;
use crate::watch::{Phase, Watch};
use iodyno_drive::engine::live::CompletionHandle;
use iodyno_drive::probe::{Load, default_engine};
use iodyno_drive::{
    CellPlan, EngineKind, Medium, Settle, TargetPlan, Walks, calibrate, drive_carried,
};
use iodyno_emulate::System;
use iodyno_live::served::Live;
use iodyno_measure::verdict::judge;
use iodyno_measure::{Cell, Ended, FAILURE_FACT, Level, Storage, Verification};
use iodyno_notebook::{
    self as notebook, Notebook, Run, RunHead, RunWriter, Status, TargetRecord, Timestamp,
    WorkloadRecord,
};
use iodyno_target::{BlockDevice, MachineFacts, SysRoot, health};
use iodyno_units::{OpKind, human};
use iodyno_workload::{ArrivalKind, Content, Spec};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How the name of the merged cell's target begins.
pub(crate) const ALL_TARGETS: &str = "all";
/// What a target's state after a run calls its [`WritesSeen`](iodyno_target::WritesSeen).
pub const WRITES_SEEN: &str = "writes_seen";
/// Length of the calibration on the null engine, ns.
const CALIBRATION_NS: u64 = 100_000_000;

/// When a method's cell in virtual time is known well enough: rate and mean latency to 1 %, with so many
/// operations.
fn settle(ops_min: u64) -> Settle {
    Settle {
        half_width_share_max: 0.01,
        time_min_ns: 200_000_000,
        batches_min: Settle::BATCHES,
        ops_min,
    }
}

/// Makes a run. What was measured before an error is in the notebook, with the error as reason.
pub fn execute(request: &Request, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    refuse::impossible(request)?;
    let mut open_targets = open_targets::set(request)?;
    refuse::misfits(request, &open_targets)?;
    let inspections: Vec<_> = open_targets.iter().map(|p| p.inspection.clone()).collect();
    let health: Vec<_> = open_targets.iter().map(|p| p.health.clone()).collect();
    let capacities: Vec<u64> = open_targets.iter().map(|p| p.medium.capacity_bytes()).collect();
    let lay_out_bytes = open_targets::lay_out_bytes(&open_targets);
    let plan = Plan::new(request, &inspections, &health, &capacities, &lay_out_bytes);
    refuse::too_many_cells(request, &plan, open_targets.len(), watch)?;
    watch.planned(&plan);

    let head = head(request, &open_targets, &plan);
    // Before anything is written: a run that can't be kept would be in vain.
    let notebook = request.notebook.as_deref().map(Notebook::open).transpose()?;
    let resume = request.method.as_ref().and_then(|m| m.resume.as_ref());
    let writer = match (&notebook, resume) {
        (Some(notebook), Some(resume)) => Some(notebook.resume(&resume.id, resume.cells.len())?),
        (Some(notebook), None) => Some(notebook.begin(&head)?),
        (None, _) => None,
    };
    let started = Timestamp::now();
    let id = writer.as_ref().map_or_else(String::new, |writer| writer.id().to_owned());
    let mut books = Books::new(writer, resume.map_or(&[], |r| r.cells.as_slice()));
    let mut did = Did::default();
    verified::begin(request, &mut open_targets, notebook.as_ref(), started)?;
    let result = open_targets::lay_all_out(request, &mut open_targets, watch)
        .and_then(|()| verified::announce(request, &mut open_targets, notebook.as_ref()))
        .and_then(|()| {
            run_cells(request, &mut open_targets, (&mut books, notebook.as_ref()), watch, &mut did)
        });
    // A target that hangs is not touched again: no last flush.
    if did.ended != Ended::Hung
        && let Err(e) = verified::keep(request, &open_targets, notebook.as_ref())
    {
        // The notebook still says that this run began to write: nothing wrong follows from it.
        watch.advise(&format!("what was written is not kept for later verification: {e}"));
    }

    let cut_short = matches!(result, Ok(Ran::CutShort) | Err(RunError::Interrupted));
    let interrupted = cut_short || did.ended == Ended::Interrupted;
    let too_many_errors = matches!(did.ended, Ended::Errors | Ended::Hung);
    let ending = match &result {
        _ if interrupted => notebook::Outcome::Interrupted,
        Err(e) => notebook::Outcome::Failed(e.to_string()),
        Ok(_) if did.ended == Ended::Hung => {
            notebook::Outcome::Failed("the target stopped answering".to_owned())
        }
        Ok(_) if too_many_errors => notebook::Outcome::Failed(
            did.failure.unwrap_or_else(|| "too many operations failed".to_owned()),
        ),
        Ok(_) => notebook::Outcome::Finished,
    };
    // A device that hangs would hang whoever asks it how it is.
    let hangs = did.ended == Ended::Hung;
    let health_after: Vec<Option<Value>> = open_targets
        .iter()
        .map(|open_target| if hangs { None } else { condition_after(open_target) })
        .collect();
    let (cells, kept) = books.finish(&ending, &health_after, watch);
    let (run, not_kept) = match kept {
        Ok(()) => {
            result?;
            let measured = unkept(head, started, &ending, health_after, cells);
            let run = match &notebook {
                Some(notebook) => read_back(notebook, &id, measured, watch),
                None => measured,
            };
            (run, None)
        }
        Err(why) => {
            // What was measured is shown all the same, also where something else failed too.
            if cells.is_empty() {
                result?;
                return Err(why.into());
            }
            let mut run = unkept(head, started, &ending, health_after, cells);
            let instead = keep_elsewhere(&mut run, &id, request.notebook.as_deref());
            (run, Some(NotKept { why, instead }))
        }
    };
    if hangs {
        // Closing a file may wait for what hangs. The process ends soon, and the kernel closes all.
        std::mem::forget(open_targets);
    }
    Ok(Outcome { run, interrupted, too_many_errors, not_kept })
}

fn head(request: &Request, open_targets: &[OpenTarget], plan: &Plan) -> RunHead {
    let json = |v: Result<Value, serde_json::Error>| v.unwrap_or(Value::Null);
    RunHead {
        name: request.name.clone(),
        command: request.command.clone(),
        iodyno_version: request.version.clone(),
        seed: request.seed,
        machine: json(serde_json::to_value(MachineFacts::gather())),
        targets: open_targets
            .iter()
            .map(|p| TargetRecord {
                name: p.name.clone(),
                facts: p.facts(),
                health_before: condition(p),
                health_after: None,
            })
            .collect(),
        workloads: request
            .cells
            .iter()
            .map(|c| WorkloadRecord {
                name: c.name.clone(),
                // Its canonical TOML, as an object.
                spec: toml::from_str(&c.spec.to_toml()).unwrap_or(Value::Null),
            })
            .collect(),
        plan: with_method(request, json(serde_json::to_value(plan))),
    }
}

/// The plan with the method that it is of: all that is needed to take the run up, and to judge it again.
fn with_method(request: &Request, mut plan: Value) -> Value {
    if let (Some(of), Value::Object(plan)) = (&request.method, &mut plan) {
        let source = serde_json::to_value(&of.method.source).unwrap_or(Value::Null);
        plan.insert("method".to_owned(), source);
        plan.insert("each".to_owned(), Value::Bool(of.each));
        plan.insert("folder".to_owned(), Value::String(of.folder.clone()));
    }
    plan
}

/// The device's own log, its temperature and its link, as they are now: kept before and after, so
/// that wear, heat and a link that fell back can be seen. None where nothing of it can be read.
fn condition(open_target: &OpenTarget) -> Option<Value> {
    let device = open_target.inspection.physical.first()?;
    let device = BlockDevice::read(&SysRoot::real(), device.dev)?;
    let log = health(&device).ok();
    if log.is_none() && device.temperature_c.is_none() && device.pcie.is_none() {
        return None;
    }
    Some(serde_json::json!({
        "device": device.kernel_name,
        "log": log,
        "temperature_c": device.temperature_c,
        "pcie_link": device.pcie,
    }))
}

/// The same after the run, with what tells a later run whether anybody wrote since.
fn condition_after(open_target: &OpenTarget) -> Option<Value> {
    let condition = condition(open_target);
    let Some(seen) = open_target.writes_seen() else { return condition };
    let mut condition = condition.unwrap_or_else(|| serde_json::json!({}));
    condition[WRITES_SEEN] = serde_json::to_value(seen).unwrap_or(Value::Null);
    Some(condition)
}

/// A run that nobody keeps, in the form of one that was kept.
fn unkept(
    mut head: RunHead,
    started: Timestamp,
    ending: &notebook::Outcome,
    health_after: Vec<Option<Value>>,
    cells: Vec<Cell>,
) -> Run {
    for (target, after) in head.targets.iter_mut().zip(health_after) {
        target.health_after = after;
    }
    let status = match ending {
        notebook::Outcome::Finished => Status::Finished,
        notebook::Outcome::Interrupted => Status::Interrupted,
        notebook::Outcome::Failed(why) => Status::Failed(why.clone()),
    };
    Run {
        id: String::new(),
        started,
        ended: Some(Timestamp::now()),
        status,
        head,
        cells,
        notebook: std::path::PathBuf::new(),
    }
}

/// The run as the notebook has it. Where the notebook took all of it and can't read it, what this process still
/// has of it: its series are coarser.
fn read_back(notebook: &Notebook, id: &str, measured: Run, watch: &mut dyn Watch) -> Run {
    notebook.load(id).unwrap_or_else(|why| {
        watch.warn(&format!(
            "the notebook took all of run {id} and could not read it back: {why}; what is shown comes from memory"
        ));
        Run { id: id.to_owned(), notebook: notebook.path().to_owned(), ..measured }
    })
}

/// How far a run came.
enum Ran {
    /// As far as its cells say.
    AllCells,
    /// A signal came between two cells, so that no cell tells of it.
    CutShort,
}

/// What a run did so far.
#[derive(Default)]
struct Did {
    /// The gravest end of a cell.
    ended: Ended,
    /// What made an engine fail.
    failure: Option<String>,
}

fn run_cells(
    request: &Request,
    open_targets: &mut [OpenTarget],
    (books, notebook): (&mut Books, Option<&Notebook>),
    watch: &mut dyn Watch,
    did: &mut Did,
) -> Result<Ran, RunError> {
    let mut schedule = Schedule::new(request, open_targets.len());
    if let Some(resume) = request.method.as_ref().and_then(|m| m.resume.as_ref()) {
        prepare::catch_up(request, open_targets, &mut schedule, &resume.cells, watch)?;
    }
    loop {
        let next = schedule.next()?;
        if request.stop.load(Ordering::Relaxed) && !matches!(next, Next::Finished) {
            return if books.count() == 0 { Err(RunError::Interrupted) } else { Ok(Ran::CutShort) };
        }
        let (done, then_wait_ns) = match next {
            Next::Finished => return Ok(Ran::AllCells),
            Next::Prepare { place, how, targets } => {
                let first_index = books.count();
                let writer = books.writer();
                let on =
                    prepare::On { request, open_targets, targets, writer, first_index, notebook };
                (prepare::prepare(on, place, how, &mut schedule, watch)?, 0)
            }
            Next::Measure(task) => {
                let (first_index, wait_ns) = (books.count(), task.then_wait_ns);
                let writer = books.writer();
                let done = run_cell(
                    request,
                    &task,
                    open_targets,
                    &mut schedule,
                    writer,
                    watch,
                    first_index,
                );
                (done?, wait_ns)
            }
        };
        for cell in &done {
            if matches!(cell.ended, Ended::Interrupted | Ended::Errors | Ended::Hung)
                && did.ended != Ended::Hung
            {
                did.ended = cell.ended;
            }
            if let Some(why) = cell.facts.get(FAILURE_FACT) {
                did.failure.get_or_insert_with(|| why.clone());
            }
        }
        schedule.note(&done);
        books.finish_cells(done, watch);
        if matches!(did.ended, Ended::Interrupted | Ended::Errors | Ended::Hung) {
            return Ok(Ran::AllCells);
        }
        if then_wait_ns > 0 {
            prepare::wait(request, &mut schedule, then_wait_ns, watch);
        }
    }
}

/// Measures one cell; gives that of each target, and the merged one where there are several. A cell that
/// does not fit its targets gives a record that says so.
pub(crate) fn run_cell(
    request: &Request,
    task: &Task,
    all_props: &mut [OpenTarget],
    schedule: &mut Schedule<'_>,
    writer: Option<&mut RunWriter>,
    watch: &mut dyn Watch,
    first_index: usize,
) -> Result<Vec<Cell>, RunError> {
    let beside = parallel_cells::beside(request, task, all_props, schedule)?;
    let open_targets = &mut all_props[task.targets.clone()];
    let spec = &task.spec;
    if let Some(place) = &task.place
        && let Some(why) = refuse::misfit(request, spec, open_targets)
    {
        return Ok(vec![prepare::skipped(task, place, open_targets, why)]);
    }
    let emulated = request.emulated.as_ref();
    let system = match emulated {
        Some(emulated) => Some(schedule.system(emulated, task)?),
        None => None,
    };
    let served = match (&system, emulated) {
        (Some(system), Some(emulated)) if emulated.live => {
            watch.phase(Phase::Preparing);
            let served = crate::Emulated::served(system, spec, task.seed);
            Some(served.map_err(RunError::Impossible)?)
        }
        _ => None,
    };
    if emulated.is_none() {
        for open_target in &mut *open_targets {
            verified::ready(request, task, open_target);
        }
    }
    let media = served.as_ref().map(|(_, media)| media.as_slice());
    let (targets, choices) = targets_of(request, task, open_targets, system.as_ref(), media);
    let is_null = matches!(open_targets[0].medium, Medium::Null(_));
    let calibration = if is_null {
        None
    } else if emulated.is_some() {
        watch.phase(Phase::Preparing);
        None
    } else {
        watch.phase(Phase::Calibrating);
        let capacity = open_targets[0].medium.capacity_bytes();
        Some(schedule.calibrated(spec, || {
            calibrate(spec, request.seed, capacity, request.clock, CALIBRATION_NS)
        })?)
    };

    let walks = schedule.walks(task);
    let plan = cell_plan(request, task, targets, walks.as_deref());
    let inspections: Vec<_> = open_targets.iter().map(|p| p.inspection.clone()).collect();
    let before = emulated.is_none().then(|| Surroundings::before(&inspections));
    let mut keeper = CellWriter::new(writer, watch, first_index, task.position);
    let mut cells = match schedule.carried_for(task, &plan)? {
        Some(carried) => drive_carried(&plan, carried, &request.stop, &mut keeper)?,
        None => parallel_cells::drive(request, task, &plan, beside, schedule, &mut keeper)?,
    };
    let hangs = cells.iter().any(|cell| cell.ended == Ended::Hung);
    if let Some(before) = before {
        // A target that hangs would hang this thread too.
        if !hangs {
            Surroundings::after(&inspections).judge(&before, &inspections, &mut cells);
        }
        for (open_target, done) in open_targets.iter().zip(&mut cells) {
            done.evidence.ram_bytes = ram_bytes();
            open_target.record_evidence(spec, done);
            if spec.issues(OpKind::Read) && !hangs {
                open_target.sample(task.seed, spec, &mut done.evidence);
            }
        }
    }
    if let Some((live, _)) = &served {
        late(live, &mut cells);
    }
    if emulated.is_some() {
        let states = schedule.states(task);
        for (state, done) in states.into_iter().skip(task.targets.start).zip(&mut cells) {
            done.facts.insert("state".to_owned(), state);
        }
    }

    for done in &mut cells {
        verified_nothing(spec, done);
    }
    for ((open_target, done), why) in open_targets.iter_mut().zip(&mut cells).zip(choices) {
        if emulated.is_none() {
            done.facts.insert("engine.why".to_owned(), why);
        }
        open_target.verified.note(done);
    }
    if cells.len() > 1 {
        cells.push(all_targets(&cells));
    }
    for done in &mut cells {
        if let Some((ns_per_io, ceiling_iops)) = calibration {
            done.evidence.generator_ns_per_io = Some(ns_per_io);
            done.evidence.generator_ceiling_iops = Some(ceiling_iops);
        } else if is_null && done.total().ops() > 0 {
            let ns = done.resources.cpu_seconds() * 1e9 / done.total().ops() as f64;
            done.evidence.generator_ns_per_io = Some(ns);
        }
        done.verdicts = judge(done);
        if done.key.target.starts_with(ALL_TARGETS) {
            // What is remarkable about one target is said there.
            let kept = ["RATE_MET", "EMULATED"];
            done.verdicts.retain(|v| v.level != Level::Note || kept.contains(&v.code.as_str()));
        }
    }
    Ok(cells)
}

/// What a cell is asked to be.
pub(crate) fn cell_plan<'a>(
    request: &Request,
    task: &'a Task,
    targets: Vec<TargetPlan>,
    walks: Option<&'a Walks>,
) -> CellPlan<'a> {
    let is_virtual = request.emulated.as_ref().is_some_and(|e| !e.live);
    let asked_ns = request.interval_ns;
    CellPlan {
        name: task.name.clone(),
        workload: task.workload.clone(),
        spec: &task.spec,
        seed: task.seed,
        repeat: task.repeat,
        targets,
        interval_ns: asked_ns.unwrap_or_else(|| interval_ns(task.spec.limits().time_ns)),
        place: task.place.clone(),
        errors_max: request.errors_max,
        fill_passes: task.fill_passes,
        clock: request.clock,
        options: request.options,
        settle: task.settle_ops.filter(|_| is_virtual).map(settle),
        walks,
    }
}

/// A cell's targets as it is to drive them, and why each has its engine: volumes of an emulated system, or of one
/// that is served (`media`), or what is open.
pub(crate) fn targets_of(
    request: &Request,
    task: &Task,
    open_targets: &[OpenTarget],
    system: Option<&Arc<System>>,
    media: Option<&[Medium]>,
) -> (Vec<TargetPlan>, Vec<String>) {
    let one = |(volume, open_target): (u32, &OpenTarget)| {
        let medium = match (media, system) {
            (Some(media), _) => media[volume as usize].clone(),
            (None, Some(system)) => Medium::Model { system: Arc::clone(system), volume },
            (None, None) => open_target.medium.clone(),
        };
        let (engine, why) = engine_for(request, task, &medium, open_target.align_bytes);
        let target = TargetPlan {
            name: open_target.name.clone(),
            align_bytes: open_target.align_bytes,
            engine,
            verify: match media {
                // Each cell has a machine of its own, with nothing on it.
                Some(_) => verified::fresh(&task.spec, medium.capacity_bytes()),
                None => open_target
                    .verified
                    .map
                    .clone()
                    .filter(|_| task.spec.content() == Content::Verifiable),
            },
            medium,
        };
        (target, why)
    };
    (task.targets.start as u32..).zip(open_targets).map(one).unzip()
}

/// How near the model's times completions came, of each volume.
fn late(live: &Live<CompletionHandle>, cells: &mut [Cell]) {
    let counts = live.look(|_, _, counts| counts.to_vec());
    for (counts, cell) in counts.iter().zip(cells) {
        let lateness = &counts.lateness;
        cell.evidence.emulated_live = true;
        let share = |count: u64| Some(count as f64 / lateness.count().max(1) as f64);
        cell.evidence.late_share = share(counts.late);
        cell.evidence.late_away_share = share(counts.late_away);
        let told = [("p50", 0.5), ("p99", 0.99)].into_iter().filter_map(|(name, q)| {
            let ns = lateness.supported_quantile_ns(q)?;
            Some(format!("{name} {}", human::time_ns(ns as f64)))
        });
        let told = told.collect::<Vec<_>>().join(", ");
        if !told.is_empty() {
            cell.facts.insert("late".to_owned(), format!("{told} after the model"));
        }
    }
}

/// The engine for one target, and why it is this one.
fn engine_for(
    request: &Request,
    cell: &Task,
    medium: &Medium,
    align_bytes: u32,
) -> (EngineKind, String) {
    let block_bytes = cell.spec.align_bytes().max(align_bytes);
    // An open loop wants a queue, whatever its cap is.
    let open = matches!(cell.spec.arrivals(), ArrivalKind::Open { .. });
    let depth = if open { cell.spec.depth().max(2) } else { cell.spec.depth() };
    if let Some(asked) = request.engine {
        return (asked, "asked for".to_owned());
    }
    // An open loop keeps its queue short where the target sustains the rate.
    let outstanding = if open { 1 } else { depth.saturating_mul(cell.spec.threads()) };
    let writes = cell.spec.issues(OpKind::Write);
    let range = iodyno_drive::active_range(&cell.spec, medium.capacity_bytes());
    default_engine(medium, Load { depth, outstanding, block_bytes, range, writes })
}

/// The cells of all targets as one.
fn all_targets(cells: &[Cell]) -> Cell {
    let mut all = cells[0].clone();
    for cell in &cells[1..] {
        all.merge(cell);
        if cell.key.engine != all.key.engine {
            "several".clone_into(&mut all.key.engine);
        }
        let (sum, one) = (&mut all.evidence, &cell.evidence);
        sum.in_process &= one.in_process;
        sum.virtual_time |= one.virtual_time;
        sum.emulated_live |= one.emulated_live;
        // The worst of them.
        if one.late_share > sum.late_share {
            (sum.late_share, sum.late_away_share) = (one.late_share, one.late_away_share);
        }
        sum.direct = match (sum.direct, one.direct) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (a, b) => a.or(b),
        };
        sum.why_not_direct = sum.why_not_direct.take().or_else(|| one.why_not_direct.clone());
        sum.active_bytes += one.active_bytes;
        if sum.active_start_bytes != one.active_start_bytes {
            sum.active_start_bytes = None;
        }
        match (&mut sum.storage, &one.storage) {
            (Some(sum), Some(one)) => sum.add(one),
            (None, Some(one)) => sum.storage = Some(Storage { reached: None, ..one.clone() }),
            // Memory of this process beside it: what is counted is not all of it.
            (Some(sum), None) => sum.reached = None,
            (None, None) => {}
        }
        // Those of one device are not those of another: each target's cell tells its own.
        sum.conditions = None;
        sum.written_share = match (sum.written_share, one.written_share) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        sum.fill = match (sum.fill, one.fill) {
            (Some(a), Some(b)) => Some(a.with(&b)),
            (a, b) => a.or(b),
        };
        sum.blocks_sampled += one.blocks_sampled;
        sum.blocks_zero += one.blocks_zero;
        sum.kernel_workers = sum.kernel_workers.max(one.kernel_workers);
        sum.kernel_workers_cpu_ns = sum.kernel_workers_cpu_ns.max(one.kernel_workers_cpu_ns);
        sum.foreign_share = match (sum.foreign_share, one.foreign_share) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        if let Some(hung) = &one.hung {
            sum.hung.get_or_insert_default().add(hung);
        }
        sum.recent_misses += one.recent_misses;
        sum.overlaps_skipped += one.overlaps_skipped;
        sum.first_corruption = sum.first_corruption.take().or_else(|| one.first_corruption.clone());
        if let Some(theirs) = &one.verification {
            sum.verification.get_or_insert_default().merge(theirs);
        }
        sum.add_usage(one);
        if !matches!(cell.ended, Ended::Time | Ended::Settled) && all.ended != Ended::Hung {
            all.ended = cell.ended;
        }
        if let Some(why) = cell.facts.get(FAILURE_FACT) {
            all.facts.entry(FAILURE_FACT.to_owned()).or_insert_with(|| why.clone());
        }
    }
    // What is so on one target alone is said in its own cell.
    all.facts.retain(|key, value| {
        key == FAILURE_FACT || cells.iter().all(|c| c.facts.get(key) == Some(value))
    });
    all.key.target = format!("{ALL_TARGETS} ({} targets)", cells.len());
    all.key.offered_iops = all.key.offered_iops.map(|iops| iops * cells.len() as f64);
    all
}

/// Where content was to be verified, and none of the reads could be, the evidence says so by a verification
/// of nothing.
fn verified_nothing(spec: &Spec, cell: &mut Cell) {
    let has_read = cell.total().class(OpKind::Read).is_some_and(|reads| reads.ops() > 0);
    if spec.content() == Content::Verifiable && has_read {
        cell.evidence.verification.get_or_insert_with(|| Verification {
            unit_bytes: spec.verify_unit_bytes(),
            ..Verification::default()
        });
    }
}

/// An interval that gives a series worth looking at, and no more than some thousand points.
fn interval_ns(time_ns: Option<u64>) -> u64 {
    match time_ns.unwrap_or(60_000_000_000) / 1_000_000_000 {
        0..=30 => 100_000_000,
        31..=300 => 500_000_000,
        301..=7200 => 1_000_000_000,
        7201..=86_400 => 10_000_000_000,
        _ => 60_000_000_000,
    }
}
