//! Comparisons, thresholds and repeats from the command line, in virtual time: a device against
//! itself, against a slower one, and with too few runs. Thresholds decide the exit code and are
//! stored with the run, and new ones can be applied to an old run.

use crate::contract::{RUN_SCHEMA, assert_valid};
use crate::place::{Place, Running, cells, number, whole};
use serde_json::{Value, json};
use std::process::Stdio;

const COMPARE_SCHEMA: &str = include_str!("../../../../docs/schema/compare-v1.schema.json");
const DEVICE: &str = "model:exflash-400g";
const SHORT: &str = "--time 60ms --ramp 10ms";

/// Writes a device of the catalog that takes longer to read a page. Returns its target name.
fn slower(place: &Place) -> String {
    let device = place.iodyno("catalog exflash-400g");
    let text = device.succeeds().stdout.replacen("\"73.2us\"", "\"87us\"", 1);
    assert!(text.contains("\"87us\""));
    place.write("slower.toml", text);
    "model:./slower.toml".to_owned()
}

fn verdicts(document: &Value) -> Vec<&str> {
    let rows = document["comparisons"].as_array().unwrap();
    rows.iter().map(|r| r["verdict"].as_str().unwrap()).collect()
}

/// The repeats of a sweep count as those of a single cell.
#[test]
fn sweeps_are_compared_by_their_repeats() {
    let place = Place::new();
    for (name, target) in [("a", DEVICE), ("b", slower(&place).as_str())] {
        let words = format!("run random-read --on {target} {SHORT} --name {name} -q");
        place.iodyno(&format!("{words} --vary depth=4,8 --repeat 6")).succeeds();
    }
    let document = place.iodyno("compare a b --json").exits(7).json();
    assert_eq!(document["comparisons"][0]["covers"], "repeats");
    assert_eq!(document["comparisons"][0]["values_a"].as_array().unwrap().len(), 6);
    assert!(verdicts(&document).contains(&"slower"), "{document}");
}

/// Rounds are compared by all rounds of the measurement window, not by the first one alone.
#[test]
fn rounds_are_compared_by_their_window() {
    let place = Place::new();
    place.write(
        "m.toml",
        "schema = 1\n[[stages]]\nname = \"rounds\"\ndo = \"rounds\"\nread = [\"100%\", \"0%\"]\nblock = \"4KiB\"\ndepth = 16\n\
         time = \"50ms\"\ntrack = [{ read = \"0%\", measure = \"iops\" }]\nsettle = false\n",
    );
    for seed in [1, 2] {
        place.iodyno(&format!("run ./m.toml --on {DEVICE} --seed {seed} -q")).succeeds();
    }
    let shown = place.iodyno("show last --json").succeeds().json();
    let rounds = &shown["findings"]["subjects"][0]["stages"][0]["showed"];
    let document = place.iodyno("compare last~1 last --json");
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    let values = document["comparisons"][0]["values_b"].as_array().unwrap();
    let of_window = whole(&rounds["rounds"]) - whole(&rounds["window_first"]) + 1;
    assert!(of_window > 1 && values.len() as u64 == of_window, "{of_window}: {document}");
}

#[test]
fn a_device_is_compared_with_itself_and_with_a_slower_one() {
    let place = Place::new();
    let slower = slower(&place);
    for (target, seed) in [(DEVICE, 11), (DEVICE, 12), (slower.as_str(), 13)] {
        let words = format!("run random-read --on {target} {SHORT} --seed {seed} --repeat 6 -q");
        place.iodyno(&words).succeeds();
    }
    // A against A.
    let same = place.iodyno("compare last~2 last~1 --json");
    let document = same.succeeds().json();
    assert_valid(COMPARE_SCHEMA, &document);
    assert!(verdicts(&document).iter().all(|v| ["same", "inconclusive"].contains(v)), "{document}");
    assert_eq!(document["comparisons"][0]["covers"], "repeats");
    assert_eq!(document["conditions"], json!([]));
    // A against a slower one, and the other way round.
    let document = place.iodyno("compare last~1 last --json").exits(7).json();
    assert_valid(COMPARE_SCHEMA, &document);
    assert_eq!(verdicts(&document), ["slower", "slower"]);
    let shift = number(&document["comparisons"][0]["shift_share"]);
    assert!((-0.15..-0.06).contains(&shift), "{shift}");
    let output = place.iodyno("compare last last~1 --strict");
    let shown = &output.succeeds().stdout;
    assert!(
        shown.contains("2 faster") && shown.contains("not from other runs or devices"),
        "{shown}"
    );
    // A shift below the given tolerance is no loss.
    place.iodyno("compare last~1 last --threshold 50%").succeeds();
}

#[test]
fn runs_go_by_their_name() {
    let place = Place::new();
    for seed in 0..8 {
        let name = ["before", "after"][seed % 2];
        let words = format!("run random-read --on {DEVICE} {SHORT} -q --seed {seed} --name {name}");
        place.iodyno(&words).succeeds();
    }
    let document = place.iodyno("compare before after --metric iops --json").succeeds().json();
    assert_eq!(document["a"]["runs"].as_array().unwrap().len(), 4);
    assert_eq!(document["comparisons"][0]["covers"], "runs");
    assert!(["same", "inconclusive"].contains(&verdicts(&document)[0]));
    let list = "last~3,last~1";
    let few = place.iodyno(&format!("compare {list} last~2,last"));
    // A gate that could never fail would be none.
    let shown = &few.exits(8).stdout;
    assert!(shown.contains("2 runs a side") && shown.contains("FEW_RUNS"), "{shown}");
    place.iodyno(&format!("compare {list} last --strict")).exits(8);
    // Errors are reported.
    place.iodyno("compare before before").fails(2, &["both sides"]);
    place.iodyno("compare before never").fails(2, &["no run `never`", "or its name"]);
    place.iodyno("compare before after --metric max").fails(2, &["percentile"]);
    place.iodyno("compare before after --metric write.iops").exits(8).says(&[]);
    place.iodyno("compare last last~8").fails(2, &["last~8"]);
    place.iodyno("run random-read --name last").fails(2, &["beginning with `last`"]);
}

#[test]
fn repeats_have_streams_of_their_own_and_one_summary() {
    let place = Place::new();
    let words = format!("run random-read --on {DEVICE} {SHORT}");
    let once = place.document(&words);
    let document = place.document(&format!("{words} --repeat 3"));
    assert_valid(RUN_SCHEMA, &document);
    let all = cells(&document);
    let repeats: Vec<u64> = all.iter().map(|c| whole(&c["repeat"])).collect();
    assert_eq!(repeats, [0, 1, 2]);
    assert_eq!(all[0]["total"], cells(&once)[0]["total"], "the first is the run without repeats");
    assert!(all[1]["total"] != all[0]["total"] && all[1]["seed"] != all[2]["seed"]);
    assert_eq!(document["run"]["plan"]["cells"], 3);
    let rates: Vec<f64> = all.iter().map(|c| number(&c["total"]["iops"])).collect();
    let mean = &document["repeats"][0];
    assert!((number(&mean["value"]) - rates.iter().sum::<f64>() / 3.0).abs() < 1e-6);
    assert!(number(&mean["interval"]["low"]) < number(&mean["lowest"]));
    assert_eq!(once["repeats"], json!([]));
    let shown = place.iodyno("show last");
    let shown = &shown.succeeds().stdout;
    assert!(shown.contains("random-read #3") && shown.contains("within this run"), "{shown}");
}

#[test]
fn thresholds_decide_the_exit_code() {
    let place = Place::new();
    let words = format!("run random-read --on {DEVICE} {SHORT} -q");
    let with = |requires: &[&str]| {
        let mut command = place.command(&words);
        for threshold in requires {
            command.args(["--require", threshold]);
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, shown) = with(&["p99<500ms", "random-*: iops>1k", "read.bandwidth >= 1MB/s"]);
    assert!(code == Some(0) && shown.matches("held").count() == 3, "{shown}");
    // One that fails, one that the samples can't support, one of an operation that did not occur.
    let (code, shown) = with(&["p99<1us", "p99.999<1s", "write: p50<1s", "iops>1"]);
    assert_eq!(code, Some(6), "{shown}");
    let failed = (shown.matches("not held").count(), shown.matches("not proven").count());
    assert_eq!(failed, (1, 2), "{shown}");
    // It is kept with the run; showing it again is no failure, but applying a threshold to it is.
    let document = place.iodyno("show last --json").succeeds().json();
    assert_valid(RUN_SCHEMA, &document);
    let held: Vec<bool> =
        document["thresholds"].as_array().unwrap().iter().map(|t| t["held"] == true).collect();
    assert_eq!(held, [false, false, false, true]);
    let strict = "run random-read -q --strict --time 200ms --on";
    place.iodyno(&format!("{strict} model:exflash-400g --no-notebook")).succeeds();
    place
        .iodyno(&format!("{strict} scratch:8MiB?direct=no --no-notebook"))
        .exits(6)
        .says(&["--strict: the result is not VALID: "]);
    let against = place.iodyno("show last --json --require p99<1us").exits(6).json();
    assert_eq!(against["thresholds"].as_array().unwrap().len(), 1);
    place.iodyno("show last --require iops>1").succeeds();
    place.iodyno("run random-read --require p99<5").fails(2, &["no unit of time", "    ^"]);
    place.iodyno("run random-read --require p99").fails(2, &["in quotes"]);
}

/// A result is close to its threshold if the threshold lies within the result's interval. It counts as met, with a
/// warning that only `--strict` turns into a failure.
#[test]
fn a_close_threshold_is_said() {
    let place = Place::new();
    let words = "run random-read --on model:exflash-400g --rate 2k/s --time 4s --interval 100ms";
    let document = place.document(words);
    let latency = &document["cells"][0]["read"]["latency_ns"];
    let p99 = latency["p99"].as_u64().unwrap();
    let run = |require: &str, more: &str| {
        let mut command = place.command(&format!("{words} -q {more}"));
        Running::of(
            command.args(["--require", require]).stdout(Stdio::piped()).stderr(Stdio::piped()),
        )
        .finish()
    };
    let close = format!("p99<={p99}ns");
    let output = run(&close, "");
    let text = output.succeeds().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("! held") && text.contains(", but its 95 % interval, "), "{text}");
    assert!(text.contains("crosses the limit"), "{text}");
    run(&close, "--strict")
        .exits(6)
        .says(&["--strict: the 95 % interval of a figure crosses its threshold"]);
    let shown = place.iodyno("show last --json").succeeds().json();
    assert_valid(RUN_SCHEMA, &shown);
    let outcome = &shown["thresholds"][0];
    assert_eq!((&outcome["held"], &outcome["close"]), (&true.into(), &true.into()), "{outcome}");
    assert!(number(&outcome["interval"]["high"]) > p99 as f64, "{outcome}");
    place.iodyno("report last --markdown").succeeds();
    let page = place.iodyno("report last --markdown").stdout.clone();
    assert!(page.contains("held, but close") && page.contains("crosses the limit"), "{page}");
    run(&format!("p99<={}ns", p99 * 2), "--strict").succeeds();
    let output = run(&format!("p99<{p99}ns"), "");
    assert!(
        output.exits(6).stdout.contains("not held") && output.stdout.contains(", but its"),
        "{}",
        output.stdout
    );
}

/// `--accept` takes warnings by name, and nothing else.
#[test]
fn a_strict_gate_accepts_named_warnings() {
    let place = Place::new();
    let run = "run random-read --ops 50 --depth 16 -q --on model:exflash-400g --strict";
    let document = place.iodyno(&format!("{run} --json")).exits(6).json();
    let verdicts = document["cells"][0]["verdicts"].as_array().unwrap();
    let warnings = verdicts.iter().filter(|v| v["level"] == "warning");
    let warnings: Vec<&str> = warnings.map(|v| v["code"].as_str().unwrap()).collect();
    assert!(warnings.contains(&"FEW_OPERATIONS"), "{verdicts:?}");
    let refused = format!("--strict: the result is not VALID: {}", warnings.join(", "));
    place.iodyno(run).exits(6).says(&[&refused]);
    let words = |but: &str| {
        let all = warnings.iter().filter(|code| **code != but);
        all.fold(String::new(), |words, code| format!("{words} --accept {}", code.to_lowercase()))
    };
    for code in &warnings {
        let refused = place.iodyno(&format!("{run}{}", words(code)));
        refused.exits(6).says(&[&format!("not VALID: {code}\n")]);
    }
    place.iodyno(&format!("{run}{}", words(""))).succeeds();
    // A threshold is no warning.
    place.iodyno(&format!("{run}{} --require iops<1", words(""))).exits(6);
    place.iodyno("run random-read --accept PAGE_CACHE --on null:").fails(2, &["--strict"]);
    place.iodyno("run random-read --strict --accept a,b").fails(2, &["name of a verdict"]);
    place.iodyno("run random-read --strict --accept page_cash").fails(2, &["mean PAGE_CACHE?"]);
}
