//! A run as one text, embedded in a report so that the run can be read back.
//!
//! The text is a JSON object. It contains the name of the format, and a notebook of one run, which is compressed by
//! zlib and encoded in base64. That notebook has the same tables as any other, so the code that reads old notebooks
//! also reads old reports.
//!
//! A file of unknown origin is not trusted: its size is limited, no view or trigger in it is executed, and its content
//! is checked like that of any notebook.

use crate::facts::HOST_NAME;
use crate::{Error, Run, Status, annotations, codec, load, schema, tables, untrusted, writer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_zlib_with_limit};
use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::Path;

/// Value of the JSON key `format`, which identifies the text of an exported run.
pub const FORMAT: &str = "iodyno-run";

/// Compression level, 1 to 9: higher ones cost time and save little.
const COMPRESSION: u8 = 6;
/// Maximum size of the notebook after decompression from a run's text, bytes.
const BYTES_MAX: usize = 96 << 20;
/// Substitute for the notebook's path in errors about a run embedded in a report.
const PLACE: &str = "the embedded run";

/// Exports a run as text that [`from_text`] reads. A run in progress is exported with its present data, and with the
/// status crashed.
pub fn to_text(run: &Run) -> Result<String, Error> {
    let place = Path::new(PLACE);
    let failed = |e| schema::explain_writing(place, "writing a run out", e);
    let write = || -> rusqlite::Result<Vec<u8>> {
        let mut db = Connection::open_in_memory()?;
        tables::create_tables(&db)?;
        put(&mut db, run)?;
        db.execute("UPDATE runs SET machine = ?1", [codec::json(&without_host_name(run))?])?;
        Ok(db.serialize("main")?.to_vec())
    };
    let notebook = write().map_err(failed)?;
    let data = BASE64.encode(compress_to_vec_zlib(&notebook, COMPRESSION));
    let text = json!({
        "format": FORMAT,
        "notebook_version": tables::VERSION,
        "id": run.id,
        "encoding": "sqlite, zlib, base64",
        "data": data,
    });
    Ok(text.to_string())
}

/// Facts about the run's machine without its host name, which could identify the owner.
fn without_host_name(run: &Run) -> Value {
    let mut machine = run.head.machine.clone();
    if let Value::Object(facts) = &mut machine {
        facts.remove(HOST_NAME);
    }
    machine
}

/// Fields that are read from the JSON object of an exported run.
#[derive(serde::Deserialize)]
struct Outer<'a> {
    #[serde(borrow, default)]
    format: Cow<'a, str>,
    notebook_version: Option<i64>,
    #[serde(borrow, default)]
    data: Cow<'a, str>,
}

/// Imports a run from a text that [`to_text`] wrote. `origin` is the path of the file that contains the text; error
/// messages name it.
pub fn from_text(text: &str, origin: &Path) -> Result<Run, Error> {
    let not = |what| Error::Foreign { path: origin.to_owned(), what };
    let any: Result<serde::de::IgnoredAny, _> = serde_json::from_str(text);
    any.map_err(|_| not("a damaged report: its data are not JSON"))?;
    let outer: Outer = serde_json::from_str(text).map_err(|_| not("a file without a run"))?;
    if outer.format != FORMAT {
        return Err(not("a file without a run"));
    }
    let version = outer.notebook_version.unwrap_or(i64::MAX);
    if version > tables::VERSION {
        let path = origin.to_owned();
        return Err(Error::Newer { path, found: version, known: tables::VERSION });
    }
    let packed = BASE64
        .decode(&*outer.data)
        .map_err(|_| not("a damaged report: its data are not base64"))?;
    drop(outer);
    let bytes = decompress_to_vec_zlib_with_limit(&packed, BYTES_MAX).map_err(|e| {
        not(match e.status {
            TINFLStatus::HasMoreOutput => "a damaged report: its data are larger than any report's",
            _ => "a damaged report: its data can't be decompressed",
        })
    })?;
    drop(packed);
    let failed = |e| schema::explain(origin, "reading its run", e);
    let mut db = Connection::open_in_memory().map_err(failed)?;
    untrusted::harden(&db).map_err(failed)?;
    untrusted::limit_steps(&mut db, bytes.len() as u64).map_err(failed)?;
    db.deserialize_read_exact("main", bytes.as_slice(), bytes.len(), true).map_err(failed)?;
    drop(bytes);
    if !schema::check(&db, origin)? {
        return Err(not("a damaged report: it holds an empty notebook"));
    }
    let mut numbers = db.prepare("SELECT number FROM runs LIMIT 2").map_err(failed)?;
    let numbers: Vec<i64> =
        numbers.query_map([], |r| r.get(0)).and_then(Iterator::collect).map_err(failed)?;
    match numbers.as_slice() {
        [number] => load::run(&db, origin, *number, None, load::CELLS_BYTES_MAX),
        [] => Err(not("a damaged report: it holds a notebook without a run")),
        _ => {
            Err(not("a damaged report: it holds a notebook of several runs, but must hold one run"))
        }
    }
}

/// Writes a run into a notebook under its own id. A run in progress is stored as crashed. Returns false without any
/// change if the notebook already has a run with that id.
pub(crate) fn put(db: &mut Connection, run: &Run) -> rusqlite::Result<bool> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if tx.prepare("SELECT 1 FROM runs WHERE id = ?1")?.exists([&run.id])? {
        return Ok(false);
    }
    // A reader on another machine can't check whether its writer is alive.
    let (status, reason) = match &run.status {
        Status::Running | Status::Crashed => ("crashed", None),
        Status::Failed(reason) => ("failed", Some(reason)),
        other => (other.name(), None),
    };
    let number = writer::insert_run(&tx, &run.id, run.started, &run.head, None)?;
    tx.execute(
        "UPDATE runs SET status = ?2, reason = ?3, ended = ?4 WHERE number = ?1",
        params![number, status, reason, run.ended.map(writer::time_text)],
    )?;
    annotations::put(&tx, number, run.annotation.as_deref())?;
    for (index, cell) in run.cells.iter().enumerate() {
        let row = codec::put_cell(&tx, number, index, cell, true)?;
        for (position, interval) in cell.series.iter().enumerate() {
            codec::put_interval(&tx, row, position, interval)?;
        }
    }
    tx.commit()?;
    Ok(true)
}
