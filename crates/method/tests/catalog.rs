//! The methods of the catalog: each can be read, and SNIA's tests take the time that the specification requires.

use iodyno_method::{Act, Budget, Method, MethodSource};
use iodyno_units::OpKind;
use std::collections::BTreeMap;
use std::path::Path;

const HOUR_NS: u64 = 3_600_000_000_000;
const MINUTE_NS: u64 = 60_000_000_000;

fn workload_text(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/workloads");
    std::fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap()
}

fn method(name: &str) -> Method {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/methods");
    let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
    let workloads: BTreeMap<String, String> = Method::workloads_named(&text)
        .into_iter()
        .map(|name| {
            let text = workload_text(&name);
            (name, text)
        })
        .collect();
    let source = MethodSource { name: name.to_owned(), text, workloads, ..MethodSource::default() };
    Method::new(source).unwrap_or_else(|e| panic!("{name}: {e:?}"))
}

#[test]
fn every_method_of_the_catalog_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/methods");
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
    }
    assert!(names.len() >= 14, "{names:?}");
    for name in names {
        let method = method(&name);
        assert!(!method.about.is_empty(), "{name} has a description");
        assert!(!method.all_cells().is_empty(), "{name}");
    }
}

/// `applications` runs each workload of the study's table 1, once.
#[test]
fn the_applications_are_those_of_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/workloads");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let names = files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    let mut of_table: Vec<String> =
        names.filter(|name| workload_text(name).contains("REDP-5188, table 1")).collect();
    // The study measures OLTP itself.
    of_table.push("oltp-67-33-4k".to_owned());
    of_table.sort();
    let mut cells: Vec<String> =
        method("applications").all_cells().into_iter().map(|cell| cell.name).collect();
    cells.sort();
    assert_eq!(cells, of_table);
    assert_eq!(cells.len(), 9);
}

/// Number of cells, and minimum and maximum duration, of the tests in SNIA's PTS 2.0.2.
#[test]
fn snias_tests_take_as_long_as_the_specification_requires() {
    let iops = Budget::new(&method("pts-iops"), 400_000_000_000);
    assert_eq!((iops.cells_min - 1, iops.cells_max - 1), (56 * 5, 56 * 25));
    assert_eq!(iops.time_min_ns, 4 * HOUR_NS + 40 * MINUTE_NS);
    assert_eq!(iops.time_max_ns, 23 * HOUR_NS + 20 * MINUTE_NS);
    assert_eq!(iops.fill_bytes, 800_000_000_000);
    let lat = Budget::new(&method("pts-lat"), 1 << 30);
    assert_eq!(lat.time_min_ns, 65 * MINUTE_NS);
    assert_eq!(lat.time_max_ns, 245 * MINUTE_NS);
    let tp = Budget::new(&method("pts-tp"), 1 << 30);
    assert_eq!((tp.time_min_ns, tp.time_max_ns), (20 * MINUTE_NS, 100 * MINUTE_NS));
    let xsr = Budget::new(&method("pts-xsr"), 1 << 30);
    assert_eq!(xsr.time_max_ns, 22 * HOUR_NS);
    let wsat = Budget::new(&method("pts-wsat"), 1 << 30);
    assert_eq!(wsat.time_max_ns, 24 * HOUR_NS);
    // Five rounds of 31 minutes at least.
    assert_eq!(wsat.time_min_ns, 155 * MINUTE_NS);
    let dirth = Budget::new(&method("pts-dirth"), 1 << 30);
    // 775 samples of saturation at most; rounds of 54 min; three points of 70 min.
    assert_eq!(dirth.time_max_ns, (775 + 25 * 54 + 3 * 70) * MINUTE_NS);
    // The composite block workload takes the same procedure.
    assert_eq!(Budget::new(&method("pts-cbw"), 1 << 30), dirth);
    for name in ["pts-cbw", "pts-dirth"] {
        let hours = |ns: u64| (ns as f64 / HOUR_NS as f64).round();
        let words = format!("({} to {} h)", hours(dirth.time_min_ns), hours(dirth.time_max_ns));
        let about = method(name).about;
        assert!(about.ends_with(&words), "{about}: {words}");
    }
    let hir = Budget::new(&method("pts-hir"), 1 << 30);
    let waits = (5 + 10 + 15 + 25 + 50) * 360 + 10 * 5 * 360;
    assert_eq!(hir.time_max_ns, 775 * MINUTE_NS + waits * 1_000_000_000);
}

/// The writes before each round and each histogram are those of the measured workload, at the highest demand.
#[test]
fn snias_writes_beforehand_are_of_the_tests_workload() {
    for (name, block_sizes) in [("pts-dirth", 1), ("pts-cbw", 12)] {
        let method = method(name);
        let before = method.stages.iter().filter_map(|stage| match &stage.act {
            Act::Rounds(rounds) => rounds.before.as_ref(),
            Act::Points(points) => points.before.as_ref(),
            _ => None,
        });
        let before: Vec<_> = before.collect();
        assert_eq!(before.len(), 2, "{name}");
        for (spec, ns) in before {
            assert!(spec.issues(OpKind::Write) && !spec.issues(OpKind::Read), "{name}");
            assert_eq!((spec.threads(), spec.depth(), spec.limits().ramp_ns), (32, 32, 0));
            assert_eq!(spec.limits().time_ns, Some(*ns));
            let blocks = spec.blocks(OpKind::Write);
            assert_eq!(blocks.len(), block_sizes, "{name}: {blocks:?}");
            assert!(block_sizes > 1 || blocks[0].bytes == 8192, "{name}: {blocks:?}");
        }
    }
}
