//! Compares the operations of a converted command line with the system calls of sysbench itself, recorded by strace.
//! Without sysbench 1.0 and strace (packages of these names), the test compares nothing and says so; with `CI=true` it
//! fails.

use iodyno_exchange::sysbench::parse;
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Geometry, Shared, Stream};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const MIB: u64 = 1 << 20;

/// A system call of sysbench on its files: thread, request, and offset from the start of the first file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Io(u64, OpKind, u64),
    /// An asynchronous request, whose kind and offset strace shows in the fields of the request.
    Submitted(OpKind, u64),
    /// Number of completed requests.
    Completed(usize),
}

/// System calls of sysbench with `options`, over four files of 1 MiB. None without sysbench or strace.
fn traced(options: &str) -> Option<Vec<Call>> {
    let has = |program: &str, version: &str| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains(version))
    };
    if !has("sysbench", "sysbench 1.0.") || !has("strace", "strace") {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "sysbench 1.0 or strace is missing");
        eprintln!("sysbench 1.0 or strace is not installed: nothing was compared");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let line = line(options);
    let run = |program: &str, before: &[&str], command: &str| {
        let words = line.split_whitespace().skip(1);
        let output = Command::new(program)
            .args(before)
            .args(words.map(|word| if word == "run" { command } else { word }))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
    };
    run("sysbench", &[], "prepare");
    let calls = "pread64,pwrite64,fsync,fdatasync,io_submit,io_getevents";
    let calls = format!("trace={calls}");
    let strace = ["-f", "-y", "-v", "-s", "0", "-o", "trace", "-e", &calls, "sysbench"];
    run("strace", &strace, "run");
    let text = std::fs::read_to_string(folder.path().join("trace")).unwrap();
    Some(text.lines().filter_map(|line| call(line, &text)).collect())
}

fn line(options: &str) -> String {
    format!("sysbench fileio --file-num=4 --file-total-size=4M --time=0 {options} run")
}

/// Parses a line of strace: `TID pread64(3</folder/test_file.0>, ""..., 16384, 327680) = 16384`. A call that another
/// thread interrupts is in two lines; the second has the offset of an interrupted read.
fn call(line: &str, all: &str) -> Option<Call> {
    let (thread, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    let (name, arguments) = rest.split_once('(')?;
    if name == "io_getevents" {
        return arguments.rsplit_once("= ")?.1.parse().ok().map(Call::Completed);
    }
    let file: u64 = {
        let (_, after) = arguments.split_once("test_file.")?;
        after[..after.find(|c: char| !c.is_ascii_digit())?].parse().unwrap()
    };
    let number = |text: &str, name: &str| -> Option<u64> {
        let (_, after) = text.split_once(name)?;
        after[..after.find(|c: char| !c.is_ascii_digit())?].parse().ok()
    };
    if name == "io_submit" {
        let kind = if arguments.contains("PREAD") { OpKind::Read } else { OpKind::Write };
        return Some(Call::Submitted(kind, file * MIB + number(arguments, "aio_offset=")?));
    }
    let thread: u64 = thread.parse().unwrap();
    let kind = match name {
        "pread64" => OpKind::Read,
        "pwrite64" => OpKind::Write,
        _ => return Some(Call::Io(thread, OpKind::Flush, file)),
    };
    let last = |text: &str| -> Option<u64> {
        let digits = text.trim_end_matches([')', ' ']).rsplit(", ").next()?;
        digits.parse().ok()
    };
    let offset = if let Some((before, _)) = arguments.split_once(" <unfinished") {
        last(before).or_else(|| {
            // The place of a line is its address within the text.
            let at = line.as_ptr() as usize - all.as_ptr() as usize;
            // strace pads short thread numbers with spaces.
            let resumed = format!("<... {name} resumed>");
            let rest = all[at..].lines().find_map(|later| {
                let (number, rest) = later.split_once(' ')?;
                (number.parse() == Ok(thread)).then(|| rest.trim_start().strip_prefix(&resumed))?
            })?;
            last(rest.split_once(") ")?.0)
        })
    } else {
        last(arguments.rsplit_once(") ")?.0)
    };
    Some(Call::Io(thread, kind, file * MIB + offset.unwrap()))
}

/// iodyno's streams for the same command line.
fn streams(options: &str) -> Vec<Stream> {
    let file = parse(&line(options)).unwrap_or_else(|problem| panic!("{problem}"));
    let spec = &file.groups[0][0].spec;
    let workers = spec.threads();
    let geometry = Geometry { capacity_bytes: 4 * MIB, align_bytes: 512, workers };
    let shared = Shared::new(spec, 1, &geometry).unwrap();
    (0..workers).map(|worker| Stream::new(&shared, worker)).collect()
}

fn place(op: &Op) -> u64 {
    op.offset_bytes
}

/// With one thread, kinds have the same order, and non-random operations the same offsets.
#[test]
fn one_thread_issues_what_sysbench_does() {
    for (options, is_random) in [
        ("--file-test-mode=rndrw --file-fsync-freq=10 --events=150", true),
        ("--file-test-mode=rndrw --file-rw-ratio=0.3 --file-fsync-freq=7 --events=150", true),
        ("--file-test-mode=rndrw --file-rw-ratio=20 --file-fsync-freq=3 --events=150", true),
        ("--file-test-mode=rndwr --events=250", true),
        ("--file-test-mode=rndwr --file-fsync-all --file-fsync-mode=fdatasync --events=50", true),
        ("--file-test-mode=rndrd --file-fsync-freq=5 --events=150", true),
        ("--file-test-mode=seqwr --file-fsync-freq=9 --events=400", false),
        ("--file-test-mode=seqrewr --file-merged-requests=4 --events=300", false),
        ("--file-test-mode=seqrd --file-block-size=64K --events=150", false),
    ] {
        let Some(calls) = traced(options) else { return };
        let events: usize = options.rsplit('=').next().unwrap().parse().unwrap();
        // With fsync-all, an event of sysbench is a write and its flush. At the end sysbench flushes, which is not
        // compared.
        let events = if options.contains("fsync-all") { 2 * events } else { events };
        assert!(calls.len() >= events, "{options}: {} calls", calls.len());
        let mut stream = streams(options).remove(0);
        let mut places = BTreeSet::new();
        for (i, call) in calls[..events].iter().enumerate() {
            let op = stream.next_op();
            stream.completed(op.kind);
            let Call::Io(_, kind, at) = *call else { panic!("{options}: {call:?}") };
            assert_eq!(op.kind, kind, "{options}: operation {i}");
            if kind == OpKind::Flush {
                continue;
            }
            if is_random {
                places.insert(at);
                assert!(at.is_multiple_of(16384) && at < 4 * MIB, "{options}: {at}");
                assert!(place(&op).is_multiple_of(16384) && place(&op) < 4 * MIB);
            } else {
                assert_eq!(place(&op), at, "{options}: operation {i}");
            }
        }
        assert!(!is_random || places.len() > 15, "{options}: places are drawn");
    }
}

/// Several threads share the cursor, the bursts and the ratio, so that the set of their operations is fixed, except
/// for those in flight.
#[test]
fn two_threads_share_what_sysbench_s_do() {
    let count = |calls: &[(OpKind, u64)]| {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for (kind, _) in calls {
            *counts.entry(kind.name()).or_default() += 1;
        }
        counts
    };
    for (options, events, is_random) in [
        ("--threads=2 --file-test-mode=rndrw --file-fsync-freq=10 --events=700", 700, true),
        ("--threads=2 --file-test-mode=rndwr --events=700", 700, true),
        ("--threads=2 --file-test-mode=seqrewr --file-fsync-freq=20 --events=250", 250, false),
        ("--threads=2 --file-test-mode=seqrd --events=250", 250, false),
    ] {
        let Some(calls) = traced(options) else { return };
        let mut threads = BTreeSet::new();
        let theirs: Vec<(OpKind, u64)> = calls
            .iter()
            .map(|call| match *call {
                Call::Io(thread, kind, at) => {
                    threads.insert(thread);
                    (kind, at)
                }
                _ => panic!("{options}: {call:?}"),
            })
            .collect();
        let writes = theirs.iter().any(|(kind, _)| *kind == OpKind::Write);
        // Each thread flushes each file at the end.
        let at_end = if writes { 2 * 4 } else { 0 };
        assert_eq!(threads.len(), 2, "{options}");
        assert_eq!(theirs.len(), events + at_end, "{options}");
        let mut workers = streams(options);
        let ours: Vec<(OpKind, u64)> = (0..events)
            .map(|i| {
                let worker = &mut workers[i % 2];
                let op = worker.next_op();
                worker.completed(op.kind);
                (op.kind, place(&op))
            })
            .collect();
        let (their_counts, our_counts) = (count(&theirs), count(&ours));
        for (kind, n) in &their_counts {
            let ours = our_counts.get(kind).copied().unwrap_or(0);
            let end = if *kind == "flush" { at_end as i64 } else { 0 };
            // A burst may extend across the end, and each thread's request is counted at its completion.
            let off = (n - end - ours).abs();
            assert!(off <= 4, "{options}: {their_counts:?} and {our_counts:?}");
        }
        if !is_random {
            let places = |all: &[(OpKind, u64)]| {
                let data = all.iter().filter(|(kind, _)| *kind != OpKind::Flush);
                let mut places: Vec<u64> = data.map(|(_, at)| *at).collect();
                places.sort_unstable();
                places
            };
            let (theirs, ours) = (places(&theirs), places(&ours));
            let sequence: Vec<u64> = (0..theirs.len() as u64).map(|i| i * 16384).collect();
            assert_eq!(theirs, sequence, "{options}");
            let common = theirs.len().min(ours.len());
            assert_eq!(theirs[..common], ours[..common], "{options}");
        }
    }
}

/// Asynchronous requests are counted when reaped, so that kinds are clustered.
#[test]
fn asynchronous_reads_and_writes_come_in_the_same_clumps() {
    let options = "--file-test-mode=rndrw --file-io-mode=async --file-async-backlog=4 --file-fsync-freq=10 --events=120";
    let Some(calls) = traced(options) else { return };
    let mut stream = streams(options).remove(0);
    let mut in_flight = Vec::new();
    let mut issued = 0;
    for call in calls {
        if issued == 120 {
            break;
        }
        match call {
            Call::Completed(n) => {
                in_flight.drain(..n).for_each(|kind| stream.completed(kind));
            }
            Call::Submitted(kind, at) => {
                let op = stream.next_op();
                assert_eq!(op.kind, kind, "request {issued}");
                assert!(at.is_multiple_of(16384) && at < 4 * MIB);
                in_flight.push(kind);
                issued += 1;
            }
            Call::Io(_, kind, _) => {
                assert_eq!((stream.next_op().kind, kind), (OpKind::Flush, OpKind::Flush));
                issued += 1;
            }
        }
    }
    assert_eq!(issued, 120);
}
