//! The contract for programs: standard output has exactly one JSON document, which follows the
//! published schema and has the promised keys and consistent figures; runs are listed oldest first
//! and found by id, prefix and `last`.

use crate::place::{Place, RunOutput, Running, SHORT, cells, codes, number, whole};
use iodyno_notebook::{Notebook, Outcome, RunHead};
use serde_json::{Value, json};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::Stdio;

pub(crate) const RUN_SCHEMA: &str = include_str!("../../../../docs/schema/run-v1.schema.json");
pub(crate) const LIST_SCHEMA: &str = include_str!("../../../../docs/schema/list-v1.schema.json");

#[track_caller]
pub(crate) fn assert_valid(schema: &str, document: &Value) {
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{e} at {}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

const PERCENTILES: [&str; 6] = ["p50", "p90", "p99", "p99_9", "p99_99", "p99_999"];

/// Asserts that a document has the promised keys, and that its figures are consistent.
#[track_caller]
fn assert_contract(document: &Value) {
    assert_valid(RUN_SCHEMA, document);
    assert_eq!(document["schema"], 1);
    assert!(document["run"]["id"].is_string());
    for cell in cells(document) {
        for key in ["name", "target", "workload", "engine"] {
            assert!(cell[key].is_string(), "{key}: {cell}");
        }
        for key in ["threads", "depth", "block_bytes"] {
            assert!(cell[key].is_u64(), "{key}: {cell}");
        }
        let seconds = number(&cell["seconds"]);
        assert!(number(&cell["oio_mean"]) >= 0.0, "{cell}");
        // However short the cell was: it has used CPU time.
        let worked = number(&cell["total"]["iops"]) > 0.0;
        for key in ["cpu_seconds", "generator_ns_per_io"] {
            assert!(number(&cell[key]) > 0.0 || !worked, "{key}: {cell}");
        }
        let (mut iops, mut bytes_per_s) = (0.0, 0.0);
        for kind in ["read", "write", "flush"] {
            let kind = &cell[kind];
            let ops = whole(&kind["ops"]);
            assert!(
                (number(&kind["iops"]) * seconds - ops as f64).abs() < 1e-6 * ops as f64 + 1e-9
            );
            iops += number(&kind["iops"]);
            bytes_per_s += number(&kind["bytes_per_s"]);
            assert!(kind["errors"].is_u64());
            assert_latency(&kind["latency_ns"], ops);
        }
        assert!((number(&cell["total"]["iops"]) - iops).abs() <= 1e-9 * iops);
        let total = number(&cell["total"]["bytes_per_s"]);
        assert!((total - bytes_per_s).abs() <= 1e-9 * bytes_per_s);
        let verdicts = cell["verdicts"].as_array().unwrap();
        assert!(!verdicts.is_empty());
        for verdict in verdicts {
            assert!(["code", "level", "text"].iter().all(|key| verdict[key].is_string()));
        }
    }
}

/// Asserts that percentiles are null without samples, ascend, and are absent where fewer than ten samples lie beyond
/// them.
#[track_caller]
fn assert_latency(latency: &Value, ops: u64) {
    let known: Vec<u64> = PERCENTILES.iter().filter_map(|p| latency[p].as_u64()).collect();
    if ops == 0 {
        let all = ["min", "mean", "max"].iter().chain(&PERCENTILES);
        assert!(all.into_iter().all(|key| latency[key].is_null()), "{latency}");
        return;
    }
    let (min, max) = (whole(&latency["min"]), whole(&latency["max"]));
    assert!((min as f64..=max as f64).contains(&number(&latency["mean"])), "{latency}");
    assert!(known.is_sorted(), "{latency}");
    // Percentiles are the middles of buckets that are at most 0.8 % wide.
    assert!(known.iter().all(|&p| p as f64 >= min as f64 * 0.99), "{latency}");
    assert!(known.iter().all(|&p| p as f64 <= max as f64 * 1.01), "{latency}");
    for (key, beyond) in PERCENTILES.iter().zip([0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5]) {
        // One sample more or less depends on rounding.
        let samples = ops as f64 * beyond;
        if samples >= 11.0 {
            assert!(latency[key].is_u64(), "{key} of {ops}: {latency}");
        } else if samples < 9.0 {
            assert!(latency[key].is_null(), "{key} of {ops}: {latency}");
        }
    }
}

#[test]
fn a_group_on_several_targets_is_one_document() {
    let place = Place::new();
    let words = "run four-corners --on scratch:16MiB --on ram:16MiB --ops 50 --ramp 0s";
    let document = place.document(words);
    assert_contract(&document);
    let members = ["random-read", "random-write", "seq-read", "seq-write"];
    let targets = ["scratch:16MiB", "ram:16MiB", "all (2 targets)"];
    let expected: Vec<(&str, &str)> =
        members.iter().flat_map(|m| targets.iter().map(move |t| (*m, *t))).collect();
    let found: Vec<(&str, &str)> = cells(&document)
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["target"].as_str().unwrap()))
        .collect();
    assert_eq!(found, expected);
    for cell in cells(&document) {
        let kind = if cell["name"].as_str().unwrap().ends_with("read") { "read" } else { "write" };
        let targets = if cell["target"] == "all (2 targets)" { 2 } else { 1 };
        assert_eq!(cell[kind]["ops"], 50 * targets, "{cell}");
        assert_eq!(cell["workload"], cell["name"]);
    }
    let run = &document["run"];
    assert_eq!((&run["status"], &run["name"]), (&json!("finished"), &json!("four-corners")));
    assert_eq!(run["command"][1], "run");
    assert_eq!(run["workloads"].as_array().unwrap().len(), 4);
    assert_eq!(run["targets"][1]["name"], "ram:16MiB");
    assert!(run["machine"]["kernel"].is_string());
}

#[test]
fn percentiles_that_the_samples_can_t_support_are_null() {
    let place = Place::new();
    let document = place.document("run random-read --on ram:1MiB --ops 150 --ramp 0s");
    assert_contract(&document);
    let cell = &cells(&document)[0];
    assert_eq!(cell["read"]["ops"], 150);
    let latency = &cell["read"]["latency_ns"];
    assert!(latency["p50"].is_u64() && latency["p90"].is_u64() && latency["max"].is_u64());
    assert!(PERCENTILES[2..].iter().all(|p| latency[p].is_null()), "{latency}");
    assert!(codes(cell).contains(&"FEW_SAMPLES"));
}

/// A run that is not stored is reported in the same form.
#[test]
fn a_run_that_is_not_kept_follows_the_schema_too() {
    let place = Place::new();
    let document = place.document("run random-read --on null: --ops 1000 --no-notebook");
    assert_valid(RUN_SCHEMA, &document);
    assert_eq!(cells(&document)[0]["read"]["ops"], 1000);
    assert!(!place.notebook().exists());
    let output = place.iodyno("run random-read --on null: --ops 1000 --no-notebook -q");
    assert!(!output.succeeds().stdout.contains("kept in"), "{}", output.stdout);
    assert!(!output.stdout.contains("iodyno show"), "{}", output.stdout);
}

#[test]
fn the_cost_is_reported_first_and_on_standard_error_alone() {
    let place = Place::new();
    let words = format!("run random-write --on scratch:16MiB {SHORT} --json");
    let output = place.iodyno(&words);
    let document = output.succeeds().json();
    assert!(output.stderr.starts_with("plan: 1 cell, 110 ms; writes 16 MiB to lay"), "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "not on a terminal: {output:?}");
    assert_eq!(document["run"]["plan"]["lay_out_bytes"], 16 << 20);
    assert_eq!(document["run"]["plan"]["time_ns"], 110_000_000);
    let output = place.iodyno(&format!("{words} --quiet"));
    assert_eq!(output.succeeds().stderr, "");
    // Errors are printed even with --quiet.
    let output = place.iodyno(&format!("run random-write --on nowhere {SHORT} --json --quiet"));
    output.fails(2, &["nowhere", "not found", "help:"]);
}

/// Failed operations are a result, not a reason to print anything but the document.
#[test]
fn a_run_that_fails_prints_its_document_and_nothing_else() {
    let place = Place::new();
    let words =
        "run random-write --on /dev/full?size=1MiB --engine psync --depth 1 --ramp 0s --time 10s";
    let output = place.iodyno(&format!("{words} --json --quiet"));
    let document = output.exits(4).json();
    assert_valid(RUN_SCHEMA, &document);
    assert_eq!(document["run"]["status"], "failed");
    assert_eq!(output.stderr, "");
}

/// The progress line is for terminals; the document next to it stays whole.
#[test]
fn a_terminal_sees_progress() {
    let place = Place::new();
    let words = "run four-corners --on ram:8MiB --time 600ms --ramp 0s --json";
    let (output, screen) = on_a_terminal(&place, words);
    assert_contract(&output.succeeds().json());
    for word in ["random-read", "seq-write", "1/4", "\r\u{1b}[K"] {
        assert!(screen.contains(word), "`{word}` is missing: {screen:?}");
    }
    // The line is removed at the end: the prompt that follows starts at the left.
    assert!(screen.ends_with("\r\u{1b}[K"), "{screen:?}");
    let (output, screen) = on_a_terminal(&place, &format!("{words} --quiet"));
    output.succeeds().json();
    assert_eq!(screen, "");
}

/// Runs with standard error on a terminal. Also returns the terminal's output.
fn on_a_terminal(place: &Place, words: &str) -> (RunOutput, String) {
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: both out-parameters are valid; no name, settings or size are given.
    let result = unsafe {
        let nothing = std::ptr::null_mut();
        libc::openpty(&raw mut ours, &raw mut theirs, nothing, nothing.cast(), nothing.cast())
    };
    assert_eq!(result, 0);
    // SAFETY: both descriptors were just made and have no other owner.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let screen = std::thread::spawn(move || {
        let mut pipe = std::fs::File::from(ours);
        let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
        // The end of a terminal is an error: no process has the other side open any more.
        while let Ok(count @ 1..) = std::io::Read::read(&mut pipe, &mut bytes) {
            seen.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8(seen).unwrap()
    });
    let mut command = place.command(words);
    command.stdout(Stdio::piped()).stderr(theirs);
    let running = Running::of(&mut command);
    // The command holds the other side of the terminal too.
    drop(command);
    (running.finish(), screen.join().unwrap())
}

#[test]
fn runs_are_listed_oldest_first_and_found_again() {
    let place = Place::new();
    let documents: Vec<Value> = (1..=3)
        .map(|seed| {
            place.document(&format!(
                "run random-read --on ram:1MiB --ops 500 --ramp 0s --seed {seed}"
            ))
        })
        .collect();
    let id = |document: &Value| document["run"]["id"].as_str().unwrap().to_owned();
    let list = place.iodyno("ls --json").succeeds().json();
    assert_valid(LIST_SCHEMA, &list);
    let listed: Vec<String> = list["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, documents.iter().map(id).collect::<Vec<_>>());
    let table = place.iodyno("ls");
    let at = |id: &String| table.succeeds().stdout.find(id.as_str()).expect("it is listed");
    assert!(listed.iter().map(at).is_sorted(), "{}", table.stdout);
    // A run is the same document forever: by its id, in capitals, by its beginning, as `last`.
    for document in &documents {
        let id = id(document);
        for name in [&id, &id.to_uppercase(), &id[..9].to_owned()] {
            let shown = place.iodyno(&format!("show {name} --json")).succeeds().json();
            assert_eq!(&shown, document, "{name}");
        }
    }
    assert_eq!(&place.iodyno("show last --json").succeeds().json(), &documents[2]);
    let exported = place.iodyno("export last --format json").succeeds().json();
    assert_contract(&exported);
    assert_eq!(exported, place.iodyno("show last --json --series").succeeds().json());
    assert!(cells(&exported)[0]["series"].is_array());
}

/// Several runs may write to one notebook at the same time, while it is being read.
#[test]
fn runs_that_share_a_notebook() {
    let place = Place::new();
    let start = || place.start("run four-corners --on ram:8MiB --time 150ms --ramp 0s --json -q");
    let running: Vec<Running> = (0..4).map(|_| start()).collect();
    let documents: Vec<Value> =
        running.into_iter().map(|running| running.finish().succeeds().json()).collect();
    let list = place.iodyno("ls --json").succeeds().json();
    let runs = list["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|run| run["status"] == "finished" && run["cells"] == 4));
    for document in documents {
        let id = document["run"]["id"].as_str().unwrap();
        assert_eq!(place.iodyno(&format!("show {id} --json")).succeeds().json(), document);
    }
}

#[test]
fn an_unknown_run_is_bad_input() {
    let place = Place::new();
    // Before the first run there is nothing to show, and the message says so.
    place.iodyno("show last").fails(5, &["no notebook", "iodyno run"]);
    let notebook = Notebook::open(&place.notebook()).unwrap();
    place.iodyno("show last").fails(2, &["no run", "yet"]);
    let list = place.iodyno("ls --json").succeeds().json();
    assert_eq!(list, json!({ "schema": 1, "runs": [] }));
    // Two of 33 ids begin with the same of the 32 letters.
    let mut ids: Vec<String> = (0..33)
        .map(|_| {
            let writer = notebook.begin(&RunHead::default()).unwrap();
            let id = writer.id().to_owned();
            writer.finish(&Outcome::Finished, &[]).unwrap();
            id
        })
        .collect();
    ids.sort();
    let twins = ids.windows(2).find(|pair| pair[0][..1] == pair[1][..1]).unwrap();
    for command in ["show", "export --format csv"] {
        let letter = &twins[0][..1];
        let output = place.iodyno(&format!("{command} {letter}"));
        output
            .fails(2, &["beginning of several runs", &twins[0], &twins[1], "give more characters"]);
        for unknown in ["zzzzzzzzzz", "lost", "00000000000", "é", "*"] {
            place.iodyno(&format!("{command} {unknown}")).fails(2, &[unknown, "iodyno ls"]);
        }
    }
}
