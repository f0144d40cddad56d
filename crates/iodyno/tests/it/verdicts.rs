//! Every number carries its verdict: a misleading one has its code, and a sound one has no other
//! code.

use crate::place::{Place, cells, codes, number, whole};
use serde_json::Value;
use std::fs::File;

fn cell(place: &Place, words: &str) -> Value {
    cells(&place.document(words))[0].clone()
}

/// Repeats a run until it has this verdict, and returns the cell, because whether a rate is met also depends on the
/// machine's other load.
fn says(place: &Place, words: &str, code: &str) -> Value {
    let attempts = (0..5).map(|_| cell(place, words));
    attempts.into_iter().find(|found| codes(found).contains(&code)).unwrap_or_else(|| {
        panic!("`{words}` never gives {code}");
    })
}

/// If the target stores no content, the requested verification does not happen, and a verdict says so.
#[test]
fn nothing_is_verified_where_nothing_is_kept() {
    let place = Place::new();
    for target in ["null:", "model:exflash-400g"] {
        let found = cell(
            &place,
            &format!("run random-read --on {target} --content verifiable --ops 100 --ramp 0s"),
        );
        assert!(codes(&found).contains(&"UNVERIFIED_READS"), "{found}");
        assert!(!codes(&found).contains(&"VALID"));
    }
}

/// The merged cell of several targets has only the facts that all of them share.
#[test]
fn the_facts_of_one_target_are_not_those_of_all() {
    let place = Place::new();
    let document = place.document("run random-read --on null: --on ram:1MiB --ops 100");
    let [null, ram, all] = &cells(&document)[..] else { panic!("{document}") };
    assert_eq!(all["target"], "all (2 targets)");
    assert_ne!(null["facts"]["engine.why"], ram["facts"]["engine.why"]);
    let facts = all["facts"].as_object().unwrap();
    assert!(
        facts.iter().all(|(k, v)| null["facts"][k] == *v && ram["facts"][k] == *v),
        "{facts:?}"
    );
    assert!(facts.contains_key("clock"));
}

#[test]
fn a_rate_is_met_or_missed() {
    let place = Place::new();
    let words = "run random-read --on null: --rate 500/s --constant --time 500ms --ramp 0s";
    let met = says(&place, words, "RATE_MET");
    assert!(!codes(&met).contains(&"RATE_MISSED"));
    assert!(number(&met["read"]["iops"]) >= 0.97 * 500.0);
    // No file is that fast, least of all one I/O at a time.
    for engine in ["psync", "libaio"] {
        let words = format!("run random-read --on scratch:4MiB --rate 50M/s --engine {engine}");
        let missed = cell(&place, &format!("{words} --depth 1 --time 100ms --ramp 0s"));
        let found = codes(&missed);
        assert!(found.contains(&"RATE_MISSED") && !found.contains(&"RATE_MET"), "{found:?}");
        assert!(!found.contains(&"VALID") && missed["level"] == "warning");
        assert!(whole(&missed["backlog_ops"]) > 1_000_000, "{missed}");
        // Waiting counts in the response time and not in the service time.
        let read = &missed["read"];
        let (response, service) = (&read["latency_ns"]["mean"], &read["service_ns"]["mean"]);
        assert!(number(response) > 2.0 * number(service), "{read}");
    }
}

#[test]
fn the_page_cache_in_the_path_is_reported() {
    let place = Place::new();
    let short = "--depth 1 --time 100ms --ramp 0s";
    let found = cell(&place, &format!("run random-read --on t?size=4MiB&direct=no {short}"));
    let found_codes = codes(&found);
    assert!(
        found_codes.contains(&"PAGE_CACHE") && found_codes.contains(&"SMALL_TARGET"),
        "{found_codes:?}"
    );
    assert_eq!((&found["evidence"]["direct"], &found["level"]), (&false.into(), &"warning".into()));
    let found = cell(&place, &format!("run random-read --on t {short}"));
    if found["evidence"]["direct"] == true {
        assert!(!codes(&found).contains(&"PAGE_CACHE"));
    }
    // A mapping goes through the page cache too, unless it maps the medium itself.
    let found = cell(&place, &format!("run random-read --on t --engine mmap {short}"));
    if found["facts"]["mmap.flags"] != "MAP_SYNC" {
        assert!(codes(&found).contains(&"PAGE_CACHE"), "{found}");
    }
}

#[test]
fn blocks_that_were_never_written_are_reported() {
    let place = Place::new();
    File::create(place.path("sparse")).unwrap().set_len(8 << 20).unwrap();
    let short = "--depth 1 --time 50ms --ramp 0s";
    let found = cell(&place, &format!("run random-read --on sparse {short}"));
    assert!(codes(&found).contains(&"NEVER_WRITTEN"), "{found}");
    // Written with zeroes, it is no better: a device needs no medium to return those.
    place.write("zeroes", vec![0; 8 << 20]);
    let found = cell(&place, &format!("run random-read --on zeroes {short}"));
    assert!(codes(&found).contains(&"NEVER_WRITTEN"), "{found}");
    assert_eq!(found["evidence"]["blocks_zero"], found["evidence"]["blocks_sampled"]);
    // iodyno's layout has none, and neither have another program's data.
    for target in ["scratch:8MiB", "ram:8MiB", "fresh?size=8MiB"] {
        let found = cell(&place, &format!("run random-read --on {target} {short}"));
        assert!(!codes(&found).contains(&"NEVER_WRITTEN"), "{target}: {found}");
    }
}

/// A verdict is computed from the kept data, so an old run shows the same ones.
#[test]
fn notes_appear_beside_valid() {
    let place = Place::new();
    let found = cell(&place, "run random-read --on ram:1MiB --ops 2000 --ramp 0s");
    let found_codes = codes(&found);
    assert!(found_codes.contains(&"FEW_SAMPLES"), "{found_codes:?}");
    let levels: Vec<&str> = found["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["level"].as_str().unwrap())
        .collect();
    let weight =
        |level: &&str| ["invalid", "warning", "valid", "note"].iter().position(|l| l == level);
    assert!(levels.is_sorted_by_key(weight), "the gravest first: {levels:?}");
    let is_valid = !levels.iter().any(|level| ["warning", "invalid"].contains(level));
    assert_eq!(found_codes[0] == "VALID", is_valid, "{found_codes:?}");
    let shown = place.iodyno("show last --json").succeeds().json();
    assert_eq!(cells(&shown)[0]["verdicts"], found["verdicts"]);
}

/// Notes about the machine that an earlier run printed are only counted; `show` and JSON have them all.
#[test]
fn notes_about_the_machine_are_printed_once() {
    let place = Place::new();
    let run = || place.iodyno("run random-read --on t.img?size=4MiB --time 50ms --ramp 0s -q");
    let (first, second) = (run(), run());
    let code = "VIRTUAL_MACHINE";
    if !first.succeeds().stdout.contains(code) {
        return;
    }
    assert!(!second.stdout.contains(code), "{}", second.stdout);
    assert!(
        second.stdout.contains("about this machine, as in earlier runs · see --notes"),
        "{}",
        second.stdout
    );
    // Facts on the target that are known are printed as a code only.
    assert!(!second.stdout.contains("SMALL_TARGET: "), "{}", second.stdout);
    for words in ["show last", "show last --notes", "show last --json"] {
        assert!(place.iodyno(words).stdout.contains(code), "{words}");
    }
    let words = "run random-read --on t.img --time 50ms --ramp 0s -q --notes";
    assert!(place.iodyno(words).stdout.contains(code));
}
