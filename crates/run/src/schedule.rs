//! Decides which task of a run comes next, by the run's list of cells or by its method. Records finished tasks, and
//! keeps the emulated system if successive tasks share one.

use crate::emulated::devices::{Devices, NewMachine};
use crate::outcome::RunError;
use crate::resolved_run::{MethodRun, ResolvedRun};
use core::ops::Range;
use iodyno_drive::{Carried, CellPlan, DriveError, EngineKind, Walks};
use iodyno_emulate::System;
use iodyno_measure::threshold::is_like;
use iodyno_measure::verdict::judge;
use iodyno_measure::{Cell, CellKey, Evidence, Place, Preparation, Role, Threshold};
use iodyno_method::{Act, Done, Method, Step};
use iodyno_units::Precondition;
use iodyno_units::rng::{self, RngCore as _};
use iodyno_workload::{CellSpec, Settle, Spec, TargetPart};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A cell to measure, with its targets and its position in the run.
#[derive(Debug)]
pub(crate) struct Task {
    /// Workload of the cell, with its settings.
    pub(crate) cell: CellSpec,
    /// Position in the method (stage, round, point); None for a list of cells.
    pub(crate) place: Option<Place>,
    /// Range of indices into the run's targets that the cell uses.
    pub(crate) targets: Range<usize>,
    /// I/O engine; None: chosen per target.
    pub(crate) engine: Option<EngineKind>,
    /// Idle time after the cell, ns.
    pub(crate) then_wait_ns: u64,
    pub(crate) position: CellPosition,
}

/// Position of a cell among the cells of its run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellPosition {
    pub(crate) index: usize,
    /// Number of cells in the run; 0 if unknown.
    pub(crate) count: usize,
}

/// Next action of a run.
#[derive(Debug)]
pub(crate) enum Next {
    /// Measure a cell.
    Measure(Box<Task>),
    /// Prepare targets: purge, fill or wait.
    Prepare {
        /// Position of the preparation in the method.
        place: Place,
        how: Prepare,
        /// Range of indices into the run's targets to prepare.
        targets: Range<usize>,
    },
    /// All tasks are done.
    Finished,
}

/// A preparation step of a method, with its parameters.
#[derive(Debug)]
pub(crate) enum Prepare {
    Purge,
    Fill { spec: Box<Spec>, passes: u8 },
    Wait { ns: u64 },
}

/// Determines the sequence of a run's tasks, and keeps the state that tasks pass on.
#[derive(Debug)]
pub(crate) struct Schedule<'a> {
    run: &'a ResolvedRun,
    targets: usize,
    /// This rank's part of targets that several ranks share.
    parts: TargetPart,
    /// Finished steps of a method. For a list of cells, only their number matters.
    done: Vec<Done>,
    count: usize,
    /// Subjects, by number, to which this run may have written. A subject is one target, or all targets together.
    touched: BTreeSet<u32>,
    /// Results of cells that ran in parallel with an earlier cell, in the order in which they will be due.
    ahead: VecDeque<(Task, Vec<Cell>)>,
    /// Positions of sequential cursors, keyed by subject and stage.
    walks: BTreeMap<(u32, u32), Arc<Walks>>,
    /// State of the emulated devices; None for real targets.
    devices: Option<Devices<'a>>,
    /// Known overheads of the load generator (ns per I/O, maximum IOPS) by workload, since the rounds of a method
    /// repeat their workloads.
    calibrations: Vec<(Spec, (f64, f64))>,
}

impl<'a> Schedule<'a> {
    pub(crate) fn new(run: &'a ResolvedRun, targets: usize, parts: TargetPart) -> Self {
        Self {
            run,
            targets,
            parts,
            done: Vec::new(),
            count: 0,
            touched: BTreeSet::new(),
            ahead: VecDeque::new(),
            walks: BTreeMap::new(),
            devices: run.emulated.as_ref().map(Devices::new),
            calibrations: Vec::new(),
        }
    }

    fn method(&self) -> Option<(&'a MethodRun, &'a Method)> {
        self.run.method.as_ref().map(|m| (m, &m.method))
    }

    /// Returns the next task: the next cell of the list, or the method's next step for the first subject that is not
    /// finished.
    pub(crate) fn next(&self) -> Result<Next, RunError> {
        let Some((of, method)) = self.method() else {
            return Ok(self.listed());
        };
        let subjects = if of.each { self.targets as u32 } else { 1 };
        for subject in 0..subjects {
            let step = method.next(subject, self.run.request.seed, &self.done);
            let step = step.map_err(RunError::Impossible)?;
            if step != Step::Finished {
                return Ok(self.task(step, subject));
            }
        }
        Ok(Next::Finished)
    }

    /// Skips cells of other shards, up to the next cell of this shard.
    pub(crate) fn pass_over_other_shards(&mut self) -> Result<(), RunError> {
        let (Some(shard), Some((_, method))) = (self.run.request.shard, self.method()) else {
            return Ok(());
        };
        while !shard.has(self.done.len()) {
            let step = method.next(0, self.run.request.seed, &self.done);
            let Step::Cell(step) = step.map_err(RunError::Impossible)? else { break };
            self.done.push(Done { place: step.place, figures: None });
        }
        Ok(())
    }

    fn listed(&self) -> Next {
        // Fills run once; then the other cells repeat as a whole list, so that a drift affects all of them alike.
        let fills = self.run.cells.iter().take_while(|cell| cell.fill_passes.is_some()).count();
        let (fills, cells) = self.run.cells.split_at(fills);
        let count = self.count.saturating_sub(fills.len());
        let repeat = (count / cells.len().max(1)) as u32;
        let cell = fills.get(self.count).or_else(|| cells.get(count % cells.len().max(1)));
        let Some(cell) = cell.filter(|_| repeat < self.run.request.repeats) else {
            return Next::Finished;
        };
        let seed = seed_of_repeat(self.run.request.seed, repeat);
        let all = fills.len() + cells.len() * self.run.request.repeats as usize;
        Next::Measure(Box::new(Task {
            cell: CellSpec { repeat, ..self.cell(cell.clone(), seed) },
            place: None,
            targets: 0..self.targets,
            engine: self.run.request.engine,
            then_wait_ns: 0,
            position: CellPosition { index: self.count, count: all },
        }))
    }

    /// Applies the request's settings that hold for all cells.
    pub(crate) fn cell(&self, cell: CellSpec, seed: u64) -> CellSpec {
        let interval_ns = self.run.request.interval_ns.or(cell.interval_ns);
        let errors_max = self.run.request.errors_max;
        let beside = cell.beside.into_iter().zip(1..).map(|(cell, number)| {
            // Equal streams would hit the same blocks.
            let seed = rng::key(seed, "beside", number);
            self.on_part(CellSpec { seed, interval_ns, errors_max, ..cell })
        });
        let beside = beside.collect();
        self.on_part(CellSpec { seed, interval_ns, errors_max, beside, ..cell })
    }

    /// Restricts a cell to this rank's part of shared targets. A rank with its own region also gets its own
    /// random streams; otherwise all ranks would access the same relative offsets.
    fn on_part(&self, cell: CellSpec) -> CellSpec {
        if self.parts == TargetPart::WHOLE {
            return cell;
        }
        // A fill covers the target once, even if every rank then uses the whole of it.
        let own_region = self.parts.own_region || cell.fill_passes.is_some();
        let part = TargetPart { own_region, ..self.parts };
        if !part.own_region {
            return CellSpec { part, ..cell };
        }
        let spec = cell.spec.clone().with_active(part.region_of(cell.spec.active()));
        // Only the ends of the range change, and their kinds were checked to agree.
        let spec = spec.unwrap_or_else(|_| cell.spec.clone());
        let seed = rng::key(cell.seed, "rank", part.index.into());
        CellSpec { part, spec, seed, ..cell }
    }

    fn task(&self, step: Step, subject: u32) -> Next {
        let each = self.run.method.as_ref().is_some_and(|m| m.each);
        let all = if each { subject as usize..subject as usize + 1 } else { 0..self.targets };
        match step {
            Step::Finished => Next::Finished,
            Step::Purge { place } => Next::Prepare { place, how: Prepare::Purge, targets: all },
            Step::Wait { place, ns } => {
                Next::Prepare { place, how: Prepare::Wait { ns }, targets: all }
            }
            Step::Fill { place, spec, passes } => {
                Next::Prepare { place, how: Prepare::Fill { spec, passes }, targets: all }
            }
            Step::Cell(step) => {
                let end = step.targets.map_or(all.end, |n| all.start + n as usize).min(all.end);
                let targets = all.start..end;
                let mut cell = self.cell(step.cell, seed_of(self.run.request.seed, &step.place));
                cell.emulation.settle = self.settle(&cell, targets.clone());
                Next::Measure(Box::new(Task {
                    cell,
                    place: Some(step.place),
                    targets,
                    engine: step.engine.and_then(|e| e.parse().ok()).or(self.run.request.engine),
                    then_wait_ns: step.then_wait_ns,
                    position: CellPosition { index: self.count, count: 0 },
                }))
            }
        }
    }

    /// Overhead of the load generator for a workload: ns per I/O, and maximum IOPS. Measured on first use.
    pub(crate) fn calibrated(
        &mut self,
        spec: &Spec,
        measure: impl FnOnce() -> Result<(f64, f64), DriveError>,
    ) -> Result<(f64, f64), DriveError> {
        let spec = spec.for_calibration(1_000_000);
        if let Some((_, known)) = self.calibrations.iter().find(|(s, _)| *s == spec) {
            return Ok(*known);
        }
        let measured = measure()?;
        self.calibrations.push((spec, measured));
        Ok(measured)
    }

    /// Records a purge of some emulated targets.
    pub(crate) fn purged(&mut self, targets: Range<usize>) {
        if let Some(devices) = &mut self.devices {
            devices.purged(targets);
        }
    }

    /// Records a fill of some emulated targets, and describes the range that was filled.
    pub(crate) fn filled(&mut self, targets: Range<usize>, spec: &Spec) -> String {
        self.devices.as_mut().map_or(String::new(), |devices| devices.filled(targets, spec))
    }

    /// Records that an emulated cell ran.
    pub(crate) fn ran(&mut self, task: &Task) {
        if let Some(devices) = &mut self.devices {
            devices.ran(&task.cell, stage_of(task), task.targets.clone());
        }
    }

    /// Advances the emulated devices on which cells continue by an idle time of `ns`.
    pub(crate) fn idle(&mut self, ns: u64) {
        if let Some(devices) = &mut self.devices {
            devices.idle(ns);
        }
    }

    /// Emulated system in its state before a cell; None for real targets.
    pub(crate) fn system(&self, task: &Task) -> Result<Option<Arc<System>>, RunError> {
        let devices = self.devices.as_ref();
        devices.map(|devices| devices.system(&task.cell, stage_of(task))).transpose()
    }

    /// Returns up to `most` cells that follow `task` in the same round. Stops before a cell that depends on an
    /// earlier cell's device state.
    pub(crate) fn following(&mut self, task: &Task, most: usize) -> Vec<Task> {
        let mut all = Vec::new();
        let (Some((_, method)), Some(place)) = (self.method(), &task.place) else { return all };
        let act = method.stages.get(place.stage as usize).map(|stage| &stage.act);
        if task.cell.emulation.precondition != Precondition::Workload
            || !matches!(act, Some(Act::Rounds(_) | Act::Cells(_)))
        {
            return all;
        }
        // Within a round the next cell follows from the number of finished cells, not from their results.
        let done = self.done.len();
        self.done.push(Done { place: place.clone(), figures: None });
        while all.len() < most {
            let step = method.next(place.subject, self.run.request.seed, &self.done);
            let Ok(step @ Step::Cell(_)) = step else { break };
            let Next::Measure(next) = self.task(step, place.subject) else { break };
            let same_round = next.place.as_ref().is_some_and(|p| {
                (p.stage, p.round, p.role) == (place.stage, place.round, place.role)
            });
            let state = next.cell.emulation.precondition;
            if !same_round || state != Precondition::Workload || next.then_wait_ns > 0 {
                break;
            }
            let is_own = self.run.request.shard.is_none_or(|s| s.has(self.done.len()));
            self.done.extend(next.place.clone().map(|place| Done { place, figures: None }));
            if is_own {
                all.push(*next);
            }
        }
        self.done.truncate(done);
        all
    }

    /// Whether `task` is the next one in the queue of results from parallel runs.
    pub(crate) fn has_ahead(&self, task: &Task) -> bool {
        self.ahead.front().is_some_and(|(ahead, _)| is_same(ahead, task))
    }

    /// Whether results of cells that ran in parallel with an earlier one are waiting to be used.
    pub(crate) fn is_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Takes the results of `task` if it ran in parallel with an earlier cell. Otherwise returns None and discards all
    /// results of parallel runs, because they belong to cells that were wrongly predicted to come next.
    pub(crate) fn take_ahead(&mut self, task: &Task) -> Option<Vec<Cell>> {
        if !self.has_ahead(task) {
            self.ahead.clear();
            return None;
        }
        self.ahead.pop_front().map(|(_, cells)| cells)
    }

    /// Keeps the results of a cell that ran in parallel with an earlier one. Must be called in the order of the
    /// cells.
    pub(crate) fn put_ahead(&mut self, task: Task, cells: Vec<Cell>) {
        self.ahead.push_back((task, cells));
    }

    /// Positions of sequential cursors, which each cell of a series passes on to the next; None outside a series.
    /// A resumed series on real storage starts at the beginning of the range, because positions are not stored.
    pub(crate) fn walks(&mut self, task: &Task) -> Option<Arc<Walks>> {
        let place = task.place.as_ref()?;
        let stage = self.method()?.1.stages.get(place.stage as usize)?;
        matches!(stage.act, Act::Series(_))
            .then(|| Arc::clone(self.walks.entry((place.subject, place.stage)).or_default()))
    }

    /// Emulated machine on which a cell runs and later ones continue, created on first use; None for a cell that gets
    /// a new machine of its own.
    pub(crate) fn machine(
        &mut self,
        task: &Task,
        plan: &CellPlan,
    ) -> Result<Option<&mut Carried>, RunError> {
        let new = NewMachine {
            // A separate seed: that of a cell would correlate the devices with its streams. Repeats of a cell that does
            // not continue must differ.
            seed: match task.cell.emulation.precondition {
                Precondition::Carried => rng::key(self.run.request.seed, "carried machine", 0),
                _ => rng::key(task.cell.seed, "carried machine", 0),
            },
            threads_max: self.run.cells.iter().map(|c| c.spec.threads()).max().unwrap_or(1),
            is_kept: self.method().is_some_and(|(_, method)| method.carries_state()),
        };
        match &mut self.devices {
            Some(devices) => devices.machine(&task.cell, plan, new),
            None => Ok(None),
        }
    }

    /// State of a cell's devices at its start, as text.
    pub(crate) fn states(&self, task: &Task) -> Vec<String> {
        match (&self.run.emulated, &self.devices) {
            (Some(emulated), _) if task.place.is_none() => emulated.states(&task.cell),
            (_, Some(devices)) => devices.states(&task.cell, stage_of(task)),
            _ => Vec::new(),
        }
    }

    /// End condition of a cell that may end early: late enough for the devices' stalls and for the run's thresholds.
    fn settle(&self, cell: &CellSpec, targets: Range<usize>) -> Option<Settle> {
        let settle = cell.emulation.settle?;
        let is_meant =
            |of: &&Threshold| of.cells.as_deref().is_none_or(|like| is_like(like, &cell.name));
        let judged = self.run.thresholds.iter().filter(is_meant).map(|of| of.metric);
        let settle = Method::settle_for(settle, &cell.spec, judged)?;
        Some(match &self.run.emulated {
            Some(emulated) => emulated.settle_over_stalls(settle, &cell.spec, targets),
            None => settle,
        })
    }

    /// Whether this run may have written to a subject's targets since it began.
    pub(crate) fn has_touched(&self, subject: u32) -> bool {
        self.touched.contains(&subject)
    }

    /// Records a finished step. If `cells` has several cells, the last is the merged one.
    pub(crate) fn note(&mut self, cells: &[Cell]) {
        self.count += 1;
        let touching = cells.iter().filter(|cell| !touches_nothing(cell));
        self.touched.extend(touching.filter_map(|c| Some(c.key.place.as_ref()?.subject)));
        self.done.extend(cells.last().and_then(Done::of));
    }
}

/// Number of cells of an interrupted run that belong to complete steps. A step has a cell per target, and a
/// merged cell if there are several targets.
pub(crate) fn whole_steps(cells: &[Cell]) -> usize {
    let (mut whole, mut start) = (0, 0);
    while start < cells.len() {
        let place = &cells[start].key.place;
        let same = cells[start..].iter().take_while(|c| c.key.place == *place).count();
        let step = &cells[start..start + same];
        let merged =
            step.last().is_some_and(|c| c.key.target.starts_with(crate::all_targets::ALL_TARGETS));
        let alone = step.len() == 1 && place.is_some();
        // A step of several targets begins with their cells, and ends with the merged one.
        if !(merged || alone) || step.iter().any(|c| !is_whole(c)) {
            break;
        }
        start += same;
        whole = start;
    }
    whole
}

fn is_same(a: &Task, b: &Task) -> bool {
    (&a.cell, &a.place, &a.targets) == (&b.cell, &b.place, &b.targets)
}

fn is_whole(cell: &Cell) -> bool {
    use iodyno_measure::Ended;
    !matches!(
        cell.ended,
        Ended::Crashed | Ended::Running | Ended::Interrupted | Ended::Errors | Ended::Hung
    )
}

/// Random seed of a method's step. Seeds differ per step, so that rounds do not repeat the same addresses.
fn seed_of(seed: u64, place: &Place) -> u64 {
    let Place { subject, stage, round, index, role, .. } = place;
    let name = format!("subject {subject} stage {stage} round {round} role {role:?}");
    rng::key(seed, &name, u64::from(*index))
}

/// Random seed of a repeat. The first repeat uses the run's seed, so that it equals a run without repeats.
fn seed_of_repeat(seed: u64, repeat: u32) -> u64 {
    if repeat == 0 { seed } else { rng::stream(seed, "repeat", repeat.into()).next_u64() }
}

/// Creates a cell that records a step without a measurement, such as a purge.
pub(crate) fn record(name: &str, target: &str, place: Place, evidence: Evidence) -> Cell {
    let key = CellKey {
        name: name.to_owned(),
        target: target.to_owned(),
        place: Some(place),
        ..CellKey::default()
    };
    let Evidence { skipped, deviation, not_reused, preparation, .. } = &evidence;
    let words = [("skipped", skipped), ("deviation", deviation), ("not reused", not_reused)];
    let words = words.into_iter().filter_map(|(key, words)| Some((key, words.as_deref()?)));
    let facts = words.chain(preparation.as_ref().map(Preparation::fact));
    let facts = facts.map(|(key, words)| (key.to_owned(), words.to_owned())).collect();
    let mut cell = Cell { key, evidence, facts, ..Cell::default() };
    cell.verdicts = judge(&cell);
    cell
}

/// Whether a step did not write to its targets.
pub(crate) fn touches_nothing(cell: &Cell) -> bool {
    let is_preparation = cell.key.place.as_ref().is_some_and(|place| place.role == Role::Prepare);
    let did = &cell.evidence.preparation;
    let nothing = matches!(did, Some(Preparation::Waited(_) | Preparation::Reused(_)));
    is_preparation && cell.series.is_empty() && nothing
}

/// Number of the method's stage to which a task belongs; 0 without a method.
fn stage_of(task: &Task) -> u32 {
    task.place.as_ref().map_or(0, |place| place.stage)
}
