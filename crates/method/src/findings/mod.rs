//! Findings: the results of a method, to be printed, drawn and stored. A pure function computes them from the method
//! and its cells (measurements).

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

/// Results of a run of a method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    pub method: String,
    /// One-line description of the method; may be empty.
    pub about: String,
    /// Published specification that the method follows; `None` if there is none.
    pub standard: Option<String>,
    /// Name of the group of settings in effect; `None` if the method has none.
    pub setting: Option<String>,
    /// Deviations of the run from the specification or the method file, as text. Output that names the specification
    /// must also show these deviations.
    pub deviations: Vec<String>,
    /// Whether all stages were carried out.
    pub complete: bool,
    /// Verdicts on the run as a whole, most severe first. [`iodyno_measure::Level::Invalid`]: the method failed.
    pub verdicts: Vec<Verdict>,
    /// One entry per target if the method is applied to each separately, otherwise a single one for all targets
    /// together.
    pub subjects: Vec<Subject>,
}

impl Findings {
    /// Level of the most severe verdict on the run as a whole; `None` without verdicts.
    pub fn level(&self) -> Option<Level> {
        self.verdicts.iter().map(|v| v.level).max()
    }
}

/// Results for one target, or for all targets together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// Name of the target, or the joint name of all targets.
    pub target: String,
    /// Results of the stages, in their order.
    pub stages: Vec<StageFinding>,
}

/// Result of one stage of a method on one target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageFinding {
    /// Name of the stage, unique within the method.
    pub name: String,
    /// Type of the stage, such as `rounds`.
    pub act: &'static str,
    /// Result of the stage; `None` if it did not begin.
    pub showed: Option<Showed>,
}

/// Result of a stage, by the stage's type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "there are as many as stages")]
pub enum Showed {
    /// Description of a purge, fill or wait.
    Preparation {
        /// Facts about the preparation, as pairs of topic and text.
        facts: Vec<(String, String)>,
        /// Sentences that describe how the targets were prepared.
        #[serde(skip)]
        words: Vec<String>,
    },
    /// Result of measuring all points of a grid.
    Sweep(SweepFinding),
    /// Result of rounds, which repeat a grid until the steady state.
    Rounds(RoundsFinding),
    /// Result of one workload sampled over time.
    Series(SeriesFinding),
    /// Results at operating points chosen from an earlier stage.
    Points {
        /// Operating points, in the order of the method.
        points: Vec<PointFinding>,
    },
    /// Result of the search for the highest rate under a latency limit.
    RateSearch(RateSearchFinding),
}

/// A completed step with its cell; for several targets, the merged cell.
pub(crate) struct Step<'a> {
    pub(crate) done: &'a Done,
    pub(crate) cell: &'a Cell,
}

/// Derives the results of a method from the cells (measurements) of its run. `subjects` is the number of targets if
/// the method is applied to each separately, otherwise 1.
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
            finding(method, seed, stage, subject, &mine, &done)
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

/// Deviations recorded in the evidence of the cells, without duplicates.
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

/// Completed steps with their cells, one per position in the method. If a step ran on several targets, its
/// merged cell, which comes last, is used.
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
    stage: usize,
    subject: u32,
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

/// Selects the steps that measured; the others only prepared the target.
fn measured<'a, 'b>(steps: &'b [&'a Step<'a>]) -> impl Iterator<Item = &'a Step<'a>> + Clone + 'b {
    steps.iter().copied().filter(|s| s.done.place.role == Role::Measure)
}
