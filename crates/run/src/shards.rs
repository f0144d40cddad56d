//! Divides a sweep in virtual time into N shards. The process of each shard measures every N-th cell and stores it in
//! its own notebook, without communication. Afterwards the shards are merged into the run that a single process would
//! have produced.

use crate::find_work;
use crate::request::{RunRequest, STORED_AS, Work};
use crate::resolved_run::ResolvedRun;
use crate::shard::Shard;
use iodyno_measure::Cell;
use iodyno_method::{Done, Step};
use iodyno_notebook::{Error, Notebook, Run, Status, id_of_digest};
use iodyno_targets::TargetName;
use iodyno_units::rng;
use serde_json::Value;
use std::collections::BTreeMap;

/// Refuses to divide a run into shards unless its cells are independent of each other.
pub(crate) fn impossible(run: &ResolvedRun) -> Result<(), String> {
    let Some(shard) = run.request.shard else { return Ok(()) };
    let refused = |why: &str| Err(format!("--shard {shard}: {why}"));
    if !run.process.ranks.is_alone() {
        return refused("ranks already share the cells: leave out --shard, or run without ranks");
    }
    if run.emulated.as_ref().is_none_or(|emulated| emulated.live) {
        return refused(
            "cells on real storage are measured one after the other on one machine; shards are for emulated storage in virtual time (`model:`)",
        );
    }
    match &run.method {
        Some(of) if of.method.has_independent_cells() && !of.each => Ok(()),
        Some(_) => refused(
            "each step of this method depends on earlier results: run it as a whole, or with iodyno-mpi",
        ),
        None => refused(
            "only the cells of a sweep (`--vary`) or of a method can be divided into shards",
        ),
    }
}

/// All shards of one run, ready to be merged.
#[derive(Debug)]
pub struct Shards {
    runs: Vec<Run>,
}

impl Shards {
    /// Collects all shards of one run. The latest shard in the first notebook decides which run it is. Since notebooks
    /// are not trusted, checks that the shards have exactly the cells that the run's method yields, in the same order.
    ///
    /// # Errors
    /// A notebook is unreadable, or a shard is missing, duplicated, unfinished or from another run.
    pub fn find(notebooks: &[Notebook]) -> Result<Self, ShardError> {
        let mut found: BTreeMap<u32, Run> = BTreeMap::new();
        let mut wanted: Option<(RunRequest, u32, String)> = None;
        for notebook in notebooks {
            for listed in notebook.list()?.iter().rev() {
                if !listed.has_method {
                    continue;
                }
                let run = notebook.load(&listed.id)?;
                let Some((whole, shard)) = shard_of(&run) else { continue };
                let version = run.head.iodyno_version.clone();
                let key = (whole, shard.of, version);
                let wanted = wanted.get_or_insert_with(|| key.clone());
                if *wanted == key {
                    // The latest run of each shard, in case one was repeated.
                    let kept = found.entry(shard.number).or_insert_with(|| run.clone());
                    if kept.notebook != run.notebook && kept.id != run.id {
                        return Err(twice(shard, kept, &run));
                    }
                }
            }
        }
        let Some((whole, of, _)) = wanted else {
            let places: Vec<String> =
                notebooks.iter().map(|n| n.path().display().to_string()).collect();
            return Err(ShardError::Wrong(format!(
                "{}: no run with --shard found",
                places.join(", ")
            )));
        };
        let missing: Vec<String> =
            (1..=of).filter(|n| !found.contains_key(n)).map(|n| format!("{n}/{of}")).collect();
        if !missing.is_empty() {
            return Err(ShardError::Wrong(format!(
                "of the run's {of} shards, these are missing: {}; run them, or also name their notebooks",
                missing.join(", ")
            )));
        }
        let unfinished = found.values().find(|run| run.status != Status::Finished);
        if let Some(run) = unfinished {
            return Err(ShardError::Wrong(format!(
                "{} in {} is not finished: resume it with `iodyno --notebook {} resume {}`",
                run.id,
                run.notebook.display(),
                run.notebook.display(),
                run.id
            )));
        }
        let runs: Vec<Run> = found.into_values().collect();
        check_cells(whole, &runs).map_err(ShardError::Wrong)?;
        Ok(Self { runs })
    }

    /// Merges the shards into one run in `notebook`. Its id follows from the ids of the shards, so shards that were
    /// merged before are not stored again.
    ///
    /// # Errors
    /// The notebook can't be written.
    pub fn put_into(self, notebook: &mut Notebook) -> Result<Merged, Error> {
        let Some(first) = self.runs.first() else { return Ok(Merged::default()) };
        let mut head = first.head.clone();
        if let Value::Object(request) = &mut head.plan[STORED_AS] {
            request.remove("shard");
        }
        let digest = (0..).zip(&self.runs).fold(0, |sum, (n, run)| rng::key(sum, &run.id, n));
        let run = Run {
            id: id_of_digest(digest),
            started: self.runs.iter().map(|run| run.started).min().unwrap_or(first.started),
            ended: self.runs.iter().filter_map(|run| run.ended).max(),
            status: Status::Finished,
            head,
            notebook: notebook.path().to_owned(),
            is_imported: true,
            annotation: None,
            cells: in_turn(self.runs),
        };
        let is_new = notebook.import(&run)?;
        Ok(Merged { id: run.id, is_new })
    }
}

/// A run that consists of merged shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Id of the run.
    pub id: String,
    /// Whether the run was stored now; false if the notebook had it already.
    pub is_new: bool,
}

/// Reason why shards can't be merged into a run.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// A notebook can't be read.
    #[error(transparent)]
    Notebook(#[from] Error),
    /// The shards do not form a whole run; the text explains why.
    #[error("{0}")]
    Wrong(String),
}

/// Error for two runs that measured the same shard.
fn twice(shard: Shard, a: &Run, b: &Run) -> ShardError {
    let [first, second] = [a, b].map(|run| format!("run {} in {}", run.id, run.notebook.display()));
    ShardError::Wrong(format!(
        "{first} and {second} are the same shard, {shard}: leave one of the notebooks out"
    ))
}

/// Checks that the shards contain the cells of the run's method, each in the right shard.
fn check_cells(whole: RunRequest, runs: &[Run]) -> Result<(), String> {
    let Work::Method { source, .. } = whole.work else {
        return Err("the run has no shards, because it is neither a sweep nor a method".to_owned());
    };
    if !whole.targets.iter().all(|target| matches!(target, TargetName::Model(_))) {
        return Err("the run has no shards, because its targets are not emulated".to_owned());
    }
    let method = find_work::method(*source).map_err(|problem| problem.to_string())?;
    if !method.has_independent_cells() {
        return Err(
            "the run has no shards, because each step of its method depends on earlier results"
                .to_owned(),
        );
    }
    let other = |run: &Run, number: usize| {
        Err(format!(
            "{} in {}: cell {number} is not the cell that belongs at this position of the run",
            run.id,
            run.notebook.display()
        ))
    };
    let mut steps: Vec<_> = runs
        .iter()
        .map(|run| run.cells.chunk_by(|a, b| a.key.place == b.key.place).enumerate())
        .collect();
    let mut done = Vec::new();
    while let Step::Cell(step) = method.next(0, whole.seed, &done)? {
        let shard = done.len() % runs.len();
        let found = steps[shard].next().and_then(|(_, cells)| cells.first());
        if found.and_then(|cell| cell.key.place.as_ref()) != Some(&step.place) {
            return other(&runs[shard], done.len() / runs.len() + 1);
        }
        done.push(Done { place: step.place, figures: None });
    }
    for (steps, run) in steps.iter_mut().zip(runs) {
        if let Some((number, _)) = steps.next() {
            return other(run, number + 1);
        }
    }
    Ok(())
}

/// Request of the whole run, and the shard that `run` measured; None if it is not a shard.
fn shard_of(run: &Run) -> Option<(RunRequest, Shard)> {
    let mut request = RunRequest::stored_in(&run.head)?;
    let shard = request.shard.take()?;
    // The working folder does not matter.
    request.folder = std::path::PathBuf::new();
    Some((request, shard))
}

/// Cells of all shards in the order of the whole run. Consecutive steps are in different shards.
fn in_turn(runs: Vec<Run>) -> Vec<Cell> {
    let mut shards: Vec<_> = runs.into_iter().map(|run| run.cells.into_iter().peekable()).collect();
    let mut cells = Vec::new();
    loop {
        let before = cells.len();
        for shard in &mut shards {
            let Some(first) = shard.next() else { continue };
            let place = first.key.place.clone();
            cells.push(first);
            while let Some(cell) = shard.next_if(|cell| cell.key.place == place) {
                cells.push(cell);
            }
        }
        if cells.len() == before {
            return cells;
        }
    }
}
