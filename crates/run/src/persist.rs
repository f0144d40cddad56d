//! Stores a run while it is measured. [`CellWriter`] stores the current cell and forwards progress to the watcher.
//! [`Books`] stores finished cells, in memory if the notebook can't be written.
//!
//! Because the notebook may lie on the measured storage, the coordinating thread writes finished intervals only about
//! once a second, in one transaction.
//!
//! If the notebook can't be written, the run continues. Its cells stay in memory (up to [`SERIES_UNKEPT_MAX`] intervals
//! each), and the notebook is tried again after each cell.

use crate::over_ranks;
use crate::schedule::CellPosition;
use crate::watch::Watch;
use iodyno_drive::{Observer, Progress};
use iodyno_measure::{Cell, Interval};
use iodyno_notebook::{Error, Notebook, Outcome, Run, RunWriter};
use iodyno_ranks::Ranks;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of intervals per cell kept in memory once the notebook has stored the cell.
const SERIES_KEPT_MAX: usize = 8;
/// Maximum number of intervals per cell kept in memory while the notebook can't be written.
const SERIES_UNKEPT_MAX: usize = 2048;

/// Finished cells of a run, in order, and the writer that stores them in the notebook.
pub(crate) struct Books {
    writer: Option<RunWriter>,
    cells: Vec<Cell>,
    /// Number of cells that the notebook has stored. Later ones are only in memory.
    kept: usize,
    /// Error that prevented the notebook from storing the remaining cells; None if it has stored all.
    failure: Option<Error>,
}

impl Books {
    /// Creates the books of a run. For a resumed run, `before` has the cells that the notebook has already stored.
    pub(crate) fn new(writer: Option<RunWriter>, before: &[Cell]) -> Self {
        let mut cells = before.to_vec();
        for cell in &mut cells {
            thin(cell, SERIES_KEPT_MAX);
        }
        Self { writer, kept: cells.len(), cells, failure: None }
    }

    pub(crate) fn writer(&mut self) -> Option<&mut RunWriter> {
        self.writer.as_mut()
    }

    pub(crate) fn count(&self) -> usize {
        self.cells.len()
    }

    /// Adds finished cells, and stores them in the notebook with any earlier ones that it could not store.
    pub(crate) fn finish_cells(&mut self, done: Vec<Cell>, watch: &mut dyn Watch) {
        self.cells.extend(done);
        self.catch_up(watch);
    }

    fn catch_up(&mut self, watch: &mut dyn Watch) {
        let Some(writer) = &mut self.writer else { return };
        let had_failed = self.failure.take().is_some();
        for index in self.kept..self.cells.len() {
            if let Err(e) = writer.finish_cell(index, &self.cells[index]) {
                if !had_failed {
                    watch.warn(&unkept_words(&e));
                }
                self.failure = Some(e);
                for cell in &mut self.cells[self.kept..] {
                    thin(cell, SERIES_UNKEPT_MAX);
                }
                return;
            }
            self.kept = index + 1;
            thin(&mut self.cells[index], SERIES_KEPT_MAX);
        }
        if had_failed {
            watch.warn("the notebook is writable again: all cells measured so far were stored");
        }
    }

    /// Stores the end of the run in the notebook. Returns the cells (with merged intervals if the notebook has
    /// the originals), and the error if the notebook could not store the whole run.
    pub(crate) fn finish(
        mut self,
        outcome: &Outcome,
        health_after: &[Option<Value>],
        watch: &mut dyn Watch,
    ) -> (Vec<Cell>, Result<(), Error>) {
        self.catch_up(watch);
        let result = match (self.failure, self.writer) {
            (Some(e), _) => Err(e),
            (None, Some(writer)) => writer.finish(outcome, health_after),
            (None, None) => Ok(()),
        };
        (self.cells, result)
    }
}

/// Stores a run in a new fallback notebook, in a new folder of the temporary directory. If this fails, too,
/// clears the run's id and names the notebook that failed first.
pub(crate) fn keep_elsewhere(
    run: &mut Run,
    id: &str,
    failed: Option<&Path>,
) -> Result<PathBuf, String> {
    use std::os::unix::fs::DirBuilderExt as _;
    id.clone_into(&mut run.id);
    let folder = std::env::temp_dir().join(format!("iodyno-{id}-{}", std::process::id()));
    let path = folder.join("notebook.sqlite");
    let made = std::fs::DirBuilder::new().mode(0o700).create(&folder).map_err(|e| e.to_string());
    let kept = made.and_then(|()| {
        let written = Notebook::open(&path).and_then(|mut notebook| notebook.import(run));
        written.map(drop).map_err(|e| {
            // The file and its folder belong to this process alone, and are of no use without the run.
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir(&folder);
            e.to_string()
        })
    });
    if let Err(why) = kept {
        run.id.clear();
        run.notebook = failed.map(Path::to_owned).unwrap_or_default();
        return Err(format!("{}: {why}", path.display()));
    }
    run.notebook.clone_from(&path);
    Ok(path)
}

/// Warning shown as soon as the notebook can't be written.
fn unkept_words(e: &Error) -> String {
    format!("{e}; the run goes on, and its results stay in memory until its end")
}

/// Merges neighbouring intervals until at most `most` remain.
fn thin(cell: &mut Cell, most: usize) {
    let merge = cell.series.len().div_ceil(most.max(1));
    if merge > 1 {
        *cell = cell.coarser(merge);
    }
}

/// Observes a cell in progress: stores its intervals in the notebook, and reports progress.
pub(crate) struct CellWriter<'a> {
    writer: Option<&'a mut RunWriter>,
    watch: &'a mut dyn Watch,
    ranks: &'a Ranks,
    /// Index of the first target's cell among the run's cells in the notebook.
    first_cell: usize,
    position: CellPosition,
    pending: BTreeMap<(usize, usize), Interval>,
    written: Instant,
    /// Whether writing to the notebook has failed. If so, the measurement continues without it.
    has_failed: bool,
}

impl<'a> CellWriter<'a> {
    pub(crate) fn new(
        writer: Option<&'a mut RunWriter>,
        watch: &'a mut dyn Watch,
        ranks: &'a Ranks,
        first_cell: usize,
        position: CellPosition,
    ) -> Self {
        let written = Instant::now();
        Self {
            writer,
            watch,
            ranks,
            first_cell,
            position,
            pending: BTreeMap::new(),
            written,
            has_failed: false,
        }
    }

    /// Reports that the next `cells` cells, including this one, have begun. The ranks share them as one batch.
    pub(crate) fn begun(&mut self, cells: usize) {
        self.watch.begun(self.position.index + cells, self.ranks.size());
    }

    fn attempt(&mut self, work: impl FnOnce(&mut RunWriter) -> Result<(), Error>) {
        if self.has_failed {
            return;
        }
        if let Some(writer) = &mut self.writer
            && let Err(e) = work(writer)
        {
            self.has_failed = true;
            self.watch.warn(&unkept_words(&e));
        }
    }

    fn write(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let first = self.first_cell;
        let batch: Vec<_> =
            pending.iter().map(|(&(t, i), interval)| (first + t, i, interval)).collect();
        if !batch.is_empty() {
            self.attempt(|w| w.add_intervals(&batch));
        }
        self.written = Instant::now();
    }
}

impl Observer for CellWriter<'_> {
    fn ready(&mut self, cells: &[Cell]) {
        let first = self.first_cell;
        for (i, cell) in cells.iter().enumerate() {
            self.attempt(|w| w.begin_cell(first + i, cell));
        }
        if let Some(cell) = cells.first() {
            self.watch.cell(self.position.index, self.position.count, cell);
        }
        self.watch.ready(first, cells);
    }

    fn interval(&mut self, target: usize, index: usize, interval: &Interval) {
        if self.writer.is_some() {
            self.pending.entry((target, index)).or_default().merge(interval);
        }
        self.watch.interval(target, index, interval);
    }

    fn tick(&mut self, progress: &Progress<'_>) {
        if self.written.elapsed() >= WRITE_EVERY {
            self.write();
        }
        let (rates, ranks) = over_ranks::rates(self.ranks, self.position.index, progress);
        self.watch.tick(progress, &rates, ranks.as_ref());
    }
}
