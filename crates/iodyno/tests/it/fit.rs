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

/// Writes of an emulated volume are fitted, although its name has no state; and so are short cells, in which a limit
/// still allows more than its rate.
#[test]
fn writes_of_an_emulated_volume_are_fitted() {
    let place = Place::new();
    let text = place.iodyno("catalog virtual-disk").succeeds().stdout.clone();
    let slow = text.replace("write = { is = \"300us\"", "write = { is = \"900us\"");
    assert_ne!(slow, text);
    place.write("slow.toml", &slow);
    let document = place.iodyno("fit model:./slow.toml --time 200ms --json").succeeds().json();
    valid(&document);
    assert_eq!(document["target"], "model:./slow.toml?state=sequential");
    let parameters = document["parameters"].as_array().unwrap();
    for (key, value_ns) in [("volume.read", 300e3), ("volume.write", 900e3)] {
        let of = parameters.iter().find(|p| p["key"] == key).unwrap();
        assert_ne!(of["known"], "not_identified", "{of}");
        assert!((number(&of["value"]) / value_ns - 1.0).abs() < 0.03, "{of}");
    }
}

/// The file of a twin that fits badly, because the device is of another kind, says so.
#[test]
fn a_twin_that_is_not_to_be_used_says_so() {
    let place = Place::new();
    let words = "fit model:hdd-15k-300g --like ramdisk-ddr3-16g --time 2s --json -o no.toml";
    let output = place.iodyno(words);
    output.exits(9);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    valid(&document);
    assert_eq!((&document["misfit"], &document["worthless"]), (&true.into(), &true.into()));
    let file = std::fs::read_to_string(place.path("no.toml")).unwrap();
    for expected in ["no device with the structure", "the nearest measured cell predicts"] {
        assert!(file.contains(&format!("# Do not use: {expected}")), "{file}");
    }
}

/// Cells, devices and flags with which no fit is possible are refused with the reason.
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
    place.iodyno("fit model:ebs-gp3 --writes 0").fails(2, &["--read-only"]);
    place.iodyno("fit model:ebs-gp3 --like power8").fails(2, &["a system without devices"]);
    let plan = place.iodyno("fit model:hdd-10k-300g --plan");
    assert!(plan.succeeds().stdout.contains("read-inner-seq"));
    let plan = place.iodyno("fit model:ebs-gp3 --plan");
    assert!(plan.succeeds().stdout.contains("30 % of its operations"), "{}", plan.stdout);
}

/// Printed figures give the parameters on which they depend, and leave the others as in the device that the fit starts
/// from.
#[test]
fn a_twin_of_printed_figures_has_these_figures() {
    let place = Place::new();
    let sheet = r#"
schema = 1
title = "a data sheet"
capacity = "1TB"
[[figures]]
workload = "random-read"
depth = 64
threads = 8
iops = "800k/s"
[[figures]]
name = "latency"
workload = "random-read"
depth = 1
read_p50 = "90us"
held_out = true
"#;
    std::fs::write(place.path("sheet.toml"), sheet).unwrap();
    let words = "fit --figures sheet.toml --like nvme-tlc-3840g -o my.toml --json";
    let document = place.iodyno(words).succeeds().json();
    valid(&document);
    assert_eq!((&document["run"], &document["target"]), (&"".into(), &"a data sheet".into()));
    let parameter = |key: &str| {
        let all = document["parameters"].as_array().unwrap();
        all.iter().find(|p| p["key"] == key).unwrap().clone()
    };
    let command = parameter("controller.read_command");
    assert_eq!(command["known"], "identified");
    assert!((number(&command["value"]) / 1250.0 - 1.0).abs() < 0.02, "{command}");
    assert_eq!(parameter("nand.program_fast")["as_like"], true);
    assert_eq!(document["held_out"][0]["of"]["figure"], "p50");
    let run = "run random-read --depth 64 --threads 8 --time 100ms --json --on model:./my.toml";
    let run = place.iodyno(run).succeeds().json();
    let iops = number(&run["cells"][0]["total"]["iops"]);
    assert!((iops / 8e5 - 1.0).abs() < 0.02, "{iops}");
}

/// Faults in a file of figures are shown at their place.
#[test]
fn faults_in_printed_figures_are_shown() {
    let place = Place::new();
    let cases = [
        ("workload = \"random-read\"", "no figure is given"),
        ("workload = \"random-raed\"\niops = 5", "random-raed"),
        ("workload = \"random-read\"\nwrite_p99 = \"1ms\"", "the workload has no writes"),
        ("workload = \"random-read\"\nrate = 100\niops = 100", "says nothing about the device"),
        ("workload = \"random-read\"\niops = 9\nthroughput = \"1 MB/s\"", "both given"),
    ];
    for (figure, expected) in cases {
        let text = format!("title = \"t\"\n[[figures]]\n{figure}\n");
        std::fs::write(place.path("sheet.toml"), text).unwrap();
        let output = place.iodyno("fit --figures sheet.toml --like nvme-tlc-3840g");
        output.exits(2);
        assert!(output.stderr.contains(expected), "{}", output.stderr);
        assert!(output.stderr.contains("sheet.toml:"), "{}", output.stderr);
    }
    place.iodyno("fit --figures sheet.toml").exits(2);
}

/// The steady state is measured after the target was overwritten twice.
#[test]
fn the_steady_state_is_measured_last() {
    let place = Place::new();
    let plan = place.iodyno("fit data.bin?size=64MiB --plan --steady");
    let plan = &plan.succeeds().stdout;
    assert!(plan.contains("overwrite the target twice: 128 MiB"), "{plan}");
    assert!(plan.contains("steady-write-4k-q256"), "{plan}");
    place.iodyno("fit model:ebs-gp3 --steady --plan").exits(2);
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
