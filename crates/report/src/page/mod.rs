//! Converts stored runs to documents: reports on one run, and comparisons of several runs with overlaid curves. The
//! crate `page` renders documents as HTML, Markdown or SVG.
//!
//! The first section is sufficient by itself: target and workload, the headline numbers with their intervals, the
//! verdicts in plain words, and the most relevant plot.

mod cells;
mod compare;
mod devices;
mod disclosure;
mod distribution;
mod first_screen;
mod grid;
mod labels;
mod latency_breakdown;
mod load;
mod messages;
mod method;
mod points;
mod ranks;
mod rate_search;
mod rounds;
mod series;
mod stage;
mod time;

use crate::compare::Compared;
use iodyno_notebook::{Run, portable};
use std::borrow::Cow;

use iodyno_page::{Block, Document, Embedded, Figure, Section};

/// Optional content of a report, and the text of its footer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Name and version of the program, for the footer.
    pub made_by: String,
    /// Whether to additionally draw grids of two axes as three-dimensional columns, as in SNIA's test
    /// specification.
    pub columns: bool,
    /// Whether to omit the data of the runs from the page. `import` then can't read runs from it.
    pub without_data: bool,
    /// Whether the document will be converted to Markdown or CSV, in which the data of the runs can't be embedded.
    pub is_text: bool,
}

/// Maximum number of intervals per embedded run, summed over its cells. An interval takes some hundred bytes.
const CARRIED_INTERVALS_MAX: usize = 4_000;

/// Creates the report on one run, with all of its cells, verdicts and settings.
pub fn document(run: &Run, options: &Options) -> Document {
    let mut document = Document {
        title: run.head.heading(),
        about: labels::about(run),
        made_by: options.made_by.clone(),
        ..Document::default()
    };
    let findings = crate::method::findings_of(run);
    if let Some(findings) = &findings
        && findings.standard.is_some()
        && !findings.deviations.is_empty()
    {
        "NON-CONFORMANT".clone_into(&mut document.stamp);
    }
    let mut sections = match &findings {
        Some(findings) => method::sections(run, findings, options.columns),
        None => cells::sections(run),
    };
    sections.extend(ranks::section(run));
    document.sections = first_screen::with(run, findings.as_ref(), sections);
    document.sections.push(cells::all(run));
    document.sections.extend(disclosure::sections(run, findings.as_ref()));
    embed(&mut document, &[run], options);
    document
}

/// Creates the report on several runs: each side compared with the first one, and curves of all sides on the same
/// axes. `sides` contains the runs of each side.
pub fn comparison(parts: &[Compared<'_>], sides: &[&[Run]], options: &Options) -> Document {
    let runs: Vec<&Run> = sides.iter().copied().flatten().collect();
    let mut others: Vec<String> = parts.iter().map(|p| labels::side(&p.sides[1])).collect();
    others.dedup();
    let against = parts.first().map_or(String::new(), |p| labels::side(&p.sides[0]));
    let mut document = Document {
        title: format!("{} against {against}", others.join(", ")),
        about: labels::about_several(&runs),
        made_by: options.made_by.clone(),
        ..Document::default()
    };
    if parts.len() > 1 {
        document.about.push(format!("each compared with {against} alone, not with the others"));
    }
    for (number, (part, other)) in parts.iter().zip(sides.iter().skip(1)).enumerate() {
        let mut sections = compare::sections(part, [sides[0], other]);
        if parts.len() > 1 {
            for section in &mut sections {
                compare::number(section, number + 1, &labels::side(&part.sides[1]));
            }
        }
        document.sections.extend(sections);
    }
    // Curves on the same axes show the tables' numbers at a glance.
    let after = document.sections.len().min(1);
    let loads = figures("load", "Under load", compare::loads(&runs));
    document.sections.splice(after..after, loads);
    document.sections.splice(0..0, devices::of_runs(&runs));
    document.sections.extend(disclosure::of_comparison(parts, sides));
    embed(&mut document, &runs, options);
    document
}

/// Embeds the runs in the document, with instructions for reading them back.
fn embed(document: &mut Document, runs: &[&Run], options: &Options) {
    let mut words: Vec<String> = Vec::new();
    if options.is_text {
        let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        words.push(format!(
            "This format can't embed runs. `iodyno report {}` writes a page that does, from which `iodyno import` can read them.",
            ids.join(" ")
        ));
    } else if options.without_data {
        words.push("As requested, the runs are not embedded in this file, so `iodyno import` can't read them from it.".to_owned());
    } else {
        let mut left_out = Vec::new();
        let mut longest: u64 = 0;
        for (number, run) in runs.iter().enumerate() {
            let (kept, merge) = carried(run);
            match portable::to_text(&kept) {
                Ok(text) => {
                    let id = format!("iodyno-run-{}", number + 1);
                    let media_type = "application/json".to_owned();
                    document.embedded.push(Embedded { id, media_type, text });
                    if merge > 1 {
                        longest = kept.cells.iter().map(|c| c.interval_ns).max().unwrap_or(0);
                    }
                }
                Err(e) => left_out.push(format!("{}: {e}", run.id)),
            }
        }
        if !document.embedded.is_empty() {
            let (runs, them) =
                if runs.len() == 1 { ("The run is", "it") } else { ("The runs are", "them") };
            words.push(format!(
                "{runs} embedded in this file: `iodyno import FILE` copies {them} to a notebook."
            ));
        }
        if longest > 0 {
            words.push(format!(
                "To limit the size of the file, intervals were merged to up to {}. All counts are complete; the original notebook keeps the shorter intervals.",
                iodyno_units::human::duration_ns(longest)
            ));
        }
        if !left_out.is_empty() {
            words.push(format!("Left out: {}.", left_out.join("; ")));
        }
    }
    let block = Block::Text(words.join(" "));
    match document.sections.iter_mut().find(|s| s.id == disclosure::REPEAT) {
        Some(section) => section.blocks.push(block),
        None => document.sections.push(Section {
            id: "data".to_owned(),
            title: "Data".to_owned(),
            blocks: vec![block],
            folded: false,
        }),
    }
}

/// Returns the run to embed in a page, and the number of intervals that are merged into one. Merging limits the size of
/// the page.
fn carried(run: &Run) -> (Cow<'_, Run>, usize) {
    let all: usize = run.cells.iter().map(|c| c.series.len()).sum();
    let merge = all.div_ceil(CARRIED_INTERVALS_MAX).max(1);
    if merge == 1 {
        return (Cow::Borrowed(run), 1);
    }
    let cells = run.cells.iter().map(|c| c.coarser(merge)).collect();
    let kept = Run {
        cells,
        id: run.id.clone(),
        status: run.status.clone(),
        head: run.head.clone(),
        notebook: run.notebook.clone(),
        annotation: run.annotation.clone(),
        ..*run
    };
    (Cow::Owned(kept), merge)
}

/// Makes a section of `figures`; None if there are none.
fn figures(id: &str, title: &str, figures: Vec<Figure>) -> Option<Section> {
    (!figures.is_empty()).then(|| Section {
        id: id.to_owned(),
        title: title.to_owned(),
        blocks: figures.into_iter().map(Block::Figure).collect(),
        folded: false,
    })
}
