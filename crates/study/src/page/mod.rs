//! Converts a study to a document that contains each table and figure of the paper. Simulated values stand next to the
//! published ones, and colours show their errors. Measurements of a real device can be drawn as an overlay.

mod boxes;
mod figures;
mod over_time;
mod tables;

use crate::Metric;
use crate::error_strata::Spread;
use crate::outcome::Outcome;
use crate::provenance::Provenance;
use crate::row::Nearer;
use crate::series::{Series as Line, series};
use iodyno_emulate::describe::Source;
use iodyno_measure::Summary;
use iodyno_page::document::{Headline, Verdict};
use iodyno_page::{Block, Document, Quantity, Section, Tone};
use iodyno_units::human;

/// Cells measured on a real device, to be drawn in the study's charts for comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// Name in legends: the measured run and its target.
    pub name: String,
    /// Measured cells, with their conditions and results.
    pub cells: Vec<Measured>,
}

/// A measured cell of an [`Overlay`]: its conditions and results. It appears next to the study's row with the same
/// conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Fraction of operations that are reads, 0 to 1.
    pub read: f64,
    /// Whether addresses are random rather than sequential.
    pub random: bool,
    /// Bytes per operation.
    pub block_bytes: u32,
    /// Number of threads per target.
    pub threads: u32,
    /// Outstanding operations per thread.
    pub depth: u32,
    /// Number of targets under load, which corresponds to the devices of a row.
    pub targets: u32,
    /// Measured rates and latencies.
    pub summary: Summary,
}

/// Makes the report on a completed study. `made_by` names the program and its version.
pub fn document(outcome: &Outcome<'_>, overlays: &[Overlay], made_by: &str) -> Document {
    let study = outcome.study;
    let mut sections = vec![result(outcome, overlays)];
    let all = series(study);
    let mut rest = all.as_slice();
    while let Some(first) = rest.first() {
        let same = |s: &&Line| s.panel == first.panel;
        let (of_panel, others) = rest.split_at(rest.iter().take_while(same).count());
        rest = others;
        let panel = &study.panels[first.panel];
        let mut blocks = Vec::new();
        let mut metrics = of_panel;
        while let Some(head) = metrics.first() {
            let count = metrics.iter().take_while(|s| s.metric == head.metric).count();
            let (lines, others) = metrics.split_at(count);
            metrics = others;
            blocks.extend(figures::figure(outcome, lines, overlays).map(Block::Figure));
            blocks.push(Block::Table(tables::table(outcome, lines)));
        }
        blocks.extend(boxes::boxes(outcome, of_panel).into_iter().map(Block::Figure));
        blocks.splice(0..0, figures::over_load(outcome, of_panel).map(Block::Figure));
        blocks
            .splice(0..0, over_time::figures(outcome, first.panel).into_iter().map(Block::Figure));
        sections.push(Section {
            id: format!("panel-{}", first.panel + 1),
            title: if panel.title.is_empty() {
                panel.figure.clone()
            } else {
                format!("{}: {}", panel.figure, panel.title)
            },
            blocks,
            folded: false,
        });
    }
    sections.extend(sentences(outcome));
    sections.push(model(outcome));
    Document {
        title: study.title.clone(),
        about: vec![study.source.clone(), format!("iodyno study {}", study.name)],
        sections,
        made_by: made_by.to_owned(),
        ..Document::default()
    }
}

/// Section on the errors of the simulated values, by their provenance.
fn result(outcome: &Outcome<'_>, overlays: &[Overlay]) -> Section {
    let scored = |basis: Provenance| {
        let rows = outcome.study.rows.iter().zip(&outcome.rows);
        rows.filter(move |(wanted, row)| {
            wanted.basis == basis && !row.flagged && row.score.is_some()
        })
    };
    let mut headlines = Vec::new();
    for (basis, what) in [
        (Provenance::Predicted, "predicted"),
        (Provenance::Derived, "derived"),
        (Provenance::Fitted, "fitted"),
    ] {
        let errors: Vec<f64> = scored(basis)
            .filter_map(|(wanted, row)| {
                let is_one_sided = outcome.printed(wanted)?.is_one_sided();
                let score = row.score?;
                Some(if is_one_sided { score.outside } else { score.error })
            })
            .collect();
        if errors.is_empty() {
            continue;
        }
        let spread = Spread::of(errors.iter().copied());
        let percent = |x: Option<f64>| x.map_or("–".to_owned(), |x| Quantity::Share.words(x));
        let better = scored(basis).filter(|(_, r)| r.nearer() == Some(Nearer::Ours)).count();
        let with_null =
            scored(basis).filter(|(_, r)| r.nearer().is_some_and(|n| n != Nearer::Equal)).count();
        headlines.push(Headline {
            name: format!("{what}: mean error"),
            value: percent(spread.mean),
            interval: format!("median {}, largest {}", percent(spread.median), percent(spread.max)),
            beside: vec![
                format!("{} printed figures", errors.len()),
                format!("nearer than the null model for {better} of {with_null} figures"),
            ],
            tone: Tone::Plain,
        });
    }
    let mut verdicts = vec![Verdict {
        code: "MODEL".to_owned(),
        tone: Tone::Note,
        text: "These results were simulated in virtual time; they show how close the model is to the printed figures, not whether either is right.".to_owned(),
        of: Vec::new(),
    }];
    for figure in outcome.study.printed.iter().filter(|f| !f.flag.is_empty()) {
        let key = &figure.key;
        verdicts.push(Verdict {
            code: "NOT_SCORED".to_owned(),
            tone: Tone::Note,
            text: format!("{} {}: {}", figure.value, figure.unit.name(), figure.flag),
            of: vec![format!("{} {} {}", key.system, key.workload, key.metric)],
        });
    }
    let mut blocks: Vec<Block> =
        tables::conclusions(outcome).map(Block::Table).into_iter().collect();
    blocks.extend([
        Block::Headlines(headlines),
        Block::Verdicts(verdicts),
        Block::Table(crate::strata_table::table(&outcome.strata)),
    ]);
    if !overlays.is_empty() {
        let names: Vec<&str> = overlays.iter().map(|o| o.name.as_str()).collect();
        blocks.push(Block::Text(format!(
            "The figures also show these runs, where mix, block size, threads, depth and number of targets match the paper's: {}.",
            names.join("; ")
        )));
    }
    Section { id: "result".to_owned(), title: "Result".to_owned(), blocks, folded: false }
}

/// Section with published values that belong to no table or figure of the paper; None if there are none.
fn sentences(outcome: &Outcome<'_>) -> Option<Section> {
    let rows: Vec<usize> =
        (0..outcome.rows.len()).filter(|&row| outcome.study.rows[row].panel.is_none()).collect();
    (!rows.is_empty()).then(|| Section {
        id: "sentences".to_owned(),
        title: "In the text".to_owned(),
        blocks: vec![Block::Table(tables::sentences(outcome, &rows))],
        folded: false,
    })
}

/// Quantity by which the page formats values of a metric.
const fn quantity(metric: Metric) -> Quantity {
    metric.unit().quantity()
}

/// Section on the model's parameters and the settings of the simulations.
fn model(outcome: &Outcome<'_>) -> Section {
    let study = outcome.study;
    let systems = study.systems.iter().map(|bench| {
        let options =
            if bench.options.is_empty() { String::new() } else { format!(", {}", bench.options) };
        let note = if bench.note.is_empty() { String::new() } else { format!("; {}", bench.note) };
        (
            bench.name.clone(),
            format!("{} in {}{options}{note}", bench.device_or_array(), bench.host_name),
        )
    });
    let parameters = Source::ALL
        .into_iter()
        .map(|source| (source.name().to_owned(), outcome.parameters(source).to_string()));
    let mut how = vec![
        ("cells".to_owned(), outcome.cells.to_string()),
        ("operations simulated".to_owned(), human::whole(outcome.simulated)),
        (
            "largest standard error of a rate".to_owned(),
            Quantity::Share.words(outcome.rate_error_max),
        ),
        (
            "largest standard error of a mean latency".to_owned(),
            Quantity::Share.words(outcome.latency_error_max),
        ),
    ];
    if let (cells @ 1.., steady) = outcome.in_rounds {
        how.push((
            "cells measured in rounds by SNIA's specification".to_owned(),
            format!("{cells}, {steady} of them steady"),
        ));
    }
    if let (cells @ 1.., shown) = outcome.of_spans {
        how.push((
            "cells that represent longer runs".to_owned(),
            format!("{cells}, {shown} of them proven stationary"),
        ));
    }
    Section {
        id: "model".to_owned(),
        title: "The model".to_owned(),
        blocks: vec![Block::Facts(vec![
            ("Systems".to_owned(), systems.collect()),
            (
                format!("Parameters by source (the paper prints {} figures)", study.printed.len()),
                parameters.collect(),
            ),
            ("How it was run".to_owned(), how),
        ])],
        folded: false,
    }
}
