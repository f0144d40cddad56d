//! `study`: repeats a published study, and compares its figures with the printed ones.

use crate::args::Study;
use crate::console::{print, print_json};
use crate::failure::Failure;
use crate::live::LiveLine;
use crate::{ranks, report, show, signals};
use iodyno_measure::{Cell, Role, Summary};
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_study::page::{self, Measured, Overlay};
use iodyno_study::{Options, Progress, StudyError, json, load, run, terminal};
use iodyno_units::{OpKind, human};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

pub(crate) fn command(
    flags: &Study,
    notebook: Option<&Path>,
    style: Style,
) -> Result<ExitCode, Failure> {
    // Detect a missing run before the minutes that a study takes.
    let ranks = ranks::of_process();
    let printed = || {
        let overlays = overlays(&flags.with, notebook)?;
        let page_at = flags.report.as_ref().map(|file| report::Place::check(file.as_deref()));
        Ok((overlays, page_at.transpose()?))
    };
    let printed = ranks::agreed(ranks.is_first().then(printed).transpose())?;
    let (overlays, page_at) = printed.unwrap_or_default();
    let stop = signals::stop_flag();
    let loaded = || {
        let mut study = load(&flags.study)?;
        if !flags.figure.is_empty() {
            study.only(&flags.figure).map_err(Failure::input)?;
        }
        Ok(study)
    };
    let study = ranks::agreed(loaded())?;
    let effort = if flags.quick { Options::QUICK } else { Options::FULL };
    let options =
        Options { threads: flags.threads.map_or(0, usize::from), seed: flags.seed, ..effort };
    let (live, started) =
        (Mutex::new(LiveLine::new(flags.quiet || !ranks.is_first())), Instant::now());
    let outcome = run(&study, &options, &ranks, &stop, &|progress| {
        // Skip if another thread is drawing.
        if let Ok(mut live) = live.try_lock() {
            live.draw(&live_line(progress, started));
        }
    });
    if let Ok(mut live) = live.lock() {
        live.clear();
    }
    let outcome = outcome?;
    if !ranks.is_first() {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(page_at) = page_at {
        let out = page_at.output(&format!("study-{}.html", outcome.study.name))?;
        report::write(&page::document(&outcome, &overlays, &report::made_by()), out)?;
    }
    if flags.json {
        print_json(&json::document(&outcome))
    } else {
        print(&terminal::show(&outcome, style))
    }
}

/// Loads the runs to overlay on the study's figures.
fn overlays(selectors: &[String], notebook: Option<&Path>) -> Result<Vec<Overlay>, Failure> {
    if selectors.is_empty() {
        return Ok(Vec::new());
    }
    let notebook = show::open(notebook)?.ok_or_else(show::no_notebook)?;
    let mut all = Vec::new();
    for selector in selectors {
        for run in notebook.load_several(selector)? {
            all.push(overlay(&run));
        }
    }
    Ok(all)
}

fn overlay(run: &Run) -> Overlay {
    let is_random = |workload: &str| {
        let spec = run.head.workloads.iter().find(|w| w.name == workload).map(|w| &w.spec);
        let pattern = spec.and_then(|s| s["all"]["addresses"][0]["pattern"].as_str());
        pattern.is_none_or(|p| p != "sequential")
    };
    let merged = run.cells.iter().any(|c| c.key.is_of_all_targets());
    let targets = if merged { run.head.targets.len() as u32 } else { 1 };
    let measures = |c: &&Cell| {
        c.key.place.as_ref().is_none_or(|p| p.role == Role::Measure)
            && (!merged || c.key.is_of_all_targets())
    };
    let cells = run.cells.iter().filter(measures).filter_map(|cell| {
        let summary = Summary::of(cell);
        let of = |kind| summary.kinds.iter().find(|k| k.kind == kind).map_or(0, |k| k.ops) as f64;
        let (reads, writes) = (of(OpKind::Read), of(OpKind::Write));
        (reads + writes > 0.0).then(|| Measured {
            // A mix is drawn at random, so round it: the requested share is within a hundredth.
            read: (reads / (reads + writes) * 100.0).round() / 100.0,
            random: is_random(&cell.key.workload),
            block_bytes: cell.key.block_bytes(),
            threads: cell.key.threads,
            depth: cell.key.depth,
            targets,
            summary,
        })
    });
    let target = run.head.targets.first().map_or("", |t| t.name.as_str());
    Overlay {
        name: format!("{} on {target}, measured ({})", run.head.name, run.id),
        cells: cells.collect(),
    }
}

fn live_line(progress: Progress, started: Instant) -> String {
    let took = human::duration_ns(started.elapsed().as_nanos() as u64);
    let percent = progress.share * 100.0;
    format!("cell {} of {}  {percent:.0} %  {took}", progress.cells, progress.cells_total)
}

impl From<StudyError> for Failure {
    fn from(e: StudyError) -> Self {
        match e {
            StudyError::Interrupted => Self::interrupted(e.to_string()),
            StudyError::Cell { .. } | StudyError::LostRank(_) => Self::target(e.to_string()),
        }
    }
}
