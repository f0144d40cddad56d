//! The built-in checker of SQLite databases.

use crate::check::{Check, CheckRun, Verdict};
use crate::folder::{Folders, Watch};
use crate::program::Ended;
use crate::tree::Tree;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::HashSet;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Instructions of SQLite's machine between looks at the clock.
const INSTRUCTIONS: i32 = 10_000;

/// Checks a database in each state: its integrity, and that each line which the program printed is a row of a query.
#[derive(Debug)]
pub struct Sqlite<'a> {
    folders: &'a Folders,
    file: String,
    query: Option<String>,
    time_limit: Duration,
    next: AtomicU64,
}

/// A rejected state: verdict and reason.
type Rejected = (Verdict, String);

impl<'a> Sqlite<'a> {
    /// Checks `file`, a path in the folder. Each line that the program printed must be the first column of a row of
    /// `query`; `None`: only the database's integrity is checked.
    #[must_use]
    pub fn new(
        folders: &'a Folders,
        file: String,
        query: Option<String>,
        time_limit: Duration,
    ) -> Self {
        Self { folders, file, query, time_limit, next: AtomicU64::new(0) }
    }

    fn judge(&self, folder: &Path, acknowledged: &[u8]) -> Result<(), Rejected> {
        let path = folder.join(&self.file);
        if !path.exists() {
            return match acknowledged.is_empty() || self.query.is_none() {
                true => Ok(()),
                false => Err((Verdict::LostAcknowledged, "the database does not exist".to_owned())),
            };
        }
        let refused = |e: rusqlite::Error| (Verdict::RefusesToOpen, e.to_string());
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut database = Connection::open_with_flags(path, flags).map_err(refused)?;
        let until = Instant::now() + self.time_limit;
        let is_late = move || Instant::now() > until;
        database.progress_handler(INSTRUCTIONS, Some(is_late)).map_err(refused)?;
        let damaged = |e: rusqlite::Error| match e.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => (Verdict::Hangs, e.to_string()),
            Some(ErrorCode::DatabaseCorrupt) => (Verdict::WrongContent, e.to_string()),
            _ => (Verdict::RefusesToOpen, e.to_string()),
        };
        let integrity: String =
            database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(damaged)?;
        if integrity != "ok" {
            return Err((Verdict::WrongContent, integrity));
        }
        match &self.query {
            Some(query) => find_promised(&database, query, acknowledged),
            None => Ok(()),
        }
    }
}

/// Looks for each line that the program printed among the rows of a query.
fn find_promised(database: &Connection, query: &str, acknowledged: &[u8]) -> Result<(), Rejected> {
    let text = String::from_utf8_lossy(acknowledged);
    let mut lines = text.lines().peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    let lost = |why: String| (Verdict::LostAcknowledged, why);
    let rows = || -> rusqlite::Result<HashSet<String>> {
        let mut statement = database.prepare(query)?;
        let cell = |row: &rusqlite::Row<'_>| {
            Ok(match row.get_ref(0)? {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Real(number) => number.to_string(),
                other => String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned(),
            })
        };
        statement.query_map([], cell)?.collect()
    };
    let rows = rows().map_err(|e| lost(e.to_string()))?;
    match lines.find(|line| !rows.contains(*line)) {
        Some(line) => Err(lost(format!("the query has no row `{line}`"))),
        None => Ok(()),
    }
}

impl Check for Sqlite<'_> {
    fn check(
        &self,
        tree: &Tree,
        acknowledged: &[u8],
        watch: Box<dyn Watch>,
    ) -> io::Result<CheckRun> {
        let name = format!("database-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let folder = self.folders.add(&name, tree.clone(), true, Some(watch));
        let judged = self.judge(&folder, acknowledged);
        let events = self.folders.take_events(&name);
        self.folders.remove(&name);
        let (ended, output) = match judged {
            Ok(()) => (Ended::Exited(ExitStatus::from_raw(0)), String::new()),
            Err((Verdict::Hangs, _)) => (Ended::TimedOut, String::new()),
            Err((verdict, why)) => {
                (Ended::Exited(ExitStatus::from_raw(1 << 8)), format!("{} {why}\n", verdict.word()))
            }
        };
        Ok(CheckRun { ended, output: output.into_bytes(), events })
    }
}
