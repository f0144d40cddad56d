//! Published studies from the command line. The study used here is of a RAM disk and takes a
//! moment; the catalog's study is read, and stopped once it has started.

use crate::place::{Place, number};
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../../docs/schema/study-v1.schema.json");

pub(crate) const STUDY: &str = r#"schema = 1
kind = "study"
title = "A RAM disk"
source = "nowhere"
published = "figures.csv"
systems = [{ name = "ram", host = "rtp", device = "ramdisk-ddr3-16g" }]
workloads = [{ name = "randread", read = "100%", addresses = "random", ops = 1000, ramp = "1ms" }]

[[panels]]
figure = "Table 1"
title = "rates"
workloads = ["randread"]
block = ["4KiB", "8KiB"]
depth = [1, 2]
devices = [1, 2]
metrics = ["iops_max"]
"#;

pub(crate) const FIGURES: &str =
    "figure,system,workload,block_bytes,queue_depth,threads,devices,metric,relation,\
value,resolution,unit,kind,note
Table 1,ram,randread,4096,,,1,iops_max,=,200000,500,1/s,table,
";

#[test]
fn a_study_is_one_document_or_a_page() {
    let place = Place::new();
    place.write("my.toml", STUDY);
    place.write("figures.csv", FIGURES);
    let output = place.iodyno("study my.toml --json");
    let document = output.succeeds().json();
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    assert!(validator.is_valid(&document), "{document}");
    assert_eq!(document["study"], "my");
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let printed: Vec<&Value> = rows.iter().filter(|row| !row["value"].is_null()).collect();
    let [row] = printed.as_slice() else { panic!("{rows:?}") };
    let error = number(&row["ours"]) / 200_000.0 - 1.0;
    assert!((number(&row["error"]) - error).abs() < 1e-12);
    // The number of threads changes nothing; another seed draws other streams.
    assert_eq!(place.iodyno("study my.toml --json --threads 1").succeeds().json(), document);
    let page = place.iodyno("study my.toml --quick --seed 7").succeeds().stdout.clone();
    assert!(page.contains("A RAM disk") && page.contains("printed") && !page.contains('\u{1b}'));
    assert!(output.stderr.is_empty(), "{}", output.stderr);
}

/// `--figure` selects tables and figures by their names; others are not simulated.
#[test]
fn one_figure_of_a_study() {
    let place = Place::new();
    let one = STUDY.replace("Table 1", "one");
    let panel = one[one.find("[[panels]]").unwrap()..].replace("\"one\"", "\"two\"");
    place.write("my.toml", format!("{one}\n{panel}"));
    place.write("figures.csv", FIGURES.replace("Table 1", "one"));
    for (flags, rows, cells) in
        [("", 8, 8), ("--figure two", 4, 8), ("--figure one --figure two", 8, 8)]
    {
        let document = place.iodyno(&format!("study my.toml --json {flags}")).succeeds().json();
        assert_eq!(document["rows"].as_array().unwrap().len(), rows, "{flags}");
        assert_eq!(document["simulated"]["cells"], cells, "{flags}");
    }
    place.iodyno("study my.toml --figure none").fails(2, &["no figure `none`", "`one`, `two`"]);
}

#[test]
fn errors_are_reported_at_their_position() {
    let place = Place::new();
    place.write("my.toml", STUDY);
    place.write("figures.csv", FIGURES.replace(",500,", ",some,"));
    let output = place.iodyno("study my.toml");
    output.fails(2, &["figures.csv:2:", "`resolution` must be a number, not `some`"]);
    place.write("my.toml", STUDY.replace("depth =", "dept ="));
    place.iodyno("study my.toml").fails(2, &["my.toml:", "dept"]);
    place
        .iodyno("study lenovo")
        .fails(2, &["no study named `lenovo`", "did you mean `lenovo-exflash`"]);
}

/// The catalog's study begins, and ends in order on a signal.
#[test]
fn a_study_can_be_stopped() {
    let place = Place::new();
    let mut running = place.start("study lenovo-exflash --json");
    let status = format!("/proc/{}/status", running.id());
    running.wait_until("it handles SIGINT", || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        caught.is_some_and(|set| set & 1 << (libc::SIGINT - 1) != 0)
    });
    running.signal(libc::SIGINT);
    let output = running.finish();
    output.exits(130).says(&["interrupted"]);
    assert!(output.stdout.is_empty(), "no partial result is printed");
}
