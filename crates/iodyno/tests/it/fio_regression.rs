//! The jobs by which fio tests itself (`t/jobs` of its repository, 38 numbers, some of two files), written anew from their
//! options and figures: each moves what fio 3.33 moves, or what its test expects where 3.33 has the fault that is tested, or is
//! refused with the reason and a remedy. Sizes and times are smaller. What differs, and why, is in `docs/fio.md`.

use crate::place::{Place, cells, engines};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::Command;

/// Expected result of a job.
enum Fate {
    /// The numbers of operations and bytes equal fio's, by job and kind of operation.
    Same,
    /// The numbers of reads and their bytes equal fio's. Writes are drawn at random, and differ by less than a tenth.
    SameReads,
    /// The numbers of operations and bytes equal fio's, summed over reads and writes.
    SameInAll,
    /// Numbers of reads and writes, by job. They are those that fio's own test expects, because fio 3.33 differs or
    /// hangs, or they differ for a reason in `docs/fio.md`.
    Counts(&'static [(&'static str, u64, u64)]),
    /// The job ends without an error. Its number of operations depends on time.
    Runs,
    /// iodyno refuses the job. The error has the option and the remedy.
    Refused(&'static [&'static str]),
}

use Fate::{Counts, Refused, Runs, Same, SameInAll, SameReads};

/// Number of the test, job with its lines separated by blanks, flags of iodyno, and expected result. A file that a
/// later job needs has a name.
type Job = (u32, &'static str, &'static str, Fate);

const SCRATCH: &str = "--on scratch:";
const NULL: &str = "--on null:";
const REPLAY: &[&str] = &["read_iolog", "iodyno replay"];

#[rustfmt::skip]
const JOBS: &[Job] = &[
    // (Blocks of several sizes without a map are drawn here: `addresses_of_regression_jobs`.)
    (1, "[a] rw=randread bsrange=1k-4k size=20000 ioengine=null", NULL, Runs),
    (2, "[global] ioengine=libaio iodepth=128 direct=1 filename=f size=16m bssplit=512/50:1M/50 verify=md5 do_verify=0 rw=write [a] [b] offset=64m rw=rw bsrange=512:1M",
        "--on 2.img?size=128MiB", Runs),
    (2, "[global] ioengine=libaio iodepth=128 direct=1 filename=f size=16m bssplit=512/50:1M/50 verify=md5 verify_fatal=1 rw=read [a] [b] offset=64m rw=rw bsrange=512:1M",
        "--on 2.img?size=128MiB", Runs),
    (3, "[global] ioengine=libaio iodepth=128 direct=1 filename=f size=1m verify=md5 verify_dump=1 do_verify=0 rw=write [a] bs=512 [b] offset=16m bs=1m",
        "--on 3.img?size=32MiB", Same),
    // (fio fails: its checksums are of whole blocks. iodyno's are of units in them.)
    (3, "[global] ioengine=libaio iodepth=128 direct=1 filename=f size=1m verify=md5 verify_dump=1 verify_fatal=1 rw=read [a] bs=1m [b] offset=16m bs=512",
        "--on 3.img?size=32MiB", Counts(&[("a", 1, 0), ("b", 2048, 0)])),
    (4, "[global] ioengine=libaio iodepth=128 direct=1 filename=f size=10m verify=md5 verify_dump=1 do_verify=0 rw=write [a] bs=512 verify_interval=1m [b] stonewall offset=16m bs=1m verify_interval=512",
        SCRATCH, Same),
    (5, "[a] ioengine=sync direct=1 bs=4k size=10m rw=write verify=md5 verify_backlog=32", SCRATCH, Same),
    (6, "[a] ioengine=libaio iodepth=32 direct=1 bs=4k size=16m rw=randrw verify=meta verify_pattern=0xaaa verify_backlog=1024 verify_fatal=1",
        SCRATCH, SameReads),
    (7, "[a] rw=read:512k bs=1m size=128m norandommap direct=1 write_iolog=it.log", SCRATCH, Same),
    (8, "[a] rw=readwrite bs=4k size=32m direct=1 verify=crc32c verify_backlog=1 do_verify=1", SCRATCH, SameReads),
    (9, "[global] ioengine=null size=20g bs=4k iodepth=170 iodepth_batch=4 iodepth_batch_complete=4 norandommap rw=randwrite verify=crc32c-intel verify_backlog=1m verify_async=2 verify_async_cpus=0 cpus_allowed=0 cpus_allowed_policy=split gtod_reduce=1 thread time_based runtime=300ms [a] [b]",
        "--on null: --cpus 0", Runs),
    (10, "[a] ioengine=null size=128m iodepth=16 io_submit_mode=offload", NULL, Counts(&[("a", 32768, 0)])),
    (11, "[global] ioengine=null bs=4k size=100g runtime=1 flow_id=1 [a] flow=1 rate_iops=1000 [b] flow=8", NULL, Runs),
    (12, "[global] ioengine=null bs=4k size=100g time_based runtime=1 flow_id=1 flow_sleep=100 thread log_avg_msec=1000 write_iops_log=it [a] flow=1 [b] flow=5 [c] flow=10",
        NULL, Runs),
    (13, "[a] ioengine=null thread=1 size=4k bs=4k iodepth=1 io_submit_mode=offload serialize_overlap=1 numjobs=8 loops=1000000 runtime=300ms",
        NULL, Runs),
    (14, "[global] ioengine=null bs=4k size=100g time_based runtime=1 flow_id=1 thread log_avg_msec=1000 write_iops_log=it [a] flow=1 [b] flow=2 [c] flow=3 runtime=500ms",
        NULL, Runs),
    (15, "[a] ioengine=libaio size=1m iodepth=16", SCRATCH, Same),
    (16, "[a] ioengine=null size=1m iodepth=16", NULL, Same),
    (17, "[a] ioengine=posixaio size=1m iodepth=16", SCRATCH, Same),
    (18, "[a] ioengine=io_uring filesize=256k rw=randrw time_based runtime=300ms", SCRATCH, Runs),
    (19, "[a] ioengine=null filesize=1m write_bw_log=it per_job_logs=0 log_offset=1", NULL, Same),
    (20, "[a] ioengine=null filesize=1m rw=randread write_bw_log=it per_job_logs=0 log_offset=1", NULL, Same),
    (21, "[a] ioengine=null filesize=1m rw=randread norandommap=1 random_generator=lfsr write_bw_log=it per_job_logs=0 log_offset=1",
        NULL, Same),
    (22, "[a] ioengine=null filesize=1m rw=randread norandommap=1 write_bw_log=it per_job_logs=0 log_offset=1", NULL, Same),
    (23, "[a] ioengine=null filesize=1m rw=randtrimwrite bsrange=512-4k", NULL,
        Refused(&["rw=randtrimwrite", "each block is trimmed, and then written", "rw=randtrim, followed by one with rw=randwrite"])),
    (24, "[a] ioengine=null filesize=1m rw=trimwrite bs=8k,8k,8k", NULL,
        Refused(&["rw=trimwrite", "each block is trimmed, and then written", "rw=trim, followed by one with rw=write"])),
    (25, "[a] filename=f size=128k rw=write verify=md5 do_verify=1 experimental_verify=1", SCRATCH, Same),
    (26, "[global] filename=f size=1m verify=md5 experimental_verify=1 [a] rw=randwrite loops=8 [b] stonewall=1 rw=randrw time_based runtime=300ms",
        SCRATCH, Counts(&[("a", 256, 2048)])),
    (27, "[global] filename=f size=16k bs=16k [a] rw=write buffer_pattern='p' [b] stonewall=1 rw=read verify=pattern verify_pattern='p'",
        SCRATCH, Refused(&["buffer_pattern", "zero_buffers or buffer_compress_percentage", "verify=crc32c"])),
    (28, "[a] ioengine=null size=16k rw=write buffer_pattern=\"abcd\"-120xdeadface", NULL,
        Refused(&["buffer_pattern", "zero_buffers or buffer_compress_percentage"])),
    (29, "[global] filename=f size=4k verify=md5 [a] rw=write do_verify=0 [b] stonewall=1 rw=read loops=2", SCRATCH,
        Counts(&[("a", 0, 1), ("b", 2, 0)])),
    (30, "[a] ioengine=null filesize=1T rw=read time_based runtime=300ms", "--on null:1TiB", Runs),
    (31, "[a] ioengine=libaio rw=write size=1mb filename=f time_based=1 runtime=300ms write_iolog=it", SCRATCH, Runs),
    (31, "[a] ioengine=libaio rw=read iodepth=128 filename=f read_iolog=it write_lat_log=it", SCRATCH, Refused(REPLAY)),
    (32, "[a] ioengine=null rw=rw bs=128k size=1280k io_size=2560k", NULL, SameInAll),
    // (The options of later versions than 3.33 change columns of logs.)
    (33, "[global] rw=read filename=f size=8k time_based runtime=300ms ioengine=libaio [a] write_bw_log=l log_prio=1 [b] write_lat_log=l log_avg_msec=100 log_window_value=both [c] write_iops_log=l log_offset=1 log_prio=1",
        SCRATCH, Runs),
    (34, "[global] rw=read filename=f size=8k time_based runtime=300ms ioengine=libaio log_offset=1 log_issue_time=1 [a] write_lat_log=l [b] write_lat_log=l log_avg_msec=100 log_window_value=both",
        SCRATCH, Runs),
    (35, "[global] size=4k [a] ioengine=filecreate [b] ioengine=filestat [c] ioengine=filedelete [d] ioengine=dircreate [e] ioengine=dirstat [f] ioengine=dirdelete",
        SCRATCH, Refused(&["filecreate", "filestat", "filedelete", "dircreate", "dirstat", "dirdelete", "use io_uring, libaio"])),
    (36, "[a] filename=f verify=md5 size=512k rw=write verify_state_save=1", "--on 36.img?size=1MiB", Same),
    (36, "[a] filename=f verify=md5 size=512k rw=read verify_state_load=1", "--on 36.img?size=1MiB", Same),
    // (fio reads back after each loop.)
    (37, "[a] filename=f.1:f.2:f.3:f.4 verify=md5 ioengine=libaio iodepth=32 size=512k loops=4 rw=write verify_state_save=1",
        "--on 37.img?size=1MiB", Counts(&[("a", 128, 512)])),
    (37, "[a] filename=f.1:f.2:f.3:f.4 verify=md5 ioengine=libaio iodepth=32 size=512k loops=4 rw=read verify_state_load=1",
        "--on 37.img?size=1MiB", Counts(&[("a", 512, 0)])),
    (38, "[a] read_iolog=it.iolog ioengine=null iodepth=128", NULL, Refused(REPLAY)),
];

/// Operations and bytes of reads and of writes.
type Moved = [(u64, u64); 2];

/// Writes a job file, and returns the arguments that run it.
fn written(place: &Place, text: &str, target: &str) -> String {
    place.write("it.fio", text.replace(' ', "\n") + "\n");
    format!("run it.fio {target}")
}

/// Operations and bytes of iodyno's cells, by job. The cell that verifies a job's writes counts towards the job.
fn ours(document: &Value) -> BTreeMap<String, Moved> {
    let mut all = BTreeMap::new();
    for cell in cells(document) {
        let name = cell["name"].as_str().unwrap().trim_end_matches("-verify").to_owned();
        let of: &mut Moved = all.entry(name).or_default();
        for (of, kind) in of.iter_mut().zip(["read", "write"]) {
            of.0 += cell[kind]["ops"].as_u64().unwrap_or(0);
            of.1 += cell[kind]["bytes"].as_u64().unwrap_or(0);
        }
    }
    all
}

/// Operations and bytes of fio, by job, in a separate folder for each number; None without fio.
fn theirs(place: &Place, number: u32) -> Option<BTreeMap<String, Moved>> {
    let folder = place.path(&format!("fio-{number}"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut fio = Command::new("fio");
    fio.args(["../it.fio", "--output-format=json"]).current_dir(folder);
    let Ok(output) = fio.output() else {
        assert!(std::env::var("CI").is_err(), "fio is missing");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let document: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let of = |job: &Value| {
        let moved = ["read", "write"].map(|kind| {
            let count = |key: &str| job[kind][key].as_u64().unwrap();
            (count("total_ios"), count("io_bytes"))
        });
        (job["jobname"].as_str().unwrap().to_owned(), moved)
    };
    Some(document["jobs"].as_array().unwrap().iter().map(of).collect())
}

/// Every number has an expected result, and each job has its own.
#[test]
fn regression_jobs_of_fio() {
    let numbers: BTreeSet<u32> = JOBS.iter().map(|job| job.0).collect();
    assert_eq!(numbers, (1..=38).collect());
    let place = Place::new();
    let has_libaio = engines(&place).contains(&"libaio");
    for (number, text, target, fate) in JOBS {
        let words = written(&place, text, target);
        if let Refused(says) = fate {
            place.iodyno(&words).exits(2).says(says);
            continue;
        }
        if text.contains("=libaio") && !has_libaio {
            continue;
        }
        let document = place.document(&words);
        let failed = document.to_string().contains("CORRUPT");
        assert!(!failed, "{number}: {document}");
        let ours = ours(&document);
        if let Counts(expected) = fate {
            for (job, reads, writes) in *expected {
                let [read, written] = ours[*job];
                assert_eq!((read.0, written.0), (*reads, *writes), "{number}, {job}: {document}");
            }
            continue;
        }
        assert!(ours.values().all(|[r, w]| r.0 + w.0 > 0), "{number}: {document}");
        if matches!(fate, Runs) {
            continue;
        }
        let Some(theirs) = theirs(&place, *number) else { continue };
        match fate {
            Same => assert_eq!(ours, theirs, "{number}"),
            SameInAll => {
                let sums = [&ours, &theirs].map(|all| {
                    let kinds = all.values().flatten();
                    kinds.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
                });
                assert_eq!(sums[0], sums[1], "{number}");
            }
            _ => {
                let ([reads, writes], [of_fio, drawn]) = (ours["a"], theirs["a"]);
                assert_eq!(reads, of_fio, "{number}");
                assert!(writes.0.abs_diff(drawn.0) * 20 < writes.0 + drawn.0, "{number}");
            }
        }
    }
}

/// The text of a job by its number.
fn text_of(number: u32) -> &'static str {
    JOBS.iter().find(|job| job.0 == number).unwrap().1
}

/// Kind, offset and length of each operation that a run recorded.
fn recorded(place: &Place) -> Vec<(String, u64, u64)> {
    let text = std::fs::read_to_string(place.path("it.trace")).unwrap();
    let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let number = |word: &str| word.parse::<u64>().unwrap();
    let of = |w: Vec<&str>| (w[5].to_owned(), number(w[6]), number(w[7]));
    lines.filter(|words| words[0] == "o").map(of).collect()
}

/// Addresses: in order, each block once, some blocks more than once, and within the file.
#[test]
fn addresses_of_regression_jobs() {
    let place = Place::new();
    let offsets = |number: u32| -> Vec<u64> {
        let words = written(&place, text_of(number), "--on null: --record-trace it.trace");
        let _ = std::fs::remove_file(place.path("it.trace"));
        place.document(&words);
        recorded(&place).iter().map(|op| op.1).collect()
    };
    let all: Vec<u64> = (0..256).map(|block| block * 4096).collect();
    assert_eq!(offsets(19), all);
    for number in [20, 21] {
        let mut drawn = offsets(number);
        let follow = drawn.windows(2).filter(|two| two[0] + 4096 == two[1]).count();
        assert!(follow < 20, "{number}: {drawn:?}");
        drawn.sort_unstable();
        assert_eq!(drawn, all, "{number}");
    }
    let drawn: BTreeSet<u64> = offsets(22).into_iter().collect();
    assert!((100..256).contains(&drawn.len()), "{drawn:?}");
    // Twice through the file, and not beyond.
    let most = offsets(32).into_iter().max().unwrap();
    assert!((640 << 10..1280 << 10).contains(&most), "{most}");
    offsets(1);
    for (_, offset, len) in recorded(&place) {
        assert!(len % 1024 == 0 && len <= 4096 && offset + len <= 20_480, "{offset} {len}");
    }
}

/// Weights of flows, also with a rate, and once one of the jobs has ended; a job that verifies ends with its time.
#[test]
fn figures_of_regression_jobs() {
    let place = Place::new();
    let run = |number: u32, target: &str| place.document(&written(&place, text_of(number), target));
    let reads = |number: u32| -> Vec<f64> {
        ours(&run(number, "--on model:exflash-400g")).values().map(|of| of[0].0 as f64).collect()
    };
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.05;
    let of = reads(11);
    assert!(near(of[0], 1000.0) && near(of[1] / of[0], 8.0), "{of:?}");
    let of = reads(12);
    assert!(near(of[1] / of[0], 5.0) && near(of[2] / of[0], 10.0), "{of:?}");
    let of = reads(14);
    assert!(near(of[1] / of[0], 2.0) && of[2] < of[0] * 3.0, "{of:?}");
    // What was written since the last backlog is not read once the time is over.
    let document = run(9, "--on null: --cpus 0");
    for cell in cells(&document) {
        assert!((cell["seconds"].as_f64().unwrap() - 0.3).abs() < 1e-6, "{cell}");
    }
    // Latencies add up.
    for number in [15, 16, 17] {
        let target = if number == 16 { NULL } else { SCRATCH };
        if number == 15 && !engines(&place).contains(&"libaio") {
            continue;
        }
        run(number, target);
        let json = place.iodyno("export last --format fio-json").succeeds().json();
        let mean = |key: &str| json["jobs"][0]["read"][key]["mean"].as_f64().unwrap();
        let (parts, whole) = (mean("slat_ns") + mean("clat_ns"), mean("lat_ns"));
        assert!((parts - whole).abs() <= 1.0, "{number}: {parts} {whole}");
    }
}

/// Remedies for refused jobs work: a trace is recorded and replayed, and trims of any length take no memory.
#[test]
fn remedies_of_regression_jobs() {
    let place = Place::new();
    let job = text_of(31).replace("libaio", "psync");
    place.iodyno(&written(&place, &job, "--on d.img?size=1MiB --record-trace it.trace")).succeeds();
    let count = recorded(&place).len() as u64;
    let replayed = place.document("replay it.trace --on d.img?size=1MiB");
    assert_eq!(ours(&replayed).values().next().unwrap()[1].0, count, "{replayed}");
    let mut log = "fio version 3 iolog\n1 /dev/null add\n2 /dev/null open\n".to_owned();
    for block in 0..10_u64 {
        let (at, offset) = (10 + block * 20, block * 4096);
        let _ = writeln!(log, "{at} /dev/null trim {offset} 2147483648");
        let _ = writeln!(log, "{} /dev/null write {offset} 4096", at + 9);
    }
    place.write("it.iolog", log + "999 /dev/null close\n");
    let document = place.document("replay it.iolog --on null:4GiB");
    let cell = &cells(&document)[0];
    assert_eq!(cell["write"]["ops"], 10, "{cell}");
    assert_eq!(cell["trim"]["bytes"], 10_u64 << 31, "{cell}");
}
