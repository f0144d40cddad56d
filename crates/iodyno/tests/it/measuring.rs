//! The measurement itself: counters are right with every engine, several targets are the sum of their cells, and the
//! default engine suits the target.

use crate::disks::{Loop, alone};
use crate::place::{Place, SHORT, cells, codes, engines, number, whole};
use serde_json::Value;
use std::path::Path;

/// Asserts that figures of a cell that were gathered in different ways agree.
#[track_caller]
fn assert_books(cell: &Value) {
    let found = codes(cell);
    for wrong in ["LITTLES_LAW_BROKEN", "ERRORS", "CLOCK"] {
        assert!(!found.contains(&wrong), "{wrong}: {cell}");
    }
    let asked = whole(&cell["threads"]) * whole(&cell["depth"]);
    let oio = number(&cell["oio_mean"]);
    assert!(oio >= 0.0 && oio <= asked as f64 * 1.001, "{oio} of {asked}: {cell}");
    let mut bytes = 0;
    for kind in ["read", "write"] {
        let (ops, moved) = (whole(&cell[kind]["ops"]), whole(&cell[kind]["bytes"]));
        if cell["blocks"].as_array().unwrap().len() == 1 {
            assert_eq!(moved, ops * whole(&cell["block_bytes"]), "{cell}");
        }
        bytes += moved;
    }
    // Bytes moved by the engines, with the operations that the window did not count.
    assert!(whole(&cell["moved_bytes"]) >= bytes, "{cell}");
    assert_eq!(
        cell["stamps"]["completions"],
        whole(&cell["read"]["ops"]) + whole(&cell["write"]["ops"]) + whole(&cell["flush"]["ops"])
    );
}

#[test]
fn the_counters_agree_with_every_engine() {
    let place = Place::new();
    for engine in engines(&place) {
        let depth = if ["psync", "mmap"].contains(&engine) { 1 } else { 8 };
        for workload in ["db-oltp", "log-80-20", "oltp3"] {
            let flags = format!("--engine {engine} --depth {depth} --threads 2 {SHORT}");
            let document = place.document(&format!("run {workload} --on scratch:8MiB {flags}"));
            let cell = &cells(&document)[0];
            assert_books(cell);
            assert_eq!(cell["engine"], engine);
            if depth == 1 {
                // Depth 1 is never batched.
                assert_eq!(cell["stamps"]["reaps"], cell["stamps"]["completions"]);
            }
        }
    }
    for target in ["ram:8MiB", "null:"] {
        for depth in [1, 32] {
            let words = format!("run db-oltp --on {target} --depth {depth} --threads 2 {SHORT}");
            assert_books(&cells(&place.document(&words))[0]);
        }
    }
}

/// Other keys of a workload file: flushes, a think time, several block sizes.
#[test]
fn every_kind_of_operation_is_counted_apart() {
    let place = Place::new();
    place.write(
        "mixed.toml",
        "schema = 1\nthreads = 2\ndepth = 2\nblock = [{ size = \"4KiB\", share = 3 }, { size = \"16KiB\", share = 1 }]\n\
         [mix]\nread = 40\nwrite = 40\nflush = 5\ntrim = 10\nwrite_zeroes = 5\n\
         [write]\nfua = \"10%\"\n[arrivals]\nkind = \"closed\"\nthink_time = \"20us\"\n[limits]\nops = 800\n",
    );
    let document = place.document("run mixed.toml --on scratch:8MiB");
    let cell = &cells(&document)[0];
    let ops = |kind: &str| cell.get(kind).map_or(0, |figures| whole(&figures["ops"]));
    let failed = |kind: &str| cell.get(kind).map_or(0, |figures| whole(&figures["errors"]));
    let kinds = ["read", "write", "flush", "trim", "write_zeroes"];
    // A file system that can't punch holes counts those as failed, and as nothing else.
    assert_eq!(kinds.map(|kind| ops(kind) + failed(kind)).iter().sum::<u64>(), 800);
    for (kind, share) in kinds.into_iter().zip([0.4, 0.4, 0.05, 0.1, 0.05]) {
        let done = (ops(kind) + failed(kind)) as f64;
        // Four standard deviations of a binomial draw.
        let tolerance = 4.0 * f64::sqrt(800.0 * share * (1.0 - share));
        assert!((done - 800.0 * share).abs() < tolerance, "{done} {kind}");
    }
    assert_eq!(cell["flush"]["bytes"], 0);
    assert!(number(&cell["oio_mean"]) < 4.0, "think time lowers the depth: {cell}");
}

#[test]
fn several_targets_are_the_sum_of_each() {
    let place = Place::new();
    let targets = "--on ram:4MiB --on scratch:4MiB --on null: --on b?size=4MiB";
    let document =
        place.document(&format!("run db-oltp {targets} --time 600ms --ramp 0s --series"));
    let (all, each) = cells(&document).split_last().unwrap();
    assert_eq!(each.len(), 4);
    assert_eq!((&all["target"], &all["engine"]), (&"all (4 targets)".into(), &"several".into()));
    for kind in ["read", "write"] {
        for key in ["ops", "bytes", "errors"] {
            let sum: u64 = each.iter().map(|cell| whole(&cell[kind][key])).sum();
            assert_eq!(whole(&all[kind][key]), sum, "{kind} {key}");
        }
        let extreme =
            |key: &'static str| each.iter().map(move |cell| whole(&cell[kind]["latency_ns"][key]));
        assert_eq!(Some(whole(&all[kind]["latency_ns"]["min"])), extreme("min").min());
        assert_eq!(Some(whole(&all[kind]["latency_ns"]["max"])), extreme("max").max());
    }
    // They ran at once, for the same time: rates and outstanding I/Os add up too.
    for key in ["oio_mean", "cpu_seconds"] {
        let sum: f64 = each.iter().map(|cell| number(&cell[key])).sum();
        assert!((number(&all[key]) - sum).abs() <= 1e-6 * sum, "{key}");
    }
    let sum: f64 = each.iter().map(|cell| number(&cell["total"]["iops"])).sum();
    assert!((number(&all["total"]["iops"]) - sum).abs() <= 1e-6 * sum);
    assert_eq!(whole(&all["threads"]), whole(&each[0]["threads"]), "on each target");
}

/// Uncached reads leave nothing in the page cache, by the kernel's own count. Buffered reads have no such evidence. A
/// file system without support is named, and `mmap` is refused. The kernel determines which file systems support it,
/// and what writes leave (ext4 of Linux 6.18 keeps them, XFS does not).
#[test]
fn uncached_io_is_proven_or_refused() {
    let place = Place::new();
    let refusal = ["RWF_DONTCACHE", "Linux 6.14", "direct=no"];
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        place.iodyno("run random-read --on scratch:1MiB@/dev/shm?uncached=yes").fails(4, &refusal);
    }
    let scratch = "scratch:16MiB?uncached=yes";
    let first = place.iodyno(&format!("run random-read --on {scratch} --ops 500 -q {SHORT}"));
    if first.code != Some(0) {
        first.fails(4, &refusal);
        return;
    }
    for (workload, engine) in [
        ("random-read", "uring"),
        ("random-read", "psync"),
        ("random-read", "libaio"),
        ("random-write", "uring"),
        ("random-write", "psync"),
    ] {
        let words = format!("run {workload} --on {scratch} --engine {engine} --depth 1 --ops 500");
        let document = place.document(&format!("{words} --ramp 0s"));
        let cell = &cells(&document)[0];
        let kind = workload.trim_start_matches("random-");
        assert_eq!(whole(&cell[kind]["ops"]), 500, "{cell}");
        let of = &cell["evidence"]["uncached"];
        assert_eq!(whole(&of["before_bytes"]), 0, "{of}");
        let verdict = cell["verdicts"].as_array().unwrap().iter().find(|v| v["code"] == "UNCACHED");
        let kept = whole(&of["after_bytes"]) - whole(&of["unwritten_bytes"]);
        let is_uncached = kept * 20 <= whole(&of["bytes"]);
        assert!(is_uncached || workload == "random-write", "{cell}");
        assert_eq!(verdict.unwrap()["level"] == "note", is_uncached, "{of} {verdict:?}");
        assert!(is_uncached || codes(cell).contains(&"PAGE_CACHE"), "{cell}");
    }
    let words = format!("run random-read --on {scratch} --engine mmap --depth 1");
    place.iodyno(&words).exits(4).says(&["mmap leaves", "uncached=yes"]);
    let buffered = "run random-read --on scratch:16MiB?direct=no --ops 500 --ramp 0s";
    let document = place.document(buffered);
    let cell = &cells(&document)[0];
    assert!(cell["evidence"].get("uncached").is_none() && codes(cell).contains(&"PAGE_CACHE"));
}

/// If the kernel hands ring requests to worker threads, the run reports it, and the default engine is another one. The
/// kernel determines on which file systems it does so.
#[test]
fn the_default_engine_suits_the_target() {
    let place = Place::new();
    let memory = Path::new("/dev/shm");
    let folders = [place.work(), memory.to_owned()];
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        for depth in [1, 8] {
            let scratch = format!("--on scratch:8MiB@{} --depth {depth}", folder.display());
            // A busy device may have a single request of one of the runs handed to a worker thread:
            // their reports must agree in one of a few tries.
            let wrong: Vec<_> =
                (0..5).map_while(|_| suits(&place, &scratch, depth).err()).collect();
            assert!(wrong.len() < 5, "{scratch}: {wrong:#?}");
        }
    }
}

/// The default engine works on a character device, so that the device's own errors are seen.
#[test]
fn the_default_engine_works_on_a_character_device() {
    let place = Place::new();
    for depth in [1, 32] {
        let words = format!("run random-write --on /dev/full?size=512MiB --depth {depth} {SHORT}");
        let output = place.iodyno(&words);
        let shown = output.stdout.replace('\n', " ");
        assert!(shown.contains("out of space") && !shown.contains("EINVAL"), "{shown}");
    }
}

/// All cells and repeats of a sweep use one engine; otherwise they could not be compared.
#[test]
fn a_run_keeps_to_one_engine() {
    let place = Place::new();
    // There, the kernel hands the requests of a ring to worker threads, so that each depth would have an engine of its own.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { place.work() };
    let on = format!("scratch:16MiB@{}", folder.display());
    let words = format!("run random-write --on {on} --vary depth=1,2,8 --repeat 3 --time 20ms");
    let document = place.document(&format!("{words} --ramp 0s"));
    let engines: Vec<&str> =
        cells(&document).iter().map(|cell| cell["engine"].as_str().unwrap()).collect();
    assert_eq!(engines, vec![engines[0]; 9]);
    assert_ne!(engines[0], "psync", "one I/O at a time would not give the depths");
}

/// On a block device writes are handed to worker threads for the time stamp alone, and reads once the device's queue
/// is full: the default engine is one that the same run does not warn about.
#[test]
#[ignore = "needs root and loop devices"]
fn the_default_engine_has_no_warning_of_its_own() {
    let _alone = alone();
    let place = Place::new();
    std::fs::write(place.path("image"), vec![0xA5; 16 << 20]).unwrap();
    let disk = Loop::on(&place.path("image"), &["--direct-io=on"]);
    for (workload, depth, threads) in
        [("random-write", 1, 1), ("random-write", 16, 1), ("random-read", 128, 2)]
    {
        let words = format!(
            "run {workload} --on {} --destroy {} --depth {depth} --threads {threads} {SHORT}",
            disk.node,
            disk.name()
        );
        let seen = (0..5).map(|_| cells(&place.document(&words))[0].clone());
        // As above: a single request of a busy device may be handed over.
        let all: Vec<_> = seen.take_while(|c| codes(c).contains(&"KERNEL_WORKERS")).collect();
        assert!(all.len() < 5, "{words}: {all:#?}");
    }
}

/// Checks that the default engine is the one that a run with io_uring recommends. The error says why it is not.
fn suits(place: &Place, scratch: &str, depth: u32) -> Result<(), String> {
    let chosen = place.document(&format!("run random-read {scratch} {SHORT}"));
    let chosen = &cells(&chosen)[0];
    let why = chosen["facts"]["engine.why"].as_str().unwrap();
    if !engines(place).contains(&"uring") {
        assert!(why.contains("io_uring can't be used here"), "{why}");
        return Ok(());
    }
    let asked = place.document(&format!("run random-read {scratch} --engine uring {SHORT}"));
    let asked = &cells(&asked)[0];
    let hands_over = codes(asked).contains(&"KERNEL_WORKERS");
    assert_eq!(hands_over, whole(&asked["evidence"]["kernel_workers"]) > 0);
    let expected = match (hands_over, depth) {
        (false, _) => "uring",
        (true, 1) => "psync",
        (true, _) => "libaio",
    };
    let agrees = chosen["engine"] == expected
        && why.contains("kernel worker thread") == hands_over
        && !codes(chosen).contains(&"KERNEL_WORKERS");
    if agrees { Ok(()) } else { Err(format!("{expected} expected: {why}: {chosen}")) }
}
