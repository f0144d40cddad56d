//! Collects what the workers measure, in one result ([`Cell`]) per target: intervals during the run, reports at the
//! end.

use crate::engine::EngineKind;
use crate::plan::{CellPlan, DriveError, Observer, Progress, active_range, blocks, offered_iops};
use crate::recorder::IntervalMessage;
use crate::worker_threads::Done;
use iodyno_measure::{Cell, CellKey, Coverage, Ended, Evidence, Interval, Verification};
use iodyno_units::OpKind;
use iodyno_workload::{Content, Spec};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Maximum time between progress reports to the observer.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Creates the cells of a plan, one per target, without results.
pub(crate) fn empty_cells(plan: &CellPlan) -> Vec<Cell> {
    (0..plan.targets.len()).map(|target| empty_cell(plan, target)).collect()
}

fn empty_cell(plan: &CellPlan, target: usize) -> Cell {
    let (cell, target) = (plan.cell_on(target), &plan.targets[target]);
    let spec = &cell.spec;
    Cell {
        key: CellKey {
            name: cell.name.clone(),
            target: target.name.clone(),
            workload: cell.workload.clone(),
            engine: target.engine().name().to_owned(),
            threads: spec.threads(),
            depth: spec.depth(),
            blocks: blocks(spec),
            offered_iops: offered_iops(spec).map(|iops| iops / f64::from(cell.part.of)),
            seed: cell.seed,
            place: plan.place.clone(),
            repeat: cell.repeat,
        },
        interval_ns: cell.interval_ns(),
        // Set before the first interval, so that a killed run records them, too.
        evidence: Evidence {
            virtual_time: target.engine() == EngineKind::Model,
            trace: cell.replay.as_ref().map(|replay| replay.words.clone()),
            forced_share: forced_share(spec),
            ..Evidence::default()
        },
        ..Cell::default()
    }
}

/// Share (0 to 1) of a workload's writes that are durable when they complete.
fn forced_share(spec: &Spec) -> f64 {
    let share = match spec.log() {
        // The few writes that describe the log's layout are not counted.
        Some(log) if log.fua => 1.0,
        Some(_) => 0.0,
        None => spec.fua().fraction(),
    };
    if spec.issues(OpKind::Write) { share } else { 0.0 }
}

/// Adds measured intervals to the cells' results, and reports them to the observer.
pub(crate) struct Gathering<'a> {
    cells: &'a mut [Cell],
    observer: &'a mut dyn Observer,
    latest: Latest,
}

impl<'a> Gathering<'a> {
    pub(crate) fn new(cells: &'a mut [Cell], observer: &'a mut dyn Observer) -> Self {
        Self { cells, observer, latest: Latest::default() }
    }

    pub(crate) fn take(&mut self, message: &IntervalMessage) {
        self.observer.interval(message.target, message.index, &message.interval);
        self.latest.add(message.index, &message.interval);
        let cell = &mut self.cells[message.target];
        add_interval(cell, message.index, &message.interval);
        cell.resources.add_starved(message.index, message.starved_ns);
    }

    /// The cells with the intervals received so far.
    pub(crate) fn cells(&self) -> &[Cell] {
        self.cells
    }

    /// Adds all intervals that workers have sent so far.
    pub(crate) fn take_all(&mut self, intervals: &Receiver<IntervalMessage>) {
        while let Ok(message) = intervals.try_recv() {
            self.take(&message);
        }
    }

    /// Reports the cell's progress to the observer. `elapsed_ns` counts from the start of the ramp, by the cell's
    /// clock.
    pub(crate) fn tick(&mut self, plan: &CellPlan, elapsed_ns: u64, errors: u64) {
        let limits = plan.cell.spec.limits();
        self.observer.tick(&Progress {
            elapsed_ns,
            total_ns: plan.total_ns(),
            ramping: elapsed_ns < limits.ramp_ns,
            latest: self.latest.finished(),
            interval_ns: plan.cell.interval_ns(),
            errors,
        });
    }
}

/// The two latest intervals, summed over all targets: the current one, and the one before, which is nearly
/// complete.
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
    // An hour of one-second intervals with all buckets would take hundreds of megabytes.
    cell.series[index].trim();
}

/// Coverage of a target by a full pass: the blocks that its workers wrote or read, and the bytes that they
/// transferred.
struct Fill {
    map: Box<Coverage>,
    /// Bytes that the workers transferred, counting a block each time that it was accessed.
    bytes: u64,
}

/// Adds each worker's final report to the cell of its target.
pub(crate) fn assemble(plan: &CellPlan, done: Vec<Done>, cells: &mut [Cell]) {
    if let Some(walks) = &plan.walks {
        for one in &done {
            walks.keep(one.target, one.number, one.report.walked.clone());
        }
    }
    for (index, cell) in cells.iter_mut().enumerate() {
        record_target(plan, index, cell);
    }
    let mut fills: Vec<Option<Fill>> = cells.iter().map(|_| None).collect();
    for one in done {
        let target = one.target;
        add(plan, one, &mut cells[target], &mut fills[target]);
    }
    for (index, (cell, fill)) in cells.iter_mut().zip(fills).enumerate() {
        finish(plan, index, cell, fill);
    }
}

/// Records facts of the plan, such as the active range and direct I/O, as evidence in a cell.
fn record_target(plan: &CellPlan, index: usize, cell: &mut Cell) {
    let (target, spec) = (&plan.targets[index], &plan.cell_on(index).spec);
    let engine = target.engine().about();
    cell.evidence.in_process = engine.in_process;
    let active = active_range(spec, target.medium.capacity_bytes());
    cell.evidence.active_start_bytes = Some(active.start);
    cell.evidence.active_bytes = active.end.saturating_sub(active.start);
    cell.evidence.content_reducible =
        matches!(spec.content(), Content::Compressible { .. } | Content::Zeroes);
    if let Some(file) = target.medium.file() {
        cell.evidence.passthrough = file.passthrough.is_some();
        cell.evidence.direct = (!engine.maps).then_some(file.direct);
    }
}

/// Adds a worker's report to its cell, and the blocks that the worker covered to its target's coverage.
fn add(plan: &CellPlan, done: Done, cell: &mut Cell, fill: &mut Option<Fill>) {
    let Done { target, report, facts, kernel_workers, .. } = done;
    if let Some(source) = report.engine_error {
        // Keep the intervals measured until then.
        let target = &plan.targets[target];
        let engine = target.engine().name();
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
    if let Some(scheduling) = &report.scheduling {
        cell.resources.scheduling.get_or_insert_default().add(scheduling);
    }
    cell.resources.run_delay.extend(report.run_delay);
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
        match fill {
            Some(fill) => {
                fill.map.merge(&theirs);
                fill.bytes += report.moved_bytes;
            }
            none => *none = Some(Fill { map: theirs, bytes: report.moved_bytes }),
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
    // Flushes always go to kernel workers, so they are not evidence about reads and writes.
    if !plan.cell_on(target).spec.issues(OpKind::Flush) {
        let evidence = &mut cell.evidence;
        evidence.kernel_workers = evidence.kernel_workers.max(kernel_workers.count);
        evidence.kernel_workers_cpu_ns = evidence.kernel_workers_cpu_ns.max(kernel_workers.cpu_ns);
    }
    cell.facts.extend(facts);
    cell.ended = graver(cell.ended, report.ended);
}

/// Completes a cell's results after all its workers have reported.
fn finish(plan: &CellPlan, index: usize, cell: &mut Cell, fill: Option<Fill>) {
    if let Some(of) = cell.evidence.verification.take() {
        let map = plan.targets[index].verify.as_ref();
        let kept_map = map.map_or_else(Default::default, |map| map.kept_map());
        cell.evidence.verification = Some(Verification { kept_map, ..of.trimmed() });
    }
    let passes = plan.cell.fill_passes.unwrap_or(1);
    let proof = fill.map(|Fill { map, bytes }| map.proof(passes, bytes));
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

/// The more severe of two reasons why workers ended.
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
