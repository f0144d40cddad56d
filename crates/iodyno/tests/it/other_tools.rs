//! Command lines of sysbench, diskspd and `amps_bio_perf_test`, and parameter files of vdbench: `run`, `convert` and
//! `export --format sysbench`. `exchange` tests the conversion of options.

use crate::place::{Place, RunOutput, Running, SHORT, cells, engines};
use std::process::{Command, Stdio};

const SYSBENCH: &str = "sysbench fileio --file-num=4 --file-total-size=4M --file-test-mode=rndrw --file-fsync-freq=10 --events=500 --time=0 run";

/// Runs the program with these arguments. The foreign command line `line` is inserted as one argument after the first.
fn with(place: &Place, words: &str, line: &str) -> RunOutput {
    let (command, flags) = words.split_once(' ').unwrap_or((words, ""));
    let mut command = place.command(command);
    command.arg(line).args(flags.split_whitespace());
    Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped())).finish()
}

/// The workload that `convert` writes is that of the line, and runs on every kind of target.
#[test]
fn a_converted_line_runs_as_the_line() {
    let place = Place::new();
    with(&place, "convert -o w.toml", SYSBENCH).succeeds();
    for target in ["model:exflash-400g", "ram:4MiB", "scratch:4MiB"] {
        let by_line = with(&place, &format!("run --json -q --on {target}"), SYSBENCH);
        let by_line = by_line.succeeds().json();
        let by_file = place.document(&format!("run w.toml --on {target}"));
        let ops = |document: &serde_json::Value| {
            let kinds = ["read", "write", "flush"];
            kinds.map(|kind| cells(document)[0][kind]["ops"].as_u64().unwrap())
        };
        assert_eq!(ops(&by_line), ops(&by_file), "{target}");
        // sysbench's own counts: 10 requests, 4 flushes; 3 reads to 2 writes; a flush of each file at the end.
        assert_eq!(ops(&by_line), [216, 144, 140 + 4], "{target}");
    }
    let lint = with(&place, "convert --lint", SYSBENCH);
    assert!(lint.succeeds().stdout.contains("measures the page cache"), "{}", lint.stdout);
    let prepare = SYSBENCH.replace(" run", " prepare");
    with(&place, "convert", &prepare).exits(2).says(&["sysbench:1:", "--fill"]);
    with(&place, "run -q", "diskspd -b8K -t4 x.dat").exits(2).says(&["diskspd:1:14", "-si"]);
}

/// Another tool's line is varied as any workload.
#[test]
fn a_line_is_varied() {
    let place = Place::new();
    let line = "sudo sysbench fileio --file-num=4 --file-total-size=4M --file-test-mode=rndrd --time=1 run > out";
    let words = "run -q --json --on model:exflash-400g --vary threads=1,2 --time 100ms";
    let document = with(&place, words, line).succeeds().json();
    assert_eq!(cells(&document).len(), 2);
    with(&place, "convert", "taskset -c 1 diskspd -b8K -r x.dat").exits(2).says(&["--cpus"]);
}

/// Engine and page cache mode are those of the command line; a fill uses the same engine.
#[test]
fn engines_of_other_tools() {
    let place = Place::new();
    let shown = |words: &str, line: &str| with(&place, words, line).succeeds().stdout.clone();
    let text = shown("run -q -v --on scratch:4MiB --fill", SYSBENCH);
    assert!(text.contains("engine psync") && text.contains("page cache"), "{text}");
    // A fill is what `prepare` does: it has no report of its own.
    let report = place.iodyno("export last --format sysbench");
    assert_eq!(report.succeeds().stdout.matches("General statistics:").count(), 1);
    if engines(&place).contains(&"libaio") {
        let line = "sysbench fileio --file-num=1 --file-total-size=4M --file-io-mode=async --file-async-backlog=8 \
                    --file-extra-flags=direct --file-test-mode=rndrd --time=1 run";
        let text = shown(&format!("run -q -v --on scratch:4MiB {SHORT}"), line);
        assert!(text.contains("engine libaio") && text.contains("T1Q8"), "{text}");
    }
    let text =
        shown(&format!("run -q --on ram:4MiB {SHORT}"), "diskspd -b8K -o4 -t2 -r -w30 x.dat");
    assert!(text.contains("T2Q4"), "{text}");
}

/// The published line is the catalog's log; it bypasses the page cache, as the tool does.
#[test]
fn a_line_of_amps() {
    let place = Place::new();
    let line = "amps_bio_perf_test -b 128 -m 512 -r 80 --file_size 8 -f /data/log";
    with(&place, "convert -o w.toml", line).succeeds();
    let by_line = with(&place, "run --json -q --time 50ms --on model:exflash-400g", line);
    let by_line = by_line.succeeds().json();
    let by_file = place.document("run w.toml --time 50ms --on model:exflash-400g");
    for kind in ["read", "write"] {
        let of = |document: &serde_json::Value| {
            let class = &cells(document)[0][kind];
            (class["ops"].as_u64().unwrap(), class["bytes"].as_u64().unwrap())
        };
        let (ops, bytes) = of(&by_line);
        assert_eq!((ops, bytes), of(&by_file));
        assert!(ops > 0 && bytes == ops * 128 * 512, "{ops} {bytes}");
    }
    let words = "run -q -v --on scratch:8MiB --fill --time 50ms";
    let text = with(&place, words, line).succeeds().stdout.clone();
    assert!(text.contains("T1Q1") && !text.contains("page cache"), "{text}");
    with(&place, "convert", "amps_bio_perf_test -b 300")
        .exits(2)
        .says(&["amps_bio_perf_test:1:20", "from 1 to 256"]);
}

/// A run of vdbench becomes a cell for each combination of its lists.
#[test]
fn a_parameter_file_of_vdbench() {
    let place = Place::new();
    place.write(
        "t.vdb",
        "sd=sd1,lun=/d/x,size=4m,threads=2\nwd=wd1,sd=sd1,rdpct=50\n\
         rd=r,wd=wd1,iorate=(500,max),elapsed=2,forxfersize=(4k,8k)\n",
    );
    let output = place.iodyno("run t.vdb -q");
    output.exits(2).says(&["t.vdb:3", "`max` is not a number"]);
    place.write(
        "t.vdb",
        "sd=sd1,lun=/d/x,size=4m,threads=2\nwd=wd1,sd=sd1,rdpct=50\n\
         rd=r,wd=wd1,iorate=(500,1000),elapsed=2,forxfersize=(4k,8k)\n",
    );
    let document = place.document("run t.vdb --on model:exflash-400g");
    let names: Vec<&str> =
        cells(&document).iter().map(|cell| cell["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["r-4k-500", "r-4k-1000", "r-8k-500", "r-8k-1000"]);
    let by_command = with(&place, "convert --section r-8k-500", "vdbench -f t.vdb -w 1 -e 7");
    assert!(by_command.succeeds().stdout.contains("time = \"7s\""), "{}", by_command.stdout);
}

/// Each line of sysbench's report, with its numbers masked, is in the export, which has no other lines. Without
/// sysbench 1.0 nothing is compared; with `CI=true` that fails.
#[test]
fn the_export_has_sysbench_s_lines() {
    let place = Place::new();
    with(&place, "run -q --on scratch:4MiB", SYSBENCH).succeeds();
    let ours = place.iodyno("export last --format sysbench");
    let ours = ours.succeeds().stdout.clone();
    let sysbench = |command: &str| {
        let words = SYSBENCH.split_whitespace().skip(1);
        let words = words.map(|word| if word == "run" { command } else { word });
        Command::new("sysbench").args(words).current_dir(place.work()).output().ok()
    };
    let theirs = sysbench("prepare").and_then(|_| sysbench("run"));
    let theirs = theirs.map(|o| String::from_utf8(o.stdout).unwrap()).unwrap_or_default();
    if !theirs.starts_with("sysbench 1.0.") {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "sysbench 1.0 is missing");
        eprintln!("sysbench 1.0 is not installed: nothing was compared");
        return;
    }
    let masked = |text: &str| -> Vec<String> {
        let report = &text[text.find("File operations:").unwrap()..];
        let digits_masked = report.lines().map(|line| {
            let words = line.split_whitespace().map(|word| {
                let is_number =
                    word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains("th");
                if is_number {
                    word.chars().filter(|c| !c.is_ascii_digit()).collect()
                } else {
                    word.to_owned()
                }
            });
            words.collect::<Vec<String>>().join(" ")
        });
        digits_masked.collect()
    };
    assert_eq!(masked(&ours), masked(&theirs));
    // Names and numbers end in the same columns, which some programs read by.
    let column = |text: &str, line: &str| {
        let found = text.lines().find(|l| l.trim_start().starts_with(line)).unwrap();
        (found.find(line), found.len().min(48))
    };
    for line in ["min:", "avg:", "sum:", "95th percentile:"] {
        assert_eq!(column(&ours, line), column(&theirs, line), "{line}\n{ours}\n{theirs}");
    }
}
