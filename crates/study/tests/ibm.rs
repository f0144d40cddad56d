//! Checks the study of RAID adapters: completeness, the rules for implausible values, the textbook's null models, and
//! results from known cells. `ibm_findings.rs` simulates the study.

use crate::small;

use iodyno_catalog::{Kind, find};
use iodyno_page::{Block, Figure, Shape};
use iodyno_study::{
    Bench, CellKey, NullModel, Outcome, Provenance, Study, Taken, Wanted, json, load,
};
use small::{cell, taken};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The study, loaded on first use.
fn ibm() -> &'static Study {
    static STUDY: OnceLock<Study> = OnceLock::new();
    STUDY.get_or_init(|| read("ibm", |figures| figures))
}

/// The study with changed published values. A system missing from the catalog is replaced by a workstation.
fn read(folder: &str, figures: impl Fn(String) -> String) -> Study {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).unwrap();
    let workstation = find(Kind::System, "workstation").unwrap().text;
    let exists = |name: &str| find(Kind::System, name).is_ok();
    let all = ["57ce-gen3", "57b4-gen3", "57b5-gen2", "57c4-gen2"].into_iter().all(exists);
    let host = |line: &str| {
        let name =
            line.strip_prefix("host = \"")?.strip_suffix('"').filter(|name| !exists(name))?;
        let path = folder.join(format!("{name}.toml"));
        fs::write(&path, workstation.as_ref()).unwrap();
        Some(format!("host = \"{}\"", path.display()))
    };
    let file = find(Kind::Study, "ibm-sas-raid").unwrap();
    let lines = file.text.lines().filter(|line| all || !line.starts_with("options = "));
    let lines = lines.map(|line| host(line).unwrap_or_else(|| line.to_owned()));
    let text = lines.collect::<Vec<_>>().join("\n");
    let path = folder.join("ibm-sas-raid.toml");
    fs::write(&path, text.replace("\"ibm_sas_raid\"", "\"./figures.csv\"")).unwrap();
    let printed = find(Kind::Published, "ibm_sas_raid").unwrap().text;
    fs::write(folder.join("figures.csv"), figures(printed.to_string())).unwrap();
    load(path.to_str().unwrap()).unwrap_or_else(|problem| panic!("{problem}"))
}

/// System, workload, block, depth, devices, metric.
type Point = (String, String, Option<u32>, Option<u32>, Option<u32>, String);

const LEVELS: [&str; 4] = ["raid0", "raid5", "raid10", "raid6"];

/// All combinations of adapter and slot in the paper, with their numbers of SSDs; adapters with a cache also with the
/// cache off.
fn pairs() -> Vec<(String, u32)> {
    let mut all = Vec::new();
    for (adapter, slots, ssds) in
        [("57ce", 3, 48), ("57b4", 3, 48), ("57b5", 2, 24), ("57c4", 2, 24)]
    {
        for slot in 1..=slots {
            let cached = matches!(adapter, "57ce" | "57b5");
            let kinds: &[&str] = if cached { &["-cache", "-nocache"] } else { &[""] };
            all.extend(kinds.iter().map(|kind| (format!("{adapter}-gen{slot}{kind}"), ssds)));
        }
    }
    all
}

/// All combinations of the paper's axes, listed independently of the study's file.
fn combinations() -> BTreeSet<(String, Point)> {
    let mut all = BTreeSet::new();
    let mut put =
        |figure: &str, system: String, workload: &str, block, depth, devices, metric: &str| {
            let point = (system, workload.to_owned(), block, depth, devices, metric.to_owned());
            assert!(all.insert((figure.to_owned(), point)), "{figure} {workload} {metric}");
        };
    for (pair, ssds) in pairs() {
        for level in LEVELS {
            let system = || format!("{pair}-{level}");
            for (workload, block, metric) in [
                ("randread", 4096, "iops"),
                ("randwrite", 4096, "iops"),
                ("seqread", 1 << 20, "bandwidth"),
                ("seqwrite", 1 << 20, "bandwidth"),
            ] {
                put(
                    "four corners table",
                    system(),
                    workload,
                    Some(block),
                    None,
                    Some(ssds),
                    metric,
                );
            }
            for workload in ["seqread", "seqwrite"] {
                for depth in [1, 24, 48, 96] {
                    let figure = "sequential by queue depth";
                    put(figure, system(), workload, Some(1 << 20), Some(depth), None, "bandwidth");
                }
            }
            for (figure, workload) in
                [("OLTP 1", "oltp1"), ("OLTP 2", "oltp2"), ("OLTP 3", "oltp3")]
            {
                for depth in [1, 4, 8, 16, 24, 64] {
                    for metric in ["iops", "latency_mean"] {
                        put(figure, system(), workload, None, Some(depth), None, metric);
                    }
                }
                put(figure, system(), workload, None, None, None, "iops_max");
                for pause in ["100us", "300us", "1000us"] {
                    let workload = format!("{workload}+thinktime{pause}");
                    for metric in ["iops", "latency_mean"] {
                        put(figure, system(), &workload, None, Some(1), None, metric);
                    }
                }
            }
        }
    }
    for level in LEVELS {
        let system = || format!("57b4-gen3-disks-{level}");
        for disks in [12, 24, 36, 48, 60, 72, 84, 96] {
            for workload in ["randread", "randwrite"] {
                put("disk scaling", system(), workload, Some(4096), None, Some(disks), "iops");
            }
            for workload in ["oltp1", "oltp2", "oltp3"] {
                put("disk scaling", system(), workload, None, None, Some(disks), "iops");
            }
        }
    }
    for (pair, _) in pairs().iter().filter(|(pair, _)| !pair.ends_with("nocache")) {
        for ssd in 1..=3 {
            let system = || format!("{} pair + ssd-gen{ssd}-emlc", pair.trim_end_matches("-cache"));
            for workload in ["W1 transactions RAID5", "W2 throughput RAID5"] {
                put("sizing table", system(), workload, None, None, None, "useful_devices");
            }
        }
    }
    all
}

#[test]
fn every_combination_is_there_once() {
    let study = ibm();
    let mut expected = combinations();
    for row in study.rows.iter().filter(|row| row.panel.is_some()) {
        let key = row.key.clone();
        assert_eq!(key.threads, None);
        let (block, depth, devices) = (key.block_bytes, key.queue_depth, key.devices);
        let point = (key.system, key.workload, block, depth, devices, key.metric);
        assert!(expected.remove(&(key.figure, point)), "not asked for, or twice: {:?}", row.key);
    }
    assert!(expected.is_empty(), "{expected:?}");
    // Seven sentences, ten attach limits and two links.
    assert_eq!(study.rows.iter().filter(|row| row.panel.is_none()).count(), 19);
}

/// Arrays and outstanding operations are those of the paper: 64 per array in Gen1 slots, 16 per drive in Gen3 slots.
#[test]
fn arrays_and_demand_are_the_papers() {
    let study = ibm();
    for row in study.rows.iter().filter(|row| row.key.figure == "four corners table") {
        let (at, bench) = (row.at.unwrap(), &study.systems[row.at.unwrap().system]);
        let level = row.key.system.rsplit('-').next().unwrap();
        let members = [("raid0", 1), ("raid5", 3), ("raid10", 2), ("raid6", 4)];
        let (_, members) = members.into_iter().find(|(name, _)| *name == level).unwrap();
        assert_eq!(bench.members(), members, "{}", row.key.system);
        if row.key.workload.starts_with("rand") {
            let gen1 = row.key.system.contains("gen1");
            assert_eq!(at.depth, if gen1 { 64 } else { 16 * members }, "{}", row.key.system);
        }
    }
    let of = |name: &str| study.systems.iter().find(|bench| bench.name == name).unwrap();
    let system = of("57b4-gen1-raid6")
        .system(48, iodyno_emulate::spec::Written::Fresh, 1.0, 1, false)
        .unwrap();
    assert_eq!((system.volumes.len(), system.devices().count()), (12, 48));
    assert!(
        of("57b4-gen1-raid6")
            .system(46, iodyno_emulate::spec::Written::Fresh, 1.0, 1, false)
            .is_err()
    );
}

/// `size` states that no published value tests its advice on the rate with the cache off. If this test fails, score
/// the new value, and change `CACHE_OFF_UNTESTED` in `crates/sizing/src/terminal.rs`.
#[test]
fn no_printed_figure_is_of_a_cache_that_is_off() {
    let off = |row: &&Wanted| row.key.system.contains("-nocache");
    assert!(ibm().rows.iter().filter(off).count() > 500);
    let printed: Vec<_> =
        ibm().rows.iter().filter(off).filter(|row| row.printed.is_some()).map(|r| &r.key).collect();
    assert!(printed.is_empty(), "{printed:?}");
}

/// Exactly these published values are flagged, all by rules.
#[test]
fn the_rules_find_what_cannot_be_right() {
    let study = ibm();
    let flagged: Vec<(&str, &str, &str)> = study
        .printed
        .iter()
        .filter(|figure| figure.is_flagged())
        .map(|f| (f.key.system.as_str(), f.key.workload.as_str(), f.flag.get(..21).unwrap_or("")))
        .collect();
    let (r1, r3) = ("implausible by rule 1", "implausible by rule 3");
    let expected = [
        ("57ce-gen1-cache-raid5", "randread", r1),
        ("57b4-gen1-raid5", "randwrite", r1),
        ("57b4-gen1-raid6", "seqwrite", r1),
        ("57ce-gen3 pair + ssd-gen2-emlc", "W2 throughput RAID5", r3),
        ("57ce-gen3 pair + ssd-gen3-emlc", "W2 throughput RAID5", r3),
    ];
    assert_eq!(flagged, expected);
}

/// Tests each rule at its limit: values are flagged only beyond their rounding.
#[test]
fn rules_allow_for_rounding() {
    let reason = |line: &str, from: &str, to: &str| {
        let changed = |figures: String| {
            let changed = line.replacen(from, to, 1);
            assert!(figures.contains(line) && changed != line, "{line}");
            figures.replacen(line, &changed, 1)
        };
        let study = read("edges", changed);
        let is_it = |figure: &&iodyno_study::published::Figure| {
            let start =
                format!("{},{},{},", figure.key.figure, figure.key.system, figure.key.workload);
            line.starts_with(&start)
        };
        study.printed.iter().find(is_it).unwrap().flag.clone()
    };
    let reads = "four corners table,57ce-gen3-cache-raid5,randread,4096,,,48,iops,=,1070000,5000";
    assert_eq!(reason(reads, "1070000", "1109000"), "", "RAID 0 has 1100 K, to within 5 K");
    assert!(reason(reads, "1070000", "1111000").contains("rule 1"));
    let stream =
        "four corners table,57ce-gen1-cache-raid0,seqread,1048576,,,48,bandwidth,=,3.75,0.005";
    assert_eq!(reason(stream, "3.75", "3.755"), "");
    assert!(reason(stream, "3.75", "3.77").contains("rule 2"));
    let count =
        "sizing table,57ce-gen3 pair + ssd-gen3-emlc,W2 throughput RAID5,,,,,useful_devices,~,28";
    assert_eq!(
        reason(count, "~,28", "~,22"),
        "",
        "22 of 469 MB/s are 10.3 GB/s, a tenth above 9.4"
    );
    assert!(reason(count, "~,28", "~,23").contains("rule 3"));
}

/// Few published values are inputs or fitted. Inputs include the counts in the sizing table that equal the maximum
/// number of attachable devices.
#[test]
fn few_figures_are_inputs() {
    let study = ibm();
    let count =
        |basis| study.rows.iter().filter(|r| r.printed.is_some() && r.basis == basis).count();
    let inputs = count(Provenance::Input);
    assert_eq!(
        inputs,
        10 + 2 + 6 + 19,
        "attach limits, links, and counts that are all one can attach"
    );
    assert!(count(Provenance::Fitted) * 4 < study.printed.len());
}

/// Results of cells with `of_volume` operations per second per volume, and at most `most` in total.
fn rates(study: &Study, of_volume: f64, most: f64) -> impl Fn(&CellKey) -> Taken {
    let members: Vec<u32> = study.systems.iter().map(Bench::members).collect();
    move |key: &CellKey| {
        let volumes = f64::from(key.devices / members[key.system]);
        cell(key, (of_volume * volumes).min(most), 1e5)
    }
}

/// Null models equal the textbook's arithmetic, computed by hand.
#[test]
fn null_models_are_members_times_n_and_the_link() {
    let study = ibm();
    let outcome = Outcome::new(study, &taken(study, rates(study, 1e4, 3e5)));
    let null = |figure: &str, system: &str, workload: &str, devices: Option<u32>| {
        let found = study.rows.iter().position(|row| {
            let key = &row.key;
            (&*key.figure, &*key.system, &*key.workload) == (figure, system, workload)
                && (devices.is_none() || key.devices == devices)
                && !matches!(key.metric.as_str(), "latency_mean" | "iops_max")
        });
        let null = outcome.rows[found.unwrap()].null.unwrap();
        assert_eq!(null.model, NullModel::Members);
        null.value
    };
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    };
    let corner =
        |system: &str, workload: &str| null("four corners table", system, workload, Some(48));
    near(corner("57b4-gen3-raid0", "randread"), 48.0 * 56_000.0);
    near(corner("57b4-gen1-raid0", "randread"), 3.75e9 / 4096.0);
    near(corner("57b4-gen1-raid0", "randwrite"), 3.75e9 / 4096.0);
    near(corner("57b4-gen1-raid10", "randwrite"), 48.0 * 24_000.0 / 2.0);
    near(corner("57b4-gen1-raid5", "randwrite"), 48.0 / (2.0 / 56_000.0 + 2.0 / 24_000.0));
    near(corner("57b4-gen1-raid6", "randwrite"), 48.0 / (3.0 / 56_000.0 + 3.0 / 24_000.0));
    near(corner("57b4-gen1-raid0", "seqread"), 3.75);
    near(corner("57b4-gen3-raid10", "seqwrite"), 48.0 * 385.0 / 2.0);
    let useful = |system: &str| null("sizing table", system, "W2 throughput RAID5", None);
    near(useful("57ce-gen1 pair + ssd-gen3-emlc"), 3.75e9 / 495e6);
    near(useful("57ce-gen3 pair + ssd-gen3-emlc"), 15.76e9 / 495e6);
    near(null("disk scaling", "57b4-gen3-disks-raid0", "randread", Some(96)), 96.0 * 416.0);
}

/// The number of devices that saturate a pair of adapters is its maximum rate divided by the rate of one device, and
/// at most the number of attachable devices.
#[test]
fn useful_devices_are_where_one_arrays_line_meets_the_limit() {
    let study = ibm();
    for (most, expected) in [(1e5, 30.0), (1e9, 48.0)] {
        let outcome = Outcome::new(study, &taken(study, rates(study, 1e4, most)));
        let is_it = |key: &iodyno_study::published::Key| {
            key.metric == "useful_devices" && key.system == "57ce-gen2 pair + ssd-gen2-emlc"
        };
        let row = study.rows.iter().position(|row| is_it(&row.key)).unwrap();
        assert!((outcome.rows[row].ours.unwrap() - expected).abs() < 1e-9);
    }
}

/// Each published value has a simulated one, in the published unit. Values in the paper's text are computed from rows.
#[test]
fn every_printed_figure_has_ours() {
    let study = ibm();
    let outcome = Outcome::new(study, &taken(study, rates(study, 1e4, 3e5)));
    let mut seen = BTreeSet::new();
    for (wanted, row) in study.rows.iter().zip(&outcome.rows) {
        let Some(figure) = outcome.printed(wanted) else { continue };
        assert_eq!((&figure.key, figure.unit), (&wanted.key, wanted.unit));
        assert!(row.ours.is_some() && row.score.is_some(), "{:?}", wanted.key);
        assert!(seen.insert(wanted.printed));
        // 8 arrays of the previous generation; 16 of the new one.
        if figure.key.metric == "iops_ratio" {
            assert!((row.ours.unwrap() - 2.0).abs() < 1e-9, "{:?}", figure.key);
        }
    }
    assert_eq!(seen.len(), study.printed.len());
    let document = json::document(&outcome);
    let schema = serde_json::from_str(json::SCHEMA_STUDY).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&document));
    let printed = document["rows"].as_array().unwrap().iter().filter(|row| !row["value"].is_null());
    assert_eq!(printed.count(), study.printed.len());
    let page = iodyno_study::page::document(&outcome, &[], "iodyno");
    let figures = page.sections.iter().flat_map(|section| &section.blocks);
    let over_load = |block: &&Block| matches!(block, Block::Figure(Figure { shape: Shape::Plot(plot), .. }) if plot.x.label == "IOPS" && plot.panels[0].y.label == "latency");
    assert_eq!(
        figures.filter(over_load).count(),
        12,
        "a curve of response time for each OLTP and level"
    );
}
