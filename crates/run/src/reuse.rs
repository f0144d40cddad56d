//! Reuses the preconditioning of an earlier run if the notebook proves that it is still intact.
//!
//! A fill takes hours, and its result lasts until the next write. A later run may reuse it if a finished run in the
//! notebook proves all of the following:
//!
//! * The earlier run filled the same bytes of the same target, in blocks of the same size, with at least as many
//!   passes. Its completed operations prove this ([`FillProof`]). No other program did I/O during the fill.
//! * The earlier run purged the target before its fill, if the present method requires a purge.
//! * After its fill, the earlier run only read.
//! * No program has written since, according to the stored fingerprint ([`unwritten_since`]).
//!
//! If it is unknown whether a condition is met, nothing is reused. Nor is anything reused unless the user or the method
//! requested it. The stored result of the preconditioning then names the earlier run and the proof.

use crate::open_targets::OpenTarget;
use crate::outcome::RunError;
use crate::schedule::touches_nothing;
use crate::step_context::StepContext;
use core::ops::Range;
use iodyno_measure::{Evidence, FillProof, Level, Place, Preparation};
use iodyno_notebook::{Notebook, Run, RunSummary, Status};
use iodyno_targets::{WritesSeen, unwritten_since};
use iodyno_units::{OpKind, human};

/// Name of the cells that record a fill.
pub(crate) const FILL_NAME: &str = "fill";
/// Name of the cell that records a purge.
pub(crate) const PURGE_NAME: &str = "purge";
/// Maximum number of earlier runs to search for the latest fill of a target, the latest run first.
const RUNS_MAX: usize = 8;

/// State that a method requires of its target before the first measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wanted {
    /// Whether the target must have been purged before it was filled.
    pub(crate) purged: bool,
    /// Required minimum number of fill passes.
    pub(crate) passes: u8,
    /// Required block size of the fill, bytes.
    pub(crate) block_bytes: u32,
    /// Offset at which the filled range starts, bytes.
    pub(crate) start_bytes: u64,
    /// Length of the filled range, bytes.
    pub(crate) len_bytes: u64,
}

/// Description of a target's state that an earlier run prepared and that has verifiably not changed since.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Believed {
    words: String,
    /// Deviation of the earlier run's purge from a complete one; None if there is none.
    deviation: Option<String>,
}

/// Whether a preparation step can be skipped because an earlier run has already performed it. Records the earlier run
/// in `evidence`. If the user requested reuse but the step must be repeated, records the reason instead.
pub(crate) fn reused(
    on: &mut StepContext<'_, '_>,
    targets: &Range<usize>,
    place: &Place,
    evidence: &mut Evidence,
) -> Result<bool, RunError> {
    let StepContext { run, open_targets, schedule, notebook, watch, .. } = on;
    let Some(of) = &run.method else { return Ok(false) };
    let prologue = of.method.prologue();
    if place.stage >= prologue.stages || schedule.has_touched(place.subject) {
        return Ok(false);
    }
    let mut why_not = |words: String| {
        if of.reuse {
            watch.advise(&format!("the preconditioning is repeated: {words}"));
            evidence.not_reused = Some(words);
        }
    };
    let Some(fill) = prologue.fill else {
        why_not(
            "the method does not begin with a single fill that stays intact until the first measurement"
                .to_owned(),
        );
        return Ok(false);
    };
    let Some(notebook) = *notebook else {
        why_not("no notebook is kept, so no earlier run is known".to_owned());
        return Ok(false);
    };
    let mut past = Past::new(notebook)?;
    let (mut words, mut less): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for open_target in &open_targets[targets.clone()] {
        let Range { start, end } =
            iodyno_drive::active_range(&fill.spec, open_target.medium.capacity_bytes());
        let wanted = Wanted {
            purged: prologue.purges,
            passes: fill.passes,
            block_bytes: fill.spec.max_data_bytes(),
            start_bytes: start,
            len_bytes: end.saturating_sub(start),
        };
        match past.look(open_target, &wanted)? {
            Ok(believed) => {
                words.push(format!("{}: {}", open_target.name, believed.words));
                less.extend(believed.deviation);
            }
            Err(why) => {
                why_not(format!("{}: {why}", open_target.name));
                return Ok(false);
            }
        }
    }
    let words = words.join("; ");
    if !of.reuse {
        watch.advise(&format!("the preconditioning could be reused with --reuse: {words}"));
        return Ok(false);
    }
    watch.advise(&format!("the preconditioning is reused: {words}"));
    if of.method.standard.is_some() {
        less.push("an earlier run's purge and preconditioning were reused".to_owned());
    }
    evidence.preparation = Some(Preparation::Reused(words));
    evidence.deviation = (!less.is_empty()).then(|| less.join("; "));
    Ok(true)
}

/// Finished runs with a fill, the latest first, loaded from the notebook when needed.
struct Past<'a> {
    notebook: &'a Notebook,
    summaries: Vec<RunSummary>,
    loaded: Vec<Run>,
}

impl<'a> Past<'a> {
    fn new(notebook: &'a Notebook) -> Result<Self, RunError> {
        let filled = |run: &RunSummary| {
            run.status == Status::Finished && run.cells.iter().any(|c| c.name == FILL_NAME)
        };
        let mut summaries = notebook.list()?;
        summaries.retain(filled);
        summaries.reverse();
        summaries.truncate(RUNS_MAX);
        Ok(Self { notebook, summaries, loaded: Vec::new() })
    }

    /// Examines the latest run that filled a target. Returns the target's verified state; the inner error is the
    /// reason why it can't be reused.
    fn look(
        &mut self,
        open_target: &OpenTarget,
        wanted: &Wanted,
    ) -> Result<Result<Believed, String>, RunError> {
        let Some(now) = open_target.writes_seen() else {
            let why =
                "writes to the target are not counted, or the page cache may hold some of them";
            return Ok(Err(why.to_owned()));
        };
        for i in 0..self.summaries.len() {
            if self.loaded.len() == i {
                self.loaded.push(self.notebook.load(&self.summaries[i].id)?);
            }
            let run = &self.loaded[i];
            let known = (0..run.head.targets.len()).find(|&t| is_same(run, t, &now));
            if let Some(target) = known
                && fill_of(run, target).is_some()
            {
                return Ok(believe(run, target, wanted, &now).map_err(|why| {
                    format!("the last run that filled the target was {}, but {why}", run.id)
                }));
            }
        }
        Ok(Err("no finished run in this notebook filled the target".to_owned()))
    }
}

fn seen_after(run: &Run, target: usize) -> Option<WritesSeen> {
    serde_json::from_value(run.head.targets[target].writes_seen()?.clone()).ok()
}

/// Whether an earlier run's target is the present one, by the identity of its file or device.
fn is_same(run: &Run, target: usize, now: &WritesSeen) -> bool {
    let Some(then) = seen_after(run, target) else { return false };
    match (&then.file, &now.file, &then.device, &now.device) {
        (Some(a), Some(b), ..) => a.identity == b.identity,
        (None, None, Some(a), Some(b)) => match (&a.identity, &b.identity) {
            (Some(a), Some(b)) => a == b,
            _ => a.dev == b.dev && a.size_bytes == b.size_bytes,
        },
        _ => false,
    }
}

/// Index of the last cell of a run that filled the target, and the proof of that fill.
fn fill_of(run: &Run, target: usize) -> Option<(usize, FillProof)> {
    let name = &run.head.targets[target].name;
    let mut cells = run.cells.iter().enumerate().rev().filter(|(_, cell)| cell.key.target == *name);
    cells.find_map(|(i, cell)| Some((i, cell.evidence.fill?)))
}

/// Compares the state in which a run left a target with the required state.
///
/// # Errors
/// The reason why the state can't be reused, as the end of a sentence.
fn believe(
    run: &Run,
    target: usize,
    wanted: &Wanted,
    now: &WritesSeen,
) -> Result<Believed, String> {
    let name = &run.head.targets[target].name;
    let (at, proof) = fill_of(run, target).ok_or("that run did not fill the target")?;
    let filled = &run.cells[at];
    if proof.is_short() {
        let share = 100.0 * (1.0 - proof.times_share);
        return Err(format!("that run's fill left out {share:.1} % of the range"));
    }
    if let Some(verdict) =
        filled.verdicts.iter().find(|v| v.level == Level::Invalid || v.code == "FOREIGN_IO")
    {
        return Err(format!("that run's fill is doubtful ({}: {})", verdict.code, verdict.text));
    }
    if proof.times < wanted.passes {
        return Err(format!(
            "that run wrote every block {}, but {} passes are required",
            human::counted(proof.times.into(), "time"),
            wanted.passes
        ));
    }
    let range =
        |start: u64, len: u64| format!("{} to {}", human::size(start), human::size(start + len));
    let there = filled.evidence.active_bytes;
    match filled.evidence.active_start_bytes {
        Some(start) if (start, there) == (wanted.start_bytes, wanted.len_bytes) => {}
        Some(start) => {
            return Err(format!(
                "that run filled {}, but {} is required",
                range(start, there),
                range(wanted.start_bytes, wanted.len_bytes)
            ));
        }
        None => return Err("the range that the run filled was not stored".to_owned()),
    }
    if filled.key.block_bytes() != wanted.block_bytes {
        return Err(format!(
            "that run wrote blocks of {}, but {} are required",
            human::size(filled.key.block_bytes().into()),
            human::size(wanted.block_bytes.into())
        ));
    }
    let deviation = purge_before(run, at, wanted.purged)?;
    untouched_after(run, at, name)?;
    let then = seen_after(run, target)
        .ok_or("that run did not store how much had been written by its end")?;
    unwritten_since(&then, now).map_err(|why| why.to_string())?;
    let counted = if now.file.is_some() {
        "according to the file's times and the write counts of the devices below it"
    } else {
        "according to the device's write counts"
    };
    let purged = if wanted.purged { "purged, then " } else { "" };
    Ok(Believed {
        words: format!(
            "run {} of {} left the target {purged}filled: {} written {}, proven by completed writes; nothing was written since, {counted}",
            run.id,
            run.started.strftime("%Y-%m-%d %H:%M UTC"),
            range(wanted.start_bytes, wanted.len_bytes),
            human::counted(proof.times.into(), "time")
        ),
        deviation,
    })
}

/// Checks, if a purge is `wanted`, that one preceded the fill in cell `at`, with no other I/O between the two. Returns
/// how it deviated from a complete purge, or `None` if it did not.
///
/// # Errors
/// The reason why the run can't be reused.
fn purge_before(run: &Run, at: usize, wanted: bool) -> Result<Option<String>, String> {
    let place = run.cells[at].key.place.as_ref();
    let before = run.cells[..at].iter().rev().filter(|cell| {
        // The same fill on other targets does not lie between the two.
        cell.key.place.as_ref() != place
    });
    let purge = before
        .take_while(|cell| cell.series.is_empty())
        .find(|cell| cell.key.name == PURGE_NAME && cell.key.place.is_some())
        .map(|cell| &cell.evidence);
    match purge {
        _ if !wanted => Ok(None),
        Some(Evidence { preparation: Some(Preparation::Reused(_)), .. }) => {
            Err("that run reused an earlier purge of the target".to_owned())
        }
        Some(purge) => Ok(purge.deviation.clone()),
        None => {
            Err("that run, unlike this method, did not purge the target before its fill".to_owned())
        }
    }
}

/// Checks that the run did not write to the target after the fill in cell `at`.
fn untouched_after(run: &Run, at: usize, target: &str) -> Result<(), String> {
    for cell in &run.cells[at + 1..] {
        if cell.key.target != target && !cell.key.is_of_all_targets() {
            continue;
        }
        // The merged cell of the fill itself.
        if cell.evidence.fill.is_some() || touches_nothing(cell) || cell.is_skipped() {
            continue;
        }
        if cell.series.is_empty() {
            return Err(format!("that run's step `{}` came after the fill", cell.key.name));
        }
        let total = cell.total();
        let only_read = total
            .iter()
            .all(|(kind, class)| kind == OpKind::Read || class.ops() + class.errors.total() == 0);
        if !only_read {
            return Err(format!("that run's cell `{}` wrote after the fill", cell.key.name));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "reuse_tests.rs"]
mod tests;
