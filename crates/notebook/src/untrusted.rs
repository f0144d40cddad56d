//! What keeps a notebook that a stranger made from acting on its reader: SQLite's own defences, and a limit on
//! the work of a connection; that its tables are ours is checked in `tables`.
//!
//! A file may name a view or a virtual table like one of our tables, carry triggers, declare generated columns,
//! or share its pages so that a scan never ends. Views and triggers are switched off on every connection; a
//! table that is not exactly ours is refused; and a reader stops after more steps than any notebook of the
//! file's size needs.

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;

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
