//! Verdicts on a run of a method as a whole: whether it reached its aim, and how it deviates from its file and
//! standard. Verdicts on single cells don't cover this: a search for a steady state can fail although each cell is
//! valid.

use super::{Step, finished, noted, steps};
use crate::completed_step::Done;
use crate::next_step::{Method, of_stage, series_steady, tracked};
use crate::stage::Act;
use iodyno_measure::statistics::steady::Progress;
use iodyno_measure::{Cell, Ended, Level, Preparation, Role, Verdict};
use std::collections::BTreeSet;

/// Judges a run of `method` as a whole. Returns the verdicts, most severe first; there may be none.
/// `subjects` is the number of targets if the method is applied to each separately, otherwise 1.
///
/// [`Level::Invalid`] means that the method did not reach its aim. The verdicts equal
/// [`super::Findings::verdicts`], but cost less to compute.
pub fn verdicts(method: &Method, seed: u64, subjects: u32, cells: &[Cell]) -> Vec<Verdict> {
    let (done, cells) = finished(cells);
    let steps = steps(&done, &cells);
    let complete = is_complete(method, seed, subjects, &done);
    of_steps(method, complete, &steps, &done)
}

/// Whether all stages were completed, for each target that the method treats separately.
pub(super) fn is_complete(method: &Method, seed: u64, subjects: u32, done: &[Done]) -> bool {
    let seen: BTreeSet<u32> = done.iter().map(|d| d.place.subject).collect();
    seen.len() == subjects as usize
        && seen.iter().all(|s| method.next(*s, seed, done) == Ok(crate::Step::Finished))
}

/// Deviations of the run from the method's specification or file, as text.
pub(super) fn deviations(method: &Method, steps: &[Step<'_>]) -> Vec<String> {
    let mut deviations = method.deviations();
    deviations.extend(noted(steps));
    // A sweep or a rate search has no file: its plan says that a cell ends once its steady state is proven.
    let has_file = method.source.sweep.is_none();
    if has_file && steps.iter().any(|s| s.cell.ended == Ended::Settled) {
        deviations.push("cells ended early where their steady state was proven".to_owned());
    }
    deviations
}

pub(super) fn of_steps(
    method: &Method,
    complete: bool,
    steps: &[Step<'_>],
    done: &[Done],
) -> Vec<Verdict> {
    let mut found = Vec::new();
    let mut say = |code: &str, level: Level, text: String| {
        found.push(Verdict { code: code.to_owned(), level, text });
    };
    let subjects: BTreeSet<u32> = done.iter().map(|d| d.place.subject).collect();
    for &subject in &subjects {
        let target = if subjects.len() > 1 {
            let first = steps.iter().find(|s| s.done.place.subject == subject);
            first.map_or(String::new(), |s| format!("{}: ", s.cell.key.target))
        } else {
            String::new()
        };
        for number in 0..method.stages.len() {
            let at = StageOf { method, subject, number, target: &target };
            unsteady_or_empty(at, complete, steps, done, &mut say);
        }
    }
    if !complete {
        say(
            "UNFINISHED",
            Level::Warning,
            "some steps of the method were not carried out".to_owned(),
        );
    }
    let deviations = deviations(method, steps);
    if let (Some(standard), false) = (&method.standard, deviations.is_empty()) {
        say(
            "NON_CONFORMANT",
            Level::Warning,
            format!("deviates from {standard}: {}", deviations.join("; ")),
        );
    } else if !deviations.is_empty() {
        // A reduced purge or fill changes the measured values; a choice or a simulation does not.
        let lacking = is_prepared_less(steps);
        let (code, level) =
            if lacking { ("STAGE_SKIPPED", Level::Warning) } else { ("CHANGED", Level::Note) };
        let from = if method.source.sweep.is_none() { "the method's file" } else { "its plan" };
        say(code, level, format!("deviates from {from}: {}", deviations.join("; ")));
    }
    found.sort_by_key(|v| core::cmp::Reverse(v.level));
    found
}

/// A stage of a method, with its results for one target.
#[derive(Clone, Copy)]
struct StageOf<'a> {
    method: &'a Method,
    subject: u32,
    number: usize,
    /// Name of the target, as a prefix of messages; empty unless targets are treated separately.
    target: &'a str,
}

/// Reports stages that did not reach a steady state, and stages all of whose cells were skipped.
fn unsteady_or_empty(
    at: StageOf<'_>,
    complete: bool,
    steps: &[Step<'_>],
    done: &[Done],
    say: &mut dyn FnMut(&str, Level, String),
) {
    let StageOf { method, subject, number, target } = at;
    let stage = &method.stages[number];
    let mine: Vec<&Done> = of_stage(done, subject, number).collect();
    let name = format!("{target}stage `{}`", stage.name);
    match &stage.act {
        Act::Rounds(rounds) => match tracked(rounds, &mine).map(|s| s.report()) {
            Ok(report) if report.progress == Progress::NotReached => say(
                "NOT_STEADY",
                Level::Invalid,
                format!(
                    "{name}: no steady state in {} rounds, the most that the method allows: the figures are not steady-state performance; precondition for longer, keep other load away, or allow more `rounds` in a copy of the method's file",
                    report.rounds
                ),
            ),
            Ok(_) => {}
            Err(why) => say(
                "NOT_STEADY",
                Level::Invalid,
                format!("{name}: it is unknown whether there was a steady state: {why}"),
            ),
        },
        Act::Series(series) => {
            let report = series_steady(series, &mine).ok().flatten().map(|s| s.report());
            if let Some(report) = report
                && complete
                && report.progress != Progress::Reached
            {
                say(
                    "ENDED_UNSTEADY",
                    Level::Note,
                    format!(
                        "{name}: ended at its limit of time or of writes, without a steady state in {} rounds: its last samples are not steady-state performance",
                        report.rounds
                    ),
                );
            }
        }
        _ => {}
    }
    let skipped: Vec<&String> = steps
        .iter()
        .filter(|s| {
            (s.done.place.subject, s.done.place.stage as usize) == (subject, number)
                && s.done.place.role == Role::Measure
        })
        .filter_map(|s| s.cell.evidence.skipped.as_ref())
        .collect();
    let measured = mine.iter().filter(|d| d.place.role == Role::Measure).count();
    if let Some(why) = skipped.first().filter(|_| skipped.len() == measured) {
        say("STAGE_EMPTY", Level::Invalid, format!("{name}: none of its cells could run: {why}"));
    }
}

/// Whether a purge or fill of a real target did less than the method requires.
fn is_prepared_less(steps: &[Step<'_>]) -> bool {
    steps.iter().any(|s| {
        let e = &s.cell.evidence;
        e.deviation.is_some() && !matches!(e.preparation, Some(Preparation::Constructed(_)))
    })
}
