//! One cell, from plan to result: starts the workers at one instant, collects their intervals while
//! they run, and puts the cell together, one for each target.

use crate::clock::Clock;
use crate::engine::{EngineKind, Medium};
use crate::model;
use crate::plan::{
    CellPlan, DriveError, Observer, Progress, TargetPlan, Unobserved, active_range, blocks,
    offered_iops,
};
use crate::recorder::IntervalMessage;
use crate::worker_threads::{Done, WorkerMessage, WorkerThreads, spawn_workers, wait_until_ready};
use iodyno_measure::{Cell, CellKey, Coverage, Ended, Evidence, Hung, Interval, Verification};
use iodyno_units::OpKind;
use iodyno_workload::{CellSpec, Content, Spec};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Workers that wait for a completion are woken so long after the end, ns: until then most come back by
/// themselves.
const WAKE_AFTER_NS: u64 = 300_000_000;
/// A worker that has not come back this long after the end, nor after the last completion of any worker, is given
/// up, ns: it is stuck in a system call. Longer than a worker that can look takes to give its target up.
const GIVE_UP_AFTER_NS: u64 = 4_600_000_000;

/// The workers begin so long after they were woken, ns, ...
const START_AFTER_NS: u64 = 1_000_000;
/// ... and this for each of them, since they wake one after the other.
const WAKE_NS: u64 = 20_000;

/// How often the observer hears, at least.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Runs one cell and gives its result for each target, in the plan's order. `stop` ends it early;
/// what was counted until then is kept.
pub fn drive_cell(
    plan: &CellPlan,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> Result<Vec<Cell>, DriveError> {
    if plan.targets.iter().any(|t| matches!(t.medium, Medium::Model { .. })) {
        return model::drive_cell(plan, stop, observer);
    }
    let team = spawn_workers(plan, stop)?;
    let mut cells = empty_cells(plan);
    let is_ready = wait_until_ready(plan, &team)?;
    observer.ready(&cells);
    if !is_ready {
        team.threads.into_iter().for_each(|t| drop(t.join()));
        for cell in &mut cells {
            cell.ended = Ended::Interrupted;
        }
        return Ok(cells);
    }

    let from = plan.clock.both_ns();
    let start_ns = plan.clock.now_ns() + START_AFTER_NS + team.threads.len() as u64 * WAKE_NS;
    team.control.start(start_ns);
    let Collected { done, end_ns } = collect(plan, &team, start_ns, &mut cells, observer);
    let clock_error_ppm = Clock::error_ppm(from, plan.clock.both_ns());

    let stuck = stuck_workers(plan, &done);
    // A thread that hangs in the kernel, or keeps what the kernel holds, is left alone: joining it would hang too.
    if stuck.is_empty() && done.iter().all(|one| one.report.left_in_flight == 0) {
        team.threads.into_iter().for_each(|t| drop(t.join()));
    }
    assemble(plan, done, &mut cells);
    for target in stuck {
        let oldest_ns = plan.clock.now_ns().saturating_sub(end_ns);
        let cell = &mut cells[target];
        let hung = Hung { ops: 1, oldest_ns, stuck_workers: 1 };
        cell.evidence.hung.get_or_insert_default().add(&hung);
        cell.ended = Ended::Hung;
        // None of its workers may have said it.
        let window_ns = end_ns.saturating_sub(start_ns + plan.cell.spec.limits().ramp_ns);
        cell.window_ns = cell.window_ns.max(window_ns);
    }
    let cpus = std::thread::available_parallelism().map_or(0, |n| n.get() as u32);
    for cell in &mut cells {
        cell.evidence.clock_error_ppm = Some(clock_error_ppm);
        cell.evidence.cpus = cpus;
        let clock = plan.clock.source().name().to_owned();
        cell.facts.insert("clock".to_owned(), clock.clone());
        cell.evidence.clock = Some(clock);
    }
    Ok(cells)
}

/// The targets of workers that never came back, one of each worker.
fn stuck_workers(plan: &CellPlan, done: &[Done]) -> Vec<usize> {
    let workers = plan.cell.spec.threads();
    let all = (0..plan.targets.len()).flat_map(|target| (0..workers).map(move |n| (target, n)));
    let back: BTreeSet<_> = done.iter().map(|one| (one.target, one.number)).collect();
    all.filter(|worker| !back.contains(worker)).map(|(target, _)| target).collect()
}

/// The cells to come, one for each target.
pub(crate) fn empty_cells(plan: &CellPlan) -> Vec<Cell> {
    plan.targets.iter().map(|target| empty_cell(plan, target)).collect()
}

fn empty_cell(plan: &CellPlan, target: &TargetPlan) -> Cell {
    let spec = &plan.cell.spec;
    Cell {
        key: CellKey {
            name: plan.cell.name.clone(),
            target: target.name.clone(),
            workload: plan.cell.workload.clone(),
            engine: target.engine.name().to_owned(),
            threads: spec.threads(),
            depth: spec.depth(),
            blocks: blocks(spec),
            offered_iops: offered_iops(spec),
            seed: plan.cell.seed,
            place: plan.place.clone(),
            repeat: plan.cell.repeat,
        },
        interval_ns: plan.cell.interval_ns(),
        // Known before the first interval, so that a run that is killed says it too.
        evidence: Evidence {
            virtual_time: target.engine == EngineKind::Model,
            ..Evidence::default()
        },
        ..Cell::default()
    }
}

/// See [`collect`].
struct Collected {
    done: Vec<Done>,
    /// When the cell was to end: its time was over, or it was stopped.
    end_ns: u64,
}

/// Receives intervals and reports until every worker is done or given up.
fn collect(
    plan: &CellPlan,
    team: &WorkerThreads,
    start_ns: u64,
    cells: &mut [Cell],
    observer: &mut dyn Observer,
) -> Collected {
    let limits = plan.cell.spec.limits();
    let total_ns = limits.time_ns.map(|t| limits.ramp_ns + t);
    let mut gathering = Gathering::new(cells, observer);
    let mut done: Vec<Done> = Vec::new();
    // Known once the end is asked for, by the time or by a stop.
    let mut end_ns = None;
    let (mut last_tick_ns, mut woken_ns, mut running_ns) = (0, 0, 0);
    while done.len() < team.threads.len() {
        match team.intervals.recv_timeout(TICK) {
            Ok(message) => gathering.take(&message),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        while let Ok(message) = team.messages.try_recv() {
            if let WorkerMessage::Done(report) = message {
                done.push(*report);
            }
        }
        let now_ns = plan.clock.now_ns();
        if end_ns.is_none() {
            let over_ns = total_ns.map(|t| start_ns + t).filter(|&t| now_ns > t);
            end_ns = over_ns.or(team.control.stop.load(Ordering::Relaxed).then_some(now_ns));
        }
        if let Some(end_ns) = end_ns.filter(|&end_ns| now_ns > end_ns + WAKE_AFTER_NS) {
            let drained_ns = team.control.drained_ns.load(Ordering::Relaxed);
            if now_ns > drained_ns.max(end_ns).max(running_ns) + GIVE_UP_AFTER_NS {
                // Workers that have too few processors, or much to count, are late and not stuck.
                if !team.is_any_running() {
                    break;
                }
                running_ns = now_ns - GIVE_UP_AFTER_NS + TICK.as_nanos() as u64;
            }
            if now_ns >= woken_ns + TICK.as_nanos() as u64 {
                woken_ns = now_ns;
                team.wake(plan);
            }
        }
        if now_ns - last_tick_ns >= TICK.as_nanos() as u64 {
            last_tick_ns = now_ns;
            let errors = team.control.errors.load(Ordering::Relaxed);
            gathering.tick(plan, now_ns.saturating_sub(start_ns), errors);
        }
    }
    // Workers send their last interval before they say that they are done.
    gathering.take_all(&team.intervals);
    Collected { done, end_ns: end_ns.unwrap_or_else(|| plan.clock.now_ns()) }
}

/// Puts finished intervals into their cells, and tells the observer of them.
pub(crate) struct Gathering<'a> {
    cells: &'a mut [Cell],
    observer: &'a mut dyn Observer,
    latest: Latest,
}

impl<'a> Gathering<'a> {
    pub(crate) fn new(cells: &'a mut [Cell], observer: &'a mut dyn Observer) -> Self {
        Self { cells, observer, latest: Latest::default() }
    }

    fn take(&mut self, message: &IntervalMessage) {
        self.observer.interval(message.target, message.index, &message.interval);
        self.latest.add(message.index, &message.interval);
        add_interval(&mut self.cells[message.target], message.index, &message.interval);
    }

    /// Those that are there already.
    pub(crate) fn take_all(&mut self, intervals: &Receiver<IntervalMessage>) {
        while let Ok(message) = intervals.try_recv() {
            self.take(&message);
        }
    }

    /// How far the cell is: since the ramp began, in its own time.
    pub(crate) fn tick(&mut self, plan: &CellPlan, elapsed_ns: u64, errors: u64) {
        let limits = plan.cell.spec.limits();
        self.observer.tick(&Progress {
            elapsed_ns,
            total_ns: limits.time_ns.map(|t| limits.ramp_ns + t),
            ramping: elapsed_ns < limits.ramp_ns,
            latest: self.latest.finished(),
            interval_ns: plan.cell.interval_ns(),
            errors,
        });
    }
}

/// The two latest intervals over all targets: the one that grows, and the one before it, which
/// nearly all workers have delivered.
#[derive(Default)]
struct Latest {
    index: usize,
    growing: Interval,
    before: Option<Interval>,
}

impl Latest {
    fn add(&mut self, index: usize, interval: &Interval) {
        if index > self.index {
            self.before = Some(std::mem::take(&mut self.growing));
            self.index = index;
        }
        if index == self.index {
            self.growing.merge(interval);
        }
    }

    fn finished(&self) -> Option<&Interval> {
        self.before.as_ref().or((self.growing.ops() > 0).then_some(&self.growing))
    }
}

fn add_interval(cell: &mut Cell, index: usize, interval: &Interval) {
    if cell.series.len() <= index {
        cell.series.resize_with(index + 1, Interval::default);
    }
    cell.series[index].merge(interval);
    // An hour of seconds with all buckets would take hundreds of megabytes.
    cell.series[index].trim();
}

/// Puts the workers' reports into their targets' cells.
pub(crate) fn assemble(plan: &CellPlan, done: Vec<Done>, cells: &mut [Cell]) {
    if let Some(walks) = &plan.walks {
        for one in &done {
            walks.keep(one.target, one.number, one.report.walked.clone());
        }
    }
    for (target, cell) in plan.targets.iter().zip(cells.iter_mut()) {
        cell.evidence.in_process = target.engine.in_process();
        let (start, end) = active_range(&plan.cell.spec, target.medium.capacity_bytes());
        cell.evidence.active_start_bytes = Some(start);
        cell.evidence.active_bytes = end.saturating_sub(start);
        cell.evidence.content_reducible =
            matches!(plan.cell.spec.content(), Content::Compressible { .. } | Content::Zeroes);
        if let Medium::File(file) = &target.medium {
            cell.evidence.direct = (target.engine != EngineKind::Mmap).then_some(file.direct);
        }
    }
    let mut fills: Vec<Option<(Box<Coverage>, u64)>> = cells.iter().map(|_| None).collect();
    // Flushes always go to kernel workers: they say nothing about reads and writes.
    let flushes = plan.cell.spec.issues(OpKind::Flush);
    for Done { target, report, facts, kernel_workers, .. } in done {
        let cell = &mut cells[target];
        if let Some(source) = report.engine_error {
            // What was measured until then is not lost by it.
            let target = &plan.targets[target];
            let engine = target.engine.name();
            let error = DriveError::Engine { target: target.name.clone(), engine, source };
            let why = cell.evidence.failure.get_or_insert_with(|| error.to_string());
            cell.facts.insert("failure".to_owned(), why.clone());
        }
        let (from, to) = report.window;
        cell.window_ns = cell.window_ns.max(to.saturating_sub(from));
        if let Some((user_ns, system_ns)) = report.cpu_ns {
            cell.resources.cpu_user_ns.push(user_ns);
            cell.resources.cpu_system_ns.push(system_ns);
        }
        cell.resources.carried_in_ns += report.carried_in_ns;
        cell.resources.carried_out_ns += report.carried_out_ns;
        cell.resources.moved_bytes += report.moved_bytes;
        cell.resources.outstanding_area_ns += report.outstanding_area_ns;
        cell.stamps.merge(&report.stamps);
        cell.evidence.add_spent(&report.spent);
        cell.evidence.map_sync = report.map_sync.or(cell.evidence.map_sync);
        if let Some(lateness) = &report.lateness {
            cell.lateness.get_or_insert_default().merge(lateness);
        }
        if let Some(theirs) = report.coverage {
            match &mut fills[target] {
                Some((map, bytes)) => {
                    map.merge(&theirs);
                    *bytes += report.moved_bytes;
                }
                none => *none = Some((theirs, report.moved_bytes)),
            }
        }
        cell.backlog_ops += report.backlog_ops;
        cell.evidence.overlaps_skipped += report.overlaps_skipped;
        cell.evidence.recent_misses += report.recent_misses;
        if let Some(hung) = &report.hung {
            cell.evidence.hung.get_or_insert_default().add(hung);
        }
        if cell.evidence.first_corruption.is_none() {
            cell.evidence.first_corruption = report.first_corruption;
        }
        if let Some(theirs) = report.verification.filter(|v| v.checked > 0) {
            cell.evidence.verification.get_or_insert_default().merge(&theirs);
        }
        if !flushes {
            let evidence = &mut cell.evidence;
            evidence.kernel_workers = evidence.kernel_workers.max(kernel_workers.0);
            evidence.kernel_workers_cpu_ns = evidence.kernel_workers_cpu_ns.max(kernel_workers.1);
        }
        cell.facts.extend(facts);
        cell.ended = graver(cell.ended, report.ended);
    }
    for (target, cell) in plan.targets.iter().zip(cells.iter_mut()) {
        if let Some(of) = cell.evidence.verification.take() {
            let kept_map = target.verify.as_ref().map_or_else(Default::default, |m| m.kept_map());
            cell.evidence.verification = Some(Verification { kept_map, ..of.trimmed() });
        }
    }
    for (cell, fill) in cells.iter_mut().zip(fills) {
        let proof = fill.map(|(map, bytes)| map.proof(plan.cell.fill_passes.unwrap_or(1), bytes));
        if plan.cell.spec.issues(OpKind::Write) {
            cell.evidence.fill = proof;
        } else if let (Some(of), Some(proof)) = (&mut cell.evidence.verification, proof) {
            of.read_share = Some(proof.once_share);
        }
        let intervals = cell.window_ns.div_ceil(cell.interval_ns.max(1)) as usize;
        if cell.series.len() < intervals {
            cell.series.resize_with(intervals, Interval::default);
        }
    }
}

/// Of two reasons to end, the one that says more.
fn graver(a: Ended, b: Ended) -> Ended {
    let weight = |e: Ended| match e {
        Ended::Time | Ended::Running => 0,
        Ended::Ops => 1,
        Ended::Bytes => 2,
        Ended::Settled => 3,
        Ended::Interrupted => 4,
        Ended::Errors => 5,
        Ended::Hung => 6,
        Ended::Crashed => 7,
    };
    if weight(b) > weight(a) { b } else { a }
}

/// What the generator itself costs with this workload: ns of one worker an operation, and the rate
/// of all workers together, from a short run on the null engine (closed loop, whatever the
/// workload's arrivals are).
pub fn calibrate(
    spec: &Spec,
    seed: u64,
    capacity_bytes: u64,
    clock: Clock,
    time_ns: u64,
) -> Result<(f64, f64), DriveError> {
    let spec = spec.for_calibration(time_ns);
    let target = TargetPlan {
        name: "null:".to_owned(),
        medium: Medium::Null(capacity_bytes),
        align_bytes: 512,
        engine: EngineKind::Null,
        verify: None,
    };
    let cell =
        CellSpec { seed, interval_ns: Some(time_ns.max(1)), ..CellSpec::new("calibration", spec) };
    let plan = CellPlan { clock, ..CellPlan::new(cell, vec![target]) };
    let cells = drive_cell(&plan, &Arc::new(AtomicBool::new(false)), &mut Unobserved)?;
    let cell = &cells[0];
    let ops = cell.total().ops();
    let cpu_ns = cell.resources.cpu_seconds() * 1e9;
    let ns_per_io = if ops == 0 { 0.0 } else { cpu_ns / ops as f64 };
    Ok((ns_per_io, cell.per_second(ops as f64)))
}
