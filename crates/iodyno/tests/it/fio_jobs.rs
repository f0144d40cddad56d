//! Job files of fio on the command line: `run` and `convert`. `exchange` tests the conversion of options.

use crate::place::{Place, cells, engines};
use std::path::Path;
use std::process::Command;

const TWO_GROUPS: &str = "[global]\nsize=4m\nruntime=200ms\ntime_based\ndirect=1\nioengine=psync\n\
                          [writes]\nrw=write\n[reads]\nrw=randread\n[after]\nstonewall\nrw=randwrite\nfdatasync=1\n";

/// A group is a cell, whose jobs run at the same time; groups run one after the other.
#[test]
fn jobs_of_a_group_run_at_once() {
    let place = Place::new();
    place.write("two.fio", TWO_GROUPS);
    for target in ["model:exflash-400g", "scratch:16MiB", "ram:16MiB"] {
        let document = place.document(&format!("run two.fio --on {target}"));
        let names: Vec<&str> =
            cells(&document).iter().map(|cell| cell["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["writes", "reads", "after"], "{target}");
    }
}

/// The job's engine and its use of the page cache are those of the run, unless the command line says otherwise.
#[test]
fn engine_and_page_cache_are_the_jobs() {
    let place = Place::new();
    let job = "[job]\nsize=4m\nruntime=100ms\ntime_based\nrw=randwrite\nfsync=1\n";
    place.write("cached.fio", job);
    place.write("direct.fio", format!("{job}ioengine=libaio\niodepth=4\ndirect=1\n"));
    let prints = |words: &str, expected: &[&str]| {
        let output = place.iodyno(&format!("{words} -q -v"));
        output.succeeds();
        for word in expected {
            assert!(output.stdout.contains(word), "{words}: {}", output.stdout);
        }
    };
    prints("run cached.fio --on scratch:16MiB", &["engine psync", "buffered I/O"]);
    if engines(&place).contains(&"libaio") {
        prints("run direct.fio --on scratch:16MiB", &["engine libaio"]);
    }
    prints("run direct.fio --on scratch:16MiB --engine psync --depth 1", &["engine psync"]);
    // Jobs of one file have engines of their own, also at the same time.
    if engines(&place).contains(&"libaio") {
        let both = "[global]\nrw=write\nsize=1m\ndirect=1\n[a]\nioengine=psync\n[b]\nioengine=libaio\niodepth=2\n[c]\nstonewall\nioengine=psync\n";
        place.write("both.fio", both);
        let document = place.document("run both.fio --on scratch:16MiB");
        let cells = cells(&document);
        let engines: Vec<_> = cells.iter().map(|cell| cell["engine"].as_str().unwrap()).collect();
        assert_eq!(engines, ["psync", "libaio", "psync"]);
    }
    let differs = "[a]\nsize=1m\ndirect=1\n[b]\nstonewall\nsize=1m\n";
    place.write("differs.fio", differs);
    let output = place.iodyno("run differs.fio -q");
    output.exits(2).says(&["different values of direct", "?direct="]);
}

/// Number of bytes of a file in the page cache. None if no tool counts them (util-linux), or if the file exists only
/// there (tmpfs).
fn cached_bytes(path: &Path) -> Option<u64> {
    let output = |program: &str, words: &[&str]| {
        let run = Command::new(program).args(words).arg(path).output().ok()?;
        String::from_utf8(run.stdout).ok().filter(|text| !text.trim().is_empty())
    };
    let is_tmpfs = output("stat", &["-f", "-c", "%T"])?.trim() == "tmpfs";
    let words = ["--bytes", "--noheadings", "--output", "RES"];
    output("fincore", &words)?.trim().parse().ok().filter(|_| !is_tmpfs)
}

/// Before a buffered job, its file is dropped from the page cache, as in fio, unless the job says otherwise.
#[test]
fn the_page_cache_is_dropped_before_a_job() {
    let place = Place::new();
    let job = "[job]\nioengine=psync\nrw=randread\nbs=4k\nsize=8m\nnumber_ios=1\n";
    place.write("dropped.fio", job);
    place.write("kept.fio", format!("{job}invalidate=0\n"));
    let path = place.path("d.img");
    place.iodyno("run dropped.fio --on d.img?size=8MiB --fill -q").succeeds();
    for (job, is_dropped) in [("dropped", true), ("kept", false), ("dropped", true)] {
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        std::fs::read(&path).unwrap();
        if cached_bytes(&path).is_none_or(|bytes| bytes < 8 << 20) {
            return;
        }
        place.iodyno(&format!("run {job}.fio --on d.img?size=8MiB -q")).succeeds();
        let cached = cached_bytes(&path).unwrap();
        assert_eq!(cached < 4 << 20, is_dropped, "{job}: {cached}");
    }
}

/// Simultaneous jobs start at different times, and end by their own limits or with another job; in real and in virtual
/// time.
#[test]
fn jobs_at_once_have_limits_of_their_own() {
    let place = Place::new();
    let text = "[global]\nrw=read\nbs=64k\nsize=4m\n[bytes]\nio_size=1m\n[ops]\nnumber_ios=7\nstartdelay=50ms\n\
                [time]\nruntime=200ms\ntime_based\nstartdelay=100ms\n";
    place.write("own.fio", text);
    place.write(
        "with.fio",
        // Any job ends the others, whichever has `exitall`.
        text.replace("io_size=1m", "startdelay=20s\nexitall").replace("200ms", "30s"),
    );
    for target in ["model:exflash-400g", "ram:64MiB"] {
        let ops = |document: &serde_json::Value| -> Vec<u64> {
            let kinds = cells(document);
            kinds.iter().map(|c| c["read"]["ops"].as_u64().unwrap_or(0)).collect()
        };
        let document = place.document(&format!("run own.fio --on {target}"));
        let found = ops(&document);
        assert_eq!(found[..2], [16, 7], "{target}");
        let window_s = cells(&document)[2]["seconds"].as_f64().unwrap();
        assert!((window_s - 0.2).abs() < 1e-6, "{target}: {window_s}");
        // The other jobs end with the one that moves 7 blocks: before they began, in both kinds of time.
        let document = place.document(&format!("run with.fio --on {target}"));
        assert_eq!(ops(&document)[..2], [0, 7], "{target}");
        assert!(cells(&document)[2]["seconds"].as_f64().unwrap() < 1.0, "{target}");
    }
}

/// As in fio, the ramp's I/O counts towards `size` and its loops, but not towards `number_ios`; in real and in virtual
/// time.
#[test]
fn a_ramp_counts_towards_the_size() {
    let place = Place::new();
    let job = "[a]\nioengine=psync\nrw=write\nbs=4k\nrate_iops=400\nramp_time=200ms\n";
    for (lines, ops) in
        [("size=1m", 256 - 80), ("size=512k\nloops=2", 256 - 80), ("size=2m\nnumber_ios=200", 200)]
    {
        place.write("ramp.fio", format!("{job}{lines}\n"));
        for target in ["model:exflash-400g", "ram:4MiB"] {
            let document = place.document(&format!("run ramp.fio --on {target}"));
            let counted = cells(&document)[0]["write"]["ops"].as_u64().unwrap();
            // The operation that is due at the end of the ramp belongs to either side.
            let is_as_expected = counted.abs_diff(ops) <= 2 * u64::from(ops != 200);
            assert!(is_as_expected, "{lines}, {target}: {counted}, not {ops}");
        }
    }
}

/// With libaio a worker issues nothing while its flush is in flight, as in fio. With io_uring it goes on.
#[test]
fn a_libaio_job_waits_for_its_flushes() {
    let place = Place::new();
    for (engine, waits) in [("libaio", true), ("io_uring", false)] {
        let job = format!(
            "[a]\nioengine={engine}\ndirect=1\nrw=randwrite\nbs=4k\nsize=4m\niodepth=8\nfsync=4\n"
        );
        place.write("flush.fio", job);
        let trace = format!("{engine}.trace");
        place
            .iodyno(&format!("run flush.fio --on model:exflash-400g -q --record-trace {trace}"))
            .succeeds();
        let text = std::fs::read_to_string(place.path(&trace)).unwrap();
        let (mut flushing, mut flushes, mut issued_during) = (None, 0, 0);
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["o", _, _, _, id, kind, ..] => {
                    issued_during += u32::from(flushing.is_some());
                    if kind == "f" {
                        (flushing, flushes) = (Some(id.to_owned()), flushes + 1);
                    }
                }
                ["c", _, _, _, id] if flushing.as_deref() == Some(id) => flushing = None,
                _ => {}
            }
        }
        assert!(flushes >= 255, "{engine}: {flushes}");
        assert_eq!(issued_during == 0, waits, "{engine}: {issued_during}");
    }
}

/// A steady rate ends a job, as fio's `steadystate` does. A job whose rate is not steady runs until its time is over.
#[test]
fn a_steady_job_ends() {
    let place = Place::new();
    let job = |limit: &str| {
        format!(
            "[job]\nrw=randread\nsize=1g\nruntime=60\ntime_based\nioengine=libaio\niodepth=8\nss=iops:{limit}\nss_dur=3\nss_ramp=1\n"
        )
    };
    place.write("steady.fio", job("30%"));
    place.write("never.fio", job("0.00001%"));
    let window_s = |name: &str| {
        let document = place.document(&format!("run {name} --on model:exflash-400g"));
        cells(&document)[0]["seconds"].as_f64().unwrap()
    };
    let steady = window_s("steady.fio");
    // A second of ramp, three of the window, and half a second until its intervals are judged.
    assert!((4.5..6.0).contains(&steady), "{steady}");
    assert!((window_s("never.fio") - 60.0).abs() < 1e-6);
}

/// Parts of fio's command line that iodyno's command line accepts.
#[test]
fn a_command_line_of_fio_runs() {
    let place = Place::new();
    let fio = "fio --name=a --rw=randread --size=4m --runtime=100ms --time_based";
    let output = place.iodyno(&format!("run --on ram:16MiB --json --quiet {fio}"));
    assert_eq!(cells(&output.succeeds().json())[0]["name"], "a");
    // A line with paths is no path.
    let words = format!("run --on ram:16MiB --quiet {fio} --filename=/dev/sdb --directory=/mnt/x");
    place.iodyno(&words).succeeds();
    // The line by which a disk is tested for etcd: blocks that are no whole number of sectors.
    let etcd = "fio --rw=write --ioengine=sync --fdatasync=1 --directory=x --size=64k --bs=2300 --name=mytest";
    let document = place.iodyno(&format!("run --on scratch:16MiB --json --quiet {etcd}"));
    let document = document.succeeds().json();
    let cell = &cells(&document)[0];
    let count = |kind: &str, of: &str| cell[kind][of].as_u64().unwrap();
    assert_eq!((count("write", "ops"), count("write", "bytes")), (28, 28 * 2300));
    assert!((27..=28).contains(&count("flush", "ops")), "{cell}");
    let emulated = place.iodyno(&format!("run --on model:exflash-400g --quiet {etcd}"));
    emulated.exits(2).says(&["multiples of 512 B"]);
    let shown = place.iodyno(&format!("convert {fio} --name=b --rw=write --section=b"));
    assert!(shown.succeeds().stdout.contains("write = 1"), "{}", shown.stdout);
    place
        .iodyno("convert fio --name=a --iodpeth=4")
        .fails(2, &["command line of fio:1:14", "iodepth"]);
}

/// A sweep over a job keeps the job's engine and page cache mode, also if the workload is a command line of another
/// tool. Of simultaneous jobs, it varies one.
#[test]
fn jobs_are_varied() {
    let place = Place::new();
    let jobs = "[global]\nioengine=psync\nsize=4m\ntime_based\nruntime=50ms\n[a]\nrw=randread\n[b]\nrw=read\n";
    place.write("two.fio", jobs);
    let document = place.document("run two.fio --section a --on scratch:8MiB --vary block=4k,8k");
    assert_eq!(cells(&document).len(), 2);
    let text = document.to_string();
    assert!(text.contains("\"psync\"") && !text.contains("\"uring\""), "{text}");
    assert!(
        document["run"]["targets"][0]["name"].as_str().unwrap().contains("direct=no"),
        "{text}"
    );
    let words = "run two.fio --on scratch:8MiB --vary block=4k,8k";
    place.iodyno(words).exits(2).says(&["a and b", "--section a"]);
    place
        .iodyno("run two.fio --section a --on scratch:8MiB --vary depth=1,2")
        .exits(2)
        .says(&["psync"]);
    let apart = jobs.replace("[b]", "[b]\nstonewall\nioengine=mmap");
    place.write("apart.fio", apart);
    let words = "run apart.fio --on scratch:8MiB --vary block=4k,8k";
    place.iodyno(words).exits(2).says(&["different engines", "--engine"]);
    assert_eq!(cells(&place.document(&format!("{words} --engine psync"))).len(), 4);
    assert_eq!(cells(&place.document(&words.replace("scratch:", "ram:"))).len(), 4);
}

/// The flushes of `end_fsync`: one for each file of each clone, after all other operations and within the measured
/// window, whatever ends the job. Their number equals fio's.
#[test]
fn flushes_at_the_end_are_measured() {
    let place = Place::new();
    let jobs =
        "[a]\nrw=write\nbs=64k\nsize=1m\nnrfiles=2\nnumjobs=3\nioengine=psync\nend_fsync=1\n";
    place.write("bytes.fio", jobs);
    place.write("time.fio", format!("{jobs}time_based\nruntime=100ms\n"));
    place.write("rate.fio", format!("{jobs}ioengine=libaio\niodepth=4\nrate_iops=500\n"));
    let flushes = {
        let mut fio = std::process::Command::new("fio");
        fio.args(["bytes.fio", "--output=/dev/null", "--write_iolog=log"]);
        match fio.current_dir(place.path("")).status() {
            Ok(status) => {
                assert!(status.success());
                // The clones append to one log.
                let log = std::fs::read_to_string(place.path("log")).unwrap();
                log.lines().filter(|line| line.contains(" sync ")).count() as u64
            }
            Err(_) => 6,
        }
    };
    assert_eq!(flushes, 6);
    for target in ["model:ssd-sata3-mlc-200g", "scratch:4MiB", "ram:4MiB"] {
        for job in ["bytes.fio", "time.fio", "rate.fio"] {
            let record = format!("{job}-{}.trace", &target[..3]);
            let document =
                place.document(&format!("run {job} --on {target} --record-trace {record}"));
            let cell = &cells(&document)[0];
            assert_eq!(cell["flush"]["ops"], flushes, "{job} on {target}: {cell}");
            if job != "time.fio" {
                assert_eq!(cell["write"]["ops"], 48, "{job} on {target}: {cell}");
            }
            // The flushes of each worker are its last operations.
            let text = std::fs::read_to_string(place.path(&record)).unwrap();
            for worker in 0..3 {
                let worker = format!("{worker}");
                let words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
                let begins = words.filter(|words| words[0] == "o" && words[3] == worker);
                let kinds: Vec<bool> = begins.map(|words| words[5] == "f").collect();
                let (before, last) = kinds.split_at(kinds.len() - 2);
                assert!(last == [true; 2] && !before.contains(&true), "{job} on {target}");
            }
            // The time of the flushes of one worker is within it.
            let flush_s = cell["flush"]["latency_ns"]["min"].as_f64().unwrap() * 2e-9;
            assert!(cell["seconds"].as_f64().unwrap() >= flush_s, "{cell}");
            if job == "time.fio" {
                assert!(cell["seconds"].as_f64().unwrap() > 0.1, "{cell}");
                assert_eq!(cell["ended"], "time", "{cell}");
            }
            let codes = cell["verdicts"].to_string();
            assert!(!codes.contains("INVALID") && !codes.contains("LITTLE"), "{codes}");
        }
    }
}

/// Blocks that a job verifies are read back after it, as many as by fio. They are not read back if flags changed the
/// job, or if the target stores no content.
#[test]
fn verified_jobs_are_read_back() {
    let place = Place::new();
    let job = "[a]\nrw=randwrite\nbs=8k\nsize=1m\nnumjobs=2\nverify=md5\nioengine=psync\n[b]\nstonewall\nrw=write\nsize=256k\nverify=crc32c\n\
               [c]\nstonewall\nrw=randrw\nsize=256k\nverify=crc32c\n";
    place.write("v.fio", job);
    let counted = |document: &serde_json::Value| -> Vec<(String, u64)> {
        let of = |cell: &serde_json::Value| {
            (cell["name"].as_str().unwrap().to_owned(), cell["read"]["ops"].as_u64().unwrap_or(0))
        };
        cells(document).iter().map(of).filter(|(name, _)| name != "c").collect()
    };
    let expected = [("a", 0), ("a-verify", 256), ("b", 0), ("b-verify", 64)];
    let expected = expected.map(|(name, ops)| (name.to_owned(), ops));
    for target in ["scratch:8MiB", "ram:8MiB"] {
        let document = place.document(&format!("run v.fio --on {target}"));
        assert_eq!(counted(&document), expected, "{target}");
        let checked = cells(&document).iter().filter_map(|cell| {
            let verified = &cell["evidence"]["verification"];
            verified["checked"].as_u64().filter(|_| cell["name"].as_str().unwrap().contains('-'))
        });
        assert_eq!(checked.collect::<Vec<_>>(), [256 * 2, 64], "{target}: {document}");
    }
    let theirs = std::process::Command::new("fio")
        .args(["v.fio", "--section=a", "--section=b", "--output-format=json", "--group_reporting"])
        .current_dir(place.work())
        .output();
    if let Ok(theirs) = theirs {
        let text = String::from_utf8(theirs.stdout).unwrap();
        let theirs: serde_json::Value =
            serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
        let reads = theirs["jobs"].as_array().unwrap().iter().map(|job| &job["read"]["total_ios"]);
        assert_eq!(reads.map(|n| n.as_u64().unwrap()).sum::<u64>(), 256 + 64, "{text}");
    }
    for words in ["run v.fio --on model:exflash-400g", "run v.fio --on ram:8MiB --block 16k"] {
        let names = counted(&place.document(words));
        assert!(names.iter().all(|(name, _)| !name.contains('-')), "{words}: {names:?}");
    }
}

/// Reads of a backlog do not use up the job's size. All writes are read back, and only once: as
/// many operations as in fio, also at a depth, on a real target and in virtual time.
#[test]
fn a_backlog_is_read_back_beside_the_size() {
    let place = Place::new();
    for (lines, expected) in [
        ("rw=write\nsize=1m\nverify_backlog=8", (256, 256)),
        ("rw=write\nsize=1m\nverify_backlog=7\nioengine=libaio\niodepth=16", (256, 256)),
        ("rw=randwrite\nsize=1m\nverify_backlog=512\nloops=2", (512, 512)),
        ("rw=write\nsize=1m\nverify_backlog=7\ndo_verify=0", (0, 256)),
        ("rw=write\nsize=1m\nverify_backlog=8\nnumber_ios=40", (24, 24)),
    ] {
        place.write("v.fio", format!("[a]\nbs=4k\nioengine=psync\nverify=crc32c\n{lines}\n"));
        for target in ["scratch:4MiB", "ram:4MiB", "model:exflash-400g"] {
            let document = place.document(&format!("run v.fio --on {target}"));
            let of = |kind: &str| -> u64 {
                cells(&document).iter().filter_map(|cell| cell[kind]["ops"].as_u64()).sum()
            };
            assert_eq!((of("read"), of("write")), expected, "{lines} on {target}: {document}");
            assert_eq!(cells(&document).len(), 1, "{lines}");
        }
    }
}

/// Jobs that verify can run at the same time on separate ranges, or if none of them writes. It is refused if one job
/// writes data that another one verifies.
#[test]
fn verifying_jobs_run_side_by_side() {
    let place = Place::new();
    let of = |lines: &str| {
        format!("[global]\nbs=4k\nioengine=psync\nverify=md5\nsize=1m\nrw=write\n{lines}\n")
    };
    for (lines, reads) in [
        ("[a]\n[b]", 512),
        ("filename=x\n[a]\n[b]\noffset=1m", 512),
        ("filename=x\n[w]\n[a]\nstonewall\nrw=read\n[b]\nrw=randread", 256 * 3),
    ] {
        place.write("v.fio", of(lines));
        let document = place.document("run v.fio --on scratch:4MiB");
        let counted = cells(&document).iter().filter_map(|cell| cell["read"]["ops"].as_u64());
        assert_eq!(counted.sum::<u64>(), reads, "{lines}: {document}");
        let codes = document.to_string();
        assert!(!codes.contains("CORRUPT"), "{lines}: {codes}");
    }
    place.write("v.fio", of("filename=x\n[a]\n[b]"));
    place
        .iodyno("run v.fio --on scratch:4MiB")
        .exits(2)
        .says(&["overwrite content that the other verifies"]);
}

/// With a rate and a think time, operations that become due during the pause are issued afterwards, as by fio. In a
/// flow, the job with a rate leads the others.
#[test]
fn rates_pause_and_flow() {
    let place = Place::new();
    let ops = |lines: &str| -> Vec<u64> {
        place.write(
            "r.fio",
            format!("[global]\nrw=randread\nbs=4k\nsize=1g\ntime_based\nruntime=2\n{lines}\n"),
        );
        let document = place.document("run r.fio --on model:exflash-400g");
        cells(&document).iter().map(|cell| cell["read"]["ops"].as_u64().unwrap()).collect()
    };
    // 20 until 100 ms, and from 200 ms on 20 each 100 ms.
    let paused = ops("[a]\nrate_iops=200\nthinktime=100ms\nthinktime_blocks=20")[0];
    assert!((360..=400).contains(&paused), "{paused}");
    let shifted =
        ops("[a]\nrate_iops=200\nthinktime=100ms\nthinktime_blocks=20\nrate_ignore_thinktime=1")[0];
    assert!((190..=220).contains(&shifted), "{shifted}");
    let timed =
        ops("[a]\nrate_iops=1000\nthinktime=50ms\nthinktime_iotime=100ms\nrate_ignore_thinktime=1")
            [0];
    assert!((1250..=1420).contains(&timed), "{timed}");
    let flow = ops("[a]\nflow=1\nrate_iops=1000\n[b]\nflow=8");
    assert!(flow[0].abs_diff(2000) < 20, "{flow:?}");
    assert!((flow[1] as f64 / flow[0] as f64 - 8.0).abs() < 0.3, "{flow:?}");
}

/// Without a target, the scratch file is large enough for the files of all jobs.
#[test]
fn a_scratch_file_is_as_large_as_the_jobs() {
    let place = Place::new();
    let job = "[global]\nrw=randread\ntime_based\nruntime=50ms\nioengine=psync\n[a]\nsize=40m\n[b]\nsize=20m\nnumjobs=2\n";
    place.write("sizes.fio", job);
    let document = place.document("run sizes.fio");
    assert_eq!(document["run"]["targets"][0]["name"], "scratch:80MiB?direct=no");
}

/// Example files whose jobs iodyno refuses, each with the error message. Files for unsupported engines are not listed.
const REFUSED_EXAMPLES: &[(&str, &str)] = &[
    ("cmdprio-bssplit.fio", "`cmdprio_bssplit`"),
    ("cmdprio-percentage.fio", "`cmdprio_percentage`"),
    ("uring-cmd-zoned.fio", "zonesize and max_open_zones"),
    ("zbd-seq-read.fio", "does not support zoned devices"),
];

/// Flags that example files need, because their options correspond to flags of `run`.
const EXAMPLE_FLAGS: &[(&str, &str)] = &[
    ("enospc-pressure.fio", "--max-errors 5"),
    ("latency-profile.fio", "--find-rate p99<500ms"),
    ("numa.fio", "--numa 0"),
    ("xnvme-compare.fio", "--section default"),
    ("xnvme-zoned.fio", "--section default"),
    // It walks over 3.7 TB.
    ("cross-stripe-verify.fio", "--on null:8TiB"),
    ("zbd-rand-write.fio", "--on null:8TiB"),
];

/// Every example file of fio's distribution runs, or is refused with the option and its line. Of those for supported
/// engines, at least 90 % run.
#[test]
fn examples_of_fio() {
    const ENGINES: &[&str] = &[
        "io_uring",
        "libaio",
        "psync",
        "sync",
        "vsync",
        "pvsync",
        "pvsync2",
        "mmap",
        "nbd",
        "null",
        "posixaio",
        "cpp_null",
        "io_uring_cmd",
    ];
    let folder = std::path::Path::new("/usr/share/doc/fio/examples");
    let Ok(files) = std::fs::read_dir(folder) else {
        assert!(std::env::var("CI").is_err(), "the package fio-examples is missing");
        return;
    };
    let place = Place::new();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == "fio"));
    paths.sort();
    assert!(paths.len() > 80, "{paths:?}");
    let (mut run, mut refused) = (0, Vec::new());
    for path in &paths {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let engines = text.lines().filter_map(|line| line.trim().strip_prefix("ioengine="));
        let is_ours =
            engines.map(|e| e.split([' ', '#']).next().unwrap_or(e)).all(|e| ENGINES.contains(&e));
        let of = |list: &[(&str, &'static str)]| {
            list.iter().find(|(file, _)| *file == name).map_or("", |(_, words)| words)
        };
        let (flags, words) = (of(EXAMPLE_FLAGS), of(REFUSED_EXAMPLES));
        let target = if flags.contains("--on") { "" } else { "--on model:exflash-400g" };
        let line = format!("run {} {flags} {target} --time 20ms --ramp 0s -q", path.display());
        let mut command = place.command(&line);
        command.env("unixsocket", "/run/nbd.sock");
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        match (output.status.code(), is_ours && words.is_empty()) {
            (Some(0), true) => run += 1,
            (Some(2), false) => {
                let at = format!("{}:", path.display());
                assert!(errors.contains('`') && errors.contains(&at), "{name}: {errors}");
                assert!(errors.contains(words), "{name}: {errors}");
                refused.extend(is_ours.then_some(name));
            }
            (code, _) => panic!("{name}: {code:?}\n{errors}"),
        }
    }
    assert!(run * 10 >= (run + refused.len()) * 9, "{run} run, {refused:?} do not");
}

/// A refused option is shown with its line, and nothing is measured or kept.
#[test]
fn refused_options_are_bad_input() {
    let place = Place::new();
    place.write("bad.fio", "[job]\nsize=4m\nioengine=rdma\niodpeth=4\n");
    for words in ["run bad.fio", "convert bad.fio", "run bad.fio --vary depth=1,2"] {
        let words = [words, "bad.fio:3:1", "rdma", "`iodepth`"];
        place.iodyno(words[0]).fails(2, &words[1..]);
    }
    place.iodyno("run none.fio").fails(2, &["none.fio"]);
    assert!(!place.notebook().exists(), "nothing was kept");
}

/// The workload that `convert` writes is the job: both make the same cell.
#[test]
fn a_converted_job_runs_as_the_job() {
    let place = Place::new();
    let job = "[job]\nsize=64m\nruntime=1\ntime_based\nrw=randrw\nrwmixread=70\nbs=8k\nrate_iops=700,300\n";
    place.write("job.fio", job);
    place.iodyno("convert job.fio -o job.toml").succeeds();
    let run = |name: &str| {
        let document = place.document(&format!("run {name} --on model:exflash-400g"));
        let cell = &cells(&document)[0];
        assert!(
            cell["read"]["ops"].as_u64() > Some(100) && cell["write"]["ops"].as_u64() > Some(100)
        );
        [cell["read"].clone(), cell["write"].clone()]
    };
    assert_eq!(run("job.fio"), run("job.toml"));
    place.iodyno("run job.fio --on model:exflash-400g --vary rate=500,1000 -q").succeeds();
    // Several jobs are several files.
    place.write("two.fio", TWO_GROUPS);
    let several = place.iodyno("convert two.fio");
    several.exits(2).says(&["3 jobs", "--section", "-o FOLDER"]);
    place.iodyno("convert two.fio -o out").succeeds();
    for name in ["writes", "reads", "after"] {
        place.iodyno(&format!("run out/{name}.toml --on ram:16MiB -q")).succeeds();
    }
    let one = place.iodyno("convert two.fio --section reads");
    assert!(one.succeeds().stdout.contains("# two.fio:4: "), "{}", one.stdout);
    place.iodyno("convert two.fio --section none").fails(2, &["writes, reads, after"]);
    let lint = place.iodyno("convert two.fio --lint");
    assert!(lint.succeeds().stdout.contains("two.fio:9: reads of blocks"), "{}", lint.stdout);
}
