//! Runs short studies on small machines.

use crate::small;

use iodyno_ranks::Ranks;
use iodyno_study::{Options, Outcome, Progress, Study, StudyError, Wanted, json, run};
use small::{FIGURES, HEADER, STUDY, small};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

const QUICK: Options = Options { threads: 1, ..Options::QUICK };

/// The small study with disks, whose simulations take long enough for threads to overlap, and whose results depend on
/// random draws.
fn disks() -> Study {
    let study = STUDY
        .replace("ramdisk-ddr3-16g", "hdd-15k-sas-80g")
        .replace("[\"memory.read\"]", "[\"seek.average\"]")
        .replace("[\"memory.io\"]", "[\"seek.average\"]")
        .replace("[\"memory.write\"]", "[\"seek.average\"]")
        .replace("ops = 2000", "ops = 40_000");
    small::study(&study, &format!("{HEADER}{FIGURES}"))
        .unwrap_or_else(|problem| panic!("{problem}"))
}

/// Results do not depend on the number of threads, but on the seed. Two devices have the mean latency of one.
#[test]
fn threads_change_nothing() {
    let study = disks();
    let stop = AtomicBool::new(false);
    let seen = Mutex::new(Vec::new());
    let watch = |p: Progress| seen.lock().unwrap().push(p);
    let with = |threads, seed| {
        let options = Options { threads, seed, ..QUICK };
        run(&study, &options, &Ranks::alone(), &stop, &watch).unwrap()
    };
    let one = with(1, 1);
    let seen_once = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(json::document(&one), json::document(&with(3, 1)));
    assert_ne!(json::document(&one), json::document(&with(3, 2)));
    // Progress is reported some times a second and behind each batch: it never goes back, and the last batch ends it.
    let is_onward = |a: &Progress, b: &Progress| a.cells <= b.cells && a.share <= b.share;
    assert!(seen_once.is_sorted_by(is_onward));
    let last = seen_once.last().unwrap();
    assert_eq!((last.cells, last.share), (last.cells_total, 1.0));

    let ours = |devices| {
        let is_it = |row: &&Wanted| {
            row.key.figure == "Table 2"
                && row.key.workload == "randread"
                && row.key.devices == Some(devices)
        };
        value(&one, study.rows.iter().position(|row| is_it(&row)).unwrap())
    };
    assert!((ours(2) / ours(1) - 1.0).abs() < 0.03, "{} for {}", ours(2), ours(1));
}

/// Closed forms for a device that completes each I/O in the submitting thread: the rate does not depend on depth, two
/// devices double it, and a mix shares the time.
#[test]
fn a_ram_disk_is_as_calculated() {
    let study = small();
    let outcome = run(&study, &QUICK, &Ranks::alone(), &AtomicBool::new(false), &|_| {}).unwrap();
    let ours = |figure: &str, workload: &str, devices: u32, metric: &str| {
        let at = study.rows.iter().position(|row| {
            let key = &row.key;
            (key.figure.as_str(), key.workload.as_str(), key.metric.as_str())
                == (figure, workload, metric)
                && key.devices == Some(devices)
        });
        value(&outcome, at.unwrap())
    };
    let near = |a: f64, b: f64, share: f64| assert!((a / b - 1.0).abs() < share, "{a} for {b}");
    let one = ours("Table 1", "randread", 1, "iops_max");
    near(ours("Table 1", "randread", 2, "iops_max"), 2.0 * one, 0.02);
    let (reads_us, writes_us) = (
        ours("Table 2", "randread", 1, "latency_mean"),
        ours("Table 2", "randwrite", 1, "latency_mean") * 1e3,
    );
    let mixed_us = ours("Table 2", "mixed", 1, "latency_mean");
    near(mixed_us, 0.67 * reads_us + 0.33 * writes_us, 0.02);
    assert!(one * reads_us * 1e-6 < 1.01, "no more than one is in service");
    let thinking = ours("Figure 3", "randwrite+thinktime16us", 1, "latency_vs_no_thinktime");
    near(thinking, 1.0, 0.01);
    assert!(ours("Figure 3", "randwrite+thinktime16us", 1, "iops_vs_no_thinktime") < 0.5);
}

fn value(outcome: &Outcome<'_>, row: usize) -> f64 {
    outcome.rows[row].ours.unwrap()
}

#[test]
fn a_study_can_be_stopped() {
    let study = small();
    let stopped = run(&study, &QUICK, &Ranks::alone(), &AtomicBool::new(true), &|_| {});
    assert!(matches!(stopped, Err(StudyError::Interrupted)));
}
