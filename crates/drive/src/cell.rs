//! Runs one cell, from plan to result: starts the workers at one instant, collects their intervals
//! while they run, and assembles the cell of each target.

use crate::clock::Clock;
use crate::engine::{EngineKind, EngineOptions, Medium};
use crate::model;
use crate::plan::{
    CellPlan, DriveError, Observer, Progress, TargetPlan, Unobserved, active_range, blocks,
    offered_iops,
};
use crate::recorder::IntervalMessage;
use crate::worker_threads::{Done, WorkerMessage, WorkerThreads, spawn_workers, wait_until_ready};
use iodyno_measure::{
    Cell, CellKey, Coverage, Ended, Evidence, FAILURE_FACT, Hung, Interval, Verification,
};
use iodyno_units::OpKind;
use iodyno_workload::{Content, Spec};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Delay from the end to the signal that wakes workers which still wait for a completion, ns. Most
/// have returned by themselves by then.
const WAKE_AFTER_NS: u64 = 300_000_000;
/// The coordinator gives up a worker that has not returned this long after the end and after the last completion of
/// any worker, ns: it is stuck in a system call. Longer than a worker that can check needs to give its target up.
const GIVE_UP_AFTER_NS: u64 = 4_600_000_000;

/// Delay from waking the workers to their start, ns, ...
const START_AFTER_NS: u64 = 1_000_000;
/// ... plus this for each worker, since they wake one after the other.
const WAKE_NS: u64 = 20_000;

/// Longest time between two progress reports to the observer.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Runs one cell and gives its result for each target, in the plan's order. `stop` ends it early;
/// what was counted until then is kept.
pub fn drive_cell(
    plan: &CellPlan<'_>,
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
    // Not joined: a thread that hangs in the kernel, or keeps buffers that the kernel holds; it would hang this one.
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
        // Possibly none of its workers reported it.
        let window_ns = end_ns.saturating_sub(start_ns + plan.spec.limits().ramp_ns);
        cell.window_ns = cell.window_ns.max(window_ns);
    }
    let cpus = std::thread::available_parallelism().map_or(0, |n| n.get() as u32);
    for cell in &mut cells {
        cell.evidence.clock_error_ppm = Some(clock_error_ppm);
        cell.evidence.cpus = cpus;
        cell.facts.insert("clock".to_owned(), plan.clock.source().name().to_owned());
    }
    Ok(cells)
}

/// The targets of workers that never came back, one of each worker.
fn stuck_workers(plan: &CellPlan<'_>, done: &[Done]) -> Vec<usize> {
    let workers = plan.spec.threads();
    let all = (0..plan.targets.len()).flat_map(|target| (0..workers).map(move |n| (target, n)));
    let back: BTreeSet<_> = done.iter().map(|one| (one.target, one.number)).collect();
    all.filter(|worker| !back.contains(worker)).map(|(target, _)| target).collect()
}

/// The cells to come, one for each target.
pub(crate) fn empty_cells(plan: &CellPlan<'_>) -> Vec<Cell> {
    plan.targets.iter().map(|target| empty_cell(plan, target)).collect()
}

fn empty_cell(plan: &CellPlan<'_>, target: &TargetPlan) -> Cell {
    let spec = plan.spec;
    Cell {
        key: CellKey {
            name: plan.name.clone(),
            target: target.name.clone(),
            workload: plan.workload.clone(),
            engine: target.engine.name().to_owned(),
            threads: spec.threads(),
            depth: spec.depth(),
            blocks: blocks(spec),
            offered_iops: offered_iops(spec),
            seed: plan.seed,
            place: plan.place.clone(),
            repeat: plan.repeat,
        },
        interval_ns: plan.interval_ns,
        // Known before the first interval, so that a run that is killed records it too.
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
    /// When the cell was due to end: its time was over, or it was stopped.
    end_ns: u64,
}

/// Receives intervals and reports until every worker is done or given up.
fn collect(
    plan: &CellPlan<'_>,
    team: &WorkerThreads,
    start_ns: u64,
    cells: &mut [Cell],
    observer: &mut dyn Observer,
) -> Collected {
    let limits = plan.spec.limits();
    let total_ns = limits.time_ns.map(|t| limits.ramp_ns + t);
    let mut gathering = Gathering::new(cells, observer);
    let mut done: Vec<Done> = Vec::new();
    // Set when the end is requested, by the time or by a stop.
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
                // Workers that have too few processors, or much to count, are late but not stuck.
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
    // Workers send their last interval before they report that they are done.
    gathering.take_all(&team.intervals);
    Collected { done, end_ns: end_ns.unwrap_or_else(|| plan.clock.now_ns()) }
}

/// Puts finished intervals into their cells and notifies the observer.
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

    /// Takes those that have already arrived.
    pub(crate) fn take_all(&mut self, intervals: &Receiver<IntervalMessage>) {
        while let Ok(message) = intervals.try_recv() {
            self.take(&message);
        }
    }

    /// Reports the cell's progress: time since the ramp began, on the cell's own clock.
    pub(crate) fn tick(&mut self, plan: &CellPlan<'_>, elapsed_ns: u64, errors: u64) {
        let limits = plan.spec.limits();
        self.observer.tick(&Progress {
            elapsed_ns,
            total_ns: limits.time_ns.map(|t| limits.ramp_ns + t),
            ramping: elapsed_ns < limits.ramp_ns,
            latest: self.latest.finished(),
            interval_ns: plan.interval_ns,
            errors,
        });
    }
}

/// The two latest intervals over all targets: the one that is growing, and the one before it, which
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
pub(crate) fn assemble(plan: &CellPlan<'_>, done: Vec<Done>, cells: &mut [Cell]) {
    if let Some(walks) = plan.walks {
        for one in &done {
            walks.keep(one.target, one.number, one.report.walked.clone());
        }
    }
    for (target, cell) in plan.targets.iter().zip(cells.iter_mut()) {
        cell.evidence.in_process = target.engine.in_process();
        let (start, end) = active_range(plan.spec, target.medium.capacity_bytes());
        cell.evidence.active_start_bytes = Some(start);
        cell.evidence.active_bytes = end.saturating_sub(start);
        cell.evidence.content_reducible =
            matches!(plan.spec.content(), Content::Compressible { .. } | Content::Zeroes);
        if let Medium::File(file) = &target.medium {
            cell.evidence.direct = (target.engine != EngineKind::Mmap).then_some(file.direct);
        }
    }
    let mut fills: Vec<Option<(Box<Coverage>, u64)>> = cells.iter().map(|_| None).collect();
    // Flushes always go to kernel workers and so don't count for reads and writes.
    let flushes = plan.spec.issues(OpKind::Flush);
    for Done { target, report, facts, kernel_workers, .. } in done {
        let cell = &mut cells[target];
        if let Some(source) = report.engine_error {
            // Results measured until then are kept.
            let target = &plan.targets[target];
            let engine = target.engine.name();
            let error = DriveError::Engine { target: target.name.clone(), engine, source };
            cell.facts.entry(FAILURE_FACT.to_owned()).or_insert_with(|| error.to_string());
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
        let proof = fill.map(|(map, bytes)| map.proof(plan.fill_passes.unwrap_or(1), bytes));
        if plan.spec.issues(OpKind::Write) {
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

/// The graver of two reasons to end.
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

/// The generator's own cost with this workload: ns of one worker per operation, and the rate of all
/// workers together, from a short run on the null engine (always in closed loop, whatever the
/// workload's arrivals).
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
    let plan = CellPlan {
        name: "calibration".to_owned(),
        workload: "calibration".to_owned(),
        spec: &spec,
        seed,
        repeat: 0,
        targets: vec![target],
        interval_ns: time_ns.max(1),
        place: None,
        errors_max: 0,
        fill_passes: None,
        clock,
        options: EngineOptions::default(),
        settle: None,
        walks: None,
    };
    let cells = drive_cell(&plan, &Arc::new(AtomicBool::new(false)), &mut Unobserved)?;
    let cell = &cells[0];
    let ops = cell.total().ops();
    let cpu_ns = cell.resources.cpu_seconds() * 1e9;
    let ns_per_io = if ops == 0 { 0.0 } else { cpu_ns / ops as f64 };
    Ok((ns_per_io, cell.per_second(ops as f64)))
}
