//! Renders a large run as a page. With `IODYNO_LARGE=1000x3600 cargo test --release -p iodyno-report --test it large::
//! -- --ignored --nocapture`, the run has a thousand cells of an hour each, in intervals of a second; otherwise it is
//! smaller. The duration of each part is printed, but not judged.

use iodyno_measure::{Cell, CellKey, Histogram, Interval, verdict};
use iodyno_notebook::{Notebook, Outcome, RunHead, TargetRecord};
use iodyno_page::html;
use iodyno_report::page::{self, Options};
use iodyno_units::OpKind;
use iodyno_units::rng::{self, Generator};
use std::time::Instant;

/// Maximum number of intervals that `iodyno report` accepts.
const INTERVALS_MAX: u64 = 100_000;

fn interval(random: &mut Generator, cell: u64) -> Interval {
    let mut interval = Interval::default();
    let stats = interval.class_mut(OpKind::Read);
    // About as many buckets as a second of a real device fills.
    for i in 0..120_u64 {
        stats.service.record_n(80_000 + cell * 50 + i * i * 40, 1 + rng::below(random, 400));
    }
    stats.bytes = stats.service.count() * 4096;
    interval.trim();
    interval
}

#[test]
#[ignore = "writes a notebook of a large run; see the top of the file"]
fn a_large_run_becomes_a_page() {
    let asked = std::env::var("IODYNO_LARGE").unwrap_or("40x1800".to_owned());
    let (cells, seconds) = asked.split_once('x').expect("IODYNO_LARGE=CELLSxSECONDS");
    let (cells, seconds): (u64, u64) = (cells.parse().unwrap(), seconds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("IODYNO_LARGE_NOTEBOOK").map(std::path::PathBuf::from);
    let path = kept.unwrap_or(folder.path().join("notebook.sqlite"));
    let notebook = Notebook::open(&path).unwrap();
    let head = RunHead {
        name: "large".to_owned(),
        targets: vec![TargetRecord { name: "/dev/nvme0n1".to_owned(), ..TargetRecord::default() }],
        ..RunHead::default()
    };
    let mut writer = notebook.begin(&head).unwrap();
    let mut random = rng::stream(1, "large", 0);
    let mut total = Histogram::new();
    for index in 0..cells {
        let mut cell = Cell {
            key: CellKey {
                name: format!("cell-{index}"),
                target: "/dev/nvme0n1".to_owned(),
                workload: "random-read".to_owned(),
                engine: "uring".to_owned(),
                threads: 1,
                depth: 32,
                blocks: vec![(4096, 1.0)],
                seed: 1,
                ..CellKey::default()
            },
            window_ns: seconds * 1_000_000_000,
            interval_ns: 1_000_000_000,
            series: (0..seconds).map(|_| interval(&mut random, index)).collect(),
            ..Cell::default()
        };
        cell.verdicts = verdict::judge(&cell);
        for (_, stats) in cell.total().iter() {
            total.merge(&stats.service);
        }
        writer.finish_cell(index as usize, &cell).unwrap();
    }
    writer.finish(&Outcome::Finished, &[]).unwrap();

    let started = Instant::now();
    let run = notebook.load_several_merged("last", Some(INTERVALS_MAX), true).unwrap().remove(0);
    let loaded = started.elapsed();
    let intervals: usize = run.cells.iter().map(|c| c.series.len()).sum();
    let document = page::document(&run, &Options::default());
    let made = started.elapsed();
    let text = html::page(&document);
    let written = started.elapsed();
    println!(
        "{cells} cells of {seconds} s, notebook {} MB: loaded in {loaded:.1?} ({intervals} intervals), document at {made:.1?}, page of {:.1} MB at {written:.1?}",
        std::fs::metadata(&path).unwrap().len() / 1_000_000,
        text.len() as f64 / 1e6
    );
    if let Some(out) = std::env::var_os("IODYNO_LARGE_PAGE") {
        std::fs::write(out, &text).unwrap();
    }
    assert!(intervals as u64 <= INTERVALS_MAX + cells, "{intervals}");
    let mut kept = Histogram::new();
    for cell in &run.cells {
        for (_, stats) in cell.total().iter() {
            kept.merge(&stats.service);
        }
    }
    assert_eq!(kept, total, "no operation is lost by making intervals longer");
}
