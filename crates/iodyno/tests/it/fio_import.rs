//! Results of the real fio (Debian's package fio) in the notebook, compared with the figures that fio printed.

use crate::contract::{RUN_SCHEMA, assert_valid};
use crate::place::{Place, cells, codes, number, whole};
use serde_json::Value;
use std::process::Command;

/// A mix of reads, writes and syncs on a file by two threads, and the null engine.
const JOB: &str = "[global]
runtime=1
time_based

[mix]
filename=data
size=4m
ioengine=psync
rw=randrw
bs=4k
fsync=20
numjobs=2

[null]
stonewall
ioengine=null
rate_iops=20k
iodepth=8
size=1g
rw=randread
bs=64k
";

/// Runs fio in the place's folder.
#[track_caller]
fn fio(place: &Place, words: &str) {
    place.write("job.fio", JOB);
    let mut command = Command::new("fio");
    let run = command.args(words.split_whitespace()).current_dir(place.work()).output();
    let run = run.unwrap_or_else(|e| panic!("fio (Debian's package fio): {e}"));
    assert!(run.status.success(), "{words}: {}", String::from_utf8_lossy(&run.stderr));
}

fn printed(place: &Place, file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(place.path(file)).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["jobs"].as_array().unwrap().clone()
}

#[track_caller]
fn is_near(a: f64, b: f64, share: f64, what: &str) {
    assert!((a - b).abs() <= share * b + 1.0, "{what}: {a}, but fio has {b}");
}

/// Compares the figures of a cell with those of fio's jobs of the same name.
fn compare(cell: &Value, jobs: &[Value], mean_share: f64) {
    for kind in ["read", "write"] {
        let of: Vec<&Value> = jobs.iter().map(|job| &job[kind]).collect();
        let sum = |key: &str| of.iter().map(|of| whole(&of[key])).sum::<u64>();
        let ours = &cell[kind];
        assert_eq!(
            (whole(&ours["ops"]), whole(&ours["bytes"])),
            (sum("total_ios"), sum("io_bytes"))
        );
        if sum("total_ios") == 0 {
            continue;
        }
        is_near(number(&ours["iops"]), of.iter().map(|of| number(&of["iops"])).sum(), 0.01, "iops");
        let times = |of: &&Value| number(&of["clat_ns"]["mean"]) * number(&of["total_ios"]);
        let mean = of.iter().map(times).sum::<f64>() / sum("total_ios") as f64;
        is_near(number(&ours["latency_ns"]["mean"]), mean, mean_share, "mean");
        let each = |key: &str| of.iter().map(|of| whole(&of["clat_ns"][key])).collect::<Vec<_>>();
        assert_eq!(Some(&whole(&ours["latency_ns"]["min"])), each("min").iter().min());
        assert_eq!(Some(&whole(&ours["latency_ns"]["max"])), each("max").iter().max());
        if let [one] = of.as_slice() {
            for (key, theirs) in
                [("p50", "50.000000"), ("p99", "99.000000"), ("p99_9", "99.900000")]
            {
                let theirs = number(&one["clat_ns"]["percentile"][theirs]);
                is_near(number(&ours["latency_ns"][key]), theirs, 1.0 / 64.0, key);
            }
        }
    }
    let syncs: u64 = jobs.iter().map(|job| whole(&job["sync"]["total_ios"])).sum();
    assert_eq!(whole(&cell["flush"]["ops"]), syncs);
}

/// Compares all cells with fio's jobs. `mean_share`: permitted difference of means, as a fraction.
fn compare_all(place: &Place, document: &Value, file: &str, mean_share: f64) {
    assert_valid(RUN_SCHEMA, document);
    let jobs = printed(place, file);
    let [mix, null] = cells(document).as_slice() else { panic!("two cells: {document}") };
    assert_eq!(
        (&mix["threads"], &mix["block_bytes"], &null["depth"]),
        (&2.into(), &4096.into(), &8.into())
    );
    assert_eq!((&mix["engine"], &null["block_bytes"]), (&"psync".into(), &65536.into()));
    compare(mix, &jobs[..2], mean_share);
    compare(null, &jobs[2..], mean_share);
    for cell in [mix, null] {
        assert!(codes(cell).contains(&"OTHER_TOOL") && !codes(cell).contains(&"VALID"), "{cell}");
    }
}

#[test]
fn jobs_of_fio_have_the_figures_that_fio_printed() {
    let place = Place::new();
    fio(&place, "job.fio --output-format=json+ --output=plus.json");
    let first = place.iodyno("import plus.json").succeeds().stdout.clone();
    assert!(first.contains("mix+null  read in"), "{first}");
    let again = place.iodyno("import plus.json").succeeds().stdout.clone();
    assert!(again == first.replace("read in", "exists already"), "{again}");
    let document = place.iodyno("show last --json").succeeds().json();
    compare_all(&place, &document, "plus.json", 1e-3);
    assert!(whole(&document["cells"][0]["flush"]["ops"]) > 0);
    // The percentiles alone, with text around them.
    fio(&place, "job.fio --output-format=json,normal --output=plain.json --status-interval=1");
    let import = place.iodyno("import plain.json");
    import.succeeds();
    let document = place.iodyno("show last --json").succeeds().json();
    for cell in cells(&document) {
        assert!(codes(cell).contains(&"ONLY_PERCENTILES"), "{cell}");
    }
    // What other commands make of them.
    assert!(place.iodyno("history mix+null").succeeds().stdout.contains("null"));
    place.iodyno("report last -o page.html").succeeds();
    let other = place.path("other.db");
    place.iodyno(&format!("import page.html --notebook {}", other.display())).succeeds();
    let json = place.iodyno("export last --format fio-json+").succeeds().stdout.clone();
    // A format of one document is written to a file, too, as it is printed.
    let text = place.iodyno("export last --format openmetrics").succeeds().stdout.clone();
    place.iodyno("export last --format openmetrics -o run.prom").succeeds();
    assert_eq!(std::fs::read_to_string(place.path("run.prom")).unwrap(), text);
    place.iodyno("export last --format json -o run.json").succeeds();
    assert_eq!(
        std::fs::read_to_string(place.path("run.json")).unwrap(),
        place.iodyno("export last --format json").stdout
    );
    place.write("again.json", &json);
    // Several results at once.
    let all = place.iodyno("import plus.json again.json page.html plain.json --notebook all.db");
    let lines: Vec<_> =
        all.succeeds().stdout.lines().map(|line| line.contains("read in")).collect();
    assert_eq!(lines, [true, true, true, false], "{}", all.stdout);
}

#[test]
fn logs_of_fio_give_intervals() {
    let place = Place::new();
    let logs =
        "--write_lat_log=each --write_hist_log=hist --write_iops_log=each --log_hist_msec=100";
    fio(&place, &format!("job.fio --output-format=json+ --output=plus.json {logs}"));
    fio(
        &place,
        "job.fio --output-format=json+ --output=avg.json --write_iops_log=avg --log_avg_msec=100",
    );
    let all = |prefix: &str| {
        let names = place.names().into_iter().filter(|name| name.starts_with(prefix));
        names.collect::<Vec<_>>().join(" ")
    };
    for (json, prefix, knows_latency) in
        [("plus.json", "each_", true), ("plus.json", "hist_", true), ("avg.json", "avg_", false)]
    {
        let logs = all(prefix);
        assert!(logs.split(' ').count() >= 3, "{logs}");
        let import = place.iodyno(&format!("import {json} {logs}"));
        assert!(import.succeeds().stdout.contains("read in"), "{}", import.stdout);
        let document = place.iodyno("show last --json --series").succeeds().json();
        // Under a load of ten, fio's logs once had a mean 3 % above that of its JSON.
        compare_all(&place, &document, json, 0.05);
        for cell in cells(&document) {
            let series = cell["series"].as_array().unwrap();
            assert!((8..=13).contains(&series.len()), "{prefix}: {}", series.len());
            let ops: u64 = series.iter().map(|i| whole(&i["read"]["ops"])).sum();
            assert_eq!(ops, whole(&cell["read"]["ops"]), "{prefix}");
            let busy = series.iter().filter(|i| whole(&i["read"]["ops"]) > 0).count();
            // On a busy machine syncs of fio wait for most of the time.
            assert!(busy >= 2, "{prefix}: {busy} intervals with reads");
            let known = series.iter().filter(|i| i["read"]["latency_ns"]["mean"].is_number());
            assert_eq!(known.count() > 0, knows_latency, "{prefix}");
        }
        place.iodyno("export last --format csv-series").succeeds();
    }
    // Of the latency logs only those that include submission.
    let total = place.names().into_iter().filter(|name| name.starts_with("each_lat."));
    let total = total.collect::<Vec<_>>().join(" ");
    let import = place.iodyno(&format!("import plus.json {total} --notebook lat.sqlite"));
    import.succeeds().says(&["its latencies include submission", "no `_clat` log was given"]);
    let import = place.iodyno(&format!("import plus.json {} --notebook both.sqlite", all("each_")));
    assert!(!import.succeeds().stderr.contains("include submission"), "{}", import.stderr);
}

/// For jobs without `direct=1`, which used the page cache, the import warns; for other jobs and for the null engine it
/// does not.
#[test]
fn buffered_jobs_of_fio_have_the_warning() {
    let place = Place::new();
    for (direct, buffered) in [("0", true), ("1", false)] {
        fio(
            &place,
            &format!(
                "--name=a --ioengine=psync --filename=data --size=4m --rw=randread --bs=4k --time_based --runtime=1 --direct={direct} --output-format=json+ --output={direct}.json"
            ),
        );
        place.iodyno(&format!("import {direct}.json")).succeeds();
        let document = place.iodyno("show last --json").succeeds().json();
        assert_eq!(codes(&document["cells"][0]).contains(&"PAGE_CACHE"), buffered, "{document}");
    }
    fio(&place, "job.fio --output-format=json+ --output=job.json");
    place.iodyno("import job.json").succeeds();
    let document = place.iodyno("show last --json").succeeds().json();
    let found =
        cells(&document).iter().map(|cell| codes(cell).contains(&"PAGE_CACHE")).collect::<Vec<_>>();
    assert_eq!(found, [true, false], "{document}");
}

/// On a disk that fails one read in twenty, fio continues with `continue_on_error`, and ends without it.
#[test]
fn operations_that_failed_in_fio_are_counted_apart() {
    let place = Place::new();
    let script = "$IODYNO fault --control $IODYNO_CONTROL 'error 5% reads' >/dev/null; \
        fio --ioengine=nbd --uri=$IODYNO_NBD --rw=randread --bs=4k --number_ios=2000 --size=16m \
        --name=goes_on --continue_on_error=all --name=ends --continue_on_error=none \
        --output-format=json+ --output=out.json >/dev/null 2>&1; true";
    let mut serve = place.command("serve exflash-400g --size 64MiB --no-floor -- sh -c");
    serve.arg(script).env("IODYNO", env!("CARGO_BIN_EXE_iodyno"));
    let served = serve.current_dir(place.work()).output().unwrap();
    assert!(served.status.success(), "{served:?}");
    let jobs = printed(&place, "out.json");
    let failed = whole(&jobs[0]["total_err"]);
    assert!(failed > 0 && whole(&jobs[1]["error"]) == 5, "{jobs:?}");
    place.iodyno("import out.json").succeeds();
    let document = place.iodyno("show last --json").succeeds().json();
    let all = cells(&document);
    assert_eq!(whole(&all[0]["read"]["errors"]), failed, "{document:#}");
    assert_eq!(whole(&all[0]["read"]["ops"]), whole(&jobs[0]["read"]["total_ios"]) - failed);
    assert!(codes(&all[0]).contains(&"ERRORS"), "{document:#}");
    assert!(!codes(&all[0]).contains(&"STOPPED_BY_ERRORS"), "{document:#}");
    if let Some(ended) = all.get(1) {
        assert!(codes(ended).contains(&"STOPPED_BY_ERRORS"), "{document:#}");
        assert_eq!(ended["block_bytes"], 4096, "{document:#}");
    }
}

/// `group_reporting` gives one entry for the jobs of a group; a job that fails at once has no latencies.
#[test]
fn what_fio_does_not_tell_of_a_job_is_said() {
    let place = Place::new();
    let words = "--ioengine=null --size=1g --rw=randread --time_based --runtime=1 --group_reporting \
        --output-format=json+ --output=group.json --name=a --name=b --numjobs=2 --name=c \
        --new_group --ioengine=psync --filename=/dev/full --size=1m --rw=write";
    let mut fio = Command::new("fio");
    let status = fio.args(words.split_whitespace()).current_dir(place.work()).output();
    assert!(status.is_ok_and(|run| !run.status.success()));
    let import = place.iodyno("import group.json");
    for said in
        ["fio summed 3 threads under this name, but numjobs=2", "ENOSPC (28) before any I/O"]
    {
        assert!(import.succeeds().stderr.contains(said), "{}", import.stderr);
    }
}

#[test]
fn what_is_not_of_fio_is_refused_with_its_place() {
    let place = Place::new();
    place.write("cut.json", "{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n");
    place.iodyno("import cut.json").fails(2, &["cut.json:4:1", "cut short"]);
    place.write("old.json", "{\n\"fio version\":\"fio-2.2.10\", \"jobs\":[]}");
    place.iodyno("import old.json").fails(2, &["old.json", "fio 2"]);
    place.write("a_clat.1.log", "0, 5, 0, 4096, 0\n7, x, 0, 4096, 0\n");
    place.write("none.json", "{\"fio version\":\"fio-3.33\",\"timestamp_ms\":1,\"jobs\":[{\"jobname\":\"a\",\"read\":{\"io_bytes\":0,\"total_ios\":0,\"runtime\":0}}]}");
    place.iodyno("import none.json").fails(2, &["none.json", "no I/O completed"]);
    place.iodyno("import none.json a_clat.1.log").fails(2, &["a_clat.1.log:2"]);
    place.iodyno("import a_clat.1.log").fails(2, &["json+"]);
    assert!(!place.notebook().exists());
}
