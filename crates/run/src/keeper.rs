//! Keeps a cell in the notebook while it grows, and passes on what a watcher wants to see.
//!
//! The notebook may lie on the very storage that is measured. So finished intervals are gathered
//! and written about once a second, in one transaction, by the coordinating thread.

use crate::request::Watch;
use iodyno_drive::{Observer, Progress};
use iodyno_measure::{Cell, Interval};
use iodyno_notebook::{Error, RunWriter};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const WRITE_EVERY: Duration = Duration::from_secs(1);

/// The observer of one cell.
pub(crate) struct Keeper<'a> {
    writer: Option<&'a mut RunWriter>,
    watch: &'a mut dyn Watch,
    /// Notebook index of the first target's cell.
    first_cell: usize,
    position: (usize, usize),
    pending: BTreeMap<(usize, usize), Interval>,
    written: Instant,
    /// The first failure of the notebook; the measurement goes on without it.
    pub(crate) failure: Option<Error>,
}

impl<'a> Keeper<'a> {
    pub(crate) fn new(
        writer: Option<&'a mut RunWriter>,
        watch: &'a mut dyn Watch,
        first_cell: usize,
        position: (usize, usize),
    ) -> Self {
        let written = Instant::now();
        Self {
            writer,
            watch,
            first_cell,
            position,
            pending: BTreeMap::new(),
            written,
            failure: None,
        }
    }

    fn attempt(&mut self, work: impl FnOnce(&mut RunWriter) -> Result<(), Error>) {
        if self.failure.is_some() {
            return;
        }
        if let Some(writer) = &mut self.writer
            && let Err(e) = work(writer)
        {
            self.failure = Some(e);
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

impl Observer for Keeper<'_> {
    fn ready(&mut self, cells: &[Cell]) {
        let first = self.first_cell;
        for (i, cell) in cells.iter().enumerate() {
            self.attempt(|w| w.begin_cell(first + i, cell));
        }
        if let Some(cell) = cells.first() {
            self.watch.cell(self.position.0, self.position.1, cell);
        }
    }

    fn interval(&mut self, target: usize, index: usize, interval: &Interval) {
        if self.writer.is_some() {
            self.pending.entry((target, index)).or_default().merge(interval);
        }
    }

    fn tick(&mut self, progress: &Progress<'_>) {
        if self.written.elapsed() >= WRITE_EVERY {
            self.write();
        }
        self.watch.tick(progress);
    }
}
