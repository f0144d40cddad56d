//! Flags override a workload: the document shows the effect of each.

use crate::place::{Place, cells, codes, number, whole};
use serde_json::{Value, json};

/// The first cell of a run that succeeds.
fn cell(place: &Place, words: &str) -> Value {
    cells(&place.document(words))[0].clone()
}

#[test]
fn each_flag_overrides_the_workload() {
    let place = Place::new();
    let run = |flags: &str| cell(&place, &format!("run db-oltp --on null:64MiB {flags}"));
    let short = "--ops 300 --ramp 0s";

    let found = run(&format!("{short} --threads 3 --depth 5 --seed 18446744073709551615"));
    assert_eq!((&found["threads"], &found["depth"]), (&json!(3), &json!(5)));
    assert_eq!(found["seed"], u64::MAX);
    assert_eq!(found["workload"], "db-oltp");

    let found = run(&format!("{short} --block 4KiB:60,16KiB:40"));
    assert_eq!(found["block_bytes"], 4096);
    let blocks = json!([{"bytes": 4096, "share": 0.6}, {"bytes": 16384, "share": 0.4}]);
    assert_eq!(found["blocks"], blocks);

    let found = run(&format!("{short} --active 25%..50%"));
    assert_eq!(found["evidence"]["active_bytes"], 16 << 20);
    let found = run(&format!("{short} --active 8MiB"));
    assert_eq!(found["evidence"]["active_bytes"], 8 << 20);

    assert_eq!(run(short)["evidence"]["content_reducible"], false, "incompressible by default");
    for reducible in ["zeroes", "compressible=50%", "compressible=50%,dedupable=20%"] {
        let found = run(&format!("{short} --content {reducible}"));
        assert_eq!(found["evidence"]["content_reducible"], true, "{reducible}");
        assert!(codes(&found).contains(&"REDUCIBLE_CONTENT"));
    }

    let found = run("--time 120ms --ramp 30ms --interval 40ms");
    assert_eq!((number(&found["seconds"]), number(&found["interval_seconds"])), (0.12, 0.04));
    assert_eq!(found["ended"], "time");

    let found = run(&format!("{short} --system-clock"));
    assert_ne!(found["facts"]["clock"], "tsc");
}

/// Operations are divided among the workers without a remainder, and none is lost or done twice.
#[test]
fn limits_by_operations_and_bytes() {
    let place = Place::new();
    for (threads, depth) in [(1, 1), (3, 7)] {
        let parallel = format!("--threads {threads} --depth {depth} --ramp 0s");
        let words = format!("run db-oltp --on ram:8MiB --on null: --ops 1001 {parallel}");
        let document = place.document(&words);
        let ops = |cell: &Value| whole(&cell["read"]["ops"]) + whole(&cell["write"]["ops"]);
        let of_each: Vec<u64> = cells(&document).iter().map(ops).collect();
        assert_eq!(of_each, [1001, 1001, 2002], "on each target");
        assert!(cells(&document).iter().all(|cell| cell["ended"] == "ops"));

        let found = cell(&place, &format!("run random-read --on ram:8MiB --bytes 1MiB {parallel}"));
        let (bytes, block) = (whole(&found["read"]["bytes"]), 4096);
        // The last operation of each worker may exceed the limit.
        assert!((1 << 20..(1 << 20) + threads * block).contains(&bytes), "{bytes}");
        assert_eq!(found["ended"], "bytes");
    }
    // The first limit that is reached ends the cell.
    let found = cell(&place, "run random-read --on null: --ops 1000 --time 1h --ramp 0s");
    assert_eq!((&found["ended"], &found["read"]["ops"]), (&json!("ops"), &json!(1000)));
}

#[test]
fn the_series_is_included_on_request() {
    let place = Place::new();
    let words = "run random-read --on ram:1MiB --time 200ms --ramp 0s --interval 20ms";
    assert!(cell(&place, words).get("series").is_none());
    let found = cell(&place, &format!("{words} --series"));
    let series = found["series"].as_array().unwrap();
    assert_eq!(series.len(), 10);
    let ops: u64 = series.iter().map(|interval| whole(&interval["read"]["ops"])).sum();
    assert_eq!(ops, whole(&found["read"]["ops"]));
}

/// An open loop has response times beside service times, and records the offered rate.
#[test]
fn an_open_loop_counts_from_the_intended_start() {
    let place = Place::new();
    for process in ["", "--constant"] {
        let words = format!("--rate 2k/s {process} --threads 2 --time 300ms --ramp 0s");
        let document =
            place.document(&format!("run random-read --on scratch:8MiB --on ram:8MiB {words}"));
        let offered: Vec<f64> =
            cells(&document).iter().map(|c| number(&c["offered_iops"])).collect();
        assert_eq!(offered, [2000.0, 2000.0, 4000.0], "on each target");
        for found in cells(&document) {
            let read = &found["read"];
            for figure in ["min", "mean", "max"] {
                let response = number(&read["latency_ns"][figure]);
                assert!(response >= number(&read["service_ns"][figure]), "{read}");
            }
            assert!(found["lateness_ns"]["max"].is_u64());
            let done = whole(&read["ops"]) + whole(&found["backlog_ops"]);
            let due = number(&found["offered_iops"]) * number(&found["seconds"]);
            if process == "--constant" {
                // Never more than were due; each of four workers may round up.
                assert!(done as f64 <= due + 4.0, "{done} of {due}");
            }
        }
    }
    // The closed loop has neither.
    let found = cell(&place, "run random-read --on ram:8MiB --time 50ms --ramp 0s");
    assert!(found["offered_iops"].is_null() && found["read"].get("service_ns").is_none());
}

/// The run records the settings in effect: the engine and the reason for it, the ring's flags.
#[test]
fn settings_in_effect_are_kept() {
    let place = Place::new();
    for engine in crate::place::engines(&place) {
        let words =
            format!("run random-read --on scratch:4MiB --engine {engine} --depth 1 --ops 50");
        let found = cell(&place, &words);
        assert_eq!(found["engine"], engine);
        assert_eq!(found["facts"]["engine.why"], "asked for");
        if engine == "uring" {
            assert!(found["facts"]["uring.flags"].is_string(), "{}", found["facts"]);
            let plain = cell(&place, &format!("{words} --plain-ring"));
            assert_ne!(plain["facts"]["uring.flags"], found["facts"]["uring.flags"]);
            assert_eq!(plain["facts"]["uring.registered_buffers"], "no", "{}", plain["facts"]);
        }
    }
    // fio's names are accepted.
    let found = cell(&place, "run random-read --on scratch:4MiB --engine sync --depth 1 --ops 50");
    assert_eq!(found["engine"], "psync");
    let found = cell(&place, "run random-read --on ram:1MiB --ops 50");
    assert_eq!(
        (&found["engine"], &found["facts"]["engine.why"]),
        (&json!("ram"), &json!("memory of this process"))
    );
}
