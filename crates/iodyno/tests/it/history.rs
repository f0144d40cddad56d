//! `history` from the command line: the level of a workload's runs shifts when its device changes, and not before.

use crate::place::{Place, number};
use serde_json::Value;

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
        place.iodyno(&format!("{words} {seed}")).succeeds();
    };
    device(10_000);
    (0..6).for_each(run);
    let text = place.iodyno("history").succeeds().stdout.clone();
    assert!(text.contains("no shift"), "{text}");
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
    let ids: Vec<&Value> = cell["runs"].as_array().unwrap().iter().map(|r| &r["run"]).collect();
    let levels = cell["levels"].as_array().unwrap();
    assert_eq!((ids.len(), levels.len()), (12, 2), "{document}");
    assert_eq!(levels[1]["first_run"], *ids[6]);
    let shift = &levels[1]["shift"];
    assert!(number(&shift["low"]) < 0.96 && 0.96 < number(&shift["high"]), "{shift}");

    let last = place.iodyno("history random-read --json").succeeds().json();
    assert_eq!(last["cells"][0]["runs"].as_array().unwrap().len(), 1, "{last}");

    let output = place
        .iodyno("history random-read --on model:./disk.toml --metric p99 --report=history.html");
    output.succeeds();
    assert!(output.stdout.contains("read.p99"), "{}", output.stdout);
    let page = std::fs::read_to_string(place.path("history.html")).unwrap();
    assert!(page.contains("run, in order of time"));

    let output = place.iodyno("history sequential-read");
    output.exits(2);
    assert!(output.stderr.contains("no finished run of sequential-read"), "{}", output.stderr);
}
