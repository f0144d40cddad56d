//! `history` from the command line: the level of a workload's runs shifts when its device changes, and not before.

use crate::place::{Place, RunOutput, Running, number};
use serde_json::{Value, json};
use std::process::Stdio;

/// Annotates a run, or removes its annotation.
fn annotate(place: &Place, words: &[&str]) -> RunOutput {
    let mut command = place.command("annotate");
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::of(&mut command).finish()
}

const SCHEMA: &str = include_str!("../../../../docs/schema/history-v1.schema.json");

/// Six runs on a device, and six after it became 4 % slower.
#[test]
fn a_slower_device_is_a_shift() {
    let place = Place::new();
    let device = |iops: u32| {
        let text = place.iodyno("catalog virtual-disk").succeeds().stdout.clone();
        assert!(text.contains("is = 10000,"));
        let slower = text.replace("is = 10000,", &format!("is = {iops},"));
        std::fs::write(place.path("disk.toml"), slower).unwrap();
    };
    let run = |seed: u32| {
        let words = "run random-read --time 500ms --depth 16 -q --on model:./disk.toml --seed";
        // A name does not separate a run from the others of its workload.
        let name = if seed.is_multiple_of(2) { "--name nightly" } else { "" };
        place.iodyno(&format!("{words} {seed} {name}")).succeeds();
    };
    device(10_000);
    (0..6).for_each(run);
    let text = place.iodyno("history --report=few.html").succeeds().stdout.clone();
    assert!(text.contains("no shift can be detected yet: at least 8 runs"), "{text}");
    assert!(!text.contains("left out"), "{text}");
    let few = std::fs::read_to_string(place.path("few.html")).unwrap();
    assert!(few.contains("No level is drawn: at least 8 runs"));
    device(9_600);
    (6..12).for_each(run);
    // Another workload on the device is another history, and so is the workload on another device.
    place.iodyno("run random-write --time 100ms --on model:./disk.toml").succeeds();
    place.iodyno("run random-read --time 100ms --on model:ebs-gp3").succeeds();

    let document =
        place.iodyno("history random-read --on model:./disk.toml --json").succeeds().json();
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    assert!(validator.is_valid(&document), "{document}");
    let cell = &document["cells"][0];
    let left_out = |targets: u32, workloads: u32, earlier: u32| json!({ "other_targets": targets, "other_workloads": workloads, "earlier": earlier });
    assert_eq!(document["left_out"], left_out(1, 0, 0));
    // What is left out, and what shows it.
    let text = place.iodyno("history --on model:./disk.toml --last 2").succeeds().stdout.clone();
    assert!(
        text.contains("random-write")
            && text.contains("13 runs of other workloads (iodyno history WORKLOAD)"),
        "{text}"
    );
    let text =
        place.iodyno("history random-read --on model:./disk.toml --last 5 --report=noted.html");
    let text = text.succeeds().stdout.clone();
    assert!(
        text.contains("left out: 1 run on other targets (--on TARGET), 7 earlier runs (--last N)"),
        "{text}"
    );
    let page = std::fs::read_to_string(place.path("noted.html")).unwrap();
    assert!(page.contains("left out: 1 run on other targets, 7 earlier runs"));
    let ids: Vec<&Value> = cell["runs"].as_array().unwrap().iter().map(|r| &r["run"]).collect();
    let levels = cell["levels"].as_array().unwrap();
    assert_eq!((ids.len(), levels.len()), (12, 2), "{document}");
    assert_eq!(levels[1]["first_run"], *ids[6]);
    let shift = &levels[1]["shift"];
    assert!(number(&shift["low"]) < 0.96 && 0.96 < number(&shift["high"]), "{shift}");

    // The same workload with other blocks is no shift.
    place
        .iodyno("run random-read --time 100ms -q --on model:./disk.toml --depth 16 --block 16KiB")
        .succeeds();
    let loads = place.iodyno("history random-read --json").succeeds().json();
    let counts = loads["cells"].as_array().unwrap().iter();
    let counts: Vec<_> = counts
        .map(|cell| (cell["block_bytes"].clone(), cell["runs"].as_array().unwrap().len()))
        .collect();
    assert_eq!(counts, [(4096.into(), 12), (16384.into(), 1)], "{loads}");

    // A text beside the first slower run is shown there, and can be replaced and removed.
    let slower = ids[6].as_str().unwrap();
    annotate(&place, &[slower, "firmware 2"]).succeeds();
    annotate(&place, &[slower, "limit of 9600"]).succeeds();
    let page = place.iodyno("history random-read --on model:./disk.toml --report=noted.html");
    assert!(page.stdout.contains(&format!("run {slower}: limit of 9600")), "{}", page.stdout);
    assert!(!page.stdout.contains("firmware"));
    assert!(std::fs::read_to_string(place.path("noted.html")).unwrap().contains("limit of 9600"));
    let noted = place.iodyno("history random-read --on model:./disk.toml --json").succeeds().json();
    assert!(validator.is_valid(&noted), "{noted}");
    let texts = noted["cells"][0]["runs"].as_array().unwrap().iter().map(|r| &r["annotation"]);
    let texts: Vec<&Value> = texts.filter(|text| !text.is_null()).collect();
    assert_eq!(texts, ["limit of 9600"]);
    assert!(place.iodyno(&format!("show {slower}")).succeeds().stdout.contains("limit of 9600"));
    // A report carries it to another notebook.
    place.iodyno(&format!("report {slower} --out moved.html")).succeeds();
    place.iodyno("import moved.html --notebook other.sqlite").succeeds();
    let moved = place.iodyno("show last --json --notebook other.sqlite").succeeds().json();
    assert_eq!(moved["run"]["annotation"], "limit of 9600");
    annotate(&place, &[slower]).succeeds();
    let shown = place.iodyno(&format!("show {slower} --json")).succeeds().json();
    assert!(shown["run"]["annotation"].is_null());
    for (run, text, why) in [
        ("last", "two\nlines", "without line ends"),
        ("last", "", "1 to 200"),
        ("zzzzzzzzzz", "a", "no run"),
    ] {
        let refused = annotate(&place, &[run, text]);
        refused.exits(2);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }

    place.iodyno("run random-read --time 100ms -q --on model:ebs-gp3").succeeds();
    let last = place.iodyno("history random-read --json").succeeds().json();
    assert_eq!(last["cells"][0]["runs"].as_array().unwrap().len(), 2, "{last}");

    let named = place.iodyno("history nightly --json").succeeds().json();
    assert_eq!(named["cells"][0]["runs"].as_array().unwrap().len(), 6, "{named}");
    for (text, count) in [("NIGHTLY", 6), ("random-read", 15), ("gp3", 2), ("20", 16), ("none", 0)]
    {
        let listed = place.iodyno(&format!("ls {text} --json")).succeeds().json();
        assert_eq!(listed["runs"].as_array().unwrap().len(), count, "{text}: {listed}");
    }
    assert!(place.iodyno("ls none").succeeds().stdout.contains("no run has `none`"));

    let output = place
        .iodyno("history random-read --on model:./disk.toml --metric p99 --report=history.html");
    output.succeeds();
    assert!(output.stdout.contains("read.p99"), "{}", output.stdout);
    let page = std::fs::read_to_string(place.path("history.html")).unwrap();
    assert!(page.contains("runs in chronological order"));

    let output = place.iodyno("history sequential-read");
    output.exits(2);
    assert!(output.stderr.contains("no finished run of sequential-read"), "{}", output.stderr);
}

/// Runs with different loads have no common history. For equal runs, the output says which shift would have been found.
#[test]
fn what_unlike_and_equal_runs_can_say() {
    let place = Place::new();
    let run = |words: &str| {
        let words = format!("run random-read --time 100ms -q --on model:virtual-disk {words}");
        place.iodyno(&words).succeeds();
    };
    for (name, rate) in [("before", 1000), ("before", 1100), ("after", 1200), ("after", 1300)] {
        run(&format!("--rate {rate}/s --name {name}"));
    }
    let text = place.iodyno("history random-read").succeeds().stdout.clone();
    assert!(
        text.contains("at least 8 runs are needed of each load, but these runs have 4 loads"),
        "{text}"
    );
    let compared = place.iodyno("compare before after");
    let said = compared.exits(8).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("the load of `random-read` differs: A has T1Q"), "{said}");
    for seed in 0..8 {
        run(&format!("--depth 4 --seed {seed} --name equal"));
    }
    let text = place.iodyno("history equal").succeeds().stdout.clone();
    assert!(text.contains("No shift found; a shift of "), "{text}");
    let share =
        &place.iodyno("history equal --json").succeeds().json()["cells"][0]["detectable_share"];
    assert!((0.001..=0.1).contains(&number(share)), "{share}");
}

/// Names of one file have a common history.
#[test]
fn names_of_one_file_have_one_history() {
    let place = Place::new();
    let path = place.path("d.img");
    for name in ["d.img?size=1MiB", "d.img", "../work/d.img?size=1MiB", path.to_str().unwrap()] {
        place.iodyno(&format!("run random-read --time 30ms --ramp 0s -q --on {name}")).succeeds();
    }
    place.iodyno("run random-read --time 30ms --ramp 0s -q --on d.img?size=512KiB").succeeds();
    let document = place.iodyno("history random-read --on d.img --json").succeeds().json();
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1, "{document}");
    assert_eq!(cells[0]["runs"].as_array().unwrap().len(), 4, "{document}");
    assert_eq!(document["left_out"]["other_targets"], 1);
}
