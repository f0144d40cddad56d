//! Files that are not notebooks, notebooks that can't be written, and runs that do not exist: each is refused with
//! the problem and the remedy, and nothing is damaged.

use iodyno_measure::{Cell, Ended, Interval};
use iodyno_notebook::{Error, Notebook, Outcome, Run, RunHead, Status, VERSION, portable};
use iodyno_units::OpKind;
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn foreign_files_are_left_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("notes.txt");
    fs::write(
        &text,
        "not a database, and longer than the header of one, which has 100 bytes; so \
                      that SQLite reads some of it before it refuses",
    )
    .unwrap();
    let other = dir.path().join("other.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    for path in [&text, &other] {
        let before = fs::read(path).unwrap();
        for error in [Notebook::open(path).unwrap_err(), Notebook::open_existing(path).unwrap_err()]
        {
            assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
            assert!(error.to_string().contains("--notebook"), "{error}");
        }
        assert_eq!(fs::read(path).unwrap(), before);
    }
    assert!(matches!(Notebook::open(dir.path()).unwrap_err(), Error::NotWritable { .. }));
    // Neither a device, which SQLite takes for an empty file, nor a wait.
    for path in ["/dev/null", "/dev/zero"] {
        for open in [Notebook::open, Notebook::open_existing] {
            let error = open(std::path::Path::new(path)).unwrap_err();
            assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
        }
    }
    // A log that another program left beside its file is not merged into it.
    let logged = dir.path().join("logged.sqlite");
    fs::copy(&other, &logged).unwrap();
    let log = dir.path().join("logged.sqlite-wal");
    fs::write(&log, b"").unwrap();
    assert!(matches!(Notebook::open(&logged).unwrap_err(), Error::Foreign { .. }));
    assert!(log.exists());
}

#[test]
fn a_newer_notebook_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    drop(Notebook::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", VERSION + 1).unwrap();
    for error in [Notebook::open(&path).unwrap_err(), Notebook::open_existing(&path).unwrap_err()] {
        assert!(matches!(error, Error::Newer { found, .. } if found == VERSION + 1), "{error:?}");
        assert!(error.to_string().contains("newer iodyno"), "{error}");
    }
}

#[test]
fn reading_makes_no_file_and_an_empty_file_becomes_a_notebook() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    assert!(matches!(Notebook::open_existing(&path).unwrap_err(), Error::Missing { .. }));
    assert!(!path.exists());
    fs::write(&path, "").unwrap();
    assert!(matches!(Notebook::open_existing(&path).unwrap_err(), Error::Foreign { .. }));
    Notebook::open(&path).unwrap();
    assert!(Notebook::open_existing(&path).unwrap().list().unwrap().is_empty());
}

/// Folders that no user can write to, root included.
#[test]
fn unwritable_places_are_named() {
    for path in ["/proc/notebook.sqlite", "/proc/none/notebook.sqlite", "/dev/null/n.sqlite"] {
        let error = Notebook::open(path.as_ref()).unwrap_err();
        assert!(matches!(error, Error::NotWritable { .. }), "{path}: {error:?}");
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[test]
fn runs_are_named_by_id_prefix_or_last() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    let notebook = Notebook::open(&path).unwrap();
    assert!(matches!(notebook.load("last").unwrap_err(), Error::NoRuns { .. }));
    let mut ids = Vec::new();
    for i in 0..3 {
        let writer = notebook.begin(&RunHead { seed: i, ..RunHead::default() }).unwrap();
        ids.push(writer.id().to_owned());
        writer.finish(&Outcome::Interrupted, &[]).unwrap();
    }
    // Ids are drawn at random; these are chosen, so that two begin alike.
    let db = Connection::open(&path).unwrap();
    for (id, chosen) in ids.iter().zip(["aaaa000000", "aaab000000", "b000000000"]) {
        db.execute("UPDATE runs SET id = ?2 WHERE id = ?1", [id, chosen]).unwrap();
    }
    for (selector, seed) in [("last", 2), ("b", 2), ("B000000000", 2), ("aaaa", 0), ("aaab", 1)] {
        let run = notebook.load(selector).unwrap();
        assert_eq!((run.head.seed, &run.status), (seed, &Status::Interrupted), "{selector}");
        assert_eq!(run.notebook, path);
    }
    match notebook.load("aa").unwrap_err() {
        Error::AmbiguousRun { candidates, .. } => {
            assert_eq!(candidates, ["aaaa000000", "aaab000000"]);
        }
        other => panic!("{other:?}"),
    }
    for selector in ["c", "", "aaaa0000000", "%", "four corners"] {
        let error = notebook.load(selector).unwrap_err();
        assert!(matches!(error, Error::UnknownRun { .. }), "{selector}: {error:?}");
        assert!(error.to_string().contains("iodyno ls"), "{error}");
    }
    // A name selects its run, before an id that begins like it.
    for (id, name) in [("aaaa000000", "b"), ("aaab000000", "four corners"), ("b000000000", "twice")]
    {
        notebook.rename(id, name).unwrap();
    }
    for (selector, seed) in [("b", 0), ("four corners", 1), ("b000000000", 2)] {
        assert_eq!(notebook.load(selector).unwrap().head.seed, seed, "{selector}");
    }
    notebook.rename("aaaa000000", "twice").unwrap();
    let error = notebook.load("twice").unwrap_err();
    assert!(
        matches!(&error, Error::AmbiguousName { runs: 2, latest, .. } if latest == &["b000000000", "aaaa000000"]),
        "{error:?}"
    );
    let seeds: Vec<String> = notebook.list().unwrap().into_iter().map(|r| r.id).collect();
    assert_eq!(seeds, ["aaaa000000", "aaab000000", "b000000000"], "oldest first");
}

/// A panic or an error between begin and finish leaves a crashed run, though the process continues.
#[test]
fn a_dropped_writer_leaves_a_crashed_run() {
    let dir = tempfile::tempdir().unwrap();
    let notebook = Notebook::open(&dir.path().join("notebook.sqlite")).unwrap();
    let mut writer = notebook.begin(&RunHead::default()).unwrap();
    writer.begin_cell(0, &Cell { interval_ns: 1000, ..Cell::default() }).unwrap();
    let mut interval = Interval::default();
    interval.class_mut(OpKind::Flush).service.record(7);
    writer.add_intervals(&[(0, 0, &interval), (0, 1, &Interval::default())]).unwrap();
    drop(writer);
    let run = notebook.load("last").unwrap();
    assert_eq!(run.status, Status::Crashed);
    assert_eq!((run.cells[0].ended, run.cells[0].window_ns), (Ended::Crashed, 2000));
}

/// Two processes may load an interrupted run before either resumes it. Only one may measure it.
#[test]
fn of_two_resumes_of_a_run_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let notebook = Notebook::open(&dir.path().join("notebook.sqlite")).unwrap();
    let mut writer = notebook.begin(&RunHead::default()).unwrap();
    let id = writer.id().to_owned();
    writer.finish_cell(0, &Cell { interval_ns: 1000, ..Cell::default() }).unwrap();
    writer.finish(&Outcome::Interrupted, &[]).unwrap();
    let other = Notebook::open(notebook.path()).unwrap();
    assert_eq!(other.load(&id).unwrap().status, Status::Interrupted);

    let writer = notebook.resume(&id, 1).unwrap();
    let error = other.resume(&id, 0).unwrap_err();
    assert!(matches!(error, Error::Running { .. }) && error.is_of_selector(), "{error:?}");
    assert_eq!(error.to_string(), format!("{id} is still running: another process measures it"));
    assert_eq!(other.load(&id).unwrap().status, Status::Running);
    writer.finish(&Outcome::Finished, &[]).unwrap();
    let error = other.resume(&id, 0).unwrap_err();
    assert!(matches!(error, Error::Finished { .. }) && error.is_of_selector(), "{error:?}");
    let run = other.load(&id).unwrap();
    assert_eq!((run.status, run.cells.len()), (Status::Finished, 1));
}

/// The error names damage done from outside, and reading does not panic.
#[test]
fn damage_in_a_run_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    for (i, damage) in [
        "UPDATE intervals SET service = x'07'",
        "UPDATE intervals SET kind = 'erase'",
        "UPDATE cells SET intervals = 0",
        "UPDATE cells SET cell = '{'",
        "UPDATE runs SET status = 'lost'",
        "UPDATE runs SET id = '../../../etc'",
        "UPDATE runs SET started = 'noon'",
        "UPDATE runs SET ended = '9999-12-31T00:00:00.000Z'",
        "UPDATE cells SET intervals = -1",
        "UPDATE cells SET intervals = 9007199254740992",
        "UPDATE intervals SET bytes = -1",
        "UPDATE intervals SET service = x'01020202020202'",
        "UPDATE cells SET cell = json_set(cell, '$.interval_ns', 0)",
        "UPDATE cells SET cell = json_set(cell, '$.window_ns', 9000000000000000000)",
        "UPDATE cells SET cell = json_set(cell, '$.backlog_ops', 9000000000000000000)",
        "UPDATE cells SET cell = json_set(cell, '$.resources.carried_in_ns', json('-170141183460469231731687303715884105728'))",
        "UPDATE cells SET cell = json_set(cell, '$.series', json('[{\"classes\":[null,null,null,null,null]}]'))",
    ]
    .iter()
    .enumerate()
    {
        let path = dir.path().join(format!("{i}.sqlite"));
        let notebook = Notebook::open(&path).unwrap();
        let mut writer = notebook.begin(&RunHead::default()).unwrap();
        let mut cell =
            Cell { interval_ns: 1000, series: vec![Interval::default()], ..Cell::default() };
        cell.series[0].class_mut(OpKind::Read).service.record(7);
        writer.finish_cell(0, &cell).unwrap();
        writer.finish(&Outcome::Finished, &[]).unwrap();
        notebook.load("last").unwrap();
        Connection::open(&path).unwrap().execute_batch(damage).unwrap();
        let error = notebook.load("last").unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{damage}: {error:?}");
    }
}

/// If a table differs from iodyno's in a file that is marked as a notebook, nothing in it is evaluated, and the error
/// names the table.
#[test]
fn a_foreign_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)";
    for (i, (change, words)) in [
        (format!("ALTER TABLE runs RENAME TO r; CREATE VIEW runs AS {endless} SELECT r.* FROM r, c"), "`runs` is a view"),
        ("DROP TABLE intervals".to_owned(), "table `intervals` is missing"),
        ("ALTER TABLE cells ADD COLUMN x INTEGER AS (1)".to_owned(), "`x` INTEGER (generated)"),
        ("ALTER TABLE workloads RENAME COLUMN spec TO s".to_owned(), "has `s` TEXT NOT NULL as its column 4, not `spec`"),
        ("ALTER TABLE cells DROP COLUMN lateness".to_owned(), "lacks the column `lateness` BLOB"),
        ("ALTER TABLE intervals RENAME TO i; CREATE TABLE intervals AS SELECT * FROM i".to_owned(), "`intervals` has"),
        ("PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = 'CREATE VIEW targets AS SELECT 1' WHERE name = 'targets'".to_owned(), ""),
        ("PRAGMA user_version = -1".to_owned(), "`user_version` is -1"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = dir.path().join(format!("{i}.sqlite"));
        let notebook = Notebook::open(&path).unwrap();
        notebook.begin(&RunHead::default()).unwrap().finish(&Outcome::Finished, &[]).unwrap();
        drop(notebook);
        Connection::open(&path).unwrap().execute_batch(&change).unwrap();
        for error in [Notebook::open(&path).unwrap_err(), Notebook::open_existing(&path).unwrap_err()]
        {
            assert!(matches!(error, Error::Altered { .. }), "{change}: {error:?}");
            assert!(error.to_string().contains(words), "{change}: {error}");
        }
    }
}

/// A trigger of a foreign file does not run when a run is written to it.
#[test]
fn a_trigger_does_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    let notebook = Notebook::open(&path).unwrap();
    let trigger = "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END";
    Connection::open(&path).unwrap().execute_batch(trigger).unwrap();
    notebook.begin(&RunHead::default()).unwrap().finish(&Outcome::Finished, &[]).unwrap();
    drop(notebook);
    let notebook = Notebook::open(&path).unwrap();
    notebook.begin(&RunHead::default()).unwrap().finish(&Outcome::Finished, &[]).unwrap();
    assert_eq!(notebook.list().unwrap().len(), 2);
}

/// If short blobs decode to histograms with all buckets, neighbouring intervals are merged until the run fits.
#[test]
fn a_series_that_unfolds_is_merged() {
    let dir = tempfile::tempdir().unwrap();
    let notebook = Notebook::open(&dir.path().join("notebook.sqlite")).unwrap();
    let mut interval = Interval::default();
    let service = &mut interval.class_mut(OpKind::Read).service;
    service.record(0);
    service.record(1 << 41);
    interval.trim();
    let length_ns = 1_000_000;
    let cell = Cell {
        interval_ns: length_ns,
        window_ns: 10_000 * length_ns,
        series: vec![interval; 10_000],
        ..Cell::default()
    };
    let mut writer = notebook.begin(&RunHead::default()).unwrap();
    writer.finish_cell(0, &cell).unwrap();
    writer.finish(&Outcome::Finished, &[]).unwrap();
    let read = &notebook.load("last").unwrap().cells[0];
    assert_eq!((read.interval_ns, read.series.len()), (4 * length_ns, 2_500));
    assert_eq!(read.total(), cell.total());
}

/// A value that is too large for a row is refused when it is written, without an error about an altered file.
#[test]
fn a_value_that_is_too_large_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    let notebook = Notebook::open(&path).unwrap();
    let head = RunHead { command: vec!["x".repeat(9 << 20)], ..RunHead::default() };
    let error = notebook.begin(&head).unwrap_err();
    assert!(matches!(error, Error::TooBig { .. }), "{error:?}");
    assert!(error.to_string().contains("store a value of more than 8 MiB, but beginning a run"));
    assert!(notebook.list().unwrap().is_empty());
    // Such a value in a file differs from what this program writes.
    notebook.begin(&RunHead::default()).unwrap().finish(&Outcome::Finished, &[]).unwrap();
    let change = "UPDATE runs SET command = ?1";
    Connection::open(&path).unwrap().execute(change, ["x".repeat(9 << 20)]).unwrap();
    assert!(matches!(notebook.load("last").unwrap_err(), Error::Altered { .. }));
}

/// The content of a report is untrusted.
#[test]
fn a_text_without_a_run_is_reported() {
    let origin = Path::new("report.html");
    let run = Run {
        id: "a0a0a0a0a0".to_owned(),
        started: "2026-11-21T10:00:00Z".parse().unwrap(),
        ended: None,
        status: Status::Finished,
        head: RunHead::default(),
        cells: Vec::new(),
        notebook: PathBuf::new(),
        is_imported: false,
        annotation: None,
    };
    let text = portable::to_text(&run).unwrap();
    let read = portable::from_text(&text, origin).unwrap();
    assert_eq!(read.id, run.id);
    // The host's name is not handed on; all other facts are.
    let mut named = run.clone();
    named.head.machine = serde_json::json!({ "host_name": "box7", "kernel": "6.18" });
    let text_of_named = portable::to_text(&named).unwrap();
    let machine = portable::from_text(&text_of_named, origin).unwrap().head.machine;
    assert_eq!(machine, serde_json::json!({ "kernel": "6.18" }));
    let said = |text: &str| portable::from_text(text, origin).unwrap_err().to_string();
    assert!(said("[]").contains("without a run"));
    assert!(said("{").contains("not JSON"));
    assert!(
        said(&text.replace("\"notebook_version\":1", "\"notebook_version\":9"))
            .contains("version 9")
    );
    assert!(said(&text.replace("data\":\"", "data\":\"*")).contains("base64"));
    assert!(said(&text.replace("data\":\"", "data\":\"AAAA")).contains("decompressed"));
}
