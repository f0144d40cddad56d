//! Compares several devices with several workloads: results equal the counts, whether one run measured all devices or
//! each has its own run.

use crate::samples;

use iodyno_measure::{Cell, Place};
use iodyno_method::MethodSource;
use iodyno_notebook::{Run, TargetRecord};
use iodyno_page::{Block, Document, Section, Series, Shape};
use iodyno_report::compare::{Options as Criteria, Side, compare};
use iodyno_report::page::{Options, comparison, document};
use iodyno_units::OpKind;
use samples::{Ask, cell, nvme, run};
use serde_json::json;

const WORKLOADS: [(&str, u32); 2] = [("small", 4096), ("large", 1 << 20)];
const DEVICES: [(&str, u64); 2] = [("/dev/nvme0n1", 40_000), ("/dev/nvme1n1", 90_000)];

/// Cells of one device. Their rate derives from the number in `device`, and decreases with the block size.
fn cells(device: (&'static str, u64), subject: u32) -> Vec<Cell> {
    let each = WORKLOADS.iter().zip(0..).map(|(&(name, block), index)| {
        let ops = device.1 / u64::from(block / 4096);
        let mix = vec![(OpKind::Read, ops)];
        let (threads, depth, seconds) = (1, 8, 10);
        let (target, engine) = (device.0, "uring");
        let mut cell = cell(&Ask { name, target, engine, threads, depth, block, mix, seconds });
        let at = vec![("workload".to_owned(), name.to_owned())];
        cell.key.place = Some(Place { subject, index, at, ..Place::default() });
        cell
    });
    each.collect()
}

/// A run of a method over both workloads on some devices, each alone.
fn run_on(id: &str, devices: &[(&'static str, u64)]) -> Run {
    let text = "schema = 1\n[[stages]]\ndo = \"cells\"\nworkload = [\"small\", \"large\"]\ntime = \"10s\"\n";
    let workloads = WORKLOADS.map(|(name, block)| {
        let text = format!("schema = 1\nblock = {block}\nmix = {{ read = 1 }}\n");
        (name.to_owned(), text)
    });
    let source = MethodSource {
        name: "both".to_owned(),
        text: text.to_owned(),
        workloads: workloads.into(),
        ..MethodSource::default()
    };
    let all = devices.iter().zip(0..).flat_map(|(&device, subject)| cells(device, subject));
    let mut run = run("both", devices[0].0, nvme("Example"), all.collect());
    id.clone_into(&mut run.id);
    run.head.plan = json!({ "method": source, "each": devices.len() > 1 });
    let targets = devices
        .iter()
        .map(|(name, _)| TargetRecord { name: (*name).to_owned(), ..run.head.targets[0].clone() });
    run.head.targets = targets.collect();
    run
}

fn of_runs(runs: &[Run]) -> Document {
    let sides: Vec<&[Run]> = runs.iter().map(std::slice::from_ref).collect();
    let criteria = Criteria::default();
    let side = |n: usize| Side { asked: "x", runs: sides[n] };
    let against = (1..runs.len()).map(|n| compare(side(0), side(n), &criteria).unwrap());
    comparison(&against.collect::<Vec<_>>(), &sides, &Options::default())
}

/// Finds the series of a figure in a document.
fn series(document: &Document, id: &str) -> Vec<Series> {
    let blocks = document.sections.iter().flat_map(|section| &section.blocks);
    let figure = blocks.filter_map(|block| match block {
        Block::Figure(figure) if figure.id == id => Some(&figure.shape),
        _ => None,
    });
    match figure.collect::<Vec<_>>()[..] {
        [Shape::Plot(plot)] => plot.panels[0].series.clone(),
        [] => Vec::new(),
        ref other => panic!("{other:?}"),
    }
}

fn section<'a>(document: &'a Document, id: &str) -> Option<&'a Section> {
    document.sections.iter().find(|section| section.id == id)
}

#[test]
fn what_is_drawn_side_by_side_is_what_was_counted() {
    let together = document(&run_on("aaaaaaaaaa", &DEVICES), &Options::default());
    let runs = [run_on("bbbbbbbbbb", &DEVICES[..1]), run_on("cccccccccc", &DEVICES[1..])];
    let apart = of_runs(&runs);
    assert_eq!(apart.sections[0].id, "devices", "before the shifts");
    for id in ["devices-throughput", "devices-p99-latency"] {
        let drawn = series(&together, id);
        assert_eq!(drawn, series(&apart, id), "{id}: in one run as in two");
        assert_eq!(drawn.len(), 2, "{id}");
        for (series, (color, device)) in drawn.iter().zip(DEVICES.iter().enumerate()) {
            assert_eq!((series.name.as_str(), series.color), (device.0, color), "{id}");
            for (y, cell) in cells(*device, 0).iter().enumerate() {
                let total = cell.total();
                let expected = if id.ends_with("throughput") {
                    cell.per_second(total.bytes() as f64)
                } else {
                    total.response_time().supported_quantile_ns(0.99).unwrap() as f64
                };
                let point = &series.points[y];
                assert_eq!((point.x, point.y), (expected, y as f64), "{id} {}", series.name);
            }
        }
    }
    // The table has a row for each pair, devices of a workload together.
    let Some(Block::Table(table)) = section(&apart, "devices").unwrap().blocks.last() else {
        panic!("no table")
    };
    let named: Vec<[&str; 2]> =
        table.rows.iter().map(|row| [0, 1].map(|i| row.cells[i].text.as_str())).collect();
    let [a, b] = DEVICES.map(|(name, _)| name);
    assert_eq!(named, [["small", a], ["small", b], ["large", a], ["large", b]]);
}

/// Several runs of one device share a legend entry, and are named by their runs. A single device has no comparison,
/// but a headline per workload in the workload's own unit.
#[test]
fn runs_of_one_device_are_named_and_one_device_is_no_comparison() {
    let mut runs = ["a", "b", "c"].map(|id| run_on(id, &DEVICES[..1]));
    "before".clone_into(&mut runs[0].head.name);
    "before".clone_into(&mut runs[1].head.name);
    let drawn = series(&of_runs(&runs), "devices-throughput");
    let named: Vec<(&str, usize)> = drawn.iter().map(|s| (s.name.as_str(), s.color)).collect();
    let (before, both) = ("before, /dev/nvme0n1", "both, /dev/nvme0n1");
    assert_eq!(named, [(before, 0), (before, 0), (both, 1)]);

    let alone = document(&runs[0], &Options::default());
    assert!(section(&alone, "devices").is_none());
    let headlines = alone.sections[0].blocks.iter().find_map(|block| match block {
        Block::Headlines(all) => Some(all),
        _ => None,
    });
    let headlines: Vec<(&str, bool)> =
        headlines.unwrap().iter().map(|h| (h.name.as_str(), h.value.ends_with("IOPS"))).collect();
    assert_eq!(headlines, [("small", true), ("large", false)]);
}
