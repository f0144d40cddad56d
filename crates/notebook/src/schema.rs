//! Opens the notebook's file, and checks that it is a notebook.
//!
//! `application_id` marks a notebook, `user_version` holds its version. A file that is neither empty nor a notebook is
//! not changed.

use crate::tables::{self, APPLICATION_ID, VERSION, create_tables};
use crate::{Error, untrusted};
use iodyno_units::human;
use iodyno_units::text::{clean, quoted};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Offset of the application id in an SQLite file, bytes.
const APPLICATION_ID_AT: usize = 68;
/// Length of an SQLite file's header, bytes.
const HEADER_BYTES: u64 = 100;

/// Maximum size of the part of a notebook that a reader maps into memory, bytes.
const MAPPED_BYTES_MAX: i64 = 128 << 20;

/// Timeout for a lock that another process holds on the notebook, s.
const BUSY_SECONDS: u64 = 20;

/// Converts an SQLite error to an error that tells the user what to do. `doing` is the action that failed.
pub(crate) fn explain(path: &Path, doing: &'static str, source: rusqlite::Error) -> Error {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => {
            let what = "reading takes more steps than for a valid notebook of this size".to_owned();
            Error::Altered { path, what }
        }
        Some(ErrorCode::TooBig) => {
            let most = human::size(untrusted::VALUE_BYTES_MAX as u64);
            Error::Altered { path, what: format!("a value is larger than {most}") }
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            let what = format!("SQLite reports damage ({source})");
            Error::Altered { path, what: clean(&what).into_owned() }
        }
        Some(ErrorCode::NotADatabase) => Error::Foreign { path, what: "not an SQLite file" },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Busy { path, seconds: BUSY_SECONDS }
        }
        Some(
            ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure,
        ) => {
            let why = reason(&path).unwrap_or_else(|| source.to_string());
            Error::NotWritable { path, why }
        }
        _ => match odd_value(&source) {
            Some(what) => Error::Altered { path, what },
            None => Error::Sqlite { path, doing, source },
        },
    }
}

/// Converts the SQLite error of a failed write, like [`explain`]. But a value that is too large comes from this
/// program, so the error does not blame the file.
pub(crate) fn explain_writing(path: &Path, doing: &'static str, source: rusqlite::Error) -> Error {
    match source.sqlite_error_code() {
        Some(ErrorCode::TooBig) => Error::TooBig {
            path: path.to_owned(),
            doing,
            most: human::size(untrusted::VALUE_BYTES_MAX as u64),
        },
        _ => explain(path, doing, source),
    }
}

/// Describes a value whose type or range is wrong for its column; `None` if the error is of another kind.
fn odd_value(source: &rusqlite::Error) -> Option<String> {
    use rusqlite::Error as E;
    match source {
        E::InvalidColumnType(_, column, found) => Some(format!(
            "the column `{}` holds a value of type {}",
            quoted(column, untrusted::QUOTE_CHARS),
            found.to_string().to_ascii_lowercase()
        )),
        E::IntegralValueOutOfRange(column, value) => {
            Some(format!("column {} of a row holds {value}, which is out of range", column + 1))
        }
        E::FromSqlConversionFailure(column, ..) => {
            Some(format!("column {} of a row is not valid", column + 1))
        }
        E::Utf8Error(..) => Some("a text is not UTF-8".to_owned()),
        _ => None,
    }
}

/// Asks the operating system why the file can't be written, because SQLite does not report the reason. `None` if the
/// file can be written.
fn reason(path: &Path) -> Option<String> {
    std::fs::OpenOptions::new().append(true).open(path).err().map(|e| match e.kind() {
        std::io::ErrorKind::NotFound => "a file can't be created in this folder".to_owned(),
        _ => e.to_string(),
    })
}

/// Checks before SQLite opens the file that it is missing, empty, or looks like a notebook. Otherwise SQLite
/// could treat a device as an empty file, block on a pipe, or merge another program's write-ahead log.
fn check_file(path: &Path) -> Result<(), Error> {
    let foreign = |what| Err(Error::Foreign { path: path.to_owned(), what });
    // Opening explains why a path can't be read.
    let Ok(found) = std::fs::metadata(path) else { return Ok(()) };
    if found.is_dir() {
        return Ok(());
    }
    if !found.is_file() {
        return foreign("a device, a pipe or a socket, not a regular file");
    }
    let mut header = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|f| f.take(HEADER_BYTES).read_to_end(&mut header));
    if read.is_err() || header.is_empty() {
        return Ok(());
    }
    let number = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    if !header.starts_with(b"SQLite format 3\0") {
        return foreign("not an SQLite file");
    }
    let page_bytes = match header.get(16..18) {
        Some(&[0, 1]) => 1 << 16,
        Some(&[high, low]) => u64::from(high) << 8 | u64::from(low),
        _ => return foreign("an incomplete SQLite file"),
    };
    match number(APPLICATION_ID_AT).map(i64::from) {
        Some(APPLICATION_ID) => Ok(()),
        // A notebook that is being created has one page; its tables are only in the log at first.
        Some(0) if found.len() <= page_bytes || has_log(path) => Ok(()),
        Some(_) => foreign("an SQLite file of another program"),
        None => foreign("an incomplete SQLite file"),
    }
}

/// Opens a notebook for writing; creates it and its parent folders if necessary.
pub(crate) fn open_for_writing(path: &Path) -> Result<Connection, Error> {
    check_file(path)?;
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::NotWritable { path: path.to_owned(), why: e.to_string() })?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |e| explain(path, "opening it", e);
    let mut db = Connection::open_with_flags(path, flags).map_err(failed)?;
    untrusted::harden(&db).map_err(failed)?;
    db.busy_timeout(Duration::from_secs(BUSY_SECONDS)).map_err(failed)?;
    let new = !check(&db, path)?;
    if db.is_readonly("main").map_err(failed)? {
        let why = "the file, or the file system that it is on, is read-only".to_owned();
        return Err(Error::NotWritable { path: path.to_owned(), why });
    }
    use_log(&db).map_err(failed)?;
    if new {
        create(&mut db, path)?;
    }
    // With a write-ahead log, a commit needs no fsync. Committed data survives a kill of the process at any instant. A
    // power failure may lose the last seconds, but does not damage the file.
    db.pragma_update(None, "synchronous", "NORMAL").map_err(failed)?;
    db.pragma_update(None, "foreign_keys", true).map_err(failed)?;
    Ok(db)
}

/// Opens an existing notebook for reading. Works on read-only media.
pub(crate) fn open_for_reading(path: &Path) -> Result<Connection, Error> {
    if !path.exists() {
        return Err(Error::Missing { path: path.to_owned() });
    }
    check_file(path)?;
    let failed = |e| match explain(path, "opening it", e) {
        Error::NotWritable { path, why } => {
            let why = std::fs::File::open(&path).err().map_or(why, |e| e.to_string());
            Error::NotReadable { path, why }
        }
        other => other,
    };
    let db = open_plain(path).map_err(failed)?;
    if check(&db, path)? {
        Ok(db)
    } else {
        Err(Error::Foreign { path: path.to_owned(), what: "empty" })
    }
}

/// Opens a notebook for reading like [`open_for_reading`], without checking the file first.
pub(crate) fn open_plain(path: &Path) -> Result<Connection, rusqlite::Error> {
    let open = |flags| -> Result<Connection, rusqlite::Error> {
        let mut db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        guard(&mut db, path)?;
        db.busy_timeout(Duration::from_secs(BUSY_SECONDS))?;
        // Opening is lazy: only a first read shows whether the file is usable.
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        // Mapping avoids a copy of each page in the first part of a long series. It is limited, because mapped pages
        // count as this process's memory.
        db.pragma_update(None, "mmap_size", MAPPED_BYTES_MAX)?;
        Ok(db)
    };
    // Reading a notebook with a write-ahead log needs the log's shared memory, hence write permission, unless another
    // process has the file open.
    open(OpenFlags::SQLITE_OPEN_READ_WRITE).or_else(|e| match e.sqlite_error_code() {
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
            if !has_log(path) =>
        {
            open_immutable(path)
        }
        _ => Err(e),
    })
}

/// Whether a non-empty write-ahead log exists next to the file, so that the file alone is incomplete.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(Path::new(&log)).is_ok_and(|m| m.len() > 0)
}

/// Opens a notebook without locks: the last resort on read-only media, where no process can write to it.
fn open_immutable(path: &Path) -> Result<Connection, rusqlite::Error> {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(uri, flags)?;
    guard(&mut db, path)?;
    Ok(db)
}

/// Protects a connection against malicious content of the file: disables executable schema, and limits
/// SQLite's steps.
fn guard(db: &mut Connection, path: &Path) -> rusqlite::Result<()> {
    untrusted::harden(db)?;
    untrusted::limit_steps(db, std::fs::metadata(path).map_or(0, |m| m.len()))
}

/// Checks the open file. Returns true for a notebook that this program can read, false for an empty file, and
/// an error for anything else.
pub(crate) fn check(db: &Connection, path: &Path) -> Result<bool, Error> {
    let failed = |e| explain(path, "identifying it", e);
    let number = |sql| db.query_row(sql, [], |r| r.get::<_, i64>(0)).map_err(failed);
    let application = number("PRAGMA application_id")?;
    let is_empty = application == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0;
    if is_empty {
        return Ok(false);
    }
    // Another process may create the tables between the two queries above. It sets the id in the same transaction, so
    // if the second query saw tables, the id is set by now.
    if number("PRAGMA application_id")? == APPLICATION_ID {
        let found = number("PRAGMA user_version")?;
        if found > VERSION {
            return Err(Error::Newer { path: path.to_owned(), found, known: VERSION });
        }
        if found != VERSION {
            let what = format!("`user_version` is {found}");
            return Err(Error::Altered { path: path.to_owned(), what });
        }
        let failed = |e| explain(path, "checking its tables", e);
        return match tables::altered(db).map_err(failed)? {
            None => Ok(true),
            Some(what) => Err(Error::Altered { path: path.to_owned(), what }),
        };
    }
    let path = path.to_owned();
    Err(Error::Foreign { path, what: "an SQLite file of another program" })
}

/// Switches the notebook to a write-ahead log. On file systems without shared memory between processes,
/// SQLite keeps its rollback journal, which is as safe but slower.
fn use_log(db: &Connection) -> rusqlite::Result<()> {
    // Changing the journal mode needs exclusive access, and SQLite does not always wait for that.
    let deadline = Instant::now() + Duration::from_secs(BUSY_SECONDS);
    loop {
        let mode = db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()));
        match mode {
            Err(e)
                if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// Creates the notebook's tables in an empty file. If several processes try it concurrently, one creates them
/// and the others wait.
fn create(db: &mut Connection, path: &Path) -> Result<(), Error> {
    let failed = |e| explain(path, "making its tables", e);
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    if !check(&tx, path)? {
        create_tables(&tx).map_err(failed)?;
    }
    tx.commit().map_err(failed)
}
