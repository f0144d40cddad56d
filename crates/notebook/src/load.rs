//! Reading runs back, and making sense of those that never ended.
//!
//! Nothing is repaired in the file: that a run crashed follows from its writer being gone, each
//! time that it is read, and its unfinished cell is judged by what was committed of it.

use crate::codec::{self, Damage, Series};
use crate::model::{CellSummary, Run, RunHead, RunSummary, Status, TargetRecord, WorkloadRecord};
use crate::process::Writer;
use crate::{Error, Timestamp, schema};
use iodyno_measure::{Cell, Ended, Histogram, Recorded, verdict};
use rusqlite::{Connection, Row, params};
use std::path::Path;

/// The columns that say how a run stands, for [`standing`].
const STANDING: &str = "id, started, ended, status, reason,
    writer_boot, writer_namespace, writer_pid, writer_start_ticks";

struct Standing {
    id: String,
    started: Timestamp,
    ended: Option<Timestamp>,
    status: Status,
}

fn standing(row: &Row) -> rusqlite::Result<Result<Standing, (String, Damage)>> {
    let id: String = row.get("id")?;
    let (started, ended): (String, Option<String>) = (row.get("started")?, row.get("ended")?);
    let name: String = row.get("status")?;
    let reason: Option<String> = row.get("reason")?;
    let writer = Writer {
        boot: row.get("writer_boot")?,
        namespace: row.get("writer_namespace")?,
        pid: row.get("writer_pid")?,
        start_ticks: row.get::<_, i64>("writer_start_ticks")? as u64,
    };
    let time = |text: String| text.parse().map_err(|e| format!("`{text}` is no time: {e}"));
    let read = || -> Result<Standing, Damage> {
        let status = match name.as_str() {
            "running" if writer.may_be_alive() => Status::Running,
            "running" | "crashed" => Status::Crashed,
            "finished" => Status::Finished,
            "interrupted" => Status::Interrupted,
            "failed" => Status::Failed(reason.unwrap_or_default()),
            other => return Err(format!("its status is `{other}`")),
        };
        let ended = ended.map(time).transpose()?;
        Ok(Standing { id: id.clone(), started: time(started)?, ended, status })
    };
    Ok(read().map_err(|damage| (id, damage)))
}

fn damaged(path: &Path, run: &str, what: Damage) -> Error {
    Error::Damaged { path: path.to_owned(), run: run.to_owned(), what }
}

/// Every run, in the order in which they began.
pub(crate) fn summaries(db: &Connection, path: &Path) -> Result<Vec<RunSummary>, Error> {
    let rows = || -> rusqlite::Result<Result<Vec<RunSummary>, (String, Damage)>> {
        // One transaction, so that the three queries see the same state.
        let tx = db.unchecked_transaction()?;
        let mut targets =
            tx.prepare("SELECT name FROM targets WHERE run = ?1 ORDER BY position")?;
        let mut cells = tx.prepare(
            "SELECT name, target, block_bytes, finished, level, window_ns, interval_ns, intervals,
                 ops, bytes
             FROM cells WHERE run = ?1 ORDER BY position",
        )?;
        let mut runs = tx.prepare(&format!(
            "SELECT number, name, {STANDING},
                     CASE WHEN json_valid(plan) THEN json_type(plan, '$.method') END AS method
                 FROM runs ORDER BY number"
        ))?;
        let mut rows = runs.query([])?;
        let mut list = Vec::new();
        while let Some(row) = rows.next()? {
            let number: i64 = row.get("number")?;
            let standing = match standing(row)? {
                Ok(standing) => standing,
                Err(damage) => return Ok(Err(damage)),
            };
            list.push(RunSummary {
                id: standing.id,
                started: standing.started,
                ended: standing.ended,
                status: standing.status,
                name: row.get("name")?,
                has_method: row.get::<_, Option<String>>("method")?.is_some_and(|t| t != "null"),
                targets: targets
                    .query_map([number], |r| r.get(0))?
                    .collect::<rusqlite::Result<_>>()?,
                cells: cells.query_map([number], cell_summary)?.collect::<rusqlite::Result<_>>()?,
            });
        }
        Ok(Ok(list))
    };
    rows()
        .map_err(|e| schema::explain(path, "listing runs", e))?
        .map_err(|(run, damage)| damaged(path, &run, damage))
}

fn cell_summary(row: &Row) -> rusqlite::Result<CellSummary> {
    let finished: bool = row.get("finished")?;
    let window_ns = if finished {
        row.get::<_, i64>("window_ns")?
    } else {
        row.get::<_, i64>("intervals")? * row.get::<_, i64>("interval_ns")?
    };
    let per_second = |n: i64| {
        if window_ns == 0 { 0.0 } else { n as f64 * 1e9 / window_ns as f64 }
    };
    Ok(CellSummary {
        name: row.get("name")?,
        target: row.get("target")?,
        block_bytes: row.get("block_bytes")?,
        iops: per_second(row.get("ops")?),
        bytes_per_s: per_second(row.get("bytes")?),
        level: row.get::<_, Option<String>>("level")?.as_deref().and_then(codec::level_of),
    })
}

/// The run of this row number. Where it has more intervals than `intervals_max`, neighbours are merged,
/// as many as it takes.
pub(crate) fn run(
    db: &Connection,
    path: &Path,
    number: i64,
    intervals_max: Option<u64>,
) -> Result<Run, Error> {
    let failed = |e| schema::explain(path, "reading a run", e);
    let tx = db.unchecked_transaction().map_err(failed)?;
    let sql = format!(
        "SELECT {STANDING}, name, seed, iodyno_version, command, machine, plan
         FROM runs WHERE number = ?1"
    );
    let (standing, mut head) = tx
        .query_row(&sql, [number], |row| Ok((standing(row)?, head(row)?)))
        .map_err(failed)
        .and_then(|(s, h)| {
            let standing = s.map_err(|(run, damage)| damaged(path, &run, damage))?;
            let head = h.map_err(|damage| damaged(path, &standing.id, damage))?;
            Ok((standing, head))
        })?;
    let id = standing.id;
    head.targets = targets(&tx, number).map_err(failed)?.map_err(|d| damaged(path, &id, d))?;
    head.workloads = workloads(&tx, number).map_err(failed)?.map_err(|d| damaged(path, &id, d))?;
    let merge = merged(&tx, number, intervals_max).map_err(failed)?;
    let cells = cells(&tx, path, number, &standing.status, merge)
        .map_err(failed)?
        .map_err(|d| damaged(path, &id, d))?;
    Ok(Run {
        id,
        started: standing.started,
        ended: standing.ended,
        status: standing.status,
        head,
        cells,
        notebook: path.to_owned(),
    })
}

fn head(row: &Row) -> rusqlite::Result<Result<RunHead, Damage>> {
    let name = row.get("name")?;
    let iodyno_version = row.get("iodyno_version")?;
    let (seed, command): (String, String) = (row.get("seed")?, row.get("command")?);
    let (machine, plan): (String, String) = (row.get("machine")?, row.get("plan")?);
    let read = || -> Result<RunHead, Damage> {
        Ok(RunHead {
            name,
            command: serde_json::from_str(&command).map_err(|e| format!("its command: {e}"))?,
            iodyno_version,
            seed: seed.parse().map_err(|e| format!("its seed `{seed}`: {e}"))?,
            machine: codec::parse(&machine, "its machine")?,
            targets: Vec::new(),
            workloads: Vec::new(),
            plan: codec::parse(&plan, "its plan")?,
        })
    };
    Ok(read())
}

fn targets(db: &Connection, run: i64) -> rusqlite::Result<Result<Vec<TargetRecord>, Damage>> {
    let mut query = db.prepare(
        "SELECT name, facts, health_before, health_after FROM targets WHERE run = ?1
         ORDER BY position",
    )?;
    query
        .query_map([run], |row| {
            let name = row.get(0)?;
            let facts: String = row.get(1)?;
            let (before, after): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
            let health =
                |text: Option<String>| text.map(|t| codec::parse(&t, "a health log")).transpose();
            let read = || -> Result<TargetRecord, Damage> {
                Ok(TargetRecord {
                    name,
                    facts: codec::parse(&facts, "the facts of a target")?,
                    health_before: health(before)?,
                    health_after: health(after)?,
                })
            };
            Ok(read())
        })?
        .collect()
}

fn workloads(db: &Connection, run: i64) -> rusqlite::Result<Result<Vec<WorkloadRecord>, Damage>> {
    let mut query =
        db.prepare("SELECT name, spec FROM workloads WHERE run = ?1 ORDER BY position")?;
    query
        .query_map([run], |row| {
            let (name, spec): (String, String) = (row.get(0)?, row.get(1)?);
            Ok(codec::parse(&spec, "a workload").map(|spec| WorkloadRecord { name, spec }))
        })?
        .collect()
}

/// How many neighbouring intervals are made one.
fn merged(db: &Connection, run: i64, intervals_max: Option<u64>) -> rusqlite::Result<u64> {
    let Some(most) = intervals_max else { return Ok(1) };
    let all: i64 =
        db.query_row("SELECT coalesce(sum(intervals), 0) FROM cells WHERE run = ?1", [run], |r| {
            r.get(0)
        })?;
    Ok((all as u64).div_ceil(most.max(1)).max(1))
}

/// A row of the table of cells.
struct CellRow {
    number: i64,
    finished: bool,
    intervals: usize,
    text: String,
    lateness: Option<Vec<u8>>,
}

fn cells(
    db: &Connection,
    path: &Path,
    run: i64,
    status: &Status,
    merge: u64,
) -> rusqlite::Result<Result<Vec<Cell>, Damage>> {
    let mut query = db.prepare(
        "SELECT number, finished, intervals, cell, lateness FROM cells WHERE run = ?1
         ORDER BY position",
    )?;
    let rows: Vec<CellRow> = query
        .query_map(params![run], |row| {
            Ok(CellRow {
                number: row.get(0)?,
                finished: row.get(1)?,
                intervals: row.get::<_, i64>(2)? as usize,
                text: row.get(3)?,
                lateness: row.get(4)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let read = |db: &Connection, row: &CellRow| -> rusqlite::Result<Result<Cell, Damage>> {
        let series = codec::read_series(db, row.number, row.intervals, merge as usize)?;
        let read = || -> Result<Cell, Damage> {
            let mut cell: Cell =
                serde_json::from_str(&row.text).map_err(|e| format!("a cell: {e}"))?;
            let Series { intervals, ops } = series?;
            cell.series = intervals;
            cell.lateness = row.lateness.as_deref().map(Histogram::from_bytes).transpose()?;
            let interval_ns = cell.interval_ns;
            if merge > 1 {
                cell.recorded = Some(Recorded { interval_ns, ops });
                cell.interval_ns = interval_ns.saturating_mul(merge);
            }
            if !row.finished {
                complete(&mut cell, status, interval_ns * row.intervals as u64);
            }
            Ok(cell)
        };
        Ok(read())
    };
    // What is merged is large, and mostly a matter of unpacking: each processor takes a part. A run that
    // still grows is read in one transaction.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    if merge == 1 || threads == 1 || *status == Status::Running {
        return rows.iter().map(|row| read(db, row)).collect();
    }
    let parts: Vec<_> = std::thread::scope(|scope| {
        let part = |rows| {
            scope.spawn(move || -> rusqlite::Result<Result<Vec<Cell>, Damage>> {
                let db = schema::open_plain(path)?;
                <[CellRow]>::iter(rows).map(|row| read(&db, row)).collect()
            })
        };
        let parts = rows.chunks(rows.len().div_ceil(threads).max(1)).map(part).collect::<Vec<_>>();
        parts.into_iter().map(|p| p.join().expect("reading does not panic")).collect()
    });
    let mut all = Vec::with_capacity(rows.len());
    for part in parts {
        match part? {
            Ok(cells) => all.extend(cells),
            Err(damage) => return Ok(Err(damage)),
        }
    }
    Ok(Ok(all))
}

/// Makes a whole cell of one that was begun and never finished.
fn complete(cell: &mut Cell, status: &Status, window_ns: u64) {
    cell.window_ns = window_ns;
    cell.ended = match status {
        Status::Running => Ended::Running,
        Status::Crashed => Ended::Crashed,
        Status::Finished | Status::Interrupted | Status::Failed(_) => Ended::Interrupted,
    };
    cell.verdicts = verdict::judge(cell);
}
