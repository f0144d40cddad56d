//! Runs of the same work are ordered by their start, whenever they were stored.

use iodyno_notebook::{Notebook, Run, RunHead, Status, TargetRecord, WorkloadRecord};
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
