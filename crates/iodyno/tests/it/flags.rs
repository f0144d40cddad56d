//! Flags override a workload: the JSON document shows the effect of each.

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

    let durable = format!("run random-write --on t?size=1MiB&direct=no {short}");
    assert!(cell(&place, &durable)["evidence"].get("forced_share").is_none());
    let found = cell(&place, &format!("{durable} --dsync"));
    assert_eq!(found["evidence"]["forced_share"], 1.0);
    assert!(!codes(&found).iter().any(|c| ["PAGE_CACHE", "VOLATILE_CACHE"].contains(c)));

    for (words, effect) in [
        ("random-read", false),
        ("random-read --vary depth=1,2", false),
        ("random-read --read 50%", true),
        ("random-read --vary read=0%,100%", true),
        ("four-corners", true),
    ] {
        let words = format!("run {words} --on null:1MiB {short} --content zeroes");
        let ran = place.iodyno(&words.replace("--ops 300", "--time 5ms"));
        if effect {
            ran.succeeds();
        } else {
            ran.fails(2, &["--content has no effect", "`random-read`"]);
        }
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

/// Flags that change which operations are issued, at which addresses, and how durable they are. The shares are the
/// requested ones.
#[test]
fn flags_of_the_operations() {
    let place = Place::new();
    let run = |flags: &str| {
        cell(&place, &format!("run random-read --on null:64MiB --ops 20000 --ramp 0s {flags}"))
    };
    let ops = |cell: &Value, kind: &str| cell[kind]["ops"].as_u64().unwrap_or(0);

    let found = run("--read 70% --pattern zipf=1.1");
    let share = ops(&found, "read") as f64 / 20000.0;
    // Four standard errors of a binomial share.
    assert!((share - 0.7).abs() < 4.0 * (0.21_f64 / 20000.0).sqrt(), "{share}");

    let found = run("--read 0% --fsync 8 --depth 1");
    // Nine operations are eight writes and the flush after them.
    assert_eq!((ops(&found, "write"), ops(&found, "flush")), (17778, 2222));
    for refused in ["--fsync 8", "--dsync", "--zipf 1.1 --hot 80/20", "--zipf 9", "--hot 80"] {
        place.iodyno(&format!("run random-read --on null: {refused}")).exits(2);
    }

    // The flags are in the specification of the stored request, which is what runs.
    let flags = "--dsync --read 30% --hot 90/10 --rate 1k/s --active 0%..50%";
    let document =
        place.document(&format!("run random-read --on null:64MiB --time 20ms --ramp 0s {flags}"));
    let spec = &document["run"]["plan"]["request"]["work"]["cells"][0]["spec"];
    assert_eq!((&spec["write"]["fua"], &spec["active"]), (&json!("100%"), &json!("0%..50%")));
    assert!((number(&spec["mix"]["read"]) - 0.3).abs() < 1e-9, "{spec}");
    let hot = &spec["all"]["addresses"][0];
    assert_eq!((&hot["pattern"], &hot["spots"][0]["range"]), (&json!("hot-spots"), &json!("10%")));
    assert_eq!(spec["arrivals"]["process"], "poisson");

    // 2 KiB/ms of reads of 4 KiB are 500 a second; the rates are the mix too.
    let words = "--rate read=2000KiB/s,write=1500/s,flush=10/s --constant";
    let document = place
        .document(&format!("run random-read --on model:exflash-400g --time 20s --ramp 0s {words}"));
    let found = &cells(&document)[0];
    for (kind, rate) in [("read", 500.0), ("write", 1500.0), ("flush", 10.0)] {
        let count = ops(found, kind) as f64;
        assert!((count - 20.0 * rate).abs() < 4.0 * (20.0 * rate).sqrt(), "{kind}: {count}");
    }
    assert!((number(&found["offered_iops"]) - 2010.0).abs() < 1e-6);
}

/// A range of an axis doubles up to its end; engines are an axis, and one that can't run the cell is left out.
#[test]
fn axes_of_a_sweep() {
    let place = Place::new();
    let document = place.document("run random-read --on null:1MiB --vary depth=1..6 --time 2ms");
    let depths: Vec<u64> = cells(&document).iter().map(|cell| whole(&cell["depth"])).collect();
    assert_eq!(depths, [1, 2, 4, 6]);
    for refused in ["depth=4..1", "depth=0..4", "read=0%..100%", "depth=1..2,2"] {
        place.iodyno(&format!("run random-read --on null: --vary {refused}")).exits(2);
    }

    let words = "run random-read --on t?size=1MiB --time 20ms --ramp 0s --depth 4 --vary";
    let document = place.document(&format!("{words} engine=psync,libaio"));
    let [synchronous, queued] = cells(&document).as_slice() else { panic!("{document}") };
    let skipped = &synchronous["evidence"]["skipped"];
    assert!(skipped.as_str().is_some_and(|why| why.contains("one I/O at a time")), "{skipped}");
    assert_eq!(queued["engine"], "libaio");
    place.iodyno(&format!("{words} engine=libbio")).fails(2, &["libbio", "psync"]);
}

/// The fill comes once, before everything, and proves that every block was written.
#[test]
fn a_fill_comes_first() {
    let place = Place::new();
    let words = "run random-read --on t?size=1MiB --time 20ms --ramp 0s --fill";
    let names = |document: &Value| -> Vec<String> {
        cells(document).iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    let document = place.document(&format!("{words} 2 --repeat 2"));
    assert_eq!(names(&document), ["fill", "random-read", "random-read"]);
    assert_eq!(whole(&cells(&document)[0]["write"]["bytes"]), 2 << 20);
    let document = place.document(&format!("{words} --vary depth=1,2"));
    assert_eq!(names(&document).len(), 3);
    assert_eq!(whole(&cells(&document)[0]["write"]["bytes"]), 1 << 20);
    // It carries what was asked for, so that all of it can be verified, then and later.
    let checked = "run random-read --on v?size=1MiB --time 50ms --fill --content verifiable";
    let document = place.document(checked);
    let found = &cells(&document)[1]["evidence"]["verification"];
    assert_eq!((whole(&found["checked"]) > 0, whole(&found["unverified"])), (true, 0), "{found}");
    let document = place.document("run --verify-only --on v");
    let found = &cells(&document)[0]["evidence"]["verification"];
    assert_eq!((whole(&found["checked"]), whole(&found["unverified"])), (256, 0), "{found}");
    place.iodyno(&format!("{checked} --with random-write")).fails(
        2,
        &["`random-read` and `random-write` can't run at the same time", "the other verifies"],
    );
    place
        .iodyno("run random-read --on model:exflash-400g --fill")
        .fails(2, &["--fill", "state=seq"]);
}

#[test]
fn a_run_on_some_processors() {
    let place = Place::new();
    let words = "run random-read --on null:1MiB --ops 1000 --ramp 0s";
    let first = crate::methods::first_cpu();
    let found = cell(&place, &format!("{words} --cpus {first}"));
    assert_eq!(found["evidence"]["cpus"], 1);
    place.iodyno(&format!("{words} --cpus 1000")).fails(2, &["--cpus 1000", "choose from"]);
    place.iodyno(&format!("{words} --numa 999")).fails(2, &["no NUMA node 999"]);
}

/// The heading of a result has the changes that flags made to the workload, a rate in the unit of its flag, and the
/// workload of a named run.
#[test]
fn the_heading_has_what_flags_changed() {
    let place = Place::new();
    let all = "--on null:64MiB --ops 100 --ramp 0s -q";
    for (words, heading) in [
        ("random-read", "random-read"),
        ("random-read --pattern random --depth 3", "random-read"),
        ("random-read --pattern sequential", "random-read, sequential"),
        (
            "random-read --hot 80/20 --read 70% --fsync 8",
            "random-read, hot spots, 80 % in 20 %, 70 % reads, fsync every 8",
        ),
        ("random-write --fsync 1 --name x", "x: random-write, fsync after each write"),
        ("random-write --dsync --active 0%..50%", "random-write, dsync, range 0%..50%"),
        ("random-read --rate 20MB/s", "random-read, 20.0 MB/s (4.88 k/s)"),
        ("random-read --rate 5k/s", "random-read"),
        ("four-corners --zipf 1.1", "four-corners, zipf 1.1"),
    ] {
        let shown = place.iodyno(&format!("run {words} {all}")).succeeds().stdout.clone();
        // On a line of its own, or before the id.
        let first = shown.lines().next().unwrap().split("  ").next().unwrap();
        assert_eq!(first, heading, "{words}: {shown}");
    }
    let timed = "--on null:64MiB --time 20ms --ramp 0s -q";
    let shown =
        |words: &str| place.iodyno(&format!("run {words} {timed}")).succeeds().stdout.clone();
    let shown_with = shown("random-read --with random-write,rate=4MB/s");
    assert!(
        shown_with.starts_with("random-read, with random-write, 4.00 MB/s (977/s)"),
        "{shown_with}"
    );
    let swept = shown("random-read --read 70% --block 8KiB --vary depth=1,2");
    assert!(swept.starts_with("sweep of random-read, 8 KiB, 70 % reads"), "{swept}");
    // Its page and a comparison have the same.
    place.iodyno("report last~1 -o page.html").succeeds();
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("random-read, with random-write, 4.00 MB/s (977/s)</"), "no heading");
    let compared = place.iodyno("compare last~3 last~4").stdout;
    assert!(compared.contains("· random-read, 20.0 MB/s (4.88 k/s) ·"), "{compared}");
}

/// Two equal workloads at once on an emulated device are one with twice the workers: a closed system does not know
/// whose customers it serves. On every kind of target each has its own figures, alone and with the other.
#[test]
fn workloads_at_once_have_figures_of_their_own() {
    let place = Place::new();
    let on = "--on model:exflash-400g --time 2s --ramp 100ms";
    let document =
        place.document(&format!("run random-read {on} --depth 16 --with random-read,depth=16"));
    let iops = |cell: &Value| number(&cell["read"]["iops"]);
    let [one, other, with_other, with_one] = cells(&document).as_slice() else { panic!() };
    assert_eq!(with_other["evidence"]["beside"], json!(["random-read (2)"]));
    assert_ne!(with_other["seed"], with_one["seed"], "equal streams would meet at the same blocks");
    let shown = place.iodyno("show last").succeeds().stdout.replace('\n', " ");
    let share = 100.0 * iops(with_other) / iops(one);
    let said = format!("random-read with random-read (2): {share:.0} % of its IOPS when alone");
    assert!(shown.contains(&said), "{shown}");
    assert_eq!(with_other["name"], "random-read with random-read (2)");
    let both = iops(&cell(&place, &format!("run random-read {on} --depth 16 --threads 2")));
    let together = iops(with_other) + iops(with_one);
    assert!((together / both - 1.0).abs() < 0.01, "{together} {both}");
    assert!((iops(with_other) / iops(with_one) - 1.0).abs() < 0.02);
    assert!(together < iops(one) + iops(other));

    for target in ["null:1MiB", "ram:1MiB", "scratch:1MiB", "live:exflash-400g"] {
        let words = "--with random-write,threads=2,rate=500/s --with random-write --time 200ms";
        let document = place.document(&format!(
            "run random-read --on {target} --on {} --threads 3 {words} --ramp 50ms",
            target.replace("1MiB", "2MiB")
        ));
        // Each of three workloads alone, and all of them: on each of two targets, and merged.
        let all = cells(&document);
        assert_eq!(all.len(), 3 * 3 + 3 * 3, "{target}");
        let beside = &all[9..];
        for (at, cell) in beside.iter().enumerate() {
            let (kind, threads) = [("read", 3), ("write", 2), ("write", 1)][at % 3];
            let targets = if at < 6 { 1 } else { 2 };
            assert!(whole(&cell[kind]["ops"]) > 0, "{target} {cell}");
            assert_eq!(whole(&cell["threads"]), threads, "{target} {at}");
            let merged = cell["target"].as_str().unwrap().starts_with("all");
            assert_eq!(merged, targets == 2, "{target} {at}");
            // Its state, and how late its completions came, are those of its own volume.
            let evidence = &cell["evidence"];
            if target.starts_with("live:") && !merged {
                assert_eq!(evidence["emulated_live"], true, "{at}");
                assert!(evidence["late_share"].is_number(), "{at}");
                assert!(evidence["device_state"].is_string(), "{at}");
            }
        }
        let rate: f64 = beside.iter().filter_map(|cell| cell["offered_iops"].as_f64()).sum();
        assert!((rate - 4.0 * 500.0).abs() < 1e-6, "of each target, and their sum: {rate}");
    }
    for refused in [
        "--content verifiable --with random-write",
        "--with four-corners",
        "--with seq-read,size=4KiB",
        "--with seq-read --ops 5",
        "--with nothing",
    ] {
        place.iodyno(&format!("run random-write --on null: --time 20ms {refused}")).exits(2);
    }
}
