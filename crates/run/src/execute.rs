//! The execution of a run, from request to outcome.

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
use iodyno_measure::Ended;
use iodyno_notebook::{self as notebook, Notebook, RunHead, RunWriter, Timestamp};
use serde_json::Value;
use std::sync::atomic::Ordering;

/// Executes a run. Cells measured before an error are in the notebook, with the error as the reason for the
/// end.
pub fn execute(run: &ResolvedRun, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    let ranks = &run.process.ranks;
    over_ranks::vote(run, possible(run))?;
    let _pinned = run.request.processors.as_ref().map(Pinned::to).transpose()?;
    let (mut open_targets, parts) = over_ranks::open(run, watch)?;
    over_ranks::vote(run, refuse::misfits(run, &open_targets))?;
    let inspections: Vec<_> = open_targets.iter().map(|p| p.inspection.clone()).collect();
    let health: Vec<_> = open_targets.iter().map(|p| p.health.clone()).collect();
    let capacities: Vec<u64> = open_targets.iter().map(|p| p.medium.capacity_bytes()).collect();
    let lay_out_bytes = open_targets::lay_out_bytes(run, &open_targets);
    let plan = Plan::new(run, &inspections, &health, &capacities, &lay_out_bytes);
    over_ranks::vote(run, refuse::too_many_cells(run, &plan, open_targets.len(), watch))?;
    watch.planned(&plan);
    for words in open_targets::not_renewed(run, &open_targets) {
        watch.advise(&words);
    }

    let mut head = head(run, &open_targets, &plan);
    if !run.is_farmed()
        && let Some(of_ranks) = ranks.gather(&head.targets)?
    {
        head.targets = of_ranks.into_iter().flatten().collect();
    }
    // Before anything is written: measuring would be pointless if the run can't be stored.
    let resume = run.process.resume.as_ref();
    let (notebook, writer) = over_ranks::vote(run, begin(run, &head))?;
    let started = Timestamp::now();
    let id = writer.as_ref().map_or_else(String::new, |writer| writer.id().to_owned());
    watch.began(&id, &head.name);
    let mut books = Books::new(writer, resume.map_or(&[], |r| r.cells.as_slice()));
    let mut did = Did::default();
    let (recording, events) = match &run.request.record_trace {
        None => (None, None),
        Some(path) => {
            let names: Vec<String> = open_targets.iter().map(|p| p.name.clone()).collect();
            let (recording, events) = TraceWriter::create(&run.folder().join(path), &names)?;
            (Some(recording), Some(events))
        }
    };
    verified::begin(run, &mut open_targets, notebook.as_ref(), started)?;
    let laid_out = open_targets::lay_all_out(run, &mut open_targets, watch);
    let result = over_ranks::vote(run, laid_out)
        .and_then(|()| verified::announce(run, &mut open_targets, notebook.as_ref()))
        .and_then(|()| {
            let kept = (&mut books, notebook.as_ref());
            let targets = (open_targets.as_mut_slice(), parts);
            run_cells(run, targets, kept, watch, &mut did, events.as_ref())
        });
    // The writer thread ends when the last sender is dropped.
    drop(events);
    if let Some(recording) = recording
        && did.ended != Ended::Hung
        && let Err(why) = recording.finish()
    {
        watch.warn(&why);
    }
    // Skip the final flush of a hung target.
    if did.ended != Ended::Hung
        && let Err(e) = verified::keep(run, &open_targets, notebook.as_ref())
    {
        // The notebook still states that this run began to write, so that no later run expects wrong
        // content.
        watch.advise(&format!("later runs can't verify the content that this run wrote: {e}"));
    }

    let cut_short = matches!(result, Ok(Ran::CutShort) | Err(RunError::Interrupted));
    let interrupted = cut_short || did.ended == Ended::Interrupted;
    let too_many_errors = matches!(did.ended, Ended::Errors | Ended::Hung);
    let ending = ending(&result, &mut did, interrupted);
    let hangs = did.ended == Ended::Hung;
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

/// The outcome of a run, as stored in the notebook.
fn ending(result: &Result<Ran, RunError>, did: &mut Did, interrupted: bool) -> notebook::Outcome {
    match (result, did.ended) {
        _ if interrupted => notebook::Outcome::Interrupted,
        (Err(e), _) => notebook::Outcome::Failed(e.to_string()),
        (Ok(_), Ended::Hung) => {
            notebook::Outcome::Failed("the target stopped answering".to_owned())
        }
        (Ok(_), Ended::Errors) => {
            let why = did.failure.take();
            notebook::Outcome::Failed(
                why.unwrap_or_else(|| "too many operations failed".to_owned()),
            )
        }
        (Ok(_), _) => notebook::Outcome::Finished,
    }
}

/// Condition of each device after the run; also of other ranks' devices, if the run was complete.
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

/// How a run ended.
enum Ran {
    /// The cells show how it ended.
    AllCells,
    /// A signal arrived between two cells, so no cell shows it.
    CutShort,
}

/// Outcome of the cells so far.
#[derive(Default)]
struct Did {
    /// The most severe end of any cell so far.
    ended: Ended,
    /// The cause of an engine failure.
    failure: Option<String>,
}

fn run_cells(
    run: &ResolvedRun,
    (open_targets, parts): (&mut [OpenTarget], Parts),
    (books, notebook): (&mut Books, Option<&Notebook>),
    watch: &mut dyn Watch,
    did: &mut Did,
    events: Option<&TraceEvents>,
) -> Result<Ran, RunError> {
    let mut schedule = Schedule::new(run, open_targets.len(), parts);
    if let Some(resume) = run.process.resume.as_ref() {
        prepare::catch_up(run, open_targets, &mut schedule, &resume.cells, watch)?;
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
        if stops && !matches!(next, Next::Finished) {
            return if books.count() == 0 { Err(RunError::Interrupted) } else { Ok(Ran::CutShort) };
        }
        let first_index = books.count();
        let on = StepContext {
            run,
            open_targets,
            schedule: &mut schedule,
            writer: books.writer(),
            notebook,
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
        for cell in &done {
            if matches!(cell.ended, Ended::Interrupted | Ended::Errors | Ended::Hung)
                && did.ended != Ended::Hung
            {
                did.ended = cell.ended;
            }
            if let Some(why) = &cell.evidence.failure {
                did.failure.get_or_insert_with(|| why.clone());
            }
        }
        schedule.note(&done);
        watch.finished(first_index, &done);
        books.finish_cells(done, watch);
        if matches!(did.ended, Ended::Interrupted | Ended::Errors | Ended::Hung) {
            return Ok(Ran::AllCells);
        }
        if then_wait_ns > 0 {
            prepare::wait(run, &mut schedule, then_wait_ns, watch);
        }
    }
}
