//! Findings of a method: computed by a pure function from the method and its stored cells, as
//! figures that can be printed, drawn and kept.

mod kinds;
mod points;
mod rate_search;
mod rounds;
mod series;
mod sweep;
mod table;
mod verdicts;
mod within_cell;

use crate::completed_step::Done;
use crate::next_step::{Method, of_stage};
use crate::stage::Act;
use iodyno_measure::{Cell, Level, Preparation, Role, Verdict};
use serde::Serialize;
use std::collections::BTreeSet;

pub use kinds::NINES;
pub use points::PointFinding;
pub use rate_search::{Probe, RateSearchFinding};
pub use rounds::{RoundsFinding, Variable};
pub use series::{Sample, SeriesFinding};
pub use sweep::{Load, Scaling, SweepFinding};
pub use table::{Row, Table, kinds_apart};
pub use verdicts::verdicts;
pub use within_cell::Stalls;

/// Findings of one run of a method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// The method's name.
    pub method: String,
    /// Its description, one line.
    pub about: String,
    /// The published specification that it follows, if any.
    pub standard: Option<String>,
    /// The settings in effect.
    pub setting: Option<String>,
    /// The run's deviations from the standard or the file, as text. A standard's name must not be
    /// shown without them.
    pub deviations: Vec<String>,
    /// All stages were carried out.
    pub complete: bool,
    /// On the run as a whole, gravest first. [`iodyno_measure::Level::Invalid`] means that the method failed.
    pub verdicts: Vec<Verdict>,
    /// Each target alone, or all of them together as one.
    pub subjects: Vec<Subject>,
}

impl Findings {
    /// The gravest verdict on the run as a whole; None if there are no verdicts.
    pub fn level(&self) -> Option<Level> {
        self.verdicts.iter().map(|v| v.level).max()
    }
}

/// Findings on one subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// Its target, or all of them.
    pub target: String,
    /// By stage.
    pub stages: Vec<StageFinding>,
}

/// Finding of one stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageFinding {
    /// Its name.
    pub name: String,
    /// Its kind of action.
    pub act: &'static str,
    /// Its result; None where the stage did not begin.
    pub showed: Option<Showed>,
}

/// See [`StageFinding`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "there are as many as stages")]
pub enum Showed {
    /// A purge, a fill or a wait: the action, as text by topic.
    Preparation {
        /// The facts of it.
        facts: Vec<(String, String)>,
        /// What of them says how its target came into its state.
        #[serde(skip)]
        words: Vec<String>,
    },
    /// A grid.
    Sweep(SweepFinding),
    /// Rounds until the steady state.
    Rounds(RoundsFinding),
    /// One workload over time.
    Series(SeriesFinding),
    /// Operating points.
    Points {
        /// In the order of the method.
        points: Vec<PointFinding>,
    },
    /// The highest rate under a latency.
    RateSearch(RateSearchFinding),
}

/// One finished step with its cell. Of several targets' cells the merged one counts.
pub(crate) struct Step<'a> {
    pub(crate) done: &'a Done,
    pub(crate) cell: &'a Cell,
}

/// Findings from the cells of a run; `subjects` is the number of targets where the method was
/// applied to each alone, else 1.
pub fn findings(method: &Method, seed: u64, subjects: u32, cells: &[Cell]) -> Findings {
    let (done, cells) = finished(cells);
    let steps = steps(&done, &cells);
    let complete = verdicts::is_complete(method, seed, subjects, &done);
    let subjects: BTreeSet<u32> = done.iter().map(|d| d.place.subject).collect();
    let mut all = Vec::new();
    for subject in subjects {
        let target = steps
            .iter()
            .find(|s| s.done.place.subject == subject)
            .map_or(String::new(), |s| s.cell.key.target.clone());
        let stages = (0..method.stages.len()).map(|stage| {
            let mine: Vec<&Step> = steps
                .iter()
                .filter(|s| s.done.place.subject == subject && s.done.place.stage as usize == stage)
                .collect();
            finding(method, seed, (stage, subject), &mine, &done)
        });
        all.push(Subject { target, stages: stages.collect() });
    }
    Findings {
        method: method.source.name.clone(),
        about: method.about.clone(),
        standard: method.standard.clone(),
        setting: method.setting.clone(),
        deviations: verdicts::deviations(method, &steps),
        complete,
        verdicts: verdicts::of_steps(method, complete, &steps, &done),
        subjects: all,
    }
}

/// Deviations that are recorded only in the cells, each once.
fn noted(steps: &[Step<'_>]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for step in steps {
        if let Some(words) = &step.cell.evidence.deviation
            && !all.contains(words)
        {
            all.push(words.clone());
        }
    }
    all
}

/// The finished steps with their cells, one a place: of several cells the merged one, which comes last.
fn finished(cells: &[Cell]) -> (Vec<Done>, Vec<&Cell>) {
    let mut all: (Vec<Done>, Vec<&Cell>) = (Vec::new(), Vec::new());
    for cell in cells {
        let Some(done) = Done::of(cell) else { continue };
        if all.0.last().is_some_and(|last| last.place == done.place) {
            all.0.pop();
            all.1.pop();
        }
        all.0.push(done);
        all.1.push(cell);
    }
    all
}

fn steps<'a>(done: &'a [Done], cells: &[&'a Cell]) -> Vec<Step<'a>> {
    done.iter().zip(cells).map(|(done, cell)| Step { done, cell }).collect()
}

fn finding(
    method: &Method,
    seed: u64,
    (stage, subject): (usize, u32),
    steps: &[&Step<'_>],
    done: &[Done],
) -> StageFinding {
    let of = &method.stages[stage];
    let act = match &of.act {
        Act::Purge => "purge",
        Act::Fill(_) => "fill",
        Act::Wait { .. } => "wait",
        Act::Cells(_) => "cells",
        Act::Rounds(_) => "rounds",
        Act::Series(_) => "series",
        Act::Points(_) => "points",
        Act::RateSearch(_) => "rate search",
    };
    let showed = (!steps.is_empty()).then(|| {
        Some(match &of.act {
            Act::Purge | Act::Fill(_) | Act::Wait { .. } => preparation(steps[0].cell),
            Act::Cells(cells) => Showed::Sweep(sweep::sweep(cells, steps)),
            Act::Rounds(rounds) => {
                let mine: Vec<&Done> = of_stage(done, subject, stage).collect();
                Showed::Rounds(rounds::rounds(rounds, seed, &mine, steps))
            }
            Act::Series(series) => {
                let mine: Vec<&Done> = of_stage(done, subject, stage).collect();
                Showed::Series(series::series(series, seed, &mine, steps))
            }
            Act::Points(points) => {
                Showed::Points { points: points::points(method, points, subject, steps, done) }
            }
            Act::RateSearch(search) => Showed::RateSearch(rate_search::finding(search, steps)?),
        })
    });
    StageFinding { name: of.name.clone(), act, showed: showed.flatten() }
}

fn preparation(cell: &Cell) -> Showed {
    let not_reused = cell.evidence.not_reused.iter().map(|why| format!("not reused: {why}"));
    let did = cell.evidence.preparation.iter().map(|did| match did {
        Preparation::Reused(words) => format!("reused: {words}"),
        _ => did.fact().1.to_owned(),
    });
    let words = not_reused.chain(did).collect();
    Showed::Preparation { facts: cell.facts.clone().into_iter().collect(), words }
}

/// The measured ones.
fn measured<'a, 'b>(steps: &'b [&'a Step<'a>]) -> impl Iterator<Item = &'a Step<'a>> + Clone + 'b {
    steps.iter().copied().filter(|s| s.done.place.role == Role::Measure)
}
