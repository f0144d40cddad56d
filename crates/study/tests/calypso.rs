//! Checks the study of nine classes of drives and a RAM disk for completeness, and for agreement of each value with
//! `catalog/README.md`. Simulates no cell.

use crate::small;

use iodyno_study::{NullModel, Outcome, Provenance, Study, Wanted, json, load};
use small::{cell, taken};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../catalog/README.md");

const CLASSES: [&str; 9] = [
    "sshd-7200-sata-500g",
    "hdd-15k-sas-80g",
    "ssd-msata-mlc-128g",
    "ssd-m2x2-mlc-512g",
    "ssd-sata3-mlc-200g",
    "ssd-sata3-emlc-800g",
    "ssd-sas12-mlc-800g",
    "ssd-sff8639-mlc-700g",
    "ssd-pcie8-mlc-1400g",
];
const RAM: &str = "ramdisk-ddr3-16g";
const OLTP: &str = "db_oltp 8k 70:30";

fn calypso() -> Study {
    load("calypso-ramdisk").unwrap_or_else(|problem| panic!("{problem}"))
}

/// System, workload, block, depth, threads, metric.
type Point = (String, String, u32, Option<u32>, Option<u32>, String);

/// All combinations of the study's axes, listed independently of its file.
fn combinations() -> BTreeSet<(&'static str, Point)> {
    let mut all = BTreeSet::new();
    let mut put =
        |figure, system: &str, workload: &str, block, demand: Option<(u32, u32)>, metric: &str| {
            let point: Point = (
                system.to_owned(),
                workload.to_owned(),
                block,
                demand.map(|d| d.1),
                demand.map(|d| d.0),
                metric.to_owned(),
            );
            assert!(all.insert((figure, point)), "{figure} {system} {workload} {block} {metric}");
        };
    for (i, system) in CLASSES.into_iter().enumerate() {
        let year = "Year in Review 2014";
        let demand = if i < 5 { (2, 16) } else { (4, 32) };
        put(year, system, "randwrite", 4096, Some((4, 32)), "iops_fob");
        for workload in ["randwrite", "rw65_35", "randread"] {
            put(year, system, workload, 4096, Some(demand), "iops_steady");
        }
        for workload in ["seqwrite", "seqread"] {
            put(year, system, workload, 1 << 20, Some((1, 32)), "bandwidth");
        }
        for metric in ["latency_mean", "latency_max"] {
            put(year, system, "randwrite", 4096, Some((1, 1)), metric);
        }
        for mix in ["randread", "rw95_5", "rw65_35", "rw50_50", "rw35_65", "rw5_95", "randwrite"] {
            for block in [512, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 1 << 20] {
                put("PTS-IOPS", system, mix, block, Some(demand), "iops");
            }
        }
    }
    let slides = "RAM disk slides";
    let steps = [1, 2, 4, 6, 8, 16, 32];
    let demands = || steps.into_iter().flat_map(|t| steps.into_iter().map(move |q| (t, q)));
    for metric in ["iops_low", "iops_high", "latency_mean"] {
        put(slides, RAM, "randwrite/randread", 4096, None, metric);
    }
    for workload in ["randwrite", "randread"] {
        for metric in ["iops", "latency_mean"] {
            demands().for_each(|d| put(slides, RAM, workload, 4096, Some(d), metric));
        }
        for metric in ["iops", "latency_mean", "oio", "oio_threads", "oio_queue_depth"] {
            put(slides, RAM, workload, 4096, None, metric);
        }
    }
    for workload in ["seqread", "seqwrite"] {
        put(slides, RAM, workload, 1 << 20, None, "bandwidth");
    }
    put(slides, RAM, "randwrite", 4096, None, "latency_mean_T1Q1");
    for system in [CLASSES[6], CLASSES[8], RAM] {
        for metric in ["iops", "latency_mean"] {
            demands().for_each(|d| put(slides, system, OLTP, 8192, Some(d), metric));
        }
        for metric in [
            "iops",
            "latency_mean",
            "latency_p99.9",
            "latency_p99.99",
            "latency_p99.999",
            "oio",
            "oio_threads",
            "oio_queue_depth",
        ] {
            put(slides, system, OLTP, 8192, None, metric);
        }
    }
    all
}

#[test]
fn every_combination_is_there_once() {
    let study = calypso();
    let mut expected = combinations();
    for row in &study.rows {
        let key = &row.key;
        let figure = ["Year in Review 2014", "RAM disk slides", "PTS-IOPS"];
        let figure = figure.into_iter().find(|f| *f == key.figure).unwrap();
        let point: Point = (
            key.system.clone(),
            key.workload.clone(),
            key.block_bytes.unwrap(),
            key.queue_depth,
            key.threads,
            key.metric.clone(),
        );
        assert_eq!(key.devices, Some(1));
        assert!(expected.remove(&(figure, point)), "not asked for, or twice: {key:?}");
    }
    assert!(expected.is_empty(), "{expected:?}");
}

/// Entry of the table in `catalog/README.md` for a class of drives and a column.
fn on_the_page(system: &str, column: usize) -> &'static str {
    let section = PAGE.split("\n## ").find(|s| s.starts_with("The figures of each class")).unwrap();
    let line = section.lines().find(|line| line.contains(system)).unwrap();
    line.trim_matches('|').split('|').map(str::trim).nth(column).unwrap()
}

/// Column of the table for a row of the study; None for rows of other tables.
fn column(row: &Wanted) -> Option<usize> {
    let heads = [
        ("randread", "iops_steady"),
        ("randwrite", "iops_steady"),
        ("randwrite", "iops_fob"),
        ("rw65_35", "iops_steady"),
        ("seqread", "bandwidth"),
        ("seqwrite", "bandwidth"),
        ("randwrite", "latency_mean"),
        ("randwrite", "latency_max"),
    ];
    let key = (row.key.workload.as_str(), row.key.metric.as_str());
    (row.key.figure == "Year in Review 2014")
        .then(|| heads.iter().position(|head| *head == key).unwrap() + 1)
}

#[test]
fn each_figure_is_what_the_page_says() {
    let study = calypso();
    let mut seen = 0;
    for row in &study.rows {
        let Some(column) = column(row) else { continue };
        seen += 1;
        let said = on_the_page(&row.key.system, column);
        let flagged = row.printed.is_some_and(|i| study.printed[i].is_flagged());
        let expected = match row.basis {
            _ if flagged => "implausible",
            Provenance::Fitted => "fitted",
            Provenance::Input => "given",
            _ if row.printed.is_none() => "predicted, no figure at hand",
            _ => "predicted",
        };
        assert_eq!(said, expected, "{:?}", row.key);
    }
    assert_eq!(seen, 9 * 8);
}

/// Each published value has a simulated one. Values that can't be the device's are flagged and not scored. Null models
/// use only published values.
#[test]
fn every_printed_figure_has_ours() {
    let study = calypso();
    let taken = taken(&study, |key| cell(key, 1e5 + f64::from(key.oio()), 1e5));
    let outcome = Outcome::new(&study, &taken);
    let mut flagged = Vec::new();
    let mut nulls = Vec::new();
    for (wanted, row) in study.rows.iter().zip(&outcome.rows) {
        let Some(figure) = outcome.printed(wanted) else { continue };
        assert_eq!((&figure.key, figure.unit), (&wanted.key, wanted.unit));
        assert!(row.ours.is_some() && row.score.is_some(), "{:?}", wanted.key);
        assert!(wanted.basis != Provenance::Fitted || !wanted.by.is_empty());
        if row.flagged {
            flagged.push((figure.key.system.as_str(), figure.key.metric.as_str()));
        }
        if let Some(null) = row.null {
            nulls.push((
                figure.key.system.as_str(),
                wanted.key.metric.as_str(),
                null.model,
                null.value,
            ));
        }
    }
    let disk = CLASSES[1];
    let expected = [(disk, "latency_mean"), (disk, "latency_max"), (RAM, "latency_p99.999")];
    assert_eq!(flagged, expected);
    let share = |r: f64, w: f64| 1.0 / (0.65 / r + 0.35 / w);
    let expected = [
        (CLASSES[0], "iops_steady", NullModel::TimeSharing, share(148.0, 134.0)),
        (disk, "iops_steady", NullModel::TimeSharing, share(401.0, 340.0)),
        (RAM, "iops_low", NullModel::Threads, 16.0 / 4e-6),
        (RAM, "iops_high", NullModel::Threads, 16.0 / 4e-6),
        (RAM, "latency_mean", NullModel::Threads, 0.004),
    ];
    assert_eq!(nulls.len(), expected.len(), "{nulls:?}");
    for (found, expected) in nulls.iter().zip(expected) {
        assert_eq!((found.0, found.1, found.2), (expected.0, expected.1, expected.2));
        assert!((found.3 / expected.3 - 1.0).abs() < 1e-9, "{found:?} {expected:?}");
    }
    let document = json::document(&outcome);
    let schema = serde_json::from_str(json::SCHEMA_STUDY).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}
