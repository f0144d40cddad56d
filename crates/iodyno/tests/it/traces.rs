//! `replay` of traces and `run --record-trace`: the issued operations are the trace's, in its order, at its times and
//! addresses; with fio as a peer.

use crate::place::{Place, cells, whole};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Operations of a trace in iodyno's format: time, kind, offset and length of each, in the order of the file.
fn operations(path: &Path) -> Vec<(u64, String, u64, u64)> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("iodyno trace 1\n") && text.contains("\nend "), "{text:.200}");
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let number = |word: &str| word.parse::<u64>().unwrap();
    let lines = text.lines().filter(|line| line.starts_with("o ")).map(words);
    lines.map(|w| (number(&w[1]), w[5].clone(), number(&w[6]), number(&w[7]))).collect()
}

/// An iolog of 300 operations with different times, kinds and addresses, as text and as operations.
fn iolog() -> (String, Vec<(u64, String, u64, u64)>) {
    let (mut text, mut ops) = ("fio version 3 iolog\n0 f add\n0 f open\n".to_owned(), Vec::new());
    for i in 0..300_u64 {
        let at_us = i * 137 + i * i % 91;
        let (offset, len) = (i * 7919 % 200 * 4096, (1 + i % 4) * 4096);
        let (action, kind, place) = match i % 10 {
            0 => ("sync", "f", (0, 0)),
            1..=4 => ("write", "w", (offset, len)),
            5 => ("trim", "t", (offset, len)),
            _ => ("read", "r", (offset, len)),
        };
        let _ = writeln!(text, "{at_us} f {action} {} {}", place.0, place.1);
        ops.push((at_us * 1000, kind.to_owned(), place.0, place.1));
    }
    // The times are not quite in order.
    ops.sort_by_key(|op| op.0);
    (text, ops)
}

/// Number of operations of the only cell, by kind, including failed ones.
fn counts(document: &Value) -> Vec<(&'static str, u64)> {
    let cell = &cells(document)[0];
    let kinds = ["read", "write", "flush", "trim", "write_zeroes"].into_iter();
    let of = |kind| Some((kind, whole(&cell.get(kind)?["ops"]) + whole(&cell[kind]["errors"])));
    kinds.filter_map(of).filter(|of| of.1 > 0).collect()
}

const MODEL: &str = "--on model:ssd-sata3-mlc-200g";

/// In virtual time nothing is late: each operation is issued at its time, divided by the speed. If the recorded trace
/// of a replay is replayed, it gives the same trace again.
#[test]
fn a_replay_issues_what_the_trace_has_and_its_record_is_a_fixed_point() {
    let place = Place::new();
    let (text, ops) = iolog();
    place.write("a.log", text);
    let document = place.document(&format!("replay a.log {MODEL} --record-trace a.trace"));
    assert_eq!(operations(&place.path("a.trace")), ops);
    let cell = &cells(&document)[0];
    assert_eq!(whole(&cell["evidence"]["overlaps_skipped"]), 0);
    assert!(cell["evidence"]["trace"].as_str().unwrap().ends_with("by its times"), "{cell}");
    place.document(&format!("replay a.trace {MODEL} --record-trace b.trace"));
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    assert_eq!(read("a.trace"), read("b.trace"));
    place.document(&format!("replay a.trace {MODEL} --speed 2 --record-trace c.trace"));
    let halved = ops.iter().map(|op| (op.0 / 2, op.1.clone(), op.2, op.3)).collect::<Vec<_>>();
    assert_eq!(operations(&place.path("c.trace")), halved);
    // Several workers take turns: the times are the same.
    place.document(&format!("replay a.trace {MODEL} --threads 3 --record-trace d.trace"));
    let mut of_three = operations(&place.path("d.trace"));
    of_three.sort_by_key(|op| op.0);
    assert_eq!(
        of_three.iter().map(|op| op.0).collect::<Vec<_>>(),
        ops.iter().map(|op| op.0).collect::<Vec<_>>()
    );
    // With think time on the same device nothing changes: each waits for as many as it did.
    place.document(&format!("replay a.trace {MODEL} --think --record-trace e.trace"));
    assert_eq!(operations(&place.path("e.trace")), ops);
    // A part of it.
    place.document(&format!("replay a.trace {MODEL} --from 10ms --to 20ms --record-trace f.trace"));
    let part = ops.iter().filter(|op| (10_000_000..20_000_000).contains(&op.0));
    let part = part.map(|op| (op.0 - 10_000_000, op.1.clone(), op.2, op.3)).collect::<Vec<_>>();
    assert_eq!(operations(&place.path("f.trace")), part);
}

/// Simultaneous jobs of fio are recorded together, each from its own start and at its place on the target. The replay
/// issues the same operations at the same times. A later group is another cell, which the trace does not contain.
#[test]
fn jobs_at_the_same_time_are_one_trace() {
    let place = Place::new();
    let jobs = "[global]\nrw=read\nbs=4k\nsize=1m\nrate_iops=100\nnumber_ios=20\n[a]\nnumjobs=2\n[b]\nstartdelay=500ms\n";
    place.write("jobs.fio", jobs);
    place.document(&format!("run jobs.fio {MODEL} --record-trace a.trace"));
    let ops = operations(&place.path("a.trace"));
    let (later, first): (Vec<_>, Vec<_>) = ops.iter().partition(|op| op.2 >= 2 << 20);
    assert_eq!((first.len(), later.len()), (40, 20));
    assert!(first.iter().all(|op| op.0 < 250_000_000), "{first:?}");
    assert!(later.iter().all(|op| (500_000_000..750_000_000).contains(&op.0)), "{later:?}");
    let text = std::fs::read_to_string(place.path("a.trace")).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("t ")).count(), 1, "{text:.200}");
    place.document(&format!("replay a.trace {MODEL} --from 0s --record-trace b.trace"));
    let mut again = operations(&place.path("b.trace"));
    let mut ops = ops;
    ops.sort();
    again.sort();
    assert_eq!(again, ops);
    place.write("two.fio", format!("{jobs}[c]\nstonewall\n"));
    let words = format!("run two.fio {MODEL} --record-trace c.trace");
    place.iodyno(&words).exits(2).says(&["a single cell", "simultaneous jobs"]);
}

/// An interrupted replay is one cell without figures. It can't be resumed.
#[test]
fn a_cut_replay_is_begun_again() {
    let place = Place::new();
    place.write("a.log", "fio version 3 iolog\n0 f read 0 4096\n90000000 f read 0 4096\n");
    let mut running = place.start("replay a.log --on scratch:1MiB -q --record-trace it.trace");
    running.wait_until("the replay begins", || place.path("it.trace").exists());
    running.signal(libc::SIGINT);
    running.finish().exits(130);
    place
        .iodyno("resume last")
        .fails(2, &["the replay of a trace", "--from", "iodyno replay a.log"]);
}

/// On real storage, too, every operation is issued once, whatever the timing. The stored request names the trace.
#[test]
fn on_a_file_all_operations_are_issued_once() {
    let place = Place::new();
    let (text, ops) = iolog();
    place.write("a.log", text);
    place.write("b.log", "fio version 3 iolog\n0 f write 0 4096\n10 f read 0 4096\n");
    for words in ["", "--fast --depth 4", "--speed 10 --threads 2"] {
        let words = format!("replay a.log --on d.img?size=1MiB {words} --record-trace it.trace");
        let document = place.document(&words);
        let mut issued = operations(&place.path("it.trace"));
        let mut expected = ops.clone();
        for ops in [&mut issued, &mut expected] {
            for op in ops.iter_mut() {
                op.0 = 0;
            }
            ops.sort();
        }
        assert_eq!(issued, expected, "{words}");
        let counted: u64 = counts(&document).iter().map(|kind| kind.1).sum();
        assert_eq!(counted, 300, "{words}: {document}");
        std::fs::remove_file(place.path("it.trace")).unwrap();
    }
    let shown = place.iodyno("show last --json").succeeds().json();
    let request = &shown["run"]["plan"]["request"]["work"]["trace"];
    assert_eq!(request["sha256"].as_str().unwrap().len(), 64, "{}", shown["run"]["plan"]);
    // Another trace is another condition.
    place.document("replay b.log --on d.img --fast --name other");
    place.iodyno("report last -o page.html").succeeds();
    assert!(
        std::fs::read_to_string(place.path("page.html")).unwrap().contains("as fast as possible")
    );
}

/// Safety checks, ranges and alignments are those of any workload, with remedies for a replay.
#[test]
fn what_does_not_fit_is_refused_with_the_remedy() {
    let place = Place::new();
    let (text, _) = iolog();
    place.write("a.log", text);
    place.write("mine", vec![7; 1 << 20]);
    let refused = |words: &str, code, says: &[&str]| {
        place.iodyno(words).exits(code).says(says);
    };
    refused("replay a.log --on mine", 3, &["mine", "--destroy"]);
    assert_eq!(std::fs::read(place.path("mine")).unwrap(), vec![7; 1 << 20]);
    place.write("far.log", "fio version 3 iolog\n0 f read 0 512\n5 f read 2147483648 512\n");
    let says = ["1 of the 2 operations", "?size=2148532224", "--fit scale", "--fit wrap"];
    refused("replay far.log --on scratch:1MiB", 2, &says);
    for fit in ["scale", "wrap"] {
        place.document(&format!("replay far.log --on null:1GiB --fit {fit}"));
    }
    refused("replay a.log --on d.img?size=1MiB --read-only", 2, &["--read-only"]);
    refused("replay a.log --think --on null:1GiB", 2, &["no response time"]);
    refused("replay a.log --content verifiable --on null:1GiB", 2, &["can't be verified"]);
    refused("replay a.log --fit wrap", 2, &["--on"]);
    refused("run four-corners --record-trace t --on ram:1MiB", 2, &["--record-trace"]);
    refused("replay it.rec --on null:1GiB", 2, &["it.rec"]);
    assert!(!place.names().contains(&"t".to_owned()));
}

/// Without a target nothing is issued, and the trace is described.
#[test]
fn a_trace_is_described() {
    let place = Place::new();
    let (text, _) = iolog();
    place.write("a.log", text);
    let document = place.iodyno("replay a.log --json").succeeds().json();
    assert_eq!(document["ops"], 300);
    assert_eq!(document["kinds"]["flush"]["ops"], 30);
    assert_eq!(document["left_out"][0]["lines"], 2);
    let output = place.iodyno("replay a.log --only g");
    output.fails(2, &["a.log", "300 operations on other files"]);
    let output = place.iodyno("replay a.log");
    assert!(output.succeeds().stdout.contains("iolog of fio, version 3"), "{output:?}");
    place.write("bad.log", "fio version 3 iolog\n5 f read 0 512\n7 f read x 512\n");
    place.iodyno("replay bad.log").fails(2, &["line 3: the offset is not a whole number"]);
}

/// Traces of other tools begin with their first operation, and each response time ends at the operation's own
/// completion. Files without addresses are refused by name, and a requested format takes precedence.
#[test]
fn traces_of_other_tools_are_replayed() {
    let place = Place::new();
    let late = "  8,0 1 1 675.000000000 10 D W 2048 + 8 [a]\n  8,0 1 2 675.000100000 0 C W 2048 + 8 [0]\n  8,0 1 3 675.001000000 10 D W 4096 + 8 [a]\n  8,0 1 4 765.100000000 0 C R 4096 + 8 [0]\n";
    place.write("late.txt", late);
    let described = place.iodyno("replay late.txt --action issue --json").succeeds().json();
    let known = [&described["responses"], &described["span_ns"]];
    assert_eq!(known.map(whole), [1, 1_000_000], "{described}");
    assert_eq!(described["response_mean_ns"], 100_000.0, "{described}");
    assert!(described["notes"].to_string().contains("--from 0s"), "{described}");
    place.document(&format!("replay late.txt --action issue {MODEL} --record-trace a.trace"));
    let issued = operations(&place.path("a.trace"));
    assert_eq!(issued.iter().map(|op| op.0).collect::<Vec<_>>(), [0, 1_000_000]);
    // No operation waits for the last one; if one follows, its wait is unknown.
    place.iodyno("replay late.txt --action issue --think --on null:1GiB").succeeds();
    let followed = format!("{late}  8,0 1 5 766.000000000 10 D W 8192 + 8 [a]\n");
    place.write("followed.txt", &followed);
    let think = "replay followed.txt --action issue --think --on null:1GiB";
    place.iodyno(think).fails(2, &["1 of the 3"]);

    place.write(
        "perf.txt",
        "fio 12 [003] 675.000012: block:block_rq_issue: 8,0 W 4096 () 2048 + 8 [fio]\n",
    );
    place.write("ali.csv", "0,R,4096,4096,1577808000000046\n1,W,8192,4096,1577808000000426\n");
    place.write("odd.csv", "1000,8,8,0,7\n1001,16,8,1,7\n");
    for (words, format, ops) in [
        ("perf.txt", "events of the kernel's block layer (ftrace, perf)", 1),
        ("ali.csv", "CSV of Alibaba's block traces", 2),
        ("ali.csv --only device.1", "CSV of Alibaba's block traces", 1),
        ("odd.csv --format tencent", "CSV of Tencent's block traces", 2),
    ] {
        let described = place.iodyno(&format!("replay {words} --json")).succeeds().json();
        assert_eq!((&described["format"], whole(&described["ops"])), (&format.into(), ops));
    }
    let document = place.document(&format!("replay odd.csv --format tencent {MODEL}"));
    let named = cells(&document)[0]["evidence"]["trace"].to_string();
    assert!(named.contains("read as CSV of Tencent"), "{named}");
    place.iodyno("replay odd.csv").fails(2, &["odd.csv", "neither a known trace nor a record"]);
    place.iodyno("replay ali.csv --format spc").fails(2, &["line 1: column 2: the address"]);
    place.iodyno("replay ali.csv --only 1").fails(2, &["device.0, device.1"]);
    place.write("bpf.txt", "Attaching 4 probes...\nTIME(ms)     COMM             PID    LAT(ms)\n");
    place.iodyno("replay bpf.txt").fails(2, &["bpf.txt", "bpftrace", "bcc's biosnoop"]);
}

/// A record of a served volume's clients is replayed on any target, or executed again on its own system.
#[test]
fn a_record_of_served_storage_runs_on_any_target() {
    let place = Place::new();
    let record = "iodyno record 2\n{\"device\":\"model:exflash-400g\",\"seed\":1,\"workers\":1,\"sizes_bytes\":[]}\n\
                  o 1000 0 0 w 4096 4096 1\nf 2000 slow x2\no 90000 0 0 r 4096 4096 0\n";
    place.write("it.rec", record);
    let summary = place.iodyno("replay it.rec --summary --json").succeeds().json();
    assert_eq!((&summary["ops"], &summary["forced_writes"]), (&2.into(), &1.into()));
    let document = place.document("replay it.rec --on scratch:1MiB --record-trace it.trace");
    assert_eq!(counts(&document).len(), 2, "{document}");
    // It begins with its first operation.
    let expected = [(0, "w".to_owned(), 4096, 4096), (89_000, "r".to_owned(), 4096, 4096)];
    assert_eq!(operations(&place.path("it.trace")), expected);
}

/// The operations of any run can be recorded as a trace, with the number, addresses and times of the run.
#[test]
fn a_runs_operations_are_recorded() {
    let place = Place::new();
    let words =
        format!("run db-oltp --rate 20k --ops 2000 --ramp 0s {MODEL} --record-trace a.trace");
    let document = place.document(&words);
    let sorted = |name: &str| {
        // Workers hand their operations over in batches.
        let mut ops = operations(&place.path(name));
        ops.sort();
        ops
    };
    let ops = sorted("a.trace");
    let counted: u64 = counts(&document).iter().map(|kind| kind.1).sum();
    assert_eq!((ops.len() as u64, counted), (2000, 2000));
    let again = place.document(&format!("replay a.trace {MODEL} --from 0s --record-trace b.trace"));
    assert!(sorted("b.trace") == ops, "its replay issues other operations");
    assert_eq!(counts(&again), counts(&document));
    place.iodyno(&words).exits(2).says(&["a.trace", "it already exists"]);
}

/// Recording changes no figure: on emulated storage, buffers fill before the recording begins. Where they can't, because
/// the operations are counted, the run says so.
#[test]
fn a_recorded_run_is_warmed_up() {
    let place = Place::new();
    let run = "run random-write --depth 32 --time 200ms --ramp 10ms --on model:7450-pro-960g";
    let plain = place.document(run);
    let recorded = place.document(&format!("{run} --record-trace it.trace"));
    let figures = |document: &Value| {
        let cell = &cells(document)[0];
        (cell["total"].clone(), cell["write"].clone(), cell["facts"]["warm-up"].clone())
    };
    assert_eq!(figures(&recorded), figures(&plain));
    let warm_up = figures(&plain).2;
    assert!(warm_up.as_str().unwrap().contains("until buffers"), "{warm_up}");
    // The trace has the operations of ramp and window.
    let ops = operations(&place.path("it.trace"));
    let last_ns = ops.iter().map(|op| op.0).max().unwrap();
    assert!((200_000_000..=210_000_000).contains(&last_ns), "{last_ns}");
    let moved = whole(&cells(&recorded)[0]["moved_bytes"]);
    assert!(ops.len() as u64 <= moved / 4096, "{} of {moved}", ops.len());
    let counted = counts(&recorded)[0].1;
    assert!(ops.len() as u64 >= counted, "{} of {counted}", ops.len());

    for counted in [
        "run random-write --depth 32 --ops 2000 --on model:7450-pro-960g",
        "replay it.trace --on model:7450-pro-960g",
    ] {
        let output = place.iodyno(&format!("{counted} --json"));
        output.succeeds().says(&["buffers and caches are not warmed up"]);
        let fact = cells(&output.json())[0]["facts"]["warm-up"].clone();
        assert!(fact.as_str().is_some_and(|fact| fact.starts_with("none: ")), "{fact}");
    }
}

/// In closed loop the recorded time is the time of issue. For a worker's first operation, it is not before its thread
/// started.
#[test]
fn first_operations_are_stamped_when_they_are_issued() {
    let place = Place::new();
    let job = "[a]\nrw=randread\nbs=4k\nsize=4m\nnumjobs=4\nio_size=400k\nioengine=psync\n";
    place.write("a.fio", job);
    place.document("run a.fio --on scratch:16MiB --record-trace a.trace");
    let text = std::fs::read_to_string(place.path("a.trace")).unwrap();
    let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let firsts: Vec<u64> = lines
        .filter(|words| words[0] == "o" && words[4] == "0")
        .map(|words| words[1].parse().unwrap())
        .collect();
    assert_eq!(firsts.len(), 4, "{text:.400}");
    // The start of the cell is when the first thread may begin, and none reads the clock at that nanosecond.
    assert!(firsts.iter().all(|at_ns| *at_ns > 0), "{firsts:?}");
}

/// Kolmogorov and Smirnov's test of the recorded times of an open loop in virtual time, where nothing is late; 1.63 is
/// the 1 % point.
#[test]
fn recorded_arrivals_are_poisson() {
    let place = Place::new();
    let words = format!(
        "run random-read --rate 10k/s --threads 2 --ops 20000 --ramp 0s {MODEL} --record-trace it.trace"
    );
    let document = place.document(&words);
    assert!(cells(&document)[0]["lateness_ns"]["max"].as_f64().unwrap() < 20_000.0, "{document}");
    let mut times: Vec<u64> = operations(&place.path("it.trace")).iter().map(|op| op.0).collect();
    times.sort_unstable();
    // The workers do not end at the same time.
    times.truncate(18_000);
    let mut gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    gaps.sort_by(f64::total_cmp);
    let law = |gap: f64| 1.0 - (-gap / 1e5).exp();
    let all = gaps.len() as f64;
    let distances = gaps.iter().enumerate().map(|(i, &gap)| {
        (law(gap) - i as f64 / all).abs().max((law(gap) - (i + 1) as f64 / all).abs())
    });
    let most = distances.fold(0.0, f64::max);
    assert!(most < 1.63 / all.sqrt(), "{most} of {}", 1.63 / all.sqrt());
}

/// fio's own iolog of a job: our replay issues what fio's replay of it does, in the same order.
#[test]
fn a_replay_issues_what_fios_replay_does() {
    let place = Place::new();
    let fio = |words: &str| {
        let ran = Command::new("fio").args(words.split(' ')).current_dir(place.work()).output();
        ran.is_ok_and(|ran| {
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            true
        })
    };
    let job = "--name=j --filename=x --size=4m --rw=randrw --bsrange=4k-64k --io_size=1m --fsync=7 --randseed=5";
    if !fio(&format!("{job} --ioengine=psync --write_iolog=j.log")) {
        assert!(std::env::var_os("IODYNO_TEST_PEERS").is_none(), "fio is not there");
        eprintln!("left out: fio is not there");
        return;
    }
    // fio writes no log of a replay: it states what it did, by kind.
    assert!(fio(
        "--name=r --read_iolog=j.log --ioengine=psync --output-format=json --output=r.json"
    ));
    let theirs: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("r.json")).unwrap()).unwrap();
    let theirs = &theirs["jobs"][0];
    let document =
        place.document("replay j.log --on d.img?size=4MiB --from 0s --record-trace it.trace");
    let ours = operations(&place.path("it.trace"));
    for (kind, letter) in [("read", "r"), ("write", "w")] {
        let own = || ours.iter().filter(|op| op.1 == letter);
        assert_eq!(theirs[kind]["total_ios"], own().count(), "{kind}");
        assert_eq!(theirs[kind]["io_bytes"], own().map(|op| op.3).sum::<u64>(), "{kind}");
    }
    let log = std::fs::read_to_string(place.path("j.log")).unwrap();
    let mut lines: Vec<(u64, String, u64, u64)> = Vec::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [at_us, _, action @ ("read" | "write" | "sync"), offset, len] = words[..] {
            let number = |word: &str| word.parse::<u64>().unwrap();
            let kind = if action == "sync" { "f" } else { &action[..1] };
            let flush = kind == "f";
            let place = if flush { (0, 0) } else { (number(offset), number(len)) };
            lines.push((number(at_us) * 1000, kind.to_owned(), place.0, place.1));
        }
    }
    assert_eq!(ours, lines, "the times are those when operations were due");
    assert_eq!(counts(&document).iter().map(|k| k.1).sum::<u64>(), lines.len() as u64);
}
