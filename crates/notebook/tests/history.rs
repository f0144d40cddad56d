//! Runs of the same work are ordered by their start, whenever they were stored.

use iodyno_notebook::{Notebook, Run, RunHead, Status, TargetRecord, WorkloadRecord};
use serde_json::json;
use std::path::PathBuf;

/// A finished run of `random-read` with this id, which started at this second of a minute.
fn run(id: &str, second: u32) -> Run {
    Run {
        id: format!("{id}000000000"),
        started: format!("2026-11-21T10:00:{second:02}Z").parse().unwrap(),
        ended: None,
        status: Status::Finished,
        head: RunHead {
            targets: vec![TargetRecord { name: "d.img".to_owned(), ..TargetRecord::default() }],
            workloads: vec![WorkloadRecord {
                name: "random-read".to_owned(),
                ..WorkloadRecord::default()
            }],
            ..RunHead::default()
        },
        cells: Vec::new(),
        notebook: PathBuf::new(),
        is_imported: true,
        annotation: None,
    }
}

/// One file has several names. Other parts of it, other ways to open it and other files are other targets.
#[test]
fn names_of_one_file_are_one_target() {
    let dir = tempfile::tempdir().unwrap();
    let mut notebook = Notebook::open(&dir.path().join("notebook.sqlite")).unwrap();
    for (id, name, path, bytes) in [
        ("a", "d.img", "/x/d.img", 512),
        ("b", "/x/d.img", "/x/d.img", 512),
        ("c", "../x/d.img?size=512", "/x/d.img", 512),
        ("d", "d.img", "/y/d.img", 512),
        ("e", "d.img?size=256", "/x/d.img", 256),
        ("f", "d.img?direct=no", "/x/d.img", 512),
        ("g", "d.img?size=512&direct=no", "/x/d.img", 512),
        ("h", "scratch:512", "/x/d.img", 512),
    ] {
        let mut run = run(id, 10);
        let facts =
            json!({"name": name, "canonical_path": path, "opened": {"capacity_bytes": bytes}});
        run.head.targets =
            vec![TargetRecord { name: name.to_owned(), facts, ..TargetRecord::default() }];
        assert!(notebook.import(&run).unwrap());
    }
    let ids = notebook.of_same_work("c000000000", None, 100).unwrap();
    assert_eq!(ids, ["a000000000", "b000000000", "c000000000"]);
    assert_eq!(notebook.of_same_work("f000000000", None, 100).unwrap(), ["f000000000"]);
    for run in notebook.list().unwrap() {
        let targets = notebook.load(&run.id).unwrap().head.targets;
        assert_eq!(run.identities, [targets[0].identity()]);
    }
}

#[test]
fn a_late_import_takes_its_place_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut notebook = Notebook::open(&dir.path().join("notebook.sqlite")).unwrap();
    for (id, second) in [("a", 30), ("b", 10), ("c", 20), ("d", 30), ("e", 5)] {
        assert!(notebook.import(&run(id, second)).unwrap());
    }
    let found = |count_max: u32| -> String {
        let ids = notebook.of_same_work("a000000000", None, count_max).unwrap();
        ids.iter().map(|id| &id[..1]).collect()
    };
    // Of runs that started at the same time, the one that was stored first comes first.
    assert_eq!(found(100), "ebcad");
    assert_eq!(found(3), "cad", "the latest three by their start");
    let stored: String =
        notebook.list().unwrap().iter().map(|run| run.id[..1].to_owned()).collect();
    assert_eq!(stored, "abcde");
}
