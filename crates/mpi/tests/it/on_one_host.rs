//! Ranks on this machine: sums of their results, shared targets, shared sweeps, refusals.

use crate::program::{Lab, cells, text};
use serde_json::Value;

fn ops(cell: &Value) -> u64 {
    cell["read"]["ops"].as_u64().unwrap_or_else(|| panic!("{}", cell["read"]))
}

#[test]
fn the_merged_cell_is_the_sum_of_all_ranks() {
    let lab = Lab::new();
    for ranks in [4, 16] {
        let run = Lab::json(lab.ranks(ranks, "run random-read --on ram:16MiB --time 1s --depth 4"));
        let (of_ranks, merged) = cells(&run);
        assert_eq!(of_ranks.len(), ranks as usize);
        assert_eq!(of_ranks.iter().map(|cell| ops(cell)).sum::<u64>(), ops(merged));
        let kept = merged["evidence"]["ranks"].as_array().unwrap();
        let of_kept: u64 = kept.iter().map(|rank| rank["ops"].as_u64().unwrap()).sum();
        assert_eq!(of_kept, ops(merged));
        let late = |rank: &Value| rank["start_late_ns"].as_u64().unwrap();
        let bound = |rank: &Value| rank["clock_bound_ns"].as_u64().unwrap();
        let late_ns = kept.iter().map(late).max().unwrap();
        let bound_ns = kept.iter().map(bound).max().unwrap();
        println!("{ranks} ranks: started up to {late_ns} ns late, clocks known to {bound_ns} ns");
    }
}

/// Ranks that share a file use separate regions of it; with --overlap each uses the whole file.
#[test]
fn a_shared_file_is_divided() {
    let lab = Lab::new();
    let line = "run random-write --on f?size=30MiB --time 200ms --shared";
    let run = Lab::json(lab.ranks(3, line));
    let (of_ranks, _) = cells(&run);
    let mut end = 0;
    for cell in of_ranks {
        let evidence = &cell["evidence"];
        // Blocks are whole: a region begins with the first that is in it.
        let start = evidence["active_start_bytes"].as_u64().unwrap();
        assert!((end..end + 4096).contains(&start), "{start} after {end}");
        end = start + evidence["active_bytes"].as_u64().unwrap();
    }
    assert!(end.abs_diff(30 << 20) < 4096, "{end}");
    let run = Lab::json(lab.ranks(2, "run random-write --on f --time 200ms --overlap"));
    for cell in cells(&run).0 {
        assert_eq!(cell["evidence"]["active_bytes"].as_u64().unwrap(), 30 << 20);
    }
    // Verified content that another rank overwrites would be wrong.
    let line = "run random-write --content verifiable --on f --time 200ms --overlap";
    let refused = lab.ranks(2, line).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("leave --overlap out"), "{}", text(&refused));
    // Each writes and checks its own region.
    let line = "run random-write --read 50% --content verifiable --on f --time 500ms";
    let run = Lab::json(lab.ranks(2, line));
    let verified = &cells(&run).1["evidence"]["verification"];
    assert!(verified["verified_reads"].as_u64().unwrap_or(1) > 0, "{verified}");
}

/// If every rank refuses to write to a file, the job prints one message, exits with rank 0's exit code, and creates
/// nothing.
#[test]
fn guards_hold_before_anything_is_written() {
    let lab = Lab::new();
    std::fs::write(lab.path().join("mine"), b"not iodyno's").unwrap();
    let refused = lab.ranks(2, "run random-write --on mine --time 1s").output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused));
    assert_eq!(text(&refused).matches("refusing to write to").count(), 1, "{}", text(&refused));
    assert_eq!(std::fs::read(lab.path().join("mine")).unwrap(), b"not iodyno's");
    let refused =
        lab.ranks(2, "run random-read --on-host elsewhere=ram:1MiB --time 1s").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("no target is named for host"), "{}", text(&refused));
    let refused = lab.ranks(2, "run random-read --on model:exflash-400g").output().unwrap();
    assert!(text(&refused).contains("share the cells of a method"), "{}", text(&refused));
    // Their notebooks are gone with them.
    let left = std::fs::read_dir(lab.path()).unwrap().flatten();
    let left: Vec<_> = left.filter(|e| e.file_name().to_string_lossy().contains("rank")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// One rank prints an error that all ranks meet. Output that reaches no terminal has no colours, whatever `mpirun` puts
/// in between.
#[test]
fn output_is_that_of_one_process() {
    let lab = Lab::new();
    let wrong = lab.ranks(3, "run random-read --on ram:1MiB --nonsense").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
    assert_eq!(text(&wrong).matches("unexpected argument").count(), 1, "{}", text(&wrong));
    let run = lab.ranks(2, "run random-read --on ram:1MiB --time 100ms").output().unwrap();
    assert!(run.status.success() && !text(&run).contains('\u{1b}'), "{}", text(&run));
    let terminal = "--terminals out,err,120 run random-read --on ram:1MiB --time 1500ms --ramp 0s";
    let run = lab.ranks(2, terminal).output().unwrap();
    let out = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(out.contains('\u{1b}'), "{out}");
    // Within half a second rank 0 has heard the other.
    let err = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(err.contains("2 ranks, slowest "), "{err}");
}

/// A single process needs neither a launcher nor MPI. Several processes that MPI does not connect are refused.
#[test]
fn processes_alone_are_what_they_seem() {
    let lab = Lab::new();
    let line = "run random-read --on ram:1MiB --time 100ms --ranks 1 --mpi-bin /none";
    assert_eq!(Lab::json(lab.alone(line))["cells"].as_array().unwrap().len(), 1);
    let mut one_of_four = lab.alone("run random-read --on ram:1MiB --time 100ms");
    one_of_four.env("PMI_SIZE", "4").env("PMI_RANK", "2");
    let refused = one_of_four.output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(
        text(&refused).contains("4 processes were started, but MPI connects only 1"),
        "{}",
        text(&refused)
    );
}

/// A method's steps follow from merged cells, so all ranks go through the same steps.
#[test]
fn a_method_goes_on_by_the_merged_cells() {
    let lab = Lab::new();
    let line = "run random-read --vary depth=1,4,16 --on ram:16MiB --time 200ms";
    let run = Lab::json(lab.ranks(2, line));
    let cells = run["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 9, "three steps of two ranks and of both");
    let merged = cells.iter().filter(|c| c["target"].as_str().unwrap().starts_with("all ("));
    let depths: Vec<u64> = merged.map(|c| c["depth"].as_u64().unwrap()).collect();
    assert_eq!(depths, [1, 4, 16]);
}

/// Removes fields whose values differ between two runs of the same cells.
fn without_what_varies(mut run: Value) -> Value {
    for cell in run["cells"].as_array_mut().unwrap() {
        let facts = cell["facts"].as_object_mut().unwrap();
        facts.retain(|name, _| !name.contains("simul"));
    }
    run["cells"].take()
}

/// A sweep in virtual time gives the same results with one rank and with four.
#[test]
fn a_sweep_is_the_same_from_any_number_of_ranks() {
    let lab = Lab::new();
    let sweep = "run random-read --on model:ssd-sata3-mlc-200g --vary depth=1..64 --vary block=4KiB,8KiB,16KiB,32KiB --time 40ms --seed 5";
    let alone = without_what_varies(Lab::json(lab.alone(sweep)));
    assert_eq!(alone.as_array().unwrap().len(), 28);
    assert_eq!(without_what_varies(Lab::json(lab.ranks(4, sweep))), alone);
}

/// A study gives the same results with three ranks as with one.
#[test]
fn a_study_is_the_same_from_any_number_of_ranks() {
    let lab = Lab::new();
    let study = |mut command: std::process::Command| {
        command.args(["--figure", "Table 5"]);
        Lab::json(command)
    };
    let line = "study lenovo-exflash --quick";
    assert_eq!(study(lab.alone(line)), study(lab.ranks(3, line)));
}
