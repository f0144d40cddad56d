//! Built-in checker of SQLite databases. It runs in a separate process, because SQLite maps files, and a process would
//! deadlock if it mapped a file of a FUSE folder that it serves itself.

use crate::check::Verdict;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::HashSet;
use std::path::Path;

/// A rejected database: verdict and reason.
pub type Rejected = (Verdict, String);

/// Checks a database: recovers it and checks its integrity. If `query` is given, the first column of its rows must
/// contain each line of `acknowledged`.
///
/// # Errors
/// The database is rejected.
pub fn judge_sqlite(
    database: &Path,
    query: Option<&str>,
    acknowledged: &str,
) -> Result<(), Rejected> {
    if !database.exists() {
        if acknowledged.is_empty() || query.is_none() {
            return Ok(());
        }
        return Err((Verdict::LostAcknowledged, "the database does not exist".to_owned()));
    }
    let rejected = |e: rusqlite::Error| match e.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => (Verdict::WrongContent, e.to_string()),
        _ => (Verdict::RefusesToOpen, e.to_string()),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(database, flags).map_err(rejected)?;
    let integrity: String =
        database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(rejected)?;
    if integrity != "ok" {
        return Err((Verdict::WrongContent, integrity));
    }
    let (Some(query), false) = (query, acknowledged.is_empty()) else { return Ok(()) };
    let lost = |why: String| (Verdict::LostAcknowledged, why);
    let rows = first_column(&database, query).map_err(|e| lost(e.to_string()))?;
    match acknowledged.lines().find(|line| !rows.contains(*line)) {
        Some(line) => {
            Err(lost(format!("the query returned no row `{line}`, which was acknowledged")))
        }
        None => Ok(()),
    }
}

fn first_column(database: &Connection, query: &str) -> rusqlite::Result<HashSet<String>> {
    use rusqlite::types::ValueRef;
    let mut statement = database.prepare(query)?;
    // SQLite prints reals with 15 digits, and at least one of them after the point.
    let mut printed = database.prepare("SELECT CAST(?1 AS TEXT)")?;
    let mut cell = |row: &rusqlite::Row<'_>| {
        Ok(match row.get_ref(0)? {
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => printed.query_row([number], |row| row.get(0))?,
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            ValueRef::Null => String::new(),
        })
    };
    statement.query_map([], &mut cell)?.collect()
}
