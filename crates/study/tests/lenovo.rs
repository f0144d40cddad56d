//! Checks the flash DIMM study for completeness. Simulates no cell.

use crate::small;

use iodyno_page::{Block, Figure, Mark, Scale, Shape};
use iodyno_study::{Metric, Outcome, Provenance, Study, Wanted, json, load};
use small::{cell, taken};
use std::collections::BTreeSet;

fn lenovo() -> Study {
    load("lenovo-exflash").unwrap_or_else(|problem| panic!("{problem}"))
}

/// Figure, workload, block, depth, devices, metric.
type Point = (&'static str, String, u32, Option<u32>, u32, &'static str);

const DEVICES: [u32; 6] = [1, 2, 4, 8, 16, 32];
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const SMALL: [u32; 3] = [4096, 8192, 16_384];
const LARGE: [u32; 2] = [65_536, 1_048_576];
const RANDOM: [&str; 3] = ["randread", "randwrite", "oltp67_33"];
const SEQUENTIAL: [&str; 2] = ["seqread", "seqwrite"];

/// All combinations of the paper's axes, listed independently of the study's file.
fn combinations() -> BTreeSet<Point> {
    let mut all = BTreeSet::new();
    let mut put = |figure, workload: &str, block, depth, devices, metric| {
        let is_new = all.insert((figure, workload.to_owned(), block, depth, devices, metric));
        assert!(is_new, "{figure} {workload} {block} {depth:?} {devices} {metric}");
    };
    for devices in DEVICES {
        for workload in RANDOM {
            for block in SMALL {
                put("Table 4", workload, block, None, devices, "iops_max");
                put("Table 5", workload, block, Some(1), devices, "latency_mean");
                put("Figures 15 to 17", workload, block, None, devices, "iops_max_vs_one_device");
            }
            let scaled = "latency_mean_vs_one_device";
            put("Figures 15 to 17", workload, 4096, Some(1), devices, scaled);
        }
        for workload in SEQUENTIAL {
            for block in LARGE {
                put("Table 5", workload, block, Some(16), devices, "bandwidth");
                let scaled = "bandwidth_vs_one_device";
                put("Figures 15 to 17", workload, block, Some(16), devices, scaled);
            }
        }
    }
    for depth in DEPTHS {
        for (figure, workload) in [
            ("Figures 7 and 8", "randread"),
            ("Figures 9 and 10", "randwrite"),
            ("Figure 12", "oltp67_33"),
        ] {
            for block in SMALL {
                for metric in ["iops", "latency_mean", "latency_p99"] {
                    put(figure, workload, block, Some(depth), 1, metric);
                }
            }
        }
        for block in LARGE {
            put("Figure 13", "seqread", block, Some(depth), 1, "bandwidth");
            put("Figure 14", "seqwrite", block, Some(depth), 1, "bandwidth");
        }
    }
    for think_us in [0, 1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64] {
        let workload = format!("randwrite+thinktime{think_us}us");
        for metric in ["latency_mean", "iops", "latency_vs_no_thinktime", "iops_vs_no_thinktime"] {
            put("Figure 11", &workload, 4096, Some(1), 1, metric);
        }
    }
    put("Figure 8", "randread", 4096, None, 1, "knee_queue_depth");
    put("Figure 8", "randread", 4096, None, 1, "queue_depth_at_95pct_of_max");
    all
}

#[test]
fn every_combination_is_there_once() {
    let study = lenovo();
    let mut expected = combinations();
    let paper = |row: &&Wanted| row.panel.is_some() && row.key.figure != "unbalanced memory";
    for row in study.rows.iter().filter(paper) {
        let key = &row.key;
        assert_eq!((key.system.as_str(), key.threads), ("exflash-400g", None));
        let found = expected
            .iter()
            .find(|(figure, workload, block, depth, devices, metric)| {
                (*figure, workload.as_str(), *metric)
                    == (key.figure.as_str(), key.workload.as_str(), key.metric.as_str())
                    && (Some(*block), *depth, Some(*devices))
                        == (key.block_bytes, key.queue_depth, key.devices)
            })
            .cloned();
        let found = found.unwrap_or_else(|| panic!("not asked for, or twice: {key:?}"));
        expected.remove(&found);
    }
    assert!(expected.is_empty(), "{expected:?}");
    assert_eq!(study.rows.iter().filter(|row| row.panel.is_none()).count(), 1);
}

/// Each published value has a simulated one, in the published unit. Few values are fitted, and each names parameters
/// whose files list it as their source.
#[test]
fn every_printed_figure_has_ours() {
    let study = lenovo();
    let taken = taken(&study, |key| cell(key, 1e5 * f64::from(key.devices), 1e5));
    let outcome = Outcome::new(&study, &taken);
    let mut seen = BTreeSet::new();
    for (wanted, row) in study.rows.iter().zip(&outcome.rows) {
        let Some(figure) = outcome.printed(wanted) else { continue };
        assert_eq!((&figure.key, figure.unit), (&wanted.key, wanted.unit));
        assert!(row.ours.is_some() && row.score.is_some(), "{:?}", wanted.key);
        assert!(seen.insert(wanted.printed));
        assert!(wanted.basis != Provenance::Fitted || !wanted.by.is_empty());
    }
    assert_eq!(seen.len(), study.printed.len());
    let fitted = study.rows.iter().filter(|r| r.basis == Provenance::Fitted && r.printed.is_some());
    assert!(fitted.count() * 4 < study.printed.len(), "most figures are predicted");
    let document = json::document(&outcome);
    let printed = |row: &&serde_json::Value| !row["value"].is_null();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.iter().filter(printed).count(), study.printed.len());
    assert!(rows.iter().filter(printed).all(|row| row["ours"].is_f64() && row["error"].is_f64()));
    assert!(rows.iter().filter(|row| !printed(row)).all(|row| row["error"].is_null()));
}

/// Published values are always drawn as rings, and simulated ones never. An axis of 1 to 32 devices is logarithmic.
#[test]
fn printed_figures_differ_from_ours_in_shape() {
    let study = lenovo();
    let taken = taken(&study, |key| cell(key, 1e5 * f64::from(key.devices), 1e5));
    let document = iodyno_study::page::document(&Outcome::new(&study, &taken), &[], "iodyno");
    let (mut rings, mut over_devices) = (0, 0);
    for block in document.sections.iter().flat_map(|section| &section.blocks) {
        let Block::Figure(Figure { shape: Shape::Plot(plot), .. }) = block else { continue };
        for series in plot.panels.iter().flat_map(|panel| &panel.series) {
            assert_eq!(series.name.ends_with("printed"), series.mark == Mark::Hollow);
            rings += usize::from(series.mark == Mark::Hollow);
        }
        if plot.x.label == "devices" {
            assert_eq!(plot.x.scale, Scale::Log);
            over_devices += 1;
        }
    }
    assert!(rings > 10 && over_devices > 1, "{rings} {over_devices}");
}

/// The candidates for the highest rate include the largest depth.
#[test]
fn the_largest_rate_is_at_the_largest_depth() {
    let study = lenovo();
    let deepest = study.rows.iter().filter(|row| row.metric == Some(Metric::IopsMax));
    assert!(deepest.clone().count() > 0);
    for row in deepest {
        assert!(row.recipe.cells().iter().any(|cell| cell.depth == 128), "{:?}", row.key);
    }
}
