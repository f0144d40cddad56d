//! Executes a run: opens the targets, measures the cells and stores the results.

use crate::open_targets::{self, OpenTarget};
use crate::outcome::{NotKept, Outcome, RunError};
use crate::over_ranks::{self, Parts};
use crate::persist::{Books, keep_elsewhere};
use crate::plan::Plan;
use crate::prepare;
use crate::processors::Pinned;
use crate::refuse;
use crate::resolved_run::ResolvedRun;
use crate::run_cell::run_cell;
use crate::run_record::{condition_after, head, read_back, unkept};
use crate::schedule::{Next, Schedule};
use crate::shards;
use crate::step_context::StepContext;
use crate::trace_writer::TraceWriter;
use crate::verified;
use crate::watch::Watch;
use iodyno_drive::TraceEvents;
use iodyno_measure::{Cell, Ended};
use iodyno_notebook::{self as notebook, Notebook, RunHead, RunWriter, Timestamp};
use serde_json::Value;
use std::sync::atomic::Ordering;

/// Executes a run. If an error ends the run, the notebook keeps the error and the measurements before it.
pub fn execute(run: &ResolvedRun, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    over_ranks::vote(run, possible(run))?;
    let _pinned = run.request.processors.as_ref().map(Pinned::to).transpose()?;
    let (open_targets, parts) = over_ranks::open(run, watch)?;
    over_ranks::vote(run, refuse::misfits(run, &open_targets))?;
    let plan = announced_plan(run, &open_targets, watch)?;
    // Before anything is written: measuring would be pointless if the run can't be stored.
    let mut execution = Execution::begin(run, open_targets, &plan, watch)?;
    let recording = execution.begin_recording()?;
    execution.begin_verifying()?;
    let result = execution.measure(parts, recording.as_ref().map(|(_, events)| events), watch);
    execution.end_recording(recording, watch);
    execution.keep_verified(watch);
    execution.finish(result, watch)
}

/// Plans the run after its targets are opened, and shows the plan to the user.
fn announced_plan(
    run: &ResolvedRun,
    open_targets: &[OpenTarget],
    watch: &mut dyn Watch,
) -> Result<Plan, RunError> {
    let inspections: Vec<_> = open_targets.iter().map(|p| p.inspection.clone()).collect();
    let health: Vec<_> = open_targets.iter().map(|p| p.health.clone()).collect();
    let capacities: Vec<u64> = open_targets.iter().map(|p| p.medium.capacity_bytes()).collect();
    let lay_out_bytes = open_targets::lay_out_bytes(run, open_targets);
    let plan = Plan::new(run, &inspections, &health, &capacities, &lay_out_bytes);
    over_ranks::vote(run, refuse::too_many_cells(run, &plan, open_targets.len(), watch))?;
    watch.planned(&plan);
    for words in open_targets::not_renewed(run, open_targets) {
        watch.advise(&words);
    }
    Ok(plan)
}

/// Builds the [`RunHead`] of the run to be stored, with the targets of all ranks.
fn head_over_ranks(
    run: &ResolvedRun,
    open_targets: &[OpenTarget],
    plan: &Plan,
) -> Result<RunHead, RunError> {
    let mut head = head(run, open_targets, plan);
    if !run.is_farmed()
        && let Some(of_ranks) = run.process.ranks.gather(&head.targets)?
    {
        head.targets = of_ranks.into_iter().flatten().collect();
    }
    Ok(head)
}

/// Whether the last cell of a run shows how the run ended.
enum Ran {
    /// The last cell shows how the run ended.
    AllCells,
    /// No cell shows the end, because a signal stopped the run between two cells.
    CutShort,
}

/// Writer of a run's trace file, and the channel through which workers send it their operations.
type Recording = (TraceWriter, TraceEvents);

/// State of a run in progress, with open targets and notebook.
struct Execution<'r> {
    run: &'r ResolvedRun,
    head: RunHead,
    open_targets: Vec<OpenTarget>,
    notebook: Option<Notebook>,
    /// Id of the run in the notebook; empty if no notebook stores it.
    id: String,
    started: Timestamp,
    books: Books,
    /// The most severe reason so far for which a cell ended.
    ended: Ended,
    /// Cause of the first engine failure, if any.
    failure: Option<String>,
}

impl<'r> Execution<'r> {
    /// Stores a [`RunHead`], the facts that are known when the run begins, in the notebook. Called before any cell is
    /// measured.
    fn begin(
        run: &'r ResolvedRun,
        open_targets: Vec<OpenTarget>,
        plan: &Plan,
        watch: &mut dyn Watch,
    ) -> Result<Self, RunError> {
        let head = head_over_ranks(run, &open_targets, plan)?;
        let (notebook, writer) = over_ranks::vote(run, begin(run, &head))?;
        let started = Timestamp::now();
        let id = writer.as_ref().map_or_else(String::new, |writer| writer.id().to_owned());
        watch.began(&id, &head.name);
        let before = run.process.resume.as_ref().map_or(&[][..], |r| r.cells.as_slice());
        let books = Books::new(writer, before);
        let (ended, failure) = (Ended::default(), None);
        Ok(Self { run, head, open_targets, notebook, id, started, books, ended, failure })
    }

    /// Creates the trace file that records the run's operations; None if they are not recorded.
    fn begin_recording(&self) -> Result<Option<Recording>, RunError> {
        let Some(path) = &self.run.request.record_trace else { return Ok(None) };
        let names: Vec<String> = self.open_targets.iter().map(|p| p.name.clone()).collect();
        TraceWriter::create(&self.run.folder().join(path), &names).map(Some)
    }

    fn begin_verifying(&mut self) -> Result<(), RunError> {
        verified::begin(self.run, &mut self.open_targets, self.notebook.as_ref(), self.started)
    }

    /// Lays out the targets' initial content, and measures the cells.
    fn measure(
        &mut self,
        parts: Parts,
        events: Option<&TraceEvents>,
        watch: &mut dyn Watch,
    ) -> Result<Ran, RunError> {
        let laid_out = open_targets::lay_all_out(self.run, &mut self.open_targets, watch);
        over_ranks::vote(self.run, laid_out)?;
        verified::announce(self.run, &mut self.open_targets, self.notebook.as_ref())?;
        self.run_cells(parts, events, watch)
    }

    fn run_cells(
        &mut self,
        parts: Parts,
        events: Option<&TraceEvents>,
        watch: &mut dyn Watch,
    ) -> Result<Ran, RunError> {
        let run = self.run;
        let mut schedule = Schedule::new(run, self.open_targets.len(), parts);
        if let Some(resume) = run.process.resume.as_ref() {
            let targets = &mut self.open_targets;
            prepare::catch_up(run, targets, &mut schedule, &resume.cells, watch)?;
        }
        loop {
            schedule.pass_over_other_shards()?;
            let (next, stops) = (schedule.next(), run.process.stop.load(Ordering::Relaxed));
            // Cells that another rank has already measured need no exchange.
            let (next, stops) = if schedule.is_ahead() {
                (next?, stops)
            } else {
                (over_ranks::vote(run, next)?, over_ranks::any_stops(run, stops)?)
            };
            let first_index = self.books.count();
            if stops && !matches!(next, Next::Finished) {
                return if first_index == 0 {
                    Err(RunError::Interrupted)
                } else {
                    Ok(Ran::CutShort)
                };
            }
            let on = StepContext {
                run,
                open_targets: &mut self.open_targets,
                schedule: &mut schedule,
                writer: self.books.writer(),
                notebook: self.notebook.as_ref(),
                first_index,
                watch,
                events,
            };
            let (done, then_wait_ns) = match next {
                Next::Finished => return Ok(Ran::AllCells),
                Next::Prepare { place, how, targets } => {
                    (prepare::prepare(on, place, how, targets)?, 0)
                }
                Next::Measure(task) => (run_cell(on, &task)?, task.then_wait_ns),
            };
            self.note_ends(&done);
            schedule.note(&done);
            watch.finished(first_index, &done);
            self.books.finish_cells(done, watch);
            if is_premature(self.ended) {
                return Ok(Ran::AllCells);
            }
            if then_wait_ns > 0 {
                prepare::wait(run, &mut schedule, then_wait_ns, watch);
            }
        }
    }

    /// Records whether finished cells ended prematurely, and why.
    fn note_ends(&mut self, done: &[Cell]) {
        for cell in done {
            if is_premature(cell.ended) && self.ended != Ended::Hung {
                self.ended = cell.ended;
            }
            if let Some(why) = &cell.evidence.failure {
                self.failure.get_or_insert_with(|| why.clone());
            }
        }
    }

    /// Completes the trace file with the recorded operations.
    fn end_recording(&self, recording: Option<Recording>, watch: &mut dyn Watch) {
        let Some((file, events)) = recording else { return };
        // The writer's thread ends when the last sender is dropped.
        drop(events);
        if self.ended != Ended::Hung
            && let Err(why) = file.finish()
        {
            watch.warn(&why);
        }
    }

    /// Stores a map of the written content, so that later runs can verify it.
    fn keep_verified(&self, watch: &mut dyn Watch) {
        // Skip the final flush of a hung target.
        if self.ended != Ended::Hung
            && let Err(e) = verified::keep(self.run, &self.open_targets, self.notebook.as_ref())
        {
            // The notebook still states that this run began to write, so that no later run expects wrong
            // content.
            watch.advise(&format!("later runs can't verify the content that this run wrote: {e}"));
        }
    }

    /// Stores the end of the run in the notebook, and returns the run as stored.
    fn finish(
        self,
        result: Result<Ran, RunError>,
        watch: &mut dyn Watch,
    ) -> Result<Outcome, RunError> {
        let Self { run, head, open_targets, notebook, id, started, books, ended, failure } = self;
        let cut_short = matches!(result, Ok(Ran::CutShort) | Err(RunError::Interrupted));
        let interrupted = cut_short || ended == Ended::Interrupted;
        let too_many_errors = matches!(ended, Ended::Errors | Ended::Hung);
        let ending = ending(&result, ended, failure, interrupted);
        let hangs = ended == Ended::Hung;
        let mut health_after = conditions_after(run, &open_targets, hangs, result.is_ok());
        health_after.resize(head.targets.len(), None);
        let (cells, kept) = books.finish(&ending, &health_after, watch);
        let (stored, not_kept) = match kept {
            Ok(()) => {
                result?;
                let measured = unkept(head, started, &ending, health_after, cells);
                let stored = match &notebook {
                    Some(notebook) => read_back(notebook, &id, measured, watch),
                    None => measured,
                };
                (stored, None)
            }
            Err(why) => {
                // Show the measured cells, even if something else failed too.
                if cells.is_empty() {
                    result?;
                    return Err(why.into());
                }
                let mut stored = unkept(head, started, &ending, health_after, cells);
                let instead = keep_elsewhere(&mut stored, &id, run.process.notebook.as_deref());
                (stored, Some(NotKept { why, instead }))
            }
        };
        if hangs {
            // Closing a file on a hung device may block. The process ends soon, and the kernel closes all files.
            std::mem::forget(open_targets);
        }
        Ok(Outcome { run: stored, interrupted, too_many_errors, not_kept })
    }
}

/// Whether a cell that ends for this reason also ends the run.
fn is_premature(ended: Ended) -> bool {
    matches!(ended, Ended::Interrupted | Ended::Errors | Ended::Hung)
}

/// Determines the outcome of a run, as stored in the notebook.
fn ending(
    result: &Result<Ran, RunError>,
    ended: Ended,
    failure: Option<String>,
    interrupted: bool,
) -> notebook::Outcome {
    match (result, ended) {
        _ if interrupted => notebook::Outcome::Interrupted,
        (Err(e), _) => notebook::Outcome::Failed(e.to_string()),
        (Ok(_), Ended::Hung) => {
            notebook::Outcome::Failed("the target stopped answering".to_owned())
        }
        (Ok(_), Ended::Errors) => notebook::Outcome::Failed(
            failure.unwrap_or_else(|| "too many operations failed".to_owned()),
        ),
        (Ok(_), _) => notebook::Outcome::Finished,
    }
}

/// Condition (health log, temperature, link) of each device after the run. Includes the devices of other
/// ranks if the run completed.
fn conditions_after(
    run: &ResolvedRun,
    open_targets: &[OpenTarget],
    hangs: bool,
    is_whole: bool,
) -> Vec<Option<Value>> {
    // Reading the condition of a hung device would block this thread.
    let own = |open_target| if hangs { None } else { condition_after(open_target) };
    let own: Vec<Option<Value>> = open_targets.iter().map(own).collect();
    let of_ranks = if is_whole { run.process.ranks.gather(&own).ok().flatten() } else { None };
    of_ranks.map_or(own, |all| all.into_iter().flatten().collect())
}

/// Refuses requests that are impossible on any target.
fn possible(run: &ResolvedRun) -> Result<(), RunError> {
    refuse::impossible(run)?;
    shards::impossible(run).map_err(RunError::Impossible)?;
    over_ranks::impossible(run)
}

/// Opens the notebook of this rank, and begins the run in it or resumes it.
fn begin(
    run: &ResolvedRun,
    head: &RunHead,
) -> Result<(Option<Notebook>, Option<RunWriter>), RunError> {
    let notebook = run.process.notebook.as_deref().map(Notebook::open).transpose()?;
    let writer = match (&notebook, run.process.resume.as_ref()) {
        (Some(notebook), Some(resume)) if run.process.ranks.is_first() => {
            Some(notebook.resume(&resume.id, resume.cells.len())?)
        }
        (Some(notebook), _) => Some(notebook.begin(head)?),
        (None, _) => None,
    };
    Ok((notebook, writer))
}
