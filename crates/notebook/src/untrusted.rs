//! Protection of a reader against an untrusted notebook: SQLite's own defences, tables that are compared with
//! those of this version, and a limit on the work of a connection.
//!
//! A file may name a view or a virtual table like one of our tables, carry triggers, declare generated columns,
//! or share its pages so that a scan never ends. Views and triggers are switched off on every connection; a
//! table that is not exactly ours is refused; and a reader stops after more steps than any notebook of the
//! file's size needs.

use crate::{Error, schema};
use iodyno_units::text::quoted;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OptionalExtension as _};
use std::path::Path;
use std::sync::OnceLock;

/// The largest text or blob of a row, bytes.
pub(crate) const VALUE_BYTES_MAX: i32 = 8 << 20;
/// Steps of SQLite's machine that a reader may take, however small the file is; a second or two.
const STEPS_MIN: u64 = 100_000_000;
/// And more of them for each byte of the file. Reading a row takes some tens, and no row is shorter.
const STEPS_PER_BYTE: u64 = 50;
/// A file counts as no larger than this for that: a sparse file can have any size.
const SIZED_BYTES_MAX: u64 = 16 << 30;
/// Steps between two checks.
const STEPS_PER_CHECK: u64 = 10_000;
/// Characters of a foreign text that an error quotes.
pub(crate) const QUOTE_CHARS: usize = 60;

/// Disables everything that a schema could execute.
pub(crate) fn harden(db: &Connection) -> rusqlite::Result<()> {
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    ] {
        db.set_db_config(config, on)?;
    }
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
        (Limit::SQLITE_LIMIT_COLUMN, 100),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 10),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 10),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        db.set_limit(limit, most)?;
    }
    Ok(())
}

/// Makes the connection end with an error ([`rusqlite::ErrorCode::OperationInterrupted`]) once it took more
/// steps than a notebook of `bytes` can need.
pub(crate) fn limit_steps(db: &mut Connection, bytes: u64) -> rusqlite::Result<()> {
    let mut left = STEPS_MIN + STEPS_PER_BYTE * bytes.min(SIZED_BYTES_MAX);
    let check = move || {
        left = left.saturating_sub(STEPS_PER_CHECK);
        left == 0
    };
    db.progress_handler(STEPS_PER_CHECK as i32, Some(check))
}

/// The structure of a table: its kind, its columns, and the columns that no two rows share.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    kind: String,
    columns: Vec<String>,
    unique: Vec<Vec<String>>,
}

/// The names of our tables and their shapes.
fn ours() -> &'static [(String, Shape)] {
    static OURS: OnceLock<Vec<(String, Shape)>> = OnceLock::new();
    OURS.get_or_init(|| {
        let made = || -> rusqlite::Result<Vec<(String, Shape)>> {
            let db = Connection::open_in_memory()?;
            schema::create_tables(&db)?;
            let mut names = db.prepare(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
            )?;
            let names = names.query_map([], |r| r.get(0))?.collect::<Result<Vec<String>, _>>()?;
            let shape = |name: String| Ok(shape(&db, &name)?.map(|shape| (name, shape)));
            names.into_iter().filter_map(|name| shape(name).transpose()).collect()
        };
        made().expect("tables in memory can be made")
    })
}

/// The shape of a table or view; None where there is neither.
fn shape(db: &Connection, name: &str) -> rusqlite::Result<Option<Shape>> {
    let kind = db
        .query_row(
            "SELECT type || CASE wr WHEN 1 THEN ' without row numbers' ELSE '' END
             FROM pragma_table_list(?1) WHERE schema = 'main'",
            [name],
            |r| r.get(0),
        )
        .optional()?;
    let Some(kind) = kind else { return Ok(None) };
    let list = |sql: &str, of: &str| -> rusqlite::Result<Vec<String>> {
        let mut query = db.prepare(sql)?;
        query.query_map([of], |r| r.get(0))?.collect()
    };
    let columns = list(
        "SELECT '`' || name || '` ' || type || CASE \"notnull\" WHEN 1 THEN ' NOT NULL' ELSE '' END
             || CASE pk WHEN 0 THEN '' ELSE ' (key ' || pk || ')' END
             || CASE hidden WHEN 0 THEN '' ELSE ' (generated)' END
         FROM pragma_table_xinfo(?1) ORDER BY cid",
        name,
    )?;
    let indices =
        list("SELECT name FROM pragma_index_list(?1) WHERE \"unique\" = 1 AND partial = 0", name)?;
    let mut unique = indices
        .iter()
        .map(|index| {
            list("SELECT coalesce(name, '') FROM pragma_index_info(?1) ORDER BY seqno", index)
        })
        .collect::<rusqlite::Result<Vec<_>>>()?;
    unique.sort_unstable();
    Ok(Some(Shape { kind, columns, unique }))
}

/// Refuses a notebook if one of its tables differs from this version's.
pub(crate) fn check(db: &Connection, path: &Path) -> Result<(), Error> {
    let failed = |e| schema::explain(path, "looking at its tables", e);
    for (name, expected) in ours() {
        let what = match shape(db, name).map_err(failed)? {
            None => format!("it has no table `{name}`"),
            Some(found) => match difference(&found, expected) {
                None => continue,
                Some(what) => format!("its table `{name}` {what}"),
            },
        };
        return Err(Error::Altered { path: path.to_owned(), what });
    }
    Ok(())
}

fn difference(found: &Shape, expected: &Shape) -> Option<String> {
    if found.kind != expected.kind {
        return Some(format!("is a {}, and must be a {}", found.kind, expected.kind));
    }
    for (at, expected) in expected.columns.iter().enumerate() {
        match found.columns.get(at) {
            Some(column) if column == expected => {}
            Some(column) => {
                let column = quoted(column, QUOTE_CHARS);
                return Some(format!("has {column} as its column {}, not {expected}", at + 1));
            }
            None => return Some(format!("lacks the column {expected}")),
        }
    }
    if found.columns.len() > expected.columns.len() {
        let column = quoted(&found.columns[expected.columns.len()], QUOTE_CHARS);
        return Some(format!("has the column {column}, which no notebook has"));
    }
    let missing = expected.unique.iter().find(|columns| !found.unique.contains(columns));
    missing.map(|columns| format!("lets rows share their {}", columns.join(" and ")))
}
