//! Runs one measurement (a cell): starts the workers at the same instant, collects their intervals while they run, and
//! ends those that hang. `gather` assembles the results.

use crate::clock::Clock;
use crate::early_end::EarlyEnd;
use crate::engine::Medium;
use crate::gather::{Gathering, TICK, assemble, empty_cells};
use crate::log_load;
use crate::model;
use crate::plan::{CellPlan, DriveError, Observer, TargetPlan, Unobserved};
use crate::spike_causes::LiveUsage;
use crate::worker_threads::{Done, WorkerMessage, WorkerThreads, spawn_workers, wait_until_ready};
use iodyno_measure::{Cell, Ended, Hung};
use iodyno_workload::{CellSpec, Spec};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Delay from the cell's end to the signal that wakes workers that still wait for a completion, ns. Most workers
/// return by themselves before the signal.
const WAKE_AFTER_NS: u64 = 300_000_000;
/// Delay after which the coordinator abandons a worker stuck in a system call, ns. The delay starts at the cell's end
/// or, if later, at the last completion of any worker. The delay exceeds the timeout after which a worker itself
/// abandons its target.
const GIVE_UP_AFTER_NS: u64 = 4_600_000_000;

/// Delay between waking the workers and the cell's start, ns.
const START_AFTER_NS: u64 = 1_000_000;
/// Additional start delay per worker, ns, because workers wake one after another.
const WAKE_NS: u64 = 20_000;

/// Runs one measured cell and returns its result for each target, in the plan's order. `stop` ends the cell
/// early; the results then cover the time until it was stopped.
pub fn drive_cell(
    plan: &CellPlan,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> Result<Vec<Cell>, DriveError> {
    if plan.targets.iter().any(|t| t.medium.model_volume().is_some()) {
        return model::drive_cell(plan, stop, observer);
    }
    let mut early_end = EarlyEnd::new(plan);
    let team = spawn_workers(plan, stop, &early_end)?;
    let mut cells = empty_cells(plan);
    let is_ready = wait_until_ready(plan, &team)?;
    observer.ready(&cells);
    let agreed = match &plan.start {
        Some(others) if is_ready => Some(others.agree()),
        _ => None,
    };
    if !is_ready || agreed == Some(None) {
        team.control.stop.store(true, Ordering::Relaxed);
        team.threads.into_iter().for_each(|t| drop(t.join()));
        for cell in &mut cells {
            cell.ended = Ended::Interrupted;
        }
        return Ok(cells);
    }

    let from = plan.clock.both_ns();
    let start_ns = match agreed.flatten() {
        Some(monotonic_ns) => (from.own_ns + monotonic_ns).saturating_sub(from.system_ns),
        None => plan.clock.now_ns() + START_AFTER_NS + team.threads.len() as u64 * WAKE_NS,
    };
    team.control.start(start_ns);
    let mut usage = LiveUsage::of(plan, start_ns);
    let Collected { done, end_ns } =
        collect(plan, &team, start_ns, &mut cells, &mut usage, observer, &mut early_end);
    let clock_error_ppm = Clock::error_ppm(from, plan.clock.both_ns());

    let stuck = stuck_workers(plan, &done);
    // Don't join if a thread hangs in the kernel or keeps buffers that the kernel holds: this thread would hang,
    // too.
    if stuck.is_empty() && done.iter().all(|one| one.report.left_in_flight == 0) {
        team.threads.into_iter().for_each(|t| drop(t.join()));
    }
    assemble(plan, done, &mut cells);
    log_load::keep(&team.logs, &mut cells);
    if let Some(usage) = usage {
        usage.keep(&mut cells);
    }
    early_end.state(&mut cells);
    for target in stuck {
        let since_ns = match team.control.closing_since_ns.load(Ordering::Relaxed) {
            0 => end_ns,
            since_ns => since_ns.min(end_ns),
        };
        let oldest_ns = plan.clock.now_ns().saturating_sub(since_ns);
        let cell = &mut cells[target];
        let hung = Hung { ops: 1, oldest_ns, stuck_workers: 1 };
        cell.evidence.hung.get_or_insert_default().add(&hung);
        cell.ended = Ended::Hung;
        // None of the target's workers may have reported it.
        let window_ns = end_ns.saturating_sub(start_ns + plan.cell.spec.limits().ramp_ns);
        cell.window_ns = cell.window_ns.max(window_ns);
    }
    let cpus = std::thread::available_parallelism().map_or(0, |n| n.get() as u32);
    for cell in &mut cells {
        cell.evidence.clock_error_ppm = Some(clock_error_ppm);
        cell.evidence.cpus = cpus;
        if plan.start.is_some() {
            let late_ns = team.control.start_late_ns.load(Ordering::Relaxed);
            cell.evidence.start_late_ns = Some(late_ns);
        }
        let clock = plan.clock.source().name().to_owned();
        cell.facts.insert("clock".to_owned(), clock.clone());
        cell.evidence.clock = Some(clock);
    }
    Ok(cells)
}

/// For each worker that never returned, the index of its target.
fn stuck_workers(plan: &CellPlan, done: &[Done]) -> Vec<usize> {
    let all = (0..plan.targets.len()).flat_map(|target| {
        (0..plan.cell_on(target).spec.threads()).map(move |number| (target, number))
    });
    let back: BTreeSet<_> = done.iter().map(|one| (one.target, one.number)).collect();
    all.filter(|worker| !back.contains(worker)).map(|(target, _)| target).collect()
}

/// The workers' reports, as received by [`collect`].
struct Collected {
    done: Vec<Done>,
    /// Time at which the cell had to end, ns: the end of its duration, or when it was stopped.
    end_ns: u64,
}

/// Receives measured intervals and final reports until every worker has ended or been abandoned.
fn collect(
    plan: &CellPlan,
    team: &WorkerThreads,
    start_ns: u64,
    cells: &mut [Cell],
    usage: &mut Option<LiveUsage<'_>>,
    observer: &mut dyn Observer,
    early_end: &mut EarlyEnd,
) -> Collected {
    let total_ns = plan.total_ns();
    let mut gathering = Gathering::new(cells, observer);
    let mut done: Vec<Done> = Vec::new();
    // The end by a stop, and the end by a stop or by time, ns.
    let (mut stopped_ns, mut end_ns) = (None, None);
    let (mut last_tick_ns, mut woken_ns, mut running_ns) = (0, 0, 0);
    while done.len() < team.threads.len() {
        // Wake at the end of an interval, to record the activity of an emulated device in real time.
        let next_ns = usage.as_ref().map_or(u64::MAX, LiveUsage::next_ns);
        let wait = Duration::from_nanos(next_ns.saturating_sub(plan.clock.now_ns()));
        match team.intervals.recv_timeout(TICK.min(wait)) {
            Ok(message) => gathering.take(&message),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        while let Ok(message) = team.messages.try_recv() {
            if let WorkerMessage::Done(report) = message {
                early_end.worker_ended(report.target, &plan.cell_on(report.target).name);
                done.push(*report);
            }
        }
        let now_ns = plan.clock.now_ns();
        if let Some(usage) = usage {
            usage.look(now_ns);
        }
        if stopped_ns.is_none() && team.control.stop.load(Ordering::Relaxed) {
            stopped_ns = Some(now_ns);
        }
        // Final flushes extend the cell's time; in a cell without a time limit, they determine its end.
        let closing = team.control.closing.load(Ordering::Acquire) as usize;
        let closing_until_ns = team.control.closing_until_ns.load(Ordering::Relaxed);
        let all_close = || closing + done.len() == team.threads.len();
        let over_ns = match total_ns {
            Some(total_ns) => Some((start_ns + total_ns).max(closing_until_ns)),
            None => all_close().then_some(closing_until_ns),
        };
        let over_ns = over_ns.filter(|&over_ns| now_ns > over_ns);
        end_ns = [stopped_ns, over_ns].into_iter().flatten().min();
        if let Some(end_ns) = end_ns.filter(|&end_ns| now_ns > end_ns + WAKE_AFTER_NS) {
            let drained_ns = team.control.drained_ns.load(Ordering::Relaxed);
            if now_ns > drained_ns.max(end_ns).max(running_ns) + GIVE_UP_AFTER_NS {
                // Workers that lack processors, or have much to count, are late but not stuck.
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
            if early_end.watches() {
                early_end.judge(gathering.cells(), now_ns.saturating_sub(start_ns));
            }
            let errors = team.control.errors.load(Ordering::Relaxed);
            gathering.tick(plan, now_ns.saturating_sub(start_ns), errors);
        }
    }
    // Workers send their last interval before they report their end.
    gathering.take_all(&team.intervals);
    Collected { done, end_ns: end_ns.unwrap_or_else(|| plan.clock.now_ns()) }
}

/// Maximum number of calibration runs. A run in which no operation completes is repeated with twice its length: on an
/// overloaded machine, a worker may get no processor during a whole run.
const ATTEMPTS: u32 = 4;

/// Measures the load generator's own cost with a short closed-loop run on the null engine. Returns CPU ns per
/// operation, and operations per second of all workers together; zeros if no operation completed.
pub fn calibrate(
    spec: &Spec,
    seed: u64,
    capacity_bytes: u64,
    clock: Clock,
    time_ns: u64,
) -> Result<(f64, f64), DriveError> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut time_ns = time_ns.max(1);
    for _ in 0..ATTEMPTS {
        let target = TargetPlan {
            name: "null:".to_owned(),
            medium: Medium::Null(capacity_bytes),
            align_bytes: 1,
            verify: None,
            beside: None,
            number: 0,
        };
        let cell = CellSpec {
            seed,
            interval_ns: Some(time_ns),
            ..CellSpec::new("calibration", spec.for_calibration(time_ns))
        };
        let plan = CellPlan { clock, ..CellPlan::new(cell, vec![target]) };
        let cells = drive_cell(&plan, &stop, &mut Unobserved)?;
        let cell = &cells[0];
        let ops = cell.total().ops();
        let cpu_ns = cell.resources.cpu_seconds() * 1e9;
        if ops > 0 && cpu_ns > 0.0 {
            return Ok((cpu_ns / ops as f64, cell.per_second(ops as f64)));
        }
        time_ns *= 2;
    }
    Ok((0.0, 0.0))
}
