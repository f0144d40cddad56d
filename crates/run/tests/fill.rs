//! A fill writes the whole range that it claims, whatever the number of workers, and reports an incomplete fill.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iodyno_drive::{EngineKind, EngineOptions, Progress};
use iodyno_measure::{Cell, Ended};
use iodyno_run::{
    Files, FillShape, ListedCell, Outcome, OverRanks, Process, Rates, ResolvedRun, RunError,
    RunRequest, Watch, Work, execute, fill,
};
use iodyno_targets::{TargetName, WritesSeen, inspect, unwritten_since, writes_seen};
use iodyno_workload::{CellSpec, Spec};

const MIB: u64 = 1 << 20;

fn resolved(cells: Vec<CellSpec>, targets: &[&str], engine: Option<EngineKind>) -> ResolvedRun {
    let listed = |CellSpec { name, spec, fill_passes, .. }| ListedCell {
        fill_passes,
        ..ListedCell::new(name, spec)
    };
    let request = RunRequest {
        changed: None,
        name: "fill".to_owned(),
        work: Work::Cells(cells.into_iter().map(listed).collect()),
        repeats: 1,
        thresholds: Vec::new(),
        targets: targets.iter().map(|name| TargetName::parse(name).unwrap()).collect(),
        folder: std::env::current_dir().unwrap(),
        files: Files::default(),
        seed: 3,
        engine,
        options: EngineOptions::default(),
        processors: None,
        system_clock: false,
        interval_ns: None,
        errors_max: 10,
        read_only: false,
        destroy: Vec::new(),
        shard: None,
        ranks: iodyno_run::RanksRequest::default(),
        record_trace: None,
    };
    let process = Process {
        command: Vec::new(),
        version: String::new(),
        notebook: None,
        resume: None,
        stop: Arc::new(AtomicBool::new(false)),
        ranks: Arc::new(iodyno_ranks::Ranks::alone()),
    };
    ResolvedRun::new(request, process).unwrap()
}

struct Discard;
impl Watch for Discard {}

fn run(run: &ResolvedRun) -> Outcome {
    execute(run, &mut Discard).unwrap()
}

fn says_short(cell: &Cell) -> bool {
    cell.verdicts.iter().any(|verdict| verdict.code == "PRECONDITIONING_SHORT")
}

/// Any number of workers write each block twice, on several targets of different sizes at the same time.
#[test]
fn every_block_is_written_as_often_as_was_asked() {
    for threads in [1, 3, 7] {
        for passes in [1, 2, 3] {
            let shape = FillShape { threads, depth: 5, passes, ..FillShape::default() };
            let cell = fill("fill", &shape, 9 * MIB).unwrap();
            let outcome = run(&resolved(vec![cell], &["ram:9MiB", "ram:4MiB"], None));
            let [large, small, all] = outcome.run.cells.as_slice() else { panic!() };
            for (cell, mib) in [(large, 9), (small, 4)] {
                let proof = cell.evidence.fill.unwrap();
                let bytes = u64::from(passes) * mib * MIB;
                assert_eq!((cell.ended, proof.written_bytes), (Ended::Bytes, bytes), "{threads}");
                assert_eq!((proof.once_share, proof.times_share), (1.0, 1.0), "{proof:?}");
                assert_eq!((proof.times, proof.first_gap_bytes), (passes, None));
                assert!((proof.passes - f64::from(passes)).abs() < 1e-12);
                assert!(!says_short(cell));
            }
            assert_eq!(all.evidence.fill.unwrap().written_bytes, u64::from(passes) * 13 * MIB);
        }
    }
}

/// Fills a part of a file that neither begins nor ends at a multiple of the block size. The incomplete blocks at both
/// ends stay unwritten.
#[test]
fn a_part_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let target = format!("{}?size=8196KiB", path.display());
    let shape =
        FillShape { threads: 4, active: "50%..100%".parse().unwrap(), ..FillShape::default() };
    for engine in [None, Some(EngineKind::Libaio)] {
        let cell = fill("fill", &shape, 8196 << 10).unwrap();
        let outcome = run(&resolved(vec![cell], &[&target], engine));
        let proof = outcome.run.cells[0].evidence.fill.unwrap();
        // 4098 KiB from 4098 KiB on: the first 126 KiB and the last 4 KiB hold no whole block.
        assert_eq!(proof.written_bytes, 2 * 31 * (128 << 10), "{proof:?}");
        assert_eq!(proof.first_gap_bytes, Some((4224 + 31 * 128) << 10));
        assert!(proof.once_share > 0.99 && (proof.times_share - proof.once_share).abs() < 1e-12);
        assert!(says_short(&outcome.run.cells[0]), "4 KiB of 4 MiB is 0.1 %");
        assert!((1.9..2.1).contains(&proof.passes));
    }
}

/// Observer that stops a run after part of its work.
struct StopOnceBegun(Arc<AtomicBool>);
impl Watch for StopOnceBegun {
    fn tick(&mut self, progress: &Progress<'_>, _: &Rates, _: Option<&OverRanks>) {
        self.0.fetch_or(progress.latest.is_some(), Ordering::Relaxed);
    }
}

/// A stopped fill is reported as incomplete, with the offset at which it stopped.
#[test]
fn a_fill_that_was_stopped_is_short() {
    let shape = FillShape { threads: 2, ..FillShape::default() };
    // A fraction of a second covers little of 4 TiB, though no bytes are moved.
    let cell = fill("fill", &shape, 1 << 42).unwrap();
    let run = resolved(vec![cell], &["null:4TiB"], None);
    let outcome = execute(&run, &mut StopOnceBegun(Arc::clone(&run.process.stop))).unwrap();
    let cell = &outcome.run.cells[0];
    let proof = cell.evidence.fill.unwrap();
    assert_eq!(cell.ended, Ended::Interrupted);
    assert!(says_short(cell) && proof.times_share == 0.0, "{proof:?}");
    assert!(proof.once_share > 0.0 && proof.first_gap_bytes.is_some(), "{proof:?}");
    let covered = proof.once_share * (1_u64 << 42) as f64;
    assert!((covered - proof.written_bytes as f64).abs() < 1.0, "{proof:?}");
}

#[test]
fn what_is_no_fill_is_refused() {
    let refused =
        |cell: CellSpec| match execute(&resolved(vec![cell], &["ram:4MiB"], None), &mut Discard) {
            Err(RunError::Impossible(why)) => assert!(why.contains("can't fill a target"), "{why}"),
            other => panic!("{other:?}"),
        };
    for text in [
        "[mix]\nwrite = 1",
        "[mix]\nwrite = 1\n[write]\naddresses = { pattern = \"sequential\" }",
        "[mix]\nwrite = 1\ntrim = 1\n[all]\naddresses = { pattern = \"sequential\", shared = true }",
        "block = \"4KiB\"\n[mix]\nread = 1\n[all]\naddresses = { pattern = \"sequential\", shared = true }",
    ] {
        let spec =
            Spec::from_toml(&format!("schema = 1\n{text}\n[limits]\nbytes = \"1MiB\"")).unwrap();
        refused(CellSpec { fill_passes: Some(1), ..CellSpec::new("no fill", spec) });
    }
    for passes in [0, 4] {
        let shape = FillShape { passes, ..FillShape::default() };
        assert!(matches!(fill("fill", &shape, MIB), Err(RunError::Impossible(_))));
    }
}

/// The stored run lets a later run detect subsequent writes of other programs.
#[test]
fn a_run_remembers_what_had_been_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let name = format!("{}?size=4MiB", path.display());
    let cell = fill("fill", &FillShape::default(), 4 * MIB).unwrap();
    let outcome = run(&resolved(vec![cell], &[&name], None));
    let target = &outcome.run.head.targets[0];
    let Some(after) = target.writes_seen() else {
        println!("skipped: no direct I/O in the temporary folder");
        return;
    };
    let look = || {
        let mut seen = writes_seen(&inspect(&TargetName::parse(&name).unwrap()).unwrap()).unwrap();
        // Others write to the device of this folder during the fill.
        seen.below.clear();
        seen
    };
    let mut before: WritesSeen = serde_json::from_value(after.clone()).unwrap();
    before.below.clear();
    assert_eq!(unwritten_since(&before, &look()), Ok(()));
    std::thread::sleep(Duration::from_millis(20));
    let shape = FillShape { passes: 1, ..FillShape::default() };
    run(&resolved(vec![fill("again", &shape, 4 * MIB).unwrap()], &[&name], None));
    assert!(unwritten_since(&before, &look()).is_err());
}
