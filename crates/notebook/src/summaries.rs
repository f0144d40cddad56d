//! Summaries of runs, without time series, for lists of runs.

use crate::Error;
use crate::codec;
use crate::fault::{Fault, MemoryLeft};
use crate::load::{OfRun, STANDING, at_most, error, standing};
use crate::model::{CellSummary, KindRate, MessageRate, RunSummary, Status};
use crate::writer::time_text;
use crate::{target_identity, value_ranges};
use iodyno_measure::Histogram;
use rusqlite::{Connection, Row};
use std::path::Path;

/// Memory limit for all run summaries in a list, bytes.
const LIST_BYTES_MAX: u64 = 96 << 20;

/// Updates a list of all runs, in the order in which they were stored. Reads only runs that are new, in progress, renamed,
/// or have ended differently since the last update. Returns whether the list changed.
pub(crate) fn update(
    db: &Connection,
    path: &Path,
    list: &mut Vec<RunSummary>,
) -> Result<bool, Error> {
    let memory = MemoryLeft::new(LIST_BYTES_MAX);
    let all = |fault: Fault| ("?".to_owned(), fault);
    let mut read = || -> Result<bool, OfRun> {
        let whole = |e: rusqlite::Error| all(e.into());
        // One transaction, so that all queries see the same state.
        let tx = db.unchecked_transaction().map_err(whole)?;
        let mut runs = tx
            .prepare("SELECT number, id, status, ended, name FROM runs ORDER BY number")
            .map_err(whole)?;
        let mut rows = runs.query([]).map_err(whole)?;
        let (mut count, mut changed) = (0, false);
        while let Some(row) = rows.next().map_err(whole)? {
            let number: i64 = row.get(0).map_err(whole)?;
            match list.get_mut(count) {
                Some(known) if is_current(known, row) => {
                    memory.take(summary_bytes(known)).map_err(all)?;
                }
                Some(known) => {
                    let new = summary(&tx, number, &memory)?;
                    changed |= *known != new;
                    *known = new;
                }
                None => {
                    list.push(summary(&tx, number, &memory)?);
                    changed = true;
                }
            }
            count += 1;
            at_most(count, value_ranges::RUNS_MAX, "runs").map_err(all)?;
        }
        changed |= list.len() > count;
        list.truncate(count);
        Ok(changed)
    };
    read().map_err(|of| error(path, "listing runs", of))
}

/// Whether a known summary still describes the run in this row: same id and name, ended in the same way at the same
/// time.
fn is_current(known: &RunSummary, row: &Row) -> bool {
    let text = |column| row.get_ref(column).ok().and_then(|value| value.as_str().ok());
    known.status != Status::Running
        && text(1) == Some(known.id.as_str())
        && text(2) == Some(known.status.name())
        && text(3).map(str::to_owned) == known.ended.map(time_text)
        && text(4) == Some(known.name.as_str())
}

/// Approximate memory of a summary, bytes.
fn summary_bytes(run: &RunSummary) -> u64 {
    let names = run
        .targets
        .iter()
        .chain(&run.identities)
        .chain(&run.workloads)
        .map(|name| name_bytes(name));
    256 + run.name.len() as u64 + names.chain(run.cells.iter().map(cell_bytes)).sum::<u64>()
}

const fn name_bytes(name: &str) -> u64 {
    32 + name.len() as u64
}

const fn cell_bytes(cell: &CellSummary) -> u64 {
    128 + (cell.name.len() + cell.target.len()) as u64
}

/// Reads the summary of the run with this row number.
fn summary(tx: &Connection, number: i64, memory: &MemoryLeft) -> Result<RunSummary, OfRun> {
    let whole = |e: rusqlite::Error| ("?".to_owned(), Fault::from(e));
    let sql = format!(
        "SELECT name, {STANDING},
             CASE WHEN json_valid(plan) THEN json_type(plan, '$.method') END AS method,
             EXISTS (SELECT 1 FROM workloads WHERE run = runs.number AND
                 CASE WHEN json_valid(spec) THEN json_type(spec, '$.log') END = 'object') AS has_log
         FROM runs WHERE number = ?1"
    );
    let mut query = tx.prepare_cached(&sql).map_err(whole)?;
    let mut rows = query.query([number]).map_err(whole)?;
    let row = rows.next().map_err(whole)?;
    let row = row.ok_or_else(|| whole(rusqlite::Error::QueryReturnedNoRows))?;
    let standing = standing(row)?;
    let rest = || -> Result<RunSummary, Fault> {
        let targets = names(tx, number, memory, "targets")?;
        let identities = target_identity::of_run(tx, number)?;
        memory.take(identities.iter().map(|identity| name_bytes(identity)).sum())?;
        let workloads = names(tx, number, memory, "workloads")?;
        let mut cells = tx.prepare_cached(
            "SELECT number, name, target, block_bytes, finished, level, window_ns, interval_ns,
                 intervals, ops, bytes
             FROM cells WHERE run = ?1 ORDER BY position",
        )?;
        let has_log: bool = row.get("has_log")?;
        let mut summaries = Vec::new();
        let mut rows = cells.query([number])?;
        while let Some(row) = rows.next()? {
            let cell = cell_summary(tx, row, has_log)?;
            memory.take(cell_bytes(&cell))?;
            summaries.push(cell);
            at_most(summaries.len(), value_ranges::CELLS_MAX, "cells")?;
        }
        let name: String = row.get("name")?;
        memory.take(256 + name.len() as u64)?;
        Ok(RunSummary {
            id: standing.id.clone(),
            started: standing.started,
            ended: standing.ended,
            status: standing.status.clone(),
            name,
            has_method: row.get::<_, Option<String>>("method")?.is_some_and(|kind| kind != "null"),
            targets,
            identities,
            workloads,
            cells: summaries,
        })
    };
    rest().map_err(|fault| (standing.id.clone(), fault))
}

/// Reads the column `name` of a run's rows in `table`, in order of position.
fn names(
    tx: &Connection,
    number: i64,
    memory: &MemoryLeft,
    table: &'static str,
) -> Result<Vec<String>, Fault> {
    let sql = format!("SELECT name FROM {table} WHERE run = ?1 ORDER BY position");
    let mut query = tx.prepare_cached(&sql)?;
    let mut names = Vec::new();
    let mut rows = query.query([number])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        memory.take(name_bytes(&name))?;
        names.push(name);
        at_most(names.len(), value_ranges::PARTS_MAX, table)?;
    }
    Ok(names)
}

/// Message counts of a cell (measurement) in its JSON text, which may have other fields.
#[derive(serde::Deserialize)]
struct Messages {
    log: Option<Log>,
}

#[derive(serde::Deserialize)]
struct Log {
    messages: u64,
    persist: Histogram,
}

/// Reads the messages of a cell's message log; None if it has none or can't be read.
fn messages(db: &Connection, cell: i64) -> Result<Option<Log>, Fault> {
    let mut query = db.prepare_cached("SELECT cell FROM cells WHERE number = ?1")?;
    let text: String = query.query_row([cell], |row| row.get(0))?;
    Ok(serde_json::from_str::<Messages>(&text).ok().and_then(|cell| cell.log))
}

/// `has_log`: whether the run has message logs.
fn cell_summary(db: &Connection, row: &Row, has_log: bool) -> Result<CellSummary, Fault> {
    let number = |column, most| -> Result<u64, Fault> {
        Ok(value_ranges::number(row, "cells", column, most)??)
    };
    let window_ns = if number("finished", 1)? == 1 {
        number("window_ns", value_ranges::TIME_NS_MAX)?
    } else {
        let length_ns = number("interval_ns", value_ranges::TIME_NS_MAX)?;
        number("intervals", u32::MAX.into())?.saturating_mul(length_ns)
    };
    let per_second = |n: u64| {
        if window_ns == 0 { 0.0 } else { n as f64 * 1e9 / window_ns as f64 }
    };
    let all = number("ops", value_ranges::COUNT_MAX)?;
    let cell = row.get("number")?;
    let messages = if has_log { messages(db, cell)? } else { None };
    let classes = codec::read_beside(db, cell)?;
    let beside_ops: u64 = classes.iter().map(|(_, stats)| stats.ops()).sum();
    let beside = classes.into_iter().map(|(kind, stats)| KindRate {
        kind,
        per_s: per_second(stats.ops()),
        p99_ns: stats.response_time().supported_quantile_ns(0.99),
    });
    Ok(CellSummary {
        name: row.get("name")?,
        target: row.get("target")?,
        block_bytes: number("block_bytes", u32::MAX.into())? as u32,
        iops: per_second(all.saturating_sub(beside_ops)),
        beside: beside.collect(),
        bytes_per_s: per_second(number("bytes", value_ranges::BYTES_MAX)?),
        messages: messages.map(|log| MessageRate {
            per_s: per_second(log.messages),
            persist_p99_ns: log.persist.supported_quantile_ns(0.99),
        }),
        level: row.get::<_, Option<String>>("level")?.as_deref().and_then(codec::level_of),
    })
}
