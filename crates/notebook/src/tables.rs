//! The SQL tables of a notebook, and a check that a file has the same tables. `docs/formats/notebook.md` describes
//! every column: change that document together with the tables. Never change the tables of a released format version.

use crate::untrusted::QUOTE_CHARS;
use iodyno_units::text::quoted;
use rusqlite::{Connection, OptionalExtension as _};
use std::sync::OnceLock;

/// Version of the notebook format that this program writes.
pub const VERSION: i64 = 1;

/// SQLite `application_id` that marks a file as a notebook: `iody` in ASCII.
pub(crate) const APPLICATION_ID: i64 = 0x696F_6479;

/// SQL statements that create the tables of format version 1.
const TABLES: &str = "
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    started TEXT NOT NULL,
    ended TEXT,
    seed TEXT NOT NULL,
    iodyno_version TEXT NOT NULL,
    command TEXT NOT NULL,
    machine TEXT NOT NULL,
    plan TEXT NOT NULL,
    writer_boot TEXT NOT NULL,
    writer_namespace TEXT NOT NULL,
    writer_pid INTEGER NOT NULL,
    writer_start_ticks INTEGER NOT NULL
);
CREATE TABLE targets (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    facts TEXT NOT NULL,
    health_before TEXT,
    health_after TEXT,
    PRIMARY KEY (run, position)
) WITHOUT ROWID;
CREATE TABLE workloads (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    PRIMARY KEY (run, position)
) WITHOUT ROWID;
CREATE TABLE cells (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    target TEXT NOT NULL,
    workload TEXT NOT NULL,
    engine TEXT NOT NULL,
    threads INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    block_bytes INTEGER NOT NULL,
    offered_iops REAL,
    finished INTEGER NOT NULL,
    level TEXT,
    window_ns INTEGER NOT NULL,
    interval_ns INTEGER NOT NULL,
    intervals INTEGER NOT NULL,
    ops INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cell TEXT NOT NULL,
    lateness BLOB,
    UNIQUE (run, position)
);
CREATE TABLE intervals (
    cell INTEGER NOT NULL REFERENCES cells (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    ops INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    errors TEXT,
    service BLOB NOT NULL,
    response BLOB,
    UNIQUE (cell, position, kind)
);
";

/// Creates the notebook's tables, and sets the application id and the format version.
pub(crate) fn create_tables(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(TABLES)?;
    db.pragma_update(None, "application_id", APPLICATION_ID)?;
    db.pragma_update(None, "user_version", VERSION)
}

/// Structure of a table: whether it is a table or a view, its columns, and the column sets that are unique.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    kind: String,
    columns: Vec<String>,
    unique: Vec<Vec<String>>,
}

/// Name and structure of every table in a notebook of this version.
fn ours() -> &'static [(String, Shape)] {
    static OURS: OnceLock<Vec<(String, Shape)>> = OnceLock::new();
    OURS.get_or_init(|| {
        let made = || -> rusqlite::Result<Vec<(String, Shape)>> {
            let db = Connection::open_in_memory()?;
            create_tables(&db)?;
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

/// Returns the structure of a table or view; `None` if it does not exist.
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

/// Describes the first difference between a notebook's tables and those of this version; `None` if they are
/// the same.
pub(crate) fn altered(db: &Connection) -> rusqlite::Result<Option<String>> {
    for (name, expected) in ours() {
        let Some(found) = shape(db, name)? else {
            return Ok(Some(format!("the table `{name}` is missing")));
        };
        if let Some(what) = difference(&found, expected) {
            return Ok(Some(format!("the table `{name}` {what}")));
        }
    }
    Ok(None)
}

/// Whether the notebook has this table. Some tables are created only when they are needed.
pub(crate) fn has_table(db: &Connection, name: &str) -> rusqlite::Result<bool> {
    let query = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    db.query_row(query, [name], |r| r.get::<_, i64>(0)).map(|n| n > 0)
}

fn difference(found: &Shape, expected: &Shape) -> Option<String> {
    if found.kind != expected.kind {
        return Some(format!("is a {}, but must be a {}", found.kind, expected.kind));
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
        return Some(format!("has the column {column}, which is not part of a notebook"));
    }
    let missing = expected.unique.iter().find(|columns| !found.unique.contains(columns));
    missing.map(|columns| format!("has no unique index on {}", columns.join(" and ")))
}
