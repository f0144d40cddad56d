//! Targets that fail while they are measured: every failure is counted by its kind, none as
//! completed I/O, and above a limit the run stops with its own exit code. These tests need only
//! files; those with loop devices and file systems are in `devices`.

use crate::place::{Place, RunOutput, cells, codes, engines, number, whole};
use serde_json::Value;
use std::fs::OpenOptions;

/// Checks a cell in which operations of one kind failed in one way: they are counted, shown and
/// judged, and only completed ones enter the figures.
#[track_caller]
pub(crate) fn assert_failures(cell: &Value, kind: &str, error: &str, least: u64) {
    let figures = &cell[kind];
    let (ops, errors) = (whole(&figures["ops"]), whole(&figures["errors"]));
    assert!(errors >= least, "{figures}");
    let of_one_kind = serde_json::json!({ error: errors });
    assert_eq!(figures["errors_by_kind"], of_one_kind, "{cell}");
    assert_eq!(whole(&figures["bytes"]), ops * whole(&cell["block_bytes"]), "{figures}");
    let rate = ops as f64 / number(&cell["seconds"]);
    assert!((number(&figures["iops"]) - rate).abs() <= 1e-6 * rate, "{figures}");
    assert_eq!(figures["latency_ns"]["max"].is_null(), ops == 0, "{figures}");
    assert!(codes(cell).contains(&"ERRORS"), "{cell}");
    assert_eq!(cell["level"], "invalid");
    // Nothing is counted twice, so the sums of the others still agree.
    assert!(!codes(cell).contains(&"LITTLES_LAW_BROKEN"), "{cell}");
}

/// Asserts that a run was stopped by too many failures. Returns its document.
#[track_caller]
pub(crate) fn assert_stopped(place: &Place, output: &RunOutput) -> Value {
    let document = output.exits(4).json();
    assert_eq!(document["run"]["status"], "failed");
    assert!(document["run"]["reason"].as_str().unwrap().contains("too many"), "{document}");
    assert_eq!(cells(&document).last().unwrap()["ended"], "errors");
    let list = place.iodyno("ls --json").succeeds().json();
    assert_eq!(list["runs"].as_array().unwrap().last().unwrap()["status"], "failed");
    document
}

/// A full target: the kinds of failures are reported, in the text too.
#[test]
fn a_target_that_is_full() {
    let place = Place::new();
    let words = "run random-write --on /dev/full?size=1MiB --ramp 0s --time 1m";
    // A character device is not mapped, and native asynchronous I/O does not know this one.
    let works = |engine: &&str| ["uring", "psync"].contains(engine);
    for engine in engines(&place).into_iter().filter(works) {
        let engine = format!("--engine {engine} --depth 1");
        let output = place.iodyno(&format!("{words} {engine} --json -q --max-errors 1000"));
        let document = assert_stopped(&place, &output);
        let cell = &cells(&document)[0];
        assert_failures(cell, "write", "no_space", 1001);
        assert_eq!(cell["write"]["ops"], 0);
        assert!(codes(cell).contains(&"STOPPED_BY_ERRORS"));
    }
    let output = place.iodyno(&format!("{words} --engine psync --depth 1 -q"));
    for word in ["failed", "out of space", "not counted as completed", "ERRORS"] {
        assert!(output.exits(4).stdout.contains(word), "`{word}` is missing: {output:?}");
    }
}

/// Failures in the ramp count too: the run stops as early, and reports as much about them.
#[test]
fn failures_in_the_ramp_are_reported_too() {
    let place = Place::new();
    let words = "run random-write --on /dev/full?size=1MiB --engine psync --depth 1 --ramp 1m";
    let document = assert_stopped(&place, &place.iodyno(&format!("{words} --json -q")));
    let cell = &cells(&document)[0];
    assert_eq!(cell["write"]["errors_by_kind"]["no_space"], 101, "{cell}");
    let output = place.iodyno("show last");
    assert!(output.succeeds().stdout.contains("out of space"), "{}", output.stdout);
}

/// Few failures do not stop the run: it continues to its end.
#[test]
fn a_file_that_is_truncated_under_the_run() {
    let place = Place::new();
    for engine in engines(&place) {
        let _ = std::fs::remove_file(place.path("t"));
        let limits = "--time 2s --ramp 0s --max-errors 1000000000";
        let words =
            format!("run random-read --on t?size=16MiB --engine {engine} --depth 1 {limits}");
        let mut running = place.start(&format!("{words} --json -q"));
        place.wait_for_cells(&mut running, 1);
        let file = OpenOptions::new().write(true).open(place.path("t")).unwrap();
        file.set_len(4 << 20).unwrap();
        let document = running.finish().succeeds().json();
        assert_eq!(document["run"]["status"], "finished");
        // A mapping has no short reads: it has SIGBUS, which the process survives.
        let error = if engine == "mmap" { "io" } else { "short" };
        assert_failures(&cells(&document)[0], "read", error, 1);
        // The rest of it is not taken for a file of iodyno's.
        place.iodyno("run random-write --on t").fails(3, &["length has changed"]);
    }
}

/// With several targets, each counts its own failures, and the merged cell counts all.
#[test]
fn one_bad_target_of_several() {
    let place = Place::new();
    let targets = "--on ram:1MiB --on /dev/full?size=1MiB";
    let output = place
        .iodyno(&format!("run random-write {targets} --depth 1 --ramp 0s --time 1m --json -q"));
    let document = assert_stopped(&place, &output);
    let [good, bad, all] = cells(&document).as_slice() else { panic!("{document}") };
    assert_eq!(good["write"]["errors"], 0);
    assert_failures(bad, "write", "no_space", 101);
    assert_eq!(all["write"]["errors_by_kind"], bad["write"]["errors_by_kind"]);
    assert_eq!(all["write"]["ops"], good["write"]["ops"]);
    // The other members of a group are not begun after that.
    let output =
        place.iodyno("run four-corners --on /dev/full?size=8MiB --ramp 0s --time 50ms --json -q");
    let document = assert_stopped(&place, &output);
    let names: Vec<&str> = cells(&document).iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["random-read", "random-write"]);
    assert_eq!(cells(&document)[0]["ended"], "time");
}
