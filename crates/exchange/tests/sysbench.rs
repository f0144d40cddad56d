//! Command lines of sysbench's `fileio`: the workload for each option, and the texts of errors. `sysbench_peer.rs`
//! compares the operations with sysbench itself.

use crate::other_tools;

use iodyno_exchange::fio::Job;
use iodyno_exchange::sysbench::parse;
use other_tools::{is_workload, one, refusal, says};

fn job(options: &str) -> Job {
    one(parse(&format!("sysbench fileio {options} run")))
}

const TIME: &str = "[limits]\nramp = \"0s\"\ntime = \"10s\"";
const FILES: &str = "block = \"16KiB\"\nactive = \"0B..2GiB\"\n";
const BURSTS: &str = "[flush]\nevery = 100\nburst = 128\n";
const AT_END: &str = "[write]\nflush_at_end = 128\n";
const ZEROES: &str = "[content]\nkind = \"zeroes\"\n";

#[test]
fn options_mean_what_sysbench_means() {
    let sequential = "[all]\naddresses = { pattern = \"sequential\", shared = true }\n";
    let rw = "mix_order = \"ratio\"\nmix = { read = 1.5, write = 1 }\n";
    for (options, toml) in [
        ("--file-test-mode=seqrd", format!("{FILES}mix = {{ read = 1 }}\n{sequential}{TIME}")),
        (
            "--file-test-mode=seqwr",
            format!("{FILES}mix = {{ write = 1 }}\n{sequential}{AT_END}{BURSTS}{ZEROES}{TIME}"),
        ),
        (
            "--file-test-mode=seqrewr --file-merged-requests=4",
            format!(
                "block = \"64KiB\"\nactive = \"0B..2GiB\"\nmix = {{ write = 1 }}\n{sequential}{AT_END}{BURSTS}{ZEROES}{TIME}"
            ),
        ),
        (
            "--file-test-mode=rndrd --threads=8",
            format!("threads = 8\n{FILES}mix = {{ read = 1 }}\n{TIME}"),
        ),
        (
            "--file-test-mode=rndwr --file-num=1 --file-fsync-freq=1",
            format!(
                "{FILES}mix = {{ write = 1 }}\n[write]\nflush_at_end = 1\n[flush]\nevery = 1\n{ZEROES}{TIME}"
            ),
        ),
        ("--file-test-mode=rndrw", format!("{FILES}{rw}{AT_END}{BURSTS}{ZEROES}{TIME}")),
        (
            "--file-test-mode=rndrw --file-rw-ratio=0 --file-fsync-freq=0",
            format!("{FILES}mix = {{ write = 1 }}\n{AT_END}{ZEROES}{TIME}"),
        ),
        (
            "--file-test-mode=rndwr --file-fsync-all",
            format!("{FILES}mix = {{ write = 1 }}\n[write]\nflush_every = 1\n{ZEROES}{TIME}"),
        ),
        (
            "--file-test-mode=rndwr --file-fsync-all --events=100 --time=0 --rate=50",
            format!(
                "{FILES}mix = {{ write = 1 }}\n[write]\nflush_every = 1\n{ZEROES}[arrivals]\nkind = \"open\"\nrate = 100\n[limits]\nramp = \"0s\"\nops = 200\n"
            ),
        ),
        (
            "--file-test-mode=rndwr --file-extra-flags=direct,dsync --validate=on --file-fsync-freq=0 --file-fsync-end=off",
            format!(
                "{FILES}mix = {{ write = 1 }}\n[write]\nfua = \"100%\"\n[content]\nkind = \"verifiable\"\n{TIME}"
            ),
        ),
        (
            "--file-test-mode=rndrd --file-io-mode=async --file-async-backlog=32 --file-block-size=4K --file-total-size=128m",
            format!(
                "depth = 32\nblock = \"4KiB\"\nactive = \"0B..128MiB\"\nmix = {{ read = 1 }}\n{TIME}"
            ),
        ),
        (
            "--file-test-mode=rndrd --time=60 --events=5000 --warmup-time=5 --rate=250",
            format!(
                "{FILES}mix = {{ read = 1 }}\n[arrivals]\nkind = \"open\"\nrate = 250\n[limits]\nramp = \"5s\"\ntime = \"60s\"\nops = 5000"
            ),
        ),
        (
            "--file-test-mode=rndrd --max-requests=10 --max-time=0 --num-threads=3",
            format!("threads = 3\n{FILES}mix = {{ read = 1 }}\n[limits]\nramp = \"0s\"\nops = 10"),
        ),
    ] {
        is_workload(&job(options), &toml);
    }
}

#[test]
fn engines_files_and_the_page_cache() {
    let of = |options: &str| {
        let job = job(&format!("--file-test-mode=rndrw {options}"));
        (job.engine, job.direct)
    };
    assert_eq!(of(""), (Some("psync"), false));
    assert_eq!(of("--file-io-mode=async --file-extra-flags=direct"), (Some("libaio"), true));
    assert_eq!(of("--file-io-mode=mmap --file-extra-flags=direct"), (Some("mmap"), false));
    // The last value counts; the old way to name a test is accepted.
    let old =
        one(parse("sysbench --test=fileio --threads=2 --threads=4 --file-test-mode=rndrd run"));
    assert_eq!(old.spec.threads(), 4);
    says(
        &job("--file-test-mode=rndwr").notes,
        "128 files lie side by side on the target, 16MiB each",
    );
    says(&job("--file-test-mode=rndwr").notes, "each thread ends with 128 flushes, within");
    says(&job("--file-test-mode=rndrd --rand-seed=7 --mysql-user=x").notes, "--seed");
}

/// Sizes, lists and defaults, as `sysbench fileio help` of 1.0.20 prints them.
#[test]
fn lists_and_defaults_are_those_of_sysbench() {
    let spec = |options: &str| job(&format!("--file-test-mode=rndrw {options}")).spec;
    for option in [
        "--threads=1",
        "--events=0",
        "--time=10",
        "--rate=0",
        "--validate=off",
        "--file-num=128",
        "--file-block-size=16384",
        "--file-block-size=16K",
        "--file-total-size=2G",
        "--file-io-mode=sync",
        "--file-async-backlog=128",
        "--file-extra-flags=",
        "--file-fsync-freq=100",
        "--file-fsync-all=off",
        "--file-fsync-end=on",
        "--file-fsync-mode=fsync",
        "--file-merged-requests=0",
        "--file-rw-ratio=1.5",
        // The last value counts.
        "--time=99 --time=10",
    ] {
        assert_eq!(spec(option), spec(""), "{option}");
    }
    // Flags are a list in any order.
    let of = |flags: &str| job(&format!("--file-test-mode=rndwr --file-extra-flags={flags}"));
    assert_eq!(of("direct,dsync").spec, of("dsync,direct").spec);
    assert_eq!((of("direct,dsync").direct, of("dsync").direct), (true, false));
    for (line, name) in [
        ("sysbench fileio --file-total-size=$SIZE --file-test-mode=rndrd run", "`$SIZE`"),
        ("sysbench fileio --file-test-mode=\"${MODE}\" run", "`${MODE}`"),
        (
            "SIZE=1G sysbench fileio --file-total-size=${SIZE} --file-test-mode=rndrd run",
            "`${SIZE}`",
        ),
    ] {
        let refused = refusal(line, parse(line));
        assert!(refused.contains(&format!("{name} is a shell variable")), "{refused}");
    }
    let quoted = "sysbench fileio --file-test-mode='$MODE' run";
    assert!(refusal(quoted, parse(quoted)).contains("`$MODE` is not a test mode"));
}

#[test]
fn traps_are_explained() {
    for (options, words) in [
        ("--file-test-mode=rndrw", "56 % of its events are flushes"),
        ("--file-test-mode=rndrw", "measures the page cache"),
        ("--file-test-mode=rndwr", "writes zeroes"),
        ("--file-test-mode=rndwr --file-io-mode=async", "ends when a request is submitted"),
        ("--file-test-mode=rndwr --file-io-mode=async", "submits nothing until fsync returns"),
        ("--file-test-mode=seqrd", "never written"),
        ("--file-test-mode=seqwr", "overwrites them"),
        ("--file-test-mode=seqwr --file-fsync-freq=0", "without fsync"),
        ("--file-test-mode=rndrd --file-io-mode=mmap", "a mapped file is in the page cache"),
    ] {
        says(&job(options).traps, words);
    }
    assert!(job("--file-test-mode=rndrd --file-extra-flags=direct").traps.len() == 1);
}

#[test]
fn refusals() {
    let all: Vec<String> = [
        "sysbench fileio --file-test-mode=rndrw prepare",
        "sysbench fileio --file-test-mode=rndrw cleanup",
        "sysbench fileio run",
        "sysbench fileio --file-test-mode=rndrw",
        "sysbench cpu run",
        "sysbench oltp.lua --tables=4 run",
        "sysbench --file-test-mode=rndrw",
        "sysbench fileio --file-test-mode=rnd run",
        "sysbench fileio --file-test-mode=rndrd --file-total-size=1000 run",
        "sysbench fileio --file-test-mode=seqrd --file-merged-requests=3 run",
        "sysbench fileio --file-test-mode=rndrd --file-num=3 --file-block-size=5000 --file-total-size=15000 run",
        "sysbench fileio --file-test-mode=rndrd --file-num=0 run",
        "sysbench fileio --file-test-mode=rndrd --time=0 run",
        "sysbench fileio --file-test-mode=rndrd --threads 4 run",
        "sysbench fileio --file-test-mode=rndrd --threads=2000 run",
        "sysbench fileio --file-test-mode=rndrd --treads=4 --config-file=x run",
        "sysbench fileio --file-test-mode=rndrw --file-rw-ratio=nan --file-fsync-freq=-1 --file-fsync-mode=sync run",
        "sysbench fileio --file-test-mode=rndrw --file-io-mode=slow --file-extra-flags=direkt --file-total-size=4x run",
        "sysbench fileio \\\n  --file-test-mode=rndrw \\\n  --rate=fast \\\n  run",
        "sysbench fileio 'run",
    ]
    .iter()
    .map(|line| refusal(line, parse(line)))
    .collect();
    insta::assert_snapshot!(all.join("\n\n"));
}
