//! Tests the formats that other tools read: CSV, HdrHistogram's text, fio's JSON.

#![expect(clippy::float_cmp, reason = "the same figure must be the same number in every form")]

use crate::samples;

use iodyno_measure::Histogram;
use iodyno_report::fio::json::{Form, document as fio_document};
use iodyno_report::fio::{logs, terse};
use iodyno_report::{csv, hgrm, json as document_json};
use iodyno_units::OpKind;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Parses CSV text (RFC 4180). Each row maps column names to fields.
fn parse(text: &str) -> Vec<BTreeMap<String, String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(field.is_empty() && row.is_empty(), "the last line ends");
    let head = rows.remove(0);
    rows.into_iter()
        .map(|row| {
            assert_eq!(row.len(), head.len());
            head.iter().cloned().zip(row).collect()
        })
        .collect()
}

/// A JSON number as CSV writes it: null is empty.
fn number(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Number(n) if n.is_f64() => n.as_f64().unwrap().to_string(),
        other => other.to_string(),
    }
}

#[test]
fn csv_has_the_numbers_of_the_json() {
    for (name, run) in samples::all() {
        let document = document_json::document(&run, document_json::Options { series: true });
        let mut rows = parse(&csv::cells(&run)).into_iter();
        let mut series = parse(&csv::series(&run)).into_iter();
        for cell in document["cells"].as_array().unwrap() {
            let kinds: Vec<&str> = OpKind::ALL
                .map(OpKind::name)
                .into_iter()
                .filter(|k| cell[k]["ops"].as_u64().is_some_and(|n| n > 0))
                .collect();
            if kinds.is_empty() {
                let row = rows.next().unwrap();
                assert_eq!((row["kind"].as_str(), row["ops"].as_str()), ("", "0"), "{name}");
            }
            for kind in &kinds {
                let (row, object) = (rows.next().unwrap(), &cell[kind]);
                let safe = |text: &Value| iodyno_page::csv::safe(text.as_str().unwrap());
                for key in ["target", "workload", "engine", "ended", "level"] {
                    assert_eq!(row[key], safe(&cell[key]), "{name}");
                }
                assert_eq!(row["cell"], safe(&cell["name"]), "{name}");
                assert_eq!(row["kind"], *kind);
                for key in ["threads", "depth", "block_bytes", "offered_iops", "oio_mean"] {
                    assert_eq!(row[key], number(&cell[key]), "{name} {key}");
                }
                for key in ["ops", "iops", "bytes", "bytes_per_s", "errors"] {
                    assert_eq!(row[key], number(&object[key]), "{name} {key}");
                }
                let latency = &object["latency_ns"];
                for (key, value) in latency.as_object().unwrap() {
                    if key == "within" {
                        continue;
                    }
                    // A percentile that is shown says how well it is known, here and there.
                    if key.starts_with('p') {
                        let within = &latency["within"][key];
                        assert_eq!(within.is_null(), value.is_null(), "{name} {key}");
                        for end in ["low", "high"] {
                            let column = format!("latency_{key}_{end}_ns");
                            assert_eq!(row[&column], number(&within[end]), "{name} {column}");
                        }
                    }
                    assert_eq!(row[&format!("latency_{key}_ns")], number(value), "{name} {key}");
                    let service = &object["service_ns"][key];
                    assert_eq!(row[&format!("service_{key}_ns")], number(service), "{name} {key}");
                }
            }
            for interval in cell["series"].as_array().unwrap() {
                for kind in &kinds {
                    let (row, object) = (series.next().unwrap(), &interval[kind]);
                    for key in ["ops", "bytes", "errors"] {
                        assert_eq!(row[key], number(&object[key]), "{name} {key}");
                    }
                    assert_eq!(row["seconds"], number(&interval["seconds"]));
                    assert_eq!(row["latency_p99_ns"], number(&object["latency_ns"]["p99"]));
                }
            }
        }
        assert!(rows.next().is_none() && series.next().is_none(), "{name}: rows left");
    }
    insta::assert_snapshot!("cells_csv", csv::cells(&samples::several_targets()));
    insta::assert_snapshot!("series_csv", csv::series(&samples::open_loop()));
}

/// Compares with the reference implementation of HdrHistogram at two significant digits, which has the same number of
/// buckets per octave.
#[test]
fn hgrm_is_what_hdrhistogram_writes() {
    let run = samples::four_corners();
    let text = hgrm::text(&run);
    insta::assert_snapshot!("hgrm", text.split("\n\n# ").next().unwrap());
    assert_eq!(text.matches("TotalCount").count(), 4);
    for (section, cell) in text.split("# iodyno").skip(1).zip(&run.cells) {
        let total = cell.total();
        let ours: &Histogram = &total.iter().next().unwrap().1.service;
        let mut theirs = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 42, 2).unwrap();
        for bucket in ours.buckets() {
            theirs.record_n(bucket.middle_ns() as u64, bucket.count).unwrap();
        }
        let rows: Vec<Vec<f64>> = section
            .lines()
            .skip(3)
            .take_while(|l| !l.starts_with('#'))
            .map(|l| l.split_whitespace().map(|w| w.parse().unwrap()).collect())
            .collect();
        let expected: Vec<_> = theirs.iter_quantiles(5).collect();
        assert_eq!(rows.len(), expected.len());
        let mut seen = 0;
        for (row, step) in rows.iter().zip(&expected) {
            seen += step.count_since_last_iteration();
            assert!((row[1] - step.quantile_iterated_to()).abs() < 1e-9, "{row:?} {step:?}");
            assert_eq!(row[2], seen as f64);
            // Theirs is the upper end of a bucket, ours its middle or the exact maximum.
            let ns = step.value_iterated_to() as f64;
            assert!((row[0] * 1e3 - ns).abs() <= ns / 100.0, "{row:?} {step:?}");
        }
        assert_eq!((rows.last().unwrap()[0] * 1e3).round() as u64, ours.max_ns().unwrap());
    }
    let open = hgrm::text(&samples::open_loop());
    assert!(open.contains("read response time in microseconds"));
    assert!(open.contains("read service time in microseconds"));
    let hostile = hgrm::text(&samples::hostile());
    assert!(!hostile.contains(|c: char| c.is_control() && c != '\n'));
}

/// Collects the paths of all values. Skips the contents of `job options`, which differ between jobs.
fn paths(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        _ if at.ends_with("/job options") => {
            found.insert(at.to_owned());
        }
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| paths(value, &format!("{at}/{key}"), found));
        }
        Value::Array(list) => list.iter().for_each(|v| paths(v, &format!("{at}/*"), found)),
        _ => {
            found.insert(at.to_owned());
        }
    }
}

/// The document has all keys of a real fio. They come from `fio --output-format=json` for two jobs of the null engine,
/// one with reads and writes and one with syncs.
#[test]
fn fio_json_has_the_keys_of_fio() {
    let real: BTreeSet<String> =
        include_str!("data/fio-3.33-keys.txt").lines().map(str::to_owned).collect();
    let mut ours = BTreeSet::new();
    paths(&fio_document(&samples::open_loop(), Form::Json), "", &mut ours);
    let missing: Vec<_> = real.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let more: Vec<_> = ours.difference(&real).map(String::as_str).collect();
    // fio has job_start since 3.36, the error counts with --continue_on_error, and percentiles of
    // lat_ns with --lat_percentiles; global options with a job file.
    let known = ["/jobs/*/first_error", "/jobs/*/job_start", "/jobs/*/total_err"];
    // Ours have a place of their own.
    let prefixes = ["/global options/", "/iodyno/", "/jobs/*/iodyno/"];
    let unknown: Vec<_> = more
        .iter()
        .filter(|p| !known.contains(p) && !p.contains("/lat_ns/percentile/"))
        .filter(|p| !prefixes.iter().any(|prefix| p.starts_with(prefix)))
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn fio_json_has_the_numbers_of_the_json() {
    for (name, run) in samples::all() {
        let ours = document_json::document(&run, document_json::Options::default());
        let fio = fio_document(&run, Form::Json);
        let jobs = fio["jobs"].as_array().unwrap();
        // The merged cell of several targets is no job: sums over jobs would count it twice.
        let cells = ours["cells"].as_array().unwrap().iter();
        let cells: Vec<&Value> =
            cells.filter(|c| !c["target"].as_str().unwrap().starts_with("all (")).collect();
        assert_eq!(jobs.len(), cells.len(), "{name}");
        for (job, cell) in jobs.iter().zip(cells) {
            for (direction, kind) in [("read", "read"), ("write", "write"), ("trim", "trim")] {
                let (theirs, ours) = (&job[direction], &cell[kind]);
                let f64_of = |v: &Value| v.as_f64().unwrap_or(0.0);
                assert_eq!(f64_of(&theirs["iops"]), f64_of(&ours["iops"]), "{name}");
                assert_eq!(f64_of(&theirs["total_ios"]), f64_of(&ours["ops"]), "{name}");
                let bytes_per_s = f64_of(&ours["bytes_per_s"]);
                assert!((f64_of(&theirs["bw_bytes"]) - bytes_per_s).abs() < 1.0, "{name}");
                assert!((f64_of(&theirs["bw"]) * 1024.0 - bytes_per_s).abs() <= 1024.0, "{name}");
                assert_eq!(f64_of(&theirs["lat_ns"]["mean"]), f64_of(&ours["latency_ns"]["mean"]));
                if let Some(p99) = ours["latency_ns"]["p99"].as_u64() {
                    assert_eq!(theirs["lat_ns"]["percentile"]["99.000000"], p99);
                }
            }
            assert_eq!(job["sync"]["total_ios"], cell["flush"]["ops"]);
            let buckets = ["latency_ns", "latency_us", "latency_ms"].iter();
            let percent: f64 = buckets
                .flat_map(|k| job[k].as_object().unwrap().values())
                .map(|v| v.as_f64().unwrap())
                .sum();
            let ops: u64 = ["read", "write", "trim"]
                .iter()
                .map(|k| job[k]["total_ios"].as_u64().unwrap())
                .sum();
            assert!((percent - if ops > 0 { 100.0 } else { 0.0 }).abs() < 1e-6, "{name} {percent}");
        }
    }
    let fio = fio_document(&samples::four_corners(), Form::Json);
    assert_eq!(fio["fio version"], "fio-3.36 (iodyno 0.1.0)");
    assert_eq!(fio["time"], "Sat Nov 21 09:54:45 2026");
    let patterns = ["randread", "randwrite", "read", "write"];
    for (job, pattern) in fio["jobs"].as_array().unwrap().iter().zip(patterns) {
        assert_eq!(job["job options"]["rw"], pattern);
        assert_eq!(job["job options"]["ioengine"], "io_uring");
        assert!(job["job options"].as_object().unwrap().values().all(Value::is_string));
    }
    assert_eq!(fio["jobs"][0]["iodepth_level"]["32"], 100.0);
    assert_eq!(fio["jobs"][2]["iodepth_level"]["8"], 100.0);
    // 10 s of one worker at 5 % user and 12.5 % kernel time.
    assert_eq!(fio["jobs"][0]["usr_cpu"], 5.0);
    assert_eq!(fio["jobs"][0]["sys_cpu"], 12.5);
}

/// Method steps without operations are not jobs. The options of a job are the requested values, not the achieved ones.
#[test]
fn fio_json_has_the_jobs_that_issued_something() {
    let mut run = samples::open_loop();
    let workload = run.cells[0].key.workload.clone();
    let spec = json!({ "mix": { "read": 60, "write": 40 }, "limits": { "time": "200ms" } });
    run.head.workloads =
        vec![iodyno_notebook::WorkloadRecord { name: workload, spec: spec.clone() }];
    let mut purge = iodyno_measure::Cell::default();
    purge.key.place = Some(iodyno_measure::Place::default());
    run.cells.insert(0, purge);
    run.cells[1].key.place = Some(iodyno_measure::Place::default());
    let options = |run: &_| {
        let fio = fio_document(run, Form::Json);
        assert_eq!(fio["jobs"].as_array().unwrap().len(), 1);
        fio["jobs"][0]["job options"].clone()
    };
    let asked = options(&run);
    assert_eq!((&asked["rwmixread"], &asked["runtime"]), (&json!("60"), &json!("200ms")));
    // What a method varied goes before; a cell that was cut short has the time that it took.
    run.cells[1].key.place.as_mut().unwrap().at = vec![("read".to_owned(), "90%".to_owned())];
    run.cells[1].ended = iodyno_measure::Ended::Interrupted;
    run.cells[1].window_ns = 9_876_543_210;
    let asked = options(&run);
    assert_eq!((&asked["rwmixread"], &asked["runtime"]), (&json!("90"), &json!("9877ms")));
    // Two workloads by one name: which was meant is not known.
    let other = json!({ "mix": { "read": 10, "write": 90 } });
    let name = run.head.workloads[0].name.clone();
    run.head.workloads.push(iodyno_notebook::WorkloadRecord { name, spec: other });
    run.cells[1].key.place.as_mut().unwrap().at.clear();
    assert_eq!(options(&run)["rwmixread"], "70");
}

/// The options of a job describe its operations: a sequential kind that differs from the default for all kinds, a rate
/// per job, the share of reads. All percentiles that parsers of fio's JSON look up are present, and those with too few
/// samples are listed.
#[test]
fn fio_json_says_what_was_issued() {
    let mut run = samples::four_corners();
    let name = run.cells[2].key.workload.clone();
    let spec = run.head.workloads.iter_mut().find(|w| w.name == name).unwrap();
    spec.spec = json!({
        "all": { "addresses": [{ "pattern": "uniform", "share": 1 }] },
        "read": { "addresses": [{ "pattern": "sequential", "share": 1, "shared": true }] },
    });
    run.cells[2].key.threads = 4;
    run.cells[2].key.offered_iops = Some(1000.0);
    let job = &fio_document(&run, Form::Json)["jobs"][2];
    assert_eq!(job["job options"]["rw"], "read");
    assert_eq!(job["job options"]["rate_iops"], "250");
    assert!(job["job options"].get("rwmixread").is_none());
    let mixed = fio_document(&samples::open_loop(), Form::Json);
    let options = &mixed["jobs"][0]["job options"];
    assert_eq!((&options["rw"], &options["rwmixread"]), (&json!("randrw"), &json!("70")));
    let ours = document_json::document(&run, document_json::Options::default());
    for (job, cell) in fio_document(&run, Form::Json)["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .zip(ours["cells"].as_array().unwrap())
    {
        for kind in ["read", "write"] {
            if cell[kind]["ops"].as_u64().is_none_or(|n| n == 0) {
                continue;
            }
            assert_eq!(job[kind]["clat_ns"]["percentile"].as_object().unwrap().len(), 17);
            let unsupported = job["iodyno"]["unsupported_percentiles"][kind].as_array();
            let is_named = unsupported.is_some_and(|all| all.contains(&json!("99.990000")));
            assert_eq!(is_named, cell[kind]["latency_ns"]["p99_99"].is_null(), "{job}");
        }
    }
}

/// Rates are per kind, as in fio. Flushes after writes and a time limit become options, too. Values that a method
/// varied override those of the workload.
#[test]
fn fio_json_has_rates_by_kind_flushes_and_the_time_limit() {
    let mut run = samples::open_loop();
    let name = run.cells[0].key.workload.clone();
    let spec =
        json!({ "mix": { "read": 2.0 / 3.0, "write": 1.0 / 3.0 }, "write": { "flush_every": 8 } });
    run.head.workloads = vec![iodyno_notebook::WorkloadRecord { name, spec }];
    let cell = &mut run.cells[0];
    (cell.key.offered_iops, cell.key.threads) = (Some(300.0), 2);
    cell.ended = iodyno_measure::Ended::Time;
    let options = |run: &_| fio_document(run, Form::Json)["jobs"][0]["job options"].clone();
    let asked = options(&run);
    assert_eq!(asked["rate_iops"], "100,50");
    assert_eq!((&asked["fsync"], &asked["time_based"]), (&json!("8"), &json!("1")));
    let cell = &mut run.cells[0];
    cell.ended = iodyno_measure::Ended::Ops;
    let at = vec![("fsync".to_owned(), "0".to_owned()), ("read".to_owned(), "50%".to_owned())];
    cell.key.place = Some(iodyno_measure::Place { at, ..iodyno_measure::Place::default() });
    let asked = options(&run);
    assert_eq!(asked["rate_iops"], "75,75");
    assert!(asked.get("fsync").is_none() && asked.get("time_based").is_none(), "{asked}");
    // A kind that the job does not have is left out of the list.
    for interval in &mut run.cells[0].series {
        let reads = interval.class(OpKind::Read).cloned().unwrap_or_default();
        *interval.class_mut(OpKind::Trim) = reads;
        *interval.class_mut(OpKind::Read) = iodyno_measure::ClassStats::default();
    }
    let asked = options(&run)["rate_iops"].as_str().unwrap().to_owned();
    let rates: Vec<&str> = asked.split(',').collect();
    assert_eq!((rates.len(), rates[0]), (3, ""), "{asked}");
    let sum: u64 = rates[1..].iter().map(|rate| rate.parse::<u64>().unwrap()).sum();
    assert!((149..=151).contains(&sum), "{asked}");
}

/// The bins of `json+` add up to the histogram, and agree with the percentiles, which the test recomputes by rank.
#[test]
fn fio_bins_are_the_histogram() {
    for (name, run) in samples::all() {
        let plain = fio_document(&run, Form::Json);
        let plus = fio_document(&run, Form::JsonPlus);
        let (mut latencies, mut without) = (0, plus.clone());
        for job in without["jobs"].as_array_mut().unwrap() {
            for direction in ["read", "write", "trim", "sync"] {
                for latency in ["slat_ns", "clat_ns", "lat_ns"] {
                    let Some(of) = job[direction].get_mut(latency) else { continue };
                    let of = of.as_object_mut().unwrap();
                    let n = of["N"].as_u64().unwrap();
                    let Some(bins) = of.remove("bins") else {
                        assert_eq!(n, 0, "{name}");
                        continue;
                    };
                    latencies += 1;
                    let of_bin = |(ns, n): (&String, &Value)| {
                        (ns.parse::<u64>().unwrap(), n.as_u64().unwrap())
                    };
                    let mut bins: Vec<_> = bins.as_object().unwrap().iter().map(of_bin).collect();
                    bins.sort_unstable();
                    assert_eq!(bins.iter().map(|bin| bin.1).sum::<u64>(), n, "{name}");
                    let (min, max) = (of["min"].as_u64().unwrap(), of["max"].as_u64().unwrap());
                    for (percent, ns) in of["percentile"].as_object().unwrap() {
                        let rank =
                            (percent.parse::<f64>().unwrap() * n as f64 / 100.0 - 1e-9).ceil();
                        let mut seen = 0;
                        let bin = bins.iter().find(|bin| {
                            seen += bin.1;
                            seen as f64 >= rank
                        });
                        assert_eq!(ns.as_u64().unwrap(), bin.unwrap().0.clamp(min, max), "{name}");
                    }
                }
            }
            if let Some(zeroes) = job["iodyno"].get_mut("write_zeroes") {
                for latency in ["clat_ns", "lat_ns"] {
                    zeroes[latency].as_object_mut().unwrap().remove("bins");
                }
            }
        }
        assert_eq!(without, plain, "{name}: json+ has other values than json");
        assert!(latencies > 0, "{name}");
    }
}

/// Parses the rows of a fio log: time, value and direction of each.
fn rows_of_log(text: &str) -> Vec<Vec<u64>> {
    let row = |line: &str| line.split(", ").map(|field| field.parse().unwrap()).collect();
    text.lines().map(row).collect()
}

/// Logs and histogram logs add up to the totals of the JSON.
#[test]
fn fio_logs_add_up() {
    for (name, run) in samples::all() {
        let document = fio_document(&run, Form::Json);
        let jobs = document["jobs"].as_array().unwrap();
        for coarseness in [0, 3, 6] {
            let files: BTreeMap<String, String> = logs::files(&run, coarseness).collect();
            assert_eq!(files.len(), jobs.len() * 5, "{name}");
            for (file, text) in &files {
                let (stem, rest) = file
                    .rsplit_once("_bw.")
                    .or(file.rsplit_once("_iops."))
                    .unwrap_or(file.rsplit_once("_clat_hist.").unwrap_or_default());
                if stem.is_empty() {
                    continue;
                }
                let number: usize = rest.strip_suffix(".log").unwrap().parse().unwrap();
                let job = &jobs[number - 1];
                let options = &job["job options"];
                let word = |key: &str| options[key].as_str().unwrap().to_owned();
                let (rw, depth, threads) = (word("rw"), word("iodepth"), word("numjobs"));
                assert_eq!(stem, format!("{rw}-iodepth-{depth}-numjobs-{threads}"));
                let rows = rows_of_log(text);
                assert!(rows.is_sorted_by_key(|row| row[0]), "{name}");
                for (direction, kind) in [(0, "read"), (1, "write"), (2, "trim")] {
                    let total = &job[kind];
                    if file.contains("_clat_hist.") {
                        let of = rows.iter().filter(|row| row[1] == direction);
                        let counts: u64 = of
                            .map(|row| {
                                assert_eq!(row.len() - 3, 1856 >> coarseness);
                                row[3..].iter().sum::<u64>()
                            })
                            .sum();
                        assert_eq!(counts, total["total_ios"].as_u64().unwrap(), "{name}");
                        continue;
                    }
                    let of: Vec<_> = rows.iter().filter(|row| row[2] == direction).collect();
                    let (mut begin_ms, mut sum) = (0, 0.0);
                    for row in &of {
                        assert_eq!(row[3..], [0, 0]);
                        sum += (row[1] * (row[0] - begin_ms)) as f64 / 1e3;
                        begin_ms = row[0];
                    }
                    let key = if file.contains("_bw.") { "io_kbytes" } else { "total_ios" };
                    let expected = total[key].as_f64().unwrap();
                    assert!((sum - expected).abs() <= of.len() as f64, "{file}: {sum} {expected}");
                }
            }
        }
    }
}

/// A line of version 3 has the fields in the positions of fio's manual.
#[test]
fn fio_terse_has_the_fields_of_version_3() {
    let run = samples::open_loop();
    let (document, text) = (fio_document(&run, Form::Json), terse::text(&run));
    let job = &document["jobs"][0];
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(';').collect()).collect();
    assert_eq!(lines.len(), document["jobs"].as_array().unwrap().len());
    let fields = &lines[0];
    // 5 of the job, 41 of each direction, 5 of the processor, 7 of depths, 10 and 12 of latencies.
    assert_eq!(fields.len(), 5 + 2 * 41 + 5 + 7 + 10 + 12);
    assert_eq!((fields[0], fields[1]), ("3", "fio-3.36 (iodyno 0.1.0)"));
    for (at, direction) in [(5, "read"), (46, "write")] {
        let of = &job[direction];
        assert_eq!(fields[at], of["io_kbytes"].to_string());
        assert_eq!(fields[at + 1], of["bw"].to_string());
        assert_eq!(fields[at + 2], of["iops"].as_f64().unwrap().floor().to_string());
        assert_eq!(fields[at + 3], of["runtime"].to_string());
        assert_eq!(fields[at + 8], (of["clat_ns"]["min"].as_u64().unwrap() / 1000).to_string());
        let median = of["clat_ns"]["percentile"]["50.000000"].as_u64().unwrap() / 1000;
        assert_eq!(fields[at + 12 + 6], format!("50.000000%={median}"));
        assert_eq!(fields[at + 12 + 17], "0%=0");
        assert_eq!(fields[at + 33], (of["lat_ns"]["max"].as_u64().unwrap() / 1000).to_string());
        assert_eq!(fields[at + 38], "100.000000%");
    }
    let percents = fields[5 + 82 + 5 + 7..].iter().map(|f| f.strip_suffix('%').unwrap());
    let all: f64 = percents.map(|f| f.parse::<f64>().unwrap()).sum();
    assert!((all - 100.0).abs() < 0.2, "{all}");
    // Names are foreign text: none may add a field or move a cursor.
    let hostile = terse::text(&samples::hostile());
    assert!(!hostile.contains(|c: char| c.is_control() && c != '\n'));
    assert!(hostile.lines().all(|line| line.split(';').count() == fields.len()));
}
