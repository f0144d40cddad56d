//! Protects the reader of a notebook of unknown origin: enables SQLite's own defences, and limits the steps that a
//! connection may execute. The module `tables` checks the schema of the notebook's tables.
//!
//! A file may contain a view or a virtual table with the name of a notebook's table, triggers, generated columns, or
//! shared pages that make a scan endless. Views and triggers are therefore off on every connection, a table that
//! differs from the schema is refused, and a reader stops after more steps than any notebook of that size needs.

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;

/// Maximum size of a text or blob in a row, bytes.
pub(crate) const VALUE_BYTES_MAX: i32 = 8 << 20;
/// Maximum number of steps of SQLite's virtual machine that a reader may take in the smallest file: a second or two of
/// work. Larger files allow more.
const STEPS_MIN: u64 = 100_000_000;
/// Steps by which the limit increases per byte of the file. Reading a row takes some tens of steps, and a row has at
/// least one byte.
const STEPS_PER_BYTE: u64 = 50;
/// File size above which the limit on SQLite's steps no longer grows, bytes, because a sparse file can have
/// any size.
const SIZED_BYTES_MAX: u64 = 16 << 30;
/// Number of SQLite's steps between two checks of the limit.
const STEPS_PER_CHECK: u64 = 10_000;
/// Maximum number of characters of the file's text that an error quotes.
pub(crate) const QUOTE_CHARS: usize = 60;

/// Disables everything in a file's schema that could execute, such as views and triggers.
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

/// Limits SQLite's steps to what a notebook of `bytes` bytes can need. Beyond this limit, the connection fails with
/// [`rusqlite::ErrorCode::OperationInterrupted`].
pub(crate) fn limit_steps(db: &mut Connection, bytes: u64) -> rusqlite::Result<()> {
    let mut left = STEPS_MIN + STEPS_PER_BYTE * bytes.min(SIZED_BYTES_MAX);
    let check = move || {
        left = left.saturating_sub(STEPS_PER_CHECK);
        left == 0
    };
    db.progress_handler(STEPS_PER_CHECK as i32, Some(check))
}
