//! `fit` from the command line: the twin's file, page and JSON, a fit of a stored run, and refusals. `crates/fit` tests
//! that drawn devices are recovered.

use crate::place::{Place, number};
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../../docs/schema/fit-v1.schema.json");

fn valid(document: &Value) {
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    assert!(validator.is_valid(document), "{document}");
}

/// A volume of 3000 IOPS is measured; the fit starts from one of 10000, and its file behaves like the measured volume.
#[test]
fn a_twin_behaves_like_the_measured_volume() {
    let place = Place::new();
    let words = "fit model:ebs-gp3 --time 500ms -o my.toml --report=fit.html --json";
    let document = place.iodyno(words).succeeds().json();
    valid(&document);
    let parameters = document["parameters"].as_array().unwrap();
    let rate = parameters.iter().find(|p| p["key"] == "iops_limit.rate").unwrap();
    assert_eq!(rate["known"], "identified");
    assert!((number(&rate["value"]) / 3000.0 - 1.0).abs() < 0.03, "{rate}");
    let file = std::fs::read_to_string(place.path("my.toml")).unwrap();
    assert!(file.contains("from = \"fitted: 3.00 k/s"), "{file}");
    let page = std::fs::read_to_string(place.path("fit.html")).unwrap();
    assert!(page.contains("Mean latency of each cell"));

    let run = "run random-read --depth 64 --time 2s --json --on";
    let of = |target: &str| {
        let document = place.iodyno(&format!("{run} {target}")).succeeds().json();
        number(&document["cells"][0]["total"]["iops"])
    };
    let (twin, measured) = (of("model:./my.toml"), of("model:ebs-gp3"));
    assert!((twin / measured - 1.0).abs() < 0.03, "{twin} for {measured}");

    // The stored run gives the same twin again.
    let again = place.iodyno("fit --from fit --json").succeeds().json();
    valid(&again);
    assert_eq!(again["parameters"], document["parameters"]);
}

/// What can't be fitted is refused with the reason.
#[test]
fn what_cannot_be_fitted_is_refused() {
    let place = Place::new();
    let two = place.iodyno("run random-read --on model:ebs-gp3*2 --time 200ms --name two");
    two.succeeds();
    let output = place.iodyno("fit --from two");
    output.exits(2);
    assert!(output.stderr.contains("a fit takes a run with one"), "{}", output.stderr);
    let output = place.iodyno("fit model:ebs-gp3 --like raid5(hdd-10k-300g*4)");
    output.exits(2);
    assert!(output.stderr.contains("is an array"), "{}", output.stderr);
    let plan = place.iodyno("fit model:hdd-10k-300g --plan");
    assert!(plan.succeeds().stdout.contains("read-inner-seq"));
}

/// A fit writes at most as much as `--writes` allows after the ramps, in all cells that write.
#[test]
fn writes_are_limited() {
    let place = Place::new();
    let words = "fit model:ebs-gp3?size=8GiB --time 500ms --writes 120MiB";
    let plan = place.iodyno(&format!("{words} --plan"));
    assert!(plan.succeeds().stdout.contains("at most 120 MiB"), "{}", plan.stdout);
    place.iodyno(&format!("{words} --json")).succeeds();
    let run = place.iodyno("show last --json").succeeds().json();
    let cells = run["cells"].as_array().unwrap();
    let written: Vec<f64> = cells.iter().map(|cell| number(&cell["write"]["bytes"])).collect();
    // Operations in flight at the limit of a cell add to it.
    assert!((40e6..127e6).contains(&written.iter().sum()), "{written:?}");
    let ended = |cell: &&Value| cell["ended"] == "bytes";
    let names: Vec<&Value> = cells.iter().filter(ended).map(|cell| &cell["name"]).collect();
    assert!(names.iter().any(|name| *name == "seq-write-1m-q8"), "{names:?}");
}
