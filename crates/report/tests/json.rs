//! JSON documents conform to the published schemas, with the promised keys and the numbers of the cells.

use crate::samples;

use iodyno_measure::{Evidence, Level, Verdict};
use iodyno_method::MethodSource;
use iodyno_notebook::Status;
use iodyno_report::RunVerdict;
use iodyno_report::json::{Options, SCHEMA_LIST, SCHEMA_RUN, document, list};
use iodyno_units::OpKind;
use serde_json::{Value, json};

fn validator(schema: &str) -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(schema).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[track_caller]
fn assert_valid(validator: &jsonschema::Validator, document: &Value) {
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|e| format!("{} at {}", e, e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn documents_follow_their_schemas() {
    let (of_run, of_list) = (validator(SCHEMA_RUN), validator(SCHEMA_LIST));
    for (_, run) in samples::all() {
        for series in [false, true] {
            let document = document(&run, Options { series });
            assert_valid(&of_run, &document);
            // What was printed and read again is the same document.
            let text = serde_json::to_string(&document).unwrap();
            assert_valid(&of_run, &serde_json::from_str(&text).unwrap());
        }
    }
    let runs: Vec<_> = samples::all().iter().map(|(_, run)| samples::listed(run)).collect();
    assert_valid(&of_list, &list(&runs));
    assert_valid(&of_list, &list(&[]));
}

/// The schema rejects wrong documents; otherwise the other tests would prove nothing.
#[test]
fn the_schema_is_strict() {
    let validator = validator(SCHEMA_RUN);
    let good = document(&samples::several_targets(), Options { series: true });
    let mut count = 0;
    // Every object that is ours: a key more and each key less.
    for path in [
        "",
        "/run",
        "/run/targets/0",
        "/run/workloads/0",
        "/cells/0",
        "/cells/0/blocks/0",
        "/cells/0/read",
        "/cells/0/read/latency_ns",
        "/cells/0/read/other_error",
        "/cells/0/total",
        "/cells/0/stamps",
        "/cells/0/evidence",
        "/cells/0/cpu_workers/0",
        "/cells/0/verdicts/0",
        "/cells/0/series/0",
        "/cells/0/series/0/read",
        "/cells/0/series/0/read/latency_ns",
    ] {
        let mut more = good.clone();
        more.pointer_mut(path).unwrap()["surprise"] = json!(1);
        assert!(!validator.is_valid(&more), "a key more in {path}");
        let optional = ["trim", "series", "other_error", "within", "trimmed_bytes"];
        let series_kinds = path == "/cells/0/series/0";
        for key in good.pointer(path).unwrap().as_object().unwrap().keys() {
            if optional.contains(&key.as_str()) || (series_kinds && key != "seconds") {
                continue;
            }
            let mut less = good.clone();
            less.pointer_mut(path).unwrap().as_object_mut().unwrap().remove(key);
            assert!(!validator.is_valid(&less), "{path} without {key}");
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

/// The document has the promised keys with the right values.
#[test]
fn the_contract_holds() {
    let run = samples::several_targets();
    let doc = document(&run, Options::default());
    assert_eq!(doc["schema"], 1);
    assert_eq!(doc["run"]["id"], "k3m9x2p7ha");
    assert_eq!(doc["cells"].as_array().unwrap().len(), run.cells.len());
    for (object, cell) in doc["cells"].as_array().unwrap().iter().zip(&run.cells) {
        let total = cell.total();
        let seconds = cell.window_ns as f64 / 1e9;
        assert_eq!(object["name"], json!(cell.key.name));
        assert_eq!(object["threads"], 2);
        assert_eq!(object["depth"], 4);
        assert_eq!(object["block_bytes"], json!(cell.key.blocks[0].0));
        assert_eq!(object["seconds"], seconds);
        assert_eq!(object["generator_ns_per_io"], 28.5);
        // Reads, and trims beside them.
        assert_eq!(object["total"]["iops"], object["read"]["iops"]);
        assert_eq!(object["total"]["ops_per_s"], total.ops() as f64 / seconds);
        assert_eq!(object["total"]["bytes_per_s"], total.bytes() as f64 / seconds);
        let read = total.class(OpKind::Read).unwrap();
        assert_eq!(object["read"]["ops"], read.ops());
        assert_eq!(object["read"]["iops"], read.ops() as f64 / seconds);
        assert_eq!(object["read"]["bytes_per_s"], read.bytes as f64 / seconds);
        assert_eq!(object["read"]["errors"], read.errors.total());
        let latency = &object["read"]["latency_ns"];
        assert_eq!(latency["min"], json!(read.service.min_ns()));
        assert_eq!(latency["mean"], json!(read.service.mean_ns()));
        assert_eq!(latency["max"], json!(read.service.max_ns()));
        for (key, q) in [
            ("p50", 0.5),
            ("p90", 0.9),
            ("p99", 0.99),
            ("p99_9", 0.999),
            ("p99_99", 0.9999),
            ("p99_999", 0.99999),
        ] {
            assert_eq!(latency[key], json!(read.service.supported_quantile_ns(q)), "{key}");
        }
        // Always there, with zeroes and nulls where nothing happened.
        assert_eq!(object["write"]["ops"], 0);
        assert_eq!(object["write"]["latency_ns"]["p50"], Value::Null);
        assert_eq!(object["flush"]["iops"], 0.0);
        // There only where it happened.
        assert!(object.get("trim").is_some() && object.get("write_zeroes").is_none());
        assert!(object.get("series").is_none());
        for verdict in object["verdicts"].as_array().unwrap() {
            assert!(["code", "level", "text"].iter().all(|k| verdict[k].is_string()));
        }
    }
    let read = &doc["cells"][0]["read"];
    assert_eq!(read["errors_by_kind"], json!({"io": 17, "gone": 1, "other": 1}));
    assert_eq!(read["other_error"], json!({"number": 22, "name": "EINVAL"}));
    assert!(doc["cells"][1]["read"].get("other_error").is_none());
    assert_eq!(doc["cells"][0]["read"]["latency_ns"]["p99_999"], Value::Null);
}

/// In open loop, the latency is the response time, and the service time is given separately.
#[test]
fn open_loop_latency_is_response_time() {
    let run = samples::open_loop();
    let doc = document(&run, Options::default());
    let read = &doc["cells"][0]["read"];
    let stats = run.cells[0].total();
    let stats = stats.class(OpKind::Read).unwrap();
    assert_eq!(read["latency_ns"]["max"], json!(stats.response.as_ref().unwrap().max_ns()));
    assert_eq!(read["service_ns"]["max"], json!(stats.service.max_ns()));
    assert_ne!(read["latency_ns"]["max"], read["service_ns"]["max"]);
    assert_eq!(doc["cells"][0]["offered_iops"], 25_000.0);
    assert_eq!(doc["cells"][0]["backlog_ops"], 41_873);
    assert!(doc["cells"][0]["lateness_ns"]["p99"].is_u64());
}

/// The series contains every interval, adds up to the cell, and ends with the window.
#[test]
fn the_series_adds_up() {
    let mut run = samples::several_targets();
    run.cells[0].series.insert(1, iodyno_measure::Interval::default());
    run.cells[0].window_ns = 3_250_000_000;
    let doc = document(&run, Options { series: true });
    let cell = &doc["cells"][0];
    let series = cell["series"].as_array().unwrap();
    assert_eq!(series.len(), 4);
    let lengths: Vec<f64> = series.iter().map(|i| i["seconds"].as_f64().unwrap()).collect();
    assert_eq!(lengths, [1.0, 1.0, 1.0, 0.25]);
    for key in ["ops", "bytes", "errors"] {
        let sum: u64 = series.iter().map(|i| i["read"][key].as_u64().unwrap()).sum();
        assert_eq!(json!(sum), cell["read"][key], "{key}");
    }
    assert_eq!(series[1]["trim"]["ops"], 0);
    assert_eq!(series[1]["trim"]["latency_ns"]["max"], Value::Null);
}

/// Every field of the evidence is in the schema.
#[test]
fn all_evidence_is_in_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA_RUN).unwrap();
    let described = schema["$defs"]["evidence"]["properties"].as_object().unwrap();
    // Left out where there was no such thing.
    let evidence = Evidence {
        verification: Some(iodyno_measure::Verification::default()),
        trace: Some(String::new()),
        other_tool: Some(iodyno_measure::OtherTool::default()),
        passthrough: true,
        uncached: Some(iodyno_measure::Uncached::default()),
        disk_use: Some(iodyno_measure::DiskUse::default()),
        rank: Some(iodyno_measure::RankEvidence::default()),
        start_late_ns: Some(0),
        ranks: vec![iodyno_measure::RankFigures::default()],
        stores: vec![iodyno_measure::StoreLevel::default()],
        warm_up: Some(iodyno_measure::WarmUp::default()),
        skew_missing: true,
        forced_share: 1.0,
        modules_per_driver_thread: Some(2),
        ..Evidence::default()
    };
    let stored = serde_json::to_value(evidence).unwrap();
    let of_rank: Vec<&String> = stored["ranks"][0].as_object().unwrap().keys().collect();
    let described_of_rank = described["ranks"]["items"]["properties"].as_object().unwrap();
    assert_eq!(of_rank.len(), described_of_rank.len());
    assert!(of_rank.iter().all(|key| described_of_rank.contains_key(*key)), "{of_rank:?}");
    let mut keys: Vec<&String> = stored.as_object().unwrap().keys().collect();
    let mut described: Vec<&String> = described.keys().collect();
    keys.sort();
    described.sort();
    assert_eq!(keys, described);
}

#[test]
fn lists_are_in_the_order_given() {
    let runs = [samples::listed(&samples::open_loop()), samples::listed(&samples::crashed())];
    let doc = list(&runs);
    assert_eq!(doc["runs"][0]["name"], "db-oltp");
    assert_eq!(doc["runs"][0]["level"], "warning");
    assert_eq!(doc["runs"][1]["status"], "crashed");
    assert_eq!(doc["runs"][1]["ended"], Value::Null);
    assert_eq!(doc["runs"][1]["cells"], 2);
    let failed = list(&[samples::listed(&samples::hostile())]);
    assert_eq!(failed["runs"][0]["reason"], "\u{7}the device\nis gone");
}

/// A method in progress is not UNFINISHED, and an unfinished one has not failed.
#[test]
fn a_method_that_goes_on_is_not_unfinished() {
    let text = "schema = 1\n[[stages]]\ndo = \"cells\"\ntime = \"1s\"\n".to_owned();
    let source = MethodSource { name: "m".to_owned(), text, ..MethodSource::default() };
    let mut run = samples::four_corners();
    run.cells.clear();
    run.head.plan = json!({ "method": source });
    run.status = Status::Running;
    assert_eq!(RunVerdict::of(&run), RunVerdict::default());
    run.status = Status::Interrupted;
    let standing = RunVerdict::of(&run);
    assert_eq!(standing.level, Some(Level::Warning));
    assert_eq!(standing.verdicts[0].code, "UNFINISHED");
    assert!(!standing.has_failed());
}

/// Warnings of the run and of its cells can be accepted by name; a verdict of INVALID can't.
#[test]
fn doubts_are_those_that_nobody_accepted() {
    let mut run = samples::four_corners();
    run.head.plan = json!({});
    let codes =
        [("A", Level::Warning), ("A", Level::Invalid), ("B", Level::Warning), ("C", Level::Note)];
    for (at, cell) in run.cells.iter_mut().enumerate() {
        let of = codes.iter().skip(at).step_by(2);
        let of = of.map(|(code, level)| Verdict {
            code: (*code).to_owned(),
            level: *level,
            text: String::new(),
        });
        cell.verdicts = of.collect();
    }
    let doubts = |accepted: &[&str]| {
        let accepted: Vec<String> = accepted.iter().map(|code| (*code).to_owned()).collect();
        RunVerdict::of(&run).doubts(&run, &accepted)
    };
    assert_eq!(doubts(&[]), ["A", "B"]);
    assert_eq!(doubts(&["B", "C", "D"]), ["A"]);
    assert_eq!(doubts(&["A", "B"]), ["A"]);
}

/// The kinds of operation of a point add up to all of its operations, and have separate latencies.
#[test]
fn the_kinds_of_a_point_add_up() {
    let document = document(&samples::sweep_of_a_mix(), Options::default());
    let rows = &document["findings"]["subjects"][0]["stages"][0]["showed"]["table"]["rows"];
    for row in rows.as_array().unwrap() {
        let kinds = row["kinds"].as_array().unwrap();
        assert_eq!(
            kinds.iter().map(|of| of["kind"].clone()).collect::<Vec<_>>(),
            ["read", "write"]
        );
        let sum = |key: &str| kinds.iter().map(|of| of[key].as_f64().unwrap()).sum::<f64>();
        assert_eq!(sum("ops") as u64, row["ops"].as_u64().unwrap());
        for rate in ["iops", "bytes_per_s"] {
            let (sum, all) = (sum(rate), row[rate].as_f64().unwrap());
            assert!((sum - all).abs() < 1e-9 * all, "{rate}: {sum} and {all}");
        }
        let longest = kinds.iter().map(|of| of["max_ns"].as_u64().unwrap()).max();
        assert_eq!(longest, row["max_ns"].as_u64());
    }
}

/// The repeats of a sweep's cell are judged together by a threshold.
#[test]
fn repeats_of_a_sweep_are_judged_together() {
    let mut run = samples::sweep_of_a_mix();
    run.head.plan["thresholds"] = serde_json::json!(["read.iops>100"]);
    let document = document(&run, Options::default());
    let outcomes = document["thresholds"].as_array().unwrap();
    let repeats: Vec<_> = outcomes.iter().map(|o| o["repeats"].as_u64()).collect();
    assert_eq!(repeats, [Some(2); 4], "{outcomes:#?}");
}
