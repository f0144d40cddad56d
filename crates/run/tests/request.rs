//! A run from a stored request equals the original run, and a request can be written by hand.

use iodyno_notebook::Run;
use iodyno_run::{Outcome, Process, ResolvedRun, RunError, RunRequest, Watch, execute};
use serde_json::{Value, json};
use std::sync::Arc;

struct Unwatched;
impl Watch for Unwatched {}

pub(crate) fn outcome(request: RunRequest) -> Result<Outcome, RunError> {
    let process = Process {
        command: Vec::new(),
        version: String::new(),
        notebook: None,
        resume: None,
        stop: Arc::default(),
        ranks: Arc::new(iodyno_ranks::Ranks::alone()),
    };
    execute(&ResolvedRun::new(request, process)?, &mut Unwatched)
}

/// A request as a program in another language would write it.
pub(crate) fn written_by_hand(work: &Value, target: &str) -> RunRequest {
    let request = json!({
        "name": "by hand", "work": work, "repeats": 1, "thresholds": ["p99 < 10s"],
        "targets": [target], "folder": "/", "files": {}, "seed": 7, "engine": null,
        "options": { "poll": false, "plain": false }, "system_clock": false,
        "interval_ns": null, "errors_max": 0, "read_only": false, "destroy": [],
    });
    serde_json::from_value(request).unwrap()
}

const WORKLOAD: &str = "schema = 1\ndepth = 8\nblock = \"4KiB\"\n[mix]\nread = 3\nwrite = 1\n[all]\naddresses = \"uniform\"\n[limits]\ntime = \"20ms\"\nramp = \"1ms\"";

#[test]
fn a_stored_request_gives_the_same_run_again() {
    let spec: Value = toml::from_str::<toml::Table>(WORKLOAD).map(|t| json!(t)).unwrap();
    let list = json!({ "cells": [{ "name": "mixed", "spec": spec }] });
    let axes = json!([
        { "kind": "read", "values": [{ "share": 1.0 }, { "share": 0.3 }] },
        { "kind": "block", "values": [{ "bytes": 4096 }, { "bytes": 12288 }] },
        { "kind": "rate", "values": [{ "rate": 12345.678 }] },
    ]);
    let sweep = json!({
        "axes": axes, "order": "random", "repeats": 2, "ceilings": [{ "of": "p99", "ns": 1_000_000 }],
    });
    let source = json!({
        "name": "a sweep", "text": "", "sweep": sweep, "workloads": { "mixed": WORKLOAD },
        "choice": { "scale": 0.5 },
    });
    let file = json!({
        "name": "a file", "workloads": { "mixed": WORKLOAD },
        "text": "schema = 1\n[[stages]]\ndo = \"cells\"\nworkload = \"mixed\"\ndepth = [1, 2]\ntime = \"10ms\"",
    });
    let method =
        |source: &Value| json!({ "method": { "source": source, "each": false, "reuse": false } });
    for (work, cells) in [(list, 1), (method(&source), 8), (method(&file), 2)] {
        let first = outcome(written_by_hand(&work, "model:exflash-400g")).unwrap().run;
        assert_eq!(first.cells.len(), cells);
        let again = outcome(RunRequest::stored_in(&first.head).unwrap()).unwrap().run;
        assert_eq!(first.head.plan, again.head.plan);
        let figures = |run: &Run| -> Vec<_> {
            run.cells.iter().map(|c| (c.key.clone(), c.series.clone())).collect()
        };
        assert_eq!(figures(&first), figures(&again));
    }
}

/// Relative paths begin at the request's folder, and results show them as the request gives them.
#[test]
fn paths_begin_at_the_folder_of_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let spec: Value = toml::from_str::<toml::Table>(WORKLOAD).map(|t| json!(t)).unwrap();
    let work = json!({ "cells": [{ "name": "mixed", "spec": spec }] });
    let request = written_by_hand(&work, "t?size=1MiB");
    let request = RunRequest { folder: folder.path().to_owned(), ..request };
    let run = outcome(request.clone()).unwrap().run;
    assert_eq!(run.cells[0].key.target, "t?size=1MiB");
    assert_eq!(std::fs::metadata(folder.path().join("t")).unwrap().len(), 1 << 20);
    // It is iodyno's own now, under the same name.
    outcome(request).unwrap();

    let foreign = folder.path().join("foreign");
    std::fs::write(&foreign, vec![7; 1 << 20]).unwrap();
    let request =
        RunRequest { folder: folder.path().to_owned(), ..written_by_hand(&work, "foreign") };
    outcome(request.clone()).unwrap_err();
    assert_eq!(std::fs::read(&foreign).unwrap(), vec![7; 1 << 20]);
    outcome(RunRequest { destroy: vec!["foreign".to_owned()], ..request }).unwrap();
}
