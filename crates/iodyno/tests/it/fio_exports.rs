//! Exports in fio's formats, compared with those of the real fio, and read by the programs that come with it
//! (Debian's package fio; a missing program fails its tests). `report` tests the numbers.
//!
//! Not run here are fiologparser_hist.py (which needs pandas) and fio-plot: last tried on 2026-11-23, fio-plot
//! 1.1.21 drew bars over depths and the histogram of `export -o`, and the series of fio-logs; fiologparser_hist.py
//! (`--group_nr 29`) read the histogram logs at coarseness 0, 3 and 6.

use crate::place::{Place, names, number, whole};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Job with reads, writes and flushes, which both programs run.
const JOB: &str = "[global]
ioengine=psync
filename=data
size=4m
runtime=300ms
time_based

[mix]
rw=randrw
rwmixread=60
bs=4k
fsync=20
";

/// Runs a program in the place's folder, and returns its standard output.
#[track_caller]
fn output(place: &Place, program: &str, words: &str) -> String {
    let mut command = Command::new(program);
    let run = command.args(words.split_whitespace()).current_dir(place.work()).output();
    let run = run.unwrap_or_else(|e| panic!("{program} (Debian's package fio): {e}"));
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{program} {words}: {error}");
    String::from_utf8(run.stdout).unwrap()
}

/// Runs the job with iodyno and with fio. Returns the place with iodyno's run, and fio's output.
fn both(format: &str) -> (Place, String) {
    let place = Place::new();
    place.write("mix.fio", JOB);
    place.iodyno("run mix.fio --on scratch:4MiB --interval 100ms -q").succeeds();
    let theirs = output(&place, "fio", &format!("--output-format={format} mix.fio"));
    (place, theirs)
}

fn export(place: &Place, words: &str) -> String {
    let exported = place.iodyno(&format!("export last --format {words}"));
    exported.succeeds();
    exported.stdout
}

/// Collects the type of each value, by its path. Bins and options are left out, because they differ from run to run.
fn types(value: &Value, at: &str, found: &mut BTreeMap<String, &'static str>) {
    let kind = match value {
        Value::Object(map) => {
            for (key, value) in map {
                types(value, &format!("{at}/{key}"), found);
            }
            "object"
        }
        Value::Array(list) => {
            for value in list {
                types(value, &format!("{at}/*"), found);
            }
            "array"
        }
        Value::Number(n) if n.is_f64() => "number with a fraction",
        Value::Number(_) => "whole number",
        Value::String(_) => "text",
        Value::Bool(_) | Value::Null => "other",
    };
    let varies = ["/bins/", "/job options/", "/global options/"];
    if !varies.iter().any(|part| at.contains(part)) {
        found.insert(at.to_owned(), kind);
    }
}

/// Each key of fio's JSON occurs in the export, with the same type, in the same unit, and derived from other values in
/// the same way. The export also has keys of later versions of fio, and keys of iodyno.
#[test]
fn json_is_like_that_of_fio() {
    let (place, theirs) = both("json+");
    let theirs: Value = serde_json::from_str(&theirs[theirs.find('{').unwrap()..]).unwrap();
    let ours: Value = serde_json::from_str(&export(&place, "fio-json+")).unwrap();
    let (mut in_theirs, mut in_ours) = (BTreeMap::new(), BTreeMap::new());
    types(&theirs, "", &mut in_theirs);
    types(&ours, "", &mut in_ours);
    // A folder without a disk, such as one of tmpfs, has no counters.
    let is_counted = in_ours.contains_key("/disk_util");
    for (path, kind) in &in_theirs {
        if path.starts_with("/disk_util") && !is_counted || path.contains("/aggr_") {
            continue;
        }
        assert_eq!(in_ours.get(path), Some(kind), "{path}");
    }
    let known = ["/hostname", "/jobs/*/job_start", "/jobs/*/total_err", "/jobs/*/first_error"];
    let sectors = ["/disk_util/*/read_sectors", "/disk_util/*/write_sectors"];
    for path in in_ours.keys().filter(|path| !in_theirs.contains_key(*path)) {
        // Percentiles of lat come with fio's --lat_percentiles.
        let is_known = known.contains(&path.as_str())
            || sectors.contains(&path.as_str())
            || path.contains("/lat_ns/percentile")
            || path.contains("/lat_ns/bins")
            || path.starts_with("/disk_util") && !in_theirs.contains_key("/disk_util")
            || path.starts_with("/iodyno")
            || path.starts_with("/jobs/*/iodyno");
        assert!(is_known, "{path}");
    }
    for document in [&theirs, &ours] {
        has_the_units_of_fio(&document["jobs"][0]);
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(ours["hostname"], host.trim());
    // The options are those of the job.
    let options = &ours["jobs"][0]["job options"];
    let expected = [("rw", "randrw"), ("rwmixread", "60"), ("bs", "4096"), ("iodepth", "1")];
    let limits = [("fsync", "20"), ("runtime", "300ms"), ("time_based", "1")];
    for (key, value) in expected.into_iter().chain(limits) {
        assert_eq!(options[key], value, "{options}");
    }
}

fn has_the_units_of_fio(job: &Value) {
    let is_near = |a: f64, b: f64, what: &str| {
        assert!((a - b).abs() <= 0.02 * a.max(b) + 1.0, "{what}: {a} and {b} in {job}");
    };
    let mut time_ns = 0.0;
    for direction in ["read", "write"] {
        let of = &job[direction];
        let (seconds, ios) = (number(&of["runtime"]) / 1e3, number(&of["total_ios"]));
        assert!(ios > 100.0);
        is_near(number(&of["io_bytes"]), ios * 4096.0, "io_bytes");
        is_near(number(&of["io_kbytes"]), ios * 4.0, "io_kbytes");
        is_near(number(&of["iops"]), ios / seconds, "iops");
        is_near(number(&of["bw_bytes"]), ios * 4096.0 / seconds, "bw_bytes");
        is_near(number(&of["bw"]), ios * 4.0 / seconds, "bw");
        assert_eq!(of["clat_ns"]["N"], of["total_ios"]);
        time_ns += number(&of["lat_ns"]["mean"]) * ios;
        let bins = of["clat_ns"]["bins"].as_object().unwrap();
        assert_eq!(bins.values().map(whole).sum::<u64>(), whole(&of["total_ios"]));
        assert!(whole(&of["clat_ns"]["percentile"]["50.000000"]) > 0);
    }
    let sync = &job["sync"];
    assert!(whole(&sync["total_ios"]) > 0);
    assert_eq!(sync["lat_ns"]["N"], sync["total_ios"]);
    time_ns += number(&sync["lat_ns"]["mean"]) * number(&sync["total_ios"]);
    // One operation at a time: together they took no longer than the job, and not nearly nothing.
    let share = time_ns / 1e6 / number(&job["job_runtime"]);
    assert!((0.1..1.05).contains(&share), "{share} of the time in {job}");
    assert!((0.0..=100.5).contains(&(number(&job["usr_cpu"]) + number(&job["sys_cpu"]))));
    let sums = ["latency_ns", "latency_us", "latency_ms", "iodepth_level"]
        .map(|key| job[key].as_object().unwrap().values().map(number).sum::<f64>());
    is_near(sums[0] + sums[1] + sums[2], 100.0, "latency buckets");
    // fio counts flushes among the submissions, and not in their sum.
    assert!((99.0..110.0).contains(&sums[3]), "{sums:?}");
}

/// The kind of each field of a terse line. Fields after the 121st are of disks.
fn shapes(line: &str) -> Vec<&'static str> {
    let shape = |field: &str| match field.strip_suffix('%') {
        Some(rest) if rest.contains('.') => "percent",
        _ if field.contains("%=") => "percentile",
        _ if field.parse::<u64>().is_ok() => "whole",
        _ if field.parse::<f64>().is_ok() => "fraction",
        _ => "text",
    };
    line.trim_end().split(';').map(shape).collect()
}

#[test]
fn terse_is_like_that_of_fio() {
    let (place, theirs) = both("terse");
    let ours = export(&place, "fio-terse");
    let line = |text: &str| text.lines().find(|l| l.starts_with("3;")).unwrap().to_owned();
    let (theirs, ours) = (shapes(&line(&theirs)), shapes(&line(&ours)));
    let fields = 121;
    assert_eq!(theirs[..fields], ours[..fields]);
    let disk = |all: &[&'static str]| all[fields..].chunks(9).next().map(<[_]>::to_vec);
    if let (Some(theirs), Some(ours)) = (disk(&theirs), disk(&ours)) {
        assert_eq!(theirs, ours);
    }
}

/// fio's own script reads the export: its CSV has each bin of the histogram.
#[test]
fn fio_jsonplus_clat2csv_reads_json_plus() {
    let (place, _) = both("json+");
    let text = export(&place, "fio-json+");
    place.write("plus.json", &text);
    output(&place, "fio_jsonplus_clat2csv", "plus.json out.csv");
    let validated = output(&place, "fio_jsonplus_clat2csv", "plus.json out.csv --validate");
    assert!(validated.contains("out_job0.csv validated"), "{validated}");
    let csv = std::fs::read_to_string(place.path("out_job0.csv")).unwrap();
    let mut lines = csv.lines().map(|l| l.split(',').map(str::trim).collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    let rows: Vec<_> = lines.collect();
    let document: Value = serde_json::from_str(&text).unwrap();
    for direction in ["read", "write"] {
        let column = |name: &str| {
            let name = format!("{direction}_clat_ns_{name}");
            heads.iter().position(|head| *head == name).unwrap()
        };
        let (count, cumulative) = (column("count"), column("cumulative"));
        let of = &document["jobs"][0][direction]["clat_ns"];
        let rows: Vec<_> = rows.iter().filter(|row| !row[count].is_empty()).collect();
        let bins = of["bins"].as_object().unwrap();
        assert_eq!(rows.len(), bins.len());
        assert!(rows.iter().all(|row| bins[row[0]].as_u64() == row[count].parse().ok()));
        assert_eq!(rows.last().unwrap()[cumulative], of["N"].to_string());
    }
}

/// fio's own script computes the same averages from the exported logs as iodyno.
#[test]
fn fio2gnuplot_reads_the_logs() {
    let (place, _) = both("terse");
    let document: Value = serde_json::from_str(&export(&place, "fio-json")).unwrap();
    place.iodyno("export last --format fio-logs -o logs").succeeds();
    let stem = "randrw-iodepth-1-numjobs-1";
    let expected = ["bw", "clat", "clat_hist", "iops", "lat"].map(|k| format!("{stem}_{k}.1.log"));
    assert_eq!(names(&place.path("logs")), expected);
    // It takes the directions of a log as one: only reads here.
    for (kind, flag, mean) in [("bw", "-b", "bw_mean"), ("iops", "-i", "iops_mean")] {
        let name = format!("{stem}_{kind}.1.log");
        let log = std::fs::read_to_string(place.path(&format!("logs/{name}"))).unwrap();
        let reads: Vec<&str> = log.lines().filter(|l| l.ends_with(", 0, 0, 0")).collect();
        std::fs::create_dir(place.path(kind)).unwrap();
        place.write(&format!("{kind}/{name}"), reads.join("\n") + "\n");
        let mut command = Command::new("fio2gnuplot");
        command.args([flag, "-o", "out"]).current_dir(place.path(kind));
        assert!(command.output().unwrap().status.success());
        let average = std::fs::read_to_string(place.path(&format!("{kind}/out.average"))).unwrap();
        let row = average.lines().find_map(|line| line.strip_prefix("0 ")).unwrap();
        let ours = number(&document["jobs"][0]["read"][mean]);
        assert!((row.parse::<f64>().unwrap() - ours).abs() <= 1.0, "{average} {ours}");
    }
}

/// Settings that the exported options lack are listed.
#[test]
fn what_options_lack_is_listed() {
    let place = Place::new();
    let job = "[z]\nrw=randwrite\nrandom_distribution=zipf:1.2\nthinktime=100\nsize=1m\nioengine=psync\nnumber_ios=99\n";
    place.write("z.fio", job);
    let listed = |run: &str| {
        place.iodyno(run).succeeds();
        let document: Value = serde_json::from_str(&export(&place, "fio-json")).unwrap();
        let lacking = document["jobs"][0]["iodyno"]["not_in_job_options"].as_array().unwrap();
        let lacking: Vec<String> =
            lacking.iter().map(|of| of.as_str().unwrap().to_owned()).collect();
        (lacking.join("; "), document["jobs"][0]["job options"].clone())
    };
    let (lacking, _) = listed("run z.fio --on scratch:4MiB -q");
    for words in ["theta = 1.2", "arrivals.think_time = \"100000ns\"", "limits.ops = 99", "active"]
    {
        assert!(lacking.contains(words), "{words}: {lacking}");
    }
    // A ramp that counts towards the size is fio's own.
    place.write("r.fio", "[r]\nrw=write\nsize=64m\nramp_time=1ms\nioengine=psync\n");
    let (lacking, options) = listed("run r.fio --on scratch:64MiB -q");
    assert!(!lacking.contains("ramp_counts"), "{lacking}");
    assert_eq!(options["ramp_time"], "1ms");
    let (lacking, options) =
        listed("run random-write --on scratch:4MiB --dsync --time 50ms --ramp 20ms -q");
    assert_eq!(lacking, "");
    assert_eq!((&options["sync"], &options["ramp_time"]), (&"dsync".into(), &"20ms".into()));
    // fio's `rw` mixes reads and writes only; trims have it alone.
    let mix = "schema = 1\nmix = { read = 4, write = 2, trim = 2, write_zeroes = 2 }\n";
    place.write("mix.toml", mix);
    let (lacking, _) = listed("run ./mix.toml --on scratch:4MiB --time 50ms --ramp 0s -q");
    assert_eq!(lacking, "mix.trim = 2; mix.write_zeroes = 2");
    place.write("trim.toml", "schema = 1\nmix = { trim = 1 }\n");
    let (lacking, options) = listed("run ./trim.toml --on ram:4MiB --time 50ms --ramp 0s -q");
    assert_eq!((lacking.as_str(), &options["rw"]), ("", &"randtrim".into()));
    // The I/O of a replay is that of its trace.
    place.iodyno("run random-read --on ram:4MiB --time 20ms --ramp 0s -q --record-trace r.trace");
    let (lacking, _) = listed("replay r.trace --on ram:4MiB -q");
    assert!(lacking.starts_with("trace = ") && lacking.contains("by its times"), "{lacking}");
}

/// Simultaneous jobs of a file each have their own options, including rates by kind, and their own file names.
#[test]
fn jobs_at_once_have_their_own_options() {
    let place = Place::new();
    let job = "[global]\nsize=512k\nbs=64k\nioengine=psync\n[b]\nrw=write\nfsync=2\n[c]\nrw=read\nbssplit=4k/20:16k/50:64k/30\n\
               [d]\nrw=randrw\nbs=4k,8k\nsize=40k\nrate_iops=100,50\n";
    place.write("k.fio", job);
    place.iodyno("run k.fio --on scratch:4MiB -q").succeeds();
    let document: Value = serde_json::from_str(&export(&place, "fio-json")).unwrap();
    let options = |job: usize, key: &str| document["jobs"][job]["job options"][key].clone();
    assert_eq!([0, 1, 2].map(|job| options(job, "rw")), ["write", "read", "randrw"]);
    assert_eq!([0, 1, 2].map(|job| options(job, "fsync")), ["2".into(), Value::Null, Value::Null]);
    assert_eq!(options(2, "rate_iops"), "100,50");
    assert_eq!([0, 2].map(|job| options(job, "bs")), ["65536", "4096,8192"]);
    assert_eq!(options(1, "bssplit"), "4096/20:16384/50:65536");
    place.iodyno("export last --format fio-json -o out").succeeds();
    let stem = "iodepth-1-numjobs-1";
    let expected = [
        format!("randrw-{stem}.3.json"),
        format!("read-{stem}.2.json"),
        format!("write-{stem}.1.json"),
    ];
    assert_eq!(names(&place.path("out")), expected);
}

/// Jobs that run at the same time have the same `groupid`, on one target and on several, as in fio.
#[test]
fn groups_have_the_numbers_of_fio() {
    let place = Place::new();
    let jobs = "[global]\nsize=64k\nrw=read\n[a]\nfilename=a.img\n[b]\nfilename=b.img\n[c]\nstonewall\nfilename=a.img\n\
                [d]\nfilename=b.img\n[e]\nstonewall\nfilename=b.img\n";
    place.write("g.fio", jobs);
    let ids = |text: &str| -> Vec<u64> {
        let document: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
        let jobs = document["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["groupid"].as_u64().unwrap()).collect()
    };
    let theirs = ids(&output(&place, "fio", "--output-format=json g.fio"));
    assert_eq!(theirs, [0, 0, 1, 1, 2]);
    for targets in ["--on scratch:4MiB", "--on a.img --on b.img"] {
        place.iodyno(&format!("run g.fio {targets} -q")).succeeds();
        assert_eq!(ids(&export(&place, "fio-json")), theirs, "{targets}");
        let terse = export(&place, "fio-terse");
        let fields = terse.lines().map(|line| line.split(';').nth(3).unwrap());
        assert_eq!(fields.collect::<Vec<_>>(), ["0", "0", "1", "1", "2"], "{targets}");
    }
}

/// A job that its steady state ends, and one that runs until its time is over.
const STEADY: &str = "[global]
ioengine=null
rw=randrw
bs=4k
size=64m
time_based
runtime=3
ss_dur=2

[reached]
ss=iops:99%

[slope]
new_group
ss=bw_slope:0.0000001%
";

/// Asserts that the job's `steadystate` is as in fio: one value per second, and the values that follow by fio's
/// formulas.
fn has_the_steady_state_of_fio(job: &Value, limit: &str, is_attained: u64) {
    let steady = &job["steadystate"];
    assert_eq!((&steady["ss"], &steady["attained"]), (&limit.into(), &is_attained.into()), "{job}");
    assert_eq!(steady["duration"], 2);
    let values = |key: &str| -> Vec<f64> {
        steady["data"][key].as_array().unwrap().iter().map(number).collect()
    };
    let (iops, bw) = (values("iops"), values("bw"));
    assert_eq!((iops.len(), bw.len()), (2, 2), "{steady}");
    let is_near =
        |a: f64, b: f64| assert!((a - b).abs() <= 1e-5 * a.abs() + 2.0, "{a} {b} {steady}");
    is_near(number(&steady["data"]["iops_mean"]), f64::midpoint(iops[0], iops[1]));
    is_near(number(&steady["data"]["bw_mean"]), f64::midpoint(bw[0], bw[1]));
    iops.iter().zip(&bw).for_each(|(iops, bw)| assert!((iops * 4096.0 / bw - 1.0).abs() < 1e-2));
    let criterion = steady["criterion"].as_str().unwrap().strip_suffix('%').unwrap();
    let criterion: f64 = criterion.parse().unwrap();
    let (deviation, slope) = (number(&steady["max_deviation"]), number(&steady["slope"]));
    if limit.starts_with("iops") {
        is_near(deviation, (iops[0] - iops[1]).abs() / 2.0);
        assert!(slope == 0.0 && (criterion - 100.0 * deviation / iops[0]).abs() < criterion);
        assert!((criterion * (iops[0] + iops[1]) / 200.0 - deviation).abs() < 1e-4 * iops[0]);
    } else {
        is_near(slope, bw[1] - bw[0]);
        assert!(deviation == 0.0);
        assert!((criterion * (bw[0] + bw[1]) / 200.0 - slope).abs() < 1e-4 * bw[0]);
    }
}

#[test]
fn steadystate_is_like_that_of_fio() {
    let place = Place::new();
    place.write("steady.fio", STEADY);
    let theirs = output(&place, "fio", "--output-format=json steady.fio");
    let theirs: Value = serde_json::from_str(&theirs[theirs.find('{').unwrap()..]).unwrap();
    // Its rate must not be the same each second.
    let target = "--on model:exflash-400g?state=fresh";
    place.iodyno(&format!("run steady.fio {target} -q")).succeeds();
    let ours: Value = serde_json::from_str(&export(&place, "fio-json")).unwrap();
    for document in [&theirs, &ours] {
        let jobs = document["jobs"].as_array().unwrap();
        has_the_steady_state_of_fio(&jobs[0], "iops:99.000000%", 1);
        has_the_steady_state_of_fio(&jobs[1], "bw_slope:0.000000%", 0);
    }
    let of = |document: &Value| {
        let mut found = BTreeMap::new();
        types(&document["jobs"][0]["steadystate"], "", &mut found);
        types(&document["jobs"][1]["steadystate"], "", &mut found);
        found
    };
    assert_eq!(of(&theirs), of(&ours));
    for (job, limit) in [(0, "iops:99%"), (1, "bw_slope:0.0000001%")] {
        for document in [&theirs, &ours] {
            assert_eq!(document["jobs"][job]["job options"]["steadystate"], limit);
        }
    }
}

/// Rounds of a method: the job of the tracked point in the last round has a `steadystate`, with one value per round of
/// the window.
#[test]
fn rounds_have_a_steadystate() {
    let place = Place::new();
    let file = "schema = 1\n[[stages]]\nname = \"r\"\ndo = \"rounds\"\nread = [\"100%\", \"0%\"]\nblock = \"4KiB\"\n\
                depth = 8\ntime = \"50ms\"\nrounds = 8\ntrack = [{ read = \"0%\", measure = \"iops\" }]\n";
    place.write("rounds.toml", file);
    place.iodyno("run ./rounds.toml --on model:exflash-400g -q").succeeds();
    let document: Value = serde_json::from_str(&export(&place, "fio-json")).unwrap();
    let jobs = document["jobs"].as_array().unwrap();
    let writes: Vec<&Value> =
        jobs.iter().filter(|job| whole(&job["write"]["total_ios"]) > 0).collect();
    let with: Vec<&Value> = jobs.iter().filter(|job| !job["steadystate"].is_null()).collect();
    assert_eq!((with.len(), with[0]), (1, *writes.last().unwrap()));
    let steady = &with[0]["steadystate"];
    assert_eq!((&steady["ss"], &steady["attained"]), (&"iops:20.000000%".into(), &1.into()));
    let rounds = &steady["iodyno"]["rounds"];
    assert_eq!(whole(&rounds[1]) - whole(&rounds[0]), 4, "{steady}");
    let values: Vec<u64> =
        writes[writes.len() - 5..].iter().map(|job| number(&job["write"]["iops"]) as u64).collect();
    let found: Vec<u64> = steady["data"]["iops"].as_array().unwrap().iter().map(whole).collect();
    assert_eq!(found, values);
    let range = number(&steady["iodyno"]["range_percent"]);
    assert_eq!(steady["criterion"], format!("{range:.6}%"));
    assert!((0.0..20.0).contains(&range), "{range}");
}

/// `fio-logs` requires `-o`, and flags of one format are refused for others. Each job of a sweep is a separate file.
#[test]
fn files_are_written_into_a_folder() {
    let place = Place::new();
    place
        .iodyno("run random-read --on ram:8MiB --vary depth=1,4 --time 50ms --ramp 0s -q")
        .succeeds();
    place.iodyno("export last --format fio-logs").fails(2, &["-o"]);
    place.iodyno("export last --format csv --log-hist-coarseness 2").fails(2, &["fio-logs"]);
    place.iodyno("export last --format fio-logs -o out --log-hist-coarseness 7").exits(2);
    assert!(!place.path("out").exists());
    let written = place.iodyno("export last --format fio-json -o out");
    written.succeeds().says(&["2 files", "out"]);
    assert_eq!(written.stdout, "");
    let files = names(&place.path("out"));
    let depths = [1, 4].map(|depth| format!("randread-iodepth-{depth}-numjobs-1"));
    assert_eq!(files, [format!("{}.1.json", depths[0]), format!("{}.2.json", depths[1])]);
    for (file, depth) in files.iter().zip(["1", "4"]) {
        let text = std::fs::read_to_string(place.path(&format!("out/{file}"))).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["jobs"].as_array().unwrap().len(), 1);
        assert_eq!(document["jobs"][0]["job options"]["iodepth"], depth);
        assert_eq!(document["global options"]["iodepth"], depth);
    }
    // A file's name gives one file, with all jobs.
    place.iodyno("export last --format fio-json -o all.json").succeeds();
    let text = std::fs::read_to_string(place.path("all.json")).unwrap();
    assert_eq!(text, place.iodyno("export last --format fio-json").succeeds().stdout);
    // Again: files of ours are replaced.
    place.iodyno("export last --format fio-json -o out").succeeds();
    place.iodyno("export last --format fio-logs -o out --log-hist-coarseness 6").succeeds();
    assert_eq!(names(&place.path("out")).len(), 12);
    let name = format!("out/{}_clat_hist.1.log", depths[0]);
    let log = std::fs::read_to_string(place.path(&name)).unwrap();
    assert!(log.lines().all(|line| line.split(", ").count() == 3 + 29), "{log}");
}
