//! Tests the import of fio results: small files with known results, and mutated files.

use crate::mutation_budget;

use iodyno_exchange::fio_results::{LogFile, Results, read};
use iodyno_measure::{Cell, ClassStats, Histogram};
use iodyno_units::OpKind;
use iodyno_units::rng::{self, below};
use mutation_budget::Budget;
use serde_json::{Value, json};
use std::fmt::Write as _;

const JSON_PLUS: &str = include_str!("fio_results/plus.json");
const HISTOGRAMS: &str = include_str!("fio_results/h_clat_hist.1.log");

fn log(origin: &str, text: &str) -> LogFile {
    LogFile { origin: origin.to_owned(), text: text.to_owned() }
}

/// Service times of one kind of operation over the whole cell.
fn service(cell: &Cell, kind: OpKind) -> Histogram {
    cell.total().class(kind).expect("such operations").service.clone()
}

/// Compares a cell with fio's own results in the same JSON.
fn compare(cell: &Cell, job: &Value) {
    for (kind, key) in [(OpKind::Read, "read"), (OpKind::Write, "write"), (OpKind::Trim, "trim")] {
        let of = &job[key];
        let ops = of["total_ios"].as_u64().unwrap();
        if ops == 0 {
            assert!(cell.total().class(kind).is_none());
            continue;
        }
        let stats = cell.total().class(kind).unwrap().clone();
        assert_eq!(stats.ops(), ops, "{key}");
        assert_eq!(stats.bytes, of["io_bytes"].as_u64().unwrap(), "{key}");
        let iops = cell.per_second(ops as f64);
        assert!((iops / of["iops"].as_f64().unwrap() - 1.0).abs() < 0.01, "{key} {iops}");
        latencies(&stats.service, &of["clat_ns"]);
    }
    let syncs = job["sync"]["total_ios"].as_u64().unwrap_or(0);
    if syncs > 0 {
        assert_eq!(service(cell, OpKind::Flush).count(), syncs);
        latencies(&service(cell, OpKind::Flush), &job["sync"]["lat_ns"]);
    }
}

/// Minimum and maximum are equal, the mean is equal up to rounding, and each percentile is in fio's bin, within 1/64
/// of its value.
fn latencies(histogram: &Histogram, of: &Value) {
    assert_eq!(histogram.min_ns(), of["min"].as_u64());
    assert_eq!(histogram.max_ns(), of["max"].as_u64());
    let mean = of["mean"].as_f64().unwrap();
    assert!((histogram.mean_ns().unwrap() / mean - 1.0).abs() < 1e-4, "{histogram:?} {mean}");
    for (percentile, ns) in of["percentile"].as_object().unwrap() {
        let q = percentile.parse::<f64>().unwrap() / 100.0;
        let theirs = ns.as_f64().unwrap();
        // fio takes the next rank where rounding puts a whole rank above its count.
        let is_near = |q: f64| {
            (histogram.quantile_ns(q).unwrap() as f64 - theirs).abs() <= theirs / 64.0 + 1.0
        };
        assert!(is_near(q) || is_near(q + 1e-9), "p{percentile} is not {theirs}: {histogram:?}");
    }
}

fn jobs() -> Vec<Value> {
    let all: Value = serde_json::from_str(JSON_PLUS).unwrap();
    all["jobs"].as_array().unwrap().clone()
}

#[test]
fn bins_give_the_figures_that_fio_printed() {
    let results = read("plus.json", JSON_PLUS, &[]).unwrap();
    assert_eq!(results.program, "fio-3.33");
    assert_eq!((results.name.as_str(), results.cells.len()), ("rd+mix", 2));
    assert_eq!(results.remarks, [""; 0]);
    for (cell, job) in results.cells.iter().zip(jobs()) {
        compare(cell, &job);
        assert!(!cell.evidence.other_tool.as_ref().unwrap().only_percentiles);
    }
    let mix = &results.cells[1].key;
    assert_eq!((mix.threads, mix.depth, mix.engine.as_str()), (2, 1, "psync"));
    assert_eq!(mix.blocks.iter().map(|b| b.0).max(), Some(8192));
    assert_eq!(mix.offered_iops, Some(2.0 * 2.0 * 500.0));
}

/// fio 3.33 prints 0 as the number of calls of fdatasync.
#[test]
fn syncs_that_fio_does_not_count_are_counted_by_their_latencies() {
    let text = JSON_PLUS.replace("\"sync\":{\"total_ios\":248", "\"sync\":{\"total_ios\":0");
    assert_ne!(text, JSON_PLUS);
    let results = read("plus.json", &text, &[]).unwrap();
    assert_eq!(service(&results.cells[1], OpKind::Flush).count(), 248);
}

#[test]
fn percentiles_alone_stay_what_fio_printed() {
    let mut all: Value = serde_json::from_str(JSON_PLUS).unwrap();
    for job in all["jobs"].as_array_mut().unwrap() {
        for path in ["/read/clat_ns", "/write/clat_ns", "/sync/lat_ns"] {
            job.pointer_mut(path).unwrap().as_object_mut().unwrap().remove("bins");
        }
    }
    let results = read("plain.json", &all.to_string(), &[]).unwrap();
    for (cell, job) in results.cells.iter().zip(jobs()) {
        compare(cell, &job);
        assert!(cell.evidence.other_tool.as_ref().unwrap().only_percentiles);
    }
    // Without the percentiles that reports show, a job can't be imported.
    let clat = all.pointer_mut("/jobs/0/read/clat_ns/percentile").unwrap();
    clat.as_object_mut().unwrap().remove("50.000000");
    let results = read("plain.json", &all.to_string(), &[]).unwrap();
    assert_eq!((results.cells.len(), results.remarks.len()), (1, 1), "{:?}", results.remarks);
}

/// Each interval has the counts of its log row, and the total is that of the JSON.
#[test]
fn histogram_logs_give_the_latencies_of_each_interval() {
    let results = read("plus.json", JSON_PLUS, &[log("h_clat_hist.1.log", HISTOGRAMS)]).unwrap();
    let (plain, cell) = (read("plus.json", JSON_PLUS, &[]).unwrap(), &results.cells[0]);
    compare(cell, &jobs()[0]);
    assert!(cell.has_latency_over_time(OpKind::Read));
    let rows: Vec<u64> = HISTOGRAMS
        .lines()
        .map(|row| row.split(", ").skip(3).map(|n| n.parse::<u64>().unwrap()).sum())
        .collect();
    let reads: Vec<u64> =
        cell.series.iter().map(|i| i.class(OpKind::Read).unwrap().ops()).collect();
    assert_eq!(reads[..rows.len()], rows);
    assert_eq!(reads.iter().sum::<u64>(), service(&plain.cells[0], OpKind::Read).count());
    let coarse: String = HISTOGRAMS.lines().flat_map(|row| [&row[..200], "\n"]).collect();
    let problem = read("plus.json", JSON_PLUS, &[log("h_clat_hist.1.log", &coarse)]).unwrap_err();
    assert_eq!(problem.origin(), "h_clat_hist.1.log:1");
}

/// If fio wrote a row late, its operations are spread over the whole time since the previous row.
#[test]
fn a_late_row_of_a_histogram_log_leaves_no_gap() {
    let numbers = |row: &str| -> Vec<u64> {
        row.split(", ").skip(3).map(|n| n.trim().parse().unwrap()).collect()
    };
    let rows: Vec<&str> = HISTOGRAMS.lines().collect();
    let (first, second) = (numbers(rows[0]), numbers(rows[1]));
    let head: Vec<&str> = rows[1].split(", ").take(3).collect();
    let sums = first.iter().zip(&second).map(|(a, b)| (a + b).to_string());
    let late: Vec<String> = head.into_iter().map(str::to_owned).chain(sums).collect();
    let text = format!("{}\n{}\n", late.join(", "), rows[2..].join("\n"));
    let results = read("plus.json", JSON_PLUS, &[log("h_clat_hist.1.log", &text)]).unwrap();
    let series = &results.cells[0].series;
    let reads: Vec<u64> =
        series.iter().map(|interval| interval.class(OpKind::Read).unwrap().ops()).collect();
    let sum: u64 = first.iter().chain(&second).sum();
    assert_eq!(reads[0] + reads[1], sum);
    assert!(reads[0].abs_diff(reads[1]) <= 1, "{reads:?}");
}

/// A job of 4 s: 100 reads of 4 KiB each second, of 1, 2, 3 and 4 ms.
fn steps() -> (String, Vec<(u64, u64)>) {
    let rows: Vec<(u64, u64)> = (0..400).map(|i| (i * 10 + 9, (i / 100 + 1) * 1_000_000)).collect();
    let percentile: serde_json::Map<String, Value> = [50, 90, 99]
        .into_iter()
        .map(|p| (format!("{p}.000000"), json!(rows[p * 4 - 1].1)))
        .collect();
    let clat =
        json!({"min": 1_000_000, "max": 4_000_000, "mean": 2_500_000.0, "percentile": percentile});
    let job = json!({"jobname": "steps", "job options": {"filename": "/dev/x", "log_avg_msec": "0"},
        "read": {"io_bytes": 400 * 4096, "total_ios": 400, "runtime": 4000, "iops": 100.0, "clat_ns": clat}});
    let text =
        json!({"fio version": "fio-3.36", "timestamp_ms": 1_700_000_000_000_u64, "jobs": [job]});
    (text.to_string(), rows)
}

/// A log with a row per I/O.
fn each_io(rows: &[(u64, u64)]) -> String {
    let mut text = String::new();
    for (ms, ns) in rows {
        writeln!(text, "{ms}, {ns}, 0, 4096, 0").unwrap();
    }
    text
}

#[test]
fn a_log_of_each_io_is_exact_in_each_interval() {
    let (json, rows) = steps();
    let text = each_io(&rows);
    // Times from 1970 (log_unix_epoch) and an additional offset are the same job.
    let late: Vec<(u64, u64)> = rows.iter().map(|(ms, ns)| (ms + 1_700_000_000_000, *ns)).collect();
    let epoch = each_io(&late).replace(", 4096, 0", ", 4096, 77, 0x0000");
    for text in [text, epoch] {
        let results = read("steps.json", &json, &[log("s_clat.1.log", &text)]).unwrap();
        let cell = &results.cells[0];
        assert_eq!((cell.series.len(), cell.interval_ns), (40, 100_000_000));
        for (at, interval) in cell.series.iter().enumerate() {
            let stats = interval.class(OpKind::Read).unwrap();
            assert_eq!((stats.ops(), stats.bytes), (10, 40960), "{at}");
            let ns = (at as u64 / 10 + 1) * 1_000_000;
            assert_eq!((stats.service.min_ns(), stats.service.max_ns()), (Some(ns), Some(ns)));
        }
        assert!(!cell.evidence.other_tool.as_ref().unwrap().only_percentiles);
    }
    let few = each_io(&rows[..350]);
    let problem = read("steps.json", &json, &[log("s_clat.1.log", &few)]).unwrap_err();
    assert_eq!(problem.origin(), "s_clat.1.log:350");
}

/// Averages of 500 ms, without the last one: rates over time follow the log, and totals the JSON.
#[test]
fn averages_give_rates_and_keep_the_totals() {
    let (json, _) = steps();
    let json = json.replace("\"log_avg_msec\":\"0\"", "\"log_avg_msec\":\"500\"");
    let rates = [200, 0, 100, 100, 100, 100, 100];
    let mut iops = String::new();
    let mut both = String::new();
    for (at, rate) in rates.iter().enumerate().filter(|(_, rate)| **rate > 0) {
        writeln!(iops, "{}, {rate}, 0, 0, 0", (at + 1) * 500).unwrap();
        writeln!(both, "{}, {rate}, {rate}, 0, 0, 0", (at + 1) * 500).unwrap();
    }
    let durable = json.replace("\"filename\"", "\"sync\":\"dsync\",\"filename\"");
    for (json, share) in [(&json, 0.0), (&durable, 1.0)] {
        let cells = read("steps.json", json, &[]).unwrap().cells;
        assert!((cells[0].evidence.forced_share - share).abs() < 1e-9);
    }
    let json_both = json.replace("\"filename\"", "\"log_window_value\":\"both\",\"filename\"");
    for (json, text) in [(&json, &iops), (&json_both, &both)] {
        let results = read("steps.json", json, &[log("s_iops.1.log", text)]).unwrap();
        let cell = &results.cells[0];
        let ops: Vec<u64> =
            cell.series.iter().map(|i| i.class(OpKind::Read).map_or(0, ClassStats::ops)).collect();
        assert_eq!(ops, [100, 0, 50, 50, 50, 50, 50, 50]);
        let whole = service(cell, OpKind::Read);
        assert_eq!((whole.count(), whole.mean_ns()), (400, Some(2_500_000.0)));
        assert_eq!(whole, service(&read("a", json, &[]).unwrap().cells[0], OpKind::Read));
        assert_eq!(cell.total().bytes(), 400 * 4096);
        assert!(!cell.has_latency_over_time(OpKind::Read));
    }
    let other = iops.replace(", 200,", ", 900,");
    let problem = read("steps.json", &json, &[log("s_iops.1.log", &other)]).unwrap_err();
    assert!(problem.origin().starts_with("s_iops.1.log:"), "{problem}");
}

#[test]
fn text_around_and_several_outputs_are_read() {
    let (json, _) = steps();
    let earlier = json.replace("400", "200");
    let mixed = format!(
        "fio: a note\n{earlier}\n\nsteps: (groupid=0)\n  read: IOPS=100\n{json}\n{{\n  \"fio ver"
    );
    let results = read("mixed.json", &mixed, &[]).unwrap();
    assert_eq!(results.cells[0].total().ops(), 400);
    assert_eq!(results.remarks.len(), 2, "{:?}", results.remarks);
    for (text, origin) in [
        ("{\n \"fio version\": \"fio-3.1\",\n \"jobs\": [{\"jobname\": 1}]}", "x.json:3:23"),
        ("{\n \"fio version\": \"fio-3.1\",", "x.json:2:26"),
        ("no \"fio version\"", "x.json"),
        (&json.replace("fio-3.36", "fio-2.21"), "x.json"),
        (&json.replace("\"min\":1000000", "\"min\":99999999999999999"), "x.json"),
    ] {
        let problem = read("x.json", text, &[]).unwrap_err();
        assert_eq!(problem.origin(), origin, "{problem}");
        assert!(problem.help().is_some(), "{problem}");
    }
}

#[test]
fn threads_of_a_job_are_one_cell_and_their_logs_are_found() {
    let (json, rows) = steps();
    let mut all: Value = serde_json::from_str(&json).unwrap();
    let mut job = all["jobs"][0].clone();
    job["job options"]["numjobs"] = json!("2");
    let mut other = all["jobs"][0].clone();
    other["jobname"] = json!("other");
    all["jobs"] = json!([job.clone(), job, other]);
    let rows = each_io(&rows);
    let logs = [log("a_clat.1.log", &rows), log("a_clat.2.log", &rows), log("a_clat.3.log", &rows)];
    let results = read("t.json", &all.to_string(), &logs).unwrap();
    let counts: Vec<(u32, u64)> =
        results.cells.iter().map(|cell| (cell.key.threads, cell.total().ops())).collect();
    assert_eq!(counts, [(2, 800), (1, 400)]);
    let beyond = read("t.json", &all.to_string(), &[log("a_clat.4.log", &rows)]).unwrap_err();
    assert_eq!(beyond.origin(), "a_clat.4.log");
}

/// Asserts that the counts of cells are consistent, and that the cells can be stored.
fn judge(results: &Results) {
    assert!(!results.cells.is_empty() && !results.name.is_empty());
    for cell in &results.cells {
        let verdicts = iodyno_measure::verdict::judge(cell);
        assert!(verdicts.iter().all(|verdict| verdict.code != "VALID"));
        let text = serde_json::to_string(cell).unwrap();
        assert_eq!(serde_json::from_str::<Cell>(&text).unwrap().total(), cell.total());
    }
}

const PIECES: &[&str] = &[
    "1",
    "4096",
    "500",
    "1000000",
    "",
    "0",
    "-1",
    "1.5",
    "18446744073709551615",
    "1e300",
    "99999999999",
    "null",
    "{",
    "}",
    "[",
    "\"",
    ",",
    "\n",
    "{\n",
    "é",
    "4096",
    "\"mean\": 0",
    "\"total_ios\": 1",
    "\"runtime\": 0",
    "\"bins\": {}",
    "\"numjobs\": \"4096\"",
    "0, 1, 0, 4096, 0\n",
    "500, 1, 1, 0, 0\n",
    ", ",
];

/// Failures count as the kind that failed, also if no operation of that kind succeeded. fio tells the kind by the
/// number of latencies; where it does not, a note says so.
#[test]
fn failures_belong_to_the_kind_that_failed() {
    let mut all: Value = serde_json::from_str(JSON_PLUS).unwrap();
    let job = &mut all["jobs"][1];
    (job["error"], job["total_err"]) = (json!(30), json!(2001));
    job["job options"]["continue_on_error"] = json!("all");
    let none = json!({"min": 0, "max": 0, "mean": 0.0, "N": 0});
    (job["write"]["clat_ns"], job["write"]["lat_ns"]) = (none.clone(), none);
    let errors = |all: &Value| {
        let results = read("e.json", &all.to_string(), &[]).unwrap();
        let total = results.cells[1].total();
        let of = |kind| total.class(kind).map_or(0, |of| of.errors.total());
        (of(OpKind::Read), of(OpKind::Write), results.remarks.join("; "))
    };
    let (reads, writes, remarks) = errors(&all);
    assert_eq!((reads, writes), (0, 2001), "{remarks}");
    assert!(remarks.contains("2001 operations failed"), "{remarks}");
    all["jobs"][1]["total_err"] = json!(2003);
    let (reads, writes, remarks) = errors(&all);
    assert_eq!((reads, writes), (2, 2001));
    assert!(remarks.contains("which kind of operation failed 2 times"), "{remarks}");
}

/// A note says so if latencies include submission. Logs of clat keep their own values.
#[test]
fn latencies_that_include_submission_are_named() {
    let (json, rows) = steps();
    let mut all: Value = serde_json::from_str(&json).unwrap();
    let of = &mut all["jobs"][0]["read"];
    of["lat_ns"] = of["clat_ns"].clone();
    (of["lat_ns"]["max"], of["lat_ns"]["mean"]) = (json!(4_100_000), json!(2_600_000.0));
    of["clat_ns"].as_object_mut().unwrap().remove("percentile");
    let results = read("lat.json", &all.to_string(), &[]).unwrap();
    assert_eq!(service(&results.cells[0], OpKind::Read).mean_ns(), Some(2_600_000.0));
    assert_eq!(results.remarks.len(), 1, "{:?}", results.remarks);
    assert!(results.remarks[0].contains("its reads include submission: they are fio's lat"));
    let logged = read("l.json", &all.to_string(), &[log("s_clat.1.log", &each_io(&rows))]).unwrap();
    assert_eq!(service(&logged.cells[0], OpKind::Read).mean_ns(), Some(2_500_000.0));
    assert_eq!(logged.remarks, [""; 0]);
    // With disable_clat=1 fio's `_clat` log is empty.
    let logs = [log("s_clat.1.log", ""), log("s_lat.1.log", &each_io(&rows))];
    let total = read("l.json", &all.to_string(), &logs).unwrap();
    assert_eq!(total.remarks.len(), 1, "{:?}", total.remarks);
    assert!(total.remarks[0].contains("its latencies include submission"), "{:?}", total.remarks);
}

/// fio 3.33 adds an empty entry without a name if only the last job sets `group_reporting`.
#[test]
fn an_entry_without_a_name_is_left_out() {
    let mut all: Value = serde_json::from_str(JSON_PLUS).unwrap();
    let nameless = json!({"groupid": 4_294_967_295_u64, "read": {"io_bytes": 0, "total_ios": 0, "runtime": 0}});
    all["jobs"].as_array_mut().unwrap().insert(1, nameless);
    let results = read("n.json", &all.to_string(), &[]).unwrap();
    assert_eq!(results.name, "rd+mix");
    assert_eq!(results.remarks.len(), 1);
    assert!(results.remarks[0].starts_with("left out: 1 of 3 entries"), "{:?}", results.remarks);
}

/// Any text is imported or refused with a message. `IODYNO_FIO_RESULTS_MUTATIONS=1@537` runs only mutation 537.
#[test]
fn mutated_results() {
    let (steps, rows) = steps();
    let each = each_io(&rows);
    let rates = "500, 200, 0, 0, 0\n1000, 100, 0, 0, 0\n";
    let (mut taken, mut refused) = (0, 0);
    for number in Budget::asked("IODYNO_FIO_RESULTS_MUTATIONS", 600).numbers() {
        let mut random = rng::stream(1, "fio results", number);
        let (name, texts) = [
            ("", vec![JSON_PLUS]),
            ("h_clat_hist.1.log", vec![JSON_PLUS, HISTOGRAMS]),
            ("s_clat.1.log", vec![steps.as_str(), each.as_str()]),
            ("s_bw.1.log", vec![steps.as_str(), rates]),
        ][below(&mut random, 4) as usize]
            .clone();
        let mut texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
        for _ in 0..=below(&mut random, 4) {
            let which = below(&mut random, texts.len() as u64) as usize;
            let text = &mut texts[which];
            let mut at = below(&mut random, text.len() as u64 + 1) as usize;
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            if below(&mut random, 2) == 0 {
                // Another number.
                at = text[at..].find(|c: char| c.is_ascii_digit()).map_or(at, |next| at + next);
            }
            let rest = &text[at..];
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let end = at
                + if below(&mut random, 8) == 0 {
                    rest.chars().take(40).map(char::len_utf8).sum()
                } else {
                    digits
                };
            let pieces = if below(&mut random, 3) > 0 { &PIECES[..4] } else { PIECES };
            text.replace_range(at..end, pieces[below(&mut random, pieces.len() as u64) as usize]);
        }
        let logs: Vec<LogFile> = texts[1..].iter().map(|text| log(name, text)).collect();
        match read("m.json", &texts[0], &logs) {
            Ok(results) => {
                judge(&results);
                taken += 1;
            }
            Err(problem) => {
                assert!(!problem.message().is_empty());
                refused += 1;
            }
        }
    }
    println!("{taken} read, {refused} refused");
    assert!(taken + refused < 500 || taken.min(refused) > 50, "{taken} read, {refused} refused");
}
