//! Reads a run in progress: the state of each cell without results, and the intervals recorded so far. The cost does
//! not grow with the length of the run.

use crate::codec::{self, Series, level_of};
use crate::fault::{Fault, MemoryLeft};
use crate::load::{OfRun, STANDING, at_most, error, standing};
use crate::model::{CellProgress, Progress};
use crate::{Error, value_ranges};
use iodyno_measure::Interval;
use rusqlite::Connection;
use std::path::Path;

/// Memory limit for the intervals that are read at once, bytes.
const INTERVALS_BYTES_MAX: u64 = 64 << 20;

/// Reads the progress of the run with this row number.
pub(crate) fn progress(db: &Connection, path: &Path, number: i64) -> Result<Progress, Error> {
    let read = || -> Result<Progress, OfRun> {
        let whole = |e: rusqlite::Error| ("?".to_owned(), Fault::from(e));
        let tx = db.unchecked_transaction().map_err(whole)?;
        let sql = format!("SELECT {STANDING}, name FROM runs WHERE number = ?1");
        let mut query = tx.prepare(&sql).map_err(whole)?;
        let mut rows = query.query([number]).map_err(whole)?;
        let row = rows.next().map_err(whole)?;
        let row = row.ok_or_else(|| whole(rusqlite::Error::QueryReturnedNoRows))?;
        let standing = standing(row)?;
        let rest = || -> Result<Progress, Fault> {
            Ok(Progress {
                id: standing.id.clone(),
                name: row.get("name")?,
                status: standing.status.clone(),
                cells: cells(&tx, number)?,
            })
        };
        rest().map_err(|fault| (standing.id.clone(), fault))
    };
    read().map_err(|of| error(path, "reading the progress of a run", of))
}

fn cells(db: &Connection, run: i64) -> Result<Vec<CellProgress>, Fault> {
    let mut query = db.prepare(
        "SELECT position, name, target, finished, level, interval_ns, intervals FROM cells
         WHERE run = ?1 ORDER BY position",
    )?;
    let mut rows = query.query([run])?;
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        let number = |column, most| -> Result<u64, Fault> {
            Ok(value_ranges::number(row, "cells", column, most)??)
        };
        list.push(CellProgress {
            index: number("position", value_ranges::CELLS_MAX as u64)? as usize,
            name: row.get("name")?,
            target: row.get("target")?,
            is_finished: number("finished", 1)? == 1,
            level: row.get::<_, Option<String>>("level")?.as_deref().and_then(level_of),
            interval_ns: number("interval_ns", value_ranges::TIME_NS_MAX)?,
            intervals: number("intervals", u32::MAX.into())? as usize,
        });
        at_most(list.len(), value_ranges::CELLS_MAX, "cells")?;
    }
    Ok(list)
}

/// Reads the intervals of cell `cell` of a run from interval `from` on, at most `count`.
pub(crate) fn intervals(
    db: &Connection,
    path: &Path,
    run: i64,
    cell: usize,
    from: usize,
    count: usize,
) -> Result<Vec<Interval>, Error> {
    let read = || -> Result<Vec<Interval>, Fault> {
        let tx = db.unchecked_transaction()?;
        let (number, intervals): (i64, i64) = tx.query_row(
            "SELECT number, intervals FROM cells WHERE run = ?1 AND position = ?2",
            [run, cell as i64],
            |r| Ok((r.get(0)?, r.get(1)?)),
        )?;
        let all = usize::try_from(intervals).unwrap_or(0);
        let end = all.min(from.saturating_add(count));
        let memory = MemoryLeft::new(INTERVALS_BYTES_MAX);
        let Series { intervals, .. } =
            codec::read_series(&tx, number, all, from.min(end)..end, 1, &memory)?;
        Ok(intervals)
    };
    read().map_err(|fault| error(path, "reading intervals of a run", ("?".to_owned(), fault)))
}
