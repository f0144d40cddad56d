//! A measurement (cell) on emulated storage, in virtual time: one thread runs all workers of all targets on one
//! machine. Virtual time jumps to the next completion, or to the next time at which a worker is due, whichever is
//! earlier.
//!
//! Sources, recorders and the resulting cells are those of real targets. The differences:
//!
//! * Workers of a target share one recorder, since they never record at the same time.
//! * The machine reports when it accepted an operation. That may be later than the submission, because the load
//!   generator's core is part of the emulated host and may be busy.
//! * Each completion is recorded when it occurs, so timestamps are exact.
//! * No bytes move, so nothing is verified. The CPU time of the simulation is not a result of the cell.
//! * Each target has its own random streams, derived from the run's seed. With equal streams, all targets would get the
//!   same operations at the same instants of virtual time.
//! * Operations in flight at the end of the window are not counted. A machine that continues in another cell finishes
//!   them first.
//! * A cell may end before its time limit, once its results are proven steady (`settle.rs`). Its window then has
//!   the elapsed length, and its results state the early end.

mod aging;
mod carried;
mod due_queue;
mod event_loop;
mod experiment;
mod fork;
mod phase_time;
mod pilot;
#[cfg(test)]
mod pilot_tests;
mod settle;
#[cfg(test)]
mod source_tests;
#[cfg(test)]
mod test_system;
mod warm_up;
mod worker;
mod zoned;

use crate::cpu::CpuTime;
use crate::engine::{EngineKind, Medium};
use crate::gather::{Gathering, assemble, empty_cells};
use crate::limits::limits;
use crate::log_load;
use crate::plan::{CellPlan, DriveError, Observer, seed_of};
use crate::probe::KernelWorkers;
use crate::recorder::Recorder;
use crate::spike_causes;
use crate::worker_threads::{Done, WorkerParts, coverage, is_open, shared, slots};
pub use carried::Carried;
use event_loop::{EventLoop, Used};
pub use experiment::Length;
use fork::{Begun, Fork, Forking};
use iodyno_emulate::spec::Written;
use iodyno_emulate::usage::Snapshot;
use iodyno_emulate::{Fault, Machine, System};
use iodyno_measure::{Cell, StampQuality};
use iodyno_msglog::LogSource;
use iodyno_units::human;
use iodyno_workload::{Content, Source, Spec};
pub use pilot::drive_model_after_pilot;
use settle::Settled;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
pub use warm_up::why_not_warmed_up;
use worker::{At, Worker};

/// Maximum total number of operations in flight on an emulated system. At some hundred bytes each, they
/// occupy about a gigabyte. The emulated machine would accept slightly more.
const SLOTS_MAX: u64 = 1 << 22;

/// The result of a cell on emulated storage.
#[derive(Debug)]
pub struct Modelled {
    /// Results of the cell, one per target, in the plan's order. Equal plans give identical results.
    pub cells: Vec<Cell>,
    /// The emulated machine in its state at the cell's end.
    pub machine: Machine,
    /// Activity of the machine's components in the measured window.
    pub usage: Snapshot,
    /// Number of completed operations, including failed ones and those in the ramp.
    pub completions: u64,
    /// CPU time of this thread for the simulation, ns. Excludes the creation of the machine.
    pub cpu_ns: u64,
}

/// Runs one cell on a new emulated machine; all its targets must be volumes of one system. The run affects
/// nothing outside this thread, so that cells may run in parallel, each in its own thread. `stop` ends the
/// cell early; the results then cover the time until it was stopped.
///
/// # Errors
/// [`DriveError::DoesNotFit`] for a workload that does not fit a target, for targets that are not volumes of
/// one system, and for a system that can't be built; [`DriveError::Engine`] for a deadlock of the machine
/// with operations in flight.
pub fn drive_model(
    plan: &CellPlan,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Modelled, DriveError> {
    drive_failing_model(plan, &[], stop, observer)
}

/// Runs one cell like [`drive_model`], but injects `faults` at its start, in the order of the list.
///
/// # Errors
/// The errors of [`drive_model`].
///
/// # Panics
/// If a fault concerns a device that does not exist.
pub fn drive_failing_model(
    plan: &CellPlan,
    faults: &[Fault],
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Modelled, DriveError> {
    let mut carried = Carried::new(plan)?;
    for fault in faults {
        carried.machine.inject(carried.now_ns, *fault);
    }
    let ran = drive_on(plan, &mut carried, stop, observer)?;
    Ok(ran.modelled(carried))
}

/// Result of [`drive_on`], without the machine.
struct Ran {
    cells: Vec<Cell>,
    usage: Used,
    completions: u64,
    cpu_ns: u64,
    /// Number of operations in flight at the cell's end, and the time of the end, ns.
    left: (u64, u64),
}

impl Ran {
    fn modelled(self, carried: Carried) -> Modelled {
        Modelled {
            cells: self.cells,
            machine: carried.machine,
            usage: self.usage.window,
            completions: self.completions,
            cpu_ns: self.cpu_ns,
        }
    }
}

fn drive_on(
    plan: &CellPlan,
    carried: &mut Carried,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Ran, DriveError> {
    if let Some(replay) = &plan.cell.replay {
        return drive_recorded(plan, carried, stop, observer, |parts, _| parts.trace(replay));
    }
    if plan.targets.iter().enumerate().all(|(i, _)| plan.cell_on(i).spec.log().is_none()) {
        return drive_recorded(plan, carried, stop, observer, |parts, seed| {
            Ok(parts.stream_of(seed))
        });
    }
    let logs = log_load::of_targets(plan, |target| slots(plan, target))?;
    let mut ran = drive_recorded(plan, carried, stop, observer, |parts, _| {
        match &logs[parts.target] {
            Some(log) => Ok(LogSource::new(log, parts.number)),
            None => Err(DriveError::DoesNotFit {
                target: plan.targets[parts.target].name.clone(),
                why:
                    "in virtual time a message log can't run together with workloads of another kind"
                        .to_owned(),
            }),
        }
    })?;
    log_load::keep(&logs, &mut ran.cells);
    for (target, cell) in plan.targets.iter().zip(&mut ran.cells) {
        if let Some(volume) = target.medium.model_volume() {
            spike_causes::note(&ran.usage.by_interval, &[], volume, cell);
        }
    }
    Ok(ran)
}

/// Runs a cell. `source` creates each worker's source of operations from a seed. Records a trace if the plan
/// requests it.
fn drive_recorded<S: Source>(
    plan: &CellPlan,
    carried: &mut Carried,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    source: impl Fn(&WorkerParts<'_>, u64) -> Result<S, DriveError>,
) -> Result<Ran, DriveError> {
    match &plan.events {
        None => drive_with(plan, carried, stop, observer, source),
        Some(to) => drive_with(plan, carried, stop, observer, |parts, seed| {
            Ok(parts.recorded(source(parts, seed)?, to, None))
        }),
    }
}

/// Runs a cell. `source` creates each worker's source of operations from a seed.
fn drive_with<S: Source>(
    plan: &CellPlan,
    carried: &mut Carried,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    source: impl Fn(&WorkerParts<'_>, u64) -> Result<S, DriveError>,
) -> Result<Ran, DriveError> {
    let mut workers = new_workers(plan, carried, source)?;
    aging::age(plan, &mut carried.machine, &mut workers, carried.now_ns)?;
    let crew = Crew { workers, begun: None, forking: None };
    Ok(run_workers(plan, carried, crew, stop, observer)?.0)
}

/// Creates the workers of a plan, without starting them.
fn new_workers<S: Source>(
    plan: &CellPlan,
    carried: &Carried,
    source: impl Fn(&WorkerParts<'_>, u64) -> Result<S, DriveError>,
) -> Result<Vec<Worker<S>>, DriveError> {
    check_slots(plan)?;
    let mut workers = Vec::new();
    let mut workers_on = vec![0; carried.volumes()];
    for (target, at) in plan.targets.iter().enumerate() {
        let Some(volume) = at.medium.model_volume() else { continue };
        let seed = seed_of(plan.cell.seed, target);
        let cell = plan.cell_on(target);
        zoned::check(&cell.spec, at)?;
        let shared = shared(cell, at, seed)?;
        for number in 0..cell.spec.threads() {
            let machine_number = carried.worker(volume, workers_on[volume as usize])?;
            workers_on[volume as usize] += 1;
            let parts = WorkerParts { plan, target, number, shared: &shared };
            workers.push(Worker::new(
                workers.len(),
                At { target, volume, machine_number },
                source(&parts, seed)?,
                parts.slots(),
                limits(cell, &shared, number).share,
                coverage(plan, target, &shared),
            ));
        }
    }
    Ok(workers)
}

/// All workers of a cell, the state in which they begin, and when their event loop is cloned.
struct Crew<S: Source> {
    workers: Vec<Worker<S>>,
    /// State from which to continue a cell that has already begun; `None` for a new cell.
    begun: Option<Begun>,
    /// When and how to clone the machine and the workers during the cell; `None`: never.
    forking: Option<Forking<S>>,
}

/// Runs new or cloned workers to the end of the plan's window. Also returns the fork (a clone of the machine and its
/// workers), if it was requested and could be created.
fn run_workers<S: Source>(
    plan: &CellPlan,
    carried: &mut Carried,
    of: Crew<S>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(Ran, Option<Fork<S>>), DriveError> {
    let Crew { workers, begun, forking } = of;
    let start_ns = carried.now_ns;
    let (sender, intervals) = channel();
    let mut recorders = Vec::new();
    for target in 0..plan.targets.len() {
        let cell = plan.cell_on(target);
        let open = is_open(&cell.spec);
        recorders.push(Recorder::new(target, open, cell.interval_ns(), sender.clone()));
    }
    drop(sender);

    let mut cells = empty_cells(plan);
    observer.ready(&cells);
    let cpu_start = CpuTime::now();
    let mut events = EventLoop::new(plan, stop, &mut carried.machine, start_ns, workers, recorders);
    if let Some(begun) = begun {
        events.resume(begun);
    }
    events.forks(forking);
    let mut gathering = Gathering::new(&mut cells, observer);
    let stuck = events.run(&intervals, &mut gathering).err();
    events.close();
    gathering.take_all(&intervals);
    let cpu_end = CpuTime::now();
    if let Some(source) = stuck {
        return Err(stood_still(plan, source));
    }
    let left = events.left();
    let settled = events.settled;
    let warmed = events.warmed.take();
    let fork = events.forking.take().and_then(|forking| forking.fork);
    let (usage, done, completions, early_end) = events.into_parts();
    assemble(plan, done, &mut cells);
    early_end.state(&mut cells);
    let relevance = warm_up::Relevance::of(plan, &carried.machine);
    let levels = warm_up::levels(&relevance, &usage.stores);
    for (index, (target, cell)) in plan.targets.iter().zip(&mut cells).enumerate() {
        warm_up::record(plan, warmed.as_ref(), &levels, cell);
        record_evidence(&plan.cell_on(index).spec, &target.medium, cell);
        // The machine counts per volume: it can't separate the times of several workloads on one.
        if let (Some(volume), true) = (target.medium.model_volume(), plan.cell.beside.is_empty()) {
            phase_time::keep(&usage.window, volume, cell);
        }
        if let Some(settled) = settled {
            let words = settled_in_words(plan, &settled, cell.window_ns);
            cell.facts.insert("ended early".to_owned(), words.clone());
            cell.evidence.settled = Some(words);
        }
    }
    let (user_ns, system_ns) = cpu_end.since(&cpu_start);
    let cpu_ns = user_ns + system_ns;
    Ok((Ran { cells, usage, completions, cpu_ns, left }, fork))
}

/// Runs one cell and returns only its results, one per target. Their facts include the simulation's speed.
pub(crate) fn drive_cell(
    plan: &CellPlan,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> Result<Vec<Cell>, DriveError> {
    let mut carried = Carried::new(plan)?;
    drive_carried(plan, &mut carried, stop, observer)
}

/// Runs one cell on an emulated machine that has already run others. The cell starts at the machine's current time,
/// with the devices as the earlier cells left them. All cells on one machine must name the same system.
///
/// # Errors
/// The errors of [`drive_model`]. The machine is then unusable.
pub fn drive_carried(
    plan: &CellPlan,
    carried: &mut Carried,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> Result<Vec<Cell>, DriveError> {
    let mut ran = drive_on(plan, carried, stop, observer)?;
    let (in_flight, end_ns) = ran.left;
    carried.rest(in_flight, end_ns);
    if ran.cpu_ns > 0 {
        let per_s = ran.completions as f64 * 1e9 / ran.cpu_ns as f64;
        for cell in &mut ran.cells {
            let speed = format!("{} I/Os a CPU second", human::count(per_s));
            cell.facts.insert("simulated".to_owned(), speed);
        }
    }
    Ok(ran.cells)
}

/// Checks that a cell does not have too many operations in flight. An emulated machine numbers operations,
/// including its internal ones, with 24 bits.
fn check_slots(plan: &CellPlan) -> Result<(), DriveError> {
    let of = |spec: &Spec| u64::from(spec.threads()) * u64::from(spec.depth());
    let slots: u64 = (0..plan.targets.len()).map(|target| of(&plan.cell_on(target).spec)).sum();
    if slots <= SLOTS_MAX {
        return Ok(());
    }
    Err(DriveError::DoesNotFit {
        target: plan.cell.name.clone(),
        why: format!(
            "{slots} operations can be in flight on all targets together, but an emulated system supports at most {SLOTS_MAX}: use a smaller --depth, or fewer --threads"
        ),
    })
}

/// The emulated system to which all targets belong as volumes. An error if there is more than one system.
fn one_system(plan: &CellPlan) -> Result<Arc<System>, DriveError> {
    let mut one: Option<&Arc<System>> = None;
    for target in &plan.targets {
        let misfit = |why: &str| {
            Err(DriveError::DoesNotFit { target: target.name.clone(), why: why.to_owned() })
        };
        let Medium::Model { system, volume } = &target.medium else {
            return misfit(
                "a cell can't have both real and emulated targets: emulated targets run in virtual time",
            );
        };
        if *volume as usize >= system.volumes.len() {
            return misfit("the system has no such volume");
        }
        match one {
            Some(one) if !Arc::ptr_eq(one, system) => {
                return misfit("all targets of a cell must be volumes of one emulated system");
            }
            _ => one = Some(system),
        }
    }
    one.cloned().ok_or_else(|| DriveError::DoesNotFit {
        target: plan.cell.name.clone(),
        why: "the cell has no targets".to_owned(),
    })
}

/// Error for a deadlock: operations are in flight but nothing can complete.
#[cold]
fn stood_still(plan: &CellPlan, source: io::Error) -> DriveError {
    let target = plan.targets.first().map_or(String::new(), |t| t.name.clone());
    DriveError::Engine { target, engine: EngineKind::Model.name(), source }
}

/// Records facts about an emulated volume that are known without measurement, as evidence in its cell.
fn record_evidence(spec: &Spec, medium: &Medium, cell: &mut Cell) {
    cell.facts.insert("time".to_owned(), "virtual".to_owned());
    if spec.content() == Content::Verifiable {
        let why = "not verified: emulated storage stores no data in virtual time";
        cell.facts.insert("content".to_owned(), why.to_owned());
    }
    let completions = cell.total().ops();
    cell.stamps = StampQuality { reaps: completions, completions, ..StampQuality::default() };
    let Medium::Model { system, volume } = medium else { return };
    if let Some(dimms) = system.dimms_per_driver_thread() {
        let words = format!(
            "{dimms} modules share one driver thread, the vendor's default; ?occupancy=max gives each module its own"
        );
        cell.facts.insert("driver threads".to_owned(), words);
        cell.evidence.modules_per_driver_thread = Some(dimms);
    }
    let state = &system.volumes[*volume as usize].state;
    let written = if state.how == Written::Fresh { 0.0 } else { state.fill };
    let Range { start, end } = crate::plan::active_range(spec, medium.capacity_bytes());
    // The written part is at the start.
    let end_written = (written * medium.capacity_bytes() as f64) as u64;
    let active_bytes = end.saturating_sub(start).max(1);
    let written_bytes = end_written.clamp(start, end.max(start)) - start;
    cell.evidence.written_share = Some(written_bytes as f64 / active_bytes as f64);
}

/// Describes why a cell ended before its time limit, with the precision reached.
fn settled_in_words(plan: &CellPlan, settled: &Settled, window_ns: u64) -> String {
    let of = match plan.cell.spec.limits().time_ns {
        Some(time_ns) => format!(" of {}", human::duration_ns(time_ns)),
        None => String::new(),
    };
    format!(
        "steady after {}{of} of virtual time: 95 % confidence intervals are ± {:.2} % for the rate \
         and ± {:.2} % for the mean latency",
        human::duration_ns(window_ns),
        settled.rate * 100.0,
        settled.latency * 100.0
    )
}

/// Wraps a simulated worker's final report in the message that worker threads send.
fn done(target: usize, number: u32, report: crate::worker::WorkerReport) -> Done {
    Done {
        target,
        number,
        report,
        facts: BTreeMap::new(),
        kernel_workers: KernelWorkers::default(),
    }
}
