//! Reads runs back, including runs that never ended.
//!
//! Nothing in the file is repaired: each reader detects a crashed run by its missing writer, and judges the
//! unfinished cell by the committed intervals.
//!
//! The file may be untrusted. Every number is checked against its range, every text quoted in an error is cleaned,
//! and memory is limited.

use crate::codec::{self, Series};
use crate::facts;
use crate::fault::{Fault, MemoryLeft};
use crate::model::{Run, RunHead, Status, TargetRecord, WorkloadRecord};
use crate::process::Writer;
use crate::untrusted::QUOTE_CHARS;
use crate::value_ranges::{self, JsonScan, Totals};
use crate::{Error, Timestamp, annotations, id, schema};
use iodyno_measure::{Cell, Ended, Histogram, Recorded, verdict};
use iodyno_units::text::quoted;
use rusqlite::{Connection, Row};
use serde_json::Value;
use std::path::Path;

/// Memory limit for a run without its cells, bytes.
const HEAD_BYTES_MAX: u64 = 64 << 20;
/// Memory limit for a run's cells including their time series, bytes.
pub(crate) const CELLS_BYTES_MAX: u64 = 360 << 20;
/// Memory limit for a run's cells if several runs are loaded together, bytes per run.
pub(crate) const CELLS_OF_SEVERAL_BYTES_MAX: u64 = 224 << 20;
/// Memory limit for a run's time series, bytes. Larger series are shortened by merging neighbouring intervals. If they
/// exceed the limit even with one interval per cell, they may use all memory that the cells leave.
const SERIES_BYTES_MAX: u64 = 224 << 20;
/// Maximum number of intervals of a loaded run, over all its cells. In longer runs, neighbouring intervals
/// are merged.
const INTERVALS_MAX: u64 = 1_000_000;
/// Factor by which more neighbours are merged if the time series still exceed the memory limit.
const MERGE_MORE: u64 = 4;

/// SQL list of the columns that [`standing`] reads: a run's id, times, status and writing process.
pub(crate) const STANDING: &str = "id, started, ended, status, reason,
    writer_boot, writer_namespace, writer_pid, writer_start_ticks";

/// Identity, times and status of a run.
pub(crate) struct Standing {
    pub(crate) id: String,
    pub(crate) started: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) status: Status,
    pub(crate) is_imported: bool,
}

/// Id of a run, and the fault found in it.
pub(crate) type OfRun = (String, Fault);

/// Reads the columns [`STANDING`] of a run's row.
pub(crate) fn standing(row: &Row) -> Result<Standing, OfRun> {
    let id: String = row.get("id").map_err(|e| (String::new(), e.into()))?;
    if !id::is_id(&id) {
        let shown = quoted(&id, QUOTE_CHARS);
        let what = "the run's id is not ten digits and letters".to_owned();
        return Err((shown, Fault::Damage(what)));
    }
    let read = || -> Result<Standing, Fault> {
        let (started, ended): (String, Option<String>) = (row.get("started")?, row.get("ended")?);
        let name: String = row.get("status")?;
        let reason: Option<String> = row.get("reason")?;
        let writer = writer(row)?;
        let time = |text: String| {
            let time =
                text.parse::<Timestamp>().ok().filter(|time| value_ranges::is_of_a_run(*time));
            time.ok_or_else(|| {
                Fault::Damage(format!(
                    "`{}` is not a valid start or end time of a run",
                    quoted(&text, QUOTE_CHARS)
                ))
            })
        };
        let status = match name.as_str() {
            "running" if writer.may_be_alive() => Status::Running,
            "running" | "crashed" => Status::Crashed,
            "finished" => Status::Finished,
            "interrupted" => Status::Interrupted,
            "failed" => Status::Failed(reason.unwrap_or_default()),
            other => {
                return Err(
                    format!("the status `{}` is unknown", quoted(other, QUOTE_CHARS)).into()
                );
            }
        };
        let ended = ended.map(time).transpose()?;
        let is_imported = writer.is_none();
        Ok(Standing { id: id.clone(), started: time(started)?, ended, status, is_imported })
    };
    read().map_err(|fault| (id.clone(), fault))
}

fn writer(row: &Row) -> Result<Writer, Fault> {
    let pid = value_ranges::number(row, "runs", "writer_pid", u32::MAX.into())??;
    Ok(Writer {
        boot: row.get("writer_boot")?,
        namespace: row.get("writer_namespace")?,
        pid: pid as u32,
        start_ticks: row.get::<_, i64>("writer_start_ticks")? as u64,
    })
}

/// Returns the PID of the process that writes the run with this row number. `None` if the run has ended, or the process
/// is not certain to be alive and visible to this one.
pub(crate) fn writing_process(
    db: &Connection,
    path: &Path,
    number: i64,
) -> Result<Option<u32>, Error> {
    let read = || -> Result<Option<u32>, Fault> {
        let sql = format!("SELECT {STANDING} FROM runs WHERE number = ?1");
        let mut query = db.prepare(&sql)?;
        let mut rows = query.query([number])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let is_running = row.get::<_, String>("status")? == Status::Running.name();
        let writer = writer(row)?;
        Ok((is_running && writer.is_alive_here()).then_some(writer.pid))
    };
    read().map_err(|fault| error(path, "looking for the process of a run", ("?".to_owned(), fault)))
}

/// Converts a fault to an error that names the notebook and the run.
pub(crate) fn error(path: &Path, doing: &'static str, (run, fault): OfRun) -> Error {
    let path = path.to_owned();
    match fault {
        Fault::Sqlite(e) => schema::explain(&path, doing, e),
        Fault::Damage(what) => Error::Damaged { path, run, what },
        Fault::OutOfMemory => Error::TooLarge { path, run },
    }
}

/// Fails if `count` exceeds `most`; no notebook written by this program has more.
pub(crate) fn at_most(count: usize, most: usize, what: &str) -> Result<(), Fault> {
    if count <= most {
        return Ok(());
    }
    Err(Fault::Damage(format!("there are more than {most} {what}")))
}

/// Loads the run with this row number. If its time series have more than `intervals_max` intervals or need
/// too much memory, neighbouring intervals are merged; the cells' `interval_ns` is the resulting interval
/// length.
pub(crate) fn run(
    db: &Connection,
    path: &Path,
    number: i64,
    intervals_max: Option<u64>,
    cells_bytes_max: u64,
) -> Result<Run, Error> {
    let read = || -> Result<Run, OfRun> {
        let whole = |e: rusqlite::Error| ("?".to_owned(), Fault::from(e));
        let tx = db.unchecked_transaction().map_err(whole)?;
        let sql = format!(
            "SELECT {STANDING}, name, seed, iodyno_version, command, machine, plan
         FROM runs WHERE number = ?1"
        );
        let mut query = tx.prepare(&sql).map_err(whole)?;
        let mut rows = query.query([number]).map_err(whole)?;
        let row = rows.next().map_err(whole)?;
        let row = row.ok_or_else(|| whole(rusqlite::Error::QueryReturnedNoRows))?;
        let standing = standing(row)?;
        let of = |fault| (standing.id.clone(), fault);
        let memory = MemoryLeft::new(HEAD_BYTES_MAX);
        let mut head = head(row, &memory).map_err(of)?;
        head.targets = targets(&tx, number, &memory).map_err(of)?;
        head.workloads = workloads(&tx, number, &memory).map_err(of)?;
        let memory = MemoryLeft::new(cells_bytes_max);
        let rows = cell_rows(&tx, number, &memory).map_err(of)?;
        let mut merge = merged(&rows, intervals_max);
        // With one interval per cell, further merging saves nothing.
        let longest = rows.iter().map(|row| row.intervals as u64).max().unwrap_or(0);
        let cells = loop {
            let most = if merge < longest { SERIES_BYTES_MAX } else { u64::MAX };
            let memory = MemoryLeft::new(memory.left().min(most));
            match cells(&tx, path, &rows, &standing.status, merge, &memory) {
                Err(Fault::OutOfMemory) if merge < longest => merge *= MERGE_MORE,
                done => break done.map_err(of)?,
            }
        };
        let mut totals = Totals::default();
        cells.iter().try_for_each(|cell| totals.add(cell)).map_err(|what| of(what.into()))?;
        Ok(Run {
            id: standing.id,
            started: standing.started,
            ended: standing.ended,
            status: standing.status,
            head,
            cells,
            notebook: path.to_owned(),
            is_imported: standing.is_imported,
            annotation: annotations::read(&tx, number).map_err(whole)?,
        })
    };
    read().map_err(|of| error(path, "reading a run", of))
}

fn head(row: &Row, memory: &MemoryLeft) -> Result<RunHead, Fault> {
    let text = |column| -> Result<String, Fault> {
        let text: String = row.get(column)?;
        memory.take(text.len() as u64)?;
        Ok(text)
    };
    let seed = text("seed")?;
    let command = codec::parse(&text("command")?, "its command", memory)?;
    let command = serde_json::from_value(command)
        .map_err(|_| "the command is not a list of words".to_owned())?;
    Ok(RunHead {
        name: text("name")?,
        command,
        iodyno_version: text("iodyno_version")?,
        seed: seed.parse().map_err(|_| {
            format!("the seed is `{}`, but must be a whole number", quoted(&seed, QUOTE_CHARS))
        })?,
        machine: codec::parse(&text("machine")?, "its machine", memory)?,
        targets: Vec::new(),
        workloads: Vec::new(),
        plan: codec::parse(&text("plan")?, "its plan", memory)?,
    })
}

fn targets(db: &Connection, run: i64, memory: &MemoryLeft) -> Result<Vec<TargetRecord>, Fault> {
    let mut query = db.prepare(
        "SELECT name, facts, health_before, health_after FROM targets WHERE run = ?1
         ORDER BY position",
    )?;
    let mut rows = query.query([run])?;
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        let health = |column| -> Result<Option<Value>, Fault> {
            let text: Option<String> = row.get(column)?;
            text.map(|t| codec::parse(&t, "a health log", memory)).transpose()
        };
        let (name, facts): (String, String) = (row.get(0)?, row.get(1)?);
        memory.take(name.len() as u64)?;
        list.push(TargetRecord {
            name,
            facts: codec::parse(&facts, "a target's description", memory)?,
            health_before: health(2)?,
            health_after: health(3)?,
        });
        at_most(list.len(), value_ranges::PARTS_MAX, "targets")?;
    }
    Ok(list)
}

fn workloads(db: &Connection, run: i64, memory: &MemoryLeft) -> Result<Vec<WorkloadRecord>, Fault> {
    let mut query =
        db.prepare("SELECT name, spec FROM workloads WHERE run = ?1 ORDER BY position")?;
    let mut rows = query.query([run])?;
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, spec): (String, String) = (row.get(0)?, row.get(1)?);
        memory.take(name.len() as u64)?;
        list.push(WorkloadRecord { name, spec: codec::parse(&spec, "a workload", memory)? });
        at_most(list.len(), value_ranges::PARTS_MAX, "workloads")?;
    }
    Ok(list)
}

/// Number of neighbouring intervals to merge into one, so that a run has at most `intervals_max` intervals; `None`
/// means [`INTERVALS_MAX`], which is also the upper limit.
fn merged(rows: &[CellRow], intervals_max: Option<u64>) -> u64 {
    let most = intervals_max.unwrap_or(INTERVALS_MAX).clamp(1, INTERVALS_MAX);
    let all: u64 = rows.iter().map(|row| row.intervals as u64).sum();
    all.div_ceil(most).max(1)
}

/// A row of the table of cells, without its texts and blobs.
struct CellRow {
    number: i64,
    finished: bool,
    intervals: usize,
}

/// Reads the rows of a run's cells. Deducts from `memory` what the cells need, except for the merged time
/// series.
fn cell_rows(db: &Connection, run: i64, memory: &MemoryLeft) -> Result<Vec<CellRow>, Fault> {
    let mut query = db.prepare(
        "SELECT number, finished, intervals, cell, lateness FROM cells WHERE run = ?1
         ORDER BY position",
    )?;
    let mut rows = query.query([run])?;
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        let (text, lateness): (String, Option<Vec<u8>>) = (row.get(3)?, row.get(4)?);
        let scan = JsonScan::at(&text).map_err(|e| format!("a cell: {e}"))?;
        if let Some(what) = scan.wrong {
            return Err(format!("a cell: {what}").into());
        }
        let intervals = value_ranges::number(row, "cells", "intervals", u32::MAX.into())??;
        let lateness = lateness.as_deref().map(Histogram::from_bytes).transpose()?;
        let lateness_bytes = lateness.as_ref().map_or(0, Histogram::heap_bytes) as u64;
        let ops_bytes = intervals * size_of::<u64>() as u64;
        memory.take(value_ranges::CELL_BYTES + scan.cell_bytes + lateness_bytes + ops_bytes)?;
        list.push(CellRow {
            number: row.get(0)?,
            finished: value_ranges::number(row, "cells", "finished", 1)?? == 1,
            intervals: intervals as usize,
        });
        at_most(list.len(), value_ranges::CELLS_MAX, "cells")?;
    }
    Ok(list)
}

/// Decodes the cells of these rows, with their time series. Deducts the memory of the series from `memory`.
fn cells(
    db: &Connection,
    path: &Path,
    rows: &[CellRow],
    status: &Status,
    merge: u64,
    memory: &MemoryLeft,
) -> Result<Vec<Cell>, Fault> {
    let read = &|db: &Connection, row: &CellRow| -> Result<Cell, Fault> {
        // One text at a time, because the texts of all cells take as much memory as the cells.
        let mut query = db.prepare_cached("SELECT cell, lateness FROM cells WHERE number = ?1")?;
        let (text, lateness): (String, Option<Vec<u8>>) =
            query.query_row([row.number], |r| Ok((r.get(0)?, r.get(1)?)))?;
        let mut cell: Cell = serde_json::from_str(&text)
            .map_err(|e| format!("a cell: {}", quoted(&e.to_string(), 4 * QUOTE_CHARS)))?;
        drop(text);
        let Series { intervals, ops } = codec::read_series(
            db,
            row.number,
            row.intervals,
            0..row.intervals,
            merge as usize,
            memory,
        )?;
        cell.series = intervals;
        cell.lateness = lateness.as_deref().map(Histogram::from_bytes).transpose()?;
        value_ranges::cell(&cell)?;
        memory.take(facts::evidence_of_older(&mut cell))?;
        let interval_ns = cell.interval_ns;
        if merge > 1 {
            cell.recorded = Some(Recorded { interval_ns, ops });
            cell.interval_ns = interval_ns.saturating_mul(merge);
        }
        if !row.finished {
            let window_ns = interval_ns.saturating_mul(row.intervals as u64);
            complete(&mut cell, status, window_ns);
        }
        Ok(cell)
    };
    // Merging spends most of its time decompressing, so several threads take a part of the cells each, with a
    // connection each. Exceptions: a run in progress is read in one transaction, and an in-memory database can't be
    // opened again.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    if merge == 1
        || threads == 1
        || *status == Status::Running
        || db.path().is_none_or(str::is_empty)
    {
        return rows.iter().map(|row| read(db, row)).collect();
    }
    let parts: Vec<_> = std::thread::scope(|scope| {
        let part = |rows| {
            scope.spawn(move || -> Result<Vec<Cell>, Fault> {
                let db = schema::open_plain(path)?;
                <[CellRow]>::iter(rows).map(|row| read(&db, row)).collect()
            })
        };
        let parts = rows.chunks(rows.len().div_ceil(threads).max(1)).map(part).collect::<Vec<_>>();
        parts.into_iter().map(|p| p.join().expect("reading does not panic")).collect()
    });
    let mut all = Vec::with_capacity(rows.len());
    for part in parts {
        all.extend(part?);
    }
    Ok(all)
}

/// Fills in the end, the window and the verdicts of a cell that was started but never finished.
fn complete(cell: &mut Cell, status: &Status, window_ns: u64) {
    cell.window_ns = window_ns;
    cell.ended = match status {
        Status::Running => Ended::Running,
        Status::Crashed => Ended::Crashed,
        Status::Finished | Status::Interrupted | Status::Failed(_) => Ended::Interrupted,
    };
    cell.verdicts = verdict::judge(cell);
}
