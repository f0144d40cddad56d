//! Writes a run to the notebook while the run is in progress.
//!
//! Each call is one transaction; when the call returns, its data survives a kill of the process. An interval costs some
//! tens of microseconds and no fsync, so it can be written during a cell. The write-ahead log is checkpointed into the
//! file when a cell is finished, not during it, unless it grows beyond 64 MiB: a checkpoint costs an fsync, and the
//! notebook may be on the storage that is being measured.

use crate::{Error, Outcome, RunHead, Timestamp, codec, id, load, process::Writer, schema};
use iodyno_measure::{Cell, Interval};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Size of the write-ahead log, in pages of 4 KiB, at which SQLite checkpoints it into the file.
const LOG_PAGES_MAX: i64 = 16_384;

/// Writes one run to the notebook. Dropping it before [`Self::finish`] leaves the run marked as crashed.
#[derive(Debug)]
pub struct RunWriter {
    db: Connection,
    path: PathBuf,
    id: String,
    run: i64,
    /// Row number of each cell, by the cell's index in the run.
    cells: BTreeMap<usize, i64>,
    ended: bool,
}

/// Current time, rounded to the millisecond, the resolution of times in the notebook.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// Formats a time with exactly three decimals, so that the texts sort in order of time.
pub(crate) fn time_text(time: Timestamp) -> String {
    format!("{time:.3}")
}

impl RunWriter {
    pub(crate) fn begin(path: &Path, head: &RunHead) -> Result<Self, Error> {
        let mut db = schema::open_for_writing(path)?;
        let failed = |e| schema::explain_writing(path, "beginning a run", e);
        db.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX).map_err(failed)?;
        let (id, run) = begin_run(&mut db, head).map_err(failed)?;
        Ok(Self { db, path: path.to_owned(), id, run, cells: BTreeMap::new(), ended: false })
    }

    /// Resumes an incomplete run: keeps its first `keep` cells and removes the others.
    pub(crate) fn resume(path: &Path, id: &str, keep: usize) -> Result<Self, Error> {
        let mut db = schema::open_for_writing(path)?;
        let failed = |e| schema::explain_writing(path, "resuming a run", e);
        db.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX).map_err(failed)?;
        let run = take_up(&mut db, path, id, keep)?;
        let cells = BTreeMap::new();
        Ok(Self { db, path: path.to_owned(), id: id.to_owned(), run, cells, ended: false })
    }

    /// Id of the run that is being written.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Stores the properties of cell (measurement) `index`, such as its key and interval length, before the measurement
    /// starts. Ignores the time series in `cell`. Replaces any earlier cell with this index.
    pub fn begin_cell(&mut self, index: usize, cell: &Cell) -> Result<(), Error> {
        let run = self.run;
        let number = self
            .transaction("beginning a cell", |tx| codec::put_cell(tx, run, index, cell, false))?;
        self.cells.insert(index, number);
        Ok(())
    }

    /// Adds completed operations to interval `interval_index` of a cell (measurement) that was begun. Calls for the
    /// same interval are merged, so workers may deliver their results late and separately.
    ///
    /// # Panics
    /// If the cell was never begun.
    pub fn add_interval(
        &mut self,
        cell_index: usize,
        interval_index: usize,
        interval: &Interval,
    ) -> Result<(), Error> {
        self.add_intervals(&[(cell_index, interval_index, interval)])
    }

    /// Adds several intervals in one transaction: all or none. Each is given as cell index, interval index and
    /// completed operations.
    ///
    /// # Panics
    /// If one of the cells was never begun.
    pub fn add_intervals(&mut self, batch: &[(usize, usize, &Interval)]) -> Result<(), Error> {
        let rows: Vec<i64> = batch
            .iter()
            .map(|(cell, _, _)| *self.cells.get(cell).expect("the cell was begun"))
            .collect();
        self.transaction("adding an interval", |tx| {
            for (&row, (_, position, interval)) in rows.iter().zip(batch) {
                codec::add_interval(tx, row, *position, interval)?;
            }
            Ok(())
        })
    }

    /// Replaces all stored data of cell (measurement) `index` by the finished cell, including series and verdicts. Adds
    /// the cell if it was never begun, such as a cell that merges the cells of several targets.
    pub fn finish_cell(&mut self, index: usize, cell: &Cell) -> Result<(), Error> {
        let run = self.run;
        let number = self.transaction("finishing a cell", |tx| {
            let number = codec::put_cell(tx, run, index, cell, true)?;
            for (position, interval) in cell.series.iter().enumerate() {
                codec::put_interval(tx, number, position, interval)?;
            }
            Ok(number)
        })?;
        self.cells.insert(index, number);
        // Between cells an fsync disturbs no measurement. While another connection reads, SQLite checkpoints less,
        // and the next checkpoint does the rest.
        let _ = self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        Ok(())
    }

    /// Ends the run with its outcome. `health_after` contains the health of each target after the run, in the order of
    /// the run's targets; `None` if unknown.
    pub fn finish(
        mut self,
        outcome: &Outcome,
        health_after: &[Option<Value>],
    ) -> Result<(), Error> {
        let run = self.run;
        let (status, reason) = match outcome {
            Outcome::Finished => ("finished", None),
            Outcome::Interrupted => ("interrupted", None),
            Outcome::Failed(reason) => ("failed", Some(reason.as_str())),
        };
        self.transaction("ending a run", |tx| {
            tx.execute(
                "UPDATE runs SET status = ?2, reason = ?3, ended = ?4 WHERE number = ?1",
                params![run, status, reason, time_text(now())],
            )?;
            for (position, health) in health_after.iter().enumerate() {
                let Some(health) = health else { continue };
                tx.execute(
                    "UPDATE targets SET health_after = ?3 WHERE run = ?1 AND position = ?2",
                    params![run, position as i64, codec::json(health)?],
                )?;
            }
            Ok(())
        })?;
        self.ended = true;
        Ok(())
    }

    fn transaction<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&Transaction) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let result = (|| {
            let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&tx)?;
            tx.commit()?;
            Ok(value)
        })();
        result.map_err(|e| schema::explain_writing(&self.path, doing, e))
    }
}

impl Drop for RunWriter {
    /// Marks an unfinished run as crashed. After a panic or an early return the process may live on, so readers would
    /// take the run for one in progress.
    fn drop(&mut self) {
        if !self.ended {
            let _ = self
                .db
                .execute("UPDATE runs SET status = 'crashed' WHERE number = ?1", params![self.run]);
        }
    }
}

/// Inserts a new run into the notebook. Returns its id and its row number.
fn begin_run(db: &mut Connection, head: &RunHead) -> rusqlite::Result<(String, i64)> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let id = free_id(&tx)?;
    let run = insert_run(&tx, &id, now(), head, Some(&Writer::this()))?;
    tx.commit()?;
    Ok((id, run))
}

/// Inserts a run with status running, together with its targets and workloads. Returns its row number. An
/// imported run has no writing process.
pub(crate) fn insert_run(
    tx: &Transaction,
    id: &str,
    started: Timestamp,
    head: &RunHead,
    writer: Option<&Writer>,
) -> rusqlite::Result<i64> {
    tx.execute(
        "INSERT INTO runs (id, name, status, started, seed, iodyno_version, command, machine, plan,
             writer_boot, writer_namespace, writer_pid, writer_start_ticks)
         VALUES (?1, ?2, 'running', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            id,
            head.name,
            time_text(started),
            head.seed.to_string(),
            head.iodyno_version,
            codec::json(&head.command)?,
            codec::json(&head.machine)?,
            codec::json(&head.plan)?,
            writer.map_or("", |w| &w.boot),
            writer.map_or("", |w| &w.namespace),
            writer.map_or(0, |w| w.pid),
            writer.map_or(0, |w| w.start_ticks as i64),
        ],
    )?;
    let run = tx.last_insert_rowid();
    for (position, target) in head.targets.iter().enumerate() {
        tx.execute(
            "INSERT INTO targets (run, position, name, facts, health_before, health_after)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                run,
                position as i64,
                target.name,
                codec::json(&target.facts)?,
                target.health_before.as_ref().map(codec::json).transpose()?,
                target.health_after.as_ref().map(codec::json).transpose()?,
            ],
        )?;
    }
    for (position, workload) in head.workloads.iter().enumerate() {
        tx.execute(
            "INSERT INTO workloads (run, position, name, spec) VALUES (?1, ?2, ?3, ?4)",
            params![run, position as i64, workload.name, codec::json(&workload.spec)?],
        )?;
    }
    Ok(run)
}

/// Makes this process the writer of an existing run that no living process writes, and removes the cells after the
/// first `keep`. Returns the run's row number.
fn take_up(db: &mut Connection, path: &Path, id: &str, keep: usize) -> Result<i64, Error> {
    const DOING: &str = "resuming a run";
    let failed = |e| schema::explain_writing(path, DOING, e);
    let writer = Writer::this();
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let (run, found) = tx
        .query_row(
            &format!("SELECT {}, number FROM runs WHERE id = ?1", load::STANDING),
            [id],
            |row| Ok((row.get("number")?, load::standing(row))),
        )
        .map_err(failed)?;
    // Another process may have resumed the run since it was loaded.
    let status = found.map_err(|of| load::error(path, DOING, of))?.status;
    if let Some(error) = Error::of_resume(id, &status) {
        return Err(error);
    }
    let begin_again = || {
        tx.execute(
            "DELETE FROM cells WHERE run = ?1 AND position >= ?2",
            params![run, keep as i64],
        )?;
        tx.execute(
            "UPDATE runs SET status = 'running', reason = NULL, ended = NULL, writer_boot = ?2,
                 writer_namespace = ?3, writer_pid = ?4, writer_start_ticks = ?5 WHERE number = ?1",
            params![run, writer.boot, writer.namespace, writer.pid, writer.start_ticks as i64],
        )
    };
    begin_again().map_err(failed)?;
    tx.commit().map_err(failed)?;
    Ok(run)
}

/// Draws a random id that no run has. SQLite's random generator is seeded by the operating system.
fn free_id(tx: &Transaction) -> rusqlite::Result<String> {
    loop {
        let random: i64 = tx.query_row("SELECT random()", [], |r| r.get(0))?;
        let id = id::from_random(random as u64);
        let taken =
            tx.query_row("SELECT 1 FROM runs WHERE id = ?1", [&id], |_| Ok(())).optional()?;
        if taken.is_none() {
            return Ok(id);
        }
    }
}
