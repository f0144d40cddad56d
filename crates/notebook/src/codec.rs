//! Conversion of cells (measurements) and their intervals to rows, and back.
//!
//! A cell's row holds the cell as JSON, without its series and its lateness histogram. The series has one row for
//! each interval and kind of operation; an empty interval has no row, and `cells.intervals` holds the number of
//! intervals.

use crate::fault::{Damage, Fault, MemoryLeft};
use crate::untrusted::QUOTE_CHARS;
use crate::value_ranges;
use iodyno_measure::{
    Cell, ClassStats, ErrorCounts, ErrorKind, Histogram, Interval, IoKinds, Level,
};
use iodyno_units::OpKind;
use iodyno_units::text::quoted;
use rusqlite::{Row, Transaction, named_params, params, types::ValueRef};
use serde_json::Value;
use std::ops::Range;

/// Encodes a value as JSON text.
pub(crate) fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
}

/// Parses a column's JSON text; `what` names the column in errors. Deducts the value's memory from
/// `memory_left`.
pub(crate) fn parse(text: &str, what: &str, memory_left: &MemoryLeft) -> Result<Value, Fault> {
    let not = |e| format!("{what} is not JSON: {e}");
    memory_left.take(value_ranges::JsonScan::at(text).map_err(not)?.value_bytes)?;
    Ok(serde_json::from_str(text).map_err(not)?)
}

/// Parses the name of a verdict's severity level; `None` if it is unknown.
pub(crate) fn level_of(name: &str) -> Option<Level> {
    let all = [Level::Valid, Level::Note, Level::Warning, Level::Invalid];
    all.into_iter().find(|&l| l.name() == name)
}

/// Inserts a measured cell at a position in its run, replacing any cell there. Returns its row number. An
/// unfinished cell must have no intervals.
pub(crate) fn put_cell(
    tx: &Transaction,
    run: i64,
    position: usize,
    cell: &Cell,
    finished: bool,
) -> rusqlite::Result<i64> {
    tx.prepare_cached("DELETE FROM cells WHERE run = ?1 AND position = ?2")?
        .execute(params![run, position as i64])?;
    let level = cell.level().filter(|_| finished);
    tx.prepare_cached(
        "INSERT INTO cells (run, position, name, target, workload, engine, threads, depth,
             block_bytes, offered_iops, finished, level, window_ns, interval_ns, intervals, ops,
             bytes, failed, cell, lateness)
         VALUES (:run, :position, :name, :target, :workload, :engine, :threads, :depth,
             :block_bytes, :offered_iops, :finished, :level, :window_ns, :interval_ns, 0, 0,
             0, 0, :cell, :lateness)",
    )?
    .execute(named_params! {
        ":run": run,
        ":position": position as i64,
        ":name": cell.key.name,
        ":target": cell.key.target,
        ":workload": cell.key.workload,
        ":engine": cell.key.engine,
        ":threads": cell.key.threads,
        ":depth": cell.key.depth,
        ":block_bytes": cell.key.block_bytes(),
        ":offered_iops": cell.key.offered_iops,
        ":finished": finished,
        ":level": level.map(Level::name),
        ":window_ns": cell.window_ns as i64,
        ":interval_ns": cell.interval_ns as i64,
        // The lateness histogram is stored in a column of its own, as the series is in a table.
        ":cell": json(&Cell { lateness: None, ..cell.without_series() })?,
        ":lateness": cell.lateness.as_ref().map(Histogram::to_bytes),
    })?;
    Ok(tx.last_insert_rowid())
}

/// Adds the operations completed in one interval of a cell's time series, merging them with those already
/// stored.
pub(crate) fn add_interval(
    tx: &Transaction,
    cell: i64,
    position: usize,
    interval: &Interval,
) -> rusqlite::Result<()> {
    let mut stored = Interval::default();
    let mut old = tx.prepare_cached(
        "SELECT position, kind, bytes, errors, service, response FROM intervals
         WHERE cell = ?1 AND position = ?2",
    )?;
    let mut rows = old.query(params![cell, position as i64])?;
    while let Some(row) = rows.next()? {
        let (_, kind) = about(row)?.map_err(damage_as_error)?;
        let stats = stored.classes[kind.index()].get_or_insert_with(nothing);
        add_class(row, stats)?.map_err(damage_as_error)?;
    }
    if stored == Interval::default() {
        return put_interval(tx, cell, position, interval);
    }
    let mut delete =
        tx.prepare_cached("DELETE FROM intervals WHERE cell = ?1 AND position = ?2")?;
    delete.execute(params![cell, position as i64])?;
    count(tx, cell, position, &stored, -1)?;
    stored.merge(interval);
    put_interval(tx, cell, position, &stored)
}

/// Inserts an interval of a cell's time series that has no rows yet.
pub(crate) fn put_interval(
    tx: &Transaction,
    cell: i64,
    position: usize,
    interval: &Interval,
) -> rusqlite::Result<()> {
    let mut insert = tx.prepare_cached(
        "INSERT INTO intervals
             (cell, position, kind, ops, bytes, failed, errors, service, response)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for (kind, stats) in interval.iter() {
        let errors = stats.errors;
        let none = errors == ErrorCounts::default();
        insert.execute(params![
            cell,
            position as i64,
            kind.name(),
            stats.ops() as i64,
            stats.bytes as i64,
            errors.total() as i64,
            if none { None } else { Some(json(&errors)?) },
            stats.service.to_bytes(),
            stats.response.as_ref().map(Histogram::to_bytes),
        ])?;
    }
    count(tx, cell, position, interval, 1)
}

/// Adds an interval's operations, bytes and errors to the totals in its cell's row. With `sign` -1 it
/// subtracts them.
fn count(
    tx: &Transaction,
    cell: i64,
    position: usize,
    interval: &Interval,
    sign: i64,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE cells SET intervals = max(intervals, ?2), ops = ops + ?3, bytes = bytes + ?4,
             failed = failed + ?5
         WHERE number = ?1",
    )?
    .execute(params![
        cell,
        position as i64 + 1,
        sign * interval.ops() as i64,
        sign * interval.bytes() as i64,
        sign * interval.errors().total() as i64,
    ])?;
    Ok(())
}

fn damage_as_error(damage: Damage) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, damage.into())
}

/// Parses the name of a kind of operation, such as `read`; `None` if it is unknown.
fn named(name: &str) -> Option<OpKind> {
    OpKind::ALL.into_iter().find(|kind| kind.name() == name)
}

/// Decodes the interval number and the kind of operation in a row. The row's columns are position, kind,
/// bytes, errors, service and response.
fn about(row: &Row) -> rusqlite::Result<Result<(usize, OpKind), Damage>> {
    let position = match value_ranges::number(row, "intervals", "position", u32::MAX.into())? {
        Ok(position) => position as usize,
        Err(damage) => return Ok(Err(damage)),
    };
    let kind = row.get_ref(1)?.as_str().unwrap_or_default();
    let known = named(kind);
    let unknown = || format!("`{}` is not a kind of operation", quoted(kind, QUOTE_CHARS));
    Ok(known.map(|k| (position, k)).ok_or_else(unknown))
}

/// Decodes a row's statistics and adds them to `stats`. The row has the same columns as for [`about`].
fn add_class(row: &Row, stats: &mut ClassStats) -> rusqlite::Result<Result<(), Damage>> {
    let bytes = match value_ranges::number(row, "intervals", "bytes", value_ranges::BYTES_MAX)? {
        Ok(bytes) => bytes,
        Err(damage) => return Ok(Err(damage)),
    };
    let (errors, service, response) = (row.get_ref(3)?, row.get_ref(4)?, row.get_ref(5)?);
    let mut add = || -> Result<(), Damage> {
        match errors {
            ValueRef::Null => {}
            ValueRef::Text(text) => {
                let errors: ErrorCounts = serde_json::from_slice(text)
                    .map_err(|e| format!("the errors of an interval: {e}"))?;
                let most = ErrorKind::ALL.into_iter().map(|kind| errors.of(kind)).max();
                if most > Some(value_ranges::COUNT_MAX / 8)
                    || stats.errors.total() > value_ranges::COUNT_MAX
                {
                    return Err("an interval has more errors than are possible".to_owned());
                }
                stats.errors.merge(&errors);
            }
            other => {
                return Err(value_ranges::not_a("intervals", "errors", "text", other.data_type()));
            }
        }
        stats.bytes = stats.bytes.saturating_add(bytes);
        let blob = |value: ValueRef<'_>, column| match value {
            ValueRef::Blob(_) => Ok(()),
            other => Err(value_ranges::not_a("intervals", column, "a blob", other.data_type())),
        };
        blob(service, "service")?;
        stats.service.merge_bytes(service.as_blob().unwrap_or_default())?;
        if !matches!(response, ValueRef::Null) {
            blob(response, "response")?;
            let kept = stats.response.get_or_insert_with(Histogram::trimmed);
            kept.merge_bytes(response.as_blob().unwrap_or_default())?;
        }
        let response = stats.response.as_ref().map_or(0, Histogram::count);
        if stats.service.count().max(response) > value_ranges::COUNT_MAX {
            return Err("an interval has more operations than are possible".to_owned());
        }
        Ok(())
    };
    Ok(add())
}

/// Creates empty statistics, without spare capacity.
fn nothing() -> Box<ClassStats> {
    Box::new(ClassStats {
        bytes: 0,
        service: Histogram::trimmed(),
        response: None,
        errors: ErrorCounts::default(),
    })
}

/// Reads statistics, over all intervals, of the operations that a cell's IOPS do not count, such as flushes.
pub(crate) fn read_beside(
    db: &rusqlite::Connection,
    cell: i64,
) -> Result<Vec<(OpKind, Box<ClassStats>)>, Fault> {
    // The index alone lists the kinds, and nearly always these are reads and writes.
    let mut kinds = db.prepare_cached("SELECT DISTINCT kind FROM intervals WHERE cell = ?1")?;
    let kinds = kinds.query_map([cell], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let is_data = |name: &String| named(name).is_some_and(|kind| IoKinds::DATA.count(kind));
    if kinds.iter().all(is_data) {
        return Ok(Vec::new());
    }
    let mut all: Vec<(OpKind, Box<ClassStats>)> = Vec::new();
    let mut query = db.prepare_cached(
        "SELECT position, kind, bytes, errors, service, response FROM intervals WHERE cell = ?1",
    )?;
    let mut rows = query.query([cell])?;
    while let Some(row) = rows.next()? {
        let (_, kind) = about(row)??;
        let at = all.iter().position(|of| of.0 == kind).unwrap_or_else(|| {
            all.push((kind, nothing()));
            all.len() - 1
        });
        add_class(row, &mut all[at].1)??;
    }
    all.retain(|(_, stats)| !stats.is_empty());
    let of = IoKinds::of(all.iter().map(|(kind, _)| *kind));
    all.retain(|(kind, _)| !of.count(*kind));
    all.sort_by_key(|(kind, _)| *kind);
    Ok(all)
}

/// The time series of a measured cell as read from the notebook.
pub(crate) struct Series {
    /// Intervals after merging.
    pub(crate) intervals: Vec<Interval>,
    /// Number of operations in each recorded (unmerged) interval, of the kinds that IOPS count.
    pub(crate) ops: Vec<u64>,
}

/// Reads the intervals `range` of a cell's time series, which has `count` intervals. Merges each `merge` neighbours
/// into one. Deducts the memory of the merged intervals from `memory_left`; the caller has already deducted that of
/// [`Series::ops`].
pub(crate) fn read_series(
    db: &rusqlite::Connection,
    cell: i64,
    count: usize,
    range: Range<usize>,
    merge: usize,
    memory_left: &MemoryLeft,
) -> Result<Series, Fault> {
    let wanted = range.len();
    let merged = wanted.div_ceil(merge);
    memory_left.take((merged * size_of::<Interval>()) as u64)?;
    let mut ops = vec![0_u64; wanted];
    // Operations of kinds that IOPS count only if there are no reads and writes.
    let (mut beside, mut has_data) = (Vec::new(), false);
    let mut intervals: Vec<Interval> = Vec::new();
    intervals.resize_with(merged, Interval::default);
    let mut query = db.prepare_cached(
        "SELECT position, kind, bytes, errors, service, response FROM intervals
         WHERE cell = ?1 AND position >= ?2 ORDER BY position",
    )?;
    let mut rows = query.query(params![cell, range.start as i64])?;
    let size = |stats: &ClassStats| {
        stats.service.heap_bytes() + stats.response.as_ref().map_or(0, Histogram::heap_bytes)
    };
    while let Some(row) = rows.next()? {
        let (position, kind) = about(row)??;
        if position >= count {
            return Err(Fault::Damage(format!("interval {position} of {count}")));
        }
        if position >= range.end {
            break;
        }
        let position = position - range.start;
        let slot = &mut intervals[position / merge].classes[kind.index()];
        let is_new = slot.is_none();
        let stats = slot.get_or_insert_with(nothing);
        let (before, size_before) = (stats.ops(), size(stats));
        add_class(row, stats)??;
        let grown = size(stats) - size_before;
        memory_left.take((grown + if is_new { size_of::<ClassStats>() } else { 0 }) as u64)?;
        let is_data = IoKinds::DATA.count(kind);
        has_data |= is_data && !stats.is_empty();
        if !is_data && beside.is_empty() {
            memory_left.take((wanted * size_of::<u64>()) as u64)?;
            beside = vec![0_u64; wanted];
        }
        let counted = if is_data { &mut ops } else { &mut beside };
        counted[position] = counted[position].saturating_add(stats.ops() - before);
    }
    if !has_data && !beside.is_empty() {
        ops = beside;
    }
    Ok(Series { intervals, ops })
}
