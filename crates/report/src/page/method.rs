//! Sections for a method's stages, each with the plots that fit its findings.

use super::stage::Stage;
use super::{devices, grid, labels, points, rate_search, rounds, series};
use crate::method_headlines::weight;
use iodyno_measure::{Cell, Role};
use iodyno_method::Findings;
use iodyno_method::findings::{Showed, StageFinding};
use iodyno_notebook::Run;
use iodyno_page::{Block, Section};
use std::cmp::Reverse;

/// Makes a section per stage, and sections that compare targets or show several series on one time axis. `columns`:
/// additionally draw grids of two axes as three-dimensional columns.
pub(super) fn sections(run: &Run, findings: &Findings, columns: bool) -> Vec<Section> {
    let mut all = Vec::new();
    let several = findings.subjects.len() > 1;
    if let Some(together) = points::side_by_side(run, findings) {
        all.push((usize::MAX, together));
    }
    all.extend(devices::of_targets(run, findings).map(|section| (usize::MAX, section)));
    for (subject_number, subject) in findings.subjects.iter().enumerate() {
        let of = if several { format!(", {}", subject.target) } else { String::new() };
        let course =
            series::one_after_the_other(run, findings.level(), subject_number, subject, &of);
        all.extend(course.map(|section| (1, section)));
        for (number, finding) in subject.stages.iter().enumerate() {
            let stage = Stage {
                run,
                run_level: findings.level(),
                of: if several { subject.target.clone() } else { String::new() },
                id: if several {
                    format!("{}-{}-{}", labels::slug(&finding.name), subject_number + 1, number + 1)
                } else {
                    format!("{}-{}", labels::slug(&finding.name), number + 1)
                },
                name: &finding.name,
                cells: cells(run, subject_number as u32, number as u32),
                columns,
            };
            let blocks = blocks(&stage, finding);
            if !blocks.is_empty() {
                let section = Section {
                    id: format!("stage-{}", stage.id),
                    title: stage.titled(&finding.name),
                    blocks,
                    folded: false,
                };
                all.push((weight(finding), section));
            }
        }
    }
    // Sections with figures come before preparations, which have only text. The longest load curve comes first: shorter
    // ones only search for the maximum rate, from which the loads of the longest follow.
    all.sort_by_key(|(weight, s)| {
        (!s.blocks.iter().any(|b| matches!(b, Block::Figure(_))), Reverse(*weight))
    });
    all.into_iter().map(|(_, section)| section).collect()
}

fn cells(run: &Run, subject: u32, stage: u32) -> Vec<&Cell> {
    let mine = |c: &&Cell| {
        c.key
            .place
            .as_ref()
            .is_some_and(|p| p.subject == subject && p.stage == stage && p.role == Role::Measure)
    };
    let mut all: Vec<&Cell> = Vec::new();
    for cell in run.cells.iter().filter(mine) {
        // With several targets the merged cell comes last and represents them.
        match all.last_mut() {
            Some(last) if last.key.place == cell.key.place => *last = cell,
            _ => all.push(cell),
        }
    }
    all
}

fn blocks(stage: &Stage<'_>, finding: &StageFinding) -> Vec<Block> {
    match &finding.showed {
        None => vec![Block::Text("Not begun.".to_owned())],
        Some(Showed::Preparation { facts, .. }) => {
            if facts.is_empty() {
                Vec::new()
            } else {
                vec![Block::Facts(vec![(String::new(), facts.clone())])]
            }
        }
        Some(Showed::Sweep(sweep)) => grid::sweep(stage, sweep),
        Some(Showed::Rounds(of)) => rounds::blocks(stage, of),
        Some(Showed::Series(of)) => series::blocks(stage, of),
        Some(Showed::Points { points }) => points::blocks(stage, points),
        Some(Showed::RateSearch(found)) => rate_search::blocks(stage, found),
    }
}
