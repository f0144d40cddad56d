//! A notebook of version 1, made by the first iodyno that wrote one, must open forever.
//!
//! The file holds two runs: one that finished, and one whose writer was killed. When the format gets a new version,
//! this fixture stays unchanged, and another one is added:
//! `cargo test -p iodyno-notebook --test it golden:: -- --ignored`.

use iodyno_measure::{Cell, CellKey, Ended, ErrorKind, Evidence, Interval, Level, Verdict};
use iodyno_notebook::{Notebook, Outcome, Run, RunHead, Status, TargetRecord, WorkloadRecord};
use iodyno_units::OpKind;
use rusqlite::Connection;
use serde_json::json;
use std::path::{Path, PathBuf};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/notebook-v1.sqlite")
}

fn head() -> RunHead {
    RunHead {
        name: "oltp1".to_owned(),
        command: ["iodyno", "run", "oltp1", "--on", "/dev/nvme1n1"].map(str::to_owned).to_vec(),
        iodyno_version: "0.1.0".to_owned(),
        seed: u64::MAX,
        machine: json!({"kernel": "6.18.0", "cpus": 2}),
        targets: vec![TargetRecord {
            name: "/dev/nvme1n1".to_owned(),
            facts: json!({"model": "Example 9", "size_bytes": 400_088_457_216_u64}),
            health_before: Some(json!({"percentage_used": 3})),
            health_after: None,
        }],
        workloads: vec![WorkloadRecord {
            name: "oltp1".to_owned(),
            spec: json!({"mix": {"read": 0.6, "write": 0.4}}),
        }],
        plan: json!({"seconds": 3.0}),
    }
}

fn begun() -> Cell {
    Cell {
        key: CellKey {
            name: "oltp1".to_owned(),
            target: "/dev/nvme1n1".to_owned(),
            workload: "oltp1".to_owned(),
            engine: "uring".to_owned(),
            threads: 2,
            depth: 16,
            blocks: vec![(4096, 1.0)],
            offered_iops: Some(50_000.0),
            seed: u64::MAX,
            repeat: 0,
            place: None,
        },
        interval_ns: 1_000_000_000,
        evidence: Evidence { written_share: Some(0.1), ..Evidence::default() },
        facts: [("alignment".to_owned(), "4096".to_owned())].into(),
        ..Cell::default()
    }
}

fn series() -> Vec<Interval> {
    let mut series = vec![Interval::default(); 3];
    for (i, kind) in [(0, OpKind::Read), (0, OpKind::Write), (2, OpKind::Read)] {
        let stats = series[i].class_mut(kind);
        for n in 0..50 {
            stats.service.record(80_000 + 1_000 * n);
            stats.response.get_or_insert_default().record(90_000 + 1_000 * n);
            stats.bytes += 4096;
        }
    }
    series[2].class_mut(OpKind::Flush).errors.add(ErrorKind::NoSpace, 28);
    series
}

fn finished() -> Cell {
    let mut cell = begun();
    cell.window_ns = 2_500_000_000;
    cell.series = series();
    cell.resources.cpu_user_ns = vec![1, 2];
    cell.resources.cpu_system_ns = vec![3, 4];
    cell.resources.outstanding_area_ns = u128::MAX;
    cell.stamps.add(3, 1000);
    cell.lateness = Some(cell.series[0].class_mut(OpKind::Read).service.clone());
    cell.backlog_ops = 7;
    cell.ended = Ended::Errors;
    cell.verdicts = vec![Verdict {
        code: "ERRORS".to_owned(),
        level: Level::Invalid,
        text: "1 operations failed".to_owned(),
    }];
    cell
}

/// Version 1 opens, is complete, and can be written to.
#[test]
fn version_1_opens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    std::fs::copy(fixture(), &path).unwrap();
    let notebook = Notebook::open(&path).unwrap();
    let mut expected = Run {
        id: "v1f1n1shed".to_owned(),
        started: "2026-11-21T10:00:00.123Z".parse().unwrap(),
        ended: Some("2026-11-21T10:00:04Z".parse().unwrap()),
        status: Status::Failed("too many errors".to_owned()),
        head: head(),
        cells: vec![finished()],
        notebook: path.clone(),
        is_imported: false,
        annotation: None,
    };
    expected.head.targets[0].health_after = Some(json!({"percentage_used": 4}));
    assert_eq!(notebook.load("v1f").unwrap(), expected);

    let crashed = notebook.load("v1cra").unwrap();
    assert_eq!((crashed.status, crashed.ended), (Status::Crashed, None));
    let cell = &crashed.cells[0];
    assert_eq!((cell.ended, cell.window_ns), (Ended::Crashed, 3_000_000_000));
    assert_eq!((&cell.key, &cell.series), (&begun().key, &series()));

    let list = notebook.list().unwrap();
    assert_eq!(
        list.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(),
        ["v1f1n1shed", "v1crashed0"]
    );
    assert_eq!(list[0].cells[0].level, Some(Level::Invalid));
    notebook.begin(&head()).unwrap().finish(&Outcome::Finished, &[]).unwrap();
    assert_eq!(notebook.list().unwrap().len(), 3);
}

/// Creates the fixture anew. Ids, times and the dead writer are set by hand, and the pages are small, so that the file
/// has few bytes.
#[test]
#[ignore = "writes the fixture of a new format: run it with IODYNO_WRITE_FIXTURE=1"]
fn make_the_fixture() {
    // The fixture of a released version must stay as it is.
    std::env::var_os("IODYNO_WRITE_FIXTURE").expect("set IODYNO_WRITE_FIXTURE=1");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notebook.sqlite");
    let notebook = Notebook::open(&path).unwrap();
    let mut writer = notebook.begin(&head()).unwrap();
    writer.begin_cell(0, &begun()).unwrap();
    writer.finish_cell(0, &finished()).unwrap();
    let health = [Some(json!({"percentage_used": 4}))];
    writer.finish(&Outcome::Failed("too many errors".to_owned()), &health).unwrap();
    let mut writer = notebook.begin(&head()).unwrap();
    writer.begin_cell(0, &begun()).unwrap();
    for (i, interval) in series().iter().enumerate() {
        writer.add_interval(0, i, interval).unwrap();
    }
    drop((writer, notebook));
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "UPDATE runs SET id = 'v1f1n1shed', started = '2026-11-21T10:00:00.123Z',
             ended = '2026-11-21T10:00:04.000Z' WHERE number = 1;
         UPDATE runs SET id = 'v1crashed0', started = '2026-11-21T11:00:00.000Z',
             status = 'running' WHERE number = 2;
         UPDATE runs SET writer_boot = '2a7e0f4c-2b5d-4a53-9d0c-6f6f3a8a1c11',
             writer_namespace = 'pid:[4026531836]', writer_pid = 4242, writer_start_ticks = 77;
         PRAGMA journal_mode = DELETE;
         PRAGMA page_size = 512;
         VACUUM;",
    )
    .unwrap();
    drop(db);
    std::fs::copy(&path, fixture()).unwrap();
}
