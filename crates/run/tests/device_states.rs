//! States of emulated devices in a method's cells: what purges, fills and earlier cells leave, and when a cell may end
//! early.

use crate::request::{outcome, written_by_hand};
use iodyno_measure::{Cell, Ended};
use iodyno_run::RunRequest;
use serde_json::json;

const DEVICE: &str = "model:ssd-sata3-mlc-200g";

/// Runs a method on a device of the catalog.
fn cells_on(device: &str, stages: &str, thresholds: &[&str]) -> Vec<Cell> {
    let text = format!("schema = 1\n{stages}");
    let source = json!({ "name": "m", "text": text, "workloads": {}, "choice": {} });
    let work = json!({ "method": { "source": source, "each": false, "reuse": false } });
    let thresholds = thresholds.iter().map(|text| text.parse().unwrap()).collect();
    outcome(RunRequest { thresholds, ..written_by_hand(&work, device) }).unwrap().run.cells
}

fn cells(stages: &str) -> Vec<Cell> {
    cells_on(DEVICE, stages, &[])
}

fn iops(cell: &Cell) -> f64 {
    cell.total().ops() as f64 * 1e9 / cell.window_ns as f64
}

fn state(cell: &Cell) -> &str {
    cell.evidence.device_state.as_deref().unwrap()
}

const PURGE: &str = "[[stages]]\ndo = \"purge\"\n";

fn stage(name: &str, act: &str, more: &str) -> String {
    format!(
        "[[stages]]\nname = \"{name}\"\ndo = \"{act}\"\nread = \"0%\"\ndepth = 32\ntime = \"300ms\"\n{more}\n"
    )
}

fn fill(active: &str) -> String {
    format!("[[stages]]\ndo = \"fill\"\nactive = \"{active}\"\n")
}

/// After a purge, the device holds what fills and cells wrote since: the client settings of SNIA's tests leave a quarter
/// of it to the flash's spare. Without a purge it is as full as its name says.
#[test]
fn a_purged_device_holds_what_was_written_since() {
    let own = |active: &str| stage("own", "cells", &format!("active = \"{active}\""));
    let part = "0%..75%";
    let all = cells(&format!("{PURGE}{}{}", fill(part), own(part)));
    assert_eq!(state(&all[2]), "random in 4 KiB blocks, 75 % full");
    let fact = &all[1].facts["fill"];
    assert!(fact.contains("the first 75 % of the capacity"), "{fact}");
    assert!((all[2].evidence.written_share.unwrap() - 1.0).abs() < 1e-3);
    let whole = cells(&format!("{PURGE}{}{}", fill("0%..100%"), own("0%..100%")));
    assert_eq!(state(&whole[2]), "random in 4 KiB blocks");
    assert!(whole[1].facts["fill"].contains("the whole capacity"), "{:?}", whole[1].facts);
    assert!(iops(&all[2]) > 1.1 * iops(&whole[2]), "{} and {}", iops(&all[2]), iops(&whole[2]));
    // The cell's own writes count, and those of samples before it, as in SNIA's demand tests.
    let wider = cells(&format!("{PURGE}{}{}", fill("0%..50%"), own("0%..80%")));
    assert_eq!(state(&wider[2]), "random in 4 KiB blocks, 80 % full");
    let series = stage("s", "series", "samples = 1\nactive = \"0%..75%\"");
    let after = cells(&format!("{PURGE}{series}{}", own(part)));
    assert_eq!(state(&after[2]), "random in 4 KiB blocks, 75 % full");
    let unpurged = cells(&format!("{}{}", fill(part), own("0%..100%")));
    assert_eq!(state(&unpurged[1]), "random in 4 KiB blocks");
    // What earlier stages wrote in their own states is there, too.
    let whole = own("0%..100%");
    let reads = own(part).replace("\"own\"", "\"reads\"").replace("\"0%\"", "\"100%\"");
    let after = cells(&format!("{PURGE}{}{whole}{reads}", fill(part)));
    assert_eq!(state(&after[3]), "random in 4 KiB blocks");
}

/// Cells on empty devices are independent of each other, also if later cells continue.
#[test]
fn cells_on_empty_devices_differ() {
    let fresh =
        |name: &str| stage(name, "cells", "state = \"fresh\"").replace("\"0%\"", "\"100%\"");
    let series = stage("series", "series", "samples = 1");
    let all = cells_on("model:gcp-pd-ssd", &[fresh("a"), fresh("b"), series].concat(), &[]);
    let means = [0, 1].map(|at| all[at].total().response_time().mean_ns().unwrap());
    assert_ne!(means[0].to_bits(), means[1].to_bits());
}

/// A cell that continues does so from the previous writing cell: on its machine, or in the steady state in which that
/// cell was constructed. Reads leave the devices as they were.
#[test]
fn cells_continue_from_cells_of_other_states() {
    let fresh = stage("fresh", "cells", "state = \"fresh\"");
    let own = stage("own", "cells", "settle = false");
    let series = stage("series", "series", "samples = 1");
    let all = cells(&format!("{fresh}{series}"));
    assert!(
        (iops(&all[1]) / iops(&all[0]) - 1.0).abs() < 0.05,
        "{} {}",
        iops(&all[0]),
        iops(&all[1])
    );
    assert_eq!(state(&all[1]), format!("continued since `{}` (fresh)", all[0].key.name));
    let purged = cells(&format!("{PURGE}{own}{series}"));
    let (before, after) = (iops(&purged[1]), iops(&purged[2]));
    assert!((after / before - 1.0).abs() < 0.1, "{before} {after}");
    let words =
        format!("continued from the state before `{}`: random in 4 KiB blocks", purged[1].key.name);
    assert_eq!(state(&purged[2]), words);
    let reads = own.replace("\"0%\"", "\"100%\"");
    let unchanged = cells(&format!("{PURGE}{reads}{series}"));
    assert_eq!(state(&unchanged[2]), "continued since a purge");
    assert!(iops(&unchanged[2]) > 1.2 * after, "{} {after}", iops(&unchanged[2]));
}

/// Skewed writes have no steady state that can be constructed. Cells that continue follow it; others warn.
#[test]
fn skewed_writes_of_a_method_warn() {
    let io = "[stages.io]\nmix = { write = 100 }\n[stages.io.write]\naddresses = { pattern = \"zipf\", theta = 0.8 }";
    let stage = |act: &str, more: &str| {
        format!("[[stages]]\ndo = \"{act}\"\ntime = \"100ms\"\ndepth = 8\n{more}\n{io}\n")
    };
    let warns = |stage: &str| {
        let cells = cells(stage);
        let transient = cells[0].verdicts.iter().find(|verdict| verdict.code == "TRANSIENT");
        transient.is_some_and(|verdict| verdict.text.contains("skewed"))
    };
    let own = stage("cells", "");
    assert!(warns(&own));
    // A cell of a number of operations has no warm-up, but the same state.
    assert!(warns(&own.replace("[stages.io]\n", "[stages.io]\nlimits.ops = 2000\n")));
    assert!(!warns(&stage("series", "samples = 1")));
    assert!(!warns(&stage("cells", "state = \"fresh\"")));
}

/// A cell doesn't end early before its device stalled several times, nor if a threshold is set on its maximum.
#[test]
fn cells_end_early_only_where_a_mean_suffices() {
    let stage = stage("own", "cells", "").replace("300ms", "2s");
    let ended = |device: &str, thresholds: &[&str], stage: &str| {
        cells_on(device, stage, thresholds)[0].ended
    };
    // Ten times 256 MiB of writes take longer; reads cause no stalls.
    assert_eq!(ended(DEVICE, &[], &stage), Ended::Time);
    assert_eq!(ended(DEVICE, &[], &stage.replace("\"0%\"", "\"100%\"")), Ended::Settled);
    let quiet = "model:exflash-400g";
    assert_eq!(ended(quiet, &[], &stage), Ended::Settled);
    assert_eq!(ended(quiet, &["p99 < 1s"], &stage), Ended::Settled);
    assert_eq!(ended(quiet, &["max < 1s"], &stage), Ended::Time);
    assert_eq!(ended(quiet, &["other: max < 1s"], &stage), Ended::Settled);
}
