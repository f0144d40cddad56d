//! The run itself, from request to outcome.

use crate::keeper::Keeper;
use crate::plan::Plan;
use crate::refuse;
use crate::request::{CellRequest, Outcome, Phase, Request, RunError, Watch};
use crate::stage::{self, Prop};
use crate::surroundings::{Surroundings, ram_bytes};
use iodyno_drive::engine::live::Slip;
use iodyno_drive::probe::default_engine;
use iodyno_drive::{CellPlan, EngineKind, Medium, TargetPlan, calibrate, drive_cell};
use iodyno_live::served::Live;
use iodyno_measure::verdict::judge;
use iodyno_measure::{Cell, Ended, FAILURE_FACT, Level};
use iodyno_notebook::{
    self as notebook, Notebook, Run, RunHead, RunWriter, Status, TargetRecord, Timestamp,
    WorkloadRecord,
};
use iodyno_target::{BlockDevice, MachineFacts, SysRoot, health};
use iodyno_units::{OpKind, human};
use iodyno_workload::ArrivalKind;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How the name of the merged cell's target begins.
const ALL_TARGETS: &str = "all";
/// Length of the calibration on the null engine, ns.
const CALIBRATION_NS: u64 = 100_000_000;

/// Makes a run. What was measured before an error is in the notebook, with the error as reason.
pub fn execute(request: &Request, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    refuse::impossible(request)?;
    let mut props = stage::set(request)?;
    refuse::misfits(request, &props)?;
    let inspections: Vec<_> = props.iter().map(|p| p.inspection.clone()).collect();
    let health: Vec<_> = props.iter().map(|p| p.health.clone()).collect();
    let plan = Plan::new(request, &inspections, &health, stage::lay_out_bytes(&props));
    watch.planned(&plan);

    let head = head(request, &props, &plan);
    // Before anything is written: a run that can't be kept would be in vain.
    let notebook = request.notebook.as_deref().map(Notebook::open).transpose()?;
    let mut writer = notebook.as_ref().map(|n| n.begin(&head)).transpose()?;
    let started = Timestamp::now();
    let mut cells = Vec::new();
    let result = stage::lay_all_out(request, &mut props, watch)
        .and_then(|()| run_cells(request, &mut props, writer.as_mut(), watch, &mut cells));

    let cut_short = matches!(result, Ok(Ran::CutShort) | Err(RunError::Interrupted));
    let interrupted = cut_short || cells.iter().any(|c| c.ended == Ended::Interrupted);
    let too_many_errors = cells.iter().any(|c| c.ended == Ended::Errors);
    let ending = match &result {
        _ if interrupted => notebook::Outcome::Interrupted,
        Err(e) => notebook::Outcome::Failed(e.to_string()),
        Ok(_) if too_many_errors => {
            let why = cells.iter().find_map(|c| c.facts.get(FAILURE_FACT));
            notebook::Outcome::Failed(
                why.map_or("too many operations failed", String::as_str).to_owned(),
            )
        }
        Ok(_) => notebook::Outcome::Finished,
    };
    let health_after: Vec<Option<Value>> = props.iter().map(condition).collect();
    let run = if let (Some(notebook), Some(writer)) = (notebook, writer) {
        let id = writer.id().to_owned();
        writer.finish(&ending, &health_after)?;
        result?;
        notebook.load(&id)?
    } else {
        result?;
        unkept(head, started, &ending, health_after, cells)
    };
    Ok(Outcome { run, interrupted, too_many_errors })
}

fn head(request: &Request, props: &[Prop], plan: &Plan) -> RunHead {
    let json = |v: Result<Value, serde_json::Error>| v.unwrap_or(Value::Null);
    RunHead {
        name: request.name.clone(),
        command: request.command.clone(),
        iodyno_version: request.version.clone(),
        seed: request.seed,
        machine: json(serde_json::to_value(MachineFacts::gather())),
        targets: props
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
        plan: json(serde_json::to_value(plan)),
    }
}

/// The device's own log, its temperature and its link, as they are now: kept before and after, so
/// that wear, heat and a link that fell back can be seen. None where nothing of it can be read.
fn condition(prop: &Prop) -> Option<Value> {
    let device = prop.inspection.physical.first()?;
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

/// How far a run came.
enum Ran {
    /// As far as its cells say.
    AllCells,
    /// A signal came between two cells, so that no cell tells of it.
    CutShort,
}

fn run_cells(
    request: &Request,
    props: &mut [Prop],
    mut writer: Option<&mut RunWriter>,
    watch: &mut dyn Watch,
    cells: &mut Vec<Cell>,
) -> Result<Ran, RunError> {
    for (position, cell) in request.cells.iter().enumerate() {
        if request.stop.load(Ordering::Relaxed) {
            return if cells.is_empty() { Err(RunError::Interrupted) } else { Ok(Ran::CutShort) };
        }
        let done =
            run_cell(request, cell, position, props, writer.as_deref_mut(), watch, cells.len())?;
        let stopped = done.iter().any(|c| matches!(c.ended, Ended::Interrupted | Ended::Errors));
        if let Some(writer) = writer.as_deref_mut() {
            for (i, cell) in done.iter().enumerate() {
                writer.finish_cell(cells.len() + i, cell)?;
            }
        }
        cells.extend(done);
        if stopped {
            break;
        }
    }
    Ok(Ran::AllCells)
}

fn run_cell(
    request: &Request,
    cell: &CellRequest,
    position: usize,
    props: &mut [Prop],
    writer: Option<&mut RunWriter>,
    watch: &mut dyn Watch,
    first_index: usize,
) -> Result<Vec<Cell>, RunError> {
    let spec = &cell.spec;
    let mut targets = Vec::new();
    let mut choices = Vec::new();
    let emulated = request.emulated.as_ref();
    let system = emulated.map(|emulated| emulated.before(spec));
    let served = match (&system, emulated) {
        (Some(system), Some(emulated)) if emulated.live => {
            watch.phase(Phase::Preparing);
            let served = crate::Emulated::served(system, spec, request.seed);
            Some(served.map_err(RunError::Impossible)?)
        }
        _ => None,
    };
    for (volume, prop) in (0..).zip(props.iter()) {
        let medium = match (&served, &system) {
            (Some((_, media)), _) => media[volume as usize].clone(),
            (None, Some(system)) => Medium::Model { system: Arc::clone(system), volume },
            (None, None) => prop.medium.clone(),
        };
        let (engine, why) = engine_for(request, cell, &medium, prop.align_bytes);
        choices.push(why);
        targets.push(TargetPlan {
            name: prop.name.clone(),
            medium,
            align_bytes: prop.align_bytes,
            engine,
            laid_out_verifiable: prop.laid_out_verifiable,
        });
    }
    let is_null = matches!(props[0].medium, Medium::Null(_));
    let calibration = if is_null {
        None
    } else if emulated.is_some() {
        watch.phase(Phase::Preparing);
        None
    } else {
        watch.phase(Phase::Calibrating);
        let capacity = props[0].medium.capacity_bytes();
        Some(calibrate(spec, request.seed, capacity, request.clock, CALIBRATION_NS)?)
    };

    let plan = CellPlan {
        name: cell.name.clone(),
        workload: cell.name.clone(),
        spec,
        seed: request.seed,
        targets,
        interval_ns: request.interval_ns.unwrap_or_else(|| interval_ns(spec.limits().time_ns)),
        errors_max: request.errors_max,
        clock: request.clock,
        options: request.options,
    };
    let inspections: Vec<_> = props.iter().map(|p| p.inspection.clone()).collect();
    let before = emulated.is_none().then(|| Surroundings::now(&inspections));
    let count = request.cells.len();
    let mut keeper = Keeper::new(writer, watch, first_index, (position, count));
    let mut cells = drive_cell(&plan, &request.stop, &mut keeper)?;
    if let Some(e) = keeper.failure {
        return Err(e.into());
    }
    if let Some(before) = before {
        Surroundings::now(&inspections).judge(&before, &mut cells);
        for (prop, done) in props.iter().zip(&mut cells) {
            done.evidence.ram_bytes = ram_bytes();
            prop.testify(done);
            if spec.issues(OpKind::Read) {
                prop.sample(request.seed, spec, &mut done.evidence);
            }
        }
    }
    if let Some((live, _)) = &served {
        late(live, &mut cells);
    }
    if let Some(emulated) = emulated {
        for (state, done) in emulated.states(spec).into_iter().zip(&mut cells) {
            done.facts.insert("state".to_owned(), state);
        }
    }

    for ((prop, done), why) in props.iter_mut().zip(&mut cells).zip(choices) {
        if emulated.is_none() {
            done.facts.insert("engine.why".to_owned(), why);
        }
        // Only the first cell knows what the lay-out left; later ones find what cells wrote.
        prop.laid_out_verifiable = false;
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

/// How near the model's times completions came, of each volume.
fn late(live: &Live<Slip>, cells: &mut [Cell]) {
    let counts = live.look(|_, _, counts| counts.to_vec());
    for (counts, cell) in counts.iter().zip(cells) {
        let lateness = &counts.lateness;
        cell.evidence.emulated_live = true;
        cell.evidence.late_share = Some(counts.late as f64 / lateness.count().max(1) as f64);
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
    cell: &CellRequest,
    medium: &Medium,
    align_bytes: u32,
) -> (EngineKind, String) {
    let block_bytes = cell.spec.align_bytes().max(align_bytes);
    // An open loop wants a queue, whatever its cap is.
    let open = matches!(cell.spec.arrivals(), ArrivalKind::Open { .. });
    let depth = if open { cell.spec.depth().max(2) } else { cell.spec.depth() };
    match request.engine {
        Some(asked) => (asked, "asked for".to_owned()),
        None => default_engine(medium, depth, block_bytes),
    }
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
        sum.late_share = [sum.late_share, one.late_share].into_iter().flatten().reduce(f64::max);
        sum.direct = match (sum.direct, one.direct) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (a, b) => a.or(b),
        };
        sum.why_not_direct = sum.why_not_direct.take().or_else(|| one.why_not_direct.clone());
        sum.active_bytes += one.active_bytes;
        sum.written_share = match (sum.written_share, one.written_share) {
            (Some(a), Some(b)) => Some(a.min(b)),
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
        sum.recent_misses += one.recent_misses;
        sum.overlaps_skipped += one.overlaps_skipped;
        sum.first_corruption = sum.first_corruption.take().or_else(|| one.first_corruption.clone());
        if cell.ended != Ended::Time {
            all.ended = cell.ended;
        }
        if let Some(why) = cell.facts.get(FAILURE_FACT) {
            all.facts.entry(FAILURE_FACT.to_owned()).or_insert_with(|| why.clone());
        }
    }
    all.key.target = format!("{ALL_TARGETS} ({} targets)", cells.len());
    all.key.offered_iops = all.key.offered_iops.map(|iops| iops * cells.len() as f64);
    all
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
