//! Opens a notebook file; begins, lists and loads the runs in it.

use crate::id::Selector;
use crate::{
    EarlierNotes, Error, Progress, Run, RunHead, RunSummary, RunWriter, annotations, earlier, id,
    load, portable, progress, schema, summaries, target_identity,
};
use iodyno_measure::Interval;
use rusqlite::{Connection, OptionalExtension as _, params};
use std::path::{Path, PathBuf};

/// Maximum number of matching runs that the error for an ambiguous id lists.
const CANDIDATES_MAX: usize = 10;

/// An open notebook: an SQLite file with measured runs.
#[derive(Debug)]
pub struct Notebook {
    db: Connection,
    path: PathBuf,
}

impl Notebook {
    /// Opens the notebook at `path` for writing; creates it and its parent folders if necessary. An empty file
    /// becomes a notebook, and any other file is left unchanged. Several processes may write to a notebook
    /// concurrently.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { db: schema::open_for_writing(path)?, path: path.to_owned() })
    }

    /// Opens an existing notebook for reading; also works on read-only media.
    pub fn open_existing(path: &Path) -> Result<Self, Error> {
        Ok(Self { db: schema::open_for_reading(path)?, path: path.to_owned() })
    }

    /// Path of the notebook's file, as it was given when the notebook was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn db(&self) -> &Connection {
        &self.db
    }

    /// Starts a new run. The returned writer has its own connection to the file, so it may move to another thread
    /// and outlive the notebook.
    pub fn begin(&self, head: &RunHead) -> Result<RunWriter, Error> {
        RunWriter::begin(&self.path, head)
    }

    /// Resumes the incomplete run `id`. Keeps its first `keep` cells (measurements), and removes the others, which
    /// must be measured again.
    ///
    /// # Errors
    /// A living process is writing the run, or the run is finished; it may have been resumed since it was loaded.
    pub fn resume(&self, id: &str, keep: usize) -> Result<RunWriter, Error> {
        RunWriter::resume(&self.path, id, keep)
    }

    /// Returns a summary of every run, in the order in which they were stored.
    pub fn list(&self) -> Result<Vec<RunSummary>, Error> {
        let mut list = Vec::new();
        self.update_list(&mut list)?;
        Ok(list)
    }

    /// Updates the result of an earlier [`Self::list`], and returns whether the list changed. Reads only runs that are
    /// new, in progress, renamed, or whose status has changed.
    pub fn update_list(&self, list: &mut Vec<RunSummary>) -> Result<bool, Error> {
        summaries::update(&self.db, &self.path, list)
    }

    /// Loads several runs, each once, in the order in which they were stored. `list` has comma-separated selectors as
    /// for [`Self::load`], or names of runs. A name selects all runs with that name, and takes precedence over an id that
    /// starts with it.
    pub fn load_several(&self, list: &str) -> Result<Vec<Run>, Error> {
        self.load_several_merged(list, None, false)
    }

    /// Like [`Self::load_several`], but merges neighbouring intervals of each run that has more than `intervals_max`
    /// intervals. The cells' `interval_ns` increases accordingly. `None` means one million, which is also the upper
    /// limit. `alone`: whether the caller has no other runs in memory. If so, and if `list` selects a single run, the
    /// run may take as much memory as with [`Self::load`].
    pub fn load_several_merged(
        &self,
        list: &str,
        intervals_max: Option<u64>,
        alone: bool,
    ) -> Result<Vec<Run>, Error> {
        let numbers = self.select(list)?;
        let bytes_max = match numbers.len() {
            1 if alone => load::CELLS_BYTES_MAX,
            _ => load::CELLS_OF_SEVERAL_BYTES_MAX,
        };
        let load = |number| load::run(&self.db, &self.path, number, intervals_max, bytes_max);
        numbers.into_iter().map(load).collect()
    }

    /// Returns the ids of the runs that `list` selects, as [`Self::load_several`] does; `None` selects all runs. The
    /// ids are in the order in which the runs were stored.
    pub fn ids(&self, list: Option<&str>) -> Result<Vec<String>, Error> {
        let chosen = list.map(|list| self.select(list)).transpose()?;
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut query = self.db.prepare("SELECT number, id FROM runs ORDER BY number")?;
            let rows = query.query_map([], |r| Ok((r.get::<_, i64>(0)?, r.get(1)?)))?;
            let is_chosen = |number: &i64| {
                chosen.as_ref().is_none_or(|chosen| chosen.binary_search(number).is_ok())
            };
            rows.filter(|row| !matches!(row, Ok((number, _)) if !is_chosen(number)))
                .map(|row| row.map(|(_, id)| id))
                .collect()
        };
        read().map_err(|e| schema::explain(&self.path, "looking for runs", e))
    }

    /// Row numbers of the runs that a list selects, in order, each once.
    fn select(&self, list: &str) -> Result<Vec<i64>, Error> {
        let failed = |e| schema::explain(&self.path, "looking for runs", e);
        let mut numbers: Vec<i64> = Vec::new();
        for word in list.split(',').map(str::trim) {
            match id::select(word) {
                Selector::Last(_) => numbers.push(self.find(word)?),
                Selector::Prefix(id) if id.len() == id::LENGTH => numbers.push(self.find(word)?),
                Selector::Prefix(_) | Selector::Nonsense => {
                    let named = self.named(word).map_err(failed)?;
                    if named.is_empty() {
                        numbers.push(self.find(word)?);
                    }
                    numbers.extend(named.into_iter().map(|(number, _)| number));
                }
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Finds the finished runs that have the same workloads and targets as the run that `selector` selects. If `name`
    /// is given, they must also have this name. Returns the ids of the `count_max` runs found that started last, ordered
    /// by start, whenever they were stored.
    pub fn of_same_work(
        &self,
        selector: &str,
        name: Option<&str>,
        count_max: u32,
    ) -> Result<Vec<String>, Error> {
        let number = self.find(selector)?;
        let read = || -> rusqlite::Result<Vec<String>> {
            let targets = target_identity::of_run(&self.db, number)?;
            let mut query = self.db.prepare(
                "WITH works AS (SELECT r.number, r.id, r.name, r.status, r.started, \
                 (SELECT json_group_array(name) FROM (SELECT name FROM workloads WHERE run = r.number ORDER BY position)) \
                 AS workloads FROM runs r) \
                 SELECT number, id FROM works WHERE status = ?2 AND (?3 IS NULL OR name = ?3) AND \
                 workloads = (SELECT workloads FROM works WHERE number = ?1) \
                 ORDER BY started DESC, number DESC",
            )?;
            let mut rows = query.query(params![number, crate::Status::Finished.name(), name])?;
            let mut ids = Vec::new();
            while let Some(row) = rows.next()?.filter(|_| ids.len() < count_max as usize) {
                if target_identity::of_run(&self.db, row.get(0)?)? == targets {
                    ids.push(row.get(1)?);
                }
            }
            Ok(ids)
        };
        let mut ids = read().map_err(|e| schema::explain(&self.path, "looking for runs", e))?;
        ids.reverse();
        Ok(ids)
    }

    /// Changes the name of a run, selected as for [`Self::load`]. The notebook must be open for writing. The caller
    /// must have checked the name with [`crate::check_name`].
    pub fn rename(&self, selector: &str, name: &str) -> Result<(), Error> {
        let number = self.find(selector)?;
        let renamed =
            self.db.execute("UPDATE runs SET name = ?2 WHERE number = ?1", params![number, name]);
        renamed.map(|_| ()).map_err(|e| schema::explain_writing(&self.path, "naming a run", e))
    }

    /// Sets the annotation of a run, selected as for [`Self::load`]; `None` removes it. The notebook must be open for
    /// writing. The caller must have checked the text with [`crate::check_annotation`].
    pub fn annotate(&self, selector: &str, text: Option<&str>) -> Result<(), Error> {
        annotations::put(&self.db, self.find(selector)?, text)
            .map_err(|e| schema::explain_writing(&self.path, "annotating a run", e))
    }

    /// Imports a run from another notebook or a report. The run keeps its id. Returns false without any change if this
    /// notebook already has a run with that id.
    pub fn import(&mut self, run: &Run) -> Result<bool, Error> {
        portable::put(&mut self.db, run)
            .map_err(|e| schema::explain_writing(&self.path, "importing a run", e))
    }

    /// Loads one run, selected by its id, a prefix of its id, `last` (`last~1` for the one before), or a name that no
    /// other run has. A name takes precedence over an id that starts with it.
    pub fn load(&self, selector: &str) -> Result<Run, Error> {
        let number = self.find(selector)?;
        load::run(&self.db, &self.path, number, None, load::CELLS_BYTES_MAX)
    }

    /// Returns the progress of a run, selected as for [`Self::load`].
    pub fn progress(&self, selector: &str) -> Result<Progress, Error> {
        progress::progress(&self.db, &self.path, self.find(selector)?)
    }

    /// Returns up to `count` intervals of a cell (measurement), starting with interval `from`; fewer if the cell has
    /// not recorded more yet. `cell` is the index of the cell in the run. `selector` selects the run, as for
    /// [`Self::load`].
    pub fn intervals(
        &self,
        selector: &str,
        cell: usize,
        from: usize,
        count: usize,
    ) -> Result<Vec<Interval>, Error> {
        progress::intervals(&self.db, &self.path, self.find(selector)?, cell, from, count)
    }

    /// PID of the process that is writing a run. `None` if the run has ended, or if this process can't verify that the
    /// writer is alive, for example because the writer is in another container. `selector` selects the run, as for
    /// [`Self::load`].
    pub fn writing_process(&self, selector: &str) -> Result<Option<u32>, Error> {
        load::writing_process(&self.db, &self.path, self.find(selector)?)
    }

    /// Returns the full id of the run that `selector` selects, as for [`Self::load`].
    pub fn find_id(&self, selector: &str) -> Result<String, Error> {
        let number = self.find(selector)?;
        let id = self.db.query_row("SELECT id FROM runs WHERE number = ?1", [number], |r| r.get(0));
        id.map_err(|e| schema::explain(&self.path, "looking for a run", e))
    }

    /// Returns the notes (verdicts that do not limit validity) on the first cell of each earlier run, for at most 16
    /// runs before run `id`, the latest run first. Empty if they can't be read.
    pub fn notes_before(&self, id: &str) -> Vec<EarlierNotes> {
        earlier::notes_before(&self.db, id).unwrap_or_default()
    }

    /// Row numbers and ids of the runs with a name, in the order in which they were stored.
    fn named(&self, name: &str) -> rusqlite::Result<Vec<(i64, String)>> {
        let mut query =
            self.db.prepare("SELECT number, id FROM runs WHERE name = ?1 ORDER BY number")?;
        query.query_map([name], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
    }

    /// Returns the row number of the run that the selector selects.
    fn find(&self, selector: &str) -> Result<i64, Error> {
        let failed = |e| schema::explain(&self.path, "looking for a run", e);
        let path = self.path.clone();
        let prefix = match id::select(selector) {
            Selector::Last(back) => {
                let last = self
                    .db
                    .query_row(
                        "SELECT number FROM runs ORDER BY number DESC LIMIT 1 OFFSET ?1",
                        [back],
                        |r| r.get(0),
                    )
                    .optional()
                    .map_err(failed)?;
                return last.ok_or(match back {
                    0 => Error::NoRuns { path },
                    _ => Error::UnknownRun { selector: selector.to_owned(), path },
                });
            }
            Selector::Prefix(prefix) => prefix,
            Selector::Nonsense => String::new(),
        };
        let unknown = || Error::UnknownRun { selector: selector.to_owned(), path };
        if prefix.len() < id::LENGTH {
            let name = selector.trim();
            let named =
                if name.is_empty() { Vec::new() } else { self.named(name).map_err(failed)? };
            match named.as_slice() {
                [] if prefix.is_empty() => return Err(unknown()),
                [] => {}
                [(number, _)] => return Ok(*number),
                several => {
                    let latest = several.iter().rev().map(|(_, id)| id.clone());
                    return Err(Error::AmbiguousName {
                        name: name.to_owned(),
                        runs: several.len(),
                        latest: latest.take(CANDIDATES_MAX).collect(),
                    });
                }
            }
        }
        let found = || -> rusqlite::Result<Vec<(i64, String)>> {
            let mut query = self.db.prepare(
                "SELECT number, id FROM runs WHERE id >= ?1 AND id < ?1 || '~'
                 ORDER BY number LIMIT ?2",
            )?;
            query
                .query_map(params![prefix, CANDIDATES_MAX as i64], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect()
        };
        match found().map_err(failed)?.as_slice() {
            [] => Err(unknown()),
            [(number, _)] => Ok(*number),
            several => {
                let candidates = several.iter().map(|(_, id)| id.clone()).collect();
                Err(Error::AmbiguousRun { prefix, candidates })
            }
        }
    }
}
